//! `tonic-server --addr A`

use peer_load::{Arguments, runtime, serving};
use peer_tonic::echo_server::EchoServer;
use peer_tonic::{MAX_MESSAGE, Service};
use tonic::transport::Server;

fn main() -> Result<(), tonic::transport::Error> {
    let arguments = Arguments::read();
    serving();
    let service = EchoServer::new(Service).max_decoding_message_size(MAX_MESSAGE);
    runtime().block_on(Server::builder().tcp_nodelay(true).add_service(service).serve(arguments.addr()))
}
