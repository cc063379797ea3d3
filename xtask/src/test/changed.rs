//! `cargo xtask test --changed`: the crates whose sources changed, and which tests concern them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;
use serde::Deserialize;

use crate::metadata;

/// Branches that a change goes into, the first one that exists.
const BRANCHES: [&str; 2] = ["main", "origin/main"];

/// Crates that use it have a client of an API server, and take minutes to compile.
const EDGE: &str = "ironclad-runtime";
/// Its tests are those of the whole: simulations, and real processes.
const WHOLE: &str = "ironclad-testkit";
/// Its guards read the sources of all crates.
pub(super) const XTASK: &str = "xtask";

#[derive(Debug, Deserialize)]
pub(super) struct Members {
    packages: Vec<Member>,
    workspace_members: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
struct Member {
    id: String,
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    path: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct Target {
    kind: Vec<String>,
}

impl Member {
    fn has(&self, kind: &str) -> bool {
        self.targets.iter().any(|target| target.kind.iter().any(|name| name == kind))
    }

    fn uses(&self, name: &str) -> bool {
        self.dependencies.iter().any(|dependency| dependency.path.is_some() && dependency.name == name)
    }
}

/// Tests to run, by package, and what is left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
    /// Packages that changed.
    pub(super) changed: Vec<String>,
    /// Packages that use them.
    pub(super) users: Vec<String>,
    /// Of these packages the unit tests run.
    pub(super) tested: Vec<String>,
    /// One of them is a program.
    pub(super) programs: bool,
    /// One line for each thing that does not run.
    pub(super) left_out: Vec<String>,
}

/// Selects by the changes since `base`, committed or not. Without it, since the commit where the branch left main; on
/// main itself that is the last commit.
pub(super) fn select(root: &Path, base: Option<&str>) -> anyhow::Result<(String, Selection)> {
    let base = match base {
        Some(base) => base.to_owned(),
        None => default_base(root)?,
    };
    let mut files = lines(root, &["diff", "--name-only", "--no-renames", "--relative", &base, "--"])?;
    files.extend(lines(root, &["ls-files", "--others", "--exclude-standard"])?);
    Ok((base, metadata::read::<Members>(root)?.select(root, &files)))
}

/// Names of all packages of the workspace.
pub(super) fn members(root: &Path) -> anyhow::Result<Vec<String>> {
    Ok(metadata::read::<Members>(root)?.members().map(|member| member.name.clone()).collect())
}

fn default_base(root: &Path) -> anyhow::Result<String> {
    for branch in BRANCHES {
        if let Ok(found) = git(root, &["merge-base", "HEAD", branch]) {
            return Ok(found.trim().to_owned());
        }
    }
    Ok("HEAD".to_owned())
}

fn lines(root: &Path, arguments: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    // Without quotes around names with other characters.
    let output = git(root, &[&["-c", "core.quotePath=false"], arguments].concat())?;
    Ok(output.lines().map(PathBuf::from).collect())
}

fn git(root: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new("git");
    let output = command.args(arguments).current_dir(root).output().context("git can't be run")?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "`git {}`: {}", arguments.join(" "), said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

impl Members {
    fn members(&self) -> impl Iterator<Item = &Member> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    fn select(&self, root: &Path, files: &[PathBuf]) -> Selection {
        let folders: BTreeMap<PathBuf, &Member> = self
            .members()
            .filter_map(|member| Some((member.manifest_path.parent()?.strip_prefix(root).ok()?.to_owned(), member)))
            .collect();
        let (mut changed, mut elsewhere) = (BTreeSet::new(), BTreeSet::new());
        for file in files {
            match file.ancestors().find_map(|folder| folders.get(folder)) {
                Some(member) => drop(changed.insert(&*member.name)),
                None => drop(elsewhere.insert(file.display().to_string())),
            }
        }
        let uses = |member: &Member| changed.iter().any(|name| member.uses(name));
        let mut selection = Selection::default();
        for member in self.members().filter(|member| member.name != XTASK) {
            let (name, is_changed) = (member.name.clone(), changed.contains(&*member.name));
            let mut left_out = |what: &str| selection.left_out.push(format!("{name}: {what}"));
            if !is_changed && !uses(member) {
                continue;
            }
            if !is_changed && name == WHOLE {
                left_out("simulations, and tests with real processes");
            } else if !is_changed && (member.uses(EDGE) || !member.has("lib")) {
                left_out("unit tests of a user that takes minutes to compile");
            } else {
                selection.tested.push(name.clone());
                selection.programs |= !member.has("lib");
            }
            if member.has("test") && (is_changed || name != WHOLE) {
                left_out("integration tests, in its folder `tests`");
            }
            let list = if is_changed { &mut selection.changed } else { &mut selection.users };
            list.push(name);
        }
        if changed.contains(XTASK) {
            selection.changed.push(XTASK.to_owned());
        }
        if !elsewhere.is_empty() {
            let some: Vec<&str> = elsewhere.iter().take(5).map(String::as_str).collect();
            let more = elsewhere.len().saturating_sub(some.len());
            let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
            selection.left_out.push(format!("crates that read {}{and_more}, which no crate owns", some.join(", ")));
        }
        if !selection.tested.is_empty() {
            selection.left_out.push("users of these users, examples, and doc tests".to_owned());
        }
        selection
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> Members {
        let member = |name: &str, kinds: &[&str], uses: &[&str]| Member {
            id: name.to_owned(),
            name: name.to_owned(),
            manifest_path: format!("/w/crates/{}/Cargo.toml", name.trim_start_matches("ironclad-")).into(),
            dependencies: uses
                .iter()
                .map(|name| Dependency { name: (*name).to_owned(), path: name.starts_with("iron").then(PathBuf::new) })
                .collect(),
            targets: kinds.iter().map(|kind| Target { kind: vec![(*kind).to_owned()] }).collect(),
        };
        let packages = vec![
            member("ironclad-api", &["lib", "test"], &["kube"]),
            member("ironclad-fleet", &["lib"], &["ironclad-api"]),
            member("ironclad-scheduling", &["lib"], &["ironclad-fleet", "kube"]),
            member("ironclad-planning", &["lib", "test"], &["ironclad-scheduling"]),
            member("ironclad-runtime", &["lib"], &["kube"]),
            member("ironclad-cli", &["lib", "test"], &["ironclad-scheduling", "ironclad-runtime"]),
            member("ironclad-testkit", &["lib", "test", "bin"], &["ironclad-scheduling"]),
            member("ironclad", &["bin", "test"], &["ironclad-scheduling", "ironclad-cli"]),
            member("xtask", &["bin"], &["kube"]),
            Member { name: "kube".to_owned(), ..member("kube", &["lib"], &["ironclad-api"]) },
        ];
        let workspace_members = packages.iter().map(|member| member.id.clone()).filter(|id| id != "kube").collect();
        Members { packages, workspace_members }
    }

    fn select(files: &[&str]) -> Selection {
        members().select(Path::new("/w"), &files.iter().map(PathBuf::from).collect::<Vec<_>>())
    }

    #[test]
    fn crates_that_changed_run_with_their_direct_users() {
        for (name, files, changed, users, tested) in [
            ("nothing", &[][..], &[][..], &[][..], &[][..]),
            (
                "a decision",
                &["crates/scheduling/src/decide/mod.rs", "crates/scheduling/Cargo.toml"][..],
                &["ironclad-scheduling"],
                &["ironclad-planning", "ironclad-cli", "ironclad-testkit", "ironclad"],
                &["ironclad-scheduling", "ironclad-planning"],
            ),
            (
                "a crate and one of its users",
                &["crates/api/tests/it/names.rs", "crates/fleet/src/lib.rs"],
                &["ironclad-api", "ironclad-fleet"],
                &["ironclad-scheduling"],
                &["ironclad-api", "ironclad-fleet", "ironclad-scheduling"],
            ),
            ("at the edge", &["crates/cli/src/lib.rs"], &["ironclad-cli"], &["ironclad"], &["ironclad-cli"]),
            ("the program", &["crates/ironclad/src/main.rs"], &["ironclad"], &[], &["ironclad"]),
            ("tests of the whole", &["crates/testkit/src/lib.rs"], &["ironclad-testkit"], &[], &["ironclad-testkit"]),
            ("only guards", &["crates/xtask/src/main.rs", "docs/README.md"], &["xtask"], &[], &[]),
        ] {
            let got = select(files);
            assert_eq!(got.changed, changed, "{name}");
            assert_eq!(got.users, users, "{name}");
            assert_eq!(got.tested, tested, "{name}");
            assert_eq!(got.programs, tested.contains(&"ironclad"), "{name}");
        }
    }

    #[test]
    fn what_does_not_run_is_named() {
        let left_out = |files: &[&str]| select(files).left_out;
        assert_eq!(
            left_out(&["crates/scheduling/src/lib.rs", "Cargo.lock"]),
            [
                "ironclad-planning: integration tests, in its folder `tests`",
                "ironclad-cli: unit tests of a user that takes minutes to compile",
                "ironclad-cli: integration tests, in its folder `tests`",
                "ironclad-testkit: simulations, and tests with real processes",
                "ironclad: unit tests of a user that takes minutes to compile",
                "ironclad: integration tests, in its folder `tests`",
                "crates that read Cargo.lock, which no crate owns",
                "users of these users, examples, and doc tests",
            ]
        );
        assert_eq!(
            left_out(&["a", "b", "c", "d", "e", "f"]),
            ["crates that read a, b, c, d, e and 1 more, which no crate owns"]
        );
        assert!(left_out(&[]).is_empty());
    }

    #[test]
    fn changes_are_committed_ones_and_others() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let git = |arguments: &[&str]| git(root, &[&["-c", "user.name=a", "-c", "user.email=a@b"], arguments].concat());
        git(&["init", "-q", "-b", "main"]).unwrap();
        let commit = |name: &str| {
            std::fs::write(root.join(name), name).unwrap();
            git(&["add", "."]).unwrap();
            git(&["commit", "-q", "-m", name]).unwrap();
        };
        commit("first");
        git(&["switch", "-q", "-c", "branch"]).unwrap();
        commit("second");
        std::fs::write(root.join("first"), "changed").unwrap();
        std::fs::write(root.join("ünsaved"), "new").unwrap();
        let base = default_base(root).unwrap();
        assert_eq!(lines(root, &["diff", "--name-only", &base, "--"]).unwrap(), ["first", "second"].map(PathBuf::from));
        let others = lines(root, &["ls-files", "--others", "--exclude-standard"]).unwrap();
        assert_eq!(others, [PathBuf::from("ünsaved")]);
        assert!(git(&["diff", "no-such-commit", "--"]).unwrap_err().to_string().contains("no-such-commit"));
    }
}
