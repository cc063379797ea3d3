//! Reasons of a template's placement: the detector's and the scheduler's own decisions, run again over what is there,
//! with their reasons kept. Nothing here decides anything itself.

mod not;

use std::collections::BTreeMap;

use ironclad_api::work::TargetCluster;
use ironclad_fleet::{Because, Binding, BindingKey, ObjectKey, because::propagation::Reason};
use ironclad_interpreter::Interpreter;
use ironclad_propagation::{detector::claim::Claim, policy_match, template::Identity};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

pub use self::not::{Answer, answer, because_of_cluster};
use crate::{Fleet, Scheduling, replay::Replay};

/// The whole answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The template.
    pub template: ObjectKey,
    /// True if the detector ignores the template, because of its kind or its namespace.
    pub skipped: bool,
    /// Reasons of the claim: the policy, its competitors, and what prevents the binding.
    pub policy: Vec<Because>,
    /// Its binding, if there is one or would be one.
    pub binding: Option<BindingSummary>,
    /// The scheduler's decision.
    pub scheduling: Option<Scheduling>,
}

/// The binding of the template.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BindingSummary {
    /// Key.
    pub key: BindingKey,
    /// False if it is not made yet; it is then the one that the detector would make.
    pub made: bool,
    /// Replicas that are wanted.
    pub replicas: i32,
    /// Present schedule result.
    pub clusters: Vec<TargetCluster>,
    /// Clusters that it has left or is leaving, each with the reason of its task.
    pub leaving: BTreeMap<String, String>,
}

impl Explanation {
    /// Reasons of the claim, a line each.
    #[must_use]
    pub fn policy_lines(&self) -> Vec<String> {
        if self.skipped {
            return vec!["templates of this kind, or in this namespace, are not propagated".to_owned()];
        }
        self.policy.iter().map(Because::to_string).collect()
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
        policy: Vec::new(),
        binding: None,
        scheduling: None,
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
    explanation.scheduling = placement.scheduling;
    explanation.binding = match (present, replay.fleet.world.binding_of(template)) {
        (Some(present), _) => Some(summary(&present, true)),
        (None, planned) => planned.map(|planned| BindingSummary { clusters: Vec::new(), ..summary(&planned, false) }),
    };
    Some(explanation)
}

/// For a template that is claimed: the policy that has it, and all that select it, too. One that would win against
/// the present one does not, since a claim is kept.
fn competing_policies(fleet: &Fleet, template: &Value, because: &mut Vec<Because>) {
    let Some(claim) = Claim::of_template(template) else { return };
    let Some(choice) = policy_match::choose(fleet.policies(), &Identity::of(template)) else { return };
    let holder = claim.policy();
    if choice.policy.key() == holder {
        because.push(Reason::PolicyChosen { policy: holder, by: choice.by.as_str() }.into());
        let lost = choice.losers.iter().map(|(policy, why)| Reason::PolicyLost { policy: policy.key(), why }.into());
        because.extend(lost);
        return;
    }
    because.push(Reason::StaysClaimed { policy: holder.clone() }.into());
    let others = std::iter::once(choice.policy).chain(choice.losers.iter().map(|(policy, _)| *policy));
    let others = others.map(policy_match::Policy::key).filter(|policy| *policy != holder);
    because.extend(others.map(|policy| Reason::PolicyLost { policy, why: "the template is claimed already" }.into()));
}

fn summary(binding: &Binding, made: bool) -> BindingSummary {
    let spec = binding.spec();
    let leaving = spec.graceful_eviction_tasks.iter().map(|task| (task.from_cluster.clone(), task.reason.clone()));
    BindingSummary {
        key: binding.key(),
        made,
        replicas: spec.replicas,
        clusters: spec.clusters.clone(),
        leaving: leaving.collect(),
    }
}
