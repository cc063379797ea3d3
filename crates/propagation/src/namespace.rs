//! Decision of the namespace sync controller: a namespace of the control plane is propagated to every member without a
//! policy (specification/propagation.md 22; specification/propagation.md 31 row 18).

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{
    OwnerReference, annotations,
    cluster::Cluster,
    events, finalizers, labels, names,
    policy::ClusterOverridePolicy,
    work::{Work, WorkSpec, WorkloadTemplate},
};
use ironclad_fleet::{
    Because, ClusterName, Event, Plan, WorkKey, because::propagation::Reason, finalizer, merge_patch_between,
};
use serde_json::{Value, json};

use crate::{
    new_ids::NewIds,
    overrides,
    skipped_resources::Skipped,
    template::{self, Identity},
    work::{
        key_of,
        manifest::{self, Marks},
    },
};

/// Snapshot of one Namespace.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The whole Namespace.
    pub namespace: &'a Value,
    /// The Works under [`work_names`], at most one per execution space.
    pub works: &'a [Arc<Work>],
    pub clusters: &'a BTreeMap<ClusterName, Arc<Cluster>>,
    /// All ClusterOverridePolicies.
    pub cluster_overrides: &'a [Arc<ClusterOverridePolicy>],
    /// Resources that are not propagated.
    pub skipped: &'a Skipped,
}

/// Write, event or requeue.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    Create(Box<Work>),
    /// Patch a Work.
    Patch {
        key: WorkKey,
        /// Merge patch without resourceVersion.
        patch: Value,
    },
    /// Reconcile again with back-off.
    Retry,
    /// Record an event.
    Event(Event),
}

/// The default name of the namespace's Work in every execution space, and the alternative if that name is used.
#[must_use]
pub fn work_names(namespace: &str) -> [String; 2] {
    let name = names::work_name("Namespace", "", namespace);
    let other = format!("{name}-{}", names::hash(""));
    [name, other]
}

/// Returns true if this namespace is propagated to members.
#[must_use]
pub fn is_synced(namespace: &Value, skipped: &Skipped) -> bool {
    let name = template::text(namespace, "/metadata/name");
    name != "default"
        && !skipped.skips_namespace(name)
        && !template::label(namespace, labels::SKIP_AUTO_PROPAGATION).eq_ignore_ascii_case(labels::TRUE)
        && !template::is_deleting(namespace)
}

/// Makes one Work per cluster. No effects if they are up to date. Garbage collection deletes them with the namespace,
/// which owns them.
pub fn decide(seen: &Seen<'_>, mut ids: NewIds) -> Plan<Effect> {
    let mut plan = Plan::default();
    if !is_synced(seen.namespace, seen.skipped) {
        return plan;
    }
    let mut errors = Vec::new();
    let staying = seen.clusters.iter().filter(|(_, cluster)| cluster.metadata.deletion_timestamp.is_none());
    for (name, cluster) in staying {
        if let Err(because) = write(&mut plan, seen, name, cluster, &mut ids) {
            errors.push(because.to_string());
            plan.note(because);
        }
    }
    if !errors.is_empty() {
        let about = Identity::of(seen.namespace).reference();
        plan.effects.push(Effect::Event(Event::warning(about, events::SYNC_WORK_FAILED, errors.join("; "))));
        plan.effects.push(Effect::Retry);
    }
    plan
}

fn write(
    plan: &mut Plan<Effect>,
    seen: &Seen<'_>,
    cluster_name: &ClusterName,
    cluster: &Cluster,
    ids: &mut NewIds,
) -> Result<(), Because> {
    let here = |work: &&Arc<Work>| key_of(work).is_some_and(|key| key.cluster == *cluster_name);
    let existing = seen.works.iter().filter(here).find(|work| is_for(work, seen.namespace)).map(|work| &**work);
    if let Some(existing) = existing {
        if existing.metadata.deletion_timestamp.is_some() {
            let work = key_of(existing).expect("only keyed Works are looked at");
            // The end of the Work reconciles again. Retrying until then would create it as fast as garbage collection
            // deletes it, if it ends with a namespace whose end the cache has not seen yet.
            plan.note(Reason::WorkTerminating { work }.into());
            return Ok(());
        }
        let of_binding =
            |label: &str| existing.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(label));
        if of_binding(labels::CLUSTER_RESOURCE_BINDING_PERMANENT_ID) {
            // A policy selects the namespace too: its binding's Work contains all that this one would.
            plan.note(Because::UpToDate);
            return Ok(());
        }
    }
    let overridden = overrides::apply(seen.namespace.clone(), cluster, seen.cluster_overrides, &[])
        .map_err(|error| Reason::OverrideFailed { cluster: cluster_name.clone(), message: error.to_string() })?;
    let [first, second] = work_names(template::text(seen.namespace, "/metadata/name"));
    let taken = seen.works.iter().filter(here).any(|work| work.metadata.name.as_deref() == Some(first.as_str()));
    let mut work = existing.cloned().unwrap_or_else(|| {
        let mut work = Work::new(if taken { &second } else { &first }, WorkSpec::default());
        work.metadata.namespace = Some(names::execution_namespace(&cluster_name.0));
        work
    });
    fill(&mut work, seen.namespace, overridden, ids);
    let because = Because::from(Reason::PlacedOn { cluster: cluster_name.clone() });
    match existing {
        None => plan.push(Effect::Create(Box::new(work)), because),
        Some(existing) => {
            if let (Some(patch), Some(key)) =
                (merge_patch_between(&written(existing), &written(&work)), key_of(existing))
            {
                plan.push(Effect::Patch { key, patch }, because);
            }
        }
    }
    Ok(())
}

/// Returns true if the Work is for this namespace.
fn is_for(work: &Work, namespace: &Value) -> bool {
    work.spec.workload.manifests.first().is_some_and(|manifest| Identity::of(namespace).is_named(&manifest.named()))
}

fn fill(work: &mut Work, namespace: &Value, overridden: overrides::Overridden, ids: &mut NewIds) {
    let identity = Identity::of(namespace);
    let owner = OwnerReference {
        api_version: identity.api_version.into(),
        kind: identity.kind.into(),
        name: identity.name.into(),
        uid: identity.uid.into(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let owners = work.metadata.owner_references.get_or_insert_default();
    owners.retain(|other| other.controller != Some(true));
    owners.push(owner);
    finalizer::add(&mut work.metadata, finalizers::EXECUTION_CONTROLLER);
    let label_map = work.metadata.labels.get_or_insert_default();
    if label_map.get(labels::WORK_PERMANENT_ID).is_none_or(String::is_empty) {
        label_map.insert(labels::WORK_PERMANENT_ID.into(), ids.allocate());
    }
    let work_id = label_map[labels::WORK_PERMANENT_ID].clone();
    match overridden.applied_cluster {
        Some(record) => {
            work.metadata
                .annotations
                .get_or_insert_default()
                .insert(annotations::APPLIED_CLUSTER_OVERRIDES.into(), record);
        }
        None => {
            if let Some(map) = &mut work.metadata.annotations {
                map.remove(annotations::APPLIED_CLUSTER_OVERRIDES);
            }
        }
    }
    let mut manifest = overridden.manifest;
    let marks = Marks {
        work_namespace: work.metadata.namespace.as_deref().unwrap_or_default(),
        work_name: work.metadata.name.as_deref().unwrap_or_default(),
        work_id: &work_id,
        // The manifest already has the Namespace's own annotation, if the user set one.
        conflict_resolution: "",
    };
    manifest::finish(&mut manifest, &marks);
    work.spec.workload = WorkloadTemplate { manifests: vec![manifest.into()] };
}

/// The fields of a Work that we write.
fn written(work: &Work) -> Value {
    json!({
        "metadata": {
            "labels": work.metadata.labels,
            "annotations": work.metadata.annotations,
            "finalizers": work.metadata.finalizers,
            "ownerReferences": work.metadata.owner_references,
        },
        "spec": work.spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{cluster, ids, merge, patched, work};

    fn shop(extra: Value) -> Value {
        let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "u", "labels": {"kubernetes.io/metadata.name": "shop"}},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        merge(&mut namespace, &extra);
        namespace
    }

    fn clusters(names: &[&str]) -> BTreeMap<ClusterName, Arc<Cluster>> {
        names.iter().map(|n| (ClusterName::from(*n), Arc::new(cluster(n, "True")))).collect()
    }

    fn run(
        namespace: &Value,
        works: &[Arc<Work>],
        clusters: &BTreeMap<ClusterName, Arc<Cluster>>,
        cops: &[Arc<ClusterOverridePolicy>],
    ) -> Vec<Effect> {
        let seen = Seen { namespace, works, clusters, cluster_overrides: cops, skipped: &Skipped::default() };
        decide(&seen, ids("new")).effects
    }

    fn made(effects: &[Effect]) -> Vec<Arc<Work>> {
        effects
            .iter()
            .map(|e| if let Effect::Create(work) = e { Arc::new((**work).clone()) } else { panic!("{e:?}") })
            .collect()
    }

    #[test]
    fn one_namespace_work_per_cluster() {
        let both = clusters(&["m1", "m2"]);
        let works = made(&run(&shop(json!({})), &[], &both, &[]));
        assert_eq!(works.len(), 2);
        let work = &works[0];
        assert_eq!(work.metadata.name.as_deref(), Some(names::work_name("Namespace", "", "shop").as_str()));
        assert_eq!(work.metadata.owner_references.as_ref().unwrap()[0].uid, "u");
        assert_eq!(work.metadata.finalizers.as_deref(), Some(&["karmada.io/execution-controller".to_owned()][..]));
        let manifest = &work.spec.workload.manifests[0].object();
        assert_eq!(template::annotation(manifest, "work.karmada.io/conflict-resolution"), "");
        assert_eq!(template::label(manifest, "karmada.io/managed"), "true");
        assert_eq!(run(&shop(json!({})), &works, &both, &[]), [], "no changes once they exist");
        let three = clusters(&["m1", "m2", "m3"]);
        assert_eq!(run(&shop(json!({})), &works, &three, &[]).len(), 1, "a cluster that joins");
        let labelled = run(&shop(json!({"metadata": {"labels": {"team": "a"}}})), &works, &both, &[]);
        assert!(matches!(labelled.as_slice(), [Effect::Patch { .. }, Effect::Patch { .. }]), "a change follows");
        assert_eq!(run(&shop(json!({"status": {"phase": "X"}})), &works, &both, &[]), [], "a status does not");
    }

    #[test]
    fn skipped_namespaces() {
        for (name, extra, want) in [
            ("an ordinary one", json!({}), true),
            ("default", json!({"metadata": {"name": "default"}}), false),
            ("reserved", json!({"metadata": {"name": "karmada-es-m1"}}), false),
            ("by the flag's default", json!({"metadata": {"name": "kube-x"}}), false),
            ("always", json!({"metadata": {"name": "kube-system"}}), false),
            (
                "by its label, in any case",
                json!({"metadata": {"labels": {"namespace.karmada.io/skip-auto-propagation": "TRUE"}}}),
                false,
            ),
            (
                "with another value of the label",
                json!({"metadata": {"labels": {"namespace.karmada.io/skip-auto-propagation": "no"}}}),
                true,
            ),
            ("one being deleted", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), false),
        ] {
            assert_eq!(!run(&shop(extra), &[], &clusters(&["m1"]), &[]).is_empty(), want, "{name}");
        }
    }

    #[test]
    fn clusters_being_deleted_get_no_work() {
        let mut leaving = cluster("m1", "True");
        leaving.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(run(&shop(json!({})), &[], &BTreeMap::from([("m1".into(), Arc::new(leaving))]), &[]), []);
    }

    #[test]
    fn conflict_resolution_of_the_user_stays_in_the_manifest() {
        let wish = shop(json!({"metadata": {"annotations": {"work.karmada.io/conflict-resolution": "overwrite"}}}));
        let works = made(&run(&wish, &[], &clusters(&["m1"]), &[]));
        assert_eq!(
            template::annotation(&works[0].spec.workload.manifests[0].object(), "work.karmada.io/conflict-resolution"),
            "overwrite"
        );
    }

    #[test]
    fn cluster_overrides_apply_and_are_recorded() {
        let cop = |overriders: Value| -> Vec<Arc<ClusterOverridePolicy>> {
            vec![Arc::new(
                serde_json::from_value(
                    json!({"metadata": {"name": "c"}, "spec": {"overrideRules": [{"overriders": overriders}]}}),
                )
                .unwrap(),
            )]
        };
        let one = clusters(&["m1"]);
        let good = cop(json!({"labelsOverrider": [{"operator": "add", "value": {"zone": "x"}}]}));
        let works = made(&run(&shop(json!({})), &[], &one, &good));
        assert_eq!(template::label(&works[0].spec.workload.manifests[0].object(), "zone"), "x");
        assert!(
            works[0].metadata.annotations.as_ref().unwrap().contains_key("policy.karmada.io/applied-cluster-overrides")
        );
        let bad = cop(json!({"plaintext": [{"path": "/nope", "operator": "remove"}]}));
        assert!(matches!(run(&shop(json!({})), &works, &one, &bad).as_slice(), [Effect::Event(_), Effect::Retry]));
        let effects = run(&shop(json!({})), &works, &one, &[]);
        let [Effect::Patch { patch, .. }] = effects.as_slice() else { panic!("{effects:?}") };
        assert_eq!(
            patch.pointer("/metadata/annotations/policy.karmada.io~1applied-cluster-overrides"),
            Some(&Value::Null)
        );
    }

    #[test]
    fn used_namespace_work_name_gets_a_suffix() {
        let one = clusters(&["m1"]);
        let works = made(&run(&shop(json!({})), &[], &one, &[]));
        let bound = Arc::new(patched(
            &*works[0],
            &json!({"metadata": {"labels": {"clusterresourcebinding.karmada.io/permanent-id": "c"}}}),
        ));
        assert_eq!(
            run(&shop(json!({"metadata": {"labels": {"team": "a"}}})), &[bound], &one, &[]),
            [],
            "a binding writes it"
        );
        let going = Arc::new(patched(&*works[0], &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})));
        assert_eq!(run(&shop(json!({})), &[going], &one, &[]), [], "its end is awaited, not tried for");
        let [first, second] = work_names("shop");
        let stranger = Arc::new(work(json!({"metadata": {"namespace": "karmada-es-m1", "name": first},
            "spec": {"workload": {"manifests": [{"apiVersion": "x.io/v1", "kind": "Namespace", "metadata": {"name": "shop"}}]}}})));
        let made = made(&run(&shop(json!({})), std::slice::from_ref(&stranger), &one, &[]));
        assert_eq!(made[0].metadata.name, Some(second));
        assert_eq!(run(&shop(json!({})), &[stranger, made[0].clone()], &one, &[]), []);
    }
}
