//! Data types: keys, entries, events, transactions, ranges.

use std::{
    any::Any,
    borrow::Borrow,
    fmt,
    num::NonZeroU64,
    ops::Deref,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;

/// A point in a server's history. Every transaction that changes something takes the next one, without gaps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(NonZeroU64);

impl Revision {
    /// Revision of a new server. The first transaction takes the one after it.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// Returns the revision with this number; `None` for zero.
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(n) => Some(Self(n)),
            None => None,
        }
    }

    /// Returns the number, as in a `resourceVersion`.
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The revision after this one.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The revision before this one; that of the first is the first.
    pub fn previous(self) -> Self {
        Self::new(self.get() - 1).unwrap_or(Self::FIRST)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// A key: a path, ordered by its bytes. Cheap to clone; the store keeps one copy of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Key {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Key {
    fn from(key: &str) -> Self {
        Self(key.into())
    }
}

impl From<String> for Key {
    fn from(key: String) -> Self {
        Self(key.into())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Time from which an entry may be deleted: seconds since the Unix epoch, by the wall clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Expiry(NonZeroU64);

impl Expiry {
    /// Returns the moment this many seconds after the Unix epoch; `None` for zero.
    pub const fn at_unix_seconds(seconds: u64) -> Option<Self> {
        match NonZeroU64::new(seconds) {
            Some(n) => Some(Self(n)),
            None => None,
        }
    }

    /// Seconds since the Unix epoch.
    pub const fn unix_seconds(self) -> u64 {
        self.0.get()
    }
}

/// The state of a key. Cheap to clone: clones share the value's bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// The revision that created the key.
    pub create: Revision,
    /// The revision that wrote it last, as compared by [`Compare`](crate::Compare).
    pub modified: Revision,
    /// Number of writes since its creation, which counts as 1.
    pub version: u64,
    /// Time from which [`Store::reap`](crate::Store::reap) may delete it.
    pub expires: Option<Expiry>,
    /// The value.
    pub value: Bytes,
}

impl fmt::Debug for Entry {
    // Without the value: it may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("create", &self.create)
            .field("modified", &self.modified)
            .field("version", &self.version)
            .field("bytes", &self.value.len())
            .finish_non_exhaustive()
    }
}

/// The change of one key by one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The key.
    pub key: Key,
    /// State from this revision on; `None` if the key was deleted.
    pub entry: Option<Entry>,
    /// State before; `None` if the key did not exist.
    pub previous: Option<Entry>,
    /// Value that the first reader derives from both states, and that the others share.
    pub derived: Derived,
}

impl Event {
    /// Creates the change of a key from one state to another.
    pub fn new(key: Key, previous: Option<Entry>, entry: Option<Entry>) -> Self {
        Self { key, entry, previous, derived: Derived::default() }
    }
}

/// Slot for a value that readers derive from an event: all watchers of a transaction share it, and it goes with the
/// transaction. It is no part of the event: events that differ in it alone are equal, and a clone starts without it.
#[derive(Default)]
pub struct Derived(OnceLock<Box<dyn Any + Send + Sync>>);

impl Derived {
    /// Returns the value, which `derive` computes for the first caller. All callers must ask for the same type: `None`
    /// if the slot holds a value of another one.
    pub fn get_or_init<T: Any + Send + Sync>(&self, derive: impl FnOnce() -> T) -> Option<&T> {
        self.0.get_or_init(|| Box::new(derive())).downcast_ref()
    }
}

impl Clone for Derived {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Derived {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Derived {}

impl fmt::Debug for Derived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Derived").field(&self.0.get().is_some()).finish()
    }
}

/// All changes of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The revision.
    pub revision: Revision,
    /// One event per key, in the order of the keys; never empty.
    pub events: Box<[Event]>,
}

impl Transaction {
    /// The events whose keys start with the prefix: a contiguous range, since events are in key order.
    pub fn under(&self, prefix: &str) -> &[Event] {
        let from = self.events.partition_point(|e| e.key.as_str() < prefix);
        let rest = &self.events[from..];
        let to = rest.partition_point(|e| e.key.starts_with(prefix));
        &rest[..to]
    }
}

/// Selection of a read: all keys with a prefix, or a page of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Query<'a> {
    /// Keys that start with this; the empty one is all.
    pub prefix: &'a str,
    /// Only keys after this one.
    pub start_after: Option<&'a str>,
    /// Most entries to return.
    pub limit: Option<usize>,
    /// The state at this revision instead of the newest.
    pub at: Option<Revision>,
}

impl<'a> Query<'a> {
    /// Selects all keys with this prefix, at the newest revision.
    pub const fn prefix(prefix: &'a str) -> Self {
        Self { prefix, start_after: None, limit: None, at: None }
    }
}

/// The answer to a [`Query`]: one consistent state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The entries in key order.
    pub entries: Vec<(Key, Entry)>,
    /// The revision of this state: `at`, or the newest when it was read.
    pub revision: Revision,
    /// Number of matching keys after the last entry.
    pub remaining: u64,
}

impl Range {
    /// Returns `true` if the limit truncated the answer: continue after the last key.
    pub fn more(&self) -> bool {
        self.remaining > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_of_an_event_is_derived_once() {
        let event = Event::new("/a".into(), None, None);
        assert_eq!(event.derived.get_or_init(|| 1_u32), Some(&1));
        assert_eq!(event.derived.get_or_init(|| -> u32 { unreachable!("it is there") }), Some(&1));
        assert_eq!(event.derived.get_or_init(String::new), None, "another type");
        assert_eq!(event, Event::new("/a".into(), None, None), "no part of the event");
        assert_eq!(event.clone().derived.get_or_init(|| 2_u32), Some(&2), "a clone starts without it");
    }
}
