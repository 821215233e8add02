//! One line for every call, on both sides: an interceptor with the timeline of the call.

use std::time::Duration;

use trirpc::rpc::{CallInfo, CallSide, Interceptor};
use trirpc::{Channel, Connect, Context, Router, Sender, Server, Status};
use trirpc_examples::hello::greeter_client::GreeterClient;
use trirpc_examples::hello::greeter_server::{Greeter, GreeterServer};
use trirpc_examples::hello::{CountRequest, HelloReply, HelloRequest};

/// Writes a line when a call is over.
struct Log<W>(W);

impl<W: Fn(String) + Send + Sync + 'static> Interceptor for Log<W> {
    fn on_finish(&self, call: &CallInfo, status: &Status) {
        let side = match call.side() {
            CallSide::Client => "client",
            CallSide::Server => "server",
        };
        let time = call.timeline();
        let took = time.finished.map(|finished| finished - time.opened).unwrap_or_default();
        // On a client, what is left of it was spent waiting for a connection.
        let on_the_wire = time.first_byte_out.zip(time.finished).map_or(Duration::ZERO, |(out, end)| end - out);
        (self.0)(format!(
            "{side} {} {:?} {took:.1?} ({on_the_wire:.1?} on the wire), {} messages out, {} in",
            call.method().path(),
            status.code(),
            call.sent().messages,
            call.received().messages,
        ));
    }
}

struct Polite;

impl Greeter for Polite {
    async fn say_hello(&self, _: &mut Context, request: HelloRequest) -> Result<HelloReply, Status> {
        Ok(HelloReply { text: format!("Hello, {}!", request.name) })
    }

    async fn count(&self, _: &mut Context, request: CountRequest, tx: &mut Sender<HelloReply>) -> Result<(), Status> {
        for n in 1..=request.to {
            tx.send(&HelloReply { text: n.to_string() }).await?;
        }
        Err(Status::out_of_range("that is as far as I can count"))
    }
}

async fn run(write: impl Fn(String) + Clone + Send + Sync + 'static) -> Result<(), Box<dyn std::error::Error>> {
    let router = Router::new().add(GreeterServer::new(Polite)).interceptor(Log(write.clone()));
    let server = Server::builder(router).bind("127.0.0.1:0").await?;
    let uri = server.local_addr().uri();
    let serving = smol::spawn(server.serve());

    let greeter = GreeterClient::new(Channel::connect(uri).await?.interceptor(Log(write)));
    greeter.say_hello(HelloRequest { name: "world".into() }).await?;
    let mut numbers = greeter.count(CountRequest { to: 3 }).await?;
    while let Ok(Some(_)) = numbers.next().await {}

    serving.cancel().await;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    smol::block_on(run(|line| println!("{line}")))
}

#[cfg(test)]
#[test]
fn every_call_leaves_a_line_on_each_side() {
    let (write, lines) = std::sync::mpsc::channel();
    smol::block_on(run(move |line| write.send(line).expect("somebody reads"))).expect("the example runs");
    let mut lines: Vec<String> = lines.iter().collect();
    lines.sort();
    let starts: Vec<_> = lines.iter().map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect();
    let expected = [
        "client /hello.v1.Greeter/Count OutOfRange",
        "client /hello.v1.Greeter/SayHello Ok",
        "server /hello.v1.Greeter/Count OutOfRange",
        "server /hello.v1.Greeter/SayHello Ok",
    ];
    assert_eq!(starts, expected);
    assert!(lines[0].ends_with("1 messages out, 3 in") && lines[3].ends_with("1 messages out, 1 in"), "{lines:?}");
}
