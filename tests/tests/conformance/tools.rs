//! curl, nghttp and h2load: what people have at hand.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use bytes::{BufMut, BytesMut};
use prost::Message;
use trirpc::proto::test_service::{SayReply, SayRequest};

use super::{Bench, Outcome, broken, output};

pub(crate) const PART: &str = "nghttp2";

const SAY: &str = "trirpc.test.v1.Echo/Say";
const GRPC: [&str; 4] = ["-H", "content-type: application/grpc", "-H", "te: trailers"];

/// A file that is gone with this.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, octets: &[u8]) -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("trirpc-conformance-{}-{name}", std::process::id()));
        fs::write(&path, octets).map_err(broken)?;
        Ok(Self(path))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    fn octets(&self) -> Result<Vec<u8>, String> {
        fs::read(&self.0).map_err(broken)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn envelope(message: &impl Message) -> Vec<u8> {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(message.encoded_len() as u32);
    message.encode(&mut framed).expect("BytesMut grows");
    framed.to_vec()
}

/// A call of `Say`, and what it is answered.
fn say(size: usize) -> (Vec<u8>, Vec<u8>) {
    let payload = vec![b'x'; size];
    let request = SayRequest { text: "hi".to_owned(), payload: payload.clone().into(), ..SayRequest::default() };
    let reply = SayReply { text: "echo:hi".to_owned(), payload: payload.into(), sequence_id: 0 };
    (envelope(&request), envelope(&reply))
}

fn expect(is_so: bool, what: impl FnOnce() -> String) -> Outcome {
    if is_so { Ok(()) } else { Err(what()) }
}

/// Runs a tool that must succeed; what it says.
fn told(command: &mut Command) -> Result<String, String> {
    let (text, succeeded) = output(command)?;
    if succeeded { Ok(text) } else { Err(format!("{command:?} failed:\n{text}")) }
}

pub(crate) fn curl(bench: &Bench) -> Outcome {
    let server = bench.server().map_err(broken)?;
    let url = |path: &str| format!("http://{}/{path}", server.addr);
    let curl = || {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--max-time", "20"]);
        command
    };
    let http2 = || {
        let mut command = curl();
        command.args(["--http2-prior-knowledge", "--fail"]);
        command
    };
    let page = told(http2().arg(url("any?thing")))?;
    expect(page.len() >= 64, || format!("GET is answered by {page:?}"))?;
    let head = told(http2().arg("--head").arg(url("")))?;
    let length = format!("content-length: {}", page.len());
    expect(head.starts_with("HTTP/2 200") && head.contains(&length), || format!("HEAD is answered by {head}"))?;
    let upload = Scratch::new("upload", &vec![b'x'; 3_000_000])?;
    let answer = told(http2().args(["--data-binary", &format!("@{}", upload.path())]).arg(url("upload")))?;
    expect(answer == page, || format!("POST is answered by {answer:?}"))?;
    for method in ["PUT", "DELETE", "OPTIONS", "PROPFIND"] {
        let answer = told(http2().args(["-X", method]).arg(url("")))?;
        expect(answer == page, || format!("{method} is answered by {answer:?}"))?;
    }
    for size in [0, 1_000_000] {
        let (request, reply) = say(size);
        let (sent, received) = (Scratch::new("request", &request)?, Scratch::new("reply", b"")?);
        let mut call = http2();
        call.args(GRPC).args(["--data-binary", &format!("@{}", sent.path()), "--output", received.path()]);
        told(call.arg(url(SAY)))?;
        let is_right = received.octets()? == reply;
        expect(is_right, || format!("a call with {size} octets is not answered by its echo"))?;
    }
    // HTTP/1 and the upgrade from it are not spoken: such a client is left without a word.
    for version in ["--http1.1", "--http1.0", "--http2"] {
        let (text, succeeded) = output(curl().arg(version).arg(url("")))?;
        expect(!succeeded && text.contains("(52)"), || format!("curl {version} says {text}"))?;
    }
    Ok(())
}

pub(crate) fn nghttp(bench: &Bench) -> Outcome {
    let server = bench.server().map_err(broken)?;
    let url = format!("http://{}/", server.addr);
    let upload = Scratch::new("nghttp", &vec![b'x'; 1_000_000])?;
    for arguments in [
        &[][..],
        &["--multiply", "50"],
        &["--data", upload.path()],
        &["--data", upload.path(), "--trailer", "x-sum: 1"],
        // Windows of 1 and of 63 octets. Several of the smallest would be a dribble, which is sent slowly on purpose.
        &["--window-bits", "1"],
        &["--window-bits", "6", "--multiply", "5"],
        &["--header-table-size", "0", "--multiply", "5"],
        &["--header-table-size", "0", "--header-table-size", "65536", "--multiply", "5"],
        &["--padding", "255", "--data", upload.path()],
        &["--continuation"],
    ] {
        let text =
            told(Command::new("nghttp").args(["--null-out", "--stat", "--timeout", "20"]).args(arguments).arg(&url))?;
        // A row of the statistics for each request: …  200  174 /
        let answered = text.lines().filter(|line| line.split_whitespace().any(|word| word == "200")).count();
        let asked = match arguments {
            [.., "--multiply", times] => times.parse().unwrap_or(0),
            _ => 1,
        };
        expect(answered == asked, || format!("nghttp {arguments:?} has {answered} of {asked} answers:\n{text}"))?;
    }
    Ok(())
}

pub(crate) fn h2load(bench: &Bench) -> Outcome {
    let server = bench.server().map_err(broken)?;
    let (request, _) = say(1000);
    let request = Scratch::new("h2load", &request)?;
    let call = [&["--data", request.path()][..], &GRPC].concat();
    for (path, arguments) in [("", &[][..]), (SAY, &call)] {
        let mut command = Command::new("h2load");
        command.args(["--requests", "5000", "--clients", "10", "--max-concurrent-streams", "50"]).args(arguments);
        let text = told(command.arg(format!("http://{}/{path}", server.addr)))?;
        let is_right = ["5000 succeeded, 0 failed, 0 errored, 0 timeout", "status codes: 5000 2xx"];
        expect(is_right.iter().all(|line| text.contains(line)), || format!("h2load of /{path}:\n{text}"))?;
    }
    Ok(())
}
