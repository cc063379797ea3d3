//! The account of capacity of the first process, compared with a recount of what members run (invariant *account*).

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use ironclad_fleet::ClusterName;
use ironclad_scheduling::{
    Capacity,
    capacity::Asker,
    estimator::{Index, PodTemplate, Question, SetPart, Workload},
};
use serde_json::json;

use crate::sim::World;

/// Compares the account of each member with the nodes and pods that its process has in caches: what is observed is
/// counted as it would be from scratch. Returns promises of replicas beside pods of theirs, which must end at once.
pub(super) fn check_cached(world: &World) -> anyhow::Result<BTreeSet<String>> {
    let mut twice = BTreeSet::new();
    let Some(context) = world.context() else { return Ok(twice) };
    let (Some(capacity), fleet) = (context.capacity(), world.model.look(Clone::clone)) else { return Ok(twice) };
    for name in world.members.keys() {
        let cluster = ClusterName::from(name.as_str());
        let Some(observed) = context.observed(&cluster).filter(|_| capacity.is_by_node(&cluster)) else { continue };
        let recount = observed.recount();
        for (key, _, due) in capacity.promised_in(&cluster) {
            let Some(spec) = fleet.bindings.get(key).map(|binding| &binding.spec) else { continue };
            let result = spec.target(&cluster.0).map_or(0, |target| target.replicas);
            let task = spec.eviction(&cluster.0).and_then(|task| task.replicas).unwrap_or(0);
            let wanted = i64::from(result) + i64::from(task);
            let arrived = recount.arrived(Workload::from(&spec.resource));
            if due > (wanted - arrived).max(0) {
                twice.insert(format!("{due} replicas of {key} are promised in {name}, of {wanted} beside {arrived}"));
            }
        }
        // What waits for a node is placed in the order in which it came.
        let waits = observed.pods().list().iter().any(|pod| pod.observed().waiting.is_some());
        if waits || capacity.promised_in(&cluster).next().is_some() {
            continue;
        }
        same(&capacity, &recount, &cluster)?;
    }
    Ok(twice)
}

/// Checks that as much fits by the account of a cluster as by the recount.
fn same(capacity: &Capacity, recount: &Index, cluster: &ClusterName) -> anyhow::Result<()> {
    for cpu in ["0", "1", "3"] {
        let needs = serde_json::from_value(json!({"resourceRequest": {"cpu": cpu}}))?;
        let question = Question::replicas("default", Some(&needs));
        // No nomination is of a higher priority.
        let account = capacity.fits(cluster, &question, &Asker::unyielding());
        let want = recount.fits(&question);
        ensure!(
            account.is_none_or(|account| account == want),
            "invariant account: {cluster} has room for {want} pods of {cpu} cores, its account says {account:?}"
        );
    }
    Ok(())
}

/// Checks the account of each ready member. Nothing may be on its way: at rest.
pub(super) async fn check(world: &World) -> anyhow::Result<()> {
    let Some(capacity) = world.context().and_then(|context| context.capacity()) else { return Ok(()) };
    let fleet = world.observe().await?;
    for (name, member) in world.members.iter() {
        let cluster = ClusterName::from(name.as_str());
        if !fleet.clusters.get(&cluster).is_some_and(|cluster| cluster.is_ready()) || !capacity.is_by_node(&cluster) {
            continue;
        }
        let mut recount = ironclad_estimator::listed(&member.client()).await.with_context(|| name.clone())?;
        for (key, parts, due) in capacity.promised_in(&cluster) {
            let part = |part: &ironclad_scheduling::capacity::demand::Part| {
                let template = PodTemplate { request: part.request.clone(), ..PodTemplate::default() };
                SetPart { replicas: part.replicas, template }
            };
            let parts = parts.iter().map(part).collect();
            recount.expect(&key.to_string(), Workload::NONE, "", Some((parts, due)));
        }
        ensure!(capacity.is_known(&cluster), "invariant account: nothing is known of {name}");
        same(&capacity, &recount, &cluster)?;
    }
    Ok(())
}
