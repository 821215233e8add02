//! A second opinion on every byte that a connection sends.
//!
//! An HTTP/2 decoder that shares nothing with the core (its HPACK is an [`oracle`](crate::oracle)'s): it turns both directions of a
//! connection into frames that people can read, and judges each against RFC 9113 and against what the other side has
//! allowed. It sees bytes when they are *sent*, so it holds a sender only to settings that the sender itself has
//! acknowledged, and grants credit as soon as it was given.

mod frame;
mod rules;

use std::fmt;

use frame::Reader;
pub use frame::{Frame, Setting};
use rules::Rules;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The end that opened the connection.
    Client,
    /// The end that accepted it.
    Server,
}

impl Side {
    /// The other end.
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// A frame that one side sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Who sent it.
    pub from: Side,
    /// Its stream; 0 is the connection.
    pub stream: u32,
    /// What it says.
    pub frame: Frame,
}

/// Both directions of one connection, frame by frame.
pub struct Trace {
    entries: Vec<Entry>,
    readers: [Reader; 2],
    rules: Rules,
    faults: Vec<String>,
    /// A side whose bytes are meant to be wrong: its faults are not recorded.
    hostile: Option<Side>,
}

impl Default for Trace {
    fn default() -> Self {
        Self::new()
    }
}

impl Trace {
    /// A connection on which nothing was sent yet.
    pub fn new() -> Self {
        Self {
            entries: Vec::new(),
            readers: [Reader::new(Side::Client), Reader::new(Side::Server)],
            rules: Rules::new(),
            faults: Vec::new(),
            hostile: None,
        }
    }

    /// A connection whose `side` sends whatever it likes; only the other one is judged.
    pub fn with_hostile(side: Side) -> Self {
        Self { hostile: Some(side), ..Self::new() }
    }

    /// Takes what `from` sent next, in any split.
    pub fn observe(&mut self, from: Side, bytes: &[u8]) {
        let mut faults = Vec::new();
        let reader = &mut self.readers[from as usize];
        reader.push(bytes);
        while let Some((stream, frame)) = reader.next(self.rules.limits(from), &mut faults) {
            let entry = Entry { from, stream, frame };
            self.rules.check(&entry, &mut faults);
            self.entries.push(entry);
        }
        if self.hostile != Some(from) {
            let at = self.entries.len();
            self.faults.extend(faults.into_iter().map(|fault| format!("by frame {at}, {from:?}: {fault}")));
        }
    }

    /// Every frame in the order of sending.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The frames of one side.
    pub fn sent_by(&self, side: Side) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.from == side)
    }

    /// What `side` may still send before the other's connection window is used up.
    pub fn connection_credit(&self, side: Side) -> i64 {
        self.rules.connection_credit(side)
    }

    /// What `side` may still send on a stream, by its window and the connection's.
    pub fn credit(&self, side: Side, stream: u32) -> i64 {
        self.rules.credit(side, stream)
    }

    /// What `side` may still send on a stream by its own window.
    pub fn stream_credit(&self, side: Side, stream: u32) -> i64 {
        self.rules.stream_credit(side, stream)
    }

    /// The last `frames` frames, for people.
    pub fn tail(&self, frames: usize) -> impl fmt::Display + '_ {
        Tail { trace: self, skip: self.entries.len().saturating_sub(frames) }
    }

    /// Rules that were broken.
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// # Panics
    /// If a rule was broken.
    #[track_caller]
    pub fn assert_legal(&self) {
        assert!(self.faults.is_empty(), "illegal output\n  {}", self.faults.join("\n  "));
    }
}

/// The last frames of a trace, for people.
struct Tail<'a> {
    trace: &'a Trace,
    skip: usize,
}

impl fmt::Display for Tail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.skip > 0 {
            writeln!(f, "      … {} frames before", self.skip)?;
        }
        for (i, entry) in self.trace.entries.iter().enumerate().skip(self.skip) {
            let arrow = match entry.from {
                Side::Client => "client ->",
                Side::Server => "<- server",
            };
            writeln!(f, "{:>5} {arrow} {:>4} {}", i + 1, entry.stream, entry.frame)?;
        }
        for (side, reader) in [Side::Client, Side::Server].into_iter().zip(&self.trace.readers) {
            if reader.pending() > 0 {
                writeln!(f, "      {side:?} sent {} bytes of a further frame", reader.pending())?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tail(self.entries.len()).fmt(f)
    }
}
