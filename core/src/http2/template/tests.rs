use alloc::vec::Vec;

use bytes::Bytes;
use quickcheck::{Arbitrary, Gen};

use super::*;
use crate::http::{InlineField, Method};

/// One step of a connection's life, as far as its encoder sees it.
#[derive(Clone, Debug)]
enum Step {
    /// A block by a template, with fields of its own.
    Write { template: usize, own: Vec<(u8, u8)>, inline: bool },
    /// The peer's SETTINGS_HEADER_TABLE_SIZE.
    Resize(u32),
}

impl Arbitrary for Step {
    fn arbitrary(g: &mut Gen) -> Self {
        match u8::arbitrary(g) % 16 {
            0 => Self::Resize(*g.choose(&[0, 60, 200, 500, 4096]).unwrap()),
            n => {
                let own = (0..n % 3).map(|_| (u8::arbitrary(g), u8::arbitrary(g))).collect();
                Self::Write { template: usize::arbitrary(g) % 5, own, inline: bool::arbitrary(g) }
            }
        }
    }
}

fn request(path: &'static str, fields: &[(&'static str, &'static str)]) -> RequestHead {
    RequestHead {
        method: Method::Post,
        scheme: Bytes::from_static(b"http"),
        authority: Bytes::from_static(b"localhost:1"),
        path: Bytes::from_static(path.as_bytes()),
        headers: headers(fields),
        deadline: None,
    }
}

fn headers(fields: &[(&'static str, &'static str)]) -> Headers {
    fields.iter().map(|(name, value)| Field::new(HeaderName::from_static(name), *value)).collect()
}

struct Templates {
    requests: [Template<RequestHead>; 3],
    response: Template<ResponseHead>,
    trailers: Template<Headers>,
}

impl Templates {
    fn new() -> Self {
        let te = ("te", "trailers");
        // What is sensitive is never in a table, and what is not known to repeat must be seen twice.
        let mut secret = headers(&[te]);
        secret.push(HeaderName::AUTHORIZATION, "Bearer hunter2");
        Self {
            requests: [
                request("/a.B/C", &[te, ("content-type", "application/grpc")]).into(),
                request("/a.B/D", &[te, ("x-unknown", "a value of an unknown name")]).into(),
                RequestHead { headers: secret, ..request("/a.B/E", &[]) }.into(),
            ],
            response: ResponseHead { status: 200, headers: headers(&[("content-type", "application/grpc")]) }.into(),
            trailers: headers(&[("grpc-status", "0")]).into(),
        }
    }

    /// The block, and the same one without what the template keeps.
    fn block<'a>(&'a mut self, template: usize, rest: &'a Rest<'a>, plain: bool) -> Block<'a> {
        let mut block = match template {
            3 => Block::of_response(&mut self.response, rest),
            4 => Block::of_trailers(&mut self.trailers, rest),
            request => Block::of_request(&mut self.requests[request], rest),
        };
        if plain {
            block.kept = None;
        }
        block
    }

    fn copies(&self, encoder: &Encoder) -> usize {
        let kept = self.requests.iter().map(|template| &template.kept);
        kept.chain([&self.response.kept, &self.trailers.kept]).filter(|kept| kept.octets(encoder).is_some()).count()
    }
}

impl Block<'_> {
    fn write_at_best(&mut self, encoder: &mut Encoder, arena: &mut Arena) -> usize {
        self.write_known(encoder, arena).unwrap_or_else(|| self.write(encoder, arena))
    }
}

/// Writes the blocks of a script; what keeps and what does not must agree octet by octet. Returns how many templates are copied at the end.
fn play(script: &[Step], own_table: u32) -> usize {
    let (mut keeping, mut walking) = (Templates::new(), Templates::new());
    let (mut encoder, mut oracle) = (Encoder::new(own_table), Encoder::new(own_table));
    for step in script {
        match step {
            Step::Resize(size) => {
                encoder.set_peer_max_table_size(*size);
                oracle.set_peer_max_table_size(*size);
            }
            Step::Write { template, own, inline } => {
                let names = ["k", "grpc-message", "user-agent", ":path", "authorization"];
                let field = |&(name, value): &(u8, u8)| {
                    let name = HeaderName::from_static(names[usize::from(name) % names.len()]);
                    Field::new(name, alloc::format!("value {}", value % 3))
                };
                let fields: Headers = own.iter().map(field).collect();
                let length = InlineField::new(const { &HeaderName::CONTENT_LENGTH }, |value| {
                    value[0] = b'7';
                    1
                });
                let rest = Rest { first: inline.then_some(length), fields: &fields, last: None };
                let (mut written, mut expected) = (Arena::new(4096, 64), Arena::new(4096, 64));
                let len = keeping.block(*template, &rest, false).write_at_best(&mut encoder, &mut written);
                let plain_len = walking.block(*template, &rest, true).write(&mut oracle, &mut expected);
                assert_eq!(written.run(), expected.run(), "{step:?}");
                assert_eq!((len, plain_len), (written.len() - HEADER_LEN, expected.len() - HEADER_LEN));
            }
        }
    }
    keeping.copies(&encoder)
}

/// `h2:N8`, arch:U1: whatever was written before, and whatever sizes the tables had, a block that is copied has the
/// octets of the walk over its fields.
#[test]
fn a_block_that_is_copied_is_the_block_that_is_encoded() {
    fn same(script: Vec<Step>, own_table: u16) {
        play(&script, u32::from(own_table) % 5000);
    }
    quickcheck::QuickCheck::new().tests(300).quickcheck(same as fn(Vec<Step>, u16));
}

/// Once nothing changes any more, every template is copied. One whose fields must be seen again is not before they were.
#[test]
fn templates_are_copied_in_the_steady_state() {
    let round = |template| Step::Write { template, own: Vec::new(), inline: true };
    let rounds: Vec<Step> = (0..4).flat_map(|_| (0..5).map(round)).collect();
    assert_eq!(play(&rounds, 4096), 5);
    assert!(play(&rounds[..5], 4096) < 5);
    // Without a table every field is a literal, each time the same one.
    assert_eq!(play(&rounds, 0), 5);
}

/// What is longer than is worth it is walked each time.
#[test]
fn long_beginnings_are_not_kept() {
    let long = "x".repeat(2 * MAX_KEPT);
    let mut encoder = Encoder::new(0);
    let mut template = Template::from(headers(&[("grpc-status", "0")]));
    Arc::make_mut(&mut template.head).push(HeaderName::GRPC_MESSAGE, long);
    for _ in 0..3 {
        Block::of_trailers(&mut template, &Rest::NONE).write(&mut encoder, &mut Arena::new(4096, 64));
        assert!(template.kept.octets.is_empty());
    }
}
