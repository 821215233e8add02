//! What attackers and honest peers send.

use std::time::Duration;

use trirpc_core::{Config, Side};

use super::{Attack, Handlers, Outcome, Step};
use crate::frames::{
    PREFACE, block, data, envelope, frame, go_away, grpc_request, headers, ping, reset, settings, settings_ack,
    window_update,
};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const PUSH_PROMISE: u8 = 5;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const MAX_WINDOW: u32 = (1 << 31) - 1;
const CANCEL: u32 = 8;

/// Output, tables and slots of a connection whose peer sends no message.
const SMALL: usize = 512;

fn server(ids: &'static str, name: &'static str) -> Attack {
    Attack {
        ids,
        name,
        victim: Side::Server,
        config: Config::default(),
        settings: Vec::new(),
        greets: true,
        reads: true,
        handlers: Handlers::Hold,
        steps: Vec::new(),
        outcome: Outcome::Lives(0),
        peak_kib: SMALL,
    }
}

fn client(ids: &'static str, name: &'static str) -> Attack {
    Attack { victim: Side::Client, ..server(ids, name) }
}

impl Attack {
    fn sends(mut self, octets: Vec<u8>) -> Self {
        self.steps.push(Step::Send(octets, 1));
        self
    }

    /// What `octets` makes of each of the first `n` stream ids, and no more at a time than may be open.
    fn calls(mut self, n: u32, octets: impl Fn(u32) -> Vec<u8>) -> Self {
        let ids: Vec<u32> = ids(n).collect();
        let batches = ids.chunks(200).map(|batch| Step::Send(batch.iter().flat_map(|id| octets(*id)).collect(), 1));
        self.steps.extend(batches);
        self
    }

    fn repeats(mut self, octets: Vec<u8>, times: usize) -> Self {
        self.steps.push(Step::Send(octets, times));
        self
    }

    fn waits(mut self, seconds: u64) -> Self {
        self.steps.push(Step::Wait(Duration::from_secs(seconds)));
        self
    }

    fn handled_by(self, handlers: Handlers) -> Self {
        Self { handlers, ..self }
    }

    fn with(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    fn settings(self, settings: &[(u16, u32)]) -> Self {
        Self { settings: settings.to_vec(), ..self }
    }

    fn never_reads(self) -> Self {
        Self { reads: false, ..self }
    }

    fn ends(self, code: &str, detail: &str) -> Self {
        Self { outcome: Outcome::misbehaved(code, detail), ..self }
    }

    fn calm(self, detail: &str) -> Self {
        self.ends("ENHANCE_YOUR_CALM", detail)
    }

    fn times_out(self, why: &str) -> Self {
        Self { outcome: Outcome::Ended(why.to_owned()), ..self }
    }

    fn lives(self, calls: usize) -> Self {
        Self { outcome: Outcome::Lives(calls), ..self }
    }

    fn pauses(self, calls: usize) -> Self {
        Self { outcome: Outcome::Paused(calls), ..self }
    }

    fn holds(self, peak_kib: usize) -> Self {
        Self { peak_kib, ..self }
    }
}

/// A request head that ends its stream.
fn get(id: u32) -> Vec<u8> {
    let mut octets = grpc_request(id, "/t.Echo/Collect");
    octets[4] |= END_STREAM;
    octets
}

/// A request head whose body follows, with one field more.
fn post(id: u32, name: &str, value: &str) -> Vec<u8> {
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/t.Echo/Collect"),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        (name, value),
    ];
    headers(id, &fields, false)
}

fn ids(n: u32) -> impl Iterator<Item = u32> {
    (0..n).map(|n| 2 * n + 1)
}

fn each(n: u32, octets: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    ids(n).flat_map(octets).collect()
}

/// A request block of static fields, with `rest` behind it, in HEADERS and as many CONTINUATIONs as it needs.
fn request_with_block(id: u32, rest: &[u8]) -> Vec<u8> {
    let mut octets = block(&[(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")]);
    octets.extend_from_slice(rest);
    let mut parts = octets.chunks(16_000).peekable();
    let mut frames = Vec::new();
    let mut kind = HEADERS;
    while let Some(part) = parts.next() {
        let last = if parts.peek().is_none() { END_HEADERS } else { 0 };
        let end = if kind == HEADERS { END_STREAM } else { 0 };
        frames.extend(frame(kind, last | end, id, part));
        kind = CONTINUATION;
    }
    frames
}

/// A literal with indexing, then so many references to it.
fn bomb(value: usize, references: usize) -> Vec<u8> {
    let mut octets = b"\x40\x06x-bomb".to_vec();
    match value {
        0 => octets.push(0),
        len => octets.extend([0x7f, (len - 127) as u8 | 0x80, ((len - 127) >> 7) as u8]),
    }
    octets.resize(octets.len() + value, b'v');
    octets.resize(octets.len() + references, 0xbe);
    octets
}

/// All attacks, in the order of docs/http2.md, and then the honest peers.
pub fn catalogue() -> Vec<Attack> {
    [resets(), header_blocks(), control_frames(), data_frames(), slow_peers(), oddities(), clients(), honest()]
        .into_iter()
        .flatten()
        .collect()
}

fn resets() -> Vec<Attack> {
    let rapid = each(4000, |id| [get(id), reset(id, CANCEL)].concat());
    let made =
        |octets: fn(u32) -> Vec<u8>| each(2000, move |id| [post(id, "content-length", "5"), octets(id)].concat());
    vec![
        server("A1", "open and cancel, handlers work on")
            .sends(rapid.clone())
            .calm("too many streams refused in a row"),
        server("A1", "open and cancel, handlers stop at once")
            .sends(rapid.clone())
            .handled_by(Handlers::Answer)
            .calm("too many streams reset early"),
        server("A2", "WINDOW_UPDATE of zero on a stream")
            .sends(made(|id| window_update(id, 0)))
            .ends("PROTOCOL_ERROR", "WINDOW_UPDATE of zero")
            .holds(SMALL),
        server("A2", "WINDOW_UPDATE that overflows a stream")
            .sends(made(|id| window_update(id, MAX_WINDOW)))
            .calm("too many stream faults"),
        server("A2", "PRIORITY of four octets")
            .sends(made(|id| frame(PRIORITY, 0, id, &[0; 4])))
            .ends("FRAME_SIZE_ERROR", "payload length does not fit the frame type"),
        server("A2", "HEADERS after END_STREAM")
            .sends(each(2000, |id| get(id).repeat(2)))
            .ends("STREAM_CLOSED", "HEADERS after END_STREAM"),
        server("A2", "trailers with a pseudo field")
            .sends(made(|id| headers(id, &[(":status", "200")], true)))
            .calm("too many stream faults"),
        server("A2", "DATA beyond content-length")
            .sends(made(|id| data(id, b"123456", false)))
            .calm("too many stream faults"),
        server("A3", "a header list limit of one octet")
            .settings(&[(6, 1)])
            .sends(each(2000, get))
            .handled_by(Handlers::Answer)
            .calm("too many stream faults"),
        server("A4", "open and cancel, nobody accepts")
            .sends(rapid[..rapid.len() / 4].to_vec())
            .handled_by(Handlers::Ignore)
            .lives(0),
        server("A5", "malformed requests, answers not read")
            .sends(each(5000, |id| headers(id, &[(":method", "GET")], true)))
            .never_reads()
            .waits(31)
            .times_out("the peer stopped reading"),
    ]
}

fn header_blocks() -> Vec<Attack> {
    let begun = frame(HEADERS, END_STREAM, 1, &[0x82]);
    let huffman = [&[0x00, 0x01, b'x', 0xff, 0x80, 0x80, 0x04][..], &[0x1f; 60_000]].concat();
    let names = (0..25_000).flat_map(|n: u32| {
        let name = format!("n{n}");
        [&[0x00, name.len() as u8][..], name.as_bytes(), &[0]].concat()
    });
    vec![
        server("A6", "CONTINUATION of 16 KiB without end")
            .sends(begun.clone())
            .repeats(frame(CONTINUATION, 0, 1, &[0x82; 16_000]), 10_000)
            .calm("header block far above the limit"),
        server("A7", "Huffman literals without end")
            .sends(frame(HEADERS, END_STREAM, 1, &huffman[..16_000]))
            .repeats(frame(CONTINUATION, 0, 1, &huffman[16_000..32_000]), 10_000)
            .calm("header block far above the limit"),
        server("A8", "CONTINUATION of nothing")
            .sends(begun.clone())
            .repeats(frame(CONTINUATION, 0, 1, &[]), 10_000)
            .calm("too many short CONTINUATION frames"),
        server("A9", "thousands of references to 4 KB")
            .sends(request_with_block(1, &bomb(3900, 16_000)))
            .calm("header list far above the limit"),
        server("A10", "thousands of references to an empty value")
            .sends(request_with_block(1, &bomb(0, 16_000)))
            .calm("header list far above the limit"),
        server("A10", "as many as may be, on every stream, held by windows of zero")
            .settings(&[(4, 0)])
            .sends(each(256, |id| request_with_block(id, &bomb(200, 100))))
            .handled_by(Handlers::Send(1000))
            .waits(61)
            .lives(0)
            .holds(16 * 1024),
        server("A11", "fields without a name")
            .sends(each(2000, |id| request_with_block(id, &[0; 300])))
            .calm("too many stream faults"),
        server("A12", "a literal of 60 KB in fragments of one octet")
            .sends(frame(HEADERS, END_STREAM, 1, &[0x00, 0x01, b'x', 0x7f, 0xe1, 0xd3, 0x03]))
            .repeats(frame(CONTINUATION, 0, 1, b"v"), 60_000)
            .calm("too many short CONTINUATION frames"),
        server("A13", "a table of 4 GiB for our encoder")
            .settings(&[(1, u32::MAX)])
            .calls(10_000, get)
            .handled_by(Handlers::Answer),
        server("A14", "table sizes to and fro")
            .repeats([settings(&[(1, 0)]), settings(&[(1, 4096)])].concat(), 10_000)
            .calm("too many control frames"),
        server("A15", "a string of 128 MiB that is not there")
            .sends(frame(HEADERS, END_STREAM | END_HEADERS, 1, &[0x40, 0x01, 0x61, 0x7f, 0x81, 0xff, 0xff, 0x3f]))
            .ends("COMPRESSION_ERROR", "HPACK block truncated"),
        server("A16", "25,000 names, limits lifted")
            .with(|config| {
                config.max_header_list = 16 << 20;
                config.max_headers = usize::MAX;
                config.max_continuations = usize::MAX;
            })
            .sends(request_with_block(1, &names.collect::<Vec<u8>>()))
            .lives(0)
            .holds(8 * 1024),
        server("A46", "heads without end on one stream")
            .sends(post(1, "x", "y"))
            .repeats(headers(1, &[("x", "y")], false), 100_000)
            .handled_by(Handlers::Answer)
            .calm("too many control frames"),
        server("A47", "names that pile up")
            .calls(20_000, |id| {
                let name = format!("x-{id:08}");
                let field = [&[0x40, name.len() as u8][..], name.as_bytes(), &[0]].concat();
                request_with_block(id, &field)
            })
            .handled_by(Handlers::Answer),
    ]
}

fn control_frames() -> Vec<Attack> {
    let opened = each(256, |id| post(id, "x", "y"));
    let unknown: Vec<u8> = (0x0a..=0xff).flat_map(|kind| frame(kind, 0xff, 5, &[kind; 1000])).collect();
    vec![
        server("A17", "PING without end").repeats(ping([1; 8], false), 100_000).calm("too_many_pings"),
        server("A17", "PING without end, answers not read")
            .repeats(ping([1; 8], false), 100_000)
            .never_reads()
            .pauses(0),
        server("A18", "SETTINGS without end").repeats(settings(&[]), 100_000).calm("too many control frames"),
        server("A18", "SETTINGS of 2700 entries")
            .sends(settings(&[(0xf0, 0); 2700]))
            .calm("too many entries in SETTINGS"),
        server("A19", "windows of 256 streams to and fro")
            .sends(opened.clone())
            .repeats([settings(&[(4, 0)]), settings(&[(4, 65_535)])].concat(), 100_000)
            .calm("too many control frames")
            .holds(2 * 1024),
        server("A23", "WINDOW_UPDATE without end")
            .repeats(window_update(0, 1), 100_000)
            .calm("too many control frames"),
        server("A28", "PRIORITY to and fro")
            .repeats(
                [frame(PRIORITY, 0, 3, &[0, 0, 0, 5, 1]), frame(PRIORITY, 0, 5, &[0, 0, 0, 3, 1])].concat(),
                50_000,
            )
            .calm("too many control frames"),
        server("A29", "PRIORITY_UPDATE of idle streams")
            .repeats(frame(0x10, 0, 0, b"\x00\x00\x00\x09u=1"), 100_000)
            .calm("too many control frames"),
        server("A30", "every unknown type").repeats(unknown, 100).calm("too many control frames"),
        server("A35", "the connection's window overflows while streams wait")
            .settings(&[(4, 0)])
            .sends(each(100, get))
            .handled_by(Handlers::Send(1000))
            .sends(window_update(0, MAX_WINDOW))
            .ends("FLOW_CONTROL_ERROR", "WINDOW_UPDATE overflows the connection's window"),
        server("A36", "GOAWAY with 16 KB of text, without end")
            .sends(post(1, "x", "y"))
            .repeats(frame(7, 0, 0, &[0; 16_000]), 20_000)
            .calm("too many control frames"),
        server("A51", "ALTSVC and ORIGIN, then RST_STREAM and GOAWAY")
            .sends(post(1, "x", "y"))
            .sends([frame(0x0a, 0, 1, &[0; 40]), frame(0x0c, 0, 0, &[0; 40])].concat())
            .sends([reset(1, CANCEL), go_away(0, 0)].concat())
            .handled_by(Handlers::Answer)
            .times_out("peer closed the connection: NO_ERROR"),
    ]
}

fn data_frames() -> Vec<Attack> {
    const STREAMS: u32 = 16;
    let opened = each(STREAMS, |id| [post(id, "x", "y"), data(id, &[0, 0, 0, 0xff, 0], false)].concat());
    let mut dribbled = server("A21", "every window full of DATA of one octet, nobody reads")
        .sends(opened)
        .lives(STREAMS as usize)
        .holds(1536 + SMALL);
    for id in ids(STREAMS) {
        dribbled = dribbled.repeats(data(id, b"x", false).repeat(1000), 65);
    }
    let updates = each(100, |id| window_update(id, 1));
    vec![
        server("A20", "empty DATA without end")
            .sends(post(1, "x", "y"))
            .repeats(data(1, b"", false), 100_000)
            .calm("too many empty DATA frames"),
        dribbled,
        server("A22", "DATA of padding alone")
            .sends(post(1, "x", "y"))
            .repeats(frame(DATA, PADDED, 1, &[&[255][..], &[0; 255]].concat()), 100_000)
            .calm("too many empty DATA frames"),
        server("A24", "windows of a hundred streams, an octet at a time")
            .settings(&[(4, 0)])
            .sends(each(100, get))
            .repeats(updates, 1000)
            .handled_by(Handlers::Send(1 << 20))
            .calm("too many control frames")
            .holds(2 * 1024),
        server("A25, A42", "windows open, nothing read: until the transport is given up")
            .settings(&[(4, MAX_WINDOW)])
            .sends(window_update(0, MAX_WINDOW - 65_535))
            .sends(each(100, get))
            .handled_by(Handlers::Send(1 << 20))
            .never_reads()
            .waits(31)
            .times_out("the peer stopped reading")
            .holds(1024),
        server("A45", "envelopes of 4 GiB")
            .sends(each(256, |id| [post(id, "x", "y"), data(id, &[0, 0xff, 0xff, 0xff, 0xff, 1], false)].concat()))
            .handled_by(Handlers::Answer)
            .holds(1024),
    ]
}

fn slow_peers() -> Vec<Attack> {
    let mut preface = Attack { greets: false, ..server("A27", "a preface of an octet in five seconds") };
    for octet in PREFACE {
        preface = preface.sends(vec![*octet]).waits(5);
    }
    let mut head = server("A27", "a head of an octet in five seconds");
    for octet in &get(1)[..20] {
        head = head.sends(vec![*octet]).waits(5);
    }
    let mut drip = server("A26", "windows of zero, and an octet every ten seconds")
        .settings(&[(4, 0)])
        .sends(each(256, get))
        .handled_by(Handlers::Send(1000))
        .holds(2 * 1024);
    for _ in 0..8 {
        drip = drip.sends(each(256, |id| window_update(id, 1))).waits(10);
    }
    vec![
        server("A26", "windows of zero")
            .settings(&[(4, 0)])
            .sends(each(256, get))
            .handled_by(Handlers::Send(1000))
            .waits(61)
            .holds(2 * 1024),
        drip,
        preface.times_out("handshake timed out"),
        head.times_out("a header block was not completed in time"),
        Attack { greets: false, ..server("A40", "SETTINGS never acknowledged") }
            .sends([PREFACE, &settings(&[])].concat())
            .sends(get(1))
            .waits(11)
            .times_out("SETTINGS was not acknowledged in time"),
    ]
}

fn oddities() -> Vec<Attack> {
    let smuggled = [
        [("x\r\ny", "1"), ("x", "1")],
        [("x", "1\r\ny: 2"), ("x", "1")],
        [("transfer-encoding", "chunked"), ("x", "1")],
        [("connection", "close"), ("x", "1")],
        [("content-length", "+5"), ("x", "1")],
        [("content-length", "5"), ("content-length", "6")],
        [("host", "elsewhere"), ("x", "1")],
        [("te", "gzip"), ("x", "1")],
        [(":path", "/again"), ("x", "1")],
    ];
    let smuggled = (0..).zip(smuggled).flat_map(|(n, extra)| {
        let base =
            [(":method", "POST"), (":scheme", "http"), (":path", "/t.Echo/Collect"), (":authority", "localhost")];
        headers(2 * n + 1, &[&base[..], &extra[..]].concat(), false)
    });
    let slashless = [(":method", "POST"), (":scheme", "http"), (":path", "t.Echo/Collect"), (":authority", "a")];
    vec![
        server("A33", "frames of size zero")
            .sends(settings(&[(5, 0)]))
            .ends("PROTOCOL_ERROR", "SETTINGS_MAX_FRAME_SIZE out of range"),
        server("A34", "good frames behind the end")
            .sends([window_update(0, 0), get(1), get(3), ping([1; 8], false)].concat())
            .ends("PROTOCOL_ERROR", "WINDOW_UPDATE of zero"),
        server("A37", "a leap to the last stream id").sends([get(1), get(MAX_WINDOW)].concat()).lives(2),
        server("A38", "fields that HTTP/1 or a router would read otherwise")
            .sends(smuggled.chain(headers(101, &slashless, true)).collect())
            .lives(0),
        server("A39", "CONNECT")
            .sends(each(200, |id| {
                [headers(id, &[(":method", "CONNECT"), (":authority", "a:1")], false), data(id, b"tunnel", false)]
                    .concat()
            }))
            .lives(0),
    ]
}

fn clients() -> Vec<Attack> {
    let ok = [(":status", "200"), ("content-type", "application/grpc")];
    vec![
        client("A31", "PUSH_PROMISE")
            .sends(frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2, 0x82]))
            .ends("PROTOCOL_ERROR", "PUSH_PROMISE, which is switched off"),
        client("A32", "1xx without end")
            .repeats(headers(1, &[(":status", "103")], false), 100_000)
            .calm("too many control frames"),
        client("A36", "GOAWAY without end")
            .repeats(frame(7, 0, 0, &[&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0][..], &[b'x'; 16_000]].concat()), 20_000)
            .calm("too many control frames"),
        client("A49", "every call refused").sends(each(100, |id| reset(id, 7))).lives(0),
        client("A20", "empty DATA in a response")
            .sends(headers(1, &ok, false))
            .repeats(data(1, b"", false), 100_000)
            .calm("too many empty DATA frames"),
    ]
}

fn honest() -> Vec<Attack> {
    let answered = |id: u32| [post(id, "x", "y"), data(id, &envelope(b"01234567890123456789"), true)].concat();
    let small = envelope(b"01234567890123456789");
    let mut cancels = server("A41", "honest: a thousand calls a second, a fifth cancelled")
        .handled_by(Handlers::Answer)
        .holds(2 * SMALL);
    for second in 0..60 {
        let calls = (0..1000)
            .map(|n| 2 * (1000 * second + n) + 1)
            .flat_map(|id| if id % 5 == 0 { [post(id, "x", "y"), reset(id, CANCEL)].concat() } else { answered(id) });
        cancels = cancels.sends(calls.collect()).waits(1);
    }
    let mut pings = server("A17", "honest: a PING every ten seconds, for a day").sends(post(1, "x", "y")).lives(1);
    for _ in 0..8640 {
        pings = pings.sends(ping([7; 8], false)).waits(10);
    }
    vec![
        server("B86", "honest: 250 uploads of small pieces, nobody reads yet")
            .sends(each(250, |id| post(id, "x", "y")))
            .repeats(each(250, |id| data(id, &small, false)), 100)
            .lives(250)
            .holds(4 * 1024),
        server("A21", "honest: 100,000 messages of 20 octets on one stream")
            .sends(post(1, "x", "y"))
            .repeats(data(1, &small, false), 100_000)
            .handled_by(Handlers::Answer)
            .lives(1),
        server("A41", "honest: 20,000 calls at once after each other")
            .calls(20_000, answered)
            .handled_by(Handlers::Answer),
        cancels,
        pings,
        Attack { greets: false, ..server("A50", "honest: a connection that is opened and left") }
            .sends([PREFACE, &settings(&[]), &settings_ack()].concat())
            .holds(64),
    ]
}
