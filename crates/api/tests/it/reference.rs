//! The tables of the API reference, which lies beside the checkout in CI but not beside every clone.

use std::{fs, path::PathBuf};

/// One table: its header cells and its rows, all trimmed, with back quotes kept.
pub(crate) struct Table {
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// The text of api.md, or None, with a named skip, where it is not there.
pub(crate) fn api_md(test: &str) -> Option<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/api.md");
    match fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(_) => {
            eprintln!("SKIPPED {test}: no reference at ../shared/reference/api.md");
            None
        }
    }
}

/// The first table after a line that starts with this text.
pub(crate) fn table_after(text: &str, anchor: &str) -> Table {
    let mut lines = text.lines().skip_while(|line| !line.starts_with(anchor)).skip(1);
    let mut table = lines.by_ref().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let header = cells(table.next().unwrap_or_else(|| panic!("no table after {anchor:?}")));
    let rows: Vec<_> = table.skip(1).map(cells).collect();
    assert!(!rows.is_empty(), "the table after {anchor:?} has rows");
    for row in &rows {
        assert_eq!(row.len(), header.len(), "a row after {anchor:?} has all cells: {row:?}");
    }
    Table { header, rows }
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
