"""What client.py and server.py share: Protobuf and gRPC's envelopes by hand, and a socket with its H2Connection.

python-h2 judges what it receives: its checks of inbound header blocks are on, and whatever it does not allow is raised
as a ProtocolError, which no program here catches.
"""
import struct

import h2.config
import h2.connection
import h2.events
import h2.settings

WAIT = 20


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, value):
    """A field of a message: of wire type 0 or 2, by the type of the value."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def envelope(message):
    return b"\0" + struct.pack(">I", len(message)) + message


def messages(body):
    """The messages in a body, which must end with the last of them."""
    found = []
    while body:
        flag, length = body[0], int.from_bytes(body[1:5], "big")
        assert flag == 0 and len(body) >= 5 + length, "the body ends inside a message"
        found.append(bytes(body[5 : 5 + length]))
        body = body[5 + length :]
    return found


def connection(client_side):
    config = h2.config.H2Configuration(
        client_side=client_side,
        header_encoding="utf-8",
        validate_inbound_headers=True,
        validate_outbound_headers=True,
    )
    return h2.connection.H2Connection(config)
