//! The binary as a user meets it: output, exit codes, signals.

use std::future::IntoFuture;
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use trirpc::proto::grpc::health::v1::HealthCheckRequest;
use trirpc::proto::grpc::health::v1::health_check_response::ServingStatus;
use trirpc::proto::grpc::health::v1::health_client::HealthClient;
use trirpc::proto::test_service::echo_client::EchoClient;
use trirpc::proto::test_service::{SayRequest, SleepRequest};
use trirpc::{Channel, Code, Connect, Invoke, Status};

fn tri() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tri"))
}

fn run(args: &[&str]) -> Output {
    tri().args(args).output().expect("tri runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// All four kinds of call, metadata, details, deadline and cancellation come true over TCP.
#[test]
fn the_demo_is_right_line_by_line_and_exits_0() {
    let output = run(&["demo"]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}{}", text(&output.stderr));
    for part in [
        "echo:hello",
        "a,b,c",
        "expand:2 with 5 bytes",
        "echo:three",
        "00 ff 80",
        "FAILED_PRECONDITION",
        "kettle 418",
        "DEADLINE_EXCEEDED",
        "dropped",
        "are as they must be",
    ] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
}

#[test]
fn the_demo_for_machines_is_one_checked_object_a_line() {
    let output = run(&["demo", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let lines: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let (end, lines) = lines.split_last().expect("lines");
    assert_eq!(end["lines"], lines.len());
    assert_eq!(end["ok"], true);
    for line in lines {
        assert_eq!(line["ok"], true, "{line}");
        assert!(["step", "side", "what", "got", "want"].iter().all(|key| line[*key].is_string()), "{line}");
    }
    for step in ["unary", "client stream", "server stream", "bidi", "metadata", "error", "deadline", "cancellation"] {
        assert!(lines.iter().any(|line| line["step"] == step), "{step}");
    }
}

/// A pipe that nobody reads, as in `tri demo | head -1`.
#[test]
fn an_output_that_nobody_reads_is_an_error_in_one_line_and_no_panic() {
    let mut child = tri().arg("demo").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("tri runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("tri ends");
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.starts_with("tri: ") && error.lines().count() == 1, "{error}");
}

#[test]
fn a_wrong_argument_is_one_line_and_exit_code_2() {
    for (args, part) in [
        (&["serve", "--adr", "x"][..], "--addr"),
        (&["dmeo"], "demo"),
        (&["serve", "--set", "max-frames=1"], "max-frame-size"),
        (&["serve", "--addr", "nonsense"], "cannot listen on nonsense"),
        (&["serve", "--addr", "127.0.0.1:99999"], "cannot listen on 127.0.0.1:99999"),
    ] {
        let output = run(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.starts_with("tri: ") && error.lines().count() == 1 && error.contains(part), "{args:?}: {error}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn without_arguments_the_help_is_shown_and_the_exit_code_is_2() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("tri serve --addr"));
}

#[test]
fn a_busy_port_is_one_line_and_exit_code_2() {
    let busy = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = busy.local_addr().expect("bound").to_string();
    let output = run(&["serve", "--addr", &addr]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert_eq!(error, format!("tri: cannot listen on {addr}: the address is in use (choose another with --addr)\n"));
}

/// `tri serve` on a port of its own; killed when dropped.
struct Serving {
    child: Child,
    out: BufReader<Box<dyn Read + Send>>,
    uri: String,
}

impl Serving {
    fn start(args: &[&str]) -> Self {
        let mut command = tri();
        command.args(["serve", "--addr", "127.0.0.1:0"]).args(args);
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("tri runs");
        let out: Box<dyn Read + Send> = Box::new(child.stdout.take().expect("piped"));
        let mut serving = Self { child, out: BufReader::new(out), uri: String::new() };
        let line = serving.line();
        let addr = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}"));
        serving.uri = format!("http://{addr}");
        serving
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    async fn connect(&self) -> Channel {
        Channel::connect(&self.uri).await.expect("tri serve is reached")
    }

    #[cfg(unix)]
    fn signal(&self, name: &str) {
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", self.child.id())]).status();
        assert!(sent.expect("kill runs").success());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn say<C: Invoke>(client: &EchoClient<C>, payload: usize) -> Result<String, Status> {
    let request = SayRequest { text: "hi".into(), payload: vec![1; payload].into(), ..Default::default() };
    client.say(request).timeout(Duration::from_secs(10)).await.map(|reply| reply.text)
}

/// A call of `Sleep` that has reached the server: a later call on the same connection was answered.
#[cfg(unix)]
async fn running_sleep(client: &EchoClient, millis: u32) -> smol::Task<Result<String, Status>> {
    let call = client.sleep(SleepRequest { millis });
    let mut call = Box::pin(async move { call.into_future().await.map(|reply| reply.text) });
    assert!(smol::future::poll_once(&mut call).await.is_none());
    say(client, 0).await.expect("an answer");
    smol::spawn(call)
}

#[test]
fn serve_answers_echo_and_health() {
    let serving = Serving::start(&[]);
    smol::block_on(async {
        let channel = serving.connect().await;
        assert_eq!(say(&EchoClient::new(channel.clone()), 0).await.expect("an answer"), "echo:hi");
        let health = HealthClient::new(channel);
        let check = |service: &str| health.check(HealthCheckRequest { service: service.into() });
        for service in ["", "trirpc.test.v1.Echo"] {
            assert_eq!(check(service).await.expect("known").status(), ServingStatus::Serving);
        }
        let status = check("no.such.Service").await.expect_err("unknown");
        assert_eq!((status.code(), status.message()), (Code::NotFound, "unknown service"));
    });
}

#[test]
fn set_changes_the_limits_of_the_server() {
    let serving = Serving::start(&["--set", "max-recv-message=1000"]);
    smol::block_on(async {
        let client = EchoClient::new(serving.connect().await);
        say(&client, 900).await.expect("below the limit");
        let status = say(&client, 2000).await.expect_err("above the limit");
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().contains("1000"), "{status}");
    });
}

/// Health turns first, then GOAWAY; who watches is told, who runs may end.
#[cfg(unix)]
#[test]
fn a_signal_turns_health_off_lets_running_calls_end_and_refuses_new_ones() {
    let mut serving = Serving::start(&[]);
    smol::block_on(async {
        let channel = serving.connect().await;
        let mut watch =
            HealthClient::new(channel.clone()).watch(HealthCheckRequest::default()).await.expect("a stream");
        let first = watch.next().await.expect("health").expect("a first message");
        assert_eq!(first.status(), ServingStatus::Serving);
        let client = EchoClient::new(channel);
        let slow = running_sleep(&client, 700).await;

        serving.signal("TERM");
        let last = watch.next().await.expect("health").expect("a change");
        assert_eq!(last.status(), ServingStatus::NotServing);
        assert_eq!(watch.next().await.expect_err("the end").code(), Code::Unavailable);
        assert_eq!(slow.await.expect("it was running"), "slept");
        let status = say(&client, 0).await.expect_err("nobody is there");
        assert_eq!(status.code(), Code::Unavailable, "{status}");
    });
    assert!(serving.line().starts_with("terminated: running calls may end"));
    assert_eq!(serving.line(), "served 1 connections, cut off 0");
    assert_eq!(serving.child.wait().expect("an end").code(), Some(0));
}

#[cfg(unix)]
#[test]
fn a_second_signal_ends_the_server_at_once() {
    let mut serving = Serving::start(&[]);
    smol::block_on(async {
        let client = EchoClient::new(serving.connect().await);
        let slow = running_sleep(&client, 60_000).await;
        serving.signal("INT");
        assert!(serving.line().starts_with("interrupted: "));
        serving.signal("INT");
        let status = slow.await.expect_err("cut off");
        assert_eq!(status.code(), Code::Unavailable, "{status}");
    });
    assert_eq!(serving.child.wait().expect("an end").code(), Some(130));
}

/// The accept loop waits for descriptors: it neither ends nor spins, and goes on when there are some.
#[cfg(target_os = "linux")]
#[test]
fn a_server_that_runs_out_of_descriptors_serves_on_when_some_are_free_again() {
    const LIMIT: usize = 24;
    let mut command = Command::new("sh");
    let serve = format!("ulimit -n {LIMIT}; exec {} serve --addr 127.0.0.1:0", env!("CARGO_BIN_EXE_tri"));
    command.args(["-c", &serve]);
    let serving = Serving::spawn(command);
    let addr = serving.uri.strip_prefix("http://").expect("TCP");
    let flood: Vec<_> = (0..2 * LIMIT).map(|_| TcpStream::connect(addr).expect("queued")).collect();
    std::thread::sleep(Duration::from_millis(300));
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", serving.child.id())).expect("it runs");
    // utime and stime, in ticks of 10 ms: a loop that spins has used all of the time.
    let ticks: u64 = stat.split(' ').skip(13).take(2).map(|field| field.parse::<u64>().expect("a number")).sum();
    assert!(ticks < 15, "{ticks} ticks in 30");
    drop(flood);
    smol::block_on(async {
        assert_eq!(say(&EchoClient::new(serving.connect().await), 0).await.expect("an answer"), "echo:hi");
    });
}
