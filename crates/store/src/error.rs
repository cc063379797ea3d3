//! Errors of the store, each with a remedy.

use std::{any::Any, io, sync::Arc};

use crate::{Key, Revision, limits};

/// A revision that cannot be read or watched from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevisionError {
    /// The revision is older than the history: list again (410 Expired).
    #[error("revision {requested} has been compacted, the oldest one kept is {floor}")]
    Compacted {
        /// The requested revision.
        requested: Revision,
        /// The oldest revision that can be read and watched from.
        floor: Revision,
    },
    /// The revision is in the future (504 Timeout, "Too large resource version").
    #[error("revision {requested} is in the future, the newest one is {current}")]
    FutureRevision {
        /// The requested revision.
        requested: Revision,
        /// The newest revision.
        current: Revision,
    },
}

/// A transaction that was not accepted, or whose outcome is unknown.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The value exceeds its limit.
    #[error(
        "the value of {key} has {bytes} bytes, at most {} are allowed: make the object smaller or split it",
        limits::VALUE_BYTES_MAX
    )]
    ValueTooLarge {
        /// The key.
        key: Key,
        /// The size of the value.
        bytes: usize,
    },
    /// The key is empty or too long.
    #[error("a key of {bytes} bytes is not allowed: keys have 1 to {} bytes", limits::KEY_BYTES_MAX)]
    KeyLength {
        /// The size of the key.
        bytes: usize,
    },
    /// The transaction exceeds its limit.
    #[error(
        "a transaction of {ops} changes and {bytes} bytes is too large: at most {} and {} are allowed, split it",
        limits::TXN_OPS_MAX,
        limits::TXN_BYTES_MAX
    )]
    TxnTooLarge {
        /// Changes and conditions, whichever are more.
        ops: usize,
        /// Bytes of all keys and values.
        bytes: usize,
    },
    /// The transaction changes a key twice.
    #[error("the transaction changes {key} twice: one change per key is allowed")]
    DuplicateKey {
        /// The key.
        key: Key,
    },
    /// The backend failed: the store is read-only until the process restarts. A transaction in flight was not
    /// published; after the restart it exists completely or not at all.
    #[error(
        "the store no longer takes writes since its backend failed; reads go on; remove the cause and start the process again"
    )]
    ReadOnly {
        /// The error of the backend.
        #[source]
        cause: Arc<BackendError>,
    },
    /// The engine was closed before the transaction was accepted.
    #[error("the store is closed, since the process is stopping")]
    Closed,
}

/// A backend that cannot be opened, or failed.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// Another process has the data directory open.
    #[error(
        "data directory {path} is in use by another process ({holder}): stop that process, or choose another directory"
    )]
    InUse {
        /// The data directory.
        path: String,
        /// The other process, if known.
        holder: String,
    },
    /// The data directory cannot be made or written to.
    #[error("data directory {path} is not writable: change its owner or mode, or choose another directory")]
    NotWritable {
        /// The data directory.
        path: String,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// A restore into it was interrupted.
    #[error("data directory {path} is half restored: start again with `--restore FILE`, or choose another directory")]
    HalfRestored {
        /// The data directory.
        path: String,
    },
    /// The directory has no store to back up.
    #[error("data directory {path} holds no store: name the directory that `ironclad up` was started with")]
    NoStore {
        /// The data directory.
        path: String,
    },
    /// The disk is full.
    #[error("no space is left for data directory {path}: free some on its file system, then start the process again")]
    NoSpace {
        /// The data directory.
        path: String,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The data directory was written by a later version.
    #[error(
        "data directory {path} has format {found}, and this version reads up to {supported}: \
         start the newer version that wrote it, or choose another directory"
    )]
    NewerFormat {
        /// The data directory.
        path: String,
        /// The format found.
        found: String,
        /// The newest format that this version reads.
        supported: String,
    },
    /// The stored data is invalid.
    #[error("data directory {path} is damaged ({detail}): restore it from a backup, or choose another directory")]
    Corrupt {
        /// The data directory.
        path: String,
        /// The mistake and its location.
        detail: String,
    },
    /// Any other failure of reading or writing.
    #[error("reading or writing data directory {path}: check its disk, then start the process again")]
    Io {
        /// The data directory.
        path: String,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

/// An engine that could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The backend could not be opened or read.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The committer's thread could not be started.
    #[error("starting the thread that commits writes")]
    Thread(#[source] io::Error),
}

pub(crate) fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("the backend panicked")
}
