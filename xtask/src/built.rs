//! Units and test programs of `cargo build` or `cargo test --no-run`: read from its messages.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use crate::cargo;

/// The flag that makes cargo print its messages; diagnostics stay readable.
const FORMAT: &str = "--message-format=json-render-diagnostics";

/// Units that a build made or found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Built {
    /// Units of third parties, by the hashes that cargo puts into the names of their files.
    pub(crate) third_party: BTreeSet<String>,
    /// How many of them this build compiled.
    pub(crate) compiled: usize,
    /// Programs that run tests, in the order in which cargo made them.
    pub(crate) tests: Vec<TestProgram>,
}

/// A program that runs tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestProgram {
    /// Name of the target: of a library, a program or an integration test.
    pub(crate) target: String,
    /// The folder of the crate, in which its tests run.
    pub(crate) folder: PathBuf,
    pub(crate) path: PathBuf,
}

impl TestProgram {
    /// Name of the crate's folder.
    pub(crate) fn member(&self) -> String {
        self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

#[derive(Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum Message {
    CompilerArtifact(Artifact),
    BuildScriptExecuted {
        package_id: String,
        out_dir: PathBuf,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Artifact {
    package_id: String,
    manifest_path: PathBuf,
    target: Target,
    profile: Profile,
    filenames: Vec<PathBuf>,
    executable: Option<PathBuf>,
    fresh: bool,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

impl Built {
    /// Runs cargo and adds what its messages say.
    pub(crate) fn by(&mut self, command: &mut Command) -> anyhow::Result<()> {
        command.arg(FORMAT);
        let shown = cargo::shown(command);
        let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| format!("`{shown}` can't be run"))?;
        let output = child.stdout.take().context("cargo's output is a pipe")?;
        for line in BufReader::new(output).lines() {
            self.add(&line.context("cargo's output")?);
        }
        let status = child.wait()?;
        ensure!(status.success(), "`{shown}` ended with {status}");
        Ok(())
    }

    fn add(&mut self, line: &str) {
        match serde_json::from_str(line) {
            Ok(Message::CompilerArtifact(artifact)) => self.artifact(artifact),
            Ok(Message::BuildScriptExecuted { package_id, out_dir }) if is_third_party(&package_id) => {
                self.third_party.extend(hash(out_dir.parent()));
            }
            Ok(_) => {}
            // Printed by something that cargo ran.
            Err(_) => println!("{line}"),
        }
    }

    fn artifact(&mut self, artifact: Artifact) {
        if is_third_party(&artifact.package_id) {
            self.compiled += usize::from(!artifact.fresh);
            for file in &artifact.filenames {
                // A program that is run at build time has no hash of its own in its name, its folder does.
                self.third_party.extend(hash(Some(file)).or_else(|| hash(file.parent())));
            }
        } else if let (true, Some(path)) = (artifact.profile.test, artifact.executable) {
            let folder = artifact.manifest_path.parent().unwrap_or(Path::new("")).to_owned();
            self.tests.push(TestProgram { target: artifact.target.name, folder, path });
        }
    }
}

/// Members of the workspace are packages of a path.
fn is_third_party(package_id: &str) -> bool {
    !package_id.starts_with("path+")
}

/// The hash at the end of a name such as `libring-2ccd43fb69fb3086.rlib`.
fn hash(path: Option<&Path>) -> Option<String> {
    let stem = path?.file_stem()?.to_str()?;
    crate::kept::hash_of(stem).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_third_parties_and_test_programs_are_read_from_the_messages() {
        let id = |name: &str| format!("registry+https://example.org/index#{name}@1.0.0");
        let artifact = |id: &str, file: &str, fresh: bool, test: bool, executable: Option<&str>| {
            serde_json::json!({
                "reason": "compiler-artifact", "package_id": id, "manifest_path": "/w/crates/seam/Cargo.toml",
                "target": {"name": "it", "kind": ["test"]}, "profile": {"test": test}, "fresh": fresh,
                "filenames": [file], "executable": executable,
            })
            .to_string()
        };
        let own = "path+file:///w/crates/seam#ironclad-seam@0.1.0";
        let it = "/w/target/sim/deps/it-0123456789abcdef";
        let mut built = Built::default();
        for line in [
            artifact(&id("ring"), "/t/sim/deps/libring-00000000000000aa.rlib", true, false, None),
            artifact(&id("ring"), "/t/sim/build/ring-00000000000000bb/build-script-build", false, false, None),
            serde_json::json!({"reason": "build-script-executed", "package_id": id("ring"),
                "out_dir": "/t/sim/build/ring-00000000000000cc/out"})
            .to_string(),
            artifact(own, "/t/sim/deps/libseam-00000000000000dd.rlib", false, false, None),
            artifact(own, it, false, true, Some(it)),
            // A program that is no test.
            artifact(own, "/t/sim/ironclad", false, false, Some("/t/sim/ironclad")),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ] {
            built.add(&line);
        }
        let third_party = ["aa", "bb", "cc"].map(|end| format!("00000000000000{end}")).into();
        let test = TestProgram { target: "it".to_owned(), folder: "/w/crates/seam".into(), path: it.into() };
        assert_eq!(test.member(), "seam");
        assert_eq!(built, Built { third_party, compiled: 1, tests: vec![test] });
    }
}
