//! The four kinds of call between two drivers over a pipe, and how they end.

use crate::support::Link;
use crate::support::echo::text;

#[test]
fn a_unary_call_carries_message_headers_and_trailers() {
    let link = Link::default();
    let call = link.say("hello").metadata("x-colour", "blue").full();
    let response = link.executor.block_on(call).expect("answered");
    assert_eq!(response.message(), "hello");
    assert_eq!(text(response.headers(), "x-colour").as_deref(), Some("blue"));
    assert_eq!(text(response.trailers(), "x-colour-trailer").as_deref(), Some("blue"));
    link.assert_empty();
}
