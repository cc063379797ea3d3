//! Requests under way on a connection, so that one without any can end.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use ironclad_seam::Clock;
use tokio::sync::Notify;

use crate::{Answering, Body};

/// Counts the requests of a connection that are not answered whole. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Busy(Arc<Shared>);

#[derive(Default)]
struct Shared {
    requests: AtomicUsize,
    /// Told of each change; one waits.
    changed: Notify,
}

/// One of them.
struct Request(Busy);

impl Busy {
    /// Counts a request until its answer is sent or given up.
    pub(crate) fn until_answered(&self, answering: Answering) -> Answering {
        self.0.requests.fetch_add(1, Ordering::SeqCst);
        self.0.changed.notify_one();
        let request = Request(self.clone());
        async move { Ok(answering.await?.map(|body| Counted { body, _request: request }.boxed_unsync())) }.boxed()
    }

    /// Waits until there was no request for this time.
    pub(crate) async fn idle_for(&self, time: Duration, clock: &Clock) {
        loop {
            let is_idle = self.0.requests.load(Ordering::SeqCst) == 0;
            tokio::select! {
                biased;
                () = self.0.changed.notified() => {}
                () = clock.sleep(time), if is_idle => return,
            }
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.0.0.requests.fetch_sub(1, Ordering::SeqCst);
        self.0.0.changed.notify_one();
    }
}

/// Body of an answer, with which a request ends.
struct Counted {
    body: Body,
    _request: Request,
}

impl hyper::body::Body for Counted {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
