//! Resource request of a workload, in whole units (specification/scheduling.md 10.2, 10.3).

use ironclad_api::{
    ResourceList,
    quantity::Amount,
    work::{Component, ReplicaRequirements, ResourceBindingSpec},
};
use smallvec::SmallVec;

pub use super::units::Units;

/// Resource that is counted in thousandths.
const CPU: &str = "cpu";

/// Amounts in the order of the resources that a workload requests.
pub(crate) type Amounts = SmallVec<[i64; 4]>;

/// Pod template of a component set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// Pods in one set.
    pub replicas: i64,
    /// Request of each pod.
    pub request: Units,
}

/// Request that an estimate divides capacity by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Demand {
    /// One replica without a request: it needs one pod.
    Pod,
    /// One replica with this request.
    Replica(Units),
    /// One complete set of several pod templates.
    Set(Vec<Part>),
}

impl Demand {
    /// Creates the demand of a binding. `sets`: its components are placed as complete sets
    /// (specification/scheduling.md 9).
    #[must_use]
    pub fn of(spec: &ResourceBindingSpec, sets: bool) -> Self {
        if sets {
            return Self::Set(parts(&spec.components));
        }
        Self::replica(spec.replica_requirements.as_deref())
    }

    /// Creates the demand of a replica with these requirements.
    #[must_use]
    pub fn replica(needs: Option<&ReplicaRequirements>) -> Self {
        needs.map_or(Self::Pod, |needs| Self::Replica(request(needs)))
    }

    /// Pods of one replica or one set.
    #[must_use]
    pub fn into_parts(self) -> Vec<Part> {
        match self {
            Self::Pod => vec![Part { replicas: 1, request: Units::new() }],
            Self::Replica(request) => vec![Part { replicas: 1, request }],
            Self::Set(parts) => parts,
        }
    }
}

/// Parts of these components.
#[must_use]
pub fn parts(components: &[Component]) -> Vec<Part> {
    let part = |component: &Component| Part {
        replicas: i64::from(component.replicas.max(0)),
        request: component
            .replica_requirements
            .as_ref()
            .map(|needs| units(&needs.resource_request))
            .unwrap_or_default(),
    };
    components.iter().map(part).collect()
}

fn request(needs: &ReplicaRequirements) -> Units {
    let mut request = units(&needs.resource_request);
    request.retain(|_, amount| *amount > 0);
    request
}

/// List in whole units, rounded up, without unreadable quantities.
#[must_use]
pub fn units(list: &ResourceList) -> Units {
    let all = list.iter();
    all.filter_map(|(name, quantity)| Some((name.as_str(), in_units(name, Amount::try_from(quantity).ok()?)))).collect()
}

/// Amount of one resource in whole units.
#[must_use]
pub fn in_units(resource: &str, amount: Amount) -> i64 {
    if resource == CPU { amount.milli_value() } else { amount.value() }
}

/// Total request of one component set.
#[must_use]
pub fn total(parts: &[Part]) -> Units {
    let mut sum = Units::new();
    for part in parts {
        for (resource, amount) in &part.request {
            let entry = sum.entry(resource).or_default();
            *entry = entry.saturating_add(amount.saturating_mul(part.replicas));
        }
    }
    sum
}

/// Number of pods of one set.
#[must_use]
pub fn pods(parts: &[Part]) -> i64 {
    parts.iter().fold(0, |sum, part| sum.saturating_add(part.replicas))
}
