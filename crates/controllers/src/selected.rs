//! Policies and override policies by what they may select, so that the reconciliation of one template does not read all
//! of them.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::policy::{
    ClusterOverridePolicy, ClusterPropagationPolicy, OverridePolicy, PropagationPolicy, ResourceSelector,
};
use ironclad_propagation::{selector, template::Identity};
use ironclad_runtime::{Informer, Key};

/// The index by what may be selected ([`values`]).
pub(crate) const BY_SELECTED: &str = "selected";

/// A kind that selects templates.
pub(crate) trait Selects: ironclad_runtime::Object {
    /// Its selectors, as stored.
    fn selectors(&self) -> &[ResourceSelector];
}

macro_rules! selects {
    ($($kind:ty),+) => {$(
        impl Selects for $kind {
            fn selectors(&self) -> &[ResourceSelector] {
                &self.spec.resource_selectors
            }
        }
    )+};
}

selects!(PropagationPolicy, ClusterPropagationPolicy, OverridePolicy, ClusterOverridePolicy);

/// The values of [`BY_SELECTED`] for a policy.
pub(crate) fn values<K: Selects>(policy: &K) -> Vec<String> {
    selector::index(policy.meta().namespace.as_deref().unwrap_or_default(), policy.selectors())
}

/// The policies of this scope (a namespace, or empty for cluster-wide ones) that may select the template, in order of
/// their names.
pub(crate) fn may_select<K: Selects>(policies: &Informer<K>, scope: &str, template: &Identity<'_>) -> Vec<Arc<K>> {
    let under = selector::found_under(scope, template);
    let found = under.iter().flat_map(|text| policies.by_index(BY_SELECTED, text));
    let by_name: BTreeMap<Key, Arc<K>> = found.map(|policy| (Key::of(&*policy), policy)).collect();
    by_name.into_values().collect()
}
