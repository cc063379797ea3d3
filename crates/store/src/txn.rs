//! Transactions: conditions on revisions, then puts and deletes as one revision.

use bytes::Bytes;

use crate::{Entry, Expiry, Key, Revision};

/// A condition: the key was last written at this revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    /// The key.
    pub key: Key,
    /// The revision of its last write; `None`: it must not exist.
    pub modified: Option<Revision>,
}

impl Compare {
    /// The key must not exist.
    pub fn absent(key: impl Into<Key>) -> Self {
        Self { key: key.into(), modified: None }
    }

    /// The key's last write must be this one.
    pub fn modified(key: impl Into<Key>, revision: Revision) -> Self {
        Self { key: key.into(), modified: Some(revision) }
    }

    pub(crate) fn holds(&self, current: Option<&Entry>) -> bool {
        self.modified == current.map(|e| e.modified)
    }
}

/// A change of one key.
#[derive(Clone, PartialEq, Eq)]
pub enum Op {
    /// Writes the key, whether it exists or not.
    Put {
        /// The key.
        key: Key,
        /// The whole new value, at most [`limits::VALUE_BYTES_MAX`](crate::limits::VALUE_BYTES_MAX).
        value: Bytes,
        /// Time from which [`Store::reap`](crate::Store::reap) may delete it.
        expires: Option<Expiry>,
    },
    /// Removes the key. Removing an absent key is no change and causes no event.
    Delete {
        /// The key.
        key: Key,
    },
}

impl Op {
    /// Writes a key without an expiry.
    pub fn put(key: impl Into<Key>, value: impl Into<Bytes>) -> Self {
        Self::Put { key: key.into(), value: value.into(), expires: None }
    }

    /// Removes a key.
    pub fn delete(key: impl Into<Key>) -> Self {
        Self::Delete { key: key.into() }
    }

    /// The key that it changes.
    pub fn key(&self) -> &Key {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }
}

impl std::fmt::Debug for Op {
    // Without the value: it may be a Secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Put { key, value, .. } => write!(f, "Put({key}, {} bytes)", value.len()),
            Self::Delete { key } => write!(f, "Delete({key})"),
        }
    }
}

/// Outcome of a transaction. Both describe a durable, published state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnResult {
    /// All conditions were met and the changes are durable.
    Done {
        /// The revision of the changes, or the newest one when nothing had to change.
        revision: Revision,
    },
    /// A condition did not hold; nothing was changed.
    Failed {
        /// Current entries of the compared keys, in the order of the conditions; `None`: absent.
        current: Vec<Option<Entry>>,
        /// A revision with these entries.
        revision: Revision,
    },
}

impl TxnResult {
    /// The revision of the changes, if they were made.
    pub fn done(&self) -> Option<Revision> {
        match self {
            Self::Done { revision } => Some(*revision),
            Self::Failed { .. } => None,
        }
    }
}
