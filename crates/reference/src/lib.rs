//! The tables of the specification, as tests of several crates compare with them.
//!
//! Prose is not compared here. Its rules are rows of the tables of tests beside the decisions. [`check_golden`]
//! compares texts with golden files, and [`promql`] the queries of dashboards and alert rules with metrics.

pub mod exposition;
pub mod promql;

use std::{fs, path::Path};

/// Variable; if it is set, tests write golden files instead of comparing with them.
const UPDATE: &str = "UPDATE_GOLDENS";

/// Compares a text with a golden file, or writes the file if `UPDATE_GOLDENS` is set.
///
/// # Panics
/// If they differ, or the file cannot be read or written.
pub fn check_golden(path: impl AsRef<Path>, text: &str) {
    let path = path.as_ref();
    if std::env::var_os(UPDATE).is_some() {
        fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let golden = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(text, golden, "{} differs; {UPDATE}=1 writes it", path.display());
}

/// A chapter of the specification whose tables are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference {
    /// Kinds, fields, well-known names.
    Api,
    /// Verbs, metrics, flags.
    Operations,
    /// Refusals, defaults and warnings.
    Admission,
}

impl Reference {
    /// The text of the chapter.
    fn text(self) -> &'static str {
        match self {
            Self::Api => include_str!("../../../docs/specification/api.md"),
            Self::Operations => include_str!("../../../docs/specification/operations.md"),
            Self::Admission => include_str!("../../../docs/specification/admission.md"),
        }
    }

    /// The table under the line that starts with this text.
    ///
    /// # Panics
    /// If there is no such table: who asks is a test.
    pub fn table(self, anchor: &str) -> Table {
        table_after(self.text(), anchor)
    }
}

/// An anchor that ends so speaks of the second table after its line.
const SECOND: &str = " (second table)";

/// One table: its header cells and its rows, all trimmed, with back quotes kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Names of the columns.
    pub header: Vec<String>,
    /// The cells of each row, as many as the header has.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A cell by the start of its column's name; empty when there is no such column.
    pub fn cell<'a>(&self, row: &'a [String], column: &str) -> &'a str {
        self.header.iter().position(|name| name.starts_with(column)).map_or("", |at| row[at].as_str())
    }

    /// Reports whether a column's name starts with this text.
    pub fn has(&self, column: &str) -> bool {
        self.header.iter().any(|name| name.starts_with(column))
    }
}

/// The table after a line that starts with this text, before the next heading.
///
/// # Panics
/// If there is none, or one of its rows has more or fewer cells than its header: who asks is a test.
fn table_after(text: &str, anchor: &str) -> Table {
    let mut lines = lines_of_table(text, anchor);
    let header = cells(lines.next().unwrap_or_else(|| panic!("no table after {anchor:?}")));
    let rows: Vec<_> = lines.skip(1).map(cells).collect();
    assert!(!rows.is_empty(), "the table after {anchor:?} has rows");
    for row in &rows {
        assert_eq!(row.len(), header.len(), "a row after {anchor:?} has all cells: {row:?}");
    }
    Table { header, rows }
}

fn lines_of_table<'a>(text: &'a str, anchor: &'a str) -> impl Iterator<Item = &'a str> {
    let (anchor, before) = match anchor.strip_suffix(SECOND) {
        Some(first) => (first, 1),
        None => (anchor, 0),
    };
    let section = text.lines().skip_while(move |line| !line.starts_with(anchor)).skip(1);
    let mut section = section.take_while(|line| !line.starts_with('#')).peekable();
    for _ in 0..before {
        while section.next_if(|line| !line.starts_with('|')).is_some() {}
        while section.next_if(|line| line.starts_with('|')).is_some() {}
    }
    section.skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'))
}

/// The cells of a line; `\|` does not separate.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_start_matches('|');
    let line = line.strip_suffix('|').unwrap_or(line).replace("\\|", "\u{1}");
    line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read() {
        let text = "## A\nwords\n\n| x | y |\n|---|---|\n| 1 | a \\| b |\n\nmore\n| z |\n|---|\n| 2 |\n";
        let first = table_after(text, "## A");
        assert_eq!((first.cell(&first.rows[0], "y"), first.cell(&first.rows[0], "z")), ("a | b", ""));
        assert!(first.has("x") && !first.has("z"));
        assert_eq!(table_after(text, "## A (second table)").header, ["z"]);
    }

    #[test]
    #[should_panic(expected = "no table after \"## A\"")]
    fn a_table_below_the_next_heading_is_of_that_heading() {
        table_after("## A\nNot built yet.\n\n### B\n| x |\n|---|\n| 1 |\n", "## A");
    }
}
