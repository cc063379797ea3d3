//! Conversion between the messages of the protocol and the types of the API.

use std::collections::BTreeMap;

use ironclad_api::{self as api, ResourceList, work};
use prost::{DecodeError, Message as _};

use crate::proto;

/// Message that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{field} cannot be read")]
pub(crate) struct Unreadable {
    field: &'static str,
    #[source]
    source: DecodeError,
}

/// Decoder of one field.
fn decoded<M: prost::Message + Default>(field: &'static str, bytes: &[u8]) -> Result<M, Unreadable> {
    M::decode(bytes).map_err(|source| Unreadable { field, source })
}

pub(crate) fn requirements(needs: &work::ReplicaRequirements) -> proto::ReplicaRequirements {
    proto::ReplicaRequirements {
        node_claim: needs.node_claim.as_ref().map(claim),
        namespace: needs.namespace.clone(),
        priority_class_name: needs.priority_class_name.clone(),
        resource_request_bytes: quantities(&needs.resource_request),
    }
}

pub(crate) fn read_requirements(message: &proto::ReplicaRequirements) -> Result<work::ReplicaRequirements, Unreadable> {
    Ok(work::ReplicaRequirements {
        node_claim: message.node_claim.as_ref().map(read_claim).transpose()?,
        resource_request: read_quantities(&message.resource_request_bytes)?,
        namespace: message.namespace.clone(),
        priority_class_name: message.priority_class_name.clone(),
    })
}

pub(crate) fn component(component: &work::Component) -> proto::Component {
    let needs = |needs: &work::ComponentReplicaRequirements| proto::ComponentReplicaRequirements {
        node_claim: needs.node_claim.as_ref().map(claim),
        priority_class_name: needs.priority_class_name.clone(),
        resource_request_bytes: quantities(&needs.resource_request),
    };
    proto::Component {
        name: component.name.clone(),
        replica_requirements: component.replica_requirements.as_ref().map(needs),
        replicas: component.replicas,
    }
}

pub(crate) fn read_component(message: &proto::Component) -> Result<work::Component, Unreadable> {
    let needs = |needs: &proto::ComponentReplicaRequirements| {
        Ok(work::ComponentReplicaRequirements {
            node_claim: needs.node_claim.as_ref().map(read_claim).transpose()?,
            resource_request: read_quantities(&needs.resource_request_bytes)?,
            priority_class_name: needs.priority_class_name.clone(),
        })
    };
    Ok(work::Component {
        name: message.name.clone(),
        replicas: message.replicas,
        replica_requirements: message.replica_requirements.as_ref().map(needs).transpose()?,
    })
}

fn quantities(list: &ResourceList) -> BTreeMap<String, Vec<u8>> {
    let bytes = |quantity: &api::Quantity| proto::Quantity { string: Some(quantity.0.clone()) }.encode_to_vec();
    list.iter().map(|(name, quantity)| (name.clone(), bytes(quantity))).collect()
}

fn read_quantities(map: &BTreeMap<String, Vec<u8>>) -> Result<ResourceList, Unreadable> {
    let read = |(name, bytes): (&String, &Vec<u8>)| {
        let quantity: proto::Quantity = decoded("resourceRequestBytes", bytes)?;
        Ok((name.clone(), api::Quantity(quantity.string.unwrap_or_else(|| "0".to_owned()))))
    };
    map.iter().map(read).collect()
}

fn claim(claim: &work::NodeClaim) -> proto::NodeClaim {
    proto::NodeClaim {
        node_selector: claim.node_selector.clone(),
        node_affinity_bytes: claim
            .hard_node_affinity
            .as_ref()
            .map(|all| selector(all).encode_to_vec())
            .unwrap_or_default(),
        tolerations_bytes: claim.tolerations.iter().map(|one| toleration(one).encode_to_vec()).collect(),
    }
}

fn read_claim(message: &proto::NodeClaim) -> Result<work::NodeClaim, Unreadable> {
    let affinity = match message.node_affinity_bytes.as_slice() {
        [] => None,
        bytes => Some(read_selector(decoded("nodeAffinityBytes", bytes)?)),
    };
    let tolerations = message.tolerations_bytes.iter();
    let tolerations = tolerations.map(|bytes| Ok(read_toleration(decoded("tolerationsBytes", bytes)?)));
    Ok(work::NodeClaim {
        hard_node_affinity: affinity,
        node_selector: message.node_selector.clone(),
        tolerations: tolerations.collect::<Result<_, Unreadable>>()?,
    })
}

fn selector(selector: &api::NodeSelector) -> proto::NodeSelector {
    let requirement = |one: &api::NodeSelectorRequirement| proto::NodeSelectorRequirement {
        key: Some(one.key.clone()),
        operator: Some(one.operator.clone()),
        values: one.values.clone().unwrap_or_default(),
    };
    let all = |list: &Option<Vec<api::NodeSelectorRequirement>>| list.iter().flatten().map(requirement).collect();
    let term = |term: &api::NodeSelectorTerm| proto::NodeSelectorTerm {
        match_expressions: all(&term.match_expressions),
        match_fields: all(&term.match_fields),
    };
    proto::NodeSelector { node_selector_terms: selector.node_selector_terms.iter().map(term).collect() }
}

fn read_selector(message: proto::NodeSelector) -> api::NodeSelector {
    let requirement = |one: proto::NodeSelectorRequirement| api::NodeSelectorRequirement {
        key: one.key.unwrap_or_default(),
        operator: one.operator.unwrap_or_default(),
        values: (!one.values.is_empty()).then_some(one.values),
    };
    let all = |list: Vec<proto::NodeSelectorRequirement>| {
        (!list.is_empty()).then(|| list.into_iter().map(requirement).collect())
    };
    let term = |term: proto::NodeSelectorTerm| api::NodeSelectorTerm {
        match_expressions: all(term.match_expressions),
        match_fields: all(term.match_fields),
    };
    api::NodeSelector { node_selector_terms: message.node_selector_terms.into_iter().map(term).collect() }
}

/// Kubernetes encodes these four texts even if they are empty.
fn toleration(toleration: &api::Toleration) -> proto::Toleration {
    let text = |text: &Option<String>| Some(text.clone().unwrap_or_default());
    proto::Toleration {
        key: text(&toleration.key),
        operator: text(&toleration.operator),
        value: text(&toleration.value),
        effect: text(&toleration.effect),
        toleration_seconds: toleration.toleration_seconds,
    }
}

fn read_toleration(message: proto::Toleration) -> api::Toleration {
    let text = |text: Option<String>| text.filter(|text| !text.is_empty());
    api::Toleration {
        key: text(message.key),
        operator: text(message.operator),
        value: text(message.value),
        effect: text(message.effect),
        toleration_seconds: message.toleration_seconds,
    }
}
