//! `floor-stream-server --addr A --work bytes|codec|channel`: one connection at a time

use std::net::TcpListener;

use peer_floor::stream::{Work, serve};
use peer_load::{Arguments, serving};

fn main() -> std::io::Result<()> {
    let arguments = Arguments::read();
    serving();
    let listener = TcpListener::bind(arguments.addr())?;
    loop {
        let (socket, _) = listener.accept()?;
        socket.set_nodelay(true)?;
        serve(socket, arguments.value("work", Work::Channel))?;
    }
}
