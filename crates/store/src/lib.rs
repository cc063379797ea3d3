//! A revisioned, watchable key-value store: memory first, durable by group commit.
//!
//! One [`Engine`] per process owns one [`Backend`] and one committer. It holds any number of servers, each with a
//! keyspace and a revision counter of its own, reached through a [`Store`]. Every transaction that changes something
//! takes the next revision; it is made durable together with whatever else is queued, and only then is it published
//! to readers and watchers and answered. Reads never touch the backend.
//!
//! What a watch promises stands at [`Watch`]; what is kept of the past, and for how long, at [`Options`].
//! The store knows nothing of Kubernetes: keys are paths, values are bytes, and writes that change nothing are
//! filtered above it (reference/apiserver.md 29).

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
pub use types::{Entry, Event, Expiry, Key, Query, Range, Revision, Transaction};
pub use watch::{Batch, Lagged, Watch};
