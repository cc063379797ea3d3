use super::*;
use crate::testkit::{deployment, ids, merge, patched};

/// Bindings of one namespace with their templates and dependencies. Applies effects as the reconciler does.
#[derive(Default)]
struct World {
    objects: Vec<Value>,
    independent: Vec<(ResourceBinding, Value)>,
    attached: Vec<Arc<ResourceBinding>>,
    unlisted: Vec<Gvk>,
}

impl World {
    fn workload(&mut self, name: &str, clusters: &[&str], configs: &[&str], spec: Value) {
        let mut template = deployment();
        let volumes: Vec<Value> = configs.iter().map(|c| json!({"configMap": {"name": c}})).collect();
        merge(
            &mut template,
            &json!({"metadata": {"name": name}, "spec": {"template": {"spec": {"volumes": volumes}}}}),
        );
        let targets: Vec<Value> = clusters.iter().map(|c| json!({"name": c, "replicas": 1})).collect();
        let mut binding = json!({
            "metadata": {"namespace": "shop", "name": format!("{name}-deployment"), "labels": {"resourcebinding.karmada.io/permanent-id": format!("id-{name}")}},
            "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name}, "propagateDeps": true, "placement": {}, "clusters": targets}});
        merge(&mut binding["spec"], &spec);
        let binding: ResourceBinding = serde_json::from_value(binding).unwrap();
        self.independent.retain(|(old, _)| old.metadata.name != binding.metadata.name);
        self.independent.push((binding, template));
    }

    fn config(&mut self, name: &str) {
        self.objects.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "5"}}));
    }

    fn reconcile(&mut self, name: &str) -> Plan<Effect> {
        let referrers: Vec<Binding<'_>> = self.independent.iter().map(|(b, _)| Binding::from(b)).collect();
        let at =
            self.independent.iter().position(|(b, _)| b.metadata.name == Some(format!("{name}-deployment"))).unwrap();
        let (binding, template) = &self.independent[at];
        let objects: Vec<&Value> = self.objects.iter().collect();
        let plan = decide(
            &Seen {
                binding: Binding::from(binding),
                template: Some(template),
                objects: &objects,
                unlisted: &self.unlisted,
                attached: &self.attached,
                referrers: &referrers,
                interpreter: &Interpreter::default(),
            },
            ids("new"),
        );
        for effect in &plan.effects {
            match effect {
                Effect::PatchBinding { patch } => self.independent[at].0 = patched(&self.independent[at].0, patch),
                Effect::Create(binding) => self.attached.push(Arc::new((**binding).clone())),
                Effect::Patch { key, patch } => {
                    let at = self.attached.iter().position(|b| Binding::from(&**b).key() == *key).unwrap();
                    self.attached[at] = Arc::new(patched(&*self.attached[at], patch));
                }
                Effect::Delete { key, .. } => self.attached.retain(|b| Binding::from(&**b).key() != *key),
                Effect::Retry | Effect::Event(_) => {}
            }
        }
        plan
    }

    fn clusters(&self, at: usize) -> Vec<String> {
        ironclad_fleet::targets::targets(&self.attached[at].spec).iter().map(|t| t.cluster.to_string()).collect()
    }
}

fn events(plan: &Plan<Effect>) -> Vec<String> {
    plan.effects
        .iter()
        .filter_map(|e| if let Effect::Event(e) = e { Some(format!("{} {}", e.reason, e.message)) } else { None })
        .collect()
}

#[test]
fn config_map_is_propagated_with_its_workload() {
    let mut world = World::default();
    world.workload("web", &["m1", "m2"], &["conf"], json!({}));
    world.config("conf");
    let plan = world.reconcile("web");
    assert!(matches!(plan.effects.as_slice(), [Effect::PatchBinding { .. }, Effect::Create(_)]), "{plan:?}");
    assert!(world.reconcile("web").is_quiet());
    let independent = &world.independent[0].0.metadata;
    assert_eq!(
        independent.annotations.as_ref().unwrap()["resourcebinding.karmada.io/dependencies"],
        r#"[{"apiVersion":"v1","kind":"ConfigMap","namespace":"shop","name":"conf"}]"#
    );
    assert_eq!(
        independent.finalizers.as_deref(),
        Some(&["karmada.io/binding-dependencies-distributor".to_owned()][..])
    );
    let attached = &world.attached[0];
    assert_eq!(attached.metadata.name.as_deref(), Some("conf-configmap"));
    assert_eq!(attached.metadata.namespace.as_deref(), Some("shop"));
    assert_eq!(attached.metadata.owner_references.as_ref().unwrap()[0].uid, "uid-conf");
    assert_eq!(attached.metadata.finalizers.as_deref(), Some(&["karmada.io/binding-controller".to_owned()][..]));
    let label = names::depended_by_label("shop", "web-deployment");
    assert_eq!(attached.metadata.labels.as_ref().unwrap()[&label], "id-web");
    assert_eq!(
        json!(attached.spec),
        json!({"resource": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "conf", "uid": "uid-conf", "resourceVersion": "5"},
            "requiredBy": [{"namespace": "shop", "name": "web-deployment", "clusters": [{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 1}]}],
            "conflictResolution": "Abort", "preserveResourcesOnDeletion": false})
    );
    world.workload("web", &["m3"], &["conf"], json!({}));
    let _moved = world.reconcile("web");
    assert_eq!(world.clusters(0), ["m3"]);
}

#[test]
fn two_referrers_share_an_attached_binding() {
    let mut world = World::default();
    world.workload("a", &["m1", "m2"], &["c"], json!({"conflictResolution": "Overwrite"}));
    world.workload("b", &["m3"], &["c"], json!({}));
    world.config("c");
    let _first = world.reconcile("a");
    let second = world.reconcile("b");
    assert_eq!(
        events(&second),
        [
            "DependencyPolicyConflict the bindings that need this disagree: ConflictResolution conflicted (Overwrite vs Abort), Overwrite is used"
        ]
    );
    assert_eq!(world.clusters(0), ["m1", "m2", "m3"]);
    assert_eq!(json!(world.attached[0].spec.conflict_resolution), json!("Overwrite"));
    assert_eq!(
        world.attached[0].metadata.labels.as_ref().unwrap().keys().filter(|k| k.contains("depended-by")).count(),
        2
    );
    assert!(world.reconcile("a").is_quiet() && world.reconcile("b").is_quiet());

    world.independent[0].0.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    let _released = world.reconcile("a");
    assert_eq!(world.clusters(0), ["m3"]);
    assert_eq!(json!(world.attached[0].spec.conflict_resolution), json!("Abort"));
    assert_eq!(
        world.independent[0].0.metadata.finalizers.as_deref(),
        Some(&[][..]),
        "the finalizer goes after the release"
    );
}

#[test]
fn preservation_conflicts_are_reported() {
    let mut world = World::default();
    world.workload("a", &["m1"], &["c"], json!({"preserveResourcesOnDeletion": true}));
    world.workload("b", &["m1"], &["c"], json!({}));
    world.config("c");
    let _first = world.reconcile("a");
    assert_eq!(
        events(&world.reconcile("b")),
        [
            "DependencyPolicyConflict the bindings that need this disagree: PreserveResourcesOnDeletion conflicted (true vs false), true is used"
        ]
    );
    assert_eq!(world.attached[0].spec.preserve_resources_on_deletion, Some(true));
}

/// Policies are edited apart: after the first edit the settings of the attached binding are those of both edits. The
/// second one still tells what conflicts since, once.
#[test]
fn conflicts_that_change_no_setting_are_reported_once() {
    let spec = |resolution: &str, preserve: bool| json!({"conflictResolution": resolution, "preserveResourcesOnDeletion": preserve});
    let mut world = World::default();
    world.config("c");
    world.workload("a", &["m1"], &["c"], spec("Overwrite", true));
    world.workload("b", &["m1"], &["c"], spec("Abort", false));
    let _attached = (world.reconcile("a"), world.reconcile("b"));

    world.workload("b", &["m1"], &["c"], spec("Overwrite", false));
    assert_eq!(
        events(&world.reconcile("b")),
        [
            "DependencyPolicyConflict the bindings that need this disagree: PreserveResourcesOnDeletion conflicted (true vs false), true is used"
        ]
    );
    assert!(world.reconcile("a").is_quiet() && world.reconcile("b").is_quiet(), "it is told once");

    world.workload("c", &["m2"], &["c"], spec("Overwrite", true));
    assert_eq!(events(&world.reconcile("c")), [""; 0], "the same conflict with one more referrer");

    world.workload("b", &["m1"], &["c"], spec("Overwrite", true));
    assert_eq!(events(&world.reconcile("b")), [""; 0]);
    let recorded = |world: &World| {
        world.attached[0].metadata.annotations.as_ref().unwrap().keys().any(|key| key.contains("policy-conflict"))
    };
    assert!(!recorded(&world), "nothing conflicts now");

    world.workload("b", &["m1"], &["c"], spec("Overwrite", false));
    assert_eq!(events(&world.reconcile("b")).len(), 1, "it is told again when it comes back");
}

#[test]
fn unreferenced_attached_binding_is_deleted() {
    for (name, change) in [
        (
            "another reference",
            (|world: &mut World| world.workload("web", &["m1"], &["other"], json!({}))) as fn(&mut World),
        ),
        ("no following any more", |world| world.independent[0].0.spec.propagate_deps = false),
        ("the workload goes", |world| {
            world.independent[0].0.metadata.deletion_timestamp =
                serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap()
        }),
    ] {
        let mut world = World::default();
        world.workload("web", &["m1"], &["conf"], json!({}));
        world.config("conf");
        let _first = world.reconcile("web");
        change(&mut world);
        let plan = world.reconcile("web");
        assert!(plan.effects.iter().any(|e| matches!(e, Effect::Delete { .. })), "{name}: {plan:?}");
        assert!(world.attached.is_empty(), "{name}");
        assert!(world.reconcile("web").is_quiet(), "{name}");
    }
    let mut world = World::default();
    world.workload("web", &["m1"], &["conf"], json!({}));
    world.config("conf");
    let _first = world.reconcile("web");
    world.independent[0].0.spec.propagate_deps = false;
    let _released = world.reconcile("web");
    let metadata = &world.independent[0].0.metadata;
    assert!(
        !metadata.annotations.as_ref().unwrap().contains_key("resourcebinding.karmada.io/dependencies"),
        "the record goes too"
    );
}

#[test]
fn binding_of_a_policy_is_kept_and_shared() {
    let mut world = World::default();
    world.workload("web", &["m1"], &["conf"], json!({"conflictResolution": "Overwrite"}));
    world.config("conf");
    let of_policy: ResourceBinding = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "conf-configmap", "labels": {"resourcebinding.karmada.io/permanent-id": "c"}, "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "conf", "uid": "uid-conf", "controller": true}]},
        "spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "conf", "uid": "uid-conf", "resourceVersion": "1"}, "placement": {}, "clusters": [{"name": "m9"}], "conflictResolution": "Abort"}}))
    .unwrap();
    world.attached.push(Arc::new(of_policy));
    let _first = world.reconcile("web");
    assert_eq!(world.clusters(0), ["m9", "m1"], "the union");
    assert_eq!(json!(world.attached[0].spec.conflict_resolution), json!("Abort"), "the policy's word");
    assert_eq!(world.attached[0].spec.resource.resource_version, "1", "the detector's field");
    world.independent[0].0.spec.propagate_deps = false;
    let _released = world.reconcile("web");
    assert_eq!(world.clusters(0), ["m9"]);
}

#[test]
fn missing_dependency_is_attached_once_it_exists() {
    let mut world = World::default();
    world.workload("web", &["m1"], &["late"], json!({}));
    let plan = world.reconcile("web");
    assert!(matches!(plan.effects.as_slice(), [Effect::PatchBinding { .. }]), "{plan:?}");
    world.config("late");
    let binding = &world.independent[0].0;
    assert!(
        recorded_selects(Binding::from(binding), &Identity::of(&world.objects[0])),
        "its coming brings the binding back"
    );
    assert!(!recorded_selects(
        Binding::from(binding),
        &Identity::of(
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "x"}})
        )
    ));
    assert!(matches!(world.reconcile("web").effects.as_slice(), [Effect::Create(_)]));
}

#[test]
fn unscheduled_workload_attaches_nothing() {
    let mut world = World::default();
    world.workload("web", &[], &["conf"], json!({}));
    world.config("conf");
    let _first = world.reconcile("web");
    assert!(world.attached.is_empty());
    world.workload("web", &["m1"], &["conf"], json!({}));
    let _second = world.reconcile("web");
    world.workload("web", &[], &["conf"], json!({}));
    let _third = world.reconcile("web");
    assert_eq!(world.clusters(0), Vec::<String>::new(), "and it leaves again");
}

#[test]
fn dependency_stays_with_an_old_copy_until_its_eviction_ends() {
    let task = |mode: Option<&str>| json!([{"fromCluster": "m1", "reason": "TaintUntolerated", "producer": "TaintManager", "purgeMode": mode}]);
    for (name, result, tasks, want) in [
        ("before", &["m1"][..], json!([]), &["m1"][..]),
        ("no substitute yet", &[], task(Some("Gracefully")), &["m1"]),
        ("gracefully", &["m2"], task(Some("Gracefully")), &["m2", "m1"]),
        ("no mode is gracefully", &["m2"], task(None), &["m2", "m1"]),
        ("never", &["m2"], task(Some("Never")), &["m2", "m1"]),
        ("back in the result", &["m1", "m2"], task(Some("Gracefully")), &["m1", "m2"]),
        ("directly: the old copy goes at once", &["m2"], task(Some("Directly")), &["m2"]),
        ("the task ended", &["m2"], json!([]), &["m2"]),
    ] {
        let mut world = World::default();
        world.workload("web", &["m1"], &["conf"], json!({}));
        world.config("conf");
        let _attached = world.reconcile("web");
        world.workload("web", result, &["conf"], json!({"gracefulEvictionTasks": tasks}));
        let _moved = world.reconcile("web");
        assert_eq!(world.clusters(0), want, "{name}");
        assert!(world.reconcile("web").is_quiet(), "{name}: settled");
    }
}

#[test]
fn deleted_referrer_is_ignored() {
    let mut world = World::default();
    world.workload("a", &["m1"], &["c"], json!({}));
    world.workload("b", &["m2"], &["c"], json!({}));
    world.config("c");
    let (_a, _b) = (world.reconcile("a"), world.reconcile("b"));
    world.independent.remove(0);
    let _again = world.reconcile("b");
    assert_eq!(world.clusters(0), ["m2"]);
    assert!(!has_label(&world.attached[0], &names::depended_by_label("shop", "a-deployment")));
}

#[test]
fn suspended_only_where_all_referrers_are() {
    let mut world = World::default();
    world.workload("a", &["m1", "m2"], &["c"], json!({"suspension": {"dispatching": true}}));
    world.workload(
        "b",
        &["m2", "m3"],
        &["c"],
        json!({"suspension": {"dispatchingOnClusters": {"clusterNames": ["m3"]}}}),
    );
    world.config("c");
    let (_a, _b) = (world.reconcile("a"), world.reconcile("b"));
    assert_eq!(
        json!(world.attached[0].spec.suspension),
        json!({"dispatchingOnClusters": {"clusterNames": ["m1", "m3"]}})
    );
}

#[test]
fn recreated_object_waits_for_its_old_binding() {
    let mut world = World::default();
    world.workload("web", &["m1"], &["conf"], json!({}));
    world.config("conf");
    let _first = world.reconcile("web");
    world.objects[0]["metadata"]["uid"] = json!("uid-2");
    let plan = world.reconcile("web");
    assert!(matches!(plan.effects.as_slice(), [Effect::Event(_), Effect::Retry]), "{plan:?}");
}

#[test]
fn object_status_write_costs_no_write() {
    let mut world = World::default();
    world.workload("web", &["m1"], &["conf"], json!({}));
    world.config("conf");
    let _first = world.reconcile("web");
    merge(&mut world.objects[0], &json!({"metadata": {"resourceVersion": "6"}, "status": {"x": 1}}));
    assert!(world.reconcile("web").is_quiet());
    merge(&mut world.objects[0], &json!({"metadata": {"resourceVersion": "7"}, "data": {"x": "1"}}));
    assert!(matches!(world.reconcile("web").effects.as_slice(), [Effect::Patch { .. }]));
}

#[test]
fn attached_binding_of_a_kind_that_cannot_be_listed_stays() {
    let mut world = World::default();
    world.workload("web", &["m1"], &["conf"], json!({}));
    world.config("conf");
    let _first = world.reconcile("web");
    world.objects.clear();
    world.unlisted = vec![Gvk::from_manifest("v1", "ConfigMap")];
    assert!(world.reconcile("web").is_quiet(), "unknown");
    world.unlisted.clear();
    assert!(!world.reconcile("web").is_quiet(), "deleted");
}

#[test]
fn objects_that_every_cluster_makes_are_no_dependencies() {
    let mut world = World::default();
    world.workload("web", &["m1"], &["kube-root-ca.crt", "conf"], json!({}));
    world.config("kube-root-ca.crt");
    world.config("conf");
    let _first = world.reconcile("web");
    let attached: Vec<&str> = world.attached.iter().map(|binding| binding.spec.resource.name.as_str()).collect();
    assert_eq!(attached, ["conf"]);
}

#[test]
fn dependency_selects_objects() {
    let dependency = |json: Value| -> Dependency { serde_json::from_value(json).unwrap() };
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"namespace": "shop", "name": "s", "labels": {"a": "b"}}});
    let slice = Identity::of(&slice);
    for (name, json, want) in [
        ("by name", json!({"name": "s"}), true),
        ("another name", json!({"name": "t"}), false),
        ("by label", json!({"labelSelector": {"matchLabels": {"a": "b"}}}), true),
        ("another label", json!({"labelSelector": {"matchLabels": {"a": "c"}}}), false),
        ("another namespace", json!({"name": "s", "namespace": "x"}), false),
        ("another kind", json!({"name": "s", "kind": "X"}), false),
        ("neither name nor label", json!({}), false),
    ] {
        let mut full = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "namespace": "shop"});
        merge(&mut full, &json);
        assert_eq!(selects(&dependency(full), &slice), want, "{name}");
    }
}

#[test]
fn uninterpretable_template_is_reported() {
    let mut world = World::default();
    world.workload("web", &["m1"], &[], json!({}));
    world.independent[0].1["spec"]["template"]["spec"]["volumes"] = json!("x");
    let plan = world.reconcile("web");
    assert_eq!(
        events(&plan),
        ["GetDependenciesFailed Deployment shop/web: /spec/template/spec/volumes must be a list"]
    );
}
