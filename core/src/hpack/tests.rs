use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};
use quickcheck::{Arbitrary, Gen, quickcheck};

use super::*;
use crate::http::{Field, HeaderName};

pub(super) const NO_LIMITS: ListLimits = ListLimits { bytes: usize::MAX, fields: usize::MAX };

pub(super) fn encode(encoder: &mut Encoder, fields: &[Field]) -> Bytes {
    let mut block = BytesMut::new();
    encoder.begin(&mut block);
    assert!(block.len() <= Encoder::MAX_BEGIN_LEN);
    for field in fields {
        let before = block.len();
        encoder.field(&field.name, &field.value, field.sensitive, &mut block);
        let bound = Encoder::max_field_len(field.name.as_bytes().len(), field.value.len());
        assert!(block.len() - before <= bound, "{field:?}");
    }
    block.freeze()
}

pub(super) fn decode(decoder: &mut Decoder, block: &Bytes) -> Result<Vec<Field>, DecodeError> {
    let mut fields = Vec::new();
    let size = decoder.decode(block, NO_LIMITS, &mut |field| fields.push(field))?;
    assert_eq!(size.fields, fields.len());
    assert_eq!(size.bytes, fields.iter().map(Field::list_size).sum::<usize>());
    Ok(fields)
}

pub(super) fn field(name: &'static str, value: impl Into<Bytes>) -> Field {
    Field::new(HeaderName::from_static(name), value)
}

/// One block and what happens before it.
#[derive(Clone, Debug)]
struct Step {
    peer_table_size: Option<u32>,
    fields: Vec<Field>,
}

impl Arbitrary for Step {
    fn arbitrary(g: &mut Gen) -> Self {
        let sizes = [0, 1, 31, 32, 33, 64, 100, 300, 4095, 4096, 4097, 100_000, u32::MAX];
        let peer_table_size = (u8::arbitrary(g) % 4 == 0).then(|| *g.choose(&sizes).unwrap());
        // Few names and few values, so that the tables are hit, filled and emptied.
        let names = ["content-type", ":path", "grpc-status", "te", "cookie", "x-a", "x-b", "x-c-bin", "grpc-timeout"];
        let fields = (0..usize::arbitrary(g) % 20)
            .map(|_| {
                let name = match u8::arbitrary(g) % 8 {
                    0 => HeaderName::from_wire(Bytes::from(Vec::arbitrary(g))),
                    _ => HeaderName::from_static(g.choose(&names).unwrap()),
                };
                let value = match u8::arbitrary(g) % 8 {
                    0 => Vec::arbitrary(g),
                    1 => alloc::vec![b'v'; usize::from(u16::arbitrary(g) % 3000)],
                    _ => alloc::vec![b'0' + u8::arbitrary(g) % 10; usize::from(u8::arbitrary(g) % 40)],
                };
                Field { sensitive: u8::arbitrary(g) % 8 == 0, ..Field::new(name, value) }
            })
            .collect();
        Self { peer_table_size, fields }
    }

    fn shrink(&self) -> alloc::boxed::Box<dyn Iterator<Item = Self>> {
        let this = self.clone();
        let lists = (0..this.fields.len()).map(move |skip| {
            let mut step = this.clone();
            step.fields.remove(skip);
            step
        });
        alloc::boxed::Box::new(lists)
    }
}

quickcheck! {
    /// `h2:P12`, `h2:N4`, `h2:B20`: whatever is sent and however the peer changes its table, fields
    /// and their flags arrive as they were, secrets marked as such.
    fn fields_survive_any_schedule_of_blocks_and_table_sizes(own_cap: u16, steps: Vec<Step>) -> bool {
        let mut encoder = Encoder::new(u32::from(own_cap));
        let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
        steps.into_iter().all(|step| {
            if let Some(size) = step.peer_table_size {
                encoder.set_peer_max_table_size(size);
                decoder.set_max_table_size(size);
            }
            let block = encode(&mut encoder, &step.fields);
            let expected: Vec<_> = step
                .fields
                .into_iter()
                .map(|field| Field { sensitive: field.sensitive || field.name.is_secret(), ..field })
                .collect();
            decode(&mut decoder, &block) == Ok(expected)
        })
    }
}

/// The figures of `http2-checklist` §5.3 in kind: what a call costs once the tables are warm.
#[test]
fn a_warm_call_takes_a_few_octets() {
    let request = |timeout: &'static str| {
        [
            field(":method", "POST"),
            field(":scheme", "http"),
            field(":path", "/helloworld.Greeter/SayHello"),
            field(":authority", "localhost:50051"),
            field("content-type", "application/grpc"),
            field("te", "trailers"),
            field("grpc-accept-encoding", "identity,gzip"),
            field("user-agent", "trirpc/0.1.0"),
            field("grpc-timeout", timeout),
        ]
    };
    let response = [field(":status", "200"), field("content-type", "application/grpc")];
    let trailers = [field("grpc-status", "0")];

    let (mut client, mut server) = (Encoder::new(DEFAULT_TABLE_SIZE), Encoder::new(DEFAULT_TABLE_SIZE));
    encode(&mut client, &request("1S"));
    encode(&mut server, &response);
    encode(&mut server, &trailers);
    let timeout = 1 + (1 + 9) + (1 + 3); // pattern, name, value: never in the table
    assert_eq!(encode(&mut client, &request("998m")).len(), 8 + timeout);
    assert_eq!(encode(&mut server, &response).len(), 2);
    assert_eq!(encode(&mut server, &trailers).len(), 1);
}
