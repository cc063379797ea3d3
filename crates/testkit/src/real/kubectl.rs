//! The real kubectl, against any server.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, bail};
use ironclad_seam::Tasks;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time,
};

use super::binaries::Binaries;

/// Deadline of a command.
const DEADLINE: Duration = Duration::from_secs(120);

/// kubectl with one kubeconfig. It does not write into the user's home directory.
#[derive(Debug, Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
    environment: Vec<(String, String)>,
}

#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    /// Drains its stderr.
    _tasks: Tasks,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Kubectl {
    /// kubectl for the server that `kubeconfig` names; `home`, a temporary directory, takes its discovery cache.
    pub fn new(binaries: &Binaries, kubeconfig: &Path, home: &Path) -> Self {
        Self {
            program: binaries.program("kubectl"),
            kubeconfig: kubeconfig.to_owned(),
            home: home.to_owned(),
            environment: Vec::new(),
        }
    }

    /// Uses another program: a kubectl of another version.
    pub fn with_program(mut self, program: PathBuf) -> Self {
        self.program = program;
        self
    }

    /// Sets an environment variable, such as `EDITOR`.
    pub fn with_env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub async fn run<I: IntoIterator<Item: AsRef<OsStr>>>(&self, arguments: I) -> anyhow::Result<String> {
        self.succeed(arguments, "").await
    }

    pub async fn apply(&self, manifest: &str) -> anyhow::Result<String> {
        self.succeed(["apply", "-f", "-"], manifest).await
    }

    async fn succeed<I: IntoIterator<Item: AsRef<OsStr>>>(&self, arguments: I, stdin: &str) -> anyhow::Result<String> {
        let arguments: Vec<OsString> = arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
        let output = self.output(&arguments, stdin).await?;
        output.success().with_context(|| format!("kubectl {}", arguments.join(OsStr::new(" ")).display()))
    }

    /// Runs `kubectl ARGUMENTS` with `stdin` and returns its output, also after a failure.
    pub async fn output<I: IntoIterator<Item: AsRef<OsStr>>>(
        &self,
        arguments: I,
        stdin: &str,
    ) -> anyhow::Result<Output> {
        let mut child =
            self.command(arguments).spawn().with_context(|| format!("{} can't be run", self.program.display()))?;
        let mut pipe = child.stdin.take().context("kubectl's stdin is a pipe")?;
        let run = async {
            let write = async {
                // kubectl may end without reading all input; its message says more than a broken pipe.
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

    /// Starts `kubectl ARGUMENTS` and returns once its watch is answered.
    pub async fn start<I: IntoIterator<Item: AsRef<OsStr>>>(&self, arguments: I) -> anyhow::Result<Running> {
        let mut command = self.command(arguments);
        // On this level it logs each answer to stderr.
        let mut child = command.arg("-v=6").stdin(Stdio::null()).spawn()?;
        let stdout = BufReader::new(child.stdout.take().context("kubectl's stdout is a pipe")?).lines();
        let mut stderr = BufReader::new(child.stderr.take().context("kubectl's stderr is a pipe")?).lines();
        let mut said = Vec::new();
        time::timeout(DEADLINE, async {
            while let Some(line) = stderr.next_line().await? {
                if line.contains("watch=true") {
                    return Ok(());
                }
                said.push(line);
            }
            bail!("it ended before it watched: {}", said.join("\n"))
        })
        .await
        .with_context(|| format!("kubectl did not watch within {} s", DEADLINE.as_secs()))??;
        let tasks = Tasks::new("kubectl");
        tasks.spawn("stderr", async move { while let Ok(Some(_)) = stderr.next_line().await {} });
        Ok(Running { child, stdout, _tasks: tasks })
    }

    fn command<I: IntoIterator<Item: AsRef<OsStr>>>(&self, arguments: I) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(self.home.join("kubectl-cache"))
            .args(arguments)
            .env("HOME", &self.home)
            // Ignore the user's preferences.
            .env("KUBERC", "off")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }
}

impl Running {
    /// Returns the next line of its stdout; `None` when it has ended.
    pub async fn next_line(&mut self) -> anyhow::Result<Option<String>> {
        Ok(time::timeout(DEADLINE, self.stdout.next_line()).await.context("kubectl is silent")??)
    }

    /// The exit code of a command that ends by itself; `None` if a signal ended it.
    pub async fn code(mut self) -> anyhow::Result<Option<i32>> {
        Ok(time::timeout(DEADLINE, self.child.wait()).await.context("kubectl does not end")??.code())
    }
}

impl Output {
    /// The stdout of a command that ended with code 0.
    pub fn success(self) -> anyhow::Result<String> {
        match self.code {
            Some(0) => Ok(self.stdout),
            Some(code) => bail!("it ended with code {code}: {}", self.stderr.trim()),
            None => bail!("it was killed: {}", self.stderr.trim()),
        }
    }
}
