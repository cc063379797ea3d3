//! A program that never outlives the test, however the test ends.
//!
//! Each one is started by a small shell that has the reading end of a pipe from us. When that pipe closes, because
//! the [`Process`] was dropped or because the whole test process was killed, the shell kills the program by its process
//! id.

use std::{
    ffi::OsString,
    fs,
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
};

use anyhow::Context as _;

/// `$1` is the log, the rest the command. The watcher is stopped as soon as the program ends by itself, so that it
/// never kills another process with the same process id.
const SUPERVISOR: &str = r#"
log=$1
shift
exec 3<&0
"$@" 3<&- </dev/null >>"$log" 2>&1 &
child=$!
echo "$child"
exec >&-
{ read -r _ <&3; kill -9 "$child"; } 2>/dev/null &
watcher=$!
exec 3<&-
wait "$child"
status=$?
kill -9 "$watcher" 2>/dev/null
exit "$status"
"#;

/// `$1` is the folder. The programs that write into it are killed at the same moment, so a second try is enough.
const SWEEPER: &str = r#"
read -r _
tries=0
while [ -e "$1" ] && [ "$tries" -lt 10 ]; do
    rm -rf "$1" 2>/dev/null || sleep 1
    tries=$((tries + 1))
done
"#;

/// Number of log lines in an error.
const LOG_LINES_SHOWN: usize = 25;

#[derive(Debug, Clone)]
pub(super) struct Spec {
    /// Name in messages, and the stem of the log's file name.
    pub(super) name: String,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    /// Directory of the log; also the program's home and working directory.
    pub(super) directory: PathBuf,
}

/// A running program. Dropping it kills the program and waits for its end.
#[derive(Debug)]
pub(super) struct Process {
    name: String,
    id: u32,
    log: PathBuf,
    supervisor: Child,
    lifeline: Option<ChildStdin>,
}

impl Process {
    /// Starts the program; it may not be ready for use for some seconds.
    pub(super) fn start(spec: &Spec) -> anyhow::Result<Self> {
        let log = spec.directory.join(format!("{}.log", spec.name));
        let mut supervisor = shell(SUPERVISOR)
            .arg(&log)
            .arg(&spec.program)
            .args(&spec.arguments)
            .current_dir(&spec.directory)
            .env("HOME", &spec.directory)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{}: `sh` can't be run", spec.name))?;
        let lifeline = supervisor.stdin.take();
        let mut line = String::new();
        let stdout = supervisor.stdout.take().context("the supervisor's output is a pipe")?;
        BufReader::new(stdout).read_line(&mut line).with_context(|| format!("{}: its process id", spec.name))?;
        let id = line.trim().parse().with_context(|| format!("{}: its process id is `{}`", spec.name, line.trim()))?;
        Ok(Self { name: spec.name.clone(), id, log, supervisor, lifeline })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Returns the exit status if the program has ended.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.supervisor.try_wait().ok().flatten()
    }

    pub(super) fn log_tail(&self) -> String {
        let text = fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
        format!("the end of {}:\n{}", self.log.display(), shown.join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        // The supervisor ends as soon as the program has ended.
        let _ = self.supervisor.wait();
    }
}

/// Removes a folder when this process ends, even if it was killed.
#[derive(Debug)]
pub(super) struct Sweeper {
    shell: Child,
}

impl Sweeper {
    pub(super) fn start(folder: &Path) -> anyhow::Result<Self> {
        let shell = shell(SWEEPER).arg(folder).stdout(Stdio::null()).spawn().context("`sh` can't be run")?;
        Ok(Self { shell })
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// A shell in its own process group, so that an interrupt at the terminal reaches only the test, and it outlives
/// that for long enough to clean up.
fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).stdin(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    command
}
