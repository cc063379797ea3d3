//! Conditions of a Deployment's template (specification/propagation.md 17), which `kubectl wait` and Helm's watchers
//! read.

use serde_json::{Map, Value, json};

use super::{Item, Reports, up_to_date};
use crate::lens;

/// Type, status, reason and message.
type Said = (&'static str, &'static str, &'static str, String);

/// Sets the conditions Available and Progressing, and ReplicaFailure while a member says so. Conditions of other types
/// are kept. A template that belongs to no cluster has none of these.
pub(super) fn conditions(status: &mut Value, reports: &Reports<'_>, generation: i64, now: &str) {
    let expected: Vec<&Item<'_>> = reports.expected().collect();
    let said = if expected.is_empty() { Vec::new() } else { said(&expected, generation) };
    let before = lens::items(status, "/conditions").to_vec();
    let is_ours = |condition: &Value| OURS.contains(&lens::text(condition, "/type"));
    let mut all: Vec<Value> = before.iter().filter(|condition| !is_ours(condition)).cloned().collect();
    all.extend(
        said.iter()
            .map(|said| condition(before.iter().find(|condition| lens::text(condition, "/type") == said.0), said, now)),
    );
    match status.as_object_mut() {
        Some(status) if all.is_empty() => drop(status.remove("conditions")),
        Some(status) => drop(status.insert("conditions".to_owned(), all.into())),
        None => {}
    }
}

const OURS: [&str; 3] = ["Available", "Progressing", "ReplicaFailure"];

fn said(expected: &[&Item<'_>], generation: i64) -> Vec<Said> {
    let of = |holds: &dyn Fn(&Value) -> bool| -> Vec<&str> {
        let holds = |item: &&&Item<'_>| item.status.as_deref().is_some_and(holds);
        expected.iter().filter(holds).map(|item| item.cluster).collect()
    };
    let without = |all: &[&str]| -> Vec<&str> {
        expected.iter().map(|item| item.cluster).filter(|cluster| !all.contains(cluster)).collect()
    };
    let unavailable = without(&of(&is_available));
    let available = if unavailable.is_empty() {
        ("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability in all clusters.".into())
    } else {
        let message = format!("Deployment does not have minimum availability in {}.", listed(&unavailable));
        ("Available", "False", "MinimumReplicasUnavailable", message)
    };
    let late = of(&|status| lens::condition(status, "Progressing") == "False");
    let unfinished = without(&of(&|status| is_rolled_out(status, generation)));
    let progressing = if !late.is_empty() {
        let message = format!("Deployment has timed out progressing in {}.", listed(&late));
        ("Progressing", "False", "ProgressDeadlineExceeded", message)
    } else if unfinished.is_empty() {
        (
            "Progressing",
            "True",
            "NewReplicaSetAvailable",
            "Deployment has successfully progressed in all clusters.".into(),
        )
    } else {
        let message = format!("Deployment is progressing in {}.", listed(&unfinished));
        ("Progressing", "True", "ReplicaSetUpdated", message)
    };
    let failed = of(&|status| lens::condition(status, "ReplicaFailure") == "True");
    let mut all = vec![available, progressing];
    if !failed.is_empty() {
        all.push((
            "ReplicaFailure",
            "True",
            "FailedCreate",
            format!("Pods could not be created in {}.", listed(&failed)),
        ));
    }
    all
}

/// Reports of older versions have no conditions.
fn is_available(status: &Value) -> bool {
    match lens::condition(status, "Available") {
        "" => count(status, "replicas") > 0 && count(status, "unavailableReplicas") == 0,
        said => said == "True",
    }
}

/// The member runs the present template, and nothing of an older one.
fn is_rolled_out(status: &Value, generation: i64) -> bool {
    let replicas = count(status, "replicas");
    up_to_date(status, generation)
        && count(status, "unavailableReplicas") == 0
        && ["updatedReplicas", "availableReplicas"].iter().all(|field| count(status, field) == replicas)
}

fn count(status: &Value, field: &str) -> i64 {
    status.get(field).and_then(Value::as_i64).unwrap_or(0)
}

/// Number of names in a message.
const LISTED_MAX: usize = 5;

fn listed(clusters: &[&str]) -> String {
    let first = &clusters[..clusters.len().min(LISTED_MAX)];
    match clusters.len() - first.len() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// The condition with its times: those of `before` as long as it says the same.
fn condition(before: Option<&Value>, said: &Said, now: &str) -> Value {
    let (type_, status, reason, message) = said;
    let is = |field: &str, value: &str| before.is_some_and(|before| lens::text(before, field) == value);
    let kept = |field: &str| before.map(|before| lens::text(before, field)).filter(|time| !time.is_empty());
    let has_status = is("/status", status);
    let is_same = has_status && is("/reason", reason) && is("/message", message);
    let time = |keep: bool, field: &str| if keep { kept(field).unwrap_or(now).to_owned() } else { now.to_owned() };
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": time(has_status, "/lastTransitionTime"),
        "lastUpdateTime": time(is_same, "/lastUpdateTime"),
    })
}

/// The conditions of a member's Deployment that its report carries: type, status and reason, without times and texts,
/// which would change reports that say the same.
pub(crate) fn reflected(status: &Value) -> Option<Value> {
    let says = |condition: &&Value| {
        matches!(
            (lens::text(condition, "/type"), lens::text(condition, "/status")),
            ("Available", _) | ("Progressing", "False") | ("ReplicaFailure", "True")
        )
    };
    let part = |condition: &Value| -> Value {
        let field = |name: &str| Some((name.to_owned(), condition.get(name).filter(|v| v.is_string())?.clone()));
        ["type", "status", "reason"].into_iter().filter_map(field).collect::<Map<_, _>>().into()
    };
    let all: Vec<Value> = lens::items(status, "/conditions").iter().filter(says).map(part).collect();
    (!all.is_empty()).then(|| all.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::tests::run;

    fn template(conditions: Value) -> Value {
        let status = json!({"observedGeneration": 3, "replicas": 4, "conditions": conditions});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w", "generation": 3}, "status": status})
    }

    /// Two of two replicas, with these conditions.
    fn report(available: i64, conditions: Value) -> Option<Value> {
        let mut status = json!({"replicas": 2, "updatedReplicas": 2, "readyReplicas": available,
            "availableReplicas": available, "observedGeneration": 1, "generation": 1, "resourceTemplateGeneration": 3});
        if available < 2 {
            status["unavailableReplicas"] = (2 - available).into();
        }
        if conditions != json!([]) {
            status["conditions"] = conditions;
        }
        Some(status)
    }

    /// `type=status reason: message` of each condition.
    fn lines(status: &Value) -> Vec<String> {
        let line = |c: &Value| {
            let of = |field: &str| lens::text(c, &format!("/{field}")).to_owned();
            format!("{}={} {}: {}", of("type"), of("status"), of("reason"), of("message"))
        };
        lens::items(status, "/conditions").iter().map(line).collect()
    }

    #[test]
    fn a_template_is_available_where_all_members_are() {
        let says = |type_: &str, status: &str| json!([{"type": type_, "status": status}]);
        let (yes, no) = (says("Available", "True"), says("Available", "False"));
        let available = "Available=True MinimumReplicasAvailable: Deployment has minimum availability in all clusters.";
        let not = |clusters: &str| {
            format!(
                "Available=False MinimumReplicasUnavailable: Deployment does not have minimum availability in {clusters}."
            )
        };
        let done = "Progressing=True NewReplicaSetAvailable: Deployment has successfully progressed in all clusters.";
        let goes_on =
            |clusters: &str| format!("Progressing=True ReplicaSetUpdated: Deployment is progressing in {clusters}.");
        let late = "Progressing=False ProgressDeadlineExceeded: Deployment has timed out progressing in m2.".to_owned();
        let failed = "ReplicaFailure=True FailedCreate: Pods could not be created in m2.".to_owned();
        let old = {
            let mut old = report(2, yes.clone());
            old.as_mut().unwrap()["resourceTemplateGeneration"] = 2.into();
            old
        };
        for (name, reports, want) in [
            ("all are", [report(2, yes.clone()), report(2, yes.clone())], vec![available.to_owned(), done.to_owned()]),
            ("one is not", [report(2, yes.clone()), report(0, no.clone())], vec![not("m2"), goes_on("m2")]),
            (
                "one is, with less than all replicas",
                [report(2, yes.clone()), report(1, yes.clone())],
                vec![available.to_owned(), goes_on("m2")],
            ),
            ("one is silent", [report(2, yes.clone()), None], vec![not("m2"), goes_on("m2")]),
            ("one runs an older template", [report(2, yes.clone()), old], vec![available.to_owned(), goes_on("m2")]),
            (
                "one is too late",
                [report(2, yes.clone()), report(0, says("Progressing", "False"))],
                vec![not("m2"), late],
            ),
            (
                "one is refused pods",
                [report(2, yes.clone()), report(0, says("ReplicaFailure", "True"))],
                vec![not("m2"), goes_on("m2"), failed],
            ),
            (
                "reports without conditions",
                [report(2, json!([])), report(1, json!([]))],
                vec![not("m2"), goes_on("m2")],
            ),
            (
                "the same, all available",
                [report(2, json!([])), report(2, json!([]))],
                vec![available.to_owned(), done.to_owned()],
            ),
        ] {
            let [first, second] = reports;
            let got = run(&template(json!([])), &[("m1", first), ("m2", second)], &["m1", "m2"]);
            assert_eq!(lines(&got), want, "{name}");
        }
        let left = json!([{"type": "Available", "status": "True"}, {"type": "X", "status": "True"}]);
        assert_eq!(lines(&run(&template(left), &[], &[])), ["X=True : "], "it belongs to no cluster");
    }

    #[test]
    fn times_change_with_what_is_said() {
        let at = "2025-01-01T00:00:00Z";
        let before = json!([
            {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "lastTransitionTime": at, "lastUpdateTime": at,
                "message": "Deployment does not have minimum availability in m1."},
            {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated", "lastTransitionTime": at, "lastUpdateTime": at,
                "message": "Deployment is progressing in m1."},
        ]);
        let times = |available: i64| {
            let got = run(&template(before.clone()), &[("m1", report(available, json!([])))], &["m1"]);
            let of = |c: &Value, field: &str| lens::text(c, field) == at;
            let kept = |c: &Value| (of(c, "/lastTransitionTime"), of(c, "/lastUpdateTime"));
            lens::items(&got, "/conditions").iter().map(kept).collect::<Vec<_>>()
        };
        assert_eq!(times(0), [(true, true), (true, true)], "they say the same");
        assert_eq!(times(2), [(false, false), (true, false)], "one has another status, the other another reason");
    }

    #[test]
    fn reports_carry_what_decides() {
        let status = json!({"conditions": [
            {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": "m", "lastUpdateTime": "t"},
            {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"},
            {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "pods \"w-1x2y\" is forbidden"},
            {"type": "Other", "status": "True"},
        ]});
        let want = json!([
            {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"},
            {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"},
        ]);
        assert_eq!(reflected(&status), Some(want));
        assert_eq!(reflected(&json!({"replicas": 1})), None);
    }
}
