//! Create, read, update, patch, delete.

use serde_json::json;

use crate::support::{World, config_map, deployment};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

#[tokio::test(start_paused = true)]
async fn config_map_is_created_read_updated_and_deleted() {
    let world = World::new().await;
    let made = world.post(MAPS, config_map("a", json!({"k": "v"}))).await.expect(201);
    assert_eq!(made.at("/metadata/namespace"), "default");
    assert_eq!(made.at("/metadata/creationTimestamp"), "2026-01-01T00:00:00Z");
    assert!(made.at("/metadata/generation").is_null());
    let first = made.at("/metadata/resourceVersion").as_str().unwrap().to_owned();
    let read = world.get(&format!("{MAPS}/a")).await.expect(200);
    assert_eq!(read.body, made.body);

    let again = world.post(MAPS, config_map("a", json!({}))).await.expect(409);
    assert_eq!(again.message(), "configmaps \"a\" already exists");

    let mut changed = made.body.clone();
    changed["data"]["k"] = json!("w");
    let put = world.put(&format!("{MAPS}/a"), changed.clone()).await.expect(200);
    assert_ne!(put.at("/metadata/resourceVersion"), &first);
    let stale = world.put(&format!("{MAPS}/a"), made.body.clone()).await.expect(409);
    assert!(stale.message().ends_with("please apply your changes to the latest version and try again"));

    let response = world.delete(&format!("{MAPS}/a")).await.expect(200);
    assert_eq!(response.at("/status"), "Success");
    assert_eq!(response.at("/details/uid"), made.at("/metadata/uid"));
    let missing = world.get(&format!("{MAPS}/a")).await.expect(404);
    assert_eq!(missing.message(), "configmaps \"a\" not found");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_is_not_written() {
    let world = World::new().await;
    let made = world.post(DEPLOYMENTS, deployment("d")).await.expect(201);
    let path = format!("{DEPLOYMENTS}/d");
    let version = made.at("/metadata/resourceVersion").clone();
    for (name, answer) in [
        ("PUT of what was read", world.put(&path, made.body.clone()).await),
        ("PUT of what was sent", world.put(&path, deployment("d")).await),
        ("empty merge patch", world.patch(&path, "merge-patch+json", json!({})).await),
        ("merge patch of a default", world.patch(&path, "merge-patch+json", json!({"spec": {"replicas": 1}})).await),
        ("null on a default", world.patch(&path, "merge-patch+json", json!({"spec": {"replicas": null}})).await),
        ("status in a main write", world.patch(&path, "merge-patch+json", json!({"status": {"replicas": 5}})).await),
    ] {
        assert_eq!(answer.code, 200, "{name}: {}", answer.body);
        assert_eq!(answer.at("/metadata/resourceVersion"), &version, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn deployment_is_defaulted_and_counts_generations() {
    let world = World::new().await;
    let made = world.post(DEPLOYMENTS, deployment("d")).await.expect(201);
    for (pointer, want) in [
        ("/metadata/generation", json!(1)),
        ("/spec/replicas", json!(1)),
        ("/spec/strategy/rollingUpdate/maxSurge", json!("25%")),
        ("/spec/revisionHistoryLimit", json!(10)),
        ("/spec/template/spec/restartPolicy", json!("Always")),
        ("/spec/template/spec/containers/0/imagePullPolicy", json!("IfNotPresent")),
        ("/spec/template/spec/containers/0/terminationMessagePath", json!("/dev/termination-log")),
        ("/status", json!({})),
    ] {
        assert_eq!(made.at(pointer), &want, "{pointer}");
    }
    let path = format!("{DEPLOYMENTS}/d");
    for (name, patch, generation) in [
        ("a label", json!({"metadata": {"labels": {"a": "b"}}}), 1),
        ("an annotation", json!({"metadata": {"annotations": {"a": "b"}}}), 2),
        ("the wish", json!({"spec": {"replicas": 3}}), 3),
    ] {
        let answer = world.patch(&path, "merge-patch+json", patch).await.expect(200);
        assert_eq!(answer.at("/metadata/generation"), &json!(generation), "{name}");
    }
    let status = json!({"status": {"replicas": 3, "observedGeneration": 3}, "spec": {"replicas": 9}});
    let answer = world.patch(&format!("{path}/status"), "merge-patch+json", status).await.expect(200);
    assert_eq!(answer.at("/status/replicas"), &json!(3));
    assert_eq!(answer.at("/spec/replicas"), &json!(3));
    assert_eq!(answer.at("/metadata/generation"), &json!(3));
}

#[tokio::test(start_paused = true)]
async fn strategic_merge_patch_merges_containers_by_name() {
    let world = World::new().await;
    world.post(DEPLOYMENTS, deployment("d")).await.expect(201);
    let path = format!("{DEPLOYMENTS}/d");
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:1.28"}, {"name": "x", "image": "y:1"}]}}}});
    let answer = world.patch(&path, "strategic-merge-patch+json", patch).await.expect(200);
    let containers = answer.at("/spec/template/spec/containers").as_array().unwrap();
    assert_eq!(containers.len(), 2);
    let c = containers.iter().find(|c| c["name"] == "c").unwrap();
    assert_eq!(c["image"], "nginx:1.28");
    assert_eq!(c["terminationMessagePath"], "/dev/termination-log");
}

#[tokio::test(start_paused = true)]
async fn json_patches() {
    let world = World::new().await;
    world.post(MAPS, config_map("a", json!({"k": "v"}))).await.expect(201);
    let path = format!("{MAPS}/a");
    let answer = world
        .patch(&path, "json-patch+json", json!([{"op": "add", "path": "/data/x", "value": "y"}]))
        .await
        .expect(200);
    assert_eq!(answer.at("/data"), &json!({"k": "v", "x": "y"}));
    let failed = world
        .patch(&path, "json-patch+json", json!([{"op": "test", "path": "/data/x", "value": "z"}]))
        .await
        .expect(422);
    assert_eq!(failed.message(), "the server rejected our request due to an error in our request");
    let stale = world.patch(&path, "merge-patch+json", json!({"metadata": {"resourceVersion": "1"}})).await;
    assert_eq!(stale.code, 409);
}

#[tokio::test(start_paused = true)]
async fn object_is_kept_until_its_last_finalizer_is_removed() {
    let world = World::new().await;
    let mut map = config_map("a", json!({}));
    map["metadata"]["finalizers"] = json!(["x.io/f"]);
    world.post(MAPS, map).await.expect(201);
    let path = format!("{MAPS}/a");
    let marked = world.delete(&path).await.expect(200);
    assert_eq!(marked.at("/kind"), "ConfigMap");
    assert_eq!(marked.at("/metadata/deletionTimestamp"), "2026-01-01T00:00:00Z");
    assert_eq!(marked.at("/metadata/deletionGracePeriodSeconds"), &json!(0));
    let again = world.delete(&path).await.expect(200);
    assert_eq!(again.at("/metadata/resourceVersion"), marked.at("/metadata/resourceVersion"));
    let more = world
        .patch(&path, "merge-patch+json", json!({"metadata": {"finalizers": ["x.io/f", "x.io/g"]}}))
        .await
        .expect(422);
    assert!(more.message().contains("found new finalizers []string{\"x.io/g\"}"), "{}", more.message());
    let last = world.patch(&path, "merge-patch+json", json!({"metadata": {"finalizers": null}})).await.expect(200);
    assert_eq!(last.at("/metadata/resourceVersion"), marked.at("/metadata/resourceVersion"));
    world.get(&path).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn objects_need_an_active_namespace() {
    let world = World::new().await;
    let missing = world.post("/api/v1/namespaces/no/configmaps", config_map("a", json!({}))).await.expect(404);
    assert_eq!(missing.message(), "namespaces \"no\" not found");
    world.get("/api/v1/namespaces/no/configmaps").await.expect(200);
    let made = world.post("/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await.expect(201);
    assert_eq!(made.at("/status/phase"), "Active");
    assert_eq!(made.at("/metadata/labels/kubernetes.io~1metadata.name"), "n");
    let response = world.delete("/api/v1/namespaces/n").await.expect(200);
    assert_eq!(response.at("/status/phase"), "Terminating");
    let refused = world.post("/api/v1/namespaces/n/configmaps", config_map("a", json!({}))).await.expect(403);
    assert_eq!(refused.at("/details/causes/0/reason"), "NamespaceTerminating");
    let mut last = response.body.clone();
    last["spec"]["finalizers"] = json!([]);
    world.put("/api/v1/namespaces/n/finalize", last).await.expect(200);
    world.get("/api/v1/namespaces/n").await.expect(404);
    let kept = world.delete("/api/v1/namespaces/default").await.expect(403);
    assert_eq!(kept.message(), "namespaces \"default\" is forbidden: this namespace may not be deleted");
}

#[tokio::test(start_paused = true)]
async fn list_pages_are_of_one_snapshot() {
    let world = World::new().await;
    for name in ["c", "a", "b", "a-b"] {
        world.post(MAPS, config_map(name, json!({}))).await.expect(201);
    }
    let first = world.get(&format!("{MAPS}?limit=2")).await.expect(200);
    let names = |a: &crate::support::Answer| {
        a.at("/items")
            .as_array()
            .unwrap()
            .iter()
            .map(|i| i["metadata"]["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&first), ["a", "a-b"]);
    assert_eq!(first.at("/metadata/remainingItemCount"), &json!(2));
    let token = first.at("/metadata/continue").as_str().unwrap().to_owned();
    world.delete(&format!("{MAPS}/b")).await.expect(200);
    world.post(MAPS, config_map("d", json!({}))).await.expect(201);
    let second = world.get(&format!("{MAPS}?limit=2&continue={token}")).await.expect(200);
    assert_eq!(names(&second), ["b", "c"]);
    assert_eq!(second.at("/metadata/resourceVersion"), first.at("/metadata/resourceVersion"));
    assert!(second.at("/metadata/continue").is_null());
    // The snapshot was compacted: the answer has a token that continues at the newest revision.
    world.server.store().compact(world.server.store().revision());
    let response = world.get(&format!("{MAPS}?limit=2&continue={token}")).await.expect(410);
    assert!(response.message().starts_with("The provided continue parameter is too old"), "{}", response.message());
    let newest = response.at("/metadata/continue").as_str().unwrap().to_owned();
    let rest = world.get(&format!("{MAPS}?limit=2&continue={newest}")).await.expect(200);
    assert_eq!(names(&rest), ["c", "d"]);
    let bad = world.get(&format!("{MAPS}?continue=nonsense!")).await.expect(400);
    assert!(bad.message().starts_with("invalid continue token"), "{}", bad.message());
    let future = world.get(&format!("{MAPS}?resourceVersion=9999")).await.expect(504);
    assert!(future.message().starts_with("Timeout: Too large resource version: 9999, current: "));
    assert_eq!(future.headers["retry-after"], "1");
}

#[tokio::test(start_paused = true)]
async fn dry_run_writes_nothing() {
    let world = World::new().await;
    let made = world.post(&format!("{MAPS}?dryRun=All"), config_map("a", json!({}))).await.expect(201);
    assert!(made.at("/metadata/uid").is_string() && made.at("/metadata/resourceVersion").is_null());
    world.get(&format!("{MAPS}/a")).await.expect(404);
    world.post(MAPS, config_map("a", json!({}))).await.expect(201);
    world.delete(&format!("{MAPS}/a?dryRun=All")).await.expect(200);
    world.get(&format!("{MAPS}/a")).await.expect(200);
    let bad = world.post(&format!("{MAPS}?dryRun=Foo"), config_map("b", json!({}))).await.expect(422);
    assert!(
        bad.message().ends_with("dryRun: Unsupported value: [\"Foo\"]: supported values: \"All\""),
        "{}",
        bad.message()
    );
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_warn_or_fail() {
    let world = World::new().await;
    let mut map = config_map("a", json!({}));
    map["bogus"] = json!(1);
    let strict = world.post(&format!("{MAPS}?fieldValidation=Strict"), map.clone()).await.expect(400);
    assert_eq!(
        strict.message(),
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"bogus\""
    );
    let warned = world.post(MAPS, map).await.expect(201);
    assert_eq!(warned.warnings(), ["299 - \"unknown field \\\"bogus\\\"\""]);
    assert!(warned.at("/bogus").is_null());
    let typed = world.post(MAPS, config_map("b", json!({"a": 1}))).await.expect(400);
    assert!(typed.message().contains("json: cannot unmarshal number into Go struct field"), "{}", typed.message());
}

#[tokio::test(start_paused = true)]
async fn invalid_requests_have_the_errors_of_a_kube_apiserver() {
    let world = World::new().await;
    for (name, method, path, body, code, message) in [
        (
            "no name",
            "POST",
            MAPS,
            json!({}),
            422,
            "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required",
        ),
        (
            "another namespace",
            "POST",
            MAPS,
            json!({"metadata": {"name": "a", "namespace": "b"}}),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            "a resourceVersion",
            "POST",
            MAPS,
            json!({"metadata": {"name": "a", "resourceVersion": "5"}}),
            500,
            "resourceVersion should not be set on objects to be created",
        ),
        (
            "another kind",
            "POST",
            MAPS,
            json!({"kind": "Secret", "apiVersion": "v1"}),
            400,
            "Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
        (
            "POST on a name",
            "POST",
            "/api/v1/namespaces/default/configmaps/x",
            json!({}),
            405,
            "the server does not allow this method on the requested resource",
        ),
        (
            "create across namespaces",
            "POST",
            "/api/v1/configmaps",
            json!({}),
            405,
            "the server does not allow this method on the requested resource",
        ),
        (
            "an unknown resource",
            "GET",
            "/api/v1/nopes",
            json!(null),
            404,
            "the server could not find the requested resource",
        ),
        (
            "a version that went",
            "GET",
            "/apis/apps/v1beta1/deployments",
            json!(null),
            404,
            "the server could not find the requested resource",
        ),
        (
            "a cluster resource in a namespace",
            "GET",
            "/api/v1/namespaces/default/nodes",
            json!(null),
            404,
            "the server could not find the requested resource",
        ),
        (
            "PUT of what isn't there",
            "PUT",
            "/api/v1/namespaces/default/configmaps/x",
            json!({"metadata": {"name": "x"}}),
            404,
            "configmaps \"x\" not found",
        ),
        (
            "PUT of what has no name",
            "PUT",
            "/api/v1/namespaces/default/configmaps/x",
            json!({}),
            400,
            "the name of the object (x based on URL) was undeterminable: name must be provided",
        ),
    ] {
        let answer = world.call(method.parse().unwrap(), path, body).await;
        assert_eq!((answer.code, answer.message()), (code, message), "{name}");
    }
    let page = world.get("/apis/nope.io/v1/foos").await.expect(404);
    assert_eq!(&page.bytes[..], b"404 page not found\n");
}

#[tokio::test(start_paused = true)]
async fn pods_are_bound_and_deleted_gracefully() {
    let world = World::new().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    let made = world.post(pods, pod).await.expect(201);
    assert_eq!(made.at("/status/phase"), "Pending");
    assert_eq!(made.at("/status/qosClass"), "BestEffort");
    assert_eq!(made.at("/spec/containers/0/imagePullPolicy"), "Always");
    assert_eq!(made.at("/spec/tolerations").as_array().unwrap().len(), 2);
    let bind = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}});
    world.post(&format!("{pods}/p/binding"), bind.clone()).await.expect(201);
    let twice = world.post(&format!("{pods}/p/binding"), bind).await.expect(409);
    assert!(twice.message().ends_with("pod p is already assigned to node \"n1\""), "{}", twice.message());
    let bound = world.get(&format!("{pods}?fieldSelector=spec.nodeName%3Dn1")).await.expect(200);
    assert_eq!(bound.at("/items").as_array().unwrap().len(), 1);
    let ending = world.delete(&format!("{pods}/p")).await.expect(200);
    assert_eq!(ending.at("/metadata/deletionTimestamp"), "2026-01-01T00:00:30Z");
    let response = world.delete(&format!("{pods}/p?gracePeriodSeconds=0")).await.expect(200);
    assert_eq!(response.at("/kind"), "Pod");
    world.get(&format!("{pods}/p")).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn scale_changes_replicas() {
    let world = World::new().await;
    world.post(DEPLOYMENTS, deployment("d")).await.expect(201);
    let path = format!("{DEPLOYMENTS}/d/scale");
    let scale = world.get(&path).await.expect(200);
    assert_eq!(scale.at("/spec/replicas"), &json!(1));
    assert_eq!(scale.at("/status/selector"), "app=d");
    let scaled = world.patch(&path, "merge-patch+json", json!({"spec": {"replicas": 4}})).await.expect(200);
    assert_eq!(scaled.at("/spec/replicas"), &json!(4));
    let deployment = world.get(&format!("{DEPLOYMENTS}/d")).await.expect(200);
    assert_eq!((deployment.at("/spec/replicas"), deployment.at("/metadata/generation")), (&json!(4), &json!(2)));
    let negative = world.patch(&path, "merge-patch+json", json!({"spec": {"replicas": -1}})).await.expect(422);
    assert!(
        negative.message().starts_with("Scale.autoscaling \"d\" is invalid: spec.replicas: "),
        "{}",
        negative.message()
    );
}

#[tokio::test(start_paused = true)]
async fn services_get_distinct_addresses_and_ports() {
    let world = World::new().await;
    let services = "/api/v1/namespaces/default/services";
    let service = |name: &str, spec: serde_json::Value| {
        let mut out = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
        out["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        out
    };
    let first = world.post(services, service("a", json!({}))).await.expect(201);
    let address = first.at("/spec/clusterIP").as_str().unwrap().to_owned();
    assert!(address.starts_with("10.96."), "{address}");
    assert_eq!(first.at("/spec/clusterIPs/0"), &address);
    let taken = world.post(services, service("b", json!({"clusterIP": address}))).await.expect(422);
    assert!(taken.message().ends_with("provided IP is already allocated"), "{}", taken.message());
    let outside = world.post(services, service("b", json!({"clusterIP": "1.2.3.4"}))).await.expect(422);
    assert!(
        outside.message().ends_with("the provided network does not match the current range"),
        "{}",
        outside.message()
    );
    let put = world.put(&format!("{services}/a"), service("a", json!({}))).await.expect(200);
    assert_eq!(put.at("/spec/clusterIP"), &address);
    let ports = world
        .patch(&format!("{services}/a"), "merge-patch+json", json!({"spec": {"type": "NodePort"}}))
        .await
        .expect(200);
    assert!((30_000..=32_767).contains(&ports.at("/spec/ports/0/nodePort").as_i64().unwrap()));
    let back = world
        .patch(&format!("{services}/a"), "merge-patch+json", json!({"spec": {"type": "ClusterIP"}}))
        .await
        .expect(200);
    assert!(back.at("/spec/ports/0/nodePort").is_null());
    world.delete(&format!("{services}/a")).await.expect(200);
    world.post(services, service("b", json!({"clusterIP": address}))).await.expect(201);
    world.delete(&format!("{services}/b")).await.expect(200);
    assert!(world.server.store().range(&ironclad_store::Query::prefix("/ironclad/")).unwrap().entries.is_empty());
    let headless = world.post(services, service("h", json!({"clusterIP": "None"}))).await.expect(201);
    assert_eq!(headless.at("/spec/clusterIPs"), &json!(["None"]));
}

#[tokio::test(start_paused = true)]
async fn services_with_many_node_ports_are_answered_soon() {
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    let world = World::new().await;
    let service = |ports: Vec<serde_json::Value>| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": ports}});
    // Comparing each port with all before it would take minutes.
    let ports = (1..=60_000).map(|i| json!({"port": 1, "nodePort": i})).collect();
    world.post(&format!("{SERVICES}?dryRun=All"), service(ports)).await.expect(422);
    let good = |n: u64| json!({"name": format!("p{n}"), "port": n + 1, "nodePort": 30_000 + n});
    let made = world.post(SERVICES, service((0..1_500).map(good).collect())).await.expect(201);
    world.delete(&format!("{SERVICES}/s")).await.expect(200);
    let again = world.post(SERVICES, service((0..1_500).map(good).collect())).await.expect(201);
    assert_eq!(made.at("/spec/ports"), again.at("/spec/ports"));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_with_an_endless_grace_period_is_far_away() {
    let world = World::new().await;
    world.post("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}})).await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    world.post(pods, pod).await.expect(201);
    let path = format!("{pods}/p?gracePeriodSeconds={}", i64::MAX);
    let marked = world.delete(&path).await.expect(200);
    assert_eq!(marked.at("/metadata/deletionTimestamp"), "9999-12-30T22:00:00.999999999Z");
}

#[tokio::test(start_paused = true)]
async fn evictions_count_budgets_with_a_selector_only() {
    let world = World::new().await;
    world.post("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}})).await;
    let (pods, budgets) =
        ("/api/v1/namespaces/default/pods", "/apis/policy/v1/namespaces/default/poddisruptionbudgets");
    for (name, selector, code) in [("none", json!(null), 201), ("all", json!({}), 429)] {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        world.post(pods, pod).await.expect(201);
        let running = json!({"status": {"phase": "Running"}});
        world.patch(&format!("{pods}/{name}/status"), "merge-patch+json", running).await.expect(200);
        let budget = json!({"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": selector}});
        world.post(budgets, budget).await.expect(201);
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        world.post(&format!("{pods}/{name}/eviction"), eviction).await.expect(code);
    }
}
