//! Printing of results: tables for people, objects for scripts (specification/operations.md 3).

use std::io::Write as _;

use anyhow::Context as _;
use serde_json::{Value, json};

/// Output format of a result.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Columns for people.
    #[default]
    Table,
    /// More columns.
    Wide,
    /// The objects as JSON.
    Json,
    /// The objects as YAML.
    Yaml,
    /// `kind.group/name`.
    Name,
}

impl Output {
    /// True if whole objects are printed.
    #[must_use]
    pub fn is_objects(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }
}

/// Rows under a heading, in columns as wide as their widest cell.
#[must_use]
pub fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let heading: Vec<String> = heading.iter().map(|cell| (*cell).to_owned()).collect();
    let all = || std::iter::once(&heading).chain(rows);
    let width =
        |column: usize| all().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("   ").trim_end().to_owned() + "\n"
    };
    all().map(line).collect()
}

/// A List of objects of any kind.
#[must_use]
pub fn list(items: Vec<Value>) -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

/// One object as it is, several as a List, as JSON or YAML.
///
/// # Errors
/// If an object can't be written as YAML.
pub fn objects(output: Output, objects: &[Value]) -> anyhow::Result<String> {
    let whole = match objects {
        [one] => one.clone(),
        several => list(several.to_vec()),
    };
    match output {
        Output::Yaml => yaml(&whole),
        _ => Ok(serde_json::to_string_pretty(&whole).context("writing JSON")? + "\n"),
    }
}

/// Documents of one YAML stream.
///
/// # Errors
/// If an object can't be written as YAML.
pub fn documents(objects: &[Value]) -> anyhow::Result<String> {
    let documents: Vec<String> = objects.iter().map(yaml).collect::<anyhow::Result<_>>()?;
    Ok(documents.join("---\n"))
}

fn yaml(value: &Value) -> anyhow::Result<String> {
    let mut text = serde_saphyr::to_string(value).context("writing YAML")?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// `kind.group/name` of an object.
#[must_use]
pub fn name(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let kind = text("/kind").to_ascii_lowercase();
    let group = text("/apiVersion").split_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
    format!("{kind}{group}/{}", text("/metadata/name"))
}

/// Puts a result on stdout. A reader that went away is no error.
///
/// # Errors
/// If stdout can't be written to.
pub fn out(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error).context("writing to stdout"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns() {
        let rows = [vec!["member1".to_owned(), "True".to_owned()], vec!["m2".to_owned(), String::new()]];
        assert_eq!(table(&["NAME", "READY"], &rows), "NAME      READY\nmember1   True\nm2\n");
        assert_eq!(table(&["NAME"], &[]), "NAME\n");
    }

    #[test]
    fn names_and_lists() {
        let cluster =
            json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"}});
        assert_eq!(name(&cluster), "cluster.cluster.karmada.io/m1");
        assert_eq!(name(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})), "secret/s");
        let list: Value =
            serde_json::from_str(&objects(Output::Json, &[cluster.clone(), cluster.clone()]).unwrap()).unwrap();
        assert_eq!((&list["kind"], list["items"].as_array().unwrap().len()), (&json!("List"), 2));
        assert!(objects(Output::Yaml, std::slice::from_ref(&cluster)).unwrap().contains("kind: Cluster\n"));
        assert_eq!(documents(&[cluster.clone(), cluster]).unwrap().matches("---\n").count(), 1);
    }
}
