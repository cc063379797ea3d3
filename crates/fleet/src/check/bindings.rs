//! Claims, and what bindings say.

use std::collections::{BTreeMap, BTreeSet};

use ironclad_api::{
    ObjectMeta, annotations, conditions, labels,
    policy::{ActivationPreference, PropagationSpec, ReplicaSchedulingType},
    work::{ResourceBindingSpec, ResourceBindingStatus},
};
use serde_json::Value;

use super::Violation;
use crate::{BindingKey, ClusterName, Gvk, ObjectKey, PolicyKey, World, targets};

/// Label, and annotations of namespace and name, of the claims of both kinds of policies.
const NAMESPACED: (&str, &str, &str) = (
    labels::PROPAGATION_POLICY_PERMANENT_ID,
    annotations::PROPAGATION_POLICY_NAMESPACE,
    annotations::PROPAGATION_POLICY_NAME,
);
const CLUSTER: (&str, &str) =
    (labels::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID, annotations::CLUSTER_PROPAGATION_POLICY_NAME);

/// Claim on an object: kind of the policy, and its id.
type Claim = (PolicyKey, String);

fn value<'a>(object: &'a Value, map: &str, key: &str) -> &'a str {
    object.get("metadata").and_then(|m| m.get(map)).and_then(|m| m.get(key)).and_then(Value::as_str).unwrap_or_default()
}

fn namespaced(label: impl Fn(&str) -> String, annotation: impl Fn(&str) -> String) -> Option<Claim> {
    let (id, namespace, name) = (label(NAMESPACED.0), annotation(NAMESPACED.1), annotation(NAMESPACED.2));
    let complete = !id.is_empty() && !namespace.is_empty() && !name.is_empty();
    complete.then(|| (PolicyKey { namespace: namespace.into(), name: name.into() }, id))
}

fn cluster(label: impl Fn(&str) -> String, annotation: impl Fn(&str) -> String) -> Option<Claim> {
    let (id, name) = (label(CLUSTER.0), annotation(CLUSTER.1));
    (!id.is_empty() && !name.is_empty()).then(|| (PolicyKey { namespace: "".into(), name: name.into() }, id))
}

fn of_template(template: &Value) -> [Option<Claim>; 2] {
    let label = |key: &str| value(template, "labels", key).to_owned();
    let annotation = |key: &str| value(template, "annotations", key).to_owned();
    [namespaced(label, annotation), cluster(label, annotation)]
}

fn of_metadata(metadata: &ObjectMeta) -> Option<Claim> {
    let of = |map: &Option<BTreeMap<String, String>>, key: &str| {
        map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default()
    };
    let label = |key: &str| of(&metadata.labels, key);
    let annotation = |key: &str| of(&metadata.annotations, key);
    namespaced(label, annotation).or_else(|| cluster(label, annotation))
}

/// One template has at most one owning policy, and that exists.
pub(super) fn claims(world: &World, found: &mut Vec<Violation>) {
    for (key, template) in &world.templates {
        let [namespaced, cluster] = of_template(template);
        if namespaced.is_some() && cluster.is_some() {
            found.push(Violation::TwoClaims { template: key.clone() });
        }
        let Some((policy, id)) = namespaced.or(cluster) else { continue };
        let claimant = world
            .policies
            .get(&policy)
            .map(|p| (&p.metadata, &p.spec))
            .or_else(|| world.cluster_policies.get(&policy).map(|p| (&p.metadata, &p.spec)));
        let metadata = claimant.map(|(metadata, _)| metadata);
        let label = if policy.namespace.is_empty() { CLUSTER.0 } else { NAMESPACED.0 };
        let exists = metadata.is_some_and(|m| m.labels.as_ref().and_then(|l| l.get(label)) == Some(&id));
        if !exists {
            found.push(Violation::ClaimantMissing { template: key.clone(), policy });
        } else if claimant.is_some_and(|(metadata, spec)| binds_at_once(metadata, spec))
            && template.pointer("/metadata/deletionTimestamp").is_none()
            && value(template, "labels", labels::CLAIMED_BY).is_empty()
            && world.binding_of(key).is_none()
        {
            found.push(Violation::BindingMissing { template: key.clone(), policy });
        }
    }
}

/// Returns true if the policy makes bindings for the templates that it claims without waiting for anything.
fn binds_at_once(metadata: &ObjectMeta, spec: &PropagationSpec) -> bool {
    metadata.deletion_timestamp.is_none()
        && spec.dependent_overrides.is_empty()
        && spec.activation_preference != Some(ActivationPreference::Lazy)
}

/// A binding of either kind.
struct Seen<'a> {
    key: &'a BindingKey,
    metadata: &'a ObjectMeta,
    spec: &'a ResourceBindingSpec,
    status: Option<&'a ResourceBindingStatus>,
}

fn all(world: &World) -> impl Iterator<Item = Seen<'_>> {
    let namespaced = world.bindings.iter().map(|(key, b)| Seen {
        key,
        metadata: &b.metadata,
        spec: &b.spec,
        status: b.status.as_ref(),
    });
    let cluster = world.cluster_bindings.iter().map(|(key, b)| Seen {
        key,
        metadata: &b.metadata,
        spec: &b.spec,
        status: b.status.as_ref(),
    });
    namespaced.chain(cluster)
}

/// Bindings are consistent with themselves, their templates and the clusters.
pub(super) fn bindings(world: &World, found: &mut Vec<Violation>) {
    let mut by_template: BTreeMap<(String, &str, &str, &str), &BindingKey> = BTreeMap::new();
    let mut ids: BTreeMap<&str, &BindingKey> = BTreeMap::new();
    for binding in all(world) {
        let resource = &binding.spec.resource;
        let template = ObjectKey {
            gvk: Gvk::from_manifest(&resource.api_version, &resource.kind),
            namespace: resource.namespace.as_str().into(),
            name: resource.name.as_str().into(),
        };
        let same = (template.gvk.group.to_string(), &*resource.kind, &*resource.namespace, &*resource.name);
        // A cluster-scoped object that workloads need may have a binding in a namespace besides that of its policy.
        let is_attached = resource.namespace.is_empty() && !binding.key.namespace.is_empty();
        if !is_attached && let Some(first) = by_template.insert(same, binding.key) {
            let (first, second) = (first.clone(), binding.key.clone());
            found.push(Violation::TwoBindings { template: template.clone(), first, second });
        }
        let label = if binding.key.namespace.is_empty() {
            labels::CLUSTER_RESOURCE_BINDING_PERMANENT_ID
        } else {
            labels::RESOURCE_BINDING_PERMANENT_ID
        };
        if let Some(id) = binding.metadata.labels.as_ref().and_then(|l| l.get(label)).filter(|id| !id.is_empty())
            && let Some(first) = ids.insert(id, binding.key)
        {
            let (first, second) = (format!("binding {first}"), format!("binding {}", binding.key));
            found.push(Violation::IdShared { id: id.clone(), first, second });
        }
        if binding.metadata.deletion_timestamp.is_some() {
            continue;
        }
        if binding.spec.placement.is_some()
            && let Some(object) = world.templates.get(&template)
        {
            let [namespaced, cluster] = of_template(object);
            if of_metadata(binding.metadata) != namespaced.or(cluster) {
                found.push(Violation::ClaimsDiffer { binding: binding.key.clone(), template });
            }
        }
        placement(&binding, found);
        clusters(world, &binding, found);
    }
}

/// Divided parts add up, duplicated ones are whole: where the scheduler has finished with this generation.
fn placement(binding: &Seen<'_>, found: &mut Vec<Violation>) {
    let spec = binding.spec;
    let mut named = BTreeSet::new();
    for target in &spec.clusters {
        if !named.insert(&target.name) {
            let cluster = ClusterName::from(target.name.as_str());
            found.push(Violation::TargetTwice { binding: binding.key.clone(), cluster });
        }
    }
    let finished = binding.status.is_some_and(|status| {
        Some(status.scheduler_observed_generation) == binding.metadata.generation
            && conditions::is_true(&status.conditions, conditions::binding::SCHEDULED)
    });
    let Some(placement) = spec.placement.as_ref().filter(|_| finished) else { return };
    if !spec.is_workload() || !spec.components.is_empty() || spec.clusters.is_empty() {
        return;
    }
    let wanted = i64::from(spec.replicas);
    match placement.replica_scheduling_type() {
        ReplicaSchedulingType::Divided => {
            let placed: i64 = spec.clusters.iter().map(|target| i64::from(target.replicas)).sum();
            if placed != wanted {
                found.push(Violation::SumDiffers { binding: binding.key.clone(), wanted, placed });
            }
        }
        ReplicaSchedulingType::Duplicated => {
            for target in spec.clusters.iter().filter(|target| i64::from(target.replicas) != wanted) {
                let (cluster, placed) = (ClusterName::from(target.name.as_str()), i64::from(target.replicas));
                found.push(Violation::NotDuplicated { binding: binding.key.clone(), cluster, wanted, placed });
            }
        }
    }
}

fn clusters(world: &World, binding: &Seen<'_>, found: &mut Vec<Violation>) {
    let expected = targets::expected_clusters(binding.spec);
    for target in targets::targets(binding.spec) {
        if !world.clusters.contains_key(&target.cluster) {
            found.push(Violation::TargetMissing { binding: binding.key.clone(), cluster: target.cluster });
        }
    }
    for item in binding.status.iter().flat_map(|status| &status.aggregated_status) {
        let cluster = ClusterName::from(item.cluster_name.as_str());
        if !expected.contains(&cluster) {
            found.push(Violation::ReportUnexpected { binding: binding.key.clone(), cluster });
        }
    }
}
