//! The unary fast path: a message that is known whole and need not wait is encoded straight into the output.
//!
//! A decision and its two halves, nothing more: whether a message may go this way depends on what is known before
//! anything was done, and one that may not goes the general way in the same call. The peer cannot tell the two apart.

use super::Connection;
use super::client::open_error;
use super::encode::{Fill, encode_in_place};
use super::role::{Client, Role, Server};
use super::server::{HEAD_OVERHEAD, answer, encode_failure, send_end};
use crate::call::{CallKind, CallOptions, ClientCall, End, Metadata, Status};
use crate::error::{OpenError, SendError};
use crate::event::CallId;
use crate::http2::Message;
use crate::time::Instant;

/// Octets in front of a message, in the dialects that have any.
const PREFIX: usize = 5;

impl<R: Role> Connection<R> {
    /// Switches the unary fast path; from the next call on. At first it is as in [`Config`](crate::Config).
    ///
    /// On a client a call may [choose](CallOptions::unary_fast_path) otherwise. The peer sees no difference.
    pub fn set_unary_fast_path(&mut self, enabled: bool) {
        self.unary_fast_path = enabled;
    }
}

impl Connection<Client> {
    /// Whether a request with a message of `len` bytes takes the fast path.
    pub(super) fn is_fast_request(&self, kind: CallKind, options: &CallOptions, len: usize) -> bool {
        options.unary_fast_path.unwrap_or(self.unary_fast_path)
            && kind == CallKind::Unary
            && len <= self.config.max_send_message
            && self.http.has_room_for_request(len.saturating_add(PREFIX))
    }

    /// Opens a call by a message of `len` bytes that `fill` encodes. A codec that fails or lies about the length costs
    /// the stream, for its head is written by then.
    pub(super) fn open_in_place(
        &mut self,
        mut machine: ClientCall,
        len: usize,
        fill: Fill<'_>,
        now: Instant,
    ) -> Result<CallId, OpenError> {
        let prefix = machine.envelope(len, false).map_err(open_error)?;
        machine.finish().map_err(open_error)?;
        let endpoint = self.state.endpoint.clone();
        let head =
            machine.request_head_in(core::mem::take(&mut self.spare_fields), endpoint.scheme, endpoint.authority);
        let call = self.calls.next_id().index() as u32;
        let mut region = self.http.write_request(&head, call, Message { prefix, len }, now)?;
        let encoded = encode_in_place(region.payload(), len, fill);
        let stream = encoded.map(|()| region.commit(None));
        self.spare_fields = head.headers.emptied();
        Ok(self.insert(machine, stream.map_err(OpenError::Codec)?))
    }
}

impl Connection<Server> {
    /// Whether a response with a message of `len` bytes takes the fast path.
    pub(super) fn is_fast_response(&self, id: CallId, metadata: &Metadata, len: usize) -> bool {
        let Some(call) = self.calls.get(id).filter(|_| self.unary_fast_path) else { return false };
        let machine = &call.machine;
        let is_whole = machine.kind() == Some(CallKind::Unary) && !machine.is_head_sent();
        // Where the head tells the outcome and is all of the response, nothing could revoke it any more.
        let is_revocable = len > 0 || !machine.keeps_response();
        is_whole
            && is_revocable
            && !call.is_over
            && machine.failure().is_none()
            && !machine.is_send_finished()
            && len <= self.config.max_send_message
            && metadata.as_headers().list_size() + HEAD_OVERHEAD <= self.http.send_header_limit()
            && self.http.has_room_for_response(call.stream, len.saturating_add(PREFIX))
    }

    /// Answers with success and a message of `len` bytes that `fill` encodes.
    ///
    /// If the codec fails or lies about the length, trailers behind the head tell the peer; where the head has told of
    /// success already, a reset does.
    pub(super) fn answer_in_place(
        &mut self,
        id: CallId,
        len: usize,
        fill: Fill<'_>,
        (metadata, trailers): (&Metadata, &Metadata),
        now: Instant,
    ) -> Result<(), SendError> {
        let Some(call) = self.calls.get_mut(id) else { return Err(SendError::Finished) };
        call.is_over = true;
        let (machine, stream, http) = (&mut call.machine, call.stream, &mut self.http);
        let limit = http.send_header_limit();
        let mut fields = core::mem::take(&mut self.spare_fields);
        let early = machine.head_in(&mut fields, metadata)?;
        let prefix = machine.envelope(len, false)?;
        let (head, is_end) = match early {
            Some(head) => (head, false),
            None => match machine.finish_in(core::mem::take(&mut fields), &Status::OK, trailers, limit)? {
                End::Whole { head, body } if body.is_empty() => (head, true),
                // Too many trailers, and the response is what says so.
                end => {
                    send_end(http, stream, end);
                    return Ok(());
                }
            },
        };
        let mut region = http.write_response(stream, &head, Message { prefix, len }, is_end, now);
        let fields = head.headers.emptied();
        let encoded = encode_in_place(region.payload(), len, fill);
        if let Err(error) = encoded {
            if !is_end {
                region.retract();
                answer(http, stream, machine, &encode_failure(&error), &Metadata::new())?;
            }
            return Err(SendError::Codec(error));
        }
        if is_end {
            region.commit(None);
            self.spare_fields = fields;
        } else if let End::Trailers(fields) = machine.finish_in(fields, &Status::OK, trailers, limit)? {
            region.commit(Some(&fields));
            self.spare_fields = fields.emptied();
        }
        Ok(())
    }
}
