//! Bindings whose last scheduling attempt failed.

use std::collections::{BTreeMap, BTreeSet};

use ironclad_api::cluster::Cluster;
use ironclad_fleet::{BindingRef, ClusterName};
use ironclad_runtime::Key;
use ironclad_scheduling::{Capacity, Line, Options};

/// The bindings whose last attempt failed.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    reasons: BTreeMap<Key, Reason>,
    /// Those that wait for capacity.
    line: Line<Key>,
    backing_off: usize,
    /// Bindings whose attempt has not ended, each with the clusters that have grown since it began. The attempt may not
    /// have seen it, and its binding does not wait yet.
    attempts: BTreeMap<Key, BTreeSet<ClusterName>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// It backs off.
    Backoff,
    /// It waits for capacity.
    Capacity,
    /// It waits for a cluster that fits.
    Fit,
}

impl Waiting {
    /// Removes a binding that is scheduled again or was deleted.
    pub(crate) fn leave(&mut self, key: &Key) {
        match self.reasons.remove(key) {
            Some(Reason::Capacity) => self.line.leave(key),
            Some(Reason::Backoff) => self.backing_off -= 1,
            Some(Reason::Fit) | None => {}
        }
    }

    /// Notes that an attempt begins, before it reads the capacity.
    pub(crate) fn begins(&mut self, key: &Key) {
        self.attempts.insert(key.clone(), BTreeSet::new());
    }

    /// Notes that a cluster has grown, for the attempts that have not ended.
    pub(crate) fn grew(&mut self, cluster: &ClusterName) {
        for grown in self.attempts.values_mut() {
            grown.insert(cluster.clone());
        }
    }

    /// Notes that an attempt ends. Returns the clusters that have grown since it began.
    pub(crate) fn ends(&mut self, key: &Key) -> BTreeSet<ClusterName> {
        self.attempts.remove(key).unwrap_or_default()
    }

    /// True while an attempt of the binding has not ended.
    pub(crate) fn is_attempted(&self, key: &Key) -> bool {
        self.attempts.contains_key(key)
    }

    /// Notes that the binding waits for capacity. `is_nominated`: some is held for it.
    pub(crate) fn for_capacity(&mut self, key: &Key, binding: BindingRef<'_>, is_nominated: bool, options: &Options) {
        self.leave(key);
        self.reasons.insert(key.clone(), Reason::Capacity);
        self.line.enter(key, binding, is_nominated, options);
    }

    /// Notes that the binding changed, whatever it waits for. `is_nominated`: capacity is held for it.
    pub(crate) fn changed(&mut self, key: &Key, binding: BindingRef<'_>, is_nominated: bool, options: &Options) {
        self.line.changed(key, binding, is_nominated, options);
    }

    /// True if the binding waits for capacity or for a cluster that fits: trying again helps only if one of them
    /// appears.
    pub(crate) fn is_unschedulable(&self, key: &Key) -> bool {
        matches!(self.reasons.get(key), Some(Reason::Capacity | Reason::Fit))
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

    /// The first bindings that wait for capacity and may fit into the cluster.
    pub(crate) fn fitting(&self, cluster: &Cluster, capacity: &Capacity, at_most: usize) -> Vec<Key> {
        self.line.fitting(cluster, capacity, at_most)
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
    use ironclad_api::work::ResourceBinding;
    use serde_json::json;

    use super::*;

    #[test]
    fn growth_during_an_attempt_is_remembered_until_the_attempt_ends() {
        let (a, b) = (Key::new("n", "a"), Key::new("n", "b"));
        let (m1, m2) = (ClusterName::from("m1"), ClusterName::from("m2"));
        let mut waiting = Waiting::default();
        waiting.grew(&m1);
        waiting.begins(&a);
        waiting.grew(&m2);
        waiting.begins(&b);
        waiting.grew(&m2);
        waiting.grew(&m1);
        assert!(waiting.is_attempted(&a));
        assert_eq!(waiting.ends(&a), [m1.clone(), m2.clone()].into());
        assert!(!waiting.is_attempted(&a));
        assert_eq!(waiting.ends(&a), BTreeSet::new(), "it has ended");
        waiting.begins(&b);
        assert_eq!(waiting.ends(&b), BTreeSet::new(), "a new attempt sees what had grown before it");
    }

    #[test]
    fn bindings_wait_only_for_the_last_reason() {
        let (a, b, c) = (Key::new("n", "a"), Key::new("n", "b"), Key::new("n", "c"));
        let (options, binding) = (Options::default(), ResourceBinding::new("a", Default::default()));
        let urgent: ResourceBinding = serde_json::from_value(json!({
            "metadata": {"name": "b", "namespace": "n"},
            "spec": {"resource": {"apiVersion": "v1", "kind": "Pod", "namespace": "n", "name": "b"},
                "schedulePriority": {"priority": 5}},
        }))
        .unwrap();
        let mut waiting = Waiting::default();
        let line = |waiting: &Waiting| waiting.line.iter().cloned().collect::<Vec<_>>();
        waiting.for_capacity(&b, (&binding).into(), false, &options);
        waiting.for_capacity(&a, (&binding).into(), false, &options);
        waiting.backs_off(&c);
        assert_eq!(
            (line(&waiting), waiting.counts()),
            (vec![b.clone(), a.clone()], (2, 1)),
            "first come, first served"
        );
        waiting.for_capacity(&b, (&binding).into(), false, &options);
        assert_eq!(line(&waiting), [a.clone(), b.clone()], "who failed again goes to the end");
        waiting.for_capacity(&b, (&urgent).into(), false, &options);
        assert_eq!(line(&waiting), [b.clone(), a.clone()], "unless it has a higher priority");
        assert!(waiting.is_unschedulable(&a) && !waiting.is_unschedulable(&c));
        waiting.changed(&c, (&binding).into(), false, &options);
        waiting.changed(&b, (&urgent).into(), true, &options);
        assert_eq!((line(&waiting), waiting.counts()), (vec![b.clone(), a.clone()], (2, 1)), "a change moves nobody");
        waiting.backs_off(&b);
        waiting.leave(&a);
        assert_eq!((line(&waiting), waiting.counts()), (vec![], (0, 2)));
        waiting.for_fit(&b);
        waiting.for_capacity(&a, (&binding).into(), false, &options);
        assert_eq!(
            (line(&waiting), waiting.counts(), waiting.unfit()),
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
