//! Generates the code for `proto/echo.proto` twice. Payloads are `Vec<u8>`, as the peers of the benchmark have them, and
//! in `lent` they are `Bytes`, which lie where they were received.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let lent = PathBuf::from(env::var("OUT_DIR")?).join("lent");
    fs::create_dir_all(&lent)?;
    trirpc_build::configure().out_dir(lent).compile(&["proto/echo.proto"], &["proto"])?;
    trirpc_build::configure().bytes([""; 0]).compile(&["proto/echo.proto"], &["proto"])?;
    Ok(())
}
