//! A watch: every change under a prefix after a revision.

use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

use crate::{
    Event, Revision, Transaction,
    hub::{End, Inbox},
    space::Registered,
    store::Server,
};

/// Watch of every change under a prefix after a revision.
///
/// Guarantees: batches arrive in the order of their revisions, none twice, none missing; a batch holds all changes that
/// its transaction made under the prefix. A watcher that does not keep up gets the buffered batches, then [`Lagged`],
/// then the end; it may start a new watch from the last batch or progress that it has seen.
pub struct Watch {
    server: Arc<Server>,
    prefix: Box<str>,
    id: u64,
    inbox: Arc<Inbox>,
    /// Transactions that were published before the watch began. They do not count against the buffer: the window bounds
    /// them, and a watcher with much to catch up with would be ended again and again.
    backlog: VecDeque<Arc<Transaction>>,
    seen: Revision,
    ended: bool,
}

/// The changes of one transaction under the watched prefix.
#[derive(Clone)]
pub struct Batch {
    transaction: Arc<Transaction>,
    from: usize,
    to: usize,
}

impl Batch {
    /// The revision of the transaction.
    pub fn revision(&self) -> Revision {
        self.transaction.revision
    }

    /// The changes in key order; never empty.
    pub fn events(&self) -> &[Event] {
        &self.transaction.events[self.from..self.to]
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("revision", &self.revision()).field("events", &self.events()).finish()
    }
}

/// The watcher did not keep up and its buffer was full: the watch ends without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the watcher did not keep up: everything up to revision {delivered} was delivered, watch again from there")]
pub struct Lagged {
    /// Everything up to this revision was delivered.
    pub delivered: Revision,
}

impl Watch {
    pub(crate) fn new(server: Arc<Server>, prefix: &str, from: Revision, registered: Registered) -> Self {
        let Registered { id, inbox, backlog } = registered;
        Self { server, prefix: prefix.into(), id, inbox, backlog, seen: from, ended: false }
    }

    /// The next batch; `None` when the engine was closed, or after [`Lagged`]. Safe to drop and call again.
    pub async fn next(&mut self) -> Option<Result<Batch, Lagged>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Poll form of [`Watch::next`], for hand-written futures and streams.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Batch, Lagged>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if let Some(batch) = self.ready() {
            return Poll::Ready(Some(Ok(batch)));
        }
        let replaced;
        {
            let mut inbox = self.inbox.0.lock();
            if inbox.queue.is_empty() {
                match inbox.end {
                    None => {
                        replaced = match &inbox.waker {
                            Some(waker) if waker.will_wake(cx.waker()) => None,
                            _ => inbox.waker.replace(cx.waker().clone()),
                        };
                        drop(inbox);
                        // Outside of the lock: dropping a waker may drop a task, and with it other watches.
                        drop(replaced);
                        return Poll::Pending;
                    }
                    Some(end) => {
                        self.ended = true;
                        return Poll::Ready(match end {
                            End::Lagged => Some(Err(Lagged { delivered: self.seen })),
                            End::Closed => None,
                        });
                    }
                }
            }
        }
        // Published between the two checks.
        Poll::Ready(self.ready().map(Ok))
    }

    fn ready(&mut self) -> Option<Batch> {
        let transaction = self.backlog.pop_front().or_else(|| {
            let mut inbox = self.inbox.0.lock();
            let (transaction, bytes) = inbox.queue.pop_front()?;
            inbox.bytes -= bytes;
            Some(transaction)
        })?;
        self.seen = transaction.revision;
        let from = transaction.events.partition_point(|e| e.key.as_str() < &*self.prefix);
        let to = from + transaction.under(&self.prefix).len();
        Some(Batch { transaction, from, to })
    }

    /// Returns the revision up to which everything under the prefix was delivered, as for a bookmark. It also grows
    /// with writes elsewhere, and never exceeds a batch that is not taken yet.
    pub fn progress(&mut self) -> Revision {
        let upto = if let Some(next) = self.backlog.front() {
            next.revision.previous()
        } else {
            // Publishing locks the same space for writing, so nothing is published between the two checks.
            let space = self.server.space.read();
            let inbox = self.inbox.0.lock();
            match (inbox.queue.front(), inbox.end) {
                (Some((next, _)), _) => next.revision.previous(),
                (None, Some(_)) => self.seen,
                (None, None) => space.revision(),
            }
        };
        self.seen = self.seen.max(upto);
        self.seen
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.server.space.write().hub.remove(&self.prefix, self.id);
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("prefix", &self.prefix).field("seen", &self.seen).finish_non_exhaustive()
    }
}
