//! The text form of a configuration: one pair of a name and a value for each field.

use alloc::string::{String, ToString};
use core::fmt;
use core::time::Duration;

use super::NAMES;

/// One text value of a [`Config`] field.
pub(super) trait Setting: Sized {
    /// What the error message says the field accepts.
    const ACCEPTS: &'static str;
    fn parse(text: &str) -> Option<Self>;
    fn write(&self) -> String;
}

impl Setting for usize {
    const ACCEPTS: &'static str = "a whole number, or `unlimited`";

    fn parse(text: &str) -> Option<Self> {
        match text {
            "unlimited" => Some(Self::MAX),
            digits => digits.parse().ok(),
        }
    }

    fn write(&self) -> String {
        match *self {
            Self::MAX => "unlimited".to_string(),
            number => number.to_string(),
        }
    }
}

impl Setting for u32 {
    const ACCEPTS: &'static str = "a whole number below 4294967296";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl Setting for bool {
    const ACCEPTS: &'static str = "`on` or `off`";

    fn parse(text: &str) -> Option<Self> {
        match text {
            "on" | "true" => Some(true),
            "off" | "false" => Some(false),
            _ => None,
        }
    }

    fn write(&self) -> String {
        if *self { "on" } else { "off" }.to_string()
    }
}

impl Setting for Option<Duration> {
    const ACCEPTS: &'static str = "a number with a unit (`ms`, `s` or `m`), or `off`";

    fn parse(text: &str) -> Option<Self> {
        if text == "off" {
            return Some(None);
        }
        let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
        let (digits, unit) = text.split_at(unit_at);
        let number: u64 = digits.parse().ok()?;
        match unit {
            "ms" => Some(Some(Duration::from_millis(number))),
            "s" => Some(Some(Duration::from_secs(number))),
            "m" => Some(Some(Duration::from_secs(number.checked_mul(60)?))),
            _ => None,
        }
    }

    fn write(&self) -> String {
        match self {
            None => "off".to_string(),
            Some(d) if d.subsec_nanos() == 0 => alloc::format!("{}s", d.as_secs()),
            Some(d) => alloc::format!("{}ms", d.as_millis()),
        }
    }
}

/// A text pair that does not fit [`Config`](crate::Config).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub(super) name: String,
    pub(super) reason: Reason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Name,
    Value { value: String, accepts: &'static str },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Reason::Name => {
                write!(f, "unknown setting `{}`; known are ", self.name)?;
                for (i, name) in NAMES.iter().enumerate() {
                    write!(f, "{}{name}", if i == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            Reason::Value { value, accepts } => {
                write!(f, "`{value}` is no value of `{}`: it takes {accepts}", self.name)
            }
        }
    }
}

impl core::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn text_pairs_round_trip() {
        for config in [Config::default(), Config::embedded()] {
            let mut copy = Config::default();
            for (name, value) in config.pairs() {
                copy.set(name, &value).expect("own pairs are accepted");
            }
            assert_eq!(copy, config);
        }
    }

    #[test]
    fn a_wrong_name_or_type_names_what_is_accepted() {
        let mut config = Config::default();
        let error = config.set("max-recv-mesage", "1").unwrap_err().to_string();
        assert!(error.contains("max-recv-message"), "{error}");
        let error = config.set("max-recv-message", "many").unwrap_err().to_string();
        assert!(error.contains("whole number"), "{error}");
        let error = config.set("drain-timeout", "5").unwrap_err().to_string();
        assert!(error.contains("unit"), "{error}");
        let error = config.set("lenient-grpc-message", "maybe").unwrap_err().to_string();
        assert!(error.contains("`on` or `off`"), "{error}");
        assert_eq!(config, Config::default());
    }
}
