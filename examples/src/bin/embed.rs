//! The core without rpc, smol or async: one call over `std::net`.
//!
//! This is all that a driver does: write what the connection has, act on its hints, feed it what was read,
//! and never wait longer than it asks for.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use trirpc::core::buf::{RecvBuf, Transmit};
use trirpc::core::{Client, Connection, Endpoint, Event, HttpVersion, Instant, Outcome};
use trirpc::{CallOptions, Codec, Config, Prost, Status};
use trirpc_examples::hello::greeter_method::SAY_HELLO;
use trirpc_examples::hello::{HelloReply, HelloRequest};

fn say_hello(addr: &str, name: &str) -> io::Result<Result<HelloReply, Status>> {
    let mut socket = TcpStream::connect(addr)?;
    socket.set_nodelay(true)?;
    let epoch = Clock::now();
    let now = || Instant::from_nanos(epoch.elapsed().as_nanos() as u64);

    let endpoint = Endpoint::http(addr.to_owned());
    let mut conn = Connection::<Client>::new(Arc::new(Config::default()), endpoint, HttpVersion::Http2, now());
    let mut options = CallOptions::default();
    options.timeout = Some(Duration::from_secs(5));
    let request = HelloRequest { name: name.to_owned() };
    let call = conn.open_unary(&SAY_HELLO.spec, &options, &Prost, &request, now()).map_err(io::Error::other)?;

    let (mut rx, mut tx) = (RecvBuf::new(16 * 1024), Transmit::new());
    loop {
        // Everything, before a blocking read.
        while conn.poll_transmit(&mut tx, now()) || !tx.is_empty() {
            let chunks: Vec<_> = tx.chunks().map(IoSlice::new).collect();
            match socket.write_vectored(&chunks)? {
                0 => return Err(ErrorKind::WriteZero.into()),
                written => tx.advance(written),
            }
        }
        while let Some(event) = conn.poll_event() {
            match event {
                Event::Finished(id) if id == call => {
                    let Some(Outcome { message, status, .. }) = conn.take_outcome(call) else { continue };
                    return match message {
                        Some(mut message) => Prost.decode(&mut message).map(Ok).map_err(io::Error::other),
                        None => Ok(Err(status)),
                    };
                }
                Event::Closed(error) => return Err(io::Error::other(error.to_string())),
                _ => {}
            }
        }
        // The connection's own timers and the deadline of the call.
        let wait = conn.poll_timeout().map(|at| (at - now()).max(Duration::from_millis(1)));
        socket.set_read_timeout(wait)?;
        match socket.read(rx.space()) {
            Ok(0) => conn.handle_eof(now()),
            Ok(read) => {
                rx.commit(read);
                conn.handle_input(&mut rx, now());
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
        conn.handle_timeout(now());
    }
}

fn main() -> io::Result<()> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:50051".into());
    match say_hello(&addr, "embedder")? {
        Ok(reply) => println!("{}", reply.text),
        Err(status) => println!("{status}"),
    }
    Ok(())
}
