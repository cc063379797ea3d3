//! Asks `cargo metadata`; whoever asks says which part of the answer is wanted, as a type.

use std::path::Path;

use anyhow::Context as _;
use serde::de::DeserializeOwned;

use crate::cargo;

/// The graph of all packages, for the platform that cargo runs on: what other platforms need is not even downloaded.
///
/// # Errors
/// When cargo fails, as it does when `Cargo.lock` doesn't fit the manifests.
pub(crate) fn read<T: DeserializeOwned>(root: &Path) -> anyhow::Result<T> {
    let version = cargo::output(cargo::cargo(root).args(["version", "--verbose"]))?;
    let version = String::from_utf8_lossy(&version);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).context("cargo names no host")?;
    let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", host];
    let output = cargo::output(cargo::cargo(root).args(arguments))?;
    serde_json::from_slice(&output).context("the output of `cargo metadata`")
}
