//! The measured stretch of a load, and the line that tells of it.

use std::fmt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cost::Usage;
use crate::histogram::Histogram;

/// Counts operations from its opening, or from the last restart.
#[derive(Debug)]
pub struct Window {
    /// The server's process, or 0.
    server_pid: u32,
    start: Instant,
    client: Usage,
    server: Usage,
    operations: u64,
    messages: u64,
    latencies: Histogram,
}

impl Window {
    /// Opens now; `server_pid` is the server's process, or 0 for one that is not measured.
    pub fn open(server_pid: u32) -> Self {
        let mut window = Self {
            server_pid,
            start: Instant::now(),
            client: Usage::default(),
            server: Usage::default(),
            operations: 0,
            messages: 0,
            latencies: Histogram::default(),
        };
        window.restart();
        window
    }

    /// Forgets what was counted.
    pub fn restart(&mut self) {
        self.latencies.clear();
        (self.operations, self.messages) = (0, 0);
        (self.server, self.client) = (Usage::of(self.server_pid), Usage::own());
        self.start = Instant::now();
    }

    /// Counts an operation, which carried so many messages each way.
    pub fn add(&mut self, latency: Duration, messages: u32) {
        self.operations += 1;
        self.messages += u64::from(messages);
        self.latencies.add(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// What happened since the start, beside `labels`: an object that says which program did what.
    pub fn report(&self, mut labels: Value) -> Report {
        let secs = self.start.elapsed().as_secs_f64();
        let (client, server) = (Usage::own(), Usage::of(self.server_pid));
        let per_call = |total: f64| total / self.operations.max(1) as f64;
        let cpu_us =
            |now: &Usage, then: &Usage| round(per_call(now.cpu.saturating_sub(then.cpu).as_secs_f64() * 1e6), 3);
        let quantile_us = |q: f64| round(self.latencies.quantile(q) as f64 / 1e3, 1);
        let client_allocations = client.allocations - self.client.allocations;
        let server_allocations = server.allocations - self.server.allocations;
        let figures = json!({
            "calls": self.operations,
            "secs": round(secs, 3),
            "qps": round(self.operations as f64 / secs, 1),
            "msgs_s": round(self.messages as f64 / secs, 0),
            "p50_us": quantile_us(0.5),
            "p90_us": quantile_us(0.9),
            "p99_us": quantile_us(0.99),
            "p999_us": quantile_us(0.999),
            "cli_cpu_us": cpu_us(&client, &self.client),
            "srv_cpu_us": cpu_us(&server, &self.server),
            "cli_sys": round(client.kernel_share(&self.client), 2),
            "srv_sys": round(server.kernel_share(&self.server), 2),
            "cli_allocs": round(per_call(client_allocations.calls as f64), 2),
            "cli_bytes": round(per_call(client_allocations.bytes as f64), 0),
            "srv_allocs": round(per_call(server_allocations.calls as f64), 2),
            "srv_bytes": round(per_call(server_allocations.bytes as f64), 0),
            "srv_live_kb": server.allocations.live / 1024,
            "srv_rss_kb": server.resident_kib,
            "cli_rss_kb": client.resident_kib,
        });
        if let (Value::Object(labels), Value::Object(figures)) = (&mut labels, figures) {
            labels.extend(figures);
        }
        Report(labels)
    }
}

fn round(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

/// What a load found. Printed, it is one line of JSON: `cli` and `srv` are the two sides, `qps` operations a second, and
/// CPU time, allocations and bytes are those of one operation.
#[derive(Clone, Debug)]
pub struct Report(Value);

impl Report {
    /// The figures by their names.
    pub const fn figures(&self) -> &Value {
        &self.0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
