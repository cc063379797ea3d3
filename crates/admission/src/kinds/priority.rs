//! Priorities: the class that a policy names, and changes of a class (specification/admission.md 2.4,
//! specification/proposals/002.md).

use ironclad_api::policy::{PriorityClassSource, SchedulePriority};
use ironclad_fleet::gates::Gate;
use ironclad_patch::names;
use serde_json::Value;

use super::lens::{at, text};
use crate::{
    Denial, Need, Operation, Request, Resource,
    field::{Findings, Path},
    request::{Config, Cx, Needs},
};

const CLASSES: Resource =
    Resource { group: "scheduling.k8s.io", version: "v1", kind: "PriorityClass", plural: "priorityclasses" };

/// Largest value of a class that users create.
const VALUE_MAX: i64 = 1_000_000_000;

fn class(name: &str) -> Need {
    Need::Get { resource: CLASSES, namespace: String::new(), name: name.to_owned() }
}

/// Looks up the class that a policy names, to warn if it does not exist.
pub(crate) fn needs_class(priority: &SchedulePriority, needs: &mut Needs) {
    if priority.priority_class_source == PriorityClassSource::KubePriorityClass
        && !priority.priority_class_name.is_empty()
    {
        needs.insert(class(&priority.priority_class_name));
    }
}

/// Validates the schedule priority of a policy.
pub(crate) fn schedule_priority(priority: &SchedulePriority, path: &Path, cx: &Cx<'_>, out: &mut Findings) {
    let name = priority.priority_class_name.as_str();
    let name_path = path.child("priorityClassName");
    match priority.priority_class_source {
        PriorityClassSource::FederatedPriorityClass => {
            let detail = "priority class source FederatedPriorityClass is not supported: no such kind exists; use \
                          KubePriorityClass or PodPriorityClass";
            out.invalid(path.child("priorityClassSource"), "FederatedPriorityClass", detail);
            if name.is_empty() {
                out.required(name_path, "FederatedPriorityClass needs the name of a class");
            }
        }
        PriorityClassSource::PodPriorityClass if !name.is_empty() => {
            let detail = "with source PodPriorityClass the class that the pod template names is used; leave it empty, or use \
                          KubePriorityClass";
            out.forbidden(name_path, detail);
        }
        PriorityClassSource::KubePriorityClass if !name.is_empty() => {
            out.texts(name_path.clone(), name, names::dns1123_subdomain(name));
            if cx.lookups.get(&class(name)).is_some_and(<[Value]>::is_empty) {
                out.warn(format!(
                    "{name_path}: PriorityClass {name:?} does not exist: until it does, the default priority counts"
                ));
            }
        }
        PriorityClassSource::PodPriorityClass | PriorityClassSource::KubePriorityClass => {}
    }
    if !cx.config.gates.enabled(Gate::PriorityBasedScheduling) {
        out.warn(format!("{path} has no effect: feature gate PriorityBasedScheduling is off"));
    }
}

/// Looks up the other classes if this one is the default: only one may be.
pub(crate) fn needs_others(request: &Request<'_>, _: &Config, needs: &mut Needs) {
    if request.object.is_some_and(|class| at(class, "/globalDefault") == true) {
        needs.insert(Need::List { resource: CLASSES, namespace: String::new() });
    }
}

/// Validates a PriorityClass.
pub(crate) fn validate_class(object: &Value, cx: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    let name = text(object, "/metadata/name");
    if let Some(value) = at(object, "/value").as_i64().filter(|value| *value > VALUE_MAX)
        && !name.starts_with("system-")
    {
        out.invalid("value", &value, &format!("maximum allowed value of a user defined priority is {VALUE_MAX}"));
    }
    if at(object, "/globalDefault") == true {
        let others = cx.lookups.get(&Need::List { resource: CLASSES, namespace: String::new() }).unwrap_or_default();
        let other =
            others.iter().find(|other| at(other, "/globalDefault") == true && text(other, "/metadata/name") != name);
        if let Some(other) = other {
            out.warn(format!(
                "PriorityClass {:?} is the global default already: of several, the one of the smallest value counts",
                text(other, "/metadata/name")
            ));
        }
    }
    Ok(())
}

/// Refuses changes of everything but the description.
pub(crate) fn change_class(cx: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    let (Some(old), Some(new)) = (cx.request.old, cx.request.object) else { return Ok(()) };
    if cx.request.operation != Operation::Update {
        return Ok(());
    }
    let defaults = [
        ("value", Value::Null),
        ("preemptionPolicy", Value::from("PreemptLowerPriority")),
        ("globalDefault", Value::from(false)),
    ];
    for (field, default) in defaults {
        let of = |object: &Value| object.get(field).filter(|v| !v.is_null()).cloned().unwrap_or(default.clone());
        if of(old) != of(new) {
            out.invalid(field, &of(new), "field is immutable: make another class");
        }
    }
    Ok(())
}
