//! A cluster that passed the filters, with the figures that selection and division look at (specification/scheduling.md 7.1).

use std::{cmp::Reverse, sync::Arc};

use ironclad_fleet::ClusterName;

/// A feasible cluster. `sort` puts the preferred ones first; the name makes the order total.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Which cluster.
    pub name: ClusterName,
    /// Its region, empty if it names none.
    pub region: Arc<str>,
    /// Which tier of the affinity group opens it: 0 is the group itself (4.3).
    pub tier: u32,
    /// The sum of the scores (6).
    pub score: i64,
    /// Further replicas (or component sets) that fit, by the estimators.
    pub allocatable: i64,
    /// True if an estimator said so; else nobody knows, and whatever is wanted fits.
    pub estimated: bool,
    /// Replicas that this binding has there already.
    pub assigned: i64,
    /// Nothing is dispatched there for the time being: what it has stays when the rest is scaled down (16.30).
    pub suspended: bool,
}

impl Candidate {
    /// Total replicas that this binding could have there.
    #[must_use]
    pub fn available(&self) -> i64 {
        self.allocatable.saturating_add(self.assigned)
    }

    /// Sorts by [`Preference`].
    pub fn sort(candidates: &mut [Self]) {
        candidates.sort_by(|a, b| a.preference().cmp(&b.preference()));
    }

    fn preference(&self) -> Preference<'_> {
        Preference {
            tier: self.tier,
            score: Reverse(self.score),
            available: Reverse(self.available()),
            name: &self.name,
        }
    }
}

/// The order of candidates, lowest first (specification/scheduling.md 7.1). Fields are compared in the order of their declaration.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Preference<'a> {
    /// Clusters of the affinity group itself precede those of its overflow tiers.
    tier: u32,
    /// A higher score first.
    score: Reverse<i64>,
    /// More capacity for this binding first.
    available: Reverse<i64>,
    /// The name makes the order total.
    name: &'a ClusterName,
}
