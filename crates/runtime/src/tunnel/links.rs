//! Links with faults, in memory, for tests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ironclad_seam::{Clock, Tasks};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf},
    sync::mpsc,
    time::{Instant, sleep_until},
};

/// Faults of one direction of a link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Faults {
    /// Time that each byte is under way.
    pub(super) delay: Duration,
    /// Bytes that arrive at once.
    pub(super) chunk: usize,
    /// Bytes after which both directions are cut.
    pub(super) cut: Option<usize>,
    /// Bytes after which this direction loses everything, and says nothing.
    pub(super) mute: Option<usize>,
}

impl Default for Faults {
    fn default() -> Self {
        Self { delay: Duration::ZERO, chunk: 1 << 14, cut: None, mute: None }
    }
}

/// The ends of a link whose directions have these faults. It lives until the group is killed or a fault cuts it, and
/// says nothing any more in either direction once it is made `silent`.
pub(super) fn link(
    tasks: &Tasks,
    there: Faults,
    back: Faults,
    silent: &Arc<AtomicBool>,
) -> (DuplexStream, DuplexStream) {
    let ((near, of_near), (far, of_far)) = (tokio::io::duplex(1 << 16), tokio::io::duplex(1 << 16));
    let ((from_near, to_near), (from_far, to_far)) = (tokio::io::split(of_near), tokio::io::split(of_far));
    let carriers = tasks.child("link");
    direction(&carriers, there, from_near, to_far, silent.clone());
    direction(&carriers, back, from_far, to_near, silent.clone());
    (near, far)
}

fn direction(
    tasks: &Tasks,
    faults: Faults,
    mut from: ReadHalf<DuplexStream>,
    mut to: WriteHalf<DuplexStream>,
    silent: Arc<AtomicBool>,
) {
    let (sender, mut under_way) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let (group, clock) = (tasks.clone(), Clock::system());
    tasks.spawn("read", async move {
        let (mut buffer, mut carried) = (vec![0; faults.chunk], 0);
        loop {
            let most = faults.cut.map_or(faults.chunk, |cut| (cut - carried).min(faults.chunk));
            let read = if most == 0 { 0 } else { from.read(&mut buffer[..most]).await.unwrap_or(0) };
            if faults.cut.is_some_and(|cut| carried + read == cut) {
                // Bytes that are under way are lost with the link.
                group.kill();
                std::future::pending::<()>().await;
            }
            let is_silent = silent.load(Ordering::Relaxed);
            let lasts = if is_silent { 0 } else { faults.mute.map_or(usize::MAX, |mute| mute.saturating_sub(carried)) };
            carried += read;
            match (read, lasts) {
                // A direction that says nothing does not tell its end, either.
                (0, 0) => std::future::pending().await,
                (0, _) => return,
                (read, lasts) => {
                    let _ = sender.send((clock.mono() + faults.delay, buffer[..read.min(lasts)].to_vec()));
                }
            }
            tokio::task::yield_now().await;
        }
    });
    tasks.spawn("write", async move {
        while let Some((at, bytes)) = under_way.recv().await {
            sleep_until(at).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    });
}
