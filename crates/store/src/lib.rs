//! A revisioned, watchable key-value store: memory first, durable by group commit.
//!
//! One [`Engine`] per process owns one [`Backend`] and one committer. It holds any number of servers, each with its own
//! keyspace and revision counter, reached through a [`Store`]. Every transaction that changes something takes the next
//! revision. It is made durable together with everything else that is queued, and only then published to readers and
//! watchers, and answered. Reads never touch the backend.
//!
//! [`Watch`] documents the guarantees of a watch, [`Options`] the retention of history. The store knows nothing of
//! Kubernetes: keys are paths, values are bytes, and its callers filter writes that change nothing
//! (specification/apiserver.md 29).

#![warn(missing_docs)]

mod backend;
mod backup;
mod codec;
mod data_dir;
mod engine;
mod error;
mod group;
mod hub;
mod memory;
mod options;
mod overlay;
mod redb_backend;
mod space;
mod store;
pub mod testing;
mod txn;
mod types;
mod watch;

pub use backend::{Backend, BackendStats, Loaded, LoadedServer, Record};
pub use backup::{BackupError, RestoreError, Snapshot, Summary, inspect, restore};
pub use engine::{Engine, EngineStats};
pub use error::{BackendError, OpenError, RevisionError, StoreError};
pub use memory::MemoryBackend;
pub use options::{Commit, Options, limits};
pub use redb_backend::RedbBackend;
pub use store::Store;
pub use txn::{Compare, Op, TxnResult};
pub use types::{Derived, Entry, Event, Expiry, Key, Query, Range, Revision, Transaction};
pub use watch::{Batch, Lagged, Watch};
