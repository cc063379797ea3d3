//! Import circles: files of one crate that import one another, followed through `pub use`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::modules::Modules;

/// Files of the largest circle that a crate may have.
const CIRCLE_MAX: usize = 5;

/// Crates whose largest circle exceeds [`CIRCLE_MAX`], with its size. The list may only shrink.
const EXCEPTIONS: [(&str, usize); 0] = [];

/// The roots of the crates of one package: its library, its binary, and its other binaries.
fn roots(package: &Path) -> Vec<PathBuf> {
    let mut roots = vec![package.join("src/lib.rs"), package.join("src/main.rs")];
    for entry in fs::read_dir(package.join("src/bin")).into_iter().flatten().flatten() {
        let path = entry.path();
        roots.push(if path.is_dir() { path.join("main.rs") } else { path });
    }
    roots.retain(|root| root.is_file());
    roots
}

/// The largest circle below `root`: its size, and its files with those of the circle that each uses.
fn largest(root: &Path) -> Option<(usize, String)> {
    let modules = Modules::read(root, &|file| fs::read_to_string(file).ok());
    let circles = modules.circles();
    let circle = circles.first()?;
    let folder = root.parent().unwrap_or(root);
    let name = |file: &Path| file.strip_prefix(folder).unwrap_or(file).display().to_string();
    let lines = circle.iter().map(|(file, used)| {
        let used: Vec<String> = used.iter().map(|file| name(file)).collect();
        format!("  {} uses {}", name(file), used.join(", "))
    });
    Some((circle.len(), lines.collect::<Vec<_>>().join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cargo, guard::graph::Graph, metadata};

    #[test]
    fn import_circles_stay_within_their_limit() {
        let graph: Graph = metadata::read(&cargo::workspace_root()).unwrap();
        let mut found = Vec::new();
        for package in graph.members() {
            let folder = package.manifest_path.parent().unwrap();
            let exception = EXCEPTIONS.iter().find(|(name, _)| *name == package.name).map(|(_, size)| *size);
            let circles = roots(folder).iter().filter_map(|root| largest(root)).collect::<Vec<_>>();
            let size = circles.iter().map(|(size, _)| *size).max().unwrap_or(0);
            if size > exception.unwrap_or(CIRCLE_MAX) {
                let files: Vec<&str> = circles.iter().map(|(_, files)| &**files).collect();
                found.push(format!("{} has a circle of {size} files:\n{}", package.name, files.join("\n")));
            }
            if exception.is_some() && size <= CIRCLE_MAX {
                found.push(format!("{} has no circle above {CIRCLE_MAX} any more: remove its exception", package.name));
            }
        }
        assert!(found.is_empty(), "\n{}\n", found.join("\n"));
    }

    /// The sizes of the circles of a crate with these files, `lib.rs` its root.
    fn sizes(files: &[(&str, &str)]) -> Vec<usize> {
        let source =
            |path: &Path| files.iter().find(|(file, _)| Path::new(file) == path).map(|(_, text)| (*text).to_owned());
        Modules::read(Path::new("lib.rs"), &source).circles().iter().map(|circle| circle.len()).collect()
    }

    #[test]
    fn circles_are_found_through_every_form_of_import() {
        for (name, files, want) in [
            (
                "one direction",
                &[("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "pub struct B;")][..],
                vec![],
            ),
            (
                "both directions",
                &[
                    ("lib.rs", "mod a; mod b;"),
                    ("a.rs", "use crate::b::B; pub struct A;"),
                    ("b.rs", "use super::a::A; pub struct B;"),
                ],
                vec![2],
            ),
            (
                "through a re-export",
                &[
                    ("lib.rs", "mod a; mod b; pub use a::A;"),
                    ("a.rs", "use crate::b::B; pub struct A;"),
                    ("b.rs", "use crate::A; pub struct B;"),
                ],
                vec![2],
            ),
            (
                "through a glob and an alias",
                &[
                    ("lib.rs", "mod a; mod b; pub use a::*; pub(crate) use b::B as Other;"),
                    ("a.rs", "use crate::{Other}; pub fn one() {}"),
                    ("b.rs", "use crate::one; pub struct B;"),
                ],
                vec![2],
            ),
            (
                "a path in code",
                &[
                    ("lib.rs", "mod a; mod b;"),
                    ("a.rs", "fn a() { crate::b::b(); }"),
                    ("b.rs", "use crate::a; pub fn b() { a::a() } #[cfg(test)] mod tests { use crate::c; }"),
                ],
                vec![2],
            ),
            (
                "a parent that calls into its child",
                &[
                    ("lib.rs", "mod a;"),
                    ("a/mod.rs", "mod c; struct A; fn x() { c::c() }"),
                    ("a/c.rs", "use super::A; pub fn c() {}"),
                ],
                vec![],
            ),
            (
                "a parent that imports of its child",
                &[
                    ("lib.rs", "mod a;"),
                    ("a/mod.rs", "mod c; use c::c; struct A; fn x() { c() }"),
                    ("a/c.rs", "use super::A; pub fn c() {}"),
                ],
                vec![2],
            ),
            (
                "a parent that only re-exports its child",
                &[
                    ("lib.rs", "mod a;"),
                    ("a/mod.rs", "mod c; pub use c::C; struct A;"),
                    ("a/c.rs", "use super::A; pub struct C;"),
                ],
                vec![],
            ),
            (
                "words in comments and strings",
                &[
                    ("lib.rs", "mod a; mod b;"),
                    ("a.rs", "use crate::b::B; pub struct A;"),
                    (
                        "b.rs",
                        "// crate::a::A\npub struct B; const C: &str = \"crate::a::A\"; fn f<'a>() { 'x'; r#\"crate::a::A\"#; }",
                    ),
                ],
                vec![],
            ),
            (
                "two circles",
                &[
                    ("lib.rs", "mod a; mod b; mod c; mod d;"),
                    ("a.rs", "use crate::b::B; pub struct A;"),
                    ("b.rs", "use crate::a::A; pub struct B; use crate::c;"),
                    ("c.rs", "use crate::d::D; pub struct C;"),
                    ("d.rs", "use crate::c::C; pub struct D;"),
                ],
                vec![2, 2],
            ),
        ] {
            assert_eq!(sizes(files), want, "{name}");
        }
    }
}
