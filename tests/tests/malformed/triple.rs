//! Responses with a bare body that our client has to understand, or to refuse: Triple's own dialect.

use std::fmt::Write as _;

use trirpc_core::call::Protocol;

use crate::client::{Client, REPLY, Step, owned};
use crate::wire::{bomb, gzip};

/// A row: its name, the response, and the beginning of the outcome, as [`Client::outcome`] tells it.
type Row = (&'static str, Vec<Step>, &'static str);

const PROTO: &str = "application/proto";
const JSON: &str = "application/json";

/// A whole response.
fn response(status: &str, content_type: &str, more: &[(&str, &str)], body: &[u8]) -> Vec<Step> {
    let mut fields = owned(&[(":status", status), ("content-type", content_type)]);
    fields.extend(owned(more));
    vec![Step::Head(fields, false), Step::Data(body.to_vec(), true)]
}

fn reply(more: &[(&str, &str)], body: &[u8]) -> Vec<Step> {
    response("200", PROTO, more, body)
}

fn error(status: &str, json: &str) -> Vec<Step> {
    response(status, JSON, &[], json.as_bytes())
}

/// A good call follows on the same connection.
#[track_caller]
fn check(rows: &[Row]) {
    let mut wrong = String::new();
    for (name, steps, expected) in rows {
        let mut client = Client::speaking(Protocol::Triple);
        let (stream, result) = client.say(steps);
        let outcome = client.outcome(stream, &result);
        if !outcome.starts_with(expected) {
            writeln!(wrong, "{name}: `{outcome}`, not `{expected}`").unwrap();
        }
        let (_, next) = client.say(&reply(&[], REPLY));
        if let Err(status) = next {
            writeln!(wrong, "{name}: the next call: {status:?}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// §3.3, tri:130 tri:132 tri:133 tri:134 tri:135 tri:184 tri:Q62: what each producer of errors means.
#[test]
fn an_error_in_json_is_read_whoever_wrote_it() {
    let detail = r#"{"code":"not_found","message":"m","details":[{"type":"t","value":"!!!"}]}"#;
    check(&[
        ("dubbo-go, Connect", error("404", r#"{"code":"not_found","message":"m"}"#), "5 m"),
        ("more fields", error("404", r#"{"x":[{}],"code":"not_found","message":"m","y":null}"#), "5 m"),
        ("code against HTTP", error("500", r#"{"code":"aborted","message":"m"}"#), "10 m"),
        ("dubbo-java", error("404", r#"{"message":"x","status":"404"}"#), "12 x"),
        ("dubbo-go, business error", error("500", r#"{"code":"code_17","message":"b"}"#), "17 b"),
        ("connect-es", error("500", r#"{"code":"17","message":"b"}"#), "17 b"),
        ("dubbo-js", error("500", r#"{"status":5,"message":"m"}"#), "5 m"),
        ("transcoded", error("500", r#"{"code":5,"message":"m","details":[]}"#), "5 m"),
        ("a Dubbo status", error("500", r#"{"status":60,"message":"m"}"#), "2 "),
        ("unknown code", error("404", r#"{"code":"nope","message":"m"}"#), "12 "),
        ("null code", error("503", r#"{"code":null,"message":"m"}"#), "14 "),
        ("no code", error("503", r#"{"message":"m"}"#), "14 "),
        ("bad detail", error("404", detail), "5 m"),
        ("cut", error("503", r#"{"code":"not_fo"#), "14 "),
        ("no object", error("503", "[]"), "14 "),
        ("nothing", error("503", ""), "14 "),
    ]);
}

/// §3.2 column of dubbo-go, tri:131.
#[test]
fn an_answer_of_plain_http_goes_by_the_status_map_of_triple() {
    let rows = [
        ("400", "3 "),
        ("401", "16 "),
        ("403", "7 "),
        ("404", "12 "),
        ("408", "4 "),
        ("409", "2 "),
        ("412", "9 "),
        ("413", "8 "),
        ("415", "2 "),
        ("429", "14 "),
        ("431", "8 "),
        ("500", "2 "),
        ("502", "14 "),
        ("503", "14 "),
        ("504", "14 "),
    ];
    check(&rows.map(|(status, expected)| (status, response(status, "text/html", &[], b"<p>no</p>"), expected)));
}

/// §3.6 for a bare body, tri:116 tri:186.
#[test]
fn a_bare_reply_is_the_message_or_an_error() {
    let gzipped = |body: &[u8]| reply(&[("content-encoding", "gzip")], body);
    let packed = gzip(REPLY);
    let bare_end = vec![Step::Head(owned(&[(":status", "200"), ("content-type", PROTO)]), true)];
    let split: Vec<Step> = [
        &reply(&[], b"")[..1],
        &REPLY.iter().map(|octet| Step::Data(vec![*octet], false)).collect::<Vec<_>>(),
        &[Step::Data(Vec::new(), true)],
    ]
    .concat();
    check(&[
        ("good", reply(&[], REPLY), "ok echo:hi"),
        ("content-length", reply(&[("content-length", "9")], REPLY), "ok echo:hi"),
        ("octet by octet", split, "ok echo:hi"),
        ("empty", reply(&[], b""), "ok "),
        ("ended by the head", bare_end, "ok "),
        ("gzip", gzipped(&packed), "ok echo:hi"),
        ("bad gzip", gzipped(b"notgzip"), "13 "),
        ("cut gzip", gzipped(&packed[..packed.len() - 4]), "13 "),
        ("bomb", gzipped(&gzip(&bomb())), "8 "),
        ("unknown encoding", reply(&[("content-encoding", "zstd")], REPLY), "13 "),
        ("undecodable", reply(&[], b"\x0a\xff"), "13 "),
        ("content-length too large", reply(&[("content-length", "99")], REPLY), "13 "),
        ("content-length above the limit", reply(&[("content-length", "99999999")], REPLY), "8 "),
        ("image", response("200", "image/jpeg", &[], REPLY), "2 "),
        ("other codec", response("200", JSON, &[], b"{}"), "13 "),
    ]);
}

/// §3.5: a reset is read by its code, in this dialect too.
#[test]
fn a_reset_of_a_bare_reply_is_read_by_its_code() {
    let cut = |code| vec![reply(&[], b"")[0].clone(), Step::Data(REPLY[..3].to_vec(), false), Step::Reset(code)];
    check(&[("CANCEL", cut(8), "1 "), ("INTERNAL_ERROR", cut(2), "13 "), ("ENHANCE_YOUR_CALM", cut(11), "8 ")]);
    let late = [reply(&[], REPLY), vec![Step::Reset(2)]].concat();
    check(&[("late", late, "ok echo:hi")]);
}
