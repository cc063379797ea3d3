//! Both spellings of a ClusterTaintPolicy as one rule (specification/failover.md 2.1, IR-4).

use std::time::Duration;

use ironclad_api::{
    cluster::Cluster,
    policy::{ClusterAffinity, ClusterTaintPolicy, ClusterTaintPolicySpec, MatchCondition},
};
use ironclad_fleet::affinity;
use jiff::Timestamp;

use crate::taints::TaintId;

/// The window of the seed's spelling before a taint is added, if the policy names none.
const ADD_AFTER: i32 = 300;
/// The same before it is removed.
const REMOVE_AFTER: i32 = 180;

/// Which words a policy uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// `matchConditions` and `taintsToAdd`: added taints, and only those, are removed when the conditions no longer
    /// match.
    Match,
    /// `addOnConditions`, `removeOnConditions` and `taints`: two predicates, whoever put the taint.
    AddRemove,
}

impl Spelling {
    /// The spelling of a policy.
    ///
    /// # Errors
    /// If it mixes both.
    pub(crate) fn of(spec: &ClusterTaintPolicySpec) -> Result<Self, Mixed> {
        let add_remove = spec.target_clusters.is_some()
            || !spec.add_on_conditions.is_empty()
            || !spec.remove_on_conditions.is_empty()
            || !spec.taints.is_empty();
        let matching =
            spec.target_cluster.is_some() || !spec.match_conditions.is_empty() || !spec.taints_to_add.is_empty();
        match (matching, add_remove) {
            (true, true) => Err(Mixed),
            (false, true) => Ok(Self::AddRemove),
            (_, false) => Ok(Self::Match),
        }
    }
}

/// A policy uses both spellings at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "targetCluster/matchConditions/taintsToAdd can not co-exist with \
     targetClusters/addOnConditions/removeOnConditions/taints"
)]
pub(crate) struct Mixed;

/// One taint of a rule, with its windows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    pub(crate) id: TaintId,
    pub(crate) value: &'a str,
    pub(crate) add_after: Duration,
    pub(crate) remove_after: Duration,
}

/// A policy, prepared for evaluation.
#[derive(Debug, Clone)]
pub(crate) struct Rule<'a> {
    pub(crate) policy: &'a ClusterTaintPolicy,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) generation: i64,
    pub(crate) created: Timestamp,
    pub(crate) targets: Option<&'a ClusterAffinity>,
    pub(crate) spelling: Spelling,
    /// Taints are required if all of these hold.
    pub(crate) add: &'a [MatchCondition],
    /// Taints are removed if all of these hold. Only of [`Spelling::AddRemove`].
    pub(crate) remove: &'a [MatchCondition],
    pub(crate) items: Vec<Item<'a>>,
}

impl<'a> Rule<'a> {
    /// The rule that a policy means.
    ///
    /// # Errors
    /// If it mixes both spellings, which admission refuses.
    pub(crate) fn of(policy: &'a ClusterTaintPolicy) -> Result<Self, Mixed> {
        let (meta, spec) = (&policy.metadata, &policy.spec);
        let spelling = Spelling::of(spec)?;
        let seconds = |given: Option<i32>, default: i32| {
            Duration::from_secs(u64::try_from(given.unwrap_or(default)).unwrap_or_default())
        };
        let (targets, add, remove, items) = match spelling {
            Spelling::Match => {
                let item = |taint: &'a ironclad_api::policy::TaintToAdd| Item {
                    id: TaintId::new(&taint.key, &taint.effect),
                    value: &taint.value,
                    add_after: seconds(taint.add_on_match_seconds, ADD_AFTER),
                    remove_after: seconds(taint.remove_on_mismatch_seconds, REMOVE_AFTER),
                };
                let items = spec.taints_to_add.iter().map(item).collect();
                (spec.target_cluster.as_ref(), &spec.match_conditions, &[][..], items)
            }
            Spelling::AddRemove => {
                let item = |taint: &'a ironclad_api::policy::PolicyTaint| Item {
                    id: TaintId::new(&taint.key, &taint.effect),
                    value: &taint.value,
                    add_after: seconds(taint.add_on_match_seconds, 0),
                    remove_after: seconds(taint.remove_on_mismatch_seconds, 0),
                };
                let items = spec.taints.iter().map(item).collect();
                (spec.target_clusters.as_ref(), &spec.add_on_conditions, spec.remove_on_conditions.as_slice(), items)
            }
        };
        Ok(Self {
            policy,
            name: meta.name.as_deref().unwrap_or_default(),
            uid: meta.uid.as_deref().unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            targets,
            spelling,
            add,
            remove,
            items,
        })
    }

    /// True if it is about this cluster.
    pub(crate) fn selects(&self, cluster: &Cluster) -> bool {
        self.targets.is_none_or(|targets| affinity::chooses(targets, cluster))
    }

    /// Its item for this taint.
    pub(crate) fn item(&self, taint: &TaintId) -> Option<&Item<'a>> {
        self.items.iter().find(|item| item.id == *taint)
    }
}
