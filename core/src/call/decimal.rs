//! Whole numbers in decimal digits.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use crate::http::{HeaderName, InlineField};

/// The number that `text` is; `None` if it is empty, holds anything but digits, or does not fit.
#[expect(clippy::arithmetic_side_effects, reason = "a digit, and the number of digits")]
pub(crate) fn parse(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, digit| match digit {
        b'0'..=b'9' => number.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

/// As [`parse`], for numbers that fit 32 bits.
pub(crate) fn parse_u32(text: &[u8]) -> Option<u32> {
    parse(text).and_then(|number| u32::try_from(number).ok())
}

/// Writes the digits of `number` to the front of `out` and returns how many there are.
#[expect(clippy::arithmetic_side_effects, reason = "a digit, and the number of digits")]
pub(crate) fn write(mut number: u64, out: &mut [u8; 20]) -> usize {
    let len = number.checked_ilog10().map_or(1, |log| log as usize + 1);
    for digit in out.iter_mut().take(len).rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    len
}

/// A field whose value is `number`.
pub(crate) fn field(name: &'static HeaderName, number: u64) -> InlineField {
    InlineField::new(name, |value| write(number, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_nothing_else_is_one() {
        for number in [0, 9, 10, 99, 100, u64::from(u32::MAX), u64::MAX] {
            let mut out = [0; 20];
            let len = write(number, &mut out);
            assert_eq!(&out[..len], alloc::format!("{number}").as_bytes());
            assert_eq!(parse(&out[..len]), Some(number));
        }
        assert_eq!(parse(b"007"), Some(7));
        for text in ["", "-1", "+1", "1.0", " 1", "1x", "18446744073709551616"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!((parse_u32(b"4294967295"), parse_u32(b"4294967296")), (Some(u32::MAX), None));
    }
}
