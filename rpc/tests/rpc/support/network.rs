//! A network of one server, which a channel can reach, or not.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trirpc_rpc::{
    BoxFuture, Channel, ChannelOptions, ClientSession, Config, Connector, HttpVersion, Instant, ManualTime, Router,
    ServerSession, Target, Time, Timer, duplex, handshake, serve_connection,
};

use super::echo::{Counters, Echo};
use super::executor::Executor;

/// What a connection attempt meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    Reachable,
    Refused,
    /// The attempt never ends by itself.
    Silent,
}

#[derive(Clone)]
pub struct Network {
    pub executor: Executor,
    pub time: ManualTime,
    pub counters: Arc<Counters>,
    state: Arc<Mutex<State>>,
}

struct State {
    weather: Weather,
    attempts: usize,
    /// Attempts take this long.
    latency: Duration,
    server_config: Config,
    servers: Vec<ServerSession>,
    /// The tasks of their drivers.
    drivers: Vec<usize>,
    serve: Arc<dyn Fn(Echo) -> Router + Send + Sync>,
}

impl Network {
    pub fn new(weather: Weather) -> Self {
        let state = State {
            weather,
            attempts: 0,
            latency: Duration::ZERO,
            server_config: Config::default(),
            servers: Vec::new(),
            drivers: Vec::new(),
            serve: Arc::new(|echo| Router::new().add(echo)),
        };
        Self {
            executor: Executor::new(),
            time: ManualTime::new(),
            counters: Arc::default(),
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub fn channel(&self, options: ChannelOptions) -> Channel {
        let target = Target::parse("http://echo.test:50051").expect("a target");
        Channel::new(target, self.clone(), options)
    }

    pub fn set(&self, weather: Weather) {
        self.state.lock().unwrap().weather = weather;
    }

    pub fn set_latency(&self, latency: Duration) {
        self.state.lock().unwrap().latency = latency;
    }

    pub fn set_server(&self, change: impl FnOnce(&mut Config)) {
        change(&mut self.state.lock().unwrap().server_config);
    }

    /// What later connections find: the echo service in another router.
    pub fn set_service(&self, serve: impl Fn(Echo) -> Router + Send + Sync + 'static) {
        self.state.lock().unwrap().serve = Arc::new(serve);
    }

    pub fn attempts(&self) -> usize {
        self.state.lock().unwrap().attempts
    }

    /// The servers of the connections so far, oldest first.
    pub fn servers(&self) -> Vec<ServerSession> {
        self.state.lock().unwrap().servers.clone()
    }

    /// Cuts the connection of a server: no GOAWAY, the transport just ends.
    pub fn cut(&self, server: usize) {
        let driver = self.state.lock().unwrap().drivers[server];
        self.executor.kill(driver);
    }

    /// Lets time pass in small steps, running whoever wakes.
    pub fn pass(&self, duration: Duration) {
        let end = Time::now(&self.time) + duration;
        self.executor.run();
        while let Some(next) = self.time.next().filter(|next| *next <= end) {
            self.time.advance(next - Time::now(&self.time));
            self.executor.run();
        }
        self.time.advance(end - Time::now(&self.time));
        self.executor.run();
    }

    async fn wait(&self, until: Instant) {
        let mut timer = self.time.timer();
        timer.reset(until);
        poll_fn(|cx| timer.poll_expired(cx)).await;
    }

    fn connected(&self, target: &Target) -> ClientSession {
        let (near, far) = duplex(64 * 1024);
        let config = Arc::new(Config::default());
        let (session, driver) = handshake(near, config, target.endpoint(), HttpVersion::Http2, self.time.clone());
        self.executor.spawn(async move { drop(driver.await) });
        let serve = Arc::clone(&self.state.lock().unwrap().serve);
        let router = serve(Echo { counters: Arc::clone(&self.counters) });
        let tasks = self.executor.clone();
        let config = Arc::new(self.state.lock().unwrap().server_config.clone());
        let (server, driver) = serve_connection(far, Arc::new(router), config, self.time.clone(), move |task| {
            tasks.spawn(task);
        });
        let driver = self.executor.spawn(async move { drop(driver.await) });
        let mut state = self.state.lock().unwrap();
        state.servers.push(server);
        state.drivers.push(driver);
        session
    }
}

impl Connector for Network {
    fn connect<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, io::Result<ClientSession>> {
        Box::pin(async move {
            let latency = {
                let mut state = self.state.lock().unwrap();
                state.attempts += 1;
                state.latency
            };
            if !latency.is_zero() {
                self.wait(Time::now(&self.time) + latency).await;
            }
            let weather = self.state.lock().unwrap().weather;
            match weather {
                Weather::Reachable => Ok(self.connected(target)),
                Weather::Refused => Err(io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused")),
                Weather::Silent => std::future::pending().await,
            }
        })
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.executor.spawn(task);
    }

    fn sleep(&self, until: Instant) -> BoxFuture<'static, ()> {
        let network = self.clone();
        Box::pin(async move { network.wait(until).await })
    }

    fn now(&self) -> Instant {
        Time::now(&self.time)
    }
}
