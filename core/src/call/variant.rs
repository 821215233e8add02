//! Dubbo's group and version: which of several implementations of one service a call is for.

use alloc::boxed::Box;

use bytes::Bytes;

use super::metadata::{Metadata, MetadataError};
use crate::http::{Field, HeaderName, Headers};

/// Names one of several implementations of a service: Dubbo's group and version. Both may be empty, as they are for
/// services that have one implementation.
///
/// ```
/// use trirpc_core::call::{CallOptions, ServiceVariant};
///
/// let mut options = CallOptions::default();
/// options.variant = ServiceVariant::new("blue", "2.0.0")?;
/// assert_eq!((options.variant.group(), options.variant.version()), ("blue", "2.0.0"));
/// # Ok::<(), trirpc_core::call::MetadataError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ServiceVariant(Option<Box<Names>>);

/// Not both are empty. Few calls have any, and the options of all are moved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Names {
    group: Bytes,
    version: Bytes,
}

/// Versions that all mean that there are no versions.
const UNVERSIONED: [&str; 3] = ["", "1.0.0", "0.0.0"];

impl ServiceVariant {
    /// Neither group nor version.
    pub const DEFAULT: Self = Self(None);

    /// A group and a version; either may be empty. Blanks at their ends are not significant.
    ///
    /// # Errors
    /// One of them is not printable ASCII.
    pub fn new(group: &str, version: &str) -> Result<Self, MetadataError> {
        let mut fields = Metadata::new();
        fields.append(HeaderName::TRI_SERVICE_GROUP.as_str(), group)?;
        fields.append(HeaderName::TRI_SERVICE_VERSION.as_str(), version)?;
        Ok(Self::from_headers(fields.as_headers()))
    }

    /// What a request's head says, by the names of any dialect.
    pub(crate) fn from_headers(headers: &Headers) -> Self {
        let value = |names: [HeaderName; 2]| names.iter().find_map(|name| headers.get(name)).cloned();
        let group = value([HeaderName::TRI_SERVICE_GROUP, HeaderName::REST_SERVICE_GROUP]).unwrap_or_default();
        let version = value([HeaderName::TRI_SERVICE_VERSION, HeaderName::REST_SERVICE_VERSION]).unwrap_or_default();
        let is_default = group.is_empty() && version.is_empty();
        Self((!is_default).then(|| Box::new(Names { group, version })))
    }

    /// Whether it names no implementation.
    pub(crate) fn is_default(&self) -> bool {
        self.0.is_none()
    }

    /// Appends what is not empty to a request's head, in place of what is there by the same name.
    pub(crate) fn encode(&self, headers: &mut Headers) {
        let Some(names) = &self.0 else { return };
        let fields = [(HeaderName::TRI_SERVICE_GROUP, &names.group), (HeaderName::TRI_SERVICE_VERSION, &names.version)];
        for (name, value) in fields {
            if !value.is_empty() {
                headers.remove(&name);
                headers.push_field(Field::new(name, value.clone()));
            }
        }
    }

    /// The group; empty if there is none.
    pub fn group(&self) -> &str {
        self.0.as_ref().and_then(|names| core::str::from_utf8(&names.group).ok()).unwrap_or_default()
    }

    /// The version; empty if there is none.
    pub fn version(&self) -> &str {
        self.0.as_ref().and_then(|names| core::str::from_utf8(&names.version).ok()).unwrap_or_default()
    }

    /// Whether both name the same implementation to a server that does not tell no version from `1.0.0` and `0.0.0`,
    /// which clients send for the same thing.
    pub fn is_equivalent(&self, other: &Self) -> bool {
        let unversioned = |variant: &Self| UNVERSIONED.contains(&variant.version());
        self == other || (self.group() == other.group() && unversioned(self) && unversioned(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(group: &str, version: &str) -> ServiceVariant {
        ServiceVariant::new(group, version).unwrap()
    }

    /// tri:68
    #[test]
    fn what_is_set_goes_out_last_and_replaces_what_metadata_say() {
        let mut headers = Headers::new();
        headers.push(HeaderName::TRI_SERVICE_GROUP, "other");
        headers.push(HeaderName::TRI_SERVICE_VERSION, "9");
        headers.push(HeaderName::TE, "trailers");
        variant("blue", "").encode(&mut headers);
        let names = ["tri-service-version", "te", "tri-service-group"];
        assert!(headers.iter().map(|field| field.name.as_str()).eq(names));
        assert_eq!(ServiceVariant::from_headers(&headers), variant("blue", "9"));
        assert_eq!(ServiceVariant::from_headers(&Headers::new()), ServiceVariant::DEFAULT);
        let mut headers = Headers::new();
        headers.push(HeaderName::REST_SERVICE_GROUP, "rest");
        headers.push(HeaderName::REST_SERVICE_VERSION, "3");
        assert_eq!(ServiceVariant::from_headers(&headers), variant("rest", "3"));
    }

    #[test]
    fn only_printable_text_is_a_variant() {
        assert_eq!(variant(" blue ", ""), variant("blue", ""));
        for text in ["a\nb", "bl\u{fc}", "\0"] {
            assert!(ServiceVariant::new(text, "").is_err() && ServiceVariant::new("", text).is_err(), "{text:?}");
        }
    }

    /// tri:69
    #[test]
    fn no_version_and_the_first_version_are_the_same() {
        for version in UNVERSIONED {
            assert!(variant("g", version).is_equivalent(&variant("g", "1.0.0")), "{version}");
        }
        assert!(variant("g", "2").is_equivalent(&variant("g", "2")));
        assert!(!variant("g", "2").is_equivalent(&variant("g", "")));
        assert!(!variant("g", "").is_equivalent(&variant("", "")));
    }
}
