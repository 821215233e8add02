//! Responses that our client has to understand, or to refuse.

use std::fmt::Write as _;

use smol::Task;
use trirpc::Status;
use trirpc::proto::StatusDetails;
use trirpc::proto::test_service::echo_client::EchoClient;
use trirpc::proto::test_service::{SayReply, SayRequest};
use trirpc_core::call::{Code, Origin, Protocol};
use trirpc_core::{Config, ErrorCode};
use trirpc_rpc::Channel;
use trirpc_tests::frames::{data, envelope, go_away, headers, reset};
use trirpc_tests::trace::Frame;

use crate::wire::{Wire, bomb, gzip};

/// What a hand-made server answers with.
#[derive(Clone)]
pub(crate) enum Step {
    /// HEADERS, with END_STREAM or without.
    Head(Vec<(String, String)>, bool),
    /// DATA, with END_STREAM or without.
    Data(Vec<u8>, bool),
    Reset(u32),
    GoAway(u32),
}

/// A row: its name, the response, and the outcome in the notation of [`outcome`].
type Row = (&'static str, Vec<Step>, &'static str);

type Fields<'a> = &'a [(&'a str, &'a str)];

const GRPC: &str = "application/grpc+proto";

/// `SayReply { text: "echo:hi" }`.
pub(crate) const REPLY: &[u8] = b"\x0a\x07echo:hi";

pub(crate) fn owned(fields: Fields<'_>) -> Vec<(String, String)> {
    fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A head, with the fields `more` behind status and content type.
fn head_of(status: &str, content_type: &str, more: Fields<'_>) -> Vec<(String, String)> {
    let mut fields = owned(&[(":status", status), ("content-type", content_type)]);
    fields.extend(owned(more));
    fields
}

fn head(more: Fields<'_>) -> Step {
    Step::Head(head_of("200", GRPC, more), false)
}

/// All of a response in its head.
fn only(status: &str, more: Fields<'_>) -> Vec<Step> {
    vec![Step::Head(head_of(status, "application/grpc", more), true)]
}

fn trailers(fields: Fields<'_>) -> Step {
    Step::Head(owned(fields), true)
}

fn message(message: &[u8]) -> Step {
    Step::Data(envelope(message), false)
}

/// A message under these flags.
fn flagged(flags: u8, message: &[u8]) -> Step {
    let mut octets = envelope(message);
    octets[0] = flags;
    Step::Data(octets, false)
}

/// A good head, this body, and success.
fn body(steps: &[Step]) -> Vec<Step> {
    [&[head(&[])], steps, &[trailers(&[("grpc-status", "0")])]].concat()
}

fn good() -> Vec<Step> {
    body(&[message(REPLY)])
}

/// Trailers-only with 5 and this message.
fn not_found(message: &str) -> Vec<Step> {
    only("200", &[("grpc-status", "5"), ("grpc-message", message)])
}

pub(crate) fn frames(steps: &[Step], stream: u32) -> Vec<u8> {
    let frame = |step: &Step| match step {
        Step::Head(fields, end) => {
            let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
            headers(stream, &fields, *end)
        }
        Step::Data(payload, end) => data(stream, payload, *end),
        Step::Reset(code) => reset(stream, *code),
        Step::GoAway(last) => go_away(*last, 0),
    };
    steps.iter().flat_map(frame).collect()
}

/// Our client, and the hand-made server opposite it.
pub(crate) struct Client {
    wire: Wire,
    echo: EchoClient<Channel>,
    /// Stream of the next call.
    next: u32,
}

impl Client {
    fn new() -> Self {
        Self::speaking(Protocol::Grpc)
    }

    pub(crate) fn speaking(protocol: Protocol) -> Self {
        let (wire, channel) = Wire::to_client(Config::default());
        Self { wire, echo: EchoClient::new(channel.protocol(protocol)), next: 1 }
    }

    /// Calls `Say`; the server answers with `steps` once the request is complete, and again if it is repeated.
    pub(crate) fn say(&mut self, steps: &[Step]) -> (u32, Result<SayReply, Status>) {
        let call = self.echo.say(SayRequest { text: "hi".into(), ..SayRequest::default() });
        let call: Task<_> = self.wire.tasks.spawn(async move { call.await });
        self.wire.settle();
        let stream = self.next;
        for _ in 0..10 {
            let is_sent = |frame: &Frame| matches!(frame, Frame::Data { end: true, .. });
            if !self.wire.heard().any(|entry| entry.stream == self.next && is_sent(&entry.frame)) {
                break;
            }
            self.wire.send(&frames(steps, self.next));
            self.next += 2;
        }
        assert!(call.is_finished(), "the call goes on\n{}", self.wire.shown());
        (stream, smol::block_on(call))
    }

    /// `ok TEXT` or `CODE MESSAGE`, and the codes of the RST_STREAM that our client sent for it.
    pub(crate) fn outcome(&self, stream: u32, result: &Result<SayReply, Status>) -> String {
        let mut outcome = match result {
            Ok(reply) => format!("ok {}", reply.text),
            Err(status) => format!("{} {}", status.raw_code(), status.message()),
        };
        for entry in self.wire.heard().filter(|entry| entry.stream == stream) {
            if let Frame::Reset(code) = entry.frame {
                write!(outcome, " RST {:?}", ErrorCode(code)).unwrap();
            }
        }
        outcome
    }
}

/// Answers a call with each response, on a connection of its own; a good call on the same connection follows.
#[track_caller]
fn check(rows: &[Row]) {
    judge(&named(rows));
}

/// A row whose texts were put together.
pub(crate) type Outcome = (String, Vec<Step>, String);

fn named(rows: &[Row]) -> Vec<Outcome> {
    rows.iter().map(|(name, steps, told)| ((*name).to_owned(), steps.clone(), (*told).to_owned())).collect()
}

/// Every row there is.
pub(crate) fn rows() -> Vec<Outcome> {
    let groups = [
        shapes(),
        content_types(),
        endings(),
        numbers(),
        texts(),
        cardinality(),
        early(),
        bodies(),
        malformed(),
        closing(),
    ];
    [named(&groups.concat()), late_resets(), resets(), plain_http()].concat()
}

#[track_caller]
fn judge(rows: &[Outcome]) {
    let mut wrong = String::new();
    for (name, steps, expected) in rows {
        let mut client = Client::new();
        let (stream, result) = client.say(steps);
        let outcome = client.outcome(stream, &result);
        if outcome != *expected {
            writeln!(wrong, "{name}: `{outcome}`, not `{expected}`").unwrap();
        }
        if let Err(status) = &result {
            if status.origin() != Origin::Peer && status.code() != Code::ResourceExhausted {
                writeln!(wrong, "{name}: {:?} is at fault, with {:?}", status.origin(), status.code()).unwrap();
            }
        }
        if !steps.iter().any(|step| matches!(step, Step::GoAway(_))) {
            let (_, next) = client.say(&good());
            if next.is_err() || client.wire.closed {
                writeln!(wrong, "{name}: the next call gave {next:?}\n{}", client.wire.shown()).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn shapes() -> Vec<Row> {
    let five = [("grpc-status", "5"), ("grpc-message", "five")];
    vec![
        ("ok", good(), "ok echo:hi"),
        ("trailers-only-5", only("200", &five), "5 five"),
        ("headers-trailers-5", vec![head(&[]), trailers(&five)], "5 five"),
        ("behind a message", vec![head(&[]), message(REPLY), trailers(&five)], "5 five"),
        ("404-with-status-12", only("404", &[("grpc-status", "12"), ("grpc-message", "not here")]), "12 not here"),
        ("500-with-status-5", only("500", &five), "5 five"),
        ("under 408", only("408", &[("grpc-status", "2"), ("grpc-message", "late")]), "2 late"),
        (
            "status-0-message",
            vec![head(&[]), message(REPLY), trailers(&[("grpc-status", "0"), ("grpc-message", "fine")])],
            "ok echo:hi",
        ),
    ]
}

/// §1.2 "Error shapes", tri:76 tri:77 tri:78 tri:178 tri:Q16 tri:Q17 tri:Q52: a status is a status wherever it stands.
#[test]
fn a_status_is_read_in_each_shape_that_servers_send() {
    check(&shapes());
}

fn content_types() -> Vec<Row> {
    let with = |content_type| {
        let mut steps = good();
        steps[0] = Step::Head(head_of("200", content_type, &[]), false);
        steps
    };
    let mut without = good();
    without[0] = Step::Head(owned(&[(":status", "200")]), false);
    let mut java = good();
    java[0] = Step::Head(owned(&[(":status", "200"), ("te", "trailers"), ("content-type", "application/grpc")]), false);
    vec![
        ("content-type-image", with("image/jpeg"), "2 HTTP status 200 with content-type `image/jpeg` RST CANCEL"),
        (
            "content-type-grpc-json",
            with("application/grpc+json"),
            "13 response in codec `json` to a request in `proto` RST CANCEL",
        ),
        ("content-type-bare", with("application/grpc"), "ok echo:hi"),
        ("parameter", with("application/grpc; charset=utf-8"), "ok echo:hi"),
        ("content-type-none", without, "ok echo:hi"),
        ("te-in-response", java, "ok echo:hi"),
    ]
}

/// §3.6 "Response content-type", tri:80 tri:81 tri:82 tri:179 tri:Q20.
#[test]
fn the_content_type_must_fit_unless_there_is_none() {
    check(&content_types());
}

fn endings() -> Vec<Row> {
    let other = trailers(&[("x-other", "1")]);
    vec![
        ("no-status", vec![head(&[]), message(REPLY), other], "2 the response has no status"),
        ("empty trailers", vec![head(&[]), message(REPLY), trailers(&[])], "2 the response has no status"),
        ("end-on-data", vec![head(&[]), Step::Data(envelope(REPLY), true)], "13 the response ended without a status"),
        (
            "end-on-empty-data",
            vec![head(&[]), message(REPLY), Step::Data(vec![], true)],
            "13 the response ended without a status",
        ),
        ("head alone", only("200", &[]), "2 the response has no status"),
    ]
}

/// §3.6 "No grpc-status in trailers", "Body ends with END_STREAM on DATA", tri:83 tri:84 tri:Q8 tri:Q45.
#[test]
fn a_response_without_a_status_is_no_success() {
    check(&endings());
}

fn numbers() -> Vec<Row> {
    let status = |value| only("200", &[("grpc-status", value), ("grpc-message", "m")]);
    vec![
        ("status-17", status("17"), "17 m"),
        ("status-99", status("99"), "99 m"),
        ("status-abc", status("abc"), "2 m"),
        ("empty", status(""), "2 m"),
        ("-1", status("-1"), "2 m"),
        ("2^32", status("4294967296"), "2 m"),
        ("05", status("05"), "5 m"),
    ]
}

/// §3.4 "grpc-status grammar", tri:85 tri:86 tri:Q30: any number is a code, anything else is unknown.
#[test]
fn any_number_is_a_code_and_anything_else_is_unknown() {
    check(&numbers());
    let (_, result) = Client::new().say(&only("200", &[("grpc-status", "17")]));
    assert_eq!(result.unwrap_err().code(), Code::Unknown);
}

fn texts() -> Vec<Row> {
    vec![
        ("escapes", not_found("100%25 na%C3%AFve%0A"), "5 100% naïve\n"),
        ("message-bad-escape", not_found("a%2 %zz %41"), "5 a%2 %zz A"),
        ("raw UTF-8", not_found("naïve"), "5 naïve"),
        ("message-plus", not_found("a+b"), "5 a+b"),
        ("message-newline", not_found("a\nb"), "5 a b"),
        ("carriage return and line feed", not_found("a\r\nb"), "5 a  b"),
        ("line feed at the end", not_found("a\n"), "5 a"),
    ]
}

/// §3.4 "grpc-message decode", tri:88 tri:89 tri:90 tri:180 tri:Q15 tri:Q18 tri:Q46: a message never costs the status.
#[test]
fn a_message_is_read_as_far_as_it_goes() {
    check(&texts());
}

/// §3.4 "Details vs status", tri:91 tri:92 tri:93 tri:Q43: details are kept if they belong to the status, and the
/// status stands in any case.
#[test]
fn details_never_change_the_status() {
    // google.rpc.Status { code: 5, message: "detail", details: [Any { type_url: "t/u" }] }
    const FIVE: &str = "CAUSBmRldGFpbBoFCgN0L3U";
    for (name, code, blob, details) in [
        ("unpadded", "5", FIVE, Some(1)),
        ("padded", "5", &format!("{FIVE}="), Some(1)),
        ("of another code", "7", FIVE, None),
        ("no base64", "5", "!!!", None),
    ] {
        let fields = [("grpc-status", code), ("grpc-message", "m"), ("grpc-status-details-bin", blob)];
        let (_, result) = Client::new().say(&only("200", &fields));
        let status = result.unwrap_err();
        assert_eq!((status.raw_code().to_string().as_str(), status.message()), (code, "m"), "{name}");
        let found = status.rpc_status().expect(name).map(|whole| whole.details.len());
        assert_eq!(found, details, "{name}");
    }
    let fields = [("grpc-status", "5"), ("grpc-message", "m"), ("grpc-status-details-bin", "////")];
    let status = Client::new().say(&only("200", &fields)).1.unwrap_err();
    assert_eq!((status.raw_code(), status.message()), (5, "m"), "no protobuf");
    assert!(status.rpc_status().is_err());
}

fn cardinality() -> Vec<Row> {
    let two = [envelope(REPLY), envelope(REPLY)].concat();
    vec![
        ("no-message", body(&[]), "12 no message in a response of one"),
        ("no-message-trailers-only-0", only("200", &[("grpc-status", "0")]), "12 no message in a response of one"),
        ("two-messages", body(&[Step::Data(two, false)]), "12 more than one message in a response of one RST CANCEL"),
        (
            "two in two frames",
            body(&[message(REPLY), message(REPLY)]),
            "12 more than one message in a response of one RST CANCEL",
        ),
        ("none with a status", vec![head(&[]), trailers(&[("grpc-status", "5"), ("grpc-message", "m")])], "5 m"),
    ]
}

/// §3.6 "Unary response: 0 messages", "2 messages", "0 messages + status ≠ 0", tri:94 tri:95.
#[test]
fn the_wrong_number_of_replies_is_unimplemented() {
    check(&cardinality());
}

fn early() -> Vec<Row> {
    let early = || head(&[("grpc-status", "9"), ("grpc-message", "nine")]);
    let zero = || trailers(&[("grpc-status", "0")]);
    vec![
        ("header-status-9-then-body", vec![early(), message(REPLY), zero()], "ok echo:hi"),
        ("header-status-9-then-status-0", vec![early(), zero()], "12 no message in a response of one"),
        ("nothing", vec![early(), Step::Data(vec![], true)], "9 nine"),
        ("message alone", vec![early(), Step::Data(envelope(REPLY), true)], "13 the response ended without a status"),
    ]
}

/// §3.6 "grpc-status in headers", tri:96: it counts only where nothing follows.
#[test]
fn a_status_in_the_head_counts_only_if_nothing_follows() {
    check(&early());
}

fn bodies() -> Vec<Row> {
    let reply = envelope(REPLY);
    let mut zstd = body(&[flagged(1, b"xx")]);
    zstd[0] = head(&[("grpc-encoding", "zstd")]);
    let mut unused = good();
    unused[0] = head(&[("grpc-encoding", "zstd")]);
    let mut identity = good();
    identity[0] = head(&[("grpc-encoding", "identity")]);
    let unknown = "13 response in the encoding `zstd`, which was not offered RST CANCEL";
    let single: Vec<Step> = reply.chunks(1).map(|octet| Step::Data(octet.to_vec(), false)).collect();
    vec![
        ("unknown-encoding", zstd, unknown),
        ("unknown encoding, not used", unused, unknown),
        ("identity", identity, "ok echo:hi"),
        (
            "flag-1-no-encoding",
            body(&[flagged(1, REPLY)]),
            "13 compressed message without an announced encoding RST CANCEL",
        ),
        ("flag-2", body(&[flagged(2, REPLY)]), "13 message with unknown flags 0x02 RST CANCEL"),
        ("flag-0x80", body(&[flagged(0x80, b"grpc-status: 0\r\n")]), "13 message with unknown flags 0x80 RST CANCEL"),
        ("cut-prefix", body(&[Step::Data(vec![0, 0], false)]), "13 the response ended inside a message"),
        ("cut-body", body(&[Step::Data(reply[..10].to_vec(), false)]), "13 the response ended inside a message"),
        (
            "length-over-limit",
            body(&[Step::Data(b"\0\x10\0\0\0abc".to_vec(), false)]),
            "8 received message of 268435456 bytes exceeds max_recv_message of 4194304 bytes RST CANCEL",
        ),
        ("octet by octet", body(&single), "ok echo:hi"),
    ]
}

/// §3.6 the rows on flags, truncation and size, tri:7 to tri:13 tri:99 tri:100 tri:110 tri:Q22 tri:Q73.
#[test]
fn a_body_that_is_no_message_is_internal_and_one_too_large_is_resource_exhausted() {
    check(&bodies());
    let (_, result) = Client::new().say(&body(&[message(b"\x0a\xff")]));
    assert_eq!(result.unwrap_err().code(), Code::Internal, "undecodable");
}

/// §3.6 "Decompress failure", "Zero-length payload with flag 1", "Decompressed size > limit", §4, tri:6 tri:14 tri:15
/// tri:16 tri:172 tri:Q63 tri:Q68.
#[test]
fn a_reply_that_does_not_inflate_is_internal_and_one_that_inflates_too_far_is_resource_exhausted() {
    let reply = |flags, message: &[u8]| {
        let mut steps = body(&[flagged(flags, message)]);
        steps[0] = head(&[("grpc-encoding", "gzip")]);
        steps
    };
    let packed = gzip(REPLY);
    check(&[
        ("good", reply(1, &packed), "ok echo:hi"),
        ("not compressed", reply(0, REPLY), "ok echo:hi"),
        ("two members", reply(1, &[gzip(&REPLY[..3]), gzip(&REPLY[3..])].concat()), "ok echo:hi"),
        ("nothing", reply(1, b""), "ok "),
        ("nothing in gzip", reply(1, &gzip(b"")), "ok "),
    ]);
    for (name, message, code) in [
        ("no gzip", b"notgzip".to_vec(), Code::Internal),
        ("cut", packed[..packed.len() - 4].to_vec(), Code::Internal),
        ("more behind it", [&packed[..], b"zzz"].concat(), Code::Internal),
        ("bomb", gzip(&bomb()), Code::ResourceExhausted),
    ] {
        let mut client = Client::new();
        let (_, result) = client.say(&reply(1, &message));
        assert_eq!(result.unwrap_err().code(), code, "{name}");
        assert!(client.say(&good()).1.is_ok(), "{name}: the next call");
    }
}

fn malformed() -> Vec<Row> {
    let with = |name, value| {
        let mut steps = good();
        steps[0] = head(&[(name, value)]);
        steps
    };
    let long = "v".repeat(3000);
    let many: Vec<(&str, &str)> = (0..20).map(|_| ("x-long", long.as_str())).collect();
    let mut large = good();
    large[0] = head(&many);
    let mut second = good();
    second.insert(1, Step::Head(owned(&[("x-more", "1")]), false));
    let malformed = "13 the response is malformed: PROTOCOL_ERROR RST PROTOCOL_ERROR";
    vec![
        ("second-headers", second, malformed),
        ("upper-case-name", with("X-Upper", "1"), malformed),
        ("line feed", with("x-nl", "a\nb"), malformed),
        ("connection", with("connection", "close"), malformed),
        ("content-length", with("content-length", "99"), malformed),
        ("no :status", vec![Step::Head(owned(&[("content-type", GRPC)]), false)], malformed),
        ("data before the head", vec![message(REPLY)], malformed),
        (
            "60 KB of head",
            large,
            "8 the response exceeds max_header_list of 32768 bytes, max_headers of 128, or max_reserved of 16777216 bytes \
             RST ENHANCE_YOUR_CALM",
        ),
    ]
}

/// §3.6 "Second HEADERS without END_STREAM", "Upper-case header name, or LF", "Header list too large", tri:165 tri:182:
/// one stream is reset, and the call fails for it.
#[test]
fn a_malformed_response_costs_its_stream_alone() {
    check(&malformed());
}

/// A code of RST_STREAM, the code of the call, and its name.
const RESETS: [(u32, u32, &str); 15] = [
    (0, 13, "NO_ERROR"),
    (1, 13, "PROTOCOL_ERROR"),
    (2, 13, "INTERNAL_ERROR"),
    (3, 13, "FLOW_CONTROL_ERROR"),
    (4, 13, "SETTINGS_TIMEOUT"),
    (5, 13, "STREAM_CLOSED"),
    (6, 13, "FRAME_SIZE_ERROR"),
    (7, 14, "REFUSED_STREAM"),
    (8, 1, "CANCEL"),
    (9, 13, "COMPRESSION_ERROR"),
    (10, 13, "CONNECT_ERROR"),
    (11, 8, "ENHANCE_YOUR_CALM"),
    (12, 7, "INADEQUATE_SECURITY"),
    (13, 13, "HTTP_1_1_REQUIRED"),
    (404, 2, "0x194"),
];

/// A response that is reset before it is complete.
fn resets() -> Vec<Outcome> {
    let reset = |(code, expected, name): (u32, u32, &str)| {
        let steps = [vec![Step::Reset(code)], vec![head(&[]), message(REPLY), Step::Reset(code)]];
        let names = match (code, name) {
            (404, _) => ["rst-code-404".to_owned(), "404 behind a message".to_owned()],
            (8, _) => ["rst-CANCEL".to_owned(), "rst-after-headers-CANCEL".to_owned()],
            (_, name) => [format!("rst-{name}"), format!("{name} behind a message")],
        };
        let told = format!("{expected} stream reset: {}", ErrorCode(code));
        names.into_iter().zip(steps).map(move |(name, steps)| (name, steps, told.clone()))
    };
    RESETS.into_iter().flat_map(reset).collect()
}

/// A response that is reset, once or twice, when it is complete.
fn late_resets() -> Vec<Outcome> {
    let late = |(code, _, name): (u32, u32, &'static str)| {
        (1..=2).map(move |resets| {
            let steps = [good(), vec![Step::Reset(code); resets]].concat();
            let name = if resets == 1 { format!("rst-{name}-after-trailers") } else { format!("{name} twice, late") };
            (name, steps, "ok echo:hi".to_owned())
        })
    };
    RESETS.into_iter().flat_map(late).collect()
}

/// §3.5, tri:44 tri:101 tri:102 tri:103 tri:Q21 tri:Q44 tri:Q65: what each code says, and that none says anything
/// behind a complete response.
#[test]
fn a_reset_is_read_by_its_code_unless_the_response_is_complete() {
    judge(&resets());
    judge(&late_resets());
    let mut client = Client::new();
    let refused = client.say(&[Step::Reset(7)]).1.unwrap_err();
    assert!(refused.is_unprocessed());
}

fn closing() -> Vec<Row> {
    vec![("goaway-last-0", vec![Step::GoAway(0)], "14 the peer closed the connection")]
}

/// §3.5, tri:109: a stream above the last one that the peer took was not processed.
#[test]
fn a_stream_above_the_last_of_goaway_is_unavailable_and_unprocessed() {
    let mut client = Client::new();
    let (_, result) = client.say(&[Step::GoAway(0)]);
    let status = result.unwrap_err();
    assert_eq!((status.raw_code(), status.is_unprocessed()), (14, true), "{status:?}");
}

/// An HTTP status, and the code that it stands for.
const HTTP: [(u32, u32); 18] = [
    (400, 13),
    (401, 16),
    (403, 7),
    (404, 12),
    (408, 2),
    (409, 2),
    (412, 2),
    (413, 2),
    (415, 2),
    (418, 2),
    (429, 14),
    (431, 13),
    (500, 2),
    (502, 14),
    (503, 14),
    (504, 14),
    (505, 2),
    (800, 2),
];

fn plain_http() -> Vec<Outcome> {
    let plain = |(http, code): (u32, u32)| {
        let head = Step::Head(head_of(&http.to_string(), "text/html", &[]), false);
        let text = Step::Data(b"<p>no</p>".to_vec(), true);
        let told = format!("{code} HTTP status {http} with content-type `text/html`: <p>no</p>");
        let bare = Step::Head(owned(&[(":status", &http.to_string())]), true);
        [
            (format!("http-{http}"), vec![head, text], told),
            (format!("{http} alone"), vec![bare], format!("{code} HTTP status {http}")),
        ]
    };
    HTTP.into_iter().flat_map(plain).collect()
}

/// §3.2 gRPC column, tri:79 tri:182 tri:Q7 tri:Q40: an answer that is not gRPC goes by its HTTP status.
#[test]
fn an_answer_of_plain_http_goes_by_its_status() {
    judge(&plain_http());
    // 1xx is not the end of anything.
    let mut informed = good();
    informed.insert(0, Step::Head(owned(&[(":status", "103")]), false));
    check(&[("103 first", informed, "ok echo:hi")]);
}
