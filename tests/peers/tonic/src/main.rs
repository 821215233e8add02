//! tonic as a peer: `tonic-peer serve [--addr HOST:PORT]`, or
//! `tonic-peer run --addr HOST:PORT --server trirpc|grpcio|tonic [--only PREFIX]`.

mod cases;
mod client;
mod server;

/// Messages and stubs of `echo.proto`.
mod echo {
    tonic::include_proto!("trirpc.test.v1");
}

const SERVICE: &str = "trirpc.test.v1.Echo";

fn option(name: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1)
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let command = std::env::args().nth(1).unwrap_or_default();
    match command.as_str() {
        "serve" => server::serve(&option("--addr").unwrap_or_else(|| "127.0.0.1:0".to_owned())).await,
        "run" => {
            let addr = option("--addr").ok_or("--addr HOST:PORT is needed")?;
            let peer = client::Peer::connect(&addr, option("--server").unwrap_or_else(|| "trirpc".to_owned())).await?;
            if !cases::run(peer, &option("--only").unwrap_or_default()).await {
                std::process::exit(1);
            }
            Ok(())
        }
        other => Err(format!("no such command {other:?}: serve or run").into()),
    }
}
