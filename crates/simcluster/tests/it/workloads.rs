//! StatefulSets, DaemonSets and Jobs.

use std::time::Duration;

use ironclad_simcluster::Shape;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, StatefulSet},
    batch::v1::{CronJob, Job},
    core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, Secret, Service},
    networking::v1::Ingress,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::world::{World, options};

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn names(pods: &[Pod]) -> Vec<String> {
    pods.iter().map(|p| p.name_any()).collect()
}

fn images(pods: &[Pod]) -> Vec<String> {
    pods.iter().map(|p| p.spec.clone().unwrap().containers[0].image.clone().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_grows_updates_and_shrinks_in_order() {
    let w = World::new(1, options()).await;
    let sets: Api<StatefulSet> = Api::namespaced(w.client.clone(), "default");
    let set = serde_json::from_value(json!({
        "metadata": {"name": "s"},
        "spec": {
            "replicas": 3, "serviceName": "s", "selector": {"matchLabels": {"app": "a"}}, "template": template("i:1"),
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
        },
    }))
    .unwrap();
    sets.create(&PostParams::default(), &set).await.unwrap();
    let complete = || async {
        let set = sets.get("s").await.unwrap();
        let (wanted, status) = (set.spec.unwrap().replicas, set.status.unwrap_or_default());
        status.observed_generation == set.metadata.generation
            && status.replicas == wanted.unwrap()
            && status.available_replicas.unwrap_or(0) == wanted.unwrap()
            && status.current_revision == status.update_revision
    };
    let start = w.seam.clock.mono();
    w.until("three pods", complete).await;
    assert!(w.seam.clock.mono() - start >= Duration::from_secs(4), "one at a time, two seconds each");
    assert_eq!(names(&w.list().await), ["s-0", "s-1", "s-2"]);
    let claims: Vec<PersistentVolumeClaim> = w.list().await;
    assert_eq!(claims.iter().map(|c| c.name_any()).collect::<Vec<_>>(), ["data-s-0", "data-s-1", "data-s-2"]);

    assert!(claims.iter().all(|c| c.status.clone().unwrap().phase.as_deref() == Some("Bound")));

    let update = Patch::Merge(json!({"spec": {"template": template("i:2")}}));
    sets.patch("s", &PatchParams::default(), &update).await.unwrap();
    let mut watch = w.store.watch("", w.store.revision()).unwrap();
    while !complete().await {
        // The new pods always have the highest ordinals.
        let pods: Vec<Pod> = w.list().await;
        let images = images(&pods);
        assert!(images.is_sorted(), "{images:?}");
        let _ = tokio::time::timeout(Duration::from_secs(30), watch.next()).await;
    }
    assert_eq!(images(&w.list().await), ["i:2", "i:2", "i:2"]);
    w.quiet().await;
    assert_eq!(w.list::<ControllerRevision>().await.len(), 2);

    let scale = Patch::Merge(json!({"spec": {"replicas": 1}}));
    sets.patch("s", &PatchParams::default(), &scale).await.unwrap();
    w.until("one pod", complete).await;
    assert_eq!(names(&w.list().await), ["s-0"]);
    assert_eq!(w.list::<PersistentVolumeClaim>().await.len(), 3, "claims stay");
    sets.delete("s", &DeleteParams::foreground()).await.unwrap();
    w.quiet().await;
    assert!(w.list::<Pod>().await.is_empty() && w.list::<ControllerRevision>().await.is_empty());

    let volumes: Api<PersistentVolume> = Api::all(w.client.clone());
    assert_eq!(volumes.list(&Default::default()).await.unwrap().items.len(), 3);
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(w.client.clone(), "default");
    claims.delete("data-s-0", &DeleteParams::default()).await.unwrap();
    w.quiet().await;
    assert_eq!(volumes.list(&Default::default()).await.unwrap().items.len(), 2, "a volume is deleted with its claim");
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_follows_added_and_deleted_nodes() {
    let w = World::new(1, options()).await;
    let sets: Api<DaemonSet> = Api::namespaced(w.client.clone(), "default");
    let set = serde_json::from_value(json!({
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template("i:1")},
    }))
    .unwrap();
    sets.create(&PostParams::default(), &set).await.unwrap();
    for nodes in [3, 5, 2] {
        w.member.reshape(Shape { nodes, ..Shape::default() });
        w.quiet().await;
        let mut on: Vec<_> = w.list::<Pod>().await.iter().map(|p| p.spec.clone().unwrap().node_name.unwrap()).collect();
        on.sort();
        let want: Vec<_> = (1..=nodes).map(|n| format!("m-node-{n}")).collect();
        assert_eq!(on, want);
        let status = sets.get("d").await.unwrap().status.unwrap();
        let nodes = i32::try_from(nodes).unwrap();
        assert_eq!(
            (status.desired_number_scheduled, status.number_ready, status.number_unavailable),
            (nodes, nodes, None)
        );
    }
    let update = Patch::Merge(json!({"spec": {"template": template("i:2")}}));
    sets.patch("d", &PatchParams::default(), &update).await.unwrap();
    w.quiet().await;
    assert_eq!(images(&w.list().await), ["i:2", "i:2"]);
    let before = w.requests();
    w.quiet().await;
    assert_eq!(w.requests(), before);
}

async fn job(w: &World, spec: Value) -> Api<Job> {
    let jobs: Api<Job> = Api::namespaced(w.client.clone(), "default");
    let job = serde_json::from_value(json!({"metadata": {"name": "j"}, "spec": spec})).unwrap();
    jobs.create(&PostParams::default(), &job).await.unwrap();
    jobs
}

fn conditions(job: &Job) -> Vec<String> {
    let conditions = job.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions.filter(|c| c.status == "True").map(|c| c.type_.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_job_completes_and_is_deleted_after_its_ttl() {
    let w = World::new(1, options()).await;
    let mut template = template("i:1");
    template["spec"]["restartPolicy"] = json!("Never");
    let spec = json!({"completions": 4, "parallelism": 2, "completionMode": "Indexed", "ttlSecondsAfterFinished": 100, "template": template});
    let jobs = job(&w, spec).await;
    w.until("it is complete", || async { conditions(&jobs.get("j").await.unwrap()).contains(&"Complete".to_owned()) })
        .await;
    let status = jobs.get("j").await.unwrap().status.unwrap();
    assert_eq!((status.succeeded, status.active, status.completed_indexes.as_deref()), (Some(4), None, Some("0-3")));
    w.until("it is deleted", || async { jobs.get_opt("j").await.unwrap().is_none() }).await;
    assert!(w.list::<Pod>().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_job_fails_after_its_backoff_limit() {
    let w = World::new(1, options()).await;
    let mut template = template("i:1");
    template["spec"]["restartPolicy"] = json!("Never");
    template["metadata"]["annotations"] = json!({"sim.ironclad.io/exit-code": "3", "sim.ironclad.io/run-time": "1s"});
    let jobs = job(&w, json!({"backoffLimit": 2, "template": template})).await;
    let start = w.seam.clock.mono();
    w.until("it failed", || async { conditions(&jobs.get("j").await.unwrap()).contains(&"Failed".to_owned()) }).await;
    assert!(w.seam.clock.mono() - start >= Duration::from_secs(30), "10 and 20 seconds of backoff");
    let status = jobs.get("j").await.unwrap().status.unwrap();
    assert_eq!((status.failed, status.succeeded), (Some(3), None));
    w.quiet().await;
    assert_eq!(w.list::<Pod>().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn ends_of_deleted_pods_stay_counted() {
    let w = World::new(1, options()).await;
    let mut template = template("i:1");
    template["spec"]["restartPolicy"] = json!("Never");
    let jobs = job(&w, json!({"completions": 4, "parallelism": 1, "template": template})).await;
    let pods: Api<Pod> = Api::namespaced(w.client.clone(), "default");
    let mut names = std::collections::BTreeSet::new();
    let start = w.seam.clock.mono();
    while !conditions(&jobs.get("j").await.unwrap()).contains(&"Complete".to_owned()) {
        assert!(w.seam.clock.mono() - start < Duration::from_secs(120), "pods for ever: {names:?}");
        for pod in w.list::<Pod>().await {
            names.insert(pod.name_any());
            if pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Succeeded") {
                pods.delete(&pod.name_any(), &DeleteParams::default()).await.unwrap();
            }
        }
        w.seam.clock.sleep(Duration::from_millis(500)).await;
    }
    assert_eq!((names.len(), jobs.get("j").await.unwrap().status.unwrap().succeeded), (4, Some(4)));
    jobs.delete("j", &DeleteParams::background()).await.unwrap();
    w.quiet().await;
    assert!(w.list::<Pod>().await.is_empty(), "no finalizer holds a pod without its Job");
}

#[tokio::test(start_paused = true)]
async fn deleted_pods_of_a_job_have_failed() {
    let w = World::new(1, options()).await;
    let mut template = template("i:1");
    template["spec"]["restartPolicy"] = json!("Never");
    template["metadata"]["annotations"] = json!({"sim.ironclad.io/run-time": "1h"});
    let jobs = job(&w, json!({"completions": 2, "parallelism": 2, "template": template})).await;
    let status = async || jobs.get("j").await.unwrap().status.unwrap_or_default();
    w.until("two pods run", || async { status().await.ready == Some(2) }).await;
    for pod in w.list::<Pod>().await {
        let pods: Api<Pod> = Api::namespaced(w.client.clone(), "default");
        pods.delete(&pod.name_any(), &DeleteParams::default()).await.unwrap();
    }
    w.until("both are counted and replaced", || async {
        let status = status().await;
        (status.failed, status.ready) == (Some(2), Some(2))
    })
    .await;
    let suspend = Patch::Merge(json!({"spec": {"suspend": true}}));
    jobs.patch("j", &PatchParams::default(), &suspend).await.unwrap();
    w.quiet().await;
    assert!(w.list::<Pod>().await.is_empty());
    assert_eq!(status().await.failed, Some(2), "pods of a suspended Job do not count");
}

#[tokio::test(start_paused = true)]
async fn claims_go_as_the_retention_policy_says() {
    let w = World::new(1, options()).await;
    let sets: Api<StatefulSet> = Api::namespaced(w.client.clone(), "default");
    let set = serde_json::from_value(json!({
        "metadata": {"name": "s"},
        "spec": {
            "replicas": 3, "serviceName": "s", "selector": {"matchLabels": {"app": "a"}}, "template": template("i:1"),
            "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Delete"},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
        },
    }))
    .unwrap();
    sets.create(&PostParams::default(), &set).await.unwrap();
    w.until("three pods", || async {
        sets.get("s").await.unwrap().status.is_some_and(|status| status.ready_replicas == Some(3))
    })
    .await;
    let claims = async || w.list::<PersistentVolumeClaim>().await.iter().map(|c| c.name_any()).collect::<Vec<_>>();
    let scale = Patch::Merge(json!({"spec": {"replicas": 1}}));
    sets.patch("s", &PatchParams::default(), &scale).await.unwrap();
    w.quiet().await;
    assert_eq!(claims().await, ["data-s-0"]);
    sets.delete("s", &DeleteParams::background()).await.unwrap();
    w.quiet().await;
    assert!(claims().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_what_it_needs() {
    let w = World::new(1, options()).await;
    let pods: Api<Pod> = Api::namespaced(w.client.clone(), "default");
    let pod = serde_json::from_value(json!({
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i:1", "envFrom": [{"configMapRef": {"name": "conf"}}]}]},
    }))
    .unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    w.quiet().await;
    let status = pods.get("p").await.unwrap().status.unwrap();
    let waiting = status.container_statuses.unwrap()[0].state.clone().unwrap().waiting.unwrap();
    assert_eq!(
        (status.phase.as_deref(), waiting.reason.as_deref(), waiting.message.as_deref()),
        (Some("Pending"), Some("CreateContainerConfigError"), Some("configmap \"conf\" not found"))
    );
    let maps: Api<ConfigMap> = Api::namespaced(w.client.clone(), "default");
    let map = serde_json::from_value(json!({"metadata": {"name": "conf"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    w.until("it runs", || async { pods.get("p").await.unwrap().status.unwrap().phase.as_deref() == Some("Running") })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_the_keys_that_it_names() {
    let w = World::new(1, options()).await;
    let pods: Api<Pod> = Api::namespaced(w.client.clone(), "default");
    let secrets: Api<Secret> = Api::namespaced(w.client.clone(), "default");
    let secret = serde_json::from_value(json!({"metadata": {"name": "s"}, "stringData": {"other": "x"}})).unwrap();
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let volume = json!({"name": "v", "secret": {"secretName": "s", "items": [{"key": "k", "path": "p"}]}});
    let variable = json!({"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}});
    for (name, spec) in [
        ("mounted", json!({"volumes": [volume], "containers": [{"name": "c", "image": "i:1"}]})),
        ("read", json!({"containers": [{"name": "c", "image": "i:1", "env": [variable]}]})),
        (
            "other",
            json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}], "containers": [{"name": "c", "image": "i:1"}]}),
        ),
    ] {
        let pod = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
    }
    w.quiet().await;
    let status = async |name: &str| pods.get(name).await.unwrap().status.unwrap();
    let waiting = async |name: &str| {
        let waiting = status(name).await.container_statuses.unwrap()[0].state.clone().unwrap().waiting.unwrap();
        [waiting.reason.unwrap_or_default(), waiting.message.unwrap_or_default()]
    };
    assert_eq!(waiting("mounted").await, ["ContainerCreating", ""]);
    assert_eq!(waiting("read").await, ["CreateContainerConfigError", "couldn't find key k in Secret default/s"]);
    assert_eq!(status("other").await.phase.as_deref(), Some("Running"));
    let patch = Patch::Merge(json!({"stringData": {"k": "v"}}));
    secrets.patch("s", &PatchParams::default(), &patch).await.unwrap();
    for name in ["mounted", "read"] {
        w.until(name, || async { status(name).await.phase.as_deref() == Some("Running") }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn claims_are_bound_to_the_volumes_that_users_reserved() {
    let w = World::new(1, options()).await;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(w.client.clone(), "default");
    let volumes: Api<PersistentVolume> = Api::all(w.client.clone());
    let claim = async |name: &str, volume: Value| {
        let claim = json!({"metadata": {"name": name}, "spec": {"volumeName": volume, "storageClassName": "",
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        claims.create(&PostParams::default(), &serde_json::from_value(claim).unwrap()).await.unwrap();
    };
    let volume = async |name: &str, of: Value| {
        let volume = json!({"metadata": {"name": name}, "spec": {"claimRef": of, "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "5Gi"}, "hostPath": {"path": "/x"}, "persistentVolumeReclaimPolicy": "Retain"}});
        volumes.create(&PostParams::default(), &serde_json::from_value(volume).unwrap()).await.unwrap();
    };
    claim("early", json!("named")).await;
    w.quiet().await;
    let phase = async |name: &str| claims.get(name).await.unwrap().status.unwrap().phase.unwrap();
    assert_eq!(phase("early").await, "Pending", "its volume does not exist");
    volume("named", json!(null)).await;
    volume("reserved", json!({"namespace": "default", "name": "late"})).await;
    claim("late", json!(null)).await;
    claim("second", json!("named")).await;
    w.quiet().await;
    for (name, of) in [("early", "named"), ("late", "reserved")] {
        let (claim, volume) = (claims.get(name).await.unwrap(), volumes.get(of).await.unwrap());
        let status = claim.status.unwrap();
        assert_eq!(status.phase.as_deref(), Some("Bound"), "{name}");
        assert_eq!(status.capacity.unwrap()["storage"].0, "5Gi", "{name}: the volume's");
        assert_eq!(claim.spec.unwrap().volume_name.as_deref(), Some(of));
        assert_eq!(volume.spec.unwrap().claim_ref.unwrap().uid, claim.metadata.uid, "{name}");
    }
    let made = volumes.list(&Default::default()).await.unwrap().items.len();
    assert_eq!((phase("second").await.as_str(), made), ("Pending", 2), "no other volume is made");
}

#[tokio::test(start_paused = true)]
async fn a_replication_controller_keeps_its_pods() {
    let w = World::new(1, options()).await;
    let controllers: Api<ReplicationController> = Api::namespaced(w.client.clone(), "default");
    let pods: Api<Pod> = Api::namespaced(w.client.clone(), "default");
    let controller = json!({"metadata": {"name": "r"}, "spec": {"replicas": 2, "template": template("i:1")}});
    controllers.create(&PostParams::default(), &serde_json::from_value(controller).unwrap()).await.unwrap();
    w.quiet().await;
    let first: Vec<Pod> = w.list().await;
    let owner = &first[0].metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("ReplicationController", "r"));
    pods.delete(&first[0].name_any(), &DeleteParams::default()).await.unwrap();
    w.quiet().await;
    let status = controllers.get("r").await.unwrap().status.unwrap();
    assert_eq!((status.replicas, status.ready_replicas, status.observed_generation), (2, Some(2), Some(1)));
    let scale = Patch::Merge(json!({"spec": {"replicas": 1}}));
    controllers.patch("r", &PatchParams::default(), &scale).await.unwrap();
    w.quiet().await;
    assert_eq!(w.list::<Pod>().await.len(), 1);
    controllers.delete("r", &DeleteParams::background()).await.unwrap();
    w.quiet().await;
    assert_eq!(w.list::<Pod>().await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn load_balancers_and_ingresses_get_addresses() {
    let w = World::new(1, options()).await;
    let services: Api<Service> = Api::namespaced(w.client.clone(), "default");
    for (name, annotations) in [("one", json!({})), ("none", json!({"sim.ironclad.io/load-balancer": "none"}))] {
        let service = json!({
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
        });
        services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    }
    let ingresses: Api<Ingress> = Api::namespaced(w.client.clone(), "default");
    let ingress = json!({
        "metadata": {"name": "door"}, "spec": {"defaultBackend": {"service": {"name": "one", "port": {"number": 80}}}},
    });
    ingresses.create(&PostParams::default(), &serde_json::from_value(ingress).unwrap()).await.unwrap();
    w.quiet().await;
    let of = async |name: &str| {
        let balancer = services.get(name).await.unwrap().status.and_then(|status| status.load_balancer);
        balancer.and_then(|balancer| balancer.ingress?.first()?.ip.clone())
    };
    let (one, door) = (of("one").await.unwrap(), ingresses.get("door").await.unwrap().status.unwrap());
    assert_eq!(of("none").await, None);
    let door = door.load_balancer.unwrap().ingress.unwrap()[0].ip.clone().unwrap();
    assert_ne!(one, door, "each has its own");
    let plain = Patch::Merge(json!({"spec": {"type": "ClusterIP"}}));
    services.patch("one", &PatchParams::default(), &plain).await.unwrap();
    w.quiet().await;
    assert_eq!(of("one").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_follows_its_schedule_and_history_limits() {
    let w = World::new(1, options()).await;
    let crons: Api<CronJob> = Api::namespaced(w.client.clone(), "default");
    let mut template = template("i:1");
    template["spec"]["restartPolicy"] = json!("Never");
    let cron = serde_json::from_value(json!({
        "metadata": {"name": "c"},
        "spec": {"schedule": "*/10 * * * *", "jobTemplate": {"spec": {"template": template}}},
    }))
    .unwrap();
    crons.create(&PostParams::default(), &cron).await.unwrap();
    w.seam.clock.sleep(Duration::from_secs(3_700)).await;
    let jobs: Vec<Job> = w.list().await;
    assert_eq!(jobs.len(), 3, "the last three");
    let last = crons.get("c").await.unwrap().status.unwrap().last_schedule_time.unwrap().0;
    let now = w.seam.clock.wall();
    assert!(now.duration_since(last).as_secs() < 600 && last.as_second() % 600 == 0, "{last}");
}
