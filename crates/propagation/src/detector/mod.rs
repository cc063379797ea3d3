//! Decision of the detector: matches one template to a policy, claims it, and maintains its binding
//! (specification/propagation.md 5).

pub mod binding;
pub mod claim;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use ironclad_api::{
    events, labels,
    work::{ClusterResourceBinding, ResourceBinding},
};
use ironclad_fleet::{Because, BindingKey, Event, Plan, PolicyKey, because::propagation::Reason};
use ironclad_interpreter::{Interpreter, Operation};
use jiff::Timestamp;
use serde_json::{Value, json};

use self::{binding::Binding, claim::Claim};
use crate::{
    new_ids::NewIds,
    policy_match::{self, Choice, Policy},
    priority,
    template::{self, Identity},
    template_hash::{APPLIED_TEMPLATE, AWAITS_EDIT, TemplateHash},
};

/// Reason for which a template waits. The set of waiting templates is in memory; the initial list rebuilds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// No policy selects the template. A template that waits for an edit of its user carries [`AWAITS_EDIT`] instead.
    ForPolicy,
    /// Override policies in `dependentOverrides` of the policy that selects it do not exist.
    ForOverrides,
}

/// Snapshot of one template.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The whole template.
    pub template: &'a Value,
    /// All policies of its namespace and all cluster policies, or at least those that may matter.
    pub policies: &'a [Policy<'a>],
    /// Its binding, found by `spec.resource` under any name.
    pub binding: Option<Binding<'a>>,
    /// The object under its binding's default name (`names::binding_name`), if any.
    pub named: Option<Binding<'a>>,
    /// Reason for which it waits, if it does.
    pub waiting: Option<Waiting>,
    /// Names of the OverridePolicies of its namespace, at least those in `dependentOverrides` of the policies.
    pub overrides: &'a BTreeSet<String>,
    /// Names of the ClusterOverridePolicies, likewise.
    pub cluster_overrides: &'a BTreeSet<String>,
    /// All PriorityClasses; `None` if gate `PriorityBasedScheduling` is off.
    pub priority_classes: Option<&'a [priority::Class]>,
    /// Resource interpreter.
    pub interpreter: &'a Interpreter,
    /// Feature gates of the binding.
    pub options: &'a binding::Options,
    /// Current time.
    pub now: Timestamp,
}

/// Write, or change of the set of waiting templates.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Set the permanent id and finalizer of a policy.
    PatchPolicy {
        policy: PolicyKey,
        /// Merge patch without resourceVersion.
        patch: Value,
    },
    /// Patch the template. The resulting watch event reconciles the template again, and that cycle builds the binding.
    PatchTemplate {
        /// Merge patch without resourceVersion.
        patch: Value,
    },
    CreateBinding(Box<ResourceBinding>),
    /// Create a binding of a cluster-scoped template.
    CreateClusterBinding(Box<ClusterResourceBinding>),
    PatchBinding {
        key: BindingKey,
        /// Merge patch without resourceVersion.
        patch: Value,
    },
    /// Add the template to the waiting ones.
    Wait(Waiting),
    /// Remove the template from the waiting ones.
    StopWaiting,
    /// Reconcile again with back-off.
    Retry,
    /// Record an event.
    Event(Event),
}

/// Claims the template for the policy that matches best, and keeps its binding up to date
/// (specification/propagation.md 5.2).
pub fn decide(seen: &Seen<'_>, mut ids: NewIds) -> Plan<Effect> {
    let mut plan = Plan::default();
    let identity = Identity::of(seen.template);
    if let Some(by) = identity.labels.get(labels::CLAIMED_BY).filter(|by| !by.is_empty()) {
        stop_waiting(&mut plan, seen);
        plan.note(Reason::ClaimedElsewhere { by: by.clone() }.into());
        return plan;
    }
    if template::is_deleting(seen.template) {
        // Garbage collection deletes the binding; do not claim or bind the template any more.
        stop_waiting(&mut plan, seen);
        plan.note(Because::Gone { object: identity.key() });
        return plan;
    }
    match Claim::of_template(seen.template) {
        Some(claim) => claimed(&mut plan, seen, &identity, &claim, &mut ids),
        None => unclaimed(&mut plan, seen, &identity, &mut ids),
    }
    plan
}

/// Handles a claimed template. A claim is sticky: only the claiming policy is considered (specification/propagation.md
/// 5.2, steps 3 and 4).
fn claimed(plan: &mut Plan<Effect>, seen: &Seen<'_>, identity: &Identity<'_>, claim: &Claim, ids: &mut NewIds) {
    let key = claim.policy();
    let Some(policy) = seen.policies.iter().copied().find(|policy| policy.key() == key) else {
        // Repair a clean-up that raced with a claim. Patch the template last: its claim is the index by which this is
        // found.
        if let Some(binding) = seen.binding
            && let Some(patch) = claim.removal(binding.metadata())
        {
            plan.effects.push(Effect::PatchBinding { key: binding.key(), patch });
        }
        if let Some(patch) = claim.removal_from_template(seen.template) {
            plan.effects.push(Effect::PatchTemplate { patch });
        }
        plan.note(Reason::ClaimantGone { policy: key }.into());
        return;
    };
    if policy.is_deleting() {
        plan.push(Effect::Retry, Reason::ClaimantDeleting { policy: key }.into());
        return;
    }
    if policy.matches(identity).is_none() {
        plan.note(Reason::SelectorsLeft { policy: key }.into());
        return;
    }
    if !overrides_exist(plan, seen, policy) {
        return;
    }
    let claim = claim_of(plan, policy, ids);
    if let Some(patch) = claim.patch_of_template(seen.template) {
        plan.push(Effect::PatchTemplate { patch }, Reason::StaysClaimed { policy: key }.into());
        return;
    }
    if policy.is_lazy() && lazy_waits(plan, seen, policy) {
        return;
    }
    if !template::annotation(seen.template, AWAITS_EDIT).is_empty() {
        // Remove the annotation before the binding exists, so that no member receives it.
        let patch = json!({"metadata": {"annotations": {AWAITS_EDIT: null}}});
        plan.push(Effect::PatchTemplate { patch }, Reason::StaysClaimed { policy: key }.into());
        return;
    }
    stop_waiting(plan, seen);
    bind(plan, seen, policy, &claim, ids);
}

/// Returns true if a lazy policy leaves the binding unchanged, since the user did not change the template
/// (specification/propagation.md 6.5).
fn lazy_waits(plan: &mut Plan<Effect>, seen: &Seen<'_>, policy: Policy<'_>) -> bool {
    let hash = TemplateHash::of(seen.template);
    let unchanged = match seen.binding {
        None => template::annotation(seen.template, AWAITS_EDIT) == hash.users_text(),
        Some(binding) => {
            let annotations = binding.metadata().annotations.as_ref();
            let recorded = annotations.and_then(|a| a.get(APPLIED_TEMPLATE));
            recorded.and_then(|text| TemplateHash::parse(text)).is_some_and(|recorded| recorded.users == hash.users)
        }
    };
    if unchanged {
        plan.note(Reason::LazyWaits { policy: policy.key() }.into());
    }
    unchanged
}

fn bind(plan: &mut Plan<Effect>, seen: &Seen<'_>, policy: Policy<'_>, claim: &Claim, ids: &mut NewIds) {
    let about = Identity::of(seen.template).reference();
    let resolved = seen
        .priority_classes
        .zip(policy.spec().schedule_priority.as_ref())
        .map(|(classes, priority)| priority::resolve(priority, seen.template, classes));
    if let Some(warning) = resolved.as_ref().and_then(|resolved| resolved.warning.as_ref()) {
        for about in [Some(about.clone()), seen.binding.map(Binding::reference)].into_iter().flatten() {
            let event = Event::warning(about, events::PRIORITY_CLASS_NOT_FOUND, warning.clone());
            plan.effects.push(Effect::Event(event));
        }
    }
    let binding = binding::Seen {
        template: seen.template,
        policy,
        claim,
        binding: seen.binding,
        named: seen.named,
        schedule_priority: resolved.as_ref().map(|resolved| &resolved.priority),
        interpreter: seen.interpreter,
        options: seen.options,
        now: seen.now,
    };
    match binding::decide(&binding, ids) {
        Ok(made) => {
            for because in &made.because {
                if let Because::Propagation(Reason::NameTaken { .. }) = because {
                    let event = Event::warning(about.clone(), events::APPLY_POLICY_FAILED, because.to_string());
                    plan.effects.push(Effect::Event(event));
                }
            }
            plan.because.extend(made.because);
            plan.effects.extend(made.effects.into_iter().map(|effect| match effect {
                binding::Effect::Create(binding) => Effect::CreateBinding(binding),
                binding::Effect::CreateCluster(binding) => Effect::CreateClusterBinding(binding),
                binding::Effect::Patch { key, patch } => Effect::PatchBinding { key, patch },
                binding::Effect::Retry => Effect::Retry,
            }));
        }
        Err(error) => {
            let message = error.to_string();
            let what = match binding::sizing_operation(&binding) {
                Operation::InterpretComponent => events::GET_COMPONENTS_FAILED,
                _ => events::GET_REPLICAS_FAILED,
            };
            for reason in [what, events::APPLY_POLICY_FAILED] {
                plan.effects.push(Effect::Event(Event::warning(about.clone(), reason, message.clone())));
            }
            plan.push(Effect::Retry, Reason::NotInterpreted { message }.into());
        }
    }
}

/// Event on the template if the API server refuses its binding, by the class of the failed write: a name that is too
/// long, or an admission rule (specification/propagation.md 5.3). `None` for failures that do not concern the
/// template; those are retried.
#[must_use]
pub fn binding_failed_event(template: &Value, class: &str, error: &str) -> Option<Event> {
    let about = || Identity::of(template).reference();
    matches!(class, "Invalid" | "Denied").then(|| Event::warning(about(), events::APPLY_POLICY_FAILED, error))
}

/// Matches an unclaimed template to a policy (specification/propagation.md 5.2, steps 5 and 6).
fn unclaimed(plan: &mut Plan<Effect>, seen: &Seen<'_>, identity: &Identity<'_>, ids: &mut NewIds) {
    let Some(choice) = policy_match::choose(seen.policies.iter().copied(), identity) else {
        plan.note(Reason::NoPolicyMatches { template: identity.key() }.into());
        if seen.waiting != Some(Waiting::ForPolicy) {
            plan.effects.push(Effect::Wait(Waiting::ForPolicy));
            // Retry once, soon: a policy that was created together with the template may not be in the cache yet.
            plan.effects.push(Effect::Retry);
        }
        return;
    };
    let policy = choice.policy;
    report_choice(plan, identity, &choice);
    if !overrides_exist(plan, seen, policy) {
        // The policy enqueues the templates that wait as soon as the last of its override policies exists.
        if seen.waiting.is_none() {
            plan.effects.push(Effect::Wait(Waiting::ForOverrides));
        }
        return;
    }
    let claim = claim_of(plan, policy, ids);
    if let Some(mut patch) = claim.patch_of_template(seen.template) {
        let waited = seen.waiting == Some(Waiting::ForPolicy);
        if policy.is_lazy() && (waited || is_older(seen.template, policy)) {
            // The template is older than the policy: claim it now, bind it at the user's next edit. Templates that did
            // not wait because no policy watched their kind are recognised by their age.
            patch["metadata"]["annotations"][AWAITS_EDIT] = TemplateHash::of(seen.template).users_text().into();
        }
        plan.effects.push(Effect::PatchTemplate { patch });
    }
    stop_waiting(plan, seen);
}

/// Returns true if the template was created before the policy.
fn is_older(template: &Value, policy: Policy<'_>) -> bool {
    let created: Option<Timestamp> = template::text(template, "/metadata/creationTimestamp").parse().ok();
    let policy = policy.metadata().creation_timestamp.as_ref().map(|time| time.0);
    created.zip(policy).is_some_and(|(template, policy)| template < policy)
}

/// Reports the chosen policy and, if others matched too, why they were not chosen (specification/propagation.md 31 row
/// 20).
fn report_choice(plan: &mut Plan<Effect>, identity: &Identity<'_>, choice: &Choice<'_>) {
    let chosen = Reason::PolicyChosen { policy: choice.policy.key(), by: choice.by.as_str() };
    let lost: Vec<Reason> =
        choice.losers.iter().map(|(policy, why)| Reason::PolicyLost { policy: policy.key(), why }).collect();
    if !lost.is_empty() {
        let reasons: Vec<String> = lost.iter().map(ToString::to_string).collect();
        let message = format!("{chosen}. {}", reasons.join("; "));
        plan.effects.push(Effect::Event(Event::normal(identity.reference(), events::APPLY_POLICY_SUCCEED, message)));
    }
    plan.note(chosen.into());
    plan.because.extend(lost.into_iter().map(Because::from));
}

/// Returns true if all override policies in `dependentOverrides` exist (specification/propagation.md 4.5).
fn overrides_exist(plan: &mut Plan<Effect>, seen: &Seen<'_>, policy: Policy<'_>) -> bool {
    let names = match policy {
        Policy::Namespaced(_) => seen.overrides,
        Policy::Cluster(_) => seen.cluster_overrides,
    };
    let missing: Vec<String> =
        policy.spec().dependent_overrides.iter().filter(|name| !names.contains(*name)).cloned().collect();
    if missing.is_empty() {
        return true;
    }
    let because = Reason::OverridesMissing { policy: policy.key(), missing };
    let about = Identity::of(seen.template).reference();
    plan.effects.push(Effect::Event(Event::warning(about, events::APPLY_POLICY_FAILED, because.to_string())));
    plan.push(Effect::Retry, because.into());
    false
}

/// The policy's claim. A policy without permanent id or finalizer is patched first.
fn claim_of(plan: &mut Plan<Effect>, policy: Policy<'_>, ids: &mut NewIds) -> Claim {
    let (id, patch) = claim::stamp(policy, ids);
    if let Some(patch) = patch {
        plan.effects.push(Effect::PatchPolicy { policy: policy.key(), patch });
    }
    Claim::new(policy, id)
}

fn stop_waiting(plan: &mut Plan<Effect>, seen: &Seen<'_>) {
    if seen.waiting.is_some() {
        plan.effects.push(Effect::StopWaiting);
    }
}
