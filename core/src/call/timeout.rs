//! `grpc-timeout`: `TimeoutValue TimeoutUnit` of gRPC over HTTP/2 ("Requests").

use core::fmt;
use core::time::Duration;

/// A `grpc-timeout` that is not one to eight digits and a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidTimeout;

impl fmt::Display for InvalidTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed timeout: expected 1 to 8 digits and one of H, M, S, m, u, n")
    }
}

impl core::error::Error for InvalidTimeout {}

/// Reads a `grpc-timeout` value; `0n` means that the deadline has passed.
///
/// # Errors
/// Anything but one to eight ASCII digits followed by one of `H M S m u n`.
pub fn parse_grpc_timeout(value: &[u8]) -> Result<Duration, InvalidTimeout> {
    let (&unit, digits) = value.split_last().ok_or(InvalidTimeout)?;
    if !matches!(digits.len(), 1..=MAX_DIGITS) {
        return Err(InvalidTimeout);
    }
    let mut count = 0_u64;
    for digit in digits {
        match digit {
            b'0'..=b'9' => count = count * 10 + u64::from(digit - b'0'),
            _ => return Err(InvalidTimeout),
        }
    }
    // Eight digits of hours are 3.6 × 10¹¹ seconds: nothing here can overflow.
    Ok(match unit {
        b'H' => Duration::from_secs(count * 3600),
        b'M' => Duration::from_secs(count * 60),
        b'S' => Duration::from_secs(count),
        b'm' => Duration::from_millis(count),
        b'u' => Duration::from_micros(count),
        b'n' => Duration::from_nanos(count),
        _ => return Err(InvalidTimeout),
    })
}

/// Writes `remaining` as a `grpc-timeout` value into `out` and returns its length (2 to 9).
///
/// The finest unit with at most eight digits is used, rounded up: the peer never gives up before this side
/// does, and only a passed deadline is written as zero. More than 99,999,999 hours are written as that.
pub fn format_grpc_timeout(remaining: Duration, out: &mut [u8; 20]) -> usize {
    let nanos = remaining.as_nanos();
    let (mut count, unit) = UNITS
        .iter()
        .map(|&(nanos_per_unit, unit)| (nanos.div_ceil(nanos_per_unit), unit))
        .find(|&(count, _)| count <= MAX_COUNT)
        .unwrap_or((MAX_COUNT, b'H'));
    let mut digits = [b'0'; MAX_DIGITS];
    let mut start = MAX_DIGITS;
    for (i, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + (count % 10) as u8;
        count /= 10;
        start = i;
        if count == 0 {
            break;
        }
    }
    let len = MAX_DIGITS - start;
    out[..len].copy_from_slice(&digits[start..]);
    out[len] = unit;
    len + 1
}

const MAX_DIGITS: usize = 8;
const MAX_COUNT: u128 = 99_999_999;
const UNITS: [(u128, u8); 6] = [
    (1, b'n'),
    (1_000, b'u'),
    (1_000_000, b'm'),
    (1_000_000_000, b'S'),
    (60_000_000_000, b'M'),
    (3_600_000_000_000, b'H'),
];

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    fn formatted(remaining: Duration) -> String {
        let mut out = [0; 20];
        let len = format_grpc_timeout(remaining, &mut out);
        String::from_utf8(out[..len].to_vec()).expect("ASCII")
    }

    /// tri:39
    #[test]
    fn every_unit_is_read_up_to_eight_digits() {
        let cases = [
            ("0n", Duration::ZERO),
            ("1n", Duration::from_nanos(1)),
            ("29993556u", Duration::from_micros(29_993_556)),
            ("3000m", Duration::from_secs(3)),
            ("5S", Duration::from_secs(5)),
            ("00000002M", Duration::from_secs(120)),
            ("99999999H", Duration::from_secs(99_999_999 * 3600)),
        ];
        for (text, timeout) in cases {
            assert_eq!(parse_grpc_timeout(text.as_bytes()), Ok(timeout), "{text}");
        }
    }

    /// tri:40
    #[test]
    fn anything_else_is_malformed() {
        for text in ["", "S", "5", "123456789S", "5x", "-1S", "+1S", " 1S", "1 S", "1S ", "1.5S", "5s", "5h", "٣S"] {
            assert_eq!(parse_grpc_timeout(text.as_bytes()), Err(InvalidTimeout), "{text:?}");
        }
    }

    /// tri:73
    #[test]
    fn the_finest_unit_that_fits_is_written_rounded_up() {
        let cases = [
            (Duration::ZERO, "0n"),
            (Duration::from_nanos(1), "1n"),
            (Duration::from_nanos(99_999_999), "99999999n"),
            (Duration::from_nanos(100_000_000), "100000u"),
            (Duration::from_nanos(100_000_001), "100001u"),
            (Duration::from_secs(3), "3000000u"),
            // Rounding up makes nine digits of this one: the next unit takes it.
            (Duration::from_nanos(99_999_999_001), "100000m"),
            (Duration::from_secs(99_999_999), "99999999S"),
            (Duration::from_secs(100_000_000), "1666667M"),
            (Duration::MAX, "99999999H"),
        ];
        for (remaining, text) in cases {
            assert_eq!(formatted(remaining), text, "{remaining:?}");
        }
    }

    /// tri:73
    #[test]
    fn what_is_written_is_read_back_within_one_unit_and_never_early() {
        fn close(nanos: u64) -> bool {
            let remaining = Duration::from_nanos(nanos);
            let text = formatted(remaining);
            let read = parse_grpc_timeout(text.as_bytes()).expect("own value");
            let unit = parse_grpc_timeout(&[b'1', text.as_bytes()[text.len() - 1]]).expect("own unit");
            read >= remaining && read - remaining < unit && (nanos == 0) == (read == Duration::ZERO)
        }
        quickcheck::quickcheck(close as fn(u64) -> bool);
    }
}
