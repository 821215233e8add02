//! What a peer must not do, each with what RFC 9113 wants done about it, or the stricter verdict of `docs/http2.md`.

use trirpc_core::ErrorCode;

use super::peer::{Peer, cut_block, request, response};
use crate::frames::{self, frame, settings, window_update};
use crate::input::Input;
use crate::trace::{Side, Trace};

/// What a fault must lead to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    /// The end of the connection.
    Connection(ErrorCode),
    /// A reset of the stream, and nothing else.
    Stream(u32, ErrorCode),
}

impl Verdict {
    /// Whether a connection that says farewell may look away: the fault is on a stream above its last.
    pub(super) fn needs_new_stream(self) -> bool {
        !matches!(self, Self::Connection(code) if code == ErrorCode::COMPRESSION_ERROR)
    }
}

/// Frames that are wrong whatever came before: type, flags, stream, payload, and the code of the end.
const ALWAYS: &[(u8, u8, u32, &[u8], ErrorCode)] = &[
    // On the wrong stream (§6.1 to §6.10).
    (0, 0, 0, b"x", ErrorCode::PROTOCOL_ERROR),
    (1, 4, 0, b"\x82", ErrorCode::PROTOCOL_ERROR),
    (2, 0, 0, &[0; 5], ErrorCode::PROTOCOL_ERROR),
    (3, 0, 0, &[0; 4], ErrorCode::PROTOCOL_ERROR),
    (4, 0, 1, &[], ErrorCode::PROTOCOL_ERROR),
    (6, 0, 1, &[0; 8], ErrorCode::PROTOCOL_ERROR),
    (7, 0, 1, &[0; 8], ErrorCode::PROTOCOL_ERROR),
    (9, 4, 0, b"", ErrorCode::PROTOCOL_ERROR),
    // Of a length that the type does not have.
    (3, 0, 1, &[0; 3], ErrorCode::FRAME_SIZE_ERROR),
    (3, 0, 1, &[0; 5], ErrorCode::FRAME_SIZE_ERROR),
    (4, 0, 0, &[0; 5], ErrorCode::FRAME_SIZE_ERROR),
    (4, 1, 0, &[0; 6], ErrorCode::FRAME_SIZE_ERROR),
    (6, 0, 0, &[0; 7], ErrorCode::FRAME_SIZE_ERROR),
    (7, 0, 0, &[0; 7], ErrorCode::FRAME_SIZE_ERROR),
    (8, 0, 0, &[0; 3], ErrorCode::FRAME_SIZE_ERROR),
    (8, 0, 0, &[0; 5], ErrorCode::FRAME_SIZE_ERROR),
    // Out of place.
    (9, 4, 1, b"\x82", ErrorCode::PROTOCOL_ERROR),
    (5, 4, 1, &[0, 0, 0, 2, 0x82], ErrorCode::PROTOCOL_ERROR),
    (4, 1, 0, &[], ErrorCode::PROTOCOL_ERROR),
    // Of a value that is out of range (§6.5.2, §6.9).
    (8, 0, 0, &[0; 4], ErrorCode::PROTOCOL_ERROR),
    (4, 0, 0, &[0, 2, 0, 0, 0, 2], ErrorCode::PROTOCOL_ERROR),
    (4, 0, 0, &[0, 4, 0x80, 0, 0, 0], ErrorCode::FLOW_CONTROL_ERROR),
    (4, 0, 0, &[0, 5, 0, 0, 0x3f, 0xff], ErrorCode::PROTOCOL_ERROR),
    (4, 0, 0, &[0, 5, 1, 0, 0, 0], ErrorCode::PROTOCOL_ERROR),
];

/// Blocks that are no HPACK, behind a table of whatever state (RFC 7541).
const BROKEN_BLOCKS: &[&[u8]] = &[
    &[0x80],                         // index 0
    &[0xff, 0xff, 0xff, 0x7f],       // an index beyond every table
    &[0x82, 0x20],                   // a size update behind a field
    &[0x3f, 0xff, 0xff, 0xff, 0x0f], // a size above what is allowed
    &[0x40, 0x05, b'a'],             // a string that ends early
    &[0x00, 0x81, 0x00, 0x01, b'a'], // Huffman code with padding of zeroes
    &[0xff],                         // an integer that ends early
    &[0x20, 0x20, 0x20],             // three size updates
];

/// Heads of requests that are malformed, by what they have more; behind the pseudo fields.
const BAD_FIELDS: &[(&str, &str)] = &[
    ("Upper", "case"),
    ("connection", "close"),
    ("transfer-encoding", "chunked"),
    ("te", "gzip"),
    (":path", "/late"),
    (":unknown", ""),
    ("", "no name"),
    ("bad name", ""),
    ("x-bad", "line\nbreak"),
    ("content-length", "1x"),
];

impl Peer {
    /// A frame that is wrong, and its verdict; none where there is nothing to be wrong about.
    pub(super) fn fault(&mut self, input: &mut Input<'_>, trace: &Trace) -> Option<(Vec<u8>, Verdict)> {
        let (kind, octet) = (input.octet(), input.octet());
        let ends = |bytes: Vec<u8>, code| Some((bytes, Verdict::Connection(code)));
        let idle = 0x7fff_fff0 | u32::from(octet & 0xf);
        match kind % 16 {
            0..=3 => {
                let (kind, flags, stream, payload, code) = ALWAYS[usize::from(octet) % ALWAYS.len()];
                ends(frame(kind, flags, stream, payload), code)
            }
            // 16 MiB − 1, and nothing of them.
            4 => {
                let (kind, stream) = [(0, 1), (1, 1), (3, 1), (4, 0), (6, 0), (7, 0), (8, 1)][usize::from(octet) % 7];
                ends(vec![0xff, 0xff, 0xff, kind, 0, 0, 0, 0, stream], ErrorCode::FRAME_SIZE_ERROR)
            }
            5 => ends(frames::data(idle, b"x", false), ErrorCode::PROTOCOL_ERROR),
            6 => ends(frames::reset(idle, 8), ErrorCode::PROTOCOL_ERROR),
            7 => ends(window_update(idle, 1), ErrorCode::PROTOCOL_ERROR),
            8 => ends(
                [window_update(0, 0x7fff_ffff), window_update(0, 0x7fff_ffff)].concat(),
                ErrorCode::FLOW_CONTROL_ERROR,
            ),
            9 => {
                let (id, _) = self.block_place(octet)?;
                let head = frame(1, 0, id, &[]);
                let other = if octet % 2 == 0 { frames::ping([0; 8], false) } else { settings(&[]) };
                ends([head, other].concat(), ErrorCode::PROTOCOL_ERROR)
            }
            10 => {
                let (id, _) = self.block_place(octet)?;
                let block = BROKEN_BLOCKS[usize::from(octet) % BROKEN_BLOCKS.len()];
                ends(cut_block(id, block, false, input.octet(), input), ErrorCode::COMPRESSION_ERROR)
            }
            11 => {
                // Padding beyond the payload by one octet.
                let (id, _) = self.block_place(octet)?;
                ends(frame(1, 0x0c, id, &[4, 0x82, 0, 0]), ErrorCode::PROTOCOL_ERROR)
            }
            12 => {
                let id = self.pick(octet, |stream| stream.has_head)?;
                let over = usize::try_from(trace.credit(self.side, id) + 1).ok().filter(|&len| len <= 16_384)?;
                ends(frames::data(id, &vec![0; over], false), ErrorCode::FLOW_CONTROL_ERROR)
            }
            13 if self.side == Side::Client => {
                ends(frames::headers(2, &request(1, 0, "2"), true), ErrorCode::PROTOCOL_ERROR)
            }
            13 => ends(frames::headers(idle, &response(0, true, "2"), true), ErrorCode::PROTOCOL_ERROR),
            _ => self.malformed(octet, input),
        }
    }

    /// A stream on which a block may come, and whether it would open it.
    fn block_place(&mut self, octet: u8) -> Option<(u32, bool)> {
        match self.side {
            Side::Client if self.may_open() => {
                self.next += 2;
                Some((self.next - 2, true))
            }
            Side::Client => None,
            Side::Server => self.pick(octet, |_| true).map(|id| (id, false)),
        }
    }

    /// A message that costs its stream, with a mark that the tables must learn all the same.
    fn malformed(&mut self, octet: u8, input: &mut Input<'_>) -> Option<(Vec<u8>, Verdict)> {
        let form = input.octet();
        let bad = BAD_FIELDS[usize::from(octet) % BAD_FIELDS.len()];
        let id = match self.side {
            Side::Client if self.may_open() => {
                self.next += 2;
                self.next - 2
            }
            Side::Client => return None,
            Side::Server => self.pick(octet, |stream| !stream.has_head)?,
        };
        let text = id.to_string();
        let mut fields = match self.side {
            Side::Client => request(id, 0, &text),
            Side::Server => response(0, false, &text),
        };
        fields.push(bad);
        let (block, _) = self.tables.block(&fields, input.octet());
        Some((cut_block(id, &block, false, form, input), Verdict::Stream(id, ErrorCode::PROTOCOL_ERROR)))
    }
}
