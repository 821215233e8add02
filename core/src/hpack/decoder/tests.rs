use alloc::string::String;
use alloc::vec::Vec;

use bytes::BytesMut;

use super::super::tests::{NO_LIMITS, decode, encode, field};
use super::super::{DEFAULT_TABLE_SIZE, Encoder};
use super::*;

fn hex(text: &str) -> Bytes {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    assert_eq!(digits.len() % 2, 0, "{text}");
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn decoder() -> Decoder {
    Decoder::new(DEFAULT_TABLE_SIZE)
}

/// The fields of a block as `name: value` lines.
fn lines(decoder: &mut Decoder, block: &str) -> Result<String, DecodeError> {
    let fields = decode(decoder, &hex(block))?;
    let lines: Vec<_> = fields.iter().map(|f| alloc::format!("{}: {}", f.name, f.value.escape_ascii())).collect();
    Ok(lines.join("\n"))
}

fn table(decoder: &Decoder) -> (usize, usize) {
    (decoder.table.size(), (0..).map_while(|i| decoder.table.entry(i)).count())
}

/// `h2:K1`: RFC 7541 Appendix C.2.
#[test]
fn single_fields_of_the_rfc_decode() {
    for (block, line, after) in [
        ("400a637573746f6d2d6b65790d637573746f6d2d686561646572", "custom-key: custom-header", (55, 1)),
        ("040c2f73616d706c652f70617468", ":path: /sample/path", (0, 0)),
        ("100870617373776f726406736563726574", "password: secret", (0, 0)),
        ("82", ":method: GET", (0, 0)),
    ] {
        let mut decoder = decoder();
        assert_eq!(lines(&mut decoder, block).as_deref(), Ok(line));
        assert_eq!(table(&decoder), after);
    }
    let mut decoder = decoder();
    let secret = decode(&mut decoder, &hex("100870617373776f726406736563726574")).unwrap();
    assert!(secret[0].sensitive, "h2:K9");
}

/// RFC 7541 Appendices C.3 (plain) and C.4 (Huffman), one connection each.
#[test]
fn requests_of_the_rfc_decode() {
    let blocks = [
        ["828684410f7777772e6578616d706c652e636f6d", "828684418cf1e3c2e5f23a6ba0ab90f4ff"],
        ["828684be58086e6f2d6361636865", "828684be5886a8eb10649cbf"],
        [
            "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
            "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
        ],
    ];
    let expected = [
        (":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com", (57, 1)),
        (":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache", (110, 2)),
        (
            ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value",
            (164, 3),
        ),
    ];
    for form in [0, 1] {
        let mut decoder = decoder();
        for (block, (fields, after)) in blocks.iter().zip(expected) {
            assert_eq!(lines(&mut decoder, block[form]).as_deref(), Ok(fields));
            assert_eq!(table(&decoder), after);
        }
    }
}

/// RFC 7541 Appendices C.5 (plain) and C.6 (Huffman), with a table of 256 bytes that evicts.
#[test]
fn responses_of_the_rfc_decode() {
    let blocks = [
        [
            "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d54\
             6e1768747470733a2f2f7777772e6578616d706c652e636f6d",
            "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff\
             6e919d29ad171863c78f0b97c8e9ae82ae43d3",
        ],
        ["4803333037c1c0bf", "4883640effc1c0bf"],
        [
            "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d\
             4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31",
            "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960\
             d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
        ],
    ];
    let date = "date: Mon, 21 Oct 2013 20:13:2";
    let rest = "location: https://www.example.com";
    let expected = [
        (alloc::format!(":status: 302\ncache-control: private\n{date}1 GMT\n{rest}"), (222, 4)),
        (alloc::format!(":status: 307\ncache-control: private\n{date}1 GMT\n{rest}"), (222, 4)),
        (
            alloc::format!(
                ":status: 200\ncache-control: private\n{date}2 GMT\n{rest}\ncontent-encoding: gzip\n\
                 set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"
            ),
            (215, 3),
        ),
    ];
    for form in [0, 1] {
        let mut decoder = Decoder::new(256);
        for (block, (fields, after)) in blocks.iter().zip(&expected) {
            assert_eq!(lines(&mut decoder, block[form]).as_ref(), Ok(fields));
            assert_eq!(table(&decoder), *after);
        }
    }
}

/// `h2:K2`, `h2:K3`, `h2:K4`, `h2:K5`: blocks that are no HPACK, each on a fresh decoder.
#[test]
fn broken_blocks_are_errors() {
    for (block, error) in [
        ("80", DecodeError::Index),
        ("be", DecodeError::Index),
        ("7e00", DecodeError::Index),
        ("0f3000", DecodeError::Index),
        ("3fe21f", DecodeError::SizeUpdate),
        ("8220", DecodeError::SizeUpdate),
        ("202020", DecodeError::SizeUpdate),
        ("3f6120be", DecodeError::Index),
        ("ffffffffff0f", DecodeError::Integer),
        ("ff8080808080", DecodeError::Integer),
        ("3f", DecodeError::Truncated),
        ("40", DecodeError::Truncated),
        ("4001", DecodeError::Truncated),
        ("400161", DecodeError::Truncated),
        ("008207ff0161", DecodeError::Huffman),
        ("0081000161", DecodeError::Huffman),
        ("0084ffffffff00", DecodeError::Huffman),
        ("4001617f81ffff3f", DecodeError::Truncated),
        ("400161ff81ffff3f", DecodeError::Truncated),
        ("3f0940016109414141414141414141be", DecodeError::Index),
    ] {
        let mut decoder = decoder();
        assert_eq!(lines(&mut decoder, block), Err(error), "{block}");
        assert_eq!(lines(&mut decoder, "82"), Err(DecodeError::Poisoned), "h2:K11, {block}");
    }
}

/// `h2:K5`, `h2:K8`, `h2:K10`: blocks that look odd and are legal.
#[test]
fn odd_blocks_are_legal() {
    for (block, fields) in [
        ("", ""),
        ("20", ""),
        ("3fe11f82", ":method: GET"),
        ("203fe11f82", ":method: GET"),
        ("3f613fe11f82", ":method: GET"),
        ("0083028a7f0161", "0  : a"),
        ("008200ff0161", "0a: a"),
        ("008080", ": "),
        ("000000", ": "),
        ("1001610162", "a: b"),
        ("3f094001610941414141414141414182", "a: AAAAAAAAA\n:method: GET"),
    ] {
        assert_eq!(lines(&mut decoder(), block).as_deref(), Ok(fields), "{block}");
    }
}

/// `h2:K6`, `h2:K7`: the name of a field that its own insertion evicts.
#[test]
fn insertion_evicts_first_even_the_name_it_refers_to() {
    let mut decoder = decoder();
    assert_eq!(
        lines(&mut decoder, "3f2140046162636404313233344004616263640431323334").unwrap(),
        "abcd: 1234\nabcd: 1234"
    );
    assert_eq!(table(&decoder), (40, 1));
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    assert_eq!(lines(&mut decoder, "3f09400761626364656667007e0178").unwrap(), "abcdefg: \nabcdefg: x");
    assert_eq!(table(&decoder), (40, 1));
    assert_eq!(lines(&mut decoder, "be").unwrap(), "abcdefg: x");
}

/// A block cut anywhere is an error or a shorter list, never a panic.
#[test]
fn a_block_cut_anywhere_is_truncated_or_shorter() {
    let whole = hex(
        "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
    );
    let fields = decode(&mut decoder(), &whole).unwrap();
    for len in 0..whole.len() {
        match decode(&mut decoder(), &whole.slice(..len)) {
            Ok(part) => assert_eq!(part, fields[..part.len()], "{len} octets"),
            Err(error) => assert_eq!(error, DecodeError::Truncated, "{len} octets"),
        }
    }
}

/// `h2:L1`, `h2:L2`, `h2:P5`: beyond the limits fields are dropped, and the table still follows.
#[test]
fn a_list_above_the_limits_is_cut_and_the_table_stays_in_step() {
    let block = hex("40016101314001620132400163013340016401348282"); // a: 1 … d: 4, then :method: GET twice
    let (whole, four) = (34 * 4 + 42 * 2, 34 * 4);
    for (limits, emitted) in [
        (ListLimits { bytes: whole, fields: 6 }, 6),
        (ListLimits { bytes: whole - 1, fields: 6 }, 5),
        (ListLimits { bytes: four, fields: 6 }, 4),
        (ListLimits { bytes: four - 1, fields: 6 }, 3),
        (ListLimits { bytes: whole, fields: 2 }, 2),
    ] {
        let mut decoder = decoder();
        let mut fields = Vec::new();
        let size = decoder.decode(&block, limits, &mut |field| fields.push(field)).unwrap();
        assert_eq!(fields.len(), emitted, "{limits:?}");
        assert_eq!(size, ListSize { bytes: whole, fields: 6 });
        assert_eq!(size.is_within(limits), emitted == 6);
        assert_eq!(lines(&mut decoder, "c1c0bfbe").unwrap(), "a: 1\nb: 2\nc: 3\nd: 4");
    }
}

/// `h2:L3`, `h2:A7`, `h2:A9`, `h2:A10`: references to one entry, large or empty, end at four times
/// the limits, and what was emitted is within them.
#[test]
fn a_header_bomb_ends_at_four_times_the_limits() {
    let limits = ListLimits { bytes: 32 * 1024, fields: 128 };
    let large = [&hex("40016a7fa11e")[..], &[b'x'; 4000]].concat(); // j: 4000 octets
    for (insert, code) in [(&large[..], DecodeError::TooLarge), (&hex("40016100")[..], DecodeError::TooLarge)] {
        let mut decoder = decoder();
        let block: Bytes = insert.iter().copied().chain([0xbe; 16_000]).collect();
        let (mut bytes, mut fields) = (0, 0);
        let result = decoder.decode(&block, limits, &mut |field| {
            bytes += field.list_size();
            fields += 1;
        });
        assert_eq!(result, Err(code));
        assert_eq!(code.code(), crate::ErrorCode::ENHANCE_YOUR_CALM);
        assert!(bytes <= limits.bytes && fields <= limits.fields, "{bytes} bytes, {fields} fields");
        assert_eq!(decode(&mut decoder, &hex("82")), Err(DecodeError::Poisoned));
    }
}

/// `h2:L3`: four times the limits is the last list that passes, in fields and in bytes.
#[test]
fn a_list_of_exactly_four_times_the_limits_passes() {
    let list = |fields: usize| -> Bytes { core::iter::repeat_n(0x82, fields).collect() }; // 42 bytes each
    for limits in [ListLimits { bytes: usize::MAX, fields: 10 }, ListLimits { bytes: 420, fields: usize::MAX }] {
        let size = decoder().decode(&list(40), limits, &mut |_| {}).unwrap();
        assert_eq!(size, ListSize { bytes: 40 * 42, fields: 40 });
        assert_eq!(decoder().decode(&list(41), limits, &mut |_| {}), Err(DecodeError::TooLarge));
    }
}

/// `h2:A14`: two updates may begin a block.
#[test]
fn a_third_size_update_is_an_error() {
    assert_eq!(lines(&mut decoder(), "2020").as_deref(), Ok(""));
    assert_eq!(lines(&mut decoder(), "202020"), Err(DecodeError::SizeUpdate));
}

/// RFC 9113 §4.3.1 and `h2:B25`: a limit below what the peer uses must be confirmed by the next
/// block, and only such a limit.
#[test]
fn a_lowered_limit_demands_an_update() {
    let lowered = |sizes: &[u32]| {
        let mut decoder = decoder();
        assert!(lines(&mut decoder, "4001610131").is_ok());
        for &size in sizes {
            decoder.set_max_table_size(size);
        }
        decoder
    };
    assert_eq!(lines(&mut lowered(&[256]), "be"), Err(DecodeError::SizeUpdateMissing));
    assert_eq!(lines(&mut lowered(&[256]), ""), Err(DecodeError::SizeUpdateMissing));
    assert_eq!(lines(&mut lowered(&[256]), "3fe101be").as_deref(), Ok("a: 1"), "to the limit");
    assert_eq!(lines(&mut lowered(&[256]), "3ebe"), Err(DecodeError::Index), "to less, which evicts");
    assert_eq!(lines(&mut lowered(&[256]), "3fe201be"), Err(DecodeError::SizeUpdate), "one above it");
    assert_eq!(lines(&mut lowered(&[0]), "20be"), Err(DecodeError::Index), "nothing survives zero");
    assert_eq!(lines(&mut lowered(&[0, 4096]), "be"), Err(DecodeError::SizeUpdateMissing), "the smallest counts");
    assert_eq!(lines(&mut lowered(&[0, 4096]), "3fe11fbe"), Err(DecodeError::SizeUpdateMissing));
    assert_eq!(lines(&mut lowered(&[0, 256]), "3fe101be"), Err(DecodeError::SizeUpdateMissing));
    assert_eq!(lines(&mut lowered(&[0, 4096]), "203fe11f82").as_deref(), Ok(":method: GET"));
    assert_eq!(lines(&mut lowered(&[4096]), "be").as_deref(), Ok("a: 1"), "equal is not lower");
    assert_eq!(lines(&mut lowered(&[8192]), "3fe13fbe").as_deref(), Ok("a: 1"), "raised");
    assert_eq!(lines(&mut lowered(&[8192, 4096]), "be").as_deref(), Ok("a: 1"), "back before anyone used it");

    let mut decoder = lowered(&[]);
    assert_eq!(lines(&mut decoder, "3fe101be").as_deref(), Ok("a: 1"), "the peer chose 256 itself");
    decoder.set_max_table_size(300);
    assert_eq!(lines(&mut decoder, "be").as_deref(), Ok("a: 1"), "which is below the new limit");
}

/// `arch:4`, `h2:E5`: nothing that is kept, in the table or in a field, keeps the block alive, which is a slice of a
/// receive window.
#[test]
fn fields_and_the_table_hold_copies() {
    let block = hex("0003782d610362626240 03782d62 03636363"); // x-a: bbb not indexed, x-b: ccc indexed
    let mut decoder = decoder();
    let fields = decode(&mut decoder, &block).unwrap();
    let is_within = |value: &[u8]| block.as_ptr_range().contains(&value.as_ptr());
    assert_eq!(fields, [field("x-a", "bbb"), field("x-b", "ccc")]);
    for field in &fields {
        assert!(!is_within(&field.value) && !is_within(field.name.as_bytes()));
    }
    assert!(block.try_into_mut().is_ok(), "nothing holds the block");
    assert_eq!(lines(&mut decoder, "be").as_deref(), Ok("x-b: ccc"));
}

/// Strings share small allocations that are used again once they are free.
#[test]
fn strings_reuse_their_memory() {
    let mut decoder = decoder();
    let block = hex("008825a849e95ba97d7f8925a849e95bb8e8b4bf"); // custom-key: custom-value, not indexed
    let first = decode(&mut decoder, &block).unwrap();
    let start = first[0].name.as_bytes().as_ptr();
    drop(first);
    let mut seen = 0;
    for _ in 0..200 {
        let fields = decode(&mut decoder, &block).unwrap();
        seen += usize::from(fields[0].name.as_bytes().as_ptr() == start);
    }
    assert!(seen >= 3, "the same memory again and again, not {seen} times of 200");
}

/// A Huffman string too large for the shared memory, and one at its edge.
#[test]
fn long_huffman_strings_decode() {
    for len in [600, 640, 1000, 5000] {
        let text = alloc::vec![b'a'; len];
        let mut block = BytesMut::from(&[0x00, 0x01, b'x'][..]);
        integer::encode(huffman::encoded_len(&text), 7, 0x80, &mut block);
        huffman::encode(&text, &mut block);
        assert_eq!(decode(&mut decoder(), &block.freeze()).unwrap(), [field("x", text)]);
    }
}

/// `h2:K11`: a callback that unwinds leaves a decoder that refuses, not one that is out of step.
#[test]
#[cfg(panic = "unwind")]
fn an_unwinding_callback_poisons_the_decoder() {
    let mut decoder = decoder();
    let result = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        let _ = decoder.decode(&hex("82400161013182"), NO_LIMITS, &mut |_| panic!("on purpose"));
    }));
    assert!(result.is_err());
    assert_eq!(lines(&mut decoder, "82"), Err(DecodeError::Poisoned));
}

/// What a later block means may change by an insertion, an update and a new limit, and by nothing else.
#[test]
fn the_generation_rises_with_the_tables() {
    let mut decoder = decoder();
    let mut after = |block: &str| {
        let before = decoder.generation();
        lines(&mut decoder, block).unwrap();
        decoder.generation() > before
    };
    assert!(after("4001610131"), "inserted");
    assert!(!after("be"));
    assert!(!after("82"));
    assert!(!after("0001610132"), "not indexed");
    assert!(!after("1001610132"), "never indexed");
    assert!(after("4001610131"), "inserted again");
    assert!(after("3fe11f82"), "an update, even to the same size");
    let before = decoder.generation();
    decoder.set_max_table_size(DEFAULT_TABLE_SIZE - 1);
    assert!(decoder.generation() > before);
}

/// G15: long strings that come again and again take no new memory, and one that is out of the ordinary leaves none behind.
#[test]
fn room_for_long_strings_is_kept_up_to_a_limit() {
    let block = |len: usize| {
        let mut encoder = Encoder::new(0);
        let value = Bytes::from(alloc::vec![b'a'; len]);
        encode(&mut encoder, &[Field { name: HeaderName::COOKIE, value, sensitive: false }])
    };
    let mut decoder = decoder();
    for (len, kept) in [(2000, true), (2000, true), (2 * KEPT_ROOM, false), (2000, true)] {
        assert_eq!(decode(&mut decoder, &block(len)).expect("a valid block")[0].value.len(), len);
        assert_eq!((2000..=KEPT_ROOM).contains(&decoder.decoded.len()), kept, "{len}");
    }
    decoder.release_idle();
    assert_eq!(decoder.decoded.capacity(), 0);
}
