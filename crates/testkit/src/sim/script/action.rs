//! Actions of a script: faults, and changes that users make.

use std::{fmt, time::Duration};

use ironclad_api::{
    Taint, Time,
    cluster::Cluster,
    labels,
    policy::{ClusterTaintPolicy, FederatedResourceQuota, OverridePolicy, PropagationPolicy},
    taints::{NO_SCHEDULE, UNSCHEDULABLE},
    work::ResourceBinding,
};
use ironclad_cli::drain::{self, Options, Stuck, command::whole};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use ironclad_simcluster::{Faults, Flap};
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap, scheduling::v1::PriorityClass};
use kube::{
    Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{App, Class, Failover, TaintPolicy, varied};
use crate::sim::{Cut, Fault, World, model::Model};

/// Attempts of a user's edit in case of conflicts.
const EDITS: usize = 20;

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Down(Vec<usize>),
    /// Removes all faults of these members.
    Up(Vec<usize>),
    /// A member answers with a delay.
    Slow(usize, Duration),
    /// A member is alternately up and down.
    Flap(usize, Duration, Duration),
    /// These members are unreachable and keep running.
    Partition(Vec<usize>),
    /// Fault at a later write of a process, after this many others.
    WriteFault(usize, u64, Fault),
    /// This many writes in a row are answered with 409.
    Conflicts(usize, u64),
    /// Fault at a write to a member.
    MemberFault(usize, u64, Fault),
    /// The watches of a process are frozen for this time.
    Freeze(usize, Duration),
    CutWatches(usize, Cut),
    /// A process sends nothing for this time, and then its former decisions.
    Stall(usize, Duration),
    Crash(usize, Duration),
    /// A process's time of day jumps.
    Skew(usize, i64),
    Taint(usize, &'static str),
    Untaint(usize, &'static str),
    /// A user changes how a workload's policy reacts to failures.
    Failover(usize, Failover),
    Scale(usize, i32),
    Recreate(usize),
    EditPolicy(TaintPolicy),
    DropPolicy,
    Tolerate(usize, Option<i64>),
    Drain(usize),
    Unjoin(usize),
    Join,
    /// A user deletes a workload's policy; the workload stays.
    DropPropagation(usize),
    /// Somebody suspends the scheduling of a workload's binding.
    SuspendScheduling(usize),
    /// A user suspends dispatching in a workload's policy.
    SuspendDispatching(usize),
    /// A person drains a member by force, and does not wait for the end of it.
    Evacuate(usize),
    /// A person ends the drain of a member and uncordons it.
    Uncordon(usize),
    /// A person unjoins a member as soon as the command says that nothing is lost by that.
    UnjoinEmpty(usize),
    /// A user creates a workload and its policy.
    Create(usize),
    /// A user deletes a workload and its policy.
    Remove(usize),
    /// A user changes the class that a workload's policy names.
    Prioritize(usize, Option<&'static str>),
    /// A PriorityClass is deleted and created anew.
    ReplaceClass(&'static str, Class),
    DropClass(&'static str),
    /// The quota of all workloads becomes this many millicores, or is deleted.
    Quota(Option<i64>),
    /// Users of a member start a Job of two pods that request this many millicores each and run for this time.
    Job(usize, i64, Duration),
    /// The namespace of a member may have this many pods, or any number.
    MemberQuota(usize, Option<i64>),
    /// A member has this many nodes.
    Nodes(usize, u32),
    /// A user of a member (the second) scales the copy of a workload there.
    ScaleCopy(usize, usize, i32),
}

pub const HAND_KEY: &str = "hand";

impl Action {
    /// Time for which it disturbs processes; `None` if it does not.
    fn disturbs(&self) -> Option<Duration> {
        match self {
            // The time of the write with the fault is unknown.
            Self::WriteFault(..) | Self::Conflicts(..) | Self::MemberFault(..) => Some(Duration::MAX),
            // A wrong clock stays wrong.
            Self::Skew(..) => Some(Duration::MAX),
            Self::Freeze(_, time) | Self::Stall(_, time) | Self::Crash(_, time) => Some(*time),
            Self::CutWatches(..) => Some(Duration::ZERO),
            _ => None,
        }
    }

    pub(super) async fn take(&self, world: &mut World, apps: &mut [App]) -> anyhow::Result<()> {
        world.history.log(format!("ACTION {self}"));
        let now = world.clock().mono();
        if let Some(time) = self.disturbs() {
            world.model.with_checker(|checker, at| checker.disturbed(at.saturating_add(time)));
        }
        match self {
            Self::Down(members) => set(world, members, &Faults { down: true, ..Faults::default() }),
            Self::Up(members) => set(world, members, &Faults::default()),
            Self::Slow(member, time) => set(world, &[*member], &Faults { slow: Some(*time), ..Faults::default() }),
            Self::Flap(member, up, down) => {
                let flap = Some(Flap { up: *up, down: *down });
                set(world, &[*member], &Faults { flap, ..Faults::default() });
            }
            Self::Partition(members) => set(world, members, &Faults { partition: true, ..Faults::default() }),
            Self::WriteFault(process, number, fault) => world.faults_of(*process).on_coming_write(*number, *fault),
            Self::Conflicts(process, count) => {
                for number in 1..=*count {
                    world.faults_of(*process).on_coming_write(number, Fault::Conflict);
                }
            }
            Self::MemberFault(process, number, fault) => {
                world.member_faults_of(*process).on_coming_write(*number, *fault);
            }
            Self::Freeze(process, time) => world.faults_of(*process).freeze_watches(now + *time),
            Self::CutWatches(process, cut) => world.faults_of(*process).cut_watches(*cut),
            Self::Stall(process, time) => world.faults_of(*process).stall(now + *time),
            Self::Crash(process, back_after) => world.crash(*process, *back_after),
            Self::Skew(process, ms) => world.skew(*process, *ms),
            Self::Taint(member, effect) => {
                taint(&world.user(), &name(*member), HAND_KEY, effect, world.clock().wall_seconds()).await?
            }
            Self::Untaint(member, effect) => untaint(&world.user(), &name(*member), HAND_KEY, effect).await?,
            Self::Failover(app, failover) => {
                let Some(app) = apps.get_mut(*app) else { return Ok(()) };
                app.failover = failover.clone();
                edit_policy(world, app, json!({"spec": {"failover": failover.to_json()}})).await?;
            }
            Self::Scale(app, replicas) => {
                let Some(app) = apps.get_mut(*app) else { return Ok(()) };
                app.replicas = *replicas;
                if !app.exists {
                    return Ok(());
                }
                let deployments: Api<Deployment> = Api::namespaced(world.user(), "default");
                let patch = json!({"spec": {"replicas": replicas}});
                deployments.patch(&app.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
            }
            Self::Recreate(app) => {
                let Some(app) = apps.get(*app) else { return Ok(()) };
                let deployments: Api<Deployment> = Api::namespaced(world.user(), "default");
                deployments.delete(&app.name, &DeleteParams::background()).await?;
                let clock = world.clock().clone();
                // A finalizer may delay its deletion.
                for _ in 0..EDITS {
                    if deployments.create(&PostParams::default(), &app.deployment()?).await.is_ok() {
                        return Ok(());
                    }
                    clock.sleep(Duration::from_millis(200)).await;
                }
                anyhow::bail!("{} can't be made again", app.name);
            }
            Self::EditPolicy(policy) => {
                let policies: Api<ClusterTaintPolicy> = Api::all(world.user());
                let object = policy.object()?;
                let name = object.metadata.name.clone().unwrap_or_default();
                world.model.with_checker(|checker, at| checker.policy_edited(at));
                let patch = json!({"spec": object.spec});
                if policies.get_opt(&name).await?.is_some() {
                    policies.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
                } else {
                    policies.create(&PostParams::default(), &object).await?;
                }
            }
            Self::DropPolicy => {
                let policies: Api<ClusterTaintPolicy> = Api::all(world.user());
                world.model.with_checker(|checker, at| checker.policy_edited(at));
                for policy in policies.list(&ListParams::default()).await? {
                    let name = policy.metadata.name.unwrap_or_default();
                    policies.delete(&name, &DeleteParams::default()).await?;
                }
            }
            Self::Tolerate(app, seconds) => {
                let Some(app) = apps.get_mut(*app) else { return Ok(()) };
                app.tolerates = *seconds;
                let tolerations = app.placement()["clusterTolerations"].clone();
                edit_policy(world, app, json!({"spec": {"placement": {"clusterTolerations": tolerations}}})).await?;
            }
            Self::DropPropagation(app) => {
                let Some(app) = apps.get(*app) else { return Ok(()) };
                let policies: Api<PropagationPolicy> = Api::namespaced(world.user(), "default");
                policies.delete(&app.name, &DeleteParams::default()).await?;
            }
            Self::SuspendScheduling(app) => {
                let Some(app) = apps.get(*app) else { return Ok(()) };
                suspend_scheduling(world, app, Some(true)).await?;
            }
            Self::SuspendDispatching(app) => {
                let Some(app) = apps.get(*app) else { return Ok(()) };
                edit_policy(world, app, json!({"spec": {"suspension": {"dispatching": true}}})).await?;
            }
            Self::Uncordon(member) => {
                let (plane, name) = (world.user(), name(*member));
                if Api::<Cluster>::all(plane.clone()).get_opt(&name).await?.is_some() {
                    drain::abort(&plane, &name.as_str().into()).await?;
                    untaint(&plane, &name, UNSCHEDULABLE, NO_SCHEDULE).await?;
                }
            }
            Self::UnjoinEmpty(member) => {
                let (plane, clock, name) = (world.user(), world.clock().clone(), name(*member));
                let (model, history) = (world.model.clone(), world.history.clone());
                world.spawn("unjoin", async move {
                    if let Err(error) = unjoin_once_empty(&plane, &clock, &model, &name).await {
                        history.log(format!("the unjoin of {name} ends: {error:#}"));
                    }
                });
            }
            Self::Drain(member) | Self::Evacuate(member) => {
                let stuck = if matches!(self, Self::Drain(_)) { Stuck::Skip } else { Stuck::Force };
                let wanted = Options { rate: 2.0, stuck, ..Options::new(&name(*member)) };
                let (plane, clock, history) = (world.user(), world.clock().clone(), world.history.clone());
                world.spawn("drain", async move {
                    let drained = whole(&plane, &clock, &wanted, false, Duration::ZERO, |_| {}).await;
                    // A drain may end incomplete or be stopped.
                    history.log(match drained {
                        Ok(progress) => format!("the drain of {} is through: {progress}", wanted.cluster),
                        Err(error) => format!("the drain of {} ends: {error}", wanted.cluster),
                    });
                });
            }
            Self::Unjoin(member) => {
                let clusters: Api<Cluster> = Api::all(world.user());
                if clusters.get_opt(&name(*member)).await?.is_some() {
                    clusters.delete(&name(*member), &DeleteParams::default()).await?;
                }
            }
            Self::Join => join_all(world).await?,
            Self::Create(app) => {
                let Some(app) = apps.get_mut(*app).filter(|app| !app.exists) else { return Ok(()) };
                app.exists = true;
                create(world, app).await?;
            }
            Self::Remove(app) => {
                let Some(app) = apps.get_mut(*app).filter(|app| app.exists) else { return Ok(()) };
                app.exists = false;
                let deployments: Api<Deployment> = Api::namespaced(world.user(), "default");
                deployments.delete(&app.name, &DeleteParams::background()).await?;
                let policies: Api<PropagationPolicy> = Api::namespaced(world.user(), "default");
                policies.delete(&app.name, &DeleteParams::default()).await?;
            }
            Self::Prioritize(app, class) => {
                let Some(app) = apps.get_mut(*app) else { return Ok(()) };
                app.class = *class;
                world.model.with_checker(|checker, at| checker.class_named(at, app.binding(), *class));
                if app.exists {
                    edit_policy(world, app, json!({"spec": {"schedulePriority": app.schedule_priority()}})).await?;
                }
            }
            Self::ReplaceClass(name, class) => {
                drop_class(world, name).await?;
                create_class(world, name, *class).await?;
            }
            Self::DropClass(name) => drop_class(world, name).await?,
            Self::Quota(cpu) => set_quota(world, *cpu).await?,
            Self::Job(member, cpu, time) => varied::run_job(world, *member, *cpu, *time).await?,
            Self::MemberQuota(member, pods) => {
                world.model.with_checker(|checker, _| checker.members_limited());
                varied::limit(world, *member, *pods).await?;
            }
            Self::Nodes(member, nodes) => varied::resize(world, *member, *nodes)?,
            Self::ScaleCopy(app, member, replicas) => {
                let Some(app) = apps.get(*app).filter(|app| app.exists) else { return Ok(()) };
                varied::scale_copy(world, &app.name, *member, *replicas).await?;
            }
        }
        Ok(())
    }
}

/// Name of the FederatedResourceQuota.
const QUOTA: &str = "all";

/// Sets or deletes the quota of all workloads.
pub(super) async fn set_quota(world: &World, cpu: Option<i64>) -> anyhow::Result<()> {
    let quotas: Api<FederatedResourceQuota> = Api::namespaced(world.user(), "default");
    world.model.with_checker(|checker, at| checker.quota_set(at, cpu));
    let exists = quotas.get_opt(QUOTA).await?.is_some();
    let Some(cpu) = cpu else {
        if exists {
            quotas.delete(QUOTA, &DeleteParams::default()).await?;
        }
        return Ok(());
    };
    let spec = json!({"overall": {"cpu": format!("{cpu}m")}});
    if exists {
        quotas.patch(QUOTA, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await?;
    } else {
        let quota = json!({"metadata": {"name": QUOTA}, "spec": spec});
        quotas.create(&PostParams::default(), &serde_json::from_value(quota)?).await?;
    }
    Ok(())
}

pub(super) async fn create_class(world: &World, name: &str, class: Class) -> anyhow::Result<()> {
    let classes: Api<PriorityClass> = Api::all(world.user());
    let policy = if class.never { "Never" } else { "PreemptLowerPriority" };
    let object = json!({"metadata": {"name": name}, "value": class.value, "preemptionPolicy": policy});
    world.model.with_checker(|checker, at| checker.class_set(at, name, Some(class)));
    classes.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}

async fn drop_class(world: &World, name: &str) -> anyhow::Result<()> {
    let classes: Api<PriorityClass> = Api::all(world.user());
    if classes.get_opt(name).await?.is_some() {
        world.model.with_checker(|checker, at| checker.class_set(at, name, None));
        classes.delete(name, &DeleteParams::default()).await?;
    }
    Ok(())
}

/// Creates a workload, its policy, and what it mounts.
pub(super) async fn create(world: &World, app: &App) -> anyhow::Result<()> {
    let user = world.user();
    if app.depends {
        let configs: Api<ConfigMap> = Api::namespaced(user.clone(), "default");
        let config = json!({"metadata": {"name": app.config()}, "data": {"key": "value"}});
        configs.create(&PostParams::default(), &serde_json::from_value(config)?).await?;
    }
    if let Some((member, replicas)) = app.overridden {
        let overrides: Api<OverridePolicy> = Api::namespaced(user.clone(), "default");
        let policy = json!({
            "metadata": {"name": app.name},
            "spec": {
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": app.name}],
                "overrideRules": [{
                    "targetCluster": {"clusterNames": [name(member)]},
                    "overriders": {"plaintext": [
                        {"path": "/spec/replicas", "operator": "replace", "value": replicas},
                    ]},
                }],
            },
        });
        overrides.create(&PostParams::default(), &serde_json::from_value(policy)?).await?;
    }
    world.model.with_checker(|checker, at| checker.class_named(at, app.binding(), app.class));
    let deployments: Api<Deployment> = Api::namespaced(user.clone(), "default");
    deployments.create(&PostParams::default(), &app.deployment()?).await?;
    let policies: Api<PropagationPolicy> = Api::namespaced(user, "default");
    policies.create(&PostParams::default(), &app.policy()?).await?;
    Ok(())
}

/// Asks five times a second for twelve seconds whether the unjoin loses anything, and deletes the Cluster once it does
/// not.
async fn unjoin_once_empty(plane: &Client, clock: &Clock, model: &Model, name: &str) -> anyhow::Result<()> {
    let clusters: Api<Cluster> = Api::all(plane.clone());
    for _ in 0..60 {
        if clusters.get_opt(name).await?.is_none() {
            return Ok(());
        }
        if !ironclad_cli::unjoin::impact(plane, name).await?.is_targeted() {
            model.with_checker(|checker, _| checker.nothing_to_lose(name.into()));
            clusters.delete(name, &DeleteParams::default()).await?;
            return Ok(());
        }
        clock.sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// Changes a workload's policy, if somebody did not delete it.
async fn edit_policy(world: &World, app: &App, patch: Value) -> anyhow::Result<()> {
    let policies: Api<PropagationPolicy> = Api::namespaced(world.user(), "default");
    match policies.patch(&app.name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

async fn suspend_scheduling(world: &World, app: &App, suspended: Option<bool>) -> anyhow::Result<()> {
    let bindings: Api<ResourceBinding> = Api::namespaced(world.user(), "default");
    let patch = json!({"spec": {"suspension": {"scheduling": suspended}}});
    let name = format!("{}-deployment", app.name);
    match bindings.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

/// Undoes what users did to the propagation of workloads: policies that were deleted come back, and nothing is
/// suspended.
pub(super) async fn propagate_again(world: &World, apps: &[App]) -> anyhow::Result<()> {
    let policies: Api<PropagationPolicy> = Api::namespaced(world.user(), "default");
    for app in apps.iter().filter(|app| app.exists) {
        if policies.get_opt(&app.name).await?.is_none() {
            policies.create(&PostParams::default(), &app.policy()?).await?;
        }
        edit_policy(world, app, json!({"spec": {"suspension": null}})).await?;
        suspend_scheduling(world, app, None).await?;
    }
    Ok(())
}

/// Joins every member whose Cluster is not there.
pub(super) async fn join_all(world: &World) -> anyhow::Result<()> {
    let clusters: Api<Cluster> = Api::all(world.user());
    for name in world.members.keys() {
        if clusters.get_opt(name).await?.is_none() {
            // A user deletes the objects that an unreachable member kept when its Cluster was deleted.
            let member = world.member(name)?.client();
            delete_managed(&Api::<Deployment>::namespaced(member.clone(), "default")).await?;
            delete_managed(&Api::<ConfigMap>::namespaced(member, "default")).await?;
            world.join(name).await?;
        }
    }
    Ok(())
}

async fn delete_managed<K>(remnants: &Api<K>) -> anyhow::Result<()>
where
    K: ironclad_runtime::Object,
{
    let managed = ListParams::default().labels(&format!("{}=true", labels::MANAGED));
    for remnant in remnants.list(&managed).await? {
        let name = remnant.meta().name.as_deref().unwrap_or_default();
        remnants.delete(name, &DeleteParams::background()).await?;
    }
    Ok(())
}

/// Stops all drains and uncordons.
pub(super) async fn end_drains(world: &World) -> anyhow::Result<()> {
    let plane = world.user();
    for cluster in Api::<Cluster>::all(plane.clone()).list(&ListParams::default()).await? {
        let name = cluster.metadata.name.clone().unwrap_or_default();
        if drain::draining_since(&cluster).is_some() {
            drain::abort(&plane, &name.as_str().into()).await?;
        }
        untaint(&plane, &name, UNSCHEDULABLE, NO_SCHEDULE).await?;
    }
    Ok(())
}

/// Returns the name of a member by its index, from 0.
pub(super) fn name(member: usize) -> String {
    World::name_of(member)
}

fn set(world: &World, members: &[usize], faults: &Faults) {
    for member in members {
        if let Ok(member) = world.member(&name(*member)) {
            member.set_faults(faults.clone());
        }
    }
}

pub async fn taint(plane: &Client, cluster: &str, key: &str, effect: &str, now: Timestamp) -> anyhow::Result<()> {
    edit(plane, cluster, |taints| {
        if !taints.iter().any(|t| t.key == key && t.effect == effect) {
            let time_added = Some(Time(now));
            taints.push(Taint { key: key.into(), effect: effect.into(), value: None, time_added });
        }
    })
    .await
}

pub async fn untaint(plane: &Client, cluster: &str, key: &str, effect: &str) -> anyhow::Result<()> {
    edit(plane, cluster, |taints| taints.retain(|t| t.key != key || t.effect != effect)).await
}

async fn edit(plane: &Client, cluster: &str, change: impl Fn(&mut Vec<Taint>)) -> anyhow::Result<()> {
    let clusters: Api<Cluster> = Api::all(plane.clone());
    for _ in 0..EDITS {
        // It may have been unjoined.
        let Some(mut edited) = clusters.get_opt(cluster).await? else { return Ok(()) };
        let before = edited.spec.taints.clone();
        change(&mut edited.spec.taints);
        if edited.spec.taints == before {
            return Ok(());
        }
        match clusters.replace(cluster, &PostParams::default(), &edited).await {
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {}
            other => return Ok(other.map(drop)?),
        }
    }
    anyhow::bail!("the taints of {cluster} can't be edited: somebody else always is faster")
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |members: &[usize]| members.iter().map(|m| name(*m)).collect::<Vec<_>>().join(" ");
        match self {
            Self::Down(members) => write!(f, "down {}", all(members)),
            Self::Up(members) => write!(f, "up {}", all(members)),
            Self::Slow(member, time) => write!(f, "slow {} by {time:?}", name(*member)),
            Self::Flap(member, up, down) => write!(f, "flap {} up {up:?} down {down:?}", name(*member)),
            Self::Partition(members) => write!(f, "partition {}", all(members)),
            Self::WriteFault(process, number, fault) => write!(f, "{fault} at write +{number} of process {process}"),
            Self::Conflicts(process, count) => write!(f, "{count} conflicts of process {process}"),
            Self::MemberFault(process, number, fault) => {
                write!(f, "{fault} at write +{number} of process {process} to members")
            }
            Self::Freeze(process, time) => write!(f, "freeze the watches of process {process} for {time:?}"),
            Self::CutWatches(process, cut) => write!(f, "cut the watches of process {process}: {cut:?}"),
            Self::Stall(process, time) => write!(f, "stall process {process} for {time:?}"),
            Self::Crash(process, time) => write!(f, "crash process {process}, back after {time:?}"),
            Self::Skew(process, ms) => write!(f, "the clock of process {process} is off by {ms} ms"),
            Self::Taint(member, effect) => write!(f, "taint {} {HAND_KEY}:{effect}", name(*member)),
            Self::Untaint(member, effect) => write!(f, "untaint {} {HAND_KEY}:{effect}", name(*member)),
            Self::Failover(app, failover) => write!(f, "app{} gets failover {failover}", app + 1),
            Self::Scale(app, replicas) => write!(f, "scale app{} to {replicas}", app + 1),
            Self::Recreate(app) => write!(f, "delete app{} and make it again", app + 1),
            Self::EditPolicy(policy) => write!(f, "the policy becomes {policy}"),
            Self::DropPolicy => f.write_str("delete the policy"),
            Self::Tolerate(app, Some(seconds)) if *seconds >= 0 => {
                write!(f, "app{} tolerates for {seconds} s", app + 1)
            }
            Self::Tolerate(app, Some(_)) => write!(f, "app{} tolerates for ever", app + 1),
            Self::Tolerate(app, None) => write!(f, "app{} tolerates nothing", app + 1),
            Self::Drain(member) => write!(f, "drain {}", name(*member)),
            Self::Unjoin(member) => write!(f, "unjoin {}", name(*member)),
            Self::Join => f.write_str("join who is not joined"),
            Self::DropPropagation(app) => write!(f, "delete the policy of app{}", app + 1),
            Self::SuspendScheduling(app) => write!(f, "suspend the scheduling of app{}", app + 1),
            Self::SuspendDispatching(app) => write!(f, "suspend the dispatching of app{}", app + 1),
            Self::Evacuate(member) => write!(f, "drain {} by force", name(*member)),
            Self::Uncordon(member) => write!(f, "end the drain of {} and uncordon it", name(*member)),
            Self::UnjoinEmpty(member) => write!(f, "unjoin {} once nothing is lost by that", name(*member)),
            Self::Create(app) => write!(f, "create app{}", app + 1),
            Self::Remove(app) => write!(f, "delete app{} and its policy", app + 1),
            Self::Prioritize(app, Some(class)) => write!(f, "app{} gets class {class}", app + 1),
            Self::Prioritize(app, None) => write!(f, "app{} gets no class", app + 1),
            Self::ReplaceClass(name, class) => {
                let policy = if class.never { "Never" } else { "PreemptLowerPriority" };
                write!(f, "class {name} is made anew with {} and {policy}", class.value)
            }
            Self::DropClass(name) => write!(f, "delete class {name}"),
            Self::Quota(Some(cpu)) => write!(f, "the quota becomes {cpu}m"),
            Self::Quota(None) => f.write_str("delete the quota"),
            Self::Job(member, cpu, time) => write!(f, "a Job of 2 x {cpu}m in {} for {time:?}", name(*member)),
            Self::MemberQuota(member, Some(pods)) => write!(f, "{} allows {pods} pods", name(*member)),
            Self::MemberQuota(member, None) => write!(f, "{} allows any number of pods", name(*member)),
            Self::Nodes(member, nodes) => write!(f, "{} has {nodes} nodes", name(*member)),
            Self::ScaleCopy(app, member, replicas) => {
                write!(f, "the copy of app{} in {} is scaled to {replicas}", app + 1, name(*member))
            }
        }
    }
}
