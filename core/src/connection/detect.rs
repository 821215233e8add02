//! The first octets of a client whose protocol is not known: nothing is sent before they are HTTP/2's.

use super::Connection;
use super::role::Role;
use crate::buf::RecvBuf;
use crate::error::ConnectionError;
use crate::sniff::{Sniffed, sniff};
use crate::time::Instant;

impl<R: Role> Connection<R> {
    /// Whether the engine may have the input: it is HTTP/2. Anything else ends the connection without a word.
    #[cold]
    pub(super) fn recognise(&mut self, input: &mut RecvBuf, now: Instant) -> bool {
        match sniff(input.data()) {
            None => return false,
            Some(Sniffed::Http2) => self.is_sniffing = false,
            Some(other) => {
                input.skip(input.len());
                self.http.leave(ConnectionError::Foreign(other));
                self.pump(now);
            }
        }
        !self.is_sniffing
    }

    /// The connection is over before it was recognised: nobody is known to be there who would understand a GOAWAY.
    pub(super) fn forget_greeting(&mut self) {
        if core::mem::take(&mut self.is_sniffing) {
            self.http.lose_output();
        }
    }
}
