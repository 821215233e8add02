//! `tonic-client`, with the arguments of `trirpc-bench load`, and `--windows BYTES` as `tonic-server` has it.

use peer_load::{Arguments, closed_loop};
use peer_tonic::echo_client::EchoClient;
use peer_tonic::{EchoMsg, MAX_MESSAGE};
use tokio::sync::mpsc::channel;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt, iter};
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

type Client = EchoClient<Channel>;

#[derive(Clone)]
struct Operation {
    mode: String,
    /// The messages of a stream are all at hand, so that its codec can fill its buffer; or they come through a channel
    /// from another task, as in an application.
    is_ready: bool,
    message: EchoMsg,
    messages: u32,
}

impl Operation {
    async fn run(self, mut client: Client) -> u32 {
        let expected = self.message.payload.len();
        match self.mode.as_str() {
            "unary" => {
                let answer = client.unary(self.message).await.expect("an answer").into_inner();
                assert_eq!(answer.payload.len(), expected);
                1
            }
            "sstream" => {
                let messages = self.messages;
                drain(client.sstream(self.message).await.expect("a response").into_inner(), messages).await
            }
            _ if self.is_ready => {
                let Self { message, messages, .. } = self.clone();
                self.stream(client, iter((0..messages).map(move |_| message.clone()))).await
            }
            _ => {
                let (tx, rx) = channel(16);
                let Self { message, messages, .. } = self.clone();
                tokio::task::spawn_local(async move {
                    for _ in 0..messages {
                        if tx.send(message.clone()).await.is_err() {
                            break;
                        }
                    }
                });
                self.stream(client, ReceiverStream::new(rx)).await
            }
        }
    }

    async fn stream(self, mut client: Client, feed: impl Stream<Item = EchoMsg> + Send + 'static) -> u32 {
        if self.mode == "cstream" {
            client.cstream(feed).await.expect("an answer");
            return self.messages;
        }
        drain(client.bidi(feed).await.expect("a response").into_inner(), self.messages).await
    }
}

async fn drain(mut answers: Streaming<EchoMsg>, expected: u32) -> u32 {
    let mut received = 0;
    while let Some(answer) = answers.next().await {
        answer.expect("a message");
        received += 1;
    }
    assert_eq!(received, expected);
    received
}

fn main() {
    let arguments = Arguments::read();
    let mut endpoint = Endpoint::from_shared(format!("http://{}", arguments.addr())).expect("a URI").tcp_nodelay(true);
    if let windows @ 1.. = arguments.value("windows", 0) {
        endpoint = endpoint.initial_stream_window_size(windows).initial_connection_window_size(8 * windows);
    }
    let operation = Operation {
        mode: arguments.text("mode", "unary"),
        is_ready: arguments.text("feed", "iter") == "iter",
        message: EchoMsg { payload: arguments.message() },
        messages: arguments.messages(),
    };
    closed_loop(
        "tonic",
        &arguments,
        async move || endpoint.connect().await.expect("a server"),
        |channel| EchoClient::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE),
        move |client| operation.clone().run(client),
    );
}
