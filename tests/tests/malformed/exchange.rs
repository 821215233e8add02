//! A request by hand, and what came back for it.

use std::fmt::Write as _;

use trirpc_core::ErrorCode;
use trirpc_tests::frames::{data, envelope, headers};
use trirpc_tests::trace::{Entry, Frame};

/// One request as a hand-made client sends it.
#[derive(Clone)]
pub(crate) struct Request {
    method: &'static str,
    path: String,
    fields: Vec<(&'static str, String)>,
    body: Vec<Vec<u8>>,
    end: End,
}

/// Where END_STREAM is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    OnHeaders,
    OnData,
    Nowhere,
}

/// A request of `Say` that is as it should be.
pub(crate) fn say() -> Request {
    let fields = vec![("content-type", "application/grpc+proto".to_owned()), ("te", "trailers".to_owned())];
    let path = "/trirpc.test.v1.Echo/Say".to_owned();
    Request { method: "POST", path, fields, body: vec![envelope(HI)], end: End::OnData }
}

/// `SayRequest { text: "hi" }`.
pub(crate) const HI: &[u8] = b"\x0a\x02hi";

impl Request {
    pub(crate) fn at(mut self, path: &str) -> Self {
        self.path = path.to_owned();
        self
    }

    /// Of another method of the service.
    pub(crate) fn of(self, method: &str) -> Self {
        self.at(&format!("/trirpc.test.v1.Echo/{method}"))
    }

    pub(crate) fn method(mut self, method: &'static str) -> Self {
        self.method = method;
        self
    }

    /// With one field more.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.fields.push((name, value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(field, _)| *field != name);
        self
    }

    pub(crate) fn content_type(self, value: &str) -> Self {
        self.without("content-type").with("content-type", value)
    }

    /// With these payloads of DATA.
    pub(crate) fn body<const N: usize>(mut self, body: [&[u8]; N]) -> Self {
        self.body = body.map(<[u8]>::to_vec).to_vec();
        self
    }

    /// With one message under these flags.
    pub(crate) fn flagged(self, flags: u8, message: &[u8]) -> Self {
        let mut octets = envelope(message);
        octets[0] = flags;
        self.body([&octets])
    }

    pub(crate) fn ends(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    /// The frames on `stream`.
    pub(crate) fn frames(&self, stream: u32) -> Vec<u8> {
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
pub(crate) struct Answer {
    blocks: Vec<Vec<(String, String)>>,
    body: Vec<u8>,
    ended: bool,
    resets: Vec<ErrorCode>,
    go_away: Option<ErrorCode>,
}

impl Answer {
    pub(crate) fn on<'a>(stream: u32, heard: impl Iterator<Item = &'a Entry>) -> Self {
        let mut answer = Self::default();
        for entry in heard {
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
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.blocks.iter().flatten().rfind(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// What an error says to a person: `grpc-message`, or the body of plain HTTP.
    pub(crate) fn told(&self) -> String {
        match self.field("grpc-message") {
            Some(message) => message.to_owned(),
            None => self.body.escape_ascii().to_string(),
        }
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
    pub(crate) fn shape(&self) -> String {
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
        if !self.body.is_empty()
            && self.field("content-type").is_some_and(|value| value.to_ascii_lowercase().contains("grpc"))
        {
            write!(shape, " with {}", self.messages()).unwrap();
        }
    }

    /// What is wrong with an answer whatever it says.
    pub(crate) fn faults(&self, request: &Request) -> Vec<String> {
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
        let length = self.field("content-length").filter(|_| self.field("grpc-status").is_some());
        for (name, value) in [("te", self.field("te")), ("content-length", length)] {
            faults.extend(value.map(|value| format!("{name}: {value}")));
        }
        if let Some(details) = self.field("grpc-status-details-bin") {
            faults.push(format!("details, of which there are none: {details}"));
        }
        faults
    }
}

/// A unary call that went well.
pub(crate) const OK: &str = "200 H+T 0 with 1";
