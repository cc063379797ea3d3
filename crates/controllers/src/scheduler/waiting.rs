//! Bindings whose last scheduling attempt failed.

use std::collections::BTreeMap;

use ironclad_runtime::Key;

/// The bindings whose last attempt failed.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    places: BTreeMap<Key, Place>,
    /// Those that wait for room, the first one first.
    line: BTreeMap<u64, Key>,
    next: u64,
    backing_off: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It backs off.
    Backoff,
    /// It waits for room, since this place in the line.
    Room(u64),
    /// It waits for a cluster that fits.
    Fit,
}

impl Waiting {
    /// It has a turn, or is gone.
    pub(crate) fn leave(&mut self, key: &Key) {
        match self.places.remove(key) {
            Some(Place::Room(place)) => drop(self.line.remove(&place)),
            Some(Place::Backoff) => self.backing_off -= 1,
            Some(Place::Fit) | None => {}
        }
    }

    /// It waits until there may be room.
    pub(crate) fn for_room(&mut self, key: &Key) {
        self.leave(key);
        self.places.insert(key.clone(), Place::Room(self.next));
        self.line.insert(self.next, key.clone());
        self.next += 1;
    }

    /// It waits until a cluster may fit.
    pub(crate) fn for_fit(&mut self, key: &Key) {
        self.leave(key);
        self.places.insert(key.clone(), Place::Fit);
    }

    /// It backs off.
    pub(crate) fn backs_off(&mut self, key: &Key) {
        self.leave(key);
        self.places.insert(key.clone(), Place::Backoff);
        self.backing_off += 1;
    }

    /// The first of those that wait for room, at most so many.
    pub(crate) fn first(&self, at_most: usize) -> Vec<Key> {
        self.line.values().take(at_most).cloned().collect()
    }

    /// How many are placed nowhere, for want of room or of a cluster that fits, and how many back off.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.places.len() - self.backing_off, self.backing_off)
    }

    /// How many wait for a cluster that fits.
    pub(crate) fn unfit(&self) -> usize {
        self.places.len() - self.backing_off - self.line.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_what() {
        let (a, b, c) = (Key::new("n", "a"), Key::new("n", "b"), Key::new("n", "c"));
        let mut waiting = Waiting::default();
        waiting.for_room(&b);
        waiting.for_room(&a);
        waiting.backs_off(&c);
        assert_eq!(
            (waiting.first(9), waiting.counts()),
            (vec![b.clone(), a.clone()], (2, 1)),
            "first come, first served"
        );
        assert_eq!(waiting.first(1), std::slice::from_ref(&b));
        waiting.for_room(&b);
        assert_eq!(waiting.first(9), [a.clone(), b.clone()], "who failed again goes to the end");
        waiting.backs_off(&b);
        waiting.leave(&a);
        assert_eq!((waiting.first(9), waiting.counts()), (vec![], (0, 2)));
        waiting.for_fit(&b);
        waiting.for_room(&a);
        assert_eq!(
            (waiting.first(9), waiting.counts(), waiting.unfit()),
            (vec![a.clone()], (2, 1), 1),
            "room is no help to b"
        );
        for key in [&a, &b, &c] {
            waiting.leave(key);
            waiting.leave(key);
        }
        assert_eq!((waiting.counts(), waiting.unfit()), ((0, 0), 0));
    }
}
