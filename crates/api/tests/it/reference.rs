//! The tables of the API reference: a copy of those that the tests compare with. Where the whole reference lies beside the
//! checkout, the copy is compared with it.

use std::{fs, path::PathBuf};

const COPY: &str = include_str!("../reference.md");
/// Set to anything, the copy is taken anew from the reference.
const ACCEPT: &str = "ACCEPT_TABLES";

/// One table: its header cells and its rows, all trimmed, with back quotes kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// The table under the first line that starts with this text.
pub(crate) fn table(anchor: &str) -> Table {
    table_after(COPY, anchor)
}

/// The first table after a line that starts with this text.
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

fn lines_of_table<'a>(text: &'a str, anchor: &str) -> impl Iterator<Item = &'a str> {
    let lines = text.lines().skip_while(move |line| !line.starts_with(anchor)).skip(1);
    lines.skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'))
}

impl Table {
    /// A cell by the start of its column's name; empty when there is no such column.
    pub(crate) fn cell<'a>(&self, row: &'a [String], column: &str) -> &'a str {
        self.header.iter().position(|name| name.starts_with(column)).map_or("", |at| row[at].as_str())
    }

    pub(crate) fn has(&self, column: &str) -> bool {
        self.header.iter().any(|name| name.starts_with(column))
    }
}

/// The cells of a line; `\|` does not separate.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_start_matches('|');
    let line = line.strip_suffix('|').unwrap_or(line).replace("\\|", "\u{1}");
    line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
}

#[test]
fn the_copy_is_as_the_reference() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/api.md");
    let Ok(reference) = fs::read_to_string(path) else {
        eprintln!("SKIPPED the_copy_is_as_the_reference: no reference at ../shared/reference/api.md");
        return;
    };
    let (intro, tables) = COPY.split_once("\n### ").expect("an introduction, then tables");
    let tables = format!("### {tables}");
    let headings: Vec<&str> = tables.lines().filter(|line| !line.is_empty() && !line.starts_with('|')).collect();
    assert!(headings.len() > 35, "only {} tables are copied", headings.len());
    if std::env::var_os(ACCEPT).is_some() {
        let copied = |heading: &&str| {
            let lines: Vec<&str> = lines_of_table(&reference, heading).collect();
            format!("\n{heading}\n\n{}\n", lines.join("\n"))
        };
        let text = format!("{intro}{}", headings.iter().map(copied).collect::<String>());
        fs::write(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/reference.md"), text).unwrap();
        return;
    }
    for heading in headings {
        assert_eq!(table_after(COPY, heading), table_after(&reference, heading), "{heading}; {ACCEPT}=1 takes it anew");
    }
}
