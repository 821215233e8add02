//! `google.rpc.Status`, as far as a call needs it: the details of an error, in the form that crosses the wire inside of
//! `grpc-status-details-bin`. JSON errors list the same details one by one.
//!
//! Two messages of the protobuf encoding: `Status { 1 int32 code, 2 string message, 3 repeated Any details }` and
//! `Any { 1 string type_url, 2 bytes value }`.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use alloc::vec::Vec;

use bytes::Bytes;

/// One `google.protobuf.Any`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Detail {
    pub(crate) type_url: Bytes,
    pub(crate) value: Bytes,
}

/// A serialised `google.rpc.Status` with `details`; nothing if there are none, for the rest is in the status itself.
pub(crate) fn encode(code: u32, message: &str, details: &[Detail]) -> Bytes {
    if details.is_empty() {
        return Bytes::new();
    }
    let mut out = Vec::new();
    if code != 0 {
        out.push(1 << 3);
        write_varint(u64::from(code), &mut out);
    }
    write_field(2, message.as_bytes(), &mut out);
    for detail in details {
        let mut any = Vec::new();
        write_field(1, &detail.type_url, &mut any);
        write_field(2, &detail.value, &mut any);
        out.push(3 << 3 | LEN);
        write_varint(any.len() as u64, &mut out);
        out.extend_from_slice(&any);
    }
    out.into()
}

/// The details in a serialised `google.rpc.Status`, as far as it can be read.
pub(crate) fn decode(status: &Bytes) -> Vec<Detail> {
    let mut details = Vec::new();
    for (number, any) in Fields(status.clone()) {
        if number == 3 {
            let mut detail = Detail { type_url: Bytes::new(), value: Bytes::new() };
            for (number, bytes) in Fields(any) {
                match number {
                    1 => detail.type_url = bytes,
                    2 => detail.value = bytes,
                    _ => {}
                }
            }
            details.push(detail);
        }
    }
    details
}

/// The length-delimited fields of a message, by number; ends where the encoding is broken.
struct Fields(Bytes);

impl Iterator for Fields {
    type Item = (u64, Bytes);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let key = self.varint()?;
            match (key & 7) as u8 {
                VARINT => drop(self.varint()?),
                FIXED64 => drop(self.split(8)?),
                FIXED32 => drop(self.split(4)?),
                LEN => {
                    let len = usize::try_from(self.varint()?).ok()?;
                    return Some((key >> 3, self.split(len)?));
                }
                _ => return None,
            }
        }
    }
}

impl Fields {
    #[expect(clippy::arithmetic_side_effects, reason = "ten octets of seven bits at most: `i` is below ten")]
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for (i, &octet) in self.0.iter().take(10).enumerate() {
            value |= u64::from(octet & 0x7f) << (7 * i);
            if octet & 0x80 == 0 {
                drop(self.split(i + 1));
                return Some(value);
            }
        }
        None
    }

    fn split(&mut self, len: usize) -> Option<Bytes> {
        (len <= self.0.len()).then(|| self.0.split_to(len))
    }
}

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const LEN: u8 = 2;
const FIXED32: u8 = 5;

fn write_field(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    if !bytes.is_empty() {
        out.push(number << 3 | LEN);
        write_varint(bytes.len() as u64, out);
        out.extend_from_slice(bytes);
    }
}

fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail(type_url: &'static str, value: &'static [u8]) -> Detail {
        Detail { type_url: Bytes::from_static(type_url.as_bytes()), value: Bytes::from_static(value) }
    }

    /// tri:93: the bytes are protobuf's.
    #[test]
    fn details_are_a_google_rpc_status() {
        let details = [detail("type.googleapis.com/a.B", &[1, 2]), detail("", b""), detail("c/d", b"")];
        let bytes = encode(5, "gone", &details);
        let golden =
            b"\x08\x05\x12\x04gone\x1a\x1d\x0a\x17type.googleapis.com/a.B\x12\x02\x01\x02\x1a\0\x1a\x05\x0a\x03c/d";
        assert_eq!(bytes, &golden[..]);
        assert_eq!(decode(&bytes), details);
        assert_eq!(encode(5, "gone", &[]), Bytes::new());
        // A long message and a code of two octets.
        let long = "x".repeat(300);
        assert_eq!(decode(&encode(200, &long, &details)), details);
    }

    #[test]
    fn what_cannot_be_read_ends_the_list() {
        let whole = encode(5, "gone", &[detail("a/b", &[7; 200]), detail("c/d", b"x")]);
        for len in 0..whole.len() {
            let read = decode(&whole.slice(..len));
            assert!(read.len() < 2 && read.iter().all(|detail| detail.type_url == "a/b"), "{len}: {read:?}");
        }
        // Unknown fields of every kind are passed over; groups, overlong numbers and lengths end it.
        let known = b"\x1a\x05\x0a\x03a/b";
        for before in [&b"\x20\xff\x01"[..], b"\x21\0\0\0\0\0\0\0\0", b"\x25\0\0\0\0", b"\x22\x01z"] {
            assert_eq!(decode(&[before, known].concat().into()), [detail("a/b", b"")], "{before:?}");
        }
        for before in [&b"\x23"[..], &[0xff; 11], b"\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x26"] {
            assert_eq!(decode(&[before, known].concat().into()), [], "{before:?}");
        }
    }
}
