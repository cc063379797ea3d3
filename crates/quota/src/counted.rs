//! Kinds whose objects quotas count.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    amounts::{Amounts, add, count, masked, read},
    claim, pod, scope, service,
};

/// A kind whose objects quotas count.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counted {
    /// Pods, by what their containers ask for.
    Pods,
    /// Services, by node ports and load balancers.
    Services,
    /// PersistentVolumeClaims, by storage.
    Claims,
    /// Objects of any other kind, by number.
    Objects {
        /// API group, empty for core.
        group: String,
        /// Plural of the kind.
        resource: String,
    },
}

impl Counted {
    /// Returns the kind of a namespaced resource; `None` for those that no quota counts: events, and those that are not
    /// stored.
    #[must_use]
    pub fn of(group: &str, resource: &str) -> Option<Self> {
        Some(match (group, resource) {
            ("", "pods") => Self::Pods,
            ("", "services") => Self::Services,
            ("", "persistentvolumeclaims") => Self::Claims,
            ("" | "events.k8s.io", "events") | ("", "bindings") => return None,
            ("authorization.k8s.io", "localsubjectaccessreviews") => return None,
            _ => Self::Objects { group: group.to_owned(), resource: resource.to_owned() },
        })
    }

    /// Returns the kinds that a quota counts by its `spec.hard`.
    #[must_use]
    pub fn of_quota(quota: &Value) -> BTreeSet<Self> {
        let hard = quota["spec"]["hard"].as_object().into_iter().flatten();
        hard.filter_map(|(name, _)| Self::of_name(name)).collect()
    }

    /// Returns the kind that is charged for the resource of this name.
    fn of_name(name: &str) -> Option<Self> {
        if let Some(counted) = name.strip_prefix("count/") {
            let (resource, group) = counted.split_once('.').unwrap_or((counted, ""));
            return Self::of(group, resource);
        }
        match name {
            "configmaps" | "replicationcontrollers" | "resourcequotas" | "secrets" => Self::of("", name),
            // Claims first: the class in `CLASS.storageclass.storage.k8s.io/requests.storage` may have any name.
            _ => [Self::Claims, Self::Services, Self::Pods].into_iter().find(|kind| kind.is_charged(name)),
        }
    }

    /// Group and plural.
    #[must_use]
    pub fn group_resource(&self) -> (&str, &str) {
        match self {
            Self::Pods => ("", "pods"),
            Self::Services => ("", "services"),
            Self::Claims => ("", "persistentvolumeclaims"),
            Self::Objects { group, resource } => (group, resource),
        }
    }

    /// Names under which one object of a kind without amounts counts.
    fn names(group: &str, resource: &str) -> Vec<String> {
        let counted = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let mut names = vec![format!("count/{counted}")];
        if group.is_empty()
            && matches!(resource, "configmaps" | "replicationcontrollers" | "resourcequotas" | "secrets")
        {
            names.push(resource.to_owned());
        }
        names
    }

    /// Returns `true` if objects of this kind are charged for the resource of this name.
    pub(crate) fn is_charged(&self, name: &str) -> bool {
        match self {
            Self::Pods => pod::is_charged(name),
            Self::Services => service::is_charged(name),
            Self::Claims => claim::is_charged(name),
            Self::Objects { group, resource } => Self::names(group, resource).iter().any(|own| own == name),
        }
    }

    /// Returns what an object uses.
    pub(crate) fn usage(&self, object: &Value, now: Timestamp) -> Amounts {
        match self {
            Self::Pods => pod::usage(object, now),
            Self::Services => service::usage(object),
            Self::Claims => claim::usage(object),
            Self::Objects { group, resource } => {
                Self::names(group, resource).into_iter().map(|name| (name, count(1))).collect()
            }
        }
    }

    /// Returns the names in `hard` for which this kind is charged, each with zero.
    fn nothing(&self, quota: &Value) -> Amounts {
        let hard = quota["spec"]["hard"].as_object().into_iter().flatten();
        hard.filter(|(name, _)| self.is_charged(name)).map(|(name, _)| (name.clone(), count(0))).collect()
    }

    /// Returns what the objects of this kind in the quota's namespace use of its `spec.hard`.
    #[must_use]
    pub fn total(&self, quota: &Value, objects: &[Value], now: Timestamp) -> Amounts {
        let mut sum = self.nothing(quota);
        for object in objects.iter().filter(|object| scope::selects(quota, self, object)) {
            let used = masked(&self.usage(object, now), &sum);
            add(&mut sum, &used);
        }
        sum
    }

    /// Returns the same of a kind whose objects count by number alone.
    #[must_use]
    pub fn total_of_number(&self, quota: &Value, number: usize) -> Amounts {
        let mut sum = self.nothing(quota);
        if scope::selects(quota, self, &Value::Null) {
            sum.values_mut().for_each(|amount| *amount = count(number));
        }
        sum
    }

    /// Returns `true` for an object whose change may free what a quota counts: from `old` to `new`, `None` once it is
    /// deleted. What is used in addition is charged when it is written.
    #[must_use]
    pub fn frees(&self, old: &Value, new: Option<&Value>, now: Timestamp) -> bool {
        let Some(new) = new else { return true };
        // The scopes of a quota may select it no longer.
        let scoped = match self {
            Self::Pods => pod::is_terminating(old) != pod::is_terminating(new),
            Self::Claims => claim::attributes_classes(old) != claim::attributes_classes(new),
            Self::Services | Self::Objects { .. } => false,
        };
        scoped || {
            let (before, after) = (self.usage(old, now), self.usage(new, now));
            before.iter().any(|(name, amount)| after.get(name).is_none_or(|rest| rest < amount))
        }
    }
}

/// Reads the amounts of a quota: `hard` or `used` of `spec` or `status`.
pub(crate) fn amounts_of(quota: &Value, part: &str, side: &str) -> Amounts {
    read(quota[part].get(side))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::amounts::listed;

    fn now() -> Timestamp {
        Timestamp::from_second(1_000).unwrap()
    }

    #[test]
    fn names_in_a_quota_say_which_kinds_it_counts() {
        for (name, want) in [
            ("cpu", Some(("", "pods"))),
            ("limits.memory", Some(("", "pods"))),
            ("pods", Some(("", "pods"))),
            ("count/pods", Some(("", "pods"))),
            ("hugepages-2Mi", Some(("", "pods"))),
            ("requests.hugepages-2Mi", Some(("", "pods"))),
            ("requests.example.com/gpu", Some(("", "pods"))),
            ("example.com/gpu", None),
            ("services.nodeports", Some(("", "services"))),
            ("count/services", Some(("", "services"))),
            ("requests.storage", Some(("", "persistentvolumeclaims"))),
            ("gold.storageclass.storage.k8s.io/requests.storage", Some(("", "persistentvolumeclaims"))),
            ("requests.odd.storageclass.storage.k8s.io/requests.storage", Some(("", "persistentvolumeclaims"))),
            ("secrets", Some(("", "secrets"))),
            ("count/secrets", Some(("", "secrets"))),
            ("resourcequotas", Some(("", "resourcequotas"))),
            ("count/deployments.apps", Some(("apps", "deployments"))),
            ("count/widgets.example.com", Some(("example.com", "widgets"))),
            ("deployments.apps", None),
            ("count/events", None),
        ] {
            let of = Counted::of_name(name);
            assert_eq!(of.as_ref().map(Counted::group_resource), want, "{name}");
        }
    }

    #[test]
    fn totals_count_what_the_quota_names_and_selects() {
        let pod = |cpu: &str, class: &str| json!({"spec": {"priorityClassName": class, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}});
        let pods = [pod("1", "high"), pod("500m", "")];
        let hard = json!({"cpu": "4", "pods": "9", "secrets": "1"});
        for (name, spec, want) in [
            ("all", json!({"hard": hard}), "cpu=1500m,pods=2"),
            ("one class", json!({"hard": hard, "scopes": ["PriorityClass"]}), "cpu=1,pods=1"),
            ("none", json!({"hard": hard, "scopes": ["Terminating"]}), "cpu=0,pods=0"),
        ] {
            assert_eq!(listed(&Counted::Pods.total(&json!({"spec": spec}), &pods, now())), want, "{name}");
        }
        let secrets = Counted::of("", "secrets").unwrap();
        let quota = |scopes: Value| json!({"spec": {"hard": {"secrets": "1", "count/secrets": "2"}, "scopes": scopes}});
        assert_eq!(listed(&secrets.total_of_number(&quota(json!([])), 3)), "count/secrets=3,secrets=3");
        assert_eq!(listed(&secrets.total_of_number(&quota(json!(["Terminating"])), 3)), "count/secrets=0,secrets=0");
    }

    #[test]
    fn changes_that_free_something() {
        let pod = |cpu: &str, phase: &str| json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}, "status": {"phase": phase}});
        let running = pod("2", "Running");
        let mut bounded = running.clone();
        bounded["spec"]["activeDeadlineSeconds"] = json!(10);
        for (name, new, want) in [
            ("deleted", None, true),
            ("ended", Some(pod("2", "Succeeded")), true),
            ("smaller", Some(pod("1", "Running")), true),
            ("larger", Some(pod("3", "Running")), false),
            ("in another scope", Some(bounded), true),
            ("the same", Some(pod("2", "Pending")), false),
        ] {
            assert_eq!(Counted::Pods.frees(&running, new.as_ref(), now()), want, "{name}");
        }
        let service = |kind: &str| json!({"spec": {"type": kind, "ports": [{"port": 1}]}});
        assert!(Counted::Services.frees(&service("LoadBalancer"), Some(&service("ClusterIP")), now()));
        assert!(!Counted::Services.frees(&service("ClusterIP"), Some(&service("LoadBalancer")), now()));
    }
}
