//! Compressing and inflating messages, always outside every lock.

use std::fmt;
use std::sync::Arc;

use bytes::BytesMut;
use trirpc_core::Config;
use trirpc_core::buf::{Encoded, MessageBuf};
use trirpc_core::call::{Compression, DecompressError, Encodings, Status};

/// The compressions that a channel or a router was given. One pointer; none is the common case.
#[derive(Clone, Default)]
pub(crate) struct Compressions(Option<Arc<Sets>>);

#[derive(Clone, Default)]
struct Sets {
    accept: Set,
    send: Set,
}

#[derive(Clone, Default)]
struct Set {
    algorithms: Vec<Arc<dyn Compression>>,
    names: Encodings,
}

impl Set {
    fn add(&mut self, algorithm: Arc<dyn Compression>) {
        match self.algorithms.iter_mut().find(|other| other.name() == algorithm.name()) {
            Some(other) => *other = algorithm,
            None => self.algorithms.push(algorithm),
        }
        self.names = self.algorithms.iter().map(|algorithm| algorithm.name()).collect();
    }

    fn find(&self, name: &str) -> Option<&Arc<dyn Compression>> {
        self.algorithms.iter().find(|algorithm| algorithm.name() == name)
    }
}

impl Compressions {
    pub(crate) const NONE: Self = Self(None);

    /// One more that is offered to the peer; the first is preferred.
    pub(crate) fn accept(&mut self, algorithm: Arc<dyn Compression>) {
        self.sets().accept.add(algorithm);
    }

    /// One more by which our messages may be compressed; the first is preferred.
    pub(crate) fn send(&mut self, algorithm: Arc<dyn Compression>) {
        self.sets().send.add(algorithm);
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Names on offer.
    pub(crate) fn accept_names(&self) -> Encodings {
        self.0.as_ref().map(|sets| sets.accept.names.clone()).unwrap_or_default()
    }

    /// Names of those that are used unasked.
    pub(crate) fn send_names(&self) -> Encodings {
        self.0.as_ref().map(|sets| sets.send.names.clone()).unwrap_or_default()
    }

    /// The one of this name, from either list.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<dyn Compression>> {
        let sets = self.0.as_ref()?;
        sets.send.find(name).or_else(|| sets.accept.find(name))
    }

    /// The one that messages are compressed by, if the call does not say.
    pub(crate) fn default_send(&self) -> Option<&Arc<dyn Compression>> {
        self.0.as_ref()?.send.algorithms.first()
    }

    /// `config` with the names of these in place of any others: nothing is offered that cannot be inflated.
    pub(crate) fn announce(&self, config: Arc<Config>) -> Arc<Config> {
        let (accept, send) = (self.accept_names(), self.send_names());
        if config.accept_compressions == accept && config.send_compressions == send {
            return config;
        }
        let mut config = Arc::unwrap_or_clone(config);
        (config.accept_compressions, config.send_compressions) = (accept, send);
        Arc::new(config)
    }

    fn sets(&mut self) -> &mut Sets {
        Arc::make_mut(self.0.get_or_insert_default())
    }
}

impl fmt::Debug for Compressions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (accept, send) = (self.accept_names(), self.send_names());
        f.debug_struct("Compressions").field("accept", &accept).field("send", &send).finish()
    }
}

/// What becomes of the messages of one call. One pointer; that they are neither compressed nor inflated is the common
/// case.
#[derive(Debug, Default)]
pub(crate) struct Codings(Option<Box<Coded>>);

#[derive(Debug)]
struct Coded {
    /// Undoes what the peer compressed.
    accept: Compressions,
    /// Compresses our messages; announced to the peer.
    send: Compressor,
    /// Largest message that inflating may give, in bytes.
    max_recv: usize,
}

impl Codings {
    /// Messages of the peer are inflated by those of `accept`, ours are compressed by `send`.
    pub(crate) fn new(accept: Compressions, send: Compressor) -> Self {
        Self(Some(Box::new(Coded { accept, send, max_recv: 0 })))
    }

    /// Whether messages stay as they are.
    #[cfg(test)]
    pub(crate) const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Sets the largest message that inflating may give, in bytes.
    pub(crate) fn limit(&mut self, max_recv: impl FnOnce() -> usize) {
        if let Some(coded) = &mut self.0 {
            coded.max_recv = max_recv();
        }
    }

    /// Compresses our messages.
    pub(crate) fn compressor(&self) -> Compressor {
        self.0.as_ref().map(|coded| coded.send.clone()).unwrap_or_default()
    }

    /// Whether a message of this length, if it is known, is compressed: as [`Compressor::wants`].
    pub(crate) fn compresses(&self, len: Option<usize>, min: usize) -> bool {
        self.0.as_ref().is_some_and(|coded| coded.send.wants(len, min))
    }

    /// Compresses no further message.
    pub(crate) fn stop_compressing(&mut self) {
        if let Some(coded) = &mut self.0 {
            coded.send = Compressor::default();
        }
    }

    /// How `message` is inflated, if it has to be.
    pub(crate) fn inflater(&self, message: &MessageBuf) -> Option<Inflater> {
        let coded = self.0.as_ref()?;
        let algorithm = Arc::clone(coded.accept.find(message.encoding()?)?);
        Some(Inflater { algorithm, max_recv: coded.max_recv })
    }
}

/// Compresses the messages of one call, or lets them be.
#[derive(Clone, Default)]
pub(crate) struct Compressor(Option<Arc<dyn Compression>>);

impl Compressor {
    pub(crate) fn new(algorithm: Option<&Arc<dyn Compression>>) -> Self {
        Self(algorithm.cloned())
    }

    /// Whether a message of this length, if it is known, is compressed. An empty one never is: some peers cannot
    /// inflate nothing.
    pub(crate) fn wants(&self, len: Option<usize>, min: usize) -> bool {
        self.0.is_some() && len.is_none_or(|len| len >= min.max(1))
    }

    /// The message compressed into `buf`, if that makes it smaller.
    pub(crate) fn compress(&self, plain: &Encoded, mut buf: BytesMut) -> Result<Option<Encoded>, Status> {
        let Some(algorithm) = &self.0 else { return Ok(None) };
        algorithm.compress(&mut &plain.bytes[..], &mut buf).map_err(|error| {
            Status::internal(format!("the message cannot be compressed by {}: {}", algorithm.name(), error.message()))
        })?;
        Ok((buf.len() < plain.bytes.len()).then(|| Encoded { bytes: buf.freeze(), compressed: true }))
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Compressor").field(&self.0.as_ref().map(|algorithm| algorithm.name())).finish()
    }
}

/// Inflates one message.
pub(crate) struct Inflater {
    algorithm: Arc<dyn Compression>,
    max_recv: usize,
}

impl Inflater {
    /// The message as it was before the peer compressed it.
    pub(crate) fn inflate(&self, mut message: MessageBuf) -> Result<MessageBuf, Status> {
        let (size, limit, name) = (message.len(), self.max_recv, self.algorithm.name());
        let mut plain = BytesMut::new();
        match self.algorithm.decompress(&mut message, &mut plain, limit) {
            Ok(()) => Ok(plain.freeze().into()),
            Err(DecompressError::TooLarge) => Err(Status::resource_exhausted(format!(
                "received message of {size} bytes in {name} inflates to more than max_recv_message of {limit} bytes"
            ))),
            Err(error) => {
                Err(Status::internal(format!("a message of {size} bytes cannot be inflated by {name}: {error}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(&'static str);

    impl Compression for Named {
        fn name(&self) -> &'static str {
            self.0
        }

        fn compress(&self, src: &mut dyn bytes::Buf, dst: &mut BytesMut) -> Result<(), trirpc_core::CodecError> {
            bytes::BufMut::put(dst, src);
            Ok(())
        }

        fn decompress(&self, src: &mut dyn bytes::Buf, dst: &mut BytesMut, _: usize) -> Result<(), DecompressError> {
            bytes::BufMut::put(dst, src);
            Ok(())
        }
    }

    #[test]
    fn only_what_can_be_inflated_is_announced() {
        let mut config = Config::default();
        config.accept_compressions = Encodings::from_static(&["zstd"]);
        config.send_compressions = Encodings::from_static(&["zstd"]);
        let none = Compressions::default().announce(Arc::new(config));
        assert!(none.accept_compressions.is_empty() && none.send_compressions.is_empty());
        let mut some = Compressions::default();
        ["a", "b", "a"].into_iter().for_each(|name| some.accept(Arc::new(Named(name))));
        some.send(Arc::new(Named("c")));
        let config = some.announce(none);
        assert_eq!(config.accept_compressions.names(), ["a", "b"]);
        assert_eq!(config.send_compressions.names(), ["c"]);
        assert!(Arc::ptr_eq(&some.announce(Arc::clone(&config)), &config), "no copy without need");
        assert!(some.find("a").is_some() && some.find("c").is_some() && some.find("d").is_none());
    }

    #[test]
    fn a_message_that_compressing_does_not_shrink_stays_as_it_is() {
        let compressor = Compressor::new(Some(&(Arc::new(Named("copy")) as Arc<dyn Compression>)));
        let plain = Encoded { bytes: vec![1; 100].into(), compressed: false };
        assert_eq!(compressor.compress(&plain, BytesMut::new()), Ok(None));
    }

    /// tri:19
    #[test]
    fn an_empty_message_and_one_below_the_minimum_are_not_compressed() {
        let compressor = Compressor::new(Some(&(Arc::new(Named("copy")) as Arc<dyn Compression>)));
        for (len, min, wants) in [(0, 0, false), (1, 0, true), (99, 100, false), (100, 100, true)] {
            assert_eq!(compressor.wants(Some(len), min), wants, "{len} of at least {min}");
            assert!(!Compressor::default().wants(Some(len), min));
        }
        assert!(compressor.wants(None, usize::MAX), "looked at again once its length is known");
    }
}
