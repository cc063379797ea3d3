//! Signals that end the process.

use tokio::signal::unix::{SignalKind, signal};

/// Resolves at the first SIGTERM or ctrl-c; a second one ends the process at once.
pub(crate) async fn stopped() {
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        // Without handlers the signals keep their default action, which ends the process.
        return std::future::pending().await;
    };
    tokio::select! {
        biased;
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}
