//! Dependencies that nobody uses: declared in a manifest, named in no source.

use std::{collections::BTreeSet, fs, path::Path};

use super::{
    graph::{Graph, Package},
    sources,
};

/// Dependencies that a crate declares without naming them, each with its reason.
const UNNAMED: [(&str, &str, &str); 0] = [];

/// The keys of `[workspace.dependencies]`.
fn workspace_dependencies(manifest: &str) -> Vec<&str> {
    let lines = manifest.lines().skip_while(|line| line.trim() != "[workspace.dependencies]").skip(1);
    let rows = lines.take_while(|line| !line.starts_with('[')).filter(|line| !line.starts_with('#'));
    rows.filter_map(|row| row.split_once(['=', '.'])).map(|(key, _)| key.trim()).filter(|key| !key.is_empty()).collect()
}

/// Dependencies that `package` declares and that no source below its manifest names.
fn unnamed(package: &Package, sources: &[String]) -> Vec<String> {
    let mut unnamed = Vec::new();
    for dependency in &package.dependencies {
        let name = dependency.rename.as_ref().unwrap_or(&dependency.name).replace('-', "_");
        let excused = UNNAMED.iter().any(|(owner, to, _)| *owner == package.name && *to == dependency.name);
        if !excused && !sources.iter().any(|source| sources::names_word(source, &name)) {
            unnamed.push(format!("{} declares {} and never names it", package.name, dependency.name));
        }
    }
    unnamed
}

/// All unused dependencies of the workspace at `root`.
fn unused(root: &Path, graph: &Graph) -> Vec<String> {
    let mut found = Vec::new();
    let mut declared = BTreeSet::new();
    for package in graph.members() {
        declared.extend(package.dependencies.iter().map(|dependency| &*dependency.name));
        let folder = package.manifest_path.parent().expect("a manifest lies in a folder");
        let texts = sources::texts(folder).into_iter();
        let rust = texts.filter(|(path, _)| path.extension().is_some_and(|ending| ending == "rs"));
        found.extend(unnamed(package, &rust.map(|(_, text)| text).collect::<Vec<_>>()));
    }
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("the workspace has a manifest");
    let keys = workspace_dependencies(&manifest).into_iter();
    found.extend(keys.filter(|key| !declared.contains(key)).map(|key| format!("no crate declares {key}")));
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{cargo, metadata};

    #[test]
    fn every_declared_dependency_is_named_in_a_source() {
        let root = cargo::workspace_root();
        let graph: Graph = metadata::read(&root).unwrap();
        let unused = unused(&root, &graph);
        assert!(unused.is_empty(), "remove them from the manifests:\n{}\n", unused.join("\n"));
    }

    #[test]
    fn dependency_is_unnamed_unless_code_names_it_as_a_whole_word() {
        let package: Package = serde_json::from_value(json!({
            "id": "a", "name": "a", "manifest_path": "Cargo.toml",
            "dependencies": [{"name": "tokio-util", "kind": null, "rename": null}],
        }))
        .unwrap();
        let want = vec!["a declares tokio-util and never names it".to_owned()];
        for (name, source, found) in [
            ("a path", "use tokio_util::sync::CancellationToken;", vec![]),
            ("a comment only", "// like tokio_util", want.clone()),
            ("a longer word", "use my_tokio_utils::X;", want.clone()),
            ("nothing", "", want),
        ] {
            assert_eq!(unnamed(&package, &[source.to_owned()]), found, "{name}");
        }
    }

    #[test]
    fn keys_of_the_workspace_end_with_its_table() {
        let manifest =
            "[workspace]\na = 1\n[workspace.dependencies]\nb = \"1\"\n\nc = { path = \"c\" }\n[profile.dev]\nd = 1\n";
        assert_eq!(workspace_dependencies(manifest), ["b", "c"]);
    }
}
