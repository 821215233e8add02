use bytes::Bytes;
use trirpc_core::call::{
    Accept, CallKind, CallLimits, CallOptions, ClientCall, Code, End, Metadata, MetadataError, MethodSpec, ServerCall,
    Status,
};
use trirpc_core::http::{Field, HeaderName, Headers};
use trirpc_core::{Config, Instant};

use crate::calls::{post, rows};
use crate::input::Input;

static METHOD: MethodSpec = MethodSpec::new("/fuzz.Body/Read", CallKind::Unary, false);

/// Metadata are refused with a reason, or arrive as they are: with the request, before the response and behind it, with
/// an error, by every row. What comes from a peer instead can be looked at without harm.
///
/// The input is entries, each an octet with the way to append it and one each for the length of key and value, then key
/// and value.
pub fn metadata(data: &[u8]) {
    let mut input = Input::new(data);
    let (mut metadata, mut wire) = (Metadata::new(), Headers::new());
    while !input.is_empty() && metadata.len() < 64 {
        let way = input.octet();
        let (key, value) = (usize::from(input.octet()), usize::from(input.octet()));
        let (key, value) = (input.bytes(key), input.bytes(value));
        if let Ok(key) = std::str::from_utf8(key) {
            append(&mut metadata, way, key, value);
        }
        // A connection lets only names through that are ones.
        if let Ok(name) = HeaderName::from_bytes(Bytes::copy_from_slice(key)) {
            wire.push_field(Field { sensitive: way & 4 != 0, ..Field::new(name, Bytes::copy_from_slice(value)) });
        }
    }
    look_at(&Metadata::from_headers(wire));
    look_at(&metadata);
    for options in rows() {
        arrives(&metadata, options);
    }
}

/// An entry is there behind this, or it was refused for a reason that people can read.
fn append(metadata: &mut Metadata, way: u8, key: &str, value: &[u8]) {
    let before = metadata.len();
    let text = std::str::from_utf8(value).ok();
    let result: Option<Result<(), MetadataError>> = match way % 4 {
        0 => Some(metadata.append_bin(key, value)),
        1 => Some(metadata.append_opaque(key, Bytes::copy_from_slice(value))),
        2 => text.map(|text| metadata.append_sensitive(key, text)),
        _ => text.map(|text| metadata.append(key, text)),
    };
    match result {
        None => assert_eq!(metadata.len(), before),
        Some(Err(error)) => {
            assert_eq!((metadata.len(), error.key()), (before, key));
            let reason = error.to_string();
            assert!(reason.contains(':') && reason.chars().all(|c| !c.is_control()), "{reason:?}");
        }
        Some(Ok(())) => {
            assert_eq!(metadata.len(), before + 1);
            let last = metadata.get_all(key).last().expect("it was appended");
            if way % 4 == 0 {
                assert_eq!(last.to_bytes().expect("base64 of ours"), value);
            } else {
                assert_eq!(last.as_wire(), value.trim_ascii());
            }
        }
    }
}

fn look_at(metadata: &Metadata) {
    let mut values = 0;
    for (key, value) in metadata.iter() {
        drop((value.to_str(), value.to_text(), value.to_bytes()));
        assert!(metadata.get(key).is_some() && !key.starts_with(':'));
        values += 1;
    }
    assert!(values >= metadata.len());
}

fn arrives(metadata: &Metadata, mut options: CallOptions) {
    let limits = CallLimits::from(&Config::default());
    options.metadata = metadata.clone();
    let open = || ClientCall::new(&METHOD, &options, "proto", limits.clone(), None).expect("carried");
    for status in [Status::OK, Status::new(Code::Aborted, "as asked")] {
        let mut client = open();
        client.envelope(0, false).expect("the only message");
        client.finish().expect("open");
        let request = client.request_head(&options, Bytes::from_static(b"http"), Bytes::new());
        let head = post(b"/fuzz.Body/Read", request.headers);
        let Accept::Call(mut server) = ServerCall::accept(head, limits.clone(), Instant::ZERO) else {
            panic!("rejected")
        };
        assert!(server.failure().is_none());
        assert_eq!(server.request().metadata(), metadata);

        server.expect(CallKind::Unary);
        if let Some(head) = server.head(metadata).expect("nothing was sent") {
            client.handle_head(head, false);
        }
        if status.is_ok() {
            let prefix = server.envelope(0, false).expect("the only message");
            if server.keep(Bytes::new()).is_some() {
                client.handle_data(Bytes::copy_from_slice(&prefix.unwrap_or_default()));
            }
        }
        match server.finish(&status, metadata, usize::MAX).expect("an end") {
            End::Whole { head, body } => {
                client.handle_head(head, false);
                client.handle_data(body);
                client.handle_end(None);
            }
            End::Trailers(trailers) => client.handle_end(Some(trailers)),
        }
        let outcome = client.status().expect("an end");
        assert_eq!(outcome.code(), status.code());
        assert_eq!(client.metadata(), Some(metadata));
        let mut expected = Metadata::new();
        // An error of a row whose head tells the outcome carries all of them.
        if !status.is_ok() && options.protocol != rows()[0].protocol {
            expected = metadata.clone();
        }
        expected.merge(metadata.clone());
        assert_eq!(outcome.metadata(), &expected);
    }
}
