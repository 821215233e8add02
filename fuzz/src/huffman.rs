use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};
use trirpc_core::hpack::{DEFAULT_TABLE_SIZE, DecodeError, Decoder, Encoder, ListLimits};
use trirpc_core::http::{Field, HeaderName};

/// Length of the code of each octet, in bits, and of EOS (RFC 7541 Appendix B).
#[rustfmt::skip]
const LENGTHS: [u32; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// Strings through the Huffman code: what the octets mean as code, by the tables and bit by bit from the definition;
/// and as text, there and back.
pub fn huffman(data: &[u8]) {
    match (decode(data, true), by_definition(data)) {
        (Ok(ours), Some(theirs)) => assert_eq!(ours[..], theirs[..], "{data:02x?} decodes otherwise"),
        (Err(DecodeError::Huffman), None) => {}
        (ours, theirs) => panic!("{data:02x?} is {ours:?}, by the definition {theirs:?}"),
    }

    let mut block = BytesMut::new();
    let mut encoder = Encoder::new(0);
    encoder.begin(&mut block);
    encoder.field(&HeaderName::from_static("x"), data, false, &mut block);
    let arrived = fields(block.freeze()).expect("own blocks decode");
    assert_eq!(arrived[0].value, data);
    assert_eq!(decode(data, false).as_deref(), Ok(data));
}

/// What `string` means as the value of a field, written as Huffman code or plainly.
fn decode(string: &[u8], is_huffman: bool) -> Result<Bytes, DecodeError> {
    let mut block = vec![0, 1, b'x'];
    let mut rest = string.len();
    let flag = if is_huffman { 0x80 } else { 0 };
    if rest < 0x7f {
        block.push(flag | rest as u8);
    } else {
        block.push(flag | 0x7f);
        rest -= 0x7f;
        while rest >= 0x80 {
            block.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        block.push(rest as u8);
    }
    block.extend_from_slice(string);
    fields(block.into()).map(|mut fields| fields.swap_remove(0).value)
}

fn fields(block: Bytes) -> Result<Vec<Field>, DecodeError> {
    let mut fields = Vec::new();
    let limits = ListLimits { bytes: usize::MAX, fields: usize::MAX };
    Decoder::new(DEFAULT_TABLE_SIZE).decode(&block, limits, &mut |field| fields.push(field))?;
    Ok(fields)
}

/// RFC 7541 §5.2, bit by bit: codes of one length are numbered in the order of their symbols.
fn by_definition(code: &[u8]) -> Option<Vec<u8>> {
    static BY_LENGTH: LazyLock<Vec<Vec<usize>>> = LazyLock::new(|| {
        let of_length = |length| (0..LENGTHS.len()).filter(|&symbol| LENGTHS[symbol] == length).collect();
        (0..=30).map(of_length).collect()
    });
    let mut text = Vec::new();
    let (mut bits, mut length, mut first) = (0u32, 0, 0u32);
    for bit in code.iter().flat_map(|octet| (0..8).rev().map(move |at| u32::from(octet >> at & 1))) {
        (bits, length, first) = (bits << 1 | bit, length + 1, first << 1);
        let symbols = &BY_LENGTH[length];
        match symbols.get(bits.wrapping_sub(first) as usize) {
            Some(&symbol) => {
                text.push(u8::try_from(symbol).ok()?); // EOS is no octet
                (bits, length, first) = (0, 0, 0);
            }
            None => first += symbols.len() as u32,
        }
    }
    let is_padding = length < 8 && bits == (1 << length) - 1;
    is_padding.then_some(text)
}
