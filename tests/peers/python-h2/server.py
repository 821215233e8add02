"""python-h2 as a server of octets in gRPC's envelopes: server.py [--addr HOST:PORT].

Prints `listening on ADDRESS`, `FAULT why` for whatever python-h2 does not allow, `reset CODE` for a stream that the
client resets, and `closed` when a connection ends without a fault. The last segment of a path says what is done:

    Echo        the octets of the request, when it has ended
    Expand      its first message, 300 times
    Chat        its octets, as they come
    Refuse      the head alone, with status 9
    Never       nothing
    GoAway      as Echo, behind GOAWAY
    Early       as Echo of nothing, before the request has ended, and the stream is reset without an error
"""
import argparse
import socket
import threading

import h2.errors
import h2.events
import h2.exceptions
from wire import connection, envelope, messages

HEAD = [(":status", "200"), ("content-type", "application/grpc")]
TRAILERS = [("grpc-status", "0"), ("x-trail", "2")]


class Stream:
    def __init__(self, path):
        self.name = path.rsplit("/", 1)[-1]
        self.body, self.out, self.is_whole = bytearray(), bytearray(), False


class Session:
    def __init__(self, peer):
        self.socket, self.h2, self.streams = peer, connection(client_side=False), {}

    def run(self):
        self.h2.initiate_connection()
        # A small window, so that the client has to wait for it.
        self.h2.update_settings({4: 20_000})
        self.flush()
        while data := self.socket.recv(65536):
            events = self.h2.receive_data(data)
            # python-h2 knows already of resets that come later: nothing can be sent on these streams.
            gone = {event.stream_id for event in events if isinstance(event, h2.events.StreamReset)}
            for event in events:
                if getattr(event, "stream_id", None) not in gone or isinstance(event, h2.events.StreamReset):
                    self.take(event)
                elif isinstance(event, h2.events.DataReceived):
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            for number in list(self.streams):
                self.push(number)
            self.flush()

    def flush(self):
        data = self.h2.data_to_send()
        if data:
            self.socket.sendall(data)

    def take(self, event):
        number = getattr(event, "stream_id", None)
        stream = self.streams.get(number)
        if isinstance(event, h2.events.RequestReceived):
            headers = dict(event.headers)
            assert headers["te"] == "trailers" and headers[":scheme"] == "http", headers
            self.streams[number] = stream = Stream(headers[":path"])
            if stream.name == "Chat":
                self.h2.send_headers(number, HEAD)
            elif stream.name == "Early":
                self.h2.send_headers(number, HEAD)
                stream.out, stream.is_whole = bytearray(envelope(b"")), True
        elif isinstance(event, h2.events.DataReceived):
            self.h2.acknowledge_received_data(event.flow_controlled_length, number)
            if stream is None:
                return
            stream.body += event.data
            if stream.name == "Chat":
                stream.out += event.data
        elif isinstance(event, h2.events.StreamEnded):
            self.answer(number, stream)
        elif isinstance(event, h2.events.StreamReset):
            print(f"reset {int(event.error_code)}", flush=True)
            self.streams.pop(number, None)

    def answer(self, number, stream):
        if stream is None or stream.name in ("Never", "Early"):
            return
        if stream.name == "Refuse":
            self.h2.send_headers(number, HEAD + [("grpc-status", "9"), ("grpc-message", "no")], end_stream=True)
            del self.streams[number]
            return
        if stream.name == "GoAway":
            self.h2.close_connection(last_stream_id=number)
            # python-h2 sends nothing more once it has said so: the rest is for the client to ask elsewhere.
            self.flush()
            self.socket.shutdown(socket.SHUT_WR)
            self.streams.clear()
            return
        if stream.name != "Chat":
            self.h2.send_headers(number, HEAD)
        if stream.name == "Echo":
            stream.out = stream.body
        elif stream.name == "Expand":
            stream.out = bytearray(envelope(messages(stream.body)[0]) * 300)
        stream.is_whole = True

    def push(self, number):
        """Sends what the windows allow."""
        stream = self.streams[number]
        while stream.out:
            size = min(len(stream.out), self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size)
            if size <= 0:
                return
            self.h2.send_data(number, bytes(stream.out[:size]))
            del stream.out[:size]
        if stream.is_whole:
            self.h2.send_headers(number, TRAILERS, end_stream=True)
            if stream.name == "Early":
                self.h2.reset_stream(number, h2.errors.ErrorCodes.NO_ERROR)
            del self.streams[number]


def serve(peer):
    try:
        Session(peer).run()
        print("closed", flush=True)
    except ConnectionError:
        print("closed", flush=True)
    except Exception as error:
        print(f"FAULT {type(error).__name__}: {error}", flush=True)
    finally:
        peer.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--addr", default="127.0.0.1:0")
    host, port = parser.parse_args().addr.rsplit(":", 1)
    listener = socket.create_server((host, int(port)))
    print("listening on {}:{}".format(*listener.getsockname()), flush=True)
    while True:
        peer, _ = listener.accept()
        threading.Thread(target=serve, args=(peer,), daemon=True).start()


main()
