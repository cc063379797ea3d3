//! What is seen of one binding on its way to Works.

use std::{sync::Arc, time::Duration};

use ironclad_api::{
    gates::Gate,
    names,
    policy::{ClusterOverridePolicy, OverridePolicy},
    work::Work,
};
use ironclad_interpreter::Interpreter;
use ironclad_propagation::{
    binding::{Options, Seen, first_names},
    template::Identity,
};
use ironclad_runtime::{Failure, Key};
use ironclad_scheduling::Clusters;
use serde_json::Value;

use crate::{AnyBinding, Context, index::BY_BINDING, selected::may_select};

/// The snapshot.
pub(super) struct Observed {
    /// The binding; its version is the one to write over.
    pub(super) binding: AnyBinding,
    /// The Works that carry its id.
    pub(super) works: Vec<Arc<Work>>,
    /// The Works that stand under the names it would use.
    pub(super) named: Vec<Arc<Work>>,
    template: Option<Value>,
    clusters: Arc<Clusters>,
    cluster_overrides: Vec<Arc<ClusterOverridePolicy>>,
    overrides: Vec<Arc<OverridePolicy>>,
    /// Answers about kinds, for this decision.
    pub(super) interpreter: Interpreter,
    options: Options,
    held: Duration,
}

impl Observed {
    /// Decides over the snapshot.
    pub(super) fn with_seen<T>(&self, decide: impl FnOnce(&Seen<'_>) -> T) -> T {
        decide(&Seen {
            binding: self.binding.view(),
            template: self.template.as_ref(),
            works: &self.works,
            named: &self.named,
            clusters: &self.clusters,
            cluster_overrides: &self.cluster_overrides,
            overrides: &self.overrides,
            interpreter: &self.interpreter,
            options: &self.options,
            waited: self.held,
        })
    }
}

pub(super) async fn observe(cx: &Context, key: &Key) -> Result<Option<Observed>, Failure> {
    let Some(binding) = cx.bindings.get(key) else { return Ok(None) };
    let template_key = binding.template();
    let template = cx.templates.read(&template_key).await?;
    let works = binding.view().permanent_id().map(|id| cx.works.by_index(BY_BINDING, id)).unwrap_or_default();
    let named = first_names(binding.spec())
        .iter()
        .filter_map(|work| cx.works.get(&names::execution_namespace(&work.cluster.0), &work.name))
        .collect();
    let identity = template.as_ref().map(Identity::of);
    let cluster_overrides = identity.as_ref().map(|id| may_select(&cx.cluster_overrides, "", id)).unwrap_or_default();
    let overrides = identity
        .filter(|id| !id.namespace.is_empty())
        .map(|id| may_select(&cx.overrides, id.namespace, &id))
        .unwrap_or_default();
    Ok(Some(Observed {
        works,
        named,
        template,
        clusters: cx.all_clusters(),
        cluster_overrides,
        overrides,
        interpreter: cx.interpreter(),
        options: Options { state_injection: cx.settings.gates.enabled(Gate::StatefulFailoverInjection) },
        held: cx.held.since(key, cx.seam.clock.mono()),
        binding,
    }))
}
