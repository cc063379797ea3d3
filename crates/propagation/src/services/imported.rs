//! Decision of the controller `endpointSlice`: EndpointSlices that were collected for a ServiceExport, in the control
//! plane, for the Service of its ServiceImport (specification/mcs.md 4).

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{annotations::EXPORTED_SERVICE_NAME, work::Work};
use ironclad_fleet::{ClusterName, Plan, because::propagation::Reason, merge_patch_between};
use serde_json::{Value, json};

use super::{
    SLICE_API_VERSION, SLICE_KIND, ServiceKey,
    collect::{self, Flow},
    dispatch::release_former,
    manifest, slice,
};
use crate::work::{key_of, owned::Write};

/// Snapshot of one exported Service.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub key: &'a ServiceKey,
    /// Name of the Service that imports it.
    pub service: &'a str,
    /// The Works with slices that were collected for it.
    pub works: &'a [Arc<Work>],
    /// Slices of the control plane, in its namespace, that came from other clusters.
    pub slices: &'a [Arc<Value>],
    /// The clusters that are being deleted.
    pub leaving: &'a std::collections::BTreeSet<ClusterName>,
}

/// Write of an EndpointSlice of the control plane, or of a Work.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    Create(Value),
    Patch { name: String, patch: Value },
    Delete { name: String },
    Work(Write),
}

/// Makes the control plane's slices those that were collected.
pub fn decide(seen: &Seen<'_>) -> Plan<Effect> {
    let mut plan = Plan::default();
    plan.effects.extend(release_former(seen.works).map(Effect::Work));
    let mut wanted: BTreeMap<String, (ClusterName, Value)> = BTreeMap::new();
    for work in seen.works {
        let stays = work.metadata.deletion_timestamp.is_none() && collect::is_collected_for(work, Flow::ServiceExport);
        let Some(key) = key_of(work).filter(|key| stays && !seen.leaving.contains(&key.cluster)) else { continue };
        let Some(object) = manifest(work, SLICE_API_VERSION, SLICE_KIND) else { continue };
        let mut copy = slice::imported(&object, &key.cluster.0, seen.service);
        copy["metadata"]["annotations"][EXPORTED_SERVICE_NAME] = (*seen.key.name).into();
        let name = copy["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        wanted.entry(name).or_insert((key.cluster, copy));
    }
    let is_of_export = |slice: &Value| {
        let annotation = &slice["metadata"]["annotations"][EXPORTED_SERVICE_NAME];
        let service = slice::service_of(slice).map(|key| key.name);
        *annotation == *seen.key.name || (annotation.is_null() && service.as_deref() == Some(seen.service))
    };
    let name_of = |slice: &Value| slice["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    for present in seen.slices.iter().filter(|slice| is_of_export(slice)) {
        let name = name_of(present);
        if present["metadata"]["deletionTimestamp"].is_null() && !wanted.contains_key(&name) {
            plan.effects.push(Effect::Delete { name });
        }
    }
    for (name, (cluster, copy)) in wanted {
        let because = Reason::Reported { cluster };
        match seen.slices.iter().find(|slice| name_of(slice) == name) {
            None => plan.push(Effect::Create(copy), because.into()),
            Some(present) => {
                let mut next = (**present).clone();
                for field in ["addressType", "endpoints", "ports"] {
                    next[field] = copy[field].clone();
                }
                for map in ["labels", "annotations"] {
                    for (key, value) in copy["metadata"][map].as_object().into_iter().flatten() {
                        next["metadata"][map][key.as_str()] = value.clone();
                    }
                }
                if let Some(patch) = merge_patch_between(&comparable(present), &comparable(&next)) {
                    plan.push(Effect::Patch { name, patch }, because.into());
                }
            }
        }
    }
    plan
}

/// The fields that are written, with nothing for absent lists.
fn comparable(slice: &Value) -> Value {
    let list = |field: &str| if slice[field].is_null() { json!([]) } else { slice[field].clone() };
    json!({
        "metadata": {"labels": slice["metadata"]["labels"], "annotations": slice["metadata"]["annotations"]},
        "endpoints": list("endpoints"), "ports": list("ports"),
    })
}
