//! The oracle: the whole state after every revision, slow and obvious.

use std::collections::BTreeMap;

use ironclad_store::{Compare, Entry, Event, Op, Query, TxnResult};

use crate::support::rev;

pub(crate) type State = BTreeMap<String, Entry>;

/// `states[0]` is the state at revision 1, before any write.
#[derive(Clone)]
pub(crate) struct Oracle {
    states: Vec<State>,
    /// Highest revision of a requested compaction.
    pub(crate) floor: u64,
}

impl Oracle {
    pub(crate) fn new() -> Self {
        Self { states: vec![State::new()], floor: 1 }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.states.len() as u64
    }

    pub(crate) fn at(&self, revision: u64) -> &State {
        &self.states[revision as usize - 1]
    }

    pub(crate) fn newest(&self) -> &State {
        self.at(self.revision())
    }

    /// Returns the answer of a transaction, and the next state if it changes something.
    pub(crate) fn txn(&self, compares: &[Compare], ops: &[Op]) -> (TxnResult, Option<State>) {
        let old = self.newest();
        if compares.iter().any(|c| old.get(c.key.as_str()).map(|e| e.modified) != c.modified) {
            let current = compares.iter().map(|c| old.get(c.key.as_str()).cloned()).collect();
            return (TxnResult::Failed { current, revision: rev(self.revision()) }, None);
        }
        let mut new = old.clone();
        let mut changed = false;
        let next = rev(self.revision() + 1);
        for op in ops {
            match op {
                Op::Put { key, value, expires } => {
                    let (create, version) = old.get(key.as_str()).map_or((next, 1), |e| (e.create, e.version + 1));
                    let entry = Entry { create, modified: next, version, expires: *expires, value: value.clone() };
                    new.insert(key.to_string(), entry);
                    changed = true;
                }
                Op::Delete { key } => changed |= new.remove(key.as_str()).is_some(),
            }
        }
        if changed {
            (TxnResult::Done { revision: next }, Some(new))
        } else {
            (TxnResult::Done { revision: rev(self.revision()) }, None)
        }
    }

    pub(crate) fn push(&mut self, state: State) {
        self.states.push(state);
    }

    /// The events of a revision under a prefix: the difference of two states.
    pub(crate) fn events(&self, revision: u64, prefix: &str) -> Vec<Event> {
        let (old, new) = (self.at(revision - 1), self.at(revision));
        let mut keys: Vec<&String> = old.keys().chain(new.keys()).filter(|k| k.starts_with(prefix)).collect();
        keys.sort();
        keys.dedup();
        keys.into_iter()
            .filter(|k| old.get(*k) != new.get(*k))
            .map(|k| Event::new(k.as_str().into(), old.get(k).cloned(), new.get(k).cloned()))
            .collect()
    }

    /// The next revision after this one that has events under the prefix.
    pub(crate) fn next_with_events(&self, after: u64, prefix: &str) -> Option<u64> {
        (after + 1..=self.revision()).find(|r| !self.events(*r, prefix).is_empty())
    }

    /// The entries that a query selects, and how many remain.
    pub(crate) fn range(&self, query: &Query<'_>) -> (Vec<(String, Entry)>, u64) {
        let state = self.at(query.at.map_or(self.revision(), |r| r.get()));
        let all: Vec<_> = state
            .iter()
            .filter(|(k, _)| k.starts_with(query.prefix) && query.start_after.is_none_or(|after| k.as_str() > after))
            .map(|(k, e)| (k.clone(), e.clone()))
            .collect();
        let limit = query.limit.unwrap_or(usize::MAX).min(all.len());
        (all[..limit].to_vec(), (all.len() - limit) as u64)
    }
}
