//! Percent-encoding of `grpc-message` (gRPC over HTTP/2, "Responses").
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

/// `message` as printable ASCII, cut off before it is longer than `limit` bytes.
///
/// Escaped are control bytes, `%`, everything from 0x7F up, and a blank at either end, which a header value cannot
/// have. Other blanks and `+` stay as they are: some peers undo only part of the escapes, others read `+` as a blank
/// whatever is done to it.
#[expect(clippy::indexing_slicing, reason = "four bits index 16 digits")]
#[expect(clippy::arithmetic_side_effects, reason = "a digit, and lengths of what lies in memory")]
pub(crate) fn encode(message: &str, limit: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len().min(limit));
    for (at, character) in message.char_indices() {
        let mut utf8 = [0; 4];
        let utf8 = character.encode_utf8(&mut utf8).as_bytes();
        let plain = match character {
            ' ' => at > 0 && at + 1 < message.len(),
            '%' => false,
            _ => matches!(character, '!'..='~'),
        };
        let len = if plain { 1 } else { 3 * utf8.len() };
        if out.len() + len > limit {
            out.truncate(out.trim_ascii_end().len());
            break;
        }
        if plain {
            out.extend_from_slice(utf8);
        } else {
            for byte in utf8 {
                out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
    }
    out
}

/// The text of a `grpc-message` value. Never fails: a message must not cost the status it explains.
///
/// A `%` that is no escape stays as it is, raw CR and LF become blanks, and what is not UTF-8 is read as Latin-1.
pub(crate) fn decode(value: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    loop {
        match rest {
            [b'%', high, low, tail @ ..] if hex(*high).is_some() && hex(*low).is_some() => {
                bytes.push((hex(*high).unwrap_or(0) << 4) | hex(*low).unwrap_or(0));
                rest = tail;
            }
            [b'\r' | b'\n', tail @ ..] => {
                bytes.push(b' ');
                rest = tail;
            }
            [byte, tail @ ..] => {
                bytes.push(*byte);
                rest = tail;
            }
            [] => break,
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|error| latin1(error.as_bytes()))
}

/// A header value as text: UTF-8, else Latin-1, which is what the only known senders of such bytes mean.
pub(crate) fn text(value: &[u8]) -> Cow<'_, str> {
    core::str::from_utf8(value).map_or_else(|_| Cow::Owned(latin1(value)), Cow::Borrowed)
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

#[expect(clippy::arithmetic_side_effects, reason = "a digit, and lengths of what lies in memory")]
fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(message: &str, limit: usize) -> String {
        String::from_utf8(encode(message, limit)).expect("ASCII")
    }

    /// tri:33 tri:Q46
    #[test]
    fn percent_control_and_non_ascii_are_escaped_and_blank_is_not() {
        assert_eq!(encoded("100% naïve\n", usize::MAX), "100%25 na%C3%AFve%0A");
        assert_eq!(encoded(" a b ", usize::MAX), "%20a b%20");
        assert_eq!(encoded("a+b \u{7f}\t~", usize::MAX), "a+b %7F%09~");
    }

    /// tri:Q10
    #[test]
    fn a_cut_message_ends_at_a_character() {
        assert_eq!(encoded("aï%", 6), "a");
        assert_eq!(encoded("aï%", 7), "a%C3%AF");
        assert_eq!(encoded("aï%", 9), "a%C3%AF");
        assert_eq!(encoded("aï%", 10), "a%C3%AF%25");
        assert_eq!(encoded("a  b", 3), "a");
    }

    /// tri:88 tri:90
    #[test]
    fn bad_escapes_and_plus_stay_as_they_are() {
        for text in ["a%2", "%zz", "%", "100%", "a+b", "%-1"] {
            assert_eq!(decode(text.as_bytes()), text);
        }
        assert_eq!(decode(b"%C3%AF%0a%25"), "ï\n%");
    }

    /// tri:89 tri:180 tri:Q18
    #[test]
    fn raw_bytes_are_read_as_what_peers_mean() {
        assert_eq!(decode(b"na\xefve"), "naïve");
        assert_eq!(decode("naïve".as_bytes()), "naïve");
        assert_eq!(decode(b"NOT_FOUND : one\r\ntwo"), "NOT_FOUND : one  two");
    }

    #[test]
    fn any_text_comes_back() {
        fn round_trip(message: String) -> bool {
            decode(encoded(&message, usize::MAX).as_bytes()) == message
        }
        quickcheck::quickcheck(round_trip as fn(String) -> bool);
    }

    #[test]
    fn any_bytes_are_decoded() {
        fn total(bytes: Vec<u8>) -> bool {
            decode(&bytes).chars().count() <= bytes.len()
        }
        quickcheck::quickcheck(total as fn(Vec<u8>) -> bool);
    }
}
