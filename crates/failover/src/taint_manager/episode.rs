//! One fault of one cluster, from its first evicting taint until none is left (specification/failover.md 3.6, IR-10).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_api::{Taint, cluster::Cluster, work::ObjectReference};
use ironclad_fleet::{Binding, BindingKey, ClusterName, because::eviction::Reason, cluster_reference, taint};
use jiff::Timestamp;

use crate::{
    Now,
    flags::eviction::EvictionFlags,
    taint_manager::verdict::{FailoverSettings, Verdict, judge},
    taints::{TaintId, evicts},
};

/// State of a fault.
#[derive(Debug)]
pub struct Episode {
    /// Id in events, logs and history: the cluster and the second in which the fault was first seen.
    pub id: Arc<str>,
    /// Uid of the cluster.
    pub cluster_uid: Arc<str>,
    /// Time at which it was first seen.
    pub began: Duration,
    /// The cluster's current evicting taints.
    pub taints: Vec<Taint>,
    /// Reference to the cluster, for events.
    pub about: ObjectReference,
    /// The cluster is ready again; its taints are about to be removed.
    pub recovering: bool,
    /// Bindings evicted from the cluster.
    pub evicted: u32,
    /// The event on its begin was recorded.
    pub(super) announced: bool,
    /// First sight of taints without `timeAdded`.
    first_seen: BTreeMap<TaintId, Timestamp>,
    /// Failover settings of the bindings, as first seen.
    frozen: BTreeMap<BindingKey, Frozen>,
}

#[derive(Debug)]
struct Frozen {
    uid: Arc<str>,
    settings: FailoverSettings,
    /// The event of `--failover-mode=observe` was recorded.
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
            frozen: BTreeMap::new(),
        };
        episode.taints_are(cluster, now);
        episode
    }

    /// Updates the cluster's taints; returns true if the evicting ones changed.
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

    /// Reads the settings of a binding when it is first seen; they stay the same until the episode ends or
    /// the binding leaves.
    pub(super) fn freeze(&mut self, key: &BindingKey, binding: &Binding) -> Result<(), Reason> {
        if self.frozen(key, binding.uid()).is_none() {
            let settings = FailoverSettings::of(binding)?;
            self.frozen.insert(key.clone(), Frozen { uid: binding.uid().into(), settings, observed: false });
        }
        Ok(())
    }

    /// Verdict of the taints on a binding, by its frozen settings, or by its current ones if none are frozen.
    ///
    /// # Errors
    /// If nothing is frozen and the placement can't be read.
    pub fn verdict(&self, key: &BindingKey, binding: &Binding, flags: &EvictionFlags) -> Result<Verdict, Reason> {
        let read;
        let settings = match self.frozen(key, binding.uid()) {
            Some(settings) => settings,
            None => {
                read = FailoverSettings::of(binding)?;
                &read
            }
        };
        Ok(judge(settings, &self.taints, |taint| self.first_seen(taint), flags))
    }

    /// The frozen settings of the binding with this uid.
    #[must_use]
    pub fn frozen(&self, key: &BindingKey, uid: &str) -> Option<&FailoverSettings> {
        self.frozen.get(key).filter(|frozen| *frozen.uid == *uid).map(|frozen| &frozen.settings)
    }

    pub(super) fn observe(&mut self, key: &BindingKey) {
        if let Some(frozen) = self.frozen.get_mut(key) {
            frozen.observed = true;
        }
    }

    pub(super) fn was_observed(&self, key: &BindingKey, uid: &str) -> bool {
        self.frozen.get(key).is_some_and(|frozen| frozen.observed && *frozen.uid == *uid)
    }

    pub(super) fn forget(&mut self, key: &BindingKey) {
        self.frozen.remove(key);
    }

    /// True if the episode's limit of evictions is reached; `max` 0 is no limit.
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
