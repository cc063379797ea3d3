//! Clusters that get no further replicas of a binding for some time, since the descheduler took some back
//! (specification/scheduling.md 12.1).

use std::collections::BTreeMap;

use ironclad_api::{annotations::DESCHEDULED, work::ResourceBinding};
use ironclad_fleet::{BindingRef, ClusterName};
use jiff::Timestamp;
use serde_json::json;

/// Clusters that get no further replicas of the binding at present, and until when.
#[must_use]
pub fn avoided(binding: BindingRef<'_>, now: Timestamp) -> BTreeMap<ClusterName, Timestamp> {
    let mut all = recorded(binding);
    all.retain(|_, until| *until > now);
    all
}

/// The binding without records that have passed; `None` if it has none of these. For dry runs, which know no time.
#[must_use]
pub fn without_past(binding: &ResourceBinding, now: Timestamp) -> Option<ResourceBinding> {
    let all = recorded(binding.into());
    let left: BTreeMap<&str, String> =
        all.iter().filter(|(_, until)| **until > now).map(|(name, until)| (&*name.0, until.to_string())).collect();
    if left.len() == all.len() {
        return None;
    }
    let mut binding = binding.clone();
    let annotations = binding.metadata.annotations.get_or_insert_default();
    annotations.insert(DESCHEDULED.to_owned(), json!(left).to_string());
    Some(binding)
}

/// Clusters of the annotation. One that cannot be read names none.
pub(crate) fn recorded(binding: BindingRef<'_>) -> BTreeMap<ClusterName, Timestamp> {
    let text = binding.metadata().annotations.as_ref().and_then(|all| all.get(DESCHEDULED));
    let all: BTreeMap<String, Timestamp> = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    all.into_iter().map(|(name, until)| (name.as_str().into(), until)).collect()
}
