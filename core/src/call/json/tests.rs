use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::*;

/// A text is one value and nothing else.
fn valid(text: &[u8]) -> bool {
    let mut reader = Reader::new(text);
    reader.skip().is_ok() && reader.end().is_ok()
}

fn string(text: &str) -> Result<String, Malformed> {
    let mut reader = Reader::new(text.as_bytes());
    let string = reader.string()?;
    reader.end().map(|()| string)
}

#[test]
fn every_kind_of_value_is_passed_over() {
    for text in [
        "{}",
        "[]",
        "null",
        "true",
        "false",
        "0",
        "-0",
        "1.5",
        "1e9",
        "1E+9",
        "-1.25e-3",
        "\"\"",
        " [ 1 , 2 ] ",
        "{\"a\":{\"b\":[null,{}]},\"c\":\"\\u0041\\n\"}",
        "\t{\"a\" : 1}\r\n",
        "[[[]]]",
    ] {
        assert!(valid(text.as_bytes()), "{text}");
    }
}

#[test]
fn what_is_not_json_is_malformed() {
    for text in [
        "",
        " ",
        "{",
        "}",
        "[",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "nul",
        "nullx",
        "True",
        "01",
        "-",
        "+1",
        "1.",
        ".5",
        "1e",
        "1e+",
        "0x10",
        "1 2",
        "\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"a\nb\"",
        "'a'",
        "{} {}",
        "[1}",
        "NaN",
        "\u{feff}{}",
    ] {
        assert!(!valid(text.as_bytes()), "{text}");
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat();
    assert!(valid(nested(usize::from(MAX_DEPTH)).as_bytes()));
    assert!(!valid(nested(usize::from(MAX_DEPTH) + 1).as_bytes()));
    assert!(!valid(&vec![b'['; 1_000_000]));
    assert!(!valid("{\"a\":".repeat(1_000_000).as_bytes()));
    // Depth is of nesting, not of lists.
    assert!(valid(format!("[{}]", vec!["[]"; 100].join(",")).as_bytes()));
}

#[test]
fn escapes_are_undone_and_broken_surrogates_replaced() {
    let cases = [
        (r#""a\"\\\/\b\f\n\r\t""#, "a\"\\/\u{8}\u{c}\n\r\t"),
        (r#""\u00e9\u20AC\uD83D\uDE00""#, "é€😀"),
        (r#""\ud83d""#, "\u{fffd}"),
        (r#""\ud83dx""#, "\u{fffd}x"),
        (r#""\ud83d\u0041""#, "\u{fffd}A"),
        (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
        ("\"é€😀\"", "é€😀"),
    ];
    for (text, expected) in cases {
        assert_eq!(string(text).as_deref(), Ok(expected), "{text}");
    }
    assert_eq!(Reader::new(b"\"a\xffb\"").string().as_deref(), Ok("a\u{fffd}b"));
}

#[test]
fn only_small_whole_numbers_have_a_value() {
    let number = |text: &str| Reader::new(text.as_bytes()).number();
    assert_eq!((number("0"), number("4294967295")), (Ok(Some(0)), Ok(Some(u32::MAX))));
    for text in ["-1", "1.0", "1e1", "4294967296", "999999999999999999999999"] {
        assert_eq!(number(text), Ok(None), "{text}");
    }
}

#[test]
fn members_and_items_come_in_order() {
    let mut seen: Vec<String> = Vec::new();
    let mut reader = Reader::new(br#" {"a":[1,"x"],"b":{"c":null},"a":3} "#);
    let read = reader.object(&mut |key, reader| {
        seen.push(key.to_string());
        match reader.kind() {
            Kind::Array => reader.array(&mut |item| item.skip()),
            _ => reader.skip(),
        }
    });
    assert_eq!((read, reader.end()), (Ok(()), Ok(())));
    assert_eq!(seen, ["a", "b", "a"]);
    // A callback that leaves its value where it is breaks the object, not the reader.
    assert_eq!(Reader::new(b"{\"a\":1}").object(&mut |_, _| Ok(())), Err(Malformed));
    assert_eq!(Reader::new(b"[]").object(&mut |_, _| Ok(())), Err(Malformed));
}

#[test]
fn any_text_comes_back() {
    fn round_trip(text: String) -> bool {
        let mut out = Vec::new();
        write_string(&text, &mut out);
        // JSON in a log must not break lines.
        Reader::new(&out).string().as_deref() == Ok(&text) && out.iter().all(|&octet| octet >= b' ')
    }
    quickcheck::quickcheck(round_trip as fn(String) -> bool);
    let mut out = Vec::new();
    write_string("a\"b\\c\nd\u{1}é\u{7f}", &mut out);
    assert_eq!(out, "\"a\\\"b\\\\c\\nd\\u0001é\\u007f\"".as_bytes());
}

#[test]
fn any_octets_are_read_to_an_end() {
    fn ends(octets: Vec<u8>) -> bool {
        let mut reader = Reader::new(&octets);
        drop((reader.kind(), reader.skip(), reader.string(), reader.number(), reader.end()));
        true
    }
    quickcheck::quickcheck(ends as fn(Vec<u8>) -> bool);
}
