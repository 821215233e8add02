//! What a call calls: statics of generated code, or built at run time for generic calls.

use core::fmt;

use bytes::Bytes;

use super::codec::Codec;

/// How many messages go each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CallKind {
    /// One request, one response.
    #[default]
    Unary,
    /// Any number of requests, one response.
    ClientStreaming,
    /// One request, any number of responses.
    ServerStreaming,
    /// Any number each way.
    Bidi,
}

impl CallKind {
    /// Whether the client sends exactly one message.
    pub const fn is_single_request(self) -> bool {
        matches!(self, Self::Unary | Self::ServerStreaming)
    }

    /// Whether the server sends exactly one message when it succeeds.
    pub const fn is_single_response(self) -> bool {
        matches!(self, Self::Unary | Self::ClientStreaming)
    }
}

/// Path and kind of a method: all that the protocol needs to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodSpec {
    path: Bytes,
    kind: CallKind,
    idempotent: bool,
}

impl MethodSpec {
    /// A method known at compile time.
    ///
    /// # Panics
    /// `path` is not of the form `/package.Service/Method`; in a `static` that is a compile error.
    pub const fn new(path: &'static str, kind: CallKind, idempotent: bool) -> Self {
        assert!(is_path(path.as_bytes()), "a method path has the form /package.Service/Method");
        Self { path: Bytes::from_static(path.as_bytes()), kind, idempotent }
    }

    /// A method known only at run time.
    ///
    /// # Errors
    /// `path` is not of the form `/package.Service/Method`.
    pub fn from_bytes(path: Bytes, kind: CallKind, idempotent: bool) -> Result<Self, InvalidPath> {
        match is_path(&path) {
            true => Ok(Self { path, kind, idempotent }),
            false => Err(InvalidPath { path }),
        }
    }

    /// `/package.Service/Method`, as it goes into `:path`.
    pub fn path(&self) -> &str {
        // Checked by both constructors: visible ASCII.
        core::str::from_utf8(&self.path).unwrap_or_default()
    }

    /// The path without copying it.
    pub const fn path_bytes(&self) -> &Bytes {
        &self.path
    }

    /// How many messages go each way.
    pub const fn kind(&self) -> CallKind {
        self.kind
    }

    /// Whether calling it twice is the same as calling it once.
    pub const fn is_idempotent(&self) -> bool {
        self.idempotent
    }
}

/// A path that is not of the form `/package.Service/Method`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPath {
    path: Bytes,
}

impl fmt::Display for InvalidPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no method path: it has the form /package.Service/Method", self.path.escape_ascii())
    }
}

impl core::error::Error for InvalidPath {}

/// A leading `/`, at least two segments, none empty, visible ASCII without `?` and `#`.
#[expect(
    clippy::indexing_slicing,
    reason = "the compiler evaluates it too, and knows no iterators; `i` is below the length"
)]
const fn is_path(path: &[u8]) -> bool {
    let (mut i, mut segments) = (0, 0);
    while i < path.len() {
        match path[i] {
            b'/' if i + 1 == path.len() || path[i + 1] == b'/' => return false,
            b'/' => segments += 1,
            b'?' | b'#' => return false,
            0x21..=0x7e => {}
            _ => return false,
        }
        i += 1;
    }
    segments >= 2 && path[0] == b'/'
}

/// The codecs of a method's two message types; both have the same [name](Codec::name).
pub struct MethodCodec<Req: 'static, Res: 'static> {
    /// Codec of requests.
    pub request: &'static dyn Codec<Req>,
    /// Codec of responses.
    pub response: &'static dyn Codec<Res>,
}

impl<Req, Res> MethodCodec<Req, Res> {
    /// One codec type that can do both.
    pub const fn new<C: Codec<Req> + Codec<Res>>(codec: &'static C) -> Self {
        Self { request: codec, response: codec }
    }

    /// Name on the wire.
    pub fn name(&self) -> &'static str {
        self.request.name()
    }
}

impl<Req, Res> Clone for MethodCodec<Req, Res> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Req, Res> Copy for MethodCodec<Req, Res> {}

impl<Req, Res> fmt::Debug for MethodCodec<Req, Res> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MethodCodec").field(&self.name()).finish()
    }
}

/// A typed method: a static of generated code, with or without std.
///
/// ```
/// # use trirpc_core::{buf::MessageBuf, call::{CallKind, Codec, EncodeBuf, Method, MethodCodec}, CodecError};
/// # struct Raw;
/// # impl Codec<()> for Raw {
/// #     fn name(&self) -> &'static str { "raw" }
/// #     fn encoded_len(&self, _: &()) -> Option<usize> { Some(0) }
/// #     fn encode(&self, _: &(), _: &mut EncodeBuf<'_>) -> Result<(), CodecError> { Ok(()) }
/// #     fn decode(&self, _: &mut MessageBuf) -> Result<(), CodecError> { Ok(()) }
/// # }
/// static PING: Method<(), ()> =
///     Method::new("/demo.Health/Ping", CallKind::Unary, true, &[MethodCodec { request: &Raw, response: &Raw }]);
/// assert_eq!(PING.spec.path(), "/demo.Health/Ping");
/// assert_eq!(PING.codec("raw").map(|codec| codec.name()), Some("raw"));
/// ```
#[derive(Debug)]
pub struct Method<Req: 'static, Res: 'static> {
    /// Path and kind.
    pub spec: MethodSpec,
    codecs: &'static [MethodCodec<Req, Res>],
}

impl<Req, Res> Method<Req, Res> {
    /// A method with its codecs; a client uses the first, a server the one that the request names.
    ///
    /// # Panics
    /// As [`MethodSpec::new`], and if there is no codec; in a `static` that is a compile error.
    pub const fn new(
        path: &'static str,
        kind: CallKind,
        idempotent: bool,
        codecs: &'static [MethodCodec<Req, Res>],
    ) -> Self {
        assert!(!codecs.is_empty(), "a method needs a codec");
        Self { spec: MethodSpec::new(path, kind, idempotent), codecs }
    }

    /// The codec that a client uses if nothing else is asked for.
    #[expect(clippy::indexing_slicing, reason = "`new` refuses an empty slice")]
    pub fn default_codec(&self) -> &'static MethodCodec<Req, Res> {
        &self.codecs[0]
    }

    /// The codec called `name`.
    pub fn codec(&self, name: &str) -> Option<&'static MethodCodec<Req, Res>> {
        self.codecs.iter().find(|codec| codec.name() == name)
    }

    /// All codecs, the default first.
    pub const fn codecs(&self) -> &'static [MethodCodec<Req, Res>] {
        self.codecs
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn spec(path: &'static str) -> Result<MethodSpec, InvalidPath> {
        MethodSpec::from_bytes(Bytes::from_static(path.as_bytes()), CallKind::Bidi, false)
    }

    #[test]
    fn a_path_has_two_segments_of_visible_ascii() {
        for path in ["/a.B/C", "/context/a.B/C", "/a/$echo", "/a/b~c"] {
            assert_eq!(spec(path).expect(path).path(), path);
        }
        for path in ["", "/", "/a", "a/b", "/a/", "//b", "/a//b", "/a/b/", "/a/b c", "/a/b?c", "/a/b#c", "/a/é", "*"] {
            assert!(spec(path).is_err(), "{path}");
        }
        assert!(spec("a\n").unwrap_err().to_string().contains("`a\\n`"));
    }

    /// bg:R2
    #[test]
    fn the_zero_value_of_the_kind_is_unary() {
        assert_eq!(CallKind::default(), CallKind::Unary);
        let kinds = [CallKind::Unary, CallKind::ClientStreaming, CallKind::ServerStreaming, CallKind::Bidi];
        assert_eq!(kinds.map(CallKind::is_single_request), [true, false, true, false]);
        assert_eq!(kinds.map(CallKind::is_single_response), [true, true, false, false]);
    }
}
