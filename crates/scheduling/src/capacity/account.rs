//! The account of one cluster by resource, for people.

use std::collections::BTreeMap;

use ironclad_fleet::ClusterName;

use super::{
    Capacity,
    free::{Assumed, PODS},
};

/// Amounts of one resource: millicores of `cpu`, whole units of everything else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    /// Amount that nodes offer.
    pub offered: i64,
    /// Requests of pods that hold it, or wait for a node.
    pub observed: i64,
    /// Promised to bindings, and not observed yet.
    pub promised: i64,
    /// Held for preemptors.
    pub held: i64,
}

impl Account {
    /// Amount that is left; negative where requests exceed what is offered.
    #[must_use]
    pub fn free(&self) -> i64 {
        [self.observed, self.promised, self.held].into_iter().fold(self.offered, i64::saturating_sub)
    }
}

impl Capacity {
    /// The account of a cluster for each resource that its nodes offer: by node where nodes and pods are watched, else
    /// by its summary. `None` if the cluster is unknown or reports no summary.
    #[must_use]
    pub fn account(&self, cluster: &ClusterName) -> Option<BTreeMap<String, Account>> {
        let slot = self.slots.get(cluster)?;
        let (mut held, mut promised) = (Assumed::default(), slot.assumed.clone());
        slot.nominated.values().for_each(|nominated| held.add(&nominated.parts, nominated.count));
        let of = |resource: &str, offered: i64, taken: i64, promised: &Assumed| {
            let (promised, held) = (amount(promised, resource), amount(&held, resource));
            (resource.to_owned(), Account { offered, observed: taken, promised, held })
        };
        if let Some(index) = &slot.watched {
            self.promised_in(cluster).for_each(|(_, parts, due)| promised.add(parts, due));
            let (free, offered) = index.totals();
            let by_node = |(resource, offered): (&str, &i64)| {
                // Promised pods have a node there already.
                let free = free.get(resource).copied().unwrap_or(0);
                let taken = offered.saturating_sub(free).saturating_sub(amount(&promised, resource)).max(0);
                of(resource, *offered, taken, &promised)
            };
            return Some(offered.iter().map(by_node).collect());
        }
        let reported = slot.reported.as_ref().filter(|reported| reported.has_summary())?;
        let nothing = Assumed::default();
        let by_summary = |resource: &str| {
            let offered = reported.allocatable(resource);
            of(resource, offered, offered.saturating_sub(reported.left(resource, &nothing)), &promised)
        };
        Some(reported.resources().map(by_summary).collect())
    }
}

fn amount(of: &Assumed, resource: &str) -> i64 {
    if resource == PODS { of.pods } else { of.amounts.get(resource).copied().unwrap_or(0) }
}
