//! A limit of the bytes that tunnels carry in a second, for members behind narrow links.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use ironclad_seam::Clock;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

/// Parts of a second that pass at once at most.
const PARTS: u64 = 10;
/// Fewest bytes that pass at once.
const LEAST: u64 = 1 << 10;

/// Bytes a second that the tunnels of a process carry together, in each direction. Cheap to clone.
#[derive(Clone)]
pub struct Bandwidth {
    per_second: u64,
    clock: Clock,
    /// Times until which what was read, and what was written, lasts at this rate.
    used: [Arc<Mutex<Option<Instant>>>; 2],
}

impl Bandwidth {
    /// This many bytes a second, at least 1,024.
    #[must_use]
    pub fn new(per_second: u64, clock: &Clock) -> Self {
        Self { per_second: per_second.max(LEAST), clock: clock.clone(), used: Default::default() }
    }

    /// Bytes that may pass at once.
    fn at_once(&self) -> usize {
        usize::try_from((self.per_second / PARTS).max(LEAST)).unwrap_or(usize::MAX)
    }

    /// Time until more may pass in a direction.
    fn wait(&self, direction: usize) -> Option<Duration> {
        let until = (*self.used[direction].lock())?;
        until.checked_duration_since(self.clock.mono()).filter(|wait| !wait.is_zero())
    }

    /// Notes that this many bytes have passed.
    fn pass(&self, direction: usize, bytes: usize) {
        let lasts = Duration::from_secs_f64(bytes as f64 / self.per_second as f64);
        let (now, mut used) = (self.clock.mono(), self.used[direction].lock());
        *used = Some(used.map_or(now, |until| until.max(now)) + lasts);
    }
}

/// Direction of [`Bandwidth`].
const READ: usize = 0;
const WRITTEN: usize = 1;

/// A stream within a limit, if there is one.
pub(super) struct Narrowed<S> {
    stream: S,
    bandwidth: Option<Bandwidth>,
    waits: [Option<BoxFuture<'static, ()>>; 2],
}

impl<S> Narrowed<S> {
    pub(super) fn new(stream: S, bandwidth: Option<Bandwidth>) -> Self {
        Self { stream, bandwidth, waits: [None, None] }
    }

    /// Waits until more may pass in this direction; returns how many bytes may at once.
    fn poll_allowed(&mut self, direction: usize, cx: &mut Context<'_>) -> Poll<usize> {
        let Some(bandwidth) = &self.bandwidth else { return Poll::Ready(usize::MAX) };
        loop {
            if let Some(wait) = &mut self.waits[direction] {
                futures::ready!(wait.as_mut().poll(cx));
                self.waits[direction] = None;
            }
            let Some(wait) = bandwidth.wait(direction) else { return Poll::Ready(bandwidth.at_once()) };
            let clock = bandwidth.clock.clone();
            self.waits[direction] = Some(async move { clock.sleep(wait).await }.boxed());
        }
    }

    fn pass(&self, direction: usize, bytes: usize) {
        if let Some(bandwidth) = &self.bandwidth {
            bandwidth.pass(direction, bytes);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Narrowed<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let most = futures::ready!(self.poll_allowed(READ, cx)).min(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
        futures::ready!(Pin::new(&mut self.stream).poll_read(cx, &mut part))?;
        let read = part.filled().len();
        buffer.advance(read);
        self.pass(READ, read);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Narrowed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let most = futures::ready!(self.poll_allowed(WRITTEN, cx)).min(bytes.len());
        let written = futures::ready!(Pin::new(&mut self.stream).poll_write(cx, &bytes[..most]))?;
        self.pass(WRITTEN, written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    /// Seconds of virtual time in which two streams of one limit carry this many bytes each.
    async fn carried(bytes: usize, reads: bool) -> f64 {
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH);
        let bandwidth = Bandwidth::new(100_000, &clock);
        let began = clock.mono();
        let one = || async {
            let (near, mut far) = duplex(1 << 20);
            let mut near = Narrowed::new(near, Some(bandwidth.clone()));
            let content: Vec<u8> = (0..bytes).map(|n| n as u8).collect();
            let mut got = vec![0; bytes];
            if reads {
                let (sent, received) = tokio::join!(far.write_all(&content), near.read_exact(&mut got));
                sent.and(received.map(drop)).unwrap();
            } else {
                let (sent, received) = tokio::join!(near.write_all(&content), far.read_exact(&mut got));
                sent.and(received.map(drop)).unwrap();
            }
            assert_eq!(got, content, "nothing is lost, and the order is kept");
        };
        tokio::join!(one(), one());
        (clock.mono() - began).as_secs_f64()
    }

    #[tokio::test(start_paused = true)]
    async fn tunnels_share_a_rate_in_each_direction() {
        for reads in [true, false] {
            let seconds = carried(500_000, reads).await;
            assert!((9.5..10.5).contains(&seconds), "a million bytes in {seconds} s");
            assert!(carried(4_000, reads).await < 0.2, "little passes at once");
        }
    }
}
