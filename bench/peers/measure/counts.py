"""What is counted, not timed: instructions, system calls, writes, memory of connections."""

import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time

from .programs import PEERS, ROOT, OURS, Failed, load, serving

# `rep movsb` would count an instruction a byte, on some processors and not on others.
os.environ["GLIBC_TUNABLES"] = (
    "glibc.cpu.x86_rep_movsb_threshold=2000000000:glibc.cpu.x86_rep_stosb_threshold=2000000000"
)


def _total(path):
    return int(re.search(r"^(?:summary|totals): (\d+)", path.read_text(), re.M)[1])


def _callgrind(path, *options):
    return ["valgrind", "--tool=callgrind", "--quiet", f"--callgrind-out-file={path}", *options]


def instructions(side, peer, cell, calls=(2000, 8000)):
    """User instructions a call over TCP of one side, the other being the floor: a long run less a short one."""
    totals = []
    for count in calls:
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "out"
            profiled = _callgrind(out)
            server, client = (peer, "floor") if side == "server" else ("floor", peer)
            with serving(server, under=profiled if side == "server" else ()) as (process, address):
                under = profiled if side == "client" else ()
                load(client, address, process, {**cell, "calls": count}, under=under, timeout=600)
            totals.append(_total(out))
    return (totals[1] - totals[0]) / (calls[1] - calls[0])


def of_command(command, *options):
    """Instructions of a command, and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        run = subprocess.run([*_callgrind(out, *options), *map(str, command)], capture_output=True, text=True)
        if run.returncode:
            raise Failed(run.stderr[-300:])
        return _total(out), run.stdout


def core_alone(*words, together=100, calls=(1000, 3000)):
    """Instructions of a unary call in the core, both sides, over memory, so many in flight."""
    subprocess.run(["cargo", "build", "--locked", "--release", "-p", "trirpc-core", "--example", "unary_cost"],
                   cwd=ROOT, check=True, capture_output=True)
    program = OURS / "examples/unary_cost"
    totals = [of_command([program, "on", count, together, *words])[0] for count in calls]
    return (totals[1] - totals[0]) / (calls[1] - calls[0])


def header_block(library, task, lists, archive=None):
    """Instructions of a header block, and its bytes and allocations."""
    import json

    repetitions = 1 if lists == "corpus" else 20
    command = [PEERS / "release/peer-hpack", library, task, lists, repetitions, *([archive] if archive else [])]
    total, out = of_command(command, "--collect-atstart=no", "--toggle-collect=*measured*")
    line = json.loads(out)
    return total / line["blocks"], line


_CALLS = ("read", "write", "readv", "writev", "recvfrom", "sendto", "recvmsg", "sendmsg", "epoll_wait", "epoll_pwait",
          "epoll_ctl", "futex", "sched_yield")


def system_calls(server, client, cell, calls):
    """System calls and writes of an operation by side, from the kernel's trace points, and TCP segments of both.

    Needs root, and tracefs mounted on /sys/kernel/tracing.
    """
    events = ",".join(["raw_syscalls:sys_enter", *(f"syscalls:sys_enter_{name}" for name in _CALLS)])
    with tempfile.TemporaryDirectory() as folder, serving(server) as (process, address):
        files = [pathlib.Path(folder) / side for side in ("server", "client")]
        perf = ["perf", "stat", "-x,", "-e", events, "-o"]
        watcher = subprocess.Popen([*perf, files[0], "-p", str(process.pid)], stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        before = _segments()
        line = load(client, address, process, {**cell, "calls": calls}, under=[*perf, files[1]])
        segments = _segments() - before
        watcher.send_signal(signal.SIGINT)
        watcher.wait()
        done = line["calls"]
        found = {side: _rates(path, done) for side, path in zip(("server", "client"), files)}
    return {**found, "segments": segments / done, "calls": done}


def _rates(path, calls):
    rates = {}
    for text in path.read_text().splitlines():
        fields = text.split(",")
        if len(fields) > 2 and "sys_enter" in fields[2]:
            name = fields[2].rpartition("sys_enter")[2].strip("_") or "all"
            rates[name] = float(fields[0]) / calls
    rates["writes"] = sum(rates.get(name, 0) for name in ("write", "writev", "sendto", "sendmsg"))
    return rates


def _segments():
    names, values = [line.split() for line in open("/proc/net/snmp") if line.startswith("Tcp:")]
    return int(values[names.index("OutSegs")])


_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0" + b"\0\0\0\4\1\0\0\0\0"


def _literal(first, *texts):
    return bytes([first]) + b"".join(bytes([len(text)]) + text for text in texts)


def _head(method):
    return (b"\x83\x86" + _literal(0x44, b"/bench.Echo/" + method) + _literal(0x41, b"127.0.0.1")
            + _literal(0x5F, b"application/grpc") + _literal(0x40, b"te", b"trailers"))


# The same again: the newest four entries of the table.
_HEAD_AGAIN = bytes([0x83, 0x86, 0x80 | 65, 0x80 | 64, 0x80 | 63, 0x80 | 62])
_PAYLOAD = b"Z" * 128
_BODY = b"\0" + struct.pack(">I", 131) + b"\x0a\x80\x01" + _PAYLOAD


def _frame(kind, flags, payload, stream=1):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _used(process):
    """Resident memory and heap of a server; the latter is absent for those that do not publish it."""
    time.sleep(0.5)
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    resident = int(re.search(r"^VmRSS:\s+(\d+)", status, re.M)[1]) * 1024
    try:
        heap = struct.unpack("<QQQ", open(f"/dev/shm/bb-alloc-{process.pid}", "rb").read(24))[2]
    except OSError:
        heap = None
    return resident, heap


def _greeted(address, count):
    host, port = address.split(":")
    open_ones = []
    for _ in range(count):
        connection = socket.create_connection((host, int(port)))
        connection.settimeout(5)
        connection.sendall(_HELLO)
        open_ones.append(connection)
    for connection in open_ones:
        connection.recv(1 << 16)
    return open_ones


def streams(server, count=64, each=64):
    """Heap of a stream in flight in bytes, its handler included, which waits for the first message."""
    with serving(server) as (process, address):
        open_ones = _greeted(address, count)
        start = _used(process)[1]
        for connection in open_ones:
            heads = (_frame(1, 4, _HEAD_AGAIN if at else _head(b"Bidi"), 2 * at + 1) for at in range(each))
            connection.sendall(b"".join(heads))
        held = _used(process)[1] - start
        for connection in open_ones:
            connection.close()
    return held / count / each


def connections(server, count=1000):
    """Memory of a connection in bytes: (resident, heap) when it is idle, and after one call. Heap is absent for peers
    that do not publish it."""
    with serving(server) as (process, address):
        start = _used(process)
        each = lambda now: tuple(None if b is None else (b - a) / count for a, b in zip(start, now))
        open_ones = _greeted(address, count)
        idle = each(_used(process))
        for connection in open_ones:
            connection.sendall(_frame(1, 4, _head(b"Unary")) + _frame(0, 1, _BODY))
        for connection in open_ones:
            got = b""
            while _PAYLOAD not in got:
                part = connection.recv(1 << 16)
                if not part:
                    raise Failed("a call was not answered")
                got += part
        called = each(_used(process))
        for connection in open_ones:
            connection.close()
    return idle, called
