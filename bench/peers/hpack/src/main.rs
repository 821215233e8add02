//! What a header block costs in HPACK libraries.
//!
//! ```text
//! peer-hpack trirpc|nghttp2|httlib decode|encode plain|request|response|corpus REPETITIONS [ARCHIVE]
//! ```
//!
//! Prints blocks, bytes on the wire and allocations as one line of JSON. Instructions are those that a profiler counts
//! inside of [`measured`]; that function does nothing but encode or decode. All blocks that are decoded were encoded by
//! libnghttp2. Before anything is measured, what a library encodes is decoded by libnghttp2 and the reverse.

mod nghttp2;
mod sets;

use std::env;
use std::hint::black_box;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use serde_json::json;
use trirpc_core::hpack::{DEFAULT_TABLE_SIZE, Decoder, Encoder, ListLimits};
use trirpc_core::http::HeaderName;
use trirpc_meter::allocations::{Allocations, Counting};

use crate::nghttp2::Nghttp2;
use crate::sets::{Connection, List};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Room for any block.
const ROOM: usize = 1 << 16;

/// One side of a connection: both tables.
trait Library {
    /// A list in the form in which a caller of this library holds it.
    type List;
    /// A block as a connection has it when it has read it.
    type Block;

    fn new() -> Self;
    fn list(list: &List) -> Self::List;
    fn block(block: &[u8]) -> Self::Block;
    /// Puts the block into `out`, which is empty and has [`ROOM`].
    fn encode(&mut self, list: &Self::List, out: &mut Vec<u8>);
    fn decode(&mut self, block: &Self::Block, emit: impl FnMut(&[u8], &[u8]));
}

struct Trirpc {
    encoder: Encoder,
    decoder: Decoder,
    out: BytesMut,
}

impl Library for Trirpc {
    /// The call layer has names as `HeaderName` before it knows that there is HPACK.
    type List = Vec<(HeaderName, Vec<u8>)>;
    /// A slice of what was read.
    type Block = Bytes;

    fn new() -> Self {
        let (encoder, decoder) = (Encoder::new(DEFAULT_TABLE_SIZE), Decoder::new(DEFAULT_TABLE_SIZE));
        Self { encoder, decoder, out: BytesMut::with_capacity(ROOM) }
    }

    fn list(list: &List) -> Self::List {
        let name = |name: &[u8]| HeaderName::from_wire(Bytes::copy_from_slice(name));
        list.iter().map(|(field, value)| (name(field), value.clone())).collect()
    }

    fn block(block: &[u8]) -> Bytes {
        BytesMut::from(block).split().freeze()
    }

    fn encode(&mut self, list: &Self::List, out: &mut Vec<u8>) {
        self.out.clear();
        self.encoder.begin(&mut self.out);
        for (name, value) in list {
            self.encoder.field(name, value, false, &mut self.out);
        }
        out.extend_from_slice(&self.out);
    }

    fn decode(&mut self, block: &Bytes, mut emit: impl FnMut(&[u8], &[u8])) {
        let limits = ListLimits { bytes: usize::MAX, fields: usize::MAX };
        self.decoder
            .decode(block, limits, &mut |field| emit(field.name.as_bytes(), &field.value))
            .expect("a valid block");
    }
}

struct Httlib {
    encoder: httlib_hpack::Encoder<'static>,
    decoder: httlib_hpack::Decoder<'static>,
}

impl Library for Httlib {
    type List = List;
    type Block = Vec<u8>;

    fn new() -> Self {
        Self { encoder: httlib_hpack::Encoder::default(), decoder: httlib_hpack::Decoder::default() }
    }

    fn list(list: &List) -> Self::List {
        list.clone()
    }

    fn block(block: &[u8]) -> Vec<u8> {
        block.to_vec()
    }

    fn encode(&mut self, list: &Self::List, out: &mut Vec<u8>) {
        use httlib_hpack::Encoder as E;
        let flags = E::HUFFMAN_VALUE | E::HUFFMAN_NAME | E::WITH_INDEXING | E::BEST_FORMAT;
        for (name, value) in list {
            // Owned parts are what its interface takes.
            self.encoder.encode((name.clone(), value.clone(), flags), out).expect("a field");
        }
    }

    fn decode(&mut self, block: &Vec<u8>, mut emit: impl FnMut(&[u8], &[u8])) {
        let mut fields = Vec::new();
        self.decoder.decode(&mut block.clone(), &mut fields).expect("a valid block");
        for (name, value, _) in &fields {
            emit(name, value);
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Task {
    Encode,
    Decode,
}

/// The lists of a connection, and their blocks by libnghttp2.
struct Prepared<L: Library> {
    lists: Vec<L::List>,
    blocks: Vec<L::Block>,
    wire: usize,
}

impl<L: Library> Prepared<L> {
    fn new(connection: &Connection) -> Self {
        let blocks = blocks::<Nghttp2>(connection);
        Self {
            lists: connection.iter().map(L::list).collect(),
            wire: blocks.iter().map(Vec::len).sum(),
            blocks: blocks.iter().map(|block| L::block(block)).collect(),
        }
    }
}

fn blocks<L: Library>(connection: &Connection) -> Vec<Vec<u8>> {
    let mut library = L::new();
    let encode = |list| {
        let mut out = Vec::with_capacity(ROOM);
        library.encode(&L::list(list), &mut out);
        out
    };
    connection.iter().map(encode).collect()
}

fn lists<L: Library>(blocks: &[Vec<u8>]) -> Connection {
    let mut library = L::new();
    let decode = |block: &Vec<u8>| {
        let mut list = List::new();
        library.decode(&L::block(block), |name, value| list.push((name.to_vec(), value.to_vec())));
        list
    };
    blocks.iter().map(decode).collect()
}

/// The one function inside of which a profiler counts: all blocks of a connection. Returns the length of what was encoded
/// or decoded.
#[inline(never)]
fn measured<L: Library>(task: Task, library: &mut L, connection: &Prepared<L>, out: &mut Vec<u8>) -> usize {
    run_blocks(task, library, connection, 0..connection.blocks.len(), out)
}

#[inline(always)]
fn run_blocks<L: Library>(
    task: Task,
    library: &mut L,
    connection: &Prepared<L>,
    which: Range<usize>,
    out: &mut Vec<u8>,
) -> usize {
    let mut length = 0;
    if task == Task::Encode {
        for list in &connection.lists[which] {
            out.clear();
            library.encode(list, out);
            length += out.len();
        }
    } else {
        for block in &connection.blocks[which] {
            library.decode(block, |name, value| length += name.len() + value.len());
        }
    }
    black_box(length)
}

/// Allocations for the blocks of a connection on which the same lists went before: its tables have their size by then.
fn allocations_again<L: Library>(task: Task, connection: &Connection, out: &mut Vec<u8>) -> u64 {
    let twice = Prepared::<L>::new(&[&connection[..], &connection[..]].concat());
    let (half, all) = (connection.len(), 2 * connection.len());
    let mut library = L::new();
    run_blocks(task, &mut library, &twice, 0..half, out);
    let before = Allocations::now();
    run_blocks(task, &mut library, &twice, half..all, out);
    (Allocations::now() - before).calls
}

/// What all blocks came to.
#[derive(Default)]
struct Total {
    blocks: u64,
    wire: u64,
    allocations: u64,
    /// Blocks that went once more over the same connection, and what was allocated for them.
    again: [u64; 2],
}

fn run<L: Library>(task: Task, connections: &[Connection], repetitions: usize) -> Total {
    for connection in connections {
        assert_eq!(&lists::<L>(&blocks::<Nghttp2>(connection)), connection, "reads what libnghttp2 writes");
        assert_eq!(&lists::<Nghttp2>(&blocks::<L>(connection)), connection, "writes what libnghttp2 reads");
    }
    let prepared: Vec<_> = connections.iter().map(Prepared::<L>::new).collect();
    let mut out = Vec::with_capacity(ROOM);
    let mut total = Total::default();
    for connection in connections {
        total.again[0] += connection.len() as u64;
        total.again[1] += allocations_again::<L>(task, connection, &mut out);
    }
    for _ in 0..repetitions {
        for connection in &prepared {
            let mut library = L::new();
            let before = Allocations::now();
            let length = measured(task, &mut library, connection, &mut out);
            let after = Allocations::now();
            total.blocks += connection.blocks.len() as u64;
            total.wire += if task == Task::Encode { length } else { connection.wire } as u64;
            total.allocations += (after - before).calls;
        }
    }
    total
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [library, task, set, repetitions, rest @ ..] = &arguments[..] else {
        panic!("library, task, set, repetitions and, for the corpus, its archive");
    };
    let connections = sets::named(set, rest.first().map(String::as_str));
    let repetitions = repetitions.parse().expect("a number of repetitions");
    let what = match task.as_str() {
        "encode" => Task::Encode,
        "decode" => Task::Decode,
        other => panic!("`{other}` is neither encode nor decode"),
    };
    let total = match library.as_str() {
        "trirpc" => run::<Trirpc>(what, &connections, repetitions),
        "nghttp2" => run::<Nghttp2>(what, &connections, repetitions),
        "httlib" => run::<Httlib>(what, &connections, repetitions),
        other => panic!("no library is called `{other}`"),
    };
    let Total { blocks, wire, allocations, again } = total;
    let each = |total: u64, blocks: u64| (total as f64 / blocks as f64 * 100.0).round() / 100.0;
    println!(
        "{}",
        json!({
            "library": library, "task": task, "set": set, "blocks": blocks,
            "wire_bytes": each(wire, blocks), "allocations": each(allocations, blocks),
            "allocations_again": each(again[1], again[0]),
        })
    );
}
