//! What a random number makes up: byte streams of peers that know the protocol, and break its rules now and then.

use crate::frames;
use crate::random::Random;

/// What a client sends that knows HTTP/2 and gRPC, and breaks their rules now and then.
pub fn client_bytes(seed: u64) -> Vec<u8> {
    let random = &mut Random::new(seed);
    let mut bytes = [frames::PREFACE, &frames::settings(&settings(random)), &frames::settings_ack()].concat();
    let mut next = 1;
    let mut fields = vec![
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", *random.pick(&["/t.Echo/Say", "/t.Echo/Chat", "/", ""])),
        ("content-type", *random.pick(&["application/grpc", "application/grpc+proto", "text/plain"])),
        ("te", "trailers"),
    ];
    for _ in 0..1 + random.below(30) {
        let stream = if next > 1 && !random.one_in(10) { 1 + 2 * random.below(next as usize / 2) as u32 } else { next };
        let frame = match random.below(12) {
            0..=3 => {
                next += 2;
                if random.one_in(10) {
                    fields.push(*random.pick(&[
                        ("connection", "close"),
                        ("grpc-timeout", "1x"),
                        ("UPPER", "case"),
                        (":late", ""),
                    ]));
                }
                let end = random.one_in(6);
                split_headers(random, next - 2, &frames::block(&fields), end)
            }
            4..=7 => {
                let size = random.length(3000);
                let mut message = frames::envelope(&random.bytes(size));
                message.truncate(if random.one_in(4) { random.below(message.len() + 1) } else { message.len() });
                frames::data(stream, &message, random.one_in(2))
            }
            _ => any_frame(random, stream),
        };
        bytes.extend(frame);
    }
    mutate(random, bytes)
}

/// What a server sends to a client that has opened `streams`, with faults now and then.
pub fn server_bytes(seed: u64, streams: &[u32]) -> Vec<u8> {
    let random = &mut Random::new(seed);
    let mut bytes = [frames::settings(&settings(random)), frames::settings_ack()].concat();
    for _ in 0..1 + random.below(30) {
        let stream = if random.one_in(20) { random.below(30) as u32 } else { *random.pick(streams) };
        let frame = match random.below(12) {
            0..=2 => {
                let status = *random.pick(&["200", "200", "200", "100", "404", "x"]);
                let fields = [(":status", status), ("content-type", "application/grpc"), ("k", "v")];
                let end = random.one_in(8);
                split_headers(random, stream, &frames::block(&fields), end)
            }
            3..=5 => {
                let size = random.length(3000);
                frames::data(stream, &frames::envelope(&random.bytes(size)), random.one_in(8))
            }
            6 | 7 => {
                let status = *random.pick(&["0", "0", "5", "99", "-1"]);
                frames::headers(stream, &[("grpc-status", status), ("grpc-message", "a%20b")], !random.one_in(8))
            }
            _ => any_frame(random, stream),
        };
        bytes.extend(frame);
    }
    mutate(random, bytes)
}

fn settings(random: &mut Random) -> Vec<(u16, u32)> {
    let choices = [
        (1, 0),
        (1, 65_536),
        (2, 0),
        (3, 1),
        (3, 100),
        (4, 0),
        (4, 10),
        (4, 100_000),
        (5, 16_384),
        (6, 100),
        (99, 1),
        (4, u32::MAX),
        (5, 1),
    ];
    let legal = if random.one_in(20) { choices.len() } else { choices.len() - 2 };
    (0..random.below(4)).map(|_| *random.pick(&choices[..legal])).collect()
}

/// A frame that has nothing to do with a message's own course.
fn any_frame(random: &mut Random, stream: u32) -> Vec<u8> {
    match random.below(9) {
        0 => frames::window_update(0, 1 + random.below(70_000) as u32),
        1 => frames::window_update(stream, random.below(70_000) as u32),
        2 => frames::ping(random.bits().to_be_bytes(), random.one_in(4)),
        3 => frames::settings(&settings(random)),
        4 => frames::reset(stream, random.below(16) as u32),
        5 => frames::frame(2, 0, stream, &random.bytes(5)),
        6 if random.one_in(4) => frames::go_away(random.below(9) as u32, random.below(14) as u32),
        7 => {
            let padded = [&[3][..], &random.bytes(10)].concat();
            frames::frame(0, 8, stream, &padded)
        }
        _ => {
            let size = random.below(20);
            frames::frame(random.bits() as u8, random.bits() as u8, stream, &random.bytes(size))
        }
    }
}

/// A header block in one HEADERS, or with CONTINUATIONs.
fn split_headers(random: &mut Random, stream: u32, block: &[u8], end: bool) -> Vec<u8> {
    let (first, rest) = block.split_at(if random.one_in(3) { random.below(block.len()) } else { block.len() });
    let end_headers = if rest.is_empty() { 4 } else { 0 };
    let mut bytes = frames::frame(1, end_headers | u8::from(end), stream, first);
    if !rest.is_empty() {
        let (middle, last) = rest.split_at(random.below(rest.len()));
        bytes.extend(frames::frame(9, 0, stream, middle));
        bytes.extend(frames::frame(9, 4, stream, last));
    }
    bytes
}

/// Leaves most streams as they are, and damages the rest in one place.
fn mutate(random: &mut Random, mut bytes: Vec<u8>) -> Vec<u8> {
    let at = random.below(bytes.len());
    match random.below(10) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes.truncate(at),
        2 => drop(bytes.drain(at..(at + 1 + random.below(20)).min(bytes.len()))),
        3 => {
            let inserted = random.length(30);
            bytes.splice(at..at, random.bytes(inserted));
        }
        _ => {}
    }
    bytes
}
