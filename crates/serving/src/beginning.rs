//! The first bytes of a connection, by which protocols are told apart: they come in time, and are the expected ones.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use crate::Bounds;

/// The first bytes of a client that speaks HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bounds of the first bytes of a connection.
pub(crate) struct Beginning {
    deadline: Option<Pin<Box<Sleep>>>,
    only_http2: bool,
}

impl Beginning {
    /// Those of these bounds; none if they have none.
    pub(crate) fn of(bounds: &Bounds) -> Option<Self> {
        let deadline = bounds.begin.map(|begin| Box::pin(sleep(begin)));
        (deadline.is_some() || bounds.only_http2).then_some(Self { deadline, only_http2: bounds.only_http2 })
    }

    /// The stream with these bounds before it.
    pub(crate) fn before<S>(self, stream: S) -> Bounded<S> {
        Bounded { stream, beginning: Some(self), seen: 0 }
    }
}

/// A stream whose first bytes are bounded.
pub(crate) struct Bounded<S> {
    stream: S,
    /// None once its first bytes were read.
    beginning: Option<Beginning>,
    /// Bytes that were read.
    seen: usize,
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(cx, buffer);
        let Some(beginning) = &mut this.beginning else { return polled };
        if polled.is_pending() {
            let is_late = beginning.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(cx).is_ready());
            return match is_late {
                true => Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "no protocol was begun in time"))),
                false => Poll::Pending,
            };
        }
        let read = &buffer.filled()[before..];
        let wanted = &PREFACE[this.seen..PREFACE.len().min(this.seen + read.len())];
        let is_preface = read.starts_with(wanted);
        this.seen += read.len();
        if beginning.only_http2 && !is_preface {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the first bytes are not those of HTTP/2",
            )));
        }
        // Other protocols have bounds of their own, and so has HTTP/2 after this.
        if !is_preface || this.seen >= PREFACE.len() {
            this.beginning = None;
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
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
    use std::time::Duration;

    use ironclad_seam::Tasks;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        time::timeout,
    };

    use super::*;
    use crate::{Answer, Connection};

    /// How a connection ends whose client says this and keeps it open: with bytes of ours, at least one, and in error.
    async fn ended(said: &[u8], bounds: Bounds) -> Option<(bool, bool)> {
        let tasks = Tasks::new("test");
        let (mut client, server) = duplex(1 << 12);
        let answer = Answer::new(|_| async { Ok(http::Response::new(crate::Body::default())) });
        let group = tasks.clone();
        let served = tasks.spawn("serve", async move { Connection::new(server, bounds, &group, answer).await });
        client.write_all(said).await.unwrap();
        let ended = timeout(Duration::from_secs(3_600), served).await.ok()?.unwrap();
        Some((client.read_u8().await.is_ok(), ended.is_err()))
    }

    #[tokio::test(start_paused = true)]
    async fn clients_have_to_begin_in_time_and_with_what_is_spoken() {
        let usual = Bounds::DEFAULT;
        let (endless, only_http2) = (Bounds { begin: None, ..usual }, Bounds { only_http2: true, ..usual });
        let no_heads = Bounds { head: None, ..only_http2 };
        for (name, said, bounds, want) in [
            ("nothing", &b""[..], usual, Some((false, true))),
            ("nothing, for as long as it likes", b"", endless, None),
            ("half of HTTP/2", b"PRI * HT", usual, Some((false, true))),
            ("a request of the other protocol", b"GET / HTTP/1.1\r\n\r\n", only_http2, Some((false, true))),
            ("one that begins alike", b"PRINT / HTTP/1.1\r\n\r\n", only_http2, Some((false, true))),
            ("half a request", b"GET / HT", no_heads, Some((false, true))),
        ] {
            assert_eq!(ended(said, bounds).await, want, "{name}");
        }
        // What comes after the beginning has bounds of its own.
        let answered = ended(b"POST / HTTP/1.1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", usual).await;
        assert_eq!(answered, Some((true, false)));
        let pinged = ended(PREFACE, only_http2).await;
        assert_eq!(pinged.map(|(answered, _)| answered), Some(true), "a client that does not answer pings");
    }
}
