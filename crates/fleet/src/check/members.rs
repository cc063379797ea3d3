//! Objects in members against the Works that they came from.

use ironclad_api::{annotations, conditions, labels, names, reasons};
use serde_json::Value;

use super::Violation;
use crate::{ClusterName, ObjectKey, WorkKey, World, targets, world::key_of};

/// Every object that carries our mark has its Work, and every applied Work its object. A cluster that is not Ready when
/// it leaves keeps what it has (specification/failover.md 9.5).
pub(super) fn members(world: &World, found: &mut Vec<Violation>) {
    for (cluster, objects) in &world.members {
        if world.clusters.get(cluster).is_none_or(|cluster| cluster.metadata.deletion_timestamp.is_some()) {
            continue;
        }
        for (key, object) in objects {
            let value = |map: &str, key: &str| {
                object
                    .get("metadata")
                    .and_then(|m| m.get(map))
                    .and_then(|m| m.get(key))
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            };
            let going = object.pointer("/metadata/deletionTimestamp").is_some();
            if value("labels", labels::MANAGED) != labels::TRUE || going {
                continue;
            }
            let (namespace, name) =
                (value("annotations", annotations::WORK_NAMESPACE), value("annotations", annotations::WORK_NAME));
            // Controllers of the member give what they make the labels of its owner, as EndpointSlices get a Service's.
            let is_controlled = object.pointer("/metadata/ownerReferences/0/controller") == Some(&Value::Bool(true));
            if namespace.is_empty() && name.is_empty() && is_controlled {
                continue;
            }
            let of = names::cluster_of_execution_namespace(namespace).unwrap_or_default();
            let work = WorkKey { cluster: of.into(), name: name.into() };
            match world.works.get(&work).filter(|_| work.cluster == *cluster) {
                // Its Work was released since the binding requires the copy again: the next Work takes it over. Until
                // then that one is missing.
                None if is_required(world, cluster, key) => {}
                None => found.push(Violation::ObjectWithoutWork {
                    cluster: cluster.clone(),
                    object: key.clone(),
                    work: format!("{namespace}/{name}"),
                }),
                Some(owner) => {
                    let id = owner.metadata.labels.as_ref().and_then(|l| l.get(labels::WORK_PERMANENT_ID));
                    let for_it = owner.spec.workload.manifests.iter().any(|manifest| {
                        let actual = key_of(&manifest.object());
                        (&actual.gvk.group, &actual.gvk.kind, &actual.namespace, &actual.name)
                            == (&key.gvk.group, &key.gvk.kind, &key.namespace, &key.name)
                    });
                    if !for_it || id.map_or("", String::as_str) != value("labels", labels::WORK_PERMANENT_ID) {
                        let (cluster, object) = (cluster.clone(), key.clone());
                        found.push(Violation::ObjectOfAnotherWork { cluster, object, work });
                    }
                }
            }
        }
    }
    for (key, work) in &world.works {
        let Some(objects) = world.members.get(&key.cluster) else { continue };
        let ready = world.clusters.get(&key.cluster).is_some_and(|c| c.is_ready());
        let applied = work.status.as_ref().and_then(|s| conditions::get(&s.conditions, conditions::work::APPLIED));
        let is_applied =
            applied.is_some_and(|c| c.status == conditions::TRUE && c.reason != reasons::work::ALREADY_EXISTS);
        if !ready
            || !is_applied
            || work.metadata.deletion_timestamp.is_some()
            || work.spec.suspend_dispatching == Some(true)
        {
            continue;
        }
        for manifest in &work.spec.workload.manifests {
            let object = key_of(&manifest.object());
            let is_listed = !world.unlisted.contains(&(key.cluster.clone(), object.gvk.clone()));
            if is_listed && !objects.contains_key(&object) {
                found.push(Violation::ObjectMissing { work: key.clone(), object });
            }
        }
    }
}

/// Returns whether a binding requires a copy of this object in the cluster.
fn is_required(world: &World, cluster: &ClusterName, object: &ObjectKey) -> bool {
    world.binding_of(object).is_some_and(|binding| {
        binding.metadata().deletion_timestamp.is_none()
            && targets::targets(binding.spec()).iter().any(|target| target.cluster == *cluster)
    })
}
