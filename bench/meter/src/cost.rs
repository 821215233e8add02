//! What a process has used so far: CPU time, allocations, memory.

use std::fs;
use std::time::Duration;

use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use crate::allocations::Allocations;

/// What one process has used so far. Without a process of that id, or without allocations that it publishes, zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User and system time of all threads.
    pub cpu: Duration,
    /// User and system time in ticks of the kernel, 10 ms as a rule: good for their ratio only.
    ticks: (u64, u64),
    /// What it asked of its allocator, if it says so.
    pub allocations: Allocations,
    /// Memory in RAM, in KiB.
    pub resident_kib: u64,
}

impl Usage {
    /// Of this process.
    pub fn own() -> Self {
        Self { allocations: Allocations::now(), ..Self::of(std::process::id()) }
    }

    /// Of another process, or of none if `pid` is 0.
    pub fn of(pid: u32) -> Self {
        if pid == 0 {
            return Self::default();
        }
        let clock = clock_getcpuclockid(Pid::from_raw(pid as i32)).and_then(clock_gettime);
        Self {
            cpu: clock.map(Duration::from).unwrap_or_default(),
            ticks: ticks(pid).unwrap_or_default(),
            allocations: Allocations::of(pid).unwrap_or_default(),
            resident_kib: resident_kib(pid).unwrap_or_default(),
        }
    }

    /// Part of the CPU time since `earlier` that was the kernel's.
    pub fn kernel_share(&self, earlier: &Self) -> f64 {
        let user = self.ticks.0.saturating_sub(earlier.ticks.0) as f64;
        let kernel = self.ticks.1.saturating_sub(earlier.ticks.1) as f64;
        if user + kernel > 0.0 { kernel / (user + kernel) } else { 0.0 }
    }
}

fn ticks(pid: u32) -> Option<(u64, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in parentheses, may hold blanks. Behind it, `state` is the first field.
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11).map(str::parse);
    Some((fields.next()?.ok()?, fields.next()?.ok()?))
}

fn resident_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_seen_in_this_process_and_from_outside() {
        let before = Usage::own();
        let mut sum = 0u64;
        while Usage::own().cpu - before.cpu < Duration::from_millis(2) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(before.resident_kib > 0);
        assert!(Usage::of(1).resident_kib > 0, "the first process of the system");
        assert_eq!(Usage::of(0).cpu, Duration::ZERO);
    }
}
