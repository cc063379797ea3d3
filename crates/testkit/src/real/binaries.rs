//! Finds the programs of real Kubernetes that `cargo xtask kubernetes` built.

use std::{
    env,
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context as _, ensure};

#[path = "../../../../xtask/src/kubernetes/location.rs"]
mod location;

/// Names a file to which every skipped test adds its name; `cargo xtask test` prints them at its end.
pub const SKIPPED_VARIABLE: &str = "IRONCLAD_SKIPPED";

/// Set by `cargo xtask test --quick`: what needs real Kubernetes is skipped, by name.
pub const QUICK_VARIABLE: &str = "IRONCLAD_QUICK";

/// The folder with kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, etcd and kwok.
#[derive(Debug, Clone)]
pub struct Binaries {
    folder: PathBuf,
}

/// Why there are no programs to run.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    /// The programs are not built yet.
    #[error("the programs of real Kubernetes are not in {}: run `cargo xtask kubernetes`", folder.display())]
    NotBuilt {
        /// Where they would be.
        folder: PathBuf,
    },
    /// They are not built and can't be.
    #[error("the programs of real Kubernetes are not built, and Go, which builds them, is missing")]
    GoIsMissing,
    /// The caller of the tests asked for the quick ones.
    #[error("{QUICK_VARIABLE} is set: what needs real Kubernetes is not run")]
    Quick,
    /// Not even the place could be worked out.
    #[error("where the programs of real Kubernetes lie")]
    NoPlace(#[source] std::io::Error),
}

impl Binaries {
    /// The folder that `IRONCLAD_KUBERNETES_BIN` names, else the one in the user's cache for the pins of this checkout.
    ///
    /// # Errors
    /// When not all programs are there.
    pub fn find() -> Result<Self, Missing> {
        if is_set(QUICK_VARIABLE) {
            return Err(Missing::Quick);
        }
        let folder = match env::var_os(location::FOLDER_VARIABLE) {
            Some(folder) => PathBuf::from(folder),
            None => {
                let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
                location::folder(&root).map_err(Missing::NoPlace)?
            }
        };
        if location::is_complete(&folder) {
            Ok(Self { folder })
        } else if go_is_there() {
            Err(Missing::NotBuilt { folder })
        } else {
            Err(Missing::GoIsMissing)
        }
    }

    /// Like [`Binaries::find`]; where Go is missing, the calling test is noted as skipped and gets `None`.
    ///
    /// # Errors
    /// When the programs could be built but are not, and in continuous integration (`CI` is set): nothing is skipped
    /// there.
    pub fn find_or_skip() -> anyhow::Result<Option<Self>> {
        match Self::find() {
            Ok(found) => Ok(Some(found)),
            Err(missing) if missing.excuses(Place::of_this_process()) => {
                note_skipped(&missing)?;
                Ok(None)
            }
            Err(missing) => Err(missing.into()),
        }
    }

    /// The program of `tools/clients`.
    ///
    /// # Errors
    /// When it is not built: where there is real Kubernetes, it could be.
    pub fn clients(&self) -> anyhow::Result<PathBuf> {
        let program = match env::var_os(location::CLIENTS_VARIABLE) {
            Some(program) => PathBuf::from(program),
            None => {
                let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
                location::clients_folder(&root)?.join(location::CLIENTS)
            }
        };
        ensure!(program.is_file(), "there is no {}: run `cargo xtask clients`", program.display());
        Ok(program)
    }

    /// The path of one program.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        debug_assert!(location::PROGRAMS.contains(&name), "no such program: {name}");
        self.folder.join(name)
    }
}

/// Where the tests run.
#[derive(Debug, Clone, Copy)]
enum Place {
    ContinuousIntegration,
    Elsewhere,
}

impl Place {
    fn of_this_process() -> Self {
        if is_set("CI") { Self::ContinuousIntegration } else { Self::Elsewhere }
    }
}

impl Missing {
    /// Reports whether a test may be skipped for this reason.
    fn excuses(&self, place: Place) -> bool {
        match (self, place) {
            (_, Place::ContinuousIntegration) | (Self::NotBuilt { .. } | Self::NoPlace(_), _) => false,
            (Self::GoIsMissing | Self::Quick, Place::Elsewhere) => true,
        }
    }
}

fn is_set(variable: &str) -> bool {
    env::var(variable).is_ok_and(|value| !matches!(&*value, "" | "0" | "false"))
}

fn go_is_there() -> bool {
    Command::new("go").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// A test is run in a thread that has its name.
fn note_skipped(missing: &Missing) -> anyhow::Result<()> {
    let current = thread::current();
    let test = current.name().unwrap_or("a test without a name");
    eprintln!("skipped: {test}: {missing}");
    let Some(path) = env::var_os(SKIPPED_VARIABLE) else { return Ok(()) };
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .context("the list of skipped tests can't be opened")?;
    // One write, so that tests of several processes don't mix their lines.
    file.write_all(format!("{test}: {missing}\n").as_bytes()).context("the list of skipped tests can't be written")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_programs_excuse_a_test() {
        let not_built = || Missing::NotBuilt { folder: "cache".into() };
        for (name, missing, place, want) in [
            ("without Go a test is skipped", Missing::GoIsMissing, Place::Elsewhere, true),
            ("but not in continuous integration", Missing::GoIsMissing, Place::ContinuousIntegration, false),
            ("who asks for the quick tests gets them", Missing::Quick, Place::Elsewhere, true),
            ("but not in continuous integration", Missing::Quick, Place::ContinuousIntegration, false),
            ("what can be built is no excuse", not_built(), Place::Elsewhere, false),
            ("what can be built is no excuse", not_built(), Place::ContinuousIntegration, false),
        ] {
            assert_eq!(missing.excuses(place), want, "{name}: {missing:?} {place:?}");
        }
    }

    #[test]
    fn the_message_says_what_to_do() {
        let message = Missing::NotBuilt { folder: "cache/kubernetes-1".into() }.to_string();
        assert_eq!(
            message,
            "the programs of real Kubernetes are not in cache/kubernetes-1: run `cargo xtask kubernetes`"
        );
    }
}
