//! One fault of one cluster, from its first evicting taint until none is left (specification/failover.md 3.6, IR-10).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_api::{Taint, cluster::Cluster, work::ObjectReference};
use ironclad_fleet::{Binding, BindingKey, ClusterName, because::eviction::Reason, cluster_reference, taint};
use jiff::Timestamp;

use crate::{
    Now,
    flags::eviction::EvictionFlags,
    taint_manager::verdict::{Verdict, Wish, judge},
    taints::{TaintId, evicts},
};

/// State of a fault.
#[derive(Debug)]
pub struct Episode {
    /// Names it in events, logs and history: the cluster and the second in which it was first seen.
    pub id: Arc<str>,
    /// The incarnation of the cluster.
    pub cluster_uid: Arc<str>,
    /// When it was first seen.
    pub began: Duration,
    /// The cluster's evicting taints, as they are now.
    pub taints: Vec<Taint>,
    /// How events name the cluster.
    pub about: ObjectReference,
    /// The cluster is ready again and its taints wait only to be removed.
    pub recovering: bool,
    /// Bindings evicted from the cluster.
    pub evicted: u32,
    /// People were told that it began.
    pub(super) announced: bool,
    /// When taints without `timeAdded` were first seen.
    first_seen: BTreeMap<TaintId, Timestamp>,
    /// Failover settings of the bindings, as first seen.
    wishes: BTreeMap<BindingKey, Frozen>,
}

#[derive(Debug)]
struct Frozen {
    uid: Arc<str>,
    wish: Wish,
    /// `--failover-mode=observe` has told what would have happened.
    observed: bool,
}

impl Episode {
    pub(super) fn new(name: &ClusterName, cluster: &Cluster, now: Now) -> Self {
        let mut episode = Self {
            id: format!("{name}-{}", now.wall.as_second()).into(),
            cluster_uid: cluster.metadata.uid.as_deref().unwrap_or_default().into(),
            began: now.mono,
            taints: Vec::new(),
            about: cluster_reference(cluster),
            recovering: false,
            evicted: 0,
            announced: false,
            first_seen: BTreeMap::new(),
            wishes: BTreeMap::new(),
        };
        episode.taints_are(cluster, now);
        episode
    }

    /// Takes the cluster's taints as they are now; true if those that evict changed.
    pub(super) fn taints_are(&mut self, cluster: &Cluster, now: Now) -> bool {
        let taints: Vec<Taint> = cluster.spec.taints.iter().filter(|taint| evicts(taint)).cloned().collect();
        self.first_seen.retain(|id, _| taints.iter().any(|taint| id.is(taint)));
        for taint in taints.iter().filter(|taint| taint.time_added.is_none()) {
            self.first_seen.entry(TaintId::of(taint)).or_insert(now.wall);
        }
        let changed = taints != self.taints;
        self.taints = taints;
        changed
    }

    pub(super) fn first_seen(&self, taint: &Taint) -> Timestamp {
        self.first_seen.get(&TaintId::of(taint)).copied().unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Reads the wish of a binding when it is first seen; it stays the same until the episode ends or
    /// the binding leaves.
    pub(super) fn freeze(&mut self, key: &BindingKey, binding: &Binding) -> Result<(), Reason> {
        if self.frozen(key, binding.uid()).is_none() {
            let wish = Wish::of(binding)?;
            self.wishes.insert(key.clone(), Frozen { uid: binding.uid().into(), wish, observed: false });
        }
        Ok(())
    }

    /// Verdict of the taints on a binding, by its frozen settings, or by its current ones if none are frozen.
    ///
    /// # Errors
    /// If nothing is frozen and the placement can't be read.
    pub fn verdict(&self, key: &BindingKey, binding: &Binding, flags: &EvictionFlags) -> Result<Verdict, Reason> {
        let read;
        let wish = match self.frozen(key, binding.uid()) {
            Some(wish) => wish,
            None => {
                read = Wish::of(binding)?;
                &read
            }
        };
        Ok(judge(wish, &self.taints, |taint| self.first_seen(taint), flags))
    }

    /// The wish that was read of this incarnation of a binding.
    #[must_use]
    pub fn frozen(&self, key: &BindingKey, uid: &str) -> Option<&Wish> {
        self.wishes.get(key).filter(|frozen| *frozen.uid == *uid).map(|frozen| &frozen.wish)
    }

    pub(super) fn observe(&mut self, key: &BindingKey) {
        if let Some(frozen) = self.wishes.get_mut(key) {
            frozen.observed = true;
        }
    }

    pub(super) fn was_observed(&self, key: &BindingKey, uid: &str) -> bool {
        self.wishes.get(key).is_some_and(|frozen| frozen.observed && *frozen.uid == *uid)
    }

    pub(super) fn forget(&mut self, key: &BindingKey) {
        self.wishes.remove(key);
    }

    /// True if no more may leave the cluster in this episode; `max` 0 is no limit.
    #[must_use]
    pub fn is_exhausted(&self, max: u32) -> bool {
        max > 0 && self.evicted >= max
    }

    /// The evicting taints, as messages print them.
    #[must_use]
    pub fn taints_text(&self) -> String {
        let texts: Vec<_> = self.taints.iter().map(taint::text).collect();
        texts.join(", ")
    }
}
