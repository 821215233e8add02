//! HPACK against python-hpack, block by block: blocks that either encodes the other decodes, and of blocks that are
//! damaged both say the same, but for what is listed in [`tolerated`].

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use bytes::{Bytes, BytesMut};
use trirpc_core::hpack::{DEFAULT_TABLE_SIZE, DecodeError, Decoder, Encoder, ListLimits};
use trirpc_core::http::{Field, HeaderName};
use trirpc_tests::process::Program;
use trirpc_tests::random::Random;

use super::{Bench, Outcome, broken, strict};

/// It comes with python-h2.
pub(crate) const PART: &str = strict::PART;

const NO_LIMITS: ListLimits = ListLimits { bytes: usize::MAX, fields: usize::MAX };
const SIZES: [u32; 7] = [0, 33, 64, 100, 1000, 4096, 65_536];

/// Connections, of several blocks each.
const HONEST: u64 = 800;
const DAMAGED: u64 = 2500;

/// A name, a value, and whether the field must enter no table.
type Plain = (Vec<u8>, Vec<u8>, bool);

type Fields = Vec<Plain>;

/// What python-hpack makes of a block: its fields, or the error that it names.
type Verdict = Result<Fields, String>;

/// python-hpack, which does as it is told.
struct Peer {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn octets(hex: &str) -> Option<Vec<u8>> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()).collect()
}

fn printed((name, value, sensitive): &Plain) -> String {
    format!("{}:{}:{}", hex(name), hex(value), u8::from(*sensitive))
}

fn parsed(field: &str) -> Option<Plain> {
    let mut parts = field.split(':');
    Some((octets(parts.next()?)?, octets(parts.next()?)?, parts.next()? == "1"))
}

impl Peer {
    fn start(bench: &Bench) -> Result<Self, String> {
        let mut command =
            bench.installed.command(PART, &Program::Python("tables.py")).expect("only what is installed is run");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(broken)?;
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Ok(Self { child, stdin, stdout })
    }

    fn tell(&mut self, line: &str) -> Outcome {
        writeln!(self.stdin, "{line}").map_err(broken)
    }

    /// What is behind the word that the answer begins with.
    fn ask(&mut self, line: &str) -> Result<(String, String), String> {
        self.tell(line)?;
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).map_err(broken)?;
        let answer = answer.trim_end();
        let (word, rest) = answer.split_once(' ').unwrap_or((answer, ""));
        Ok((word.to_owned(), rest.to_owned()))
    }

    fn decode(&mut self, block: &[u8]) -> Result<Verdict, String> {
        let (word, rest) = self.ask(&format!("decode ={}", hex(block)))?;
        match word.as_str() {
            "fields" => rest.split_whitespace().map(parsed).collect::<Option<_>>().map(Ok).ok_or(rest),
            "refused" => Ok(Err(rest)),
            _ => Err(format!("python-hpack answers {word} {rest} to {block:02x?}")),
        }
    }

    fn encode(&mut self, fields: &Fields, huffman: bool) -> Result<Vec<u8>, String> {
        let fields: Vec<_> = fields.iter().map(printed).collect();
        let (word, rest) = self.ask(&format!("encode {} {}", u8::from(huffman), fields.join(" ")))?;
        rest.strip_prefix('=').and_then(octets).ok_or_else(|| format!("python-hpack answers {word} {rest}"))
    }
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Fields, DecodeError> {
    let mut fields = Fields::new();
    let mut emit = |field: Field| fields.push((field.name.as_bytes().to_vec(), field.value.to_vec(), field.sensitive));
    decoder.decode(block, NO_LIMITS, &mut emit).map(|_| fields)
}

fn encode(encoder: &mut Encoder, fields: &Fields) -> Vec<u8> {
    let mut block = BytesMut::new();
    encoder.begin(&mut block);
    for (name, value, sensitive) in fields {
        encoder.field(&HeaderName::from_wire(Bytes::copy_from_slice(name)), value, *sensitive, &mut block);
    }
    block.to_vec()
}

/// A list as heads are, with names and values that come again, and some that are anything.
fn list(random: &mut Random) -> Fields {
    const NAMES: [&str; 10] = [
        ":method",
        ":path",
        ":status",
        "authorization",
        "content-type",
        "cookie",
        "grpc-status",
        "te",
        "x-trace-id",
        "x-b-bin",
    ];
    const VALUES: [&str; 8] = ["", "0", "200", "GET", "/a.B/C", "trailers", "application/grpc", "\u{0}\u{7f}\u{ff}"];
    let text = |random: &mut Random, known: &[&str], bound| match random.below(4) {
        0 => {
            let len = random.length(bound);
            random.bytes(len)
        }
        1 => vec![b'a' + random.below(3) as u8; random.length(bound)],
        _ => random.pick(known).as_bytes().to_vec(),
    };
    let number = random.length(20);
    (0..number).map(|_| (text(random, &NAMES, 40), text(random, &VALUES, 300), random.one_in(6))).collect()
}

/// Sizes that are set between two blocks: none, one, or two.
fn sizes(random: &mut Random) -> Vec<u32> {
    let number = random.below(8).saturating_sub(5);
    (0..number).map(|_| *random.pick(&SIZES)).collect()
}

/// Whether names and values are those that were sent, and `keeps` holds of their being kept out of tables.
fn is_list(arrived: &Fields, sent: &Fields, keeps: fn(bool, bool) -> bool) -> bool {
    let is_field =
        |(arrived, sent): (&Plain, &Plain)| (&arrived.0, &arrived.1) == (&sent.0, &sent.1) && keeps(arrived.2, sent.2);
    arrived.len() == sent.len() && arrived.iter().zip(sent).all(is_field)
}

/// What both encode arrives at the other, on one connection.
fn honest(peer: &mut Peer, random: &mut Random) -> Result<usize, String> {
    peer.tell("new")?;
    let mut encoder = Encoder::new(*random.pick(&SIZES));
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    let blocks = 1 + random.below(16);
    for _ in 0..blocks {
        for size in sizes(random) {
            encoder.set_peer_max_table_size(size);
            peer.tell(&format!("allow {size}"))?;
        }
        let fields = list(random);
        let block = encode(&mut encoder, &fields);
        match peer.decode(&block)? {
            // Of secrets we say ourselves that they enter no table.
            Ok(arrived) if is_list(&arrived, &fields, |arrived, sent| arrived || !sent) => {}
            verdict => return Err(format!("{fields:?} is {block:02x?}, which python-hpack takes for {verdict:?}")),
        }

        // The smaller one first: python-hpack writes each that it had, also those that are too large by the time of the
        // block (RFC 7541 §6.3). And each once: told twice, it writes none.
        let mut sizes = sizes(random);
        sizes.sort_unstable();
        sizes.dedup();
        for size in sizes {
            decoder.set_max_table_size(size);
            peer.tell(&format!("use {size}"))?;
        }
        let fields = list(random);
        let block = peer.encode(&fields, random.one_in(2))?;
        let arrived = decode(&mut decoder, &block).map_err(|error| format!("{error} in {block:02x?}: {fields:?}"))?;
        // Of a field that is in a table python-hpack writes the index, also if it is to enter none.
        if !is_list(&arrived, &fields, |arrived, sent| sent || !arrived) {
            return Err(format!("python-hpack's {fields:?} arrives as {arrived:?}"));
        }
    }
    Ok(blocks)
}

/// A block that a peer might have damaged, out of one that is right.
fn damage(block: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(block.len() + 1);
    match random.below(7) {
        0 if at < block.len() => block[at] ^= 1 << random.below(8),
        1 if at < block.len() => block[at] = random.bits() as u8,
        2 => block.truncate(at),
        // Updates of the table's size, anywhere, often at the front.
        3 => {
            let update = *random.pick(&[&[0x20][..], &[0x3f, 0x21], &[0x3f, 0xe1, 0x1f], &[0x3f, 0xe2, 0x1f]]);
            let at = if random.one_in(2) { 0 } else { at };
            let updates = update.repeat(1 + random.below(3));
            block.splice(at..at, updates);
        }
        // Integers in more octets than they need.
        4 => {
            let zeros = vec![0x80; random.below(7)];
            block.extend([&[0x1f, 0x80][..], &zeros, &[0, 1, b'a']].concat());
        }
        5 => {
            let field = [&[*random.pick(&[0x00, 0x10, 0x40]), 1, b'a'][..], &[0x80 | 3], &random.bytes(3)].concat();
            block.extend(field);
        }
        _ => block.push(0x80 | random.below(128) as u8),
    }
}

/// What python-hpack takes and we refuse, with the rule that we hold to. It refuses nothing that we take.
fn tolerated(error: DecodeError, block: &[u8]) -> Option<&'static str> {
    match error {
        DecodeError::SizeUpdate if begins_with_three_updates(block) => {
            Some("more than two updates of the table's size in a block (§4.2: the smallest, and the last)")
        }
        DecodeError::SizeUpdateMissing => Some("a table that was to become smaller for a while, and did not (§4.2)"),
        _ => None,
    }
}

fn begins_with_three_updates(mut block: &[u8]) -> bool {
    for _ in 0..3 {
        let Some((&first @ 0x20..0x40, rest)) = block.split_first() else { return false };
        let further = if first == 0x3f { 1 + rest.iter().take_while(|&&octet| octet >= 0x80).count() } else { 0 };
        block = rest.get(further..).unwrap_or_default();
    }
    true
}

/// How often what came of damaged blocks.
#[derive(Debug, Default)]
struct Seen {
    alike: usize,
    refused: usize,
    tolerated: std::collections::BTreeMap<&'static str, usize>,
}

/// Blocks of one connection, the last of them one that somebody refuses, or none.
fn damaged(peer: &mut Peer, random: &mut Random, seen: &mut Seen) -> Outcome {
    peer.tell("new")?;
    let mut encoder = Encoder::new(DEFAULT_TABLE_SIZE);
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    for _ in 0..6 {
        for size in sizes(random) {
            decoder.set_max_table_size(size);
            peer.tell(&format!("allow {size}"))?;
            if !random.one_in(4) {
                encoder.set_peer_max_table_size(size);
            }
        }
        let mut block = encode(&mut encoder, &list(random));
        for _ in 0..random.below(3) {
            damage(&mut block, random);
        }
        let ours = decode(&mut decoder, &block);
        match (ours, peer.decode(&block)?) {
            (Ok(ours), Ok(theirs)) if ours == theirs => seen.alike += 1,
            (Err(_), Err(_)) => {
                seen.refused += 1;
                break;
            }
            (Err(error), Ok(theirs)) => {
                let why = tolerated(error, &block);
                let why = why.ok_or_else(|| format!("{error} in {block:02x?}, where python-hpack finds {theirs:?}"))?;
                *seen.tolerated.entry(why).or_default() += 1;
                break;
            }
            (ours, theirs) => return Err(format!("{block:02x?} is {ours:?}, and for python-hpack {theirs:?}")),
        }
    }
    Ok(())
}

/// `h2:P12`, `h2:P6`: both ways; then blocks that are damaged.
pub(crate) fn python(bench: &Bench) -> Outcome {
    let peer = &mut Peer::start(bench)?;
    let mut blocks = 0;
    for seed in 0..HONEST {
        blocks += honest(peer, &mut Random::new(seed)).map_err(|why| format!("seed {seed}: {why}"))?;
    }
    let mut seen = Seen::default();
    for seed in 0..DAMAGED {
        damaged(peer, &mut Random::new(seed), &mut seen).map_err(|why| format!("damaged, seed {seed}: {why}"))?;
    }
    let is_much = blocks > 5000 && seen.alike > 2000 && seen.refused > 1000 && seen.tolerated.len() == 2;
    if is_much { Ok(()) } else { Err(format!("too little was seen: {blocks} blocks each way, and {seen:?}")) }
}
