//! Scheduling priority of a policy, resolved to numbers (specification/scheduling.md 14.3).
//!
//! A missing class does not prevent a binding: the default applies, with a warning.

use std::cmp::Reverse;

use ironclad_api::{
    policy::{PriorityClassSource, SchedulePriority},
    work::{PreemptionPolicy, ResolvedPriority},
};
use serde_json::Value;

/// The relevant fields of a PriorityClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    pub name: String,
    /// Higher values are scheduled first.
    pub value: i32,
    /// `globalDefault`.
    pub is_default: bool,
    /// `preemptionPolicy`; `None` means PreemptLowerPriority, as in Kubernetes.
    pub preemption_policy: Option<String>,
}

impl Class {
    /// The class of a PriorityClass manifest.
    #[must_use]
    pub fn of_manifest(manifest: &Value) -> Self {
        Self {
            name: manifest["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            value: manifest["value"].as_i64().and_then(|value| i32::try_from(value).ok()).unwrap_or(0),
            is_default: manifest["globalDefault"].as_bool().unwrap_or(false),
            preemption_policy: manifest["preemptionPolicy"].as_str().map(str::to_owned),
        }
    }
}

/// Resolved priority, with a warning if a class is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The priority for the binding.
    pub priority: ResolvedPriority,
    /// Warning that names the missing class and the value used instead.
    pub warning: Option<String>,
    /// The class that it was taken from; `None` if there is no such class and no default.
    pub class: Option<String>,
}

/// Largest depth at which a pod template is looked for.
const DEPTH_MAX: usize = 16;

/// Resolves the policy's priority for this template.
#[must_use]
pub fn resolve(priority_spec: &SchedulePriority, template: &Value, classes: &[Class]) -> Resolved {
    let named: Vec<&str> = match priority_spec.priority_class_source {
        PriorityClassSource::KubePriorityClass => vec![priority_spec.priority_class_name.as_str()],
        PriorityClassSource::PodPriorityClass => pod_classes(template),
        PriorityClassSource::FederatedPriorityClass => {
            let default = default(classes);
            let why = "FederatedPriorityClass is not supported";
            let priority = default.map_or(NO_CLASS, of_class);
            let warning = Some(warning(why, &priority));
            return Resolved { warning, priority, class: default.map(|class| class.name.clone()) };
        }
    };
    let named: Vec<&str> = named.into_iter().filter(|name| !name.is_empty()).collect();
    let missing: Vec<&str> =
        named.iter().copied().filter(|name| !classes.iter().any(|class| class.name == *name)).collect();
    // With several pod templates, the highest priority counts.
    let found = classes.iter().filter(|class| named.contains(&class.name.as_str())).max_by_key(|class| class.value);
    let found = found.or_else(|| default(classes));
    let priority = found.map_or(NO_CLASS, of_class);
    let warning = missing.first().map(|name| warning(&format!("there is no PriorityClass {name:?}"), &priority));
    Resolved { priority, warning, class: found.map(|class| class.name.clone()) }
}

/// The classes that the pod templates of a workload name, in the order of the fields. A pod template is any object
/// below `spec` with a list of containers, so that workloads of several components have one for each, whatever their
/// kind.
fn pod_classes(template: &Value) -> Vec<&str> {
    fn collect<'a>(value: &'a Value, depth: usize, classes: &mut Vec<&'a str>) {
        if depth > DEPTH_MAX {
            return;
        }
        match value {
            Value::Object(fields) => {
                let is_pod = fields.get("containers").is_some_and(Value::is_array);
                if let Some(class) = fields.get("priorityClassName").and_then(Value::as_str).filter(|_| is_pod) {
                    classes.push(class);
                }
                fields.values().for_each(|field| collect(field, depth + 1, classes));
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, depth + 1, classes)),
            _ => {}
        }
    }
    let mut classes = Vec::new();
    collect(&template["spec"], 0, &mut classes);
    classes
}

/// The priority without a class.
const NO_CLASS: ResolvedPriority = ResolvedPriority { priority: 0, preemption_policy: Some(PreemptionPolicy::Never) };

/// The class with `globalDefault`: of several the one with the smallest value, then the first by name.
fn default(classes: &[Class]) -> Option<&Class> {
    classes.iter().filter(|class| class.is_default).max_by_key(|class| Reverse((class.value, &class.name)))
}

fn of_class(class: &Class) -> ResolvedPriority {
    let never = class.preemption_policy.as_deref() == Some("Never");
    let policy = if never { PreemptionPolicy::Never } else { PreemptionPolicy::PreemptLowerPriority };
    ResolvedPriority { priority: class.value, preemption_policy: Some(policy) }
}

fn warning(why: &str, used: &ResolvedPriority) -> String {
    let policy = match used.preemption_policy {
        Some(PreemptionPolicy::PreemptLowerPriority) => "PreemptLowerPriority",
        _ => "Never",
    };
    format!("{why}: the binding has priority {} and preemptionPolicy {policy} instead", used.priority)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn class(name: &str, value: i32, is_default: bool, policy: Option<&str>) -> Class {
        Class { name: name.into(), value, is_default, preemption_policy: policy.map(str::to_owned) }
    }

    #[test]
    fn priority_resolution_table() {
        let high = || class("high", 100, false, None);
        let gentle = || class("gentle", 50, false, Some("Never"));
        let base = || class("base", 7, true, Some("Never"));
        let (preempts, never) = (PreemptionPolicy::PreemptLowerPriority, PreemptionPolicy::Never);
        let spec = |name: &str| json!({"priorityClassName": name, "containers": [{"name": "main"}]});
        let pod = |name: &str| json!({"kind": "Deployment", "spec": {"template": {"spec": spec(name)}}});
        let ray = json!({"kind": "RayCluster", "spec": {
            "priorityClassName": "no pod's",
            "headGroupSpec": {"template": {"spec": spec("gentle")}},
            "workerGroupSpecs": [{"template": {"spec": spec("high")}}, {"template": {"spec": spec("base")}}],
        }});
        let cron =
            json!({"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": spec("gentle")}}}}});
        let bare = json!({"kind": "Pod", "spec": spec("gentle")});
        let none = || json!({"kind": "Deployment", "spec": {}});
        use PriorityClassSource::{FederatedPriorityClass, KubePriorityClass, PodPriorityClass};
        for (name, source, class_name, template, classes, want, warns) in [
            (
                "a class that sets no policy preempts",
                KubePriorityClass,
                "high",
                none(),
                vec![high()],
                (100, preempts),
                false,
            ),
            ("a class that says Never", KubePriorityClass, "gentle", none(), vec![gentle()], (50, never), false),
            ("missing: the default", KubePriorityClass, "gone", none(), vec![high(), base()], (7, never), true),
            ("missing, and no default", KubePriorityClass, "gone", none(), vec![high()], (0, never), true),
            ("no name: the default", KubePriorityClass, "", none(), vec![high(), base()], (7, never), false),
            ("no name and no default", KubePriorityClass, "", none(), vec![], (0, never), false),
            ("the pod's", PodPriorityClass, "", pod("high"), vec![high(), base()], (100, preempts), false),
            (
                "of several pod templates the highest",
                PodPriorityClass,
                "",
                ray,
                vec![gentle(), high(), base()],
                (100, preempts),
                false,
            ),
            ("a CronJob's", PodPriorityClass, "", cron, vec![gentle()], (50, never), false),
            ("a Pod's own", PodPriorityClass, "", bare, vec![gentle()], (50, never), false),
            ("the pod names none", PodPriorityClass, "", none(), vec![high(), base()], (7, never), false),
            ("the pod's is missing", PodPriorityClass, "", pod("gone"), vec![base()], (7, never), true),
            ("federated", FederatedPriorityClass, "x", none(), vec![high(), base()], (7, never), true),
            (
                "several defaults: the smallest",
                KubePriorityClass,
                "",
                none(),
                vec![class("b", 9, true, None), class("a", 3, true, None)],
                (3, preempts),
                false,
            ),
            (
                "equal defaults: the first name",
                KubePriorityClass,
                "",
                none(),
                vec![class("b", 3, true, None), class("a", 3, true, Some("Never"))],
                (3, never),
                false,
            ),
        ] {
            let priority_spec =
                SchedulePriority { priority_class_source: source, priority_class_name: class_name.into() };
            let got = resolve(&priority_spec, &template, &classes);
            let priority = ResolvedPriority { priority: want.0, preemption_policy: Some(want.1) };
            assert_eq!((got.priority, got.warning.is_some()), (priority, warns), "{name}");
        }
        let priority_spec = SchedulePriority { priority_class_name: "gone".into(), ..SchedulePriority::default() };
        assert_eq!(
            resolve(&priority_spec, &none(), &[]).warning.as_deref(),
            Some("there is no PriorityClass \"gone\": the binding has priority 0 and preemptionPolicy Never instead")
        );
    }
}
