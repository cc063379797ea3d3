//! FederatedResourceQuotas: what is used of each limit, over all clusters and by cluster, and what is refused.

use std::{borrow::Borrow, cmp::Reverse, collections::BTreeSet};

use ironclad_api::{
    ResourceList,
    conditions::FALSE,
    policy::{ClusterQuotaStatus, FederatedResourceQuota, StaticClusterAssignment},
    quantity::Amount,
    reasons::binding::QUOTA_EXCEEDED,
    work::ResourceBinding,
};
use ironclad_fleet::{BindingRef, count::count, tree::LinkState};
use ironclad_propagation::quota::usage;
use serde::Serialize;

use super::workloads::word;

/// Refused workloads that a row names at most.
const NAMED_MAX: usize = 20;

/// A FederatedResourceQuota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaRow {
    pub namespace: String,
    pub name: String,
    /// Worst of what is told here.
    pub state: LinkState,
    /// Reason of the state, if it is not Ok.
    pub reason: String,
    /// Limits over all clusters.
    pub limits: Vec<Limit>,
    /// Used part of the limit that is used most, in percent; `None` if no usage is known.
    pub percent: Option<i64>,
    /// Limits of single clusters, which are ResourceQuotas there.
    pub clusters: Vec<OfCluster>,
    /// Number of workloads that it refuses.
    pub refused: usize,
    /// They; at most twenty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<Refused>,
}

/// One limit with its usage, as they are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limit {
    pub resource: String,
    pub hard: String,
    /// `None` if it is not known.
    pub used: Option<String>,
    /// Used part in percent; `None` if it is not known, or of nothing.
    pub percent: Option<i64>,
}

/// Limits of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfCluster {
    #[serde(rename = "name")]
    pub cluster: String,
    pub limits: Vec<Limit>,
    pub state: LinkState,
    /// Reason of the state, if it is not Ok.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// A workload that waits since a quota has too little left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    pub namespace: String,
    pub name: String,
    pub kind: String,
    /// Its type as `get` takes it, such as `deployment.apps`.
    #[serde(rename = "type")]
    pub word: String,
    pub because: String,
}

/// The rows of these quotas, with what is bad first. The bindings are those of their namespaces, at least.
#[must_use]
pub fn quotas(
    all: &[FederatedResourceQuota],
    bindings: &[impl Borrow<ResourceBinding>],
    clusters: &BTreeSet<String>,
) -> Vec<QuotaRow> {
    let waiting: Vec<&ResourceBinding> =
        bindings.iter().map(Borrow::borrow).filter(|binding| is_refused(binding)).collect();
    let mut rows: Vec<QuotaRow> = all.iter().map(|quota| row(quota, &waiting, clusters)).collect();
    rows.sort_by(|a, b| (Reverse(a.state), &a.namespace, &a.name).cmp(&(Reverse(b.state), &b.namespace, &b.name)));
    rows
}

/// True if a quota refused the last write of a schedule result.
fn is_refused(binding: &ResourceBinding) -> bool {
    let scheduled = BindingRef::from(binding).scheduled();
    scheduled.is_some_and(|condition| condition.status == FALSE && condition.reason == QUOTA_EXCEEDED)
}

fn row(quota: &FederatedResourceQuota, waiting: &[&ResourceBinding], fleet: &BTreeSet<String>) -> QuotaRow {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (namespace, name) = (text(&quota.metadata.namespace), text(&quota.metadata.name));
    let status = quota.status.as_ref();
    let limits = limits(&quota.spec.overall, status.map(|status| &status.overall_used));
    let reports = status.map_or(&[][..], |status| &status.aggregated_status);
    let clusters: Vec<OfCluster> =
        quota.spec.static_assignments.iter().map(|one| of_cluster(one, reports, fleet)).collect();
    let of_namespace = waiting.iter().filter(|binding| binding.metadata.namespace.as_ref() == Some(&namespace));
    let all: Vec<Refused> = of_namespace.filter_map(|binding| refused(quota, &name, binding)).collect();
    let mut row = QuotaRow {
        namespace,
        name,
        state: LinkState::Ok,
        reason: String::new(),
        percent: limits.iter().filter_map(|limit| limit.percent).max(),
        limits,
        clusters,
        refused: all.len(),
        workloads: all.into_iter().take(NAMED_MAX).collect(),
    };
    (row.state, row.reason) = state(&row, quota.metadata.deletion_timestamp.is_some());
    row
}

/// The worst that there is to say.
fn state(row: &QuotaRow, is_deleting: bool) -> (LinkState, String) {
    if is_deleting {
        return (LinkState::Waiting, "is being deleted".to_owned());
    }
    if row.refused > 0 {
        return (LinkState::Broken, format!("refuses {}", count(row.refused, "workload")));
    }
    let worst = row.clusters.iter().map(|cluster| cluster.state).max().filter(|state| *state != LinkState::Ok);
    if let Some(worst) = worst {
        let told = row.clusters.iter().filter(|one| one.state == worst);
        let told: Vec<String> = told.map(|one| format!("{}: {}", one.cluster, one.detail)).collect();
        return (worst, told.join("; "));
    }
    over(&row.limits).map_or((LinkState::Ok, String::new()), |over| (LinkState::Waiting, over))
}

/// The limits that are exceeded: they may be lower than they were.
fn over(limits: &[Limit]) -> Option<String> {
    let over = limits.iter().filter(|limit| limit.percent.is_some_and(|percent| percent > 100));
    let over: Vec<&str> = over.map(|limit| limit.resource.as_str()).collect();
    (!over.is_empty()).then(|| format!("more is used than its limit of {}", over.join(", ")))
}

fn limits(hard: &ResourceList, used: Option<&ResourceList>) -> Vec<Limit> {
    let limit = |(resource, hard): (&String, &ironclad_api::Quantity)| {
        let used = used.and_then(|used| used.get(resource));
        Limit {
            resource: resource.clone(),
            hard: hard.0.clone(),
            used: used.map(|used| used.0.clone()),
            percent: percent(used, hard),
        }
    };
    hard.iter().map(limit).collect()
}

fn percent(used: Option<&ironclad_api::Quantity>, hard: &ironclad_api::Quantity) -> Option<i64> {
    let (used, hard) = (Amount::try_from(used?).ok()?, Amount::try_from(hard).ok()?);
    if hard.is_zero() || hard.is_negative() {
        return None;
    }
    Some((100.0 * used.to_f64() / hard.to_f64()).round() as i64)
}

fn of_cluster(
    assigned: &StaticClusterAssignment,
    reports: &[ClusterQuotaStatus],
    fleet: &BTreeSet<String>,
) -> OfCluster {
    let report = reports.iter().find(|report| report.cluster_name == assigned.cluster_name);
    let limits = limits(&assigned.hard, report.map(|report| &report.used));
    let (state, detail) = match (report, over(&limits)) {
        _ if !fleet.contains(&assigned.cluster_name) => (LinkState::Broken, "there is no such cluster".to_owned()),
        (None, _) => (LinkState::Waiting, "its ResourceQuota is not reported yet".to_owned()),
        (Some(_), Some(over)) => (LinkState::Waiting, over),
        (Some(_), None) => (LinkState::Ok, String::new()),
    };
    OfCluster { cluster: assigned.cluster_name.clone(), limits, state, detail }
}

/// The workload of a refused binding, if this quota refuses it.
fn refused(quota: &FederatedResourceQuota, name: &str, binding: &ResourceBinding) -> Option<Refused> {
    let resource = &binding.spec.resource;
    // What was refused may fit by now, or differ: then the answer to the write is the best that is known.
    let because = usage::over_quota(&binding.spec, [quota]).or_else(|| {
        let told = BindingRef::from(binding).scheduled()?.message.clone();
        let names_it = format!("FederatedResourceQuota({}/{name})", quota.metadata.namespace.as_deref()?);
        told.contains(&names_it).then_some(told)
    })?;
    Some(Refused {
        namespace: resource.namespace.clone(),
        name: resource.name.clone(),
        kind: resource.kind.clone(),
        word: word(resource),
        because,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn quota(spec: &Value, status: &Value) -> FederatedResourceQuota {
        serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "q"}, "spec": spec, "status": status}))
            .unwrap()
    }

    /// A Deployment of three replicas with one core each, that is not placed.
    fn binding(namespace: &str, reason: &str, message: &str) -> ResourceBinding {
        serde_json::from_value(json!({"metadata": {"namespace": namespace, "name": "web-deployment"},
            "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": namespace, "name": "web"},
                "replicas": 3, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}},
            "status": {"conditions": [{"type": "Scheduled", "status": "False", "reason": reason, "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}))
        .unwrap()
    }

    fn told(row: &QuotaRow) -> String {
        let limits = |limits: &[Limit]| {
            let each = limits.iter().map(|one| {
                let number = one.percent.map_or_else(|| "?".to_owned(), |percent| percent.to_string());
                format!("{} {}/{} {number}%", one.resource, one.used.as_deref().unwrap_or("?"), one.hard)
            });
            each.collect::<Vec<_>>().join(", ")
        };
        let clusters =
            row.clusters.iter().map(|one| format!("{} {:?} {}", one.cluster, one.state, limits(&one.limits)));
        let clusters: Vec<String> = clusters.collect();
        format!("{:?} {} | {} | {}", row.state, row.reason, limits(&row.limits), clusters.join("; "))
    }

    fn none() -> [ResourceBinding; 0] {
        []
    }

    #[test]
    fn usage_and_states() {
        let overall = json!({"overall": {"cpu": "4", "memory": "8Gi"}});
        let assigned = |cluster: &str| json!({"overall": {"cpu": "4"}, "staticAssignments": [{"clusterName": cluster, "hard": {"cpu": "2"}}]});
        let reported = json!({"overallUsed": {"cpu": "1"}, "aggregatedStatus": [{"clusterName": "m1",
            "hard": {"cpu": "2"}, "used": {"cpu": "500m"}}]});
        for (name, spec, status, want) in [
            ("not counted yet", &overall, Value::Null, "Ok  | cpu ?/4 ?%, memory ?/8Gi ?% | "),
            (
                "in use",
                &overall,
                json!({"overallUsed": {"cpu": "500m", "memory": "2Gi"}}),
                "Ok  | cpu 500m/4 13%, memory 2Gi/8Gi 25% | ",
            ),
            (
                "more than the limit",
                &overall,
                json!({"overallUsed": {"cpu": "5", "memory": "1Gi"}}),
                "Waiting more is used than its limit of cpu | cpu 5/4 125%, memory 1Gi/8Gi 13% | ",
            ),
            (
                "a limit of nothing",
                &json!({"overall": {"cpu": "0"}}),
                json!({"overallUsed": {"cpu": "0"}}),
                "Ok  | cpu 0/0 ?% | ",
            ),
            ("a cluster reports", &assigned("m1"), reported.clone(), "Ok  | cpu 1/4 25% | m1 Ok cpu 500m/2 25%"),
            (
                "a cluster uses more than its limit",
                &assigned("m1"),
                json!({"overallUsed": {"cpu": "3"}, "aggregatedStatus": [{"clusterName": "m1", "used": {"cpu": "3"}}]}),
                "Waiting m1: more is used than its limit of cpu | cpu 3/4 75% | m1 Waiting cpu 3/2 150%",
            ),
            (
                "a cluster has not reported",
                &assigned("m2"),
                reported.clone(),
                "Waiting m2: its ResourceQuota is not reported yet | cpu 1/4 25% | m2 Waiting cpu ?/2 ?%",
            ),
            (
                "a cluster is missing",
                &assigned("m9"),
                reported.clone(),
                "Broken m9: there is no such cluster | cpu 1/4 25% | m9 Broken cpu ?/2 ?%",
            ),
        ] {
            let fleet = ["m1".to_owned(), "m2".to_owned()].into();
            let rows = quotas(&[quota(spec, &status)], &none(), &fleet);
            assert_eq!(told(&rows[0]), want, "{name}");
        }
        let most = quotas(
            &[quota(&overall, &json!({"overallUsed": {"cpu": "3", "memory": "2Gi"}}))],
            &none(),
            &BTreeSet::new(),
        );
        assert_eq!(most[0].percent, Some(75));
    }

    #[test]
    fn refused_workloads_are_named_by_the_quota_that_refuses_them() {
        let exceeded = "FederatedResourceQuota(shop/q) exceeded for resource cpu: requested sum 3, limit 2";
        let tight = quota(&json!({"overall": {"cpu": "2"}}), &json!({}));
        let wide = quota(&json!({"overall": {"cpu": "9"}}), &json!({}));
        for (name, quota, binding, want) in [
            ("too little is left", &tight, binding("shop", "QuotaExceeded", "old words"), Some(exceeded)),
            ("of another namespace", &tight, binding("bank", "QuotaExceeded", exceeded), None),
            ("no quota refused it", &tight, binding("shop", "NoClusterFit", "m"), None),
            (
                "another quota refused it",
                &wide,
                binding("shop", "QuotaExceeded", "FederatedResourceQuota(shop/p) x"),
                None,
            ),
            ("it would fit by now", &wide, binding("shop", "QuotaExceeded", exceeded), Some(exceeded)),
        ] {
            let rows = quotas(std::slice::from_ref(quota), &[binding], &BTreeSet::new());
            let named: Vec<_> = rows[0].workloads.iter().map(|one| (one.word.as_str(), one.because.as_str())).collect();
            assert_eq!(
                named,
                want.map(|because| ("deployment.apps", because)).into_iter().collect::<Vec<_>>(),
                "{name}"
            );
            assert_eq!((rows[0].refused, rows[0].state == LinkState::Broken), (named.len(), want.is_some()), "{name}");
        }
        let many: Vec<_> = (0..30).map(|_| binding("shop", "QuotaExceeded", exceeded)).collect();
        let rows = quotas(&[tight], &many, &BTreeSet::new());
        assert_eq!((rows[0].refused, rows[0].workloads.len()), (30, 20));
        assert_eq!(rows[0].reason, "refuses 30 workloads");
    }
}
