//! One run of the binary.

use std::{ffi::OsStr, process::Stdio, time::Duration};

use anyhow::Context as _;
use tokio::{process::Command, time::timeout};

/// Deadline of a verb.
const DEADLINE: Duration = Duration::from_secs(120);

/// Result of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the binary to its end, without the kubeconfig of the user who runs the tests.
pub(crate) async fn ironclad<I: IntoIterator<Item: AsRef<OsStr>>>(args: I) -> anyhow::Result<Run> {
    let run = Command::new(env!("CARGO_BIN_EXE_ironclad"))
        .args(args)
        .env_remove("KUBECONFIG")
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(DEADLINE, run).await.context("the verb hangs")??;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) })
}

impl Run {
    /// Returns stdout of a successful run.
    pub(crate) fn done(self) -> anyhow::Result<String> {
        anyhow::ensure!(self.code == Some(0), "exit code {:?}: {}", self.code, self.stderr);
        Ok(self.stdout)
    }
}
