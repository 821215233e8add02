//! The service `bench.Echo`, and one operation of each kind on it.

use std::fmt;
use std::str::FromStr;

use smol::future::zip;
use tokio::sync::mpsc::channel;
use trirpc::client::Invoke;
use trirpc::{Context, Protocol, Sender, Status, Streaming};

use crate::lent;
use crate::proto::EchoMsg;
use crate::proto::echo_client::EchoClient;
use crate::proto::echo_server::Echo;

/// The service: what came goes back.
#[derive(Clone, Copy, Debug, Default)]
pub struct EchoService;

impl Echo for EchoService {
    async fn unary(&self, _cx: &mut Context, request: EchoMsg) -> Result<EchoMsg, Status> {
        Ok(request)
    }

    async fn bidi(
        &self,
        _cx: &mut Context,
        rx: &mut Streaming<EchoMsg>,
        tx: &mut Sender<EchoMsg>,
    ) -> Result<(), Status> {
        while let Some(message) = rx.next().await? {
            tx.send(&message).await?;
        }
        Ok(())
    }

    async fn cstream(&self, _cx: &mut Context, rx: &mut Streaming<EchoMsg>) -> Result<EchoMsg, Status> {
        let mut last = EchoMsg::default();
        while let Some(message) = rx.next().await? {
            last = message;
        }
        Ok(last)
    }

    async fn sstream(&self, _cx: &mut Context, request: EchoMsg, tx: &mut Sender<EchoMsg>) -> Result<(), Status> {
        let Some(count) = request.payload.first_chunk() else {
            return Err(Status::invalid_argument("the payload says in its first four bytes how many answers to send"));
        };
        for _ in 0..u32::from_be_bytes(*count) {
            tx.send(&request).await?;
        }
        Ok(())
    }
}

impl lent::echo_server::Echo for EchoService {
    async fn unary(&self, _cx: &mut Context, request: lent::EchoMsg) -> Result<lent::EchoMsg, Status> {
        Ok(request)
    }

    async fn bidi(
        &self,
        _cx: &mut Context,
        rx: &mut Streaming<lent::EchoMsg>,
        tx: &mut Sender<lent::EchoMsg>,
    ) -> Result<(), Status> {
        while let Some(message) = rx.next().await? {
            tx.send(&message).await?;
        }
        Ok(())
    }

    async fn cstream(&self, _cx: &mut Context, rx: &mut Streaming<lent::EchoMsg>) -> Result<lent::EchoMsg, Status> {
        let mut last = lent::EchoMsg::default();
        while let Some(message) = rx.next().await? {
            last = message;
        }
        Ok(last)
    }

    async fn sstream(
        &self,
        _cx: &mut Context,
        _request: lent::EchoMsg,
        _tx: &mut Sender<lent::EchoMsg>,
    ) -> Result<(), Status> {
        Err(Status::unimplemented("only messages that come in are lent"))
    }
}

/// A unary call whose payloads are lent; checks the answer as [`Operation::run`] does.
///
/// # Errors
/// The call's status, or `Internal` for a wrong answer.
pub async fn call_lent<C: Invoke + Clone>(
    client: &lent::echo_client::EchoClient<C>,
    message: &lent::EchoMsg,
    protocol: Protocol,
) -> Result<u32, Status> {
    let answer = client.unary(message.clone()).protocol(protocol).await?;
    expect(answer.payload.len(), message.payload.len())?;
    Ok(1)
}

/// What one operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One request, one response.
    Unary,
    /// Messages there, and each of them back.
    Bidi,
    /// Messages there, the last one back.
    ClientStream,
    /// One request, messages back.
    ServerStream,
}

/// Where the messages of a stream come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// All of them are at hand when the call starts.
    Ready,
    /// Another future hands them over one by one, through a channel of 16, which is that of the peers' programs: as
    /// applications do it.
    Channel,
}

/// Names on the command line, and in what is printed.
macro_rules! names {
    ($type:ident, $($variant:ident = $name:literal),+) => {
        impl $type {
            /// The names of all.
            pub const NAMES: &[&str] = &[$($name),+];
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $name),+
                })
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($name => Ok(Self::$variant),)+
                    _ => Err(format!("`{text}` is none of {}", Self::NAMES.join(", "))),
                }
            }
        }
    };
}

names!(Mode, Unary = "unary", Bidi = "bidi", ClientStream = "cstream", ServerStream = "sstream");
names!(Feed, Ready = "iter", Channel = "chan");

/// One operation, to be run again and again.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its kind.
    pub mode: Mode,
    /// The wire protocol.
    pub protocol: Protocol,
    /// Where the messages of a stream come from.
    pub feed: Feed,
    /// Messages a stream and direction.
    pub messages: u32,
    /// Every message of the client's.
    pub message: EchoMsg,
}

impl Operation {
    /// A message of `payload` bytes that asks for `messages` answers, where there is room to say so.
    pub fn message(payload: usize, messages: u32) -> EchoMsg {
        let mut payload = vec![0x5a; payload];
        if let Some(count) = payload.first_chunk_mut() {
            *count = messages.to_be_bytes();
        }
        EchoMsg { payload }
    }

    /// Runs it once and checks the answer. Returns how many messages went each way: the larger number of both.
    ///
    /// # Errors
    /// The call's status, or `Internal` for a wrong answer.
    pub async fn run<C: Invoke + Clone>(&self, client: &EchoClient<C>) -> Result<u32, Status> {
        match self.mode {
            Mode::Unary => {
                let answer = client.unary(self.message.clone()).protocol(self.protocol).await?;
                expect(answer.payload.len(), self.message.payload.len())?;
                Ok(1)
            }
            Mode::ServerStream => {
                let mut rx = client.sstream(self.message.clone()).protocol(self.protocol).open();
                self.drain(&mut rx).await
            }
            Mode::ClientStream => {
                let (tx, reply) = client.cstream().protocol(self.protocol).open();
                let (sent, answer) = zip(self.feed(tx), reply).await;
                sent?;
                expect(answer?.payload.len(), self.message.payload.len())?;
                Ok(self.messages)
            }
            Mode::Bidi => {
                let (tx, mut rx) = client.bidi().protocol(self.protocol).open();
                let (sent, received) = zip(self.feed(tx), self.drain(&mut rx)).await;
                sent?;
                received
            }
        }
    }

    async fn feed(&self, mut tx: Sender<EchoMsg>) -> Result<(), Status> {
        match self.feed {
            Feed::Ready => {
                for _ in 0..self.messages {
                    tx.send(&self.message).await?;
                }
            }
            Feed::Channel => {
                let (source, mut sink) = channel(16);
                let produce = async move {
                    for _ in 0..self.messages {
                        // The other half is gone only when the call has failed, and says so itself.
                        if source.send(self.message.clone()).await.is_err() {
                            break;
                        }
                    }
                };
                let forward = async {
                    while let Some(message) = sink.recv().await {
                        tx.send(&message).await?;
                    }
                    Ok::<(), Status>(())
                };
                zip(produce, forward).await.1?;
            }
        }
        tx.finish();
        Ok(())
    }

    async fn drain(&self, rx: &mut Streaming<EchoMsg>) -> Result<u32, Status> {
        let mut received = 0;
        while let Some(message) = rx.next().await? {
            expect(message.payload.len(), self.message.payload.len())?;
            received += 1;
        }
        expect(received as usize, self.messages as usize)?;
        Ok(received)
    }
}

fn expect(got: usize, wanted: usize) -> Result<(), Status> {
    if got == wanted { Ok(()) } else { Err(Status::internal(format!("expected {wanted}, got {got}"))) }
}
