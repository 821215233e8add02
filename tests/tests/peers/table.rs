//! The table peer × case, for a terminal and for `docs/interop.md`.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::relay::Traffic;

/// What a cell says.
#[derive(Clone)]
pub(crate) enum Cell {
    Passed,
    /// Passed by asserting what the peer does instead.
    Otherwise(String),
    Failed(String),
}

impl Cell {
    /// With the reason why what passed is not what others do.
    pub(crate) fn because(self, note: &str) -> Self {
        match self {
            Self::Passed if !note.is_empty() => Self::Otherwise(note.to_owned()),
            cell => cell,
        }
    }
}

/// Results of one client against one server, by the name of the case.
pub(crate) struct Column {
    pub(crate) peer: String,
    pub(crate) cells: BTreeMap<String, Cell>,
}

impl Column {
    pub(crate) fn new(peer: impl Into<String>) -> Self {
        Self { peer: peer.into(), cells: BTreeMap::new() }
    }

    /// Reads `PASS name`, `PASS name (note)` and `FAIL name: why`; other lines are nobody's verdict. The name, if it is one.
    pub(crate) fn read(&mut self, line: &str) -> Option<String> {
        let (name, cell) = if let Some(passed) = line.strip_prefix("PASS ") {
            let (name, note) = passed.split_once(' ').unwrap_or((passed, ""));
            let note = note.strip_prefix('(').and_then(|note| note.strip_suffix(')')).unwrap_or_default();
            (name, Cell::Passed.because(note))
        } else {
            let failed = line.strip_prefix("FAIL ")?;
            let (name, why) = failed.split_once(": ").unwrap_or((failed, "no reason given"));
            (name, Cell::Failed(why.to_owned()))
        };
        self.cells.insert(name.to_owned(), cell);
        Some(name.to_owned())
    }

    /// Judges a compression case that passed by the bytes on the wire: `compresses` is what each side does.
    pub(crate) fn judge_compression(&mut self, name: &str, compresses: (bool, bool), traffic: Traffic) {
        /// Above what the zeros of these cases take compressed, and below what they take as they are.
        const BETWEEN: u64 = 128 << 10;
        let is_small = (traffic.up < BETWEEN, traffic.down < BETWEEN);
        if is_small != compresses && matches!(self.cells.get(name), Some(Cell::Passed | Cell::Otherwise(_))) {
            let Traffic { up, down } = traffic;
            let why = format!("{up} bytes went up and {down} down, where (up, down) are compressed: {compresses:?}");
            self.cells.insert(name.to_owned(), Cell::Failed(why));
        }
    }
}

/// All clients against one server, or one client against all servers.
pub(crate) struct Table {
    pub(crate) title: &'static str,
    /// Names of the cases: the rows, in their order.
    pub(crate) cases: Vec<String>,
    pub(crate) columns: Vec<Column>,
}

impl Table {
    /// A case that a column lacks has failed: its client ended early, or does not know it. So has one too many.
    pub(crate) fn complete(&mut self) {
        for column in &mut self.columns {
            for (name, cell) in column.cells.iter_mut().filter(|(name, _)| !self.cases.contains(name)) {
                *cell = Cell::Failed(format!("only this client has a case {name}"));
            }
            for case in &self.cases {
                let missing = || Cell::Failed("the client did not report it".to_owned());
                column.cells.entry(case.clone()).or_insert_with(missing);
            }
        }
    }

    /// How many cells passed, and how many failed.
    pub(crate) fn count(&self) -> (usize, usize) {
        let cells = || self.columns.iter().flat_map(|column| column.cells.values());
        let failed = cells().filter(|cell| matches!(cell, Cell::Failed(_))).count();
        (cells().count() - failed, failed)
    }

    /// The rows, then what the notes are and why cells failed.
    pub(crate) fn to_text(&self) -> String {
        let (mut out, mut notes) = (String::new(), Notes::default());
        let first = self.cases.iter().map(String::len).max().unwrap_or(0).max(self.title.len());
        let width = |column: usize| self.columns[column].peer.len().max("ok [99]".len());
        let mut row = |name: &str, cells: Vec<String>| {
            let pad = |(at, cell): (usize, &String)| format!("  {cell:<0$}", width(at));
            let cells: String = cells.iter().enumerate().map(pad).collect();
            let _ = writeln!(out, "{}", format!("{name:<first$}{cells}").trim_end());
        };
        row(self.title, self.columns.iter().map(|column| column.peer.clone()).collect());
        for case in &self.cases {
            row(case, self.columns.iter().map(|column| notes.mark(column.cells.get(case))).collect());
        }
        for (number, note) in notes.0.iter().enumerate() {
            let _ = writeln!(out, "[{}] {note}", number + 1);
        }
        for column in &self.columns {
            for (name, cell) in &column.cells {
                if let Cell::Failed(why) = cell {
                    let _ = writeln!(out, "FAILED {}: {} {name}: {why}", self.title, column.peer);
                }
            }
        }
        out
    }

    /// The same as a Markdown table, with the notes as a list behind it.
    pub(crate) fn to_markdown(&self) -> String {
        let (mut out, mut notes) = (String::new(), Notes::default());
        let mut row = |name: &str, cells: Vec<String>| {
            let _ = writeln!(out, "| {name} | {} |", cells.join(" | "));
        };
        row("case", self.columns.iter().map(|column| column.peer.clone()).collect());
        row("---", vec!["---".to_owned(); self.columns.len()]);
        for case in &self.cases {
            row(case, self.columns.iter().map(|column| notes.mark(column.cells.get(case))).collect());
        }
        out.push('\n');
        for (number, note) in notes.0.iter().enumerate() {
            let _ = writeln!(out, "- [{}] {note}", number + 1);
        }
        out
    }
}

/// Notes below the table, numbered as they come up.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn mark(&mut self, cell: Option<&Cell>) -> String {
        match cell {
            Some(Cell::Passed) => "ok".to_owned(),
            Some(Cell::Otherwise(note)) => format!("ok [{}]", self.number(note)),
            Some(Cell::Failed(_)) | None => "FAILED".to_owned(),
        }
    }

    fn number(&mut self, note: &str) -> usize {
        if let Some(known) = self.0.iter().position(|known| known == note) {
            return known + 1;
        }
        self.0.push(note.to_owned());
        self.0.len()
    }
}
