//! Nodes and pods of members, for verbs that foresee what fits by the leader's accounts of clusters
//! (specification/scheduling.md 10.6).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use ironclad_api::cluster::Cluster;
use ironclad_fleet::ClusterName;
use ironclad_planning::Fleet;
use ironclad_scheduling::estimator::Index;
use ironclad_seam::Clock;
use kube::{Client, config::Kubeconfig};

use crate::{
    members::{self, Member},
    report,
};

/// Time within which a member lists its nodes and pods.
const PATIENCE: Duration = Duration::from_secs(10);

/// Nodes and pods of the members that were asked so far.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// By cluster.
    pub(crate) nodes: BTreeMap<ClusterName, Arc<Index>>,
    /// The members that did not answer, each with the reason.
    pub(crate) unknown: BTreeMap<ClusterName, String>,
}

impl Asked {
    /// Asks those of these clusters that were not asked before, with the rights that the user has in them, at most 50
    /// at a time. Returns true if there were any.
    pub(crate) async fn ask(
        &mut self,
        fleet: &Fleet,
        clusters: &BTreeSet<ClusterName>,
        plane: &Client,
        kubeconfig: Option<&Kubeconfig>,
        clock: &Clock,
    ) -> bool {
        let is_new = |name: &&ClusterName| !self.nodes.contains_key(*name) && !self.unknown.contains_key(*name);
        let new = clusters.iter().filter(is_new).filter_map(|name| fleet.world.clusters.get(name));
        let new: Vec<Cluster> = new.map(|cluster| Cluster::clone(cluster)).collect();
        if new.is_empty() {
            return false;
        }
        self.ask_members(&members::connect(plane, kubeconfig, members::Way::default(), &new).await, clock).await;
        true
    }

    async fn ask_members(&mut self, members: &[Member], clock: &Clock) {
        // Boxed, since the compiler can't prove that a stream of closures' futures is `Send`.
        let asked: Vec<BoxFuture<'_, _>> = members.iter().map(|member| listed(member, clock).boxed()).collect();
        let answers: Vec<_> = stream::iter(asked).buffered(members::ASKED_MAX).collect().await;
        for (member, answer) in members.iter().zip(answers) {
            let name = ClusterName::from(member.name.as_str());
            match answer {
                Ok(index) => drop(self.nodes.insert(name, Arc::new(index))),
                Err(why) => drop(self.unknown.insert(name, why)),
            }
        }
    }
}

async fn listed(member: &Member, clock: &Clock) -> Result<Index, String> {
    let client = member.client()?;
    let listed = members::within(clock, PATIENCE, ironclad_estimator::listed(&client)).await?;
    listed.map_err(|error| report::answer(&error))
}

/// Says that the nodes of a cluster could not be asked, for this reason.
pub(crate) fn unknown(cluster: &ClusterName, why: &str) -> String {
    format!("what fits into {cluster} is by its summary, as its nodes are not known here: {why}")
}

#[cfg(test)]
mod tests {
    use ironclad_apiserver::{Identity, Options, Server};
    use ironclad_runtime::{Api, in_process_client};
    use ironclad_scheduling::estimator::Question;
    use ironclad_seam::{Rng, Seam, Tasks};
    use ironclad_store::{Commit, Engine, MemoryBackend};
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::Node;
    use kube::api::{Patch, PatchParams, PostParams};
    use serde_json::json;

    use super::*;
    use crate::members::Access;

    #[tokio::test(start_paused = true)]
    async fn members_list_their_nodes_and_the_silent_ones_are_named() {
        let clock = Clock::simulated(Timestamp::from_second(1_767_225_600).unwrap());
        let seam = Seam { clock: clock.clone(), rng: Rng::from_seed(1), tasks: Tasks::new("test") };
        let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Inline, clock.clone()).unwrap();
        let options = Options { name: "m1".into(), ..Options::default() };
        let server = Server::open(options, engine.store("m1"), seam.child("m1")).await.unwrap();
        let client = in_process_client(server.in_process(Identity::admin("tester")), Arc::default());
        let nodes: Api<Node> = Api::all(client.clone());
        for name in ["n1", "n2"] {
            let node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            nodes.create(&PostParams::default(), &node).await.unwrap();
            let status = json!({"status": {"allocatable": {"cpu": "3", "pods": "10"}}});
            nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        }
        let access = [("m1", Ok(Access::Client(client))), ("m2", Err("no route".to_owned()))];
        let members = access.map(|(name, access)| Member { name: name.to_owned(), access });
        let mut asked = Asked::default();
        asked.ask_members(&members, &clock).await;
        let needs = serde_json::from_value(json!({"resourceRequest": {"cpu": "2"}})).unwrap();
        let question = Question::replicas("shop", Some(&needs));
        assert_eq!(asked.nodes[&ClusterName::from("m1")].fits(&question), 2, "one on each of two nodes of three cores");
        assert_eq!(asked.unknown, [("m2".into(), "no route".to_owned())].into());
        seam.tasks.stop();
    }
}
