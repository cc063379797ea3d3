//! The published state of one server: the newest entries, their earlier states, and the recent transactions.
//! Pure and synchronous; everything in it is durable.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Bound,
    sync::Arc,
    task::Waker,
};

use tokio::time::Instant;

use crate::{
    Entry, Event, Expiry, Key, LoadedServer, Options, Query, Range, Revision, RevisionError, Transaction,
    hub::{Hub, Inbox},
    limits,
};

pub(crate) struct Space {
    revision: Revision,
    head: BTreeMap<Key, Entry>,
    /// States of keys before the transactions of the window, oldest first.
    before: BTreeMap<Key, VecDeque<Before>>,
    /// The transactions after the floor, without gaps, oldest first.
    window: VecDeque<Kept>,
    window_bytes: usize,
    expiries: BTreeSet<(Expiry, Key)>,
    options: Options,
    pub(crate) hub: Hub,
}

/// The state of a key up to, not including, a revision.
struct Before {
    until: Revision,
    entry: Option<Entry>,
}

/// A watcher that was just registered.
pub(crate) struct Registered {
    pub(crate) id: u64,
    pub(crate) inbox: Arc<Inbox>,
    /// Past transactions that the watch requested.
    pub(crate) backlog: VecDeque<Arc<Transaction>>,
}

struct Kept {
    transaction: Arc<Transaction>,
    since: Instant,
    bytes: usize,
}

impl Space {
    pub(crate) fn new(loaded: Option<LoadedServer>, options: Options, now: Instant) -> Self {
        let loaded = loaded.unwrap_or(LoadedServer { revision: Revision::FIRST, head: Vec::new(), log: Vec::new() });
        let expiries = loaded.head.iter().filter_map(|(k, e)| Some((e.expires?, k.clone()))).collect();
        let mut space = Self {
            revision: loaded.revision,
            head: loaded.head.into_iter().collect(),
            before: BTreeMap::new(),
            window: VecDeque::new(),
            window_bytes: 0,
            expiries,
            options,
            hub: Hub::default(),
        };
        for transaction in loaded.log {
            space.remember(transaction, now);
        }
        space.trim(now);
        space
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// The oldest revision that can be read and watched from.
    pub(crate) fn floor(&self) -> Revision {
        let window = u64::try_from(self.window.len()).unwrap_or(u64::MAX);
        Revision::new(self.revision.get().saturating_sub(window)).unwrap_or(Revision::FIRST)
    }

    /// Returns the revision up to which the backend may compact, and how many transactions make the call worthwhile.
    pub(crate) fn to_compact(&self) -> (Revision, u64) {
        (self.floor(), self.options.compact_step)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        self.head.get(key)
    }

    /// The store's own copy of a key.
    pub(crate) fn key(&self, key: &str) -> Option<Key> {
        self.head.get_key_value(key).map(|(key, _)| key.clone())
    }

    pub(crate) fn len(&self) -> usize {
        self.head.len()
    }

    pub(crate) fn set_options(&mut self, options: Options) {
        self.options = options;
    }

    pub(crate) fn next_expiry(&self) -> Option<Expiry> {
        self.expiries.first().map(|(at, _)| *at)
    }

    /// Returns all keys with their newest entries.
    pub(crate) fn entries(&self) -> Vec<(Key, Entry)> {
        self.head.iter().map(|(key, entry)| (key.clone(), entry.clone())).collect()
    }

    /// Up to `limit` entries that expired at this time or before, with the revision of their last write.
    pub(crate) fn expired(&self, now: u64, limit: usize) -> Vec<(Key, Revision)> {
        self.expiries
            .iter()
            .take_while(|(at, _)| at.unix_seconds() <= now)
            .take(limit)
            .filter_map(|(_, key)| Some((key.clone(), self.head.get(key)?.modified)))
            .collect()
    }

    /// Makes a durable transaction visible to readers and watchers. Returns wakers, to be woken without a lock.
    pub(crate) fn publish(&mut self, transaction: Arc<Transaction>, now: Instant, wake: &mut Vec<Waker>) {
        debug_assert_eq!(transaction.revision, self.revision.next(), "revisions have no gaps");
        for event in &transaction.events {
            if let Some(at) = event.previous.as_ref().and_then(|e| e.expires) {
                self.expiries.remove(&(at, event.key.clone()));
            }
            match &event.entry {
                Some(entry) => {
                    if let Some(at) = entry.expires {
                        self.expiries.insert((at, event.key.clone()));
                    }
                    self.head.insert(event.key.clone(), entry.clone());
                }
                None => {
                    self.head.remove(&event.key);
                }
            }
        }
        self.revision = transaction.revision;
        let bytes = cost(&transaction);
        self.hub.deliver(&transaction, bytes, &self.options, wake);
        self.remember(transaction, now);
        self.trim(now);
    }

    fn remember(&mut self, transaction: Arc<Transaction>, now: Instant) {
        for event in &transaction.events {
            self.before
                .entry(event.key.clone())
                // Most keys change once in the window.
                .or_insert_with(|| VecDeque::with_capacity(1))
                .push_back(Before { until: transaction.revision, entry: event.previous.clone() });
        }
        let bytes = cost(&transaction);
        self.window_bytes += bytes;
        self.window.push_back(Kept { transaction, since: now, bytes });
    }

    fn trim(&mut self, now: Instant) {
        while let Some(oldest) = self.window.front() {
            let old = now.saturating_duration_since(oldest.since) > self.options.history;
            if !old && self.window_bytes <= self.options.history_bytes {
                break;
            }
            self.forget_oldest();
        }
    }

    /// Cuts history so that the floor is at least this revision, as far as there is history.
    pub(crate) fn compact(&mut self, floor: Revision) {
        while self.window.front().is_some_and(|kept| kept.transaction.revision <= floor) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some(kept) = self.window.pop_front() else { return };
        self.window_bytes -= kept.bytes;
        for event in &kept.transaction.events {
            let Some(states) = self.before.get_mut(&event.key) else { continue };
            states.pop_front();
            if states.is_empty() {
                self.before.remove(&event.key);
            }
        }
    }

    fn check(&self, requested: Revision) -> Result<(), RevisionError> {
        if requested > self.revision {
            return Err(RevisionError::FutureRevision { requested, current: self.revision });
        }
        let floor = self.floor();
        if requested < floor {
            return Err(RevisionError::Compacted { requested, floor });
        }
        Ok(())
    }

    pub(crate) fn range(&self, query: &Query<'_>) -> Result<Range, RevisionError> {
        let revision = query.at.unwrap_or(self.revision);
        self.check(revision)?;
        let limit = query.limit.unwrap_or(usize::MAX);
        Ok(if revision == self.revision {
            page(between(&self.head, query), limit, revision)
        } else {
            page(self.at(query, revision), limit, revision)
        })
    }

    /// The entries at an older revision: the head and the keys with history, merged in key order.
    fn at<'a>(&'a self, query: &Query<'a>, revision: Revision) -> impl Iterator<Item = (&'a Key, &'a Entry)> {
        let mut head = between(&self.head, query).peekable();
        let mut past = between(&self.before, query).peekable();
        std::iter::from_fn(move || {
            loop {
                let of_past = match (head.peek(), past.peek()) {
                    (Some((h, _)), Some((p, _))) if h < p => None,
                    (_, Some(_)) => past.next(),
                    _ => None,
                };
                let Some((key, states)) = of_past else { return head.next() };
                let newest = head.next_if(|(h, _)| *h == key).map(|(_, entry)| entry);
                let was = match states.get(states.partition_point(|s| s.until <= revision)) {
                    Some(state) => state.entry.as_ref(),
                    None => newest,
                };
                if let Some(entry) = was {
                    return Some((key, entry));
                }
            }
        })
    }

    /// Registers a watcher for everything after `from`, and returns the part that is already published.
    pub(crate) fn watch(&mut self, prefix: &str, from: Revision) -> Result<Registered, RevisionError> {
        self.check(from)?;
        let missed = usize::try_from(self.revision.get() - from.get()).unwrap_or(usize::MAX);
        let backlog = self
            .window
            .range(self.window.len().saturating_sub(missed)..)
            .filter(|kept| !kept.transaction.under(prefix).is_empty())
            .map(|kept| kept.transaction.clone())
            .collect();
        let (id, inbox) = self.hub.register(prefix);
        Ok(Registered { id, inbox, backlog })
    }
}

/// Bytes that a transaction counts against the window: for each change the larger of the two values, since one of them
/// is either in the head or counted by the next change of the key.
fn cost(transaction: &Transaction) -> usize {
    let value = |e: &Option<Entry>| e.as_ref().map_or(0, |e| e.value.len());
    let of = |e: &Event| value(&e.entry).max(value(&e.previous)) + e.key.len() + limits::EVENT_OVERHEAD_BYTES;
    transaction.events.iter().map(of).sum()
}

/// Returns the range of an ordered map that the query selects.
fn between<'a, V>(map: &'a BTreeMap<Key, V>, query: &Query<'a>) -> impl Iterator<Item = (&'a Key, &'a V)> {
    let prefix = query.prefix;
    let from = match query.start_after {
        Some(key) if key >= prefix => Bound::Excluded(key),
        _ => Bound::Included(prefix),
    };
    map.range::<str, _>((from, Bound::Unbounded)).take_while(move |(key, _)| key.starts_with(prefix))
}

fn page<'a>(mut entries: impl Iterator<Item = (&'a Key, &'a Entry)>, limit: usize, revision: Revision) -> Range {
    let page = entries.by_ref().take(limit).map(|(k, e)| (k.clone(), e.clone())).collect();
    let remaining = u64::try_from(entries.count()).unwrap_or(u64::MAX);
    Range { entries: page, revision, remaining }
}
