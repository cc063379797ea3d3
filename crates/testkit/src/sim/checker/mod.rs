//! The invariants of specification/failover.md 13 that concern a stretch of time, checked write by write.
//!
//! This is slow, obvious code that shares nothing with the decisions it checks but the types of the API. Views of
//! controllers lag behind the real state: a cause that was true recently ([`Rules::stale`]) excuses an action
//! now.

mod bindings;
pub mod capacity;
mod clusters;
mod copies;
mod late;
pub mod machines;
mod preemption;
mod rate;
mod scaled;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ironclad_api::{Taint, cluster::Cluster, policy::PurgeMode};
use ironclad_fleet::{BindingKey, ClusterName, ObjectKey, World as Fleet};

use self::{bindings::Bindings, clusters::Clusters, machines::Machines, preemption::Preemptions};
pub use self::{preemption::Preemption, rate::Rates};
use super::change::{Changed, Write};

#[derive(Debug, Clone)]
pub struct Rules {
    pub gate: bool,
    /// `--enable-no-execute-taint-eviction`.
    pub no_execute: bool,
    /// `--no-execute-taint-eviction-purge-mode`.
    pub purge_mode: PurgeMode,
    pub rates: Rates,
    /// No eviction within this time after the start of the leader.
    pub warm_up: Duration,
    /// Time after which Ready follows an observation: the smaller one of both thresholds.
    pub debounce: Duration,
    /// Maximum age of a view.
    pub stale: Duration,
    /// Maximum difference of clocks, seconds.
    pub skew: i64,
    /// Key and effect of the taints that users and policies set.
    pub asked_taints: BTreeSet<(String, String)>,
    /// The shortest times, seconds, after which any version of the taint policy adds its taint to an unready cluster,
    /// and removes it; `None` if other policies set taints.
    pub windows: Option<(i64, i64)>,
    /// `--pre-scheduling-check` is not `off`: no eviction without enough target clusters.
    pub checked: bool,
    /// Checks late evictions, too; off if users pause evictions or flags delay them.
    pub late: bool,
    /// Preemption between bindings, in runs with scarce capacity.
    pub preemption: Option<Preemption>,
    /// Bindings of workloads whose replicas members scale.
    pub scaled_in_members: BTreeSet<BindingKey>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            gate: false,
            no_execute: true,
            purge_mode: PurgeMode::Gracefully,
            rates: Rates::default(),
            warm_up: Duration::from_secs(40),
            debounce: Duration::from_secs(30),
            stale: Duration::from_secs(3),
            skew: 0,
            asked_taints: BTreeSet::new(),
            windows: None,
            checked: false,
            late: false,
            preemption: None,
            scaled_in_members: BTreeSet::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// Virtual time since the start of the world.
    pub at: Duration,
    pub binding: String,
    pub cluster: ClusterName,
    pub reason: String,
}

#[derive(Debug)]
pub struct Checker {
    pub rules: Rules,
    clusters: Clusters,
    bindings: Bindings,
    rate: rate::Log,
    evictions: Vec<Eviction>,
    /// Time at which each binding (by uid) was last evicted from a cluster in one of its episodes.
    per_episode: BTreeMap<(String, ClusterName, u64), Duration>,
    starts: Vec<Duration>,
    /// Copies that are deleted in their members, not by the control plane.
    taken: BTreeSet<(ClusterName, ObjectKey)>,
    /// Workloads that lost a copy because a Cluster was deleted without a drain, or their last one because they were
    /// preempted, until they have another one.
    abandoned: BTreeSet<ObjectKey>,
    /// Clusters that are deleted after the command said that nothing is lost by that.
    nothing_to_lose: BTreeSet<ClusterName>,
    late: late::Late,
    preemptions: Preemptions,
    /// Nodes and pods of members.
    machines: BTreeMap<ClusterName, Machines>,
    /// Time at which a user last changed the taint policy or its taints.
    policy_edited: Option<Duration>,
    /// Events for the coverage of [`super::sometimes`].
    noted: BTreeSet<&'static str>,
}

impl Checker {
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            clusters: Clusters::default(),
            bindings: Bindings::default(),
            rate: rate::Log::default(),
            evictions: Vec::new(),
            per_episode: BTreeMap::new(),
            starts: Vec::new(),
            taken: BTreeSet::new(),
            abandoned: BTreeSet::new(),
            nothing_to_lose: BTreeSet::new(),
            late: late::Late::default(),
            preemptions: Preemptions::default(),
            machines: BTreeMap::new(),
            policy_edited: None,
            noted: BTreeSet::new(),
        }
    }

    /// Returns the observed events of [`super::sometimes`].
    pub fn noted(&self) -> &BTreeSet<&'static str> {
        &self.noted
    }

    pub fn started(&mut self, at: Duration) {
        self.starts.push(at);
        self.preemptions.forget_figures();
    }

    /// Announces that the agent of this member started.
    pub fn agent_started(&mut self, member: &ClusterName, at: Duration) {
        self.clusters.agent_started(member, at);
    }

    /// Announces that this copy will be deleted in its member.
    pub fn will_be_taken(&mut self, cluster: ClusterName, object: ObjectKey) {
        self.taken.insert((cluster, object));
    }

    /// A Cluster is deleted after a report that no workload loses anything by that.
    pub fn nothing_to_lose(&mut self, cluster: ClusterName) {
        self.nothing_to_lose.insert(cluster);
    }

    /// Records that a user edits or deletes the taint policy, or removes one of its taints.
    pub fn policy_edited(&mut self, at: Duration) {
        self.policy_edited = Some(at);
    }

    /// Nodes and pods of members as they are.
    pub fn machines(&self) -> &BTreeMap<ClusterName, Machines> {
        &self.machines
    }

    pub fn evictions(&self) -> &[Eviction] {
        &self.evictions
    }

    /// Processes a write; returns the invariant that it breaks.
    pub fn see(&mut self, write: &Write, fleet: &Fleet) -> Vec<String> {
        let mut broken = Vec::new();
        match &write.what {
            Changed::Cluster { name, old, new } => {
                let (old, new) = (old.as_deref(), new.as_deref());
                if old.is_none() {
                    self.nothing_to_lose.remove(name);
                }
                let taints = |cluster: Option<&Cluster>| cluster.is_some_and(|c| c.spec.taints.iter().any(by_policy));
                match (taints(old), taints(new)) {
                    (false, true) => drop(self.noted.insert("a policy taints a cluster")),
                    (true, false) => drop(self.noted.insert("a policy takes its taint back")),
                    _ => {}
                }
                let person = self.policy_edited.is_some_and(|edited| edited + self.rules.stale >= write.at);
                self.clusters.see(write, name, old, new, &self.rules, &self.starts, person, &mut broken);
                let allowed = self.rules.rates.allowed(fleet.clusters.values().map(|c| &**c));
                if self.rules.gate && allowed <= 0.0 && new.is_some_and(|c| c.spec.taints.iter().any(clusters::evicts))
                {
                    self.noted.insert("no eviction while too many clusters are unhealthy");
                }
                self.rate.allow(write.at, allowed);
                if old.map(|old| capacity::summary(Some(old))) != new.map(|new| capacity::summary(Some(new))) {
                    self.capacity_changed(write.at);
                }
            }
            Changed::Binding { key, old, new } => {
                let (old, new) = (old.as_deref(), new.as_deref());
                for (cluster, reason) in
                    self.bindings.see(write, key, old, new, fleet, &self.rules, &mut broken, &mut self.noted)
                {
                    self.evicted(write, &key.to_string(), cluster, reason, old, fleet, &mut broken);
                }
                self.preemption(write, key, old, new, fleet, &mut broken);
                scaled::see(key, old, new, &self.rules, &mut broken);
            }
            Changed::Work { key, old, new } => {
                let (old, new) = (old.as_deref(), new.as_deref());
                let (clusters, bindings) = (&self.clusters, &self.bindings);
                copies::work(write.at, key, old, new, fleet, clusters, bindings, &self.rules, &mut broken);
            }
            Changed::Node { cluster, name, new } => {
                self.machines.entry(cluster.clone()).or_default().node(name, new.as_deref());
                self.capacity_changed(write.at);
            }
            Changed::Pod { cluster, name, new } => {
                if self.machines.entry(cluster.clone()).or_default().pod(name, new.clone()) {
                    self.capacity_changed(write.at);
                }
            }
            Changed::ConfigDeleted { cluster, namespace, workload } => {
                let key = BindingKey { namespace: namespace.clone(), name: format!("{workload}-deployment").into() };
                let state = self.bindings.get(&key);
                copies::config_deleted(write.at, cluster, &key, workload, state, fleet, &self.rules, &mut broken);
            }
            Changed::Copy { cluster, object, before, after, template } => {
                if !before && *after {
                    self.abandoned.remove(object);
                }
                if *before && !after && !self.taken.remove(&(cluster.clone(), object.clone())) {
                    let abandoned = &mut self.abandoned;
                    if self.nothing_to_lose.contains(cluster) {
                        copies::unjoined(cluster, object, template, fleet, &self.rules, &mut broken);
                    }
                    if !self.preemptions.take_left(cluster, object) {
                        let (bindings, rules) = (&self.bindings, &self.rules);
                        copies::deleted(cluster, object, template, fleet, bindings, rules, abandoned, &mut broken);
                    } else if !copies::is_kept_elsewhere(cluster, object, fleet) {
                        // What was released before goes once its cluster can be reached.
                        abandoned.insert(object.clone());
                    }
                }
            }
        }
        broken
    }
}

pub const POLICY_KEY: &str = "failing";

/// Returns `true` for an evicting taint of a policy.
fn by_policy(taint: &Taint) -> bool {
    clusters::evicts(taint) && taint.key == POLICY_KEY
}
