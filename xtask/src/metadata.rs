//! Runs `cargo metadata`; the caller selects parts of the output by a type.

use std::path::Path;

use anyhow::Context as _;
use serde::de::DeserializeOwned;

use crate::cargo;

/// Reads the graph of all packages for the current platform; packages of other platforms are not downloaded.
pub(crate) fn read<T: DeserializeOwned>(root: &Path) -> anyhow::Result<T> {
    let version = cargo::output(cargo::cargo(root).args(["version", "--verbose"]))?;
    let version = String::from_utf8_lossy(&version);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).context("cargo names no host")?;
    read_for(root, host)
}

/// The same for another platform.
pub(crate) fn read_for<T: DeserializeOwned>(root: &Path, target: &str) -> anyhow::Result<T> {
    let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", target];
    let output = cargo::output(cargo::cargo(root).args(arguments))?;
    serde_json::from_slice(&output).context("the output of `cargo metadata`")
}
