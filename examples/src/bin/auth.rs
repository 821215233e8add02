//! Tokens: a layer of the client fetches one before a call that needs it, a layer of the server looks up whose it is.

use std::collections::HashMap;
use std::sync::Mutex;

use trirpc::rpc::{BoxFuture, CallLayer, IncomingCall, Layered, NextService, OutgoingCall, ServiceLayer};
use trirpc::{Channel, Code, Connect, Context, Router, Sender, Server, Status};
use trirpc_examples::hello::greeter_client::GreeterClient;
use trirpc_examples::hello::greeter_server::{Greeter, GreeterServer};
use trirpc_examples::hello::{CountRequest, HelloReply, HelloRequest};

/// Client: puts a token into every call, and fetches it before the first.
struct Login {
    password: &'static str,
    token: Mutex<Option<String>>,
}

impl Login {
    fn new(password: &'static str) -> Self {
        Self { password, token: Mutex::new(None) }
    }

    async fn token(&self) -> String {
        let known = self.token.lock().expect("no panic").clone();
        match known {
            Some(token) => token,
            None => {
                let token = fetch_token(self.password).await;
                self.token.lock().expect("no panic").insert(token).clone()
            }
        }
    }
}

impl CallLayer for Login {
    fn prepare<'a>(&'a self, call: &'a mut OutgoingCall) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let bearer = format!("Bearer {}", self.token().await);
            Ok(call.metadata_mut().append("authorization", &bearer)?)
        })
    }
}

/// Stands for a call to another service.
async fn fetch_token(password: &str) -> String {
    smol::future::yield_now().await;
    format!("token-for-{password}")
}

/// Server: lets in who has a token, and tells the handler who it is.
struct Rights {
    users: HashMap<String, User>,
}

#[derive(Clone)]
struct User(&'static str);

impl Rights {
    /// Stands for a look into a database.
    async fn look_up(&self, call: &IncomingCall) -> Option<User> {
        smol::future::yield_now().await;
        let bearer = call.metadata().get("authorization")?.to_str()?;
        self.users.get(bearer.strip_prefix("Bearer ")?).cloned()
    }
}

impl ServiceLayer for Rights {
    async fn call(&self, mut call: IncomingCall, next: NextService) {
        let Some(user) = self.look_up(&call).await else {
            return call.reject(Status::unauthenticated("the token is nobody's"));
        };
        call.extensions_mut().insert(user);
        next.call(call).await;
    }
}

struct Personal;

impl Greeter for Personal {
    async fn say_hello(&self, cx: &mut Context, _: HelloRequest) -> Result<HelloReply, Status> {
        let User(name) = cx.extensions().get().ok_or_else(|| Status::internal("no layer in front"))?;
        Ok(HelloReply { text: format!("Hello, {name}!") })
    }

    async fn count(&self, _: &mut Context, request: CountRequest, tx: &mut Sender<HelloReply>) -> Result<(), Status> {
        for n in 1..=request.to {
            tx.send(&HelloReply { text: n.to_string() }).await?;
        }
        Ok(())
    }
}

async fn run() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let rights = Rights { users: HashMap::from([("token-for-open sesame".to_owned(), User("Ali Baba"))]) };
    let router = Router::new().add(Layered::new(GreeterServer::new(Personal), rights));
    let server = Server::builder(router).bind("127.0.0.1:0").await?;
    let uri = server.local_addr().uri();
    let serving = smol::spawn(server.serve());

    let mut said = Vec::new();
    let channel = Channel::connect(uri).await?;
    let greeter = GreeterClient::new(channel.clone().layer(Login::new("open sesame")));
    said.push(greeter.say_hello(HelloRequest::default()).await?.text);
    let mut numbers = greeter.count(CountRequest { to: 2 }).await?;
    while let Some(number) = numbers.next().await? {
        said.push(number.text);
    }
    for stranger in [channel.clone(), channel.layer(Login::new("open barley"))] {
        let refused = GreeterClient::new(stranger).say_hello(HelloRequest::default()).await;
        let status = refused.err().filter(|status| status.code() == Code::Unauthenticated);
        said.push(status.ok_or("a stranger got in")?.message().to_owned());
    }
    serving.cancel().await;
    Ok(said)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    smol::block_on(run()).map(|said| said.iter().for_each(|line| println!("{line}")))
}

#[cfg(test)]
#[test]
fn only_who_has_a_token_gets_in() {
    let said = smol::block_on(run()).expect("the example runs");
    assert_eq!(said, ["Hello, Ali Baba!", "1", "2", "the token is nobody's", "the token is nobody's"]);
}
