//! Draining a cluster of a control plane in memory. The tests do the work of the scheduler and the controllers.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use clap::Parser;
use ironclad_api::{
    annotations::DRAINING,
    cluster::Cluster,
    work::{ResourceBinding, ResourceBindingSpec},
};
use ironclad_apiserver::Identity;
use ironclad_cli::{
    cordon::{Cordon, command::apply},
    drain::{Options, Stuck, abort, begin, command::whole, draining_since, find, preview, rehearse},
    report::{FAILED, MISUSED, exit_code, render},
    unjoin::command::{Command as Unjoin, whole as unjoin},
};
use ironclad_failover::{drain::Health, flags::eviction::Check};
use ironclad_runtime::in_process_client;
use k8s_openapi::api::{
    core::v1::{ConfigMap, Namespace},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    client::Body,
};
use serde_json::json;
use tower::ServiceBuilder;

use crate::support::World;

const FOREVER: Duration = Duration::ZERO;

/// Creates three clusters that are ready and serve Deployments.
async fn world() -> World {
    let world = World::new().await;
    for name in ["m1", "m2", "m3"] {
        add_cluster(&world, name, "True").await;
    }
    world
}

async fn add_cluster(world: &World, name: &str, ready: &str) {
    let api = Api::<Cluster>::all(world.plane.client.clone());
    let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name}, "spec": {"syncMode": "Push"}});
    api.create(&PostParams::default(), &serde_json::from_value(cluster).unwrap()).await.unwrap();
    health(world, name, ready).await;
}

async fn health(world: &World, name: &str, ready: &str) {
    let api = Api::<Cluster>::all(world.plane.client.clone());
    let status = json!({"status": {
        "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
        "conditions": [{"type": "Ready", "status": ready, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }});
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

/// Creates a binding of a Deployment on `m1` that may also run in the other clusters.
async fn bind(world: &World, name: &str, others: &[&str]) {
    let mut names = vec!["m1"];
    names.extend(others);
    let binding = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": name, "labels": {"propagationpolicy.karmada.io/permanent-id": "id"}},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": name},
            "replicas": 2, "clusters": [{"name": "m1", "replicas": 2}],
            "placement": {"clusterAffinity": {"clusterNames": names},
                "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]},
        },
    });
    let api = bindings(world);
    api.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
}

fn bindings(world: &World) -> Api<ResourceBinding> {
    Api::namespaced(world.plane.client.clone(), "default")
}

async fn spec(world: &World, name: &str) -> ResourceBindingSpec {
    bindings(world).get(name).await.unwrap().spec
}

async fn is_on_m1(world: &World, name: &str) -> bool {
    spec(world, name).await.target("m1").is_some()
}

/// Pauses evictions.
async fn paused(world: &World) {
    let maps = Api::<ConfigMap>::namespaced(world.plane.client.clone(), "karmada-system");
    let pause = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ironclad-failover"}, "data": {"paused": "true"}});
    maps.create(&PostParams::default(), &serde_json::from_value(pause).unwrap()).await.unwrap();
}

/// Removes the eviction task as the graceful eviction controller does once the new copies are healthy.
async fn clear(world: &World, name: &str) {
    let patch = json!({"spec": {"gracefulEvictionTasks": null}});
    bindings(world).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// Runs a drain that does not wait for the old copies; returns the result and the printed lines.
async fn drained(world: &World, wanted: &Options) -> (Result<usize, String>, Vec<String>) {
    let said = RefCell::new(Vec::new());
    let say = |text: &str| said.borrow_mut().push(text.to_owned());
    let done = whole(&world.plane.client, &world.seam.clock, wanted, false, FOREVER, say).await;
    (done.map(|progress| progress.evicted).map_err(|error| render(&error.into())), said.into_inner())
}

#[tokio::test(start_paused = true)]
async fn progress_counts_only_old_copies_that_are_still_there() {
    let world = world().await;
    for name in ["a", "b", "c"] {
        bind(&world, name, &["m2"]).await;
    }
    let options = Options::new("m1");
    let replaced = async {
        world.seam.clock.sleep(Duration::from_secs(1)).await;
        clear(&world, "a").await;
    };
    let ((done, said), ()) = futures::join!(drained(&world, &options), replaced);
    assert_eq!(done, Ok(3));
    assert_eq!(
        said[1..],
        [
            "evicted 1/3, waiting for health 1 (default/a: it has no cluster yet), failed 0, rate 0.5/s",
            "evicted 2/3, waiting for health 1 (default/b: it has no cluster yet), failed 0, rate 0.5/s",
            "evicted 3/3, waiting for health 2 (default/b: it has no cluster yet, default/c: it has no cluster yet), failed 0, rate 0.5/s",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn drain_evicts_bindings_at_the_rate_without_evicting_taints() {
    let world = world().await;
    for name in ["a", "b", "c"] {
        bind(&world, name, &["m2"]).await;
    }
    let began = world.seam.clock.mono();
    let (done, said) = drained(&world, &Options::new("m1")).await;
    assert_eq!(done, Ok(3));
    let took = world.seam.clock.mono() - began;
    assert!(
        took >= Duration::from_secs(4) && took < Duration::from_secs(5),
        "one at once, then one every 2 s: {took:?}"
    );
    assert_eq!(said[0], "cluster m1: 3 bindings, 3 can be moved, 0 can't, 0 follow others, 0 under way");
    let awaits = |names: &[&str]| {
        names.iter().map(|name| format!("default/{name}: it has no cluster yet")).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(said[1], format!("evicted 1/3, waiting for health 1 ({}), failed 0, rate 0.5/s", awaits(&["a"])));
    let last = format!("evicted 3/3, waiting for health 3 ({}), failed 0, rate 0.5/s", awaits(&["a", "b", "c"]));
    assert_eq!(said.last().unwrap(), &last);
    let task = &spec(&world, "a").await.graceful_eviction_tasks[0];
    assert_eq!((task.reason.as_str(), task.producer.as_str(), task.replicas), ("ClusterDrain", "Drain", Some(2)));
    let cluster = find(&world.plane.client, &"m1".into()).await.unwrap();
    let taints: Vec<_> = cluster.spec.taints.iter().map(|t| (t.key.as_str(), t.effect.as_str())).collect();
    assert_eq!(taints, [("cluster.karmada.io/unschedulable", "NoSchedule")], "B63: the cluster is only cordoned");
    assert!(draining_since(&cluster).is_some());

    let writes = world.plane.writes();
    assert!(writes > 0);
    let (again, said) = drained(&world, &Options::new("m1")).await;
    assert_eq!((again, world.plane.writes()), (Ok(0), 0), "a second run has nothing to do: {said:?}");
    assert!(said[0].ends_with("3 under way"), "{said:?}");
}

/// The Clusters are listed by the surveys before and after the moves, and watched between them.
#[tokio::test(start_paused = true)]
async fn clusters_are_not_listed_for_each_move() {
    let world = world().await;
    for number in 0..8 {
        bind(&world, &format!("b{number}"), &["m2"]).await;
    }
    let lists = Arc::new(AtomicUsize::new(0));
    let counter = lists.clone();
    let service = world.plane.server.in_process(Identity::admin("tester"));
    let service = ServiceBuilder::new()
        .map_request(move |request: http::Request<Body>| {
            let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            if request.uri().path().ends_with("/clusters") && !watches {
                counter.fetch_add(1, Ordering::Relaxed);
            }
            request
        })
        .service(service);
    let plane = in_process_client(service, Arc::default());
    let options = Options { rate: 100.0, ..Options::new("m1") };
    let moved = whole(&plane, &world.seam.clock, &options, false, FOREVER, |_| {}).await.unwrap();
    assert_eq!((moved.evicted, lists.load(Ordering::Relaxed)), (8, 2));
}

#[tokio::test(start_paused = true)]
async fn moves_follow_the_clusters_as_they_are() {
    let world = world().await;
    for name in ["a", "b", "c"] {
        bind(&world, name, &["m2", "m3"]).await;
    }
    let (api, clock) = (Api::<Cluster>::all(world.plane.client.clone()), world.seam.clock.clone());
    world.seam.tasks.spawn("operator", async move {
        clock.sleep(Duration::from_secs(1)).await;
        for name in ["m2", "m3"] {
            let taint = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
            api.patch(name, &PatchParams::default(), &Patch::Merge(taint)).await.unwrap();
        }
    });
    let (done, said) = drained(&world, &Options::new("m1")).await;
    let want = "error: cluster m1 still has 2 bindings\n";
    assert!(done.as_ref().unwrap_err().starts_with(want), "{done:?} {said:?}");
}

#[tokio::test(start_paused = true)]
async fn unmovable_binding_stops_a_drain_unless_skipped_or_forced() {
    let world = world().await;
    bind(&world, "free", &["m2"]).await;
    bind(&world, "stuck", &[]).await;
    let survey = preview(&world.plane.client, &Options::new("m1"), &world.seam.clock, |_| {}).await.unwrap();
    let items: Vec<_> = survey.items.iter().map(|item| (item.word(), item.detail())).collect();
    assert_eq!(items[0], ("moves", "m2:2".to_owned()), "the target is shown");
    assert!(items[1].0 == "unmovable" && items[1].1.starts_with("nowhere to go: "), "{items:?}");

    let (refused, said) = drained(&world, &Options::new("m1")).await;
    let want = "error: cluster m1 was not drained, only cordoned\n  because 1 of 2 bindings can't be moved\n  try: --skip-unmovable";
    assert!(refused.as_ref().unwrap_err().starts_with(want), "{refused:?}");
    assert!(said.iter().any(|line| line.starts_with("  unmovable default/stuck: nowhere to go")), "{said:?}");
    assert!(is_on_m1(&world, "free").await, "no binding is moved while another can't be");
    assert!(draining_since(&find(&world.plane.client, &"m1".into()).await.unwrap()).is_none());

    let skip = Options { stuck: Stuck::Skip, ..Options::new("m1") };
    assert_eq!(drained(&world, &skip).await.0, Ok(1));
    assert!(!is_on_m1(&world, "free").await && is_on_m1(&world, "stuck").await);
    let force = Options { stuck: Stuck::Force, ..Options::new("m1") };
    assert_eq!(drained(&world, &force).await.0, Ok(1));
    assert!(!is_on_m1(&world, "stuck").await);
}

#[tokio::test(start_paused = true)]
async fn drain_ended_by_another_process_continues_when_run_again() {
    let world = world().await;
    for name in ["a", "b", "c", "d"] {
        bind(&world, name, &["m2"]).await;
    }
    let (plane, clock) = (world.plane.client.clone(), world.seam.clock.clone());
    world.seam.tasks.spawn("abort", async move {
        clock.sleep(Duration::from_secs(3)).await;
        abort(&plane, &"m1".into()).await.unwrap();
    });
    let (ended, _) = drained(&world, &Options::new("m1")).await;
    assert!(ended.unwrap_err().starts_with("error: the drain of cluster m1 was ended from elsewhere\n"));
    let mut left = 0;
    for name in ["a", "b", "c", "d"] {
        left += usize::from(is_on_m1(&world, name).await);
    }
    assert_eq!(left, 2, "two bindings were moved in 3 s");
    assert_eq!(drained(&world, &Options::new("m1")).await.0, Ok(2), "the remaining bindings");
}

#[tokio::test(start_paused = true)]
async fn unhealthy_clusters_hold_a_drain_and_a_pause_of_evictions_does_not() {
    let world = world().await;
    bind(&world, "a", &["m2"]).await;
    bind(&world, "b", &["m2"]).await;
    health(&world, "m3", "False").await;
    let eager = Options { health: Health::Ignored, ..Options::new("m1") };
    assert_eq!(Options::new("m1").health, Health::Heeded);
    let namespaces = Api::<Namespace>::all(world.plane.client.clone());
    let system = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karmada-system"}});
    namespaces.create(&PostParams::default(), &serde_json::from_value(system).unwrap()).await.unwrap();
    paused(&world).await;
    let (done, said) = drained(&world, &eager).await;
    assert_eq!(done, Ok(2), "{said:?}");

    health(&world, "m2", "False").await;
    health(&world, "m3", "True").await;
    bind(&world, "c", &["m3"]).await;
    let clusters = Api::<Cluster>::all(world.plane.client.clone());
    add_cluster(&world, "m4", "Unknown").await;
    let (clock, plane) = (world.seam.clock.clone(), clusters.clone());
    world.seam.tasks.spawn("recovery", async move {
        clock.sleep(Duration::from_secs(90)).await;
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        plane.patch_status("m4", &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
    });
    let began = world.seam.clock.mono();
    let (done, said) = drained(&world, &Options::new("m1")).await;
    assert_eq!(done, Ok(1), "{said:?}");
    assert!(world.seam.clock.mono() - began >= Duration::from_secs(90), "the drain waited for the recovery");
    let on_hold = "on hold: unhealthy other clusters: 2 of 3 (--ignore-health)";
    assert!(said.iter().any(|line| line.ends_with(on_hold)), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn its_timeout_bounds_the_moves_as_well_as_the_wait() {
    let world = world().await;
    bind(&world, "a", &["m2"]).await;
    bind(&world, "b", &["m2"]).await;
    health(&world, "m3", "False").await;
    add_cluster(&world, "m4", "False").await;
    let (began, options) = (world.seam.clock.mono(), Options::new("m1"));
    let late = whole(&world.plane.client, &world.seam.clock, &options, true, Duration::from_secs(3), |_| {}).await;
    let want = "error: timed out after 3 s: cluster m1 is not drained\n  because 2 workloads could not be moved while \
                2 of 3 other clusters are unhealthy\n  try: ironclad drain m1 --status";
    assert_eq!(render(&late.unwrap_err().into()), want);
    assert_eq!(world.seam.clock.mono() - began, Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn drain_waits_until_old_copies_are_removed() {
    let world = world().await;
    bind(&world, "a", &["m2"]).await;
    let wait = async |timeout: Duration| {
        let say = |_: &str| {};
        whole(&world.plane.client, &world.seam.clock, &Options::new("m1"), true, timeout, say).await
    };
    let late = wait(Duration::from_secs(30)).await.unwrap_err();
    let want =
        "error: timed out after 30 s: cluster m1 is not drained\n  because replacements of 1 old copy are not healthy";
    assert!(render(&late.into()).starts_with(want));
    let after = async {
        world.seam.clock.sleep(Duration::from_secs(100)).await;
        clear(&world, "a").await;
    };
    let began = world.seam.clock.mono();
    let (done, ()) = futures::join!(wait(FOREVER), after);
    assert_eq!(done.unwrap().waiting, 0);
    assert!(world.seam.clock.mono() - began >= Duration::from_secs(100));
    let cluster = find(&world.plane.client, &"m1".into()).await.unwrap();
    assert!(
        cluster.metadata.annotations.unwrap().contains_key(DRAINING),
        "the cluster counts as drained until the drain is aborted"
    );
    abort(&world.plane.client, &"m1".into()).await.unwrap();
    let cluster = find(&world.plane.client, &"m1".into()).await.unwrap();
    assert_eq!((draining_since(&cluster), cluster.spec.taints.len()), (None, 1), "the cluster stays cordoned");
    begin(&world.plane.client, &"m1".into(), world.seam.clock.wall_seconds()).await.unwrap();
    apply(&world.plane.client, "m1", Cordon::Open).await.unwrap();
    let cluster = find(&world.plane.client, &"m1".into()).await.unwrap();
    assert_eq!((draining_since(&cluster), cluster.spec.taints.len()), (None, 0), "uncordon ends a drain too");
    let unknown = find(&world.plane.client, &"m9".into()).await.unwrap_err();
    assert!(
        render(&unknown.into())
            .starts_with("Error from server (NotFound): clusters.cluster.karmada.io \"m9\" not found")
    );
}

/// Command line of `unjoin`.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    unjoin: Unjoin,
}

async fn run_line(world: &World, line: &str) -> Result<String, (u8, String)> {
    let line = Line::try_parse_from(std::iter::once("unjoin").chain(line.split_whitespace())).unwrap();
    let done = unjoin(&world.plane.client, None, &world.seam.clock, &line.unjoin, |_| ()).await;
    done.map_err(|error| (exit_code(&error), render(&error)))
}

#[tokio::test(start_paused = true)]
async fn unjoin_refuses_to_lose_replicas_or_drains_first() {
    let world = world().await;
    bind(&world, "a", &["m2"]).await;
    bind(&world, "pinned", &[]).await;
    for (line, code, want) in [
        (
            "m1 --yes",
            FAILED,
            "error: cluster m1 was not unjoined\n  because 2 bindings still target it\n  try: ironclad drain m1",
        ),
        (
            "m1 --no-drain",
            MISUSED,
            "error: cluster m1 was not unjoined\n  because there is no terminal to confirm on\n  try: --yes",
        ),
        (
            "m1 --drain --yes",
            FAILED,
            "error: cluster m1 was not unjoined, only cordoned\n  because 1 of 2 bindings can't be moved\n  try: ironclad drain m1",
        ),
        (
            "m1 --yes --dry-run",
            FAILED,
            "error: cluster m1 would not be unjoined\n  because 2 bindings still target it\n  try: ironclad drain m1",
        ),
        ("m9 --yes", FAILED, "error: no cluster object m9 found in karmada control Plane"),
    ] {
        let (got, text) = run_line(&world, line).await.unwrap_err();
        assert!(got == code && text.starts_with(want), "{line}: {got} {text}");
    }
    let clusters: Api<Cluster> = Api::all(world.plane.client.clone());
    assert_eq!(clusters.get("m1").await.unwrap().metadata.deletion_timestamp, None, "the cluster is still joined");
    assert!(is_on_m1(&world, "a").await && is_on_m1(&world, "pinned").await, "no binding was moved");

    bindings(&world).delete("pinned", &DeleteParams::default()).await.unwrap();
    let moved = async {
        world.seam.clock.sleep(Duration::from_secs(100)).await;
        assert!(clusters.get_opt("m1").await.unwrap().is_some(), "the cluster is not removed before its old copies");
        clear(&world, "a").await;
    };
    let (done, ()) = futures::join!(run_line(&world, "m1 --drain --yes"), moved);
    assert_eq!(done.as_deref(), Ok("cluster(m1) is unjoined successfully\n"));
    assert!(!is_on_m1(&world, "a").await && clusters.get_opt("m1").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn unjoin_with_kept_or_abandoned_workloads_needs_no_drain() {
    for (line, dry) in
        [("--no-drain", false), ("--keep-workloads", false), ("--force", false), ("--no-drain --dry-run", true)]
    {
        let world = world().await;
        bind(&world, "a", &["m2"]).await;
        world.plane.writes();
        let done = run_line(&world, &format!("m1 --yes {line}")).await.unwrap();
        assert_eq!(done.contains("would be unjoined (dry run)"), dry, "{line}");
        let left = Api::<Cluster>::all(world.plane.client.clone()).get_opt("m1").await.unwrap();
        assert_eq!(left.is_some(), dry, "{line}");
        let wanted = if dry {
            0
        } else if line == "--keep-workloads" {
            2
        } else {
            1
        };
        assert_eq!(world.plane.writes(), wanted, "{line}");
        assert!(is_on_m1(&world, "a").await, "{line}: no binding is moved");
    }
}

/// Relaxed by default; where the strict check keeps something, its error names the other one.
#[tokio::test(start_paused = true)]
async fn workloads_that_run_everywhere_keep_no_cluster() {
    let world = world().await;
    let everywhere = |name: &str, kind: &str| {
        let kinds = if kind == "Divided" { json!({"replicaSchedulingType": "Divided"}) } else { json!(null) };
        json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": name, "labels": {"propagationpolicy.karmada.io/permanent-id": "id"}},
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": name},
                "replicas": 2, "placement": {"replicaScheduling": kinds},
                "clusters": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 2}, {"name": "m3", "replicas": 2}],
            },
        })
    };
    for (name, kind) in [("dup", "Duplicated"), ("div", "Divided")] {
        let made = serde_json::from_value(everywhere(name, kind)).unwrap();
        bindings(&world).create(&PostParams::default(), &made).await.unwrap();
    }
    let strict = Options { check: Check::Strict, ..Options::new("m1") };
    let (refused, _) = drained(&world, &strict).await;
    let want = "error: cluster m1 was not drained, only cordoned\n  because 1 of 2 bindings can't be moved\n  \
                try: --pre-scheduling-check relaxed, which lets 1 binding move; --skip-unmovable";
    assert!(refused.as_ref().unwrap_err().starts_with(want), "{refused:?}");
    let (done, said) = drained(&world, &Options::new("m1")).await;
    assert_eq!(done, Ok(2), "{said:?}");
    assert!(!is_on_m1(&world, "dup").await && !is_on_m1(&world, "div").await);
}

/// With `--dry-run=server` the server is asked for each write, and makes none.
#[tokio::test(start_paused = true)]
async fn a_server_tells_beforehand_what_it_would_refuse() {
    let world = world().await;
    bind(&world, "a", &["m2"]).await;
    let (options, clock) = (Options::new("m1"), &world.seam.clock);
    let moving = preview(&world.plane.client, &options, clock, |_| {}).await.unwrap().moving(Stuck::Refuse);
    let clusters = Api::<Cluster>::all(world.plane.client.clone());
    let version = |cluster: Cluster| cluster.metadata.resource_version;
    let before = (version(clusters.get("m1").await.unwrap()), bindings(&world).get("a").await.unwrap());
    let rehearsed = async |client: &Client| {
        let done = rehearse(client, &options, &moving, clock.wall_seconds()).await;
        done.map_err(|error| render(&error.into()))
    };
    world.plane.writes();
    assert_eq!(rehearsed(&world.plane.client).await, Ok(()));
    assert_eq!(world.plane.writes(), 3, "cordon, note and move");
    let client = in_process_client(world.plane.server.in_process(Identity::user("jane", &[])), Arc::default());
    let refused = rehearsed(&client).await.unwrap_err();
    assert!(refused.starts_with("error: cluster m1 was not drained: cordoning it"), "{refused}");

    let role = json!({"metadata": {"name": "clusters"}, "rules": [{"apiGroups": ["*"], "resources": ["clusters"], "verbs": ["*"]}]});
    let role: ClusterRole = serde_json::from_value(role).unwrap();
    Api::all(world.plane.client.clone()).create(&PostParams::default(), &role).await.unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "clusters"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "clusters"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    }))
    .unwrap();
    Api::all(world.plane.client.clone()).create(&PostParams::default(), &binding).await.unwrap();
    let refused = rehearsed(&client).await.unwrap_err();
    let want = "error: cluster m1 would still have 1 binding\n  because default/a: resourcebindings.work.karmada.io \"a\" is forbidden: User \"jane\"";
    assert!(refused.starts_with(want), "{refused}");
    let after = (version(clusters.get("m1").await.unwrap()), bindings(&world).get("a").await.unwrap());
    assert_eq!(after, before, "nothing is written");

    world.plane.writes();
    for (line, asks) in [("--no-drain", 1), ("--keep-workloads", 2)] {
        let done = run_line(&world, &format!("m1 --yes --dry-run=server {line}")).await;
        assert_eq!(done.as_deref(), Ok("cluster(m1) would be unjoined (server dry run)\n"), "{line}");
        assert_eq!(world.plane.writes(), asks, "{line}");
        assert_eq!(version(clusters.get("m1").await.unwrap()), before.0, "{line}");
    }
    let line = Line::try_parse_from(["unjoin", "m1", "--yes", "--no-drain", "--dry-run=server"]).unwrap();
    let refused = unjoin(&client, None, clock, &line.unjoin, |_| ()).await.map_err(|error| render(&error));
    assert!(refused.as_ref().unwrap_err().contains("forbidden"), "{refused:?}");
}
