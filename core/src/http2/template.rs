//! Field blocks that begin alike: encoded once, and copied for as long as HPACK would encode them the same way.
//!
//! The calls of a method repeat a head but for a few fields at its end. Where encoding the repeated part changed nothing
//! in HPACK's tables, it gives the same octets again until they do change: a comparison of
//! [generations](crate::hpack::Encoder::generation) takes the place of a walk over the fields. The walk is the plain
//! way, and gives the octets that are copied.

use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::BufMut;

use crate::buf::Arena;
use crate::hpack::Encoder;
use crate::http::{Field, HeaderName, Headers, RequestHead, ResponseHead, Rest};
use crate::http2::frame::HEADER_LEN;

/// Longest beginning of a block that is kept, in octets; one of indices has an octet or two a field.
const MAX_KEPT: usize = 512;

/// What many blocks begin with: a head or the first fields of trailers.
#[derive(Debug)]
pub(crate) struct Template<H> {
    /// Shared with requests that wait for their turn.
    pub(super) head: Arc<H>,
    /// As SETTINGS_MAX_HEADER_LIST_SIZE counts it.
    pub(super) list_size: usize,
    pub(super) kept: Kept,
}

/// A head has no deadline here; what there is of it goes into [`Rest::last`].
impl From<RequestHead> for Template<RequestHead> {
    fn from(head: RequestHead) -> Self {
        debug_assert!(head.deadline.is_none());
        Self { list_size: head.list_size(), head: Arc::new(head), kept: Kept::default() }
    }
}

impl From<ResponseHead> for Template<ResponseHead> {
    fn from(head: ResponseHead) -> Self {
        Self { list_size: head.list_size(), head: Arc::new(head), kept: Kept::default() }
    }
}

impl From<Headers> for Template<Headers> {
    fn from(headers: Headers) -> Self {
        Self { list_size: headers.list_size(), head: Arc::new(headers), kept: Kept::default() }
    }
}

/// Heads that several requests waited with, the latest last, and what HPACK made of them.
#[derive(Debug)]
pub(super) struct SharedHeads {
    heads: Vec<Template<RequestHead>>,
    max: usize,
}

/// Most bytes of memory that one beginning of a block is kept in; the head itself is its owner's.
pub(crate) const MAX_BYTES: usize = size_of::<Template<RequestHead>>() + MAX_KEPT + HEADER_LEN;

impl SharedHeads {
    /// An empty list for `max` heads, at least one.
    pub(super) const fn new(max: usize) -> Self {
        Self { heads: Vec::new(), max }
    }

    /// Takes what is known of `head` out of the list.
    pub(super) fn take(&mut self, head: Arc<RequestHead>) -> Template<RequestHead> {
        match self.heads.iter().rposition(|known| Arc::ptr_eq(&known.head, &head)) {
            Some(place) => self.heads.remove(place),
            None => Template { list_size: head.list_size(), head, kept: Kept::default() },
        }
    }

    /// Puts it back, for the next request.
    pub(super) fn give_back(&mut self, head: Template<RequestHead>) {
        if self.heads.len() >= self.max && !self.heads.is_empty() {
            self.heads.remove(0);
        }
        self.heads.push(head);
    }

    pub(super) fn clear(&mut self) {
        self.heads = Vec::new();
    }
}

/// What HPACK made of the beginning, and in which state; nothing while there are no octets.
#[derive(Debug, Default)]
pub(super) struct Kept {
    generation: u64,
    /// Behind room for the header of the frame.
    octets: Vec<u8>,
}

impl Kept {
    /// Room for a frame's header, and the octets that `encoder` would write now.
    fn octets(&self, encoder: &Encoder) -> Option<&[u8]> {
        (!self.octets.is_empty() && self.generation == encoder.generation()).then_some(&self.octets)
    }

    fn keep(&mut self, encoder: &Encoder, octets: &[u8]) {
        self.octets.clear();
        if encoder.is_repeatable() && octets.len() <= HEADER_LEN + MAX_KEPT {
            self.octets.reserve_exact(octets.len());
            self.octets.extend_from_slice(octets);
            self.generation = encoder.generation();
        }
    }
}

/// A field block to be written.
pub(super) struct Block<'a> {
    begin: Begin<'a>,
    kept: Option<&'a mut Kept>,
    rest: &'a Rest<'a>,
}

/// What a block begins with.
#[derive(Clone, Copy)]
enum Begin<'a> {
    Request(&'a RequestHead),
    Response(&'a ResponseHead),
    Trailers(&'a Headers),
}

impl<'a> Block<'a> {
    /// A head without a deadline, and `rest`.
    pub(super) fn request(head: &'a RequestHead, rest: &'a Rest<'a>) -> Self {
        Self { begin: Begin::Request(head), kept: None, rest }
    }

    pub(super) fn response(head: &'a ResponseHead) -> Self {
        Self { begin: Begin::Response(head), kept: None, rest: &Rest::NONE }
    }

    pub(super) fn trailers(headers: &'a Headers) -> Self {
        Self { begin: Begin::Trailers(headers), kept: None, rest: &Rest::NONE }
    }

    pub(super) fn of_request(template: &'a mut Template<RequestHead>, rest: &'a Rest<'a>) -> Self {
        Self { begin: Begin::Request(&template.head), kept: Some(&mut template.kept), rest }
    }

    pub(super) fn of_response(template: &'a mut Template<ResponseHead>, rest: &'a Rest<'a>) -> Self {
        Self { begin: Begin::Response(&template.head), kept: Some(&mut template.kept), rest }
    }

    pub(super) fn of_trailers(template: &'a mut Template<Headers>, rest: &'a Rest<'a>) -> Self {
        Self { begin: Begin::Trailers(&template.head), kept: Some(&mut template.kept), rest }
    }

    /// Appends room for a frame's header, and the block, if that is known without HPACK; returns how long the block is.
    /// It is no longer than what is kept, and so fits a frame.
    #[inline]
    pub(super) fn write_known(&self, encoder: &Encoder, arena: &mut Arena) -> Option<usize> {
        let octets = self.kept.as_ref()?.octets(encoder).filter(|_| self.rest.is_empty())?;
        arena.reserve(octets.len()).put_slice(octets);
        Some(octets.len() - HEADER_LEN)
    }

    /// Appends room for a frame's header, and the block; returns how long the block is.
    pub(super) fn write(&mut self, encoder: &mut Encoder, arena: &mut Arena) -> usize {
        match self.kept.as_ref().and_then(|kept| kept.octets(encoder)) {
            Some(octets) => {
                arena.reserve(octets.len() + self.max_rest_len()).put_slice(octets);
                let len = octets.len() - HEADER_LEN;
                if self.rest.is_empty() { len } else { len + self.write_rest(encoder, arena) }
            }
            None => self.encode(encoder, arena),
        }
    }

    /// The plain way of [`write`](Self::write).
    fn encode(&mut self, encoder: &mut Encoder, arena: &mut Arena) -> usize {
        let mut bound = HEADER_LEN + Encoder::MAX_BEGIN_LEN + self.max_rest_len();
        self.begin.each(&mut |name, value, _| {
            bound += Encoder::max_field_len(name.as_bytes().len(), value.len());
        });
        let dst = arena.reserve(bound);
        let start = dst.len();
        dst.put_slice(&[0; HEADER_LEN]);
        encoder.begin(dst);
        self.begin.each(&mut |name, value, sensitive| encoder.field(name, value, sensitive, dst));
        let beginning = dst.get(start..).unwrap_or_default();
        let len = beginning.len() - HEADER_LEN;
        if let Some(kept) = &mut self.kept {
            kept.keep(encoder, beginning);
        }
        len + self.write_rest(encoder, arena)
    }

    fn write_rest(&self, encoder: &mut Encoder, arena: &mut Arena) -> usize {
        let dst = arena.run();
        let start = dst.len();
        self.rest.each(&mut |name, value, sensitive| encoder.field(name, value, sensitive, dst));
        dst.len() - start
    }

    fn max_rest_len(&self) -> usize {
        let mut len = 0;
        if !self.rest.is_empty() {
            self.rest.each(&mut |name, value, _| len += Encoder::max_field_len(name.as_bytes().len(), value.len()));
        }
        len
    }
}

impl Begin<'_> {
    /// Calls `f` with each field in wire order: name, value, sensitivity.
    fn each(self, f: &mut dyn FnMut(&HeaderName, &[u8], bool)) {
        match self {
            Self::Request(head) => {
                f(&HeaderName::METHOD, head.method.as_str().as_bytes(), false);
                f(&HeaderName::SCHEME, &head.scheme, false);
                f(&HeaderName::PATH, &head.path, false);
                f(&HeaderName::AUTHORITY, &head.authority, false);
                each(&head.headers, f);
            }
            Self::Response(head) => {
                let digits = [head.status / 100 % 10, head.status / 10 % 10, head.status % 10];
                f(&HeaderName::STATUS, &digits.map(|digit| b'0' + digit as u8), false);
                each(&head.headers, f);
            }
            Self::Trailers(headers) => each(headers, f),
        }
    }
}

fn each(headers: &Headers, f: &mut dyn FnMut(&HeaderName, &[u8], bool)) {
    for Field { name, value, sensitive } in headers {
        f(name, value, *sensitive);
    }
}

#[cfg(test)]
mod tests;
