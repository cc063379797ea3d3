//! The real binary as a child process.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use ironclad_seam::Tasks;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

pub use crate::real::{Output, free_port};

const VERB_DEADLINE: Duration = Duration::from_secs(120);
const READY_DEADLINE: Duration = Duration::from_secs(60);
const STOP_DEADLINE: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub struct Daemon {
    child: Child,
    ready: String,
    /// Lines on stderr.
    said: Arc<Mutex<Vec<String>>>,
}

pub fn binary() -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("IRONCLAD_BIN").context("IRONCLAD_BIN is not set\n  try: cargo xtask test")?;
    Ok(PathBuf::from(path))
}

/// Path of an example of crate `ironclad`, built beside the binary.
pub fn example(name: &str) -> anyhow::Result<PathBuf> {
    let binary = binary()?;
    let path = binary.parent().context("the binary has a folder")?.join("examples").join(name);
    ensure!(path.exists(), "{} is not there\n  try: cargo build --example {name}", path.display());
    Ok(path)
}

pub async fn ironclad<I: IntoIterator<Item: AsRef<OsStr>>>(args: I) -> anyhow::Result<Output> {
    let run = Command::new(binary()?)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .output();
    let output = timeout(VERB_DEADLINE, run).await.context("the verb hangs")??;
    Ok(Output {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

impl Daemon {
    pub async fn start<I: IntoIterator<Item: AsRef<OsStr>>>(args: I) -> anyhow::Result<Self> {
        Ok(Self::start_until(args, "ready").await?.0)
    }

    /// Starts it and waits for a line with this beginning; returns the lines up to it, too.
    pub async fn start_until<I: IntoIterator<Item: AsRef<OsStr>>>(
        args: I,
        start_of_line: &str,
    ) -> anyhow::Result<(Self, Vec<String>)> {
        let mut command = Command::new(binary()?);
        command.args(args);
        Self::start_command(command, start_of_line).await
    }

    /// Starts an example instead, and waits for the line that starts with `ready`.
    pub async fn start_example<I: IntoIterator<Item: AsRef<OsStr>>>(name: &str, args: I) -> anyhow::Result<Self> {
        let mut command = Command::new(example(name)?);
        command.args(args);
        Ok(Self::start_command(command, "ready").await?.0)
    }

    /// Starts another program, and waits for the line that starts with `ready`.
    pub async fn start_program<I: IntoIterator<Item: AsRef<OsStr>>>(program: &Path, args: I) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.args(args);
        Ok(Self::start_command(command, "ready").await?.0)
    }

    /// Starts it under a limit set by a shell command such as `ulimit -n 64`.
    pub async fn start_limited<I: IntoIterator<Item: AsRef<OsStr>>>(limits: &str, args: I) -> anyhow::Result<Self> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{limits}; exec \"$0\" \"$@\"")).arg(binary()?).args(args);
        Ok(Self::start_command(command, "ready").await?.0)
    }

    async fn start_command(mut command: Command, start_of_line: &str) -> anyhow::Result<(Self, Vec<String>)> {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().context("piped")?).lines();
        let mut errors = BufReader::new(child.stderr.take().context("piped")?).lines();
        // Drain the pipe, and forward logs to where a failing test shows them.
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let (tasks, heard) = (Tasks::new("binary"), said.clone());
        let reader = tasks.spawn("stderr", async move {
            while let Ok(Some(line)) = errors.next_line().await {
                println!("binary: {line}");
                heard.lock().push(line);
            }
        });
        let mut lines = Vec::new();
        let reached = timeout(READY_DEADLINE, async {
            while let Some(line) = stdout.next_line().await? {
                let reached = line.starts_with(start_of_line);
                lines.push(line);
                if reached {
                    return anyhow::Ok(true);
                }
            }
            Ok(false)
        })
        .await
        .with_context(|| format!("no line starts with {start_of_line:?} in time: {:?}", said.lock()))??;
        if !reached {
            // It ended, so its stderr ends, too.
            let _ = reader.await;
            bail!("it ended before a line started with {start_of_line:?}: {}", said.lock().join("\n"));
        }
        tasks.spawn("stdout", async move { while let Ok(Some(_)) = stdout.next_line().await {} });
        let ready = lines.last().cloned().unwrap_or_default();
        Ok((Self { child, ready, said }, lines))
    }

    pub fn ready_line(&self) -> &str {
        &self.ready
    }

    /// The lines that it has written to stderr so far.
    pub fn errors(&self) -> Vec<String> {
        self.said.lock().clone()
    }

    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    pub async fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Stops it, and fails if an API server refused it a right.
    pub async fn stop_unrefused(self) -> anyhow::Result<()> {
        let mut refused = self.errors();
        // Quotas, webhooks and namespaces that end forbid, too.
        refused.retain(|line| line.to_ascii_lowercase().contains("forbidden: user"));
        ensure!(refused.is_empty(), "its account lacks rights:\n{}", refused.join("\n"));
        self.stop().await
    }

    pub async fn stop(mut self) -> anyhow::Result<()> {
        let id = self.child.id().context("it ended by itself")?;
        let sent = Command::new("kill").args(["-TERM", &id.to_string()]).status().await?;
        ensure!(sent.success(), "SIGTERM could not be sent");
        let status = timeout(STOP_DEADLINE, self.child.wait()).await.context("it does not stop on SIGTERM")??;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}
