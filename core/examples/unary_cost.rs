//! Unary calls of 128 bytes between two connections in one process: what a call costs in the core alone.
//!
//! ```text
//! cargo build --release -p trirpc-core --example unary_cost
//! valgrind --tool=callgrind target/release/examples/unary_cost on 2000 100
//! ```
//!
//! The switch of the fast path, a number of calls, and how many of them are under way together: as many as leave and
//! arrive at once. With `fresh` behind them each call has a deadline and metadata that no other has; with `steps` the
//! request and the outcome are taken in the many steps of a streaming call. Run with two numbers of calls; the
//! difference of the instructions over that of the calls leaves the start out.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use trirpc_core::buf::{MessageBuf, RecvBuf, Transmit};
use trirpc_core::call::{CallKind, CallOptions, Codec, EncodeBuf, Metadata, MethodSpec, Recv};
use trirpc_core::{CallMut, Client, CodecError, Config, Connection, Endpoint, Event, HttpVersion, Instant, Server};

static SAY: MethodSpec = MethodSpec::new("/t.Echo/Say", CallKind::Unary, false);

struct Octets;

impl Codec<Bytes> for Octets {
    fn name(&self) -> &'static str {
        "proto"
    }

    fn encoded_len(&self, item: &Bytes) -> Option<usize> {
        Some(item.len())
    }

    fn encode(&self, item: &Bytes, dst: &mut EncodeBuf<'_>) -> Result<(), CodecError> {
        dst.buf().put_slice(item);
        Ok(())
    }

    fn decode(&self, src: &mut MessageBuf) -> Result<Bytes, CodecError> {
        Ok(src.copy_to_bytes(src.remaining()))
    }
}

fn carry(out: &mut Transmit, input: &mut RecvBuf) {
    let len = out.len();
    for chunk in out.chunks() {
        input.extend(chunk);
    }
    out.advance(len);
}

fn answer(call: CallMut<'_, Server>, mut request: MessageBuf, now: Instant) {
    let request = Octets.decode(&mut request).expect("octets");
    let none = Metadata::new();
    call.respond(&Octets, &request, &none, &none, now).expect("a response");
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut config = Config::default();
    config.set("unary-fast-path", &arguments.next().unwrap_or_else(|| "on".into())).expect("`on` or `off`");
    let mut number = |or: usize| arguments.next().map_or(or, |number| number.parse().expect("a number"));
    let (calls, together) = (number(1000), number(1));
    let words: Vec<String> = arguments.collect();
    let says = |word: &str| words.iter().any(|said| said == word);
    let (fresh, steps) = (says("fresh"), says("steps"));

    let (config, mut now) = (Arc::new(config), Instant::ZERO);
    let http2 = HttpVersion::Http2;
    let mut client = Connection::<Client>::new(Arc::clone(&config), Endpoint::http("localhost"), http2, now);
    let mut server = Connection::<Server>::new(config, Some(http2), now);
    let (mut up, mut down) = (Transmit::new(), Transmit::new());
    let (mut at_server, mut at_client) = (RecvBuf::new(64 * 1024), RecvBuf::new(64 * 1024));
    let (mut options, message) = (CallOptions::default(), Bytes::from(vec![7; 128]));
    let (mut opened, mut done) = (0, 0);
    while done < calls {
        // More than the server takes at once wait for their turn.
        while opened < calls && opened - done < together {
            opened += 1;
            if fresh {
                now = now + Duration::from_nanos(1_000);
                options.timeout = Some(Duration::from_secs(1) + Duration::from_micros(opened as u64));
                options.metadata = Metadata::new();
                options.metadata.append("x-request", &opened.to_string()).expect("metadata");
            }
            client.open_unary(&SAY, &options, &Octets, &message, now).expect("a call");
        }
        client.poll_transmit(&mut up, now);
        carry(&mut up, &mut at_server);
        server.handle_input(&mut at_server, now);
        while let Some(event) = server.poll_event() {
            match event {
                Event::Incoming => {
                    while let Some(id) = server.accept() {
                        let mut call = server.call(id).expect("accepted");
                        if steps {
                            call.expect(CallKind::Unary, now);
                        } else {
                            let request = call.expect_request(CallKind::Unary, now).expect("it came whole");
                            answer(call, request, now);
                        }
                    }
                }
                Event::Readable(id) => {
                    let mut call = server.call(id).expect("not answered yet");
                    let Recv::Message(request) = call.recv() else { panic!("no message") };
                    answer(call, request, now);
                }
                _ => {}
            }
        }
        server.poll_transmit(&mut down, now);
        carry(&mut down, &mut at_client);
        client.handle_input(&mut at_client, now);
        while let Some(event) = client.poll_event() {
            let Event::Finished(id) = event else { continue };
            let (response, status) = if steps {
                let mut call = client.call(id).expect("not released yet");
                let Recv::Message(response) = call.recv() else { panic!("no message") };
                (response, call.release().expect("an outcome"))
            } else {
                let outcome = client.take_outcome(id).expect("not taken yet");
                (outcome.message.expect("a message"), outcome.status)
            };
            assert!(status.is_ok() && response.len() == message.len());
            done += 1;
        }
    }
    assert_eq!(done, calls);
}
