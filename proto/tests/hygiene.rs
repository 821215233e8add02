//! Code generated from a schema of difficult names compiles, and its methods are what the schema says.

#[allow(missing_docs, unreachable_pub, dead_code)]
mod generated {
    include!("../build/tests/golden/mod.rs");
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
