//! Frames by hand, for peers that are more honest or less honest than ours.

/// The client's first 24 bytes (RFC 9113 §3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame of any type with any payload.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).expect("a frame's length has 24 bits").to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// DATA.
pub fn data(stream: u32, payload: &[u8], end: bool) -> Vec<u8> {
    frame(0, u8::from(end), stream, payload)
}

/// HEADERS; what does not fit into a frame of the default size goes on in CONTINUATION.
pub fn headers(stream: u32, fields: &[(&str, &str)], end: bool) -> Vec<u8> {
    const END_HEADERS: u8 = 4;
    let block = block(fields);
    let mut parts: Vec<&[u8]> = block.chunks(16 * 1024).collect();
    let last = parts.pop().unwrap_or_default();
    let (mut kind, mut flags, mut octets) = (1, u8::from(end), Vec::new());
    for part in parts {
        octets.extend(frame(kind, flags, stream, part));
        (kind, flags) = (9, 0);
    }
    octets.extend(frame(kind, flags | END_HEADERS, stream, last));
    octets
}

/// RST_STREAM.
pub fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(3, 0, stream, &code.to_be_bytes())
}

/// SETTINGS.
pub fn settings(entries: &[(u16, u32)]) -> Vec<u8> {
    let entry = |(identifier, value): &(u16, u32)| [&identifier.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(4, 0, 0, &entries.iter().flat_map(entry).collect::<Vec<u8>>())
}

/// SETTINGS with ACK.
pub fn settings_ack() -> Vec<u8> {
    frame(4, 1, 0, &[])
}

/// PING.
pub fn ping(payload: [u8; 8], ack: bool) -> Vec<u8> {
    frame(6, u8::from(ack), 0, &payload)
}

/// GOAWAY without debug data.
pub fn go_away(last: u32, code: u32) -> Vec<u8> {
    frame(7, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

/// WINDOW_UPDATE.
pub fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(8, 0, stream, &increment.to_be_bytes())
}

/// A gRPC request head.
pub fn grpc_request(stream: u32, path: &str) -> Vec<u8> {
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    headers(stream, &fields, false)
}

/// A message in its envelope.
pub fn envelope(message: &[u8]) -> Vec<u8> {
    let len = u32::try_from(message.len()).expect("an envelope's length has 32 bits");
    [&[0], &len.to_be_bytes()[..], message].concat()
}

/// A header block of literals that touch no table (RFC 7541 §6.2.2).
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        string(name.as_bytes(), &mut block);
        string(value.as_bytes(), &mut block);
    }
    block
}

fn string(text: &[u8], block: &mut Vec<u8>) {
    let mut len = text.len();
    if len < 0x7f {
        block.push(len as u8);
    } else {
        block.push(0x7f);
        len -= 0x7f;
        while len >= 0x80 {
            block.push(len as u8 | 0x80);
            len >>= 7;
        }
        block.push(len as u8);
    }
    block.extend_from_slice(text);
}
