//! Priority classes and leases.

use serde_json::Value;

use crate::{object, status::Cause};

use super::{at, immutable};

/// The classes that every cluster has, with their values.
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

pub(super) fn priority_class(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    const USER_MAX: i64 = 1_000_000_000;
    if let Some(old) = old {
        if old["value"] != object["value"] {
            out.push(Cause::forbidden("value", "may not be changed in an update."));
        }
        return immutable(object, Some(old), "/preemptionPolicy", out);
    }
    let (name, value) = (object::meta_str(object, "name"), at(object, "/value").as_i64().unwrap_or(0));
    if name.starts_with("system-") {
        let why = match SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, known)) if *known != value => Some(format!("value of {name} PriorityClass must be {known}")),
            Some(_) if object["globalDefault"] == true => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(why) = why {
            let reserved = "priority class names with 'system-' prefix are reserved for system use only. error:";
            out.push(Cause::forbidden("metadata.name", format!("{reserved} {why}")));
        }
    } else if value > USER_MAX {
        let why = format!("maximum allowed value of a user defined priority is {USER_MAX}");
        out.push(Cause::forbidden("value", why));
    }
    super::one_of(object, "/preemptionPolicy", &["PreemptLowerPriority", "Never"], out);
}

pub(super) fn lease(object: &Value, out: &mut Vec<Cause>) {
    let seconds = at(object, "/spec/leaseDurationSeconds");
    if seconds.as_i64().is_some_and(|s| s <= 0) {
        out.push(Cause::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
    }
    let transitions = at(object, "/spec/leaseTransitions");
    if transitions.as_i64().is_some_and(|t| t < 0) {
        out.push(Cause::invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"));
    }
}
