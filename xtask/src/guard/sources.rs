//! Patterns that no file of the tree may contain.
//!
//! Some patterns are assembled at run time, so that this file does not match itself.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Folders without own sources; in a linked worktree `.git` is a file.
const NOT_OURS: [&str; 3] = [".git", "target", "ironclad-data"];

/// Every text file of the tree, by its path from the root.
pub(super) fn texts(root: &Path) -> Vec<(PathBuf, String)> {
    let mut texts = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the tree can be read") {
            let entry = entry.expect("a folder of the tree can be read");
            let path = entry.path();
            let kind = entry.file_type().expect("a file of the tree has a type");
            if NOT_OURS.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file()
                && let Ok(text) = fs::read_to_string(&path)
            {
                texts.push((path.strip_prefix(root).unwrap_or(&path).to_owned(), text));
            }
        }
    }
    texts.sort();
    texts
}

/// Returns the lines of `select!` without `biased;`, whose choice of a branch no seed determines.
fn unbiased_selects(text: &str) -> Vec<usize> {
    let mut lines = Vec::new();
    for (at, found) in text.match_indices("select!") {
        let Some(body) = text[at + found.len()..].trim_start().strip_prefix(['{', '(', '[']) else { continue };
        let mut first = body.trim_start();
        while first.starts_with("//") {
            first = first.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
        }
        if !first.starts_with("biased;") {
            lines.push(line_of(text, at));
        }
    }
    lines
}

fn uses(text: &str, word: &str) -> Vec<usize> {
    text.lines().enumerate().filter(|(_, line)| names_word(line, word)).map(|(index, _)| index + 1).collect()
}

/// Returns `true` if code contains `word` as a whole identifier; comments don't count.
pub(super) fn names_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.lines().any(|line| {
        let code = line.split("//").next().unwrap_or_default();
        code.match_indices(word)
            .any(|(at, _)| !code[..at].ends_with(is_part) && !code[at + word.len()..].starts_with(is_part))
    })
}

/// Returns the lines with an absolute path of one machine.
fn machine_paths(text: &str) -> Vec<usize> {
    let homes = ["root/", "home/", "Users/", "work/main", "work/shared", "tmp/h/", "tmp/kbuild"];
    let mut lines = Vec::new();
    for home in homes.map(|home| format!("/{home}")) {
        for (at, _) in text.match_indices(&home) {
            // Part of a longer path, such as src/work/main.rs, which is not absolute.
            let before = text[..at].chars().next_back();
            if !before.is_some_and(|c| c.is_alphanumeric() || "._-~/}$".contains(c)) {
                lines.push(line_of(text, at));
            }
        }
    }
    lines
}

/// Returns the lines with a host of a package registry, which each machine configures. `Cargo.lock` contains cargo's
/// default registry for every package, whatever mirror serves it.
fn registry_hosts(path: &Path, text: &str) -> Vec<usize> {
    let hosts = [
        ("index.", "crates.io"),
        ("static.", "crates.io"),
        ("crates.io", "-index"),
        ("proxy.", "golang.org"),
        ("sum.", "golang.org"),
        ("registry.", "npmjs.org"),
        ("pypi.", "org"),
        ("GOPROXY", "="),
        ("replace", "-with"),
    ];
    let mut lines = Vec::new();
    for host in hosts.map(|(start, end)| format!("{start}{end}")) {
        lines.extend(text.match_indices(&host).map(|(at, _)| line_of(text, at)));
    }
    if path == Path::new("Cargo.lock") {
        let default =
            format!("source = \"registry+https://github.com/rust-lang/{}\"", ["crates.io", "index"].join("-"));
        lines.retain(|line| text.lines().nth(line - 1) != Some(&default));
    }
    lines
}

/// Returns `true` if a manifest has the workspace's lints.
fn has_the_lints(manifest: &str) -> bool {
    let mut lines = manifest.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.any(|line| line == "[lints]") && lines.next() == Some("workspace = true")
}

/// Returns the files `x.rs` beside which a folder `x` has modules of theirs; `x/tests.rs` alone may stand there.
fn modules_beside_folders<'a>(paths: &[&'a Path]) -> Vec<&'a Path> {
    let has_modules = |folder: &Path| {
        paths.iter().any(|path| path.parent() == Some(folder) && !path.ends_with("tests.rs") && is_source(path))
    };
    let of_crates =
        paths.iter().filter(|path| is_source(path) && path.components().any(|part| part.as_os_str() == "src"));
    of_crates.filter(|path| has_modules(&path.with_extension(""))).copied().collect()
}

fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cargo, guard::graph::Graph, metadata};

    /// Asserts that `find` finds nothing in any file with this ending.
    fn nowhere(ending: &str, rule: &str, find: impl Fn(&Path, &str) -> Vec<usize>) {
        let texts = texts(&cargo::workspace_root());
        assert!(texts.iter().any(|(path, _)| path == Path::new("xtask/src/guard/sources.rs")), "the tree was read");
        let mut found = Vec::new();
        for (path, text) in texts.iter().filter(|(path, _)| path.to_string_lossy().ends_with(ending)) {
            found.extend(find(path, text).iter().map(|line| format!("{}:{line}", path.display())));
        }
        assert!(found.is_empty(), "{rule}:\n{}\n", found.join("\n"));
    }

    #[test]
    fn every_select_is_biased() {
        nowhere(".rs", "a `select!` starts with `biased;`, or chance decides that no seed knows", |_, text| {
            unbiased_selects(text)
        });
    }

    #[test]
    fn stream_map_is_not_used() {
        let name = ["Stream", "Map"].concat();
        nowhere(".rs", "tokio's map of streams starts at a random one", |_, text| uses(text, &name));
    }

    #[test]
    fn no_file_names_a_path_of_one_machine() {
        nowhere("", "paths of one machine don't exist on another", |_, text| machine_paths(text));
    }

    #[test]
    fn no_file_names_a_registry_host() {
        nowhere("", "where packages come from is the machine's choice", registry_hosts);
    }

    #[test]
    fn pages_for_users_name_nothing_of_developers() {
        let names = ["cargo xtask", "crates/", "testkit", "profile sim", "profile `sim"];
        let folders = ["docs/concepts", "docs/tasks", "docs/operations"];
        nowhere(".md", "tools and paths of developers stand in docs/development", |path, text| {
            if !folders.iter().any(|folder| path.starts_with(folder)) {
                return Vec::new();
            }
            names.iter().flat_map(|name| text.match_indices(name)).map(|(at, _)| line_of(text, at)).collect()
        });
    }

    #[test]
    fn modules_with_modules_are_in_their_folder() {
        let texts = texts(&cargo::workspace_root());
        let paths: Vec<_> = texts.iter().map(|(path, _)| path.as_path()).collect();
        let found = modules_beside_folders(&paths);
        assert!(found.is_empty(), "x/mod.rs instead of x.rs beside x/: {found:?}");
    }

    #[test]
    fn modules() {
        let beside = |paths: &[&str]| {
            let paths: Vec<_> = paths.iter().map(Path::new).collect();
            modules_beside_folders(&paths).len()
        };
        assert_eq!(beside(&["c/src/x.rs", "c/src/x/y.rs"]), 1);
        assert_eq!(beside(&["c/src/x.rs", "c/src/x/tests.rs", "c/src/x/data.txt"]), 0);
        assert_eq!(beside(&["c/src/x/mod.rs", "c/src/x/y.rs", "c/src/y.rs"]), 0);
        assert_eq!(beside(&["c/tests/it.rs", "c/tests/it/y.rs"]), 0, "programs of tests are no modules");
    }

    #[test]
    fn every_crate_has_the_lints() {
        let graph: Graph = metadata::read(&cargo::workspace_root()).unwrap();
        for package in graph.members() {
            let manifest = fs::read_to_string(&package.manifest_path).unwrap();
            assert!(has_the_lints(&manifest), "{} lacks [lints] workspace = true", package.manifest_path.display());
        }
    }

    #[test]
    fn selects() {
        let select = ["sel", "ect!"].concat();
        for (name, text, want) in [
            ("biased", "tokio::S { biased; a = b => c }", vec![]),
            ("biased after a comment", "S {\n  // first the stop\n  biased;\n a }", vec![]),
            ("not biased", "fn x() {\n    tokio::S {\n        a = b => c\n    }\n}", vec![2]),
            ("in other brackets", "S(a)", vec![1]),
            ("biased only later", "S { a = b => c, biased; }", vec![1]),
            ("not a use", "/// `S` only with `biased;`", vec![]),
            ("nothing at all", "S {}", vec![1]),
        ] {
            assert_eq!(unbiased_selects(&text.replace('S', &select)), want, "{name}");
        }
    }

    #[test]
    fn words_are_found_in_code_and_not_in_comments() {
        for (name, line, want) in [
            ("code", "use a::Word;", vec![1]),
            ("a comment", "// no Word", vec![]),
            ("behind code", "x; // Word", vec![]),
        ] {
            assert_eq!(uses(line, "Word"), want, "{name}");
        }
    }

    #[test]
    fn paths() {
        let home = ["/", "home/ann/x"].concat();
        for (name, text, want) in [
            ("a home", format!("a\nsee {home}"), vec![2]),
            ("in quotes", format!("\"{home}\""), vec![1]),
            ("in a longer path", format!("src{home}"), vec![]),
            ("somebody's own home", format!("~{home}"), vec![]),
        ] {
            assert_eq!(machine_paths(&text), want, "{name}");
        }
    }

    #[test]
    fn hosts() {
        let host = ["static", "crates.io"].join(".");
        let index = ["crates.io", "index"].join("-");
        let source = format!("name = \"a\"\nsource = \"registry+https://github.com/rust-lang/{index}\"\n");
        let mirror = format!("source = \"registry+https://mirror.example/{index}\"\n");
        for (name, path, text, want) in [
            ("a host", "README.md", format!("from https://{host}/"), vec![1]),
            ("the default registry in the lock file", "Cargo.lock", source.clone(), vec![]),
            ("another one", "Cargo.lock", mirror, vec![1]),
            ("the default registry elsewhere", "config.toml", source, vec![2]),
        ] {
            assert_eq!(registry_hosts(Path::new(path), &text), want, "{name}");
        }
    }

    #[test]
    fn lints() {
        for (name, manifest, want) in [
            ("there", "[package]\n\n[lints]\nworkspace = true\n", true),
            ("missing", "[package]\nname = \"a\"\n", false),
            ("something else", "[lints]\n\n[dependencies]\nworkspace = true\n", false),
        ] {
            assert_eq!(has_the_lints(manifest), want, "{name}");
        }
    }
}
