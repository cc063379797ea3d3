//! Question to the account of a cluster, or to an estimator over gRPC: how many more replicas or component sets fit
//! (specification/scheduling.md 10).

use std::cmp::Ordering;

use ironclad_api::work::{Component, NodeClaim, ReplicaRequirements, ResourceBindingSpec};

use super::Claim;
use crate::capacity::demand::{Demand, Part, Units, parts, units};

/// A pod as an estimator sees it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodTemplate {
    /// Resource request: millicores of `cpu`, whole units of everything else.
    pub request: Units,
    /// Requirements on its node.
    pub claim: Claim,
    /// `spec.priorityClassName`, for quotas.
    pub priority_class: String,
}

/// One component of a set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SetPart {
    /// Pods of one set.
    pub replicas: i64,
    /// Each of these pods.
    pub template: PodTemplate,
}

/// Workload that is to be placed.
#[derive(Debug, Clone, PartialEq)]
pub enum Wanted {
    /// Replicas of one pod template.
    Replicas(PodTemplate),
    /// Complete sets of several pod templates.
    Sets(Vec<SetPart>),
}

/// A question. Equal questions have equal answers.
#[derive(Debug, Clone)]
pub struct Question {
    /// Namespace of the pods, for quotas; empty if unknown.
    pub namespace: String,
    /// Resource request.
    pub(crate) demand: Demand,
    /// The workload.
    pub wanted: Wanted,
    /// Claims and priority classes as text; empty if there are none.
    claims: String,
}

impl Question {
    fn key(&self) -> (&str, &Demand, &str) {
        (&self.namespace, &self.demand, &self.claims)
    }
}

impl PartialEq for Question {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Question {}

impl PartialOrd for Question {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Question {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PodTemplate {
    fn of(needs: Option<&ReplicaRequirements>) -> Self {
        needs.map_or_else(Self::default, |needs| Self {
            request: positive(units(&needs.resource_request)),
            claim: Claim::from(needs.node_claim.as_ref()),
            priority_class: needs.priority_class_name.clone(),
        })
    }
}

impl SetPart {
    /// Reads one component.
    #[must_use]
    pub fn of(component: &Component) -> Self {
        let template = component.replica_requirements.as_ref().map(|needs| PodTemplate {
            request: positive(units(&needs.resource_request)),
            claim: Claim::from(needs.node_claim.as_ref()),
            priority_class: needs.priority_class_name.clone(),
        });
        Self { replicas: i64::from(component.replicas.max(0)), template: template.unwrap_or_default() }
    }
}

impl Question {
    /// Question about one binding. `sets`: its components are placed as complete sets (specification/scheduling.md 9).
    #[must_use]
    pub fn of(spec: &ResourceBindingSpec, sets: bool) -> Self {
        if sets {
            return Self::sets(&spec.resource.namespace, &spec.components);
        }
        let needs = spec.replica_requirements.as_deref();
        let namespace = needs.map(|needs| needs.namespace.as_str()).filter(|name| !name.is_empty());
        Self::replicas(namespace.unwrap_or(&spec.resource.namespace), needs)
    }

    /// Question about replicas with these requirements.
    #[must_use]
    pub fn replicas(namespace: &str, needs: Option<&ReplicaRequirements>) -> Self {
        let claims = needs.map(|needs| (needs.node_claim.as_ref(), needs.priority_class_name.as_str()));
        let wanted = Wanted::Replicas(PodTemplate::of(needs));
        Self { namespace: namespace.to_owned(), demand: Demand::replica(needs), wanted, claims: text(&[claims]) }
    }

    /// Question about complete sets of these components.
    #[must_use]
    pub fn sets(namespace: &str, components: &[Component]) -> Self {
        let needs = components.iter().map(|component| component.replica_requirements.as_ref());
        let claims: Vec<_> = needs
            .map(|needs| needs.map(|needs| (needs.node_claim.as_ref(), needs.priority_class_name.as_str())))
            .collect();
        let wanted = Wanted::Sets(components.iter().map(SetPart::of).collect());
        Self { namespace: namespace.to_owned(), demand: Demand::Set(parts(components)), wanted, claims: text(&claims) }
    }

    /// Pods of one replica or one set.
    #[must_use]
    pub fn parts(&self) -> Vec<SetPart> {
        match &self.wanted {
            Wanted::Replicas(template) => vec![SetPart { replicas: 1, template: template.clone() }],
            Wanted::Sets(parts) => parts.clone(),
        }
    }
}

/// Claims and priority classes as text, which can be compared; empty if there are none.
fn text(claims: &[Option<(Option<&NodeClaim>, &str)>]) -> String {
    let is_none = |claim: &Option<(Option<&NodeClaim>, &str)>| {
        claim.is_none_or(|(claim, class)| claim.is_none() && class.is_empty())
    };
    if claims.iter().all(is_none) { String::new() } else { serde_json::to_string(claims).unwrap_or_default() }
}

/// Assumed replicas or sets of a binding as an index places them: the counted requests, with the node claims of the
/// binding.
#[must_use]
pub fn assumed_parts(spec: &ResourceBindingSpec, parts: &[Part]) -> Vec<SetPart> {
    let claims: Vec<SetPart> = if parts.len() == spec.components.len() && !parts.is_empty() {
        spec.components.iter().map(SetPart::of).collect()
    } else {
        let template = PodTemplate::of(spec.replica_requirements.as_deref());
        vec![SetPart { replicas: 1, template }; parts.len()]
    };
    let part = |(part, claim): (&Part, SetPart)| {
        let template = PodTemplate { request: positive(part.request.clone()), ..claim.template };
        SetPart { replicas: part.replicas, template }
    };
    parts.iter().zip(claims).map(part).collect()
}

fn positive(mut request: Units) -> Units {
    request.retain(|_, amount| *amount > 0);
    request
}
