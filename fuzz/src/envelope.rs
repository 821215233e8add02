use bytes::Bytes;
use trirpc_core::buf::MessageBuf;
use trirpc_core::call::{
    Accept, CallKind, CallLimits, CallOptions, ClientCall, Code, Encodings, MethodSpec, Recv, ServerCall, Status,
};
use trirpc_core::http::{HeaderName, Headers, ResponseHead};
use trirpc_core::{Config, Instant};

use crate::calls::{self, cuts, post, split};
use crate::input::Input;

static METHOD: MethodSpec = MethodSpec::new("/fuzz.Body/Read", CallKind::Bidi, false);

/// Feeds a body of enveloped messages to both sides of a call: any split gives the messages and the outcome that a
/// parser with the whole body at hand finds.
///
/// The input is an octet of switches, two with the limit of a message, one with the number of cuts, two for each cut
/// (the length of a piece), and the body.
pub fn envelope(data: &[u8]) {
    let mut input = Input::new(data);
    let switches = input.octet();
    let (announced, pulls_early) = (switches & 1 != 0, switches & 2 != 0);
    let limit = usize::from(input.short());
    let cuts = cuts(&mut input);
    let body = input.bytes(usize::MAX);

    let mut limits = CallLimits::from(&Config::default());
    limits.max_recv_message = limit;
    limits.accept_compressions = Encodings::from_static(&["gzip"]);
    let mut headers = Headers::new();
    headers.push(HeaderName::CONTENT_TYPE, "application/grpc");
    if announced {
        headers.push(HeaderName::GRPC_ENCODING, "gzip");
    }
    let expected = parse(body, limit, announced);
    let pieces = split(body, &cuts);
    response(headers.clone(), limits.clone(), &pieces, pulls_early, &expected);
    request(headers, limits, &pieces, pulls_early, &expected);
}

/// A message, and whether it is compressed.
type Message = (bool, Vec<u8>);

struct Expected {
    messages: Vec<Message>,
    /// Why the body ends behind them, if it should not.
    fault: Option<Code>,
}

fn parse(mut body: &[u8], limit: usize, announced: bool) -> Expected {
    let mut messages = Vec::new();
    let fault = loop {
        let Some((&[flags, a, b, c, d], rest)) = body.split_first_chunk() else {
            break (!body.is_empty()).then_some(Code::Internal);
        };
        let len = u32::from_be_bytes([a, b, c, d]) as usize;
        if flags > 1 || (flags == 1 && !announced) {
            break Some(Code::Internal);
        }
        if len > limit {
            break Some(Code::ResourceExhausted);
        }
        if rest.len() < len {
            break Some(Code::Internal);
        }
        messages.push((flags == 1 && len > 0, rest[..len].to_vec()));
        body = &rest[len..];
    };
    Expected { messages, fault }
}

fn content(message: MessageBuf) -> Message {
    (message.is_compressed(), calls::content(message))
}

fn response(headers: Headers, limits: CallLimits, pieces: &[Bytes], pulls_early: bool, expected: &Expected) {
    let mut call = ClientCall::new(&METHOD, &CallOptions::default(), "proto", limits.clone(), None).expect("carried");
    let mut messages = Vec::new();
    let mut pull = |call: &mut ClientCall| {
        let readable = call.is_readable();
        match call.recv() {
            Recv::Message(message) => messages.push(content(message)),
            Recv::Blocked => {
                assert!(!readable);
                return false;
            }
            Recv::End => return false,
        }
        assert!(readable);
        true
    };
    call.handle_head(ResponseHead { status: 200, headers }, false);
    let mut fed = 0;
    for piece in pieces {
        call.handle_data(piece.clone());
        fed += piece.len();
        assert!(call.buffered() <= fed && call.need() <= limits.max_recv_message);
        while pulls_early && pull(&mut call) {}
    }
    let mut trailers = Headers::new();
    trailers.push(HeaderName::GRPC_STATUS, "0");
    call.handle_end(Some(trailers));
    while pull(&mut call) {}
    assert_eq!(messages, expected.messages);
    assert_eq!(call.status().map(Status::code), Some(expected.fault.unwrap_or(Code::Ok)));
}

fn request(headers: Headers, limits: CallLimits, pieces: &[Bytes], pulls_early: bool, expected: &Expected) {
    let head = post(METHOD.path().as_bytes(), headers);
    let Accept::Call(mut call) = ServerCall::accept(head, limits.clone(), Instant::ZERO) else { panic!("rejected") };
    call.expect(CallKind::Bidi);
    let mut messages = Vec::new();
    let mut pull = |call: &mut ServerCall| match call.recv() {
        Recv::Message(message) => {
            messages.push(content(message));
            true
        }
        Recv::Blocked | Recv::End => false,
    };
    for piece in pieces {
        call.handle_data(piece.clone());
        while pulls_early && pull(&mut call) {}
    }
    call.handle_end(None);
    while pull(&mut call) {}
    assert_eq!(call.failure().map(Status::code), expected.fault);
    if expected.fault.is_none() {
        assert_eq!(messages, expected.messages);
    } else {
        // A handler is not kept waiting for a request that cannot succeed.
        assert_eq!(messages, expected.messages[..messages.len()]);
    }
}
