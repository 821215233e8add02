use bytes::{Bytes, BytesMut};
use trirpc_core::hpack::{DEFAULT_TABLE_SIZE, DecodeError, Decoder, Encoder, ListLimits};
use trirpc_core::http::{Field, HeaderName};

use crate::input::Input;
use crate::oracle::{self, Opinion, Oracle};

const NO_LIMITS: ListLimits = ListLimits { bytes: usize::MAX, fields: usize::MAX };

fn decode(decoder: &mut Decoder, block: &Bytes) -> Result<Vec<Field>, DecodeError> {
    let mut fields = Vec::new();
    let size = decoder.decode(block, NO_LIMITS, &mut |field| fields.push(field))?;
    assert_eq!(size.fields, fields.len());
    assert_eq!(size.bytes, fields.iter().map(Field::list_size).sum::<usize>());
    Ok(fields)
}

fn list(fields: &[Field]) -> oracle::List {
    fields.iter().map(|field| (field.name.as_bytes().to_vec(), field.value.to_vec())).collect()
}

/// Decodes a connection's blocks: no input panics, limits only cut the list, and independent decoders agree.
///
/// The input is a sequence of blocks, each behind two octets: the high bit announces two more with a table
/// size that takes effect before the block, the other bits are the length.
pub fn hpack_decode(data: &[u8]) {
    const LIMITS: ListLimits = ListLimits { bytes: 512, fields: 8 };
    let mut input = Input::new(data);
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    let mut limited = Decoder::new(DEFAULT_TABLE_SIZE);
    let mut oracles = oracle::all();
    while !input.is_empty() {
        let head = input.short();
        if head & 0x8000 != 0 {
            let size = u32::from(input.short());
            decoder.set_max_table_size(size);
            limited.set_max_table_size(size);
        }
        let block = Bytes::copy_from_slice(input.bytes(usize::from(head & 0x7fff)));
        let result = decode(&mut decoder, &block);
        decode_within(&mut limited, LIMITS, &block, &result);
        oracles.retain_mut(|oracle| agrees(oracle.as_mut(), &block, &result));
        if result.is_err() {
            assert_eq!(decode(&mut decoder, &Bytes::new()), Err(DecodeError::Poisoned));
            return;
        }
    }
}

/// A decoder with limits emits the front of the list, and fails where the other one fails, or earlier.
fn decode_within(decoder: &mut Decoder, limits: ListLimits, block: &Bytes, whole: &Result<Vec<Field>, DecodeError>) {
    let mut fields = Vec::new();
    let size = decoder.decode(block, limits, &mut |field| fields.push(field));
    let emitted: usize = fields.iter().map(Field::list_size).sum();
    assert!(emitted <= limits.bytes && fields.len() <= limits.fields, "emitted beyond the limits");
    match (size, whole) {
        (Ok(size), Ok(whole)) => {
            assert_eq!(size.fields, whole.len());
            assert_eq!(fields, whole[..fields.len()]);
            assert_eq!(size.is_within(limits), fields.len() == whole.len());
        }
        (Err(DecodeError::TooLarge | DecodeError::Poisoned), _) => {}
        (size, whole) => assert_eq!(size.err().as_ref(), whole.as_ref().err()),
    }
}

/// Compares our result with an oracle's; false if the oracle is of no further use.
fn agrees(oracle: &mut dyn Oracle, block: &[u8], result: &Result<Vec<Field>, DecodeError>) -> bool {
    let opinion = oracle.decode(block);
    match (result, &opinion) {
        (_, Opinion::None) => false,
        (Ok(fields), Opinion::Fields(theirs)) => {
            assert_eq!(&list(fields), theirs, "{} decodes {block:02x?} otherwise", oracle.name());
            true
        }
        (Ok(fields), Opinion::Broken) => panic!("{} refuses {block:02x?}: {fields:?}", oracle.name()),
        (Err(DecodeError::Index | DecodeError::Truncated | DecodeError::Integer), Opinion::Fields(theirs)) => {
            panic!("{} accepts {block:02x?}: {theirs:?}", oracle.name())
        }
        (Err(DecodeError::Huffman), Opinion::Fields(theirs)) if oracle.name() == "loona-hpack" => {
            panic!("{} accepts {block:02x?}: {theirs:?}", oracle.name())
        }
        (Err(_), _) => false, // none of them enforces the rules of table sizes
    }
}

/// Encodes a connection's lists: our decoder and independent ones read back what went in, flags included,
/// whatever table sizes the peer announces in between.
pub fn hpack_roundtrip(data: &[u8]) {
    let mut input = Input::new(data);
    let mut encoder = Encoder::new(u32::from(input.short()));
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    let mut oracles = oracle::all();
    let mut foreign = (loona_hpack::Encoder::new(), Decoder::new(DEFAULT_TABLE_SIZE));
    while !input.is_empty() {
        let head = input.octet();
        if head & 0x80 != 0 {
            let size = u32::from(input.short());
            encoder.set_peer_max_table_size(size);
            decoder.set_max_table_size(size);
        }
        let fields: Vec<_> = (0..head % 16).map(|_| field(&mut input)).collect();

        let mut block = BytesMut::new();
        encoder.begin(&mut block);
        for field in &fields {
            let before = block.len();
            encoder.field(&field.name, &field.value, field.sensitive, &mut block);
            let bound = Encoder::max_field_len(field.name.as_bytes().len(), field.value.len());
            assert!(block.len() - before <= bound);
        }
        let block = block.freeze();
        let arrived = decode(&mut decoder, &block).expect("own blocks decode");
        assert_eq!(list(&arrived), list(&fields));
        assert!(arrived.iter().zip(&fields).all(|(arrived, sent)| arrived.sensitive || !sent.sensitive));
        let arrived = Ok(arrived);
        oracles.retain_mut(|oracle| agrees(oracle.as_mut(), &block, &arrived));

        let fields = list(&fields);
        let block = foreign.0.encode(fields.iter().map(|(name, value)| (&name[..], &value[..])));
        let arrived = decode(&mut foreign.1, &block.into()).expect("another encoder's blocks decode");
        assert_eq!(list(&arrived), fields);
    }
}

/// A field: mostly one of few names, so that the tables are hit.
fn field(input: &mut Input<'_>) -> Field {
    const NAMES: [&str; 12] = [
        ":method",
        ":path",
        ":status",
        "authorization",
        "content-type",
        "grpc-status",
        "grpc-timeout",
        "te",
        "x-a",
        "x-b",
        "x-c-bin",
        "x-d",
    ];
    const VALUES: [&str; 8] = ["", "0", "200", "POST", "/a.B/C", "trailers", "application/grpc", "\u{0}\n\u{7f}\u{ff}"];
    let (name, value) = (input.octet(), input.octet());
    let name = match NAMES.get(usize::from(name & 0x7f)) {
        Some(text) => HeaderName::from_static(text),
        None => HeaderName::from_wire(Bytes::copy_from_slice(input.bytes(usize::from(name & 0x0f)))),
    };
    let sensitive = value & 0x80 != 0;
    let value = match VALUES.get(usize::from(value & 0x7f)) {
        Some(text) => Bytes::from_static(text.as_bytes()),
        None => Bytes::copy_from_slice(input.bytes(usize::from(value & 0x7f))),
    };
    Field { sensitive, ..Field::new(name, value) }
}
