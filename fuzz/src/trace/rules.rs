//! What a sender must not do (RFC 9113 §5, §6, §8), and the sender's own promises (no padding, no priority, no push).

use std::collections::{BTreeMap, VecDeque};

use super::frame::{Frame, Limits, Setting};
use super::{Entry, Side};

const MAX_WINDOW: i64 = (1 << 31) - 1;
/// Fields that belong to one connection of HTTP/1 (RFC 9113 §8.2.2).
const HOP_BY_HOP: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// The state of both directions.
pub(super) struct Rules {
    half: [Half; 2],
    streams: BTreeMap<u32, Stream>,
    /// What a server sent on streams before their HEADERS: faults of its own, which bind the client all the same if
    /// the two crossed on the way.
    early: BTreeMap<u32, Stream>,
}

/// One sender's side of the connection.
struct Half {
    /// What the peer allows, as far as this sender has acknowledged it.
    limits: Limits,
    /// SETTINGS of this sender that the peer has not acknowledged.
    unacknowledged: VecDeque<Vec<Setting>>,
    sent_settings: bool,
    /// What this sender may still send on all streams together.
    credit: i64,
    /// PINGs of this sender that the peer has not answered.
    pings: VecDeque<[u8; 8]>,
    last_go_away: Option<u32>,
}

/// One stream; pairs are indexed by the sender.
#[derive(Default)]
struct Stream {
    credit: [i64; 2],
    /// Whether the final head was sent.
    head: [bool; 2],
    ended: [bool; 2],
    reset: [bool; 2],
}

impl Stream {
    fn is_closed(&self) -> bool {
        self.ended == [true; 2] || self.reset.contains(&true)
    }
}

impl Rules {
    pub(super) fn new() -> Self {
        let half = || Half {
            limits: Limits {
                max_frame_size: 16_384,
                header_table: 4096,
                initial_window: 65_535,
                max_streams: u32::MAX,
            },
            unacknowledged: VecDeque::new(),
            sent_settings: false,
            credit: 65_535,
            pings: VecDeque::new(),
            last_go_away: None,
        };
        Self { half: [half(), half()], streams: BTreeMap::new(), early: BTreeMap::new() }
    }

    pub(super) fn limits(&self, side: Side) -> Limits {
        self.half[side as usize].limits
    }

    pub(super) fn connection_credit(&self, side: Side) -> i64 {
        self.half[side as usize].credit
    }

    pub(super) fn credit(&self, side: Side, stream: u32) -> i64 {
        self.stream_credit(side, stream).min(self.connection_credit(side))
    }

    pub(super) fn stream_credit(&self, side: Side, stream: u32) -> i64 {
        self.streams.get(&stream).map_or(0, |stream| stream.credit[side as usize])
    }

    /// Judges a frame and moves on.
    pub(super) fn check(&mut self, entry: &Entry, faults: &mut Vec<String>) {
        let Entry { from, stream, frame } = entry;
        let (from, stream) = (*from, *stream);
        let mut fault = |text: String| faults.push(format!("{text} on stream {stream}"));
        let me = &mut self.half[from as usize];
        if !me.sent_settings && !matches!(frame, Frame::Settings(_) | Frame::Preface) {
            fault(format!("{frame} before SETTINGS"));
            me.sent_settings = true;
        }
        match frame {
            Frame::Preface => {}
            Frame::Settings(settings) => {
                check_settings(settings, &mut fault);
                me.sent_settings = true;
                me.unacknowledged.push_back(settings.clone());
            }
            Frame::SettingsAck => match self.half[from.peer() as usize].unacknowledged.pop_front() {
                Some(settings) => self.apply(from, &settings),
                None => fault("SETTINGS acknowledged that was never sent".into()),
            },
            Frame::Ping(payload) => me.pings.push_back(*payload),
            Frame::PingAck(payload) => {
                if self.half[from.peer() as usize].pings.pop_front() != Some(*payload) {
                    fault(format!("answer to a PING that was not sent: {payload:?}"));
                }
            }
            Frame::GoAway { last, .. } => {
                if me.last_go_away.is_some_and(|before| before < *last) {
                    fault(format!("GOAWAY raised its last stream to {last}"));
                }
                me.last_go_away = Some(*last);
            }
            Frame::WindowUpdate(increment) => self.grant(from, stream, *increment, &mut fault),
            Frame::Headers { fields, end } => self.headers(from, stream, fields, *end, &mut fault),
            Frame::Data { flow, end, .. } => self.data(from, stream, *flow as i64, *end, &mut fault),
            Frame::Reset(_) => match self.streams.get_mut(&stream) {
                None => {
                    self.early.entry(stream).or_default().reset[from as usize] = true;
                    fault("RST_STREAM on an idle stream".into());
                }
                Some(stream) if stream.reset[from as usize] => fault("second RST_STREAM".into()),
                Some(stream) => stream.reset[from as usize] = true,
            },
            Frame::Priority | Frame::PushPromise | Frame::Unknown(_) => fault(format!("{frame} is never sent")),
        }
    }

    /// The settings of `sender`'s peer begin to bind `sender`.
    fn apply(&mut self, sender: Side, settings: &[Setting]) {
        let limits = &mut self.half[sender as usize].limits;
        for &(identifier, value) in settings {
            match identifier {
                1 => limits.header_table = value,
                3 => limits.max_streams = value,
                4 => {
                    let change = i64::from(value) - i64::from(limits.initial_window);
                    limits.initial_window = value;
                    self.streams.values_mut().for_each(|stream| stream.credit[sender as usize] += change);
                }
                5 => limits.max_frame_size = value,
                _ => {}
            }
        }
    }

    /// `from` lets its peer send more.
    fn grant(&mut self, from: Side, stream: u32, increment: u32, fault: &mut dyn FnMut(String)) {
        let credit = match self.streams.get_mut(&stream) {
            _ if stream == 0 => &mut self.half[from.peer() as usize].credit,
            Some(stream) if stream.reset[from as usize] => return fault("WINDOW_UPDATE after RST_STREAM".into()),
            Some(stream) => &mut stream.credit[from.peer() as usize],
            None => {
                self.early.entry(stream).or_default().credit[from.peer() as usize] += i64::from(increment);
                return fault("WINDOW_UPDATE on an idle stream".into());
            }
        };
        *credit += i64::from(increment);
        if increment == 0 || *credit > MAX_WINDOW {
            fault(format!("WINDOW_UPDATE of {increment} makes a window of {credit}"));
        }
    }

    fn headers(&mut self, from: Side, id: u32, fields: &[(String, String)], end: bool, fault: &mut dyn FnMut(String)) {
        if from == Side::Client && !self.streams.contains_key(&id) {
            self.open(id, fault);
        }
        let Some(stream) = self.streams.get_mut(&id) else {
            self.early.entry(id).or_default().ended[from as usize] |= end;
            return fault("response to an idle stream".into());
        };
        if stream.ended[from as usize] || stream.reset[from as usize] {
            fault("HEADERS after the end".into());
        }
        let pseudo: Vec<&str> = fields.iter().map(|(name, _)| &name[..]).filter(|name| name.starts_with(':')).collect();
        let status = fields.iter().find(|(name, _)| name == ":status").map(|(_, value)| &value[..]);
        let informational = status.is_some_and(|status| status.starts_with('1'));
        let expected: &[&str] = match from {
            _ if stream.head[from as usize] => &[],
            Side::Client => &[":method", ":scheme", ":path"],
            Side::Server => &[":status"],
        };
        let missing = expected.iter().any(|name| pseudo.iter().filter(|pseudo| pseudo == &name).count() != 1);
        let surplus = pseudo.len() != expected.len() && !(from == Side::Client && pseudo.contains(&":authority"));
        let late = fields.iter().skip(pseudo.len()).any(|(name, _)| name.starts_with(':'));
        if missing || surplus || late {
            fault(format!("pseudo-fields {pseudo:?}"));
        }
        if stream.head[from as usize] && !end {
            fault("trailers without END_STREAM".into());
        }
        if informational && end {
            fault("END_STREAM on an informational response".into());
        }
        stream.head[from as usize] |= !informational;
        stream.ended[from as usize] |= end;
        for (name, value) in fields {
            let token = name.trim_start_matches(':');
            let bad_name =
                token.is_empty() || token.contains(|c: char| c.is_ascii_uppercase() || !c.is_ascii_graphic());
            let forbidden = HOP_BY_HOP.contains(&&name[..]) || (name == "te" && value != "trailers");
            // Escaped by the reader: a backslash and a letter stand for a control character, two for a backslash.
            let escapes = value.replace(r"\\", "");
            let bad_value =
                value.starts_with(' ') || value.ends_with(' ') || escapes.contains(r"\n") || escapes.contains(r"\r");
            if bad_name || forbidden || bad_value {
                fault(format!("field {name:?}: {value:?}"));
            }
        }
    }

    fn open(&mut self, id: u32, fault: &mut dyn FnMut(String)) {
        if id % 2 == 0 || self.streams.last_key_value().is_some_and(|(&last, _)| last >= id) {
            fault("ids must be odd and rise".into());
        }
        let limits = self.half.each_ref().map(|half| half.limits);
        let open = self.streams.values().filter(|stream| !stream.is_closed()).count();
        if open >= limits[Side::Client as usize].max_streams as usize {
            fault(format!("more than {open} streams at once"));
        }
        let mut stream = self.early.remove(&id).unwrap_or_default();
        for (credit, limits) in stream.credit.iter_mut().zip(limits) {
            *credit += i64::from(limits.initial_window);
        }
        self.streams.insert(id, stream);
    }

    fn data(&mut self, from: Side, id: u32, flow: i64, end: bool, fault: &mut dyn FnMut(String)) {
        let me = from as usize;
        self.half[me].credit -= flow;
        if flow > 0 && self.half[me].credit < 0 {
            fault(format!("connection window overrun by {}", -self.half[me].credit));
        }
        let Some(stream) = self.streams.get_mut(&id) else {
            self.early.entry(id).or_default().ended[from as usize] |= end;
            return fault("DATA on an idle stream".into());
        };
        stream.credit[me] -= flow;
        if flow > 0 && stream.credit[me] < 0 {
            fault(format!("stream window overrun by {}", -stream.credit[me]));
        }
        if !stream.head[me] {
            fault("DATA before HEADERS".into());
        }
        if stream.ended[me] || stream.reset[me] {
            fault("DATA after the end".into());
        }
        stream.ended[me] |= end;
    }
}

fn check_settings(settings: &[Setting], fault: &mut dyn FnMut(String)) {
    if settings.len() > 32 {
        fault(format!("{} settings", settings.len()));
    }
    for (i, (identifier, value)) in settings.iter().enumerate() {
        let legal = match identifier {
            2 => *value == 0,
            4 => i64::from(*value) <= MAX_WINDOW,
            5 => (16_384..1 << 24).contains(value),
            8 | 9 => *value <= 1,
            _ => true,
        };
        if !legal || settings[..i].iter().any(|(before, _)| before == identifier) {
            fault(format!("setting {identifier} = {value}"));
        }
    }
}
