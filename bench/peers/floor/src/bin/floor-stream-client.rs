//! `floor-stream-client --addr A --work bytes|codec|channel --server-pid P --payload N --msgs N --warm S --secs S`

use std::net::TcpStream;
use std::time::Instant;

use peer_floor::stream::{Work, run};
use peer_load::Arguments;

fn main() -> std::io::Result<()> {
    let arguments = Arguments::read();
    let socket = TcpStream::connect(arguments.addr())?;
    socket.set_nodelay(true)?;
    let (mut window, [warm, measured]) = (arguments.window(), arguments.times());
    let (start, mut is_warm) = (Instant::now(), false);
    let goes_on = |window: &mut trirpc_meter::Window| {
        let passed = start.elapsed();
        if !is_warm && passed >= warm {
            is_warm = true;
            window.restart();
        }
        passed < warm + measured
    };
    let work = arguments.value("work", Work::Channel);
    run(socket, arguments.message(), arguments.messages(), work, &mut window, goes_on)?;
    println!("{}", window.report(arguments.labels("floor-stream")));
    Ok(())
}
