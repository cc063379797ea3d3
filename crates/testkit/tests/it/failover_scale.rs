//! Failover of a large fleet: 100 clusters with 20,000 bindings, of which 60 clusters are lost at
//! once and come back. The decisions are the real ones, run in virtual time by the planner; durations are printed, not
//! checked.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_api::{cluster::Cluster, work::ResourceBinding};
use ironclad_failover::{
    Evictions, Flags, Now,
    taint_manager::{Next, Outcome, Recovering},
};
use ironclad_fleet::{Binding, ClusterName, World};
use ironclad_planning::{FailoverPlan, Options, Script, plan_failover};
use ironclad_seam::Clock;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

const CLUSTERS: usize = 100;
const LOST: usize = 60;
const START: i64 = 1_790_000_000;

fn name(cluster: usize) -> ClusterName {
    format!("m{cluster:03}").as_str().into()
}

fn cluster(number: usize, taints: Value) -> anyhow::Result<Cluster> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name(number).to_string(), "uid": name(number).to_string(), "generation": 1,
            "finalizers": ["karmada.io/cluster-controller"]},
        "spec": {"syncMode": "Push", "taints": taints},
        "status": {
            "resourceSummary": {"allocatable": {"cpu": "1000", "memory": "1000Gi", "pods": "100000"}},
            "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        },
    }))?)
}

fn binding(number: usize) -> anyhow::Result<ResourceBinding> {
    let placement = json!({"clusterAffinity": {},
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    let (name, on) = (format!("w{number:05}"), name(number % CLUSTERS).to_string());
    Ok(serde_json::from_value(json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": name, "namespace": "shop", "uid": name, "generation": 1,
            "labels": {"propagationpolicy.karmada.io/permanent-id": "p"},
            "annotations": {"policy.karmada.io/applied-placement": placement.to_string()}},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name, "uid": name},
            "replicas": 1, "replicaRequirements": {}, "clusters": [{"name": on, "replicas": 1}], "placement": placement,
        },
        "status": {
            "schedulerObservedGeneration": 1,
            "aggregatedStatus": [{"clusterName": on, "applied": true, "health": "Healthy", "status": {"readyReplicas": 1}}],
            "conditions": [{"type": "Scheduled", "status": "True", "reason": "Success", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        },
    }))?)
}

fn fleet(bindings: usize) -> anyhow::Result<World> {
    let mut world = World::default();
    for number in 0..CLUSTERS {
        world.insert_cluster(cluster(number, json!([]))?);
    }
    for number in 0..bindings {
        world.insert_binding(binding(number)?);
    }
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterTaintPolicy",
        "metadata": {"name": "failing", "uid": "failing", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "targetCluster": {},
            "matchConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["False", "Unknown"]}],
            "taintsToAdd": [{"key": "failing", "effect": "NoExecute", "addOnMatchSeconds": 60, "removeOnMismatchSeconds": 30}],
        },
    });
    world.insert_taint_policy(serde_json::from_value(policy)?);
    Ok(world)
}

/// Plans the loss of sixty clusters at once, which recover after this time.
fn lose(bindings: usize, back: Duration, options: &Options) -> anyhow::Result<FailoverPlan> {
    let clock = Clock::system();
    let lost: Vec<ClusterName> = (0..LOST).map(name).collect();
    let world = fleet(bindings)?;
    let began = clock.mono();
    let found =
        plan_failover(&world, &Script::cluster_loss(&lost, Some(back)), options, Timestamp::from_second(START)?);
    println!(
        "{bindings} bindings: {} moves, {} abandoned, in {:?}",
        found.moves.len(),
        found.abandoned,
        clock.mono() - began
    );
    Ok(found)
}

/// Checks that no window has more evictions than the rate allows.
fn keeps(found: &FailoverPlan, rate: f64) -> anyhow::Result<()> {
    let times: Vec<f64> = found.moves.iter().map(|one| one.evicted.as_secs_f64()).collect();
    for (first, begin) in times.iter().enumerate() {
        // Bursts show in short windows; the longest window is the whole run.
        for last in (first + 1..times.len()).take(50).chain([times.len() - 1]).filter(|last| *last > first) {
            let most = ((times[last] - begin + 0.002) * rate).floor() + 1.0;
            let is = (last - first + 1) as f64;
            ensure!(is <= most, "{is} evictions from {begin} s to {} s, where {most} may be", times[last]);
        }
    }
    Ok(())
}

/// Checks common to all: no workload moves after the recovery, and none is left unplaced.
fn sound(found: &FailoverPlan, bindings: usize, back: Duration) -> anyhow::Result<()> {
    ensure!(!found.cut_off && !found.moves.is_empty());
    let last = found.moves.iter().map(|one| one.evicted).max().unwrap_or_default();
    // The debounce of 30 s starts with the first successful probe.
    let recovered = back + Duration::from_secs(30);
    ensure!(last <= recovered, "an eviction at {last:?}, and all are back at {recovered:?}");
    let affected = (0..bindings).filter(|number| number % CLUSTERS < LOST).count();
    ensure!(
        found.moves.len() as u64 + found.abandoned == affected as u64,
        "{} + {}",
        found.moves.len(),
        found.abandoned
    );
    ensure!(found.unschedulable() == 0);
    let abandoned = found.timeline.iter().filter(|line| line.what.starts_with("recovery cancels "));
    let at: Vec<Duration> = abandoned.map(|line| line.at).collect();
    let (first, last) = (at.first().context("nothing was abandoned")?, at.last().context("nothing was abandoned")?);
    ensure!(*last - *first <= Duration::from_secs(1), "abandoned between {first:?} and {last:?}");
    Ok(())
}

#[test]
fn sixty_of_a_hundred_clusters_with_twenty_thousand_bindings() -> anyhow::Result<()> {
    let mut options = Options::default();
    options.flags.eviction.resource_eviction_rate = 10.0;
    options.flags.eviction.secondary_resource_eviction_rate = 10.0;
    let back = Duration::from_secs(600);
    let found = lose(20_000, back, &options)?;
    keeps(&found, 10.0)?;
    sound(&found, 20_000, back)?;
    ensure!(found.moves.len() > 3_000, "only {} moves", found.moves.len());
    Ok(())
}

#[test]
fn sixty_of_a_hundred_clusters_at_default_rates() -> anyhow::Result<()> {
    let back = Duration::from_secs(600);
    let found = lose(200, back, &Options::default())?;
    // 60 of 100 is more than 0.55: one every ten seconds.
    keeps(&found, 0.1)?;
    sound(&found, 200, back)?;
    ensure!(found.peak_rate == 0.1 && found.moves.len() > 30, "{} moves at {}", found.moves.len(), found.peak_rate);
    Ok(())
}

fn resident() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).context("no figure")?.parse()?)
}

#[test]
fn the_queue_of_twelve_thousand_is_small_and_no_event_costs_more_in_it() -> anyhow::Result<()> {
    let clock = Clock::system();
    let mut flags = Flags::default();
    flags.eviction.resource_eviction_rate = 1e6;
    flags.eviction.secondary_resource_eviction_rate = 1e6;
    let born = Timestamp::from_second(START)?;
    let at = |seconds: u64| -> anyhow::Result<Now> {
        Ok(Now { wall: born + SignedDuration::from_secs(seconds.try_into()?), mono: Duration::from_secs(seconds) })
    };
    for bindings in [2_000usize, 20_000] {
        let taint = json!([{"key": "k", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}]);
        let mut clusters = BTreeMap::new();
        for number in 0..CLUSTERS {
            let taints = if number < LOST { taint.clone() } else { json!([]) };
            clusters.insert(name(number), Arc::new(cluster(number, taints)?));
        }
        let bound: Vec<(ClusterName, Binding)> = (0..bindings)
            .map(|number| Ok((name(number % CLUSTERS), Binding::Namespaced(Arc::new(binding(number)?)))))
            .collect::<anyhow::Result<_>>()?;
        let by_key: BTreeMap<_, _> = bound.iter().map(|(_, bound)| (bound.key(), bound.clone())).collect();
        let before = resident()?;
        let mut evictions = Evictions::new(flags.clone(), at(0)?);
        for (name, cluster) in &clusters {
            evictions.cluster(name, Some(cluster), Recovering::No, at(1)?);
        }
        let affected: Vec<_> = bound.iter().filter(|(on, _)| evictions.episodes().contains_key(on)).cloned().collect();
        let began = clock.mono();
        evictions.evaluate(affected.clone(), at(1)?);
        let filled = clock.mono() - began;
        let memory = resident()?.saturating_sub(before);
        ensure!(evictions.queue().len() == affected.len() && affected.len() == bindings * LOST / CLUSTERS);
        ensure!(memory < 50 * 1024, "{bindings} bindings: the queue takes {memory} KiB");
        // Events and scheduling while everything waits.
        let began = clock.mono();
        for (_, bound) in affected.iter().take(1_000) {
            evictions.binding(&bound.key(), Some(bound), at(2)?);
        }
        let events = clock.mono() - began;
        let began = clock.mono();
        let mut moved = 0;
        for turn in 0..1_000u64 {
            match evictions.next(&clusters, |key| by_key.get(key).cloned(), at(100 + turn)?) {
                Next::Evict(eviction) => {
                    moved += 1;
                    evictions.done(&eviction, &Outcome::Written, at(100 + turn)?);
                }
                Next::Again | Next::Wait(_) => {}
            }
        }
        let turns = clock.mono() - began;
        ensure!(moved > 900, "only {moved} of 1000 turns moved somebody");
        let began = clock.mono();
        for number in 0..LOST {
            evictions.cluster(&name(number), Some(&cluster(number, json!([]))?), Recovering::No, at(2_000)?);
        }
        ensure!(evictions.queue().is_empty(), "recovery leaves nothing waiting");
        println!(
            "{} wait: filled in {filled:?}, {memory} KiB; 1000 events {events:?}, 1000 turns {turns:?}, all abandoned {:?}",
            affected.len(),
            clock.mono() - began
        );
    }
    Ok(())
}
