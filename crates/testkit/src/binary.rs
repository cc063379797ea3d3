//! The real binary as a child process.

use std::{ffi::OsStr, path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use anyhow::{Context as _, bail, ensure};
use ironclad_seam::Tasks;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

pub use crate::real::Output;

/// A verb that takes longer than this hangs.
const VERB_DEADLINE: Duration = Duration::from_secs(120);
/// Ironclad is ready within this time even on a busy machine, or not at all.
const READY_DEADLINE: Duration = Duration::from_secs(60);
/// A clean stop takes no longer.
const STOP_DEADLINE: Duration = Duration::from_secs(15);

/// A running `ironclad up` or `ironclad run`; killed when dropped.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    ready: String,
}

/// Where the binary is: `cargo xtask test` builds it and says so.
///
/// # Errors
/// If nothing says so.
pub fn binary() -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("IRONCLAD_BIN").context("IRONCLAD_BIN is not set\n  try: cargo xtask test")?;
    Ok(PathBuf::from(path))
}

/// Where an example of Ironclad's crate is: it is built beside the binary.
///
/// # Errors
/// If the binary is unknown, or the example was not built.
pub fn example(name: &str) -> anyhow::Result<PathBuf> {
    let binary = binary()?;
    let path = binary.parent().context("the binary has a folder")?.join("examples").join(name);
    ensure!(path.exists(), "{} is not there\n  try: cargo build --example {name}", path.display());
    Ok(path)
}

/// Runs a verb to its end.
///
/// # Errors
/// If it can't be run or hangs; not if it fails, which [`Output::success`] tells.
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
    /// Starts it and waits for the line that starts with `ready`.
    ///
    /// # Errors
    /// If it ends before, with what it said.
    pub async fn start<I: IntoIterator<Item: AsRef<OsStr>>>(args: I) -> anyhow::Result<Self> {
        Ok(Self::start_until(args, "ready").await?.0)
    }

    /// Starts it and waits for a line that starts like this; returns all lines up to it, too.
    ///
    /// # Errors
    /// If it ends before, with what it said.
    pub async fn start_until<I: IntoIterator<Item: AsRef<OsStr>>>(
        args: I,
        start_of_line: &str,
    ) -> anyhow::Result<(Self, Vec<String>)> {
        let mut command = Command::new(binary()?);
        command.args(args);
        Self::start_command(command, start_of_line).await
    }

    /// Starts an example in its place, and waits for the line that starts with `ready`.
    ///
    /// # Errors
    /// If it was not built, or ends before, with what it said.
    pub async fn start_example<I: IntoIterator<Item: AsRef<OsStr>>>(name: &str, args: I) -> anyhow::Result<Self> {
        let mut command = Command::new(example(name)?);
        command.args(args);
        Ok(Self::start_command(command, "ready").await?.0)
    }

    /// Starts it under limits of the system, said in the words of a shell, such as `ulimit -n 64`.
    ///
    /// # Errors
    /// If it ends before it is ready, with what it said.
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
        // Keeps the pipe empty, and the logs where a failing test shows them.
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
        Ok((Self { child, ready }, lines))
    }

    /// The line that said that it is ready.
    #[must_use]
    pub fn ready_line(&self) -> &str {
        &self.ready
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// SIGKILL, and waits until it is gone.
    ///
    /// # Errors
    /// If the system refuses.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }

    /// SIGTERM, and waits for a clean end.
    ///
    /// # Errors
    /// If it does not end in time, or not with code 0.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let id = self.child.id().context("it ended by itself")?;
        let sent = Command::new("kill").args(["-TERM", &id.to_string()]).status().await?;
        ensure!(sent.success(), "SIGTERM could not be sent");
        let status = timeout(STOP_DEADLINE, self.child.wait()).await.context("it does not stop on SIGTERM")??;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}

/// A port of loopback that was free a moment ago.
///
/// # Errors
/// If there is none.
pub fn free_port() -> anyhow::Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
