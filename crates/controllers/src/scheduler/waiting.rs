//! Bindings whose last scheduling attempt failed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::{cluster::Cluster, policy::FederatedResourceQuota};
use ironclad_fleet::{BindingRef, ClusterName};
use ironclad_propagation::quota::{usage::Amounts, wait_list::WaitList};
use ironclad_runtime::Key;
use ironclad_scheduling::{Capacity, Line, Options, priority};

/// The bindings whose last attempt failed.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    reasons: BTreeMap<Key, Reason>,
    /// Those that wait for capacity.
    line: Line<Key>,
    /// Those that wait for quota.
    quota: WaitList<Key>,
    backing_off: usize,
    /// Bindings whose attempt has not ended, each with what has changed since it began. The attempt may not have seen
    /// it, and its binding does not wait yet.
    attempts: BTreeMap<Key, Missed>,
}

/// Changes during an attempt.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Missed {
    /// Clusters that have grown.
    pub(crate) grown: BTreeSet<ClusterName>,
    /// True if a quota of the binding's namespace changed.
    pub(crate) quota: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// It backs off.
    Backoff,
    /// It waits for capacity.
    Capacity,
    /// It waits for free capacity, or for quota, within which it could preempt others.
    CapacityOrQuota,
    /// It waits for a cluster that fits.
    Fit,
    /// It waits for quota.
    Quota,
}

impl Waiting {
    /// Removes a binding that is scheduled again or was deleted.
    pub(crate) fn leave(&mut self, key: &Key) {
        match self.reasons.remove(key) {
            Some(Reason::Capacity) => self.line.leave(key),
            Some(Reason::CapacityOrQuota) => {
                self.line.leave(key);
                self.quota.leave(key);
            }
            Some(Reason::Quota) => self.quota.leave(key),
            Some(Reason::Backoff) => self.backing_off -= 1,
            Some(Reason::Fit) | None => {}
        }
    }

    /// Notes that an attempt begins, before it reads the capacity.
    pub(crate) fn begins(&mut self, key: &Key) {
        self.attempts.insert(key.clone(), Missed::default());
    }

    /// Notes that a cluster has grown, for the attempts that have not ended.
    pub(crate) fn grew(&mut self, cluster: &ClusterName) {
        for missed in self.attempts.values_mut() {
            missed.grown.insert(cluster.clone());
        }
    }

    /// Notes that a quota of the namespace changed, for the attempts that have not ended.
    pub(crate) fn quota_changed(&mut self, namespace: &str) {
        for (_, missed) in self.attempts.iter_mut().filter(|(key, _)| *key.namespace == *namespace) {
            missed.quota = true;
        }
    }

    /// Notes that an attempt ends. Returns what has changed since it began.
    pub(crate) fn ends(&mut self, key: &Key) -> Missed {
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

    /// True if the binding waits for capacity, for a cluster that fits or for quota: trying again helps only if one of
    /// them appears.
    pub(crate) fn is_unschedulable(&self, key: &Key) -> bool {
        matches!(self.reasons.get(key), Some(Reason::Capacity | Reason::CapacityOrQuota | Reason::Fit | Reason::Quota))
    }

    /// Notes that the binding waits for quota. `lacking` is the usage that was refused.
    pub(crate) fn for_quota(&mut self, key: &Key, binding: BindingRef<'_>, lacking: Amounts) {
        self.leave(key);
        self.reasons.insert(key.clone(), Reason::Quota);
        self.quota.enter(key, &key.namespace, priority(binding.spec()), lacking);
    }

    /// Notes that the binding waits for free capacity, or for quota, within which it could preempt others. `lacking` is
    /// the usage that a quota would refuse.
    pub(crate) fn for_capacity_or_quota(
        &mut self,
        key: &Key,
        binding: BindingRef<'_>,
        lacking: Amounts,
        options: &Options,
    ) {
        self.leave(key);
        self.reasons.insert(key.clone(), Reason::CapacityOrQuota);
        self.line.enter(key, binding, false, options);
        self.quota.enter(key, &key.namespace, priority(binding.spec()), lacking);
    }

    /// The bindings of the namespace that wait for quota and fit together into what these quotas leave.
    pub(crate) fn within_quota(&self, namespace: &str, quotas: &[Arc<FederatedResourceQuota>]) -> Vec<Key> {
        self.quota.fitting(namespace, quotas)
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

    /// The first bindings that wait for capacity with a higher priority than this one.
    pub(crate) fn above(&self, priority: i32, at_most: usize) -> Vec<Key> {
        self.line.above(priority, at_most).cloned().collect()
    }

    /// The bindings that wait for capacity, and those whose attempt has not ended: they may have seen an earlier pause.
    pub(crate) fn for_pause(&self) -> Vec<Key> {
        self.line.iter().chain(self.attempts.keys()).cloned().collect()
    }

    /// The numbers of unschedulable bindings and of those that back off.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.reasons.len() - self.backing_off, self.backing_off)
    }

    /// The number of bindings that wait for a cluster that fits, or for quota. They are in the queue and tried again
    /// after minutes.
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
        assert_eq!(waiting.ends(&a).grown, [m1.clone(), m2.clone()].into());
        assert!(!waiting.is_attempted(&a));
        assert_eq!(waiting.ends(&a), Missed::default(), "it has ended");
        waiting.begins(&b);
        waiting.quota_changed("other");
        assert_eq!(waiting.ends(&b), Missed::default(), "a new attempt sees what had grown before it");
        waiting.begins(&b);
        waiting.quota_changed("n");
        assert!(waiting.ends(&b).quota);
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
        waiting.for_capacity_or_quota(&c, (&binding).into(), Amounts::new(), &options);
        assert_eq!((line(&waiting), waiting.counts()), (vec![c.clone()], (1, 1)), "it waits for capacity");
        assert_eq!(waiting.within_quota("n", &[]), std::slice::from_ref(&c), "and for quota");
        waiting.backs_off(&c);
        assert_eq!((line(&waiting), waiting.within_quota("n", &[])), (vec![], vec![]), "it backs off only");
        waiting.for_fit(&b);
        waiting.for_capacity(&a, (&binding).into(), false, &options);
        assert_eq!(
            (line(&waiting), waiting.counts(), waiting.unfit()),
            (vec![a.clone()], (2, 1), 1),
            "capacity does not help b"
        );
        waiting.for_quota(&a, (&binding).into(), Amounts::new());
        assert_eq!((line(&waiting), waiting.counts(), waiting.unfit()), (vec![], (2, 1), 2), "a waits for quota");
        assert_eq!((waiting.within_quota("n", &[]), waiting.is_unschedulable(&a)), (vec![a.clone()], true));
        for key in [&a, &b, &c] {
            waiting.leave(key);
            waiting.leave(key);
        }
        assert_eq!((waiting.counts(), waiting.unfit()), ((0, 0), 0));
    }
}
