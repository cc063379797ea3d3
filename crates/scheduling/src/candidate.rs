//! Candidate: a cluster that passed the filters, with the figures that selection and division use
//! (specification/scheduling.md 7.1).

use std::{borrow::Borrow, cmp::Reverse, sync::Arc};

use ironclad_fleet::ClusterName;

/// A feasible cluster. `sort` puts preferred ones first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub name: ClusterName,
    /// Groups that the cluster is in, for each constraint of [`crate::spread::Spread::Groups`] in its order; empty
    /// for other selection rules.
    pub groups: Vec<Vec<Arc<str>>>,
    /// Tier of the affinity group that selects it: 0 is the group itself (specification/scheduling.md 4.3).
    pub tier: u32,
    /// Sum of the scores (specification/scheduling.md 6).
    pub score: i64,
    /// Further replicas (or component sets) that fit, by the estimators.
    pub allocatable: i64,
    /// True if an estimator answered; otherwise any requested count fits.
    pub estimated: bool,
    /// Replicas that this binding already has there.
    pub assigned: i64,
    /// True if dispatching to the cluster is suspended: its replicas stay when the rest is scaled down
    /// (specification/scheduling.md 16.30).
    pub suspended: bool,
}

impl Candidate {
    /// Total replicas of this binding that fit there.
    #[must_use]
    pub fn available(&self) -> i64 {
        self.allocatable.saturating_add(self.assigned)
    }

    /// Sorts by [`Preference`].
    pub fn sort<C: Borrow<Self>>(candidates: &mut [C]) {
        candidates.sort_unstable_by(|a, b| a.borrow().preference().cmp(&b.borrow().preference()));
    }

    fn preference(&self) -> Preference<'_> {
        preference(self.tier, self.score, self.available(), &self.name)
    }
}

/// The place of a candidate with these figures in the order of candidates.
pub(crate) fn preference(tier: u32, score: i64, available: i64, name: &ClusterName) -> Preference<'_> {
    Preference { tier, score: Reverse(score), available: Reverse(available), name }
}

/// Order of candidates, lowest first (specification/scheduling.md 7.1). Fields are compared in the order of their
/// declaration.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Preference<'a> {
    /// Clusters of the affinity group itself precede those of its overflow tiers.
    tier: u32,
    /// A higher score first.
    score: Reverse<i64>,
    /// More capacity for this binding first.
    available: Reverse<i64>,
    /// The name makes the order total.
    name: &'a ClusterName,
}
