//! Differences between an object in a member and its Work, which the next reconcile of the Work would correct.

use ironclad_api::work::Work;
use ironclad_interpreter::Interpreter;
use serde_json::Value;

use super::{
    compare,
    object::{finished, object_key},
    owner::{self, Owner},
    ownership, retention,
};
use crate::template::{self, Identity};

/// JSON pointer of the first difference between the whole object of a member and its Work, including labels and
/// annotations. Fields that the member owns are ignored (specification/propagation.md 13.2,
/// specification/propagation.md 14). `None` if nothing differs, if the object is not the Work's or is being deleted,
/// and if its retained fields are unknown.
#[must_use]
pub fn drifted(work: &Work, object: &Value, interpreter: &Interpreter) -> Option<String> {
    let [raw] = work.spec.workload.manifests.as_slice() else { return None };
    let raw = raw.object();
    let manifest = finished(work, &raw);
    let is_it = object_key(work).is_some_and(|key| key == Identity::of(object).key());
    if !is_it || template::is_deleting(object) || owner::of(object, &manifest) != Owner::Ours {
        return None;
    }
    let retained = retention::retain_metadata(&manifest, object);
    let merged = ownership::merge(&retained, object);
    let desired = interpreter.retain(&merged.object, object).ok()?;
    compare::difference(&desired, object).or(merged.removed)
}
