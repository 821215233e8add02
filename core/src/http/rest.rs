//! What of a field block belongs to one message alone, behind what it has in common with others.

use bytes::Bytes;

use super::{DeadlineField, Field, HeaderName, Headers};
use crate::Instant;

/// The fields of one message alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest<'a> {
    pub(crate) first: Option<InlineField>,
    pub(crate) fields: &'a Headers,
    pub(crate) last: Option<InlineField>,
}

static NO_FIELDS: Headers = Headers::new();

impl Rest<'static> {
    /// No further fields.
    pub(crate) const NONE: Self = Self { first: None, fields: &NO_FIELDS, last: None };
}

impl Rest<'_> {
    /// Whether there is no field.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.fields.is_empty() && self.last.is_none()
    }

    /// Calls `f` with each field in wire order: name, value, sensitivity.
    pub(crate) fn each(&self, f: &mut dyn FnMut(&HeaderName, &[u8], bool)) {
        if let Some(field) = &self.first {
            f(field.name, field.value(), false);
        }
        for Field { name, value, sensitive } in self.fields {
            f(name, value, *sensitive);
        }
        if let Some(field) = &self.last {
            f(field.name, field.value(), false);
        }
    }

    /// As SETTINGS_MAX_HEADER_LIST_SIZE counts it, in bytes.
    pub(crate) fn list_size(&self) -> usize {
        let inline = |field: Option<InlineField>| field.map_or(0, |field| field.list_size());
        inline(self.first) + self.fields.list_size() + inline(self.last)
    }

    /// Appends the fields to those in front of them.
    pub(crate) fn append_to(&self, headers: &mut Headers) {
        headers.extend(self.first.map(Field::from));
        headers.extend(self.fields.iter().cloned());
        headers.extend(self.last.map(Field::from));
    }
}

/// A short field that needs no memory of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InlineField {
    name: &'static HeaderName,
    value: [u8; Self::MAX_VALUE],
    len: u8,
}

impl InlineField {
    /// Longest value, in bytes.
    const MAX_VALUE: usize = 20;

    /// A field with the value that `write` puts to the front of what it is given; `write` returns its length.
    pub(crate) fn new(name: &'static HeaderName, write: impl FnOnce(&mut [u8; Self::MAX_VALUE]) -> usize) -> Self {
        let mut value = [0; Self::MAX_VALUE];
        let len = write(&mut value).min(Self::MAX_VALUE) as u8;
        Self { name, value, len }
    }

    /// The deadline of a block that is committed at `now`; `None` for a time that the dialect cannot express.
    pub(crate) fn deadline(deadline: DeadlineField, now: Instant) -> Option<Self> {
        let field = Self::new(deadline.name, |value| deadline.value(now, value).len());
        (field.len > 0).then_some(field)
    }

    fn value(&self) -> &[u8] {
        self.value.get(..usize::from(self.len)).unwrap_or_default()
    }

    fn list_size(&self) -> usize {
        self.name.as_bytes().len() + usize::from(self.len) + Field::OVERHEAD
    }
}

impl From<InlineField> for Field {
    fn from(field: InlineField) -> Self {
        Self::new(field.name.clone(), Bytes::copy_from_slice(field.value()))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn the_rest_is_the_same_list_however_it_is_read() {
        let mut fields = Headers::new();
        fields.push(HeaderName::from_static("k"), "v");
        let inline = |name, text: &'static [u8]| {
            InlineField::new(name, |value| {
                value[..text.len()].copy_from_slice(text);
                text.len()
            })
        };
        let (first, last) = (inline(&HeaderName::CONTENT_LENGTH, b"128"), inline(&HeaderName::GRPC_TIMEOUT, b"5S"));
        for rest in [
            Rest::NONE,
            Rest { fields: &fields, ..Rest::NONE },
            Rest { first: Some(first), fields: &fields, last: Some(last) },
        ] {
            let (mut list, mut seen) = (Headers::new(), Vec::new());
            rest.append_to(&mut list);
            rest.each(&mut |name, value, _| seen.push(Field::new(name.clone(), Bytes::copy_from_slice(value))));
            assert!(list.iter().eq(&seen), "{list:?} {seen:?}");
            assert_eq!(list.list_size(), rest.list_size());
        }
    }
}
