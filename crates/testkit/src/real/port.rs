//! Free ports on loopback, and a check whether a port was taken meanwhile.

use std::{
    io,
    net::TcpListener,
    sync::atomic::{AtomicU32, Ordering},
};

use super::process::Process;

/// Maximum number of starts on other ports.
pub(super) const TRIES: usize = 5;

/// First of the ports that are given. Linux gives those below 32768 to nobody who names none.
const FIRST: u16 = 12_000;
/// Number of them.
const COUNT: u32 = 18_000;

/// Returns a port on which nobody listens. It stays free until the caller listens, and while what listened there is
/// started again, but for programs that name it, too: see [`was_taken`]. A process gets each once.
///
/// # Errors
/// If none is free.
pub fn free_port() -> io::Result<u16> {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Processes that run side by side begin at different ones.
    let begin = std::process::id().wrapping_mul(97);
    let next = || begin.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % COUNT;
    let ports = (0..COUNT).filter_map(|_| FIRST.checked_add(u16::try_from(next()).ok()?));
    let mut free = ports.filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.next().ok_or_else(|| io::Error::other(format!("no port from {FIRST} on is free")))
}

/// Returns `true` if the program ended because one of its ports was taken.
pub(super) fn was_taken(process: &mut Process) -> bool {
    process.ended().is_some() && process.log_tail().contains("address already in use")
}
