//! DaemonSets: runs a pod on each node.

mod decide;

use std::{collections::BTreeSet, sync::Arc};

use ironclad_patch::selector::LabelSelector;
use ironclad_runtime::{Failure, Informer, Key, Next};
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, DaemonSetStatus},
    core::v1::{Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm},
};

use self::decide::{Seen, decide, tolerations};
use crate::{
    Cluster,
    caches::{DAEMON_SETS, NODES, REVISIONS},
    history,
    owner::{BY_CONTROLLER, selector},
    pod_control::NewPod,
    pods::{from_template, labels},
    workload::{Kind, Workload, next},
};

impl Kind for DaemonSet {
    const CONTROLLER: &'static str = "daemonset-controller";
    type Status = DaemonSetStatus;

    fn selector(&self) -> Option<LabelSelector> {
        selector(self.spec.as_ref().map(|s| &s.selector))
    }

    fn status(&self) -> Option<&DaemonSetStatus> {
        self.status.as_ref()
    }
}

pub(crate) fn start(cluster: &Cluster) {
    let sets = Workload::new(cluster, cluster.caches.take(&DAEMON_SETS));
    let (nodes, revisions) = (cluster.caches.take(&NODES), cluster.caches.take(&REVISIONS));
    let of = Arc::downgrade(&sets);
    nodes.on_change(move |change| {
        // A change of a node's status does not affect the pods.
        let same = |a: &Arc<Node>, b: &Arc<Node>| a.spec == b.spec && a.metadata.labels == b.metadata.labels;
        if change.old.as_ref().zip(change.new.as_ref()).is_some_and(|(a, b)| same(a, b)) {
            return;
        }
        if let Some(sets) = of.upgrade() {
            sets.objects.list().iter().for_each(|set| sets.enqueue_key(Key::of(&**set)));
        }
    });
    sets.run([nodes.when_synced(), revisions.when_synced()], move |sets, key| {
        let (nodes, revisions) = (nodes.clone(), revisions.clone());
        async move { reconcile(&sets, &nodes, &revisions, &key).await }
    });
}

async fn reconcile(
    sets: &Arc<Workload<DaemonSet>>,
    nodes: &Informer<Node>,
    revisions: &Informer<ControllerRevision>,
    key: &Key,
) -> Result<Next, Failure> {
    let now = sets.cluster.seam.clock.wall_seconds();
    let Some((set, claims)) = sets.find(key) else { return Ok(Next::Forget) };
    let (meta, spec) = (&set.metadata, set.spec.clone().unwrap_or_default());
    let known = revisions.by_index(BY_CONTROLLER, meta.uid.as_deref().unwrap_or(""));
    let hashes = claims.mine.iter().filter_map(|p| labels(&p.metadata).get(history::REVISION_LABEL));
    let used: BTreeSet<String> = hashes.map(|hash| format!("{}-{hash}", key.name)).collect();
    let past = history::decide(meta, &spec.template, &known, spec.revision_history_limit, &used);
    let seen = Seen { set: set.clone(), nodes: nodes.list(), pods: claims.mine.clone(), hash: past.hash.clone() };
    let plan = decide(&seen, now);
    let wait = sets.write_status(key, &set, &plan.status, plan.idle).await?;
    if meta.deletion_timestamp.is_some() {
        return Ok(Next::Forget);
    }
    sets.apply_claims(&set, &claims).await?;
    let (client, writer) = (&sets.cluster.client, sets.control.writer());
    history::apply(client, writer, revisions, meta, Workload::reference(&*set), &spec.template, &past).await?;
    if !plan.delete.is_empty() {
        sets.control.delete(meta, &plan.delete).await?;
    }
    if !plan.create.is_empty() {
        let wanted = plan.create.iter().map(|node| pod(&set, node, &past.hash)).collect();
        sets.control.create(meta, wanted).await?;
    }
    Ok(next(wait, plan.requeue_at, now))
}

/// Returns a pod whose node affinity names this node.
fn pod(set: &DaemonSet, node: &str, hash: &str) -> NewPod {
    let mut pod = from_template(set.spec.as_ref().map(|s| &s.template), &set.metadata);
    pod.metadata.owner_references = Some(vec![Workload::reference(set)]);
    pod.metadata.labels.get_or_insert_default().insert(history::REVISION_LABEL.to_owned(), hash.to_owned());
    let spec = pod.spec.get_or_insert_default();
    let own = tolerations(spec.host_network == Some(true));
    spec.tolerations.get_or_insert_default().extend(own);
    let only = NodeSelectorRequirement {
        key: "metadata.name".into(),
        operator: "In".into(),
        values: Some(vec![node.to_owned()]),
    };
    let required = &mut spec
        .affinity
        .get_or_insert_default()
        .node_affinity
        .get_or_insert_default()
        .required_during_scheduling_ignored_during_execution;
    match required {
        Some(selector) => {
            for term in &mut selector.node_selector_terms {
                term.match_fields = Some(vec![only.clone()]);
            }
        }
        None => {
            let term = NodeSelectorTerm { match_fields: Some(vec![only]), match_expressions: None };
            *required = Some(NodeSelector { node_selector_terms: vec![term] });
        }
    }
    NewPod { place: Some(node.to_owned()), pod }
}
