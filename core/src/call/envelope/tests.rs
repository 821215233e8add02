use alloc::vec::Vec;
use alloc::{format, vec};

use super::*;
use crate::call::Code;

const LIMIT: usize = 4 * 1024 * 1024;

fn body(messages: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    for message in messages {
        body.extend_from_slice(&prefix(message.len(), false).unwrap());
        body.extend_from_slice(message);
    }
    body
}

fn push(decoder: &mut Decoder, data: Bytes) -> Result<(), Status> {
    decoder.push(data, &mut Landing::alone(&mut BufferPool::new(0)))
}

fn pull(decoder: &mut Decoder) -> Option<MessageBuf> {
    decoder.pull(&mut BufferPool::new(0))
}

fn drain(decoder: &mut Decoder) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while let Some(mut message) = pull(decoder) {
        messages.push(message.copy_to_bytes(message.len()).to_vec());
    }
    messages
}

/// Feeds `body` in pieces that end at `cuts`.
fn feed(decoder: &mut Decoder, body: &[u8], cuts: &[usize]) -> Result<(), Status> {
    let body = Bytes::copy_from_slice(body);
    let mut start = 0;
    for &end in cuts.iter().chain([&body.len()]) {
        push(decoder, body.slice(start..end))?;
        start = end;
    }
    Ok(())
}

fn plain(max_message: usize) -> Decoder {
    Decoder::new(Terms { max_message, encoding: None })
}

fn compressed(max_message: usize) -> Decoder {
    Decoder::new(Terms { max_message, encoding: Some("gzip") })
}

/// tri:1 tri:2 tri:5
#[test]
fn a_cut_at_any_octet_gives_the_same_messages() {
    let messages: [&[u8]; 4] = [b"\x0a\x05world", b"", b"x", b"another one"];
    let body = body(&messages);
    for first in 0..=body.len() {
        for second in first..=body.len() {
            let mut decoder = plain(LIMIT);
            feed(&mut decoder, &body, &[first, second]).unwrap();
            assert_eq!(decoder.buffered(), body.len());
            assert_eq!(drain(&mut decoder), messages, "cut at {first} and {second}");
            assert_eq!((decoder.buffered(), decoder.begun(), decoder.is_partial()), (0, 4, false));
        }
    }
}

/// tri:1 tri:2 tri:9: a message that comes alone and in one piece is taken as one that comes in two, and so is a second.
#[test]
fn a_message_in_one_piece_is_the_message_in_two() {
    fn same(flags: u8, len: u16, announced: Option<u16>, compression: bool, at: usize, leftover: Vec<u8>) {
        let len = usize::from(len % 300);
        let announced = announced.map_or(len, |len| usize::from(len % 300));
        let mut first = prefix(announced, false).unwrap().to_vec();
        first[0] = flags % 3;
        first.extend((0..len).map(|n| n as u8));
        let outcome = |cut: usize| {
            let mut decoder = if compression { compressed(200) } else { plain(200) };
            let (mut results, mut counts) = (Vec::new(), Vec::new());
            for body in [&first, &leftover, &first] {
                let (front, rest) = body.split_at(cut.min(body.len()));
                let pushed = push(&mut decoder, Bytes::copy_from_slice(front));
                let pushed = pushed.and_then(|()| push(&mut decoder, Bytes::copy_from_slice(rest)));
                let has_failed = pushed.is_err();
                let message = pull(&mut decoder).map(|mut m| (m.encoding(), m.copy_to_bytes(m.len())));
                results.push((pushed, message, decoder.begun()));
                if has_failed {
                    break;
                }
                counts.push((decoder.buffered(), decoder.need(), decoder.is_partial()));
            }
            (results, counts)
        };
        assert_eq!(outcome(0), outcome(at % (first.len() + 1)));
    }
    quickcheck::quickcheck(same as fn(u8, u16, Option<u16>, bool, usize, Vec<u8>));
}

/// tri:1 tri:2 tri:9: messages that are taken in runs are those that are taken one by one, however the body is cut and
/// however long the runs are; what is compressed is in none.
#[test]
fn runs_hold_the_messages_that_come_one_by_one() {
    fn same(messages: Vec<(Vec<u8>, bool)>, cuts: Vec<usize>, limits: Vec<u16>) -> bool {
        let mut whole = Vec::new();
        for (message, compressed) in &messages {
            whole.extend_from_slice(&prefix(message.len(), *compressed).unwrap());
            whole.extend_from_slice(message);
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (whole.len() + 1)).collect();
        cuts.sort_unstable();
        let mut limits = limits.into_iter().map(usize::from).cycle();
        let (mut one_by_one, mut in_runs) = (compressed(LIMIT), compressed(LIMIT));
        let (mut start, body) = (0, Bytes::from(whole));
        for &end in cuts.iter().chain([&body.len()]) {
            let mut taken = Vec::new();
            for decoder in [&mut one_by_one, &mut in_runs] {
                push(decoder, body.slice(start..end)).unwrap();
            }
            while let Some(mut message) = pull(&mut in_runs) {
                taken.push((message.encoding(), message.copy_to_bytes(message.len())));
                let limit = limits.next().unwrap_or(usize::MAX);
                let mut run = in_runs.pull_run(limit, &mut BufferPool::new(0));
                assert!(run.bytes() + PREFIX * run.messages() <= limit);
                while let Some(mut message) = run.next_message() {
                    taken.push((None, message.copy_to_bytes(message.len())));
                }
                // Sometimes there is more to come before the rest is taken.
                if limit % 7 == 0 {
                    break;
                }
            }
            for (encoding, octets) in taken {
                let expected = pull(&mut one_by_one).map(|mut m| (m.encoding(), m.copy_to_bytes(m.len())));
                assert_eq!(Some((encoding, octets)), expected);
            }
            let state = |decoder: &Decoder| (decoder.buffered(), decoder.begun(), decoder.need(), decoder.is_partial());
            assert_eq!(state(&in_runs), state(&one_by_one));
            assert_eq!(in_runs.is_ready(), one_by_one.is_ready());
            start = end;
        }
        true
    }
    quickcheck::quickcheck(same as fn(Vec<(Vec<u8>, bool)>, Vec<usize>, Vec<u16>) -> bool);
}

/// The beginning of a large message is copied where it lies, and only that: a whole one is not, nor one that may not be
/// kept, nor the first octets of one behind another.
#[test]
fn the_beginning_of_a_large_message_is_taken_in_place() {
    let large = body(&[&[7; 3 * WAIT_FROM]]);
    let (front, rest) = large.split_at(2 * WAIT_FROM);
    let extend =
        |decoder: &mut Decoder, octets: &[u8]| decoder.extend(octets, &mut Landing::alone(&mut BufferPool::new(0)));
    let mut decoder = plain(LIMIT);
    for round in 1..3 {
        assert!(!extend(&mut decoder, &large), "a whole message is shared");
        assert!(!extend(&mut decoder, &front[..WAIT_FROM - 1]), "a small piece is not worth it");
        assert!(extend(&mut decoder, front));
        assert_eq!((decoder.begun(), decoder.need()), (round, rest.len()));
        assert!(!extend(&mut decoder, &[rest, b"more"].concat()), "not all of it belongs to the message");
        assert!(extend(&mut decoder, rest));
        assert!(!extend(&mut decoder, front), "a message is complete and waits");
        assert_eq!((decoder.buffered(), decoder.is_partial()), (large.len(), false));
        assert_eq!(pull(&mut decoder).unwrap().chunk(), [7; 3 * WAIT_FROM]);
    }
    assert!(!extend(&mut plain(WAIT_FROM), front), "too large a message");
    decoder.discard();
    assert!(!extend(&mut decoder, front), "nothing is wanted any more");
}

/// tri:3
#[test]
fn one_message_over_a_hundred_chunks_is_delivered_once() {
    let message: Vec<u8> = (0..100_000_u32).map(|i| i as u8).collect();
    let body = body(&[&message]);
    let cuts: Vec<usize> = (1..100).map(|i| i * body.len() / 100).collect();
    let mut decoder = plain(LIMIT);
    feed(&mut decoder, &body, &cuts).unwrap();
    assert_eq!(drain(&mut decoder), [message]);
}

/// tri:171
#[test]
fn a_prefix_in_a_chunk_of_its_own_costs_no_copy_of_the_payload() {
    let payload = Bytes::from(vec![7; 20]);
    let mut decoder = plain(LIMIT);
    push(&mut decoder, Bytes::copy_from_slice(&prefix(20, false).unwrap())).unwrap();
    assert_eq!(decoder.need(), 20);
    push(&mut decoder, payload.clone()).unwrap();
    push(&mut decoder, Bytes::new()).unwrap();
    assert_eq!(pull(&mut decoder).unwrap().chunk().as_ptr(), payload.as_ptr());
}

/// bg:V3
#[test]
fn a_payload_in_one_piece_is_not_copied_and_one_in_several_lies_in_one_at_last() {
    let whole = Bytes::from(body(&[&[1; 100], &[2; 30_000]]));
    let mut decoder = plain(30_000);
    push(&mut decoder, whole.slice(..20_000)).unwrap();
    push(&mut decoder, whole.slice(20_000..)).unwrap();
    assert_eq!(pull(&mut decoder).unwrap().chunk().as_ptr(), whole[PREFIX..].as_ptr());
    let second = pull(&mut decoder).unwrap();
    assert_eq!(second.chunk(), [2; 30_000]);
}

/// h2:A21: single octets are copied together, at the front and behind a complete message.
#[test]
fn small_pieces_become_few_chunks() {
    let body = body(&[&[1; 900], &[2; 900]]);
    let cuts: Vec<usize> = (1..body.len()).collect();
    let mut decoder = plain(LIMIT);
    feed(&mut decoder, &body, &cuts).unwrap();
    assert!(decoder.backlog.as_ref().unwrap().rest.is_empty(), "all of it is in the tail");
    for _ in 0..2 {
        let message = pull(&mut decoder).unwrap();
        assert_eq!(message.chunk().len(), 900, "one chunk");
    }
}

/// tri:9 tri:10 tri:Q51
#[test]
fn flags_other_than_compressed_are_refused() {
    for flags in [2_u8, 3, 4, 0x40, 0x80, 0x81, 0xff] {
        let mut decoder = compressed(LIMIT);
        let status = push(&mut decoder, Bytes::from(vec![flags, 0, 0, 0, 0])).unwrap_err();
        assert_eq!((status.code(), status.origin()), (Code::Internal, Origin::Peer));
        assert!(status.message().contains(&format!("0x{flags:02x}")), "{status}");
    }
}

/// tri:6 tri:7 tri:8 tri:100
#[test]
fn a_compressed_message_needs_an_announced_encoding() {
    for body in [&b"\x01\0\0\0\x01x"[..], b"\x01\0\0\0\0"] {
        let mut decoder = plain(LIMIT);
        assert_eq!(push(&mut decoder, Bytes::copy_from_slice(body)).unwrap_err().code(), Code::Internal);
    }
    let mut decoder = compressed(LIMIT);
    push(&mut decoder, Bytes::from_static(b"\x01\0\0\0\x01x\x01\0\0\0\0\0\0\0\0\x01y")).unwrap();
    // An empty message is never handed to a decompressor.
    let seen: Vec<_> = core::iter::from_fn(|| pull(&mut decoder)).map(|m| (m.len(), m.is_compressed())).collect();
    assert_eq!(seen, [(1, true), (0, false), (1, false)]);
}

/// tri:4 tri:13 tri:Q22
#[test]
fn a_message_above_the_limit_is_refused_by_its_prefix() {
    let mut decoder = plain(10);
    push(&mut decoder, Bytes::from(body(&[&[0; 10]]))).unwrap();
    assert_eq!(pull(&mut decoder).unwrap().len(), 10);
    let status = push(&mut decoder, Bytes::copy_from_slice(&prefix(11, false).unwrap())).unwrap_err();
    assert_eq!((status.code(), status.origin()), (Code::ResourceExhausted, Origin::Local));
    assert_eq!(status.message(), "received message of 11 bytes exceeds max_recv_message of 10 bytes");
    assert_eq!(decoder.buffered(), 0);
    push(&mut decoder, Bytes::from(vec![0; 11])).unwrap();
    assert_eq!((decoder.buffered(), decoder.is_ready()), (0, false), "later input is dropped");

    let status = push(&mut plain(LIMIT), Bytes::from_static(b"\0\x80\0\0\0")).unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("2147483648"), "{status}");
}

/// tri:32
#[test]
fn messages_in_front_of_a_fault_are_kept() {
    let mut input = body(&[b"one", b"two"]);
    input.extend_from_slice(b"\x02\0\0\0\x01x");
    for cut in 0..=input.len() {
        let mut decoder = plain(LIMIT);
        feed(&mut decoder, &input, &[cut]).unwrap_err();
        assert_eq!(drain(&mut decoder), [b"one", b"two"], "cut at {cut}");
    }
}

/// tri:11 tri:12
#[test]
fn an_end_inside_a_message_is_seen() {
    let input = body(&[b"one", b"two"]);
    for len in 0..=input.len() {
        let mut decoder = plain(LIMIT);
        push(&mut decoder, Bytes::copy_from_slice(&input[..len])).unwrap();
        assert_eq!(decoder.is_partial(), ![0, 8, 16].contains(&len), "{len}");
    }
}

/// arch:8: what a window reservation is made of.
#[test]
fn need_counts_what_is_missing_of_the_message_at_the_front() {
    let mut decoder = plain(LIMIT);
    let input = Bytes::from(body(&[&[0; 10], &[0; 5000]]));
    push(&mut decoder, input.slice(..4)).unwrap();
    assert_eq!(decoder.need(), 0);
    push(&mut decoder, input.slice(4..6)).unwrap();
    assert_eq!(decoder.need(), 9);
    push(&mut decoder, input.slice(6..30)).unwrap();
    assert_eq!((decoder.need(), decoder.is_ready()), (0, true));
    pull(&mut decoder).unwrap();
    assert_eq!((decoder.need(), decoder.buffered()), (5000 - 10, 15));
    push(&mut decoder, input.slice(30..)).unwrap();
    assert_eq!((decoder.need(), decoder.is_ready()), (0, true));
    decoder.discard();
    assert_eq!((decoder.need(), decoder.is_ready(), decoder.buffered()), (0, false, 0));
}

/// tri:17 tri:19
#[test]
fn a_prefix_has_flags_zero_or_one_and_a_big_endian_length() {
    assert_eq!(prefix(7, false), Some([0, 0, 0, 0, 7]));
    assert_eq!(prefix(27, true), Some([1, 0, 0, 0, 27]));
    assert_eq!(prefix(0, true), Some([0; 5]));
    assert_eq!(prefix(u32::MAX as usize, false), Some([0, 255, 255, 255, 255]));
    // Where addresses have 32 bits, no message is too long for the field.
    if let Some(too_long) = (u32::MAX as usize).checked_add(1) {
        assert_eq!(prefix(too_long, false), None);
    }
}

/// A parser that has the whole body at once: the messages, whether it ends between two, and the code it fails with.
fn parse(mut body: &[u8], limit: usize) -> (Vec<Vec<u8>>, bool, Option<Code>) {
    let mut messages = Vec::new();
    loop {
        let Some((&[flags, a, b, c, d], rest)) = body.split_first_chunk() else {
            return (messages, body.is_empty(), None);
        };
        let len = u32::from_be_bytes([a, b, c, d]) as usize;
        if flags > 0 {
            return (messages, true, Some(Code::Internal));
        }
        if len > limit {
            return (messages, true, Some(Code::ResourceExhausted));
        }
        let Some((message, rest)) = rest.split_at_checked(len) else { return (messages, false, None) };
        messages.push(message.to_vec());
        body = rest;
    }
}

/// tri:1: also where the middle of a message is copied to its place.
#[test]
fn any_body_in_any_split_agrees_with_a_plain_parser() {
    fn agrees(input: Vec<Vec<u8>>, noise: Vec<u8>, cuts: Vec<usize>, pull_early: bool, in_place: bool) -> bool {
        let messages: Vec<&[u8]> = input.iter().map(Vec::as_slice).collect();
        let body = [body(&messages), noise].concat();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (body.len() + 1)).collect();
        cuts.sort_unstable();
        let mut decoder = plain(64);
        let (mut seen, mut fault) = (Vec::new(), None);
        let mut start = 0;
        for &end in cuts.iter().chain([&body.len()]) {
            let piece = Bytes::copy_from_slice(&body[start..end]);
            if in_place && decoder.extend(&piece, &mut Landing::alone(&mut BufferPool::new(0))) {
                // Taken.
            } else if let Err(status) = push(&mut decoder, piece) {
                fault = Some(status.code());
            }
            start = end;
            if pull_early {
                seen.append(&mut drain(&mut decoder));
            }
        }
        seen.append(&mut drain(&mut decoder));
        let (expected, is_whole, code) = parse(&body, 64);
        seen == expected && fault == code && (fault.is_some() || decoder.is_partial() != is_whole)
    }
    quickcheck::quickcheck(agrees as fn(Vec<Vec<u8>>, Vec<u8>, Vec<usize>, bool, bool) -> bool);
}
