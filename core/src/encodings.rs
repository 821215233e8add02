//! Names of compressions, as configurations and header fields carry them.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

/// Name of no compression.
pub(crate) const IDENTITY: &str = "identity";

/// Names of compressions, the preferred first. Cheap to clone.
///
/// ```
/// use trirpc_core::call::Encodings;
///
/// const OFFER: Encodings = Encodings::from_static(&["zstd", "gzip"]);
/// let same: Encodings = ["zstd", "gzip", "identity", "gzip"].into_iter().collect();
/// assert_eq!(same, OFFER);
/// ```
#[derive(Clone)]
pub struct Encodings(List);

#[derive(Clone)]
enum List {
    Static(&'static [&'static str]),
    /// With the value of the header that offers them.
    Shared(Arc<(Vec<&'static str>, Bytes)>),
}

impl Encodings {
    /// No compression.
    pub const NONE: Self = Self::from_static(&[]);

    /// These names; none may be there twice, nor be `identity`.
    pub const fn from_static(names: &'static [&'static str]) -> Self {
        Self(List::Static(names))
    }

    /// The names.
    pub fn names(&self) -> &[&'static str] {
        match &self.0 {
            List::Static(names) => names,
            List::Shared(list) => &list.0,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.names().is_empty()
    }

    /// The value of an accept header.
    pub(crate) fn header(&self) -> Bytes {
        match &self.0 {
            List::Shared(list) => list.1.clone(),
            List::Static(names) => header(names),
        }
    }
}

fn header(names: &[&'static str]) -> Bytes {
    match names {
        [only] => Bytes::from_static(only.as_bytes()),
        _ => names.join(",").into(),
    }
}

impl Default for Encodings {
    fn default() -> Self {
        Self::NONE
    }
}

/// Repeated names and `identity`, which is no compression, are left out.
impl FromIterator<&'static str> for Encodings {
    fn from_iter<I: IntoIterator<Item = &'static str>>(all: I) -> Self {
        let mut names = Vec::new();
        for name in all {
            if name != IDENTITY && !names.contains(&name) {
                names.push(name);
            }
        }
        if names.is_empty() {
            return Self::NONE;
        }
        let header = header(&names);
        Self(List::Shared(Arc::new((names, header))))
    }
}

impl PartialEq for Encodings {
    fn eq(&self, other: &Self) -> bool {
        let (names, others) = (self.names(), other.names());
        core::ptr::eq(names, others) || names == others
    }
}

impl Eq for Encodings {}

impl fmt::Debug for Encodings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.names(), f)
    }
}
