//! Ironclad as a child process, with its resource usage.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, bail};

/// Ticks per second of the kernel's CPU accounting; Linux has had no other value for user space in decades.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running `ironclad`, killed when dropped.
pub(crate) struct Daemon {
    child: Child,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub cpu_seconds: f64,
    pub peak_mib: f64,
    pub resident_mib: f64,
    pub own_mib: f64,
}

pub(crate) fn binary() -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("IRONCLAD_BIN").context("IRONCLAD_BIN is not set\n  try: cargo xtask bench NAME")?;
    Ok(PathBuf::from(path))
}

impl Daemon {
    /// Starts it and waits for the line that starts with `ready`.
    pub(crate) fn start(binary: &Path, args: &[&str]) -> anyhow::Result<Self> {
        Ok(Self::start_until(binary, args, "ready")?.0)
    }

    /// Starts it and waits for a line with this beginning, which is returned.
    pub(crate) fn start_until(binary: &Path, args: &[&str], beginning: &str) -> anyhow::Result<(Self, String)> {
        let mut child = Command::new(binary)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", binary.display()))?;
        let stdout = child.stdout.take().context("the child's stdout was piped a moment ago")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = loop {
            match lines.next() {
                Some(Ok(line)) if line.starts_with(beginning) => break line,
                Some(Ok(_)) => {}
                Some(Err(e)) => return Err(e.into()),
                None => bail!("{} {} ended before it was ready", binary.display(), args.join(" ")),
            }
        };
        drain(lines);
        Ok((Self { child }, line))
    }

    pub(crate) fn used(&self) -> anyhow::Result<Used> {
        used(self.id())
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

pub(crate) fn used(id: u32) -> anyhow::Result<Used> {
    let proc = PathBuf::from(format!("/proc/{id}"));
    let stat = std::fs::read_to_string(proc.join("stat"))?;
    let after_name = stat.rsplit_once(')').context("stat without a name")?.1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    let status = std::fs::read_to_string(proc.join("status"))?;
    let mib = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok())
            .unwrap_or(0.0)
            / 1024.0
    };
    Ok(Used {
        cpu_seconds: (ticks(11) + ticks(12)) / TICKS_PER_SECOND,
        peak_mib: mib("VmHWM:"),
        resident_mib: mib("VmRSS:"),
        own_mib: mib("RssAnon:"),
    })
}

/// Drains the pipe, so that the child never blocks on it.
#[allow(clippy::disallowed_methods, reason = "a bench is outside the simulation")]
fn drain(lines: std::io::Lines<BufReader<std::process::ChildStdout>>) {
    std::thread::spawn(move || lines.for_each(drop));
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Requests {
    /// Gets and lists.
    pub reads: u64,
    /// All that changes something.
    pub writes: u64,
}

impl std::ops::Sub for Requests {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { reads: self.reads - before.reads, writes: self.writes - before.writes }
    }
}

/// Requests of Ironclad to the control plane and to members so far, from its metrics.
pub(crate) async fn requests(address: &str) -> anyhow::Result<(Requests, Requests)> {
    let text = metrics(address).await?;
    let of = |server: &str| {
        let count = |kind: &str| {
            let line = text.lines().find(|line| {
                line.starts_with("ironclad_client_requests_total") && line.contains(server) && line.contains(kind)
            });
            let line = line.with_context(|| format!("the metrics lack the {kind}s of {server}"))?;
            anyhow::Ok(line.rsplit(' ').next().unwrap_or("0").parse::<f64>()? as u64)
        };
        anyhow::Ok(Requests { reads: count("\"read\"")?, writes: count("\"write\"")? })
    };
    Ok((of("plane")?, of("members")?))
}

/// The writes that Ironclad sent to the control plane so far.
pub(crate) async fn plane_writes(address: &str) -> anyhow::Result<u64> {
    Ok(requests(address).await?.0.writes)
}

async fn metrics(address: &str) -> anyhow::Result<String> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::time::timeout(Duration::from_secs(5), tokio::net::TcpStream::connect(address)).await??;
    stream
        .write_all(format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())
        .await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}
