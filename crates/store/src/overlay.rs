//! Accepted transactions that are not durable yet: conditions are checked against them, readers do not see them.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;

use crate::{Compare, Entry, Event, Key, Op, Revision, Transaction, TxnResult, space::Space};

pub(crate) struct Overlay {
    /// The last assigned revision.
    last: Revision,
    changed: BTreeMap<Key, Pending>,
}

struct Pending {
    revision: Revision,
    entry: Option<Entry>,
}

pub(crate) enum Outcome {
    /// Changes to commit, under the next revision.
    Change(Transaction),
    /// An answer without changes, true as soon as everything accepted before it is durable.
    AfterPending(TxnResult),
    /// An answer without changes that depends on nothing pending.
    Known(TxnResult),
}

impl Overlay {
    pub(crate) fn new(last: Revision) -> Self {
        Self { last, changed: BTreeMap::new() }
    }

    fn current<'a>(&'a self, space: &'a Space, key: &str) -> Option<&'a Entry> {
        match self.changed.get(key) {
            Some(pending) => pending.entry.as_ref(),
            None => space.get(key),
        }
    }

    /// Checks the conditions and returns the resulting changes without accepting them. The changes have distinct keys,
    /// in key order.
    pub(crate) fn evaluate(&self, space: &Space, compares: &[Compare], ops: Vec<Op>) -> Outcome {
        let pending = compares.iter().any(|c| self.changed.contains_key(&c.key));
        if !compares.iter().all(|c| c.holds(self.current(space, &c.key))) {
            let current = compares.iter().map(|c| self.current(space, &c.key).cloned()).collect();
            return if pending {
                Outcome::AfterPending(TxnResult::Failed { current, revision: self.last })
            } else {
                Outcome::Known(TxnResult::Failed { current, revision: space.revision() })
            };
        }
        let pending = pending || ops.iter().any(|op| self.changed.contains_key(op.key()));
        let revision = self.last.next();
        let events: Box<[Event]> = ops.into_iter().filter_map(|op| self.event(space, op, revision)).collect();
        if !events.is_empty() {
            Outcome::Change(Transaction { revision, events })
        } else if pending {
            Outcome::AfterPending(TxnResult::Done { revision: self.last })
        } else {
            Outcome::Known(TxnResult::Done { revision: space.revision() })
        }
    }

    fn event(&self, space: &Space, op: Op, revision: Revision) -> Option<Event> {
        let previous = self.current(space, op.key()).cloned();
        match op {
            Op::Put { key, value, expires } => {
                let (create, version) = previous.as_ref().map_or((revision, 1), |e| (e.create, e.version + 1));
                // Copy to exact size: the caller's bytes may be a slice of something larger.
                let value = Bytes::copy_from_slice(&value);
                let entry = Some(Entry { create, modified: revision, version, expires, value });
                // Share one copy of the key.
                let key = space.key(&key).unwrap_or(key);
                Some(Event::new(key, previous, entry))
            }
            Op::Delete { key } => {
                previous.as_ref()?;
                let key = space.key(&key).unwrap_or(key);
                Some(Event::new(key, previous, None))
            }
        }
    }

    /// Takes the transaction's revision, and lets the conditions of later transactions see its changes.
    pub(crate) fn accept(&mut self, transaction: &Transaction) {
        self.last = transaction.revision;
        for event in &transaction.events {
            let pending = Pending { revision: transaction.revision, entry: event.entry.clone() };
            self.changed.insert(event.key.clone(), pending);
        }
    }

    /// Removes a published transaction, except for keys that a later one changed again.
    pub(crate) fn published(&mut self, transaction: &Arc<Transaction>) {
        for event in &transaction.events {
            if self.changed.get(&event.key).is_some_and(|p| p.revision == transaction.revision) {
                self.changed.remove(&event.key);
            }
        }
    }
}
