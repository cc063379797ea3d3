//! Aggregation of the members' statuses into the template's status (specification/propagation.md 17; 31, rows 4 and
//! 5).

mod addresses;
mod job;
pub(crate) mod rollout;

use std::{borrow::Cow, collections::BTreeSet};

use ironclad_api::work::{AggregatedStatusItem, ResourceHealth};
use ironclad_fleet::ClusterName;
use serde_json::{Map, Value, json};

use crate::{
    kind::Kind,
    lens::{self, ShapeError, shape},
};

/// One cluster's report: an item of `aggregatedStatus`.
#[derive(Debug, Clone)]
pub struct Item<'a> {
    pub cluster: &'a str,
    /// The reflected status, if any.
    pub status: Option<Cow<'a, Value>>,
    /// True if the copy is applied.
    pub applied: bool,
    /// Error if it is not applied.
    pub message: &'a str,
    /// Health of the copy, if known.
    pub health: Option<ResourceHealth>,
}

impl<'a> Item<'a> {
    /// Report of an applied copy. Native rules read nothing else.
    #[must_use]
    pub fn of(cluster: &'a str, status: Option<&'a Value>) -> Self {
        Self { cluster, status: status.map(Cow::Borrowed), applied: true, message: "", health: None }
    }
}

impl<'a> From<&'a AggregatedStatusItem> for Item<'a> {
    fn from(item: &'a AggregatedStatusItem) -> Self {
        Self {
            cluster: &item.cluster_name,
            status: item.status.as_ref().map(|status| Cow::Owned(status.value())),
            applied: item.applied,
            message: &item.applied_message,
            health: item.health,
        }
    }
}

/// Reports of all clusters that sent or should send one, sorted by name.
pub(crate) struct Reports<'a> {
    /// Includes expected clusters without a report.
    pub(crate) all: Vec<Item<'a>>,
    expected: &'a BTreeSet<ClusterName>,
}

impl<'a> Reports<'a> {
    fn new(items: &[Item<'a>], expected: &'a BTreeSet<ClusterName>) -> Self {
        let mut all: Vec<Item<'a>> = items.to_vec();
        let silent = expected.iter().filter(|e| !items.iter().any(|item| item.cluster == &*e.0));
        all.extend(silent.map(|cluster| Item { applied: false, ..Item::of(&cluster.0, None) }));
        all.sort_by_key(|item| item.cluster);
        Self { all, expected }
    }

    /// The statuses of the clusters that sent one.
    pub(crate) fn reported(&self) -> impl Iterator<Item = (&'a str, &Value)> {
        self.all.iter().filter_map(|item| Some((item.cluster, item.status.as_deref()?)))
    }

    /// The reports of the expected clusters.
    pub(crate) fn expected(&self) -> impl Iterator<Item = &Item<'a>> {
        self.all.iter().filter(|item| self.expected.iter().any(|e| &*e.0 == item.cluster))
    }

    fn sum(&self, template: &Value, field: &'static str) -> Result<i64, ShapeError> {
        let mut sum = 0_i64;
        for (cluster, status) in self.reported() {
            match status.get(field) {
                None | Some(Value::Null) => {}
                Some(value) => {
                    let n = value.as_i64().ok_or_else(|| {
                        shape(template, format!("/{field} in the report of cluster {cluster}"), "a whole number")
                    })?;
                    sum = sum.saturating_add(n);
                }
            }
        }
        Ok(sum)
    }
}

pub(crate) fn aggregate(
    kind: Kind,
    template: &Value,
    items: &[Item<'_>],
    expected: &BTreeSet<ClusterName>,
    now: &str,
) -> Result<Value, ShapeError> {
    let reports = Reports::new(items, expected);
    let old = template.get("status").filter(|status| status.is_object()).cloned().unwrap_or_else(|| json!({}));
    let new = match kind {
        Kind::Deployment => {
            let sums = ["replicas", "readyReplicas", "updatedReplicas", "availableReplicas", "unavailableReplicas"];
            let mut status = counters(template, &old, &reports, &sums, &[])?;
            let generation = lens::integer(template, "/metadata/generation")?.unwrap_or(0);
            rollout::conditions(&mut status, &reports, generation, now);
            status
        }
        Kind::ReplicaSet => {
            counters(template, &old, &reports, &["replicas", "readyReplicas", "availableReplicas"], &["replicas"])?
        }
        Kind::DaemonSet => counters(
            template,
            &old,
            &reports,
            &[
                "currentNumberScheduled", "desiredNumberScheduled", "numberAvailable", "numberMisscheduled",
                "numberReady", "updatedNumberScheduled", "numberUnavailable",
            ],
            &["currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"],
        )?,
        Kind::StatefulSet => counters(
            template,
            &old,
            &reports,
            &["availableReplicas", "currentReplicas", "readyReplicas", "replicas", "updatedReplicas"],
            &["replicas", "availableReplicas"],
        )?,
        Kind::Service if lens::text(template, "/spec/type") != "LoadBalancer" => return Ok(old),
        Kind::Service => addresses::union(&reports, true),
        Kind::Ingress => addresses::union(&reports, false),
        Kind::Job => job::aggregate(template, &old, &reports, now)?,
        Kind::CronJob => cron_job(&reports),
        Kind::Pod if reports.all.is_empty() => return Ok(old),
        Kind::Pod => pod(&reports),
        Kind::PersistentVolume if reports.all.is_empty() => return Ok(old),
        Kind::PersistentVolume => {
            json!({"phase": first_present(&reports, &["Failed", "Pending", "Available", "Bound", "Released"])})
        }
        Kind::PersistentVolumeClaim if reports.all.is_empty() => return Ok(old),
        Kind::PersistentVolumeClaim => json!({"phase": claim_phase(&reports)}),
        Kind::PodDisruptionBudget => budget(template, &reports)?,
        Kind::HorizontalPodAutoscaler => {
            let sums = ["currentReplicas", "desiredReplicas"];
            set_counters(template, Map::new(), &reports, &sums, &["desiredReplicas"])?
        }
        Kind::ServiceAccount | Kind::Secret | Kind::ServiceImport => return Ok(old),
    };
    // Zero and an absent field are equal on the wire: the server may return either.
    Ok(if meaning(&old) == meaning(&new) { old } else { new })
}

/// Sums of the reported counters. Other fields of the old status are kept; `observedGeneration` follows rule G.
fn counters(
    template: &Value,
    old: &Value,
    reports: &Reports<'_>,
    sums: &[&'static str],
    always: &[&str],
) -> Result<Value, ShapeError> {
    let generation = lens::integer(template, "/metadata/generation")?.unwrap_or(0);
    let mut status = set_counters(template, old.as_object().cloned().unwrap_or_default(), reports, sums, always)?;
    if generation > 0
        && reports.expected().all(|item| item.status.as_deref().is_some_and(|report| up_to_date(report, generation)))
    {
        status["observedGeneration"] = generation.into();
    }
    Ok(status)
}

fn set_counters(
    template: &Value,
    mut status: Map<String, Value>,
    reports: &Reports<'_>,
    sums: &[&'static str],
    always: &[&str],
) -> Result<Value, ShapeError> {
    for field in sums {
        let sum = reports.sum(template, field)?;
        if sum == 0 && !always.contains(field) {
            status.remove(*field);
        } else {
            status.insert((*field).to_owned(), sum.into());
        }
    }
    Ok(Value::Object(status))
}

/// Rule G: the member's controller observed the member's spec, and that spec comes from the template's present
/// generation.
fn up_to_date(report: &Value, generation: i64) -> bool {
    let of = |field: &str| report.get(field).and_then(Value::as_i64).unwrap_or(0);
    of("observedGeneration") >= of("generation") && of("resourceTemplateGeneration") >= generation
}

fn latest<'a>(times: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    times.filter(|time| !time.is_empty()).max()
}

fn cron_job(reports: &Reports<'_>) -> Value {
    let mut status = Map::new();
    let active: Vec<Value> = reports.reported().flat_map(|(_, s)| lens::items(s, "/active").to_vec()).collect();
    if !active.is_empty() {
        status.insert("active".into(), active.into());
    }
    for field in ["lastScheduleTime", "lastSuccessfulTime"] {
        if let Some(time) = latest(reports.reported().map(|(_, s)| s.get(field).and_then(Value::as_str).unwrap_or("")))
        {
            status.insert(field.into(), time.into());
        }
    }
    Value::Object(status)
}

/// The first phase of `order` that a cluster reports; a missing report counts as Pending.
fn first_present(reports: &Reports<'_>, order: &[&'static str]) -> &'static str {
    let phases: BTreeSet<&str> = reports
        .all
        .iter()
        .map(|item| item.status.as_deref().map_or("Pending", |status| lens::text(status, "/phase")))
        .collect();
    order.iter().copied().find(|phase| phases.contains(phase)).unwrap_or("Pending")
}

fn claim_phase(reports: &Reports<'_>) -> String {
    let mut phase = "Bound".to_owned();
    for item in &reports.all {
        let reported = item.status.as_deref().map_or("Pending", |status| lens::text(status, "/phase"));
        match reported {
            "Lost" => return "Lost".into(),
            "Bound" | "" => {}
            other => phase = other.to_owned(),
        }
    }
    phase
}

fn pod(reports: &Reports<'_>) -> Value {
    let mut status = Map::new();
    status.insert("phase".into(), first_present(reports, &["Failed", "Pending", "Running", "Succeeded"]).into());
    for field in ["containerStatuses", "initContainerStatuses"] {
        let all: Vec<Value> = reports
            .reported()
            .flat_map(|(_, s)| lens::items(s, &format!("/{field}")))
            .map(|container| {
                // A server writes these empty fields for a typed container status.
                json!({
                    "name": "", "image": "", "imageID": "", "restartCount": 0, "lastState": {},
                    "ready": container.get("ready").and_then(Value::as_bool).unwrap_or(false),
                    "state": container.get("state").cloned().unwrap_or_else(|| json!({})),
                })
            })
            .collect();
        if !all.is_empty() {
            status.insert(field.into(), all.into());
        }
    }
    Value::Object(status)
}

fn budget(template: &Value, reports: &Reports<'_>) -> Result<Value, ShapeError> {
    let sums = ["currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed"];
    let mut status = set_counters(template, Map::new(), reports, &sums, &sums)?;
    let disrupted: Map<String, Value> = reports
        .reported()
        .filter_map(|(cluster, s)| Some((cluster, s.get("disruptedPods")?.as_object()?)))
        .flat_map(|(cluster, pods)| pods.iter().map(move |(pod, at)| (format!("{cluster}/{pod}"), at.clone())))
        .collect();
    if !disrupted.is_empty() {
        status["disruptedPods"] = Value::Object(disrupted);
    }
    Ok(status)
}

/// The value without nulls, zeros, empty texts, maps and lists, which mean the same as absent fields.
fn meaning(value: &Value) -> Value {
    let says_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_i64() == Some(0),
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => o.is_empty(),
    };
    match value {
        Value::Object(map) => {
            Value::Object(map.iter().map(|(k, v)| (k.clone(), meaning(v))).filter(|(_, v)| !says_nothing(v)).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(meaning).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn object(api_version: &str, kind: &str, status: Value) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "w", "generation": 3}, "status": status})
    }

    pub(super) fn run(template: &Value, items: &[(&str, Option<Value>)], expected: &[&str]) -> Value {
        let items: Vec<Item<'_>> = items.iter().map(|(cluster, status)| Item::of(cluster, status.as_ref())).collect();
        let expected = expected.iter().map(|c| ClusterName::from(*c)).collect();
        aggregate(Kind::of(template).unwrap(), template, &items, &expected, NOW).unwrap()
    }

    fn up(n: i64) -> Value {
        json!({"replicas": n, "readyReplicas": n, "updatedReplicas": n, "availableReplicas": n,
            "observedGeneration": 9, "generation": 9, "resourceTemplateGeneration": 3})
    }

    #[test]
    fn deployment_counters_are_summed() {
        let behind = json!({"replicas": 1, "observedGeneration": 9, "generation": 9, "resourceTemplateGeneration": 2});
        let unseen = json!({"replicas": 1, "observedGeneration": 8, "generation": 9, "resourceTemplateGeneration": 3});
        let template = object(
            "apps/v1",
            "Deployment",
            json!({"observedGeneration": 2, "conditions": [{"type": "X"}], "readyReplicas": 9}),
        );
        for (name, items, expected, want) in [
            (
                "sums, the old conditions kept, observed once all are up to date",
                vec![("m1", Some(up(2))), ("m2", Some(up(3)))],
                vec!["m1", "m2"],
                json!({"replicas": 5, "readyReplicas": 5, "updatedReplicas": 5, "availableReplicas": 5, "observedGeneration": 3, "conditions": [{"type": "X"}]}),
            ),
            (
                "not observed while one copy is of an older template",
                vec![("m1", Some(up(2))), ("m2", Some(behind))],
                vec!["m1", "m2"],
                json!({"replicas": 3, "readyReplicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "observedGeneration": 2, "conditions": [{"type": "X"}]}),
            ),
            (
                "nor while a member's controller has not seen it",
                vec![("m1", Some(unseen))],
                vec!["m1"],
                json!({"replicas": 1, "observedGeneration": 2, "conditions": [{"type": "X"}]}),
            ),
            (
                "nor while an expected cluster is silent",
                vec![("m1", Some(up(2))), ("m2", None)],
                vec!["m1", "m2"],
                json!({"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "observedGeneration": 2, "conditions": [{"type": "X"}]}),
            ),
            (
                "nor while an expected cluster has no Work yet",
                vec![("m1", Some(up(2)))],
                vec!["m1", "m2"],
                json!({"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "observedGeneration": 2, "conditions": [{"type": "X"}]}),
            ),
            (
                "not scheduled: zeros, and observed",
                vec![],
                vec![],
                json!({"observedGeneration": 3, "conditions": [{"type": "X"}]}),
            ),
        ] {
            let mut got = run(&template, &items, &expected);
            let conditions = got["conditions"].as_array_mut().unwrap();
            // Those that are computed have a table of their own.
            conditions.retain(|condition| condition["type"] == "X");
            assert_eq!(got, want, "{name}");
        }
    }

    #[test]
    fn other_kinds_with_counters() {
        let one = |fields: &[&str]| {
            let mut map: Map<String, Value> =
                fields.iter().enumerate().map(|(i, f)| ((*f).to_owned(), json!(i + 1))).collect();
            for (k, v) in [("observedGeneration", 1), ("generation", 1), ("resourceTemplateGeneration", 3)] {
                map.insert(k.into(), v.into());
            }
            Value::Object(map)
        };
        for (kind, fields) in [
            ("ReplicaSet", vec!["replicas", "readyReplicas", "availableReplicas"]),
            (
                "StatefulSet",
                vec!["availableReplicas", "currentReplicas", "readyReplicas", "replicas", "updatedReplicas"],
            ),
            (
                "DaemonSet",
                vec![
                    "currentNumberScheduled", "desiredNumberScheduled", "numberAvailable", "numberMisscheduled",
                    "numberReady", "updatedNumberScheduled", "numberUnavailable",
                ],
            ),
        ] {
            let got = run(
                &object("apps/v1", kind, json!({})),
                &[("a", Some(one(&fields))), ("b", Some(one(&fields)))],
                &["a", "b"],
            );
            for (i, field) in fields.iter().enumerate() {
                assert_eq!(got[field], json!(2 * (i + 1)), "{kind} {field}");
            }
            assert_eq!(got["observedGeneration"], 3, "{kind}");
            assert_eq!(got.as_object().unwrap().len(), fields.len() + 1, "{kind}: nothing else");
        }
    }

    #[test]
    fn zero_equals_an_absent_field() {
        let template = object("apps/v1", "ReplicaSet", json!({"observedGeneration": 3}));
        assert_eq!(run(&template, &[], &[]), json!({"observedGeneration": 3}));
    }

    #[test]
    fn phases_take_the_worst_report() {
        let phase = |p: &str| Some(json!({"phase": p}));
        for (kind, items, want) in [
            ("Pod", vec![phase("Running"), phase("Failed")], "Failed"),
            ("Pod", vec![phase("Running"), None], "Pending"),
            ("Pod", vec![phase("Running"), phase("Succeeded")], "Running"),
            ("Pod", vec![phase("Succeeded")], "Succeeded"),
            ("PersistentVolume", vec![phase("Bound"), phase("Failed")], "Failed"),
            ("PersistentVolume", vec![phase("Bound"), None], "Pending"),
            ("PersistentVolume", vec![phase("Bound"), phase("Available")], "Available"),
            ("PersistentVolume", vec![phase("Released"), phase("Bound")], "Bound"),
            ("PersistentVolumeClaim", vec![phase("Bound"), phase("Bound")], "Bound"),
            ("PersistentVolumeClaim", vec![phase("Bound"), phase("Pending")], "Pending"),
            ("PersistentVolumeClaim", vec![phase("Lost"), phase("Pending")], "Lost"),
            ("PersistentVolumeClaim", vec![phase("Bound"), None], "Pending"),
        ] {
            let names = ["a", "b"];
            let reports: Vec<(&str, Option<Value>)> = names.iter().copied().zip(items.clone()).collect();
            let got = run(&object("v1", kind, json!({"conditions": [{}]})), &reports, &names[..reports.len()]);
            assert_eq!(got["phase"], want, "{kind} {items:?}");
            assert!(got.get("conditions").is_none(), "{kind}: the status is replaced");
        }
    }

    #[test]
    fn pod_aggregation_keeps_ready_and_state() {
        let status = json!({"phase": "Running", "containerStatuses": [{"name": "a", "ready": true, "state": {"running": {}}, "image": "x"}]});
        let got =
            run(&object("v1", "Pod", json!({})), &[("a", Some(status.clone())), ("b", Some(status))], &["a", "b"]);
        let container = json!({"name": "", "image": "", "imageID": "", "restartCount": 0, "lastState": {}, "ready": true, "state": {"running": {}}});
        assert_eq!(got, json!({"phase": "Running", "containerStatuses": [container, container]}));
        let untouched = json!({"phase": "Pending", "qosClass": "x"});
        assert_eq!(run(&object("v1", "Pod", untouched.clone()), &[], &[]), untouched);
    }

    #[test]
    fn cron_jobs_budgets_and_autoscalers() {
        let cron = run(
            &object("batch/v1", "CronJob", json!({})),
            &[
                ("a", Some(json!({"active": [{"name": "1"}], "lastScheduleTime": "2026-01-01T00:00:00Z"}))),
                (
                    "b",
                    Some(
                        json!({"active": [{"name": "2"}], "lastScheduleTime": "2026-02-01T00:00:00Z", "lastSuccessfulTime": "2026-01-01T00:00:00Z"}),
                    ),
                ),
            ],
            &["a", "b"],
        );
        assert_eq!(
            cron,
            json!({"active": [{"name": "1"}, {"name": "2"}], "lastScheduleTime": "2026-02-01T00:00:00Z", "lastSuccessfulTime": "2026-01-01T00:00:00Z"})
        );
        let report = json!({"currentHealthy": 1, "desiredHealthy": 2, "expectedPods": 3, "disruptionsAllowed": 4, "disruptedPods": {"p": "t"}});
        let budget = run(
            &object("policy/v1", "PodDisruptionBudget", json!({"conditions": [{}]})),
            &[("a", Some(report.clone())), ("b", Some(report))],
            &["a", "b"],
        );
        assert_eq!(
            budget,
            json!({"currentHealthy": 2, "desiredHealthy": 4, "expectedPods": 6, "disruptionsAllowed": 8, "disruptedPods": {"a/p": "t", "b/p": "t"}})
        );
        let report = json!({"currentReplicas": 2, "desiredReplicas": 3, "conditions": [{}]});
        let hpa = run(
            &object("autoscaling/v2", "HorizontalPodAutoscaler", json!({})),
            &[("a", Some(report.clone())), ("b", Some(report))],
            &["a", "b"],
        );
        assert_eq!(hpa, json!({"currentReplicas": 4, "desiredReplicas": 6}));
    }

    #[test]
    fn malformed_report_names_its_cluster() {
        let template = object("apps/v1", "Deployment", json!({}));
        let bad = json!({"replicas": "2"});
        let error =
            aggregate(Kind::Deployment, &template, &[Item::of("m2", Some(&bad))], &BTreeSet::new(), NOW).unwrap_err();
        assert_eq!(error.to_string(), "Deployment w: /replicas in the report of cluster m2 must be a whole number");
    }
}
