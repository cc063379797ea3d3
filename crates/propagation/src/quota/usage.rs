//! Usage of a namespace's quota by bindings (specification/propagation.md 25, specification/admission.md 3.3):
//! booked when a binding is written, recounted periodically, and asked about before bindings are preempted
//! (specification/scheduling.md 15.2).

use std::{borrow::Cow, collections::BTreeMap};

use ironclad_api::{
    Quantity, ResourceList, names,
    policy::{FederatedResourceQuota, OverridePolicy},
    quantity::{Amount, QuantityError},
    work::{ObjectReference, ResourceBindingSpec, TargetCluster},
};
use ironclad_fleet::ClusterName;

use crate::overrides;

/// Amounts by resource.
pub type Amounts = BTreeMap<String, Amount>;

/// The resource that counts replicas.
pub const PODS: &str = "pods";

/// Prefix of the keys that count objects.
const COUNT: &str = "count/";
/// Keys of core kinds that count their objects without that prefix.
pub const COUNTED_KINDS: [&str; 6] =
    ["services", "secrets", "configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas"];

/// Usage of a binding over all its clusters: requests of one replica times replicas, or of one set of components times
/// clusters. Each replica is one of [`PODS`], and each cluster has one object of the binding's kind.
///
/// # Errors
/// If a quantity cannot be parsed.
pub fn of_binding(spec: &ResourceBindingSpec) -> Result<Amounts, QuantityError> {
    let mut total = Amounts::new();
    let mut add = |request: &ResourceList, times: i64| -> Result<(), QuantityError> {
        for (key, quantity) in request {
            // Less than nothing would be a credit for other workloads.
            let (amount, times) = (Amount::try_from(quantity)?.max(Amount::ZERO), times.max(0));
            *total.entry(key.clone()).or_insert(Amount::ZERO) += amount * times;
        }
        Ok(())
    };
    let one = |key: String| ResourceList::from([(key, Quantity("1".to_owned()))]);
    add(&one(count_key(&spec.resource)), i64::try_from(spec.clusters.len()).unwrap_or(i64::MAX))?;
    let pod = one(PODS.to_owned());
    if spec.components.is_empty() {
        let replicas = spec.clusters.iter().map(|target| i64::from(target.replicas.max(0))).sum();
        add(&pod, replicas)?;
        if let Some(requirements) = &spec.replica_requirements {
            // A request for the resource of this name would count twice.
            let mut request = requirements.resource_request.clone();
            request.remove(PODS);
            add(&request, replicas)?;
        }
    } else {
        let clusters = i64::try_from(spec.clusters.len()).unwrap_or(i64::MAX);
        for component in &spec.components {
            let times = i64::from(component.replicas).saturating_mul(clusters);
            add(&pod, times)?;
            if let Some(requirements) = &component.replica_requirements {
                let mut request = requirements.resource_request.clone();
                request.remove(PODS);
                add(&request, times)?;
            }
        }
    }
    total.retain(|key, amount| !(key == PODS || key.starts_with(COUNT)) || !amount.is_zero());
    Ok(total)
}

/// The key that counts the copies of an object: `count/deployments.apps`. The plural is Kubernetes' guess.
fn count_key(resource: &ObjectReference) -> String {
    let plural = names::guessed_plural(&resource.kind);
    match resource.api_version.split_once('/') {
        Some((group, _)) => format!("{COUNT}{plural}.{group}"),
        None => format!("{COUNT}{plural}"),
    }
}

/// Difference of usage between two versions of a binding, without the resources whose usage stays the same.
///
/// # Errors
/// If a quantity cannot be parsed.
pub fn difference(old: Option<&ResourceBindingSpec>, new: &ResourceBindingSpec) -> Result<Amounts, QuantityError> {
    let mut difference = of_binding(new)?;
    if let Some(old) = old {
        for (key, amount) in of_binding(old)? {
            *difference.entry(key).or_insert(Amount::ZERO) -= amount;
        }
    }
    difference.retain(|_, amount| !amount.is_zero());
    Ok(difference)
}

/// Usage that a binding adds once it is placed as a whole: all its replicas, or one set of its components.
///
/// # Errors
/// If a quantity cannot be parsed.
pub fn lacking(spec: &ResourceBindingSpec) -> Result<Amounts, QuantityError> {
    let whole = TargetCluster { replicas: spec.replicas, ..TargetCluster::default() };
    difference(Some(spec), &ResourceBindingSpec { clusters: vec![whole], ..spec.clone() })
}

/// Usage that a binding adds with this scheduling result.
///
/// # Errors
/// If a quantity cannot be parsed.
pub fn of_result(spec: &ResourceBindingSpec, targets: &[TargetCluster]) -> Result<Amounts, QuantityError> {
    difference(Some(spec), &ResourceBindingSpec { clusters: targets.to_vec(), ..spec.clone() })
}

/// Message of the refusal if a quota has too little left for this difference of usage. Less usage is never refused,
/// even while the usage exceeds the limit.
///
/// # Errors
/// If a quantity cannot be parsed.
pub fn refusal(quota: &FederatedResourceQuota, difference: &Amounts) -> Result<Option<String>, QuantityError> {
    let used = quota.status.as_ref().map(|status| &status.overall_used);
    for (key, limit) in &quota.spec.overall {
        let Some(change) = difference.get(&*limited(key)) else { continue };
        let before = used.and_then(|used| used.get(key)).map(Amount::try_from).transpose()?.unwrap_or(Amount::ZERO);
        let (after, limit) = (before + *change, Amount::try_from(limit)?);
        if !change.is_negative() && after > limit {
            return Ok(Some(format!(
                "FederatedResourceQuota({}/{}) exceeded for resource {key}: requested sum {after}, limit {limit}",
                quota.metadata.namespace.as_deref().unwrap_or_default(),
                quota.metadata.name.as_deref().unwrap_or_default(),
            )));
        }
    }
    Ok(None)
}

/// Message of the first of a namespace's quotas that has too little left to place a binding as a whole; `None` if all
/// have enough. A quantity that cannot be parsed refuses, too, as admission refuses the write.
#[must_use]
pub fn over_quota<'a>(
    spec: &ResourceBindingSpec,
    quotas: impl IntoIterator<Item = &'a FederatedResourceQuota>,
) -> Option<String> {
    let mut quotas = quotas.into_iter().peekable();
    quotas.peek()?;
    let lacking = match lacking(spec) {
        Ok(lacking) => lacking,
        Err(error) => return Some(error.to_string()),
    };
    quotas.find_map(|quota| refusal(quota, &lacking).unwrap_or_else(|error| Some(error.to_string())))
}

/// Replicas that members decided, by the kind and name of the workload (specification/autoscaling.md 6.6).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records(BTreeMap<(String, String, String), BTreeMap<ClusterName, i32>>);

impl Records {
    /// Reads the records among the override policies of one namespace.
    #[must_use]
    pub fn of<'a>(policies: impl IntoIterator<Item = &'a OverridePolicy>) -> Self {
        let mut records = Self::default();
        for policy in policies.into_iter().filter(|policy| overrides::is_of_autoscaler(policy)) {
            for target in &policy.spec.resource_selectors {
                let key = (target.api_version.clone(), target.kind.clone(), target.name.clone());
                records.0.insert(key, overrides::recorded(policy));
            }
        }
        records
    }

    /// Returns the binding with the replicas that count for quotas: in each cluster the larger one of what the binding
    /// says and what the member decided.
    #[must_use]
    pub fn applied<'a>(&self, spec: &'a ResourceBindingSpec) -> Cow<'a, ResourceBindingSpec> {
        let of = &spec.resource;
        // The key is built only where a namespace has records at all.
        let key = (!self.0.is_empty()).then(|| (of.api_version.clone(), of.kind.clone(), of.name.clone()));
        let Some(record) = key.and_then(|key| self.0.get(&key)) else { return Cow::Borrowed(spec) };
        let mut spec = spec.clone();
        for target in &mut spec.clusters {
            let decided = record.get(&ClusterName::from(target.name.as_str())).copied().unwrap_or(0);
            target.replicas = target.replicas.max(decided);
        }
        Cow::Owned(spec)
    }
}

/// The resource that a key of a quota limits: `requests.cpu` limits `cpu`, since bindings carry requests, and `secrets`
/// limits `count/secrets`.
#[must_use]
pub fn limited(key: &str) -> Cow<'_, str> {
    match key.strip_prefix("requests.") {
        Some(resource) => resource.into(),
        None if COUNTED_KINDS.contains(&key) => format!("{COUNT}{key}").into(),
        None => key.into(),
    }
}

/// Usage of the bindings of a namespace, for the keys of `overall`. A binding with an invalid quantity is ignored, so
/// that it does not affect others.
#[must_use]
pub fn counted<'a>(
    overall: &ResourceList,
    bindings: impl IntoIterator<Item = &'a ResourceBindingSpec>,
) -> ResourceList {
    let mut total = Amounts::new();
    for taken in bindings.into_iter().filter_map(|spec| of_binding(spec).ok()) {
        for (resource, amount) in taken {
            *total.entry(resource).or_insert(Amount::ZERO) += amount;
        }
    }
    let of = |key: &String| total.get(&*limited(key)).copied().unwrap_or(Amount::ZERO);
    overall.keys().map(|key| (key.clone(), of(key).into())).collect()
}

/// Returns true if two lists have equal amounts in any spelling; a missing amount is zero.
#[must_use]
pub fn same(a: &ResourceList, b: &ResourceList) -> bool {
    let of = |list: &ResourceList, key: &String| match list.get(key) {
        None => Some(Amount::ZERO),
        Some(quantity) => Amount::try_from(quantity).ok(),
    };
    a.keys().chain(b.keys()).all(|key| of(a, key).is_some() && of(a, key) == of(b, key))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(value: Value) -> ResourceBindingSpec {
        serde_json::from_value(value).unwrap()
    }

    fn list(value: Value) -> ResourceList {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn usage_of_a_binding() {
        let resource = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        let clusters = json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 3}]);
        for (name, value, want) in [
            (
                "requests times replicas of all clusters",
                json!({"replicas": 5, "replicaRequirements": {"resourceRequest": {"cpu": "100m", "memory": "1Gi"}}, "clusters": clusters}),
                json!({"cpu": "500m", "memory": "5Gi", "pods": "5", "count/deployments.apps": "2"}),
            ),
            (
                "a set of components in each cluster",
                json!({"components": [
                    {"name": "head", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}},
                    {"name": "worker", "replicas": 3, "replicaRequirements": {"resourceRequest": {"cpu": "2"}}}], "clusters": clusters}),
                json!({"cpu": "14", "pods": "8", "count/deployments.apps": "2"}),
            ),
            (
                "not placed yet",
                json!({"replicas": 5, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}}),
                json!({"cpu": "0"}),
            ),
            (
                "less than nothing counts as nothing",
                json!({"components": [
                    {"name": "a", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "-100", "memory": "1"}}},
                    {"name": "b", "replicas": -5, "replicaRequirements": {"resourceRequest": {"memory": "1"}}}], "clusters": clusters}),
                json!({"cpu": "0", "memory": "2", "pods": "2", "count/deployments.apps": "2"}),
            ),
            (
                "negative replicas count as none",
                json!({"replicaRequirements": {"resourceRequest": {"cpu": "1"}}, "clusters": [{"name": "m1", "replicas": -3}, {"name": "m2", "replicas": 2}]}),
                json!({"cpu": "2", "pods": "2", "count/deployments.apps": "2"}),
            ),
            (
                "no requests",
                json!({"replicas": 5, "clusters": clusters}),
                json!({"pods": "5", "count/deployments.apps": "2"}),
            ),
            ("no replicas", json!({"clusters": [{"name": "m1"}]}), json!({"count/deployments.apps": "1"})),
            (
                "a request for pods",
                json!({"replicaRequirements": {"resourceRequest": {"pods": "7"}}, "clusters": [{"name": "m1", "replicas": 2}]}),
                json!({"pods": "2", "count/deployments.apps": "1"}),
            ),
        ] {
            let mut value = value;
            value["resource"] = resource.clone();
            let taken = of_binding(&spec(value)).unwrap();
            let taken: ResourceList = taken.into_iter().map(|(key, amount)| (key, amount.into())).collect();
            assert_eq!(json!(taken), want, "{name}");
        }
    }

    #[test]
    fn what_a_binding_lacks_is_refused_if_a_quota_has_less_left() {
        let quota = |limits: Value, used: Value| -> FederatedResourceQuota {
            serde_json::from_value(json!({
                "metadata": {"namespace": "shop", "name": "q"},
                "spec": {"overall": limits}, "status": {"overallUsed": used},
            }))
            .unwrap()
        };
        let resource = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        let web = |placed: i32, replicas: i32| {
            spec(json!({
                "resource": resource, "replicas": replicas, "clusters": [{"name": "m1", "replicas": placed}],
                "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
            }))
        };
        let set = spec(json!({"resource": resource, "components": [
            {"name": "head", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}},
            {"name": "worker", "replicas": 3, "replicaRequirements": {"resourceRequest": {"cpu": "2"}}}]}));
        let over = |key: &str, sum: &str, limit: &str| {
            Some(format!(
                "FederatedResourceQuota(shop/q) exceeded for resource {key}: requested sum {sum}, limit {limit}"
            ))
        };
        for (name, binding, quota, want) in [
            ("enough is left", web(0, 3), quota(json!({"cpu": "8"}), json!({"cpu": "5"})), None),
            ("too little is left", web(0, 4), quota(json!({"cpu": "8"}), json!({"cpu": "5"})), over("cpu", "9", "8")),
            ("what it has counts already", web(2, 4), quota(json!({"cpu": "8"}), json!({"cpu": "6"})), None),
            (
                "objects",
                set.clone(),
                quota(json!({"count/deployments.apps": "3"}), json!({"count/deployments.apps": "2"})),
                None,
            ),
            (
                "more objects",
                set.clone(),
                quota(json!({"count/deployments.apps": "2"}), json!({"count/deployments.apps": "2"})),
                over("count/deployments.apps", "3", "2"),
            ),
            (
                "objects of another kind",
                set.clone(),
                quota(json!({"count/jobs.batch": "0", "secrets": "0"}), json!({})),
                None,
            ),
            ("pods", web(0, 4), quota(json!({"pods": "3"}), json!({})), over("pods", "4", "3")),
            ("another key", web(0, 4), quota(json!({"requests.cpu": "3"}), json!({})), over("requests.cpu", "4", "3")),
            ("a set", set.clone(), quota(json!({"cpu": "6"}), json!({})), over("cpu", "7", "6")),
            ("another resource", web(0, 4), quota(json!({"memory": "0"}), json!({})), None),
            ("it needs nothing more", web(4, 4), quota(json!({"cpu": "1"}), json!({"cpu": "9"})), None),
            ("it needs less", web(5, 4), quota(json!({"cpu": "1"}), json!({"cpu": "9"})), None),
        ] {
            assert_eq!(refusal(&quota, &lacking(&binding).unwrap()).unwrap(), want, "{name}");
            assert_eq!(over_quota(&binding, [&quota]), want, "{name}");
        }
        let (wide, narrow) = (quota(json!({"cpu": "8"}), json!({})), quota(json!({"cpu": "3"}), json!({})));
        assert_eq!(over_quota(&web(0, 4), [&wide, &narrow]), over("cpu", "4", "3"), "one of two is enough");
        let invalid = spec(json!({"resource": resource, "replicas": 1,
            "replicaRequirements": {"resourceRequest": {"cpu": "nonsense"}}}));
        assert_eq!(over_quota(&invalid, []), None, "no quota asks for the request");
        assert!(over_quota(&invalid, [&wide]).is_some(), "a request that can't be read");
        assert!(over_quota(&web(0, 1), [&quota(json!({"cpu": "nonsense"}), json!({}))]).is_some(), "a limit");
        assert!(refusal(&quota(json!({"cpu": "nonsense"}), json!({})), &lacking(&web(0, 1)).unwrap()).is_err());
    }

    #[test]
    fn only_what_the_quota_limits_is_counted() {
        let one = |cpu: &str| {
            spec(json!({
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "replicaRequirements": {"resourceRequest": {"cpu": cpu, "example.com/gpu": "1"}},
                "clusters": [{"name": "m1", "replicas": 2}],
            }))
        };
        let all = [one("1"), one("250m"), one("nonsense")];
        let overall = list(json!({"cpu": "10", "requests.cpu": "20", "memory": "1Gi", "pods": "9", "limits.cpu": "1"}));
        let want = json!({"cpu": "2500m", "requests.cpu": "2500m", "memory": "0", "pods": "4", "limits.cpu": "0"});
        assert_eq!(json!(counted(&overall, &all)), want);
        let secret = spec(
            json!({"resource": {"apiVersion": "v1", "kind": "Secret", "name": "key"}, "clusters": [{"name": "m1"}, {"name": "m2"}]}),
        );
        let overall =
            list(json!({"secrets": "9", "count/secrets": "9", "count/deployments.apps": "9", "configmaps": "9"}));
        let want = json!({"secrets": "2", "count/secrets": "2", "count/deployments.apps": "2", "configmaps": "0"});
        assert_eq!(json!(counted(&overall, all[..2].iter().chain([&secret]))), want, "copies in all clusters");
    }

    #[test]
    fn what_members_decided_counts_where_it_is_more() {
        let binding = spec(json!({
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "replicas": 5,
            "clusters": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 3}],
        }));
        let policy = |labels: Value, name: &str, rules: &[(&str, i32)]| -> OverridePolicy {
            let rules: Vec<Value> = rules
                .iter()
                .map(|(cluster, replicas)| {
                    json!({"targetCluster": {"clusterNames": [cluster]}, "overriders": {"plaintext": [
                        {"path": "/spec/replicas", "operator": "replace", "value": replicas}]}})
                })
                .collect();
            serde_json::from_value(json!({
                "metadata": {"name": "p", "labels": labels},
                "spec": {"overrideRules": rules,
                    "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}]},
            }))
            .unwrap()
        };
        let managed = || json!({"federatedhpa.karmada.io/managed": "true"});
        for (name, policies, want) in [
            ("no record", vec![], [2, 3]),
            ("more in one cluster", vec![policy(managed(), "web", &[("m1", 8)])], [8, 3]),
            (
                "fewer do not free what the binding may use",
                vec![policy(managed(), "web", &[("m1", 1), ("m2", 4)])],
                [2, 4],
            ),
            ("of a cluster that was left", vec![policy(managed(), "web", &[("m9", 8)])], [2, 3]),
            ("of another workload", vec![policy(managed(), "db", &[("m1", 8)])], [2, 3]),
            ("a policy of a user is no record", vec![policy(json!({}), "web", &[("m1", 8)])], [2, 3]),
        ] {
            let counted = Records::of(&policies).applied(&binding).into_owned();
            let replicas: Vec<i32> = counted.clusters.iter().map(|target| target.replicas).collect();
            assert_eq!(replicas, want, "{name}");
        }
    }

    #[test]
    fn equal_lists_in_other_spellings() {
        for (a, b, want) in [
            (json!({"cpu": "1"}), json!({"cpu": "1000m"}), true),
            (json!({"cpu": "1"}), json!({"cpu": "1", "memory": "0"}), true),
            (json!({"cpu": "1"}), json!({"cpu": "2"}), false),
            (json!({"cpu": "1"}), json!({}), false),
            (json!({"cpu": "nonsense"}), json!({"cpu": "nonsense"}), false),
        ] {
            assert_eq!(same(&list(a.clone()), &list(b.clone())), want, "{a} {b}");
        }
    }
}
