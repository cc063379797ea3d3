//! The snapshot of one policy: the objects that carry its permanent id, and the templates that wait for a policy.

use std::{collections::BTreeSet, sync::Arc};

use ironclad_fleet::{Binding, Gvk, ObjectKey, PolicyKey, gates::Gate};
use ironclad_propagation::{
    detector::claim::Claim,
    policy::{self, Claimed, Seen, Template},
};
use ironclad_runtime::{Failure, Informer, Key};
use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::{
    bindings::Bindings,
    index::{BY_POLICY, object_key},
    mapper::Mapper,
    objects::Objects,
    policies::{AnyPolicy, Policies},
    settings::Settings,
    setup::Setup,
    templates::TemplateQueue,
};

/// The caches that the controller reads.
pub(super) struct Observer {
    policies: Policies,
    bindings: Bindings,
    templates: Arc<Objects<DynamicObject>>,
    queue: TemplateQueue,
    mapper: Arc<Mapper>,
    settings: Arc<Settings>,
}

/// The snapshot.
pub(super) struct Observed {
    /// The policy; its version is the one to write over.
    pub(super) policy: AnyPolicy,
    /// The bindings that carry its id, each with its template.
    pub(super) claimed: Vec<(Binding, Option<CachedTemplate>)>,
    /// The templates that carry its id, each with its binding.
    pub(super) templates: Vec<(CachedTemplate, Option<Binding>)>,
    waiting: Vec<Value>,
    preemption: Option<Vec<(CachedTemplate, Option<AnyPolicy>)>>,
    overrides: BTreeSet<String>,
    /// Reasons why kinds could not be listed: their templates are missing here.
    pub(super) unlisted: BTreeSet<String>,
}

pub(super) struct CachedTemplate {
    pub(super) key: ObjectKey,
    pub(super) object: Arc<DynamicObject>,
    /// Its JSON, as decisions read it.
    pub(super) json: Value,
}

impl CachedTemplate {
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
            .map(|(binding, cached)| Claimed { binding: binding.view(), template: cached.as_ref().map(|h| &h.json) })
            .collect();
        let templates: Vec<Template<'_>> = self
            .templates
            .iter()
            .map(|(cached, binding)| Template { template: &cached.json, binding: binding.as_ref().map(Binding::view) })
            .collect();
        let waiting: Vec<&Value> = self.waiting.iter().collect();
        let preemption: Option<Vec<policy::Candidate<'_>>> = self.preemption.as_ref().map(|all| {
            let pairs = all.iter().map(|(cached, holder)| (&cached.json, holder.as_ref()));
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
    pub(super) fn cached(&self) -> impl Iterator<Item = &CachedTemplate> {
        let candidates = self.preemption.iter().flatten().map(|(cached, _)| cached);
        let claimed = self.claimed.iter().filter_map(|(_, cached)| cached.as_ref());
        self.templates.iter().map(|(cached, _)| cached).chain(claimed).chain(candidates)
    }

    /// The bindings that were seen.
    pub(super) fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.claimed.iter().map(|(binding, _)| binding).chain(self.templates.iter().filter_map(|(_, b)| b.as_ref()))
    }
}

impl Observer {
    pub(super) fn new(setup: &Setup, policies: Policies) -> Self {
        Self {
            policies,
            bindings: setup.bindings().clone(),
            templates: setup.templates().clone(),
            queue: setup.template_queue().clone(),
            mapper: setup.mapper.clone(),
            settings: setup.settings.clone(),
        }
    }

    pub(super) async fn observe(&self, key: &Key) -> Result<Option<Observed>, Failure> {
        let policy = self.policies.get(&PolicyKey { namespace: key.namespace.clone(), name: key.name.clone() });
        let Some(policy) = policy else { return Ok(None) };
        let ids = policy.ids();
        let kinds: BTreeSet<Gvk> = policy
            .view()
            .spec()
            .resource_selectors
            .iter()
            .map(|s| Gvk::from_manifest(&s.api_version, &s.kind))
            .collect();
        let (mut templates, mut unlisted) = (Vec::new(), BTreeSet::new());
        for gvk in &kinds {
            let informer = match self.selectable(gvk).await {
                Ok(Some(informer)) => informer,
                // The policy is enqueued again when the kind is served.
                Ok(None) => continue,
                // One kind that can't be listed stops neither the others nor the end of the policy.
                Err(failure) => {
                    unlisted.insert(failure.to_string());
                    continue;
                }
            };
            templates.extend(self.with_ids(gvk, &informer, &ids)?);
        }
        // A claim may be older than the selectors: look at the other kinds that are watched, too.
        for gvk in self.templates.kinds().iter().filter(|gvk| !kinds.contains(*gvk)) {
            let Some((_, informer)) = self.templates.watched(gvk) else { continue };
            templates.extend(self.with_ids(gvk, &informer, &ids)?);
        }
        let mut claimed = Vec::new();
        for binding in ids.iter().flat_map(|id| self.bindings.by_index(BY_POLICY, id)) {
            let key = binding.template();
            if let Err(failure) = self.templates.listed(&key.gvk).await {
                unlisted.insert(failure.to_string());
            }
            let cached = self.templates.get(&key).map(|object| CachedTemplate::new(key, object)).transpose()?;
            claimed.push((binding, cached));
        }
        let mut waiting = Vec::new();
        for key in self.queue.selected(policy.view()) {
            if let Some(object) = self.templates.get(&key) {
                waiting.push(CachedTemplate::new(key, object)?.json);
            }
        }
        let (namespaced, cluster) = self.policies.dependent_overrides(std::slice::from_ref(&policy));
        let overrides = if key.namespace.is_empty() { cluster } else { namespaced };
        let preempts = self.settings.gates.enabled(Gate::PropagationPolicyPreemption);
        let preemption = preempts.then(|| self.preemption(&policy)).transpose()?;
        Ok(Some(Observed { policy, claimed, templates, waiting, preemption, overrides, unlisted }))
    }

    /// The templates of a kind with one of these ids, each with its binding.
    fn with_ids(
        &self,
        gvk: &Gvk,
        informer: &Informer<DynamicObject>,
        ids: &[String],
    ) -> Result<Vec<(CachedTemplate, Option<Binding>)>, Failure> {
        let objects = ids.iter().flat_map(|id| informer.by_index(BY_POLICY, id));
        let with_binding = |object: Arc<DynamicObject>| -> Result<_, Failure> {
            let cached = CachedTemplate::new(object_key(gvk, &*object), object)?;
            let binding = self.bindings.of_template(&cached.key);
            Ok((cached, binding))
        };
        objects.map(with_binding).collect()
    }

    /// The informer of a kind whose objects may be templates, at the version that discovery prefers
    /// (specification/propagation.md 2).
    async fn selectable(&self, gvk: &Gvk) -> Result<Option<Informer<DynamicObject>>, Failure> {
        if self.settings.propagation.skipped.skips_kind(gvk) || !self.mapper.prefers(gvk).await? {
            return Ok(None);
        }
        self.templates.listed(gvk).await
    }

    /// The templates that the policy names, each with the policy that holds it.
    fn preemption(&self, policy: &AnyPolicy) -> Result<Vec<(CachedTemplate, Option<AnyPolicy>)>, Failure> {
        let mut all = Vec::new();
        for key in policy::candidates(policy.view()) {
            let Some(object) = self.templates.get(&key) else { continue };
            let cached = CachedTemplate::new(key, object)?;
            let holder = Claim::of_template(&cached.json).and_then(|claim| self.policies.get(&claim.policy()));
            all.push((cached, holder));
        }
        Ok(all)
    }
}
