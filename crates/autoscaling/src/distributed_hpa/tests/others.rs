//! Autoscalers of other kinds, with objects as their controllers write them.

use super::*;

/// An object with these bounds as KEDA's controller leaves it.
fn keda(spec: &Value) -> Value {
    let mut object = json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
        "metadata": {"namespace": "shop", "name": "orders", "uid": "uid-so", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"federatedhpa.karmada.io/enabled": "true", "app": "web"}},
        "spec": {"scaleTargetRef": {"name": "web"}, "pollingInterval": 15, "cooldownPeriod": 60,
            "triggers": [{"type": "rabbitmq", "metadata": {"queueName": "orders", "mode": "QueueLength", "value": "20"}}]}});
    merge(&mut object["spec"], spec);
    object
}

fn cron() -> Value {
    json!({"apiVersion": "autoscaling.alibabacloud.com/v1beta1", "kind": "CronHorizontalPodAutoscaler",
        "metadata": {"namespace": "shop", "name": "days", "uid": "uid-cron", "generation": 1,
            "labels": {"federatedhpa.karmada.io/enabled": "true"}},
        "spec": {"excludeDates": null, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "jobs": [{"name": "up", "schedule": "0 0 8 * * *", "runOnce": false, "targetSize": 12},
                {"name": "down", "schedule": "0 0 20 * * *", "runOnce": false, "targetSize": 2}]}})
}

fn world(clusters: &[(&str, i32)], object: Value) -> World {
    let mut world = World::new(clusters, (1, 1));
    let api_version = object["apiVersion"].clone();
    for (name, _) in clusters {
        let kind = object["kind"].clone();
        world.change(
            name,
            &json!({"status": {"apiEnablements": [
            {"groupVersion": api_version, "resources": [{"name": "x", "kind": kind}]}]}}),
        );
    }
    world.other = Some(object);
    world
}

impl World {
    fn manifests(&self) -> BTreeMap<String, Value> {
        let of =
            |work: &Arc<Work>| (key_of(work).unwrap().cluster.to_string(), work.spec.workload.manifests[0].object());
        self.works.iter().map(of).collect()
    }

    /// KEDA's status in a member, and what the target runs there.
    fn keda_reports(&mut self, cluster: &'static str, ready: &str, replicas: i64) {
        self.running.insert(cluster, replicas);
        self.report_as(
            cluster,
            &json!({"conditions": [
                    {"type": "Ready", "status": ready, "reason": "ScaledObjectReady",
                        "message": "ScaledObject is defined correctly and is ready for scaling"},
                    {"type": "Active", "status": "True", "reason": "ScalerActive", "message": "Scaling is performed"}],
                "externalMetricNames": ["s0-rabbitmq-orders"], "hpaName": "keda-hpa-orders", "originalReplicaCount": 1,
                "scaleTargetKind": "apps/v1.Deployment"}),
        );
    }
}

#[test]
fn scaled_objects_are_divided_like_autoscalers() {
    let spec = json!({"minReplicaCount": 3, "maxReplicaCount": 30, "idleReplicaCount": 0,
        "fallback": {"failureThreshold": 3, "replicas": 6}});
    let mut world = world(&[("A", 2), ("B", 1)], keda(&spec));
    world.settle();
    let manifests = world.manifests();
    let of = |cluster: &str, path: &str| manifests[cluster].pointer(path).cloned().unwrap_or_default();
    assert_eq!((of("A", "/spec/minReplicaCount"), of("A", "/spec/maxReplicaCount")), (json!(2), json!(20)));
    assert_eq!((of("B", "/spec/minReplicaCount"), of("B", "/spec/maxReplicaCount")), (json!(1), json!(10)));
    assert_eq!((of("A", "/spec/fallback/replicas"), of("B", "/spec/fallback/replicas")), (json!(4), json!(2)));
    assert_eq!(of("A", "/spec/idleReplicaCount"), json!(0));
    assert_eq!(of("A", "/metadata/labels/app"), "web");
    for mark in ["federatedhpa.karmada.io~1enabled", "resourcetemplate.karmada.io~1claimed-by"] {
        assert_eq!(of("A", &format!("/metadata/labels/{mark}")), Value::Null, "our marks stay in the control plane");
    }
    assert_eq!(of("A", "/kind"), json!("ScaledObject"));
    let object = world.other.clone().unwrap();
    assert_eq!(object["metadata"]["labels"]["resourcetemplate.karmada.io/claimed-by"], "FederatedHPA");
    assert_eq!(world.rules(), "none");

    world.keda_reports("A", "True", 9);
    world.keda_reports("B", "True", 1);
    world.settle();
    assert_eq!(world.rules(), "A=9 B=1", "the numbers are those that the target runs");
    let policy = world.policy.as_ref().unwrap();
    assert_eq!(policy.metadata.name.as_deref(), Some("federatedhpa-orders-scaledobject"));
    assert_eq!(policy.metadata.owner_references.as_ref().unwrap()[0].kind, "ScaledObject");
    let status = &world.other.as_ref().unwrap()["status"];
    assert_eq!(
        status["conditions"],
        json!([{"type": "Ready", "status": "True", "reason": "ReadyForNewScale", "message": "2 of 2 members"}])
    );

    world.keda_reports("A", "False", 2);
    world.settle();
    assert_eq!(world.rules(), "A=9 B=1", "a member whose object is not ready decides nothing");
}

#[test]
fn a_member_at_its_maximum_borrows() {
    let mut world = world(&[("A", 1), ("B", 1)], keda(&json!({"minReplicaCount": 2, "maxReplicaCount": 20})));
    world.settle();
    let maxima = |world: &World| {
        world.manifests().values().map(|object| object["spec"]["maxReplicaCount"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(maxima(&world), [json!(10), json!(10)]);
    world.keda_reports("A", "True", 10);
    world.keda_reports("B", "True", 1);
    world.settle();
    world.second += 30;
    world.settle();
    let sum: i64 = maxima(&world).iter().filter_map(Value::as_i64).sum();
    assert!(maxima(&world)[0].as_i64() > Some(10) && sum <= 20, "{:?}", maxima(&world));
}

#[test]
fn members_of_scaled_objects_may_rest_at_zero() {
    let mut world = world(&[("A", 1), ("B", 1)], keda(&json!({})));
    assert!(world.scaler().may_rest());
    world.settle();
    let manifests = world.manifests();
    assert_eq!(manifests["A"]["spec"]["minReplicaCount"], 0);
    assert_eq!(manifests["A"]["spec"]["maxReplicaCount"], 50, "KEDA's default is 100");
    world.keda_reports("A", "True", 0);
    world.keda_reports("B", "True", 4);
    world.settle();
    assert_eq!(world.rules(), "A=0 B=4");
    assert!(!World::new(&[("A", 1)], (1, 3)).scaler().may_rest(), "a HorizontalPodAutoscaler does nothing at zero");
}

#[test]
fn a_pause_is_divided() {
    let mut object = keda(&json!({"minReplicaCount": 1, "maxReplicaCount": 9}));
    merge(&mut object, &json!({"metadata": {"annotations": {"autoscaling.keda.sh/paused-replicas": "7"}}}));
    let mut world = world(&[("A", 2), ("B", 1)], object);
    world.settle();
    let paused = world.manifests().into_values().map(|object| {
        object["metadata"]["annotations"]["autoscaling.keda.sh/paused-replicas"].as_str().unwrap().to_owned()
    });
    assert_eq!(paused.collect::<Vec<_>>(), ["5", "2"]);
}

#[test]
fn jobs_of_cron_autoscalers_are_divided() {
    let mut world = world(&[("A", 3), ("B", 2), ("C", 1)], cron());
    world.settle();
    let sizes = |world: &World, job: usize| -> Vec<i64> {
        world.manifests().values().map(|object| object["spec"]["jobs"][job]["targetSize"].as_i64().unwrap()).collect()
    };
    assert_eq!(sizes(&world, 0), [6, 4, 2]);
    assert_eq!(sizes(&world, 1), [1, 1, 0], "zero is a number like any other");
    world.running = [("A", 6), ("B", 4), ("C", 2)].into();
    for cluster in ["A", "B", "C"] {
        world.report_as(
            cluster,
            &json!({"conditions": [{"name": "up", "jobId": "a", "schedule": "0 0 8 * * *", "targetSize": 6, "runOnce": false,
                "state": "Succeed", "lastProbeTime": "2026-01-01T08:00:00Z", "message": "cron hpa job up executed successfully."}],
                "excludeDates": null, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}),
        );
    }
    world.settle();
    assert_eq!(world.rules(), "A=6 B=4 C=2");
    assert_eq!(world.other.as_ref().unwrap().get("status"), None, "its conditions are of jobs: nothing is written");
    world.place(&[("A", 3), ("B", 3)]);
    world.settle();
    assert_eq!(sizes(&world, 0), [6, 6]);
}

#[test]
fn members_without_the_kind_have_no_share() {
    let mut world = world(&[("A", 1), ("B", 1)], keda(&json!({"minReplicaCount": 2, "maxReplicaCount": 10})));
    world.change("B", &json!({"status": {"apiEnablements": [{"groupVersion": "apps/v1", "resources": []}]}}));
    world.settle();
    assert_eq!(world.manifests().keys().collect::<Vec<_>>(), ["A"]);
    assert_eq!(world.manifests()["A"]["spec"]["maxReplicaCount"], 10);
    let message = world.other.as_ref().unwrap()["status"]["conditions"][0]["message"].to_string();
    assert!(message.contains("cluster B has no share: it does not serve keda.sh/v1alpha1"), "{message}");
}

#[test]
fn the_end_of_a_scaled_object_hands_over() {
    let mut world = world(&[("A", 1), ("B", 1)], keda(&json!({"minReplicaCount": 2, "maxReplicaCount": 20})));
    world.settle();
    world.keda_reports("A", "True", 7);
    world.keda_reports("B", "True", 2);
    world.settle();
    merge(world.other.as_mut().unwrap(), &json!({"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}}));
    world.step();
    assert_eq!(world.template["spec"]["replicas"], 9);
    world.place(&[("A", 5), ("B", 4)]);
    world.settle();
    assert!(world.works.is_empty() && world.policy.is_none());
    assert_eq!(world.other.as_ref().unwrap()["metadata"]["finalizers"], json!([]));
}

#[test]
fn another_autoscaler_of_the_target_comes_first() {
    let mut world = world(&[("A", 1)], keda(&json!({"maxReplicaCount": 20})));
    world.rivals = vec![Rival {
        distributed: true,
        other_kind: None,
        name: "web".to_owned(),
        created: Some(Time("2026-06-01T00:00:00Z".parse().unwrap())),
    }];
    world.settle();
    assert!(world.works.is_empty());
    let condition = &world.other.as_ref().unwrap()["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("Ready"), &json!("False")));
    assert_eq!(world.events.len(), 1, "{:?}", world.events);
}
