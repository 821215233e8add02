use bytes::{BufMut, BytesMut};
use trirpc_core::http2::frame::{self, FrameHeader, HEADER_LEN, Kind, Layout};

/// Frames decoded and encoded again: what is accepted comes back octet by octet, but for bits without meaning.
pub fn frame(data: &[u8]) {
    let mut rest = data;
    while let Some((octets, after)) = rest.split_first_chunk::<HEADER_LEN>() {
        let header = FrameHeader::decode(*octets);
        let mut canonical = *octets;
        canonical[5] &= 0x7f; // the reserved bit
        assert_eq!(header.to_octets(), canonical);
        let valid = header.check(frame::MIN_MAX_FRAME_SIZE).is_ok();
        assert!(!valid || header.len <= frame::MIN_MAX_FRAME_SIZE);
        let payload = after.get(..header.len as usize).unwrap_or(after);
        divide(&header, payload, valid);
        if valid && payload.len() == header.len as usize {
            encode_again(&header, payload);
        }
        rest = &after[payload.len()..];
    }
}

/// The parts of a DATA or HEADERS payload are disjoint and make it up, however little of it is there.
fn divide(header: &FrameHeader, payload: &[u8], valid: bool) {
    let prelude = payload.get(..header.prelude_len()).unwrap_or(payload);
    if let Ok(layout) = Layout::decode(header, prelude) {
        assert_eq!(layout.prelude + layout.body + layout.padding, header.len as usize);
        assert_eq!(layout.prelude, header.prelude_len());
        assert!(layout.padding <= 255);
    } else if valid && matches!(header.kind, Kind::DATA | Kind::HEADERS) && prelude.len() == header.prelude_len() {
        assert!(header.has(frame::PADDED), "only padding can be wrong in a valid header's payload");
    }
}

fn encode_again(header: &FrameHeader, payload: &[u8]) {
    let mut expected = BytesMut::new();
    let mut encoded = BytesMut::new();
    // Flags and bits that the type does not define are not written.
    let known = |flags: u8| FrameHeader { flags: header.flags & flags, ..*header };
    let without_top_bit = |at: usize| {
        let mut payload = payload.to_vec();
        payload[at] &= 0x7f;
        payload
    };
    match header.kind {
        Kind::DATA if !header.has(frame::PADDED) => {
            known(frame::END_STREAM).encode(&mut expected);
            frame::data_header(&mut encoded, header.stream, header.len, header.has(frame::END_STREAM));
        }
        Kind::HEADERS if !header.has(frame::PADDED) && !header.has(frame::PRIORITY) => {
            known(frame::END_STREAM | frame::END_HEADERS).encode(&mut expected);
            let (end_stream, end_headers) = (header.has(frame::END_STREAM), header.has(frame::END_HEADERS));
            frame::headers_header(header.stream, header.len, end_stream, end_headers).encode(&mut encoded);
        }
        Kind::CONTINUATION => {
            known(frame::END_HEADERS).encode(&mut expected);
            frame::continuation_header(header.stream, header.len, header.has(frame::END_HEADERS)).encode(&mut encoded);
        }
        Kind::SETTINGS => {
            known(frame::ACK).encode(&mut expected);
            expected.put_slice(payload);
            if header.has(frame::ACK) {
                frame::settings_ack(&mut encoded);
            } else {
                let entries: Vec<(u16, u32)> = frame::decode_settings(payload).collect();
                frame::settings(&mut encoded, &entries);
            }
        }
        Kind::PING => {
            known(frame::ACK).encode(&mut expected);
            expected.put_slice(payload);
            frame::ping(&mut encoded, payload.try_into().expect("checked length"), header.has(frame::ACK));
        }
        Kind::RST_STREAM => {
            known(0).encode(&mut expected);
            expected.put_slice(payload);
            let code = frame::decode_rst_stream(payload.try_into().expect("checked length"));
            frame::rst_stream(&mut encoded, header.stream, code);
        }
        Kind::GOAWAY => {
            let (fixed, debug) = payload.split_first_chunk::<8>().expect("checked length");
            if debug.len() > 256 {
                return;
            }
            known(0).encode(&mut expected);
            expected.put_slice(&without_top_bit(0));
            let (last, code) = frame::decode_goaway(*fixed);
            frame::goaway(&mut encoded, last, code, debug);
        }
        Kind::WINDOW_UPDATE => {
            let increment = frame::decode_window_update(payload.try_into().expect("checked length"));
            if increment == 0 {
                return;
            }
            known(0).encode(&mut expected);
            expected.put_slice(&without_top_bit(0));
            frame::window_update(&mut encoded, header.stream, increment);
        }
        Kind::PRIORITY => {
            assert!(frame::decode_priority(payload.try_into().expect("checked length")) <= frame::MAX_WINDOW);
        }
        _ => {}
    }
    assert_eq!(encoded, expected);
}
