//! Code generated from a schema of difficult names compiles, and its methods are what the schema says.

#[allow(missing_docs, unreachable_pub, dead_code, clippy::use_self)]
mod generated {
    include!("../build/tests/golden/mod.rs");
}

/// The same, with `bytes` fields of type `Vec<u8>`.
#[allow(missing_docs, unreachable_pub, dead_code, clippy::use_self)]
mod owned {
    include!("../build/tests/golden_owned/mod.rs");
}

use generated::hygiene::v1::{foreign_method, result_method, thing_method};
use trirpc_proto::codegen::{CallKind, Method, prost_types};

#[test]
fn every_kind_of_call_has_its_path_and_kind() {
    let specs =
        [&thing_method::TYPE.spec, &thing_method::ASYNC.spec, &thing_method::TYPES.spec, &foreign_method::PACK.spec];
    let kinds = [CallKind::Unary, CallKind::ServerStreaming, CallKind::ClientStreaming, CallKind::Bidi];
    let paths = ["Thing/Type", "Thing/Async", "Thing/Types", "Foreign/Pack"];
    for ((spec, kind), path) in specs.into_iter().zip(kinds).zip(paths) {
        assert_eq!((spec.kind(), spec.path()), (kind, format!("/hygiene.v1.{path}").as_str()));
    }
    assert_eq!(generated::bare_method::DO.spec.path(), "/Bare/Do", "without a package");
}

#[test]
fn names_that_rust_cannot_tell_apart_still_call_different_methods() {
    let methods = [&thing_method::GET_USER, &thing_method::GET_USER_2, &thing_method::GET_USER_3];
    let paths = methods.map(|method| method.spec.path());
    assert_eq!(paths, ["/hygiene.v1.Thing/GetUser", "/hygiene.v1.Thing/get_user", "/hygiene.v1.Thing/getUser"]);
}

#[test]
fn idempotency_comes_from_the_schema() {
    let methods = [&thing_method::TYPE, &thing_method::READ, &thing_method::PUT];
    assert_eq!(methods.map(|method| method.spec.is_idempotent()), [false, true, true]);
}

#[test]
fn well_known_types_are_those_of_rust_and_of_prost() {
    let _: &Method<(), prost_types::Timestamp> = &foreign_method::PING;
    let _: &Method<String, Vec<u8>> = &foreign_method::WRAP;
    let _: &Method<bool, f64> = &foreign_method::FLAG;
    let _: &Method<generated::hygiene::Base, generated::hygiene::v1::nested::Other> = &foreign_method::ABOVE;
    assert_eq!(foreign_method::PING.default_codec().name(), "proto");
    assert_eq!(result_method::GET.codec("json").map(|codec| codec.name()), None);
}

/// A service that is called `T`, in a server whose parameter is called so too.
#[test]
fn a_service_with_a_difficult_name_can_be_implemented() {
    use generated::hygiene::v1::{C, t_server};
    use trirpc_proto::codegen::{Context, Service, Status};

    struct Impl;

    impl t_server::T for Impl {
        async fn t(&self, _: &mut Context, request: C) -> Result<C, Status> {
            Ok(request)
        }
    }

    assert_eq!(t_server::TServer::new(Impl).descriptor().name(), "hygiene.v1.T_");
}

/// Arbitrary messages of every kind of field, and octets that are hardly one.
mod fields {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use quickcheck::{Arbitrary, Gen, QuickCheck};
    use trirpc_proto::codegen::MethodCodec;
    use trirpc_proto::codegen::prost::Message;

    use super::owned::hygiene::Two;
    use super::owned::hygiene::v1::{Fields, fields::One, reader_method};

    #[derive(Clone, Debug)]
    struct Any(Fields);

    impl Arbitrary for Any {
        fn arbitrary(g: &mut Gen) -> Self {
            let one = match u8::arbitrary(g) % 3 {
                0 => None,
                1 => Some(One::Either(String::arbitrary(g))),
                _ => Some(One::Or(Vec::arbitrary(g))),
            };
            let long = if u8::arbitrary(g) < 32 { 20_000 } else { 0 };
            let nested = (g.size() > 2 && bool::arbitrary(g)).then(|| Self::arbitrary(&mut Gen::new(g.size() / 2)).0);
            Self(Fields {
                text: String::arbitrary(g),
                octets: [vec![7; long], Vec::arbitrary(g)].concat(),
                maybe: Option::arbitrary(g),
                perhaps: Option::arbitrary(g),
                many: Vec::arbitrary(g),
                one,
                r#type: Vec::arbitrary(g),
                camel_case: String::arbitrary(g),
                number: i64::arbitrary(g),
                nested: nested.map(Box::new),
                map: BTreeMap::arbitrary(g),
                far: Vec::arbitrary(g),
            })
        }
    }

    /// What prost itself makes of `octets`, and what the codec of a generated method does.
    fn both(octets: &[u8]) -> [(Result<Fields, String>, Result<Two, String>); 2] {
        let MethodCodec { request, response } = reader_method::READ.codecs()[0];
        let read = Bytes::copy_from_slice(octets);
        let message = || read.clone().into();
        let ours = (request.decode(&mut message()), response.decode(&mut message()));
        let ours = (ours.0.map_err(|e| e.message().to_owned()), ours.1.map_err(|e| e.message().to_owned()));
        let prost = (Fields::decode(octets), Two::decode(octets));
        [(prost.0.map_err(|e| e.to_string()), prost.1.map_err(|e| e.to_string())), ours]
    }

    #[test]
    fn messages_that_own_their_bytes_are_read_as_prost_reads_them() {
        fn property(Any(message): Any, again: Any, changes: Vec<(usize, u8)>, end: usize) -> bool {
            let mut octets = message.encode_to_vec();
            let [prost, ours] = both(&octets);
            let is_read = ours.0 == Ok(message) && ours == prost;
            // The same fields once more: the last of each counts, and a nested message is merged.
            octets.extend(again.0.encode_to_vec());
            let [prost, ours] = both(&octets);
            let is_merged = ours == prost;
            for (at, octet) in changes {
                if let Some(place) = at.checked_rem(octets.len()).and_then(|at| octets.get_mut(at)) {
                    *place = octet;
                }
            }
            octets.truncate(octets.len() - end % (octets.len() + 1) / 2);
            let [prost, ours] = both(&octets);
            is_read && is_merged && ours == prost
        }
        QuickCheck::new().tests(500).quickcheck(property as fn(Any, Any, Vec<(usize, u8)>, usize) -> bool);
    }

    #[test]
    fn lengths_are_read_as_prost_reads_them() {
        let octets: [&[u8]; 12] = [
            b"",
            b"\x0a",
            b"\x0a\x00",
            b"\x0a\x80\x00",
            b"\x0a\x81\x80\x00x",
            b"\x0a\x81\x80\x80\x00x",
            b"\x0a\x81\x80\x80\x80\x80\x80\x80\x80\x80\x02x",
            b"\x0a\x02x",
            b"\x0a\x01\xff",
            b"\x02\x00",
            b"\x08\x01",
            b"\x8a\x00\x01x",
        ];
        for octets in octets {
            let [prost, ours] = both(octets);
            assert_eq!(ours, prost, "{octets:?}");
        }
        let [_, ours] = both(b"\x0a\x81\x80\x00x");
        assert_eq!(ours.1.map(|two| two.text), Ok("x".to_owned()));
    }
}
