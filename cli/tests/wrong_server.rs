//! The demo against a server that breaks the rules: it must notice.

use trirpc::proto::test_service::echo_server::Echo;
use trirpc::proto::test_service::{
    CollectReply, ExpandRequest, FailRequest, MetaReply, MetaRequest, SayReply, SayRequest, SleepRequest,
};
use trirpc::{Context, Sender, Status, Streaming};
use trirpc_cli::demo::{Dialect, Format, Report, run};
use trirpc_cli::echo::EchoService;

/// Answers at once where it should sleep, drops one reply of a stream, and is right otherwise.
struct Wrong(EchoService);

impl Echo for Wrong {
    async fn say(&self, cx: &mut Context, request: SayRequest) -> Result<SayReply, Status> {
        self.0.say(cx, request).await
    }

    async fn collect(&self, cx: &mut Context, rx: &mut Streaming<SayRequest>) -> Result<CollectReply, Status> {
        self.0.collect(cx, rx).await
    }

    async fn expand(
        &self,
        cx: &mut Context,
        mut request: ExpandRequest,
        tx: &mut Sender<SayReply>,
    ) -> Result<(), Status> {
        request.count -= 1;
        self.0.expand(cx, request, tx).await
    }

    async fn chat(
        &self,
        cx: &mut Context,
        rx: &mut Streaming<SayRequest>,
        tx: &mut Sender<SayReply>,
    ) -> Result<(), Status> {
        self.0.chat(cx, rx, tx).await
    }

    async fn fail(&self, cx: &mut Context, request: FailRequest) -> Result<SayReply, Status> {
        self.0.fail(cx, request).await
    }

    async fn sleep(&self, cx: &mut Context, _: SleepRequest) -> Result<SayReply, Status> {
        self.0.sleep(cx, SleepRequest { millis: 0 }).await
    }

    async fn meta(&self, cx: &mut Context, request: MetaRequest) -> Result<MetaReply, Status> {
        self.0.meta(cx, request).await
    }
}

#[test]
fn a_server_that_breaks_the_rules_makes_the_demo_fail_where_it_breaks_them() {
    let mut out = Vec::new();
    let all_right =
        smol::block_on(run(Wrong, &Dialect::ALL, Report::new(&mut out, Format::Json))).expect("the demo runs");
    assert!(!all_right);
    let text = String::from_utf8(out).expect("text");
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let wrong = |step: &str| lines.iter().any(|line| line["step"] == step && line["ok"] == false);
    for step in ["server stream", "deadline", "cancellation", "Triple deadline", "Connect cancellation"] {
        assert!(wrong(step), "{step} in\n{text}");
    }
    for step in
        ["unary", "client stream", "bidi", "metadata", "error", "after all that", "Triple unary", "Connect error"]
    {
        assert!(!wrong(step), "{step} in\n{text}");
    }
}
