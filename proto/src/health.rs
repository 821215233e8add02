//! `grpc.health.v1.Health`: what probes and load balancers ask.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::mem;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll, Waker};
use std::sync::{Mutex, MutexGuard, PoisonError};

use trirpc_core::call::Status;
use trirpc_rpc::{Context, Sender};

use crate::grpc::health::v1::health_check_response::ServingStatus;
use crate::grpc::health::v1::{HealthCheckRequest, HealthCheckResponse, health_server};

/// The health of a server and of its services. Clones share it: one goes into the router, by
/// [`HealthServer::new`](health_server::HealthServer::new), others report.
#[derive(Clone, Debug)]
pub struct HealthService {
    shared: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// By full name; the empty name is the server as a whole. Bounded by what the program itself sets.
    services: BTreeMap<String, ServingStatus>,
    is_shut_down: bool,
    /// Counts changes, so that a watcher that was not polled in between misses none.
    version: u64,
    next_waiter: u64,
    /// One entry at most for each `Watch` call that waits.
    waiters: Vec<(u64, Waker)>,
}

impl Default for HealthService {
    fn default() -> Self {
        Self::new()
    }
}

impl HealthService {
    /// The server as a whole is serving; no other service is known.
    pub fn new() -> Self {
        let services = BTreeMap::from([(String::new(), ServingStatus::Serving)]);
        Self { shared: Arc::new(Mutex::new(State { services, ..State::default() })) }
    }

    /// Says how `service` (`package.Service`, or empty for the whole server) is. After
    /// [`shut_down`](Self::shut_down) nothing is serving, whatever is said.
    pub fn set(&self, service: impl Into<String>, status: ServingStatus) {
        self.change(|state| {
            let status = if state.is_shut_down { ServingStatus::NotServing } else { status };
            state.services.insert(service.into(), status);
        });
    }

    /// Turns every service NOT_SERVING for good. Those who watch are told, and their calls end: a stream
    /// that lasts for ever would hold up the end of the server.
    pub fn shut_down(&self) {
        self.change(|state| {
            state.is_shut_down = true;
            state.services.values_mut().for_each(|status| *status = ServingStatus::NotServing);
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        state.version += 1;
        let waiters = mem::take(&mut state.waiters);
        drop(state);
        waiters.into_iter().for_each(|(_, waker)| waker.wake());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The status of `service`, whether it is the last, and the version it is of.
    fn look(&self, service: &str) -> (Option<ServingStatus>, bool, u64) {
        let state = self.lock();
        (state.services.get(service).copied(), state.is_shut_down, state.version)
    }

    /// Waits until something has changed since `version`.
    fn changed_since(&self, version: u64) -> Changed<'_> {
        Changed { health: self, version, waiter: None }
    }
}

impl health_server::Health for HealthService {
    async fn check(&self, _: &mut Context, request: HealthCheckRequest) -> Result<HealthCheckResponse, Status> {
        match self.look(&request.service) {
            (Some(status), ..) => Ok(HealthCheckResponse { status: status.into() }),
            (None, ..) => Err(Status::not_found("unknown service")),
        }
    }

    async fn watch(
        &self,
        _: &mut Context,
        request: HealthCheckRequest,
        tx: &mut Sender<HealthCheckResponse>,
    ) -> Result<(), Status> {
        let mut told = None;
        loop {
            let (status, is_shut_down, version) = self.look(&request.service);
            let status = status.unwrap_or(ServingStatus::ServiceUnknown);
            if told.replace(status) != Some(status) {
                tx.send(&HealthCheckResponse { status: status.into() }).await?;
            }
            if is_shut_down {
                return Err(Status::unavailable("the server is shutting down"));
            }
            self.changed_since(version).await;
        }
    }
}

struct Changed<'a> {
    health: &'a HealthService,
    version: u64,
    waiter: Option<u64>,
}

impl Future for Changed<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        let mut state = self.health.lock();
        if state.version != self.version {
            return Poll::Ready(());
        }
        let id = match self.waiter {
            Some(id) => id,
            None => {
                state.next_waiter += 1;
                state.next_waiter
            }
        };
        match state.waiters.iter_mut().find(|(waiter, _)| *waiter == id) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => state.waiters.push((id, cx.waker().clone())),
        }
        drop(state);
        self.waiter = Some(id);
        Poll::Pending
    }
}

impl Drop for Changed<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.waiter {
            self.health.lock().waiters.retain(|(waiter, _)| *waiter != id);
        }
    }
}
