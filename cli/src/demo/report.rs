//! What a run shows: lines that are checked as they are printed.

use std::fmt;
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::json;

/// How lines are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For a person.
    Text,
    /// One JSON object a line: `step`, `side`, `what`, `got`, `want`, `ok`; the last has `lines` and `wrong`.
    Json,
}

/// Who saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The client.
    Client,
    /// The server.
    Server,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Client => "client",
            Self::Server => "server",
        })
    }
}

/// Prints and counts the lines of a run. An output that fails ends the run with its error at the end.
#[derive(Debug)]
pub struct Report<W> {
    out: W,
    format: Format,
    step: String,
    steps: usize,
    lines: usize,
    wrong: usize,
    broken: Option<io::Error>,
}

impl<W: Write> Report<W> {
    /// A report on nothing yet.
    pub const fn new(out: W, format: Format) -> Self {
        Self { out, format, step: String::new(), steps: 0, lines: 0, wrong: 0, broken: None }
    }

    /// Begins a step; `call` says what is done in it.
    pub fn step(&mut self, step: &str, call: &str) {
        step.clone_into(&mut self.step);
        self.steps += 1;
        if self.format == Format::Text {
            let number = self.steps;
            self.print(format_args!("\n{number}. {step}: {call}"));
        }
    }

    /// A line that must read `want`.
    pub fn line(&mut self, side: Side, what: &str, got: impl fmt::Display, want: impl fmt::Display) {
        let (got, want) = (got.to_string(), want.to_string());
        let ok = got == want;
        self.checked(side, what, &got, &want, ok);
    }

    /// A line on a time that must lie in a range.
    pub fn time(&mut self, side: Side, what: &str, got: Duration, want: RangeInclusive<Duration>) {
        let ok = want.contains(&got);
        let want = format!("{} to {} ms", want.start().as_millis(), want.end().as_millis());
        self.checked(side, what, &format!("{} ms", got.as_millis()), &want, ok);
    }

    fn checked(&mut self, side: Side, what: &str, got: &str, want: &str, ok: bool) {
        self.lines += 1;
        self.wrong += usize::from(!ok);
        match self.format {
            Format::Json => {
                let (step, side) = (&self.step, side.to_string());
                let object = json!({ "step": step, "side": side, "what": what, "got": got, "want": want, "ok": ok });
                self.print(format_args!("{object}"));
            }
            Format::Text if ok => self.print(format_args!("   {side}  {what:<25} {got}")),
            Format::Text => self.print(format_args!("   {side}  {what:<25} {got}   WRONG: it must be {want}")),
        }
    }

    /// Prints the summary. `Ok(true)` if every line was right.
    ///
    /// # Errors
    /// The first error of the output.
    pub fn finish(mut self) -> io::Result<bool> {
        let (lines, wrong) = (self.lines, self.wrong);
        match (self.format, wrong) {
            (Format::Json, _) => {
                let object = json!({ "step": "end", "lines": lines, "wrong": wrong, "ok": wrong == 0 });
                self.print(format_args!("{object}"));
            }
            (Format::Text, 0) => self.print(format_args!("\nAll {lines} lines are as they must be.")),
            (Format::Text, _) => self.print(format_args!("\n{wrong} of {lines} lines WRONG.")),
        }
        match self.broken {
            Some(error) => Err(error),
            None => Ok(wrong == 0),
        }
    }

    fn print(&mut self, line: fmt::Arguments<'_>) {
        if self.broken.is_none() {
            // Line by line, so that a person sees the call that hangs.
            self.broken = writeln!(self.out, "{line}").and_then(|()| self.out.flush()).err();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(format: Format, wrong: bool) -> (String, io::Result<bool>) {
        let mut out = Vec::new();
        let mut report = Report::new(&mut out, format);
        report.step("unary", "Say \"hello\"");
        report.line(Side::Client, "text", "echo:hello", if wrong { "hello" } else { "echo:hello" });
        report.time(Side::Server, "time", Duration::from_millis(7), Duration::ZERO..=Duration::from_millis(9));
        let outcome = report.finish();
        (String::from_utf8(out).expect("text"), outcome)
    }

    #[test]
    fn a_wrong_line_is_marked_and_makes_the_run_fail() {
        let (text, outcome) = report(Format::Text, true);
        assert!(matches!(outcome, Ok(false)));
        assert!(text.contains("echo:hello   WRONG: it must be hello"), "{text}");
        assert!(text.ends_with("1 of 2 lines WRONG.\n"), "{text}");
        let (text, outcome) = report(Format::Text, false);
        assert!(matches!(outcome, Ok(true)) && !text.contains("WRONG"), "{text}");
    }

    #[test]
    fn json_is_one_object_a_line_with_what_was_wanted() {
        let (text, _) = report(Format::Json, true);
        let objects: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        assert_eq!(objects.len(), 3);
        assert_eq!(objects[0]["want"], "hello");
        assert_eq!(objects[0]["ok"], false);
        assert_eq!(objects[1]["got"], "7 ms");
        assert_eq!(objects[2]["wrong"], 1);
    }

    #[test]
    fn an_output_that_fails_is_an_error_and_no_panic() {
        let mut out = [0_u8; 4];
        let mut report = Report::new(&mut out[..], Format::Text);
        report.line(Side::Client, "text", 1, 1);
        assert_eq!(report.finish().expect_err("too small").kind(), io::ErrorKind::WriteZero);
    }
}
