"""The programs, and how one server and one client are run."""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
PEERS = pathlib.Path(os.environ.get("TRIRPC_BENCH_PEERS", pathlib.Path.home() / ".cache/trirpc-bench-peers"))
OURS = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"

SERVER_CORE, CLIENT_CORE = "0", "1"
ONE_THREAD = {"GOMAXPROCS": "1"}
# What a server of ours comes to by itself where its handlers only echo.
INLINE = ("--inline", "always")

# An event loop that goes to sleep at once, where by itself it polls for news as long as that pays.
ASLEEP = ("--busy-poll", "0")

# Ports below the range from which the kernel takes those of clients.
_port = 20000 + os.getpid() % 5000


class Program:
    """A command; `pinned` to one core unless it is to run as its users run it.

    Under a profiler, fifty times as slow, the clock would choose otherwise than it does in a run: `profiled` are the
    arguments that fix what a run chooses.
    """

    def __init__(self, *command, env=None, pinned=True, profiled=()):
        self.command, self.env, self.pinned = [str(word) for word in command], env or {}, pinned
        self.profiled = profiled

    def line(self, core, *arguments, under=()):
        pin = ["taskset", "-c", core] if self.pinned else []
        return [*pin, *under, *self.command, *(self.profiled if under else ()), *arguments]

    def environment(self):
        return {**os.environ, **self.env}


def _rust(name, *arguments):
    return Program(PEERS / "release" / name, *arguments)


def _go(name, role, pinned=True):
    return Program(PEERS / "go" / name, role, env=ONE_THREAD if pinned else None, pinned=pinned)


SERVERS = {
    "trirpc": Program(OURS / "trirpc-bench", "serve", profiled=INLINE),
    "trirpc-loop": Program(OURS / "trirpc-bench", "serve", "--io", "loop", profiled=INLINE),
    "trirpc-loop-asleep": Program(OURS / "trirpc-bench", "serve", "--io", "loop", *ASLEEP, profiled=INLINE),
    "trirpc-lent": Program(OURS / "trirpc-bench", "serve", "--lend", profiled=INLINE),
    "floor": _rust("floor-server", "--io", "epoll"),
    "floor-smol": _rust("floor-server", "--io", "smol"),
    **{f"floor-stream-{work}": _rust("floor-stream-server", "--work", work) for work in ("bytes", "codec", "channel")},
    "tonic": _rust("tonic-server"),
    "tonic-8mib": _rust("tonic-server", "--windows", 8 << 20),
    "h2": _rust("h2-server"),
    "connect": _rust("connect-server"),
    "grpc-go": _go("grpc", "server"),
    "grpc-go-free": _go("grpc", "server", pinned=False),
    "grpc-go-1.33": _go("grpc-debian", "server"),
    "dubbo-go": _go("dubbo", "server"),
    "dubbo-go-free": _go("dubbo", "server", pinned=False),
    "cpp": Program(PEERS / "cpp/cpp-server"),
}
CLIENTS = {
    "trirpc": Program(OURS / "trirpc-bench", "load"),
    "trirpc-loop": Program(OURS / "trirpc-bench", "load", "--io", "loop"),
    "trirpc-loop-asleep": Program(OURS / "trirpc-bench", "load", "--io", "loop", *ASLEEP),
    "trirpc-lent": Program(OURS / "trirpc-bench", "load", "--lend"),
    "floor": _rust("floor-client", "--io", "epoll"),
    "floor-smol": _rust("floor-client", "--io", "smol"),
    **{f"floor-stream-{work}": _rust("floor-stream-client", "--work", work) for work in ("bytes", "codec", "channel")},
    "tonic": _rust("tonic-client"),
    "tonic-8mib": _rust("tonic-client", "--windows", 8 << 20),
    "h2": _rust("h2-client"),
    "connect": _rust("connect-client"),
    "grpc-go": _go("grpc", "client"),
    "grpc-go-free": _go("grpc", "client", pinned=False),
    "grpc-go-1.33": _go("grpc-debian", "client"),
    "dubbo-go": _go("dubbo", "client"),
    "dubbo-go-free": _go("dubbo", "client", pinned=False),
}


class Failed(Exception):
    """A program did not do what it was started for."""


def flags(cell):
    return [word for name, value in cell.items() for word in (f"--{name}", str(value))]


@contextlib.contextmanager
def serving(name, under=()):
    """A fresh server; gives its process and its address. Under a profiler, the profiler's process."""
    global _port
    program = SERVERS[name]
    _port += 1
    address = f"127.0.0.1:{_port}"
    process = subprocess.Popen(
        program.line(SERVER_CORE, "--addr", address, under=under),
        env=program.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(1000):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", _port), 0.2).close()
                break
            if process.poll() is not None:
                raise Failed(f"the server {name} ended")
            time.sleep(0.02)
        else:
            raise Failed(f"the server {name} does not listen")
        yield process, address
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        pathlib.Path(f"/dev/shm/bb-alloc-{process.pid}").unlink(missing_ok=True)


def load(name, address, server, cell, under=(), timeout=120):
    """Runs a client to its end; gives its line of JSON."""
    program = CLIENTS[name]
    line = program.line(CLIENT_CORE, "--addr", address, "--server-pid", str(server.pid), *flags(cell), under=under)
    try:
        run = subprocess.run(line, env=program.environment(), capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failed(f"the client {name} did not end") from None
    for text in run.stdout.splitlines():
        if text.startswith("{"):
            return json.loads(text)
    raise Failed(f"the client {name}: {(run.stderr or run.stdout)[-300:]}")


def once(server, client, cell, secs=0.5, warm=0.3):
    with serving(server) as (process, address):
        return load(client, address, process, {**cell, "secs": secs, "warm": warm})
