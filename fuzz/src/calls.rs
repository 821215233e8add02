//! What the targets of single calls share: heads, splits, and messages as plain bytes.

use bytes::{Buf, Bytes};
use trirpc_core::buf::MessageBuf;
use trirpc_core::call::{CallOptions, Protocol, TripleHeaders};
use trirpc_core::http::{Headers, Method, RequestHead};

use crate::input::Input;

/// Every row that carries unary calls.
pub(crate) fn rows() -> [CallOptions; 4] {
    let row = |protocol, headers| {
        let mut options = CallOptions::default();
        options.protocol = Some(protocol);
        options.triple_headers = headers;
        options
    };
    [
        row(Protocol::Grpc, TripleHeaders::DubboGo),
        row(Protocol::Triple, TripleHeaders::DubboGo),
        row(Protocol::Triple, TripleHeaders::DubboJs),
        row(Protocol::Connect, TripleHeaders::DubboGo),
    ]
}

pub(crate) fn post(path: &'static [u8], headers: Headers) -> RequestHead {
    RequestHead {
        method: Method::Post,
        scheme: Bytes::from_static(b"http"),
        authority: Bytes::new(),
        path: Bytes::from_static(path),
        headers,
        deadline: None,
    }
}

/// An octet with the number of cuts, and two for the length of each piece.
pub(crate) fn cuts(input: &mut Input<'_>) -> Vec<usize> {
    (0..input.octet() % 32).map(|_| usize::from(input.short())).collect()
}

pub(crate) fn split(mut body: &[u8], cuts: &[usize]) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    for &len in cuts {
        let (piece, rest) = body.split_at(len.min(body.len()));
        pieces.push(Bytes::copy_from_slice(piece));
        body = rest;
    }
    pieces.push(Bytes::copy_from_slice(body));
    pieces
}

pub(crate) fn content(mut message: MessageBuf) -> Vec<u8> {
    message.copy_to_bytes(message.len()).to_vec()
}
