//! HPACK implementations that are not ours, to differ against.
//!
//! Each of them has faults of its own, so an oracle has an opinion only where it is known to be right: a
//! panic of its code, and an error that it is known to raise on legal blocks, are [`Opinion::None`].

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// A list of names and values.
pub type List = Vec<(Vec<u8>, Vec<u8>)>;

/// What an oracle says about a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opinion {
    /// The block means this.
    Fields(List),
    /// The block is no HPACK.
    Broken,
    /// The oracle cannot be trusted here, nor on any later block of the connection.
    None,
}

/// A decoder of one connection, whose table is 4096 bytes at first.
pub trait Oracle {
    /// Name of the implementation.
    fn name(&self) -> &'static str;

    /// Decodes the next block.
    fn decode(&mut self, block: &[u8]) -> Opinion;
}

/// One of each, the most reliable first.
pub fn all() -> Vec<Box<dyn Oracle>> {
    let mut httlib = httlib_hpack::Decoder::with_dynamic_size(4096);
    httlib.set_max_dynamic_size(u32::MAX); // the limit of updates: none, as with the others
    vec![Box::new(Loona(loona_hpack::Decoder::new())), Box::new(Httlib(httlib)), Box::new(Hpack(hpack::Decoder::new()))]
}

struct Loona(loona_hpack::Decoder<'static>);

impl Oracle for Loona {
    fn name(&self) -> &'static str {
        "loona-hpack"
    }

    fn decode(&mut self, block: &[u8]) -> Opinion {
        use loona_hpack::decoder::{DecoderError, IntegerDecodingError};
        match quietly(|| self.0.decode(block)) {
            Some(Ok(fields)) => Opinion::Fields(fields),
            // It takes four continuation octets where five are legal, and refuses blocks that only resize.
            Some(Err(DecoderError::IntegerDecodingError(IntegerDecodingError::TooManyOctets))) => Opinion::None,
            Some(Err(DecoderError::SizeUpdateAtEnd)) => Opinion::None,
            Some(Err(_)) => Opinion::Broken,
            None => Opinion::None,
        }
    }
}

/// Says nothing about broken blocks: it takes zeroes for padding, for instance.
struct Httlib(httlib_hpack::Decoder<'static>);

impl Oracle for Httlib {
    fn name(&self) -> &'static str {
        "httlib-hpack"
    }

    fn decode(&mut self, block: &[u8]) -> Opinion {
        let mut fields = Vec::new();
        match quietly(|| self.0.decode(&mut block.to_vec(), &mut fields)) {
            Some(Ok(_)) => Opinion::Fields(fields.into_iter().map(|(name, value, _)| (name, value)).collect()),
            _ => Opinion::None,
        }
    }
}

/// Says nothing about broken blocks: it panics on many of them. Its static table has `accept-` where
/// `accept-charset` belongs.
struct Hpack(hpack::Decoder<'static>);

impl Oracle for Hpack {
    fn name(&self) -> &'static str {
        "hpack"
    }

    fn decode(&mut self, block: &[u8]) -> Opinion {
        match quietly(|| self.0.decode(block)) {
            Some(Ok(fields)) if fields.iter().all(|(name, _)| name != b"accept-") => Opinion::Fields(fields),
            _ => Opinion::None,
        }
    }
}

/// Runs code that may panic, without a message and without ending a fuzzer, whose own hook aborts.
fn quietly<T>(run: impl FnOnce() -> T) -> Option<T> {
    thread_local!(static QUIET: Cell<bool> = const { Cell::new(false) });
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info);
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(run)).ok();
    QUIET.set(false);
    result
}
