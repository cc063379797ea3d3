//! Objects that a command line asks for.

use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::Value;

use crate::{plan::read::dumped, print, report::Misused, resource::Resources};

/// A type and names of its objects; none for all.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// As it was typed.
    pub(super) word: String,
    pub(super) names: Vec<String>,
    /// Namespace that a manifest names.
    pub(super) namespace: Option<String>,
}

impl From<(String, Vec<String>)> for Wanted {
    fn from((word, names): (String, Vec<String>)) -> Self {
        Self { word, names, namespace: None }
    }
}

/// The types of a category, such as `all`; any other word by itself.
pub(super) fn expanded(known: &Resources, wanted: Wanted) -> Vec<Wanted> {
    let of_category = known.category(&wanted.word);
    if !wanted.names.is_empty() || of_category.is_empty() || known.find(&wanted.word).is_ok() {
        return vec![wanted];
    }
    of_category.into_iter().map(|word| Wanted::from((word, Vec::new()))).collect()
}

/// The objects that manifests name.
///
/// # Errors
/// If a file can't be read, or has an object without kind or name, or none.
pub(super) fn of_manifests(files: &[PathBuf]) -> anyhow::Result<Vec<Wanted>> {
    let mut all: Vec<Wanted> = Vec::new();
    for file in files {
        let objects = dumped(file).with_context(|| format!("the manifests of {} can't be used", file.display()))?;
        for object in objects {
            all.push(of_manifest(&object).map_err(|why| Misused(format!("{}: {why}", file.display())))?);
        }
    }
    // Neighbours of one type and namespace are one query.
    all.dedup_by(|next, before| {
        let is_same = (&next.word, &next.namespace) == (&before.word, &before.namespace);
        if is_same {
            before.names.append(&mut next.names);
        }
        is_same
    });
    if all.is_empty() {
        return Err(Misused("the manifests hold no object".to_owned()).into());
    }
    Ok(all)
}

fn of_manifest(object: &Value) -> Result<Wanted, String> {
    let text = |pointer: &str| print::text(object, pointer).to_owned();
    let (kind, name, namespace) = (text("/kind"), text("/metadata/name"), text("/metadata/namespace"));
    if kind.is_empty() || name.is_empty() {
        return Err(format!("an object without {}", if kind.is_empty() { "kind" } else { "metadata.name" }));
    }
    let word = match text("/apiVersion").split_once('/') {
        Some((group, version)) => format!("{kind}.{version}.{group}"),
        None => kind,
    };
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    Ok(Wanted { word, names: vec![name], namespace })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_name_objects() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("m.yaml");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            of_manifests(std::slice::from_ref(&file)).map_err(|error| format!("{error:#}"))
        };
        let wanted = |word: &str, names: &[&str], namespace: Option<&str>| Wanted {
            word: word.to_owned(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            namespace: namespace.map(str::to_owned),
        };
        let all = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n{apiVersion: v1, kind: List, items: [\
                   {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}, \
                   {apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}}]}\n";
        assert_eq!(
            read(all).unwrap(),
            [wanted("ConfigMap", &["a", "b"], None), wanted("Deployment.v1.apps", &["web"], Some("shop"))]
        );
        for (text, want) in [
            ("{apiVersion: v1, kind: ConfigMap}", "an object without metadata.name"),
            ("{apiVersion: v1, metadata: {name: a}}", "an object without kind"),
            ("", "the manifests hold no object"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(want), "{text}: {error}");
        }
    }
}
