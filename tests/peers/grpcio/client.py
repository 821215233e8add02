"""Runs every case against a server with grpcio: client.py --addr HOST:PORT --server trirpc|grpcio|tonic.

One line a case, `PASS name` or `FAIL name: why`; what a peer itself cannot do is asserted and named behind the name.
All calls share one channel, so all of them share one connection.
"""
import argparse
import queue
import sys
import time

import echo_pb2
import echo_pb2_grpc
import grpc
from google.protobuf import any_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

CODES = {code.value[0]: code for code in grpc.StatusCode}
SERVICE = "trirpc.test.v1.Echo"
OK_TIME = 20  # seconds; a case that needs them has failed
OVER_LIMIT = 5 << 20
CASES = {}


def case(body):
    CASES[body.__name__.replace("_", "-")] = body
    return body


def same(want, got, what="value"):
    if want != got:
        raise AssertionError(f"{what}: want {want!r}, got {got!r}"[:400])


def fails(code, call, message=None):
    """The error of `call`, which must have this code, and this message if one is given."""
    try:
        got = call()
    except grpc.RpcError as error:
        same(CODES[code], error.code(), f"code (message {error.details()!r})")
        if message is not None:
            same(message, error.details(), "message")
        return error
    raise AssertionError(f"want {CODES[code]}, got a reply {got!r}"[:200])


class Peer:
    def __init__(self, channel, server):
        self.channel = channel
        self.server = server
        self.echo = echo_pb2_grpc.EchoStub(channel)
        self.health = health_pb2_grpc.HealthStub(channel)

    def say(self, text="hi", timeout=OK_TIME, **fields):
        return self.echo.Say(echo_pb2.SayRequest(text=text, **fields), timeout=timeout)

    def payload(self, size):
        """A payload of `size` bytes comes back unchanged."""
        sent = bytes(i * 31 & 0xFF for i in range(min(size, 251))) * (size // 251 + 1)
        sent = sent[:size]
        if self.say(payload=sent).payload != sent:
            raise AssertionError(f"a payload of {size} bytes came back changed")

    def fail(self, code, message, details=()):
        return self.echo.Fail(echo_pb2.FailRequest(code=code, message=message, details=details), timeout=OK_TIME)

    def expand(self, timeout=OK_TIME, **fields):
        return self.echo.Expand(echo_pb2.ExpandRequest(**fields), timeout=timeout)

    def chat(self, timeout=OK_TIME):
        """A bidi call, and the queue of its requests; None ends them."""
        requests = queue.Queue()
        return self.echo.Chat(iter(requests.get, None), timeout=timeout), requests

    def meta(self, sent):
        """Values of the sent keys as the handler saw them, as head and as trailers: three {key: [value]}."""
        answer, call = self.echo.Meta.with_call(echo_pb2.MetaRequest(), metadata=sent, timeout=OK_TIME)
        seen = {e.key: list(e.bin_values if e.key.endswith("-bin") else e.values) for e in answer.seen}
        return seen, by_key(call.initial_metadata()), by_key(call.trailing_metadata())


def by_key(pairs):
    found = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def comes_back(peer, values):
    """Each value list of {name: [value]} is seen by the handler and returns in headers and trailers, in order."""
    seen, head, trail = peer.meta([("x-echo-" + name, v) for name, vs in values.items() for v in vs])
    for name, want in values.items():
        same(want, seen.get("x-echo-" + name), f"seen x-echo-{name}")
        same(want, head.get("x-head-" + name), f"header x-head-{name}")
        same(None if peer.server == "tonic" else want, trail.get("x-trail-" + name), f"trailer x-trail-{name}")
    return "tonic's servers have no trailers for a unary success" if peer.server == "tonic" else None


@case
def unary(peer):
    answer = peer.say("hello", payload=b"\0\1\xff", sequence_id=-7)
    same(("echo:hello", b"\0\1\xff", -7), (answer.text, answer.payload, answer.sequence_id))


@case
def message_of_0_bytes(peer):
    same("echo:", peer.say("").text)
    same(echo_pb2.SayReply(), peer.fail(0, ""))


@case
def message_of_1_byte(peer):
    peer.payload(1)


@case
def message_of_64_kib(peer):
    peer.payload(64 << 10)


@case
def message_of_3900000_bytes(peer):
    peer.payload(3_900_000)


@case
def request_over_limit(peer):
    code = 11 if peer.server == "tonic" else 8
    fails(code, lambda: peer.say(payload=bytes(OVER_LIMIT), reply_size=1))
    same("echo:after", peer.say("after").text)
    return "tonic's servers say OUT_OF_RANGE" if peer.server == "tonic" else None


@case
def reply_over_limit(peer):
    fails(8, lambda: peer.say(reply_size=OVER_LIMIT))
    same("echo:after", peer.say("after").text)


@case
def client_stream(peer):
    requests = [echo_pb2.SayRequest(text=text, payload=b"xy") for text in "abc"]
    answer = peer.echo.Collect(iter(requests), timeout=OK_TIME)
    same((3, 6, "a,b,c"), (answer.count, answer.payload_bytes, answer.texts))


@case
def client_stream_of_none(peer):
    same(0, peer.echo.Collect(iter([]), timeout=OK_TIME).count)


@case
def client_stream_of_1000(peer):
    requests = (echo_pb2.SayRequest(payload=bytes(1000)) for _ in range(1000))
    answer = peer.echo.Collect(requests, timeout=OK_TIME)
    same((1000, 1_000_000), (answer.count, answer.payload_bytes))


@case
def server_stream(peer):
    got = [(r.text, r.sequence_id, len(r.payload)) for r in peer.expand(count=3, size=4)]
    same([("expand:0", 0, 4), ("expand:1", 1, 4), ("expand:2", 2, 4)], got)


@case
def server_stream_of_none(peer):
    same([], list(peer.expand()))


@case
def server_stream_of_1000(peer):
    same(list(range(1000)), [r.sequence_id for r in peer.expand(count=1000, size=1000)])


@case
def server_stream_error_after_two(peer):
    got = []
    fails(5, lambda: got.extend(peer.expand(count=2, end_code=5, end_message="gone")), "gone")
    same(2, len(got), "messages before the error")


@case
def server_stream_error_at_once(peer):
    fails(7, lambda: list(peer.expand(end_code=7, end_message="no")), "no")


@case
def bidi_ping_pong(peer):
    call, requests = peer.chat()
    for i in range(50):
        requests.put(echo_pb2.SayRequest(text=str(i)))
        same(f"echo:{i}", next(call).text)
    requests.put(None)
    same([], list(call), "after half-close")


@case
def bidi_error_midway(peer):
    call, requests = peer.chat()
    requests.put(echo_pb2.SayRequest(text="ok"))
    same("echo:ok", next(call).text)
    requests.put(echo_pb2.SayRequest(text="fail:enough"))
    fails(9, lambda: next(call), "enough")
    requests.put(None)


@case
def status_codes(peer):
    for code in range(1, 17):
        fails(code, lambda: peer.fail(code, "as asked"), "as asked")


@case
def status_messages(peer):
    for text in ("", "100% a+b & c=d %zz %41", "naïve 中文 🚀", "line1\nline2\ttab\r\nend"):
        fails(5, lambda: peer.fail(5, text), text)


@case
def status_details(peer):
    details = []
    for number in (1, 2):
        details.append(any_pb2.Any())
        details[-1].Pack(echo_pb2.FailDetail(reason="reason", number=number))
    status = rpc_status.from_call(fails(9, lambda: peer.fail(9, "with details", details), "with details"))
    if status is None:
        raise AssertionError("no grpc-status-details-bin")
    same((9, "with details", 2), (status.code, status.message, len(status.details)))
    for number, packed in zip((1, 2), status.details):
        detail = echo_pb2.FailDetail()
        packed.Unpack(detail)
        same(("reason", number), (detail.reason, detail.number))


@case
def deadline_of_unary(peer):
    start = time.monotonic()
    fails(4, lambda: peer.echo.Sleep(echo_pb2.SleepRequest(millis=5000), timeout=0.3))
    same(True, 0.25 < time.monotonic() - start < 2, "ended at its deadline")


@case
def deadline_of_stream(peer):
    got = []
    fails(4, lambda: got.extend(peer.expand(count=1000, interval_ms=100, timeout=0.5)))
    same(True, 1 <= len(got) < 10, f"replies within the deadline ({len(got)})")


@case
def deadline_met(peer):
    same("slept", peer.echo.Sleep(echo_pb2.SleepRequest(millis=50), timeout=OK_TIME).text)


@case
def cancel_unary(peer):
    call = peer.echo.Sleep.future(echo_pb2.SleepRequest(millis=5000), timeout=OK_TIME)
    time.sleep(0.2)
    call.cancel()
    same(grpc.StatusCode.CANCELLED, call.code())
    same("echo:after", peer.say("after").text)


@case
def cancel_server_stream(peer):
    call = peer.expand(count=1000, size=10_000, interval_ms=1)
    next(call)
    call.cancel()
    fails(1, lambda: list(call))
    same("echo:after", peer.say("after").text)


@case
def cancel_bidi(peer):
    call, requests = peer.chat()
    requests.put(echo_pb2.SayRequest(text="one"))
    same("echo:one", next(call).text)
    call.cancel()
    fails(1, lambda: next(call))
    requests.put(None)
    same("echo:after", peer.say("after").text)


@case
def metadata_text(peer):
    return comes_back(peer, {"a": ["one", "two", "one"], "comma": ["v,w", "x"], "symbols": ["!#$%&'()*+-./:;<=>?@[]^_`{|}~"]})


@case
def metadata_binary(peer):
    return comes_back(peer, {"b-bin": [b"\0\1\xff>", b"second", bytes(range(256))], "one-bin": [b"\x80"]})


@case
def metadata_empty_values(peer):
    return comes_back(peer, {"none": [""], "none-bin": [b""], "mixed-bin": [b"", b"x", b""]})


@case
def metadata_of_7_kib(peer):
    return comes_back(peer, {"long": ["v" * 2300]})


@case
def metadata_non_ascii(peer):
    fails(13, lambda: peer.meta([("x-echo-latin", b"na\xefve")]), "Invalid metadata")
    same("echo:after", peer.say("after").text)
    return "refused by the client itself: not printable ASCII"


@case
def unknown_method(peer):
    fails(12, lambda: peer.channel.unary_unary(f"/{SERVICE}/NoSuch")(b"", timeout=OK_TIME))


@case
def unknown_service(peer):
    fails(12, lambda: peer.channel.unary_unary("/no.such.Service/Method")(b"", timeout=OK_TIME))


@case
def health_check(peer):
    for service in ("", SERVICE):
        same(1, peer.health.Check(health_pb2.HealthCheckRequest(service=service), timeout=OK_TIME).status)
    fails(5, lambda: peer.health.Check(health_pb2.HealthCheckRequest(service="nobody"), timeout=OK_TIME))


@case
def health_watch(peer):
    call = peer.health.Watch(health_pb2.HealthCheckRequest(service=SERVICE), timeout=OK_TIME)
    same(1, next(call).status)
    call.cancel()


@case
def calls_1000_at_100(peer):
    slots, calls = 100, []
    for i in range(1000):
        if i >= slots:
            calls[i - slots].result()
        calls.append(peer.echo.Say.future(echo_pb2.SayRequest(text=str(i), payload=bytes(128)), timeout=OK_TIME))
    same([f"echo:{i}" for i in range(1000)], [call.result().text for call in calls])


def ask(what):
    """Asks whoever runs this for something, and waits for its line on standard input."""
    print(what, flush=True)
    if not sys.stdin.readline():
        raise AssertionError(f"nobody answered `{what}` on standard input")


@case
def gzip_unary(peer):
    """A payload of zeros each way; the run measures that few bytes pass."""
    ask("measure")
    sent = bytes(1 << 20)
    same(sent, peer.echo.Say(echo_pb2.SayRequest(payload=sent), timeout=OK_TIME, compression=grpc.Compression.Gzip).payload)


@case
def gzip_stream(peer):
    ask("measure")
    requests = [echo_pb2.SayRequest(payload=bytes(size)) for size in (256 << 10, 0, 1, 256 << 10)]
    replies = peer.echo.Chat(iter(requests), timeout=OK_TIME, compression=grpc.Compression.Gzip)
    same([256 << 10, 0, 1, 256 << 10], [len(reply.payload) for reply in replies])


@case
def server_restart(peer):
    """Whoever runs this kills the server and starts another."""
    same("echo:before", peer.say("before").text)
    ask("restart")
    while True:
        try:
            same("echo:again", peer.say("again").text)
            break
        except grpc.RpcError as error:
            same(grpc.StatusCode.UNAVAILABLE, error.code(), f"code (message {error.details()!r})")
            time.sleep(0.02)
    same("echo:after", peer.say("after").text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--addr", required=True)
    parser.add_argument("--server", choices=["trirpc", "grpcio", "tonic"], default="trirpc")
    parser.add_argument("--only", default="", help="prefix of the names of the cases to run")
    options = parser.parse_args()
    failed = 0
    with grpc.insecure_channel(options.addr) as channel:
        peer = Peer(channel, options.server)
        for name, body in CASES.items():
            if not name.startswith(options.only):
                continue
            try:
                note = body(peer)
                print(f"PASS {name}" + (f" ({note})" if note else ""), flush=True)
            except Exception as error:  # whatever it is, it is this case that failed
                failed += 1
                why = " ".join(str(error).split())
                print(f"FAIL {name}: {type(error).__name__}: {why}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
