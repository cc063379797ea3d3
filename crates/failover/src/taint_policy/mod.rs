//! The taints that ClusterTaintPolicies want on a cluster (specification/failover.md 2).
//!
//! One decision over one cluster and all policies, so that they need one write and can't undo each other's. What the
//! taints evict is decided elsewhere. [`Memory`] is passed from one decision on a cluster to the next.

mod decide;
mod foresee;
mod predicate;
mod rule;
#[cfg(test)]
mod tests;
mod validate;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ironclad_api::{
    cluster::Cluster,
    policy::{ClusterTaintPolicy, TaintPolicyCluster},
};
use ironclad_fleet::{Event, Plan};
use jiff::Timestamp;
use serde_json::Value;

use crate::taints::{Owners, TaintId, evicts};
use predicate::{Stopwatch, evaluate};
use rule::{Rule, Spelling};

pub use decide::decide;
pub use foresee::foresee;
pub use validate::{overlaps, validate, warnings};

/// Input of the decision.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub cluster: &'a Cluster,
    /// All policies, in any order.
    pub policies: &'a [Arc<ClusterTaintPolicy>],
    /// State returned by the last decision on this cluster; `None` at the first of this process.
    pub memory: Option<&'a Memory>,
}

/// Since when each policy's conditions hold on one cluster, or don't (IR-5). Memory only: after a restart the
/// conditions' own times are taken, which can only be later.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// A new cluster of the same name starts without it.
    cluster: String,
    /// By uid and generation of the policy: a new generation starts without it.
    rules: BTreeMap<(String, i64), Watches>,
    /// Reports that are already recorded and still hold.
    reported: BTreeSet<String>,
}

impl Memory {
    /// The memory if the decision's events were not recorded because an earlier write failed.
    #[must_use]
    pub fn unreported(self) -> Self {
        Self { reported: BTreeSet::new(), ..self }
    }
}

/// The predicates of one policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Watches {
    add: Stopwatch,
    /// With `matchConditions` the negation of the same predicate.
    remove: Stopwatch,
}

/// Effects, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// A merge patch of the Cluster, to be sent on condition that it is still the one seen.
    Patch(Value),
    Event(Event),
}

/// Plan, state for the next decision, and next reconcile.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a decision that nobody applies changes nothing"]
pub struct Decision {
    pub plan: Plan<Effect>,
    /// For the next decision on this cluster.
    pub memory: Memory,
    /// The first window ends after this.
    pub next: Option<Duration>,
    /// Entries of the cluster in each selecting policy's status, by the policy's name (specification/failover.md 2.9).
    pub status: BTreeMap<String, TaintPolicyCluster>,
}

/// True if a cluster is back and its taints are only waiting for their remove windows: its evictions are held
/// (specification/failover.md 6.6, "recovering source"). It is Ready, and no policy requires its evicting taints any
/// more. A taint that a person put does not wait for anything.
#[must_use]
pub fn is_recovering(cluster: &Cluster, policies: &[Arc<ClusterTaintPolicy>]) -> bool {
    if !cluster.is_ready() {
        return false;
    }
    let owners = Owners::of(cluster);
    let waits = |policy: &str, taint: &TaintId| {
        let policy = policies.iter().find(|p| p.metadata.name.as_deref() == Some(policy));
        policy.and_then(|policy| Rule::of(policy).ok()).is_some_and(|rule| is_leaving(&rule, taint, cluster))
    };
    let mut taints = cluster.spec.taints.iter().filter(|taint| evicts(taint)).map(TaintId::of).peekable();
    taints.peek().is_some()
        && taints.all(|taint| owners.is_owned(&taint) && owners.policies(&taint).all(|policy| waits(policy, &taint)))
}

/// True if the rule is about to take its taint away.
fn is_leaving(rule: &Rule<'_>, taint: &TaintId, cluster: &Cluster) -> bool {
    let holds = |conditions, empty| evaluate(conditions, cluster, empty, rule.created).holds;
    rule.selects(cluster)
        && rule.item(taint).is_some()
        && match rule.spelling {
            Spelling::Match => !holds(rule.add, true),
            Spelling::AddRemove => !holds(rule.add, false) && holds(rule.remove, false),
        }
}

/// The moments at which a cluster or a policy came to be count where there are no conditions (B69).
fn born(cluster: &Cluster, rule: &Rule<'_>) -> Timestamp {
    let cluster = cluster.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    cluster.max(rule.created)
}

/// Follows the predicates of a rule on a cluster.
fn watch(rule: &Rule<'_>, cluster: &Cluster, before: Option<Watches>, now: Timestamp, mono: Duration) -> Watches {
    let start = born(cluster, rule);
    let follow = |before: Option<Stopwatch>, conditions, empty| {
        Stopwatch::follow(before, evaluate(conditions, cluster, empty, start), now, mono)
    };
    let add = follow(before.map(|w| w.add), rule.add, rule.spelling == Spelling::Match);
    let remove = match rule.spelling {
        Spelling::Match => add.opposite(),
        Spelling::AddRemove => follow(before.map(|w| w.remove), rule.remove, false),
    };
    Watches { add, remove }
}
