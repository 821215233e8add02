//! A server of `hello.v1.Greeter`.

use trirpc::{Context, Router, Sender, Server, Status};
use trirpc_examples::hello::greeter_server::{Greeter, GreeterServer};
use trirpc_examples::hello::{CountRequest, HelloReply, HelloRequest};

struct Polite;

impl Greeter for Polite {
    async fn say_hello(&self, _: &mut Context, request: HelloRequest) -> Result<HelloReply, Status> {
        if request.name.is_empty() {
            return Err(Status::invalid_argument("whom shall I greet?"));
        }
        Ok(HelloReply { text: format!("Hello, {}!", request.name) })
    }

    async fn count(&self, _: &mut Context, request: CountRequest, tx: &mut Sender<HelloReply>) -> Result<(), Status> {
        for n in 1..=request.to {
            tx.send(&HelloReply { text: n.to_string() }).await?; // waits when the client is slow
        }
        Ok(())
    }
}

fn main() -> std::io::Result<()> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:50051".into());
    smol::block_on(async {
        let server = Server::builder(Router::new().add(GreeterServer::new(Polite))).bind(addr).await?;
        println!("listening on {}", server.local_addr());
        server.serve().await.map(drop)
    })
}
