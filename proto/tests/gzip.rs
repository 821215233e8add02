//! Gzip, byte for byte against flate2 and against what is wrong.
#![cfg(feature = "gzip")]

use std::io::{Read, Write};

use bytes::{Buf, Bytes, BytesMut};
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use flate2::{Compression as Level, GzBuilder};
use quickcheck::QuickCheck;
use trirpc_core::buf::MessageBuf;
use trirpc_core::call::{Compression, DecompressError};
use trirpc_proto::Gzip;

const LIMIT: usize = 1 << 20;

/// The message as chunks that end where `cuts` say, in separate memory each.
fn rope(message: &[u8], cuts: &[usize]) -> MessageBuf {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (message.len() + 1)).collect();
    cuts.extend([0, message.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|ends| Bytes::copy_from_slice(&message[ends[0]..ends[1]])).collect()
}

fn ours(gzip: &Gzip, message: &[u8], cuts: &[usize]) -> Vec<u8> {
    let (mut src, mut dst) = (rope(message, cuts), BytesMut::from(&b"before"[..]));
    gzip.compress(&mut src, &mut dst).expect("compressed");
    assert_eq!(src.remaining(), 0);
    dst.strip_prefix(b"before").expect("what was there stays").to_vec()
}

fn theirs(message: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Level::default());
    encoder.write_all(message).expect("written");
    encoder.finish().expect("finished")
}

fn inflate(data: &[u8], cuts: &[usize], limit: usize) -> Result<Vec<u8>, DecompressError> {
    let (mut src, mut dst) = (rope(data, cuts), BytesMut::from(&b"before"[..]));
    Gzip::new().decompress(&mut src, &mut dst, limit)?;
    assert_eq!(src.remaining(), 0);
    Ok(dst.strip_prefix(b"before").expect("what was there stays").to_vec())
}

fn inflate_theirs(data: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    MultiGzDecoder::new(data).read_to_end(&mut out)?;
    Ok(out)
}

/// Text that compresses, with matches near and far.
fn text(len: usize) -> Vec<u8> {
    (0_u32..)
        .flat_map(|i| format!("{} and {};", i % 97, i.wrapping_mul(2_654_435_761) % 1013).into_bytes())
        .take(len)
        .collect()
}

/// Octets that do not compress.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

fn malformed(result: Result<Vec<u8>, DecompressError>) -> String {
    match result {
        Err(DecompressError::Malformed(error)) => error.message().to_owned(),
        other => panic!("{:?}", other.map(|content| content.len())),
    }
}

#[test]
fn what_one_side_compresses_the_other_inflates_whatever_the_chunks() {
    fn property(message: Vec<u8>, cuts: Vec<usize>) -> bool {
        let ours = ours(&Gzip::new(), &message, &cuts);
        inflate_theirs(&ours).expect("theirs reads ours") == message
            && inflate(&ours, &cuts, LIMIT).expect("ours reads ours") == message
            && inflate(&theirs(&message), &cuts, LIMIT).expect("ours reads theirs") == message
    }
    QuickCheck::new().tests(300).quickcheck(property as fn(Vec<u8>, Vec<usize>) -> bool);
    for message in [text(0), text(1), text(100_000), noise(100_000), vec![0; 300_000]] {
        assert!(property(message, vec![7, 70_000, 70_001, 90_000]));
    }
}

/// Level 0 of flate2 makes stored blocks, 9 the longest matches.
#[test]
fn every_level_is_read_and_every_level_of_ours_is_read_by_others() {
    let message = text(50_000);
    let mut sizes = Vec::new();
    for level in 0..=10 {
        let mut encoder = GzEncoder::new(Vec::new(), Level::new(level.min(9)));
        encoder.write_all(&message).expect("written");
        assert_eq!(inflate(&encoder.finish().expect("finished"), &[], LIMIT).expect("valid"), message);
        let ours = ours(&Gzip::with_level(level as u8), &message, &[]);
        assert_eq!(inflate_theirs(&ours).expect("valid"), message, "level {level}");
        sizes.push(ours.len());
    }
    assert!(sizes[0] > message.len() && sizes[1] < message.len() / 2 && sizes[9] < sizes[1], "{sizes:?}");
    assert_eq!(sizes[10], sizes[9]);
}

/// Machines are used again, also after a message that failed.
#[test]
fn a_message_leaves_no_trace_in_the_next_one() {
    let gzip = Gzip::new();
    let first = ours(&gzip, &text(5000), &[]);
    ours(&gzip, &noise(70_000), &[]);
    assert_eq!(ours(&gzip, &text(5000), &[]), first);
    for cut in 0..first.len() {
        let mut dst = BytesMut::new();
        gzip.decompress(&mut &first[..cut], &mut dst, LIMIT).expect_err("cut short");
        dst.clear();
        gzip.decompress(&mut &first[..], &mut dst, LIMIT).expect("whole");
        assert_eq!(dst, text(5000));
    }
}

/// tri:14 — at every growth of the output, and with several members.
#[test]
fn the_limit_is_exact() {
    for len in [0, 1, 511, 512, 513, 4096, 65_536, 100_000] {
        for message in [text(len), noise(len), vec![b'a'; len]] {
            let data = theirs(&message);
            let two = [data.clone(), data.clone()].concat();
            for cuts in [&[][..], &[data.len() / 2]] {
                assert_eq!(inflate(&data, cuts, len).expect("fits"), message);
                assert_eq!(inflate(&two, cuts, 2 * len).expect("fits").len(), 2 * len);
                if len > 0 {
                    assert_eq!(inflate(&data, cuts, len - 1), Err(DecompressError::TooLarge), "{len}");
                    assert_eq!(inflate(&two, cuts, 2 * len - 1), Err(DecompressError::TooLarge), "{len}");
                }
            }
        }
    }
}

/// tri:14
#[test]
fn a_bomb_and_a_lie_about_the_length_take_no_more_memory_than_allowed() {
    let mut bomb = theirs(&vec![0; 50_000_000]);
    let at = bomb.len() - 4;
    for claim in [50_000_000_u32, u32::MAX, 0] {
        bomb[at..].copy_from_slice(&claim.to_le_bytes());
        let mut dst = BytesMut::new();
        assert_eq!(Gzip::new().decompress(&mut &bomb[..], &mut dst, 10_000), Err(DecompressError::TooLarge));
        assert!(dst.capacity() < 50_000, "{}", dst.capacity());
    }
    // A short message cannot claim room for a long one.
    let mut short = theirs(b"abc");
    let at = short.len() - 4;
    short[at..].copy_from_slice(&[0xff, 0xff, 0xff, 0x7f]);
    let mut dst = BytesMut::new();
    assert!(Gzip::new().decompress(&mut &short[..], &mut dst, usize::MAX).is_err());
    assert!(dst.capacity() < 100_000, "{}", dst.capacity());
}

/// tri:172
#[test]
fn several_members_are_one_message_and_anything_behind_them_is_refused() {
    let (one, two) = (theirs(b"one "), theirs(b"two"));
    let both = [one.clone(), theirs(b""), two].concat();
    for cut in 0..both.len() {
        assert_eq!(inflate(&both, &[cut], LIMIT).expect("valid"), b"one two");
    }
    for garbage in [&[0][..], &[0; 100], b"garbage behind it", &[0x1f], &[0x1f, 0x8b], &one[..9]] {
        malformed(inflate(&[&one, garbage].concat(), &[], LIMIT));
    }
}

/// tri:15 tri:16
#[test]
fn data_that_is_cut_short_or_damaged_is_refused() {
    let data = theirs(&text(3000));
    assert_eq!(malformed(inflate(b"", &[], LIMIT)), "gzip data ends early");
    for cut in 0..data.len() {
        assert_eq!(malformed(inflate(&data[..cut], &[cut / 2], LIMIT)), "gzip data ends early", "{cut}");
    }
    assert_eq!(malformed(inflate(b"plain text, not compressed", &[], LIMIT)), "no gzip data");
    let at = data.len() - 8;
    for (at, text) in [(at, "wrong checksum of gzip data"), (at + 4, "wrong length of gzip data")] {
        let mut damaged = data.clone();
        damaged[at] ^= 1;
        assert_eq!(malformed(inflate(&damaged, &[], LIMIT)), text);
    }
    let mut damaged = data.clone();
    damaged[10] |= 0b110; // the reserved kind of block
    assert_eq!(malformed(inflate(&damaged, &[], LIMIT)), "damaged gzip data");
}

/// Every single damaged bit, and every pair of what is read against what flate2 reads.
#[test]
fn damaged_data_is_judged_as_others_judge_it() {
    let data = theirs(&text(200));
    for bit in 0..data.len() * 8 {
        let mut damaged = data.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let (ours, theirs) = (inflate(&damaged, &[bit], LIMIT), inflate_theirs(&damaged));
        if bit / 8 == 3 && (bit % 8) >= 5 {
            assert_eq!(malformed(ours), format!("unknown flags 0x{:02x} in a gzip header", damaged[3]));
        } else {
            assert_eq!(ours.ok(), theirs.ok(), "bit {bit}");
        }
    }
    fn property(data: Vec<u8>, cuts: Vec<usize>) -> bool {
        let data = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0], &data[..]].concat();
        inflate(&data, &cuts, LIMIT).ok() == inflate_theirs(&data).ok()
    }
    QuickCheck::new().tests(2000).quickcheck(property as fn(Vec<u8>, Vec<usize>) -> bool);
}

#[test]
fn every_optional_field_of_a_header_is_read_over() {
    let mut encoder = GzBuilder::new()
        .filename("a name")
        .comment("a comment")
        .extra(vec![9; 300])
        .mtime(1_700_000_000)
        .write(Vec::new(), Level::fast());
    encoder.write_all(b"content").expect("written");
    let data = encoder.finish().expect("finished");
    for cut in 0..data.len() {
        assert_eq!(inflate(&data, &[cut], LIMIT).expect("valid"), b"content");
        malformed(inflate(&data[..cut], &[], LIMIT));
    }
    // A checksum of the header: CRC-16 is the low half of CRC-32 (RFC 1952, section 2.3.1).
    let plain = theirs(b"content");
    let mut head = plain[..10].to_vec();
    head[3] |= 0x02;
    let mut checksum = flate2::Crc::new();
    checksum.update(&head);
    let sum = checksum.sum() as u16;
    for (sum, is_right) in [(sum, true), (sum ^ 1, false)] {
        let data = [&head, &sum.to_le_bytes()[..], &plain[10..]].concat();
        match inflate(&data, &[], LIMIT) {
            Ok(content) => assert!(is_right && content == b"content"),
            other => assert_eq!((malformed(other).as_str(), is_right), ("wrong checksum of a gzip header", false)),
        }
    }
}

/// What Go's encoder made of two messages: with a sync block behind the data, and an empty one (tri:Q68).
#[test]
fn messages_of_go_peers_are_read() {
    let hello = [
        0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xe3, 0x62, 0x2d, 0xcf, 0x2f, 0xca, 0x49, 0x01,
        0x00, 0xdd, 0xf7, 0x84, 0x95, 0x07, 0x00, 0x00, 0x00,
    ];
    assert_eq!(inflate(&hello, &[], LIMIT).expect("valid"), b"\x0a\x05world");
    let trailer_block = [
        0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0x4a, 0x2f, 0x2a, 0x48, 0xd6, 0x2d, 0x2e, 0x49,
        0x2c, 0x29, 0x2d, 0xb6, 0x52, 0x30, 0xe0, 0xe5, 0x02, 0x04, 0x00, 0x00, 0xff, 0xff, 0xfd, 0x6c, 0x24, 0xab,
        0x10, 0x00, 0x00, 0x00,
    ];
    assert_eq!(inflate(&trailer_block, &[], LIMIT).expect("valid"), b"grpc-status: 0\r\n");
    let empty = [
        0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0x01, 0x00, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00,
    ];
    assert_eq!(inflate(&empty, &[], 0).expect("valid"), b"");
}
