//! PriorityClasses.

use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::Kind,
        shared::{
            columns::{AGE, NAME, created, name, number},
            defaults::set,
            fields::{at, immutable, one_of, text},
        },
    },
    object,
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults: |o| set(o, "preemptionPolicy", "PreemptLowerPriority"),
        validate,
        columns: &[
            NAME,
            ("Value", "integer", 0),
            ("Global-Default", "boolean", 0),
            AGE,
            ("PreemptionPolicy", "string", 0),
        ],
        cells: |o, now| {
            let (value, default) = (number(o, "/value"), o["globalDefault"] == true);
            let policy = text(o, "/preemptionPolicy");
            vec![name(o), json!(value), json!(default), created(o, now), json!(policy)]
        },
        ..Strategy::NONE
    },
    ..Kind::new("scheduling.k8s.io/v1 priorityclasses PriorityClass C short=pc gen")
};

/// The classes that every cluster has, with their values.
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
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
    one_of(object, "/preemptionPolicy", &["PreemptLowerPriority", "Never"], out);
}
