//! What is encoded and decoded: header lists by connection, in the order of their blocks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::Value;

/// Names and values.
pub type List = Vec<(Vec<u8>, Vec<u8>)>;

/// The lists that share one pair of tables.
pub type Connection = Vec<List>;

/// Blocks of a connection that never closes.
const BLOCKS: u64 = 200;

/// The lists of a set.
///
/// - `plain`: a gRPC request whose fields are the same in every call;
/// - `request`: the same with a deadline and a trace id, which differ;
/// - `response`: heads and trailers of good answers;
/// - `corpus`: the lists of the HPACK test cases of the http2jp project, recorded from browsers.
pub fn named(name: &str, corpus: Option<&str>) -> Vec<Connection> {
    match name {
        "plain" => vec![(0..BLOCKS).map(|_| request()).collect()],
        "request" => vec![(0..BLOCKS).map(traced_request).collect()],
        "response" => {
            let head = list(&[(":status", "200"), ("content-type", "application/grpc")]);
            let trailers = list(&[("grpc-status", "0")]);
            vec![(0..BLOCKS).flat_map(|_| [head.clone(), trailers.clone()]).collect()]
        }
        "corpus" => stories(corpus.expect("the corpus needs the path of hpack-test-case.tar.gz")),
        other => panic!("no set is called `{other}`"),
    }
}

fn list(fields: &[(&str, &str)]) -> List {
    fields.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

fn request() -> List {
    list(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/bench.Echo/Unary"),
        (":authority", "127.0.0.1:50051"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("user-agent", "grpc-rust/0.1"),
    ])
}

fn traced_request(call: u64) -> List {
    let mut fields = request();
    let timeout = format!("{}m", 900 + call % 100);
    // Numbers that look random, and are the same in each run.
    let trace = 0x9e37_79b9_7f4a_7c15_u128.wrapping_mul(u128::from(call) + 1);
    let span = 0x2545_f491_4f6c_dd1d_u64.wrapping_mul(call + 3);
    fields.extend(list(&[("grpc-timeout", &timeout), ("traceparent", &format!("00-{trace:032x}-{span:016x}-01"))]));
    fields
}

/// The recordings that nghttp2 made of the corpus: a connection each.
fn stories(archive: &str) -> Vec<Connection> {
    let file = File::open(archive).unwrap_or_else(|error| panic!("{archive}: {error}"));
    let mut stories = BTreeMap::new();
    for entry in tar::Archive::new(GzDecoder::new(file)).entries().expect("an archive") {
        let mut entry = entry.expect("an entry");
        let name = entry.path().expect("a path").display().to_string();
        if name.contains("nghttp2/story_") {
            let mut text = String::new();
            entry.read_to_string(&mut text).expect("text");
            stories.insert(name, story(&serde_json::from_str(&text).expect("JSON")));
        }
    }
    assert!(!stories.is_empty(), "{archive} holds no stories of nghttp2");
    stories.into_values().collect()
}

fn story(story: &Value) -> Connection {
    let field = |field: &Value| {
        let (name, value) = field.as_object().and_then(|field| field.iter().next()).expect("a field");
        (name.as_bytes().to_vec(), value.as_str().expect("text").as_bytes().to_vec())
    };
    let cases = story["cases"].as_array().expect("cases");
    cases.iter().map(|case| case["headers"].as_array().expect("headers").iter().map(field).collect()).collect()
}
