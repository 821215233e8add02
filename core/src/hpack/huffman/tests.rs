use alloc::vec;
use alloc::vec::Vec;
use std::sync::LazyLock;

use quickcheck::quickcheck;

use super::*;

fn encoded(src: &[u8]) -> BytesMut {
    let mut dst = BytesMut::new();
    encode(src, &mut dst);
    assert_eq!(dst.len(), encoded_len(src));
    dst
}

fn decoded(src: &[u8]) -> Option<Vec<u8>> {
    let mut dst = vec![0; max_decoded_len(src.len())];
    let len = decode(src, &mut dst)?;
    dst.truncate(len);
    Some(dst)
}

/// RFC 7541 §5.2 bit by bit, from the codes alone.
fn decoded_bit_by_bit(src: &[u8]) -> Option<Vec<u8>> {
    // For each length its first code, and the symbols in the order of their codes.
    static BOOK: LazyLock<Vec<(u32, Vec<usize>)>> = LazyLock::new(|| {
        let of_length = |length| {
            let mut symbols: Vec<_> = (0..SYMBOLS).filter(|&symbol| u32::from(LENGTHS[symbol]) == length).collect();
            symbols.sort_by_key(|&symbol| CODES[symbol]);
            (symbols.first().map_or(0, |&symbol| CODES[symbol]), symbols)
        };
        (0..=MAX_BITS).map(of_length).collect()
    });
    let mut dst = Vec::new();
    let (mut code, mut length) = (0u32, 0);
    for bit in src.iter().flat_map(|octet| (0..8).rev().map(move |i| octet >> i & 1)) {
        (code, length) = (code << 1 | u32::from(bit), length + 1);
        let (first, symbols) = &BOOK[length];
        if let Some(&symbol) = code.checked_sub(*first).and_then(|at| symbols.get(at as usize)) {
            dst.push(u8::try_from(symbol).ok()?);
            (code, length) = (0, 0);
        }
    }
    (length < 8 && code == (1 << length) - 1).then_some(dst)
}

/// RFC 7541 Appendix B: the checksum of the lengths, and codes as printed there.
#[test]
fn the_code_is_that_of_appendix_b() {
    let mut crc = u32::MAX; // CRC-32 of IEEE 802.3
    for octet in LENGTHS {
        crc ^= u32::from(octet);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    assert_eq!(!crc, 0xfbab_bff4);
    for (symbol, code, length) in [
        (usize::from(b'0'), 0b00000, 5),
        (usize::from(b'a'), 0b00011, 5),
        (usize::from(b't'), 0b01001, 5),
        (usize::from(b' '), 0b010100, 6),
        (usize::from(b'A'), 0b100001, 6),
        (usize::from(b':'), 0b1011100, 7),
        (usize::from(b'&'), 0b11111000, 8),
        (0x00, 0x1ff8, 13),
        (0xff, 0x3ffffee, 26),
        (0x0a, 0x3ffffffc, 30),
        (256, 0x3fffffff, 30),
    ] {
        assert_eq!((CODES[symbol], LENGTHS[symbol]), (code, length), "{symbol:#x}");
    }
}

#[test]
fn every_octet_and_every_pair_round_trips() {
    for first in 0..=255 {
        assert_eq!(decoded(&encoded(&[first])).as_deref(), Some(&[first][..]));
        for second in 0..=255 {
            let text = [first, second];
            assert_eq!(decoded(&encoded(&text)).as_deref(), Some(&text[..]));
        }
    }
}

/// `h2:P13`: valid or not, the table decoder and the definition agree. All strings of up to two octets, and of those of
/// three the ones that begin a long code and a sample of the rest; all of them if `TRIRPC_HUFFMAN` says `all`.
#[test]
fn short_strings_decode_as_defined() {
    let agree = |src: &[u8]| assert_eq!(decoded(src), decoded_bit_by_bit(src), "{src:x?}");
    agree(&[]);
    for octet in 0..=255 {
        agree(&[octet]);
    }
    for number in 0..=u16::MAX {
        agree(&number.to_be_bytes());
    }
    let is_all = std::env::var("TRIRPC_HUFFMAN").is_ok_and(|which| which == "all");
    let (rare, common) = if is_all { (1, 1) } else { (31, 1999) };
    for number in (0xfe_0000..=0xff_ffffu32).step_by(rare).chain((0..0xfe_0000).step_by(common)) {
        agree(&number.to_be_bytes()[1..]);
    }
}

/// `h2:K5`
#[test]
fn eos_and_bad_padding_are_errors() {
    assert_eq!(decoded(&[]), Some(Vec::new()), "the empty string is legal");
    assert_eq!(decoded(&[0x07]).as_deref(), Some(&b"0"[..]), "three bits of padding");
    assert_eq!(decoded(&[0x02, 0x8a, 0x7f]).as_deref(), Some(&b"0  "[..]), "seven bits of padding");
    assert_eq!(decoded(&[0x07, 0xff]), None, "eleven bits of padding");
    assert_eq!(decoded(&[0xff]), None, "an octet of padding");
    assert_eq!(decoded(&[0x00]), None, "zeroes are no padding");
    assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), None, "EOS at the end");
    assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xfc, 0, 0, 0, 0]), None, "EOS in the middle");
    assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xf3]).as_deref(), Some(&b"\n"[..]), "thirty bits, then padding");
    assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xf0]), None, "thirty bits, then zeroes");
    assert_eq!(decoded(&encoded(b"\n\r\x16")).as_deref(), Some(&b"\n\r\x16"[..]), "three codes of thirty bits");
}

quickcheck! {
    /// `h2:P13`
    fn any_text_round_trips(text: Vec<u8>) -> bool {
        decoded(&encoded(&text)) == Some(text)
    }

    /// `h2:P13`
    fn any_octets_decode_as_defined(src: Vec<u8>) -> bool {
        decoded(&src) == decoded_bit_by_bit(&src)
    }

    /// `h2:P13`: random octets rarely decode far; text with one octet changed does.
    fn damaged_text_decodes_as_defined(text: Vec<u8>, at: usize, change: u8) -> bool {
        let mut src = encoded(&text);
        if !src.is_empty() {
            let at = at % src.len();
            src[at] ^= change;
        }
        decoded(&src) == decoded_bit_by_bit(&src)
    }
}
