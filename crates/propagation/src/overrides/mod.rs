//! Override policies applied to a copy (specification/propagation.md 10).

mod containers;
mod document;
mod image;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{
    ObjectMeta,
    cluster::Cluster,
    labels,
    policy::{
        ClusterOverridePolicy, LabelAnnotationOverrider, OverridePolicy, OverrideSpec, OverriderOperator, Overriders,
        PlaintextOverrider, RuleWithCluster,
    },
    work::ObjectReference,
};
use ironclad_fleet::{ClusterName, affinity};
use serde_json::{Map, Value, json};

use crate::{
    selector::{self, Implicit},
    template::Identity,
};

/// Copy with its overrides applied.
#[derive(Debug, Clone, PartialEq)]
pub struct Overridden {
    /// The copy.
    pub manifest: Value,
    /// Record of the applied ClusterOverridePolicies (specification/propagation.md 10.6), if any.
    pub applied_cluster: Option<String>,
    /// Record of the applied OverridePolicies, if any.
    pub applied: Option<String>,
    /// Overriders that had no effect (specification/propagation.md 31 row 42).
    pub warnings: Vec<String>,
}

/// Override that cannot be applied. The copy must not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{policy}: {overrider}: {message}")]
pub struct OverrideError {
    /// Kind and name of the policy.
    pub policy: String,
    /// Field name of the overrider.
    pub overrider: &'static str,
    /// The error, with the path.
    pub message: String,
}

/// Fields that name the object. A policy that changes them would write another object into the member, with the rights
/// of the control plane there, for a user who may write override policies in one namespace only.
const IDENTITY: [&str; 4] = ["/apiVersion", "/kind", "/metadata/namespace", "/metadata/name"];

/// Applies first all ClusterOverridePolicies, then, to namespaced objects, the OverridePolicies of their namespace.
///
/// # Errors
/// If any overrider of a matching rule fails or changes apiVersion, kind, namespace or name.
pub fn apply(
    manifest: Value,
    cluster: &Cluster,
    cluster_policies: &[Arc<ClusterOverridePolicy>],
    policies: &[Arc<OverridePolicy>],
) -> Result<Overridden, OverrideError> {
    let mut all = Overridden { manifest, applied_cluster: None, applied: None, warnings: Vec::new() };
    let level: Vec<Override<'_>> = cluster_policies
        .iter()
        .map(|policy| Override { kind: "ClusterOverridePolicy", metadata: &policy.metadata, spec: &policy.spec })
        .collect();
    all.applied_cluster = apply_level(&mut all.manifest, cluster, level, &mut all.warnings)?;
    let namespace = Identity::of(&all.manifest).namespace.to_owned();
    if !namespace.is_empty() {
        let level: Vec<Override<'_>> = policies
            .iter()
            .filter(|policy| policy.metadata.namespace.as_deref() == Some(&namespace))
            .map(|policy| Override { kind: "OverridePolicy", metadata: &policy.metadata, spec: &policy.spec })
            .collect();
        all.applied = apply_level(&mut all.manifest, cluster, level, &mut all.warnings)?;
    }
    Ok(all)
}

/// Returns true if an override policy may apply to this template, whatever its labels are. One without selectors
/// applies to all.
#[must_use]
pub fn may_take(spec: &OverrideSpec, template: &ObjectReference) -> bool {
    let kind = (&*template.api_version, &*template.kind);
    spec.resource_selectors.is_empty()
        || spec.resource_selectors.iter().any(|s| selector::may_take(s, kind, &template.namespace, &template.name))
}

/// Returns true if other rules of an override policy apply to a cluster since it changed.
#[must_use]
pub fn differ(spec: &OverrideSpec, old: &Cluster, new: &Cluster) -> bool {
    rules(spec, old) != rules(spec, new)
}

/// Returns true if the distributed autoscaler writes the policy (specification/autoscaling.md 6.6).
#[must_use]
pub fn is_of_autoscaler(policy: &OverridePolicy) -> bool {
    has_label(&policy.metadata, labels::FEDERATED_HPA_MANAGED)
}

/// Returns the replicas by cluster that the distributed autoscaler recorded in its policy
/// (specification/autoscaling.md 6.6).
#[must_use]
pub fn recorded(policy: &OverridePolicy) -> BTreeMap<ClusterName, i32> {
    let rule = |rule: &RuleWithCluster| {
        let cluster = rule.target_cluster.as_ref()?.cluster_names.first()?;
        let number = rule.overriders.plaintext.first()?.value.as_ref()?.as_i64()?;
        Some((ClusterName::from(cluster.as_str()), i32::try_from(number).ok()?))
    };
    policy.spec.override_rules.iter().filter_map(rule).collect()
}

fn has_label(metadata: &ObjectMeta, key: &str) -> bool {
    metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(key))
}

/// Override policy of either kind.
#[derive(Clone, Copy)]
struct Override<'a> {
    kind: &'static str,
    metadata: &'a ObjectMeta,
    spec: &'a OverrideSpec,
}

/// Order among the policies of one level: where two write the same field, the later one wins.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'a> {
    /// The policy that the distributed autoscaler writes is the last.
    of_autoscaler: bool,
    /// More specific selectors later.
    implicit: Implicit,
    /// Then by name.
    name: &'a str,
}

/// Applies one level. Matches are computed before the first patch. Returns the record.
fn apply_level(
    manifest: &mut Value,
    cluster: &Cluster,
    level: Vec<Override<'_>>,
    warnings: &mut Vec<String>,
) -> Result<Option<String>, OverrideError> {
    let identity = Identity::of(manifest);
    let mut matching: Vec<(Rank<'_>, Override<'_>)> = level
        .into_iter()
        .filter_map(|policy| {
            let implicit = if policy.spec.resource_selectors.is_empty() {
                Implicit::All
            } else {
                selector::best(&policy.spec.resource_selectors, &identity)?
            };
            let rank = Rank {
                of_autoscaler: has_label(policy.metadata, labels::FEDERATED_HPA_MANAGED),
                implicit,
                name: policy.metadata.name.as_deref().unwrap_or_default(),
            };
            Some((rank, policy))
        })
        .collect();
    matching.sort_by(|a, b| a.0.cmp(&b.0));
    let mut applied: Vec<(&str, &Overriders)> = Vec::new();
    for (rank, policy) in &matching {
        for overriders in rules(policy.spec, cluster) {
            let mut step = Step { policy, warnings };
            step.apply(manifest, overriders)?;
            applied.push((rank.name, overriders));
        }
    }
    applied.sort_by_key(|(name, _)| *name);
    let record: Vec<Value> =
        applied.iter().map(|(name, overriders)| json!({"policyName": name, "overriders": overriders})).collect();
    Ok((!record.is_empty()).then(|| Value::from(record).to_string()))
}

/// The rules of a policy that apply to the cluster, in order; the deprecated fields count only without rules.
fn rules<'a>(spec: &'a OverrideSpec, cluster: &Cluster) -> Vec<&'a Overriders> {
    let chosen = |affinity: Option<&ironclad_api::policy::ClusterAffinity>| {
        affinity.is_none_or(|affinity| affinity::chooses(affinity, cluster))
    };
    if spec.override_rules.is_empty() {
        let old = (spec.overriders != Overriders::default() && chosen(spec.target_cluster.as_ref()))
            .then_some(&spec.overriders);
        return old.into_iter().collect();
    }
    spec.override_rules
        .iter()
        .filter(|rule| chosen(rule.target_cluster.as_ref()))
        .map(|rule| &rule.overriders)
        .collect()
}

/// Application of one rule.
struct Step<'a> {
    policy: &'a Override<'a>,
    warnings: &'a mut Vec<String>,
}

impl Step<'_> {
    fn name(&self) -> String {
        let metadata = self.policy.metadata;
        let name = metadata.name.as_deref().unwrap_or_default();
        match metadata.namespace.as_deref() {
            Some(namespace) => format!("{} {namespace}/{name}", self.policy.kind),
            None => format!("{} {name}", self.policy.kind),
        }
    }

    fn error(&self, overrider: &'static str) -> impl Fn(String) -> OverrideError {
        let policy = self.name();
        move |message| OverrideError { policy: policy.clone(), overrider, message }
    }

    fn warn(&mut self, overrider: &str, what: &str) {
        self.warnings.push(format!("{}: {overrider}: {what}", self.name()));
    }

    /// Applies the overriders in the order of specification/propagation.md 10.4.
    fn apply(&mut self, manifest: &mut Value, overriders: &Overriders) -> Result<(), OverrideError> {
        let before = identity(manifest);
        let same = |manifest: &Value| {
            let after = identity(manifest);
            let changed = (0..IDENTITY.len()).find(|i| before[*i] != after[*i]);
            changed.map_or(Ok(()), |i| {
                Err(format!("{} of a copy can't be overridden: remove this overrider from the policy", IDENTITY[i]))
            })
        };
        for overrider in &overriders.image_overrider {
            if !image::apply(manifest, overrider).map_err(self.error("imageOverrider"))? {
                self.warn("imageOverrider", "no container to change; name the field by predicate.path");
            }
        }
        same(manifest).map_err(self.error("imageOverrider"))?;
        for (field, list, overrider_list) in [
            ("commandOverrider", "command", &overriders.command_overrider),
            ("argsOverrider", "args", &overriders.args_overrider),
        ] {
            for overrider in overrider_list {
                if !containers::change_list(manifest, list, overrider).map_err(self.error(field))? {
                    self.warn(field, &format!("there is no container {:?}", overrider.container_name));
                }
            }
        }
        for (field, map, overrider_list) in [
            ("labelsOverrider", "labels", &overriders.labels_overrider),
            ("annotationsOverrider", "annotations", &overriders.annotations_overrider),
        ] {
            for overrider in overrider_list {
                change_map(manifest, map, overrider).map_err(self.error(field))?;
            }
        }
        for overrider in &overriders.field_overrider {
            document::apply(manifest, overrider).map_err(self.error("fieldOverrider"))?;
        }
        same(manifest).map_err(self.error("fieldOverrider"))?;
        plaintext(manifest, &overriders.plaintext).and_then(|()| same(manifest)).map_err(self.error("plaintext"))
    }
}

fn identity(manifest: &Value) -> [Option<Value>; 4] {
    IDENTITY.map(|field| manifest.pointer(field).cloned())
}

/// Changes labels or annotations: add creates and overwrites, replace and remove change existing keys.
fn change_map(manifest: &mut Value, map: &str, overrider: &LabelAnnotationOverrider) -> Result<(), String> {
    let wrong = || format!("/metadata/{map} is not a map");
    let metadata = manifest.get_mut("metadata").and_then(Value::as_object_mut).ok_or_else(wrong)?;
    if overrider.operator == OverriderOperator::Add {
        metadata.entry(map).or_insert_with(|| Value::Object(Map::new()));
    }
    let Some(keys) = metadata.get_mut(map).filter(|keys| !keys.is_null()) else { return Ok(()) };
    let keys = keys.as_object_mut().ok_or_else(wrong)?;
    for (key, value) in &overrider.value {
        match overrider.operator {
            OverriderOperator::Remove => {
                keys.remove(key);
            }
            OverriderOperator::Replace if !keys.contains_key(key) => {}
            OverriderOperator::Add | OverriderOperator::Replace => {
                keys.insert(key.clone(), value.as_str().into());
            }
        }
    }
    Ok(())
}

/// Applies all items as one JSON Patch (RFC 6902) of the whole object.
fn plaintext(manifest: &mut Value, overriders: &[PlaintextOverrider]) -> Result<(), String> {
    let operations = overriders.iter().map(|o| (o.path.as_str(), o.operator, o.value.as_ref()));
    json_patch(manifest, operations)
}

/// Applies operations as one JSON Patch (RFC 6902): all or none.
fn json_patch<'a>(
    target: &mut Value,
    operations: impl Iterator<Item = (&'a str, OverriderOperator, Option<&'a Value>)>,
) -> Result<(), String> {
    let mut patched = target.clone();
    for (path, operator, value) in operations {
        let op = match operator {
            OverriderOperator::Add if path.is_empty() => "replace",
            OverriderOperator::Add => "add",
            OverriderOperator::Replace => "replace",
            OverriderOperator::Remove => "remove",
        };
        if !is_applicable(&patched, path, op) {
            return Err(format!("{op} {path}: there is no such path"));
        }
        let operation = json!([{"op": op, "path": path, "value": value}]);
        ironclad_patch::json_patch(&mut patched, &operation).map_err(|_| format!("{op} {path} does not apply"))?;
    }
    *target = patched;
    Ok(())
}

/// Returns true if RFC 6902 allows the operation. The library is more lenient, like the one of a kube-apiserver: it
/// adds
/// the missing member of a `replace` and counts negative indices from the end. An override that misses its field must
/// fail instead (specification/propagation.md 10.4).
fn is_applicable(document: &Value, path: &str, op: &str) -> bool {
    if op != "add" {
        return document.pointer(path).is_some();
    }
    let Some((parent, key)) = path.rsplit_once('/') else { return false };
    match document.pointer(parent) {
        Some(Value::Object(_)) => true,
        Some(Value::Array(items)) => {
            let index = key.parse::<usize>().ok().filter(|index| index.to_string() == key);
            key == "-" || index.is_some_and(|index| index <= items.len())
        }
        _ => false,
    }
}
