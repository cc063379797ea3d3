//! The account of capacity of the first process, compared with a recount of what members run (invariant *account*).

use anyhow::{Context as _, ensure};
use ironclad_fleet::ClusterName;
use ironclad_scheduling::{
    capacity::Asker,
    estimator::{PodTemplate, Question, SetPart, Workload},
};
use serde_json::json;

use crate::sim::World;

/// Checks the account of each ready member. Nothing may be on its way: at rest.
pub(super) async fn check(world: &World) -> anyhow::Result<()> {
    let Some(context) = world.context() else { return Ok(()) };
    let capacity = context.capacity();
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
        for cpu in ["0", "1", "3"] {
            let needs = serde_json::from_value(json!({"resourceRequest": {"cpu": cpu}}))?;
            let question = Question::replicas("default", Some(&needs));
            // No nomination is of a higher priority.
            let account = capacity.fits(&cluster, &question, &Asker::unyielding());
            let want = recount.fits(&question);
            ensure!(
                account == Some(want),
                "invariant account: {name} has room for {want} pods of {cpu} cores, its account says {account:?}"
            );
        }
    }
    Ok(())
}
