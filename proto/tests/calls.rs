//! A unary and a streaming call between two connections in memory: all of the protocol, and no I/O. Runs on every
//! target that has a test harness, wasm32-wasip1 among them.

use std::sync::Arc;

use trirpc_core::buf::{RecvBuf, Transmit};
use trirpc_core::call::{CallKind, CallOptions, Codec, Metadata, Method, Recv, Status};
use trirpc_core::{CallId, Client, Config, Connection, Endpoint, Event, HttpVersion, Instant, Role, Server};
use trirpc_proto::Prost;
use trirpc_proto::test_service::{ExpandRequest, SayReply, SayRequest, echo_method};

/// Nothing here waits, so time stands still.
const NOW: Instant = Instant::ZERO;

/// Client and server, and the bytes between them.
struct Pair {
    client: Connection<Client>,
    server: Connection<Server>,
    to_server: RecvBuf,
    to_client: RecvBuf,
}

impl Pair {
    fn new() -> Self {
        let config = Arc::new(Config::default());
        let endpoint = Endpoint::http("memory");
        Self {
            client: Connection::<Client>::new(Arc::clone(&config), endpoint, HttpVersion::Http2, NOW),
            server: Connection::<Server>::new(config, None, NOW),
            to_server: RecvBuf::new(4096),
            to_client: RecvBuf::new(4096),
        }
    }

    /// Carries bytes and serves calls until neither side has anything to say.
    fn run(&mut self) {
        loop {
            let moved = carry(&mut self.client, &mut self.to_server);
            self.server.handle_input(&mut self.to_server, NOW);
            serve(&mut self.server);
            let answered = carry(&mut self.server, &mut self.to_client);
            self.client.handle_input(&mut self.to_client, NOW);
            if moved + answered == 0 {
                return;
            }
        }
    }

    /// The replies of a call that has ended, and its status.
    fn outcome(&mut self, id: CallId) -> (Vec<SayReply>, Status) {
        let mut replies = Vec::new();
        // Messages are pulled, and only then does the peer get room for more.
        loop {
            match self.client.call(id).expect("not released").recv() {
                Recv::Message(mut message) => replies.push(Prost.decode(&mut message).expect("a reply")),
                Recv::Blocked => self.run(),
                Recv::End => break,
            }
        }
        let status = self.client.call(id).and_then(|call| call.release());
        (replies, status.expect("the call has ended"))
    }
}

/// Moves all output of one side into the input of the other; how many bytes.
fn carry<R: Role>(from: &mut Connection<R>, to: &mut RecvBuf) -> usize {
    let (mut out, mut moved) = (Transmit::new(), 0);
    while from.poll_transmit(&mut out, NOW) || !out.is_empty() {
        for chunk in out.chunks() {
            to.extend(chunk);
        }
        moved += out.len();
        out.advance(out.len());
    }
    moved
}

/// What a server application does: `Say` and `Expand` of the Echo service.
fn serve(server: &mut Connection<Server>) {
    while let Some(event) = server.poll_event() {
        match event {
            Event::Incoming => {
                while let Some(id) = server.accept() {
                    let mut call = server.call(id).expect("just accepted");
                    let kind = match call.path() {
                        "/trirpc.test.v1.Echo/Say" => CallKind::Unary,
                        _ => CallKind::ServerStreaming,
                    };
                    call.expect(kind, NOW);
                }
            }
            Event::Readable(id) => answer(server, id),
            _ => {}
        }
    }
}

fn answer(server: &mut Connection<Server>, id: CallId) {
    let Some(mut call) = server.call(id) else { return };
    let Recv::Message(mut message) = call.recv() else { return };
    if call.path() == echo_method::SAY.spec.path() {
        let request: SayRequest = Prost.decode(&mut message).expect("a request");
        let reply = SayReply { text: format!("echo:{}", request.text), payload: request.payload, sequence_id: 1 };
        call.respond(&Prost, &reply, &Metadata::new(), &Metadata::new(), NOW).expect("answered");
        return;
    }
    let request: ExpandRequest = Prost.decode(&mut message).expect("a request");
    for i in 0..request.count {
        let payload = vec![0; request.size as usize].into();
        let reply = SayReply { text: format!("expand:{i}"), payload, sequence_id: i.into() };
        server.call(id).expect("still open").send(&Prost, &reply, NOW).expect("there is room");
    }
    let call = server.call(id).expect("still open");
    call.finish(&Status::not_found("no more"), &Metadata::new(), NOW).expect("finished");
}

fn open<Req, Res>(pair: &mut Pair, method: &'static Method<Req, Res>, request: &Req) -> CallId {
    let codec = method.default_codec().request;
    pair.client.open_unary(&method.spec, &CallOptions::default(), codec, request, NOW).expect("opened")
}

#[test]
fn a_unary_call_needs_no_io() {
    let mut pair = Pair::new();
    // The second is larger than every window and frame.
    for size in [3, 200_000] {
        let payload: Vec<u8> = (0..size).map(|i| i as u8).collect();
        let request = SayRequest { text: "hi".to_owned(), payload: payload.clone().into(), ..SayRequest::default() };
        let id = open(&mut pair, &echo_method::SAY, &request);
        pair.run();
        let (replies, status) = pair.outcome(id);
        assert_eq!(replies, [SayReply { text: "echo:hi".to_owned(), payload: payload.into(), sequence_id: 1 }]);
        assert!(status.is_ok(), "{status}");
    }
    assert_eq!((pair.client.open_calls(), pair.server.open_calls()), (0, 0));
}

#[test]
fn a_server_stream_delivers_every_message_before_its_status() {
    let mut pair = Pair::new();
    let request = ExpandRequest { count: 20, size: 1000, ..ExpandRequest::default() };
    let id = open(&mut pair, &echo_method::EXPAND, &request);
    pair.run();
    let (replies, status) = pair.outcome(id);
    let texts: Vec<_> = replies.iter().map(|reply| (reply.text.clone(), reply.payload.len())).collect();
    assert_eq!(texts, (0..20).map(|i| (format!("expand:{i}"), 1000)).collect::<Vec<_>>());
    assert_eq!((status.code(), status.message()), (trirpc_core::call::Code::NotFound, "no more"));
}

/// Messages that lie behind each other are lent one by one, each of which ends where the next begins, whichever codec reads
/// them.
#[test]
fn messages_taken_in_a_run_are_decoded_one_by_one_by_either_codec() {
    /// As `SayReply`, but for the type of its payload.
    #[derive(Clone, PartialEq, prost::Message)]
    struct OwnedReply {
        #[prost(string, tag = "1")]
        text: String,
        #[prost(bytes = "vec", tag = "2")]
        payload: Vec<u8>,
    }
    let owned = Prost::owned_codecs::<OwnedReply, OwnedReply>()[0].response;
    for is_owned in [false, true] {
        let mut pair = Pair::new();
        let id =
            open(&mut pair, &echo_method::EXPAND, &ExpandRequest { count: 10, size: 3, ..ExpandRequest::default() });
        pair.run();
        let mut call = pair.client.call(id).expect("not released");
        assert!(matches!(call.recv(), Recv::Message(_)));
        let mut run = call.recv_ahead(1 << 16);
        let mut texts = Vec::new();
        while let Some(message) = run.next_message() {
            let (text, payload) = if is_owned {
                let reply = owned.decode_contiguous(message).expect("a reply");
                (reply.text, reply.payload)
            } else {
                let reply: SayReply = Prost.decode_contiguous(message).expect("a reply");
                (reply.text, reply.payload.to_vec())
            };
            assert_eq!(payload, [0; 3]);
            texts.push(text);
        }
        assert!(texts.len() > 2, "the test needs several: {texts:?}");
        let expected: Vec<_> = (1..=texts.len()).map(|i| format!("expand:{i}")).collect();
        assert_eq!(texts, expected, "owned: {is_owned}");
    }
}
