//! The account of capacity with default settings, in virtual time: what preemption frees is free, and nobody is evicted
//! for nothing (specification/scheduling.md 10, 11, 15). Each test is a situation that once failed.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_api::{
    conditions::{
        self, TRUE,
        binding::{PODS_UNSCHEDULABLE, SCHEDULED},
    },
    eviction::BINDING_PREEMPTED,
    policy::PropagationPolicy,
    work::ResourceBinding,
};
use ironclad_failover::flags::eviction::Check;
use ironclad_fleet::gates::Gate;
use ironclad_simcluster::Shape;
use ironclad_testkit::sim::{
    Setup, World, WorldOptions, propagation, runner,
    script::{HAND_KEY, taint},
};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Pod, ResourceQuota},
        scheduling::v1::PriorityClass,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// A workload, and the priority of its policy.
#[derive(Clone, Copy)]
struct App {
    name: &'static str,
    replicas: i32,
    /// Cores of each replica.
    cpu: i32,
    priority: i32,
    /// Copies in every cluster instead of a division.
    duplicated: bool,
}

fn app(name: &'static str, replicas: i32, cpu: i32, priority: i32) -> App {
    App { name, replicas, cpu, priority, duplicated: false }
}

/// A fleet with preemption on, and everything else by default.
struct Fleet {
    world: World,
    user: Client,
}

const SECOND: Duration = Duration::from_secs(1);

impl Fleet {
    /// Members with this number of nodes of so many cores each.
    async fn of(members: usize, nodes: u32, cores: i32) -> anyhow::Result<Self> {
        Self::with(Setup { nodes, ..Setup::from(WorldOptions { seed: 36, members }) }, cores).await
    }

    /// The same with gate `Failover`.
    async fn failing_over(members: usize, cores: i32) -> anyhow::Result<Self> {
        let mut setup = runner::setup(members, 10.0);
        setup.settings.failover.eviction.pre_scheduling_check = Check::Relaxed;
        Self::with(setup, cores).await
    }

    async fn with(mut setup: Setup, cores: i32) -> anyhow::Result<Self> {
        let nodes = setup.nodes;
        setup.settings.gates = setup.settings.gates.with(Gate::PriorityBasedPreemptiveScheduling, true);
        let mut world = World::start(setup).await?;
        for member in world.members.values() {
            let mut shape = Shape { nodes, ..Shape::default() };
            shape.capacity.insert("cpu".to_owned(), Quantity(cores.to_string()));
            member.reshape(shape);
        }
        world.start_controllers().await;
        let user = world.user();
        world.until_quiet().await?;
        world.pass(60 * SECOND).await?;
        Ok(Self { world, user })
    }

    fn bindings(&self) -> Api<ResourceBinding> {
        Api::namespaced(self.user.clone(), "default")
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.user.clone(), "default")
    }

    async fn create(&self, app: App) -> anyhow::Result<()> {
        self.create_with(app, |_| {}, |_| {}).await
    }

    /// Creates a workload whose policy and template were changed.
    async fn create_with(
        &self,
        app: App,
        policy: impl FnOnce(&mut Value),
        template: impl FnOnce(&mut Value),
    ) -> anyhow::Result<()> {
        let class = json!({"metadata": {"name": app.name}, "value": app.priority});
        let classes: Api<PriorityClass> = Api::all(self.user.clone());
        classes.create(&PostParams::default(), &serde_json::from_value(class)?).await?;
        let mut wanted = serde_json::to_value(propagation::policy()?)?;
        wanted["metadata"]["name"] = json!(app.name);
        wanted["spec"]["resourceSelectors"][0]["name"] = json!(app.name);
        wanted["spec"]["schedulePriority"] =
            json!({"priorityClassSource": "KubePriorityClass", "priorityClassName": app.name});
        wanted["spec"]["placement"] = if app.duplicated {
            json!({})
        } else {
            json!({"replicaScheduling": {
                "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                "weightPreference": {"dynamicWeight": "AvailableReplicas"},
            }})
        };
        policy(&mut wanted);
        let policies: Api<PropagationPolicy> = Api::namespaced(self.user.clone(), "default");
        policies.create(&PostParams::default(), &serde_json::from_value(wanted)?).await?;
        let mut deployment = serde_json::to_value(propagation::deployment()?)?;
        deployment["metadata"]["name"] = json!(app.name);
        deployment["spec"]["replicas"] = json!(app.replicas);
        let selects = json!({"app": app.name});
        deployment["spec"]["selector"]["matchLabels"] = selects.clone();
        deployment["spec"]["template"]["metadata"]["labels"] = selects;
        deployment["spec"]["template"]["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": app.cpu.to_string()}});
        template(&mut deployment);
        self.deployments().create(&PostParams::default(), &serde_json::from_value(deployment)?).await?;
        Ok(())
    }

    async fn binding(&self, name: &str) -> anyhow::Result<Option<ResourceBinding>> {
        Ok(self.bindings().get_opt(&format!("{name}-deployment")).await?)
    }

    /// Replicas that the result of a workload names.
    async fn placed(&self, name: &str) -> anyhow::Result<i32> {
        let binding = self.binding(name).await?;
        Ok(binding.map_or(0, |binding| binding.spec.clusters.iter().map(|target| target.replicas).sum()))
    }

    /// Pods of a workload in a member that have a node.
    async fn bound(&self, member: &str, name: &str) -> anyhow::Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.world.member(member)?.client(), "default");
        let pods = pods.list(&ListParams::default().labels(&format!("app={name}"))).await?.items;
        let is_bound = |pod: &Pod| {
            pod.metadata.deletion_timestamp.is_none() && pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
        };
        Ok(pods.into_iter().filter(is_bound).collect())
    }

    async fn run(&mut self, app: App) -> anyhow::Result<()> {
        self.create(app).await?;
        self.until_bound(app).await
    }

    /// Waits until all pods of a workload have a node.
    async fn until_bound(&mut self, app: App) -> anyhow::Result<()> {
        let members: Vec<String> = self.world.members.keys().cloned().collect();
        let wanted = if app.duplicated { app.replicas * i32::try_from(members.len())? } else { app.replicas };
        for _ in 0..600 {
            let mut bound = 0;
            for member in &members {
                bound += self.bound(member, app.name).await?.len();
            }
            if i32::try_from(bound)? == wanted {
                return Ok(());
            }
            self.world.pass(SECOND / 5).await?;
        }
        let binding = self.binding(app.name).await?;
        let message = binding.as_ref().map(|binding| (message(binding).to_owned(), binding.spec.clusters.clone()));
        anyhow::bail!("{} does not run: {message:?}", app.name)
    }

    /// Workloads that were preempted so far.
    async fn victims(&self) -> anyhow::Result<BTreeSet<String>> {
        let events: Api<k8s_openapi::api::core::v1::Event> = Api::namespaced(self.user.clone(), "default");
        let events = events.list(&ListParams::default()).await?.items;
        let preempted = events.into_iter().filter(|event| event.reason.as_deref() == Some("BindingPreempted"));
        let about = preempted.filter(|event| event.involved_object.kind.as_deref() == Some("Deployment"));
        Ok(about.filter_map(|event| event.involved_object.name).collect())
    }

    /// Changes the nodes of a member.
    async fn reshape(&mut self, member: &str, cores: i32) -> anyhow::Result<()> {
        let member = self.world.members.get(member).context("a member")?.clone();
        let mut shape = member.shape();
        shape.capacity.insert("cpu".to_owned(), Quantity(cores.to_string()));
        member.reshape(shape);
        self.world.pass(20 * SECOND).await
    }

    /// Lets a workload that runs in member1 run everywhere, with purge mode Directly.
    async fn open(&self, name: &str) -> anyhow::Result<()> {
        let open = json!({"spec": {
            "failover": {"cluster": {"purgeMode": "Directly"}},
            "placement": {"clusterAffinity": null},
        }});
        let policies: Api<PropagationPolicy> = Api::namespaced(self.user.clone(), "default");
        policies.patch(name, &PatchParams::default(), &Patch::Merge(open)).await?;
        Ok(())
    }

    async fn taint(&self, member: &str, effect: &str) -> anyhow::Result<()> {
        taint(&self.user, member, HAND_KEY, effect, self.world.clock().wall_seconds()).await
    }

    async fn delete(&self, name: &str) -> anyhow::Result<()> {
        self.deployments().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Message of condition `PodsUnschedulable`.
    async fn without_node(&self, name: &str) -> anyhow::Result<Option<String>> {
        let status = self.binding(name).await?.and_then(|binding| binding.status).unwrap_or_default();
        let condition = conditions::get(&status.conditions, PODS_UNSCHEDULABLE);
        Ok(condition.filter(|condition| condition.status == TRUE).map(|condition| condition.message.clone()))
    }

    async fn nominated(&self, name: &str) -> anyhow::Result<usize> {
        let binding = self.binding(name).await?;
        Ok(binding.and_then(|binding| binding.status).map_or(0, |status| status.nominated_clusters.len()))
    }
}

fn message(binding: &ResourceBinding) -> &str {
    let conditions = binding.status.as_ref().map_or(&[][..], |status| &status.conditions);
    conditions::get(conditions, SCHEDULED).map_or("", |condition| &condition.message)
}

fn names(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

/// The example of the proposal (specification/proposals/002.md): a node of ten cores, full.
#[tokio::test(start_paused = true)]
async fn the_proposals_example_frees_what_the_preemptor_takes() -> anyhow::Result<()> {
    let mut fleet = Fleet::of(1, 1, 10).await?;
    for (name, cpu, priority) in [("p0", 1, 0), ("p1", 2, 1), ("p2", 5, 2), ("p3", 2, 3)] {
        fleet.run(app(name, 1, cpu, priority)).await?;
    }
    fleet.world.pass(30 * SECOND).await?;
    let newcomer = app("new", 1, 5, 10);
    fleet.create(newcomer).await?;
    fleet.until_bound(newcomer).await?;
    ensure!(fleet.victims().await? == names(&["p2"]), "{:?}", fleet.victims().await?);
    // A condition says what is, not what was.
    let binding = fleet.binding("new").await?.context("binding")?;
    ensure!(!message(&binding).contains("Preempting"), "{}", message(&binding));
    Ok(())
}

/// A node counts with what it has, although models count one of six cores as four.
#[tokio::test(start_paused = true)]
async fn a_watched_node_counts_with_what_it_has() -> anyhow::Result<()> {
    let mut fleet = Fleet::of(1, 1, 6).await?;
    fleet.run(app("whole", 1, 6, 0)).await
}

/// Halves of two nodes are no node.
#[tokio::test(start_paused = true)]
async fn victims_leave_one_node() -> anyhow::Result<()> {
    let mut fleet = Fleet::of(1, 2, 8).await?;
    for (name, priority) in [("p0", 0), ("p1", 1), ("p2", 2), ("p3", 3)] {
        fleet.run(app(name, 1, 4, priority)).await?;
    }
    let mut on: Vec<(String, String)> = Vec::new();
    for name in ["p0", "p1", "p2", "p3"] {
        let pods = fleet.bound("member1", name).await?;
        let node = pods[0].spec.as_ref().and_then(|spec| spec.node_name.clone()).context("a node")?;
        on.push((name.to_owned(), node));
    }
    let newcomer = app("new", 1, 8, 10);
    fleet.create(newcomer).await?;
    fleet.until_bound(newcomer).await?;
    let victims = fleet.victims().await?;
    // The pair on one node with the lowest of the higher priorities.
    let other =
        &on.iter().find(|(name, node)| name != "p3" && on.iter().any(|(n, of)| n != name && of == node && n != "p3"));
    let node = other.map(|(_, node)| node.clone()).unwrap_or_else(|| on[0].1.clone());
    let want: BTreeSet<String> = on.iter().filter(|(_, of)| *of == node).map(|(name, _)| name.clone()).collect();
    ensure!(victims.len() == 2 && victims == want, "{victims:?} of {on:?}");
    Ok(())
}

/// A pod that no node takes evicts nobody.
#[tokio::test(start_paused = true)]
async fn nobody_leaves_for_a_pod_that_no_node_takes() -> anyhow::Result<()> {
    for (name, cpu, selector) in [("a label that no node has", 1, true), ("more than a node has", 5, false)] {
        let mut fleet = Fleet::of(1, 2, 4).await?;
        for (name, priority) in [("p0", 0), ("p1", 1)] {
            fleet.run(app(name, 1, 4, priority)).await?;
        }
        let choose = |deployment: &mut Value| {
            if selector {
                deployment["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "none"});
            }
        };
        fleet.create_with(app("new", 1, cpu, 10), |_| {}, choose).await?;
        fleet.world.pass(180 * SECOND).await?;
        ensure!(fleet.victims().await?.is_empty(), "{name}: {:?}", fleet.victims().await?);
        ensure!(fleet.placed("new").await? == 0, "{name}: it is placed");
    }
    Ok(())
}

/// A workload that holds nothing in the member is no victim: a quota there refuses its pods.
#[tokio::test(start_paused = true)]
async fn nobody_leaves_who_frees_nothing() -> anyhow::Result<()> {
    let mut fleet = Fleet::of(1, 1, 8).await?;
    fleet.run(app("real", 1, 5, 5)).await?;
    let quota = json!({"metadata": {"name": "full"}, "spec": {"hard": {"count/pods": "1"}}});
    let quotas: Api<ResourceQuota> = Api::namespaced(fleet.world.member("member1")?.client(), "default");
    quotas.create(&PostParams::default(), &serde_json::from_value(quota)?).await?;
    fleet.create(app("refused", 1, 3, 0)).await?;
    // Nothing is promised to it any more.
    fleet.world.pass(60 * SECOND).await?;
    ensure!(fleet.placed("refused").await? == 1 && fleet.bound("member1", "refused").await?.is_empty());
    quotas.delete("full", &DeleteParams::default()).await?;
    let newcomer = app("new", 1, 5, 10);
    fleet.create(newcomer).await?;
    fleet.until_bound(newcomer).await?;
    ensure!(fleet.victims().await? == names(&["real"]), "{:?}", fleet.victims().await?);
    Ok(())
}

/// A promise and the pods that fulfil it are not both counted, whatever the time since it was made.
#[tokio::test(start_paused = true)]
async fn nothing_counts_twice_after_a_placement() -> anyhow::Result<()> {
    for gap in [0, 200, 1_000, 2_000, 5_000, 9_500, 10_500, 12_000, 20_000] {
        let mut fleet = Fleet::of(1, 1, 12).await?;
        fleet.create(app("first", 1, 6, 0)).await?;
        fleet.world.pass(Duration::from_millis(gap)).await?;
        let newcomer = app("new", 1, 4, 100);
        fleet.create(newcomer).await?;
        fleet.until_bound(newcomer).await?;
        fleet.until_bound(app("first", 1, 6, 0)).await?;
        ensure!(fleet.victims().await?.is_empty(), "after {gap} ms: {:?}", fleet.victims().await?);
    }
    Ok(())
}

/// A copy of a workload that runs in every cluster does not take back what it made room with.
#[tokio::test(start_paused = true)]
async fn a_duplicated_victim_stays_away_until_the_preemptor_runs() -> anyhow::Result<()> {
    let mut fleet = Fleet::of(2, 1, 8).await?;
    let copies = App { duplicated: true, ..app("copies", 1, 6, 0) };
    fleet.run(copies).await?;
    let on_one = |policy: &mut Value| {
        policy["spec"]["placement"]["clusterAffinity"] = json!({"clusterNames": ["member1"]});
    };
    let newcomer = app("new", 1, 8, 10);
    fleet.create_with(newcomer, on_one, |_| {}).await?;
    fleet.until_bound(newcomer).await?;
    ensure!(fleet.bound("member2", "copies").await?.len() == 1, "the other copy stays");
    ensure!(fleet.victims().await? == names(&["copies"]));
    Ok(())
}

/// Preemptors that wait together do not evict more than they need together.
#[tokio::test(start_paused = true)]
async fn five_preemptors_evict_five() -> anyhow::Result<()> {
    for gap in [0, 500, 2_000] {
        let mut fleet = Fleet::of(1, 2, 10).await?;
        let low: Vec<&'static str> = vec![
            "v00", "v01", "v02", "v03", "v04", "v05", "v06", "v07", "v08", "v09", "v10", "v11", "v12", "v13", "v14",
            "v15", "v16", "v17", "v18", "v19",
        ];
        for name in low {
            fleet.run(app(name, 1, 1, 0)).await?;
        }
        fleet.world.pass(20 * SECOND).await?;
        let all = ["n0", "n1", "n2", "n3", "n4"].map(|name| app(name, 1, 1, 10));
        for newcomer in all {
            fleet.create(newcomer).await?;
            fleet.world.pass(Duration::from_millis(gap)).await?;
        }
        for newcomer in all {
            fleet.until_bound(newcomer).await?;
        }
        let victims = fleet.victims().await?;
        ensure!(victims.len() == 5, "{gap} ms between them: {victims:?}");
    }
    Ok(())
}

/// A preemptor that grows while its victims leave evicts only what it lacks.
#[tokio::test(start_paused = true)]
async fn a_preemptor_that_grows_evicts_one_more() -> anyhow::Result<()> {
    for gap in [100, 1_000, 4_000] {
        let mut fleet = Fleet::of(1, 1, 8).await?;
        for name in ["v0", "v1", "v2", "v3"] {
            fleet.run(app(name, 1, 2, 0)).await?;
        }
        let newcomer = app("new", 1, 2, 10);
        fleet.create(newcomer).await?;
        fleet.world.pass(Duration::from_millis(gap)).await?;
        let scaled = json!({"spec": {"replicas": 2}});
        fleet.deployments().patch("new", &PatchParams::default(), &Patch::Merge(scaled)).await?;
        fleet.until_bound(App { replicas: 2, ..newcomer }).await?;
        let victims = fleet.victims().await?;
        ensure!(victims.len() == 2, "scaled after {gap} ms: {victims:?}");
    }
    Ok(())
}

/// Waiting workloads are tried as soon as something is free, whatever made it free.
#[tokio::test(start_paused = true)]
async fn deleted_workloads_make_room_at_once() -> anyhow::Result<()> {
    for gap in [0, 300, 1_000, 5_000, 30_000] {
        let mut fleet = Fleet::of(1, 1, 8).await?;
        fleet.create(app("whole", 2, 4, 0)).await?;
        let waiting = app("other", 2, 4, 0);
        while fleet.placed("whole").await? < 2 {
            fleet.world.pass(SECOND / 10).await?;
        }
        fleet.create(waiting).await?;
        fleet.world.pass(Duration::from_millis(gap)).await?;
        fleet.delete("whole").await?;
        let began = fleet.world.clock().mono();
        fleet.until_bound(waiting).await?;
        let took = fleet.world.clock().mono() - began;
        ensure!(took < 60 * SECOND, "deleted after {gap} ms: waited {took:?}");
    }
    Ok(())
}

/// A victim that was placed a moment ago leaves, and the preemptor comes.
#[tokio::test(start_paused = true)]
async fn a_victim_without_pods_frees_its_promise() -> anyhow::Result<()> {
    for gap in [0, 20, 100, 300, 700, 1_500] {
        let mut fleet = Fleet::of(1, 1, 8).await?;
        fleet.create(app("low", 1, 8, 0)).await?;
        fleet.world.pass(Duration::from_millis(gap)).await?;
        let high = app("high", 1, 8, 10);
        fleet.create(high).await?;
        fleet.until_bound(high).await.with_context(|| format!("{gap} ms later"))?;
        ensure!(fleet.bound("member1", "low").await?.is_empty(), "{gap} ms later: both run");
    }
    Ok(())
}

/// A restart in the middle loses neither the room nor time.
#[tokio::test(start_paused = true)]
async fn a_restart_after_a_preemption_places_the_preemptor() -> anyhow::Result<()> {
    for gap in [200, 1_000, 4_000] {
        let mut fleet = Fleet::of(1, 1, 8).await?;
        fleet.run(app("low", 1, 8, 0)).await?;
        let high = app("high", 1, 8, 10);
        fleet.create(high).await?;
        fleet.world.pass(Duration::from_millis(gap)).await?;
        fleet.world.crash(0, 2 * SECOND);
        fleet.until_bound(high).await.with_context(|| format!("restarted after {gap} ms"))?;
    }
    Ok(())
}

/// A preemptor that gives up holds nothing any more.
#[tokio::test(start_paused = true)]
async fn nothing_is_held_for_who_gave_up() -> anyhow::Result<()> {
    for what in ["suspended", "deleted"] {
        let mut fleet = Fleet::of(1, 1, 8).await?;
        // Its pods take their time to go, so that the preemptor waits.
        let slow = |deployment: &mut Value| {
            deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(30);
        };
        let low = app("low", 1, 6, 0);
        fleet.create_with(low, |_| {}, slow).await?;
        fleet.until_bound(low).await?;
        fleet.create(app("high", 1, 8, 10)).await?;
        while fleet.nominated("high").await? == 0 {
            fleet.world.pass(SECOND / 20).await?;
        }
        match what {
            "suspended" => {
                let suspend = json!({"spec": {"suspension": {"scheduling": true}}});
                fleet.bindings().patch("high-deployment", &PatchParams::default(), &Patch::Merge(suspend)).await?;
            }
            _ => fleet.delete("high").await?,
        }
        let small = app("small", 1, 2, 0);
        fleet.create(small).await?;
        let began = fleet.world.clock().mono();
        fleet.until_bound(small).await.with_context(|| format!("{what}: small"))?;
        fleet.until_bound(low).await.with_context(|| format!("{what}: the victim comes back"))?;
        let took = fleet.world.clock().mono() - began;
        ensure!(took < 120 * SECOND, "{what}: waited {took:?}");
        ensure!(fleet.nominated("high").await? == 0, "{what}: still nominated");
    }
    Ok(())
}

fn only_member1(policy: &mut Value) {
    policy["spec"]["placement"]["clusterAffinity"] = json!({"clusterNames": ["member1"]});
}

/// Finding F1 of failover: what fits elsewhere moves directly, and the rest stays until it fits.
#[tokio::test(start_paused = true)]
async fn a_divided_workload_moves_as_far_as_it_fits_elsewhere() -> anyhow::Result<()> {
    for effect in ["PreferNoExecute", "NoExecute"] {
        let mut fleet = Fleet::failing_over(3, 10).await?;
        fleet.reshape("member2", 4).await?;
        fleet.reshape("member3", 2).await?;
        let whole = app("whole", 10, 1, 0);
        fleet.create_with(whole, only_member1, |_| {}).await?;
        fleet.until_bound(whole).await?;
        fleet.open("whole").await?;
        fleet.world.pass(60 * SECOND).await?;
        fleet.taint("member1", effect).await?;
        let mut by_cluster = [10, 0, 0];
        // PreferNoExecute is tolerated for five minutes.
        for second in 0..450 {
            fleet.world.pass(SECOND).await?;
            for (runs, member) in by_cluster.iter_mut().zip(["member1", "member2", "member3"]) {
                *runs = fleet.bound(member, "whole").await?.len();
            }
            ensure!(by_cluster[0] >= 4, "{effect}: {} pods are left after {second} s", by_cluster[0]);
        }
        ensure!(by_cluster == [4, 4, 2], "{effect}: {by_cluster:?}");
        let binding = fleet.binding("whole").await?.context("whole")?;
        let scheduled = binding.status.iter().flat_map(|status| &status.conditions).find(|c| c.type_ == "Scheduled");
        let message = scheduled.map_or("", |condition| &condition.message);
        ensure!(message.contains("stay until others have room: 4 in member1"), "{effect}: {message}");
        fleet.reshape("member3", 5).await?;
        fleet.world.pass(60 * SECOND).await?;
        let runs = (fleet.bound("member1", "whole").await?.len(), fleet.bound("member3", "whole").await?.len());
        ensure!(runs == (1, 5), "{effect}: {runs:?} once there is room for three more");
        fleet.reshape("member3", 8).await?;
        for _ in 0..300 {
            fleet.world.pass(SECOND).await?;
            if fleet.bound("member1", "whole").await?.is_empty() {
                break;
            }
        }
        let (second, third) =
            (fleet.bound("member2", "whole").await?.len(), fleet.bound("member3", "whole").await?.len());
        ensure!(second + third == 10, "{effect}: {second} and {third} of 10 once there is room");
    }
    Ok(())
}

/// Finding F1 of failover: a cluster to which nothing is dispatched is no other place for a copy.
#[tokio::test(start_paused = true)]
async fn the_last_copy_stays_while_nothing_is_dispatched_to_the_only_target() -> anyhow::Result<()> {
    let mut fleet = Fleet::failing_over(2, 10).await?;
    let held = App { duplicated: false, ..app("held", 2, 1, 0) };
    fleet.create_with(held, only_member1, |_| {}).await?;
    fleet.until_bound(held).await?;
    let suspend = json!({"spec": {"suspension": {"dispatchingOnClusters": {"clusterNames": ["member2"]}}}});
    let policies: Api<PropagationPolicy> = Api::namespaced(fleet.user.clone(), "default");
    policies.patch("held", &PatchParams::default(), &Patch::Merge(suspend)).await?;
    fleet.open("held").await?;
    fleet.world.pass(30 * SECOND).await?;
    fleet.taint("member1", "NoExecute").await?;
    for _ in 0..300 {
        fleet.world.pass(SECOND).await?;
        ensure!(fleet.bound("member1", "held").await?.len() == 2, "the copy has gone");
    }
    Ok(())
}

/// Finding F2 of failover: with purge mode Directly the new copy starts when the old one is gone, also while a
/// finalizer keeps it.
#[tokio::test(start_paused = true)]
async fn a_finalizer_in_the_member_delays_the_new_copy() -> anyhow::Result<()> {
    let mut fleet = Fleet::failing_over(2, 10).await?;
    let kept = app("kept", 1, 1, 0);
    fleet.create_with(kept, only_member1, |_| {}).await?;
    fleet.until_bound(kept).await?;
    let copies: Api<Deployment> = Api::namespaced(fleet.world.member("member1")?.client(), "default");
    let finalizers = |all: Value| Patch::Merge(json!({"metadata": {"finalizers": all}}));
    copies.patch("kept", &PatchParams::default(), &finalizers(json!(["example.com/keep"]))).await?;
    fleet.open("kept").await?;
    fleet.world.pass(30 * SECOND).await?;
    fleet.taint("member1", "NoExecute").await?;
    for _ in 0..120 {
        fleet.world.pass(SECOND).await?;
        ensure!(copies.get_opt("kept").await?.is_some(), "the finalizer keeps it");
        ensure!(fleet.bound("member2", "kept").await?.is_empty(), "both copies are there");
    }
    ensure!(copies.get("kept").await?.metadata.deletion_timestamp.is_some(), "it is being deleted");
    copies.patch("kept", &PatchParams::default(), &finalizers(json!([]))).await?;
    for _ in 0..60 {
        fleet.world.pass(SECOND).await?;
        if fleet.bound("member2", "kept").await?.len() == 1 {
            return Ok(());
        }
    }
    anyhow::bail!("the new copy does not start")
}

/// With purge mode Directly nothing runs between the end of the old copy and the start of the new one, so it starts as
/// soon as the end is known.
#[tokio::test(start_paused = true)]
async fn a_copy_that_was_purged_directly_is_replaced_at_once() -> anyhow::Result<()> {
    let mut fleet = Fleet::failing_over(2, 10).await?;
    let moved = app("moved", 1, 1, 0);
    fleet.create_with(moved, only_member1, |_| {}).await?;
    fleet.until_bound(moved).await?;
    fleet.open("moved").await?;
    fleet.world.pass(30 * SECOND).await?;
    fleet.taint("member1", "NoExecute").await?;
    let copies = |fleet: &Fleet, member: &str| -> anyhow::Result<Api<Deployment>> {
        Ok(Api::namespaced(fleet.world.member(member)?.client(), "default"))
    };
    let (old, new) = (copies(&fleet, "member1")?, copies(&fleet, "member2")?);
    let mut without = Duration::ZERO;
    for _ in 0..600 {
        fleet.world.pass(SECOND / 10).await?;
        match (old.get_opt("moved").await?.is_some(), new.get_opt("moved").await?.is_some()) {
            (false, true) => {
                ensure!(without <= SECOND, "no copy for {without:?}");
                return Ok(());
            }
            (false, false) => without += SECOND / 10,
            (true, is_new) => ensure!(!is_new, "both copies are there"),
        }
    }
    anyhow::bail!("it does not move")
}

/// A host port is nothing that the account counts: the preemptor is placed, and its pod finds no node.
#[tokio::test(start_paused = true)]
async fn a_preemptor_without_node_says_what_the_member_said() -> anyhow::Result<()> {
    let mut fleet = Fleet::of(1, 1, 8).await?;
    fleet.run(app("low", 1, 6, 0)).await?;
    let ports = json!([{"containerPort": 80, "hostPort": 8080}]);
    let pods: Api<Pod> = Api::namespaced(fleet.world.member("member1")?.client(), "default");
    let in_the_way = json!({
        "metadata": {"name": "in-the-way"},
        "spec": {"containers": [{"name": "web", "image": "web", "ports": ports.clone()}]},
    });
    pods.create(&PostParams::default(), &serde_json::from_value(in_the_way)?).await?;
    fleet.world.pass(10 * SECOND).await?;
    let high = app("high", 1, 6, 10);
    let with_port = |deployment: &mut Value| {
        deployment["spec"]["template"]["spec"]["containers"][0]["ports"] = ports;
    };
    fleet.create_with(high, |_| {}, with_port).await?;
    let mut said = None;
    for _ in 0..60 {
        fleet.world.pass(SECOND).await?;
        said = fleet.without_node("high").await?;
        if said.is_some() {
            break;
        }
    }
    let said = said.context("no condition")?;
    let want = "member1: 1 pod has no node: 0/1 nodes are available: 1 node(s) didn't have free ports";
    ensure!(said.starts_with(want), "{said}");
    ensure!(fleet.placed("high").await? == 1 && fleet.bound("member1", "high").await?.is_empty());
    fleet.world.pass(60 * SECOND).await?;
    ensure!(fleet.without_node("low").await?.is_none(), "low waits in the control plane");
    let events: Api<k8s_openapi::api::core::v1::Event> = Api::namespaced(fleet.user.clone(), "default");
    let events = events.list(&ListParams::default()).await?.items;
    let told: BTreeSet<(String, String)> = events
        .into_iter()
        .filter(|event| event.reason.as_deref() == Some(PODS_UNSCHEDULABLE))
        .filter_map(|event| Some((event.involved_object.kind?, event.message?)))
        .collect();
    let about = |kind: &str| (kind.to_owned(), said.clone());
    ensure!(told == [about("Deployment"), about("ResourceBinding")].into(), "{told:?}");
    pods.delete("in-the-way", &DeleteParams::default()).await?;
    fleet.until_bound(high).await?;
    fleet.world.pass(10 * SECOND).await?;
    ensure!(fleet.without_node("high").await?.is_none(), "it has a node");
    Ok(())
}

/// Tasks of preempted workloads are named so.
#[tokio::test(start_paused = true)]
async fn a_preemption_is_recorded_on_the_victim() -> anyhow::Result<()> {
    let mut fleet = Fleet::of(1, 1, 8).await?;
    fleet.run(app("low", 1, 8, 0)).await?;
    fleet.create(app("high", 1, 8, 10)).await?;
    for _ in 0..100 {
        let low = fleet.binding("low").await?.context("low")?;
        if low.spec.graceful_eviction_tasks.iter().any(|task| task.reason == BINDING_PREEMPTED) {
            return Ok(());
        }
        fleet.world.pass(SECOND / 10).await?;
    }
    anyhow::bail!("nobody was preempted")
}
