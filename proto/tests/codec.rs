//! The codecs against the buffers of the core.

use bytes::{Bytes, BytesMut};
use quickcheck::{Arbitrary, Gen, QuickCheck};
use trirpc_core::CodecError;
use trirpc_core::buf::MessageBuf;
use trirpc_core::call::{Codec, EncodeBuf};
use trirpc_proto::test_service::{FailRequest, MetaEntry, MetaReply, SayRequest};
use trirpc_proto::{Prost, Raw};

/// From this size on a field shares the memory of the message.
const SHARE_FROM: usize = 1024;

fn encode<T>(codec: &dyn Codec<T>, item: &T) -> Bytes {
    let len = codec.encoded_len(item).expect("known");
    let mut bytes = BytesMut::new();
    codec.encode(item, &mut EncodeBuf::new(&mut bytes, len)).expect("it fits");
    assert_eq!(bytes.len(), len, "encoded_len is exact");
    bytes.freeze()
}

/// The message as chunks that end where `cuts` say, in separate memory each.
fn rope(message: &[u8], cuts: &[usize]) -> MessageBuf {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (message.len() + 1)).collect();
    cuts.extend([0, message.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|ends| Bytes::copy_from_slice(&message[ends[0]..ends[1]])).collect()
}

/// Every shape of field that the test service has.
#[derive(Clone, Debug)]
struct AnyReply(MetaReply);

impl Arbitrary for AnyReply {
    fn arbitrary(g: &mut Gen) -> Self {
        fn bytes(g: &mut Gen) -> Bytes {
            let large = if u8::arbitrary(g) < 32 { SHARE_FROM } else { 0 };
            let mut bytes = vec![7; large];
            bytes.extend(Vec::<u8>::arbitrary(g));
            bytes.into()
        }
        let seen = (0..u8::arbitrary(g) % 4)
            .map(|_| MetaEntry {
                key: String::arbitrary(g),
                values: Vec::arbitrary(g),
                bin_values: (0..u8::arbitrary(g) % 4).map(|_| bytes(g)).collect(),
            })
            .collect();
        Self(MetaReply { seen, payload: bytes(g) })
    }
}

#[test]
fn a_message_decodes_whatever_the_chunks_it_came_in() {
    fn property(AnyReply(message): AnyReply, cuts: Vec<usize>) -> bool {
        let mut rope = rope(&encode(&Prost, &message), &cuts);
        let decoded: MetaReply = Prost.decode(&mut rope).expect("valid");
        decoded == message && rope.is_empty()
    }
    QuickCheck::new().tests(500).quickcheck(property as fn(AnyReply, Vec<usize>) -> bool);
}

#[test]
fn a_message_decodes_when_split_at_any_one_or_at_every_byte() {
    let message = SayRequest { text: "grüße".into(), payload: vec![9; 40].into(), reply_size: 300, sequence_id: -1 };
    let bytes = encode(&Prost, &message);
    let every: Vec<usize> = (0..bytes.len()).collect();
    for cuts in every.iter().map(|cut| vec![*cut]).chain([every.clone()]) {
        assert_eq!(Prost.decode(&mut rope(&bytes, &cuts)), Ok(message.clone()), "{cuts:?}");
    }
}

#[test]
fn a_bytes_field_from_one_kibibyte_up_is_a_slice_of_the_message_and_a_smaller_one_a_copy() {
    let field = |len: usize| Bytes::from(vec![len as u8; len]);
    let nested = vec![field(SHARE_FROM), field(SHARE_FROM - 1)];
    let message = MetaReply {
        seen: vec![MetaEntry { key: "k-bin".into(), values: Vec::new(), bin_values: nested }],
        payload: field(8 * SHARE_FROM),
    };
    let bytes = encode(&Prost, &message);
    let memory = bytes.as_ptr_range();
    let decoded: MetaReply = Prost.decode(&mut MessageBuf::from(bytes.clone())).expect("valid");
    assert_eq!(decoded, message);
    let is_slice = |field: &Bytes| memory.contains(&field.as_ptr());
    assert!(is_slice(&decoded.payload), "a large field");
    assert!(is_slice(&decoded.seen[0].bin_values[0]), "a large field of a nested message");
    assert!(!is_slice(&decoded.seen[0].bin_values[1]), "a small field does not pin the message");
}

#[test]
fn codecs_for_messages_that_own_their_bytes_read_and_write_the_same() {
    /// As `SayRequest`, but for the type of its payload.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Owned {
        #[prost(string, tag = "1")]
        text: String,
        #[prost(bytes = "vec", tag = "2")]
        payload: Vec<u8>,
    }
    let message = Owned { text: "text".into(), payload: vec![9; 40] };
    let same = SayRequest { text: "text".into(), payload: vec![9; 40].into(), ..Default::default() };
    let codec = Prost::owned_codecs::<Owned, Owned>()[0].request;
    assert_eq!((codec.name(), codec.encoded_len(&message)), ("proto", Prost.encoded_len(&same)));
    let bytes = encode(&Prost, &same);
    let mut encoded = BytesMut::new();
    codec.encode(&message, &mut EncodeBuf::new(&mut encoded, bytes.len())).expect("it fits");
    assert_eq!(encoded, bytes);
    for cut in 0..bytes.len() {
        assert_eq!(codec.decode(&mut rope(&bytes, &[cut])), Ok(message.clone()));
    }
    assert!(bytes.is_unique(), "nothing of the message is kept");
}

#[test]
fn a_message_that_does_not_fit_is_an_error() {
    let message = SayRequest { text: "twelve bytes".into(), ..Default::default() };
    let len = encode(&Prost, &message).len();
    let mut bytes = BytesMut::from("before");
    let result = Prost.encode(&message, &mut EncodeBuf::new(&mut bytes, len - 1));
    assert!(result.is_err_and(|error| !error.message().is_empty()));
    let raw = Bytes::from_static(b"four");
    assert!(Raw::PROTO.encode(&raw, &mut EncodeBuf::new(&mut bytes, 3)).is_err());
    assert_eq!(bytes, "before");
}

#[test]
fn bytes_that_are_no_message_are_an_error_and_never_a_panic() {
    let whole = encode(&Prost, &SayRequest { text: "text".into(), sequence_id: 1 << 40, ..Default::default() });
    let decode =
        |bytes: &[u8]| -> Result<SayRequest, CodecError> { Prost.decode(&mut Bytes::copy_from_slice(bytes).into()) };
    let bad_utf8 = [0x0a, 2, 0xc3, 0x28];
    let huge_length = [0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    let field_zero = [0x02, 0];
    let wrong_wire_type = [0x08, 1];
    let cut = &whole[..whole.len() - 1];
    for bytes in [&bad_utf8[..], &huge_length, &field_zero, &wrong_wire_type, cut] {
        let error = decode(bytes).expect_err("no message");
        assert!(!error.message().is_empty());
    }
    fn property(bytes: Vec<u8>, cuts: Vec<usize>) -> bool {
        let fail: Result<FailRequest, _> = Prost.decode(&mut rope(&bytes, &cuts));
        let meta: Result<MetaReply, _> = Prost.decode(&mut rope(&bytes, &cuts));
        drop((fail, meta));
        true
    }
    QuickCheck::new().tests(2000).quickcheck(property as fn(Vec<u8>, Vec<usize>) -> bool);
}

#[test]
fn deep_nesting_is_refused_before_the_stack_ends() {
    // A google.protobuf.Value inside lists inside values: tag and length of both, from the inside out.
    let mut bytes = Vec::new();
    for _ in 0..2_000 {
        for tag in [0x0a, 0x32] {
            let mut outer = vec![tag];
            prost::encode_length_delimiter(bytes.len(), &mut outer).expect("a Vec grows");
            outer.append(&mut bytes);
            bytes = outer;
        }
    }
    let result: Result<prost_types::Value, _> = Prost.decode(&mut Bytes::from(bytes).into());
    assert!(result.is_err());
}

#[test]
fn types_that_stand_for_well_known_messages_have_the_codec_too() {
    assert!(encode(&Prost, &()).is_empty());
    assert_eq!(encode(&Prost, &String::from("ab")), [0x0a, 2, b'a', b'b'].as_slice());
    assert_eq!(Codec::<u32>::decode(&Prost, &mut Bytes::from_static(&[0x08, 5]).into()), Ok(5));
    assert_eq!(Codec::<()>::name(&Prost), "proto");
}

#[test]
fn raw_bytes_pass_unread_and_uncopied() {
    let message = Bytes::from(vec![0xff; SHARE_FROM]);
    assert_eq!(encode(&Raw::PROTO, &message), message);
    let passed = Raw::PROTO.decode(&mut message.clone().into()).expect("anything");
    assert_eq!((passed.as_ptr(), passed.len()), (message.as_ptr(), message.len()));
    assert_eq!(Raw::PROTO.decode(&mut rope(b"in three chunks", &[2, 8])), Ok(Bytes::from("in three chunks")));
    assert_eq!(Raw::new("hessian2").name(), "hessian2");
}
