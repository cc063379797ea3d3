//! The bounds of the store.

use std::time::Duration;

/// Fixed limits.
pub mod limits {
    /// Largest value in bytes: 1.5 MiB, as in etcd.
    pub const VALUE_BYTES_MAX: usize = 1_536 * 1024;
    /// The longest key.
    pub const KEY_BYTES_MAX: usize = 4_096;
    /// The most changes, and the most conditions, of one transaction.
    pub const TXN_OPS_MAX: usize = 10_240;
    /// The most bytes of keys and values of one transaction.
    pub const TXN_BYTES_MAX: usize = 16 * 1024 * 1024;
    /// Bytes that wait for the committer. Further writers wait.
    pub const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;
    /// Bytes at which a group commit takes no more transactions.
    pub const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;
    /// Bytes that a change counts against a server's window besides key and value.
    pub const EVENT_OVERHEAD_BYTES: usize = 320;
}

/// Executor of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// The writer itself, when its future is polled: deterministic, without a thread. For the simulation.
    Inline,
    /// One thread, which commits together whatever was queued during the previous commit.
    Thread,
}

/// Retention of history, and buffer of watchers.
#[derive(Clone, Debug)]
pub struct Options {
    /// Retention of history (monotonic time), unless it exceeds its size first.
    pub history: Duration,
    /// History is cut when its changes (keys, values and an overhead each) have more bytes than this.
    pub history_bytes: usize,
    /// Transactions outside of the window at which the backend is compacted.
    pub compact_step: u64,
    /// Undelivered transactions at which a watcher is ended.
    pub watch_buffer: usize,
    /// A watcher whose undelivered transactions have more bytes than this is ended.
    pub watch_buffer_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            history: Duration::from_secs(300),
            history_bytes: 32 * 1024 * 1024,
            compact_step: 512,
            watch_buffer: 4_096,
            watch_buffer_bytes: 32 * 1024 * 1024,
        }
    }
}

impl Options {
    /// Options of a simulated member: a process has many.
    pub fn member() -> Self {
        Self { history_bytes: 8 * 1024 * 1024, ..Self::default() }
    }
}
