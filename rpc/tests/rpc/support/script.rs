//! A transport that does what a script says, with a real server or nothing behind it.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut, Read};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_io::{AsyncRead, AsyncWrite};
use trirpc_rpc::{Duplex, Transport};

/// One answer of the transport to a write, or to a read.
#[derive(Clone, Debug)]
pub enum Step {
    /// Takes or gives at most this many bytes.
    UpTo(usize),
    /// Has nothing, and wakes nobody until the test says so.
    Stuck,
    /// Has nothing, and wakes at once.
    Later,
    /// `Ok(0)`: takes nothing, or the end.
    Zero,
    /// Fails.
    Fail(io::ErrorKind),
}

/// What a test changes while the driver runs.
#[derive(Clone, Debug, Default)]
pub struct Script(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Answers to writes; after the last, everything is taken.
    writes: VecDeque<Step>,
    reads: VecDeque<Step>,
    stuck: Vec<Waker>,
    /// How often the transport will still say that a read is worth trying; `None` if it always does.
    readiness: Option<usize>,
    write_calls: usize,
    read_calls: usize,
    read_spaces: Vec<usize>,
    /// Reads fill several slices; so many did.
    scattered_reads: Option<usize>,
    written: Vec<u8>,
    closed: bool,
}

impl Script {
    pub fn writes(&self, steps: impl IntoIterator<Item = Step>) {
        self.0.lock().unwrap().writes.extend(steps);
    }

    pub fn reads(&self, steps: impl IntoIterator<Item = Step>) {
        self.0.lock().unwrap().reads.extend(steps);
    }

    /// Forgets the rest of the script and wakes whoever is stuck.
    pub fn release(&self) {
        let mut state = self.0.lock().unwrap();
        state.writes.clear();
        state.reads.clear();
        let stuck = std::mem::take(&mut state.stuck);
        drop(state);
        stuck.into_iter().for_each(Waker::wake);
    }

    /// As [`release`](Self::release), for reads alone.
    pub fn unstick_reads(&self) {
        let mut state = self.0.lock().unwrap();
        state.reads.clear();
        let stuck = std::mem::take(&mut state.stuck);
        drop(state);
        stuck.into_iter().for_each(Waker::wake);
    }

    /// From now on the transport says `times` that it is worth a read, and then waits to be told again.
    pub fn tell_readiness(&self, times: usize) {
        let mut state = self.0.lock().unwrap();
        state.readiness = Some(times);
        let stuck = std::mem::take(&mut state.stuck);
        drop(state);
        stuck.into_iter().for_each(Waker::wake);
    }

    /// From now on a read may fill several slices.
    pub fn scatter_reads(&self) {
        self.0.lock().unwrap().scattered_reads = Some(0);
    }

    /// Reads that filled several slices.
    pub fn scattered_reads(&self) -> usize {
        self.0.lock().unwrap().scattered_reads.unwrap_or_default()
    }

    pub fn write_calls(&self) -> usize {
        self.0.lock().unwrap().write_calls
    }

    pub fn read_calls(&self) -> usize {
        self.0.lock().unwrap().read_calls
    }

    /// Room that each read was given since the last time this was asked, in bytes.
    pub fn read_spaces(&self) -> Vec<usize> {
        std::mem::take(&mut self.0.lock().unwrap().read_spaces)
    }

    pub fn written(&self) -> Vec<u8> {
        self.0.lock().unwrap().written.clone()
    }

    pub fn is_closed(&self) -> bool {
        self.0.lock().unwrap().closed
    }
}

/// A pipe's end behind a script.
pub struct Scripted {
    inner: Duplex,
    script: Script,
    vectored: bool,
}

impl Scripted {
    pub fn new(inner: Duplex, vectored: bool) -> (Self, Script) {
        let script = Script::default();
        (Self { inner, script: script.clone(), vectored }, script)
    }
}

impl Transport for Scripted {
    fn is_vectored(&self) -> bool {
        self.vectored
    }

    fn is_read_vectored(&self) -> bool {
        self.script.0.lock().unwrap().scattered_reads.is_some()
    }

    fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.script.0.lock().unwrap();
        match &mut state.readiness {
            None => Poll::Ready(()),
            Some(0) => {
                state.stuck.push(cx.waker().clone());
                Poll::Pending
            }
            Some(times) => {
                *times -= 1;
                Poll::Ready(())
            }
        }
    }
}

/// The bytes that a step lets pass, or its result.
fn act(step: Option<Step>, stuck: &mut Vec<Waker>, cx: &Context<'_>) -> Result<usize, Poll<io::Result<usize>>> {
    match step {
        None => Ok(usize::MAX),
        Some(Step::UpTo(n)) => Ok(n),
        Some(Step::Zero) => Err(Poll::Ready(Ok(0))),
        Some(Step::Fail(kind)) => Err(Poll::Ready(Err(kind.into()))),
        Some(Step::Stuck) => {
            stuck.push(cx.waker().clone());
            Err(Poll::Pending)
        }
        Some(Step::Later) => {
            cx.waker().wake_by_ref();
            Err(Poll::Pending)
        }
    }
}

/// Sticks at its step until the script is released.
fn next(steps: &mut VecDeque<Step>) -> Option<Step> {
    match steps.front() {
        Some(Step::Stuck) => Some(Step::Stuck),
        _ => steps.pop_front(),
    }
}

impl AsyncRead for Scripted {
    fn poll_read_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut all = vec![0; bufs.iter().map(|buf| buf.len()).sum()];
        let poll = self.as_mut().poll_read(cx, &mut all);
        poll.map_ok(|n| {
            let mut unread = &all[..n];
            let filled = bufs.iter_mut().filter_map(|buf| unread.read(buf).ok()).filter(|&n| n > 0).count();
            *self.script.0.lock().unwrap().scattered_reads.as_mut().expect("asked for") += usize::from(filled > 1);
            n
        })
    }

    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let limit = {
            let mut state = self.script.0.lock().unwrap();
            let State { reads, stuck, read_calls, read_spaces, .. } = &mut *state;
            *read_calls += 1;
            read_spaces.push(buf.len());
            act(next(reads), stuck, cx)
        };
        match limit {
            Ok(limit) => {
                let n = buf.len().min(limit);
                Pin::new(&mut self.inner).poll_read(cx, &mut buf[..n])
            }
            Err(poll) => poll,
        }
    }
}

impl AsyncWrite for Scripted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let limit = {
            let mut state = self.script.0.lock().unwrap();
            let State { writes, stuck, write_calls, .. } = &mut *state;
            *write_calls += 1;
            act(next(writes), stuck, cx)
        };
        match limit {
            Ok(limit) => {
                let poll = Pin::new(&mut self.inner).poll_write(cx, &buf[..buf.len().min(limit)]);
                if let Poll::Ready(Ok(n)) = poll {
                    self.script.0.lock().unwrap().written.extend_from_slice(&buf[..n]);
                }
                poll
            }
            Err(poll) => poll,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.script.0.lock().unwrap().closed = true;
        Pin::new(&mut self.inner).poll_close(cx)
    }
}
