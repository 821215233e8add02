//! The unary fast path: a message that is known whole and need not wait is encoded straight into the output.
//!
//! A decision and its two halves, nothing more: whether a message may go this way depends on what is known before
//! anything was done, and one that may not goes the general way in the same call. The peer cannot tell the two apart.

use alloc::sync::Arc;

use super::Connection;
use super::client::{ClientState, Planned, open_error};
use super::encode::{Fill, encode_in_place};
use super::role::{Client, Role, Server};
use super::server::{HEAD_OVERHEAD, KnownResponse, ServerState, answer, encode_failure};
use crate::call::{CallKind, CallOptions, ClientCall, Metadata, ResponseKind, request_rest};
use crate::error::{OpenError, SendError};
use crate::event::CallId;
use crate::http::Rest;
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

    /// Opens a call by the plan in `place`, with a message of `len` bytes that `fill` encodes. A codec that fails or lies
    /// about the length costs the stream, for its head is written by then.
    pub(super) fn open_in_place(
        &mut self,
        place: usize,
        options: &CallOptions,
        len: usize,
        fill: Fill<'_>,
        now: Instant,
    ) -> Result<CallId, OpenError> {
        let ClientState { plans, own_fields, .. } = &mut self.state;
        let Planned { plan, head } = plans.get_mut(place).ok_or(OpenError::Unsupported)?;
        let mut send = plan.send_side();
        let prefix = send.send_only(len);
        send.seal().map_err(open_error)?;
        let rest = request_rest(options, send.body_len(), own_fields);
        let at = options.timeout.map(|timeout| now + timeout);
        let (deadline, call) = (at.and_then(|at| plan.deadline_field(at)), self.calls.next_index());
        let mut region = self.http.write_request(head, rest, deadline, call, Message { prefix, len }, now)?;
        encode_in_place(region.payload(), len, fill).map_err(OpenError::Codec)?;
        let stream = region.commit(None);
        let plan = Arc::clone(plan);
        Ok(self.insert_with(stream, at, || ClientCall::sending(plan, at, send)))
    }
}

impl Connection<Server> {
    /// Answers with success and a message of `len` bytes that `fill` encodes, and frees the slot. `None` if the response
    /// cannot take the fast path, and then nothing happened.
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
    ) -> Option<Result<(), SendError>> {
        let Self { calls, http, config, .. } = self;
        let ServerState { heads, success, own_fields, .. } = &mut self.state;
        let call = calls.get_mut(id).filter(|call| self.unary_fast_path && !call.is_over)?;
        let (machine, stream) = (&mut call.machine, call.stream);
        let is_fast = machine.is_response_due(len)
            && len <= config.max_send_message
            && ResponseKind::exists_for(machine.request())
            && machine.max_own_list_size(metadata, trailers) + HEAD_OVERHEAD <= http.send_header_limit()
            && http.has_room_for_response(stream, len.saturating_add(PREFIX));
        if !is_fast {
            return None;
        }
        let place = heads.position_mut(|known| known.fits(machine.request()));
        let place = place.unwrap_or_else(|| heads.insert(KnownResponse::new(machine.request())));
        let head = &mut heads.get_mut(place)?.head;
        // Nobody else ends it, should the codec unwind.
        call.is_over = true;
        let prefix = machine.begin_with(len);
        let is_end = machine.keeps_response();
        let rest = machine.success_rest(metadata, trailers, own_fields);
        let mut region = http.write_response(stream, head, rest, Message { prefix, len }, is_end, now);
        if let Err(error) = encode_in_place(region.payload(), len, fill) {
            if is_end {
                drop(region);
            } else {
                region.retract();
                // Nothing has ended the response before.
                let _ = answer(http, stream, machine, &encode_failure(&error), &Metadata::new());
            }
            self.remove(id);
            return Some(Err(SendError::Codec(error)));
        }
        region.commit((!is_end).then(|| (success, Rest { fields: trailers.as_headers(), ..Rest::NONE })));
        // The stream was let go with the end of the response.
        self.free(id);
        Some(Ok(()))
    }
}
