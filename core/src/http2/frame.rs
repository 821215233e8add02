//! Frame layout of HTTP/2 (RFC 9113 §4.1 and §6): one encoder per frame type, decoders of headers and
//! fixed payloads.
//!
//! Nothing here knows about streams or windows. The engine writes every frame through these functions,
//! so two paths that emit the same frame emit the same bytes. Encoders append to a buffer that the caller
//! has reserved; each says how much it appends.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use bytes::{BufMut, BytesMut};

use crate::error::{ErrorCode, PeerMisbehaved};

/// Octets of a frame header.
pub const HEADER_LEN: usize = 9;
/// What a client sends before its first frame (RFC 9113 §3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Smallest and initial SETTINGS_MAX_FRAME_SIZE.
pub const MIN_MAX_FRAME_SIZE: u32 = 1 << 14;
/// Largest SETTINGS_MAX_FRAME_SIZE.
pub const MAX_MAX_FRAME_SIZE: u32 = (1 << 24) - 1;
/// Largest flow-control window, and largest stream id.
pub const MAX_WINDOW: u32 = (1 << 31) - 1;
/// Initial flow-control window of streams and of the connection.
pub const DEFAULT_WINDOW: u32 = 65_535;
/// Octets of an encoded PING frame.
pub const PING_LEN: usize = HEADER_LEN + 8;
/// Octets of an encoded RST_STREAM frame.
pub const RST_STREAM_LEN: usize = HEADER_LEN + 4;
/// Octets of an encoded WINDOW_UPDATE frame.
pub const WINDOW_UPDATE_LEN: usize = HEADER_LEN + 4;
/// Octets of one entry of a SETTINGS frame.
pub const SETTING_LEN: usize = 6;

const STREAM_MASK: u32 = MAX_WINDOW;

/// END_STREAM, of DATA and HEADERS.
pub const END_STREAM: u8 = 0x1;
/// ACK, of SETTINGS and PING.
pub const ACK: u8 = 0x1;
/// END_HEADERS, of HEADERS and CONTINUATION.
pub const END_HEADERS: u8 = 0x4;
/// PADDED, of DATA and HEADERS.
pub const PADDED: u8 = 0x8;
/// PRIORITY, of HEADERS.
pub const PRIORITY: u8 = 0x20;

/// Type of a frame. Any octet is a type: unknown ones are skipped, never refused (RFC 9113 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind(pub u8);

impl Kind {
    /// DATA (§6.1).
    pub const DATA: Self = Self(0);
    /// HEADERS (§6.2).
    pub const HEADERS: Self = Self(1);
    /// PRIORITY (§6.3), deprecated.
    pub const PRIORITY: Self = Self(2);
    /// RST_STREAM (§6.4).
    pub const RST_STREAM: Self = Self(3);
    /// SETTINGS (§6.5).
    pub const SETTINGS: Self = Self(4);
    /// PUSH_PROMISE (§6.6), never sent and never accepted here.
    pub const PUSH_PROMISE: Self = Self(5);
    /// PING (§6.7).
    pub const PING: Self = Self(6);
    /// GOAWAY (§6.8).
    pub const GOAWAY: Self = Self(7);
    /// WINDOW_UPDATE (§6.9).
    pub const WINDOW_UPDATE: Self = Self(8);
    /// CONTINUATION (§6.10).
    pub const CONTINUATION: Self = Self(9);
}

/// The nine octets before every payload (RFC 9113 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Octets of the payload, below 2^24.
    pub len: u32,
    /// Type of the frame.
    pub kind: Kind,
    /// Flags, with the meaning that the type gives them.
    pub flags: u8,
    /// Stream id, 31 bits; 0 is the connection.
    pub stream: u32,
}

impl FrameHeader {
    /// Reads a header; the reserved bit before the stream id is ignored.
    #[inline]
    pub fn decode(octets: [u8; HEADER_LEN]) -> Self {
        let [l2, l1, l0, kind, flags, s3, s2, s1, s0] = octets;
        let word = u64::from_be_bytes([l2, l1, l0, kind, flags, s3, s2, s1]);
        Self {
            len: (word >> 40) as u32,
            kind: Kind((word >> 32) as u8),
            flags: (word >> 24) as u8,
            stream: ((word as u32) << 8 | u32::from(s0)) & STREAM_MASK,
        }
    }

    /// Writes a header: 9 octets.
    pub fn encode(self, dst: &mut BytesMut) {
        dst.put_slice(&self.to_octets());
    }

    /// The header as octets, for a hole that is patched once the length is known.
    #[inline]
    pub fn to_octets(self) -> [u8; HEADER_LEN] {
        let stream = self.stream & STREAM_MASK;
        let kind_and_flags = u64::from(self.kind.0) << 32 | u64::from(self.flags) << 24;
        let word = u64::from(self.len) << 40 | kind_and_flags | u64::from(stream >> 8);
        let [l2, l1, l0, kind, flags, s3, s2, s1] = word.to_be_bytes();
        [l2, l1, l0, kind, flags, s3, s2, s1, stream as u8]
    }

    /// Is `flag` set?
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Rules that need no more than the header: size limits, fixed lengths, and whether the type belongs
    /// to a stream or to the connection. `max_len` is the SETTINGS_MAX_FRAME_SIZE the peer must keep.
    ///
    /// # Errors
    /// FRAME_SIZE_ERROR or PROTOCOL_ERROR, both of the connection. RFC 9113 would let some of them be
    /// stream errors; raising them (§5.4.1) takes away a way to make us reset streams at will.
    #[expect(clippy::arithmetic_side_effects, reason = "lengths of 24 bits and small constants")]
    pub fn check(&self, max_len: u32) -> Result<(), PeerMisbehaved> {
        if self.len > max_len {
            return Err(frame_size("frame exceeds SETTINGS_MAX_FRAME_SIZE"));
        }
        let padding = u32::from(self.has(PADDED));
        let (on_stream, length_ok) = match self.kind {
            Kind::DATA => (Some(true), self.len >= padding),
            Kind::HEADERS => (Some(true), self.len >= padding + if self.has(PRIORITY) { 5 } else { 0 }),
            Kind::PRIORITY => (Some(true), self.len == 5),
            Kind::RST_STREAM => (Some(true), self.len == 4),
            Kind::SETTINGS => (Some(false), if self.has(ACK) { self.len == 0 } else { self.len % 6 == 0 }),
            Kind::PUSH_PROMISE => (Some(true), self.len >= padding + 4),
            Kind::PING => (Some(false), self.len == 8),
            Kind::GOAWAY => (Some(false), self.len >= 8),
            Kind::WINDOW_UPDATE => (None, self.len == 4),
            Kind::CONTINUATION => (Some(true), true),
            _ => (None, true),
        };
        if on_stream.is_some_and(|wanted| wanted != (self.stream != 0)) {
            return Err(protocol("frame type does not belong on this stream id"));
        }
        if !length_ok {
            return Err(frame_size("payload length does not fit the frame type"));
        }
        Ok(())
    }

    /// Octets before the data of a DATA frame or the field block fragment of a HEADERS frame: the pad
    /// length and the deprecated priority fields. Zero for other types.
    #[expect(clippy::arithmetic_side_effects, reason = "lengths of 24 bits and small constants")]
    pub fn prelude_len(&self) -> usize {
        let padded = usize::from(self.has(PADDED));
        match self.kind {
            Kind::DATA => padded,
            Kind::HEADERS => padded + if self.has(PRIORITY) { 5 } else { 0 },
            _ => 0,
        }
    }
}

/// How the payload of a DATA or HEADERS frame is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Octets of the pad length and priority fields at the front.
    pub prelude: usize,
    /// Octets of data or of the field block fragment.
    pub body: usize,
    /// Octets of padding behind it.
    pub padding: usize,
    /// Stream the deprecated priority fields depend on.
    pub dependency: Option<u32>,
}

impl Layout {
    /// Divides the payload of `header`, whose first [`prelude_len`](FrameHeader::prelude_len) octets are
    /// `prelude`.
    ///
    /// # Errors
    /// PROTOCOL_ERROR if padding exceeds the payload (RFC 9113 §6.1, §6.2), FRAME_SIZE_ERROR if the
    /// payload is shorter than its mandatory fields.
    #[inline]
    pub fn decode(header: &FrameHeader, prelude: &[u8]) -> Result<Self, PeerMisbehaved> {
        match header.prelude_len() {
            0 => Ok(Self { prelude: 0, body: header.len as usize, padding: 0, dependency: None }),
            _ => Self::decode_prelude(header, prelude),
        }
    }

    fn decode_prelude(header: &FrameHeader, prelude: &[u8]) -> Result<Self, PeerMisbehaved> {
        let too_short = frame_size("payload shorter than its mandatory fields");
        let (padding, rest) = match (header.has(PADDED), prelude.split_first()) {
            (false, _) => (0, prelude),
            (true, Some((padding, rest))) => (usize::from(*padding), rest),
            (true, None) => return Err(too_short),
        };
        let dependency = match (header.kind, header.has(PRIORITY)) {
            (Kind::HEADERS, true) => Some(decode_priority(*rest.first_chunk::<5>().ok_or(too_short)?)),
            _ => None,
        };
        let prelude = header.prelude_len();
        let after = (header.len as usize).checked_sub(prelude).ok_or(too_short)?;
        let body = after.checked_sub(padding).ok_or(protocol("padding exceeds the payload"))?;
        Ok(Self { prelude, body, padding, dependency })
    }
}

/// Entries of a SETTINGS payload in wire order; a rest shorter than an entry is not yielded.
pub fn decode_settings(payload: &[u8]) -> impl Iterator<Item = (u16, u32)> + '_ {
    payload.chunks_exact(SETTING_LEN).filter_map(|entry| match *entry {
        [i1, i0, v3, v2, v1, v0] => Some((u16::from_be_bytes([i1, i0]), u32::from_be_bytes([v3, v2, v1, v0]))),
        _ => None,
    })
}

/// Last stream id and code of a GOAWAY payload; debug data follows them.
pub fn decode_goaway(octets: [u8; 8]) -> (u32, ErrorCode) {
    let [l3, l2, l1, l0, c3, c2, c1, c0] = octets;
    (u32::from_be_bytes([l3, l2, l1, l0]) & STREAM_MASK, ErrorCode(u32::from_be_bytes([c3, c2, c1, c0])))
}

/// Code of a RST_STREAM payload.
pub fn decode_rst_stream(octets: [u8; 4]) -> ErrorCode {
    ErrorCode(u32::from_be_bytes(octets))
}

/// Increment of a WINDOW_UPDATE payload, without the reserved bit.
pub fn decode_window_update(octets: [u8; 4]) -> u32 {
    u32::from_be_bytes(octets) & MAX_WINDOW
}

/// Stream that a PRIORITY payload depends on.
pub fn decode_priority(octets: [u8; 5]) -> u32 {
    let [d3, d2, d1, d0, _weight] = octets;
    u32::from_be_bytes([d3, d2, d1, d0]) & STREAM_MASK
}

/// Header of a DATA frame with `len` octets of payload: 9 octets. The payload follows it.
pub fn data_header(dst: &mut BytesMut, stream: u32, len: u32, end_stream: bool) {
    FrameHeader { len, kind: Kind::DATA, flags: if end_stream { END_STREAM } else { 0 }, stream }.encode(dst);
}

/// Header of the frame that opens a field block: 9 octets. `end_headers` says that `len` octets are the
/// whole block; otherwise [`continuation_header`] must follow with nothing in between (RFC 9113 §4.3).
pub fn headers_header(stream: u32, len: u32, end_stream: bool, end_headers: bool) -> FrameHeader {
    let flags = if end_stream { END_STREAM } else { 0 } | if end_headers { END_HEADERS } else { 0 };
    FrameHeader { len, kind: Kind::HEADERS, flags, stream }
}

/// Header of a frame that continues a field block.
pub fn continuation_header(stream: u32, len: u32, end_headers: bool) -> FrameHeader {
    FrameHeader { len, kind: Kind::CONTINUATION, flags: if end_headers { END_HEADERS } else { 0 }, stream }
}

/// SETTINGS with `entries` in order: 9 + 6 octets an entry. Entries beyond 2^24 octets are not possible
/// and beyond 32 not wise (some peers refuse them).
#[expect(clippy::arithmetic_side_effects, reason = "lengths of 24 bits and small constants")]
pub fn settings(dst: &mut BytesMut, entries: &[(u16, u32)]) {
    let len = entries.len() * SETTING_LEN;
    debug_assert!(len <= MIN_MAX_FRAME_SIZE as usize);
    FrameHeader { len: len as u32, kind: Kind::SETTINGS, flags: 0, stream: 0 }.encode(dst);
    for &(id, value) in entries {
        dst.put_u16(id);
        dst.put_u32(value);
    }
}

/// Acknowledgement of SETTINGS: 9 octets.
pub fn settings_ack(dst: &mut BytesMut) {
    FrameHeader { len: 0, kind: Kind::SETTINGS, flags: ACK, stream: 0 }.encode(dst);
}

/// PING or its acknowledgement: [`PING_LEN`] octets.
pub fn ping(dst: &mut BytesMut, payload: [u8; 8], ack: bool) {
    FrameHeader { len: 8, kind: Kind::PING, flags: if ack { ACK } else { 0 }, stream: 0 }.encode(dst);
    dst.put_slice(&payload);
}

/// GOAWAY: 17 octets and the debug text.
#[expect(clippy::arithmetic_side_effects, reason = "lengths of 24 bits and small constants")]
pub fn goaway(dst: &mut BytesMut, last_stream: u32, code: ErrorCode, debug: &[u8]) {
    debug_assert!(debug.len() <= 256);
    let len = 8 + debug.len() as u32;
    FrameHeader { len, kind: Kind::GOAWAY, flags: 0, stream: 0 }.encode(dst);
    dst.put_u32(last_stream & STREAM_MASK);
    dst.put_u32(code.0);
    dst.put_slice(debug);
}

/// RST_STREAM: [`RST_STREAM_LEN`] octets.
pub fn rst_stream(dst: &mut BytesMut, stream: u32, code: ErrorCode) {
    FrameHeader { len: 4, kind: Kind::RST_STREAM, flags: 0, stream }.encode(dst);
    dst.put_u32(code.0);
}

/// WINDOW_UPDATE: [`WINDOW_UPDATE_LEN`] octets. `increment` is 1 to 2^31 − 1.
pub fn window_update(dst: &mut BytesMut, stream: u32, increment: u32) {
    debug_assert!(increment > 0 && increment <= MAX_WINDOW);
    FrameHeader { len: 4, kind: Kind::WINDOW_UPDATE, flags: 0, stream }.encode(dst);
    dst.put_u32(increment);
}

const fn protocol(detail: &'static str) -> PeerMisbehaved {
    PeerMisbehaved { code: ErrorCode::PROTOCOL_ERROR, detail }
}

const fn frame_size(detail: &'static str) -> PeerMisbehaved {
    PeerMisbehaved { code: ErrorCode::FRAME_SIZE_ERROR, detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: Kind, flags: u8, stream: u32, len: u32) -> FrameHeader {
        FrameHeader { len, kind, flags, stream }
    }

    /// `h2:F1`: length, type, flags and a 31-bit id; the reserved bit is ignored.
    #[test]
    fn headers_round_trip_and_the_reserved_bit_is_ignored() {
        let octets = [0x12, 0x34, 0x56, 9, 0xff, 0xff, 0xff, 0xff, 0xff];
        let decoded = FrameHeader::decode(octets);
        assert_eq!(decoded, header(Kind::CONTINUATION, 0xff, 0x7fff_ffff, 0x12_3456));
        let mut again = octets;
        again[5] = 0x7f;
        assert_eq!(decoded.to_octets(), again);
    }

    /// `h2:F2`: a frame above the limit is FRAME_SIZE_ERROR, whatever its type.
    #[test]
    fn every_type_above_the_size_limit_is_refused() {
        for kind in 0..=255 {
            let fault = header(Kind(kind), 0, 1, 16_385).check(16_384).unwrap_err();
            assert_eq!(fault.code, ErrorCode::FRAME_SIZE_ERROR);
        }
        assert_eq!(header(Kind::DATA, 0, 1, 16_384).check(16_384), Ok(()));
    }

    /// `h2:F6`, `h2:F7`: stream id and length rules of each type.
    #[test]
    fn stream_ids_and_fixed_lengths_are_checked_per_type() {
        let protocol = Some(ErrorCode::PROTOCOL_ERROR);
        let size = Some(ErrorCode::FRAME_SIZE_ERROR);
        for (kind, flags, stream, len, expected) in [
            (Kind::DATA, 0, 0, 1, protocol),
            (Kind::DATA, PADDED, 1, 0, size),
            (Kind::HEADERS, 0, 0, 1, protocol),
            (Kind::HEADERS, PADDED | PRIORITY, 1, 5, size),
            (Kind::HEADERS, PADDED | PRIORITY, 1, 6, None),
            (Kind::PRIORITY, 0, 0, 5, protocol),
            (Kind::PRIORITY, 0, 1, 4, size),
            (Kind::RST_STREAM, 0, 0, 4, protocol),
            (Kind::RST_STREAM, 0, 1, 5, size),
            (Kind::SETTINGS, 0, 1, 0, protocol),
            (Kind::SETTINGS, 0, 0, 7, size),
            (Kind::SETTINGS, ACK, 0, 6, size),
            (Kind::PUSH_PROMISE, 0, 1, 3, size),
            (Kind::PING, 0, 1, 8, protocol),
            (Kind::PING, ACK, 0, 7, size),
            (Kind::GOAWAY, 0, 1, 8, protocol),
            (Kind::GOAWAY, 0, 0, 7, size),
            (Kind::WINDOW_UPDATE, 0, 0, 4, None),
            (Kind::WINDOW_UPDATE, 0, 1, 3, size),
            (Kind::CONTINUATION, 0, 0, 0, protocol),
            (Kind(0x0a), 0, 0, 100, None),
            (Kind(0xff), 0, 7, 0, None),
        ] {
            let found = header(kind, flags, stream, len).check(16_384).err().map(|fault| fault.code);
            assert_eq!(found, expected, "{kind:?} flags {flags} stream {stream} len {len}");
        }
    }

    /// `h2:F8`, `h2:B4`, `h2:B47`: padding may fill the payload, not exceed it.
    #[test]
    fn padding_may_fill_the_payload_but_not_exceed_it() {
        let data = header(Kind::DATA, PADDED, 1, 256);
        let layout = Layout::decode(&data, &[255]).unwrap();
        assert_eq!((layout.prelude, layout.body, layout.padding), (1, 0, 255));
        let data = header(Kind::DATA, PADDED, 1, 255);
        assert_eq!(Layout::decode(&data, &[255]).unwrap_err().code, ErrorCode::PROTOCOL_ERROR);
        let headers = header(Kind::HEADERS, PADDED | PRIORITY, 3, 9);
        let layout = Layout::decode(&headers, &[2, 0x80, 0, 0, 3, 16]).unwrap();
        assert_eq!(layout, Layout { prelude: 6, body: 1, padding: 2, dependency: Some(3) });
        assert_eq!(Layout::decode(&headers, &[4, 0, 0, 0, 0, 0]).unwrap_err().code, ErrorCode::PROTOCOL_ERROR);
    }

    /// `h2:F1`, RFC 9113 §6: the bytes of each frame type as the RFC draws them.
    #[test]
    fn each_encoder_writes_the_layout_of_its_section() {
        let mut dst = BytesMut::new();
        settings(&mut dst, &[(3, 256), (4, 65_536)]);
        assert_eq!(dst[..], [0, 0, 12, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 1, 0, 0, 4, 0, 1, 0, 0]);
        dst.clear();
        settings_ack(&mut dst);
        assert_eq!(dst[..], [0, 0, 0, 4, 1, 0, 0, 0, 0]);
        dst.clear();
        ping(&mut dst, *b"01234567", true);
        assert_eq!(dst[..], *b"\0\0\x08\x06\x01\0\0\0\x0001234567");
        dst.clear();
        goaway(&mut dst, 7, ErrorCode::ENHANCE_YOUR_CALM, b"hi");
        assert_eq!(dst[..], *b"\0\0\x0a\x07\0\0\0\0\0\0\0\0\x07\0\0\0\x0bhi");
        dst.clear();
        rst_stream(&mut dst, 5, ErrorCode::CANCEL);
        assert_eq!(dst[..], [0, 0, 4, 3, 0, 0, 0, 0, 5, 0, 0, 0, 8]);
        dst.clear();
        window_update(&mut dst, 0, 983_041);
        assert_eq!(dst[..], [0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0x0f, 0, 1]);
        dst.clear();
        data_header(&mut dst, 3, 10, true);
        assert_eq!(dst[..], [0, 0, 10, 0, 1, 0, 0, 0, 3]);
        assert_eq!(headers_header(1, 3, true, true).to_octets(), [0, 0, 3, 1, 5, 0, 0, 0, 1]);
        assert_eq!(continuation_header(1, 3, false).to_octets(), [0, 0, 3, 9, 0, 0, 0, 0, 1]);
    }
}
