//! Signals that end the process.

use std::io;

use ironclad_cli::report::INTERRUPTED;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The handlers of SIGTERM and ctrl-c. Installed first of all: a signal during the start is remembered, not lost.
pub(crate) struct Stop {
    term: Signal,
    int: Signal,
}

impl Stop {
    /// Installs the handlers.
    pub(crate) fn install() -> io::Result<Self> {
        Ok(Self { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    /// Resolves at the first of these signals.
    pub(crate) async fn received(&mut self) {
        tokio::select! {
            biased;
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
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
