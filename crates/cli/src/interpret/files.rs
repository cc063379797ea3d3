//! Files named on the command line.

use std::{fs, path::Path};

use anyhow::{Context as _, bail};
use ironclad_api::{config::ResourceInterpreterCustomization, work::AggregatedStatusItem};
use serde_json::Value;

use crate::input;

/// Maximum number of bytes read from one file.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Reads the customizations in these files. Other objects are refused.
pub(super) fn customizations(
    paths: &[String],
    recursive: bool,
) -> anyhow::Result<Vec<ResourceInterpreterCustomization>> {
    let mut found = Vec::new();
    for path in paths {
        for file in expanded(path, recursive)? {
            found.extend(of_documents(documents(&file)?, &file)?);
        }
    }
    Ok(found)
}

/// Parses the customizations in this text, which messages call `name`. Other objects are refused.
pub(super) fn parsed(text: &str, name: &str) -> anyhow::Result<Vec<ResourceInterpreterCustomization>> {
    of_documents(split(text, name)?, name)
}

fn of_documents(documents: Vec<Value>, name: &str) -> anyhow::Result<Vec<ResourceInterpreterCustomization>> {
    let read = |document: Value| {
        let kind = document.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        if kind != "ResourceInterpreterCustomization" {
            bail!("{name} holds a {kind:?}\n  try: a file with ResourceInterpreterCustomizations");
        }
        serde_json::from_value(document).with_context(|| format!("reading {name}"))
    };
    documents.into_iter().map(read).collect()
}

/// Reads the only object of a file.
pub(super) fn object(path: &str) -> anyhow::Result<Value> {
    match <[Value; 1]>::try_from(documents(path)?) {
        Ok([object]) if object.is_object() => Ok(object),
        Ok(_) => bail!("{path} holds no object"),
        Err(several) => bail!("{path} holds {} documents\n  try: a file with one object", several.len()),
    }
}

/// Reads the reports of a file: a list of items, an object with them in `aggregatedStatus` or
/// `status.aggregatedStatus`, or one document for each.
pub(super) fn reports(path: &str) -> anyhow::Result<Vec<AggregatedStatusItem>> {
    let mut all = Vec::new();
    for document in documents(path)? {
        let listed = [document.pointer("/status/aggregatedStatus"), document.pointer("/aggregatedStatus")]
            .into_iter()
            .flatten()
            .next()
            .cloned();
        match listed.unwrap_or(document) {
            Value::Array(items) => all.extend(items),
            item => all.push(item),
        }
    }
    let read = |item| serde_json::from_value(item).with_context(|| format!("reading the reports in {path}"));
    all.into_iter().map(read).collect()
}

/// A file, or the YAML and JSON files of a directory, by name.
fn expanded(path: &str, recursive: bool) -> anyhow::Result<Vec<String>> {
    if path == "-" || !Path::new(path).is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut entries: Vec<_> = fs::read_dir(path)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>())
        .with_context(|| format!("reading the directory {path}"))?;
    entries.sort();
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.display().to_string();
        let is_manifest = entry.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json");
        if entry.is_dir() && recursive {
            found.extend(expanded(&name, recursive)?);
        } else if entry.is_file() && is_manifest {
            found.push(name);
        }
    }
    Ok(found)
}

fn documents(path: &str) -> anyhow::Result<Vec<Value>> {
    split(&input::read(path, FILE_BYTES_MAX)?, path)
}

fn split(text: &str, name: &str) -> anyhow::Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).with_context(|| format!("{name} is no YAML"))?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}
