//! Recorded traffic of other implementations, replayed: their clients to our server, their servers to our client. What
//! we make of the bytes must be what the text beside each recording shows, which another decoder wrote.
//!
//! The recordings of `golden/` are part of this project. The folder that `TRIRPC_TRANSCRIPTS` names, or else
//! `../shared/transcripts` beside the project, has more of the same; where it is missing, one line says so.

mod recording;
mod replay;
mod told;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use recording::Connection;
use replay::{Call, Seen, kind};
use told::{Exchange, Exchanges, Fields, Half, Value, find};
use trirpc_core::call::{CallKind, Protocol};
use trirpc_tests::sources::root;

/// Folders and, with a star, beginnings of names: all that is gRPC over HTTP/2.
const GRPC: &[&str] = &[
    "dubbo-go/*",
    "grpc-go/*",
    "grpcio/*",
    "grpc-js/*",
    "dubbo-java/java-java/*",
    "dubbo-java/java-to-go/*",
    "dubbo-java/go-to-java/*",
    "connect-go/grpc-*",
    "connect-go/dubbo-go-client*",
    "connect-node/grpc/*",
];

/// All that has unary calls with bare bodies over HTTP/2.
const BARE: &[&str] = &["dubbo-go/triple-h2-*", "connect-node/connect-h2/*", "dubbo-js/h2/*"];

/// Recordings in these folders that are other protocols.
const NOT_GRPC: &[&str] = &["dubbo-go/triple-", "dubbo-go/connect-go-client"];

/// Recordings of these names under `folder`, without their extensions.
fn recordings(folder: &Path, patterns: &[&str], except: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for pattern in patterns {
        let (parent, start) = pattern.trim_end_matches('*').rsplit_once('/').expect("a folder");
        let Ok(entries) = fs::read_dir(folder.join(parent)) else { continue };
        for entry in entries {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some(name) = name.strip_suffix(".txt").filter(|name| name.starts_with(start)) else { continue };
            if !except.iter().any(|except| format!("{parent}/{name}").starts_with(except)) {
                found.push(folder.join(parent).join(name));
            }
        }
    }
    found.sort();
    found
}

/// The project's own recordings, and all others that are at hand.
fn folders() -> Vec<PathBuf> {
    let mut folders = vec![root().join("tests/golden")];
    let more = env::var_os("TRIRPC_TRANSCRIPTS").map_or_else(|| root().join("../shared/transcripts"), PathBuf::from);
    if more.is_dir() {
        folders.push(more);
    } else {
        println!("transcripts: only those of the project; {} is no folder (set TRIRPC_TRANSCRIPTS)", more.display());
    }
    folders
}

/// Runs `compare` on each connection of each recording, and collects what it finds.
fn each(
    patterns: &[&str],
    except: &[&str],
    least: usize,
    mut compare: impl FnMut(&Connection, &Exchanges) -> Vec<String>,
) {
    let mut wrong = Vec::new();
    for folder in folders() {
        let names = recordings(&folder, patterns, except);
        assert!(names.len() >= least, "{} recordings in {}", names.len(), folder.display());
        let mut calls = 0;
        for name in &names {
            let (connections, told) = (recording::load(name), told::parse(&recording::text(name)));
            assert_eq!(connections.len(), told.len(), "{}", name.display());
            for (connection, exchanges) in connections.iter().zip(&told) {
                calls += exchanges.len();
                let short = name.strip_prefix(&folder).unwrap_or(name).display();
                wrong.extend(compare(connection, exchanges).into_iter().map(|fault| format!("{short}: {fault}")));
            }
        }
        println!("transcripts: {} recordings with {calls} calls from {}", names.len(), folder.display());
    }
    assert!(wrong.is_empty(), "{} faults\n{}", wrong.len(), wrong.join("\n"));
}

/// bg:B6, tri:1 tri:21 tri:53 tri:171 tri:175 tri:194: nine clients, read as the text has them.
#[test]
fn our_server_sees_the_calls_that_recorded_clients_made() {
    each(GRPC, NOT_GRPC, 40, |connection, exchanges| {
        let seen = replay::to_server(connection);
        let readable: Vec<_> = exchanges.values().filter(|told| !has_raw_binary(&told.request)).collect();
        if seen.len() != readable.len() {
            return vec![format!("{} calls, not {}", seen.len(), readable.len())];
        }
        let pairs = readable.into_iter().zip(&seen);
        pairs.flat_map(|(told, seen)| requested(&told.request, seen)).collect()
    });
}

/// bg:B6, tri:76 to tri:103, tri:Q16 to tri:Q20 tri:Q38 tri:Q44 tri:Q65 tri:Q79: seven servers, read as the text has
/// them.
#[test]
fn our_client_sees_the_results_that_recorded_servers_gave() {
    each(GRPC, NOT_GRPC, 40, |connection, exchanges| {
        let call = |(stream, told): (&u32, &Exchange)| Call {
            stream: *stream,
            path: told.request.head(":path").expect("a path").text().to_owned(),
            codec: if codec(&told.request) == "json" { "json" } else { "proto" },
            protocol: Protocol::Grpc,
        };
        let calls: Vec<Call> = exchanges.iter().map(call).collect();
        let seen = replay::to_client(connection, &calls);
        let pairs = exchanges.values().zip(&seen).zip(&calls);
        pairs.flat_map(|((told, seen), call)| responded(told, seen, &call.path)).collect()
    });
}

/// grpcio sends binary values as they are, behind an octet of zero, to peers that announce setting 65027. Ours do not;
/// to them such a field is malformed, and costs its stream.
fn has_raw_binary(half: &Half) -> bool {
    let is_raw = |(name, value): &(String, Value)| name.ends_with("-bin") && value.shown.starts_with(&[0]);
    half.blocks.iter().any(|(fields, _)| fields.iter().any(is_raw))
}

/// tri:114 to tri:118, tri:122 tri:125 tri:126 tri:130 tri:184: unary calls with bare bodies by the names of three
/// dialects, good and failed, with metadata and details. Streams of Connect are not calls to our server; on our client
/// gRPC calls take their place, of which nothing is said.
#[test]
fn recorded_calls_with_bare_bodies_are_seen_by_both_of_our_sides() {
    each(BARE, &[], 3, |connection, exchanges| {
        let is_bare = |told: &Exchange| dialect(&told.request) != Protocol::Grpc;
        let mut faults = Vec::new();
        let seen = replay::to_server(connection);
        let told: Vec<_> = exchanges.values().filter(|told| is_bare(told)).collect();
        faults.extend((seen.len() != told.len()).then(|| format!("{} calls, not {}", seen.len(), told.len())));
        for (told, seen) in told.into_iter().zip(&seen) {
            faults.extend(requested(&told.request, seen));
        }
        let call = |(stream, told): (&u32, &Exchange)| Call {
            stream: *stream,
            path: told.request.head(":path").expect("a path").text().to_owned(),
            codec: "proto",
            protocol: dialect(&told.request),
        };
        let calls: Vec<Call> = exchanges.iter().map(call).collect();
        for (told, seen) in exchanges.values().zip(&replay::to_client(connection, &calls)) {
            if is_bare(told) {
                faults.extend(answered_bare(&told.response, seen));
            }
        }
        faults
    });
}

/// What our client saw otherwise in a response with a bare body.
fn answered_bare(told: &Half, seen: &Seen) -> Vec<String> {
    let status = seen.status.as_ref().expect("a status");
    if content_type(told) == "application/json" {
        let error: serde_json::Value = serde_json::from_slice(&told.body).expect("JSON");
        // dubbo-js has the number alone, under another name.
        let is_named = error["code"] == status.code().name().to_ascii_lowercase();
        let is_same = (is_named || error["status"] == status.raw_code()) && error["message"] == status.message();
        let detail = error["details"][0]["value"].as_str().map(base64).unwrap_or_default();
        let is_same = is_same && status.details().ends_with(&detail) && seen.messages.is_empty();
        let is_same = is_same && status.details().is_empty() == detail.is_empty();
        return if is_same { Vec::new() } else { vec![format!("{status:?}, not {error}")] };
    }
    let (trailers, head): (Fields, Fields) =
        told.blocks[0].0.iter().cloned().partition(|(name, _)| name.starts_with("trailer-"));
    let trailers = trailers.into_iter().map(|(name, value)| (name["trailer-".len()..].to_owned(), value)).collect();
    let mut faults = same_body(seen, told);
    faults.extend((!status.is_ok()).then(|| format!("{status:?}")));
    faults.extend(same_fields("head", &seen.metadata, &head));
    faults.extend(same_fields("trailers", &replay::lines(status.metadata()), &trailers));
    faults
}

/// What our server saw otherwise.
fn requested(told: &Half, seen: &Seen) -> Vec<String> {
    let mut faults = Vec::new();
    let text = |name: &str| told.head(name).map(|value| value.text().to_owned()).unwrap_or_default();
    let path = text(":path");
    let mut expect = |what: &str, seen: &dyn std::fmt::Debug, told: &dyn std::fmt::Debug| {
        let (seen, told) = (format!("{seen:?}"), format!("{told:?}"));
        if seen != told {
            faults.push(format!("{path}: {what} {seen}, not {told}"));
        }
    };
    expect("path", &seen.path, &path.split('?').next().unwrap_or_default());
    expect("authority", &seen.authority, &text(":authority"));
    expect("codec", &seen.codec, &codec(told));
    let millis = |value: &Value| Duration::from_millis(value.text().parse().expect("a number"));
    let timeout = told.head("grpc-timeout").map(|value| duration(value.text()));
    let bare = ["triple-timeout-ms", "connect-timeout-ms", "tri-service-timeout"];
    let bare = bare.into_iter().find_map(|name| told.head(name)).map(millis);
    expect("timeout", &seen.timeout, &timeout.or(bare));
    expect("protocol", &seen.protocol, &Some(dialect(told)));
    let is_bare = dialect(told) != Protocol::Grpc;
    expect("end", &(seen.ended && !seen.reset), &(told.ended() && !seen.reset));
    expect("reset", &seen.reset, &told.reset.is_some());
    faults.extend(same_fields("metadata", &seen.metadata, &told.blocks[0].0));
    faults.extend(if is_bare { same_body(seen, told) } else { same_messages(seen, told) });
    faults
}

/// Which protocol a request is in; streams of Connect, which ours do not speak, pass for gRPC.
fn dialect(request: &Half) -> Protocol {
    match content_type(request) {
        "application/proto" if request.head("connect-protocol-version").is_some() => Protocol::Connect,
        "application/proto" => Protocol::Triple,
        _ => Protocol::Grpc,
    }
}

fn content_type(half: &Half) -> &str {
    half.head("content-type").map(Value::text).unwrap_or_default()
}

/// What the content type of a request names.
fn codec(request: &Half) -> &str {
    content_type(request).split_once('+').map_or("proto", |(_, codec)| codec)
}

/// What our client saw otherwise.
fn responded(exchange: &Exchange, seen: &Seen, path: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let told = &exchange.response;
    let expected = outcome(told, kind(path));
    let status = seen.status.as_ref();
    match (&expected, status) {
        (None, None) => {}
        (Some(expected), Some(status)) => {
            if status.raw_code() != expected.code {
                faults.push(format!("{status:?}, not {}", expected.code));
            }
            if expected.message.as_ref().is_some_and(|message| status.message() != message) {
                faults.push(format!("the message {:?}, not {:?}", status.message(), expected.message));
            }
            // A long value is shown by its beginning.
            let is_same = status.details().starts_with(&expected.details)
                && status.details().is_empty() == expected.details.is_empty();
            if !is_same {
                faults.push(format!("details {:?}, not {:?}", status.details(), expected.details));
            }
            if let Some(trailers) = expected.trailers {
                faults.extend(same_fields("trailers", &replay::lines(status.metadata()), trailers));
            }
        }
        (expected, status) => faults.push(format!("{status:?}, not {expected:?}")),
    }
    let is_trailers_only = told.blocks.first().is_some_and(|(_, end)| *end);
    let is_rpc = content_type(told).starts_with("application/grpc");
    let is_known = (kind(path) != CallKind::Unary || status.is_some()) && !has_raw_binary(told);
    if let Some((head, _)) = told.blocks.first().filter(|_| !is_trailers_only && is_rpc && is_known) {
        faults.extend(same_fields("head", &seen.metadata, head));
    }
    // The message of a single response counts with success alone.
    if !kind(path).is_single_response() || expected.as_ref().is_some_and(|expected| expected.code == 0) {
        faults.extend(same_messages(seen, told));
    } else if !seen.messages.is_empty() {
        faults.push(format!("{} messages without success", seen.messages.len()));
    }
    faults.into_iter().map(|fault| format!("{path}: {fault}")).collect()
}

fn same_messages(seen: &Seen, told: &Half) -> Vec<String> {
    if seen.messages.len() != told.messages.len() {
        return vec![format!("{} messages, not {}", seen.messages.len(), told.messages.len())];
    }
    let pairs = seen.messages.iter().zip(&told.messages);
    let differs = |(seen, told): (&replay::Message, &told::Message)| {
        let is_compressed = told.flag == 1 && !seen.wire.is_empty();
        told.differs(seen.wire.len(), &seen.plain).or_else(|| {
            (seen.compressed != is_compressed).then(|| format!("compressed: {}, flag {}", seen.compressed, told.flag))
        })
    };
    pairs.filter_map(differs).collect()
}

/// The one message of a bare body.
fn same_body(seen: &Seen, told: &Half) -> Vec<String> {
    let is_compressed = told.head("content-encoding").is_some();
    let is_same = |message: &replay::Message| message.wire == told.body && message.compressed == is_compressed;
    match &seen.messages[..] {
        [message] if is_same(message) => Vec::new(),
        other => vec![format!("{other:?}, not {:?}", told.body)],
    }
}

/// Names that are no metadata: HTTP's and those of the protocols.
fn is_metadata(name: &str) -> bool {
    let owned = [
        "te",
        "content-type",
        "content-length",
        "content-encoding",
        "accept-encoding",
        "user-agent",
        "date",
        "trailer",
        "tri-protocol-version",
        "tri-service-timeout",
    ];
    !name.starts_with([':'])
        && !["grpc-", "triple-", "connect-"].iter().any(|own| name.starts_with(own))
        && !owned.contains(&name)
}

fn same_fields(what: &str, seen: &[(String, Bytes)], told: &Fields) -> Option<String> {
    let told: Vec<_> = told.iter().filter(|(name, _)| is_metadata(name)).collect();
    let is_same = seen.len() == told.len()
        && seen.iter().zip(&told).all(|((name, seen), (told_name, told))| name == told_name && told.is(seen));
    (!is_same).then(|| format!("{what} {seen:?}, not {told:?}"))
}

/// How a response ends.
#[derive(Debug)]
struct Outcome<'a> {
    code: u32,
    /// `None`: any.
    message: Option<String>,
    details: Vec<u8>,
    trailers: Option<&'a Fields>,
}

/// The outcome by the rules of gRPC; `None` if the response does not end.
fn outcome(told: &Half, kind: CallKind) -> Option<Outcome<'_>> {
    let plain = |code| Some(Outcome { code, message: None, details: Vec::new(), trailers: None });
    if has_raw_binary(told) {
        return plain(13);
    }
    let http: u32 = told.head(":status").map_or(0, |value| value.text().parse().expect("a number"));
    if let Some((fields, _)) = told.blocks.iter().find(|(_, end)| *end) {
        let Some(status) = find(fields, "grpc-status") else { return plain(by_http(http, 2)) };
        let code = status.text().parse().expect("a number");
        if code == 0 && kind.is_single_response() && told.messages.len() != 1 {
            return plain(12);
        }
        let message = find(fields, "grpc-message").map(|value| value.shown.clone()).unwrap_or_default();
        let details = find(fields, "grpc-status-details-bin").map(|value| base64(value.text())).unwrap_or_default();
        let message = if code == 0 { String::new() } else { unescaped(&message) };
        return Some(Outcome { code, message: Some(message), details, trailers: Some(fields) });
    }
    if told.ended_by_data {
        return plain(by_http(http, 13));
    }
    match told.reset.as_deref()? {
        "CANCEL" => plain(1),
        "REFUSED_STREAM" => plain(14),
        "ENHANCE_YOUR_CALM" => plain(8),
        "NO_ERROR" | "PROTOCOL_ERROR" | "INTERNAL_ERROR" | "STREAM_CLOSED" => plain(13),
        other => panic!("RST_STREAM {other}"),
    }
}

/// The code of an answer that is no gRPC.
fn by_http(status: u32, under_200: u32) -> u32 {
    match status {
        200 => under_200,
        404 => 12,
        415 | 500 => 2,
        other => panic!("HTTP status {other}"),
    }
}

/// `grpc-message` as a person reads it: line breaks are blanks, escapes are octets, and what is no UTF-8 is Latin-1.
fn unescaped(message: &[u8]) -> String {
    let message: Vec<u8> = message.iter().map(|&c| if matches!(c, b'\r' | b'\n') { b' ' } else { c }).collect();
    let (mut octets, mut rest) = (Vec::new(), message.trim_ascii());
    while let Some((&first, tail)) = rest.split_first() {
        let escape = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match escape.filter(|_| first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(octet) => {
                octets.push(octet);
                rest = &tail[2..];
            }
            None => {
                octets.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8(octets).unwrap_or_else(|error| error.as_bytes().iter().map(|&octet| char::from(octet)).collect())
}

/// `grpc-timeout`.
fn duration(text: &str) -> Duration {
    let (number, unit) = text.split_at(text.len() - 1);
    let nanos = match unit {
        "H" => 3_600_000_000_000,
        "M" => 60_000_000_000,
        "S" => 1_000_000_000,
        "m" => 1_000_000,
        "u" => 1_000,
        "n" => 1,
        other => panic!("unit {other}"),
    };
    Duration::from_nanos(number.parse::<u64>().expect("a number") * nanos)
}

/// What whole groups of four, and a last one without padding or with it, stand for.
fn base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut octets, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        let value = ALPHABET.iter().position(|&letter| letter == digit).expect("base64") as u32;
        (bits, held) = (bits << 6 | value, held + 6);
        if held >= 8 {
            held -= 8;
            octets.push((bits >> held) as u8);
        }
    }
    octets
}
