"""python-h2 as a client of `tri serve --fallback`: client.py --addr HOST:PORT.

Prints `PASS name` or `FAIL name: why` for each case. When it prints `terminate`, the server is asked to end.
"""
import argparse
import functools
import itertools
import random
import socket
import sys

import h2.errors
import h2.events
from h2.settings import SettingCodes, Settings
from hyperframe.frame import DataFrame, Frame, GoAwayFrame, HeadersFrame, PingFrame
from wire import WAIT, connection, envelope, field, messages

SMALL_WINDOW = 1000
ECHO = "/trirpc.test.v1.Echo/"
CASES = {}


def case(function):
    CASES[function.__name__.replace("_", "-")] = function
    return function


class Stream:
    def __init__(self):
        self.head, self.trailers, self.body, self.ended, self.reset = None, None, bytearray(), False, None
        self.unacknowledged = 0


class Client:
    def __init__(self, addr, settings):
        host, port = addr.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=WAIT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        self.h2 = connection(client_side=True)
        # Settings to begin with take the place of the object: an update would be one that is not sent.
        self.h2.local_settings = Settings(client=True, initial_values=settings)
        self.h2.decoder.max_allowed_table_size = self.h2.local_settings.header_table_size
        self.h2.initiate_connection()
        self.streams, self.events, self.is_eof = {}, [], False
        self.acknowledges = True
        self.flush()
        # Before any other change: see `change`.
        self.until(lambda: any(isinstance(event, h2.events.SettingsAcknowledged) for event in self.events))

    def close(self):
        self.h2.close_connection()
        self.flush()
        while not self.is_eof:
            self.receive()
        self.socket.close()

    def flush(self):
        data = self.h2.data_to_send()
        if data:
            self.socket.sendall(data)

    def receive(self):
        data = self.socket.recv(65536)
        if not data:
            self.is_eof = True
            return
        for event in self.h2.receive_data(data):
            self.events.append(event)
            stream = self.streams.get(getattr(event, "stream_id", None))
            if isinstance(event, h2.events.ResponseReceived):
                stream.head = dict(event.headers)
            elif isinstance(event, h2.events.TrailersReceived):
                stream.trailers = dict(event.headers)
            elif isinstance(event, h2.events.DataReceived):
                stream.body += event.data
                stream.unacknowledged += event.flow_controlled_length
                if self.acknowledges:
                    self.acknowledge(event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                stream.ended = True
            elif isinstance(event, h2.events.StreamReset):
                stream.reset = event.error_code
        self.flush()

    def acknowledge(self, number):
        stream = self.streams[number]
        if stream.unacknowledged:
            self.h2.acknowledge_received_data(stream.unacknowledged, number)
            stream.unacknowledged = 0
        self.flush()

    def until(self, condition):
        while not condition():
            assert not self.is_eof, "the server has closed the connection"
            self.receive()

    def open(self, method, path, headers=(), end=False):
        number = self.h2.get_next_available_stream_id()
        self.streams[number] = Stream()
        pseudo = [(":method", method), (":scheme", "http"), (":authority", "test"), (":path", path)]
        self.h2.send_headers(number, pseudo + list(headers), end_stream=end)
        self.flush()
        return number

    def call(self, method, headers=()):
        fixed = [("content-type", "application/grpc"), ("te", "trailers")]
        return self.open("POST", ECHO + method, fixed + list(headers))

    def send(self, number, data, end=False):
        """Sends as the windows allow."""
        while data:
            self.until(lambda: self.h2.local_flow_control_window(number) > 0)
            size = min(len(data), self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size)
            self.h2.send_data(number, data[:size])
            data = data[size:]
            self.flush()
        if end:
            self.h2.end_stream(number)
            self.flush()

    def response(self, number):
        stream = self.streams[number]
        self.until(lambda: stream.ended or stream.reset is not None)
        return stream

    def unary(self, method, message, headers=()):
        number = self.call(method, headers)
        self.send(number, envelope(message), end=True)
        return self.response(number)

    def change(self, settings):
        """Changes settings and waits for the acknowledgement: python-h2 takes the first for that of all changes."""
        acknowledged = lambda: sum(isinstance(event, h2.events.SettingsAcknowledged) for event in self.events)
        before = acknowledged()
        self.h2.update_settings(settings)
        self.flush()
        self.until(lambda: acknowledged() > before)

    def ping(self, octets=b"octets!!"):
        self.h2.ping(octets)
        self.flush()
        answered = lambda event: isinstance(event, h2.events.PingAckReceived) and event.ping_data == octets
        self.until(lambda: any(map(answered, self.events)))


def assert_ok(stream, count):
    assert stream.head[":status"] == "200", stream.head
    assert stream.trailers["grpc-status"] == "0", stream.trailers
    assert len(messages(stream.body)) == count, len(stream.body)


@case
def unary(client):
    stream = client.unary("Say", field(1, b"hi"))
    assert_ok(stream, 1)
    assert messages(stream.body) == [field(1, b"echo:hi")]
    for _ in range(100):
        assert_ok(client.unary("Say", field(1, b"hi")), 1)


@case
def many_at_once(client):
    numbers = [client.call("Say") for _ in range(80)]
    for number in numbers:
        client.send(number, envelope(field(1, b"x")), end=True)
    for number in numbers:
        assert_ok(client.response(number), 1)


@case
def large_messages(client):
    payload = bytes(range(256)) * 8192
    stream = client.unary("Say", field(1, b"large") + field(2, payload))
    assert_ok(stream, 1)
    assert payload in stream.body


@case
def server_streaming(client):
    number = client.call("Expand")
    client.send(number, envelope(field(1, 300) + field(2, 3000)), end=True)
    assert_ok(client.response(number), 300)


@case
def client_streaming(client):
    number = client.call("Collect")
    for i in range(500):
        client.send(number, envelope(field(1, str(i).encode()) + field(2, b"x" * 100)), end=i == 499)
    stream = client.response(number)
    assert_ok(stream, 1)
    assert messages(stream.body)[0].startswith(field(1, 500) + field(2, 50000))


@case
def bidi(client):
    number = client.call("Chat")
    stream = client.streams[number]
    for i in range(50):
        client.send(number, envelope(field(1, b"x" * i)))
        client.until(lambda: len(messages(stream.body)) == i + 1)
    client.send(number, b"", end=True)
    assert_ok(client.response(number), 50)


@case
def metadata(client):
    headers = [("x-echo-a", "1"), ("x-echo-a", "2"), ("x-echo-b-bin", "AAEC"), ("x-other", "ä")]
    stream = client.unary("Meta", b"", headers)
    assert_ok(stream, 1)
    assert stream.head["x-head-b-bin"] == "AAEC" and stream.trailers["x-trail-b-bin"] == "AAEC", stream.head


@case
def trailers_only(client):
    stream = client.unary("Fail", field(1, 9) + field(2, "nö\n".encode()))
    assert stream.head["grpc-status"] == "9" and stream.trailers is None and not stream.body, stream.head
    assert stream.head["grpc-message"] == "n%C3%B6%0A", stream.head
    stream = client.unary("Nothing", b"")
    assert stream.head["grpc-status"] == "12", stream.head


@case
def gzip(client):
    stream = client.unary("Say", field(1, b"x" * 5000), [("grpc-accept-encoding", "gzip")])
    assert stream.head["grpc-encoding"] == "gzip" and stream.body[0] == 1 and len(stream.body) < 500, stream.head


@case
def deadlines(client):
    stream = client.unary("Sleep", field(1, 10_000), [("grpc-timeout", "50m")])
    trailers = stream.trailers or stream.head
    assert trailers["grpc-status"] == "4", trailers


@case
def cancellation(client):
    numbers = []
    for i in range(20):
        number = client.call("Sleep")
        client.send(number, envelope(field(1, 10_000)), end=i % 2 == 0)
        numbers.append(number)
    for number in numbers:
        client.h2.reset_stream(number, h2.errors.ErrorCodes.CANCEL)
    client.flush()
    client.ping(b"canceled")
    assert all(client.streams[number].head is None for number in numbers)
    assert_ok(client.unary("Say", field(1, b"hi")), 1)


@case
def faults_of_a_stream(client):
    number = client.call("Collect")
    client.send(number, b"\x07\0\0\0\x01x")
    stream = client.response(number)
    assert (stream.trailers or stream.head)["grpc-status"] == "13", stream.head
    number = client.call("Say")
    client.send(number, b"\0\xff\xff\xff\xff")
    stream = client.response(number)
    assert (stream.trailers or stream.head)["grpc-status"] == "8", stream.head
    client.ping(b"survived")


@case
def plain_http(client):
    for method, end in [("GET", True), ("DELETE", True), ("POST", False), ("PUT", False), ("PROPFIND", True)]:
        number = client.open(method, "/some/where?a=b", end=end)
        if not end:
            client.send(number, b"x" * 100_000, end=True)
        stream = client.response(number)
        assert stream.head[":status"] == "200" and int(stream.head["content-length"]) == len(stream.body) > 64
    number = client.open("HEAD", "/", end=True)
    stream = client.response(number)
    assert stream.head[":status"] == "200" and int(stream.head["content-length"]) > 64 and not stream.body
    number = client.open("OPTIONS", "*", end=True)
    assert client.response(number).head[":status"] == "200"


@case
def refusals_in_http(client):
    number = client.open("GET", ECHO + "Say", end=True)
    stream = client.response(number)
    assert stream.head[":status"] == "405" and stream.head["allow"] == "POST", stream.head
    number = client.open("POST", ECHO + "Say", [("content-type", "text/plain")])
    client.send(number, b"hi", end=True)
    assert client.response(number).head[":status"] == "415"


@case
def request_trailers(client):
    number = client.open("POST", "/", [("trailer", "x-sum")])
    client.send(number, b"body")
    client.h2.send_headers(number, [("x-sum", "1")], end_stream=True)
    client.flush()
    assert client.response(number).head[":status"] == "200"


@case
def our_windows(client):
    """A server that streams stops at the window, goes on with it, and keeps to one that shrinks below zero."""
    client.acknowledges = False
    number = client.call("Expand")
    client.send(number, envelope(field(1, 100) + field(2, 3000)), end=True)
    stream = client.streams[number]
    client.until(lambda: stream.unacknowledged >= 65_000)
    client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1000})
    client.flush()
    client.ping(b"shrunken")
    client.acknowledge(number)
    client.ping(b"returned")
    client.acknowledge(number)
    client.acknowledges = True
    client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 65_535})
    client.flush()
    assert_ok(client.response(number), 100)


@case
def our_settings(client):
    """Sizes of tables and frames to and fro, each followed by calls."""
    tables, frames = [0, 100, 4096, 65_536, 0, 4096], [16_384, 1 << 20, (1 << 24) - 1, 16_384]
    for table, frame in zip(tables, itertools.cycle(frames)):
        changed = {SettingCodes.HEADER_TABLE_SIZE: table, SettingCodes.MAX_FRAME_SIZE: frame}
        client.h2.update_settings(changed)
        client.flush()
        for i in range(5):
            stream = client.unary("Say", field(1, b"x" * 40_000), [("x-number", str(i))])
            assert_ok(stream, 1)
    client.ping(b"settings")


def script(client, seed):
    """Calls of all kinds under way at once, some of them given up, while windows, tables and frames change in size."""
    chance = random.Random(seed)
    live, window = [], SMALL_WINDOW
    for _ in range(200):
        act = chance.randrange(10)
        if act < 5 and len(live) < 40:
            kind, message = chance.choice(
                [
                    ("Say", field(1, b"x" * chance.choice([0, 1, 100, 20_000]))),
                    ("Expand", field(1, chance.randrange(1, 50)) + field(2, chance.choice([0, 10, 3000]))),
                    ("Fail", field(1, chance.randrange(1, 17)) + field(2, "nö".encode())),
                    ("Meta", b""),
                    ("Sleep", field(1, chance.randrange(30))),
                    ("Nothing", b""),
                ]
            )
            headers = chance.choice([[], [("x-echo-a", str(chance.random()))], [("grpc-timeout", "5m")]])
            number = client.call(kind, headers)
            client.send(number, envelope(message), end=True)
            live.append(number)
        elif act == 5:
            live.append(client.open(chance.choice(["GET", "HEAD", "DELETE"]), f"/{chance.random()}", end=True))
        elif act == 6 and live:
            number = live.pop(chance.randrange(len(live)))
            if not client.streams[number].ended and client.streams[number].reset is None:
                client.h2.reset_stream(number, h2.errors.ErrorCodes.CANCEL)
                client.flush()
        elif act == 7:
            # Never smaller: python-h2 forgets then what it held back of a stream's window, and both sides wait.
            window = max(window, chance.choice([SMALL_WINDOW, 5000, 16_384, 65_535, 1 << 20]))
            client.change({SettingCodes.INITIAL_WINDOW_SIZE: window})
        elif act == 8:
            table, frame = chance.choice([0, 64, 4096, 16_384]), chance.choice([16_384, 1 << 20])
            client.change({SettingCodes.HEADER_TABLE_SIZE: table, SettingCodes.MAX_FRAME_SIZE: frame})
        elif live:
            client.response(live.pop(chance.randrange(len(live))))
    for number in live:
        client.response(number)
    client.ping()


for number in range(8):
    CASES[f"script-{number}"] = functools.partial(script, seed=number)


def frames(client):
    """Frames off the socket, to its end, past python-h2: it takes nothing more once it was told GOAWAY."""
    data = b""
    while True:
        while len(data) >= 9:
            frame, length = Frame.parse_frame_header(memoryview(data[:9]))
            if len(data) < 9 + length:
                break
            frame.parse_body(memoryview(data[9 : 9 + length]))
            data = data[9 + length :]
            yield frame
        octets = client.socket.recv(65536)
        if not octets:
            assert not data, "the connection ends inside a frame"
            return
        data += octets


@case
def drain(client):
    """GOAWAY in two steps; what is open goes on to its end, and then the connection closes."""
    number = client.call("Chat")
    client.send(number, envelope(field(1, b"before")))
    stream = client.streams[number]
    client.until(lambda: messages(stream.body))
    print("terminate", flush=True)
    lasts, trailers = [], None
    for frame in frames(client):
        if isinstance(frame, GoAwayFrame):
            assert frame.error_code == 0, frame
            lasts.append(frame.last_stream_id)
        elif isinstance(frame, PingFrame) and not frame.flags:
            client.socket.sendall(PingFrame(0, frame.opaque_data, flags=["ACK"]).serialize())
            rest = DataFrame(number, envelope(field(1, b"after")), flags=["END_STREAM"])
            client.socket.sendall(rest.serialize())
        elif isinstance(frame, DataFrame):
            stream.body += frame.data
        elif isinstance(frame, HeadersFrame):
            trailers = dict(client.h2.decoder.decode(frame.data))
    client.socket.close()
    client.is_eof = True
    assert lasts[0] == 2**31 - 1 and lasts == sorted(lasts, reverse=True) and lasts[-1] == number, lasts
    assert trailers["grpc-status"] == "0" and len(messages(stream.body)) == 2, trailers


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--addr", required=True)
    addr = parser.parse_args().addr
    failed = 0
    for name, run in CASES.items():
        settings = {}
        if name == "our-settings":
            settings[SettingCodes.HEADER_TABLE_SIZE] = 0
        elif name.startswith("script-"):
            settings[SettingCodes.INITIAL_WINDOW_SIZE] = SMALL_WINDOW
        client = Client(addr, settings)
        try:
            run(client)
            if not client.is_eof:
                client.close()
            print(f"PASS {name}", flush=True)
        except Exception as error:
            failed += 1
            print(f"FAIL {name}: {type(error).__name__}: {error}", flush=True)
    sys.exit(failed > 0)


main()
