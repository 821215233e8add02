//! The server's side of a call, as a pure machine: a request in, a response out.

use alloc::format;

use bytes::Bytes;

use super::Recv;
use super::body::Decoder;
use super::envelope::peer_fault;
use super::metadata::Metadata;
use super::method::CallKind;
use super::protocol::{self, Body, Protocol, ProtocolSpec};
use super::send::SendSide;
use super::status::{Origin, Status};
use super::variant::ServiceVariant;
use crate::encodings::Encodings;
use crate::error::{ErrorCode, SendError, StreamError};
use crate::http::{Headers, ResponseHead};
use crate::time::Instant;

mod accept;
mod respond;

pub use accept::Accept;
pub use respond::End;

/// The server's side of one call.
///
/// The request goes in through the `handle_` methods, the response comes out of [`head`](Self::head),
/// [`envelope`](Self::envelope) with [`keep`](Self::keep), and [`finish`](Self::finish), in this order. In a dialect
/// whose head tells the outcome, all of it comes out at the end. When the request is at fault,
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
    /// What waits for the outcome, in a dialect whose head tells it.
    kept: Kept,
    variant: ServiceVariant,
    /// HTTP's answer to a request that is no call; the status of the failure is for this side only.
    refusal: Option<ResponseHead>,
}

/// A response as far as the handler gave it.
#[derive(Debug, Default)]
struct Kept {
    metadata: Metadata,
    message: Bytes,
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
    /// The router's answer: what kind of method the path names. Nothing can be received before it.
    ///
    /// A stream cannot be called in a dialect whose body is one message: the call [fails](Self::failure), and is
    /// answered by HTTP's 415 with the content types that would do.
    pub fn expect(&mut self, kind: CallKind) {
        self.kind = Some(kind);
        self.send.set_single(kind.is_single_response());
        if self.spec.body == Body::Bare && kind != CallKind::Unary {
            self.refuse_type(
                Status::unimplemented("a stream cannot be called by this content type"),
                &[protocol::PROTO],
            );
        } else {
            self.check_cardinality();
        }
    }

    /// Refuses the codec that the request names: the method has `offered` ones only. [`failure`](Self::failure) is the
    /// answer, unless the call has ended otherwise.
    pub fn refuse_codec(&mut self, offered: &[&str]) {
        if !self.send.is_finished() && self.failure().is_none() {
            let (codec, offered_list) = (self.codec_name(), offered.join(", "));
            let status =
                Status::unimplemented(format!("{} does not take the codec {codec}, but {offered_list}", self.path()));
            self.refuse_type(status, offered);
        }
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

    /// Which implementation of the service the call is for.
    pub fn variant(&self) -> &ServiceVariant {
        &self.variant
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
        let pushed = self.decoder.push(data);
        // The number comes first: how the octets are split must not decide what is wrong with them.
        self.check_cardinality();
        if let (Err(status), State::Receiving) = (pushed, &self.state) {
            self.fault(status);
        }
    }

    /// The end of the request; its trailers mean nothing in any dialect.
    pub fn handle_end(&mut self, _trailers: Option<Headers>) {
        if !self.is_receiving() {
            return;
        }
        self.state = State::Ended;
        self.decoder.end();
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

    /// Whether the response has ended or need not be sent.
    pub fn is_send_finished(&self) -> bool {
        self.send.is_finished()
    }

    /// Why nothing more can be sent, if the call has ended.
    pub fn send_error(&self) -> Option<SendError> {
        self.send.error()
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

    /// The content type of the request is not one by which the method can be called. Dialects that speak HTTP say so in
    /// HTTP.
    fn refuse_type(&mut self, status: Status, codecs: &[&str]) {
        if self.spec.body == Body::Bare {
            let kind = self.kind.unwrap_or(CallKind::Unary);
            self.refusal = Some(accept::unsupported(protocol::accept_post(codecs, kind)));
        }
        self.fault(status);
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

#[cfg(test)]
mod tests;
