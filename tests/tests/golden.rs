//! Recorded traffic of other implementations, read by both sides of our calls, and ours compared with it: the gRPC row
//! of the protocol table (triple-protocol, Appendix A).

use bytes::{Buf, Bytes};
use trirpc_core::Instant;
use trirpc_core::call::{
    Accept, CallKind, CallLimits, CallOptions, ClientCall, End, Metadata, MethodSpec, Recv, ServerCall, Status,
};
use trirpc_core::http::{Field, HeaderName, Headers, Method, RequestHead, ResponseHead};
use trirpc_fuzz::oracle::{self, Opinion};

/// One direction of one stream: frames, in hexadecimal.
struct Recorded {
    /// Header blocks, decoded.
    blocks: Vec<Vec<(String, String)>>,
    /// Payloads of DATA, and whether each ended the stream.
    data: Vec<(Bytes, bool)>,
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(octet).collect()
}

fn recorded(hex: &str) -> Recorded {
    let mut hpack = oracle::all().swap_remove(0);
    let mut recorded = Recorded { blocks: Vec::new(), data: Vec::new() };
    let mut rest = &bytes(hex)[..];
    while let Some((head, tail)) = rest.split_first_chunk::<9>() {
        let (payload, tail) = tail.split_at(u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize);
        match head[3] {
            0 => recorded.data.push((Bytes::copy_from_slice(payload), head[4] & 1 != 0)),
            1 => {
                let text = |octets: Vec<u8>| String::from_utf8(octets).unwrap();
                let Opinion::Fields(fields) = hpack.decode(payload) else { panic!("no HPACK") };
                recorded.blocks.push(fields.into_iter().map(|(name, value)| (text(name), text(value))).collect());
            }
            other => panic!("frame type {other}"),
        }
        rest = tail;
    }
    recorded
}

/// The pseudo field called `name`.
fn pseudo<'a>(block: &'a [(String, String)], name: &str) -> &'a str {
    &block.iter().find(|(key, _)| key == name).expect(name).1
}

fn fields(block: &[(String, String)]) -> Headers {
    let field = |(name, value): &(String, String)| {
        Field::new(HeaderName::from_bytes(name.clone().into()).unwrap(), Bytes::from(value.clone()))
    };
    block.iter().filter(|(name, _)| !name.starts_with(':')).map(field).collect()
}

fn request_head(block: &[(String, String)]) -> RequestHead {
    let of = |name| Bytes::from(pseudo(block, name).to_owned());
    RequestHead {
        method: Method::from_bytes(&of(":method")),
        scheme: of(":scheme"),
        authority: of(":authority"),
        path: of(":path"),
        headers: fields(block),
        deadline: None,
    }
}

fn response_head(block: &[(String, String)]) -> ResponseHead {
    ResponseHead { status: pseudo(block, ":status").parse().unwrap(), headers: fields(block) }
}

fn accept(head: RequestHead) -> ServerCall {
    match ServerCall::accept(head, CallLimits::from(&trirpc_core::Config::default()), Instant::ZERO) {
        Accept::Call(call) => call,
        Accept::Reject(head) => panic!("rejected with {}", head.status),
    }
}

fn client(path: &'static str) -> ClientCall {
    let method = MethodSpec::new(path, CallKind::Unary, false);
    let limits = CallLimits::from(&trirpc_core::Config::default());
    ClientCall::new(&method, &CallOptions::default(), "proto", limits, None).unwrap()
}

#[track_caller]
fn message(recv: Recv) -> Vec<u8> {
    match recv {
        Recv::Message(mut message) => message.copy_to_bytes(message.len()).to_vec(),
        other => panic!("{other:?}"),
    }
}

const GRPC_GO_REQUEST: &str = "
    00 00 6e 01 04 00 00 00 01
    83 86 45 92 61 36 1a ca c8 ba 4a 84 af dc 2b e0 24 e7 63 70 fd 7f
    41 8b 08 9d 5c 0b 81 70 dc 10 5b 13 5f 5f 8b 1d 75 d0 62 0d 26 3d 4c 4d 65 64
    7a 8a 9a ca c8 b4 c7 60 2b bc da e0 40 02 74 65 86 4d 83 35 05 b1 1f
    40 8e 9a ca c8 b0 c8 42 d6 95 8b 51 0f 21 aa 9b 83 9b d9 ab
    40 89 9a ca c8 b2 4d 49 4f 6a 7f 87 13 ef be cb 6d b9 6f
    00 00 1c 00 01 00 00 00 01 00 00 00 00 17
    0a 05 68 65 6c 6c 6f 12 03 61 62 63 20 f9 ff ff ff ff ff ff ff ff 01";
const GRPC_GO_RESPONSE: &str = "
    00 00 0e 01 04 00 00 00 01 88 5f 8b 1d 75 d0 62 0d 26 3d 4c 4d 65 64
    00 00 21 00 00 00 00 00 01 00 00 00 00 1c
    0a 0a 65 63 68 6f 3a 68 65 6c 6c 6f 12 03 61 62 63 18 f9 ff ff ff ff ff ff ff ff 01
    00 00 18 01 05 00 00 00 01
    40 88 9a ca c8 b2 12 34 da 8f 01 30 40 89 9a ca c8 b5 25 42 07 31 7f 00";

/// tri:1 tri:30 tri:36, Appendix A1: grpc-go calls our server; what our server answers is what grpc-go's did.
#[test]
fn the_server_answers_grpc_go_as_grpc_go_does() {
    let (request, response) = (recorded(GRPC_GO_REQUEST), recorded(GRPC_GO_RESPONSE));
    let mut call = accept(request_head(&request.blocks[0]));
    assert_eq!(
        (call.request().path(), call.request().codec_name(), call.request().authority()),
        ("/trirpc.test.v1.Echo/Say", "proto", "127.0.0.1:21524")
    );
    assert_eq!(call.deadline(), Some(Instant::from_nanos(29_993_556_000)));
    assert!(call.request().metadata().is_empty(), "{:?}", call.request().metadata());
    call.expect(CallKind::Unary);
    for (data, end) in request.data {
        call.handle_data(data);
        if end {
            call.handle_end(None);
        }
    }
    assert_eq!(message(call.recv())[..7], *b"\x0a\x05hello");

    assert_eq!(call.head(&Metadata::new()).unwrap().unwrap(), response_head(&response.blocks[0]));
    let (body, _) = &response.data[0];
    assert_eq!(call.envelope(body.len() - 5, false).unwrap().unwrap(), body[..5]);
    let End::Trailers(trailers) = call.finish(&Status::OK, &Metadata::new(), usize::MAX).unwrap() else {
        panic!("head was sent")
    };
    // grpc-go adds an empty message, which says nothing.
    let mut theirs = fields(&response.blocks[1]);
    theirs.remove(&HeaderName::GRPC_MESSAGE);
    assert_eq!(trailers, theirs);
}

/// tri:71 tri:87 tri:Q38, Appendix A1: our client calls grpc-go's server.
#[test]
fn the_client_calls_grpc_go_as_grpc_go_does() {
    let (request, response) = (recorded(GRPC_GO_REQUEST), recorded(GRPC_GO_RESPONSE));
    let theirs = request_head(&request.blocks[0]);
    let mut call = client("/trirpc.test.v1.Echo/Say");
    let ours = call.request_head(&CallOptions::default(), theirs.scheme.clone(), theirs.authority.clone());
    assert_eq!(
        (ours.method, &ours.scheme, &ours.authority, &ours.path),
        (theirs.method, &theirs.scheme, &theirs.authority, &theirs.path)
    );
    for name in [HeaderName::TE, HeaderName::CONTENT_TYPE] {
        assert_eq!(ours.headers.get(&name), theirs.headers.get(&name), "{name}");
    }
    let (body, _) = &request.data[0];
    assert_eq!(call.envelope(body.len() - 5, false).unwrap().unwrap(), body[..5]);

    call.handle_head(response_head(&response.blocks[0]), false);
    call.handle_data(response.data[0].0.clone());
    call.handle_end(Some(fields(&response.blocks[1])));
    assert_eq!(call.status(), Some(&Status::OK));
    assert_eq!(message(call.recv())[..12], *b"\x0a\x0aecho:hello");
}

/// tri:82 tri:171 tri:194 tri:Q20, Appendix A5: stream 3, an empty DATA with END_STREAM, `te` in the response.
#[test]
fn a_wrapper_call_of_dubbo_java_is_read_by_both_sides() {
    let request = recorded(
        "00 00 26 00 00 00 00 00 03 00 00 00 00 21
         0a 08 68 65 73 73 69 61 6e 34 12 03 02 68 69 1a 10 6a 61 76 61 2e 6c 61 6e 67 2e 53 74 72 69 6e 67
         00 00 00 00 01 00 00 00 03",
    );
    let mut headers = Headers::new();
    headers.push(HeaderName::CONTENT_TYPE, "application/grpc+proto");
    let mut call = accept(RequestHead {
        method: Method::Post,
        scheme: Bytes::from_static(b"http"),
        authority: Bytes::from_static(b"localhost"),
        path: Bytes::from_static(b"/demo.Greeter/hello"),
        headers,
        deadline: None,
    });
    call.expect(CallKind::Unary);
    for (data, end) in request.data {
        call.handle_data(data);
        assert!(!call.is_readable());
        if end {
            call.handle_end(None);
        }
    }
    assert_eq!(message(call.recv())[..10], *b"\x0a\x08hessian4");

    let response = recorded(
        "00 00 20 01 04 00 00 00 03 88
         40 02 74 65 08 74 72 61 69 6c 65 72 73 5f 10 61 70 70 6c 69 63 61 74 69 6f 6e 2f 67 72 70 63
         00 00 2c 00 00 00 00 00 03 00 00 00 00 27 0a 08 68 65 73 73 69 61 6e 34
         12 09 08 68 65 6c 6c 6f 20 68 69 1a 10 6a 61 76 61 2e 6c 61 6e 67 2e 53 74 72 69 6e 67
         00 00 0f 01 05 00 00 00 03 40 0b 67 72 70 63 2d 73 74 61 74 75 73 01 30",
    );
    let mut call = client("/demo.Greeter/hello");
    call.handle_head(response_head(&response.blocks[0]), false);
    call.handle_data(response.data[0].0.clone());
    call.handle_end(Some(fields(&response.blocks[1])));
    assert_eq!(call.status(), Some(&Status::OK));
    assert!(call.metadata().unwrap().is_empty());
    assert_eq!(message(call.recv()).len(), 39);
}
