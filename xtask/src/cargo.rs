//! Runs cargo, with the same feature set in every command: another set would build the large dependencies again.

use std::{
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};

pub(crate) fn workspace_root() -> PathBuf {
    // Cargo sets it for `cargo run`; the compiled-in value serves a copied binary.
    let manifest = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let manifest = PathBuf::from(manifest);
    manifest.parent().map_or(manifest.clone(), Path::to_path_buf)
}

pub(crate) fn target_directory(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// A cargo of the same toolchain, run in the workspace.
pub(crate) fn cargo(root: &Path) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(root).stdin(Stdio::null());
    // `cargo run` sets these for xtask. Build scripts of large dependencies are run again when they change, so a plain
    // cargo and this one would build them in turn.
    for (name, _) in env::vars_os().filter(|(name, _)| is_of_this_package(name)) {
        command.env_remove(name);
    }
    command
}

/// Returns whether `cargo run` sets the variable for the package that it runs.
fn is_of_this_package(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

/// Runs a command to its end with inherited output.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = shown(command);
    let status = command.status().with_context(|| format!("`{shown}` can't be run"))?;
    ensure!(status.success(), "`{shown}` ended with {status}");
    Ok(())
}

pub(crate) fn output(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let shown = shown(command);
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("`{shown}` can't be run"))?;
    ensure!(output.status.success(), "`{shown}` ended with {}", output.status);
    Ok(output.stdout)
}

pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    command.get_args().fold(program, |line, argument| format!("{line} {}", argument.to_string_lossy()))
}

/// Command that runs a built program in the workspace with inherited stdin.
pub(crate) fn program(root: &Path, path: &Path) -> Command {
    let mut command = Command::new(path);
    command.current_dir(root);
    command
}
