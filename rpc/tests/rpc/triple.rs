//! Typed calls in Triple and Connect: the same code, another wire. And which of several implementations they reach.

use std::sync::Arc;

use trirpc_rpc::{
    BidiCall, ClientSession, ClientStreamingCall, Code, Handling, IncomingCall, ManualTime, Method, MethodSpec, Origin,
    Protocol, Router, ServerStreamingCall, Service, ServiceDescriptor, ServiceVariant, Status, UnaryCall,
};

use crate::support::echo::{Counters, Echo, text};
use crate::support::executor::Executor;
use crate::support::link::{Ends, link_in};
use crate::support::rle::{Fault, Rle};
use crate::support::{CHAT, GATHER, LOTS, Link, SAY};

const BARE: [Protocol; 2] = [Protocol::Triple, Protocol::Connect];

fn link(equip: impl FnOnce(Router) -> Router) -> Link {
    let counters = Arc::new(Counters::default());
    let router = equip(Router::new().add(Echo { counters: counters.clone() }));
    Link { counters, ..link_in(Executor::new(), ManualTime::new(), router, Ends::default()) }
}

fn say(client: &ClientSession, text: &str) -> UnaryCall<ClientSession, String, String> {
    UnaryCall::new(client.clone(), &SAY, text.to_owned())
}

#[test]
fn a_unary_call_carries_message_headers_and_trailers() {
    for protocol in BARE {
        let link = link(|router| router);
        let client = link.client.clone().protocol(protocol);
        for message in ["hello", "", &"x".repeat(100_000)] {
            let call = say(&client, message).metadata("x-colour", "blue").metadata("x-colour", "red").full();
            let response = link.executor.block_on(call).expect("answered");
            assert_eq!(response.message(), message);
            let colours = response.headers().get_all("x-colour").filter_map(|value| value.to_str()).collect::<Vec<_>>();
            assert_eq!(colours, ["blue", "red"]);
            assert_eq!(text(response.trailers(), "x-colour-trailer").as_deref(), Some("blue"));
        }
        link.assert_empty();
    }
}

/// tri:119 tri:123: errors of the handler, of the router, of a handler that is not there or panics.
#[test]
fn errors_arrive_as_they_were_said() {
    static MISSING: Method<String, String> =
        Method::new("/test.Echo/Missing", trirpc_rpc::CallKind::Unary, true, crate::support::echo::CODECS);
    for protocol in BARE {
        let link = link(|router| router);
        let client = link.client.clone().protocol(protocol);
        let status =
            link.executor.block_on(say(&client, "fail").metadata("x-colour", "blue").full()).expect_err("asked");
        assert_eq!((status.code(), status.message(), status.origin()), (Code::NotFound, "no such thing", Origin::Peer));
        assert_eq!(text(status.metadata(), "x-colour").as_deref(), Some("blue"));
        assert_eq!(text(status.metadata(), "x-colour-trailer").as_deref(), Some("blue"));
        let status = link.executor.block_on(say(&client, "panic").full()).expect_err("panicked");
        assert_eq!(status.code(), Code::Internal);
        let call = UnaryCall::new(client.clone(), &MISSING, "x".to_owned());
        let status = link.executor.block_on(call.full()).expect_err("not there");
        assert_eq!((status.code(), status.message()), (Code::Unimplemented, "service test.Echo has no method Missing"));
        assert_eq!(link.executor.block_on(say(&client, "still there")).expect("answered"), "still there");
        link.assert_empty();
    }
}

/// tri:123 tri:23: the codec is not the method's. In HTTP that is 415, in gRPC the call's status.
#[test]
fn a_codec_that_is_not_served_is_refused() {
    static OTHER: Method<String, String> =
        Method::new("/test.Echo/Say", trirpc_rpc::CallKind::Unary, true, crate::support::echo::OTHER_CODECS);
    for (protocol, code) in [(Protocol::Triple, Code::Unknown), (Protocol::Grpc, Code::Unimplemented)] {
        let link = link(|router| router);
        let call = UnaryCall::new(link.client.clone(), &OTHER, "x".to_owned()).protocol(protocol);
        let status = link.executor.block_on(call.full()).expect_err("refused");
        assert_eq!(status.code(), code, "{status}");
        link.assert_empty();
    }
}

/// triple-protocol §0: Triple's streams are gRPC.
#[test]
fn streams_of_triple_work() {
    let link = link(|router| router);
    let client = link.client.clone().protocol(Protocol::Triple);
    let call = ServerStreamingCall::new(client.clone(), &LOTS, "3".into());
    let (mut tx, reply) = ClientStreamingCall::new(client.clone(), &GATHER).open();
    let (mut chat, mut echo) = BidiCall::new(client, &CHAT).open();
    let result = link.executor.block_on(async move {
        let (mut rx, mut count) = (call.await?, 0);
        while rx.next().await?.is_some() {
            count += 1;
        }
        tx.send(&"a".to_owned()).await?;
        tx.finish();
        chat.send(&"b".to_owned()).await?;
        let echoed = echo.next().await?;
        chat.finish();
        assert_eq!(echo.next().await?, None);
        Ok::<_, Status>((count, reply.await?, echoed))
    });
    assert_eq!(result.expect("answered"), (3, "a".to_owned(), Some("b".to_owned())));
    link.assert_empty();
}

/// tri:127 tri:128: the message is the body, so that its encoding is the body's.
#[test]
fn messages_are_compressed_both_ways() {
    for protocol in BARE {
        let (near, far) = (Rle::new(Fault::None), Rle::new(Fault::None));
        let link = link(|router| router.accept_compression(far.clone()).send_compression(far.clone()));
        let client = link.client.clone().send_compression(near.clone()).protocol(protocol);
        let long = "a".repeat(5000);
        assert_eq!(link.executor.block_on(say(&client, &long)).expect("answered"), long);
        assert_eq!((near.take(), far.take()), ((1, 1), (1, 1)));
        assert_eq!(link.executor.block_on(say(&client, "small")).expect("answered"), "small");
        assert_eq!((near.take(), far.take()), ((0, 0), (0, 0)));
        let status = link.executor.block_on(say(&client, "fail")).expect_err("asked");
        assert_eq!(status.message(), "no such thing");
        link.assert_empty();
    }
    let near = Rle::new(Fault::None);
    let link = link(|router| router);
    let client = link.client.clone().send_compression(near).protocol(Protocol::Triple);
    let status = link.executor.block_on(say(&client, &"a".repeat(5000))).expect_err("not understood");
    assert_eq!(status.code(), Code::Unimplemented);
}

/// A service that tells its name.
struct Named(&'static str);

impl Service for Named {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        static METHODS: &[&MethodSpec] = &[&SAY.spec];
        static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor::new("test.Echo", METHODS);
        &DESCRIPTOR
    }

    fn call(self: Arc<Self>, _: usize, call: IncomingCall) -> Handling {
        call.unary(&SAY, move |cx, _| async move { cx.respond(&SAY, Ok(self.0.to_owned())) })
    }
}

fn variant(group: &str, version: &str) -> ServiceVariant {
    ServiceVariant::new(group, version).expect("legal")
}

/// Who answers, by (group, version): `router` with calls in gRPC and Triple.
fn answers(router: &Router, group: &str, version: &str) -> Result<String, Code> {
    let link = link_in(Executor::new(), ManualTime::new(), router.clone(), Ends::default());
    let answers = [Protocol::Grpc, Protocol::Triple].map(|protocol| {
        let call = say(&link.client, "who").protocol(protocol).variant(variant(group, version));
        link.executor.block_on(call.full()).map(|response| response.message().clone()).map_err(|status| status.code())
    });
    assert_eq!(answers[0], answers[1]);
    answers[0].clone()
}

/// tri:68 tri:69
#[test]
fn group_and_version_choose_the_implementation() {
    let name = |name: &str| Ok(name.to_owned());
    let router = Router::new()
        .add(Named("plain"))
        .add_variant(variant("blue", "2.0.0"), Arc::new(Named("blue")))
        .add_variant(variant("blue", "1.0.0"), Arc::new(Named("old")));
    assert_eq!(router.services(), ["test.Echo"]);
    assert_eq!(answers(&router, "", ""), name("plain"));
    assert_eq!(answers(&router, "blue", "2.0.0"), name("blue"));
    assert_eq!(answers(&router, "blue", "1.0.0"), name("old"));
    // No version, `1.0.0` and `0.0.0` are the same, but what is exact goes first.
    assert_eq!(answers(&router, "", "1.0.0"), name("plain"));
    assert_eq!(answers(&router, "blue", ""), name("old"));
    assert_eq!(answers(&router, "", "2.0.0"), Err(Code::Unimplemented));
    assert_eq!(answers(&router, "red", "2.0.0"), Err(Code::Unimplemented));
    assert_eq!(answers(&router.lenient_variants(true), "red", ""), Err(Code::Unimplemented), "there are several");
}

#[test]
fn a_lenient_router_takes_any_group_and_version_for_the_only_implementation() {
    let router = Router::new().add_variant(variant("blue", "2.0.0"), Arc::new(Named("blue")));
    assert_eq!(answers(&router, "cluster", "9"), Err(Code::Unimplemented));
    let router = router.lenient_variants(true);
    assert_eq!(answers(&router, "cluster", "9"), Ok("blue".to_owned()));
    assert_eq!(answers(&router, "", ""), Ok("blue".to_owned()));
}

#[test]
#[should_panic(expected = "serves /test.Echo/Say already")]
fn one_variant_is_served_once() {
    let _ = Router::new().add(Named("a")).add_shared(Arc::new(Named("b")));
}
