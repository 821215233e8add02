//! `tonic-server --addr A`; `--windows BYTES` for a window other than 64 KiB, of streams and of eight times as many for
//! connections

use peer_load::{Arguments, runtime, serving};
use peer_tonic::echo_server::EchoServer;
use peer_tonic::{MAX_MESSAGE, Service};
use tonic::transport::Server;

fn main() -> Result<(), tonic::transport::Error> {
    let arguments = Arguments::read();
    serving();
    let service = EchoServer::new(Service).max_decoding_message_size(MAX_MESSAGE);
    let mut server = Server::builder().tcp_nodelay(true);
    if let windows @ 1.. = arguments.value("windows", 0) {
        server = server.initial_stream_window_size(windows).initial_connection_window_size(8 * windows);
    }
    runtime().block_on(server.add_service(service).serve(arguments.addr()))
}
