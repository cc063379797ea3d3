//! A control plane has one leader: `up` itself, unless it stands by.

use std::{process::Stdio, time::Duration};

use anyhow::Context as _;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, BufReader},
    process::{Child, Command},
    time::timeout,
};

fn start(words: &[&str]) -> anyhow::Result<Child> {
    let process = Command::new(env!("CARGO_BIN_EXE_ironclad"))
        .args(words)
        .args(["--metrics-bind-address", "0"])
        .env_remove("KUBECONFIG")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    Ok(process)
}

async fn line(stream: impl AsyncRead + Unpin, start: &str) -> anyhow::Result<String> {
    let mut lines = BufReader::new(stream).lines();
    timeout(Duration::from_secs(120), async {
        while let Some(line) = lines.next_line().await? {
            if line.starts_with(start) {
                return Ok(line);
            }
        }
        anyhow::bail!("it ended without a line {start:?}")
    })
    .await
    .with_context(|| format!("no line {start:?}"))?
}

#[tokio::test]
async fn a_run_beside_up_stands_by_and_says_so() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let data = dir.path().display().to_string();
    let mut up = start(&["up", "--clusters", "0", "--listen", "127.0.0.1:0", "--data-dir", &data])?;
    line(up.stdout.take().context("stdout")?, "ready: ").await?;
    let kubeconfig = dir.path().join("kubeconfig").display().to_string();
    let mut run = start(&["run", "--kubeconfig", &kubeconfig])?;
    let reported = line(run.stderr.take().context("stderr")?, "standing by: ").await?;
    assert!(reported.starts_with("standing by: up_") && reported.ends_with(" is the leader"), "{reported}");
    Ok(())
}
