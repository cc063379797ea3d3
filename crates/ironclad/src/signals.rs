//! Signals that end the process.

use std::io;

use ironclad_cli::report::INTERRUPTED;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The handlers of SIGTERM and ctrl-c. Installed first of all: a signal during the start is remembered, not lost.
pub(crate) struct Stop {
    term: Signal,
    int: Signal,
    hangup: Option<Signal>,
}

impl Stop {
    /// Installs the handlers.
    pub(crate) fn install() -> io::Result<Self> {
        Ok(Self { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())?, hangup: None })
    }

    /// The same, and a handler of SIGHUP: a terminal that is closed ends a verb as ctrl-c does, unless `nohup` started
    /// it.
    pub(crate) fn install_with_hangup() -> io::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hangup = if ignores_hangup(&status) { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(Self { hangup, ..Self::install()? })
    }

    /// Resolves at the first of these signals.
    pub(crate) async fn received(&mut self) {
        tokio::select! {
            biased;
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
            () = received(&mut self.hangup) => {}
        }
    }

    /// Runs the end of the process. Another signal meanwhile ends it at once.
    pub(crate) async fn during<T>(mut self, end: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            ended = end => ended,
            () = self.received() => std::process::exit(INTERRUPTED.into()),
        }
    }
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// True if the process was started with SIGHUP ignored, by its `/proc/self/status`.
fn ignores_hangup(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nohup_is_recognized() {
        for (mask, want) in [("0000000000001001", true), ("0000000000001000", false), ("", false)] {
            assert_eq!(ignores_hangup(&format!("Name:\tx\nSigIgn:\t{mask}\n")), want, "{mask}");
        }
        assert!(!ignores_hangup(""));
    }
}
