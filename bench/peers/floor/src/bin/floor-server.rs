//! `floor-server --addr A --io epoll|smol`

use std::net::TcpListener;

use peer_floor::drive;
use peer_floor::drive::epoll::Loop;
use peer_floor::server::Server;
use peer_load::{Arguments, serving};
use smol::{Async, LocalExecutor};

fn main() -> std::io::Result<()> {
    let arguments = Arguments::read();
    serving();
    let listener = TcpListener::bind(arguments.addr())?;
    match arguments.text("io", "epoll").as_str() {
        "epoll" => Loop::new(Some(listener))?.run(None, Server::default),
        "smol" => {
            let executor = LocalExecutor::new();
            smol::block_on(executor.run(async {
                let listener = smol::net::TcpListener::from(Async::new(listener)?);
                loop {
                    let (socket, _) = listener.accept().await?;
                    executor.spawn(drive::smol::run(socket, Server::default())).detach();
                }
            }))
        }
        other => panic!("--io {other}"),
    }
}
