//! What is seen of one policy: what carries its id, and what waits for one like it.

use std::{collections::BTreeSet, sync::Arc};

use ironclad_fleet::{Gvk, ObjectKey, gates::Gate};
use ironclad_propagation::{
    detector::claim::Claim,
    policy::{self, Claimed, Seen, Template},
};
use ironclad_runtime::{Failure, Informer, Key};
use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::{
    AnyBinding, Context,
    detector::AnyPolicy,
    index::object_key,
    index::{BY_POLICY, BY_TEMPLATE, policy_ids, template_name},
};

/// The snapshot.
pub(super) struct Observed {
    /// The policy; its version is the one to write over.
    pub(super) policy: AnyPolicy,
    /// The bindings that carry its id, each with its template.
    pub(super) claimed: Vec<(AnyBinding, Option<Held>)>,
    /// The templates that carry its id, each with its binding.
    pub(super) templates: Vec<(Held, Option<AnyBinding>)>,
    waiting: Vec<Value>,
    preemption: Option<Vec<(Held, Option<AnyPolicy>)>>,
    overrides: BTreeSet<String>,
}

/// A cached template.
pub(super) struct Held {
    pub(super) key: ObjectKey,
    pub(super) object: Arc<DynamicObject>,
    /// The same, as decisions read it.
    pub(super) json: Value,
}

impl Held {
    fn new(key: ObjectKey, object: Arc<DynamicObject>) -> Result<Self, Failure> {
        let json = serde_json::to_value(&*object).map_err(|e| Failure::Invalid(e.to_string()))?;
        Ok(Self { key, object, json })
    }
}

impl Observed {
    /// Decides over the snapshot.
    pub(super) fn with_seen<T>(&self, now: Timestamp, decide: impl FnOnce(&Seen<'_>) -> T) -> T {
        let claimed: Vec<Claimed<'_>> = self
            .claimed
            .iter()
            .map(|(binding, held)| Claimed { binding: binding.view(), template: held.as_ref().map(|h| &h.json) })
            .collect();
        let templates: Vec<Template<'_>> = self
            .templates
            .iter()
            .map(|(held, binding)| Template { template: &held.json, binding: binding.as_ref().map(AnyBinding::view) })
            .collect();
        let waiting: Vec<&Value> = self.waiting.iter().collect();
        let preemption: Option<Vec<policy::Candidate<'_>>> = self.preemption.as_ref().map(|all| {
            let pairs = all.iter().map(|(held, holder)| (&held.json, holder.as_ref()));
            pairs
                .map(|(template, holder)| policy::Candidate { template, holder: holder.map(AnyPolicy::view) })
                .collect()
        });
        decide(&Seen {
            policy: self.policy.view(),
            claimed: &claimed,
            templates: &templates,
            waiting: &waiting,
            overrides: &self.overrides,
            preemption: preemption.as_deref(),
            now,
        })
    }

    /// The templates that were seen.
    pub(super) fn held(&self) -> impl Iterator<Item = &Held> {
        let candidates = self.preemption.iter().flatten().map(|(held, _)| held);
        let claimed = self.claimed.iter().filter_map(|(_, held)| held.as_ref());
        self.templates.iter().map(|(held, _)| held).chain(claimed).chain(candidates)
    }

    /// The bindings that were seen.
    pub(super) fn bindings(&self) -> impl Iterator<Item = &AnyBinding> {
        self.claimed.iter().map(|(binding, _)| binding).chain(self.templates.iter().filter_map(|(_, b)| b.as_ref()))
    }
}

pub(super) async fn observe(cx: &Context, key: &Key) -> Result<Option<Observed>, Failure> {
    let policy = if key.namespace.is_empty() {
        cx.cluster_policies.get_key(key).map(AnyPolicy::Cluster)
    } else {
        cx.policies.get_key(key).map(AnyPolicy::Namespaced)
    };
    let Some(policy) = policy else { return Ok(None) };
    let ids = match &policy {
        AnyPolicy::Namespaced(policy) => policy_ids(&**policy),
        AnyPolicy::Cluster(policy) => policy_ids(&**policy),
    };
    let kinds: BTreeSet<Gvk> =
        policy.view().spec().resource_selectors.iter().map(|s| Gvk::from_manifest(&s.api_version, &s.kind)).collect();
    let mut templates = Vec::new();
    for gvk in &kinds {
        // A kind that nobody serves: its coming brings the next pass.
        let Some(informer) = selectable(cx, gvk).await? else { continue };
        for object in ids.iter().flat_map(|id| informer.by_index(BY_POLICY, id)) {
            let held = Held::new(object_key(gvk, &*object), object)?;
            let binding = cx.bindings.by_index(BY_TEMPLATE, &template_name(&held.key)).into_iter().next();
            templates.push((held, binding));
        }
    }
    let mut claimed = Vec::new();
    for binding in ids.iter().flat_map(|id| cx.bindings.by_index(BY_POLICY, id)) {
        let key = binding.template();
        cx.templates.listed(&key.gvk).await?;
        let held = cx.templates.get(&key).map(|object| Held::new(key, object)).transpose()?;
        claimed.push((binding, held));
    }
    let mut waiting = Vec::new();
    for key in cx.waiting.selected(policy.view()) {
        if let Some(object) = cx.templates.get(&key) {
            waiting.push(Held::new(key, object)?.json);
        }
    }
    let (namespaced, cluster) = cx.overrides_asked_for(std::slice::from_ref(&policy));
    let overrides = if key.namespace.is_empty() { cluster } else { namespaced };
    let preempts = cx.settings.gates.enabled(Gate::PropagationPolicyPreemption);
    let preemption = preempts.then(|| preemption(cx, &policy)).transpose()?;
    Ok(Some(Observed { policy, claimed, templates, waiting, preemption, overrides }))
}

/// The informer of a kind whose objects may be templates, at the version that discovery prefers (propagation.md 2).
async fn selectable(cx: &Context, gvk: &Gvk) -> Result<Option<Informer<DynamicObject>>, Failure> {
    if cx.settings.propagation.skipped.skips_kind(gvk) || !cx.mapper.prefers(gvk).await? {
        return Ok(None);
    }
    cx.templates.listed(gvk).await
}

/// The templates that the policy names, each with the policy that holds it.
fn preemption(cx: &Context, policy: &AnyPolicy) -> Result<Vec<(Held, Option<AnyPolicy>)>, Failure> {
    let mut all = Vec::new();
    for key in policy::candidates(policy.view()) {
        let Some(object) = cx.templates.get(&key) else { continue };
        let held = Held::new(key, object)?;
        let holder = Claim::of_template(&held.json).and_then(|claim| cx.policy(&claim.policy()));
        all.push((held, holder));
    }
    Ok(all)
}
