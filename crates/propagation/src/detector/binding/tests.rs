use ironclad_api::policy::{ClusterPropagationPolicy, PropagationPolicy};
use ironclad_interpreter::{Answer, Question, Replicas, Reply, Source};
use proptest::prelude::*;

use super::*;
use crate::{
    detector::claim::ClaimScope,
    testkit::{self, cluster_policy, deployment, ids, merge, patched, policy},
};

fn claim() -> Claim {
    Claim { scope: ClaimScope::Namespaced, namespace: "shop".into(), name: "p".into(), id: "id-p".into() }
}

fn run(
    template: &Value,
    policy: &PropagationPolicy,
    existing: Option<&ResourceBinding>,
    named: Option<&ResourceBinding>,
    options: &Options,
) -> Result<Plan<Effect>, InterpretError> {
    decide(
        &Seen {
            template,
            policy: Policy::Namespaced(policy),
            claim: &claim(),
            binding: existing.map(Binding::from),
            named: named.map(Binding::from),
            schedule_priority: None,
            interpreter: &Interpreter::default(),
            options,
            now: jiff::Timestamp::from_second(1_000).unwrap(),
        },
        &mut ids("new"),
    )
}

fn created(template: &Value, policy: &PropagationPolicy, options: &Options) -> ResourceBinding {
    let plan = run(template, policy, None, None, options).unwrap();
    let [Effect::Create(binding)] = plan.effects.as_slice() else { panic!("{plan:?}") };
    patched(&**binding, &json!({"metadata": {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}}))
}

fn update(existing: &ResourceBinding, template: &Value, policy: &PropagationPolicy) -> Option<Value> {
    let plan = run(template, policy, Some(existing), Some(existing), &Options::default()).unwrap();
    match plan.effects.as_slice() {
        [] => None,
        [Effect::Patch { patch, .. }] => Some(patch.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn new_binding_has_all_fields() {
    let binding = created(&deployment(), &policy("p", json!({})), &Options::default());
    assert_eq!(
        json!(binding.metadata),
        json!({
            "namespace": "shop", "name": "web-deployment", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"propagationpolicy.karmada.io/permanent-id": "id-p", "resourcebinding.karmada.io/permanent-id": "new-1"},
            "annotations": {"propagationpolicy.karmada.io/namespace": "shop", "propagationpolicy.karmada.io/name": "p",
                APPLIED_TEMPLATE: TemplateHash::of(&deployment()).to_text()},
            "finalizers": ["karmada.io/binding-controller"],
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web", "controller": true, "blockOwnerDeletion": true}],
        })
    );
    assert_eq!(
        json!(binding.spec),
        json!({
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "uid": "uid-web", "resourceVersion": "10"},
            "replicas": 3, "replicaRequirements": {"resourceRequest": {"cpu": "100m"}},
            "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
            "schedulerName": "default-scheduler", "conflictResolution": "Abort",
        })
    );
}

#[test]
fn new_binding_of_a_cluster_scoped_template() {
    let template = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "system:x", "uid": "u", "resourceVersion": "1"}});
    let policy = cluster_policy("c", json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}));
    let claim = Claim { scope: ClaimScope::Cluster, namespace: String::new(), name: "c".into(), id: "id-c".into() };
    let seen = Seen {
        template: &template,
        policy: Policy::Cluster(&policy),
        claim: &claim,
        binding: None,
        named: None,
        schedule_priority: None,
        interpreter: &Interpreter::default(),
        options: &Options::default(),
        now: jiff::Timestamp::UNIX_EPOCH,
    };
    let plan = decide(&seen, &mut ids("new")).unwrap();
    let [Effect::CreateCluster(binding)] = plan.effects.as_slice() else { panic!("{plan:?}") };
    assert_eq!(binding.metadata.name.as_deref(), Some("system.x-clusterrole"));
    assert_eq!(binding.metadata.namespace, None);
    assert_eq!(
        binding.metadata.finalizers.as_deref(),
        Some(&["karmada.io/cluster-resource-binding-controller".to_owned()][..])
    );
    assert_eq!(binding.metadata.labels.as_ref().unwrap()["clusterresourcebinding.karmada.io/permanent-id"], "new-1");
    assert_eq!((binding.spec.replicas, &binding.spec.replica_requirements), (0, &None), "not a workload");
    let existing = patched(&**binding, &json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}));
    assert!(decide(&Seen { binding: Some(Binding::from(&existing)), ..seen }, &mut ids("x")).unwrap().is_quiet());
    // The policy may change `propagateDeps` at any time (specification/propagation.md 31 row 22).
    let mut existing = existing;
    for follows in [true, false] {
        let policy: ClusterPropagationPolicy = patched(&policy, &json!({"spec": {"propagateDeps": follows}}));
        let seen = Seen { policy: Policy::Cluster(&policy), binding: Some(Binding::from(&existing)), ..seen };
        let plan = decide(&seen, &mut ids("x")).unwrap();
        let [Effect::Patch { patch, .. }] = plan.effects.as_slice() else { panic!("{plan:?}") };
        existing = patched(&existing, patch);
        assert_eq!(existing.spec.propagate_deps, follows);
    }
}

#[test]
fn each_field_comes_from_policy_or_template() {
    let base = policy("p", json!({}));
    for (name, spec, pointer, want) in [
        ("dependencies", json!({"propagateDeps": true}), "/propagateDeps", json!(true)),
        ("scheduler", json!({"schedulerName": "mine"}), "/schedulerName", json!("mine")),
        (
            "placement, with defaults",
            json!({"placement": {"clusterAffinity": null, "replicaScheduling": {}}}),
            "/placement",
            json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}}),
        ),
        (
            "failover",
            json!({"failover": {"cluster": {}}}),
            "/failover/cluster",
            json!({"purgeMode": "Gracefully", "tolerationSeconds": 300}),
        ),
        ("conflict resolution", json!({"conflictResolution": "Overwrite"}), "/conflictResolution", json!("Overwrite")),
        ("preservation", json!({"preserveResourcesOnDeletion": false}), "/preserveResourcesOnDeletion", json!(false)),
        ("suspension", json!({"suspension": {"dispatching": true}}), "/suspension", json!({"dispatching": true})),
    ] {
        let policy: PropagationPolicy = patched(&base, &json!({"spec": spec}));
        let binding = created(&deployment(), &policy, &Options::default());
        assert_eq!(json!(binding.spec).pointer(pointer), Some(&want), "{name}");
        let updated = patched(
            &created(&deployment(), &base, &Options::default()),
            &update(&created(&deployment(), &base, &Options::default()), &deployment(), &policy).unwrap(),
        );
        assert_eq!(json!(updated.spec).pointer(pointer), Some(&want), "{name}, on update");
        assert_eq!(update(&updated, &deployment(), &policy), None, "{name}, quiet");
        assert_eq!(
            update(&patched(&updated, &update(&updated, &deployment(), &base).unwrap()), &deployment(), &base),
            None,
            "{name}, and back"
        );
    }
}

#[test]
fn application_failover_time_is_recorded() {
    let asks = json!({"failover": {"application": {"decisionConditions": {}}}});
    let of = |spec: &Value| -> PropagationPolicy { patched(&policy("p", json!({})), &json!({"spec": spec})) };
    let (plain, asking, cluster) = (of(&json!({})), of(&asks), of(&json!({"failover": {"cluster": {}}})));
    let since = |binding: &ResourceBinding| {
        binding.metadata.annotations.as_ref().and_then(|a| a.get(APPLICATION_FAILOVER_SINCE).cloned())
    };
    let edited = |binding: &ResourceBinding, policy: &PropagationPolicy| -> ResourceBinding {
        update(binding, &deployment(), policy).map_or_else(|| binding.clone(), |patch| patched(binding, &patch))
    };
    let from_the_beginning = created(&deployment(), &asking, &Options::default());
    assert_eq!(since(&from_the_beginning), None, "nothing was before");
    let not_yet = created(&deployment(), &plain, &Options::default());
    assert_eq!(since(&edited(&not_yet, &cluster)), None, "what clusters suffer is something else");
    let begins = edited(&not_yet, &asking);
    assert_eq!(since(&begins).as_deref(), Some("1970-01-01T00:16:40Z"), "in the write with which it begins");
    assert_eq!(application_failover_since(&begins.metadata), Timestamp::from_second(1_000).ok(), "and is read so");
    assert_eq!(application_failover_since(&not_yet.metadata), None);
    let mut edited_by_hand = begins.metadata.clone();
    edited_by_hand.annotations.as_mut().unwrap().insert(APPLICATION_FAILOVER_SINCE.into(), "yesterday".into());
    assert_eq!(application_failover_since(&edited_by_hand), None, "no time is no time");
    let other = of(&json!({"failover": {"application": {"decisionConditions": {"tolerationSeconds": 9}}}}));
    assert_eq!(since(&edited(&begins, &other)), since(&begins), "an edit of how is no new beginning");
    let ceases = edited(&begins, &plain);
    assert_eq!(since(&ceases), None);
    assert!(since(&edited(&ceases, &asking)).is_some(), "and begins again");
}

#[test]
fn resolved_priority_is_written() {
    let policy = policy("p", json!({}));
    let priority = ResolvedPriority { priority: 7, preemption_policy: None };
    let seen = Seen {
        template: &deployment(),
        policy: Policy::Namespaced(&policy),
        claim: &claim(),
        binding: None,
        named: None,
        schedule_priority: Some(&priority),
        interpreter: &Interpreter::default(),
        options: &Options::default(),
        now: jiff::Timestamp::UNIX_EPOCH,
    };
    let plan = decide(&seen, &mut ids("new")).unwrap();
    let [Effect::Create(binding)] = plan.effects.as_slice() else { panic!("{plan:?}") };
    assert_eq!(json!(binding.spec.schedule_priority), json!({"priority": 7, "preemptionPolicy": "Never"}));
}

#[test]
fn suspension_keeps_the_scheduling_field() {
    let old = |json: Value| serde_json::from_value::<Option<BindingSuspension>>(json).unwrap();
    let new = |json: Value| serde_json::from_value::<Option<Suspension>>(json).unwrap();
    for (name, before, policy, want) in [
        (
            "replaced, scheduling kept",
            json!({"dispatching": true, "scheduling": true}),
            json!({"dispatchingOnClusters": {"clusterNames": ["a"]}}),
            json!({"dispatchingOnClusters": {"clusterNames": ["a"]}, "scheduling": true}),
        ),
        (
            "cleared, scheduling kept",
            json!({"dispatching": true, "scheduling": false}),
            json!(null),
            json!({"scheduling": false}),
        ),
        ("cleared", json!({"dispatching": true}), json!(null), json!(null)),
        ("none", json!(null), json!(null), json!(null)),
        ("first", json!(null), json!({"dispatching": true}), json!({"dispatching": true})),
    ] {
        assert_eq!(json!(merged_suspension(old(before), new(policy))), want, "{name}");
    }
}

#[test]
fn update_keeps_fields_of_other_controllers() {
    let policy = policy("p", json!({}));
    let mut binding = created(&deployment(), &policy, &Options::default());
    let others = json!({
        "metadata": {"labels": {"theirs": "1"}, "annotations": {"policy.karmada.io/applied-placement": "{}"}, "finalizers": ["karmada.io/binding-controller", "theirs"]},
        "spec": {"clusters": [{"name": "m1", "replicas": 3}], "gracefulEvictionTasks": [{"fromCluster": "m2", "reason": "R", "producer": "P"}],
            "requiredBy": [{"name": "other"}], "rescheduleTriggeredAt": "2026-01-01T00:00:00Z", "suspension": {"scheduling": true}},
    });
    binding = patched(&binding, &others);
    assert_eq!(update(&binding, &deployment(), &policy), None);
    let mut edited = deployment();
    merge(&mut edited, &json!({"spec": {"replicas": 5}, "metadata": {"resourceVersion": "11"}}));
    let patch = update(&binding, &edited, &policy).unwrap();
    let mut want =
        json!({"metadata": {"annotations": {}}, "spec": {"replicas": 5, "resource": {"resourceVersion": "11"}}});
    want["metadata"]["annotations"][APPLIED_TEMPLATE] = json!(TemplateHash::of(&edited).to_text());
    assert_eq!(patch, want);
}

#[test]
fn template_status_write_costs_no_binding_write() {
    let policy = policy("p", json!({}));
    let binding = created(&deployment(), &policy, &Options::default());
    let mut template = deployment();
    merge(
        &mut template,
        &json!({"metadata": {"resourceVersion": "99", "managedFields": [{}]}, "status": {"replicas": 3}}),
    );
    assert_eq!(update(&binding, &template, &policy), None);
    merge(&mut template, &json!({"metadata": {"resourceVersion": "100", "annotations": {"a": "b"}}}));
    let patch = update(&binding, &template, &policy).unwrap();
    assert_eq!(patch.pointer("/spec/resource/resourceVersion"), Some(&json!("100")), "a metadata write does");
}

#[test]
fn binding_of_a_deleted_namesake_must_be_deleted_first() {
    let policy = policy("p", json!({}));
    let mut binding = created(&deployment(), &policy, &Options::default());
    binding.metadata.owner_references.as_mut().unwrap()[0].uid = "old".into();
    let plan = run(&deployment(), &policy, Some(&binding), Some(&binding), &Options::default()).unwrap();
    assert_eq!(plan.effects, [Effect::Retry]);
}

#[test]
fn binding_being_deleted_is_not_patched() {
    let policy = policy("p", json!({}));
    let mut binding = created(&deployment(), &policy, &Options::default());
    binding.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(
        run(&deployment(), &policy, Some(&binding), None, &Options::default()).unwrap().effects,
        [Effect::Retry]
    );
}

#[test]
fn used_name_gets_a_suffix() {
    let policy = policy("p", json!({}));
    let mut other = testkit::binding(&[]);
    other.spec.resource.api_version = "example.io/v1".into();
    let plan = run(&deployment(), &policy, None, Some(&other), &Options::default()).unwrap();
    let [Effect::Create(binding)] = plan.effects.as_slice() else { panic!("{plan:?}") };
    assert_eq!(binding.metadata.name, Some(format!("web-deployment-{}", names::hash("apps"))));
    assert_eq!(
        plan.because[0].to_string(),
        "the name web-deployment is taken by the binding of Deployment example.io/v1"
    );
    let existing = patched(&**binding, &json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}));
    let again = run(&deployment(), &policy, Some(&existing), Some(&other), &Options::default()).unwrap();
    assert!(again.is_quiet(), "found by its resource, not by name: {again:?}");
    other.spec.resource.api_version = "apps/v1beta1".into();
    other.metadata.owner_references = None;
    let same = run(&deployment(), &policy, None, Some(&other), &Options::default()).unwrap();
    assert!(
        matches!(same.effects.as_slice(), [Effect::Patch { .. }]),
        "another version of the group is the same template"
    );
}

#[test]
fn malformed_template_keeps_the_binding() {
    let mut template = deployment();
    template["spec"]["replicas"] = json!("three");
    let error = run(&template, &policy("p", json!({})), None, None, &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "Deployment shop/web: /spec/replicas must be a whole number");
}

#[test]
fn gates_add_their_fields() {
    let mut grouped = policy("p", json!({}));
    grouped.spec.placement.workload_affinity = serde_json::from_value(
        json!({"affinity": {"groupByLabelKey": "app"}, "antiAffinity": {"groupByLabelKey": "nope"}}),
    )
    .unwrap();
    let on = Options { workload_affinity: true, resource_quota_estimate: true, multiple_pod_templates: true };
    let mut urgent = deployment();
    urgent["spec"]["template"]["spec"]["priorityClassName"] = json!("urgent");
    let binding = created(&urgent, &grouped, &on);
    assert_eq!(json!(binding.spec.workload_affinity_groups), json!({"affinityGroup": "app=web"}));
    let needs = binding.spec.replica_requirements.unwrap();
    assert_eq!((needs.namespace.as_str(), needs.priority_class_name.as_str()), ("shop", "urgent"));
    assert_eq!((binding.spec.replicas, binding.spec.components), (3, Vec::new()), "no native kind has components");
    let binding = created(&urgent, &grouped, &Options::default());
    assert_eq!(binding.spec.workload_affinity_groups, None);
    let needs = binding.spec.replica_requirements.unwrap();
    assert_eq!((needs.namespace.as_str(), needs.priority_class_name.as_str()), ("", ""));
}

/// Source with components and replicas for every kind.
#[derive(Debug)]
struct Parts;

impl Source for Parts {
    fn implements(&self, _: &str, _: &str, operation: Operation) -> bool {
        matches!(operation, Operation::InterpretComponent | Operation::InterpretReplica)
    }

    fn answer(&self, question: &Question<'_>) -> Result<Answer, InterpretError> {
        Ok(Answer::Is(match question {
            Question::Components { .. } => {
                let part = |name: &str| json!({"name": name, "replicas": 1});
                Reply::Components(serde_json::from_value(json!([part("head"), part("worker")])).unwrap())
            }
            _ => Reply::Replicas(Replicas { replicas: 9, requirements: None }),
        }))
    }
}

#[test]
fn components_take_precedence_over_replicas() {
    let (template, policy, interpreter) =
        (deployment(), policy("p", json!({})), Interpreter::new(vec![std::sync::Arc::new(Parts)]));
    let spec = |multiple_pod_templates, binding: Option<&ResourceBinding>| {
        let plan = decide(
            &Seen {
                template: &template,
                policy: Policy::Namespaced(&policy),
                claim: &claim(),
                binding: binding.map(Binding::from),
                named: binding.map(Binding::from),
                schedule_priority: None,
                interpreter: &interpreter,
                options: &Options { multiple_pod_templates, ..Options::default() },
                now: jiff::Timestamp::UNIX_EPOCH,
            },
            &mut ids("new"),
        )
        .unwrap();
        match plan.effects.into_iter().next() {
            Some(Effect::Create(made)) => {
                patched(&*made, &json!({"metadata": {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}}))
            }
            Some(Effect::Patch { patch, .. }) => patched(binding.unwrap(), &patch),
            other => panic!("{other:?}"),
        }
    };
    let reasons = |binding: &ResourceBinding| {
        let names: Vec<&str> = binding.spec.components.iter().map(|c| c.name.as_str()).collect();
        (binding.spec.replicas, names.join(","))
    };
    let with = spec(true, None);
    assert_eq!(reasons(&with), (0, "head,worker".to_owned()), "components leave replicas empty");
    let without = spec(false, Some(&with));
    assert_eq!(
        reasons(&without),
        (9, String::new()),
        "without the gate it is replicas, and nothing is left of the components"
    );
    assert_eq!(reasons(&spec(true, Some(&without))), (0, "head,worker".to_owned()), "and back");
}

proptest! {
    #[test]
    fn updated_binding_equals_a_new_one(replicas in 0..5_i32, overwrite in any::<bool>(), suspend in any::<Option<bool>>(), version in 1..4_u32, label in "[ab]", divided in any::<bool>(),
                                         replicas2 in 0..5_i32, overwrite2 in any::<bool>(), suspend2 in any::<Option<bool>>(), label2 in "[ab]", divided2 in any::<bool>()) {
        let make = |replicas: i32, overwrite: bool, suspend: Option<bool>, version: u32, label: &str, divided: bool| {
            let mut template = deployment();
            merge(&mut template, &json!({"spec": {"replicas": replicas}, "metadata": {"resourceVersion": version.to_string(), "labels": {"l": label}}}));
            let mut spec = json!({"spec": {"suspension": suspend.map(|s| json!({"dispatching": s}))}});
            if overwrite { merge(&mut spec, &json!({"spec": {"conflictResolution": "Overwrite"}})); }
            if divided { merge(&mut spec, &json!({"spec": {"placement": {"replicaScheduling": {}}}})); }
            let policy: PropagationPolicy = patched(&policy("p", json!({})), &spec);
            (template, policy)
        };
        let (template, policy) = make(replicas, overwrite, suspend, version, &label, divided);
        let first = created(&template, &policy, &Options::default());
        prop_assert_eq!(update(&first, &template, &policy), None);
        let (template2, policy2) = make(replicas2, overwrite2, suspend2, version + 1, &label2, divided2);
        let second = update(&first, &template2, &policy2).map_or(first.clone(), |patch| patched(&first, &patch));
        prop_assert_eq!(update(&second, &template2, &policy2), None);
        let mut direct = created(&template2, &policy2, &Options::default());
        // Equal to a binding created at once, except for the resourceVersion of an unchanged template.
        direct.spec.resource.resource_version.clone_from(&second.spec.resource.resource_version);
        prop_assert_eq!(second, direct);
    }
}
