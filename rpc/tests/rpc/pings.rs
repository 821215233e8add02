//! A server that counts PINGs and sends clients away that probe too often, as gRPC's do.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use trirpc_rpc::{
    BoxFuture, Channel, ChannelOptions, ClientSession, Code, Config, Connector, Duplex, HttpVersion, Instant,
    ManualTime, Target, Time, Timer, UnaryCall, duplex, handshake,
};

use crate::support::SAY;
use crate::support::executor::Executor;

const MINUTE: Duration = Duration::from_secs(60);
const PREFACE: usize = 24;

#[derive(Clone)]
struct Strict {
    executor: Executor,
    time: ManualTime,
    /// When the PINGs of each connection came, from its beginning on.
    pings: Arc<Mutex<Vec<Vec<Duration>>>>,
}

impl Strict {
    fn pass(&self, duration: Duration) {
        let end = Time::now(&self.time) + duration;
        self.executor.run();
        while let Some(next) = self.time.next().filter(|next| *next <= end) {
            self.time.advance(next - Time::now(&self.time));
            self.executor.run();
        }
        self.time.advance(end - Time::now(&self.time));
        self.executor.run();
    }

    /// Answers SETTINGS and the first two PINGs; at the third, and at whatever comes after it, it says GOAWAY.
    async fn serve(self, mut io: Duplex) {
        let begin = Time::now(&self.time);
        let mut input = Vec::new();
        let mut at = PREFACE;
        write(&mut io, b"\0\0\0\x04\0\0\0\0\0").await;
        loop {
            let mut octets = [0; 1024];
            match poll_fn(|cx| Pin::new(&mut io).poll_read(cx, &mut octets)).await {
                Ok(n) if n > 0 => input.extend_from_slice(&octets[..n]),
                _ => return,
            }
            while let Some(header) = input.get(at..at + 9) {
                let len = usize::from(header[0]) << 16 | usize::from(header[1]) << 8 | usize::from(header[2]);
                let (kind, is_ack) = (header[3], header[4] & 1 == 1);
                let Some(payload) = input.get(at + 9..at + 9 + len) else { break };
                at += 9 + len;
                match (kind, is_ack) {
                    (4, false) => write(&mut io, b"\0\0\0\x04\x01\0\0\0\0").await,
                    (6, false) => {
                        let count = {
                            let mut pings = self.pings.lock().unwrap();
                            let pings = pings.last_mut().expect("a connection");
                            pings.push(Time::now(&self.time) - begin);
                            pings.len()
                        };
                        if count == 3 {
                            let goaway = b"\0\0\x16\x07\0\0\0\0\0\0\0\0\x01\0\0\0\x0btoo_many_pings";
                            return write(&mut io, goaway).await;
                        }
                        let answer = [&b"\0\0\x08\x06\x01\0\0\0\0"[..], payload].concat();
                        write(&mut io, &answer).await;
                    }
                    _ => {}
                }
            }
        }
    }
}

async fn write(io: &mut Duplex, mut octets: &[u8]) {
    while !octets.is_empty() {
        match poll_fn(|cx| Pin::new(&mut *io).poll_write(cx, octets)).await {
            Ok(n) => octets = &octets[n..],
            Err(_) => return,
        }
    }
}

impl Connector for Strict {
    fn connect<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, io::Result<ClientSession>> {
        let (near, far) = duplex(64 * 1024);
        let mut config = Config::default();
        config.keepalive_interval = Some(Duration::from_secs(10));
        let (session, driver) =
            handshake(near, Arc::new(config), target.endpoint(), HttpVersion::Http2, self.time.clone());
        self.executor.spawn(async move { drop(driver.await) });
        self.pings.lock().unwrap().push(Vec::new());
        self.executor.spawn(self.clone().serve(far));
        Box::pin(async move { Ok(session) })
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.executor.spawn(task);
    }

    fn sleep(&self, until: Instant) -> BoxFuture<'static, ()> {
        let mut timer = self.time.timer();
        timer.reset(until);
        Box::pin(poll_fn(move |cx| match timer.poll_expired(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => Poll::Pending,
        }))
    }

    fn now(&self) -> Instant {
        Time::now(&self.time)
    }
}

/// Checklist §2.4, `too_many_pings`: a channel that is sent away for its probes makes them rarer for this target, five
/// minutes apart at least, and twice as rare when that was still too often.
#[test]
fn who_is_sent_away_for_pings_sends_fewer() {
    let server = Strict { executor: Executor::new(), time: ManualTime::new(), pings: Arc::default() };
    let target = Target::parse("http://strict.test:50051").expect("a target");
    let channel = Channel::new(target, server.clone(), ChannelOptions::default());
    for _ in 0..3 {
        let call = server.executor.start(UnaryCall::new(channel.clone(), &SAY, "never answered".to_owned()));
        server.pass(40 * MINUTE);
        let status = call.take().expect("it ends with its connection").expect_err("never answered");
        assert_eq!(status.code(), Code::Unavailable, "{status}");
    }
    let pings = server.pings.lock().unwrap();
    let first: Vec<Duration> = pings.iter().map(|pings| pings[0]).collect();
    assert_eq!(first, [MINUTE / 6, 5 * MINUTE, 10 * MINUTE]);
}
