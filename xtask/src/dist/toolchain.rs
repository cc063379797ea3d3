//! Tools for cross-compiling to static programs, fetched once: targets by rustup, and zig, which is the C compiler and
//! linker for musl, by pip.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::Context as _;

use super::Architecture;
use crate::cargo;

/// Folder with the tools, below the target directory.
const TOOLS: &str = "distribution-tools";

/// Tools that are there.
pub(super) struct Toolchain {
    /// Their folder, for the PATH.
    programs: PathBuf,
}

impl Toolchain {
    /// Fetches what is missing. With everything there it needs no network.
    pub(super) fn ensure(root: &Path, architectures: &[Architecture]) -> anyhow::Result<Self> {
        for architecture in architectures.iter().filter(|one| !is_installed(root, **one)) {
            let mut command = Command::new("rustup");
            command.current_dir(root).args(["target", "add", architecture.target()]);
            cargo::run(&mut command).context("the target's standard library comes by rustup")?;
        }
        let requirements = root.join("tools/dist/requirements.txt");
        let text = fs::read(&requirements).with_context(|| format!("{} can't be read", requirements.display()))?;
        let folder = cargo::target_directory(root).join(TOOLS).join(&super::sha256(&text)[..16]);
        let (programs, done) = (folder.join("bin"), folder.join("done"));
        if !done.is_file() {
            cargo::run(Command::new("python3").args(["-m", "venv"]).arg(&folder))
                .context("zig comes as a package of Python, which needs python3 with venv")?;
            let mut command = Command::new(programs.join("pip"));
            command.args(["install", "--quiet", "--disable-pip-version-check", "--requirement"]).arg(&requirements);
            cargo::run(&mut command)?;
            fs::write(&done, "")?;
        }
        Ok(Self { programs })
    }

    /// Builds the product. Returns the path of the file.
    pub(super) fn build(
        &self,
        root: &Path,
        architecture: Architecture,
        profile: &str,
        commit: &str,
    ) -> anyhow::Result<PathBuf> {
        let target = cargo::target_directory(root);
        let mut command = cargo::cargo(root);
        command.args(["zigbuild", "--locked", "--package", "ironclad", "--bin", "ironclad", "--profile", profile]);
        command.args(["--target", architecture.target()]).arg("--target-dir").arg(&target);
        let path = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths([self.programs.clone()].into_iter().chain(env::split_paths(&path)))?;
        command.env("PATH", path).env("CARGO_INCREMENTAL", "0").env("IRONCLAD_COMMIT", commit);
        command.env("CARGO_ENCODED_RUSTFLAGS", flags(root, &target).join(&OsString::from("\x1f")));
        cargo::run(&mut command)?;
        Ok(target.join(architecture.target()).join(profile).join("ironclad"))
    }
}

/// Flags with which nothing of the paths of this machine is in the program. Targets of musl are static by default.
fn flags(root: &Path, target: &Path) -> Vec<OsString> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let places = [Some((target, "/target")), Some((root, "/ironclad")), home.as_deref().map(|home| (home, "/cargo"))];
    let mapped = places.into_iter().flatten().map(|(from, to)| {
        let mut flag = OsString::from("--remap-path-prefix=");
        flag.push(from);
        flag.push("=");
        flag.push(to);
        flag
    });
    mapped.collect()
}

/// Returns whether the toolchain of the workspace has the target.
fn is_installed(root: &Path, architecture: Architecture) -> bool {
    let mut command = Command::new("rustc");
    command.current_dir(root).args(["--print", "target-libdir", "--target", architecture.target()]);
    let output = command.stderr(Stdio::null()).output();
    output.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}
