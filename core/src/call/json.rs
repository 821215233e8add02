//! The little JSON that errors are made of (RFC 8259): a reader that pulls values out of a text, and strings on the
//! way out.
//!
//! The text is the peer's, so the reader recurses no deeper than [`MAX_DEPTH`], keeps nothing but the strings it is
//! asked for, and takes numbers only as far as they are small and whole.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use alloc::string::String;
use alloc::vec::Vec;

use super::decimal;

/// Objects and arrays inside each other that are read.
const MAX_DEPTH: u8 = 32;

/// A text that is not JSON, or is nested too deeply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// What a value is, by its first character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    String,
    Number,
    /// `true`, `false` or `null`; or nothing that begins a value.
    Other,
}

/// Reads values off the front of a text. Each method takes one value, whole; a value of another kind is
/// [`Malformed`], and so is all the rest then.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    depth: u8,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(text: &'a [u8]) -> Self {
        Self { rest: text, depth: 0 }
    }

    /// What the next value is.
    pub(crate) fn kind(&mut self) -> Kind {
        self.skip_blanks();
        match self.rest.first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b'-' | b'0'..=b'9') => Kind::Number,
            _ => Kind::Other,
        }
    }

    /// An object. `member` is called behind each key and takes its value off the reader.
    pub(crate) fn object(
        &mut self,
        member: &mut dyn FnMut(&str, &mut Self) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        self.list(b'{', b'}', &mut |reader| {
            let key = reader.string()?;
            reader.expect(b':')?;
            member(&key, reader)
        })
    }

    /// An array. `item` takes each value off the reader.
    pub(crate) fn array(&mut self, item: &mut dyn FnMut(&mut Self) -> Result<(), Malformed>) -> Result<(), Malformed> {
        self.list(b'[', b']', item)
    }

    /// A string. Escapes of half a surrogate pair, and octets that are not UTF-8, are read as U+FFFD.
    pub(crate) fn string(&mut self) -> Result<String, Malformed> {
        self.expect(b'"')?;
        let mut octets = Vec::new();
        loop {
            match self.take()? {
                b'"' => break,
                b'\\' => {
                    let character = self.escape()?;
                    octets.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                0..=0x1f => return Err(Malformed),
                octet => octets.push(octet),
            }
        }
        Ok(String::from_utf8(octets).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// A number; `None` if it is negative, has a fraction or an exponent, or does not fit.
    pub(crate) fn number(&mut self) -> Result<Option<u32>, Malformed> {
        self.skip_blanks();
        let len = self.rest.iter().take_while(|octet| matches!(octet, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
        let len = len.count();
        let (token, rest) = self.rest.split_at(len);
        let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
        // int [ frac ] [ exp ]
        let unsigned = token.strip_prefix(b"-").unwrap_or(token);
        let int = unsigned.iter().take_while(|octet| octet.is_ascii_digit()).count();
        let (int, tail) = unsigned.split_at(int);
        let mut parts = tail.splitn(2, |octet| matches!(octet, b'e' | b'E'));
        let (frac, exp) = (parts.next().unwrap_or_default(), parts.next());
        let frac_ok = frac.is_empty() || frac.strip_prefix(b".").is_some_and(digits);
        let exp_ok =
            exp.is_none_or(|exp| digits(exp.strip_prefix(b"+").or_else(|| exp.strip_prefix(b"-")).unwrap_or(exp)));
        if !digits(int) || (int.len() > 1 && int.first() == Some(&b'0')) || !frac_ok || !exp_ok {
            return Err(Malformed);
        }
        self.rest = rest;
        Ok(decimal::parse_u32(token))
    }

    /// Any value, which is of no interest.
    pub(crate) fn skip(&mut self) -> Result<(), Malformed> {
        match self.kind() {
            Kind::Object => self.object(&mut |_, reader| reader.skip()),
            Kind::Array => self.array(&mut Self::skip),
            Kind::String => self.string().map(drop),
            Kind::Number => self.number().map(drop),
            Kind::Other => {
                let literal = [&b"null"[..], b"true", b"false"].into_iter().find_map(|it| self.rest.strip_prefix(it));
                self.rest = literal.ok_or(Malformed)?;
                Ok(())
            }
        }
    }

    /// The end of the text.
    pub(crate) fn end(mut self) -> Result<(), Malformed> {
        self.skip_blanks();
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed) }
    }

    #[expect(
        clippy::arithmetic_side_effects,
        reason = "surrogates of sixteen bits, compared before; the depth was raised before"
    )]
    fn list(
        &mut self,
        open: u8,
        close: u8,
        item: &mut dyn FnMut(&mut Self) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        self.expect(open)?;
        self.depth = self.depth.checked_add(1).filter(|&depth| depth <= MAX_DEPTH).ok_or(Malformed)?;
        self.skip_blanks();
        if self.rest.first() == Some(&close) {
            self.take()?;
        } else {
            loop {
                item(self)?;
                self.skip_blanks();
                match self.take()? {
                    b',' => {}
                    octet if octet == close => break,
                    _ => return Err(Malformed),
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// What stands behind a backslash.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "surrogates of sixteen bits, compared before; the depth was raised before"
    )]
    fn escape(&mut self) -> Result<char, Malformed> {
        Ok(match self.take()? {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            octet @ (b'"' | b'\\' | b'/') => char::from(octet),
            b'u' => {
                let unit = self.code_unit()?;
                let pair = match unit {
                    0xd800..=0xdbff => self.low_surrogate().map(|low| 0x1_0000 + ((unit - 0xd800) << 10) + low),
                    unit => Some(unit),
                };
                pair.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => return Err(Malformed),
        })
    }

    /// The second half of a surrogate pair, less its base, if it is next.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "surrogates of sixteen bits, compared before; the depth was raised before"
    )]
    fn low_surrogate(&mut self) -> Option<u32> {
        let mut ahead = Self { rest: self.rest.strip_prefix(b"\\u")?, depth: 0 };
        let low = ahead.code_unit().ok().filter(|unit| matches!(unit, 0xdc00..=0xdfff))?;
        self.rest = ahead.rest;
        Some(low - 0xdc00)
    }

    fn code_unit(&mut self) -> Result<u32, Malformed> {
        let mut unit = 0;
        for _ in 0..4 {
            unit = (unit << 4) | char::from(self.take()?).to_digit(16).ok_or(Malformed)?;
        }
        Ok(unit)
    }

    fn expect(&mut self, octet: u8) -> Result<(), Malformed> {
        self.skip_blanks();
        if self.take()? == octet { Ok(()) } else { Err(Malformed) }
    }

    fn take(&mut self) -> Result<u8, Malformed> {
        let (&octet, rest) = self.rest.split_first().ok_or(Malformed)?;
        self.rest = rest;
        Ok(octet)
    }

    fn skip_blanks(&mut self) {
        while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }
}

/// Appends `text` as a string, quotes included. What is not ASCII stays as it is.
#[expect(clippy::indexing_slicing, reason = "four bits index 16 digits")]
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for octet in text.bytes() {
        match octet {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', octet]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..=0x1f | 0x7f => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(octet >> 4)], HEX[usize::from(octet & 15)]]);
            }
            _ => out.push(octet),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests;
