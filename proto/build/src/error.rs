//! What is wrong with a schema, and where.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use miette::{Diagnostic, LabeledSpan, SourceCode};

/// Why no code was generated.
///
/// `Display` (and `Debug`, which is what a failing build script prints) names file, line and column of
/// the proto, and shows the line.
pub struct Error(Box<Kind>);

enum Kind {
    /// At least one.
    Schema(Vec<Finding>),
    Config(String),
    Write(PathBuf, io::Error),
}

/// One fault of a schema.
pub(crate) struct Finding {
    /// Path as the user can open it, where an include directory holds it; else the import name.
    file: String,
    place: Option<Place>,
    message: String,
}

/// Where in a file; line and column count from 1, columns in characters.
struct Place {
    line: usize,
    column: usize,
    text: String,
}

impl Error {
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self(Box::new(Kind::Config(message.into())))
    }

    pub(crate) fn write(path: &Path, error: io::Error) -> Self {
        Self(Box::new(Kind::Write(path.to_owned(), error)))
    }

    pub(crate) fn missing(proto: &Path, message: String) -> Self {
        Self::schema(vec![Finding { file: proto.display().to_string(), place: None, message }])
    }

    pub(crate) fn schema(findings: Vec<Finding>) -> Self {
        Self(Box::new(Kind::Schema(findings)))
    }

    pub(crate) fn from_protox(error: &protox::Error, includes: &[PathBuf]) -> Self {
        let mut findings = vec![Finding::from_diagnostic(error, error.source_code(), error.file(), includes)];
        if let Some(related) = error.related() {
            findings.extend(related.map(|d| Finding::from_diagnostic(d, error.source_code(), error.file(), includes)));
        }
        if let Some((importer, imported)) = findings.first().and_then(|f| last_import_of_cycle(&f.message)) {
            findings[0].file = locate(&importer, includes);
            findings[0].place = Place::of_import(&findings[0].file, &imported);
        }
        Self::schema(findings)
    }

    /// The proto file of the first fault: its path where an include directory holds it, else the name
    /// it is imported by. `None` if the fault is not in a proto.
    pub fn file(&self) -> Option<&str> {
        self.first().map(|finding| finding.file.as_str())
    }

    /// Line of the first fault, from 1.
    pub fn line(&self) -> Option<usize> {
        self.first()?.place.as_ref().map(|place| place.line)
    }

    /// Column of the first fault, from 1, in characters.
    pub fn column(&self) -> Option<usize> {
        self.first()?.place.as_ref().map(|place| place.column)
    }

    fn first(&self) -> Option<&Finding> {
        match &*self.0 {
            Kind::Schema(findings) => findings.first(),
            Kind::Config(_) | Kind::Write(..) => None,
        }
    }
}

impl Finding {
    /// A fault that this crate found at `span` (line and column from 0).
    pub(crate) fn new(name: &str, span: Option<(usize, usize)>, message: String, includes: &[PathBuf]) -> Self {
        let file = locate(name, includes);
        let place = span.map(|(line, column)| Place::new(&file, line, column));
        Self { file, place, message }
    }

    fn from_diagnostic(
        diagnostic: &dyn Diagnostic,
        source: Option<&dyn SourceCode>,
        name: Option<&str>,
        includes: &[PathBuf],
    ) -> Self {
        let file = locate(name.unwrap_or_default(), includes);
        let source = diagnostic.source_code().or(source);
        let place_of = |label: &LabeledSpan| Place::of_label(&file, label, source?);
        // The last label is where the fault shows; an earlier one names the first of two definitions.
        let mut labels: Vec<_> = diagnostic.labels().into_iter().flatten().collect();
        let place = labels.pop().as_ref().and_then(place_of);
        let mut message = diagnostic.to_string();
        for label in labels {
            if let (Some(text), Some(place)) = (label.label(), place_of(&label)) {
                message += &format!(" ({text}: line {})", place.line);
            }
        }
        if let Some(help) = diagnostic.help() {
            message += &format!("; {help}");
        }
        Self { file, place, message }
    }
}

impl Place {
    /// Line and column count from 0 here, as descriptors and diagnostics do.
    fn new(file: &str, line: usize, column: usize) -> Self {
        let source = std::fs::read_to_string(file).unwrap_or_default();
        let text = source.lines().nth(line).unwrap_or_default().to_owned();
        Self { line: line + 1, column: column + 1, text }
    }

    fn of_label(file: &str, label: &LabeledSpan, source: &dyn SourceCode) -> Option<Self> {
        let contents = source.read_span(label.inner(), 0, 0).ok()?;
        Some(Self::new(file, contents.line(), contents.column()))
    }

    /// Where the file imports `imported`.
    fn of_import(file: &str, imported: &str) -> Option<Self> {
        let source = std::fs::read_to_string(file).ok()?;
        let line = source
            .lines()
            .position(|text| text.trim_start().starts_with("import") && text.contains(&format!("\"{imported}\"")))?;
        let column = source.lines().nth(line)?.chars().take_while(|c| c.is_whitespace()).count();
        Some(Self::new(file, line, column))
    }
}

/// The path of a proto that is known by its import name.
fn locate(name: &str, includes: &[PathBuf]) -> String {
    let found = includes.iter().map(|include| include.join(name)).find(|path| path.is_file());
    found.map_or_else(|| name.to_owned(), |path| path.display().to_string())
}

/// The closing edge of an import cycle, which is the one fault that comes as text only.
fn last_import_of_cycle(message: &str) -> Option<(String, String)> {
    let cycle = message.strip_prefix("import cycle detected: ")?;
    let mut names = cycle.rsplit(" -> ");
    let imported = names.next()?;
    Some((names.next()?.to_owned(), imported.to_owned()))
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, place, message } = self;
        match place {
            None if file.is_empty() => f.write_str(message),
            None => write!(f, "{file}: {message}"),
            Some(Place { line, column, text }) if text.is_empty() => write!(f, "{file}:{line}:{column}: {message}"),
            Some(Place { line, column, text }) => {
                let number = line.to_string();
                let margin = " ".repeat(number.len());
                // Tabs stay tabs under the line, so that the mark stands below its column.
                let lead: String = text.chars().take(column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
                write!(f, "{file}:{line}:{column}: {message}\n {number} | {text}\n {margin} | {lead}^")
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Schema(findings) => {
                for (i, finding) in findings.iter().enumerate() {
                    write!(f, "{}{finding}", if i == 0 { "" } else { "\n" })?;
                }
                Ok(())
            }
            Kind::Config(message) => f.write_str(message),
            Kind::Write(path, error) => write!(f, "cannot write {}: {error}", path.display()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}
