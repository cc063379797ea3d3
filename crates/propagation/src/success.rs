//! Success events of Karmada (specification/api.md 18), which Ironclad writes with `--success-events` only: what a
//! plan changed, once its effects are applied. A plan that changed nothing has none.

use ironclad_api::{
    annotations,
    conditions::{self, work::DISPATCHING},
    events::{
        AGGREGATE_STATUS_SUCCEED, APPLY_OVERRIDE_POLICY_SUCCEED, APPLY_POLICY_SUCCEED, COLLECT_OVERALL_STATUS_SUCCEED,
        GET_DEPENDENCIES_SUCCEED, GET_REPLICAS_SUCCEED, INTERPRET_HEALTH_SUCCEED, REFLECT_STATUS_SUCCEED,
        SYNC_SCHEDULE_RESULT_TO_DEPENDENCIES_SUCCEED, SYNC_SUCCEED, SYNC_WORK_FAILED, SYNC_WORK_SUCCEED,
        WORK_DISPATCHING,
    },
    names,
    policy::FederatedResourceQuota,
    work::{ObjectReference, Work},
};
use ironclad_fleet::{BindingRef, Event, EventType};
use serde_json::Value;

use crate::{
    binding, binding_status, dependencies, detector, execution, quota,
    template::{self, Identity},
    work_status,
};

/// The same event on each of these objects.
fn on(about: impl IntoIterator<Item = ObjectReference>, reason: &'static str, message: &str) -> Vec<Event> {
    about.into_iter().map(|about| Event::normal(about, reason, message)).collect()
}

/// `Kind(namespace/name)`, without a namespace for cluster-scoped objects.
fn named(object: &ObjectReference) -> String {
    if object.namespace.is_empty() {
        format!("{}({})", object.kind, object.name)
    } else {
        format!("{}({}/{})", object.kind, object.namespace, object.name)
    }
}

/// Events of the detector: the policy is applied to the template, and its replicas are read.
#[must_use]
pub fn of_detector(template: &Value, effects: &[detector::Effect]) -> Vec<Event> {
    use detector::Effect;
    let is_reported = |effect: &Effect| matches!(effect, Effect::Event(event) if event.reason == APPLY_POLICY_SUCCEED);
    let (mut is_written, mut replicas) = (false, None);
    for effect in effects {
        match effect {
            Effect::CreateBinding(binding) => (is_written, replicas) = (true, Some(binding.spec.replicas)),
            Effect::CreateClusterBinding(binding) => (is_written, replicas) = (true, Some(binding.spec.replicas)),
            Effect::PatchBinding { patch, .. } => {
                is_written = true;
                replicas = patch.pointer("/spec/replicas").and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok());
            }
            _ => {}
        }
    }
    let about = Identity::of(template).reference();
    let mut events = Vec::new();
    if is_written && !effects.iter().any(is_reported) {
        let claim = |key| template::annotation(template, key);
        let namespaced = claim(annotations::PROPAGATION_POLICY_NAME);
        let message = if namespaced.is_empty() {
            format!("Apply cluster policy({}) succeed", claim(annotations::CLUSTER_PROPAGATION_POLICY_NAME))
        } else {
            format!("Apply policy({}/{namespaced}) succeed", claim(annotations::PROPAGATION_POLICY_NAMESPACE))
        };
        events.push(Event::normal(about.clone(), APPLY_POLICY_SUCCEED, message));
    }
    if let Some(replicas) = replicas.filter(|replicas| *replicas > 0) {
        events.push(Event::normal(about, GET_REPLICAS_SUCCEED, format!("Get replicas({replicas}) succeed")));
    }
    events
}

/// Events of the binding controller: the Works of a binding are written, and overrides are applied in them.
#[must_use]
pub fn of_binding(binding: BindingRef<'_>, template: Option<&Value>, effects: &[binding::Effect]) -> Vec<Event> {
    use binding::Effect;
    let failed = |effect: &Effect| matches!(effect, Effect::Event(event) if event.type_ == EventType::Warning);
    let Some(template) = template else { return Vec::new() };
    let about = Identity::of(template).reference();
    let (mut events, mut is_written) = (Vec::new(), false);
    for effect in effects {
        let (namespace, annotation_map) = match effect {
            Effect::Create(work) => {
                let all = work.metadata.annotations.as_ref();
                let get = |key: &str| all.and_then(|all| all.get(key)).cloned().unwrap_or_default();
                let both = [get(annotations::APPLIED_CLUSTER_OVERRIDES), get(annotations::APPLIED_OVERRIDES)];
                (work.metadata.namespace.clone().unwrap_or_default(), both)
            }
            Effect::Patch { key, patch } => {
                let all = patch.pointer("/metadata/annotations");
                let get =
                    |key: &str| all.and_then(|all| all.get(key)).and_then(Value::as_str).unwrap_or_default().to_owned();
                let both = [get(annotations::APPLIED_CLUSTER_OVERRIDES), get(annotations::APPLIED_OVERRIDES)];
                (names::execution_namespace(&key.cluster.0), both)
            }
            _ => continue,
        };
        is_written = true;
        let cluster = names::cluster_of_execution_namespace(&namespace).unwrap_or_default();
        for (kind, record) in ["cluster override policy", "override policy"].into_iter().zip(annotation_map) {
            for policy in policies(&record) {
                let message = format!("Apply {kind}({policy}) for cluster({cluster}) succeed");
                events.push(Event::normal(about.clone(), APPLY_OVERRIDE_POLICY_SUCCEED, message));
            }
        }
    }
    if is_written && !effects.iter().any(failed) {
        let message = format!("Sync work of {} successful", named(&binding.reference()));
        events.extend(on([binding.reference(), about], SYNC_WORK_SUCCEED, &message));
    }
    events
}

/// Names of the policies in an annotation that lists applied overrides.
fn policies(record: &str) -> Vec<String> {
    let list: Vec<Value> = serde_json::from_str(record).unwrap_or_default();
    list.iter().filter_map(|item| item.get("policyName")?.as_str().map(str::to_owned)).collect()
}

/// Events of the execution controller: the manifest of a Work is applied in a member.
#[must_use]
pub fn of_execution(work: &Work, cluster: &str, effects: &[execution::Effect]) -> Vec<Event> {
    use execution::Effect;
    let writes = |effect: &Effect| {
        matches!(effect, Effect::CreateInMember(_) | Effect::ReplaceInMember(_) | Effect::PatchInMember { .. })
    };
    let is_reported = |effect: &Effect| matches!(effect, Effect::Event(event) if event.reason == SYNC_SUCCEED);
    if work.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let about = work_status::reference(work);
    let starts = effects.iter().find_map(|effect| match effect {
        Effect::WorkStatus(part) => conditions::get(&part.conditions, DISPATCHING),
        _ => None,
    });
    let starts = starts.filter(|condition| {
        let before = work.status.as_ref().and_then(|status| conditions::get(&status.conditions, DISPATCHING));
        condition.status == conditions::TRUE && before.is_none()
    });
    let starts = starts.map(|condition| Event::normal(about.clone(), WORK_DISPATCHING, condition.message.clone()));
    let mut events: Vec<Event> = starts.into_iter().collect();
    if effects.iter().any(writes) && !effects.iter().any(is_reported) {
        let message = format!("Sync {} to cluster({cluster}) successful", named(&about));
        events.extend(on(std::iter::once(about).chain(execution::template_of(work)), SYNC_SUCCEED, &message));
    }
    events
}

/// Events of the controller that reflects status and health of an object into its Work.
#[must_use]
pub fn of_work_status(work: &Work, object: &Value, effects: &[work_status::Effect]) -> Vec<Event> {
    let part = effects.iter().find_map(|effect| match effect {
        work_status::Effect::Status(part) => part.fields.get("manifestStatuses"),
        work_status::Effect::Event(_) => None,
    });
    let Some(item) = part.and_then(|list| list.get(0)) else { return Vec::new() };
    let (about, object) = (work_status::reference(work), named(&Identity::of(object).reference()));
    let mut events =
        vec![Event::normal(about.clone(), REFLECT_STATUS_SUCCEED, format!("Reflect status for {object} succeed"))];
    if let Some(health) = item.get("health").and_then(Value::as_str).filter(|health| *health != "Unknown") {
        let message = format!("Interpret health of {object} as {health}");
        events.push(Event::normal(about, INTERPRET_HEALTH_SUCCEED, message));
    }
    events
}

/// Events of the controller that aggregates the status of Works into their binding.
#[must_use]
pub fn of_binding_status(binding: BindingRef<'_>, effects: &[binding_status::Effect]) -> Vec<Event> {
    let aggregates = |effect: &binding_status::Effect| matches!(effect, binding_status::Effect::Status(part) if part.fields.contains_key("aggregatedStatus"));
    if !effects.iter().any(aggregates) {
        return Vec::new();
    }
    let message = format!("Update {} with AggregatedStatus successfully", named(&binding.reference()));
    on([binding.reference(), binding.spec().resource.clone()], AGGREGATE_STATUS_SUCCEED, &message)
}

/// Events of the controller of quotas: the Works of its clusters are written, and usage is aggregated.
#[must_use]
pub fn of_quota(quota: &FederatedResourceQuota, effects: &[quota::Effect]) -> Vec<Event> {
    let about = quota::reference(quota);
    let name = format!("FederatedResourceQuota({}/{})", about.namespace, about.name);
    let writes = effects.iter().any(|effect| matches!(effect, quota::Effect::Work(_)));
    let fails =
        |effect: &quota::Effect| matches!(effect, quota::Effect::Event(event) if event.reason == SYNC_WORK_FAILED);
    let synced = (writes && !effects.iter().any(fails))
        .then(|| Event::normal(about.clone(), SYNC_WORK_SUCCEED, format!("Sync works for {name} succeed.")));
    let aggregates = |field: &str| {
        effects.iter().any(|effect| matches!(effect, quota::Effect::Status(part) if part.fields.contains_key(field)))
    };
    let collected = aggregates("aggregatedStatus")
        .then(|| Event::normal(about.clone(), AGGREGATE_STATUS_SUCCEED, format!("Collect status of {name} succeed.")));
    // A new limit is compared with what is used, which may be nothing and so no change.
    let overall = ["overall", "overallUsed"].into_iter().any(aggregates).then(|| {
        Event::normal(about, COLLECT_OVERALL_STATUS_SUCCEED, format!("Collect overall status of {name} succeed."))
    });
    synced.into_iter().chain(collected).chain(overall).collect()
}

/// Events of the controller of dependencies: they are read, and attached bindings are written.
#[must_use]
pub fn of_dependencies(
    binding: BindingRef<'_>,
    template: Option<&Value>,
    effects: &[dependencies::Effect],
) -> Vec<Event> {
    use dependencies::Effect;
    let mut events = Vec::new();
    let recorded = effects.iter().find_map(|effect| match effect {
        Effect::PatchBinding { patch } => {
            patch.pointer("/metadata/annotations")?.get(annotations::DEPENDENCIES)?.as_str()
        }
        _ => None,
    });
    if let (Some(recorded), Some(template)) = (recorded, template) {
        let about = Identity::of(template).reference();
        events.push(Event::normal(about, GET_DEPENDENCIES_SUCCEED, format!("Get dependencies({recorded}) succeed")));
    }
    if effects.iter().any(|effect| matches!(effect, Effect::Create(_) | Effect::Patch { .. })) {
        let message = "Sync schedule results to dependencies succeed";
        events.push(Event::normal(binding.reference(), SYNC_SCHEDULE_RESULT_TO_DEPENDENCIES_SUCCEED, message));
    }
    events
}

#[cfg(test)]
mod tests {
    use ironclad_api::work::{ResourceBinding, ResourceBindingSpec, WorkSpec};
    use ironclad_fleet::{ClusterName, StatusPart, WorkKey};
    use serde_json::{Map, json};

    use super::*;

    fn template() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "annotations": {
            annotations::PROPAGATION_POLICY_NAMESPACE: "shop", annotations::PROPAGATION_POLICY_NAME: "p"}}})
    }

    fn binding() -> ResourceBinding {
        let mut spec = ResourceBindingSpec { replicas: 2, ..ResourceBindingSpec::default() };
        spec.resource = Identity::of(&template()).reference();
        let mut binding = ResourceBinding::new("web-deployment", spec);
        binding.metadata.namespace = Some("shop".into());
        binding
    }

    fn work(annotation_map: Value) -> Work {
        let mut work = Work::new("web-1", WorkSpec::default());
        work.metadata.namespace = Some("karmada-es-m1".into());
        work.metadata.annotations = serde_json::from_value(annotation_map).unwrap();
        work
    }

    #[test]
    fn quotas() {
        let mut quota: FederatedResourceQuota = serde_json::from_value(json!({"spec": {"overall": {}}})).unwrap();
        (quota.metadata.namespace, quota.metadata.name) = (Some("shop".into()), Some("q".into()));
        let delete = || {
            let key = WorkKey { cluster: ClusterName::from("m1"), name: "q".into() };
            quota::Effect::Work(crate::work::owned::Write::Delete { key, uid: "u".into() })
        };
        let status = |field: &str| {
            let fields = Map::from_iter([(field.to_owned(), json!([]))]);
            quota::Effect::Status(StatusPart { fields, ..StatusPart::default() })
        };
        let fails = || quota::Effect::Event(Event::warning(quota::reference(&quota), SYNC_WORK_FAILED, "taken"));
        let synced = "FederatedResourceQuota SyncWorkSucceed: Sync works for FederatedResourceQuota(shop/q) succeed.";
        let collected =
            "FederatedResourceQuota AggregateStatusSucceed: Collect status of FederatedResourceQuota(shop/q) succeed.";
        let overall = "FederatedResourceQuota CollectOverallStatusSucceed: Collect overall status of FederatedResourceQuota(shop/q) succeed.";
        for (name, effects, want) in [
            ("a Work is written", vec![delete()], vec![synced]),
            ("one of them is not", vec![delete(), fails()], vec![]),
            ("the clusters report", vec![status("aggregatedStatus")], vec![collected]),
            ("usage changes", vec![status("overallUsed")], vec![overall]),
            ("the limit changes", vec![status("overall")], vec![overall]),
            ("nothing changes", vec![], vec![]),
        ] {
            assert_eq!(texts(&of_quota(&quota, &effects)), want, "{name}");
        }
    }

    fn texts(events: &[Event]) -> Vec<String> {
        events.iter().map(|event| format!("{} {}: {}", event.about.kind, event.reason, event.message)).collect()
    }

    #[test]
    fn the_detector_reports_policy_and_replicas_of_a_written_binding() {
        use detector::Effect;
        let applied = "Deployment ApplyPolicySucceed: Apply policy(shop/p) succeed";
        let key = BindingRef::from(&binding()).key();
        let patch = |patch: Value| Effect::PatchBinding { key: key.clone(), patch };
        let replicas = "Deployment GetReplicasSucceed: Get replicas(2) succeed";
        for (name, effects, want) in [
            ("nothing changed", vec![], vec![]),
            ("only the claim", vec![Effect::PatchTemplate { patch: json!({}) }], vec![]),
            ("created", vec![Effect::CreateBinding(Box::new(binding()))], vec![applied, replicas]),
            ("scaled", vec![patch(json!({"spec": {"replicas": 2}}))], vec![applied, replicas]),
            ("another field", vec![patch(json!({"spec": {"conflictResolution": "Abort"}}))], vec![applied]),
            (
                "the choice is reported already",
                vec![
                    patch(json!({"spec": {}})),
                    Effect::Event(Event::normal(binding().spec.resource, APPLY_POLICY_SUCCEED, "chosen")),
                ],
                vec![],
            ),
        ] {
            assert_eq!(texts(&of_detector(&template(), &effects)), want, "{name}");
        }
        let mut by_cluster_policy = template();
        by_cluster_policy["metadata"]["annotations"] = json!({annotations::CLUSTER_PROPAGATION_POLICY_NAME: "cp"});
        let events = of_detector(&by_cluster_policy, &[patch(json!({}))]);
        assert_eq!(texts(&events), ["Deployment ApplyPolicySucceed: Apply cluster policy(cp) succeed"]);
    }

    #[test]
    fn the_binding_controller_reports_works_and_overrides() {
        use binding::Effect;
        let overrides = json!([{"policyName": "o", "overriders": {}}]).to_string();
        let key = WorkKey { cluster: ClusterName::from("m2"), name: "web-1".into() };
        let on_binding =
            "ResourceBinding SyncWorkSucceed: Sync work of ResourceBinding(shop/web-deployment) successful";
        let on_template = "Deployment SyncWorkSucceed: Sync work of ResourceBinding(shop/web-deployment) successful";
        let of = |by: &str| {
            format!(
                "Deployment ApplyOverridePolicySucceed: Apply {by}(o) for cluster({}) succeed",
                if by.starts_with('c') { "m2" } else { "m1" }
            )
        };
        let patch = |patch: Value| Effect::Patch { key: key.clone(), patch };
        let failed = Event::warning(binding().spec.resource, ironclad_api::events::SYNC_WORK_FAILED, "no");
        for (name, effects, want) in [
            ("nothing changed", vec![], vec![]),
            ("a wait", vec![Effect::Retry], vec![]),
            (
                "created",
                vec![Effect::Create(Box::new(work(json!({}))))],
                vec![on_binding.to_owned(), on_template.to_owned()],
            ),
            ("some failed", vec![patch(json!({})), Effect::Event(failed)], vec![]),
            (
                "overridden",
                vec![
                    Effect::Create(Box::new(work(json!({annotations::APPLIED_OVERRIDES: overrides})))),
                    patch(json!({"metadata": {"annotations": {annotations::APPLIED_CLUSTER_OVERRIDES: overrides}}})),
                ],
                vec![
                    of("override policy"),
                    of("cluster override policy"),
                    on_binding.to_owned(),
                    on_template.to_owned(),
                ],
            ),
        ] {
            let events = of_binding(BindingRef::from(&binding()), Some(&template()), &effects);
            assert_eq!(texts(&events), want, "{name}");
        }
        assert_eq!(of_binding(BindingRef::from(&binding()), None, &[patch(json!({}))]), []);
    }

    #[test]
    fn the_controllers_of_members_and_status_report_what_they_wrote() {
        let work = work(json!({}));
        let written = [execution::Effect::CreateInMember(json!({}))];
        let want = "Work SyncSucceed: Sync Work(karmada-es-m1/web-1) to cluster(m1) successful";
        assert_eq!(texts(&of_execution(&work, "m1", &written)), [want]);
        assert_eq!(of_execution(&work, "m1", &[execution::Effect::Retry]), []);
        let mut manifest = template();
        manifest["metadata"]["annotations"][annotations::TEMPLATE_UID] = json!("u1");
        let of_template = json!({"spec": {"workload": {"manifests": [manifest]}}, "metadata": work.metadata});
        let events = of_execution(&serde_json::from_value(of_template).unwrap(), "m1", &written);
        assert_eq!(texts(&events)[1], want.replacen("Work", "Deployment", 1), "on its template, too");

        let status = |fields: Value| {
            let fields: Map<String, Value> = serde_json::from_value(fields).unwrap();
            StatusPart { fields, conditions: Vec::new() }
        };
        let reflected =
            |health: &str| work_status::Effect::Status(status(json!({"manifestStatuses": [{"health": health}]})));
        let reflect = "Work ReflectStatusSucceed: Reflect status for Deployment(shop/web) succeed";
        let healthy = "Work InterpretHealthSucceed: Interpret health of Deployment(shop/web) as Healthy";
        assert_eq!(texts(&of_work_status(&work, &template(), &[reflected("Healthy")])), [reflect, healthy]);
        assert_eq!(texts(&of_work_status(&work, &template(), &[reflected("Unknown")])), [reflect]);
        assert_eq!(of_work_status(&work, &template(), &[]), []);

        let aggregated = binding_status::Effect::Status(status(json!({"aggregatedStatus": []})));
        let message =
            "AggregateStatusSucceed: Update ResourceBinding(shop/web-deployment) with AggregatedStatus successfully";
        let events = of_binding_status(BindingRef::from(&binding()), &[aggregated]);
        assert_eq!(texts(&events), [format!("ResourceBinding {message}"), format!("Deployment {message}")]);
        let condition = binding_status::Effect::Status(status(json!({})));
        assert_eq!(of_binding_status(BindingRef::from(&binding()), &[condition]), []);
    }

    #[test]
    fn dependencies_are_reported_when_they_are_recorded_or_attached() {
        use dependencies::Effect;
        let recorded =
            Effect::PatchBinding { patch: json!({"metadata": {"annotations": {annotations::DEPENDENCIES: "[]"}}}) };
        let of = |effects: &[Effect]| texts(&of_dependencies(BindingRef::from(&binding()), Some(&template()), effects));
        assert_eq!(of(&[recorded]), ["Deployment GetDependenciesSucceed: Get dependencies([]) succeed"]);
        let attached =
            "ResourceBinding SyncScheduleResultToDependenciesSucceed: Sync schedule results to dependencies succeed";
        assert_eq!(of(&[Effect::Create(Box::new(binding()))]), [attached]);
        assert_eq!(of(&[Effect::Retry]), Vec::<String>::new());
    }
}
