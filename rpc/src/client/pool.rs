//! The connections of a channel: when they are made, and which one carries a call.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use trirpc_core::Instant;
use trirpc_core::call::{Origin, Status};

use super::backoff::{Backoff, BackoffPolicy};
use super::pending::PendingCall;
use super::target::Target;
use crate::marker::{BoxFuture, MaybeSend, MaybeSync};
use crate::session::ClientSession;

/// After a complaint about PINGs there is at least this between them: what gRPC servers allow by default.
const CALM_KEEPALIVE: Duration = Duration::from_secs(5 * 60);

/// What a [`Channel`](crate::Channel) needs of a runtime: supplied by an I/O crate.
pub trait Connector: MaybeSend + MaybeSync + 'static {
    /// Connects once. The driver of the new session has been spawned; nothing of the peer was awaited
    /// beyond the transport.
    fn connect<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, io::Result<ClientSession>>;

    /// Runs a task to its end.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// Ends at `until`, by the clock of [`now`](Self::now).
    fn sleep(&self, until: Instant) -> BoxFuture<'static, ()>;

    /// The clock by which deadlines are measured.
    fn now(&self) -> Instant;
}

/// How a channel connects.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChannelOptions {
    /// Waits between attempts that fail.
    pub backoff: BackoffPolicy,
    /// Longest time of one attempt. Default 20 s.
    pub connect_timeout: Duration,
    /// Calls that may wait for a connection; further ones end with `ResourceExhausted`. Default 1000.
    pub max_pending: usize,
    /// Connections that share the calls; they are made as calls need them. Default 1.
    pub connections: usize,
}

impl Default for ChannelOptions {
    fn default() -> Self {
        Self {
            backoff: BackoffPolicy::default(),
            connect_timeout: Duration::from_secs(20),
            max_pending: 1000,
            connections: 1,
        }
    }
}

/// Whether a channel can carry calls, by gRPC's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connectivity {
    /// No connection; the next call makes one.
    Idle,
    /// An attempt is under way.
    Connecting,
    /// There is a connection.
    Ready,
    /// The last attempt failed; calls fail until the next one is due, or wait if they were told to.
    TransientFailure,
}

/// The connections to one target.
///
/// Lock rule: the lock is held for moments; no session, no connector and no waker is touched under it.
pub(crate) struct Pool {
    connector: Box<dyn Connector>,
    target: Target,
    options: ChannelOptions,
    state: Mutex<State>,
}

struct State {
    /// At most `connections`.
    sessions: Vec<ClientSession>,
    phase: Phase,
    /// At most `max_pending`.
    pending: VecDeque<Arc<PendingCall>>,
    /// Tasks in [`Pool::ready`], each once: woken at the end of an attempt.
    watchers: Vec<Waker>,
    backoff: Backoff,
    /// The target has complained about PINGs: they come no more often than this.
    keepalive_floor: Option<Duration>,
}

enum Phase {
    /// No attempt runs.
    Idle,
    /// An attempt runs in a task of its own.
    Connecting,
    /// The last attempt failed. With `is_retrying` a task waits for `retry_at` to make the next.
    Failed { status: Status, retry_at: Instant, is_retrying: bool },
}

impl Pool {
    pub(crate) fn new(connector: Box<dyn Connector>, target: Target, options: ChannelOptions) -> Arc<Self> {
        let seed = target
            .as_str()
            .bytes()
            .fold(connector.now().as_nanos(), |seed, byte| (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let backoff = Backoff::new(options.backoff, seed);
        let state = State {
            sessions: Vec::new(),
            phase: Phase::Idle,
            pending: VecDeque::new(),
            watchers: Vec::new(),
            backoff,
            keepalive_floor: None,
        };
        Arc::new(Self { connector, target, options, state: Mutex::new(state) })
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    pub(crate) fn now(&self) -> Instant {
        self.connector.now()
    }

    pub(crate) fn sleep(&self, until: Instant) -> BoxFuture<'static, ()> {
        self.connector.sleep(until)
    }

    pub(crate) fn connectivity(&self) -> Connectivity {
        let sessions = self.lock().sessions.clone();
        if sessions.iter().any(ClientSession::is_open) {
            return Connectivity::Ready;
        }
        match self.lock().phase {
            Phase::Idle => Connectivity::Idle,
            Phase::Connecting => Connectivity::Connecting,
            Phase::Failed { .. } => Connectivity::TransientFailure,
        }
    }

    /// The session with the fewest calls. Starts another if there may be more.
    pub(crate) fn pick(self: &Arc<Self>) -> Option<ClientSession> {
        let (sessions, grow) = {
            let mut state = self.lock();
            if self.options.connections <= 1 {
                return state.sessions.first().cloned();
            }
            let grow = !state.sessions.is_empty()
                && state.sessions.len() < self.options.connections
                && matches!(state.phase, Phase::Idle);
            if grow {
                state.phase = Phase::Connecting;
            }
            (state.sessions.clone(), grow)
        };
        if grow {
            self.spawn_attempts(None);
        }
        match sessions.len() {
            0 | 1 => sessions.into_iter().next(),
            _ => sessions.into_iter().min_by_key(ClientSession::open_calls),
        }
    }

    /// Forgets a session that takes no more calls; those on it go on.
    pub(crate) fn remove(&self, gone: &ClientSession) {
        let floor = gone.pinged_too_often().map(|interval| (interval * 2).max(CALM_KEEPALIVE));
        let removed = {
            let mut state = self.lock();
            state.keepalive_floor = state.keepalive_floor.max(floor);
            let at = state.sessions.iter().position(|session| session.is_same(gone));
            at.map(|at| state.sessions.remove(at))
        };
        drop(removed);
    }

    /// Waits until there is a connection, and makes one if nobody does.
    pub(crate) async fn ready(self: &Arc<Self>) -> Result<(), Status> {
        while let Some(session) = self.pick() {
            if session.is_open() {
                return Ok(());
            }
            self.remove(&session);
        }
        let mut has_waited = false;
        poll_fn(|cx| {
            let now = self.now();
            let mut state = self.lock();
            let is_idle = match &state.phase {
                _ if !state.sessions.is_empty() => return Poll::Ready(Ok(())),
                Phase::Failed { status, retry_at, .. } if has_waited || now < *retry_at => {
                    return Poll::Ready(Err(status.clone()));
                }
                Phase::Connecting | Phase::Failed { is_retrying: true, .. } => false,
                Phase::Idle | Phase::Failed { .. } => true,
            };
            has_waited = true;
            if !state.watchers.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.watchers.push(cx.waker().clone());
            }
            if is_idle {
                state.phase = Phase::Connecting;
                drop(state);
                self.spawn_attempts(None);
            }
            Poll::Pending
        })
        .await
    }

    /// Lets `call` wait for a connection, and makes one if nobody does.
    pub(crate) fn wait(self: &Arc<Self>, call: &Arc<PendingCall>) {
        let now = self.now();
        let mut attempt_after = None;
        let refused = {
            let mut state = self.lock();
            let refused = state.admit(call.waits_for_ready(), now, self.options.max_pending, &mut attempt_after);
            if refused.is_none() {
                state.pending.push_back(Arc::clone(call));
            }
            refused
        };
        if let Some(status) = refused {
            call.fail(&status, Some(now));
        }
        if let Some(after) = attempt_after {
            self.spawn_attempts(after);
        }
        // A session may have come up between the caller's look and the queue.
        if let Some(session) = self.pick() {
            call.start(&session, now);
        }
    }

    fn spawn_attempts(self: &Arc<Self>, after: Option<Instant>) {
        let pool = Arc::clone(self);
        self.connector.spawn(Box::pin(async move { pool.attempts(after).await }));
    }

    /// Attempts to connect, until one succeeds or nobody waits for it.
    async fn attempts(self: Arc<Self>, after: Option<Instant>) {
        let mut after = after;
        loop {
            if let Some(at) = after {
                self.connector.sleep(at).await;
                self.lock().phase = Phase::Connecting;
            }
            match self.connect().await {
                Ok(session) => return self.connected(&session),
                Err(error) => match self.failed(&error) {
                    Some(retry_at) => after = Some(retry_at),
                    None => return,
                },
            }
        }
    }

    async fn connect(&self) -> io::Result<ClientSession> {
        let mut connecting = self.connector.connect(&self.target);
        let mut timeout = self.connector.sleep(self.now() + self.options.connect_timeout);
        poll_fn(|cx| {
            if let Poll::Ready(result) = connecting.as_mut().poll(cx) {
                return Poll::Ready(result);
            }
            timeout.as_mut().poll(cx).map(|()| {
                let limit = self.options.connect_timeout;
                Err(io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {limit:?}")))
            })
        })
        .await
    }

    fn connected(&self, session: &ClientSession) {
        let floor = self.lock().keepalive_floor;
        if let Some(floor) = floor {
            session.slow_keepalive(floor);
        }
        let (pending, watchers) = {
            let mut state = self.lock();
            state.sessions.push(session.clone());
            state.phase = Phase::Idle;
            state.backoff.reset();
            (std::mem::take(&mut state.pending), std::mem::take(&mut state.watchers))
        };
        watchers.into_iter().for_each(Waker::wake);
        let now = self.now();
        for call in pending {
            call.start(session, now);
        }
    }

    /// Fails the calls that do not wait for better days. When to try again, if any is left.
    fn failed(&self, error: &io::Error) -> Option<Instant> {
        let message = format!("cannot connect to {}: {error}", self.target);
        let status = Status::unavailable(message).with_origin(Origin::Transport).with_unprocessed();
        let now = self.now();
        let (failed, watchers, retry_at) = {
            let mut state = self.lock();
            let retry_at = now + state.backoff.failed();
            let waiting = state.pending.drain(..).filter(|call| call.is_waiting());
            let (stay, failed): (VecDeque<_>, VecDeque<_>) = waiting.partition(|call| call.waits_for_ready());
            let is_retrying = !stay.is_empty();
            state.pending = stay;
            state.phase = Phase::Failed { status: status.clone(), retry_at, is_retrying };
            (failed, std::mem::take(&mut state.watchers), is_retrying.then_some(retry_at))
        };
        watchers.into_iter().for_each(Waker::wake);
        failed.iter().for_each(|call| call.fail(&status, Some(now)));
        retry_at
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether a call may wait: the status that refuses it, or what is to be done for it. The outer
    /// option of `attempt_after` says that a task is to be spawned, the inner for when.
    fn admit(
        &mut self,
        waits_for_ready: bool,
        now: Instant,
        max_pending: usize,
        attempt_after: &mut Option<Option<Instant>>,
    ) -> Option<Status> {
        if self.pending.len() >= max_pending {
            self.pending.retain(|call| call.is_waiting());
        }
        if self.pending.len() >= max_pending {
            let message = format!(
                "{max_pending} calls wait for a connection already: start fewer at a time, or raise max_pending"
            );
            return Some(Status::resource_exhausted(message).with_unprocessed());
        }
        match &mut self.phase {
            Phase::Connecting => {}
            Phase::Failed { is_retrying: true, .. } if waits_for_ready => {}
            Phase::Failed { retry_at, is_retrying, .. } if waits_for_ready && now < *retry_at => {
                *is_retrying = true;
                *attempt_after = Some(Some(*retry_at));
            }
            Phase::Failed { status, retry_at, is_retrying } if now < *retry_at || *is_retrying => {
                return Some(status.clone());
            }
            Phase::Idle | Phase::Failed { .. } => {
                self.phase = Phase::Connecting;
                *attempt_after = Some(None);
            }
        }
        None
    }
}
