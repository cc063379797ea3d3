//! Ownership across the scale subresource: its `spec.replicas` is a field of the main resource.

use serde_json::Value;

use super::{
    entries::{Entries, Entry, Owner},
    path::Element,
    set::Set,
};

/// The version that entries have while the scale subresource is written.
const SCALE_API_VERSION: &str = "autoscaling/v1";

fn replicas() -> Set {
    Set::of_fields(&[&["spec", "replicas"]])
}

fn path_of(fields: &[&str]) -> Vec<Element> {
    fields.iter().map(|name| Element::field(name)).collect()
}

/// Returns the `managedFields` of a Scale object: the entries of its parent that own the replicas, at `replicas_path`
/// in the parent (`["spec", "replicas"]`).
pub fn scale_from_parent(parent: &Value, replicas_path: &[&str]) -> Value {
    let path = path_of(replicas_path);
    let mut out = Entries::default();
    for (owner, entry) in Entries::of(parent).unwrap_or_default().0 {
        if entry.set.has(&path) {
            let api_version = SCALE_API_VERSION.to_owned();
            // Keep the identity of the parent's entry, so that `scale_to_parent` finds it.
            out.0.insert(owner, Entry { set: replicas(), api_version, ..entry });
        }
    }
    out.write()
}

/// Returns the parent's `managedFields` after a write of its Scale object: changed owners of the replicas change here,
/// too.
pub fn scale_to_parent(parent: &Value, scale: &Value, replicas_path: &[&str], api_version: &str) -> Value {
    let path = path_of(replicas_path);
    let mut of_scale = Entries::of(scale).unwrap_or_default();
    let mut of_path = Set::default();
    of_path.insert(&path);
    let mut out = Entries::default();
    // The version identifies an update entry, and differs between parent and Scale.
    let find = |entries: &Entries, owner: &Owner| {
        let as_scale = Owner {
            api_version: if owner.apply { String::new() } else { SCALE_API_VERSION.to_owned() },
            ..owner.clone()
        };
        [owner.clone(), as_scale].into_iter().find(|owner| entries.0.contains_key(owner))
    };
    for (owner, entry) in Entries::of(parent).unwrap_or_default().0 {
        if !entry.set.has(&path) {
            out.0.insert(owner, entry);
            continue;
        }
        match find(&of_scale, &owner) {
            Some(found) => {
                of_scale.0.remove(&found);
                out.0.insert(owner, entry);
            }
            None => {
                let set = entry.set.difference(&of_path);
                if !set.is_empty() {
                    out.0.insert(owner, Entry { set, ..entry });
                }
            }
        }
    }
    for (owner, entry) in of_scale.0.into_iter().filter(|(_, entry)| !entry.set.intersection(&replicas()).is_empty()) {
        let api_version = api_version.to_owned();
        let owner = Owner { api_version: if owner.apply { String::new() } else { api_version.clone() }, ..owner };
        // Kubernetes keeps the time of such an entry only if the parent had it: a new one has none.
        let time =
            out.0.get(&owner).and_then(|known| known.time.clone()).or(if owner.apply { entry.time } else { None });
        out.0.insert(owner, Entry { set: of_path.clone(), api_version, time });
    }
    out.write()
}
