//! Free ports on loopback, and another try when somebody else was quicker.

use std::{io, net::TcpListener};

use super::process::Process;

/// How often a program is started anew on other ports.
pub(super) const TRIES: usize = 5;

/// A port that was free a moment ago. The programs can't be handed an open socket, so it may be taken before they bind
/// it: [`was_taken`] tells.
pub(super) fn free() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Reports whether the program ended because one of its ports was taken.
pub(super) fn was_taken(process: &mut Process) -> bool {
    process.ended().is_some() && process.log_tail().contains("address already in use")
}
