//! Group commit: takes queued transactions, makes them durable together, publishes and answers them.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::{
    Backend, BackendError, EngineStats, Loaded, Record, Revision, StoreError, Transaction, TxnResult, engine::Shared,
    error::text_of, limits, store::Server,
};

/// Maximum number of transactions in one compaction of the backend, so that commits do not wait long.
const COMPACT_MAX: u64 = 4_096;

/// A group of this size comes from concurrent writers, so that more transactions are expected.
const CROWD: usize = 4;
/// Time to wait for more transactions: a commit costs nearly the same for one as for many.
const GATHER: Duration = Duration::from_millis(1);

/// An accepted transaction, or an answer that must wait for the transactions before it.
pub(crate) struct Item {
    pub(crate) server: Arc<Server>,
    pub(crate) transaction: Option<Arc<Transaction>>,
    pub(crate) bytes: usize,
    pub(crate) result: TxnResult,
    pub(crate) answer: oneshot::Sender<Result<TxnResult, StoreError>>,
    /// Released when the item is answered.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// Accepted items in the order of their acceptance.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    /// Notified when an item with a waiting caller is queued, and when the queue is closed.
    more: Condvar,
}

#[derive(Default)]
struct QueueState {
    items: VecDeque<Item>,
    /// The committer waits for the first item.
    idle: bool,
    refusal: Option<StoreError>,
}

impl Queue {
    pub(crate) fn refusal(&self) -> Option<StoreError> {
        self.state.lock().refusal.clone()
    }

    pub(crate) fn push(&self, item: Item) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        if let Some(refusal) = &state.refusal {
            return Err(refusal.clone());
        }
        state.items.push_back(item);
        if state.idle {
            self.more.notify_one();
        }
        Ok(())
    }

    /// Refuses items from now on; what is queued stays.
    pub(crate) fn close(&self) {
        self.state.lock().refusal.get_or_insert(StoreError::Closed);
        self.more.notify_one();
    }

    /// Refuses items from now on and returns the queued ones.
    fn fail(&self, error: &StoreError) -> VecDeque<Item> {
        let mut state = self.state.lock();
        state.refusal = Some(error.clone());
        std::mem::take(&mut state.items)
    }

    /// Takes the next group: one item, if there is any, and more up to the size limit.
    fn take(&self) -> Vec<Item> {
        let mut state = self.state.lock();
        let mut bytes = 0;
        let fits = |item: &&Item| {
            bytes += item.bytes;
            bytes <= limits::GROUP_BYTES_MAX
        };
        let count = state.items.iter().take_while(fits).count().max(1).min(state.items.len());
        state.items.drain(..count).collect()
    }

    /// Waits for an item, and a little longer if writers are concurrent. Returns `false` when the queue is closed and
    /// empty.
    fn wait(&self, crowd: bool) -> bool {
        let mut state = self.state.lock();
        state.idle = true;
        while state.items.is_empty() {
            if state.refusal.is_some() {
                return false;
            }
            self.more.wait(&mut state);
        }
        state.idle = false;
        if crowd && state.refusal.is_none() {
            self.more.wait_for(&mut state, GATHER);
        }
        true
    }
}

/// The only user of the backend.
pub(crate) struct Committer {
    backend: Option<Box<dyn Backend>>,
    /// The oldest revision that the backend can still serve a window from, by server.
    floors: BTreeMap<Arc<str>, Revision>,
    stats: EngineStats,
}

impl Committer {
    pub(crate) fn new(backend: Box<dyn Backend>, loaded: &Loaded) -> Self {
        let floor =
            |revision: Revision, log: &[Arc<Transaction>]| log.first().map_or(revision, |t| t.revision.previous());
        let floors = loaded.iter().map(|(name, s)| (name.as_str().into(), floor(s.revision, &s.log))).collect();
        Self { backend: Some(backend), floors, stats: EngineStats::default() }
    }

    pub(crate) fn stats(&self) -> EngineStats {
        let backend = self.backend.as_ref().map(|b| b.stats()).unwrap_or_default();
        EngineStats { backend, ..self.stats }
    }

    /// Drops the backend, and with it its lock on the data directory.
    pub(crate) fn release(&mut self) {
        if let Some(backend) = &self.backend {
            self.stats.backend = backend.stats();
        }
        self.backend = None;
    }

    fn commit(&mut self, group: &[Record]) -> Result<(), BackendError> {
        if group.is_empty() {
            return Ok(());
        }
        self.call(|backend| backend.commit(group))?;
        let count = u64::try_from(group.len()).unwrap_or(u64::MAX);
        self.stats.groups += 1;
        self.stats.transactions += count;
        self.stats.largest_group = self.stats.largest_group.max(count);
        Ok(())
    }

    /// Compacts the backend's history towards the window of a server.
    fn compact(&mut self, server: &Arc<str>, floor: Revision, step: u64) -> Result<(), BackendError> {
        let kept = *self.floors.entry(server.clone()).or_insert(Revision::FIRST);
        if floor.get() < kept.get().saturating_add(step.max(1)) {
            return Ok(());
        }
        let floor = Revision::new(floor.get().min(kept.get() + COMPACT_MAX)).unwrap_or(floor);
        self.call(|backend| backend.compact(server, floor))?;
        self.floors.insert(server.clone(), floor);
        Ok(())
    }

    fn call(&mut self, f: impl FnOnce(&mut dyn Backend) -> Result<(), BackendError>) -> Result<(), BackendError> {
        let Some(backend) = self.backend.as_deref_mut() else {
            return Err(io_error("the backend was released"));
        };
        catch_unwind(AssertUnwindSafe(|| f(backend))).unwrap_or_else(|panic| Err(io_error(text_of(&*panic))))
    }
}

fn io_error(text: &str) -> BackendError {
    BackendError::Io { path: "(unknown)".into(), source: io::Error::other(text.to_owned()) }
}

impl Shared {
    pub(crate) fn run_committer(&self) {
        let mut last = 0;
        while self.queue.wait(last >= CROWD) {
            last = self.commit_group();
        }
    }

    pub(crate) fn commit_all(&self) {
        while self.commit_group() > 0 {}
    }

    /// Commits one group and returns its number of items.
    fn commit_group(&self) -> usize {
        // Locked throughout: groups are committed and published one after the other.
        let mut committer = self.committer.lock();
        let items = self.queue.take();
        let count = items.len();
        let records: Vec<_> = items.iter().filter_map(Item::record).collect();
        if let Err(error) = committer.commit(&records) {
            self.fail(items, error);
            return count;
        }
        let servers = self.publish(items);
        for (name, server) in servers {
            let (floor, step) = server.space.read().to_compact();
            if let Err(error) = committer.compact(&name, floor, step) {
                self.fail(Vec::new(), error);
                break;
            }
        }
        count
    }

    /// Publishes a durable group to readers and watchers, then answers its writers; returns the servers that it
    /// changed.
    fn publish(&self, items: Vec<Item>) -> BTreeMap<Arc<str>, Arc<Server>> {
        let now = self.clock.mono();
        let mut servers = BTreeMap::new();
        let mut wake = Vec::new();
        for item in items {
            if let Some(transaction) = &item.transaction {
                item.server.space.write().publish(transaction.clone(), now, &mut wake);
                item.server.overlay.lock().published(transaction);
                servers.entry(item.server.name.clone()).or_insert_with(|| item.server.clone());
            }
            // The caller may have been dropped; the write is valid nevertheless.
            let _ = item.answer.send(Ok(item.result));
            drop(item.permit);
        }
        for waker in wake {
            waker.wake();
        }
        for server in servers.values() {
            server.published.notify_waiters();
        }
        servers
    }

    /// Refuses all writes from now on: the state in memory must not diverge from that of the backend.
    fn fail(&self, items: Vec<Item>, error: BackendError) {
        let of = &error as &dyn std::error::Error;
        tracing::error!(error = of, "store rejects writes until the process restarts");
        let error = StoreError::ReadOnly { cause: Arc::new(error) };
        let queued = self.queue.fail(&error);
        for item in items.into_iter().chain(queued) {
            let _ = item.answer.send(Err(error.clone()));
        }
    }
}

impl Item {
    fn record(&self) -> Option<Record> {
        let transaction = self.transaction.clone()?;
        Some(Record { server: self.server.name.clone(), transaction })
    }
}
