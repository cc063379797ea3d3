//! ResourceQuotas of a member that limit a workload: gate `ResourceQuotaEstimate` (specification/scheduling.md 10.6).

use std::collections::BTreeMap;

use super::{PodTemplate, SetPart};
use crate::capacity::demand::Units;

/// Resource that counts pods.
const PODS: &str = "pods";
/// Prefix of requests in quotas; the plain name means the same.
const REQUESTS: &str = "requests.";

/// Scope of a quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// `PriorityClass` with this operator and these values.
    PriorityClass {
        /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
        operator: String,
        /// The classes.
        values: Vec<String>,
    },
    /// Any other scope: the quota does not limit estimates.
    Other,
}

/// Free part of a quota.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quota {
    /// Free amount of each resource of pods: `status.hard` less `status.used`, negative if exceeded.
    pub free: Units,
    /// Scopes; all must select a pod.
    pub scopes: Vec<Scope>,
}

impl Scope {
    fn selects(&self, class: &str) -> bool {
        let Self::PriorityClass { operator, values } = self else { return false };
        let listed = values.iter().any(|value| value == class);
        match operator.as_str() {
            "Exists" => !class.is_empty(),
            "DoesNotExist" => class.is_empty(),
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        }
    }
}

impl Quota {
    /// Reads amounts by the names in quotas. Limits, storage and counts of other objects do not limit an estimate.
    #[must_use]
    pub fn new(hard: &Units, used: &Units, scopes: Vec<Scope>) -> Self {
        let mut free = Units::new();
        for (name, amount) in hard {
            let resource = name.strip_prefix(REQUESTS).unwrap_or(name);
            let counted = matches!(resource, "cpu" | "memory" | PODS)
                || name.starts_with(REQUESTS) && (resource.contains('/') || resource.starts_with("hugepages-"))
                || resource.starts_with("hugepages-");
            if !counted {
                continue;
            }
            let left = amount.saturating_sub(used.get(name).copied().unwrap_or(0));
            free.entry(resource.to_owned()).and_modify(|least: &mut i64| *least = left.min(*least)).or_insert(left);
        }
        Self { free, scopes }
    }

    fn selects(&self, template: &PodTemplate) -> bool {
        self.scopes.iter().all(|scope| scope.selects(&template.priority_class))
    }

    /// Sets of these parts that the quota leaves beside the assumed pods, or without them if their number is negative;
    /// `None` if it limits none of them. It is not known whether scopes select those that leave.
    pub(super) fn sets(&self, parts: &[SetPart], assumed: &[(SetPart, i64)]) -> Option<i64> {
        let selected: Vec<(&SetPart, i64)> =
            parts.iter().filter(|part| self.selects(&part.template)).map(|part| (part, 1)).collect();
        let asked = self.total(&selected);
        let selected = |(part, sets): &&(SetPart, i64)| {
            if *sets < 0 { self.scopes.is_empty() } else { self.selects(&part.template) }
        };
        let taken: Vec<(&SetPart, i64)> = assumed.iter().filter(selected).map(|(part, sets)| (part, *sets)).collect();
        let taken = self.total(&taken);
        let fits = asked.iter().filter(|(_, amount)| **amount > 0).map(|(resource, amount)| {
            let free = self.free.get(resource).copied().unwrap_or(0);
            free.saturating_sub(taken.get(resource).copied().unwrap_or(0)).max(0) / amount
        });
        fits.min()
    }

    /// Total request of resources that the quota limits.
    fn total(&self, parts: &[(&SetPart, i64)]) -> Units {
        let mut sum = Units::new();
        for (part, sets) in parts {
            let pods = part.replicas.saturating_mul(*sets);
            for resource in self.free.keys() {
                let each = if resource == PODS { 1 } else { part.template.request.get(resource).copied().unwrap_or(0) };
                let entry = sum.entry(resource).or_default();
                *entry = entry.saturating_add(each.saturating_mul(pods));
            }
        }
        sum
    }
}

/// Quotas by namespace and name.
#[derive(Debug, Clone, Default)]
pub(super) struct Quotas(BTreeMap<String, BTreeMap<String, Quota>>);

impl Quotas {
    /// Records a quota that was added, changed or removed. Returns true if it differs from the recorded one.
    pub(super) fn set(&mut self, namespace: &str, name: &str, quota: Option<Quota>) -> bool {
        let all = self.0.entry(namespace.to_owned()).or_default();
        let changed = all.get(name) != quota.as_ref();
        match quota {
            Some(quota) => drop(all.insert(name.to_owned(), quota)),
            None => drop(all.remove(name)),
        }
        if all.is_empty() {
            self.0.remove(namespace);
        }
        changed
    }

    /// True if there is no quota.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Least number of sets over the quotas of the namespace; `None` if none limits them.
    pub(super) fn sets(&self, namespace: &str, parts: &[SetPart], assumed: &[(SetPart, i64)]) -> Option<i64> {
        let all = self.0.get(namespace)?;
        all.values().filter_map(|quota| quota.sets(parts, assumed)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(list: &[(&str, i64)]) -> Units {
        list.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect()
    }

    fn part(replicas: i64, request: &[(&str, i64)], class: &str) -> SetPart {
        let template =
            PodTemplate { request: amounts(request), priority_class: class.to_owned(), ..PodTemplate::default() };
        SetPart { replicas, template }
    }

    fn class(operator: &str, values: &[&str]) -> Scope {
        Scope::PriorityClass {
            operator: operator.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        }
    }

    #[test]
    fn quota_limits_what_it_names() {
        let one = [part(1, &[("cpu", 500), ("memory", 100), ("example.com/gpu", 1)], "")];
        for (name, hard, used, want) in [
            ("cpu", &[("cpu", 2_000)][..], &[][..], Some(4)),
            ("the prefix means the same", &[("requests.cpu", 2_000)], &[], Some(4)),
            ("the lower of both", &[("cpu", 2_000), ("requests.cpu", 1_000)], &[], Some(2)),
            ("used is not free", &[("cpu", 2_000)], &[("cpu", 1_001)], Some(1)),
            ("more used than allowed", &[("cpu", 2_000)], &[("cpu", 3_000)], Some(0)),
            ("the scarcest", &[("cpu", 2_000), ("memory", 150)], &[], Some(1)),
            ("limits do not count", &[("limits.cpu", 1)], &[], None),
            ("storage does not count", &[("requests.storage", 1)], &[], None),
            ("other objects do not count", &[("configmaps", 0), ("count/deployments.apps", 0)], &[], None),
            ("an extended resource", &[("requests.example.com/gpu", 3)], &[], Some(3)),
            ("pods", &[("pods", 10)], &[("pods", 7)], Some(3)),
            ("a resource that the pod does not request", &[("hugepages-2Mi", 0)], &[], None),
        ] {
            let quota = Quota::new(&amounts(hard), &amounts(used), vec![]);
            assert_eq!(quota.sets(&one, &[]), want, "{name}");
        }
    }

    #[test]
    fn scopes_select_by_priority_class() {
        for (name, scopes, of, want) in [
            ("no scope", vec![], "", Some(1)),
            ("In", vec![class("In", &["gold"])], "gold", Some(1)),
            ("In, another class", vec![class("In", &["gold"])], "silver", None),
            ("NotIn", vec![class("NotIn", &["gold"])], "silver", Some(1)),
            ("NotIn, that class", vec![class("NotIn", &["gold"])], "gold", None),
            ("Exists", vec![class("Exists", &[])], "gold", Some(1)),
            ("Exists without a class", vec![class("Exists", &[])], "", None),
            ("DoesNotExist", vec![class("DoesNotExist", &[])], "", Some(1)),
            ("all selectors must match", vec![class("Exists", &[]), class("In", &["gold"])], "silver", None),
            ("another scope: it does not apply", vec![Scope::Other], "gold", None),
            ("an unknown operator", vec![class("Like", &["gold"])], "gold", None),
        ] {
            let quota = Quota::new(&amounts(&[("cpu", 1_000)]), &Units::new(), scopes);
            assert_eq!(quota.sets(&[part(1, &[("cpu", 1_000)], of)], &[]), want, "{name}");
        }
    }

    #[test]
    fn sets_and_assumed_pods_add_up() {
        let mut quotas = Quotas::default();
        let set = [part(1, &[("cpu", 1_000)], ""), part(3, &[("cpu", 500)], "")];
        assert!(quotas.set("shop", "q", Some(Quota::new(&amounts(&[("cpu", 10_000)]), &Units::new(), vec![]))));
        assert_eq!(quotas.sets("shop", &set, &[]), Some(4), "2.5 cores a set");
        assert_eq!(quotas.sets("shop", &set, &[(part(2, &[("cpu", 1_500)], ""), 1)]), Some(2), "3 cores are assumed");
        assert_eq!(quotas.sets("other", &set, &[]), None, "quotas of another namespace");
        assert!(quotas.set("shop", "p", Some(Quota::new(&amounts(&[("pods", 4)]), &Units::new(), vec![]))));
        assert_eq!(quotas.sets("shop", &set, &[]), Some(1), "the minimum over quotas");
        assert!(!quotas.set("shop", "z", None));
        assert!(quotas.set("shop", "p", None) && quotas.set("shop", "q", None));
        assert_eq!(quotas.sets("shop", &set, &[]), None);
    }
}
