//! Why a template runs where it runs: the detector's and the scheduler's own decisions, run again over what is there, with
//! their reasons kept. Nothing here decides anything itself.

use std::{collections::BTreeMap, collections::BTreeSet, sync::Arc};

use ironclad_api::{
    policy::{ClusterPropagationPolicy, PropagationPolicy},
    work::{ClusterResourceBinding, ResourceBinding, ResourceBindingSpec, TargetCluster},
};
use ironclad_fleet::{
    Because, BindingKey, ClusterName, ObjectKey, PolicyKey, World,
    because::{propagation::Reason as Claimed, schedule::Reason},
};
use ironclad_interpreter::Interpreter;
use ironclad_patch::merge::merge_patch;
use ironclad_propagation::{
    detector::{self, Effect, binding, claim::Claim},
    new_ids::NewIds,
    policy_match::{self, Policy},
    skipped_resources::Skipped,
    template::Identity,
};
use ironclad_scheduling::{self as scheduling, Available, Capacity, Options, Seen, capacity::Modelling};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

/// Writes that lead from an unclaimed template to its binding: policy, template, binding.
const STEPS_MAX: usize = 4;

/// What the decisions read of one template.
#[derive(Debug, Default)]
pub struct Observed {
    /// The template, all policies that could have it, its binding, and all clusters.
    pub world: World,
    /// Names of the OverridePolicies of its namespace.
    pub overrides: BTreeSet<String>,
    /// Names of the ClusterOverridePolicies.
    pub cluster_overrides: BTreeSet<String>,
    /// Answers about kinds.
    pub interpreter: Interpreter,
}

/// The whole answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Placed {
    /// The template.
    pub template: ObjectKey,
    /// Whether the detector leaves the template alone, because of its kind or its namespace.
    pub skipped: bool,
    /// Which policy has it, which others would, and what keeps it from its binding.
    pub policy: Vec<Because>,
    /// Its binding, if there is one or would be one.
    pub binding: Option<Bound>,
    /// What the scheduler makes of the binding.
    pub scheduling: Option<Scheduling>,
}

/// The binding of the template.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bound {
    /// Which one.
    pub key: BindingKey,
    /// False if it is not made yet; it is then the one that the detector would make.
    pub made: bool,
    /// Replicas that are wanted.
    pub replicas: i32,
    /// Where it is, as the binding says.
    pub clusters: Vec<TargetCluster>,
    /// Clusters that it has left or is leaving, each with the reason of its task.
    pub leaving: BTreeMap<String, String>,
}

/// The scheduler's turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scheduling {
    /// Why a pass runs at the next turn, or none does.
    pub turn: Option<Because>,
    /// The passes of a search: one, or one for each affinity group that is tried.
    pub passes: Vec<Pass>,
    /// Why the search comes to nothing, if it does.
    pub failure: Option<String>,
    /// Whether the search comes to the result that stands.
    pub agrees: bool,
}

/// One pass over the clusters.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pass {
    /// The affinity group, if the placement has groups.
    pub group: Option<String>,
    /// What became of every cluster, by name.
    pub clusters: BTreeMap<ClusterName, Outcome>,
    /// Why the group did not do, if it did not.
    pub failed: Option<String>,
}

/// What became of a cluster in a pass.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Where its way through the pass ended.
    pub because: Reason,
    /// The sum of its scores, if it passed the filters.
    pub score: Option<i64>,
    /// Further replicas that it holds, if an estimator has an opinion.
    pub room: Option<i64>,
}

/// The template's two decisions, run again; `None` if there is no such template.
#[must_use]
pub fn explain(seen: &Observed, template: &ObjectKey, now: Timestamp) -> Option<Placed> {
    let object = seen.world.templates.get(template)?;
    let skipped = Skipped::default();
    let mut placed = Placed {
        template: template.clone(),
        skipped: skipped.skips_kind(&template.gvk)
            || skipped.skips_object(&template.gvk, &template.namespace, &template.name),
        policy: Vec::new(),
        binding: None,
        scheduling: None,
    };
    if placed.skipped {
        return Some(placed);
    }
    let standing = standing(&seen.world, template);
    let found = claims(seen, object, standing.as_ref(), &mut placed.policy);
    let made = standing.is_some();
    if let Some(binding) = standing.or(found) {
        placed.scheduling = Some(schedule(&binding, &seen.world, now));
        placed.binding = Some(bound(&binding, made));
    }
    Some(placed)
}

/// A binding of either kind that is there, or would be.
pub(crate) enum Binding {
    Namespaced(Arc<ResourceBinding>),
    Cluster(Arc<ClusterResourceBinding>),
}

impl Binding {
    pub(crate) fn view(&self) -> binding::Binding<'_> {
        match self {
            Self::Namespaced(binding) => binding::Binding::Namespaced(binding),
            Self::Cluster(binding) => binding::Binding::Cluster(binding),
        }
    }

    fn for_scheduler(&self) -> scheduling::Binding<'_> {
        match self {
            Self::Namespaced(binding) => scheduling::Binding::from(&**binding),
            Self::Cluster(binding) => scheduling::Binding::from(&**binding),
        }
    }
}

/// The binding that is there for the template, whatever its name.
pub(crate) fn standing(world: &World, template: &ObjectKey) -> Option<Binding> {
    let is_of = |spec: &ResourceBindingSpec| {
        let resource = &spec.resource;
        let group = resource.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        (group, &*resource.kind) == (&*template.gvk.group, &*template.gvk.kind)
            && (&*resource.namespace, &*resource.name) == (&*template.namespace, &*template.name)
    };
    let namespaced = world.bindings.values().find(|binding| is_of(&binding.spec)).cloned().map(Binding::Namespaced);
    let cluster = || world.cluster_bindings.values().find(|binding| is_of(&binding.spec)).cloned();
    namespaced.or_else(|| cluster().map(Binding::Cluster))
}

/// The detector's decision. Where no binding stands, its writes are followed to the binding that they would lead to.
fn claims(
    seen: &Observed,
    template: &Value,
    standing: Option<&Binding>,
    because: &mut Vec<Because>,
) -> Option<Binding> {
    let mut template = template.clone();
    let mut policies: BTreeMap<PolicyKey, Arc<PropagationPolicy>> = seen.world.policies.clone();
    let mut cluster_policies: BTreeMap<PolicyKey, Arc<ClusterPropagationPolicy>> = seen.world.cluster_policies.clone();
    rivals(seen, &template, because);
    for _ in 0..STEPS_MAX {
        let all: Vec<Policy<'_>> = policies
            .values()
            .map(|policy| Policy::Namespaced(policy))
            .chain(cluster_policies.values().map(|policy| Policy::Cluster(policy)))
            .collect();
        let plan = detector::decide(
            &detector::Seen {
                template: &template,
                policies: &all,
                binding: standing.map(Binding::view),
                named: None,
                waiting: None,
                overrides: &seen.overrides,
                cluster_overrides: &seen.cluster_overrides,
                priority_classes: None,
                interpreter: &seen.interpreter,
                options: &binding::Options::default(),
                // Of a binding that would be made anew nobody asks since when.
                now: jiff::Timestamp::UNIX_EPOCH,
            },
            NewIds::from("not-given-yet".to_owned()),
        );
        for reason in plan.because {
            // Of the steps that are only foreseen the first says who gets the template.
            let foreseen = matches!(reason, Because::Propagation(Claimed::StaysClaimed { .. })) && standing.is_none();
            if reason != Because::UpToDate && !foreseen && !because.contains(&reason) {
                because.push(reason);
            }
        }
        let mut goes_on = false;
        for effect in plan.effects {
            match effect {
                _ if standing.is_some() => {}
                Effect::PatchTemplate { patch } => {
                    merge_patch(&mut template, &patch);
                    goes_on = true;
                }
                Effect::PatchPolicy { policy, patch } => {
                    patched(policies.get_mut(&policy), &patch);
                    patched(cluster_policies.get_mut(&policy), &patch);
                }
                Effect::CreateBinding(binding) => return Some(Binding::Namespaced(Arc::new(*binding))),
                Effect::CreateClusterBinding(binding) => return Some(Binding::Cluster(Arc::new(*binding))),
                _ => {}
            }
        }
        if !goes_on {
            break;
        }
    }
    None
}

/// A merge patch of an object, as a server takes it.
pub(crate) fn patched<P: Serialize + serde::de::DeserializeOwned>(policy: Option<&mut Arc<P>>, patch: &Value) {
    let Some(policy) = policy else { return };
    let Ok(mut object) = serde_json::to_value(&**policy) else { return };
    merge_patch(&mut object, patch);
    if let Ok(changed) = serde_json::from_value(object) {
        *policy = Arc::new(changed);
    }
}

/// For a template that is claimed: the policy that has it, and all that select it, too. One that would win against
/// the present one does not, since a claim is kept.
fn rivals(seen: &Observed, template: &Value, because: &mut Vec<Because>) {
    let Some(claim) = Claim::of_template(template) else { return };
    let policies = seen.world.policies.values().map(|policy| Policy::Namespaced(policy));
    let cluster = seen.world.cluster_policies.values().map(|policy| Policy::Cluster(policy));
    let Some(choice) = policy_match::choose(policies.chain(cluster), &Identity::of(template)) else { return };
    let holder = claim.policy();
    if choice.policy.key() == holder {
        because.push(Claimed::PolicyChosen { policy: holder, by: choice.by.as_str() }.into());
        let lost = choice.losers.iter().map(|(policy, why)| Claimed::PolicyLost { policy: policy.key(), why }.into());
        because.extend(lost);
        return;
    }
    because.push(Claimed::StaysClaimed { policy: holder.clone() }.into());
    let others = std::iter::once(choice.policy).chain(choice.losers.iter().map(|(policy, _)| *policy));
    let others = others.map(Policy::key).filter(|policy| *policy != holder);
    because.extend(others.map(|policy| Claimed::PolicyLost { policy, why: "the template is claimed already" }.into()));
}

fn bound(binding: &Binding, made: bool) -> Bound {
    let view = binding.view();
    let spec = view.spec();
    let leaving = spec.graceful_eviction_tasks.iter().map(|task| (task.from_cluster.clone(), task.reason.clone()));
    Bound {
        key: view.key(),
        made,
        replicas: spec.replicas,
        clusters: spec.clusters.clone(),
        leaving: leaving.collect(),
    }
}

/// The scheduler's decision: the pass of the next turn where one runs, and else the pass that somebody could ask for.
fn schedule(binding: &Binding, world: &World, now: Timestamp) -> Scheduling {
    scheduled(binding, world, now).0
}

/// The same, and where the binding's copies are after that turn.
pub(crate) fn scheduled(binding: &Binding, world: &World, now: Timestamp) -> (Scheduling, Vec<TargetCluster>) {
    let (view, options, available) = (binding.for_scheduler(), Options::default(), Available::new());
    let capacity = Capacity::of(&world.clusters, Modelling::On);
    let seen = Seen {
        binding: view,
        clusters: &world.clusters,
        available: &available,
        capacity: &capacity,
        options: &options,
    };
    let decision = scheduling::decide(&seen, now);
    let turn = decision.plan.because.first().cloned();
    let clusters = decision.result().unwrap_or(&view.spec.clusters).to_vec();
    let (group, failure, trace) = if decision.schedule_type.is_some() {
        let told = decision.plan.effects.iter().find_map(|effect| match effect {
            scheduling::Effect::Status(part) => part.fields.get("schedulerObservingAffinityName")?.as_str(),
            _ => None,
        });
        let group = told.unwrap_or(view.observed_group).to_owned();
        ((!group.is_empty()).then_some(group), decision.failure, decision.plan.because)
    } else {
        let (found, because) = scheduling::dry_run(&seen, &BTreeSet::new());
        match found {
            Ok(found) => (found.group, None, because),
            Err(failure) => (None, Some(failure), because),
        }
    };
    let passes = passes(trace, group);
    let agrees = failure.is_none()
        && passes.last().is_some_and(|pass| {
            let targets = pass.clusters.iter().filter_map(|(name, outcome)| match outcome.because {
                Reason::Target { replicas, .. } => Some((&*name.0, replicas)),
                _ => None,
            });
            let stands = view.spec.clusters.iter().map(|target| (&*target.name, target.replicas));
            targets.collect::<BTreeMap<_, _>>() == stands.collect()
        });
    (Scheduling { turn, passes, failure: failure.map(|failure| failure.to_string()), agrees }, clusters)
}

/// The trace of a search, cut where an affinity group did not do. A later reason of a cluster replaces an earlier one,
/// but for the figures.
fn passes(trace: Vec<Because>, group: Option<String>) -> Vec<Pass> {
    let (mut passes, mut pass) = (Vec::new(), Pass::default());
    for reason in trace {
        let Because::Schedule(reason) = reason else { continue };
        let cluster = match &reason {
            Reason::GroupFailed { group, error, .. } => {
                (pass.group, pass.failed) = (Some(group.clone()), Some(error.clone()));
                passes.push(std::mem::take(&mut pass));
                continue;
            }
            Reason::Fits { cluster, .. }
            | Reason::Refused { cluster, .. }
            | Reason::ClusterLeaving { cluster }
            | Reason::Missing { cluster }
            | Reason::NotSelected { cluster }
            | Reason::NoShare { cluster }
            | Reason::Target { cluster, .. } => cluster.clone(),
            _ => continue,
        };
        let outcome =
            pass.clusters.entry(cluster).or_insert(Outcome { because: reason.clone(), score: None, room: None });
        if let Reason::Fits { score, room, .. } = reason {
            (outcome.score, outcome.room) = (Some(score), room);
        }
        outcome.because = reason;
    }
    if !pass.clusters.is_empty() || passes.is_empty() {
        pass.group = group;
        passes.push(pass);
    }
    passes
}
