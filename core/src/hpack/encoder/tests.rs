use alloc::format;
use alloc::vec::Vec;

use bytes::Bytes;

use super::super::tests::{decode, encode, field};
use super::super::{Decoder, Encoder};
use super::*;
use crate::http::Field;

fn encoder() -> Encoder {
    Encoder::new(DEFAULT_TABLE_SIZE)
}

/// The block of one field, checked against a decoder that has seen all before.
struct Pair {
    encoder: Encoder,
    decoder: Decoder,
}

impl Pair {
    fn new() -> Self {
        Self { encoder: encoder(), decoder: Decoder::new(DEFAULT_TABLE_SIZE) }
    }

    fn send(&mut self, fields: &[Field]) -> Bytes {
        let block = encode(&mut self.encoder, fields);
        let arrived = decode(&mut self.decoder, &block).expect("own blocks decode");
        assert!(arrived.iter().zip(fields).all(|(a, b)| (&a.name, &a.value) == (&b.name, &b.value)));
        assert_eq!(arrived.len(), fields.len());
        block
    }

    fn entries(&self) -> usize {
        (0..).map_while(|i| self.encoder.table.entry(i)).count()
    }
}

/// RFC 7541 Appendix C.4: with fields that were seen before, the encoder makes the RFC's choices.
#[test]
fn requests_of_the_rfc_encode_to_its_octets() {
    let mut encoder = encoder();
    encoder.is_seen_again(&HeaderName::CACHE_CONTROL, b"no-cache");
    encoder.is_seen_again(&HeaderName::from_static("custom-key"), b"custom-value");
    let get = |scheme, path| {
        [
            field(":method", "GET"),
            field(":scheme", scheme),
            field(":path", path),
            field(":authority", "www.example.com"),
        ]
    };
    let first = get("http", "/").to_vec();
    let second = [&first[..], &[field("cache-control", "no-cache")]].concat();
    let third = [&get("https", "/index.html")[..], &[field("custom-key", "custom-value")]].concat();
    for (fields, block) in [
        (first, &b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"[..]),
        (second, b"\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf"),
        (third, b"\x82\x87\x85\xbf\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf"),
    ] {
        assert_eq!(encode(&mut encoder, &fields), block);
    }
}

/// `arch:4`: fields that every call repeats are one octet from the second block on.
#[test]
fn fields_that_repeat_are_one_octet_from_the_second_time_on() {
    for (name, value) in [
        (":authority", "localhost:50051"),
        (":path", "/pkg.Service/Method"),
        ("content-type", "application/grpc+json"),
        ("te", "trailers"),
        ("user-agent", "trirpc/0.1.0"),
        ("grpc-encoding", "gzip"),
        ("grpc-accept-encoding", "identity,gzip"),
        ("grpc-status", "0"),
        ("tri-service-version", "1.0.0"),
    ] {
        let mut pair = Pair::new();
        assert!(pair.send(&[field(name, value)]).len() > 1);
        assert_eq!(pair.send(&[field(name, value)])[..], [0xbe], "{name}");
    }
}

/// `arch:4`: values that differ from call to call never enter the table, however often they repeat.
#[test]
fn fields_of_one_call_never_enter_the_table() {
    for name in ["grpc-timeout", "content-length", "traceparent", "grpc-message", "x-request-id"] {
        let mut pair = Pair::new();
        for _ in 0..4 {
            let block = pair.send(&[field(name, "value")]);
            assert_eq!(block[0] & 0xf0, 0, "{name} is a literal without indexing");
        }
        assert_eq!(pair.entries(), 0, "{name}");
    }
}

/// `h2:K9`, `h2:A44`: secrets are never indexed, also when a table holds the very field.
#[test]
fn secrets_are_never_indexed() {
    for name in ["authorization", "proxy-authorization", "cookie", "set-cookie"] {
        let mut pair = Pair::new();
        for _ in 0..4 {
            let block = pair.send(&[field(name, "hunter2")]);
            assert_eq!(block[0] & 0xf0, 0x10, "{name} is a literal never indexed");
        }
        assert_eq!(pair.entries(), 0, "{name}");
    }
    let mut pair = Pair::new();
    pair.send(&[field("te", "trailers")]);
    let marked = |field: Field| Field { sensitive: true, ..field };
    assert_eq!(pair.send(&[marked(field("te", "trailers"))])[0], 0x1f, "with the name from the table");
    assert_eq!(pair.send(&[marked(field(":method", "POST"))])[0], 0x13);
    assert_eq!(pair.send(&[marked(field("x-key", "1"))])[0], 0x10);
    assert_eq!(pair.entries(), 1);
}

/// `arch:4`, `h2:N3`: what is unknown enters at the second sight, if that is soon.
#[test]
fn unknown_fields_enter_when_they_are_seen_again_soon() {
    for (name, value) in [("x-tenant", "blue"), (":status", "418"), ("grpc-status", "5")] {
        let mut pair = Pair::new();
        assert_eq!(pair.send(&[field(name, value)])[0] & 0xf0, 0, "{name} is a literal without indexing");
        assert_eq!(pair.send(&[field(name, value)])[0] & 0xc0, 0x40, "{name} is a literal with indexing");
        assert_eq!(pair.send(&[field(name, value)])[..], [0xbe], "{name} is indexed");
    }
    let mut pair = Pair::new();
    pair.send(&[field("x-tenant", "blue")]);
    for i in 0..10 * SIGHTINGS {
        pair.send(&[field("x-other", format!("{i}"))]);
    }
    assert_eq!(pair.send(&[field("x-tenant", "blue")])[0] & 0xf0, 0, "forgotten");
    assert_eq!(pair.entries(), 0);
}

/// Fields whose hashes fall on the same row are known again all the same: what a block takes must not hang on luck.
#[test]
fn many_fields_that_take_turns_are_all_seen_again() {
    let mut encoder = encoder();
    let values: Vec<_> = (0..64u32).map(|i| format!("{:x}", i.pow(5).wrapping_mul(7919))).collect();
    let name = HeaderName::from_static("x-shard");
    assert!(values.iter().all(|value| !encoder.is_seen_again(&name, value.as_bytes())));
    assert!(values.iter().all(|value| encoder.is_seen_again(&name, value.as_bytes())));
}

/// `h2:N3`: no field may evict more than half of the table, or take more than three quarters of it.
#[test]
fn a_large_field_does_not_sweep_the_table() {
    let sized = |name: &'static str, size: usize| field(name, "v".repeat(size - 32 - name.len()));
    let mut pair = Pair::new();
    pair.send(&[sized("user-agent", 3073)]);
    assert_eq!(pair.entries(), 0, "above three quarters");
    pair.send(&[sized("user-agent", 3072), sized("te", 1024)]);
    assert_eq!((pair.entries(), pair.encoder.table.size()), (2, 4096));
    pair.send(&[sized("server", 2049)]);
    assert_eq!(pair.encoder.table.inserted(), 2, "would evict more than half");
    pair.send(&[sized("server", 2048)]);
    assert_eq!(pair.encoder.table.inserted(), 3);
}

/// `h2` §5.3: many methods do not evict everything else; those in use still get in.
#[test]
fn paths_beyond_the_first_few_must_be_seen_again() {
    let path = |i: usize| field(":path", format!("/s/{i}"));
    let mut pair = Pair::new();
    for i in 0..100 {
        pair.send(&[path(i)]);
    }
    assert_eq!(pair.entries(), MAX_PATHS);
    assert_eq!(pair.send(&[path(0)]).len(), 1);
    pair.send(&[path(99)]);
    assert_eq!(pair.send(&[path(99)]).len(), 1, "seen again");
}

/// `h2:N2`
#[test]
fn huffman_code_is_used_only_where_it_is_shorter() {
    let mut dst = BytesMut::new();
    string(b"www.example.com", &mut dst);
    assert_eq!((dst[0], dst.len()), (0x8c, 13));
    for text in [&b"&&&&"[..], b"", b"\xff\x00"] {
        dst.clear();
        string(text, &mut dst);
        assert_eq!((usize::from(dst[0]), &dst[1..]), (text.len(), text), "as long or longer in code");
    }
}

/// `h2` §4.3, `h2:B22`, `h2:B24`, `h2:A13`: the peer's table size is obeyed downwards, once, and
/// never beyond our own cap.
#[test]
fn the_peers_table_size_is_obeyed_and_capped() {
    let begin = |encoder: &mut Encoder| {
        let mut dst = BytesMut::new();
        encoder.begin(&mut dst);
        dst.to_vec()
    };
    let mut encoder = encoder();
    assert!(begin(&mut encoder).is_empty(), "nothing changed");
    encoder.set_peer_max_table_size(4096);
    encoder.set_peer_max_table_size(u32::MAX);
    assert!(begin(&mut encoder).is_empty(), "nothing changed for us");
    assert_eq!(encoder.table.max_size(), 4096);

    encode(&mut encoder, &[field("te", "trailers")]);
    encoder.set_peer_max_table_size(256);
    encoder.set_peer_max_table_size(16);
    encoder.set_peer_max_table_size(4096);
    assert_eq!(begin(&mut encoder), [0x20 | 16], "one update, to the smallest");
    assert!(begin(&mut encoder).is_empty(), "said once");
    assert_eq!(encode(&mut encoder, &[field("te", "trailers")])[0], 0, "the table is too small for it");
    encoder.set_peer_max_table_size(0);
    assert_eq!(begin(&mut encoder), [0x20]);

    let mut small = Encoder::new(100);
    assert_eq!(begin(&mut small), [0x3f, 100 - 31], "below what the peer assumes");
    let mut large = Encoder::new(1 << 20);
    assert!(begin(&mut large).is_empty(), "the peer has not allowed more yet");
    large.set_peer_max_table_size(1 << 16);
    assert_eq!(begin(&mut large), [0x3f, 0xe1, 0xff, 0x03]);
    assert_eq!(large.table.max_size(), 1 << 16);
}

/// `arch:9`: names and values in the table are copies, so that it never keeps a window alive.
#[test]
fn the_table_holds_copies() {
    let window = Bytes::from(b"x-custom".to_vec());
    let name = HeaderName::from_wire(window.clone());
    let mut encoder = encoder();
    for _ in 0..2 {
        encode(&mut encoder, &[Field::new(name.clone(), "value")]);
    }
    assert_eq!(encoder.table.inserted(), 1);
    drop(name);
    assert!(window.try_into_mut().is_ok(), "nothing else holds the window");
}

/// Chains hold across any number of evictions, and names that share a chain are told apart.
#[test]
fn lookups_stay_right_across_evictions() {
    let mut pair = Pair::new();
    let fields: Vec<_> = (0..200)
        .map(|i| Field::new(HeaderName::from_bytes(format!("x-{}", i % 70).into()).unwrap(), format!("{}", i % 3)))
        .collect();
    for field in fields.iter().cycle().take(2000) {
        pair.send(&[field.clone(), field.clone(), field.clone()]);
    }
    assert!(pair.encoder.table.inserted() > 1000, "{}", pair.encoder.table.inserted());
}
