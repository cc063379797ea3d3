//! Works of a member that wait for its namespaces.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;

/// Works by the namespace for which they wait. It contains at most all Works of the member.
#[derive(Debug, Default)]
pub(super) struct Awaiting(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Number of namespace events so far.
    events: u64,
    works: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

/// Number of namespace events at the time of a snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen(u64);

/// Outcome of the attempt to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Await {
    /// The next event of the namespace enqueues the Work.
    Waiting,
    /// An event arrived since the snapshot: the Work has to be reconciled again.
    Missed,
}

impl Awaiting {
    /// Ends the wait of a Work that is reconciled. Call it before anything is observed.
    pub(super) fn begin(&self, namespace: &str, work: &str) -> Seen {
        let mut state = self.0.lock();
        if let Some(works) = state.works.get_mut(namespace) {
            works.remove(work);
            if works.is_empty() {
                state.works.remove(namespace);
            }
        }
        Seen(state.events)
    }

    /// Notes that the Work waits, by a snapshot that was taken after `seen`.
    pub(super) fn add(&self, namespace: &str, work: Arc<str>, seen: Seen) -> Await {
        let mut state = self.0.lock();
        if Seen(state.events) != seen {
            return Await::Missed;
        }
        match state.works.get_mut(namespace) {
            Some(works) => drop(works.insert(work)),
            None => drop(state.works.insert(namespace.into(), [work].into())),
        }
        Await::Waiting
    }

    /// Notes an event of the namespace; returns the Works to enqueue.
    pub(super) fn take(&self, namespace: &str) -> BTreeSet<Arc<str>> {
        let mut state = self.0.lock();
        state.events += 1;
        state.works.remove(namespace).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(works: BTreeSet<Arc<str>>) -> Vec<String> {
        works.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_event_enqueues_the_works_that_wait_for_its_namespace_once() {
        let awaiting = Awaiting::default();
        for (namespace, work) in [("shop", "web"), ("shop", "conf"), ("other", "web-2")] {
            let seen = awaiting.begin(namespace, work);
            assert_eq!(awaiting.add(namespace, work.into(), seen), Await::Waiting);
        }
        assert!(awaiting.take("nobody").is_empty());
        assert_eq!(names(awaiting.take("shop")), ["conf", "web"]);
        assert!(awaiting.take("shop").is_empty(), "they are enqueued once, and wait again if they have to");
        awaiting.begin("other", "web-2");
        assert!(awaiting.take("other").is_empty(), "it was reconciled since, and waits for nothing");
        assert!(awaiting.0.lock().works.is_empty(), "nothing is left behind");
    }

    #[test]
    fn an_event_between_snapshot_and_wait_is_not_missed() {
        let awaiting = Awaiting::default();
        let seen = awaiting.begin("shop", "web");
        assert!(awaiting.take("shop").is_empty());
        assert_eq!(awaiting.add("shop", "web".into(), seen), Await::Missed);
        assert!(awaiting.take("shop").is_empty(), "it is enqueued anyway");
    }
}
