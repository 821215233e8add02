//! The text beside a recording: what another decoder, with another HPACK, saw in it. Two tools wrote such texts; both
//! are read here.

use std::collections::BTreeMap;

/// The calls of one connection by stream, in the order in which they began.
pub(crate) type Exchanges = BTreeMap<u32, Exchange>;

/// One call.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    pub(crate) request: Half,
    pub(crate) response: Half,
}

/// One direction of a call.
#[derive(Debug, Default)]
pub(crate) struct Half {
    /// Header blocks, and whether each ended the stream.
    pub(crate) blocks: Vec<(Fields, bool)>,
    pub(crate) messages: Vec<Message>,
    /// A body that is not made of envelopes.
    pub(crate) body: Vec<u8>,
    /// END_STREAM was on DATA.
    pub(crate) ended_by_data: bool,
    /// Name of the first RST_STREAM's code.
    pub(crate) reset: Option<String>,
}

pub(crate) type Fields = Vec<(String, Value)>;

/// A field's value, of which a long one is shown by its beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Value {
    pub(crate) shown: Vec<u8>,
    len: usize,
}

impl Value {
    /// Whether it is this one, blanks at its ends apart, which mean nothing.
    pub(crate) fn is(&self, bytes: &[u8]) -> bool {
        bytes == self.shown.trim_ascii() || (bytes.starts_with(&self.shown) && bytes.len() == self.len)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.shown).expect("ASCII")
    }
}

/// A message, of which a long one is shown by its beginning.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) flag: u8,
    /// As it is on the wire.
    len: usize,
    /// Inflated, if it was compressed.
    inflated: Option<usize>,
    start: Vec<u8>,
}

impl Message {
    /// What is different about a message with `len` octets on the wire that are `plain` inflated.
    pub(crate) fn differs(&self, len: usize, plain: &[u8]) -> Option<String> {
        let is_same = len == self.len
            && plain.len() == self.inflated.unwrap_or(self.len)
            && plain.starts_with(&self.start)
            && (self.start.len() == plain.len() || self.start.len() >= 64);
        (!is_same).then(|| format!("a message of {len} octets, {} inflated, is not {self:?}", plain.len()))
    }
}

impl Half {
    pub(crate) fn ended(&self) -> bool {
        self.ended_by_data || self.blocks.iter().any(|(_, end)| *end)
    }

    /// The value of a field of the first block.
    pub(crate) fn head(&self, name: &str) -> Option<&Value> {
        find(&self.blocks.first()?.0, name)
    }
}

pub(crate) fn find<'a>(fields: &'a Fields, name: &str) -> Option<&'a Value> {
    fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
}

/// Reads the text of a recording: its connections on which calls were made, in order.
pub(crate) fn parse(text: &str) -> Vec<Exchanges> {
    let mut connections = BTreeMap::<u32, Exchanges>::new();
    let (mut connection, mut at) = (0, None);
    for line in text.lines() {
        let Some((stamp, from_client, said)) = split(line) else { continue };
        if let Some(stamped) = stamp {
            // "write of N bytes", "closed"
            connection = stamped;
            continue;
        }
        let exchanges = connections.entry(connection).or_default();
        if !said.starts_with(' ') {
            at = frame(said, from_client, exchanges);
        } else if let Some(place) = &at {
            let (stream, is_head) = *place;
            detail(said.trim_start(), is_head, half(exchanges, stream, from_client));
        }
    }
    connections.into_values().filter(|exchanges| !exchanges.is_empty()).collect()
}

/// Which connection a line begins to speak of, whether it speaks of the client, and what it says.
fn split(line: &str) -> Option<(Option<u32>, bool, &str)> {
    for (mark, from_client) in [("> ", true), ("< ", false)] {
        if let Some(said) = line.strip_prefix(mark) {
            return Some((None, from_client, said));
        }
    }
    for (mark, from_client) in [("C> ", true), ("<S ", false)] {
        let Some((before, said)) = line.split_once(mark) else { continue };
        let mut words = before.split_whitespace();
        return Some((words.nth(1).and_then(|word| word.parse().ok()), from_client, said));
    }
    None
}

fn half(exchanges: &mut Exchanges, stream: u32, from_client: bool) -> &mut Half {
    let exchange = exchanges.entry(stream).or_default();
    if from_client { &mut exchange.request } else { &mut exchange.response }
}

/// A line about a frame. Returns the stream that its details belong to, and whether they are fields.
fn frame(said: &str, from_client: bool, exchanges: &mut Exchanges) -> Option<(u32, bool)> {
    let kind = said.split(' ').next()?;
    let stream = said.split(' ').find_map(|word| word.strip_prefix("stream=")).and_then(|id| id.parse().ok())?;
    let end = said.contains("END_STREAM");
    match kind {
        "HEADERS" => half(exchanges, stream, from_client).blocks.push((Fields::new(), end)),
        "DATA" => half(exchanges, stream, from_client).ended_by_data |= end,
        "RST_STREAM" | "RSTSTREAM" => {
            let code = said.rsplit(' ').next().map(str::to_owned);
            let half = half(exchanges, stream, from_client);
            half.reset = half.reset.take().or(code);
            return None;
        }
        _ => return None,
    }
    Some((stream, kind == "HEADERS"))
}

fn detail(said: &str, is_head: bool, half: &mut Half) {
    if is_head {
        let colon = said.get(1..).and_then(|name| name.find(':')).expect("a name and a value") + 1;
        let value = said[colon + 1..].strip_prefix(' ').unwrap_or_default();
        let (fields, _) = half.blocks.last_mut().expect("a block");
        fields.push((said[..colon].to_owned(), field_value(value)));
        return;
    }
    let mut words = said.split(' ');
    match words.next() {
        Some("envelope" | "message") => {
            let number = |name: &str| said.split([' ', '=']).skip_while(|word| *word != name).nth(1)?.parse().ok();
            let flag = number("flag").expect("a flag") as u8;
            let len = number("length").or_else(|| number("len")).expect("a length");
            half.messages.push(Message { flag, len, inflated: None, start: hex(words.skip(2)) });
        }
        // "inflated to N: …", "gunzipped to N bytes"
        Some(known @ ("inflated" | "gunzipped")) => {
            // A body without envelopes may be compressed too.
            let Some(message) = half.messages.last_mut() else { return };
            message.inflated = words.nth(1).and_then(|word| word.trim_end_matches(':').parse().ok());
            if known == "inflated" {
                message.start = hex(words);
            }
        }
        Some("body") => half.body.extend(hex(words)),
        Some("hex") => match half.messages.last_mut() {
            Some(message) => message.start = hex(words),
            None => half.body.extend(hex(words)),
        },
        _ => {}
    }
}

/// The octets that come first among words.
fn hex<'a>(words: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let octet = |word: &str| if word.len() == 2 { u8::from_str_radix(word, 16).ok() } else { None };
    words.filter(|word| !word.is_empty()).map_while(octet).collect()
}

/// `text`, `text   raw=HEX` where it is not printable, or `text... (N chars)` where it is long.
fn field_value(text: &str) -> Value {
    if let Some((_, raw)) = text.split_once("   raw=") {
        let shown = hex(raw.split(' '));
        return Value { len: shown.len(), shown };
    }
    let long = text.strip_suffix(" chars)").and_then(|text| text.rsplit_once("... ("));
    if let Some((start, len)) = long {
        return Value { shown: latin1(start), len: len.parse().expect("a length") };
    }
    let shown = latin1(text);
    Value { len: shown.len(), shown }
}

/// The texts show each octet as the character of its number.
fn latin1(text: &str) -> Vec<u8> {
    text.chars().map(|character| u8::try_from(u32::from(character)).expect("Latin-1")).collect()
}
