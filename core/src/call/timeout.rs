//! Timeouts in header fields: `TimeoutValue TimeoutUnit` of gRPC over HTTP/2 ("Requests"), and the milliseconds of the
//! dialects with a bare body.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use core::fmt;
use core::time::Duration;

use super::decimal;

/// A timeout that is not what its field takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidTimeout {
    expected: &'static str,
}

impl InvalidTimeout {
    const GRPC: Self = Self { expected: "1 to 8 digits and one of H, M, S, m, u, n" };
    const MILLIS: Self = Self { expected: "milliseconds in 1 to 10 digits" };
}

impl fmt::Display for InvalidTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed timeout: expected {}", self.expected)
    }
}

impl core::error::Error for InvalidTimeout {}

/// How a dialect writes timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeoutFormat {
    /// `3000m`.
    Grpc,
    /// `3000`, in milliseconds. With `signed`, negative ones are read: they have passed.
    Millis { signed: bool },
}

impl TimeoutFormat {
    /// Reads a value; zero means that the deadline has passed.
    pub(crate) fn parse(self, value: &[u8]) -> Result<Duration, InvalidTimeout> {
        match self {
            Self::Grpc => parse_grpc_timeout(value),
            Self::Millis { signed } => parse_millis(value, signed),
        }
    }

    /// What writes values, for a [`DeadlineField`](crate::http::DeadlineField).
    pub(crate) fn format(self) -> fn(Duration, &mut [u8; 20]) -> usize {
        match self {
            Self::Grpc => format_grpc_timeout,
            Self::Millis { .. } => format_millis,
        }
    }
}

/// Reads a `grpc-timeout` value; `0n` means that the deadline has passed.
///
/// # Errors
/// Anything but one to eight ASCII digits followed by one of `H M S m u n`.
#[expect(clippy::arithmetic_side_effects, reason = "counts of at most eight digits")]
pub fn parse_grpc_timeout(value: &[u8]) -> Result<Duration, InvalidTimeout> {
    let (&unit, digits) = value.split_last().ok_or(InvalidTimeout::GRPC)?;
    let count = decimal::parse(digits).filter(|_| digits.len() <= GRPC_DIGITS).ok_or(InvalidTimeout::GRPC)?;
    // Eight digits of hours are 3.6 × 10¹¹ seconds: nothing here can overflow.
    Ok(match unit {
        b'H' => Duration::from_secs(count * 3600),
        b'M' => Duration::from_secs(count * 60),
        b'S' => Duration::from_secs(count),
        b'm' => Duration::from_millis(count),
        b'u' => Duration::from_micros(count),
        b'n' => Duration::from_nanos(count),
        _ => return Err(InvalidTimeout::GRPC),
    })
}

/// Writes `remaining` as a `grpc-timeout` value into `out` and returns its length (2 to 9).
///
/// The finest unit with at most eight digits is used, rounded up: the peer never gives up before this side
/// does, and only a passed deadline is written as zero. More than 99,999,999 hours are written as that.
#[expect(clippy::indexing_slicing, reason = "at most eight digits in a buffer of twenty octets")]
#[expect(clippy::arithmetic_side_effects, reason = "counts of at most eight digits")]
pub fn format_grpc_timeout(remaining: Duration, out: &mut [u8; 20]) -> usize {
    let nanos = remaining.as_nanos();
    let (count, unit) = UNITS
        .iter()
        .map(|&(nanos_per_unit, unit)| (nanos.div_ceil(nanos_per_unit), unit))
        .find(|&(count, _)| count <= GRPC_MAX)
        .unwrap_or((GRPC_MAX, b'H'));
    let len = decimal::write(count as u64, out);
    out[len] = unit;
    len + 1
}

fn parse_millis(value: &[u8], signed: bool) -> Result<Duration, InvalidTimeout> {
    let (digits, negative) = match value.strip_prefix(b"-") {
        Some(digits) if signed => (digits, true),
        _ => (value, false),
    };
    let millis = decimal::parse(digits).filter(|_| digits.len() <= MILLIS_DIGITS).ok_or(InvalidTimeout::MILLIS)?;
    Ok(if negative { Duration::ZERO } else { Duration::from_millis(millis) })
}

/// Rounded up, as in [`format_grpc_timeout`]; empty, so that the field is left out, where ten digits do not do.
fn format_millis(remaining: Duration, out: &mut [u8; 20]) -> usize {
    match u64::try_from(remaining.as_nanos().div_ceil(1_000_000)) {
        Ok(millis) if millis <= MILLIS_MAX => decimal::write(millis, out),
        _ => 0,
    }
}

const GRPC_DIGITS: usize = 8;
const GRPC_MAX: u128 = 99_999_999;
const MILLIS_DIGITS: usize = 10;
const MILLIS_MAX: u64 = 9_999_999_999;
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
            assert_eq!(parse_grpc_timeout(text.as_bytes()), Err(InvalidTimeout::GRPC), "{text:?}");
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

    /// tri:124
    #[test]
    fn milliseconds_take_ten_digits_and_a_sign_where_dubbo_go_takes_one() {
        for signed in [true, false] {
            let format = TimeoutFormat::Millis { signed };
            let cases = [("0", 0), ("29999", 29_999), ("0000000001", 1), ("9999999999", 9_999_999_999)];
            for (text, millis) in cases {
                assert_eq!(format.parse(text.as_bytes()), Ok(Duration::from_millis(millis)), "{text}");
            }
            for text in ["", "abc", "12345678901", "3000m", "+5", " 5", "1.5", "-", "--5"] {
                assert!(format.parse(text.as_bytes()).is_err(), "{text}");
            }
        }
        assert_eq!(TimeoutFormat::Millis { signed: true }.parse(b"-5"), Ok(Duration::ZERO));
        assert!(TimeoutFormat::Millis { signed: false }.parse(b"-5").is_err());
    }

    #[test]
    fn milliseconds_are_rounded_up_and_left_out_where_they_do_not_fit() {
        let cases = [
            (Duration::ZERO, "0"),
            (Duration::from_nanos(1), "1"),
            (Duration::from_millis(29_999), "29999"),
            (Duration::from_nanos(1_000_001), "2"),
            (Duration::from_millis(9_999_999_999), "9999999999"),
            (Duration::from_millis(10_000_000_000), ""),
            (Duration::MAX, ""),
        ];
        for (remaining, text) in cases {
            let mut out = [0; 20];
            let len = (TimeoutFormat::Millis { signed: true }.format())(remaining, &mut out);
            assert_eq!(&out[..len], text.as_bytes(), "{remaining:?}");
        }
    }
}
