use bytes::Bytes;
use serde_json::Value;
use trirpc_core::call::{
    Accept, CallKind, CallLimits, ClientCall, Code, Encodings, End, Metadata, MethodSpec, Protocol, Recv, ServerCall,
    Status,
};
use trirpc_core::http::{HeaderName, Headers, ResponseHead};
use trirpc_core::{Config, Instant};

use crate::calls::{content, cuts, post, rows, split};
use crate::input::Input;

static METHOD: MethodSpec = MethodSpec::new("/fuzz.Body/Read", CallKind::Unary, false);

/// Most bytes of a message of the targets.
const LIMIT: usize = 4096;

/// Feeds an error of a bare row to the client: any split gives one status, never success, and the one that another
/// JSON reader finds.
///
/// The input is two octets with the HTTP status, one with the number of cuts, two for each cut, and the body.
pub fn triple_error_json(data: &[u8]) {
    let mut input = Input::new(data);
    let http = match 100 + input.short() % 900 {
        200 => 500,
        http => http,
    };
    let cuts = cuts(&mut input);
    let body = input.bytes(LIMIT);

    for protocol in [Protocol::Triple, Protocol::Connect] {
        let read = |pieces: &[Bytes]| {
            let mut call = client(protocol);
            call.handle_head(ResponseHead { status: http, headers: Headers::new() }, false);
            for piece in pieces {
                call.handle_data(piece.clone());
                assert!(call.status().is_none());
            }
            call.handle_end(None);
            assert!(matches!(call.recv(), Recv::End) && call.buffered() == 0 && call.wants_reset().is_none());
            call.status().expect("an end").clone()
        };
        let status = read(&[Bytes::copy_from_slice(body)]);
        assert!(!status.is_ok());
        assert_eq!(status, read(&split(body, &cuts)));
        if let Some(error) = understood(body) {
            let unnamed = read(&[]).raw_code();
            assert_eq!(status.raw_code(), error.code.unwrap_or(unnamed), "{error:?}");
            if let Some(message) = &error.message {
                assert_eq!(status.message(), message);
            }
            assert!(status.details().is_empty() || error.has_details);
        }
    }
}

fn client(protocol: Protocol) -> ClientCall {
    let mut options = rows()[0].clone();
    options.protocol = Some(protocol);
    ClientCall::new(&METHOD, &options, "proto", limits(), None).expect("carried")
}

fn limits() -> CallLimits {
    let mut limits = CallLimits::from(&Config::default());
    limits.max_recv_message = LIMIT;
    limits.accept_compressions = Encodings::from_static(&["gzip"]);
    limits.send_compressions = Encodings::from_static(&["gzip"]);
    limits
}

/// What a JSON error says.
#[derive(Debug)]
struct Understood {
    code: Option<u32>,
    message: Option<String>,
    has_details: bool,
}

/// As another reader has it; `None` where the two may differ: about what is no object, about a key that is there twice,
/// and about nesting.
fn understood(body: &[u8]) -> Option<Understood> {
    let Value::Object(object) = serde_json::from_slice(body).ok()? else { return None };
    let text = std::str::from_utf8(body).ok()?;
    let is_once = |key: &str| text.matches(&format!("\"{key}\"")).count() <= 1;
    if !["code", "status", "message", "details"].into_iter().all(is_once) || text.contains("\\u") {
        return None;
    }
    if text.bytes().filter(|octet| matches!(octet, b'[' | b'{')).count() > 32 {
        return None;
    }
    let small = |value: &Value| {
        let number = value.as_u64().filter(|number| (1..20).contains(number) && value.is_u64())?;
        u32::try_from(number).ok()
    };
    let named = |text: &str| {
        let named = Code::ALL.into_iter().skip(1).find(|code| match code {
            Code::Cancelled => text == "canceled",
            code => code.name().to_ascii_lowercase() == text,
        });
        let digits = text.strip_prefix("code_").unwrap_or(text);
        let is_number = !digits.is_empty() && digits.bytes().all(|octet| octet.is_ascii_digit());
        let number = if is_number { digits.parse().ok().filter(|&number| number > 0) } else { None };
        named.map(|code| code as u32).or(number)
    };
    let code = match object.get("code") {
        Some(Value::String(text)) => named(text),
        Some(value) => small(value),
        None => None,
    };
    Some(Understood {
        code: code.or_else(|| object.get("status").and_then(small)),
        message: object.get("message").and_then(|message| message.as_str().map(str::to_owned)),
        has_details: object.get("details").is_some_and(Value::is_array),
    })
}

/// Feeds heads and bodies to both sides of a unary call, of any row: any split gives the same messages and outcome, and
/// what one of our sides says, the other reads.
///
/// The input is an octet with the content type, one with the number of fields (each: an octet for the name, one for the
/// length of the value, the value), two with the HTTP status of the response, cuts as in `triple_error_json`, and the
/// body of both.
pub fn triple_unary(data: &[u8]) {
    let mut input = Input::new(data);
    let kind = input.octet();
    let mut headers = Headers::new();
    let content_type = CONTENT_TYPES[usize::from(kind) % CONTENT_TYPES.len()];
    headers.push(HeaderName::CONTENT_TYPE, content_type);
    for _ in 0..input.octet() % 16 {
        let name = NAMES[usize::from(input.octet()) % NAMES.len()];
        let len = usize::from(input.octet());
        headers.push(HeaderName::from_static(name), Bytes::copy_from_slice(input.bytes(len)));
    }
    let http = 100 + input.short() % 900;
    let cuts = cuts(&mut input);
    let body = input.bytes(2 * LIMIT);
    let (whole, pieces) = ([Bytes::copy_from_slice(body)], split(body, &cuts));

    let served = [&whole[..], &pieces].map(|pieces| request(headers.clone(), pieces));
    assert_eq!(served[0], served[1]);
    let head = ResponseHead { status: http, headers };
    for options in rows() {
        let read = [&whole[..], &pieces].map(|pieces| {
            let mut call = ClientCall::new(&METHOD, &options, "proto", limits(), None).expect("carried");
            response(&mut call, head.clone(), pieces)
        });
        assert_eq!(read[0], read[1]);
        let (status, message) = &read[0];
        assert_eq!(status.is_ok(), message.is_some(), "{status}");
        if let Some(message) = message.as_ref().filter(|_| options.protocol != Some(Protocol::Grpc)) {
            assert!(http == 200 && message == body);
        }
    }
}

const CONTENT_TYPES: [&str; 8] = [
    "application/proto",
    "application/json",
    "application/json; charset=utf-8",
    "application/grpc",
    "application/grpc+proto",
    "application/Proto",
    "text/html",
    "",
];

const NAMES: [&str; 20] = [
    "triple-protocol-version",
    "triple-timeout-ms",
    "tri-protocol-version",
    "tri-service-timeout",
    "tri-service-group",
    "tri-service-version",
    "rest-service-group",
    "connect-protocol-version",
    "connect-timeout-ms",
    "grpc-timeout",
    "grpc-encoding",
    "content-encoding",
    "accept-encoding",
    "content-length",
    "grpc-status",
    "grpc-message",
    "trailer-key",
    "trailer-key-bin",
    "key",
    "key-bin",
];

/// What a server makes of a request: the message or the fault, and what the client makes of the answer.
type Served = Option<(Option<Vec<u8>>, Option<Code>, u16)>;

fn request(headers: Headers, pieces: &[Bytes]) -> Served {
    let Accept::Call(mut call) = ServerCall::accept(post(b"/fuzz.Body/Read", headers), limits(), Instant::ZERO) else {
        return None;
    };
    call.expect(CallKind::Unary);
    let mut fed = 0;
    for piece in pieces {
        call.handle_data(piece.clone());
        fed += piece.len();
        assert!(call.buffered() <= fed.min(LIMIT + 5) && call.need() <= LIMIT + 1);
        assert!(call.failure().is_some() || !call.is_readable());
    }
    call.handle_end(None);
    let failure = call.failure().cloned();
    let message = match call.recv() {
        Recv::Message(message) => Some(content(message)),
        Recv::End => None,
        Recv::Blocked => panic!("a call whose request has ended waits"),
    };
    assert_eq!(message.is_some(), failure.is_none());

    // The answer echoes the message, or tells the fault; the client that it is for understands it.
    let status = failure.unwrap_or(Status::OK);
    let protocol = call.request().protocol();
    if let Some(message) = &message {
        let mut metadata = Metadata::new();
        metadata.append("reply", "1").expect("legal");
        let head = call.head(&metadata).expect("nothing was sent");
        let prefix = call.envelope(message.len(), false).expect("one message");
        assert_eq!((head.is_some(), prefix.is_some()), (protocol == Protocol::Grpc, protocol == Protocol::Grpc));
        if let (Some(mut head), Some(prefix)) = (head, prefix) {
            let kept = call.keep(message.clone().into()).expect("sent at once");
            let End::Trailers(trailers) = call.finish(&status, &metadata, usize::MAX).expect("an end") else {
                panic!("the head was sent")
            };
            echoes_type(&mut head.headers);
            let mut client = client(protocol);
            client.handle_head(head, false);
            client.handle_data([&prefix[..], &kept].concat().into());
            client.handle_end(Some(trailers));
            assert_eq!(client.status().map(Status::code), Some(Code::Ok));
            return Some((Some(message.clone()), None, 200));
        }
        assert_eq!(call.keep(message.clone().into()), None);
    }
    let End::Whole { mut head, body } = call.finish(&status, &Metadata::new(), usize::MAX).expect("an end") else {
        panic!("nothing was sent")
    };
    if protocol != Protocol::Grpc {
        let length = head.headers.get(&HeaderName::CONTENT_LENGTH).expect("a length");
        assert_eq!(length, body.len().to_string().as_bytes());
    }
    if status.is_ok() {
        assert_eq!(Some(&body[..]), message.as_deref());
        echoes_type(&mut head.headers);
    }
    let http = head.status;
    let (read, echoed) = response(&mut client(protocol), head, &[body]);
    assert_eq!((read.code(), read.message()), (status.code(), status.message()));
    assert_eq!(echoed, message);
    Some((message, Some(status.code()).filter(|code| *code != Code::Ok), http))
}

/// A response has the request's content type, whose codec need not be the one that the client of the target asks for.
fn echoes_type(headers: &mut Headers) {
    assert_eq!(headers.remove(&HeaderName::CONTENT_TYPE), 1);
}

/// Feeds a whole response to a client; its outcome, and the message.
fn response(call: &mut ClientCall, head: ResponseHead, pieces: &[Bytes]) -> (Status, Option<Vec<u8>>) {
    call.handle_head(head, false);
    let mut fed = 0;
    for piece in pieces {
        call.handle_data(piece.clone());
        fed += piece.len();
        assert!(call.buffered() <= fed.min(LIMIT + 5) && call.need() <= LIMIT + 1);
    }
    call.handle_end(None);
    let status = call.status().expect("an end").clone();
    let message = match call.recv() {
        Recv::Message(message) => Some(content(message)),
        Recv::End => None,
        Recv::Blocked => panic!("a call that has ended waits"),
    };
    assert!(matches!(call.recv(), Recv::End) && call.buffered() == 0);
    (status, message)
}
