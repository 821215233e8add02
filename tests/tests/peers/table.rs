//! The table peer × case.

use std::collections::BTreeMap;

/// What a cell says.
#[derive(Clone)]
pub(crate) enum Cell {
    Passed,
    /// Passed by asserting what the peer does instead.
    Otherwise(String),
    Failed(String),
}

/// Results of one client against one server, by the name of the case.
pub(crate) struct Column {
    pub(crate) title: String,
    pub(crate) cells: BTreeMap<String, Cell>,
}

impl Column {
    /// Reads `PASS name`, `PASS name (note)` and `FAIL name: why` lines.
    pub(crate) fn parse(title: &str, lines: &[String]) -> Self {
        let mut cells = BTreeMap::new();
        for line in lines {
            if let Some(passed) = line.strip_prefix("PASS ") {
                let (name, note) = passed.split_once(' ').unwrap_or((passed, ""));
                let note = note.trim_matches(['(', ')']);
                let cell = if note.is_empty() { Cell::Passed } else { Cell::Otherwise(note.to_owned()) };
                cells.insert(name.to_owned(), cell);
            } else if let Some(failed) = line.strip_prefix("FAIL ") {
                let (name, why) = failed.split_once(": ").unwrap_or((failed, "no reason given"));
                cells.insert(name.to_owned(), Cell::Failed(why.to_owned()));
            }
        }
        Self { title: title.to_owned(), cells }
    }
}

/// The whole table.
pub(crate) struct Table {
    /// Names of the cases: the rows, in their order.
    pub(crate) cases: Vec<String>,
    pub(crate) columns: Vec<Column>,
}

impl Table {
    /// A case that a column lacks has failed: its client ended early, or does not know it. So has one too many.
    pub(crate) fn complete(&mut self) {
        for column in &mut self.columns {
            for case in &self.cases {
                let missing = || Cell::Failed("the client did not report it".to_owned());
                column.cells.entry(case.clone()).or_insert_with(missing);
            }
        }
        for column in &mut self.columns {
            for (name, cell) in column.cells.iter_mut().filter(|(name, _)| !self.cases.contains(name)) {
                *cell = Cell::Failed(format!("only this client has a case {name}"));
            }
        }
    }

    /// How many cells passed, and how many failed.
    pub(crate) fn count(&self) -> (usize, usize) {
        let cells = || self.columns.iter().flat_map(|column| column.cells.values());
        let failed = cells().filter(|cell| matches!(cell, Cell::Failed(_))).count();
        (cells().count() - failed, failed)
    }

    /// Prints the rows, then what the notes are and why cells failed.
    pub(crate) fn print(&self) {
        let mut notes = Notes::default();
        let first = self.cases.iter().map(String::len).max().unwrap_or(0);
        let row = |name: &str, cells: Vec<String>| {
            let cells: String = cells.iter().map(|cell| format!("  {cell:<16}")).collect();
            println!("{}", format!("{name:<first$}{cells}").trim_end());
        };
        row("", self.columns.iter().map(|column| column.title.clone()).collect());
        for case in &self.cases {
            row(case, self.columns.iter().map(|column| notes.mark(column.cells.get(case))).collect());
        }
        for (number, note) in notes.0.iter().enumerate() {
            println!("[{}] {note}", number + 1);
        }
        for column in &self.columns {
            for (name, cell) in &column.cells {
                if let Cell::Failed(why) = cell {
                    println!("FAILED {} {name}: {why}", column.title);
                }
            }
        }
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
