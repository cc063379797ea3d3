//! Free ports on loopback, and a check whether a port was taken meanwhile.

use std::{io, net::TcpListener};

use super::process::Process;

/// Maximum number of starts on other ports.
pub(super) const TRIES: usize = 5;

/// Returns a port that was free a moment ago. The programs accept no open socket, so it may be taken before they bind
/// it: see [`was_taken`].
pub(super) fn free() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Returns `true` if the program ended because one of its ports was taken.
pub(super) fn was_taken(process: &mut Process) -> bool {
    process.ended().is_some() && process.log_tail().contains("address already in use")
}
