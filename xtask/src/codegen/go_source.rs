//! Treatment of empty fields by Go's JSON encoder, read from struct tags in the sources: OpenAPI does not state it.
//!
//! The sources are those of the modules that `tools/kubernetes/go.mod` pins, the same that the server is built from.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};

/// Prefixes of schema names with their modules.
const MODULES: [(&str, &str, &str); 4] = [
    ("io.k8s.api.", "k8s.io/api", ""),
    ("io.k8s.apimachinery.pkg.", "k8s.io/apimachinery", "pkg"),
    ("io.k8s.apiextensions-apiserver.pkg.", "k8s.io/apiextensions-apiserver", "pkg"),
    ("io.k8s.kube-aggregator.pkg.", "k8s.io/kube-aggregator", "pkg"),
];

#[derive(Debug, Clone)]
pub(super) struct GoField {
    /// Set if its type is a pointer: then its zero value is printed like any other.
    pub(super) pointer: bool,
    /// `omitempty`
    pub(super) omit_empty: bool,
    /// `omitzero`: structs are left out too.
    pub(super) omit_zero: bool,
}

/// Name of a Go type (empty for none) and JSON tag of each field.
type Struct = Vec<(String, String)>;

/// Folder of a module that the `go.mod` in `tools` names.
pub(super) fn folder(tools: &Path, module: &str) -> anyhow::Result<PathBuf> {
    let args = ["list", "-mod=mod", "-m", "-f", "{{.Dir}}", module];
    let output = Command::new("go").current_dir(tools).args(args).output().context("go can't be run")?;
    ensure!(output.status.success(), "go list of {module}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// The Go sources, read on demand.
pub(super) struct Sources {
    folders: Vec<(&'static str, PathBuf)>,
    packages: HashMap<PathBuf, HashMap<String, Struct>>,
}

impl Sources {
    /// Finds the sources of the modules in the `go.mod` of this folder.
    pub(super) fn find(tools: &Path) -> anyhow::Result<Self> {
        let mut folders = Vec::new();
        for (prefix, module, folder) in MODULES {
            folders.push((prefix, self::folder(tools, module)?.join(folder)));
        }
        Ok(Self { folders, packages: HashMap::new() })
    }

    pub(super) fn fields(&mut self, name: &str) -> anyhow::Result<BTreeMap<String, GoField>> {
        let (folder, rest) = self
            .folders
            .iter()
            .find_map(|(prefix, folder)| Some((folder.clone(), name.strip_prefix(prefix)?)))
            .with_context(|| format!("no module is known for {name}"))?;
        let (package, go_type) = rest.rsplit_once('.').context("a schema name has a package")?;
        let mut out = BTreeMap::new();
        self.collect(&folder.join(package.replace('.', "/")), go_type, &mut out)?;
        Ok(out)
    }

    fn collect(&mut self, package: &Path, go_type: &str, out: &mut BTreeMap<String, GoField>) -> anyhow::Result<()> {
        if !self.packages.contains_key(package) {
            let read = read_package(package).with_context(|| format!("{} can't be read", package.display()))?;
            self.packages.insert(package.to_owned(), read);
        }
        let fields = self.packages[package].get(go_type).cloned();
        for (field_type, tag) in fields.with_context(|| format!("{} has no struct {go_type}", package.display()))? {
            let mut words = tag.split(',');
            let json_name = words.next().unwrap_or_default();
            let words: Vec<&str> = words.collect();
            if json_name.is_empty() || words.contains(&"inline") {
                let inlined = field_type.trim_start_matches('*');
                match inlined.split_once('.') {
                    // TypeMeta, ListMeta: the only ones from another package.
                    Some((_, inlined)) => {
                        let meta = self.folders[1].1.join("apis/meta/v1");
                        self.collect(&meta, inlined, out)?;
                    }
                    None => self.collect(package, inlined, out)?,
                }
                continue;
            }
            let field = GoField {
                pointer: field_type.starts_with('*'),
                omit_empty: words.contains(&"omitempty"),
                omit_zero: words.contains(&"omitzero"),
            };
            out.insert(json_name.to_owned(), field);
        }
        Ok(())
    }
}

/// Reads the structs of a package line by line, as gofmt formats them: one field per line, and a closing brace in the
/// first column ends a declaration.
fn read_package(folder: &Path) -> anyhow::Result<HashMap<String, Struct>> {
    let mut structs: HashMap<String, Struct> = HashMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.ends_with(".go") || name.ends_with("_test.go") {
            continue;
        }
        let mut current: Option<String> = None;
        for line in fs::read_to_string(&path)?.lines() {
            if let Some(name) = line.strip_prefix("type ").and_then(|rest| rest.strip_suffix(" struct {")) {
                structs.insert(name.to_owned(), Vec::new());
                current = Some(name.to_owned());
            } else if line.starts_with('}') {
                current = None;
            } else if let Some(fields) = current.as_ref().and_then(|name| structs.get_mut(name)) {
                fields.extend(read_field(line));
            }
        }
    }
    Ok(structs)
}

fn read_field(line: &str) -> Option<(String, String)> {
    let (declared, tags) = line.split_once('`')?;
    let (_, tag) = tags.split_once("json:\"")?;
    let (tag, _) = tag.split_once('"')?;
    let mut words = declared.split_whitespace();
    let first = words.next()?;
    Some((words.next().unwrap_or(first).to_owned(), tag.to_owned()))
}
