//! Base64 with the standard alphabet (RFC 4648 §4), as `-bin` metadata needs it: written without padding,
//! read with or without.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use alloc::vec::Vec;
use core::fmt;

/// A `-bin` value that is not base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidBase64;

impl fmt::Display for InvalidBase64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not base64")
    }
}

impl core::error::Error for InvalidBase64 {}

/// The characters of `data`, unpadded.
#[expect(clippy::indexing_slicing, reason = "six bits index 64 letters")]
#[expect(
    clippy::arithmetic_side_effects,
    reason = "at most four groups of six bits, and lengths of what lies in memory"
)]
pub(crate) fn encode(data: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(data.len().div_ceil(3) * 4);
    for group in data.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, &byte| (bits << 8) | u32::from(byte)) << (8 * (3 - group.len()));
        // One character more than bytes: 1 → 2, 2 → 3, 3 → 4.
        for i in 0..=group.len() {
            text.push(ALPHABET[(bits >> (18 - 6 * i)) as usize & 0x3f]);
        }
    }
    text
}

/// The data of `text`, with or without padding.
///
/// # Errors
/// A character outside the alphabet, padding in the middle, or a length that no data has.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "at most four groups of six bits, and lengths of what lies in memory"
)]
pub(crate) fn decode(text: &[u8]) -> Result<Vec<u8>, InvalidBase64> {
    let text = match text {
        [rest @ .., b'=', b'='] | [rest @ .., b'='] if text.len() % 4 == 0 => rest,
        text => text,
    };
    let mut data = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.chunks(4) {
        let mut bits = 0_u32;
        for &character in group {
            bits = (bits << 6) | u32::from(value(character).ok_or(InvalidBase64)?);
        }
        let [_, a, b, c] = (bits << (6 * (4 - group.len()))).to_be_bytes();
        match group.len() {
            4 => data.extend_from_slice(&[a, b, c]),
            3 => data.extend_from_slice(&[a, b]),
            2 => data.push(a),
            _ => return Err(InvalidBase64),
        }
    }
    Ok(data)
}

#[expect(
    clippy::arithmetic_side_effects,
    reason = "at most four groups of six bits, and lengths of what lies in memory"
)]
fn value(character: u8) -> Option<u8> {
    match character {
        b'A'..=b'Z' => Some(character - b'A'),
        b'a'..=b'z' => Some(character - b'a' + 26),
        b'0'..=b'9' => Some(character - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648 §10.
    const VECTORS: &[(&str, &str, &str)] = &[
        ("", "", ""),
        ("f", "Zg", "Zg=="),
        ("fo", "Zm8", "Zm8="),
        ("foo", "Zm9v", "Zm9v"),
        ("foob", "Zm9vYg", "Zm9vYg=="),
        ("fooba", "Zm9vYmE", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy", "Zm9vYmFy"),
    ];

    /// tri:53 tri:181
    #[test]
    fn values_are_written_unpadded_and_read_either_way() {
        for (data, bare, padded) in VECTORS {
            assert_eq!(encode(data.as_bytes()), bare.as_bytes());
            assert_eq!(decode(bare.as_bytes()).as_deref(), Ok(data.as_bytes()));
            assert_eq!(decode(padded.as_bytes()).as_deref(), Ok(data.as_bytes()));
        }
        assert_eq!(encode(&[0xfb, 0xff, 0xbf]), b"+/+/");
    }

    /// tri:54
    #[test]
    fn what_is_not_base64_is_refused() {
        for text in ["A", "AAAAA", "AA=A", "====", "=", "A===", "Zg=", "Z g", "Zm9v\n", "-_", "Zg==Zg=="] {
            assert_eq!(decode(text.as_bytes()), Err(InvalidBase64), "{text:?}");
        }
    }

    #[test]
    fn any_bytes_come_back() {
        fn round_trip(data: Vec<u8>) -> bool {
            decode(&encode(&data)).as_ref() == Ok(&data)
        }
        quickcheck::quickcheck(round_trip as fn(Vec<u8>) -> bool);
    }
}
