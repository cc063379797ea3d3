//! What a drain would do: who is on the cluster, who moves where, who can't.

use std::collections::BTreeSet;

use ironclad_api::{eviction::CLUSTER_DRAIN, work::TargetCluster};
use ironclad_failover::{
    Bound, Clusters,
    drain::{self, Verdict},
};
use ironclad_fleet::because::migration::Reason;
use ironclad_scheduling::{Available, Binding, Capacity, Options, Seen, capacity::Modelling, dry_run};
use kube::{
    Client,
    api::{Api, ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};

use super::{DrainError, Stuck, Wanted, bindings, clusters, failed};

/// One binding on the cluster.
#[derive(Debug, Clone)]
pub struct Item {
    /// The binding.
    pub binding: Bound,
    /// What the drain does with it.
    pub verdict: Verdict,
    /// Where the scheduler would put it.
    pub to: Vec<TargetCluster>,
}

impl Item {
    /// In one word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match &self.verdict {
            Verdict::Moves => "moves",
            Verdict::Stuck(Reason::Pinned { .. }) => "pinned",
            Verdict::Stuck(_) => "unmovable",
            Verdict::Follows => "follows",
        }
    }

    /// Where it goes, or why it does not.
    #[must_use]
    pub fn detail(&self) -> String {
        match &self.verdict {
            Verdict::Moves => {
                let shares = self.to.iter().map(|target| match target.replicas {
                    0 => target.name.clone(),
                    replicas => format!("{}:{replicas}", target.name),
                });
                shares.collect::<Vec<_>>().join(", ")
            }
            Verdict::Stuck(reason) => reason.to_string(),
            Verdict::Follows => Reason::FollowsItsOwner.to_string(),
        }
    }

    /// As scripts take it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let (spec, key) = (self.binding.spec(), self.binding.key());
        json!({
            "binding": { "kind": self.binding.kind(), "namespace": &*key.namespace, "name": &*key.name },
            "resource": { "apiVersion": spec.resource.api_version, "kind": spec.resource.kind,
                "namespace": spec.resource.namespace, "name": spec.resource.name },
            "verdict": self.word(),
            "detail": self.detail(),
            "to": self.to,
        })
    }
}

/// All bindings on a cluster, in the order in which they are moved.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// The bindings.
    pub items: Vec<Item>,
    /// Bindings that were moved by a drain and whose old copies are still there.
    pub under_way: Vec<Bound>,
}

impl Survey {
    /// Looks at the fleet.
    ///
    /// # Errors
    /// If the control plane can't be asked.
    pub async fn of(plane: &Client, wanted: &Wanted) -> Result<Self, DrainError> {
        let clusters = clusters(plane, &wanted.cluster).await?;
        if !clusters.contains_key(&wanted.cluster) {
            return Err(DrainError::NotFound { name: wanted.cluster.to_string() });
        }
        let mut survey = Self::default();
        let concerned = bindings(plane, wanted, |bound| {
            drain::is_under_way(bound.spec(), &wanted.cluster)
                || drain::judge(bound, &wanted.cluster, &clusters, wanted.check).is_some()
        });
        let mut concerned = concerned.await?;
        concerned.sort_by_cached_key(drain::order);
        // What fits by what the clusters report; what is on its way is not known here.
        let capacity = Capacity::of(&clusters, Modelling::On);
        for binding in concerned {
            if !labelled(plane, wanted, &binding).await? {
                continue;
            }
            match drain::judge(&binding, &wanted.cluster, &clusters, wanted.check) {
                Some(verdict) => survey.items.push(foreseen(binding, verdict, wanted, &clusters, &capacity)),
                None => survey.under_way.push(binding),
            }
        }
        Ok(survey)
    }

    /// Those that this drain moves.
    #[must_use]
    pub fn moving(&self, stuck: Stuck) -> Vec<Bound> {
        let moves = |item: &&Item| match item.verdict {
            Verdict::Moves => true,
            Verdict::Stuck(_) => stuck == Stuck::Force,
            Verdict::Follows => false,
        };
        self.items.iter().filter(moves).map(|item| item.binding.clone()).collect()
    }

    /// Those that can't be moved.
    #[must_use]
    pub fn stuck(&self) -> Vec<&Item> {
        self.items.iter().filter(|item| matches!(item.verdict, Verdict::Stuck(_))).collect()
    }

    /// Those that a drain must move before it is done.
    #[must_use]
    pub fn remaining(&self, stuck: Stuck) -> Vec<&Item> {
        let remains = |item: &&Item| match item.verdict {
            Verdict::Moves => true,
            Verdict::Stuck(_) => stuck != Stuck::Skip,
            Verdict::Follows => false,
        };
        self.items.iter().filter(remains).collect()
    }

    /// How many are on the cluster for themselves, and not because they follow others.
    #[must_use]
    pub fn evictable(&self) -> usize {
        self.items.iter().filter(|item| item.verdict != Verdict::Follows).count()
    }
}

/// With the scheduler's own word on where it would go: the check before it is only a check.
fn foreseen(binding: Bound, verdict: Verdict, wanted: &Wanted, clusters: &Clusters, capacity: &Capacity) -> Item {
    if verdict != Verdict::Moves {
        return Item { binding, verdict, to: Vec::new() };
    }
    match place(&binding, wanted, clusters, capacity) {
        Ok(to) => Item { binding, verdict, to },
        Err(why) => Item { binding, verdict: Verdict::Stuck(Reason::NowhereToGo { why }), to: Vec::new() },
    }
}

fn place(
    binding: &Bound,
    wanted: &Wanted,
    clusters: &Clusters,
    capacity: &Capacity,
) -> Result<Vec<TargetCluster>, String> {
    let mut spec = binding.spec().clone();
    spec.clusters.retain(|target| target.name != *wanted.cluster.0);
    if spec.eviction(&wanted.cluster.0).is_none() {
        let mut task = ironclad_api::work::GracefulEvictionTask::default();
        (task.from_cluster, task.reason) = (wanted.cluster.to_string(), CLUSTER_DRAIN.to_owned());
        spec.graceful_eviction_tasks.push(task);
    }
    let seen = match binding {
        Bound::Namespaced(binding) => Binding::from(&**binding),
        Bound::Cluster(binding) => Binding::from(&**binding),
    };
    let (available, options) = (Available::new(), Options::default());
    let binding = Binding { spec: &spec, ..seen };
    let seen = Seen { binding, clusters, available: &available, capacity, options: &options };
    let (found, _) = dry_run(&seen, &BTreeSet::from([wanted.cluster.clone()]));
    found.map(|found| found.targets).map_err(|failure| failure.to_string())
}

/// Whether the template has the labels that were asked for.
async fn labelled(plane: &Client, wanted: &Wanted, binding: &Bound) -> Result<bool, DrainError> {
    let Some(selector) = &wanted.selector else { return Ok(true) };
    let resource = &binding.spec().resource;
    let (group, version) = resource.api_version.split_once('/').unwrap_or(("", &resource.api_version));
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &resource.kind));
    let api: Api<DynamicObject> = match resource.namespace.as_str() {
        "" => Api::all_with(plane.clone(), &kind),
        namespace => Api::namespaced_with(plane.clone(), namespace, &kind),
    };
    let doing = format!("reading {} {}", resource.kind, resource.name);
    let template = api.get_opt(&resource.name).await.map_err(failed(&wanted.cluster, doing))?;
    let labels = template.and_then(|template| template.metadata.labels).unwrap_or_default();
    Ok(selector.matches(|key| labels.get(key).map(String::as_str)))
}
