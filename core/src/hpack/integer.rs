//! Integers with a prefix (RFC 7541 §5.1).
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use bytes::{BufMut, BytesMut};

use super::DecodeError;

/// Most octets that follow the prefix. Five carry 35 bits, which leaves room for zero-padded forms.
const MAX_CONTINUATION: u32 = 5;

/// Longest encoding of a 32-bit value, prefix octet included.
pub(super) const MAX_LEN: usize = 1 + MAX_CONTINUATION as usize;

/// Decodes the integer in the low `prefix` bits (1 to 7) of `first` and in the octets of `next`.
#[inline]
#[expect(clippy::arithmetic_side_effects, reason = "a prefix of at most seven bits, and five octets of seven")]
pub(super) fn decode(
    prefix: u32,
    first: u8,
    mut next: impl FnMut() -> Result<u8, DecodeError>,
) -> Result<u32, DecodeError> {
    let full = (1 << prefix) - 1;
    let low = first & full;
    if low < full {
        return Ok(u32::from(low));
    }
    continued(full, &mut next)
}

#[expect(clippy::arithmetic_side_effects, reason = "a prefix of at most seven bits, and five octets of seven")]
fn continued(full: u8, next: &mut dyn FnMut() -> Result<u8, DecodeError>) -> Result<u32, DecodeError> {
    let mut value = u64::from(full);
    for position in 0..MAX_CONTINUATION {
        let octet = next()?;
        value += u64::from(octet & 0x7f) << (7 * position);
        if octet & 0x80 == 0 {
            return u32::try_from(value).map_err(|_| DecodeError::Integer);
        }
    }
    Err(DecodeError::Integer)
}

/// Appends `value` with the given `prefix` (1 to 7 bits) below the bits of `pattern`.
#[expect(clippy::arithmetic_side_effects, reason = "a prefix of at most seven bits, and five octets of seven")]
pub(super) fn encode(value: usize, prefix: u32, pattern: u8, dst: &mut BytesMut) {
    let full = (1usize << prefix) - 1;
    if value < full {
        dst.put_u8(pattern | value as u8);
        return;
    }
    dst.put_u8(pattern | full as u8);
    let mut rest = value - full;
    while rest >= 0x80 {
        dst.put_u8(rest as u8 | 0x80);
        rest >>= 7;
    }
    dst.put_u8(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_all(prefix: u32, bytes: &[u8]) -> Result<u32, DecodeError> {
        let (&first, rest) = bytes.split_first().expect("a prefix octet");
        let mut rest = rest.iter();
        let value = decode(prefix, first, || rest.next().copied().ok_or(DecodeError::Truncated))?;
        assert_eq!(rest.next(), None, "every octet is used");
        Ok(value)
    }

    /// `h2:P14`: every prefix, around each length's boundary and at the ends of the range.
    #[test]
    fn integers_round_trip_with_every_prefix() {
        for prefix in 1..=7 {
            let full = (1u64 << prefix) - 1;
            let boundaries = (0..=4).map(|n| full + (1u64 << (7 * n)));
            for around in boundaries.chain([0, full, u64::from(u32::MAX)]) {
                for value in around.saturating_sub(2)..=around + 2 {
                    let Ok(value) = u32::try_from(value) else { continue };
                    let mut bytes = BytesMut::new();
                    encode(value as usize, prefix, 0, &mut bytes);
                    assert!(bytes.len() <= MAX_LEN);
                    assert_eq!(decode_all(prefix, &bytes), Ok(value), "prefix {prefix}, {bytes:x?}");
                    bytes[0] |= !(full as u8); // the pattern's bits are no part of the value
                    assert_eq!(decode_all(prefix, &bytes), Ok(value), "prefix {prefix}, {bytes:x?}");
                }
            }
        }
    }

    /// RFC 7541 Appendix C.1.1 and C.1.2.
    #[test]
    fn the_examples_of_the_rfc_encode_to_its_octets() {
        for (value, octets) in [(10, &[0x0a][..]), (1337, &[0x1f, 0x9a, 0x0a])] {
            let mut bytes = BytesMut::new();
            encode(value, 5, 0, &mut bytes);
            assert_eq!(bytes, octets);
        }
    }

    /// `h2:K3`
    #[test]
    fn integers_are_bounded_in_value_and_length() {
        assert_eq!(decode_all(7, &[0x7f, 0x80, 0xff, 0xff, 0xff, 0x0f]), Ok(u32::MAX));
        assert_eq!(decode_all(7, &[0x7f, 0x81, 0xff, 0xff, 0xff, 0x0f]), Err(DecodeError::Integer));
        assert_eq!(decode_all(7, &[0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]), Err(DecodeError::Integer));
        assert_eq!(decode_all(5, &[0x1f, 0x8a, 0x80, 0x80, 0x80, 0x00]), Ok(41), "zero-padded within five octets");
        assert_eq!(decode_all(5, &[0x1f, 0x80, 0x80, 0x80, 0x80, 0x80]), Err(DecodeError::Integer));
        assert_eq!(decode_all(5, &[0x1f]), Err(DecodeError::Truncated));
        assert_eq!(decode_all(5, &[0x1f, 0x80]), Err(DecodeError::Truncated));
    }
}
