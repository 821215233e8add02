//! Frames of RFC 9113 and literals of RFC 7541, as far as the floor needs them.

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const HEAD: usize = 9;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;

pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;

/// The window a connection or stream starts with.
pub(crate) const DEFAULT_WINDOW: i64 = 65_535;
/// The largest window there is, which both sides give each other.
pub(crate) const MAX_WINDOW: u32 = 0x7fff_ffff;
/// The largest frame that every peer takes.
pub(crate) const MAX_FRAME: usize = 16_384;
/// Received bytes after which the connection's window is opened again.
pub(crate) const CREDIT: usize = 1 << 29;

pub(crate) struct Frame<'a> {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: &'a [u8],
}

impl Frame<'_> {
    pub(crate) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn settings(&self) -> impl Iterator<Item = (u16, u32)> {
        self.payload.chunks_exact(6).map(|pair| (u16::from_be_bytes([pair[0], pair[1]]), be32(&pair[2..])))
    }
}

/// The frame at the front of `input`, if it is whole.
pub(crate) fn first(input: &[u8]) -> Option<Frame<'_>> {
    let head = input.get(..HEAD)?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    let payload = input.get(HEAD..HEAD + length)?;
    Some(Frame { kind: head[3], flags: head[4], stream: be32(&head[5..]), payload })
}

pub(crate) fn be32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

pub(crate) fn write(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = (payload.len() as u32).to_be_bytes();
    out.extend_from_slice(&[length[1], length[2], length[3], kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

pub(crate) fn write_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    let pairs = settings.iter().flat_map(|(id, value)| {
        let ([a, b], [c, d, e, f]) = (id.to_be_bytes(), value.to_be_bytes());
        [a, b, c, d, e, f]
    });
    write(out, SETTINGS, 0, 0, &pairs.collect::<Vec<_>>());
}

pub(crate) fn write_window_update(out: &mut Vec<u8>, stream: u32, by: u32) {
    write(out, WINDOW_UPDATE, 0, stream, &by.to_be_bytes());
}

/// A literal field that enters the table, with its name by `first` octet's index or, if that is [`NEW_NAME`], written
/// out.
pub(crate) fn literal(block: &mut Vec<u8>, first: u8, name: &str, value: &str) {
    block.push(first);
    for text in [name, value].into_iter().filter(|text| !text.is_empty()) {
        assert!(text.len() < 127, "a length of one octet");
        block.push(text.len() as u8);
        block.extend_from_slice(text.as_bytes());
    }
}

/// First octet of a literal that enters the table and has its name written out.
pub(crate) const NEW_NAME: u8 = 0x40;
/// First octet of a literal that enters the table: `content-type` by its index.
pub(crate) const CONTENT_TYPE: u8 = 0x40 | 31;
/// Index of the newest entry of the dynamic table.
pub(crate) const NEWEST: u8 = 62;

/// An indexed field.
pub(crate) const fn indexed(index: u8) -> u8 {
    0x80 | index
}
