//! Open connections: their limit, and which one is closed beyond it.
//!
//! An idle connection costs its client nothing, so a client that opens thousands must not keep others out: at the
//! limit,
//! the longest idle connection is closed for a new one. Connections with a request in flight or a watch are kept.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use ironclad_seam::Clock;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit},
    time::Instant,
};

use crate::ResponseBody;

/// Largest surplus of abandoned over answered requests on a connection. Requests that are opened only to be reset cause
/// work that no limit on open streams counts; ordinary clients that end watches stay far below.
const GIVEN_UP_MAX: usize = 256;

/// All of a listener.
pub(crate) struct Connections {
    most: usize,
    clock: Clock,
    open: Mutex<Open>,
    /// Notified when one has ended.
    ended: Notify,
}

#[derive(Default)]
struct Open {
    next: u64,
    all: BTreeMap<u64, Arc<Shared>>,
}

struct Shared {
    doing: Mutex<Doing>,
    /// True once a request arrived on it.
    had_request: AtomicBool,
    close: Notify,
}

/// The activity of a connection.
struct Doing {
    /// Requests under way, with the answers that are still being sent.
    requests: usize,
    /// Since when there are none.
    since: Instant,
    /// Requests given up before they were answered; each answered one makes up for one of them.
    given_up: usize,
    /// Answers of which a piece waits for the client, with the time since when.
    unread: BTreeMap<u64, Instant>,
    last_answer: u64,
}

/// An open connection; it ends when this is dropped.
pub(crate) struct Connection {
    id: u64,
    of: Arc<Connections>,
    state: Arc<Shared>,
}

impl Connections {
    pub(crate) fn new(most: usize, clock: Clock) -> Arc<Self> {
        Arc::new(Self { most: most.max(1), clock, open: Mutex::default(), ended: Notify::new() })
    }

    /// Takes a slot for a connection; waits for one as long as all are busy.
    pub(crate) async fn admit(self: &Arc<Self>) -> Connection {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // Before looking, so that no end is missed in between.
            ended.as_mut().enable();
            if let Some(connection) = self.open_one() {
                return connection;
            }
            if !self.close_longest_idle() {
                ended.await;
            }
        }
    }

    /// Waits until a connection ends; one that ended since the last wait counts.
    pub(crate) async fn connection_ended(&self) {
        self.ended.notified().await;
    }

    fn open_one(self: &Arc<Self>) -> Option<Connection> {
        let mut open = self.open.lock();
        if open.all.len() >= self.most {
            return None;
        }
        let id = open.next;
        open.next += 1;
        let doing =
            Doing { requests: 0, since: self.clock.mono(), given_up: 0, unread: BTreeMap::new(), last_answer: 0 };
        let state =
            Arc::new(Shared { doing: Mutex::new(doing), had_request: AtomicBool::new(false), close: Notify::new() });
        open.all.insert(id, state.clone());
        Some(Connection { id, of: self.clone(), state })
    }

    /// Closes the longest idle connection; false if none is idle. Its slot is free at once, because a client that is
    /// slow to disconnect must not keep it.
    pub(crate) fn close_longest_idle(&self) -> bool {
        let mut open = self.open.lock();
        let idle = open.all.iter().filter_map(|(id, state)| {
            let doing = state.doing.lock();
            (doing.requests == 0).then_some((doing.since, *id))
        });
        let Some((_, id)) = idle.min() else { return false };
        if let Some(state) = open.all.remove(&id) {
            state.close.notify_one();
        }
        true
    }
}

impl Connection {
    /// Resolves when it has to go.
    pub(crate) async fn closing(&self) {
        self.state.close.notified().await;
    }

    /// True once a request arrived on it.
    pub(crate) fn had_request(&self) -> bool {
        self.state.had_request.load(Ordering::Relaxed)
    }

    /// Counts a request in flight until the guard is dropped; `None` after too many abandoned requests, which closes
    /// the connection.
    pub(crate) fn begin(&self) -> Option<Underway> {
        self.state.had_request.store(true, Ordering::Relaxed);
        let mut doing = self.state.doing.lock();
        if doing.given_up > GIVEN_UP_MAX {
            return None;
        }
        doing.requests += 1;
        doing.last_answer += 1;
        let id = doing.last_answer;
        Some(Underway { id, state: self.state.clone(), clock: self.of.clock.clone(), answered: false })
    }

    /// True if the client leaves an answer unread for longer than this.
    pub(crate) fn is_stalled(&self, longest: std::time::Duration) -> bool {
        let now = self.of.clock.mono();
        self.state.doing.lock().unread.values().any(|since| now - *since > longest)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.of.open.lock().all.remove(&self.id);
        self.of.ended.notify_one();
    }
}

/// A request under way.
pub(crate) struct Underway {
    id: u64,
    state: Arc<Shared>,
    clock: Clock,
    answered: bool,
}

impl Underway {
    /// Its answer has begun: from now on, an end is no giving up.
    pub(crate) fn answered(&mut self) {
        self.answered = true;
    }

    /// A piece of the answer waits for the client from now on, or was taken.
    fn set_unread(&self, is_unread: bool) {
        let mut doing = self.state.doing.lock();
        if is_unread {
            doing.unread.insert(self.id, self.clock.mono());
        } else {
            doing.unread.remove(&self.id);
        }
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        let mut doing = self.state.doing.lock();
        doing.requests -= 1;
        doing.unread.remove(&self.id);
        doing.since = self.clock.mono();
        if self.answered {
            doing.given_up = doing.given_up.saturating_sub(1);
            return;
        }
        doing.given_up += 1;
        if doing.given_up > GIVEN_UP_MAX {
            self.state.close.notify_one();
        }
    }
}

/// The body of an answer, whose request is under way until all of it was sent.
pub(crate) struct Sending {
    body: ResponseBody,
    underway: Underway,
    /// The request's permit, so that those who don't read count against the limit of requests; watches have none.
    _permit: Option<Arc<OwnedSemaphorePermit>>,
}

impl Sending {
    pub(crate) fn new(body: ResponseBody, underway: Underway, permit: Option<Arc<OwnedSemaphorePermit>>) -> Self {
        if body.is_watch() {
            return Self { body, underway, _permit: None };
        }
        underway.set_unread(!body.is_end_stream());
        Self { body, underway, _permit: permit }
    }
}

impl Body for Sending {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if self.body.is_watch() {
            return Pin::new(&mut self.body).poll_frame(cx);
        }
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        self.underway.set_unread(matches!(polled, Poll::Ready(Some(_))));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::pin, task::Waker, time::Duration};

    use super::*;

    fn is_ready(future: Pin<&mut impl Future>) -> bool {
        future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn answered(connection: &Connection) -> Underway {
        let mut request = connection.begin().expect("requests are taken");
        request.answered();
        request
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_abandons_too_many_requests_is_disconnected() {
        let connections = Connections::new(2, Clock::simulated(jiff::Timestamp::UNIX_EPOCH));
        let connection = connections.admit().await;
        // Answers offset abandoned requests one by one, indefinitely.
        for _ in 0..10 * GIVEN_UP_MAX {
            drop(connection.begin().expect("requests are taken"));
            drop(answered(&connection));
        }
        for _ in 0..GIVEN_UP_MAX {
            drop(connection.begin().expect("requests are taken"));
        }
        assert!(!is_ready(pin!(connection.closing())));
        drop(connection.begin().expect("at the bound, one more is taken"));
        assert!(is_ready(pin!(connection.closing())));
        assert!(connection.begin().is_none(), "nothing is begun on one that goes");
        assert!(connections.admit().await.begin().is_some(), "others are not concerned");
    }

    #[tokio::test(start_paused = true)]
    async fn longest_idle_connection_is_closed_at_the_limit() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
        let connections = Connections::new(3, clock.clone());
        let first = connections.admit().await;
        clock.sleep(Duration::from_secs(1)).await;
        let second = connections.admit().await;
        let third = connections.admit().await;
        // The first is the oldest, but busy; the second was busy last.
        let watch = answered(&first);
        clock.sleep(Duration::from_secs(1)).await;
        drop(answered(&second));
        let fourth = connections.admit().await;
        assert!(is_ready(pin!(third.closing())), "the third was idle the longest");
        assert!(!is_ready(pin!(second.closing())), "one goes for one that comes");
        clock.sleep(Duration::from_secs(1)).await;
        drop(watch);
        let fifth = connections.admit().await;
        assert!(is_ready(pin!(second.closing())), "the first was busy until just now");
        assert!(first.had_request() && second.had_request() && !third.had_request());
        drop((first, second, third, fourth, fifth));
        assert!(!connections.close_longest_idle(), "nobody is left");
    }

    #[tokio::test(start_paused = true)]
    async fn new_connection_waits_while_all_are_busy() {
        let connections = Connections::new(1, Clock::simulated(jiff::Timestamp::UNIX_EPOCH));
        let first = connections.admit().await;
        let watch = answered(&first);
        let mut second = pin!(connections.admit());
        assert!(!is_ready(second.as_mut()));
        assert!(!is_ready(pin!(first.closing())), "a watch is never cut for a newcomer");
        drop(watch);
        drop(first);
        assert!(is_ready(second.as_mut()));
    }
}
