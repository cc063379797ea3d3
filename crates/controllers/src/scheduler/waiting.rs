//! Bindings whose last scheduling attempt failed.

use std::{cmp::Reverse, collections::BTreeMap};

use ironclad_runtime::Key;

/// The bindings whose last attempt failed.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    reasons: BTreeMap<Key, Reason>,
    /// Those that wait for capacity: the highest priority first, then in the order in which they began to wait.
    line: BTreeMap<Position, Key>,
    next: u64,
    backing_off: usize,
}

type Position = (Reverse<i32>, u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// It backs off.
    Backoff,
    /// It waits for capacity, at this position.
    Capacity(Position),
    /// It waits for a cluster that fits.
    Fit,
}

impl Waiting {
    /// Removes a binding that is scheduled again or was deleted.
    pub(crate) fn leave(&mut self, key: &Key) {
        match self.reasons.remove(key) {
            Some(Reason::Capacity(position)) => drop(self.line.remove(&position)),
            Some(Reason::Backoff) => self.backing_off -= 1,
            Some(Reason::Fit) | None => {}
        }
    }

    /// Notes that the binding of this priority waits for capacity.
    pub(crate) fn for_capacity(&mut self, key: &Key, priority: i32) {
        self.leave(key);
        let position = (Reverse(priority), self.next);
        self.reasons.insert(key.clone(), Reason::Capacity(position));
        self.line.insert(position, key.clone());
        self.next += 1;
    }

    /// True if the binding waits for capacity or for a cluster that fits: trying again helps only if one of them
    /// appears.
    pub(crate) fn is_unschedulable(&self, key: &Key) -> bool {
        matches!(self.reasons.get(key), Some(Reason::Capacity(_) | Reason::Fit))
    }

    /// Notes that the binding waits for a cluster that fits.
    pub(crate) fn for_fit(&mut self, key: &Key) {
        self.leave(key);
        self.reasons.insert(key.clone(), Reason::Fit);
    }

    /// Notes that the binding backs off.
    pub(crate) fn backs_off(&mut self, key: &Key) {
        self.leave(key);
        self.reasons.insert(key.clone(), Reason::Backoff);
        self.backing_off += 1;
    }

    /// The first bindings that wait for capacity.
    pub(crate) fn first(&self, at_most: usize) -> Vec<Key> {
        self.line.values().take(at_most).cloned().collect()
    }

    /// The numbers of unschedulable bindings and of those that back off.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.reasons.len() - self.backing_off, self.backing_off)
    }

    /// The number of bindings that wait for a cluster that fits.
    pub(crate) fn unfit(&self) -> usize {
        self.reasons.len() - self.backing_off - self.line.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_wait_in_order_and_only_for_the_last_reason() {
        let (a, b, c) = (Key::new("n", "a"), Key::new("n", "b"), Key::new("n", "c"));
        let mut waiting = Waiting::default();
        waiting.for_capacity(&b, 0);
        waiting.for_capacity(&a, 0);
        waiting.backs_off(&c);
        assert_eq!(
            (waiting.first(9), waiting.counts()),
            (vec![b.clone(), a.clone()], (2, 1)),
            "first come, first served"
        );
        assert_eq!(waiting.first(1), std::slice::from_ref(&b));
        waiting.for_capacity(&b, 0);
        assert_eq!(waiting.first(9), [a.clone(), b.clone()], "who failed again goes to the end");
        waiting.for_capacity(&b, 5);
        assert_eq!(waiting.first(9), [b.clone(), a.clone()], "unless it has a higher priority");
        assert!(waiting.is_unschedulable(&a) && !waiting.is_unschedulable(&c));
        waiting.backs_off(&b);
        waiting.leave(&a);
        assert_eq!((waiting.first(9), waiting.counts()), (vec![], (0, 2)));
        waiting.for_fit(&b);
        waiting.for_capacity(&a, 0);
        assert_eq!(
            (waiting.first(9), waiting.counts(), waiting.unfit()),
            (vec![a.clone()], (2, 1), 1),
            "capacity does not help b"
        );
        for key in [&a, &b, &c] {
            waiting.leave(key);
            waiting.leave(key);
        }
        assert_eq!((waiting.counts(), waiting.unfit()), ((0, 0), 0));
    }
}
