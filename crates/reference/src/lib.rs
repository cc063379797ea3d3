//! The tables of the references, as tests of several crates compare with them: a copy of those that are compared, and
//! how a table is read. Where the references lie beside the checkout, the copy is compared with them.
//!
//! Prose is not compared here. Its rules are rows of the tables of tests beside the decisions. [`check_golden`]
//! compares texts with golden files.

use std::{
    fs,
    path::{Path, PathBuf},
};

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

/// One of the references.
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
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Api, Self::Operations, Self::Admission];

    /// The name of its file.
    pub fn file(self) -> &'static str {
        match self {
            Self::Api => "api.md",
            Self::Operations => "operations.md",
            Self::Admission => "admission.md",
        }
    }

    /// The copied tables: an introduction, then a heading before each table.
    pub fn copy(self) -> &'static str {
        match self {
            Self::Api => include_str!("../tables/api.md"),
            Self::Operations => include_str!("../tables/operations.md"),
            Self::Admission => include_str!("../tables/admission.md"),
        }
    }

    /// The file of the copy, and that of the whole reference, which need not be there.
    pub fn paths(self) -> (PathBuf, PathBuf) {
        let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let beside = std::env::var_os(BESIDE).map_or_else(|| here.join("../../../shared/reference"), PathBuf::from);
        (here.join("tables").join(self.file()), beside.join(self.file()))
    }

    /// The copied table under the heading that starts with this text.
    ///
    /// # Panics
    /// If there is no such table: who asks is a test.
    pub fn table(self, anchor: &str) -> Table {
        table_after(self.copy(), anchor)
    }
}

/// Set, the directory of the references.
const BESIDE: &str = "IRONCLAD_REFERENCES";
/// A heading that ends so speaks of the second table after it.
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

/// The table after a line that starts with this text.
///
/// # Panics
/// If there is none, or one of its rows has more or fewer cells than its header: who asks is a test.
pub fn table_after(text: &str, anchor: &str) -> Table {
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
    // The copy has the requested heading; in the reference this is the second table below the heading.
    let (anchor, second) = match anchor.strip_suffix(SECOND) {
        Some(first) if !text.lines().any(|line| line == anchor) => (first, true),
        _ => (anchor, false),
    };
    let mut lines = text.lines().skip_while(move |line| !line.starts_with(anchor)).skip(1).peekable();
    if second {
        while lines.next_if(|line| !line.starts_with('|')).is_some() {}
        while lines.next_if(|line| line.starts_with('|')).is_some() {}
    }
    lines.skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'))
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

    /// A title and a paragraph, then the tables.
    fn introduction(copy: &str) -> (&str, &str) {
        let paragraphs = copy.match_indices("\n\n").nth(1).expect("a title, a paragraph, then tables");
        copy.split_at(paragraphs.0 + 1)
    }

    #[test]
    fn the_copies_are_as_the_references() {
        for reference in Reference::ALL {
            let (copy, whole) = reference.paths();
            let Ok(whole) = fs::read_to_string(whole) else {
                eprintln!("SKIPPED the_copies_are_as_the_references: no {} beside the checkout", reference.file());
                continue;
            };
            let (intro, tables) = introduction(reference.copy());
            let headings: Vec<&str> =
                tables.lines().filter(|line| !line.is_empty() && !line.starts_with('|')).collect();
            assert!(!headings.is_empty(), "no tables of {} are copied", reference.file());
            if std::env::var_os(UPDATE).is_some() {
                let copied = |heading: &&str| {
                    let lines: Vec<&str> = lines_of_table(&whole, heading).collect();
                    format!("\n{heading}\n\n{}\n", lines.join("\n"))
                };
                fs::write(copy, format!("{intro}{}", headings.iter().map(copied).collect::<String>())).unwrap();
                continue;
            }
            for heading in headings {
                let message = format!("{} {heading}; {UPDATE}=1 takes it anew", reference.file());
                assert_eq!(reference.table(heading), table_after(&whole, heading), "{message}");
            }
        }
    }

    #[test]
    fn tables_are_read() {
        let text = "## A\nwords\n\n| x | y |\n|---|---|\n| 1 | a \\| b |\n\nmore\n| z |\n|---|\n| 2 |\n";
        let first = table_after(text, "## A");
        assert_eq!((first.cell(&first.rows[0], "y"), first.cell(&first.rows[0], "z")), ("a | b", ""));
        assert!(first.has("x") && !first.has("z"));
        assert_eq!(table_after(text, "## A (second table)").header, ["z"]);
    }
}
