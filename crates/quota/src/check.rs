//! The check of a write against the quotas of its namespace.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    amounts::{Amounts, add, growth, listed, masked},
    claim,
    counted::{Counted, amounts_of},
    pod, scope,
};

/// A write that quotas may count.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// Kind of the object.
    pub kind: &'a Counted,
    /// Part of the object that is written, empty for the object itself.
    pub subresource: &'a str,
    /// The stored object; `None` at creation.
    pub old: Option<&'a Value>,
    /// The object as it will be stored.
    pub new: &'a Value,
}

/// The new `status.used` of a quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// Position of the quota in the list that was checked.
    pub quota: usize,
    /// All of `status.used`.
    pub used: Amounts,
}

/// A write that a quota refuses, in the words of a kube-apiserver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Containers do not state what the quota counts.
    #[error("failed quota: {quota}: must specify {}", unstated_text(.names))]
    Unstated {
        /// Name of the quota.
        quota: String,
        /// Resources, with the containers that do not state them.
        names: BTreeMap<String, BTreeSet<String>>,
    },
    /// The usage was not counted yet.
    #[error("status unknown for quota: {quota}, resources: {}", .resources.join(","))]
    Uncounted {
        /// Name of the quota.
        quota: String,
        /// Resources that the object is charged for.
        resources: Vec<String>,
    },
    /// The object asks for less than nothing.
    #[error("quota usage is negative for resource(s): {}", .resources.join(","))]
    Negative {
        /// Resources with a negative amount.
        resources: Vec<String>,
    },
    /// More is asked for than is left.
    #[error("exceeded quota: {quota}, requested: {}, used: {}, limited: {}", listed(.requested), listed(.used), listed(.limited))]
    Exceeded {
        /// Name of the quota.
        quota: String,
        /// Amounts that are asked for in addition.
        requested: Amounts,
        /// Amounts in use.
        used: Amounts,
        /// Amounts that the quota allows.
        limited: Amounts,
    },
}

fn unstated_text(names: &BTreeMap<String, BTreeSet<String>>) -> String {
    let one = |(name, containers): (&String, &BTreeSet<String>)| {
        format!("{name} for: {}", containers.iter().map(String::as_str).collect::<Vec<_>>().join(","))
    };
    names.iter().map(one).collect::<Vec<_>>().join("; ")
}

impl Write<'_> {
    /// Returns `true` if the write can use more than before, so that quotas have to be read.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        let Some(old) = self.old else { return self.subresource.is_empty() };
        match (self.kind, self.subresource) {
            (Counted::Pods, "") => pod::is_terminating(old) != pod::is_terminating(self.new),
            (Counted::Pods, "resize") | (Counted::Services | Counted::Claims, "") => true,
            (Counted::Claims, "status") => claim::status_counts(old, self.new),
            _ => false,
        }
    }
}

/// Checks a write against the quotas of its namespace, as they are stored, in their order. Returns the quotas that it
/// charges. The limits in force are those of `status`, which the controller takes over from `spec` once it has counted.
///
/// # Errors
/// A quota refuses the write.
pub fn check(quotas: &[Value], write: &Write<'_>, now: Timestamp) -> Result<Vec<Charge>, Refusal> {
    if !write.is_counted() {
        return Ok(vec![]);
    }
    let Write { kind, new, .. } = *write;
    let mut concerned = Vec::new();
    for (at, quota) in quotas.iter().enumerate() {
        let mut hard = amounts_of(quota, "status", "hard");
        hard.retain(|name, _| kind.is_charged(name));
        if hard.is_empty() || !scope::selects(quota, kind, new) {
            continue;
        }
        let name = || quota["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if *kind == Counted::Pods {
            let names = pod::unstated(new, &hard);
            if !names.is_empty() {
                return Err(Refusal::Unstated { quota: name(), names });
            }
        }
        let used = amounts_of(quota, "status", "used");
        if hard.keys().any(|name| !used.contains_key(name)) {
            return Err(Refusal::Uncounted { quota: name(), resources: hard.into_keys().collect() });
        }
        concerned.push((at, quota, name(), hard, used));
    }
    let usage = kind.usage(new, now);
    let negative: Vec<String> = usage.iter().filter(|(_, a)| a.is_negative()).map(|(name, _)| name.clone()).collect();
    if !negative.is_empty() && !quotas.is_empty() {
        return Err(Refusal::Negative { resources: negative });
    }
    let mut charges = Vec::new();
    for (at, quota, name, hard, mut used) in concerned {
        // What the object used before is in the quota only if its scopes selected the object then.
        let before = write.old.filter(|old| scope::selects(quota, kind, old)).map(|old| kind.usage(old, now));
        let requested = masked(&growth(&usage, &before.unwrap_or_default()), &hard);
        if requested.is_empty() {
            continue;
        }
        let was = used.clone();
        add(&mut used, &requested);
        let beyond: Amounts =
            hard.into_iter().filter(|(name, limit)| requested.contains_key(name) && used[name] > *limit).collect();
        if !beyond.is_empty() && write.subresource != "status" {
            return Err(Refusal::Exceeded {
                quota: name,
                requested: masked(&requested, &beyond),
                used: masked(&was, &beyond),
                limited: beyond,
            });
        }
        charges.push(Charge { quota: at, used });
    }
    Ok(charges)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1_000).unwrap()
    }

    fn quota(name: &str, hard: Value, used: Value) -> Value {
        json!({"metadata": {"name": name}, "spec": {"hard": hard}, "status": {"hard": hard, "used": used}})
    }

    fn pod(cpu: &str) -> Value {
        json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}, "status": {"phase": "Pending"}})
    }

    fn create(quotas: &[Value], kind: &Counted, new: &Value) -> String {
        said(check(quotas, &Write { kind, subresource: "", old: None, new }, now()))
    }

    fn said(outcome: Result<Vec<Charge>, Refusal>) -> String {
        match outcome {
            Ok(charges) => {
                charges.iter().map(|c| format!("{}: {}", c.quota, listed(&c.used))).collect::<Vec<_>>().join("; ")
            }
            Err(refusal) => refusal.to_string(),
        }
    }

    #[test]
    fn creations_are_charged_or_refused() {
        let cpu = |used: &str| quota("q", json!({"cpu": "2", "pods": "9"}), json!({"cpu": used, "pods": "1"}));
        for (name, quotas, pod, want) in [
            ("without quotas", vec![], pod("1"), ""),
            ("there is room", vec![cpu("500m")], pod("1"), "0: cpu=1500m,pods=2"),
            ("exactly enough is left", vec![cpu("1")], pod("1"), "0: cpu=2,pods=2"),
            (
                "a bit too much",
                vec![cpu("1001m")],
                pod("1"),
                "exceeded quota: q, requested: cpu=1, used: cpu=1001m, limited: cpu=2",
            ),
            (
                "several at once",
                vec![quota("q", json!({"pods": "1", "requests.cpu": "1"}), json!({"pods": "1", "requests.cpu": "1"}))],
                pod("1"),
                "exceeded quota: q, requested: pods=1,requests.cpu=1, used: pods=1,requests.cpu=1, limited: pods=1,requests.cpu=1",
            ),
            (
                "what is not stated",
                vec![cpu("0")],
                json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
                "failed quota: q: must specify cpu for: a,b",
            ),
            (
                "not counted yet",
                vec![quota("q", json!({"pods": "1", "cpu": "1"}), json!({"cpu": "0"}))],
                pod("1"),
                "status unknown for quota: q, resources: cpu,pods",
            ),
            (
                "limits not in force yet",
                vec![json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}})],
                pod("1"),
                "",
            ),
            ("of other kinds", vec![quota("q", json!({"secrets": "0"}), json!({"secrets": "0"}))], pod("1"), ""),
            (
                "every quota is charged",
                vec![cpu("0"), quota("r", json!({"count/pods": "5"}), json!({"count/pods": "3"}))],
                pod("1"),
                "0: cpu=1,pods=2; 1: count/pods=4",
            ),
            (
                "and none if one refuses",
                vec![cpu("0"), quota("r", json!({"pods": "0"}), json!({"pods": "0"}))],
                pod("1"),
                "exceeded quota: r, requested: pods=1, used: pods=0, limited: pods=0",
            ),
            (
                "what a quota has besides stays",
                vec![quota("q", json!({"pods": "9", "secrets": "9"}), json!({"pods": "0", "secrets": "4"}))],
                pod("1"),
                "0: pods=1,secrets=4",
            ),
            (
                "less than nothing",
                vec![quota("q", json!({"pods": "9"}), json!({"pods": "0"}))],
                pod("-1"),
                "quota usage is negative for resource(s): cpu,requests.cpu",
            ),
            (
                "a resource of which the object uses nothing may be overdrawn",
                vec![quota(
                    "q",
                    json!({"limits.memory": "1", "pods": "2"}),
                    json!({"limits.memory": "5", "pods": "0"}),
                )],
                json!({"spec": {"containers": [{"name": "c", "resources": {"limits": {"memory": "0"}}}]}}),
                "0: limits.memory=5,pods=1",
            ),
        ] {
            assert_eq!(create(&quotas, &Counted::Pods, &pod), want, "{name}");
        }
    }

    #[test]
    fn other_kinds_count_by_number() {
        let deployments = Counted::of("apps", "deployments").unwrap();
        let of =
            |used: &str| [quota("q", json!({"count/deployments.apps": "1"}), json!({"count/deployments.apps": used}))];
        assert_eq!(create(&of("0"), &deployments, &json!({})), "0: count/deployments.apps=1");
        let want = "exceeded quota: q, requested: count/deployments.apps=1, used: count/deployments.apps=1, limited: count/deployments.apps=1";
        assert_eq!(create(&of("1"), &deployments, &json!({})), want);
        let configmaps = Counted::of("", "configmaps").unwrap();
        let both = [quota(
            "q",
            json!({"configmaps": "3", "count/configmaps": "3"}),
            json!({"configmaps": "0", "count/configmaps": "0"}),
        )];
        assert_eq!(create(&both, &configmaps, &json!({})), "0: configmaps=1,count/configmaps=1");
    }

    #[test]
    fn updates_are_charged_by_growth() {
        let service = |kind: &str| json!({"spec": {"type": kind, "ports": [{"port": 1}, {"port": 2}]}});
        let ports = [quota(
            "q",
            json!({"services": "1", "services.nodeports": "2"}),
            json!({"services": "1", "services.nodeports": "1"}),
        )];
        let mut bounded = pod("1");
        bounded["spec"]["activeDeadlineSeconds"] = json!(5);
        let mut scoped = quota("q", json!({"pods": "1"}), json!({"pods": "0"}));
        scoped["spec"]["scopes"] = json!(["Terminating"]);
        let cpu = [quota("q", json!({"cpu": "3"}), json!({"cpu": "2"}))];
        let claim = |allocated: &str| json!({"spec": {"resources": {"requests": {"storage": "1"}}}, "status": {"allocatedResources": {"storage": allocated}}});
        let storage = [quota("q", json!({"requests.storage": "1"}), json!({"requests.storage": "1"}))];
        for (name, kind, subresource, quotas, old, new, want) in [
            (
                "more node ports than are left",
                Counted::Services,
                "",
                &ports,
                service("ClusterIP"),
                service("NodePort"),
                "exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=1, limited: services.nodeports=2",
            ),
            ("fewer are never refused", Counted::Services, "", &ports, service("NodePort"), service("ClusterIP"), ""),
            ("the same", Counted::Services, "", &ports, service("NodePort"), service("NodePort"), ""),
            (
                "the status of a Service",
                Counted::Services,
                "status",
                &ports,
                service("ClusterIP"),
                service("NodePort"),
                "",
            ),
            ("a resize within the quota", Counted::Pods, "resize", &cpu, pod("1"), pod("2"), "0: cpu=3"),
            (
                "a resize beyond it",
                Counted::Pods,
                "resize",
                &cpu,
                pod("1"),
                pod("2001m"),
                "exceeded quota: q, requested: cpu=1001m, used: cpu=2, limited: cpu=3",
            ),
            ("an update of a pod does not resize it", Counted::Pods, "", &cpu, pod("1"), pod("9"), ""),
            (
                "a pod that enters the scope is charged whole",
                Counted::Pods,
                "",
                &[scoped.clone()],
                pod("1"),
                bounded.clone(),
                "0: pods=1",
            ),
            ("a pod that leaves it is not", Counted::Pods, "", &[scoped], bounded, pod("1"), ""),
            (
                "the status of a claim is charged and not refused",
                Counted::Claims,
                "status",
                &storage,
                claim("1"),
                claim("3"),
                "0: requests.storage=3",
            ),
        ] {
            let write = Write { kind: &kind, subresource, old: Some(&old), new: &new };
            assert_eq!(said(check(quotas, &write, now())), want, "{name}");
        }
    }
}
