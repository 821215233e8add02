//! Trailers in the head of a response, for dialects without HTTP trailers: each under its name behind a prefix.

use bytes::Bytes;

use super::metadata::Metadata;
use crate::http::{Field, HeaderName, Headers};

/// Appends `trailers` to the fields of a head.
pub(crate) fn encode(trailers: &Metadata, prefix: &str, headers: &mut Headers) {
    headers.extend(trailers.as_headers().iter().map(|field| {
        let name = Bytes::from([prefix.as_bytes(), field.name.as_bytes()].concat());
        Field { name: HeaderName::from_wire(name), ..field.clone() }
    }));
}

/// The metadata of a head, and the trailers in it.
pub(crate) fn decode(headers: Headers, prefix: &str) -> (Metadata, Metadata) {
    let mut trailers = Headers::new();
    let mut rest = headers;
    rest.retain(|field| {
        // Names from the wire are in lower case.
        let Some(name) = field.name.as_bytes().strip_prefix(prefix.as_bytes()) else { return true };
        if let Ok(name) = HeaderName::from_bytes(Bytes::copy_from_slice(name)) {
            trailers.push_field(Field { name, ..field.clone() });
        }
        false
    });
    (Metadata::from_headers(rest), Metadata::from_headers(trailers))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// tri:126
    #[test]
    fn trailers_lose_their_prefix_and_keep_their_order_and_secrecy() {
        let mut trailers = Metadata::new();
        trailers.append("k", "1").unwrap();
        trailers.append_bin("k-bin", &[0, 1, 63]).unwrap();
        trailers.append_sensitive("k", "2").unwrap();
        let mut headers = Headers::new();
        headers.push(HeaderName::CONTENT_TYPE, "application/proto");
        headers.push(HeaderName::from_static("k"), "0");
        encode(&trailers, "trailer-", &mut headers);
        let names = ["content-type", "k", "trailer-k", "trailer-k-bin", "trailer-k"];
        assert!(headers.iter().map(|field| field.name.as_str()).eq(names));
        assert!(headers.iter().last().unwrap().sensitive);

        // What the protocol owns is no trailer under any name, and neither is nothing.
        headers.push(HeaderName::from_static("trailer-grpc-status"), "5");
        headers.push(HeaderName::from_static("trailer-"), "x");
        let (metadata, read) = decode(headers, "trailer-");
        assert_eq!(read, trailers);
        assert_eq!((metadata.len(), metadata.get("k").unwrap().to_str()), (1, Some("0")));
    }
}
