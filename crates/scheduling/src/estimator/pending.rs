//! Unschedulable replicas of a Deployment in a member (specification/scheduling.md 10.5, 10.6).

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};

/// A pod that the member's scheduler found no node for: condition `PodScheduled` is False with reason `Unschedulable`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingPod {
    /// Its ReplicaSet, by name: the controller in its owner references.
    pub replica_set: Arc<str>,
    /// Time of the condition's last transition.
    pub since: Timestamp,
}

/// Fields of a ReplicaSet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaSet {
    /// Name of its Deployment: the controller in its owner references.
    pub deployment: Arc<str>,
    /// Annotation `deployment.kubernetes.io/revision`.
    pub revision: i64,
}

type Name = (Arc<str>, Arc<str>);

/// Pending pods and ReplicaSets of one member.
#[derive(Debug, Clone, Default)]
pub struct Pending {
    /// By namespace and ReplicaSet, then by pod.
    pods: BTreeMap<Name, BTreeMap<Arc<str>, Timestamp>>,
    /// By namespace and Deployment: the ReplicaSets by revision.
    revisions: BTreeMap<Name, BTreeMap<(i64, Arc<str>), ()>>,
}

impl Pending {
    /// Records a pod that was added, changed or removed; one that is not pending is `None`.
    pub fn pod(&mut self, namespace: &str, name: &str, old: Option<&PendingPod>, new: Option<&PendingPod>) {
        if old == new {
            return;
        }
        let key = |pod: &PendingPod| (Arc::from(namespace), pod.replica_set.clone());
        if let Some(old) = old {
            let key = key(old);
            if let Some(pods) = self.pods.get_mut(&key) {
                pods.remove(name);
                if pods.is_empty() {
                    self.pods.remove(&key);
                }
            }
        }
        if let Some(new) = new {
            self.pods.entry(key(new)).or_default().insert(name.into(), new.since);
        }
    }

    /// Records a ReplicaSet that was added, changed or removed; one without a Deployment is `None`.
    pub fn replica_set(&mut self, namespace: &str, name: &str, old: Option<&ReplicaSet>, new: Option<&ReplicaSet>) {
        let key = |set: &ReplicaSet| (Arc::from(namespace), set.deployment.clone());
        if let Some(old) = old {
            let key = key(old);
            if let Some(sets) = self.revisions.get_mut(&key) {
                sets.remove(&(old.revision, name.into()));
                if sets.is_empty() {
                    self.revisions.remove(&key);
                }
            }
        }
        if let Some(new) = new {
            self.revisions.entry(key(new)).or_default().insert((new.revision, name.into()), ());
        }
    }

    /// Number of pods of the Deployment's newest ReplicaSet that have been unschedulable for longer than the threshold.
    /// A negative threshold is zero; an unknown Deployment has none.
    #[must_use]
    pub fn unschedulable(&self, namespace: &str, deployment: &str, threshold: SignedDuration, now: Timestamp) -> i32 {
        let newest = self
            .revisions
            .get(&(namespace.into(), deployment.into()))
            .and_then(|sets| sets.last_key_value())
            .map(|((_, name), ())| (Arc::from(namespace), name.clone()));
        let pods = newest.and_then(|key| self.pods.get(&key));
        let threshold = threshold.max(SignedDuration::ZERO);
        let long = |since: &&Timestamp| since.checked_add(threshold).is_ok_and(|until| until < now);
        let count = pods.map_or(0, |pods| pods.values().filter(long).count());
        i32::try_from(count).unwrap_or(i32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pod(replica_set: &str, since: i64) -> PendingPod {
        PendingPod { replica_set: replica_set.into(), since: at(since) }
    }

    fn set(deployment: &str, revision: i64) -> ReplicaSet {
        ReplicaSet { deployment: deployment.into(), revision }
    }

    #[test]
    fn pods_of_the_newest_replica_set_count() {
        let mut pending = Pending::default();
        let count = |pending: &Pending, threshold: i64, now: i64| {
            pending.unschedulable("shop", "web", SignedDuration::from_secs(threshold), at(now))
        };
        pending.pod("shop", "web-1-a", None, Some(&pod("web-1", 100)));
        assert_eq!(count(&pending, 10, 1_000), 0, "no ReplicaSet is known");
        pending.replica_set("shop", "web-1", None, Some(&set("web", 1)));
        for (name, threshold, now, want) in [
            ("longer than the threshold", 10, 111, 1),
            ("exactly as long", 10, 110, 0),
            ("a negative threshold is zero", -5, 101, 1),
            ("and does not look ahead", -5, 100, 0),
        ] {
            assert_eq!(count(&pending, threshold, now), want, "{name}");
        }
        pending.pod("shop", "web-1-b", None, Some(&pod("web-1", 100)));
        pending.pod("other", "web-1-c", None, Some(&pod("web-1", 100)));
        pending.pod("shop", "api-1-a", None, Some(&pod("api-1", 100)));
        assert_eq!(count(&pending, 10, 200), 2, "its own pods in its own namespace");
        pending.pod("shop", "web-1-b", Some(&pod("web-1", 100)), None);
        assert_eq!(count(&pending, 10, 200), 1, "one was scheduled");
        pending.replica_set("shop", "web-2", None, Some(&set("web", 2)));
        assert_eq!(count(&pending, 10, 200), 0, "a rollout: pods of the old ReplicaSet leave anyway");
        pending.replica_set("shop", "web-1", Some(&set("web", 1)), Some(&set("web", 3)));
        assert_eq!(count(&pending, 10, 200), 1, "rolled back");
        pending.replica_set("shop", "web-1", Some(&set("web", 3)), None);
        pending.replica_set("shop", "web-2", Some(&set("web", 2)), None);
        pending.pod("shop", "web-1-a", Some(&pod("web-1", 100)), None);
        assert_eq!((pending.revisions.len(), pending.pods.len()), (0, 2));
    }
}
