//! Capacity of one cluster in the resources that one workload requests, to compute what fits once other workloads have
//! left (specification/scheduling.md 15.4).

use std::sync::Arc;

use ironclad_fleet::ClusterName;

use super::{
    Asker, Capacity, Counting, LARGEST,
    demand::{self, Amounts, Demand},
    footprint::{Footprint, Place, Share},
    free::{Assumed, PODS},
};

/// Amounts that one replica or one set of a workload requests, `pods` among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request(Arc<[Requested]>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requested {
    resource: Arc<str>,
    place: Place,
    /// Greater than 0.
    each: i64,
}

impl Request {
    /// Request of one replica or one set.
    #[must_use]
    pub fn of(demand: &Demand) -> Self {
        let parts = demand.clone().into_parts();
        let mut each = demand::total(&parts);
        each.insert(PODS.to_owned(), demand::pods(&parts).max(1));
        each.retain(|_, amount| *amount > 0);
        Self(
            each.into_iter()
                .map(|(resource, each)| Requested { place: Place::of(&resource), resource, each })
                .collect(),
        )
    }
}

/// Free amounts of one cluster in the resources that a workload requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    request: Request,
    /// Free amounts in the order of the request; negative where requests exceed what is allocatable.
    free: Amounts,
}

impl Capacity {
    /// Room of a cluster for this request, beside what is held for preemptors that the asker yields to, and the measure
    /// of how much of the cluster a footprint takes. `None` if the cluster is unknown or reports no summary.
    #[must_use]
    pub(crate) fn room(
        &self,
        cluster: &ClusterName,
        request: &Request,
        counting: Counting,
        asker: &Asker<'_>,
    ) -> Option<(Room, Share<'_>)> {
        let slot = self.slots.get(cluster)?;
        let free = slot.free.as_ref().filter(|free| free.has_summary())?;
        let nothing = Assumed::default();
        let taken = match counting {
            Counting::Reported => &nothing,
            Counting::Assumed => &slot.assumed,
        };
        let held = slot.held(asker, taken, None);
        let taken = held.as_ref().map_or(taken, |(taken, _)| taken);
        let left = request.0.iter().map(|requested| free.left(&requested.resource, taken)).collect();
        let share = Share::new(move |resource| free.allocatable(resource));
        Some((Room { request: request.clone(), free: left }, share))
    }
}

impl Room {
    /// Requested and free amounts.
    fn amounts_of(&self) -> impl Iterator<Item = (i64, i64)> {
        self.request.0.iter().map(|requested| requested.each).zip(self.free.iter().copied())
    }

    /// Replicas or sets that fit by the summary alone, `s_c({})`.
    #[must_use]
    pub fn base(&self) -> i64 {
        self.amounts_of().map(|(each, free)| free.max(0) / each).min().unwrap_or(0).clamp(0, LARGEST)
    }

    /// Further replicas or sets that fit once these amounts, in the order of [`Room::amounts`], are free too.
    #[must_use]
    pub fn gain(&self, freed: &[i64]) -> i64 {
        let often = |((each, free), freed): ((i64, i64), &i64)| free.saturating_add(*freed).max(0) / each;
        let fits = self.amounts_of().zip(freed).map(often).min().unwrap_or(0);
        fits.clamp(0, LARGEST).saturating_sub(self.base()).max(0)
    }

    /// Amounts that have to become free for `more` further replicas or sets, in the order of [`Room::amounts`]; 0 where
    /// enough is free. At most what 64 bits hold.
    #[must_use]
    pub(crate) fn missing(&self, more: i64) -> Amounts {
        let count = self.base().saturating_add(more);
        self.amounts_of().map(|(each, free)| each.saturating_mul(count).saturating_sub(free).max(0)).collect()
    }

    /// The part of a footprint that the workload can use: one amount by requested resource.
    #[must_use]
    pub(crate) fn amounts(&self, footprint: &Footprint) -> Amounts {
        self.request.0.iter().map(|requested| footprint.get(requested.place, &requested.resource)).collect()
    }

    /// Number of requested resources.
    #[must_use]
    pub fn width(&self) -> usize {
        self.free.len()
    }
}
