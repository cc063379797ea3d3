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

/// Variable with a file to which skipped tests add their names; `cargo xtask test` prints them at its end.
pub const SKIPPED_VARIABLE: &str = "IRONCLAD_SKIPPED";

/// Variable that `cargo xtask test --quick` sets: tests with real Kubernetes are skipped.
pub const QUICK_VARIABLE: &str = "IRONCLAD_QUICK";

/// The folder with kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, etcd and kwok.
#[derive(Debug, Clone)]
pub struct Binaries {
    folder: PathBuf,
    /// Another kube-apiserver than the one in the folder.
    api_server: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum Missing {
    #[error("the programs of real Kubernetes are not in {}: run `cargo xtask kubernetes`", folder.display())]
    NotBuilt {
        /// Folder in which they would be.
        folder: PathBuf,
    },
    /// They are not built, and Go is missing to build them.
    #[error("the programs of real Kubernetes are not built, and Go, which builds them, is missing")]
    GoIsMissing,
    #[error("{QUICK_VARIABLE} is set: tests with real Kubernetes are skipped")]
    Quick,
    /// The oldest kube-apiserver is built only when it is asked for, as it takes minutes and its version never changes.
    #[error("the oldest kube-apiserver is not in {}: `cargo xtask oldest-kubernetes` builds it", program.display())]
    OldestNotBuilt {
        /// Path that it would have.
        program: PathBuf,
    },
    #[error("no browser is on PATH: install chromium")]
    NoBrowser,
    #[error("the folder of the programs of real Kubernetes cannot be determined")]
    NoPlace(#[source] std::io::Error),
}

impl Binaries {
    /// Finds the folder: the one in `IRONCLAD_KUBERNETES_BIN`, else that in the user's cache for the pinned versions.
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
            Ok(Self { folder, api_server: None })
        } else if go_is_there() {
            Err(Missing::NotBuilt { folder })
        } else {
            Err(Missing::GoIsMissing)
        }
    }

    /// Like [`Binaries::find`]; where Go is missing, the calling test is noted as skipped and gets `None`.
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

    /// Finds these programs with the kube-apiserver of the oldest Kubernetes: the one in `IRONCLAD_OLDEST_API_SERVER`,
    /// else that in the user's cache for the pinned version. Without it the calling test is noted as skipped and gets
    /// `None`.
    pub(super) fn oldest_or_skip() -> anyhow::Result<Option<Self>> {
        let Some(programs) = Self::find_or_skip()? else { return Ok(None) };
        let program = match env::var_os(location::OLDEST_VARIABLE) {
            Some(program) => PathBuf::from(program),
            None => location::oldest(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))?,
        };
        if !program.is_file() {
            note_skipped(&Missing::OldestNotBuilt { program })?;
            return Ok(None);
        }
        Ok(Some(Self { api_server: Some(program), ..programs }))
    }

    pub fn program(&self, name: &str) -> PathBuf {
        debug_assert!(location::PROGRAMS.contains(&name), "no such program: {name}");
        match &self.api_server {
            Some(other) if name == "kube-apiserver" => other.clone(),
            _ => self.folder.join(name),
        }
    }
}

/// Environment of the tests.
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

/// Finds a Chromium on PATH. Without one the calling test is noted as skipped and gets `None`; where nothing may be
/// skipped it fails.
pub fn browser_or_skip() -> anyhow::Result<Option<PathBuf>> {
    const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let mut programs = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    if let Some(found) = programs.find(|program| program.is_file()) {
        return Ok(Some(found));
    }
    let missing = Missing::NoBrowser;
    if !missing.excuses(Place::of_this_process()) {
        return Err(missing.into());
    }
    note_skipped(&missing)?;
    Ok(None)
}

impl Missing {
    /// Returns `true` if a test may be skipped for this reason.
    fn excuses(&self, place: Place) -> bool {
        match (self, place) {
            (Self::OldestNotBuilt { .. }, _) => true,
            (_, Place::ContinuousIntegration) | (Self::NotBuilt { .. } | Self::NoPlace(_), _) => false,
            (Self::GoIsMissing | Self::Quick | Self::NoBrowser, Place::Elsewhere) => true,
        }
    }
}

fn is_set(variable: &str) -> bool {
    env::var(variable).is_ok_and(|value| !matches!(&*value, "" | "0" | "false"))
}

fn go_is_there() -> bool {
    Command::new("go").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// Records the skipped test: its thread has its name.
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
        let oldest = || Missing::OldestNotBuilt { program: "cache/kube-apiserver".into() };
        for (name, missing, place, want) in [
            ("without Go a test is skipped", Missing::GoIsMissing, Place::Elsewhere, true),
            ("nothing is skipped in continuous integration", Missing::GoIsMissing, Place::ContinuousIntegration, false),
            ("without a browser a test is skipped", Missing::NoBrowser, Place::Elsewhere, true),
            ("nothing is skipped in continuous integration", Missing::NoBrowser, Place::ContinuousIntegration, false),
            ("quick tests skip real Kubernetes", Missing::Quick, Place::Elsewhere, true),
            ("nothing is skipped in continuous integration", Missing::Quick, Place::ContinuousIntegration, false),
            ("the oldest one is built by hand", oldest(), Place::Elsewhere, true),
            ("the oldest one is built by hand", oldest(), Place::ContinuousIntegration, true),
            ("programs that can be built are required", not_built(), Place::Elsewhere, false),
            ("programs that can be built are required", not_built(), Place::ContinuousIntegration, false),
        ] {
            assert_eq!(missing.excuses(place), want, "{name}: {missing:?} {place:?}");
        }
    }

    #[test]
    fn the_message_names_the_remedy() {
        let message = Missing::NotBuilt { folder: "cache/kubernetes-1".into() }.to_string();
        assert_eq!(
            message,
            "the programs of real Kubernetes are not in cache/kubernetes-1: run `cargo xtask kubernetes`"
        );
    }
}
