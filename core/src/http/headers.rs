//! Field lists (RFC 9110 §5.3): order kept, repetitions allowed.

use alloc::vec::{self, Vec};
use core::{fmt, slice};

use bytes::Bytes;

use super::HeaderName;

/// One field line.
#[derive(Clone, PartialEq, Eq)]
pub struct Field {
    /// Name, in lower case.
    pub name: HeaderName,
    /// Value, without surrounding blanks; see [`is_valid_value`].
    pub value: Bytes,
    /// HPACK must never put the field into a table, here or at any later hop (RFC 7541 §6.2.3).
    pub sensitive: bool,
}

impl Field {
    /// What HPACK and SETTINGS_MAX_HEADER_LIST_SIZE count besides the octets of name and value.
    pub const OVERHEAD: usize = 32;

    /// A field that is not sensitive.
    pub fn new(name: HeaderName, value: impl Into<Bytes>) -> Self {
        Self { name, value: value.into(), sensitive: false }
    }

    /// Size of the field in a header list: octets of name and value, and 32 (RFC 9113 §6.5.2).
    pub fn list_size(&self) -> usize {
        self.name.as_bytes().len() + self.value.len() + Self::OVERHEAD
    }
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sensitive || self.name.is_secret() {
            write!(f, "{}: <{} secret bytes>", self.name, self.value.len())
        } else {
            write!(f, "{}: {}", self.name, self.value.escape_ascii())
        }
    }
}

/// A list of fields, without the pseudo fields of a head.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers {
    fields: Vec<Field>,
}

impl Headers {
    /// An empty list; allocates nothing.
    pub const fn new() -> Self {
        Self { fields: Vec::new() }
    }

    /// An empty list with room for `fields` fields.
    pub fn with_capacity(fields: usize) -> Self {
        Self { fields: Vec::with_capacity(fields) }
    }

    /// Removes every field; the memory that they were in stays.
    pub(crate) fn clear(&mut self) {
        self.fields.clear();
    }

    /// Appends a field that is not sensitive.
    pub fn push(&mut self, name: HeaderName, value: impl Into<Bytes>) {
        self.push_field(Field::new(name, value));
    }

    /// Appends a field.
    pub fn push_field(&mut self, field: Field) {
        self.fields.push(field);
    }

    /// The first value of `name`.
    pub fn get(&self, name: &HeaderName) -> Option<&Bytes> {
        self.get_all(name).next()
    }

    /// Every value of `name`, in order.
    pub fn get_all<'a>(&'a self, name: &HeaderName) -> impl Iterator<Item = &'a Bytes> {
        self.fields.iter().filter(move |field| field.name == *name).map(|field| &field.value)
    }

    /// Whether there is a field called `name`.
    pub fn contains(&self, name: &HeaderName) -> bool {
        self.get(name).is_some()
    }

    /// Removes every field called `name`; returns how many there were.
    pub fn remove(&mut self, name: &HeaderName) -> usize {
        let before = self.fields.len();
        self.fields.retain(|field| field.name != *name);
        before - self.fields.len()
    }

    /// Keeps the fields for which `keep` says so.
    pub fn retain(&mut self, keep: impl FnMut(&Field) -> bool) {
        self.fields.retain(keep);
    }

    /// The fields, in order.
    pub fn iter(&self) -> slice::Iter<'_, Field> {
        self.fields.iter()
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Size of the list as SETTINGS_MAX_HEADER_LIST_SIZE counts it (RFC 9113 §6.5.2), in bytes.
    pub fn list_size(&self) -> usize {
        self.fields.iter().map(Field::list_size).sum()
    }
}

impl Extend<Field> for Headers {
    fn extend<I: IntoIterator<Item = Field>>(&mut self, fields: I) {
        self.fields.extend(fields);
    }
}

impl FromIterator<Field> for Headers {
    fn from_iter<I: IntoIterator<Item = Field>>(fields: I) -> Self {
        Self { fields: fields.into_iter().collect() }
    }
}

impl IntoIterator for Headers {
    type Item = Field;
    type IntoIter = vec::IntoIter<Field>;

    fn into_iter(self) -> Self::IntoIter {
        self.fields.into_iter()
    }
}

impl<'a> IntoIterator for &'a Headers {
    type Item = &'a Field;
    type IntoIter = slice::Iter<'a, Field>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.fields).finish()
    }
}

/// Whether `value` may stand in a field: no control characters but the tab, and no blank at either
/// end (RFC 9110 §5.5, RFC 9113 §8.2.1). Octets from 0x80 up and the empty value are legal.
pub fn is_valid_value(value: &[u8]) -> bool {
    let is_blank = |octet: Option<&u8>| matches!(octet, Some(b' ' | b'\t'));
    !is_blank(value.first())
        && !is_blank(value.last())
        // Every octet, without a way out: that can be done for many of them at once.
        && value.iter().fold(true, |valid, &octet| valid & ((octet == b'\t') | (octet >= b' ')) & (octet != 0x7f))
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    fn list() -> Headers {
        let mut headers = Headers::with_capacity(3);
        headers.push(HeaderName::ACCEPT, "a");
        headers.push(HeaderName::TE, "trailers");
        headers.push(HeaderName::ACCEPT, "b");
        headers
    }

    #[test]
    fn repeated_fields_keep_their_order() {
        let mut headers = list();
        assert_eq!(headers.get(&HeaderName::ACCEPT).unwrap(), "a");
        assert_eq!(headers.get_all(&HeaderName::ACCEPT).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(headers.remove(&HeaderName::ACCEPT), 2);
        assert!(!headers.contains(&HeaderName::ACCEPT));
        assert_eq!(headers.len(), 1);
        assert_eq!(headers.remove(&HeaderName::ACCEPT), 0);
    }

    /// `h2:L1`: 32 octets are counted for each field, an empty one included.
    #[test]
    fn the_list_size_counts_thirty_two_octets_a_field() {
        assert_eq!(Headers::new().list_size(), 0);
        assert_eq!(list().list_size(), (6 + 1 + 32) + (2 + 8 + 32) + (6 + 1 + 32));
        assert_eq!(Field::new(HeaderName::from_wire(Bytes::new()), "").list_size(), 32);
    }

    /// `h2:V2`, octet by octet, at the ends and in the middle.
    #[test]
    fn values_hold_no_controls_and_no_blank_at_the_ends() {
        assert!(is_valid_value(b""));
        for octet in 0..=255u8 {
            let blank = octet == b' ' || octet == b'\t';
            let control = (octet < 0x20 && octet != b'\t') || octet == 0x7f;
            assert_eq!(is_valid_value(&[b'a', octet, b'b']), !control, "{octet:#x} in the middle");
            for value in [&[octet][..], &[octet, b'a'], &[b'a', octet]] {
                assert_eq!(is_valid_value(value), !control && !blank, "{value:?}");
            }
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let mut headers = Headers::new();
        headers.push(HeaderName::AUTHORIZATION, "Bearer hunter2");
        headers.push_field(Field { sensitive: true, ..Field::new(HeaderName::from_static("x-key"), "hunter2") });
        headers.push(HeaderName::TE, "trailers");
        let text = format!("{headers:?}");
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("te: trailers"), "{text}");
    }
}
