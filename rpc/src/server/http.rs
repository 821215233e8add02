//! Plain HTTP, for what no service answers.

use std::fmt;
use std::future::{Future, poll_fn};
use std::str;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use trirpc_core::call::{CallKind, MethodSpec};
use trirpc_core::http::{HeaderName, Headers, Method, RequestHead, Response};

use super::call::IncomingCall;
use super::handling::Handling;
use super::service::{Service, ServiceDescriptor};
use crate::marker::{MaybeSend, MaybeSync};
use crate::raw::{RawReceiver, Received};
use crate::session::CallSeat;

/// A request that is no call of a service: see [`Router::fallback`](crate::Router::fallback).
///
/// Its body is received under flow control: what the handler does not take is not sent.
pub struct HttpRequest {
    seat: CallSeat,
    head: Arc<RequestHead>,
    body: RawReceiver,
    max_body: usize,
}

impl HttpRequest {
    /// The method. CONNECT never comes here.
    pub fn method(&self) -> Method {
        self.head.method
    }

    /// The path without the query, as it was sent; `*` with OPTIONS may be one.
    pub fn path(&self) -> &str {
        self.target().split('?').next().unwrap_or_default()
    }

    /// The query behind the first `?`, if there is one.
    pub fn query(&self) -> Option<&str> {
        self.target().split_once('?').map(|(_, query)| query)
    }

    /// Path and query.
    fn target(&self) -> &str {
        str::from_utf8(&self.head.path).unwrap_or_default()
    }

    /// Host and port that the request is for.
    pub fn authority(&self) -> &str {
        str::from_utf8(&self.head.authority).unwrap_or_default()
    }

    /// The first value of a field, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let mut fields = self.head.headers.iter();
        fields.find(|field| field.name.as_str() == name).map(|field| &field.value[..])
    }

    /// All fields.
    pub fn headers(&self) -> &Headers {
        &self.head.headers
    }

    /// The client's address, where the transport knows one.
    pub fn peer(&self) -> Option<&str> {
        self.seat.peer()
    }

    /// The next octets of the body; `None` at its end. There is no limit to all of them together.
    ///
    /// # Errors
    /// The request has ended before its body did: the response is 400, which nobody may be left to read.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, HttpResponse> {
        match poll_fn(|cx| self.body.poll_recv(cx, None)).await {
            Ok(Received::Message(mut piece)) => Ok(Some(piece.copy_to_bytes(piece.remaining()))),
            Ok(Received::End(_)) => Ok(None),
            Err(_) => Err(HttpResponse::new(400)),
        }
    }

    /// What is left of the body.
    ///
    /// # Errors
    /// 413 as soon as it is known to be longer than [`max_recv_message`](crate::Config::max_recv_message); else as
    /// [`chunk`](Self::chunk). The error is a response, to be returned or not.
    pub async fn body(&mut self) -> Result<Bytes, HttpResponse> {
        let announced = self.header("content-length").and_then(|value| str::from_utf8(value).ok()?.parse::<u64>().ok());
        if announced.is_some_and(|len| len > self.max_body as u64) {
            return Err(HttpResponse::new(413));
        }
        let mut body = BytesMut::new();
        while let Some(piece) = self.chunk().await? {
            if piece.len() > self.max_body - body.len() {
                return Err(HttpResponse::new(413));
            }
            body.extend_from_slice(&piece);
        }
        Ok(body.freeze())
    }
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRequest").field("head", &self.head).finish_non_exhaustive()
    }
}

/// What a [fallback](crate::Router::fallback) answers.
///
/// `content-length` is added, and the body is left out where HTTP allows none (HEAD, 204, 304). A status below 200, or a
/// field that HTTP/2 does not allow in a response, is a mistake of the handler, which the client sees as 500.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse(Response);

impl HttpResponse {
    /// A response without fields and body.
    pub const fn new(status: u16) -> Self {
        Self(Response::from_status(status))
    }

    /// Adds a field; letter case of the name does not matter.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<Bytes>) -> Self {
        self.0.head.headers.push(field_name(name), value);
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.0.body = body.into();
        self
    }

    /// Adds a field behind the body.
    #[must_use]
    pub fn trailer(mut self, name: &str, value: impl Into<Bytes>) -> Self {
        self.0.trailers.push(field_name(name), value);
        self
    }

    /// The status.
    pub const fn status(&self) -> u16 {
        self.0.head.status
    }

    pub(crate) fn into_inner(self) -> Response {
        self.0
    }
}

/// What is no name is found out when the response is to be sent.
fn field_name(name: &str) -> HeaderName {
    HeaderName::from_wire(Bytes::from(name.to_ascii_lowercase()))
}

/// Lets a handler return errors of [`HttpRequest::body`] by `?`.
impl From<Result<Self, Self>> for HttpResponse {
    fn from(result: Result<Self, Self>) -> Self {
        result.unwrap_or_else(|response| response)
    }
}

/// A handler of plain HTTP, in the form of a service without methods.
pub(super) struct Fallback<F>(pub(super) F);

/// What [`IncomingCall`]s of plain HTTP are said to call. Nobody sees it.
pub(super) static REQUEST: MethodSpec = MethodSpec::new("/http/request", CallKind::ClientStreaming, false);

impl<F, Fut> Service for Fallback<F>
where
    F: Fn(HttpRequest) -> Fut + MaybeSend + MaybeSync + 'static,
    Fut: Future<Output: Into<HttpResponse>> + MaybeSend + 'static,
{
    fn descriptor(&self) -> &'static ServiceDescriptor {
        static NONE: ServiceDescriptor = ServiceDescriptor::new("", &[]);
        &NONE
    }

    fn call(self: Arc<Self>, _: usize, call: IncomingCall) -> Handling {
        call.plain(&self.0)
    }
}

impl IncomingCall {
    /// Lets `handler` answer a request of plain HTTP.
    fn plain<F>(self, handler: impl FnOnce(HttpRequest) -> F) -> Handling
    where
        F: Future<Output: Into<HttpResponse>> + MaybeSend + 'static,
    {
        let (seat, request, spare) = self.into_parts();
        let Some(head) = request.accepted.http().cloned() else { return Handling::DONE };
        let (carrier, key) = seat.carrier();
        let body = RawReceiver::new(carrier, key);
        let response = handler(HttpRequest { seat: seat.clone(), head, body, max_body: seat.max_recv_message() });
        Handling::within(spare, async move { seat.respond_plain(response.await.into()) })
    }
}
