//! Requests that our server has to answer.

use std::fmt::Write as _;
use std::time::Duration;

use trirpc_cli::echo::{EchoService, Observation};
use trirpc_core::{Config, ErrorCode};
use trirpc_tests::frames::{data, envelope, headers, reset};
use trirpc_tests::trace::Frame;

use crate::wire::{Wire, bomb, gzip};

/// A row: its name, what is sent, the answer (in the notation of [`Answer`]), and a part of its `grpc-message`.
type Row = (&'static str, Request, &'static str, &'static str);

/// One request as a hand-made client sends it.
#[derive(Clone)]
struct Request {
    method: &'static str,
    path: String,
    fields: Vec<(&'static str, String)>,
    body: Vec<Vec<u8>>,
    end: End,
}

/// Where END_STREAM is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    OnHeaders,
    OnData,
    Nowhere,
}

/// A request of `Say` that is as it should be.
fn say() -> Request {
    let fields = vec![("content-type", "application/grpc+proto".to_owned()), ("te", "trailers".to_owned())];
    let path = "/trirpc.test.v1.Echo/Say".to_owned();
    Request { method: "POST", path, fields, body: vec![envelope(HI)], end: End::OnData }
}

/// `SayRequest { text: "hi" }`.
const HI: &[u8] = b"\x0a\x02hi";

impl Request {
    fn at(mut self, path: &str) -> Self {
        self.path = path.to_owned();
        self
    }

    /// Of another method of the service.
    fn of(self, method: &str) -> Self {
        self.at(&format!("/trirpc.test.v1.Echo/{method}"))
    }

    fn method(mut self, method: &'static str) -> Self {
        self.method = method;
        self
    }

    /// With one field more.
    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.fields.push((name, value.to_owned()));
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(field, _)| *field != name);
        self
    }

    fn content_type(self, value: &str) -> Self {
        self.without("content-type").with("content-type", value)
    }

    /// With these payloads of DATA.
    fn body<const N: usize>(mut self, body: [&[u8]; N]) -> Self {
        self.body = body.map(<[u8]>::to_vec).to_vec();
        self
    }

    /// With one message under these flags.
    fn flagged(self, flags: u8, message: &[u8]) -> Self {
        let mut octets = envelope(message);
        octets[0] = flags;
        self.body([&octets])
    }

    fn ends(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    /// The frames on `stream`.
    fn frames(&self, stream: u32) -> Vec<u8> {
        let mut fields =
            vec![(":method", self.method), (":scheme", "http"), (":path", &self.path), (":authority", "localhost")];
        fields.extend(self.fields.iter().map(|(name, value)| (*name, value.as_str())));
        let mut octets = headers(stream, &fields, self.end == End::OnHeaders);
        for (i, payload) in self.body.iter().enumerate().filter(|_| self.end != End::OnHeaders) {
            let end = self.end == End::OnData && i + 1 == self.body.len();
            octets.extend(data(stream, payload, end));
        }
        octets
    }
}

/// What came back on one stream.
#[derive(Default)]
struct Answer {
    blocks: Vec<Vec<(String, String)>>,
    body: Vec<u8>,
    ended: bool,
    resets: Vec<ErrorCode>,
    go_away: Option<ErrorCode>,
}

impl Answer {
    fn on(wire: &Wire, stream: u32) -> Self {
        let mut answer = Self::default();
        for entry in wire.heard() {
            match &entry.frame {
                Frame::GoAway { code, .. } => answer.go_away = Some(ErrorCode(*code)),
                _ if entry.stream != stream => {}
                Frame::Headers { fields, end } => {
                    answer.blocks.push(fields.clone());
                    answer.ended |= end;
                }
                Frame::Data { data, end, .. } => {
                    answer.body.extend_from_slice(data);
                    answer.ended |= end;
                }
                Frame::Reset(code) => answer.resets.push(ErrorCode(*code)),
                _ => {}
            }
        }
        answer
    }

    /// The last value of a field.
    fn field(&self, name: &str) -> Option<&str> {
        self.blocks.iter().flatten().rfind(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// Whole messages, by their length.
    fn messages(&self) -> usize {
        let (mut rest, mut count) = (&self.body[..], 0);
        while let Some((prefix, tail)) = rest.split_first_chunk::<5>() {
            let len = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
            let Some(tail) = tail.get(len..) else { break };
            (rest, count) = (tail, count + 1);
        }
        count
    }

    /// `200 T 12`: trailers-only with status 12. `200 H+T 0 with 1`: head, one message, trailers. `405`: HTTP alone.
    /// Behind it what HTTP/2 says: `RST CODE`, `GOAWAY CODE`; `open`: nothing has ended the stream.
    fn shape(&self) -> String {
        let mut shape = String::new();
        let status = self.field("grpc-status");
        match (&self.blocks[..], self.field(":status")) {
            ([head], Some(http)) => {
                shape.push_str(http);
                match (status, head.iter().any(|(name, _)| name == "grpc-status")) {
                    (Some(status), true) => write!(shape, " T {status}").unwrap(),
                    _ => self.note_body(&mut shape),
                }
            }
            ([_, _], Some(http)) => {
                write!(shape, "{http} H+T {}", status.unwrap_or("-")).unwrap();
                self.note_body(&mut shape);
            }
            (blocks, _) => assert!(blocks.is_empty(), "{blocks:?}"),
        }
        if !self.ended && self.resets.is_empty() && self.go_away.is_none() {
            shape.push_str(" open");
        }
        for code in &self.resets {
            write!(shape, " RST {code:?}").unwrap();
        }
        if let Some(code) = self.go_away {
            write!(shape, " GOAWAY {code:?}").unwrap();
        }
        shape.trim_start().to_owned()
    }

    fn note_body(&self, shape: &mut String) {
        if !self.body.is_empty() {
            write!(shape, " with {}", self.messages()).unwrap();
        }
    }

    /// What holds for every answer that is gRPC.
    fn faults(&self, request: &Request) -> Vec<String> {
        let mut faults = Vec::new();
        if self.field("grpc-status").is_some() {
            let asked = request.fields.iter().find(|(name, _)| *name == "content-type").map(|(_, value)| &**value);
            if self.field("content-type") != asked {
                faults.push(format!("content-type {:?} to a request of {asked:?}", self.field("content-type")));
            }
            if self.field(":status") != Some("200") {
                faults.push("a gRPC status is not under HTTP status 200".to_owned());
            }
            if self.field("grpc-status") == Some("0") && self.field("grpc-message").is_some() {
                faults.push("grpc-message with success".to_owned());
            }
        }
        for name in ["te", "content-length", "grpc-status-details-bin"] {
            if let Some(value) = self.field(name) {
                faults.push(format!("{name}: {value}"));
            }
        }
        faults
    }
}

/// Sends each request on a connection of its own and compares the answers; a good call follows.
#[track_caller]
fn check(rows: &[Row]) {
    let config = Config::default();
    let mut wrong = String::new();
    for (name, request, shape, message) in rows {
        let mut wire = Wire::to_server(config.clone(), EchoService::new());
        wire.send(&request.frames(1));
        let answer = Answer::on(&wire, 1);
        let mut faults = answer.faults(request);
        if answer.shape() != *shape {
            faults.push(format!("`{}`, not `{shape}`", answer.shape()));
        }
        let told = answer.field("grpc-message").unwrap_or_default();
        if !told.contains(message) {
            faults.push(format!("the message is {told:?}, not {message:?}"));
        }
        faults.extend(is_alive(&mut wire, 3));
        if !faults.is_empty() {
            writeln!(wrong, "{name}: {}\n{}", faults.join("; "), wire.shown()).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// What is wrong with an ordinary call on a connection that has seen worse.
fn is_alive(wire: &mut Wire, stream: u32) -> Option<String> {
    wire.send(&say().frames(stream));
    let shape = Answer::on(wire, stream).shape();
    (shape != OK || wire.closed).then(|| format!("the next call: `{shape}`, closed: {}", wire.closed))
}

/// A unary call that went well.
const OK: &str = "200 H+T 0 with 1";

/// §3.6 "Unknown path", "unknown method", tri:28 tri:29 tri:174: 12, in the only frame of the response.
#[test]
fn a_path_that_leads_nowhere_is_unimplemented() {
    check(&[
        ("ok", say(), OK, ""),
        ("unknown service", say().at("/no.Such/Say"), "200 T 12", "no.Such"),
        ("unknown method", say().of("Nope"), "200 T 12", "Nope"),
        ("upper case", say().of("SAY"), "200 T 12", "SAY"),
        ("trailing slash", say().of("Say/"), "200 T 12", ""),
        ("no method", say().at("/trirpc.test.v1.Echo"), "200 T 12", ""),
        ("root", say().at("/"), "200 T 12", ""),
        ("query", say().of("Say?a=b"), OK, ""),
        ("query with slashes", say().of("Say?a=/b/c"), OK, ""),
        ("not valid in HTTP", say().at("Say"), "RST PROTOCOL_ERROR", ""),
    ]);
}

/// §3.6 "Wrong HTTP method", tri:27: 405 that names the right one, without a body.
#[test]
fn another_http_method_is_405_that_names_post() {
    for method in ["GET", "PUT", "DELETE", "OPTIONS", "BREW"] {
        for end in [End::OnHeaders, End::OnData] {
            let mut wire = Wire::to_server(Config::default(), EchoService::new());
            wire.send(&say().method(method).ends(end).frames(1));
            let answer = Answer::on(&wire, 1);
            assert_eq!((answer.shape().as_str(), answer.field("allow")), ("405", Some("POST")), "{method}");
            assert_eq!(is_alive(&mut wire, 3), None);
        }
    }
}

/// §3.6 "Content-type missing/foreign", tri:26 tri:177 tri:Q59: 415 that names the right ones, gRPC-Web included.
#[test]
fn another_content_type_is_415_that_names_ours() {
    let foreign = ["text/plain", "application/grpc-web+proto", "application/grpc-web-text", "application/grpcx"];
    let requests = foreign.map(|value| say().content_type(value));
    for request in requests.into_iter().chain([say().without("content-type"), say().content_type("")]) {
        let mut wire = Wire::to_server(Config::default(), EchoService::new());
        wire.send(&request.frames(1));
        let answer = Answer::on(&wire, 1);
        assert_eq!(answer.shape(), "415", "{:?}", request.fields);
        let accepted = answer.field("accept-post").expect("the header accept-post");
        assert!(accepted.contains("application/grpc"), "{accepted}");
        assert_eq!(is_alive(&mut wire, 3), None);
    }
}

/// §3.6 "application/grpc+foo", tri:21 tri:22 tri:24 tri:25 tri:36: the subtype chooses the codec, parameters and case
/// mean nothing, and the response repeats what the request said.
#[test]
fn the_subtype_of_the_content_type_names_a_codec_that_must_be_known() {
    check(&[
        ("bare", say().content_type("application/grpc"), OK, ""),
        ("parameter", say().content_type("application/grpc;charset=utf-8"), OK, ""),
        ("upper case", say().content_type("Application/gRPC+Proto"), OK, ""),
        ("no te", say().without("te"), OK, ""),
        ("foo", say().content_type("application/grpc+foo"), "200 T 12", "foo"),
        ("hessian2", say().content_type("application/grpc+hessian2"), "200 T 12", "hessian2"),
        ("msgpack", say().content_type("application/grpc+msgpack"), "200 T 12", "msgpack"),
    ]);
}

/// §3.6 the rows on flags, truncation and size, tri:1 tri:2 tri:4 tri:5 tri:7 to tri:13 tri:62 tri:171 tri:Q1 tri:Q22
/// tri:Q51.
#[test]
fn a_body_that_is_no_message_is_internal_and_one_too_large_is_resource_exhausted() {
    let hi = envelope(HI);
    let large = [&[0][..], &(4 * 1024 * 1024 + 1_u32).to_be_bytes(), &[0; 10_000]].concat();
    let single: Vec<&[u8]> = hi.chunks(1).collect();
    let single: [&[u8]; 9] = single.try_into().expect("nine octets");
    check(&[
        ("flag 1, no encoding", say().flagged(1, HI), "200 T 13", "without an announced encoding"),
        ("flag 1, identity", say().with("grpc-encoding", "identity").flagged(1, HI), "200 T 13", "encoding"),
        ("flag 2", say().flagged(2, HI), "200 T 13", "0x02"),
        ("flag 4", say().flagged(4, HI), "200 T 13", "0x04"),
        ("flag 0x40", say().flagged(0x40, HI), "200 T 13", "0x40"),
        ("flag 0x80", say().flagged(0x80, HI), "200 T 13", "0x80"),
        ("undecodable", say().body([&envelope(b"\x0a\xff")]), "200 T 13", ""),
        ("prefix cut", say().body([&[0, 0, 0]]), "200 T 13", "inside a message"),
        ("one octet", say().body([&[0]]), "200 T 13", "inside a message"),
        ("body cut", say().body([&hi[..8]]), "200 T 13", "inside a message"),
        ("cut behind a message", say().body([&hi, &[0]]), "200 T 13", "inside a message"),
        ("2 GiB", say().body([b"\0\x80\0\0\0abc"]), "200 T 8", "2147483648 bytes exceeds max_recv_message of 4194304"),
        ("4 GiB", say().body([b"\0\xff\xff\xff\xff"]), "200 T 8", "4294967295"),
        ("over the limit, not ended", say().body([&large]).ends(End::Nowhere), "200 T 8 RST NO_ERROR", "4194305"),
        ("octet by octet", say().body(single), OK, ""),
        ("as dubbo-go sends", say().body([&hi[..5], &hi[5..], b""]), OK, ""),
        ("empty message", say().body([&[0; 5]]), OK, ""),
    ]);
}

/// §3.6 "Unary request: 0 messages", "2 messages", tri:44 tri:45 tri:46 tri:47 tri:173: 12, except where none is right.
#[test]
fn the_wrong_number_of_messages_is_unimplemented() {
    let (hi, one) = (envelope(HI), envelope(b"\x08\x01"));
    let two = [&hi[..], &hi].concat();
    check(&[
        ("none", say().body([b""]), "200 T 12", "no message"),
        ("none, ended by the head", say().ends(End::OnHeaders), "200 T 12", "no message"),
        ("two", say().body([&two]), "200 T 12", "more than one"),
        ("two in two frames", say().body([&hi, &hi]), "200 T 12", "more than one"),
        ("two, not ended", say().body([&two]).ends(End::Nowhere), "200 T 12 RST NO_ERROR", "more than one"),
        ("expand none", say().of("Expand").body([b""]), "200 T 12", "no message"),
        ("expand two", say().of("Expand").body([&one, &one]), "200 T 12", "more than one"),
        ("collect none", say().of("Collect").body([b""]), OK, ""),
        ("collect none, ended by the head", say().of("Collect").ends(End::OnHeaders), OK, ""),
        ("chat none", say().of("Chat").body([b""]), "200 T 0", ""),
    ]);
}

/// §3.6 "Flag 1, unknown encoding", tri:58: 12 whether or not a message uses it.
#[test]
fn an_unknown_encoding_is_unimplemented() {
    check(&[
        ("used", say().with("grpc-encoding", "zstd").flagged(1, b"xx"), "200 T 12", "encoding"),
        ("not used", say().with("grpc-encoding", "zstd"), "200 T 12", "encoding"),
        ("identity", say().with("grpc-encoding", "identity"), OK, ""),
        ("empty", say().with("grpc-encoding", ""), OK, ""),
        ("none that we know is accepted", say().with("grpc-accept-encoding", "zstd, br"), OK, ""),
    ]);
    let mut wire = Wire::to_server(Config::default(), EchoService::new());
    wire.send(&say().with("grpc-encoding", "zstd").frames(1));
    assert_eq!(Answer::on(&wire, 1).field("grpc-accept-encoding"), Some("gzip"));
}

/// §3.6 "Decompress failure", "Zero-length payload with flag 1", "Decompressed size > limit", §4, tri:6 tri:14 tri:15
/// tri:16 tri:61 tri:172.
#[test]
fn a_request_that_does_not_inflate_is_internal_and_one_that_inflates_too_far_is_resource_exhausted() {
    let packed = gzip(HI);
    let request = |flags, message: &[u8]| say().with("grpc-encoding", "gzip").flagged(flags, message);
    check(&[
        ("good", request(1, &packed), OK, ""),
        ("not compressed", request(0, HI), OK, ""),
        ("two members", request(1, &[gzip(&HI[..2]), gzip(&HI[2..])].concat()), OK, ""),
        ("nothing", request(1, b""), OK, ""),
        ("nothing in gzip", request(1, &gzip(b"")), OK, ""),
        ("no gzip", request(1, b"notgzip"), "200 T 13", "gzip"),
        ("cut", request(1, &packed[..packed.len() - 4]), "200 T 13", ""),
        ("more behind it", request(1, &[&packed[..], b"zzz"].concat()), "200 T 13", ""),
        ("bomb", request(1, &gzip(&bomb())), "200 T 8", "4194304"),
    ]);
}

/// §3.6 "Bad grpc-timeout", §2.1, tri:38 tri:39 tri:40: 3 in the only frame.
#[test]
fn a_malformed_timeout_is_an_invalid_argument() {
    let timeout = |value: &str| say().with("grpc-timeout", value);
    check(&[
        ("nine digits", timeout("123456789m"), "200 T 3", "grpc-timeout"),
        ("no unit", timeout("100"), "200 T 3", "grpc-timeout"),
        ("no digits", timeout("m"), "200 T 3", "grpc-timeout"),
        ("empty", timeout(""), "200 T 3", "grpc-timeout"),
        ("unknown unit", timeout("1x"), "200 T 3", "grpc-timeout"),
        ("negative", timeout("-1S"), "200 T 3", "grpc-timeout"),
        ("plus", timeout("+1S"), "200 T 3", "grpc-timeout"),
        ("blank", timeout("1 S"), "200 T 3", "grpc-timeout"),
        ("zero", timeout("0n"), "200 T 4", ""),
        ("huge", timeout("99999999H"), OK, ""),
    ]);
}

/// §3.6 "Deadline expires at server", "Client cancels", tri:41 tri:42: 4 if it can still be said; the handler is gone.
#[test]
fn a_deadline_is_told_and_a_cancellation_is_not() {
    let dropped = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&dropped);
    let echo = EchoService::new().observed_by(move |observation| {
        if matches!(observation, Observation::Dropped { method: "Sleep" }) {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    });
    let sleep = || say().of("Sleep").body([&envelope(b"\x08\xe0\xd4\x03")]);
    let mut wire = Wire::to_server(Config::default(), echo);
    wire.send(&sleep().with("grpc-timeout", "200m").frames(1));
    assert_eq!(Answer::on(&wire, 1).shape(), "open");
    wire.pass(Duration::from_millis(200));
    assert_eq!(Answer::on(&wire, 1).shape(), "200 T 4");
    assert_eq!(dropped.load(std::sync::atomic::Ordering::Relaxed), 1);
    // Not half-closed: the client is told that nobody listens any more.
    wire.send(&sleep().with("grpc-timeout", "200m").of("Collect").body([&envelope(HI)]).ends(End::Nowhere).frames(3));
    wire.pass(Duration::from_millis(200));
    assert_eq!(Answer::on(&wire, 3).shape(), "200 T 4 RST NO_ERROR");

    wire.send(&sleep().frames(5));
    wire.send(&reset(5, 8));
    assert_eq!(Answer::on(&wire, 5).shape(), "open", "nothing is sent to a client that has gone");
    assert_eq!(dropped.load(std::sync::atomic::Ordering::Relaxed), 2);
    assert_eq!(is_alive(&mut wire, 7), None);
}

/// §3.7, tri:50 tri:51: a unary handler may wait for the end, a stream's may end before it.
#[test]
fn the_end_of_a_request_is_waited_for_by_unary_methods_alone() {
    check(&[
        ("unary", say().ends(End::Nowhere), "open", ""),
        ("chat goes on", say().of("Chat").ends(End::Nowhere), "200 with 1 open", ""),
        (
            "chat ends early",
            say().of("Chat").body([&envelope(b"\x0a\x06fail:x")]).ends(End::Nowhere),
            "200 T 9 RST NO_ERROR",
            "x",
        ),
    ]);
}

/// tri:53 tri:54 tri:175 tri:Q5 tri:Q6 tri:Q57 tri:Q74: what is in the metadata is no reason to fail a call that does
/// not look at it.
#[test]
fn strange_metadata_does_not_stop_a_call() {
    let meta = || say().of("Meta").body([&[0; 5]]);
    check(&[
        ("no base64, not read", say().with("x-echo-a-bin", "!!!"), OK, ""),
        ("no base64, read", meta().with("x-echo-a-bin", "!!!"), "200 T 13", "x-echo-a-bin"),
        ("joined", meta().with("x-echo-a-bin", "YWJj,YWI="), OK, ""),
        ("empty", meta().with("retries", ""), OK, ""),
        ("Latin-1", meta().with("x-echo-a", "na\u{ef}ve"), OK, ""),
        ("names of HTTP/1", meta().with("method", "POST").with("scheme", "http").with("path", "/"), OK, ""),
        ("reserved", meta().with("grpc-foo", "x").with("grpc-status", "9"), OK, ""),
    ]);
}

/// §3.6 "Upper-case header name, or LF in a value", "`connection` header / `te: gzip`", tri:165: one stream is reset.
#[test]
fn a_field_that_http2_forbids_costs_its_stream_alone() {
    const RESET: &str = "RST PROTOCOL_ERROR";
    check(&[
        ("upper case", say().with("X-Upper", "1"), RESET, ""),
        ("line feed", say().with("x-nl", "a\nb"), RESET, ""),
        ("carriage return", say().with("x-cr", "a\rb"), RESET, ""),
        ("NUL", say().with("x-nul", "a\0b"), RESET, ""),
        ("blank in a name", say().with("x y", "1"), RESET, ""),
        ("empty name", say().with("", "1"), RESET, ""),
        ("connection", say().with("connection", "keep-alive"), RESET, ""),
        ("transfer-encoding", say().with("transfer-encoding", "chunked"), RESET, ""),
        ("te: gzip", say().without("te").with("te", "gzip"), RESET, ""),
        ("unknown pseudo field", say().with(":x", "1"), RESET, ""),
        ("pseudo field behind others", say().with(":path", "/"), RESET, ""),
    ]);
}

/// §3.6 "Request content-length ≠ DATA", tri:167.
#[test]
fn a_content_length_that_is_not_true_is_a_stream_error() {
    const RESET: &str = "RST PROTOCOL_ERROR";
    let length = |value: &str| say().with("content-length", value);
    check(&[
        ("right", length("9"), OK, ""),
        ("repeated", length("9").with("content-length", "9"), OK, ""),
        ("too large", length("99"), RESET, ""),
        ("too small", length("3"), RESET, ""),
        ("no number", length("nine"), RESET, ""),
        ("contradicting", length("9").with("content-length", "8"), RESET, ""),
        ("with no body", length("9").ends(End::OnHeaders), RESET, ""),
    ]);
}

/// §3.6 "Header list too large", tri:166: up to the limit that SETTINGS name it is served; above, the request is refused
/// and the connection lives.
#[test]
fn a_header_list_above_the_limit_is_refused_and_the_connection_lives() {
    let with_fields = |count: usize| {
        let names: [&'static str; 20] = std::array::from_fn(|i| ["x-a", "x-b", "x-c", "x-d", "x-e"][i % 5]);
        names[..count].iter().fold(say(), |request, name| request.with(name, &"v".repeat(3000)))
    };
    check(&[("15 KB", with_fields(5), OK, ""), ("60 KB", with_fields(20), "431 RST NO_ERROR", "")]);
    let many = (0..200).fold(say(), |request, _| request.with("x-n", "v"));
    check(&[("200 fields", many, "431 RST NO_ERROR", "")]);
}

/// RFC 9113 §8.1: behind the head of a request nothing but trailers may come, which end it.
#[test]
fn a_second_head_in_a_request_costs_its_stream() {
    for (end, shape) in [(true, OK), (false, "RST PROTOCOL_ERROR")] {
        let mut wire = Wire::to_server(Config::default(), EchoService::new());
        wire.send(&[say().ends(End::Nowhere).frames(1), headers(1, &[("x-trailer", "1")], end)].concat());
        assert_eq!(Answer::on(&wire, 1).shape(), shape, "END_STREAM: {end}");
        assert_eq!(is_alive(&mut wire, 3), None);
    }
}

/// §3.1, tri:Q30: a code that no peer needs to know is not sent.
#[test]
fn a_code_beyond_the_registry_is_sent_as_unknown() {
    check(&[
        ("17", say().of("Fail").body([&envelope(b"\x08\x11\x12\x03biz")]), "200 T 2", "biz"),
        ("5", say().of("Fail").body([&envelope(b"\x08\x05\x12\x03biz")]), "200 T 5", "biz"),
    ]);
}

/// tri:193 tri:Q79 tri:Q82: a reset of a stream that has ended is nothing.
#[test]
fn resets_after_the_end_are_ignored() {
    let mut wire = Wire::to_server(Config::default(), EchoService::new());
    for stream in (1..100).step_by(2) {
        wire.send(&say().frames(stream));
        wire.send(&[reset(stream, 2), reset(stream, 5)].concat());
        assert_eq!(Answer::on(&wire, stream).shape(), OK);
    }
    assert!(!wire.closed);
}
