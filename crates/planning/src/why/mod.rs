//! Reasons of a template's placement: the detector's and the scheduler's own decisions, run again over what is there,
//! with their reasons kept. Nothing here decides anything itself.

mod competition;
mod last;
mod not;
pub mod queue;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::{cluster::Cluster, names, work::TargetCluster};
use ironclad_autoscaling::distributed_hpa;
use ironclad_fleet::{
    Because, Binding, BindingKey, ClusterName, Gvk, ObjectKey, World,
    because::{propagation::Reason, schedule::PassedOver},
    tree::{Explained, LinkState, Placed},
};
use ironclad_interpreter::Interpreter;
use ironclad_propagation::{namespace, skipped_resources::Skipped};
use ironclad_scheduling::{groups, preempt::may_preempt};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

pub use self::{
    competition::{Competition, competition},
    last::LastCopy,
    not::{Answer, answer, because_of_cluster},
    queue::Queue,
};
use crate::{
    Fleet, Scheduling,
    leader::EstimatorAnswer,
    preemption::{As, PreemptionPlan, preemption},
    replay::Replay,
    world::put_binding,
};

/// The whole answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub template: ObjectKey,
    /// True if the detector ignores the template, because of its kind or its namespace.
    pub skipped: bool,
    /// True for a Namespace that is brought to every member without a policy.
    pub namespace_sync: bool,
    /// Reasons of the claim: the policy, its competitors, and what prevents the binding.
    pub policy: Vec<Because>,
    /// Its binding, if there is one or would be one.
    pub binding: Option<BindingSummary>,
    /// The scheduler's decision.
    pub scheduling: Option<Scheduling>,
    /// The preemption that it waits for, or that the scheduler would plan for it, searched anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption: Option<PreemptionPlan>,
    /// Its place in the queue of the scheduler, if it waits and somebody asked for the place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// Answers of the accounts of clusters, and of estimators over gRPC, if somebody asked the leader for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub estimates: Vec<EstimatorAnswer>,
    /// Clusters that only affinity groups before the one in use choose.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub passed_over: BTreeMap<ClusterName, PassedOver>,
    /// Last copies of other workloads, in clusters that it could use if they had the capacity.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub last_copies: Vec<LastCopy>,
    /// The autoscaler by which members decide the replicas of the template, or the template itself if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaler: Option<distributed_hpa::explain::Explanation>,
    /// Clusters whose nodes decide on it, and that were not asked for them.
    #[serde(skip)]
    pub unasked: BTreeSet<ClusterName>,
}

/// The binding of the template.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BindingSummary {
    pub key: BindingKey,
    /// False if it is not made yet; it is then the one that the detector would make.
    pub made: bool,
    /// Replicas that are wanted.
    pub replicas: i32,
    /// Present schedule result.
    pub clusters: Vec<TargetCluster>,
    /// Clusters that it has left or is leaving, each with the reason of its task.
    pub leaving: BTreeMap<String, String>,
    /// Bindings of the workloads that it follows, if it has no placement of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub follows: Vec<BindingKey>,
    /// Targets whose copy is not applied, each with the message.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub not_applied: BTreeMap<String, String>,
    /// Clusters and replicas for which capacity is held, while victims of its preemption leave.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nominated: Vec<TargetCluster>,
    /// True if the scheduler has not answered its present spec, or found no clusters for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
}

impl Explanation {
    /// Reasons of the claim, a line each.
    #[must_use]
    pub fn policy_lines(&self) -> Vec<String> {
        if self.skipped {
            return vec!["templates of this kind, or in this namespace, are not propagated".to_owned()];
        }
        let lacks_policy = |because: &Because| matches!(because, Because::Propagation(Reason::NoPolicyMatches { .. }));
        let mut lines: Vec<String> = Vec::new();
        if self.namespace_sync {
            lines.push("namespace sync brings it to every member, without a policy".to_owned());
        }
        lines.extend(
            self.policy.iter().filter(|one| !self.namespace_sync || !lacks_policy(one)).map(Because::to_string),
        );
        lines
    }

    /// Kind of the policies that can select the template.
    #[must_use]
    pub fn policy_kind(&self) -> &'static str {
        if self.template.namespace.is_empty() { "ClusterPropagationPolicy" } else { "PropagationPolicy" }
    }

    /// Reasons that the chain of the template does not show by itself.
    #[must_use]
    pub fn for_tree(&self) -> Explained {
        let is_claim = |because: &&Because| {
            matches!(
                because,
                Because::Propagation(
                    Reason::PolicyChosen { .. } | Reason::PolicyLost { .. } | Reason::StaysClaimed { .. }
                )
            )
        };
        let is = |wanted: fn(&Reason) -> bool| {
            self.policy.iter().any(|because| matches!(because, Because::Propagation(reason) if wanted(reason)))
        };
        let state = if self.skipped || self.namespace_sync || is(|r| matches!(r, Reason::ClaimedElsewhere { .. })) {
            LinkState::Ok
        } else if is(|r| matches!(r, Reason::NoPolicyMatches { .. })) {
            LinkState::Broken
        } else {
            LinkState::Waiting
        };
        let detail = match state {
            LinkState::Broken => {
                let is_bound = self.binding.as_ref().is_some_and(|binding| binding.made);
                let kept = if is_bound { " any more, so its copies stay as they are" } else { "" };
                format!("selects it{kept}: make a {} whose resourceSelectors name it", self.policy_kind())
            }
            LinkState::Ok | LinkState::Waiting => format!("has claimed it: {}", self.policy_lines().join("; ")),
        };
        let unbound: Vec<String> =
            self.policy.iter().filter(|because| !is_claim(because)).map(Because::to_string).collect();
        let is_unbound = !unbound.is_empty() && self.binding.as_ref().is_none_or(|binding| !binding.made);
        Explained {
            unclaimed: Some((state, detail)),
            unbound: is_unbound.then(|| format!("is not made: {}", unbound.join("; "))),
            placed: self.placed_without_binding(),
            ..Explained::default()
        }
    }

    /// Works that reach members without a binding: those of a Namespace, or of an autoscaler that members run.
    fn placed_without_binding(&self) -> Option<Placed> {
        if self.namespace_sync {
            return Some(Placed { works: namespace::work_names(&self.template.name).to_vec(), clusters: None });
        }
        let own = self.autoscaler.as_ref().filter(|scaler| scaler.autoscaler == self.template)?;
        let key = &own.autoscaler;
        Some(Placed {
            works: vec![names::work_name(&key.gvk.kind, &key.namespace, &key.name)],
            clusters: Some(own.members.keys().cloned().collect()),
        })
    }
}

/// The decisions on one template, taken again; `None` if there is no such template.
#[must_use]
pub fn explain(fleet: &Fleet, template: &ObjectKey, interpreter: &Interpreter, now: Timestamp) -> Option<Explanation> {
    let object = fleet.world.templates.get(template)?;
    let present = fleet.world.binding_of(template);
    let mut replay = Replay::new(fleet.clone(), interpreter, now);
    let placement = replay.template(template);
    let mut explanation = Explanation {
        template: template.clone(),
        skipped: placement.skipped,
        namespace_sync: is_namespace(template) && namespace::is_synced(object, &Skipped::default()),
        policy: Vec::new(),
        binding: None,
        scheduling: None,
        preemption: None,
        queue: None,
        estimates: Vec::new(),
        passed_over: BTreeMap::new(),
        last_copies: Vec::new(),
        autoscaler: autoscaler(fleet, template, interpreter, now),
        unasked: placement.unasked,
    };
    if placement.skipped {
        return Some(explanation);
    }
    competing_policies(fleet, object, &mut explanation.policy);
    for reason in placement.because {
        // Without a binding the claim says nothing yet: the reasons that follow say what keeps the template from one.
        let is_bare_claim = matches!(reason, Because::Propagation(Reason::StaysClaimed { .. })) && present.is_none();
        if !is_bare_claim && !explanation.policy.contains(&reason) {
            explanation.policy.push(reason);
        }
    }
    let is_scheduled = |binding: &Binding| binding.spec().placement.is_some();
    // What follows others is not scheduled: a cycle would find no placement, which is no fault.
    explanation.scheduling = placement.scheduling.filter(|_| present.as_ref().is_none_or(is_scheduled));
    let bound = present.clone().or_else(|| replay.fleet.world.binding_of(template));
    if let (Some(bound), Some(scheduling)) = (&bound, &explanation.scheduling) {
        explanation.last_copies = last::copies(&fleet.world, &bound.key(), scheduling);
        explanation.passed_over = passed_over(&fleet.world, bound);
    }
    explanation.preemption = bound.and_then(|bound| preempts(fleet, &bound, explanation.scheduling.as_ref(), now));
    explanation.binding = match (present, replay.fleet.world.binding_of(template)) {
        (Some(present), _) => Some(summary(&present, true)),
        (None, planned) => planned.map(|planned| BindingSummary { clusters: Vec::new(), ..summary(&planned, false) }),
    };
    Some(explanation)
}

/// The autoscaler that has the template as its target, or that it is.
fn autoscaler(
    fleet: &Fleet,
    template: &ObjectKey,
    interpreter: &Interpreter,
    now: Timestamp,
) -> Option<distributed_hpa::explain::Explanation> {
    let kinds = interpreter.autoscalers();
    let of_namespace = fleet.world.templates.iter().filter(|(key, _)| key.namespace == template.namespace);
    of_namespace.into_iter().find_map(|(key, object)| {
        let scaler = match distributed_hpa::is_kind(&key.gvk) {
            true => distributed_hpa::scaler::Scaler::from_object(object)?,
            false => distributed_hpa::scaler::seen_by(&kinds, &key.gvk, (**object).clone())?,
        };
        let concerns = key == template || distributed_hpa::target_keys(&scaler.hpa).contains(template);
        if !concerns || !distributed_hpa::decides_in_members(&scaler.hpa) {
            return None;
        }
        let name = distributed_hpa::policy_name(&scaler);
        let is_record = |metadata: &ironclad_api::ObjectMeta| {
            metadata.name.as_ref() == Some(&name) && metadata.namespace.as_deref() == Some(&template.namespace)
        };
        let policy = fleet.overrides.iter().find(|policy| is_record(&policy.metadata));
        Some(distributed_hpa::explain::explain(&scaler, policy.map(|policy| &**policy), now))
    })
}

fn passed_over(world: &World, bound: &Binding) -> BTreeMap<ClusterName, PassedOver> {
    let in_use = bound.status().map_or("", |status| status.scheduler_observed_affinity_name.as_str());
    let Some(placement) = bound.spec().placement.as_deref() else { return BTreeMap::new() };
    let over = |(name, cluster): (&ClusterName, &Arc<Cluster>)| {
        Some((name.clone(), groups::passed_over(placement, in_use, cluster)?))
    };
    world.clusters.iter().filter_map(over).collect()
}

/// The preemption for a binding that is nominated, or that finds no place and may preempt.
fn preempts(
    fleet: &Fleet,
    binding: &Binding,
    scheduling: Option<&Scheduling>,
    now: Timestamp,
) -> Option<PreemptionPlan> {
    let mode = fleet.settings.scheduler.preemption();
    let is_nominated = binding.status().is_some_and(|status| !status.nominated_clusters.is_empty());
    let lacks = scheduling.is_some_and(|scheduling| scheduling.failure.is_some());
    let may = is_nominated || (lacks && may_preempt(binding.view(), mode));
    if !may {
        return None;
    }
    let mut fleet = fleet.clone();
    // One that the detector would make is not in the world yet.
    put_binding(&mut fleet.world, &binding.key(), binding.clone());
    preemption(&fleet, &binding.key(), As::default(), now)
}

/// For a template that is claimed: the policy that has it, and all that select it, too.
fn competing_policies(fleet: &Fleet, template: &Value, because: &mut Vec<Because>) {
    let Some(Competition { holder, by, others }) = competition(fleet.policies(), template) else { return };
    because.push(match by {
        Some(by) => Reason::PolicyChosen { policy: holder, by: by.as_str() }.into(),
        None => Reason::StaysClaimed { policy: holder }.into(),
    });
    because.extend(others.into_iter().map(|(policy, why)| Reason::PolicyLost { policy, why }.into()));
}

/// True for Namespaces, which namespace sync brings to members.
#[must_use]
pub(crate) fn is_namespace(template: &ObjectKey) -> bool {
    template.gvk == Gvk::from_manifest("v1", "Namespace")
}

fn summary(binding: &Binding, made: bool) -> BindingSummary {
    let spec = binding.spec();
    let attached = || spec.required_by.iter().flat_map(|by| &by.clusters);
    let mut clusters = spec.clusters.clone();
    for target in attached() {
        if !clusters.iter().any(|known| known.name == target.name) {
            clusters.push(TargetCluster { name: target.name.clone(), ..TargetCluster::default() });
        }
    }
    let items = binding.status().map_or(&[][..], |status| &status.aggregated_status);
    let failed = items.iter().filter(|item| !item.applied && !item.applied_message.is_empty());
    let follows = spec.required_by.iter().filter(|_| spec.placement.is_none());
    let leaving = spec.graceful_eviction_tasks.iter().map(|task| (task.from_cluster.clone(), task.reason.clone()));
    BindingSummary {
        key: binding.key(),
        made,
        replicas: spec.replicas,
        clusters,
        leaving: leaving.collect(),
        follows: follows
            .map(|by| BindingKey { namespace: by.namespace.as_str().into(), name: by.name.as_str().into() })
            .collect(),
        nominated: binding.status().map_or_else(Vec::new, |status| status.nominated_clusters.clone()),
        waits: made && spec.placement.is_some() && !(binding.view().is_scheduled() && binding.is_observed()),
        not_applied: failed.map(|item| (item.cluster_name.clone(), item.applied_message.clone())).collect(),
    }
}
