"""python-hpack, the HPACK of python-h2, one line at a time: what it reads and writes of header blocks.

new             begins anew, with an encoder and a decoder that have seen nothing
allow SIZE      what the decoder's table may have from now on
use SIZE        what the encoder's table has from now on
decode BLOCK    is answered by `fields FIELD…`, or by `refused WHY`
encode H FIELD… is answered by `block BLOCK`; H is 1 for Huffman code, else 0

Octets are in hexadecimal; those of a block are behind a `=`, for it may be empty. A field is NAME:VALUE:S, and S is 1 for
one that must never enter a table, else 0.
"""
import sys

from hpack import Decoder, Encoder, HeaderTuple, HPACKError, NeverIndexedHeaderTuple

# Whatever is below limits of our own: lists are bounded elsewhere.
NO_LIMIT = 1 << 62


def parsed(field):
    name, value, sensitive = field.split(":")
    kind = NeverIndexedHeaderTuple if sensitive == "1" else HeaderTuple
    return kind(bytes.fromhex(name), bytes.fromhex(value))


def printed(header):
    return f"{header[0].hex()}:{header[1].hex()}:{int(not header.indexable)}"


def main():
    encoder, decoder = Encoder(), Decoder(NO_LIMIT)
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "new":
            encoder, decoder = Encoder(), Decoder(NO_LIMIT)
        elif word == "allow":
            decoder.max_allowed_table_size = int(rest[0])
        elif word == "use":
            encoder.header_table_size = int(rest[0])
        elif word == "decode":
            try:
                headers = decoder.decode(bytes.fromhex(rest[0][1:]), raw=True)
                print("fields", *map(printed, headers), flush=True)
            except HPACKError as error:
                print("refused", type(error).__name__, flush=True)
        elif word == "encode":
            block = encoder.encode([parsed(field) for field in rest[1:]], huffman=rest[0] == "1")
            print(f"block ={block.hex()}", flush=True)
        else:
            sys.exit(f"unknown: {line}")


main()
