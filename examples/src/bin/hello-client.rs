//! A client of `hello.v1.Greeter`.

use std::time::Duration;

use trirpc::{Channel, Connect, Status};
use trirpc_examples::hello::greeter_client::GreeterClient;
use trirpc_examples::hello::{CountRequest, HelloRequest};

async fn run(target: String) -> Result<(), Status> {
    let greeter = GreeterClient::new(Channel::connect(target).await?);

    let call = greeter.say_hello(HelloRequest { name: "world".into() });
    let reply = call.timeout(Duration::from_secs(2)).metadata("tenant", "blue").await?;
    println!("{}", reply.text);

    let mut replies = greeter.count(CountRequest { to: 3 }).await?;
    while let Some(reply) = replies.next().await? {
        println!("{}", reply.text);
    }
    Ok(())
}

fn main() -> Result<(), Status> {
    let target = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:50051".into());
    smol::block_on(run(target))
}
