//! By smol: the floor for a library on the same reactor.

use std::io;

use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::net::TcpStream;

use super::Input;
use crate::Machine;

/// Runs one connection to its end.
///
/// # Errors
/// The socket's.
pub async fn run(mut socket: TcpStream, mut machine: impl Machine) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let (mut input, mut out) = (Input::new(), Vec::new());
    machine.start(&mut out);
    loop {
        if !out.is_empty() {
            socket.write_all(&out).await?;
            out.clear();
        }
        if machine.is_finished() {
            return Ok(());
        }
        match socket.read(input.room()).await? {
            0 => return Ok(()),
            length => input.filled(length, &mut machine, &mut out),
        }
    }
}
