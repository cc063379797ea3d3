//! Decision of the policy controller: effects of a policy on the templates it selects or has claimed
//! (specification/propagation.md 6; specification/propagation.md 31 rows 10 and 21).
//!
//! Module `detector` decides for one template. This module only decides which templates to reconcile, which claims to
//! release, and which templates to preempt.

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, time::Duration};

use ironclad_api::{events, policy::PolicyPreemption, policy::ResourceSelector, work::ObjectReference};
use ironclad_fleet::{Because, BindingKey, Event, Gvk, ObjectKey, Plan, because::propagation::Reason, finalizer};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    detector::{
        binding::Binding,
        claim::{self, Claim, ClaimScope},
    },
    new_ids::NewIds,
    policy_match::Policy,
    selector,
    template::{self, Identity},
};

/// Reason of the event that a policy selects no template yet.
const NO_TEMPLATE_MATCHED: &str = "NoTemplateMatched";
/// Age below which a policy may have templates that the detector has not reconciled yet.
const IDLE_AFTER: SignedDuration = SignedDuration::from_secs(5);
/// Delay before a young policy without templates is reconciled again.
const IDLE_RECHECK: Duration = Duration::from_secs(6);

/// Binding with the policy's id, and its template.
#[derive(Debug, Clone, Copy)]
pub struct Claimed<'a> {
    pub binding: Binding<'a>,
    /// The template of `spec.resource`, if it exists.
    pub template: Option<&'a Value>,
}

/// Snapshot of one policy.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub policy: Policy<'a>,
    /// The bindings with the policy's id: of its namespace, for a ClusterPropagationPolicy of all,
    /// ClusterResourceBindings included.
    pub claimed: &'a [Claimed<'a>],
    /// The templates with the policy's id, each with its binding: of the kinds that its selectors name, and of those
    /// that are watched for others.
    pub templates: &'a [Template<'a>],
    /// Waiting templates that it may select, or all waiting templates.
    pub waiting: &'a [&'a Value],
    /// Candidates for preemption: the templates that its selectors name, each with its present policy. `None` if the
    /// gate `PropagationPolicyPreemption` is off.
    pub preemption: Option<&'a [Candidate<'a>]>,
    /// Current time.
    pub now: Timestamp,
}

/// Template with the policy's id.
#[derive(Debug, Clone, Copy)]
pub struct Template<'a> {
    pub template: &'a Value,
    pub binding: Option<Binding<'a>>,
}

/// Template and its claiming policy.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    pub template: &'a Value,
    /// The policy that its claim names, if it exists.
    pub holder: Option<Policy<'a>>,
}

/// Write, requeue or event.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Patch the policy: set permanent id and finalizer, or remove the finalizer.
    PatchPolicy {
        /// Merge patch without resourceVersion.
        patch: Value,
    },
    PatchTemplate {
        key: ObjectKey,
        /// Merge patch without resourceVersion.
        patch: Value,
    },
    PatchBinding {
        key: BindingKey,
        /// Merge patch without resourceVersion.
        patch: Value,
    },
    /// Reconcile this template at low priority (-100).
    Enqueue { template: ObjectKey },
    /// Reconcile the policy again after this time.
    RequeueAfter(Duration),
    /// Record an event.
    Event(Event),
}

/// Decides the effects of the present policy. Once they are applied, only enqueues remain.
pub fn decide(seen: &Seen<'_>, mut ids: NewIds) -> Plan<Effect> {
    let mut plan = Plan::default();
    if seen.policy.is_deleting() {
        deleted(&mut plan, seen);
        return plan;
    }
    let (id, patch) = claim::stamp(seen.policy, &mut ids);
    plan.effects.extend(patch.map(|patch| Effect::PatchPolicy { patch }));
    let claim = Claim::new(seen.policy, id);
    release(&mut plan, seen, &claim);
    enqueue_waiting(&mut plan, seen);
    preempt(&mut plan, seen, &claim);
    report_if_idle(&mut plan, seen);
    plan
}

/// Releases templates that the selectors no longer match, and enqueues those that they do
/// (specification/propagation.md 6.1, steps 1 and 2).
fn release(plan: &mut Plan<Effect>, seen: &Seen<'_>, claim: &Claim) {
    for claimed in seen.claimed {
        let Some(template) = claimed.template else { continue };
        let identity = Identity::of(template);
        if seen.policy.matches(&identity).is_some() {
            plan.effects.push(Effect::Enqueue { template: identity.key() });
            continue;
        }
        // Patch the template first: its own change reconciles it after the release.
        if let Some(patch) = claim.removal_from_template(template) {
            plan.effects.push(Effect::PatchTemplate { key: identity.key(), patch });
        }
        if let Some(patch) = claim.removal(claimed.binding.metadata()) {
            plan.effects.push(Effect::PatchBinding { key: claimed.binding.key(), patch });
        }
        plan.note(Reason::SelectorsLeft { policy: seen.policy.key() }.into());
    }
    // Claimed without binding: a crash between both writes, or a lazy policy that waits.
    for claimed_template in seen.templates.iter().filter(|claimed_template| claimed_template.binding.is_none()) {
        plan.effects.push(Effect::Enqueue { template: Identity::of(claimed_template.template).key() });
    }
}

/// Enqueues waiting templates that the policy selects (specification/propagation.md 6.1, step 3). The detector has them
/// wait for its override policies.
fn enqueue_waiting(plan: &mut Plan<Effect>, seen: &Seen<'_>) {
    let identities = seen.waiting.iter().map(|template| Identity::of(template));
    let matching = identities.filter(|identity| seen.policy.matches(identity).is_some());
    plan.effects.extend(matching.map(|identity| Effect::Enqueue { template: identity.key() }));
}

/// Preempts templates that other policies claimed (specification/propagation.md 6.3). Level-triggered: the present
/// priority of the other policy counts, so that no preemption is missed when it drops.
fn preempt(plan: &mut Plan<Effect>, seen: &Seen<'_>, claim: &Claim) {
    let policy = seen.policy;
    let Some(candidates) = seen.preemption.filter(|_| policy.spec().preemption == Some(PolicyPreemption::Always))
    else {
        return;
    };
    for claimed_template in candidates {
        let identity = Identity::of(claimed_template.template);
        let Some(current) = Claim::of_template(claimed_template.template) else { continue };
        if template::is_deleting(claimed_template.template)
            || current.policy() == policy.key()
            || policy.matches(&identity).is_none()
        {
            continue;
        }
        let from = current.policy();
        if !may_take(claim.scope, policy.spec().priority(), &current, claimed_template.holder) {
            plan.note(Reason::MayNotPreempt { policy: policy.key(), from }.into());
            continue;
        }
        if let Some(patch) = claim.patch_of_template(claimed_template.template) {
            let because = Because::from(Reason::Preempts { policy: policy.key(), from });
            let event = Event::normal(identity.reference(), events::PREEMPT_POLICY_SUCCEED, because.to_string());
            plan.push(Effect::PatchTemplate { key: identity.key(), patch }, because);
            plan.effects.push(Effect::Event(event));
        }
    }
}

/// Event on a template that this policy could not preempt (specification/propagation.md 6.3), by the class of the
/// failed write. `None` if no other policy claimed it, or if the template changed or was deleted: then the decision is
/// made again.
#[must_use]
pub fn preemption_failed_event(policy: Policy<'_>, template: &Value, class: &str, error: &str) -> Option<Event> {
    if matches!(class, "Conflict" | "NotFound") {
        return None;
    }
    let from = Claim::of_template(template)?.policy();
    let because = Reason::Preempts { policy: policy.key(), from: from.clone() };
    let event = || {
        let about = Identity::of(template).reference();
        Event::warning(about, events::PREEMPT_POLICY_FAILED, format!("{because}: {error}"))
    };
    (from != policy.key()).then(event)
}

/// The table of specification/propagation.md 6.3. A policy that does not exist defends no claim.
fn may_take(scope: ClaimScope, priority: i32, current: &Claim, holder: Option<Policy<'_>>) -> bool {
    let stronger = holder.is_none_or(|holder| priority > holder.spec().priority());
    match (scope, current.scope) {
        (ClaimScope::Namespaced, ClaimScope::Cluster) => true,
        (ClaimScope::Cluster, ClaimScope::Namespaced) => false,
        (ClaimScope::Namespaced, ClaimScope::Namespaced) | (ClaimScope::Cluster, ClaimScope::Cluster) => stronger,
    }
}

/// Returns true if the policy may select this template, whatever its labels are.
#[must_use]
pub fn may_select(policy: Policy<'_>, template: &ObjectKey) -> bool {
    let own = policy.key().namespace;
    let kind = (&*template.gvk.api_version(), &*template.gvk.kind);
    (own.is_empty() || own == template.namespace)
        && policy
            .spec()
            .resource_selectors
            .iter()
            .any(|s| selector::may_take(s, kind, &template.namespace, &template.name))
}

/// The templates that a preempting policy may claim: those that its selectors name. Empty for a policy that does not
/// preempt.
#[must_use]
pub fn candidates(policy: Policy<'_>) -> Vec<ObjectKey> {
    if policy.spec().preemption != Some(PolicyPreemption::Always) || policy.is_deleting() {
        return Vec::new();
    }
    let own = policy.key().namespace;
    let selectors = policy.spec().resource_selectors.iter().filter(|selector| !selector.name.is_empty());
    selectors
        .map(|selector| ObjectKey {
            gvk: Gvk::from_manifest(&selector.api_version, &selector.kind),
            namespace: if own.is_empty() { selector.namespace.as_str().into() } else { own.clone() },
            name: selector.name.as_str().into(),
        })
        .collect()
}

/// Reports a policy that selects no template: most often its selectors are misspelt.
fn report_if_idle(plan: &mut Plan<Effect>, seen: &Seen<'_>) {
    let idle = seen.claimed.is_empty()
        && seen.templates.is_empty()
        && !plan.effects.iter().any(|e| matches!(e, Effect::Enqueue { .. } | Effect::PatchTemplate { .. }));
    if !idle {
        return;
    }
    // The detector may not have reconciled templates that were created together with the policy.
    let created = seen.policy.metadata().creation_timestamp.as_ref().map(|time| time.0);
    if created.is_some_and(|created| seen.now.duration_since(created) < IDLE_AFTER) {
        plan.effects.push(Effect::RequeueAfter(IDLE_RECHECK));
        return;
    }
    let selectors: Vec<String> = seen.policy.spec().resource_selectors.iter().map(selector_text).collect();
    let message = format!(
        "no template matches the resource selectors yet; the policy is applied as soon as one does: check apiVersion, \
         kind, name and namespace of {}",
        selectors.join(", ")
    );
    let metadata = seen.policy.metadata();
    let about = ObjectReference {
        api_version: "policy.karmada.io/v1alpha1".into(),
        kind: match seen.policy {
            Policy::Namespaced(_) => "PropagationPolicy".into(),
            Policy::Cluster(_) => "ClusterPropagationPolicy".into(),
        },
        namespace: seen.policy.key().namespace.to_string(),
        name: seen.policy.key().name.to_string(),
        uid: metadata.uid.clone().unwrap_or_default(),
        resource_version: String::new(),
    };
    plan.effects.push(Effect::Event(Event::normal(about, NO_TEMPLATE_MATCHED, message)));
}

fn selector_text(selector: &ResourceSelector) -> String {
    let mut text = format!("{} {}", selector.api_version, selector.kind);
    match (selector.namespace.as_str(), selector.name.as_str()) {
        ("", "") => {}
        ("", name) => text.push_str(&format!(" {name}")),
        (namespace, "") => text.push_str(&format!(" in {namespace}")),
        (namespace, name) => text.push_str(&format!(" {namespace}/{name}")),
    }
    if selector.label_selector.is_some() {
        text.push_str(" by label");
    }
    text
}

/// Releases all claims, then removes the finalizer (specification/propagation.md 6.2). Bindings, Works and copies
/// remain.
fn deleted(plan: &mut Plan<Effect>, seen: &Seen<'_>) {
    let key = seen.policy.key();
    if let Some(id) = seen.policy.permanent_id() {
        let claim = Claim::new(seen.policy, id.to_owned());
        let because = Because::from(Reason::ClaimantGone { policy: key });
        let mut bindings: Vec<(BindingKey, Value)> = Vec::new();
        let with_template = seen.templates.iter().filter_map(|claimed_template| claimed_template.binding);
        for binding in seen.claimed.iter().map(|claimed| claimed.binding).chain(with_template) {
            if let Some(patch) = claim.removal(binding.metadata())
                && !bindings.iter().any(|(known, _)| *known == binding.key())
            {
                bindings.push((binding.key(), patch));
            }
        }
        // Patch bindings first: the template is the index by which a retry finds them.
        plan.effects.extend(bindings.into_iter().map(|(key, patch)| Effect::PatchBinding { key, patch }));
        // The selectors may have changed since the claim: the bindings name templates of kinds that they no longer
        // have.
        let of_bindings = seen.claimed.iter().filter_map(|claimed| claimed.template);
        let mut released = BTreeSet::new();
        for template in seen.templates.iter().map(|claimed| claimed.template).chain(of_bindings) {
            let identity = Identity::of(template);
            if let Some(patch) = claim.removal_from_template(template)
                && released.insert(identity.key())
            {
                let event = Event::normal(identity.reference(), events::APPLY_POLICY_SUCCEED, because.to_string());
                plan.push(Effect::PatchTemplate { key: identity.key(), patch }, because.clone());
                plan.effects.push(Effect::Event(event));
            }
        }
    }
    if let Some(rest) = finalizer::removed(seen.policy.metadata(), seen.policy.finalizer()) {
        plan.effects.push(Effect::PatchPolicy { patch: json!({"metadata": {"finalizers": rest}}) });
    }
}
