//! Interface to durable storage.

use std::{collections::BTreeMap, sync::Arc};

use crate::{BackendError, Entry, Key, Revision, Transaction};

/// Durable storage of committed transactions. Called by one thread at a time.
pub trait Backend: Send {
    /// Loads everything that was committed: the newest state of each server and the transactions since its floor.
    /// Called once, first.
    fn load(&mut self) -> Result<Loaded, BackendError>;

    /// Makes the transactions durable, all or none. No crash can lose them after it returned. After an error the engine
    /// does not call it again; the next `load` shows whether the group was written.
    fn commit(&mut self, group: &[Record]) -> Result<(), BackendError>;

    /// Forgets a server's transactions up to and including this revision; its newest state stays. A crash may undo it.
    fn compact(&mut self, server: &str, floor: Revision) -> Result<(), BackendError>;

    /// Figures for metrics and benches.
    fn stats(&self) -> BackendStats;
}

/// One transaction of one server, as it is committed.
#[derive(Clone, Debug)]
pub struct Record {
    /// The server.
    pub server: Arc<str>,
    /// The transaction.
    pub transaction: Arc<Transaction>,
}

/// State that a backend loaded, by server.
pub type Loaded = BTreeMap<String, LoadedServer>;

/// State that a backend loaded for one server.
#[derive(Debug)]
pub struct LoadedServer {
    /// The newest revision.
    pub revision: Revision,
    /// The newest state, in key order.
    pub head: Vec<(Key, Entry)>,
    /// The newest transactions, without gaps, up to `revision`; may be empty. Their entries share bytes with `head`.
    pub log: Vec<Arc<Transaction>>,
}

/// Figures of a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackendStats {
    /// Groups made durable since it was opened.
    pub commits: u64,
    /// Transactions in them.
    pub transactions: u64,
    /// Compactions done.
    pub compactions: u64,
    /// Bytes used on disk (or in memory), if known.
    pub stored_bytes: Option<u64>,
}
