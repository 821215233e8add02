//! Unary calls between two connections inside one WebAssembly module: core and prost, no I/O, no async layer.
//!
//! [`calls`] is the one function that the module exports; `run.mjs` times it.

use std::cell::RefCell;
use std::sync::Arc;

use trirpc_core::buf::{RecvBuf, Transmit};
use trirpc_core::call::{CallKind, CallOptions, Codec, Metadata, MethodSpec, Recv};
use trirpc_core::{Client, Config, Connection, Endpoint, Event, HttpVersion, Instant, Role, Server};
use trirpc_proto::Prost;

static UNARY: MethodSpec = MethodSpec::new("/bench.Echo/Unary", CallKind::Unary, false);

/// Nothing here waits.
const NOW: Instant = Instant::ZERO;

/// `bench.EchoMsg`.
#[derive(Clone, PartialEq, prost::Message)]
struct EchoMsg {
    #[prost(bytes = "vec", tag = "1")]
    payload: Vec<u8>,
}

struct Pair {
    client: Connection<Client>,
    server: Connection<Server>,
    /// To the server, and to the client.
    read: [RecvBuf; 2],
    written: Transmit,
    options: CallOptions,
    none: Metadata,
}

thread_local! {
    static PAIR: RefCell<Pair> = RefCell::new(Pair::new());
}

/// Makes so many calls, each of them when the one before is over, with payloads of `payload` bytes. Returns how many came
/// back whole.
#[unsafe(no_mangle)]
pub extern "C" fn calls(count: u32, payload: u32) -> u32 {
    let request = EchoMsg { payload: vec![0x5a; payload as usize] };
    PAIR.with_borrow_mut(|pair| (0..count).map(|_| u32::from(pair.call(&request))).sum())
}

impl Pair {
    fn new() -> Self {
        let (config, http2) = (Arc::new(Config::default()), HttpVersion::Http2);
        let endpoint = Endpoint::http("localhost");
        Self {
            client: Connection::<Client>::new(Arc::clone(&config), endpoint, http2, NOW),
            server: Connection::<Server>::new(config, Some(http2), NOW),
            read: [(); 2].map(|()| RecvBuf::new(16 * 1024)),
            written: Transmit::new(),
            options: CallOptions::default(),
            none: Metadata::new(),
        }
    }

    fn call(&mut self, request: &EchoMsg) -> bool {
        if self.client.open_unary(&UNARY, &self.options, &Prost, request, NOW).is_err() {
            return false;
        }
        let [to_server, to_client] = &mut self.read;
        carry(&mut self.client, &mut self.written, to_server);
        self.server.handle_input(to_server, NOW);
        answer(&mut self.server, &self.none);
        carry(&mut self.server, &mut self.written, to_client);
        self.client.handle_input(to_client, NOW);
        let mut is_whole = false;
        while let Some(event) = self.client.poll_event() {
            let Event::Finished(id) = event else { continue };
            let Some(mut call) = self.client.call(id) else { continue };
            if let Recv::Message(mut message) = call.recv() {
                let response: Result<EchoMsg, _> = Prost.decode(&mut message);
                is_whole = response.is_ok_and(|response| response.payload.len() == request.payload.len());
            }
            is_whole &= call.release().is_some_and(|status| status.is_ok());
        }
        is_whole
    }
}

/// The server's application: what came goes back.
fn answer(server: &mut Connection<Server>, none: &Metadata) {
    while let Some(event) = server.poll_event() {
        match event {
            Event::Incoming => {
                while let Some(id) = server.accept() {
                    if let Some(mut call) = server.call(id) {
                        call.expect(CallKind::Unary, NOW);
                    }
                }
            }
            Event::Readable(id) => {
                let Some(mut call) = server.call(id) else { continue };
                let Recv::Message(mut request) = call.recv() else { continue };
                let request: Result<EchoMsg, _> = Prost.decode(&mut request);
                let Ok(request) = request else { continue };
                // A response that is refused is a call that does not come back, which is counted.
                let _ = call.respond(&Prost, &request, none, none, NOW);
            }
            _ => {}
        }
    }
}

/// Moves what one side has to say into the input of the other.
fn carry<R: Role>(from: &mut Connection<R>, written: &mut Transmit, to: &mut RecvBuf) {
    from.poll_transmit(written, NOW);
    let length = written.len();
    for chunk in written.chunks() {
        to.extend(chunk);
    }
    written.advance(length);
}
