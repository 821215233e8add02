//! A network without sockets, a clock without waiting, and an order of events that one number brings back.
//!
//! A [`Sim`] is a world of its own: servers under names, channels to them, tasks, and a clock that leaps to the next
//! thing that happens. Everything that chance decides comes from the seed: the order in which tasks run, where reads
//! and writes are cut, how long bytes take, when a connection stalls, ends or breaks. A run that fails is its seed,
//! and nothing else is needed to see it again.
//!
//! ```
//! # use trirpc_rpc::{Config, Router, sim::{Faults, Sim}};
//! let sim = Sim::new(7, Faults::rough());
//! sim.serve("http://orders:50051", Router::new(), Config::default());
//! let channel = sim.channel("http://orders:50051", Config::default()).expect("a target");
//! sim.run(async move { channel.ready().await }).expect("something always happens next").expect("it is there");
//! ```
//!
//! What a service does by itself must come from the world too: [`World::time`] for the clock, [`World::spawn`] for tasks,
//! [`World::random`] for numbers. A handler that asks the system for one of them is not brought back by the seed.

mod executor;
mod faults;
mod link;
mod random;

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use executor::Stuck;
pub use faults::Faults;
pub use random::Random;

use executor::Executor;
use link::{Link, link};
use trirpc_core::{Config, HttpVersion, Instant};

use crate::client::{Channel, ChannelOptions, Connector, InvalidTarget, Target, handshake};
use crate::marker::BoxFuture;
use crate::server::{Router, serve_connection};
use crate::session::{ClientSession, ServerSession};
use crate::time::{ManualTime, Time, Timer};

/// A simulated world, and what keeps it turning. Its [`World`] is for those who live in it.
///
/// With it end all its tasks.
#[derive(Debug)]
pub struct Sim {
    world: World,
}

/// A handle on a simulated world, for its tasks. See the [module](self).
#[derive(Clone)]
pub struct World {
    seed: u64,
    executor: Executor,
    time: ManualTime,
    hosts: Arc<Mutex<Hosts>>,
}

struct Hosts {
    faults: Faults,
    random: Random,
    /// By the address that a target names.
    by_address: BTreeMap<String, Host>,
    /// Connections that were made.
    connections: u64,
}

struct Host {
    router: Arc<Router>,
    config: Arc<Config>,
    /// The connections that it may still have.
    sessions: Vec<(ServerSession, Link)>,
}

impl Sim {
    /// The world of `seed`, whose connections have `faults`.
    pub fn new(seed: u64, faults: Faults) -> Self {
        let mut random = Random::new(seed);
        let executor = Executor::new(random.fork());
        let hosts = Hosts { faults, random, by_address: BTreeMap::new(), connections: 0 };
        Self { world: World { seed, executor, time: ManualTime::new(), hosts: Arc::new(Mutex::new(hosts)) } }
    }

    /// A handle on the world.
    pub fn world(&self) -> World {
        self.world.clone()
    }

    /// Runs the world until `future` ends.
    ///
    /// # Errors
    /// Nothing is ready and no timer is set: `future` waits for what will never happen.
    pub fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Result<T, Stuck> {
        self.executor.run(Box::pin(future), &self.time)
    }

    /// Runs the world for `duration`.
    pub fn pass(&self, duration: Duration) {
        // Its own timer is what happens last.
        let _ = self.run(self.sleep(duration));
    }
}

impl Deref for Sim {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        // Tasks hold handles, and handles hold tasks.
        self.world.executor.clear();
        self.world.lock().by_address.clear();
    }
}

impl World {
    /// What to call [`Sim::new`] with to see this world again.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The world's clock and its timers.
    pub fn time(&self) -> ManualTime {
        self.time.clone()
    }

    /// Numbers of the world's, in a sequence of their own.
    pub fn random(&self) -> Random {
        self.lock().random.fork()
    }

    /// Connections that were made so far.
    pub fn connections(&self) -> u64 {
        self.lock().connections
    }

    /// Faults of the connections that are made from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// Serves `router` under `uri`, in place of what was served there; its connections stay.
    ///
    /// # Panics
    /// When `uri` is no target.
    pub fn serve(&self, uri: &str, router: Router, config: Config) {
        let target = Target::parse(uri).expect("the name of a server is a target");
        let (router, config) = (Arc::new(router), Arc::new(config));
        let mut hosts = self.lock();
        let sessions = hosts.by_address.remove(&address(&target)).map_or_else(Vec::new, |host| host.sessions);
        hosts.by_address.insert(address(&target), Host { router, config, sessions });
    }

    /// A channel to `uri`, as it would be to a real one.
    ///
    /// # Errors
    /// `uri` is no target.
    pub fn channel(&self, uri: &str, config: Config) -> Result<Channel, InvalidTarget> {
        let target = Target::parse(uri)?;
        let connector = Dialer { world: self.clone(), config: Arc::new(config) };
        Ok(Channel::new(target, connector, ChannelOptions::default()))
    }

    /// The server under `uri` goes away gracefully, and is not there any more.
    pub fn shutdown(&self, uri: &str) {
        for (session, _) in self.remove(uri) {
            session.shutdown();
        }
    }

    /// The server under `uri` is gone from one moment to the next: all its connections break.
    pub fn crash(&self, uri: &str) {
        for (_, link) in self.remove(uri) {
            link.reset();
        }
    }

    /// Breaks the connections of the server under `uri`, which stays.
    pub fn disconnect(&self, uri: &str) {
        let Ok(target) = Target::parse(uri) else { return };
        let sessions = self.lock().by_address.get_mut(&address(&target)).map(|host| std::mem::take(&mut host.sessions));
        for (_, link) in sessions.into_iter().flatten() {
            link.reset();
        }
    }

    /// Runs a task beside the others until it ends, or until the world does.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.executor.spawn(Box::pin(task));
    }

    /// Ends after `duration`.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static {
        self.sleep_until(Time::now(&self.time) + duration)
    }

    fn sleep_until(&self, until: Instant) -> impl Future<Output = ()> + Send + 'static {
        let mut timer = self.time.timer();
        timer.reset(until);
        poll_fn(move |cx| timer.poll_expired(cx))
    }

    fn remove(&self, uri: &str) -> Vec<(ServerSession, Link)> {
        let Ok(target) = Target::parse(uri) else { return Vec::new() };
        self.lock().by_address.remove(&address(&target)).map_or_else(Vec::new, |host| host.sessions)
    }

    /// One attempt to reach `target`.
    async fn connect(&self, target: &Target, config: Arc<Config>) -> io::Result<ClientSession> {
        let (delay, is_refused) = {
            let hosts = &mut *self.lock();
            (hosts.faults.delay(&mut hosts.random), hosts.faults.refuses(&mut hosts.random))
        };
        // There and back, as a handshake of the transport takes.
        self.sleep(delay * 2).await;
        if is_refused {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far, router, server_config) = {
            let hosts = &mut *self.lock();
            let Some(host) = hosts.by_address.get(&address(target)) else {
                return Err(io::ErrorKind::ConnectionRefused.into());
            };
            let (router, server_config) = (Arc::clone(&host.router), Arc::clone(&host.config));
            let (near, far) = link(&hosts.faults, hosts.random.fork(), &self.time);
            hosts.connections += 1;
            (near, far, router, server_config)
        };
        let (session, driver) = handshake(near, config, target.endpoint(), HttpVersion::Http2, self.time());
        self.spawn(async move { drop(driver.await) });
        let (executor, breaker) = (self.executor.clone(), far.link());
        let (server, driver) = serve_connection(far, router, server_config, self.time(), move |task| {
            executor.spawn(Box::pin(task));
        });
        self.spawn(async move { drop(driver.await) });
        if let Some(host) = self.lock().by_address.get_mut(&address(target)) {
            host.sessions.retain(|(_, link)| !link.is_over());
            host.sessions.push((server, breaker));
        }
        Ok(session)
    }

    fn lock(&self) -> MutexGuard<'_, Hosts> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("seed", &self.seed).field("now", &Time::now(&self.time)).finish_non_exhaustive()
    }
}

fn address(target: &Target) -> String {
    target.as_str().to_owned()
}

/// Connects channels within a world.
#[derive(Debug)]
struct Dialer {
    world: World,
    config: Arc<Config>,
}

impl Connector for Dialer {
    fn connect<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, io::Result<ClientSession>> {
        Box::pin(self.world.connect(target, Arc::clone(&self.config)))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.world.executor.spawn(task);
    }

    fn sleep(&self, until: Instant) -> BoxFuture<'static, ()> {
        Box::pin(self.world.sleep_until(until))
    }

    fn now(&self) -> Instant {
        Time::now(&self.world.time)
    }
}
