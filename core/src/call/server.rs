//! The server's side of a call, as a pure machine: a request in, a response out.

use alloc::format;

use bytes::Bytes;

use super::Recv;
use super::compress::{self, Announced};
use super::envelope::{Decoder, PREFIX, peer_fault};
use super::metadata::Metadata;
use super::method::CallKind;
use super::options::CallLimits;
use super::protocol::{Protocol, ProtocolSpec};
use super::send::SendSide;
use super::status::{Origin, Status};
use super::timeout::parse_grpc_timeout;
use super::trailers;
use crate::encodings::Encodings;
use crate::error::{ErrorCode, SendError, StreamError};
use crate::http::{HeaderName, Headers, Method, RequestHead, ResponseHead};
use crate::time::Instant;

/// What a request is.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "moved once, into the slot of the call")]
pub enum Accept {
    /// A call. It may have [failed](ServerCall::failure) already.
    Call(ServerCall),
    /// Not RPC, or not in a dialect of ours: the whole answer, without a body.
    Reject(ResponseHead),
}

/// The end of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing had been sent: this head is all of the response.
    TrailersOnly(ResponseHead),
    /// Trailers behind what had been sent.
    Trailers(Headers),
}

/// The server's side of one call.
///
/// The request goes in through the `handle_` methods, the response comes out of [`head`](Self::head),
/// [`envelope`](Self::envelope) and [`finish`](Self::finish), in this order. When the request is at fault,
/// [`failure`](Self::failure) is the status to finish with.
#[derive(Debug)]
pub struct ServerCall {
    spec: &'static ProtocolSpec,
    path: Bytes,
    authority: Bytes,
    /// As the request has it; the response repeats it.
    content_type: Bytes,
    codec: Bytes,
    accept_compressions: Encodings,
    /// Encoding of the response.
    encoding: Option<&'static str>,
    metadata: Metadata,
    deadline: Option<Instant>,
    kind: Option<CallKind>,
    state: State,
    decoder: Decoder,
    send: SendSide,
    is_head_sent: bool,
}

/// The receiving side.
#[derive(Debug)]
enum State {
    Receiving,
    Ended,
    Failed(Status),
    Reset,
}

impl ServerCall {
    /// Looks at the head of a request.
    pub fn accept(head: RequestHead, limits: CallLimits, now: Instant) -> Accept {
        // Routing is by path, so that the kind is not known yet; the streaming row is the common one.
        let spec = Protocol::Grpc.spec(CallKind::Bidi);
        if head.method != Method::Post {
            return reject(405, HeaderName::ALLOW, Method::Post.as_str());
        }
        let content_type = head.headers.get(&HeaderName::CONTENT_TYPE).cloned().unwrap_or_default();
        let Some(codec) = spec.codec(&content_type) else {
            return reject(415, HeaderName::ACCEPT_POST, spec.accept_post);
        };
        Accept::Call(Self::new(spec, head, content_type, codec, limits, now))
    }

    fn new(
        spec: &'static ProtocolSpec,
        head: RequestHead,
        content_type: Bytes,
        codec: Bytes,
        limits: CallLimits,
        now: Instant,
    ) -> Self {
        let mut state = State::Receiving;
        let mut decoder = Decoder::new(limits.max_recv_message);
        let known = limits.accept_compressions.names();
        let announced = compress::announced(head.headers.get(spec.encoding).map(|v| &**v), known);
        match announced {
            Announced::Identity => {}
            Announced::Known(name) => decoder.allow_compressed(name),
            Announced::Unknown => {
                state = State::Failed(Status::unimplemented(match known {
                    [] => "unknown request encoding: this server knows none but identity".into(),
                    known => format!("unknown request encoding: this server knows {}", known.join(", ")),
                }));
            }
        }
        let mut deadline = None;
        match head.headers.get(spec.timeout).map(|value| parse_grpc_timeout(value)) {
            None => {}
            Some(Ok(timeout)) => {
                deadline = Some(now + timeout);
                if timeout.is_zero() {
                    state = State::Failed(StreamError::Deadline.into());
                }
            }
            Some(Err(error)) => {
                state = State::Failed(Status::invalid_argument(format!("{}: {error}", spec.timeout)));
            }
        }
        let accepted = head.headers.get_all(spec.accept_encoding).map(|value| &**value);
        let encoding = compress::negotiate(announced, accepted, limits.send_compressions.names());
        let path = head.path.iter().position(|&octet| octet == b'?').map_or(head.path.len(), |query| query);
        let mut call = Self {
            spec,
            path: head.path.slice(..path),
            authority: head.authority,
            content_type,
            codec,
            accept_compressions: limits.accept_compressions,
            encoding,
            metadata: Metadata::from_headers(head.headers),
            deadline,
            kind: None,
            state,
            decoder,
            send: SendSide::new(spec.body, false, limits.max_send_message, encoding.is_some()),
            is_head_sent: false,
        };
        if call.failure().is_some() {
            call.decoder.discard();
        }
        call
    }

    /// The router's answer: what kind of method the path names. Nothing can be received before it.
    pub fn expect(&mut self, kind: CallKind) {
        self.kind = Some(kind);
        self.send.set_single(kind.is_single_response());
        self.check_cardinality();
    }

    /// Path without the query, as the peer sent it.
    pub fn path(&self) -> &str {
        core::str::from_utf8(&self.path).unwrap_or_default()
    }

    /// Host and port that the request is for; may be empty.
    pub fn authority(&self) -> &str {
        core::str::from_utf8(&self.authority).unwrap_or_default()
    }

    /// Name of the codec that the request's content type names, in lower case.
    pub fn codec_name(&self) -> &str {
        core::str::from_utf8(&self.codec).unwrap_or_default()
    }

    /// Wire protocol of the request.
    pub fn protocol(&self) -> Protocol {
        self.spec.protocol
    }

    /// Number of messages each way, once it is known.
    pub fn kind(&self) -> Option<CallKind> {
        self.kind
    }

    /// Metadata of the request.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// When the client gives up.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Encoding that was announced for the response's messages; each may still be sent uncompressed.
    pub fn response_encoding(&self) -> Option<&'static str> {
        self.encoding
    }

    /// Octets of the request's body, in any split.
    pub fn handle_data(&mut self, data: Bytes) {
        if !self.is_receiving() {
            return;
        }
        match self.decoder.push(data) {
            Ok(()) => self.check_cardinality(),
            Err(status) => self.fault(status),
        }
    }

    /// The end of the request; its trailers mean nothing in any dialect.
    pub fn handle_end(&mut self, _trailers: Option<Headers>) {
        if !self.is_receiving() {
            return;
        }
        self.state = State::Ended;
        if self.decoder.is_partial() {
            self.fault(peer_fault("the request ended inside a message"));
        } else {
            self.check_cardinality();
        }
    }

    /// The client reset the stream: nobody waits for the response any more. After [`finish`](Self::finish) it means
    /// nothing.
    pub fn handle_reset(&mut self, code: ErrorCode) {
        if self.send.is_finished() {
            return;
        }
        self.decoder.discard();
        self.send.end(SendError::Failed(StreamError::Reset(code)));
        self.state = State::Reset;
    }

    /// The next message. For a single request, `Blocked` until the request has ended with it.
    pub fn recv(&mut self) -> Recv {
        if !self.is_readable() {
            return Recv::Blocked;
        }
        self.decoder.pull().map_or(Recv::End, Recv::Message)
    }

    /// Whether [`recv`](Self::recv) would return something other than `Blocked`.
    pub fn is_readable(&self) -> bool {
        match (&self.state, self.kind) {
            (State::Failed(_) | State::Reset, _) => true,
            (_, None) => false,
            (State::Ended, Some(_)) => true,
            (State::Receiving, Some(kind)) => !kind.is_single_request() && self.decoder.is_ready(),
        }
    }

    /// Bytes still missing of the message at the front, once its length is known: for window reservations.
    pub fn need(&self) -> usize {
        self.decoder.need()
    }

    /// Bytes received and neither pulled nor dropped, prefixes included. What `handle_data` was given and does not
    /// show here was dropped.
    pub fn buffered(&self) -> usize {
        self.decoder.buffered()
    }

    /// What is wrong with the request: the status to [`finish`](Self::finish) with, instead of the handler's.
    pub fn failure(&self) -> Option<&Status> {
        match &self.state {
            State::Failed(status) => Some(status),
            State::Receiving | State::Ended | State::Reset => None,
        }
    }

    /// Whether the client reset the stream.
    pub fn is_reset(&self) -> bool {
        matches!(self.state, State::Reset)
    }

    /// The response's head.
    ///
    /// # Errors
    /// `Sealed` if it was sent already, or the call is finished; `Failed` after a reset.
    pub fn head(&mut self, metadata: &Metadata) -> Result<ResponseHead, SendError> {
        self.send.check()?;
        if self.is_head_sent {
            return Err(SendError::Sealed);
        }
        self.is_head_sent = true;
        let mut head = self.bare_head();
        if let Some(name) = self.encoding {
            head.headers.push(self.spec.encoding.clone(), name);
        }
        head.headers.extend(metadata.as_headers().iter().cloned());
        Ok(head)
    }

    /// Whether [`head`](Self::head) was called.
    pub fn is_head_sent(&self) -> bool {
        self.is_head_sent
    }

    /// Accounts for one message of `len` bytes and returns its prefix, if the protocol has one.
    ///
    /// # Errors
    /// `NoHead` before [`head`](Self::head); `TooLarge`; `Sealed` after [`finish`](Self::finish) and for a second
    /// message where there is only one; `Failed` after a reset; `Codec` for a compressed message on a response
    /// without encoding. Nothing is to be sent then.
    pub fn envelope(&mut self, len: usize, compressed: bool) -> Result<Option<[u8; PREFIX]>, SendError> {
        self.send.check()?;
        if !self.is_head_sent {
            return Err(SendError::NoHead);
        }
        self.send.envelope(len, compressed)
    }

    /// Ends the response. `status` and `trailers` both give trailers; success without the one message that a single
    /// response needs is answered as `Internal`.
    ///
    /// # Errors
    /// `Sealed` the second time; `Failed` after a reset.
    pub fn finish(&mut self, status: &Status, trailers: &Metadata) -> Result<End, SendError> {
        self.send.check()?;
        self.send.seal()?;
        let lacks_message = self.kind.is_some_and(CallKind::is_single_response) && self.send.sent() == 0;
        let missing = (status.is_ok() && lacks_message).then(|| Status::internal("the handler sent no response"));
        let mut head = if self.is_head_sent { None } else { Some(self.bare_head()) };
        let mut own = Headers::with_capacity(3);
        let headers = head.as_mut().map_or(&mut own, |head| &mut head.headers);
        trailers::encode(missing.as_ref().unwrap_or(status), headers);
        headers.extend(trailers.as_headers().iter().cloned());
        self.decoder.discard();
        Ok(head.map_or(End::Trailers(own), End::TrailersOnly))
    }

    /// Whether the response has ended or need not be sent.
    pub fn is_send_finished(&self) -> bool {
        self.send.is_finished()
    }

    /// Why nothing more can be sent, if the call has ended.
    pub fn send_error(&self) -> Option<SendError> {
        self.send.error()
    }

    /// What every response of this call begins with.
    fn bare_head(&self) -> ResponseHead {
        let mut headers = Headers::with_capacity(4);
        headers.push(HeaderName::CONTENT_TYPE, self.content_type.clone());
        if !self.accept_compressions.is_empty() {
            headers.push(self.spec.accept_encoding.clone(), self.accept_compressions.header());
        }
        ResponseHead { status: self.spec.http_statuses[0], headers }
    }

    /// What comes after the response, or after a fault, is of no interest.
    fn is_receiving(&self) -> bool {
        matches!(self.state, State::Receiving) && !self.send.is_finished()
    }

    fn check_cardinality(&mut self) {
        if !self.kind.is_some_and(CallKind::is_single_request) {
            return;
        }
        match (&self.state, self.decoder.begun()) {
            (State::Ended, 0) => self.fault(cardinality("no message in a request of one")),
            (State::Ended | State::Receiving, 2..) => {
                self.fault(cardinality("more than one message in a request of one"));
            }
            _ => {}
        }
    }

    fn fault(&mut self, status: Status) {
        self.decoder.discard();
        self.state = State::Failed(status);
    }
}

/// The wrong number of messages.
fn cardinality(message: &'static str) -> Status {
    Status::unimplemented(message).with_origin(Origin::Peer)
}

fn reject(status: u16, name: HeaderName, value: &'static str) -> Accept {
    let mut headers = Headers::with_capacity(1);
    headers.push(name, value);
    Accept::Reject(ResponseHead { status, headers })
}

#[cfg(test)]
mod tests;
