//! The public interface of one server's keyspace.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use crate::{
    Compare, Engine, Entry, Expiry, Key, Op, Query, Range, Revision, RevisionError, StoreError, TxnResult, Watch,
    limits, overlay::Overlay, space::Space,
};

/// Maximum number of entries that one call of [`Store::reap`] deletes.
const REAP_MAX: usize = 256;

/// One server of an engine. Lock order: overlay, space, the engine's queue.
pub(crate) struct Server {
    pub(crate) name: Arc<str>,
    pub(crate) overlay: Mutex<Overlay>,
    pub(crate) space: RwLock<Space>,
    pub(crate) published: Notify,
}

/// Keyspace and revisions of a server. Cheap to clone; all clones and all openers of the same name share it.
#[derive(Clone)]
pub struct Store {
    engine: Engine,
    server: Arc<Server>,
}

impl Store {
    pub(crate) fn new(engine: Engine, server: Arc<Server>) -> Self {
        Self { engine, server }
    }

    /// The name it was opened under.
    pub fn server(&self) -> &str {
        &self.server.name
    }

    /// Reason why writes are refused, if they are. Reads continue to work.
    pub fn refuses_writes(&self) -> Option<StoreError> {
        self.engine.refuses_writes()
    }

    /// The newest revision. It includes everything that was acknowledged before this call.
    pub fn revision(&self) -> Revision {
        self.server.space.read().revision()
    }

    /// The oldest revision that can be read and watched from.
    pub fn floor(&self) -> Revision {
        self.server.space.read().floor()
    }

    /// The newest state of a key.
    pub fn get(&self, key: &str) -> Option<Entry> {
        self.server.space.read().get(key).cloned()
    }

    /// Returns the newest state of a key, and the store's revision at that moment.
    pub fn get_with_revision(&self, key: &str) -> (Option<Entry>, Revision) {
        let space = self.server.space.read();
        (space.get(key).cloned(), space.revision())
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.server.space.read().len()
    }

    /// Returns `true` if there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of open watches, for metrics.
    pub fn watches(&self) -> usize {
        self.server.space.read().hub.len()
    }

    /// Returns the keys with a prefix, in order, as one consistent state: the newest, or that of a revision in the
    /// history.
    ///
    /// # Errors
    /// A revision below the floor or in the future.
    pub fn range(&self, query: &Query<'_>) -> Result<Range, RevisionError> {
        self.server.space.read().range(query)
    }

    /// Applies all changes as one revision if all conditions hold; otherwise returns the states of the compared keys.
    ///
    /// When it returns, the changes are durable and visible to readers and watchers. From its first poll on it runs to
    /// its end even if this future is dropped, unless it still waits for capacity in the queue: then nothing happened.
    /// Concurrent writers see each other's accepted changes in their conditions: of two that compare the same revision,
    /// one fails.
    ///
    /// # Errors
    /// A value, key or transaction exceeds its limit, or a key is changed twice; then nothing happened.
    /// [`StoreError::ReadOnly`] if the backend failed: see there. [`StoreError::Closed`]: nothing happened.
    pub async fn txn(&self, compares: Vec<Compare>, mut ops: Vec<Op>) -> Result<TxnResult, StoreError> {
        ops.sort_by(|a, b| a.key().cmp(b.key()));
        let bytes = check(&compares, &ops)?;
        self.engine.txn(&self.server, &compares, ops, bytes).await
    }

    /// Writes a key without conditions; returns the revision.
    ///
    /// # Errors
    /// As [`Store::txn`].
    pub async fn put(&self, key: &str, value: impl Into<Bytes>) -> Result<Revision, StoreError> {
        match self.txn(Vec::new(), vec![Op::put(key, value)]).await? {
            TxnResult::Done { revision } | TxnResult::Failed { revision, .. } => Ok(revision),
        }
    }

    /// Watches everything that changes under the prefix after this revision; [`Watch`] documents the guarantees.
    ///
    /// # Errors
    /// A revision below the floor or in the future.
    pub fn watch(&self, prefix: &str, from: Revision) -> Result<Watch, RevisionError> {
        let registered = self.server.space.write().watch(prefix, from)?;
        Ok(Watch::new(self.server.clone(), prefix, from, registered))
    }

    /// Resolves to the published revision once it is at least this one. The caller sets the deadline.
    pub async fn reached(&self, revision: Revision) -> Revision {
        loop {
            let published = self.server.published.notified();
            tokio::pin!(published);
            published.as_mut().enable();
            let current = self.revision();
            if current >= revision {
                return current;
            }
            published.await;
        }
    }

    /// Time at which the next entry expires, by the wall clock.
    pub fn next_expiry(&self) -> Option<Expiry> {
        self.server.space.read().next_expiry()
    }

    /// Deletes a bounded number of expired entries and returns how many; call it until none is left. The deletions are
    /// ordinary watch events. Entries that were written concurrently remain.
    ///
    /// # Errors
    /// As [`Store::txn`].
    pub async fn reap(&self) -> Result<usize, StoreError> {
        let now = u64::try_from(self.engine.clock().wall().as_second()).unwrap_or(0);
        let expired = self.server.space.read().expired(now, REAP_MAX);
        if expired.is_empty() {
            return Ok(0);
        }
        let reap = |some: &[(Key, Revision)]| {
            let compares = some.iter().map(|(key, modified)| Compare::modified(key.clone(), *modified)).collect();
            self.txn(compares, some.iter().map(|(key, _)| Op::delete(key.clone())).collect())
        };
        if reap(&expired).await?.done().is_some() {
            return Ok(expired.len());
        }
        let mut reaped = 0;
        for one in expired.chunks(1) {
            reaped += usize::from(reap(one).await?.done().is_some());
        }
        Ok(reaped)
    }

    /// Drops history before this revision, which becomes the floor. History is also cut by age and size on its own.
    pub fn compact(&self, floor: Revision) {
        self.server.space.write().compact(floor);
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("server", &self.server.name).finish_non_exhaustive()
    }
}

/// Checks the bounds of a transaction whose changes are in key order; returns its bytes.
fn check(compares: &[Compare], ops: &[Op]) -> Result<usize, StoreError> {
    let mut total = 0;
    for key in compares.iter().map(|c| &c.key).chain(ops.iter().map(Op::key)) {
        if key.is_empty() || key.len() > limits::KEY_BYTES_MAX {
            return Err(StoreError::KeyLength { bytes: key.len() });
        }
        total += key.len();
    }
    for op in ops {
        if let Op::Put { key, value, .. } = op {
            if value.len() > limits::VALUE_BYTES_MAX {
                return Err(StoreError::ValueTooLarge { key: key.clone(), bytes: value.len() });
            }
            total += value.len();
        }
    }
    let count = ops.len().max(compares.len());
    if count > limits::TXN_OPS_MAX || total > limits::TXN_BYTES_MAX {
        return Err(StoreError::TxnTooLarge { ops: count, bytes: total });
    }
    match ops.windows(2).find(|pair| pair[0].key() == pair[1].key()) {
        Some(pair) => Err(StoreError::DuplicateKey { key: pair[0].key().clone() }),
        None => Ok(total),
    }
}
