//! Two connections back to back: no sockets, no sleeps, no threads, and time only as the test lets it pass.
//!
//! Every byte that either side writes goes through the judge of [`trace`](crate::trace); a failing test prints the seed
//! of its network and the frames that led to the failure.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use trirpc_core::buf::{RecvBuf, Transmit};
use trirpc_core::{
    CallId, CallMut, Client, Config, Connection, Endpoint, Event, HttpVersion, Instant, Role, Server, TransportError,
};

use crate::clock::Clock;
use crate::memory::Account;
use crate::pipe::{Chunks, Pipe};
use crate::random::Random;
use crate::trace::{Side, Trace};

/// How two connections are set up.
#[derive(Default)]
pub struct Setup {
    /// What is printed when a test fails.
    pub seed: u64,
    /// The client's limits.
    pub client: Config,
    /// The server's limits.
    pub server: Config,
    /// From the client to the server.
    pub up: Pipe,
    /// From the server to the client.
    pub down: Pipe,
}

impl Setup {
    /// A network whose splits, short writes, capacity and latency follow from `seed`; not so bad that a large message
    /// would take long to test.
    pub fn random_network(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        Self { seed, up: random_pipe(random), down: random_pipe(random), ..Self::default() }
    }

    /// Two connections that have not exchanged anything yet.
    pub fn start(self) -> Pair {
        let clock = Clock::new();
        let endpoint = Endpoint::http("localhost");
        let (client_end, server_end) = (End::default(), End::default());
        let client = || Connection::<Client>::new(Arc::new(self.client), endpoint, HttpVersion::Http2, clock.now());
        let server = || Connection::<Server>::new(Arc::new(self.server), Some(HttpVersion::Http2), clock.now());
        Pair {
            client: client_end.memory.charge(client),
            server: server_end.memory.charge(server),
            clock,
            up: self.up,
            down: self.down,
            client_events: Vec::new(),
            server_events: Vec::new(),
            trace: Trace::new(),
            seed: self.seed,
            client_end,
            server_end,
        }
    }
}

fn random_pipe(random: &mut Random) -> Pipe {
    let chunks = match random.below(4) {
        0 => Chunks::Whole,
        1 => Chunks::AtMost(20 + random.length(1000)),
        _ => Chunks::Random(Random::new(random.bits())),
    };
    let mut pipe = Pipe::new(chunks);
    if random.one_in(2) {
        pipe = pipe.with_latency(Duration::from_micros(random.bits() % 50_000));
    }
    if random.one_in(3) {
        pipe = pipe.with_quota(100 + random.length(20_000));
    }
    if random.one_in(3) {
        pipe = pipe.with_capacity(1000 + random.length(200_000));
    }
    pipe
}

/// A client and a server with a network between them.
pub struct Pair {
    /// The client's connection.
    pub client: Connection<Client>,
    /// The server's connection.
    pub server: Connection<Server>,
    /// The clock of both.
    pub clock: Clock,
    /// From the client to the server.
    pub up: Pipe,
    /// From the server to the client.
    pub down: Pipe,
    /// What the client was told, in order; tests take from it.
    pub client_events: Vec<Event>,
    /// What the server was told, in order; tests take from it.
    pub server_events: Vec<Event>,
    /// Every frame so far.
    pub trace: Trace,
    seed: u64,
    client_end: End,
    server_end: End,
}

/// What a driver owns.
struct End {
    input: RecvBuf,
    output: Transmit,
    saw_end: bool,
    /// What the connection holds, and this.
    memory: Account,
}

impl Default for End {
    fn default() -> Self {
        let memory = Account::new();
        let input = memory.charge(|| RecvBuf::new(16 * 1024));
        Self { input, output: Transmit::new(), saw_end: false, memory }
    }
}

impl Default for Pair {
    fn default() -> Self {
        Setup::default().start()
    }
}

impl Pair {
    /// The present instant.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// One turn of the client's driver: at most one read and one write. Returns whether anything happened.
    pub fn step_client(&mut self) -> bool {
        let Self { client, client_end, down, up, client_events, trace, clock, .. } = self;
        turn(client, client_end, down, up, client_events, |bytes| trace.observe(Side::Client, bytes), clock.now())
    }

    /// One turn of the server's driver, as [`step_client`](Self::step_client).
    pub fn step_server(&mut self) -> bool {
        let Self { server, server_end, up, down, server_events, trace, clock, .. } = self;
        turn(server, server_end, up, down, server_events, |bytes| trace.observe(Side::Server, bytes), clock.now())
    }

    /// One turn of each side.
    pub fn step(&mut self) -> bool {
        let client = self.step_client();
        let server = self.step_server();
        self.trace.assert_legal();
        client || server
    }

    /// So many turns of each side, whether anything moves or not.
    pub fn steps(&mut self, turns: usize) {
        for _ in 0..turns {
            self.step();
        }
    }

    /// Turns both sides until nothing moves and nothing is on its way. Time passes only for bytes that are.
    ///
    /// # Panics
    /// If that takes a million turns: the two keep each other busy without an application.
    pub fn drive(&mut self) {
        for _ in 0..1_000_000 {
            if self.step() {
                continue;
            }
            let arrivals = [&self.up, &self.down].map(|pipe| pipe.next_arrival(self.now()));
            let Some(next) = arrivals.into_iter().flatten().min() else { return };
            self.clock.jump_to(next);
        }
        panic!("the connection never comes to rest");
    }

    /// Drives until `condition` holds; where nothing moves, time jumps to the next timer.
    ///
    /// # Panics
    /// If nothing is left to wait for, or a thousand timers have fired.
    pub fn drive_until(&mut self, what: &str, mut condition: impl FnMut(&mut Self) -> bool) {
        for _ in 0..1000 {
            self.drive();
            if condition(self) {
                return;
            }
            let timers = [self.client.poll_timeout(), self.server.poll_timeout()];
            match timers.into_iter().flatten().min() {
                Some(next) => self.clock.jump_to(next),
                None => panic!("nothing more will happen, and still not: {what}"),
            }
        }
        panic!("a thousand timers fired, and still not: {what}");
    }

    /// Lets time pass for both sides.
    pub fn pass(&mut self, time: Duration) {
        self.clock.advance(time);
        self.drive();
    }

    /// The transport breaks: what is on its way is lost, and both sides are told.
    pub fn cut(&mut self) {
        let now = self.now();
        self.up = Pipe::default();
        self.down = Pipe::default();
        self.client.handle_transport_error(TransportError::Reset, now);
        self.server.handle_transport_error(TransportError::Reset, now);
    }

    /// At whose expense the memory of a side's connection is. Turns are charged; commands of the application are only where
    /// it does so itself.
    pub fn memory(&self, side: Side) -> Account {
        match side {
            Side::Client => self.client_end.memory,
            Side::Server => self.server_end.memory,
        }
    }

    /// `h2:P3`: neither side has held more than its limits add up to; the client has at most `calls` at once.
    ///
    /// # Panics
    /// If one has.
    #[track_caller]
    pub fn assert_memory(&self, calls: usize) {
        self.client_end.memory.assert_within(Client::SIDE, self.client.config(), calls);
        self.server_end.memory.assert_within(Server::SIDE, self.server.config(), calls);
    }

    /// A view of one of the client's calls.
    ///
    /// # Panics
    /// If it was released.
    #[track_caller]
    pub fn client_call(&mut self, id: CallId) -> CallMut<'_, Client> {
        self.client.call(id).expect("a call that was not released")
    }

    /// A view of one of the server's calls.
    ///
    /// # Panics
    /// If it was released.
    #[track_caller]
    pub fn server_call(&mut self, id: CallId) -> CallMut<'_, Server> {
        self.server.call(id).expect("a call that was not released")
    }

    /// # Panics
    /// If anything is left of the calls: a slot, output, or an event.
    #[track_caller]
    pub fn assert_quiet(&mut self) {
        self.drive();
        assert_eq!((self.client.open_calls(), self.server.open_calls()), (0, 0), "slots were not freed");
        assert!(!self.client.wants_poll() && !self.server.wants_poll(), "output or events are left");
        assert!(self.client_end.output.is_empty() && self.server_end.output.is_empty(), "output is left");
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("seed {}, at {:?}\n{}", self.seed, self.now(), self.trace.tail(100));
        }
    }
}

/// The loop of a driver, once (architecture §11): read, input, time, output, events, write.
fn turn<R: Role>(
    conn: &mut Connection<R>,
    end: &mut End,
    inbound: &mut Pipe,
    outbound: &mut Pipe,
    events: &mut Vec<Event>,
    observe: impl FnOnce(&[u8]),
    now: Instant,
) -> bool {
    let memory = end.memory;
    let mut moved = false;
    if conn.wants_read() {
        memory.charge(|| {
            conn.prepare_read(&mut end.input);
            end.input.space();
        });
        let mut read = 0;
        for space in end.input.spaces() {
            let n = inbound.read(space, now);
            read += n;
            if n < space.len() {
                break;
            }
        }
        end.input.commit(read);
        moved |= read > 0;
        if inbound.is_at_end() && !end.saw_end {
            end.saw_end = true;
            moved = true;
            memory.charge(|| {
                conn.handle_input(&mut end.input, now);
                conn.handle_eof(now);
            });
        }
    }
    if !end.input.is_empty() || end.input.is_scattered() {
        memory.charge(|| conn.handle_input(&mut end.input, now));
    }
    if conn.poll_timeout().is_some_and(|at| at <= now) {
        memory.charge(|| conn.handle_timeout(now));
        moved = true;
    }
    memory.charge(|| conn.poll_transmit(&mut end.output, now));
    while let Some(event) = memory.charge(|| conn.poll_event()) {
        events.push(event);
        moved = true;
    }
    if !end.output.is_empty() {
        let written = outbound.write(&mut end.output, now);
        moved |= !written.is_empty();
        observe(&written);
    }
    if conn.is_closed() && end.output.is_empty() {
        outbound.shut();
        // What the peer still sends is read and thrown away, or its last words would be lost with it.
        moved |= inbound.read(&mut [0; 16 * 1024], now) > 0;
    }
    moved
}
