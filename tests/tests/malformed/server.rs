//! Requests that our server has to answer.

use std::fmt::Write as _;
use std::time::Duration;

use trirpc_cli::echo::{EchoService, Observation};
use trirpc_core::Config;
use trirpc_tests::frames::{envelope, headers, reset};

use crate::exchange::{End, HI, OK, Request, say};
use crate::wire::{Wire, bomb, gzip};

/// A row: its name, what is sent, the answer (in the notation of [`Answer`]), and a part of its `grpc-message`.
pub(crate) type Row = (&'static str, Request, &'static str, &'static str);

/// Every row there is.
pub(crate) fn rows() -> Vec<Row> {
    let groups = [
        paths(),
        methods(),
        content_types(),
        codecs(),
        bodies(),
        cardinality(),
        encodings(),
        compressed(),
        timeouts(),
        open_ends(),
        metadata(),
        fields(),
        lengths(),
        sizes(),
        codes(),
        triple(),
    ];
    groups.concat()
}

/// Sends each request on a connection of its own and compares the answers; a good call follows.
#[track_caller]
fn check(rows: &[Row]) {
    let config = Config::default();
    let mut wrong = String::new();
    for (name, request, shape, message) in rows {
        let mut wire = Wire::to_server(config.clone(), EchoService::new());
        wire.send(&request.frames(1));
        let answer = wire.answer(1);
        let mut faults = answer.faults(request);
        if answer.shape() != *shape {
            faults.push(format!("`{}`, not `{shape}`", answer.shape()));
        }
        let told = answer.told();
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
    let shape = wire.answer(stream).shape();
    (shape != OK || wire.closed).then(|| format!("the next call: `{shape}`, closed: {}", wire.closed))
}

fn paths() -> Vec<Row> {
    vec![
        ("ok", say(), OK, ""),
        ("unknown-service", say().at("/no.Such/Say"), "200 T 12", "no.Such"),
        ("unknown-method", say().of("Nope"), "200 T 12", "Nope"),
        ("lower-first-method", say().of("say"), "200 T 12", "say"),
        ("upper-method", say().of("SAY"), "200 T 12", "SAY"),
        ("trailing-slash", say().of("Say/"), "200 T 12", ""),
        ("no method", say().at("/trirpc.test.v1.Echo"), "200 T 12", ""),
        ("root", say().at("/"), "200 T 12", ""),
        ("query", say().of("Say?a=b"), OK, ""),
        ("query with slashes", say().of("Say?a=/b/c"), OK, ""),
        ("not valid in HTTP", say().at("Say"), "RST PROTOCOL_ERROR", ""),
    ]
}

/// §3.6 "Unknown path", "unknown method", tri:28 tri:29 tri:174: 12, in the only frame of the response.
#[test]
fn a_path_that_leads_nowhere_is_unimplemented() {
    check(&paths());
}

fn methods() -> Vec<Row> {
    let head = |method| say().method(method).ends(End::OnHeaders);
    vec![
        ("method-get", head("GET"), "405", ""),
        ("method-put", say().method("PUT"), "405", ""),
        ("DELETE", say().method("DELETE"), "405", ""),
        ("options-root", head("OPTIONS").at("/").without("content-type").without("te"), "405", ""),
        ("BREW", say().method("BREW"), "405", ""),
    ]
}

/// `h2:A39`: §3.6 "Wrong HTTP method", tri:27: 405 that names the right one, without a body.
#[test]
fn another_http_method_is_405_that_names_post() {
    check(&methods());
    for (name, request, ..) in methods() {
        let mut wire = Wire::to_server(Config::default(), EchoService::new());
        wire.send(&request.frames(1));
        assert_eq!(wire.answer(1).field("allow"), Some("POST"), "{name}");
    }
}

fn content_types() -> Vec<Row> {
    let of = |value| say().content_type(value);
    vec![
        ("no-content-type", say().without("content-type"), "415", ""),
        ("empty content type", of(""), "415", ""),
        ("foreign-content-type", of("text/plain"), "415", ""),
        ("grpc-web", of("application/grpc-web+proto"), "415", ""),
        ("grpc-web-text", of("application/grpc-web-text"), "415", ""),
        ("grpcx", of("application/grpcx"), "415", ""),
        ("triple-json", of("application/json").without("te").body([b"{}"]), "415", ""),
    ]
}

/// `h2:V11`: §3.6 "Content-type missing/foreign", tri:26 tri:177 tri:Q59: 415 that names the right ones, gRPC-Web
/// included.
#[test]
fn another_content_type_is_415_that_names_ours() {
    check(&content_types());
    for (name, request, ..) in content_types() {
        let mut wire = Wire::to_server(Config::default(), EchoService::new());
        wire.send(&request.frames(1));
        let answer = wire.answer(1);
        let accepted = answer.field("accept-post").expect(name);
        assert!(accepted.contains("application/grpc") && accepted.contains("application/proto"), "{accepted}");
    }
}

fn codecs() -> Vec<Row> {
    vec![
        ("grpc-bare", say().content_type("application/grpc"), OK, ""),
        ("grpc-charset", say().content_type("application/grpc;charset=utf-8"), OK, ""),
        ("content type in upper case", say().content_type("Application/gRPC+Proto"), OK, ""),
        ("no-te", say().without("te"), OK, ""),
        ("grpc-plus-foo", say().content_type("application/grpc+foo"), "200 T 12", "foo"),
        ("grpc-json", say().content_type("application/grpc+json"), "200 T 12", "json"),
        ("grpc-hessian2-subtype", say().content_type("application/grpc+hessian2"), "200 T 12", "hessian2"),
        ("grpc-msgpack-subtype", say().content_type("application/grpc+msgpack"), "200 T 12", "msgpack"),
    ]
}

/// §3.6 "application/grpc+foo", tri:21 tri:22 tri:24 tri:25 tri:36: the subtype chooses the codec, parameters and case
/// mean nothing, and the response repeats what the request said.
#[test]
fn the_subtype_of_the_content_type_names_a_codec_that_must_be_known() {
    check(&codecs());
}

fn bodies() -> Vec<Row> {
    let hi = envelope(HI);
    let large = [&[0][..], &(4 * 1024 * 1024 + 1_u32).to_be_bytes(), &[0; 10_000]].concat();
    let single: Vec<&[u8]> = hi.chunks(1).collect();
    let single: [&[u8]; 9] = single.try_into().expect("nine octets");
    vec![
        ("flag-1-no-encoding", say().flagged(1, HI), "200 T 13", "without an announced encoding"),
        ("flag-1-identity", say().with("grpc-encoding", "identity").flagged(1, HI), "200 T 13", "encoding"),
        ("flag-2", say().flagged(2, HI), "200 T 13", "0x02"),
        ("flag 4", say().flagged(4, HI), "200 T 13", "0x04"),
        ("flag 0x40", say().flagged(0x40, HI), "200 T 13", "0x40"),
        ("flag-0x80", say().flagged(0x80, HI), "200 T 13", "0x80"),
        ("undecodable", say().body([&envelope(b"\x0a\xff")]), "200 T 13", ""),
        ("cut-prefix", say().body([&[0, 0, 0]]), "200 T 13", "inside a message"),
        ("one octet", say().body([&[0]]), "200 T 13", "inside a message"),
        ("cut-body", say().body([&hi[..8]]), "200 T 13", "inside a message"),
        ("cut behind a message", say().body([&hi, &[0]]), "200 T 13", "inside a message"),
        (
            "length-2g",
            say().body([b"\0\x80\0\0\0abc"]),
            "200 T 8",
            "2147483648 bytes exceeds max_recv_message of 4194304",
        ),
        ("4 GiB", say().body([b"\0\xff\xff\xff\xff"]), "200 T 8", "4294967295"),
        ("over-limit", say().body([&large]).ends(End::Nowhere), "200 T 8 RST NO_ERROR", "4194305"),
        ("split-everywhere", say().body(single), OK, ""),
        ("as dubbo-go sends", say().body([&hi[..5], &hi[5..], b""]), OK, ""),
        ("empty message", say().body([&[0; 5]]), OK, ""),
    ]
}

/// `h2:A45`: §3.6 the rows on flags, truncation and size, tri:1 tri:2 tri:4 tri:5 tri:7 to tri:13 tri:62 tri:171
/// tri:Q1 tri:Q22 tri:Q51.
#[test]
fn a_body_that_is_no_message_is_internal_and_one_too_large_is_resource_exhausted() {
    check(&bodies());
}

fn cardinality() -> Vec<Row> {
    let (hi, one) = (envelope(HI), envelope(b"\x08\x01"));
    let two = [&hi[..], &hi].concat();
    vec![
        ("no-message", say().body([b""]), "200 T 12", "no message"),
        ("no-message-end-on-headers", say().ends(End::OnHeaders), "200 T 12", "no message"),
        ("two-messages", say().body([&two]), "200 T 12", "more than one"),
        ("two-messages-two-frames", say().body([&hi, &hi]), "200 T 12", "more than one"),
        ("two, not ended", say().body([&two]).ends(End::Nowhere), "200 T 12 RST NO_ERROR", "more than one"),
        ("expand-no-message", say().of("Expand").body([b""]), "200 T 12", "no message"),
        ("expand-two-messages", say().of("Expand").body([&one, &one]), "200 T 12", "more than one"),
        ("collect none", say().of("Collect").body([b""]), OK, ""),
        ("collect-end-on-headers", say().of("Collect").ends(End::OnHeaders), OK, ""),
        ("chat none", say().of("Chat").body([b""]), "200 T 0", ""),
    ]
}

/// §3.6 "Unary request: 0 messages", "2 messages", tri:44 tri:45 tri:46 tri:47 tri:173: 12, except where none is right.
#[test]
fn the_wrong_number_of_messages_is_unimplemented() {
    check(&cardinality());
}

fn encodings() -> Vec<Row> {
    vec![
        ("flag-1-unknown-encoding", say().with("grpc-encoding", "zstd").flagged(1, b"xx"), "200 T 12", "encoding"),
        ("flag-0-unknown-encoding", say().with("grpc-encoding", "zstd"), "200 T 12", "encoding"),
        ("encoding identity", say().with("grpc-encoding", "identity"), OK, ""),
        ("empty encoding", say().with("grpc-encoding", ""), OK, ""),
        ("accept-gzip", say().with("grpc-accept-encoding", "gzip"), OK, ""),
        ("accept-zstd-gzip", say().with("grpc-accept-encoding", "zstd, gzip"), OK, ""),
        ("none that we know is accepted", say().with("grpc-accept-encoding", "zstd, br"), OK, ""),
    ]
}

/// §3.6 "Flag 1, unknown encoding", tri:58: 12 whether or not a message uses it.
#[test]
fn an_unknown_encoding_is_unimplemented() {
    check(&encodings());
    let mut wire = Wire::to_server(Config::default(), EchoService::new());
    wire.send(&say().with("grpc-encoding", "zstd").frames(1));
    assert_eq!(wire.answer(1).field("grpc-accept-encoding"), Some("gzip"));
}

fn compressed() -> Vec<Row> {
    let packed = gzip(HI);
    let request = |flags, message: &[u8]| say().with("grpc-encoding", "gzip").flagged(flags, message);
    vec![
        ("flag-1-gzip", request(1, &packed), OK, ""),
        ("flag-0-gzip", request(0, HI), OK, ""),
        ("flag-1-gzip-two-members", request(1, &[gzip(&HI[..2]), gzip(&HI[2..])].concat()), OK, ""),
        ("flag-1-gzip-empty", request(1, b""), OK, ""),
        ("nothing in gzip", request(1, &gzip(b"")), OK, ""),
        ("flag-1-bad-gzip", request(1, b"notgzip"), "200 T 13", "gzip"),
        ("flag-1-cut-gzip", request(1, &packed[..packed.len() - 4]), "200 T 13", ""),
        ("flag-1-gzip-garbage-after", request(1, &[&packed[..], b"zzz"].concat()), "200 T 13", ""),
        ("gzip-bomb", request(1, &gzip(&bomb())), "200 T 8", "4194304"),
    ]
}

/// §3.6 "Decompress failure", "Zero-length payload with flag 1", "Decompressed size > limit", §4, tri:6 tri:14 tri:15
/// tri:16 tri:61 tri:172.
#[test]
fn a_request_that_does_not_inflate_is_internal_and_one_that_inflates_too_far_is_resource_exhausted() {
    check(&compressed());
}

fn timeouts() -> Vec<Row> {
    let timeout = |value: &str| say().with("grpc-timeout", value);
    vec![
        ("timeout-9-digits", timeout("123456789m"), "200 T 3", "grpc-timeout"),
        ("timeout-no-unit", timeout("100"), "200 T 3", "grpc-timeout"),
        ("timeout without digits", timeout("m"), "200 T 3", "grpc-timeout"),
        ("timeout empty", timeout(""), "200 T 3", "grpc-timeout"),
        ("timeout-bad-unit", timeout("1x"), "200 T 3", "grpc-timeout"),
        ("timeout-negative", timeout("-1S"), "200 T 3", "grpc-timeout"),
        ("timeout with a plus", timeout("+1S"), "200 T 3", "grpc-timeout"),
        ("timeout with a blank", timeout("1 S"), "200 T 3", "grpc-timeout"),
        ("timeout-0n", timeout("0n"), "200 T 4", ""),
        ("timeout-huge-hours", timeout("99999999H"), OK, ""),
    ]
}

/// §3.6 "Bad grpc-timeout", §2.1, tri:38 tri:39 tri:40: 3 in the only frame.
#[test]
fn a_malformed_timeout_is_an_invalid_argument() {
    check(&timeouts());
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
    assert_eq!(wire.answer(1).shape(), "open");
    wire.pass(Duration::from_millis(200));
    assert_eq!(wire.answer(1).shape(), "200 T 4");
    assert_eq!(dropped.load(std::sync::atomic::Ordering::Relaxed), 1);
    // Not half-closed: the client is told that nobody listens any more.
    wire.send(&sleep().with("grpc-timeout", "200m").of("Collect").body([&envelope(HI)]).ends(End::Nowhere).frames(3));
    wire.pass(Duration::from_millis(200));
    assert_eq!(wire.answer(3).shape(), "200 T 4 RST NO_ERROR");

    wire.send(&sleep().frames(5));
    wire.send(&reset(5, 8));
    assert_eq!(wire.answer(5).shape(), "open", "nothing is sent to a client that has gone");
    assert_eq!(dropped.load(std::sync::atomic::Ordering::Relaxed), 2);
    assert_eq!(is_alive(&mut wire, 7), None);
}

fn open_ends() -> Vec<Row> {
    vec![
        ("no-half-close", say().ends(End::Nowhere), "open", ""),
        ("chat goes on", say().of("Chat").ends(End::Nowhere), "200 with 1 open", ""),
        (
            "headers-then-late-reply",
            say().of("Chat").body([&envelope(b"\x0a\x06fail:x")]).ends(End::Nowhere),
            "200 T 9 RST NO_ERROR",
            "x",
        ),
    ]
}

/// §3.7, tri:50 tri:51: a unary handler may wait for the end, a stream's may end before it.
#[test]
fn the_end_of_a_request_is_waited_for_by_unary_methods_alone() {
    check(&open_ends());
}

fn metadata() -> Vec<Row> {
    let meta = || say().of("Meta").body([&[0; 5]]);
    vec![
        ("no base64, not read", say().with("x-echo-a-bin", "!!!"), OK, ""),
        ("bad-bin-metadata", meta().with("x-echo-a-bin", "!!!"), "200 T 13", "x-echo-a-bin"),
        ("joined-bin-metadata", meta().with("x-echo-a-bin", "YWJj,YWI="), OK, ""),
        ("empty value", meta().with("retries", ""), OK, ""),
        ("Latin-1", meta().with("x-echo-a", "na\u{ef}ve"), OK, ""),
        ("names of HTTP/1", meta().with("method", "POST").with("scheme", "http").with("path", "/"), OK, ""),
        ("reserved names", meta().with("grpc-foo", "x").with("grpc-status", "9"), OK, ""),
    ]
}

/// tri:53 tri:54 tri:175 tri:Q5 tri:Q6 tri:Q57 tri:Q74: what is in the metadata is no reason to fail a call that does
/// not look at it.
#[test]
fn strange_metadata_does_not_stop_a_call() {
    check(&metadata());
}

fn fields() -> Vec<Row> {
    const RESET: &str = "RST PROTOCOL_ERROR";
    vec![
        ("upper-case-header", say().with("X-Upper", "1"), RESET, ""),
        ("newline-in-value", say().with("x-nl", "a\nb"), RESET, ""),
        ("carriage return", say().with("x-cr", "a\rb"), RESET, ""),
        ("NUL", say().with("x-nul", "a\0b"), RESET, ""),
        ("blank in a name", say().with("x y", "1"), RESET, ""),
        ("empty name", say().with("", "1"), RESET, ""),
        ("connection-header", say().with("connection", "keep-alive"), RESET, ""),
        ("transfer-encoding", say().with("transfer-encoding", "chunked"), RESET, ""),
        ("te-gzip", say().without("te").with("te", "gzip"), RESET, ""),
        ("unknown pseudo field", say().with(":x", "1"), RESET, ""),
        ("pseudo field behind others", say().with(":path", "/"), RESET, ""),
    ]
}

/// §3.6 "Upper-case header name, or LF in a value", "`connection` header / `te: gzip`", tri:165: one stream is reset.
#[test]
fn a_field_that_http2_forbids_costs_its_stream_alone() {
    check(&fields());
}

fn lengths() -> Vec<Row> {
    const RESET: &str = "RST PROTOCOL_ERROR";
    let length = |value: &str| say().with("content-length", value);
    vec![
        ("content-length-right", length("9"), OK, ""),
        ("content-length twice", length("9").with("content-length", "9"), OK, ""),
        ("content-length-wrong", length("99"), RESET, ""),
        ("content-length too small", length("3"), RESET, ""),
        ("content-length no number", length("nine"), RESET, ""),
        ("content-length twice, contradicting", length("9").with("content-length", "8"), RESET, ""),
        ("content-length without a body", length("9").ends(End::OnHeaders), RESET, ""),
    ]
}

/// §3.6 "Request content-length ≠ DATA", tri:167.
#[test]
fn a_content_length_that_is_not_true_is_a_stream_error() {
    check(&lengths());
}

fn sizes() -> Vec<Row> {
    let with_fields = |count: usize| {
        let names: [&'static str; 20] = std::array::from_fn(|i| ["x-a", "x-b", "x-c", "x-d", "x-e"][i % 5]);
        names[..count].iter().fold(say(), |request, name| request.with(name, &"v".repeat(3000)))
    };
    vec![("long-header-60k", with_fields(5), OK, ""), ("60 KB of header list", with_fields(20), "431 RST NO_ERROR", "")]
}

/// §3.6 "Header list too large", tri:166: up to the limit that SETTINGS name it is served; above, the request is refused
/// and the connection lives.
#[test]
fn a_header_list_above_the_limit_is_refused_and_the_connection_lives() {
    check(&sizes());
    let many = (0..200).fold(say(), |request, _| request.with("x-n", "v"));
    check(&[("200 fields", many, "431 RST NO_ERROR", "")]);
}

/// RFC 9113 §8.1: behind the head of a request nothing but trailers may come, which end it.
#[test]
fn a_second_head_in_a_request_costs_its_stream() {
    for (end, shape) in [(true, OK), (false, "RST PROTOCOL_ERROR")] {
        let mut wire = Wire::to_server(Config::default(), EchoService::new());
        wire.send(&[say().ends(End::Nowhere).frames(1), headers(1, &[("x-trailer", "1")], end)].concat());
        assert_eq!(wire.answer(1).shape(), shape, "END_STREAM: {end}");
        assert_eq!(is_alive(&mut wire, 3), None);
    }
}

fn codes() -> Vec<Row> {
    vec![
        ("grpc-code-17", say().of("Fail").body([&envelope(b"\x08\x11\x12\x03biz")]), "200 T 2", "biz"),
        ("grpc-code-5", say().of("Fail").body([&envelope(b"\x08\x05\x12\x03biz")]), "200 T 5", "biz"),
    ]
}

/// §3.1, tri:Q30: a code that no peer needs to know is not sent.
#[test]
fn a_code_beyond_the_registry_is_sent_as_unknown() {
    check(&codes());
}

/// tri:193 tri:Q79 tri:Q82: a reset of a stream that has ended is nothing.
#[test]
fn resets_after_the_end_are_ignored() {
    let mut wire = Wire::to_server(Config::default(), EchoService::new());
    for stream in (1..100).step_by(2) {
        wire.send(&say().frames(stream));
        wire.send(&[reset(stream, 2), reset(stream, 5)].concat());
        assert_eq!(wire.answer(stream).shape(), OK);
    }
    assert!(!wire.closed);
}

fn triple() -> Vec<Row> {
    let bare = || say().content_type("application/proto").without("te").body([HI]);
    let timeout = |value| bare().with("triple-timeout-ms", value);
    let gzipped = |body: &[u8]| bare().with("content-encoding", "gzip").body([body]);
    let fail = |marker: &'static str| bare().of("Fail").with(marker, "1").body([b"\x08\x0c\x12\x01m"]);
    let large = [&b"\x12\x81\x80\x80\x02"[..], &[0; 10]].concat();
    vec![
        ("triple-proto", bare(), "200", "echo:hi"),
        ("triple-proto-empty", bare().body([b""]), "200", ""),
        ("triple, ended by the head", bare().ends(End::OnHeaders), "200", ""),
        ("triple, parameter", bare().content_type("application/proto; charset=utf-8"), "200", "echo:hi"),
        ("triple, unknown path", bare().of("Nope"), "404", "unimplemented"),
        ("triple, stream method", bare().of("Expand"), "415", ""),
        ("triple, undecodable", bare().body([b"\x0a\xff"]), "400", "invalid_argument"),
        ("triple, cut", bare().body([&large]), "400", "invalid_argument"),
        ("triple, bad gzip", gzipped(b"notgzip"), "400", "invalid_argument"),
        ("triple, two members of gzip", gzipped(&[gzip(&HI[..2]), gzip(&HI[2..])].concat()), "200", "echo:hi"),
        ("triple, bomb", gzipped(&gzip(&bomb())), "429", "resource_exhausted"),
        ("triple, unknown encoding", bare().with("content-encoding", "zstd"), "404", "unimplemented"),
        ("triple, unknown version", bare().with("triple-protocol-version", "9.9"), "400", "invalid_argument"),
        ("triple, timeout 0", timeout("0"), "408", "deadline_exceeded"),
        ("triple, timeout abc", timeout("abc"), "400", "invalid_argument"),
        ("triple, timeout negative", timeout("-5"), "408", "deadline_exceeded"),
        ("triple, timeout of 11 digits", timeout("12345678901"), "400", "invalid_argument"),
        ("triple, code 12", fail("x-none"), "404", "unimplemented"),
        ("triple, code 12 to Connect", fail("connect-protocol-version"), "501", "unimplemented"),
        ("triple, code 17", bare().of("Fail").body([b"\x08\x11\x12\x03biz"]), "500", "unknown"),
        ("triple, wrong content-length", bare().with("content-length", "99"), "RST PROTOCOL_ERROR", ""),
    ]
}

/// §3.6 DO for Triple, §3.1, tri:116 to tri:119 tri:123 tri:124 tri:127 tri:129 tri:139: HTTP statuses, and JSON that
/// names the code.
#[test]
fn a_bare_body_is_refused_as_http_does_it() {
    check(&triple());
}
