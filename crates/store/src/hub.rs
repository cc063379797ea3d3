//! Registry of watchers. Publishing notifies the watchers of the changed keys; others cost nothing.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::Arc,
    task::Waker,
};

use parking_lot::Mutex;

use crate::{Options, Revision, Transaction};

/// The watchers of a server, by prefix.
#[derive(Default)]
pub(crate) struct Hub {
    by_prefix: BTreeMap<Box<[u8]>, BTreeMap<u64, Arc<Inbox>>>,
    last_id: u64,
    closed: bool,
}

/// Published transactions that one watcher has not taken yet.
#[derive(Default)]
pub(crate) struct Inbox(pub(crate) Mutex<InboxState>);

#[derive(Default)]
pub(crate) struct InboxState {
    pub(crate) queue: VecDeque<(Arc<Transaction>, usize)>,
    pub(crate) bytes: usize,
    pub(crate) waker: Option<Waker>,
    pub(crate) end: Option<End>,
    /// The newest transaction that was queued. It may be taken before the rest of its keys are looked at.
    pub(crate) queued: Option<Revision>,
}

/// Reason why a watch ends after its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The buffer was full.
    Lagged,
    /// The engine was closed.
    Closed,
}

impl Hub {
    pub(crate) fn register(&mut self, prefix: &str) -> (u64, Arc<Inbox>) {
        self.last_id += 1;
        let inbox = Arc::new(Inbox::default());
        if self.closed {
            inbox.0.lock().end = Some(End::Closed);
        } else {
            self.by_prefix.entry(prefix.as_bytes().into()).or_default().insert(self.last_id, inbox.clone());
        }
        (self.last_id, inbox)
    }

    pub(crate) fn remove(&mut self, prefix: &str, id: u64) {
        let Some(watchers) = self.by_prefix.get_mut(prefix.as_bytes()) else { return };
        watchers.remove(&id);
        if watchers.is_empty() {
            self.by_prefix.remove(prefix.as_bytes());
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_prefix.values().map(BTreeMap::len).sum()
    }

    /// Queues the transaction once for every watcher of one of its keys. A watcher with a full buffer is ended.
    pub(crate) fn deliver(
        &mut self,
        transaction: &Arc<Transaction>,
        bytes: usize,
        options: &Options,
        wake: &mut Vec<Waker>,
    ) {
        let mut ended: Vec<(Box<[u8]>, u64)> = Vec::new();
        for event in &transaction.events {
            for (prefix, watchers) in self.prefixes_of(event.key.as_bytes()) {
                for (id, inbox) in watchers {
                    let mut inbox = inbox.0.lock();
                    // A watcher gets a transaction once, however many of its keys match.
                    if inbox.queued == Some(transaction.revision) || inbox.end.is_some() {
                        continue;
                    }
                    inbox.queued = Some(transaction.revision);
                    let has_capacity = inbox.queue.len() < options.watch_buffer
                        && (inbox.queue.is_empty() || inbox.bytes + bytes <= options.watch_buffer_bytes);
                    if has_capacity {
                        inbox.bytes += bytes;
                        inbox.queue.push_back((transaction.clone(), bytes));
                    } else {
                        inbox.end = Some(End::Lagged);
                        ended.push((prefix.into(), *id));
                    }
                    wake.extend(inbox.waker.take());
                }
            }
        }
        for (prefix, id) in ended {
            if let Some(watchers) = self.by_prefix.get_mut(&prefix) {
                watchers.remove(&id);
                if watchers.is_empty() {
                    self.by_prefix.remove(&prefix);
                }
            }
        }
    }

    /// Ends all watches, after what is queued for them.
    pub(crate) fn close(&mut self, wake: &mut Vec<Waker>) {
        self.closed = true;
        for inbox in std::mem::take(&mut self.by_prefix).into_values().flat_map(BTreeMap::into_values) {
            let mut inbox = inbox.0.lock();
            inbox.end.get_or_insert(End::Closed);
            wake.extend(inbox.waker.take());
        }
    }

    /// The watched prefixes of a key, longest first.
    ///
    /// The greatest watched prefix up to the key either is one of its prefixes, or shares a beginning with it, beyond
    /// which no watched prefix of the key can lie: so each step jumps, however many other prefixes there are.
    fn prefixes_of<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a BTreeMap<u64, Arc<Inbox>>)> {
        let mut upper = Some(Bound::Included(key));
        std::iter::from_fn(move || {
            loop {
                let (prefix, watchers) = self.by_prefix.range::<[u8], _>((Bound::Unbounded, upper?)).next_back()?;
                if key.starts_with(prefix) {
                    upper = (!prefix.is_empty()).then_some(Bound::Excluded(prefix));
                    return Some((prefix, watchers));
                }
                let shared = key.iter().zip(prefix).take_while(|(a, b)| a == b).count();
                upper = Some(Bound::Included(&key[..shared]));
            }
        })
        .map(|(prefix, watchers)| (&**prefix, watchers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_comes_once_also_to_a_watcher_that_takes_it_meanwhile() {
        let mut hub = Hub::default();
        let (_, inbox) = hub.register("/a/");
        let event = |key: &str| crate::Event::new(key.into(), None, None);
        let revision = Revision::new(7).unwrap();
        let whole = Arc::new(Transaction { revision, events: vec![event("/a/1"), event("/a/2")].into() });
        // Delivery lets go of the inbox between two keys: here the watcher takes what is queued at that point.
        let first = Arc::new(Transaction { revision, events: vec![event("/a/1")].into() });
        let rest = Arc::new(Transaction { revision, events: vec![event("/a/2")].into() });
        hub.deliver(&first, 1, &Options::default(), &mut vec![]);
        assert!(inbox.0.lock().queue.pop_front().is_some());
        hub.deliver(&rest, 1, &Options::default(), &mut vec![]);
        assert!(inbox.0.lock().queue.is_empty(), "queued again");
        let next = Arc::new(Transaction { revision: Revision::new(8).unwrap(), events: whole.events.clone() });
        hub.deliver(&next, 1, &Options::default(), &mut vec![]);
        assert_eq!(inbox.0.lock().queue.len(), 1, "the next one comes, and once");
    }

    #[test]
    fn prefixes_of_a_key_find_its_watchers() {
        let mut hub = Hub::default();
        for prefix in ["", "/a", "/a/", "/a/b", "/a/b/c", "/a/c/", "/a0", "/b/", "/a/b/c/d"] {
            let _ = hub.register(prefix);
        }
        for (name, key, want) in [
            ("all prefixes, longest first", "/a/b/c", vec!["/a/b/c", "/a/b", "/a/", "/a", ""]),
            ("siblings in between are skipped", "/a/c/x", vec!["/a/c/", "/a/", "/a", ""]),
            ("prefixes need not end at a slash", "/abc", vec!["/a", ""]),
            ("only the empty prefix", "/zzz", vec![""]),
            ("before everything", "!", vec![""]),
            ("the empty key", "", vec![""]),
        ] {
            let got: Vec<_> =
                hub.prefixes_of(key.as_bytes()).map(|(p, _)| String::from_utf8_lossy(p).into_owned()).collect();
            assert_eq!(got, want, "{name}");
        }
    }
}
