//! A client of `hello.v1.Greeter`.

use std::time::Duration;

use trirpc::{Channel, Connect, Status};
use trirpc_examples::hello::greeter_client::GreeterClient;
use trirpc_examples::hello::{CountDownRequest, HelloRequest};

async fn run(uri: &str) -> Result<(), Status> {
    let greeter = GreeterClient::new(Channel::connect(uri).await?);

    let request = HelloRequest { name: "world".into() };
    let reply = greeter.say_hello(request).timeout(Duration::from_secs(2)).metadata("tenant", "blue").await?;
    println!("{}", reply.text);

    let mut replies = greeter.count_down(CountDownRequest { from: 3 }).await?;
    while let Some(reply) = replies.next().await? {
        println!("{}", reply.text);
    }
    Ok(())
}

fn main() -> Result<(), Status> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:50051".into());
    smol::block_on(run(&uri))
}
