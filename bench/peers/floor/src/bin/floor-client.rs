//! `floor-client --addr A --io epoll|smol --server-pid P --conns N --conc N --payload N --calls N | --warm S --secs S`

use std::cell::RefCell;
use std::net::TcpStream;
use std::rc::Rc;

use peer_floor::client::{Client, Shared};
use peer_floor::drive;
use peer_floor::drive::epoll::Loop;
use peer_load::Arguments;
use smol::{LocalExecutor, Timer};

const PATH: &str = "/bench.Echo/Unary";

fn main() -> std::io::Result<()> {
    let arguments = Arguments::read();
    let left = arguments.calls().unwrap_or(u64::MAX);
    let shared = Rc::new(RefCell::new(Shared { window: arguments.window(), left }));
    let (connections, callers, payload) = (arguments.connections(), arguments.callers(), arguments.payload());
    let clients = (0..connections).map(|at| {
        let in_flight = callers / connections + usize::from(at < callers % connections);
        Client::new(Rc::clone(&shared), PATH, payload, in_flight)
    });
    let [warm, measured] = arguments.times();
    let io = arguments.text("io", "epoll");
    match io.as_str() {
        "epoll" => {
            let mut connections = Loop::new(None)?;
            for client in clients {
                connections.add(TcpStream::connect(arguments.addr())?, client)?;
            }
            let none = || unreachable!("a client does not listen");
            if arguments.calls().is_some() {
                connections.run(None, none)?;
            } else {
                connections.run(Some(warm), none)?;
                shared.borrow_mut().window.restart();
                connections.run(Some(measured), none)?;
            }
        }
        "smol" => {
            let executor = LocalExecutor::new();
            smol::block_on(executor.run(async {
                let mut tasks = Vec::new();
                for client in clients {
                    let socket = smol::net::TcpStream::connect(arguments.addr()).await?;
                    tasks.push(executor.spawn(drive::smol::run(socket, client)));
                }
                if arguments.calls().is_some() {
                    for task in tasks {
                        task.await?;
                    }
                } else {
                    Timer::after(warm).await;
                    shared.borrow_mut().window.restart();
                    Timer::after(measured).await;
                }
                std::io::Result::Ok(())
            }))?;
        }
        other => panic!("--io {other}"),
    }
    println!("{}", shared.borrow().window.report(arguments.labels(&format!("floor-{io}"))));
    Ok(())
}
