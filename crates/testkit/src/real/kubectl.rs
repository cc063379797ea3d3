//! The real kubectl, against any server.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, bail};
use tokio::{io::AsyncWriteExt as _, process::Command, time};

use super::binaries::Binaries;

/// A command that takes longer than this is broken or waits for something that doesn't come.
const DEADLINE: Duration = Duration::from_secs(120);

/// kubectl with one kubeconfig. It leaves nothing in the home directory of whoever runs the tests.
#[derive(Debug, Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
}

/// What a command came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to stdout.
    pub stdout: String,
    /// What it wrote to stderr.
    pub stderr: String,
}

impl Kubectl {
    /// kubectl for the server that `kubeconfig` names; `home`, a temporary directory, takes its discovery cache.
    #[must_use]
    pub fn new(binaries: &Binaries, kubeconfig: &Path, home: &Path) -> Self {
        Self { program: binaries.program("kubectl"), kubeconfig: kubeconfig.to_owned(), home: home.to_owned() }
    }

    /// Runs `kubectl ARGUMENTS` and returns its stdout.
    ///
    /// # Errors
    /// When it doesn't end with code 0; the message has its stderr.
    pub async fn run<I: IntoIterator<Item: AsRef<OsStr>>>(&self, arguments: I) -> anyhow::Result<String> {
        self.succeed(arguments, "").await
    }

    /// `kubectl apply -f -` with the manifest on stdin.
    ///
    /// # Errors
    /// When it doesn't end with code 0; the message has its stderr.
    pub async fn apply(&self, manifest: &str) -> anyhow::Result<String> {
        self.succeed(["apply", "-f", "-"], manifest).await
    }

    async fn succeed<I: IntoIterator<Item: AsRef<OsStr>>>(&self, arguments: I, stdin: &str) -> anyhow::Result<String> {
        let arguments: Vec<OsString> = arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
        let output = self.output(&arguments, stdin).await?;
        output.success().with_context(|| format!("kubectl {}", arguments.join(OsStr::new(" ")).display()))
    }

    /// Runs `kubectl ARGUMENTS` with `stdin` and returns whatever it came to, also a failure.
    ///
    /// # Errors
    /// When it can't be run, or doesn't end within two minutes.
    pub async fn output<I: IntoIterator<Item: AsRef<OsStr>>>(
        &self,
        arguments: I,
        stdin: &str,
    ) -> anyhow::Result<Output> {
        let mut command = Command::new(&self.program);
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(self.home.join("kubectl-cache"))
            .args(arguments)
            .env("HOME", &self.home)
            // Preferences of whoever runs the tests must not change what they show.
            .env("KUBERC", "off")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("{} can't be run", self.program.display()))?;
        let mut pipe = child.stdin.take().context("kubectl's stdin is a pipe")?;
        let run = async {
            let write = async {
                // kubectl may end without reading it all; its own message says more than a broken pipe.
                let _ = pipe.write_all(stdin.as_bytes()).await;
                drop(pipe);
            };
            let ((), output) = tokio::join!(write, child.wait_with_output());
            output
        };
        let output = time::timeout(DEADLINE, run)
            .await
            .with_context(|| format!("kubectl did not end within {} s", DEADLINE.as_secs()))?
            .context("kubectl's output")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Output { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) })
    }
}

impl Output {
    /// The stdout of a command that ended with code 0.
    ///
    /// # Errors
    /// When it ended otherwise; the message has its stderr.
    pub fn success(self) -> anyhow::Result<String> {
        match self.code {
            Some(0) => Ok(self.stdout),
            Some(code) => bail!("it ended with code {code}: {}", self.stderr.trim()),
            None => bail!("it was killed: {}", self.stderr.trim()),
        }
    }
}
