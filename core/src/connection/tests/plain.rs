//! Requests of plain HTTP, from a bare engine to a server that has somebody to answer them.

use alloc::boxed::Box;

use quickcheck::quickcheck;

use super::super::plain;
use super::*;
use crate::http::{HeaderName, Headers, Method, RequestHead, Response, ResponseHead};
use crate::http2::Side;

/// What a client saw of a response.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    head: Option<ResponseHead>,
    body: Vec<u8>,
    trailers: Option<Headers>,
    is_complete: bool,
    reset: Option<ErrorCode>,
}

impl Seen {
    fn status(&self) -> u16 {
        self.head.as_ref().map_or(0, |head| head.status)
    }

    fn header(&self, name: &HeaderName) -> Option<&[u8]> {
        self.head.as_ref()?.headers.get(name).map(|value| &value[..])
    }
}

/// A client that may send any request, and a server of `/t.Echo/…` that answers plain HTTP on every other path.
struct Plain {
    client: Http2,
    server: Connection<Server>,
    up: (Transmit, RecvBuf),
    down: (Transmit, RecvBuf),
    seen: Vec<Seen>,
    now: Instant,
}

impl Plain {
    fn new() -> Self {
        Self::with(Config::default())
    }

    fn with(config: Config) -> Self {
        let now = Instant::ZERO;
        let mut server = Connection::<Server>::new(Arc::new(config), None, now);
        server.serve_plain(|path| !path.starts_with("/t.Echo/"));
        Self {
            client: Http2::new(Side::Client, Arc::new(Config::default()), now),
            server,
            up: (Transmit::new(), RecvBuf::new(4096)),
            down: (Transmit::new(), RecvBuf::new(4096)),
            seen: Vec::new(),
            now,
        }
    }

    fn open(&mut self, method: Method, path: &'static str, fields: &[(HeaderName, &'static str)]) -> StreamKey {
        let mut headers = Headers::new();
        fields.iter().for_each(|(name, value)| headers.push(name.clone(), *value));
        let (scheme, path) = (Bytes::from_static(b"http"), Bytes::from_static(path.as_bytes()));
        let authority = Bytes::from_static(b"test:1");
        let head = RequestHead { method, scheme, authority, path, headers, deadline: None };
        let call = self.seen.len() as u32;
        self.seen.push(Seen::default());
        self.client.open(head, call).expect("room")
    }

    fn request(&mut self, method: Method, path: &'static str, body: &'static [u8]) -> StreamKey {
        let key = self.open(method, path, &[]);
        self.client.send_data(key, None, Bytes::from_static(body));
        self.client.finish(key, None);
        self.drive();
        key
    }

    fn drive(&mut self) {
        for _ in 0..100 {
            let Self { client, server, up, down, .. } = self;
            while client.poll_transmit(&mut up.0, self.now) || !up.0.is_empty() {
                up.0.chunks().for_each(|chunk| up.1.extend(chunk));
                up.0.advance(up.0.len());
            }
            server.handle_input(&mut up.1, self.now);
            while server.poll_transmit(&mut down.0, self.now) || !down.0.is_empty() {
                down.0.chunks().for_each(|chunk| down.1.extend(chunk));
                down.0.advance(down.0.len());
            }
            self.look();
        }
    }

    fn look(&mut self) {
        while let Some(incoming) = self.client.next(&mut self.down.1, self.now) {
            match incoming {
                Incoming::Response { call, head, end, .. } => {
                    let seen = &mut self.seen[call as usize];
                    (seen.head, seen.is_complete) = (Some(ResponseHead::clone(&head)), end);
                }
                Incoming::WholeResponse { stream, call, head, len, trailers } => {
                    let seen = &mut self.seen[call as usize];
                    seen.head = Some(ResponseHead::clone(&head));
                    seen.body = self.down.1.split_to(len).to_vec();
                    seen.trailers = trailers.as_deref().cloned();
                    seen.is_complete = true;
                    self.client.end_whole(stream);
                }
                Incoming::Data { stream, call, len, end } => {
                    let seen = &mut self.seen[call as usize];
                    seen.body.extend(self.down.1.split_to(len));
                    seen.is_complete = end;
                    self.client.consumed(stream, len);
                }
                Incoming::Trailers { call, headers, .. } => {
                    let seen = &mut self.seen[call as usize];
                    (seen.trailers, seen.is_complete) = (Some(Headers::clone(&headers)), true);
                }
                Incoming::Reset { call, code, .. } => self.seen[call as usize].reset = Some(code),
                Incoming::Closed(error) => panic!("{error}"),
                _ => {}
            }
        }
    }

    fn accept(&mut self) -> CallId {
        let id = self.server.accept().expect("a request");
        self.server.call(id).expect("there").expect(CallKind::ClientStreaming, self.now);
        id
    }

    fn received(&mut self, id: CallId) -> (Vec<u8>, bool) {
        let mut body = Vec::new();
        loop {
            match self.server.call(id).expect("there").recv() {
                Recv::Message(mut piece) => body.extend(piece.copy_to_bytes(piece.len())),
                Recv::Blocked => return (body, false),
                Recv::End => return (body, true),
            }
        }
    }

    fn respond(&mut self, id: CallId, response: Response) -> Result<(), SendError> {
        let result = self.server.call(id).expect("there").respond_plain(response, self.now);
        self.drive();
        result
    }
}

fn response(status: u16, body: &'static [u8]) -> Response {
    let mut response = Response { body: Bytes::from_static(body), ..Response::from_status(status) };
    response.head.headers.push(HeaderName::CONTENT_TYPE, "text/plain");
    response
}

#[test]
fn any_method_and_path_that_is_of_no_service_reaches_the_application() {
    let mut plain = Plain::new();
    let methods = [Method::Get, Method::Post, Method::Put, Method::Delete, Method::Patch, Method::Options];
    for (n, method) in methods.into_iter().enumerate() {
        plain.request(method, "/some/where?a=b&c", b"body");
        let id = plain.accept();
        let call = plain.server.call(id).unwrap();
        let head = Arc::clone(call.http().expect("plain"));
        assert_eq!(
            (head.method, &head.path[..], &head.authority[..]),
            (method, &b"/some/where?a=b&c"[..], &b"test:1"[..])
        );
        assert_eq!((call.path(), call.protocol()), ("/some/where", Protocol::Http));
        assert_eq!(plain.received(id), (b"body".to_vec(), true));
        plain.respond(id, response(200, b"answer")).unwrap();
        let seen = &plain.seen[n];
        assert_eq!((seen.status(), &seen.body[..], seen.is_complete), (200, &b"answer"[..], true));
        assert_eq!(seen.header(&HeaderName::CONTENT_LENGTH), Some(&b"6"[..]));
        assert_eq!(seen.header(&HeaderName::CONTENT_TYPE), Some(&b"text/plain"[..]));
    }
    plain.request(Method::Options, "*", b"");
    let id = plain.accept();
    assert_eq!(plain.server.call(id).unwrap().path(), "*");
    plain.respond(id, Response::from_status(204)).unwrap();
    assert_eq!(plain.server.open_calls(), 0);
}

/// A call of a service that is not there is plain HTTP too, also if it is one by its content type.
#[test]
fn calls_of_no_service_are_plain_http() {
    let mut plain = Plain::new();
    let grpc = [(HeaderName::CONTENT_TYPE, "application/grpc"), (HeaderName::TE, "trailers")];
    for path in ["/other.Service/Method", "/"] {
        let key = plain.open(Method::Post, path, &grpc);
        plain.client.send_data(key, None, Bytes::from_static(b"\0\0\0\0\x01x"));
        plain.client.finish(key, None);
        plain.drive();
        let id = plain.accept();
        let head = Arc::clone(plain.server.call(id).unwrap().http().expect("plain"));
        assert_eq!(head.headers.get(&HeaderName::CONTENT_TYPE).unwrap(), "application/grpc");
        assert_eq!(plain.received(id), (b"\0\0\0\0\x01x".to_vec(), true));
        plain.respond(id, response(404, b"no")).unwrap();
    }
    let key = plain.open(Method::Post, "/t.Echo/Say", &grpc);
    plain.client.send_data(key, None, Bytes::from_static(b"\0\0\0\0\x01x"));
    plain.client.finish(key, None);
    plain.drive();
    let id = plain.server.accept().expect("a call");
    let call = plain.server.call(id).unwrap();
    assert!(call.http().is_none());
    assert_eq!(call.protocol(), Protocol::Grpc);
}

/// `h2:A39`: a tunnel is nothing that an application could answer.
#[test]
fn connect_is_never_plain_http() {
    let mut head = RequestHead {
        method: Method::Connect,
        scheme: Bytes::new(),
        authority: Bytes::from_static(b"test:1"),
        path: Bytes::new(),
        headers: Headers::new(),
        deadline: None,
    };
    let everything: plain::IsPlain = Box::new(|_| true);
    assert!(!plain::is_plain(&head, &everything));
    head.method = Method::Other;
    assert!(plain::is_plain(&head, &everything));
}

/// `h2:V11`: what a service's path forbids is forbidden still.
#[test]
fn requests_of_a_services_path_are_refused_as_ever() {
    let mut plain = Plain::new();
    plain.request(Method::Get, "/t.Echo/Say", b"");
    plain.request(Method::Post, "/t.Echo/Say", b"");
    assert_eq!(plain.seen.iter().map(Seen::status).collect::<Vec<_>>(), [405, 415]);
    assert!(plain.server.accept().is_none());
    let mut without = Plain::new();
    without.server.state.is_plain = None;
    without.request(Method::Get, "/", b"");
    assert_eq!(without.seen[0].status(), 405);
}

/// `h2:H6`
#[test]
fn what_may_have_no_body_has_none() {
    let mut plain = Plain::new();
    for (method, status, length) in [
        (Method::Head, 200, Some("6")),
        (Method::Head, 404, Some("6")),
        (Method::Get, 204, None),
        (Method::Get, 304, None),
        (Method::Head, 204, None),
    ] {
        plain.request(method, "/", b"");
        let id = plain.accept();
        let mut answer = response(status, b"answer");
        answer.trailers.push(HeaderName::ETAG, "x");
        plain.respond(id, answer).unwrap();
        let seen = plain.seen.last().unwrap();
        assert_eq!((seen.status(), seen.body.len(), seen.is_complete), (status, 0, true), "{method:?}");
        assert!(seen.trailers.is_none());
        assert_eq!(seen.header(&HeaderName::CONTENT_LENGTH), length.map(str::as_bytes), "{method:?} {status}");
    }
    // A length that is told to HEAD alone is the application's word.
    plain.request(Method::Head, "/", b"");
    let id = plain.accept();
    let mut answer = response(200, b"");
    answer.head.headers.push(HeaderName::CONTENT_LENGTH, "1000000");
    plain.respond(id, answer).unwrap();
    assert_eq!(plain.seen.last().unwrap().header(&HeaderName::CONTENT_LENGTH), Some(&b"1000000"[..]));
}

#[test]
fn the_length_of_a_body_is_its_own_and_trailers_follow_it() {
    let mut plain = Plain::new();
    for (body, length) in [(&b"answer"[..], "6"), (b"", "0")] {
        plain.request(Method::Get, "/", b"");
        let id = plain.accept();
        let mut answer = response(200, body);
        answer.head.headers.push(HeaderName::CONTENT_LENGTH, "17");
        answer.trailers.push(HeaderName::ETAG, "x");
        plain.respond(id, answer).unwrap();
        let seen = plain.seen.last().unwrap();
        assert_eq!((&seen.body[..], seen.is_complete, seen.reset), (body, true, None));
        assert_eq!(seen.head.as_ref().unwrap().headers.get_all(&HeaderName::CONTENT_LENGTH).count(), 1);
        assert_eq!(seen.header(&HeaderName::CONTENT_LENGTH), Some(length.as_bytes()));
        assert_eq!(seen.trailers.as_ref().unwrap().get(&HeaderName::ETAG).unwrap(), "x");
    }
}

/// `h2:V12`: the client gets 500 where the application's answer is not HTTP.
#[test]
fn an_answer_that_is_not_http_becomes_a_500() {
    let mut plain = Plain::new();
    let mut upgrade = response(200, b"x");
    upgrade.head.headers.push(HeaderName::UPGRADE, "h2c");
    let mut forged = response(200, b"x");
    forged.head.headers.push(HeaderName::DATE, "a\r\nset-cookie: b");
    for answer in [upgrade, forged, response(101, b""), response(42, b"")] {
        plain.request(Method::Get, "/", b"");
        let id = plain.accept();
        assert!(matches!(plain.respond(id, answer), Err(SendError::Invalid(_))));
        let seen = plain.seen.last().unwrap();
        assert_eq!((seen.status(), seen.is_complete, seen.body.len()), (500, true, 0));
    }
    assert_eq!(plain.server.open_calls(), 0);
}

/// Credit is given for what the application took: the peer sends no more than one window ahead.
#[test]
fn a_body_comes_as_fast_as_it_is_taken() {
    let config = Config { initial_stream_window: 65_535, adaptive_window: false, ..Config::default() };
    let mut plain = Plain::with(config);
    let key = plain.open(Method::Put, "/upload", &[]);
    let body = Bytes::from(alloc::vec![7; 1_000_000]);
    plain.client.send_data(key, None, body.clone());
    plain.client.finish(key, None);
    plain.drive();
    let id = plain.accept();
    let mut taken = 0;
    loop {
        let held = plain.server.calls.get(id).unwrap().machine.buffered();
        assert!(held <= 65_535, "{held}");
        let (piece, is_over) = plain.received(id);
        taken += piece.len();
        if is_over {
            break;
        }
        assert!(!piece.is_empty(), "stuck after {taken}");
        plain.drive();
    }
    assert_eq!(taken, body.len());
    plain.respond(id, response(201, b"stored")).unwrap();
    assert_eq!(plain.seen[0].status(), 201);
}

/// `h2:T3`: an answer before the end of the request is sent whole, and then the rest is refused without a fault.
#[test]
fn a_request_may_be_answered_before_its_end() {
    let mut plain = Plain::new();
    let key = plain.open(Method::Post, "/upload", &[]);
    plain.client.send_data(key, None, Bytes::from_static(b"begun"));
    plain.drive();
    let id = plain.accept();
    assert_eq!(plain.received(id), (b"begun".to_vec(), false));
    plain.respond(id, response(413, b"too much")).unwrap();
    let seen = &plain.seen[0];
    assert_eq!((seen.status(), &seen.body[..], seen.is_complete), (413, &b"too much"[..], true));
    assert_eq!(plain.server.open_calls(), 0);
}

/// A response that nobody waits for any more is refused, and harms nothing.
#[test]
fn a_request_that_was_reset_cannot_be_answered() {
    let mut plain = Plain::new();
    let key = plain.open(Method::Post, "/", &[]);
    plain.drive();
    let id = plain.accept();
    plain.client.reset(key, ErrorCode::CANCEL);
    plain.drive();
    assert!(plain.server.call(id).unwrap().is_over());
    assert!(plain.respond(id, response(200, b"late")).is_err());
    assert_eq!(plain.server.open_calls(), 0);
}

/// Who accepts a request of plain HTTP and ends it like a call answers by a status of HTTP.
#[test]
fn a_status_becomes_one_of_http() {
    for (status, http) in
        [(Status::internal("x"), 500), (Status::unimplemented("x"), 501), (Status::unavailable("x"), 503)]
    {
        let mut plain = Plain::new();
        plain.request(Method::Get, "/", b"");
        let id = plain.accept();
        let now = plain.now;
        plain.server.call(id).unwrap().finish(&status, &Metadata::new(), now).unwrap();
        plain.drive();
        let seen = &plain.seen[0];
        assert_eq!((seen.status(), seen.is_complete, seen.head.as_ref().unwrap().headers.len()), (http, true, 0));
    }
}

quickcheck! {
    /// `h2:P1`, `h2:E5`: however input is cut, and whatever both sides do in between, every request that is answered is
    /// answered once, as it was meant, and no more of a body is held than its window.
    fn any_order_of_requests_pieces_and_answers_is_borne(acts: Vec<(u8, u16)>) -> bool {
        let config = Config { initial_stream_window: 1000, adaptive_window: false, ..Config::default() };
        let mut plain = Plain::with(config);
        // The window binds from its acknowledgement on.
        plain.drive();
        let (mut sending, mut accepted) = (Vec::new(), Vec::new());
        for (act, n) in acts {
            match act % 6 {
                0 => sending.push(plain.open(Method::Put, "/", &[])),
                1 if !sending.is_empty() => {
                    let key = sending[usize::from(n) % sending.len()];
                    plain.client.send_data(key, None, Bytes::from(alloc::vec![0; usize::from(n)]));
                }
                2 if !sending.is_empty() => {
                    let key = sending.swap_remove(usize::from(n) % sending.len());
                    plain.client.finish(key, None);
                }
                3 if !sending.is_empty() => {
                    let key = sending.swap_remove(usize::from(n) % sending.len());
                    plain.client.reset(key, ErrorCode::CANCEL);
                }
                4 => {
                    while let Some(id) = plain.server.accept() {
                        plain.server.call(id).unwrap().expect(CallKind::ClientStreaming, plain.now);
                        accepted.push(id);
                    }
                    accepted.iter().for_each(|id| drop(plain.server.call(*id).map(|mut call| call.recv())));
                }
                5 if !accepted.is_empty() => {
                    let id = accepted.swap_remove(usize::from(n) % accepted.len());
                    let answer = Response { body: Bytes::from(alloc::vec![1; usize::from(n)]), ..Response::from_status(200) };
                    let call = plain.server.call(id).expect("released by its answer alone");
                    let _ = call.respond_plain(answer, plain.now);
                }
                _ => plain.drive(),
            }
            let held = accepted.iter().filter_map(|id| plain.server.calls.get(*id)).map(|call| call.machine.buffered());
            if held.max().unwrap_or(0) > 1000 {
                return false;
            }
        }
        plain.drive();
        let is_right = |seen: &Seen| !seen.is_complete || (seen.status() == 200 && seen.body.iter().all(|&octet| octet == 1));
        plain.seen.iter().all(is_right) && plain.server.open_calls() == accepted.len() + plain.server.state.backlog.len()
    }
}
