//! Decision of the quota controller: a ResourceQuota in each assigned cluster, and the usage of a
//! FederatedResourceQuota (specification/propagation.md 25).

pub mod usage;
pub mod wait_list;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ironclad_api::{
    Quantity, ResourceList, StringMap, annotations, conditions, events, labels,
    policy::{ClusterQuotaStatus, FederatedResourceQuota},
    quantity::{self, Amount},
    work::{ObjectReference, Work},
};
use ironclad_fleet::{Because, ClusterName, Event, Plan, StatusPart, WorkKey, because::propagation::Reason};
use serde_json::{Value, json};

use crate::{
    new_ids::NewIds,
    work::{
        Owner, key_of,
        owned::{self, DesiredWork, OfBinding, Write},
        owner,
    },
};

/// Time for which a count has to differ from the booked usage before it replaces it: admission books before the
/// binding is written, and a cache may lag behind both.
pub const COUNT_SETTLES: Duration = Duration::from_secs(2);

/// Interval at which a Work that belongs to another object is tried again.
const TAKEN_RECHECK: Duration = Duration::from_secs(60);

/// Source of `overallUsed`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Overall<'a> {
    /// Sum of the clusters' reports.
    Summed,
    /// Booked by admission (gate `FederatedQuotaEnforcement`), without a recount.
    Booked,
    /// Booked by admission, and recounted here. The recount frees the usage of deleted bindings, and of writes that
    /// were booked but refused in the end.
    Counted {
        /// Usage of the bindings of the namespace.
        taken: &'a ResourceList,
        /// Time since which this and the booked usage are unchanged.
        steady: Duration,
    },
}

/// Snapshot of one quota.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    /// The quota; `None` if it was deleted.
    pub quota: Option<&'a FederatedResourceQuota>,
    /// All Works with its labels and under [`work_keys`], with status parts that wait to be written.
    pub works: &'a [Arc<Work>],
    /// The clusters with an execution space.
    pub clusters: &'a BTreeSet<ClusterName>,
    /// Source of `overallUsed`.
    pub overall: Overall<'a>,
}

/// Write, requeue or event.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Write of a Work.
    Work(Write),
    /// Set a part of the quota's status.
    Status(StatusPart),
    /// Recount after this time.
    CountAgain(Duration),
    /// Reconcile again after this time.
    RequeueAfter(Duration),
    /// Record an event.
    Event(Event),
}

/// Index value under which a quota's Works are found.
#[must_use]
pub fn of_work(work: &Work) -> Vec<String> {
    let label = |key: &str| work.metadata.labels.as_ref().and_then(|map| map.get(key)).filter(|v| !v.is_empty());
    let both = label(labels::FEDERATED_RESOURCE_QUOTA_NAMESPACE).zip(label(labels::FEDERATED_RESOURCE_QUOTA_NAME));
    both.map(|(namespace, name)| format!("{namespace}/{name}")).into_iter().collect()
}

/// Keys of the Works of a quota, one for each assigned cluster. Another object may own one of them.
pub fn work_keys(quota: &FederatedResourceQuota) -> impl Iterator<Item = WorkKey> + '_ {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (namespace, name) = (text(&quota.metadata.namespace), text(&quota.metadata.name));
    let clusters = quota.spec.static_assignments.iter().map(|one| ClusterName::from(one.cluster_name.as_str()));
    clusters.map(move |cluster| owned::key(&cluster, "ResourceQuota", &namespace, &name))
}

/// Creates each assigned cluster's ResourceQuota, deletes those of other clusters, and aggregates their reports.
pub fn decide(seen: &Seen<'_>, mut ids: NewIds) -> Plan<Effect> {
    let mut plan = Plan::default();
    let quota = seen.quota.filter(|quota| quota.metadata.deletion_timestamp.is_none());
    let assigned = quota.map(|quota| quota.spec.static_assignments.as_slice()).unwrap_or_default();
    let (mut missing, mut taken) = (Vec::new(), Vec::new());
    let (works, others): (Vec<&Arc<Work>>, Vec<&Arc<Work>>) =
        seen.works.iter().partition(|work| !matches!(owner(work), Some(Owner::Binding { .. } | Owner::Cluster { .. })));
    for assignment in assigned {
        let cluster = ClusterName::from(assignment.cluster_name.as_str());
        if !seen.clusters.contains(&cluster) {
            missing.push(assignment.cluster_name.as_str());
            continue;
        }
        let key = owned::key(&cluster, "ResourceQuota", seen.namespace, seen.name);
        if let Some(other) = others.iter().find(|work| key_of(work).as_ref() == Some(&key)) {
            let owner = owner(other).map(|owner| owner.to_string()).unwrap_or_default();
            let because = Because::from(Reason::WorkOwned { work: key, owner });
            taken.push(because.to_string());
            plan.note(because);
            continue;
        }
        let existing = works.iter().find(|work| key_of(work).as_ref() == Some(&key)).map(|work| &***work);
        let desired = DesiredWork {
            cluster: &cluster,
            manifest: json!({
                "apiVersion": "v1", "kind": "ResourceQuota",
                "metadata": {"namespace": seen.namespace, "name": seen.name},
                "spec": {"hard": assignment.hard},
            }),
            labels: StringMap::from([
                (labels::FEDERATED_RESOURCE_QUOTA_NAMESPACE.to_owned(), seen.namespace.to_owned()),
                (labels::FEDERATED_RESOURCE_QUOTA_NAME.to_owned(), seen.name.to_owned()),
            ]),
            annotations: StringMap::new(),
            of_binding: OfBinding::Keeps,
            owner: None,
            conflict_resolution: annotations::CONFLICT_RESOLUTION_ABORT,
            reports_only: false,
        };
        if let Some(write) = owned::write(desired, existing, &mut ids) {
            plan.push(Effect::Work(write), Reason::PlacedOn { cluster }.into());
        }
    }
    for work in &works {
        let Some(key) = key_of(work) else { continue };
        if !assigned.iter().any(|assignment| *assignment.cluster_name == *key.cluster.0)
            && let Some(write) = owned::delete(work)
        {
            plan.push(Effect::Work(write), Reason::NotATarget { work: key }.into());
        }
    }
    let Some(quota) = quota else { return plan };
    if !missing.is_empty() {
        let message = format!("there is no cluster {}: its quota is assigned once it joins", missing.join(", "));
        plan.effects.push(Effect::Event(Event::warning(reference(quota), events::SYNC_WORK_FAILED, message)));
    }
    if !taken.is_empty() {
        let about = reference(quota);
        plan.effects.push(Effect::Event(Event::warning(about, events::SYNC_WORK_FAILED, taken.join("; "))));
        plan.effects.push(Effect::RequeueAfter(TAKEN_RECHECK));
    }
    let (part, unread) = status(seen, &works, quota);
    plan.effects.extend(part.map(Effect::Status));
    if !unread.is_empty() {
        let message = format!("invalid quantities are left out of overallUsed: {}", unread.join(", "));
        let about = reference(quota);
        plan.effects.push(Effect::Event(Event::warning(about, events::COLLECT_OVERALL_STATUS_FAILED, message)));
    }
    if let Some((_, wait)) = correction(&seen.overall, quota)
        && !wait.is_zero()
    {
        plan.effects.push(Effect::CountAgain(wait));
    }
    plan
}

/// The counted usage if it differs from the booked one, and the time to wait until it replaces that. There is no wait
/// if the quota limits a resource that it did not limit before: bookings of that one lack what was in use already.
fn correction<'a>(overall: &Overall<'a>, quota: &FederatedResourceQuota) -> Option<(&'a ResourceList, Duration)> {
    let Overall::Counted { taken, steady } = *overall else { return None };
    let limited = quota.status.as_ref().map(|status| &status.overall);
    let is_new = quota.spec.overall.keys().any(|key| limited.is_none_or(|limited| !limited.contains_key(key)));
    let wait = if is_new { Duration::ZERO } else { COUNT_SETTLES.saturating_sub(steady) };
    (!usage::same(taken, &booked(quota))).then_some((taken, wait))
}

/// The counted usage without resources that nothing asks for and that were never booked, as admission books them.
fn without_unasked(taken: &ResourceList, booked: &ResourceList) -> ResourceList {
    let asked = |(key, used): &(&String, &Quantity)| {
        booked.contains_key(*key) || Amount::try_from(*used).ok() != Some(Amount::ZERO)
    };
    taken.iter().filter(asked).map(|(key, used)| (key.clone(), used.clone())).collect()
}

/// The usage that admission booked.
#[must_use]
pub fn booked(quota: &FederatedResourceQuota) -> ResourceList {
    quota.status.as_ref().map(|status| status.overall_used.clone()).unwrap_or_default()
}

pub(crate) fn reference(quota: &FederatedResourceQuota) -> ObjectReference {
    ObjectReference {
        api_version: "policy.karmada.io/v1alpha1".into(),
        kind: "FederatedResourceQuota".into(),
        namespace: quota.metadata.namespace.clone().unwrap_or_default(),
        name: quota.metadata.name.clone().unwrap_or_default(),
        uid: quota.metadata.uid.clone().unwrap_or_default(),
        resource_version: String::new(),
    }
}

/// The aggregated status, sorted by cluster name; `None` if it is stored already. Also returns quantities that cannot
/// be added.
fn status(seen: &Seen<'_>, works: &[&Arc<Work>], quota: &FederatedResourceQuota) -> (Option<StatusPart>, Vec<String>) {
    let mut reports: Vec<ClusterQuotaStatus> = works.iter().filter_map(|work| report(work)).collect();
    reports.sort_by(|a, b| a.cluster_name.cmp(&b.cluster_name));
    let mut fields = serde_json::Map::from_iter([("aggregatedStatus".to_owned(), json!(reports))]);
    let mut unread = Vec::new();
    let used = match seen.overall {
        Overall::Summed => {
            let mut used = ResourceList::new();
            for report in &reports {
                for (resource, amount) in &report.used {
                    let one = ResourceList::from([(resource.clone(), amount.clone())]);
                    if let Err(error) = quantity::add_to(&mut used, &one) {
                        unread.push(format!("{resource} of cluster {} ({error})", report.cluster_name));
                    }
                }
            }
            Some(used)
        }
        Overall::Counted { .. } | Overall::Booked => {
            let corrected = correction(&seen.overall, quota).filter(|(_, wait)| wait.is_zero());
            corrected.map(|(taken, _)| without_unasked(taken, &booked(quota)))
        }
    };
    fields.insert("overall".to_owned(), json!(quota.spec.overall));
    fields.extend(used.map(|used| ("overallUsed".to_owned(), json!(used))));
    // Empty fields are not stored.
    fields.retain(|field, value| !is_empty(value) || stored(quota, field));
    let part = StatusPart { fields, ..StatusPart::default() };
    (StatusPart::patch(&json!(quota.status), &[&part]).is_some().then_some(part), unread)
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

fn stored(quota: &FederatedResourceQuota, field: &str) -> bool {
    json!(quota.status).get(field).is_some()
}

/// The report of an applied Work about its ResourceQuota.
fn report(work: &Work) -> Option<ClusterQuotaStatus> {
    let status = work.status.as_ref()?;
    let applied = conditions::get(&status.conditions, conditions::work::APPLIED)?;
    if applied.status != conditions::TRUE || work.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let reported = json!(status.manifest_statuses.first()?.status);
    let list = |field: &str| serde_json::from_value(reported.get(field)?.clone()).ok();
    Some(ClusterQuotaStatus {
        cluster_name: key_of(work)?.cluster.to_string(),
        hard: list("hard").unwrap_or_default(),
        used: list("used").unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{ids, patched};

    fn quota(assignments: &[(&str, &str)]) -> FederatedResourceQuota {
        let list: Vec<Value> =
            assignments.iter().map(|(name, cpu)| json!({"clusterName": name, "hard": {"cpu": cpu}})).collect();
        serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": "q", "uid": "u"},
            "spec": {"overall": {"cpu": "20"}, "staticAssignments": list},
        }))
        .unwrap()
    }

    fn run(quota: Option<&FederatedResourceQuota>, works: &[Arc<Work>]) -> Vec<Effect> {
        with(quota, works, Overall::Summed)
    }

    fn with(quota: Option<&FederatedResourceQuota>, works: &[Arc<Work>], overall: Overall<'_>) -> Vec<Effect> {
        let clusters = ["m1".into(), "m2".into()].into();
        decide(&Seen { namespace: "shop", name: "q", quota, works, clusters: &clusters, overall }, ids("id")).effects
    }

    fn made(effects: &[Effect]) -> Vec<Arc<Work>> {
        let work = |effect: &Effect| match effect {
            Effect::Work(Write::Create(work)) => Some(Arc::new(patched(&**work, &json!({"metadata": {"uid": "w"}})))),
            _ => None,
        };
        effects.iter().filter_map(work).collect()
    }

    #[test]
    fn assigned_clusters_get_their_quota() {
        let both = quota(&[("m1", "5"), ("m2", "7")]);
        let effects = run(Some(&both), &[]);
        let works = made(&effects);
        assert_eq!(works.len(), 2);
        let manifest = &works[1].spec.workload.manifests[0].object();
        assert_eq!(manifest["spec"], json!({"hard": {"cpu": "7"}}));
        assert_eq!((&manifest["metadata"]["namespace"], &manifest["metadata"]["name"]), (&json!("shop"), &json!("q")));
        assert_eq!(of_work(&works[0]), ["shop/q"]);
        let Some(Effect::Status(part)) = effects.last() else { panic!("{effects:?}") };
        assert_eq!(json!(part.fields), json!({"overall": {"cpu": "20"}}));
        let reported = patched(&both, &json!({"status": {"overall": {"cpu": "20"}}}));
        assert_eq!(run(Some(&reported), &works), [], "no changes once they exist");

        let one =
            patched(&reported, &json!({"spec": {"staticAssignments": [{"clusterName": "m1", "hard": {"cpu": "6"}}]}}));
        let effects = run(Some(&one), &works);
        let [Effect::Work(Write::Patch { .. }), Effect::Work(Write::Delete { key, .. })] = effects.as_slice() else {
            panic!("{effects:?}")
        };
        assert_eq!(*key.cluster.0, *"m2", "a cluster that is not assigned any more loses it");
        assert_eq!(run(None, &works).len(), 2, "deleted: both lose it");
    }

    #[test]
    fn work_of_a_binding_is_neither_written_nor_deleted() {
        let one = quota(&[("m1", "5")]);
        let own = made(&run(Some(&one), &[]));
        let taken = Arc::new(patched(
            &*own[0],
            &json!({"metadata": {"labels": {"resourcebinding.karmada.io/permanent-id": "b"},
                "annotations": {"resourcebinding.karmada.io/namespace": "shop", "resourcebinding.karmada.io/name": "q"}}}),
        ));
        let works = [taken];
        let effects = run(Some(&one), &works);
        let [Effect::Event(event), Effect::RequeueAfter(_), Effect::Status(_)] = effects.as_slice() else {
            panic!("{effects:?}")
        };
        assert!(event.message.contains("belongs to ResourceBinding shop/q"), "{}", event.message);
        assert_eq!(run(None, &works), [], "the quota is deleted");
        let unmarked = Arc::new(patched(
            &*own[0],
            &json!({"metadata": {"labels": {"federatedresourcequota.karmada.io/namespace": null, "federatedresourcequota.karmada.io/name": null}}}),
        ));
        let effects = run(Some(&one), &[unmarked]);
        assert!(
            matches!(effects.first(), Some(Effect::Work(Write::Patch { .. }))),
            "nobody's Work is adopted: {effects:?}"
        );
    }

    #[test]
    fn recount_applies_once_it_is_stable() {
        let count = |cpu: &str| ResourceList::from([("cpu".to_owned(), ironclad_api::Quantity(cpu.to_owned()))]);
        let booked = |cpu: &str| {
            patched(&quota(&[]), &json!({"status": {"overall": {"cpu": "20"}, "overallUsed": {"cpu": cpu}}}))
        };
        let seconds = Duration::from_secs;
        let ms = Duration::from_millis;
        for (name, booked, taken, steady, want) in [
            ("as booked", booked("3"), count("3000m"), seconds(9), vec![]),
            ("it differs, but not for long", booked("3"), count("1"), ms(1_999), vec![Effect::CountAgain(ms(1))]),
            (
                "it differs for good",
                booked("3"),
                count("1"),
                seconds(2),
                vec![status_of(json!({"overallUsed": {"cpu": "1"}}))],
            ),
            (
                "more than was booked",
                booked("3"),
                count("5"),
                seconds(2),
                vec![status_of(json!({"overallUsed": {"cpu": "5"}}))],
            ),
        ] {
            let overall = Overall::Counted { taken: &taken, steady };
            assert_eq!(with(Some(&booked), &[], overall), want, "{name}");
        }
        let memory = patched(&booked("3"), &json!({"status": {"overall": {"cpu": null, "memory": "1Gi"}}}));
        for (name, quota) in [("of a new quota", quota(&[])), ("of a resource that is limited anew", memory)] {
            let overall = Overall::Counted { taken: &count("5"), steady: ms(0) };
            let want = status_of(json!({"overallUsed": {"cpu": "5"}}));
            assert_eq!(with(Some(&quota), &[], overall), [want], "{name}");
        }
        for (name, used, want) in [
            ("nobody asks for memory", json!({"cpu": "10"}), json!({"cpu": "5"})),
            ("what was asked for is freed", json!({"cpu": "10", "memory": "1Gi"}), json!({"cpu": "5", "memory": "0"})),
        ] {
            let booked = patched(
                &quota(&[]),
                &json!({"spec": {"overall": {"memory": "1Gi"}},
                    "status": {"overall": {"cpu": "20", "memory": "1Gi"}, "overallUsed": used}}),
            );
            let taken: ResourceList = serde_json::from_value(json!({"cpu": "5", "memory": "0"})).unwrap();
            let effects = with(Some(&booked), &[], Overall::Counted { taken: &taken, steady: COUNT_SETTLES });
            let [Effect::Status(part)] = effects.as_slice() else { panic!("{name}: {effects:?}") };
            assert_eq!(part.fields["overallUsed"], want, "{name}");
        }
        let fresh = quota(&[]);
        let want = status_of(json!({"overall": {"cpu": "20"}}));
        assert_eq!(with(Some(&fresh), &[], Overall::Booked), [want], "only admission books");
    }

    /// A status part with these fields and `overall`.
    fn status_of(fields: Value) -> Effect {
        let mut all = serde_json::Map::from_iter([("overall".to_owned(), json!({"cpu": "20"}))]);
        all.extend(fields.as_object().cloned().unwrap_or_default());
        Effect::Status(StatusPart { fields: all, ..StatusPart::default() })
    }

    #[test]
    fn missing_cluster_is_reported() {
        let effects = run(Some(&quota(&[("m9", "5")])), &[]);
        let [Effect::Event(event), Effect::Status(_)] = effects.as_slice() else { panic!("{effects:?}") };
        assert_eq!(event.message, "there is no cluster m9: its quota is assigned once it joins");
    }

    #[test]
    fn invalid_quantity_is_reported_and_ignored() {
        let one = quota(&[("m1", "5")]);
        let works = made(&run(Some(&one), &[]));
        let reported = Arc::new(patched(
            &*works[0],
            &json!({"status": {
            "conditions": [{"type": "Applied", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "manifestStatuses": [{"identifier": {"ordinal": 0, "version": "v1", "kind": "ResourceQuota", "namespace": "shop", "name": "q", "resource": ""},
                "status": {"used": {"cpu": "lots", "memory": "1Gi"}}}]}}),
        ));
        let effects = run(Some(&one), &[reported]);
        let [Effect::Status(part), Effect::Event(event)] = effects.as_slice() else { panic!("{effects:?}") };
        assert_eq!(part.fields["overallUsed"], json!({"memory": "1Gi"}));
        assert_eq!((event.about.kind.as_str(), event.reason), ("FederatedResourceQuota", "CollectOverallStatusFailed"));
        let want = "invalid quantities are left out of overallUsed: cpu of cluster m1 (";
        assert!(event.message.starts_with(want), "{}", event.message);
    }

    #[test]
    fn cluster_usage_is_summed() {
        let both = quota(&[("m1", "5"), ("m2", "7")]);
        let works = made(&run(Some(&both), &[]));
        let reports = |work: &Arc<Work>, applied: &str, used: &str| {
            Arc::new(patched(
                &**work,
                &json!({"status": {
                "conditions": [{"type": "Applied", "status": applied, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "manifestStatuses": [{"identifier": {"ordinal": 0, "version": "v1", "kind": "ResourceQuota", "namespace": "shop", "name": "q", "resource": ""}, "status": {"hard": {"cpu": "5"}, "used": {"cpu": used}}}]}}),
            ))
        };
        let reported = [reports(&works[1], "True", "1500m"), reports(&works[0], "True", "500m")];
        let effects = run(Some(&both), &reported);
        let [Effect::Status(part)] = effects.as_slice() else { panic!("{effects:?}") };
        assert_eq!(
            json!(part.fields),
            json!({"overall": {"cpu": "20"}, "overallUsed": {"cpu": "2"}, "aggregatedStatus": [
                {"clusterName": "m1", "hard": {"cpu": "5"}, "used": {"cpu": "500m"}},
                {"clusterName": "m2", "hard": {"cpu": "5"}, "used": {"cpu": "1500m"}}]})
        );
        let effects = run(Some(&both), &[reported[0].clone(), reports(&works[0], "False", "9")]);
        let [Effect::Status(part)] = effects.as_slice() else { panic!("{effects:?}") };
        assert_eq!(part.fields["overallUsed"], json!({"cpu": "1500m"}), "of what is not applied nothing counts");
    }
}
