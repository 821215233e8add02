//! The static table (RFC 7541 Appendix A).

use crate::http::HeaderName;

const ENTRIES: [(&str, &str); LEN] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// Number of entries; indices run from 1 to it.
pub(super) const LEN: usize = 61;

/// Known index of the name of each entry.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which checks it")]
const NAMES: [u8; LEN] = {
    let mut names = [0; LEN];
    let mut i = 0;
    while i < LEN {
        names[i] = match HeaderName::known(ENTRIES[i].0.as_bytes()) {
            Some(known) => known,
            None => panic!("every name of the static table is known"),
        };
        i += 1;
    }
    names
};

/// First entry (by index, 0 for none) of each known name. Entries of one name are neighbours.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which checks it")]
const FIRST: [u8; HeaderName::KNOWN] = {
    let mut first = [0; HeaderName::KNOWN];
    let mut i = LEN;
    while i > 0 {
        first[NAMES[i - 1] as usize] = i as u8;
        i -= 1;
    }
    first
};

/// The entry at `index`, if it is one of this table's.
pub(super) fn entry(index: usize) -> Option<(HeaderName, &'static str)> {
    let at = index.checked_sub(1)?;
    Some((HeaderName::from_known(*NAMES.get(at)?), ENTRIES.get(at)?.1))
}

/// Where a field of a known name stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Match {
    /// Name and value, at this index.
    Field(usize),
    /// The name, first at this index.
    Name(usize),
    /// Neither.
    None,
}

/// Looks up the field of the name with the index `known`.
#[expect(clippy::indexing_slicing, reason = "a row for every known name; `index` is from 1 to `LEN`")]
pub(super) fn find(known: usize, value: &[u8]) -> Match {
    let first = usize::from(FIRST[known]);
    if first == 0 {
        return Match::None;
    }
    let mut index = first;
    while index <= LEN && usize::from(NAMES[index - 1]) == known {
        if ENTRIES[index - 1].1.as_bytes() == value {
            return Match::Field(index);
        }
        index += 1;
    }
    Match::Name(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541 Appendix A, at its ends and at every name that stands more than once; `h2:K14`.
    #[test]
    fn entries_stand_where_the_rfc_puts_them() {
        assert_eq!(entry(0), None);
        assert_eq!(entry(1), Some((HeaderName::AUTHORITY, "")));
        assert_eq!(entry(3), Some((HeaderName::METHOD, "POST")));
        assert_eq!(entry(5), Some((HeaderName::PATH, "/index.html")));
        assert_eq!(entry(14), Some((HeaderName::STATUS, "500")));
        assert_eq!(entry(16), Some((HeaderName::ACCEPT_ENCODING, "gzip, deflate")));
        assert_eq!(entry(31), Some((HeaderName::CONTENT_TYPE, "")));
        assert_eq!(entry(61), Some((HeaderName::WWW_AUTHENTICATE, "")));
        assert_eq!(entry(62), None);
    }

    #[test]
    fn every_entry_is_found_by_name_and_value() {
        for index in 1..=LEN {
            let (name, value) = entry(index).unwrap();
            let known = name.known_index().unwrap();
            assert_eq!(find(known, value.as_bytes()), Match::Field(index));
            let Match::Name(first) = find(known, b"another value") else { panic!("{name} is in the table") };
            assert_eq!(entry(first).unwrap().0, name);
            assert!(first <= index);
        }
        assert_eq!(find(HeaderName::TE.known_index().unwrap(), b"trailers"), Match::None);
    }
}
