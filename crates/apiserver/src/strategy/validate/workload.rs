//! Workloads and budgets.

use serde_json::{Value, json};

use ironclad_patch::selector::LabelSelector;

use crate::status::Cause;

use super::{at, formats, immutable, label, list, not_negative, one_of, pod, quoted, quoted_selector, text};

/// Whether the template of a workload is what it was: accepted once, it needs no second look.
fn same_template(object: &Value, old: Option<&Value>) -> bool {
    old.is_some_and(|old| {
        at(object, "/spec/template") == at(old, "/spec/template")
            && at(object, "/spec/selector") == at(old, "/spec/selector")
    })
}

/// Whether the workload's selector selects its own pods; `None` where it isn't one.
fn selects_own(object: &Value) -> Option<bool> {
    let selector = at(object, "/spec/selector");
    if selector.is_object() {
        let mut causes = Vec::new();
        formats::label_selector(selector, "", &mut causes);
        if !causes.is_empty() {
            return None;
        }
    }
    let parsed = LabelSelector::from_object(selector).ok()?.unwrap_or_default();
    Some(selector.is_object() && parsed.matches_object(at(object, "/spec/template")))
}

fn is_empty(selector: &Value) -> bool {
    let none = |key: &str| match &selector[key] {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    };
    selector.is_object() && none("matchLabels") && none("matchExpressions")
}

fn stray_labels(object: &Value) -> Cause {
    let labels = at(object, "/spec/template/metadata/labels");
    Cause::invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
}

/// Selector, labels of the template, and the template itself. `of` is how refusals of empty selectors name the kind.
fn selected_template(object: &Value, of: &str, owner: &str, out: &mut Vec<Cause>) {
    let selector = at(object, "/spec/selector");
    if selector.is_object() {
        formats::label_selector(selector, "spec.selector", out);
        if is_empty(selector) {
            out.push(Cause::invalid("spec.selector", selector, format!("empty selector is invalid for {of}")));
        }
    } else {
        out.push(Cause::required("spec.selector", ""));
    }
    match selects_own(object) {
        None => {
            let why = if of == "statefulset" { "" } else { "invalid label selector" };
            let mut cause = Cause::invalid_quoted("spec.selector", &quoted_selector(selector), why);
            if why.is_empty() {
                cause.message.truncate(cause.message.len() - 2);
            }
            out.push(cause);
        }
        Some(own) => {
            if !own && !is_empty(selector) {
                out.push(stray_labels(object));
            }
            let claims = list(object, "/spec/volumeClaimTemplates");
            pod::kept_running(at(object, "/spec/template"), owner, claims, out);
        }
    }
}

/// A number or a percentage.
fn amount_or_percent(value: &Value, field: &str, out: &mut Vec<Cause>) {
    match value {
        Value::String(text) if percent(text).is_none() => {
            let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
            out.push(Cause::invalid(field, value, why));
        }
        _ if value.as_i64().is_some_and(|n| n < 0) => {
            out.push(Cause::invalid(field, value, "must be greater than or equal to 0"));
        }
        _ => {}
    }
}

fn percent(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('%').filter(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))?;
    Some(digits.parse().unwrap_or(u64::MAX))
}

fn at_most_all(value: &Value, field: &str, out: &mut Vec<Cause>) {
    if value.as_str().and_then(percent).is_some_and(|p| p > 100) {
        out.push(Cause::invalid(field, value, "must not be greater than 100%"));
    }
}

/// Whether a number or percentage is none at all; what is neither is.
fn is_none(value: &Value) -> bool {
    match value {
        Value::String(text) => percent(text).unwrap_or(0) == 0,
        value => value.as_i64().unwrap_or(0) == 0,
    }
}

pub(super) fn deployment(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    not_negative(object, "/spec/replicas", out);
    if !same_template(object, old) {
        selected_template(object, "deployment", "ReplicaSet", out);
    }
    deployment_strategy(at(object, "/spec/strategy"), out);
    for field in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        not_negative(object, &format!("/spec/{field}"), out);
    }
    let deadline = at(object, "/spec/progressDeadlineSeconds");
    let ready = at(object, "/spec/minReadySeconds").as_i64().unwrap_or(0);
    if deadline.as_i64().is_some_and(|n| n <= ready) {
        out.push(Cause::invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"));
    }
    immutable_selector(object, old, out);
    // A status is judged when it changes: with whatever it is, the rest must remain changeable.
    if old.is_some_and(|old| old["status"] != object["status"]) {
        deployment_status(object, out);
    }
}

fn immutable_selector(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    let selector = at(object, "/spec/selector");
    if old.is_some_and(|old| at(old, "/spec/selector") != selector) {
        out.push(Cause::invalid_quoted("spec.selector", &quoted_selector(selector), "field is immutable"));
    }
}

fn deployment_strategy(strategy: &Value, out: &mut Vec<Cause>) {
    const FIELD: &str = "spec.strategy.rollingUpdate";
    let update = &strategy["rollingUpdate"];
    match text(strategy, "/type") {
        "Recreate" if update.is_object() => {
            out.push(Cause::forbidden(FIELD, "may not be specified when strategy `type` is 'Recreate'"));
        }
        "" | "Recreate" => {}
        "RollingUpdate" => {
            let (unavailable, surge) = (&update["maxUnavailable"], &update["maxSurge"]);
            let field = format!("{FIELD}.maxUnavailable");
            amount_or_percent(unavailable, &field, out);
            amount_or_percent(surge, &format!("{FIELD}.maxSurge"), out);
            if is_none(unavailable) && is_none(surge) {
                out.push(Cause::invalid(&field, unavailable, "may not be 0 when `maxSurge` is 0"));
            }
            at_most_all(unavailable, &field, out);
        }
        other => {
            let quote = quoted(&[("Type", json!(other)), ("RollingUpdate", update.clone())]);
            out.push(Cause::unsupported_quoted("spec.strategy", &quote, &["Recreate", "RollingUpdate"]));
        }
    }
}

/// Counts that can't be negative, and those that are parts of others: the names of both, and how refusals name the whole.
fn counts(object: &Value, counts: &[&str], parts: &[(&str, &str, &str)], out: &mut Vec<Cause>) {
    for field in counts {
        not_negative(object, &format!("/status/{field}"), out);
    }
    let count = |field: &str| at(object, &format!("/status/{field}")).as_i64().unwrap_or(0);
    for (part, whole, called) in parts {
        if count(part) > count(whole) {
            let why = format!("cannot be greater than {called}");
            out.push(Cause::invalid(format!("status.{part}"), &json!(count(part)), why));
        }
    }
}

fn status_changed(object: &Value, old: Option<&Value>) -> bool {
    old.is_some_and(|old| old["status"] != object["status"])
}

fn deployment_status(object: &Value, out: &mut Vec<Cause>) {
    const COUNTS: [&str; 6] = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
    ];
    const PARTS: [(&str, &str, &str); 4] = [
        ("updatedReplicas", "replicas", "status.replicas"),
        ("readyReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "readyReplicas", "readyReplicas"),
    ];
    counts(object, &COUNTS, &PARTS, out);
}

pub(super) fn replica_set(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    const COUNTS: [&str; 5] =
        ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"];
    not_negative(object, "/spec/replicas", out);
    not_negative(object, "/spec/minReadySeconds", out);
    if !same_template(object, old) {
        selected_template(object, "deployment", "ReplicaSet", out);
    }
    immutable_selector(object, old, out);
    if status_changed(object, old) {
        counts(object, &COUNTS, &OF_REPLICAS, out);
    }
}

const OF_REPLICAS: [(&str, &str, &str); 4] = [
    ("fullyLabeledReplicas", "replicas", "status.replicas"),
    ("readyReplicas", "replicas", "status.replicas"),
    ("availableReplicas", "replicas", "status.replicas"),
    ("availableReplicas", "readyReplicas", "readyReplicas"),
];

pub(super) fn replication_controller(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    not_negative(object, "/spec/minReadySeconds", out);
    let selector = at(object, "/spec/selector").as_object();
    if selector.is_none_or(serde_json::Map::is_empty) {
        out.push(Cause::required("spec.selector", ""));
    }
    not_negative(object, "/spec/replicas", out);
    let template = at(object, "/spec/template");
    if !template.is_object() {
        out.push(Cause::required("spec.template", ""));
    } else if !same_template(object, old) {
        let labels = at(template, "/metadata/labels");
        if selector.into_iter().flatten().any(|(key, value)| labels.get(key) != Some(value)) {
            out.push(stray_labels(object));
        }
        pod::kept_running(template, "ReplicationController", &[], out);
    }
}

/// A template by itself: its pods may be started again in any way.
pub(super) fn pod_template(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    if old.is_none_or(|old| old["template"] != object["template"]) {
        pod::template(at(object, "/template"), "template", out);
    }
}

pub(super) fn daemon_set(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    const COUNTS: [&str; 9] = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    immutable_selector(object, old, out);
    if !same_template(object, old) {
        let selector = at(object, "/spec/selector");
        formats::label_selector(selector, "spec.selector", out);
        if selects_own(object) == Some(false) && !is_empty(selector) {
            out.push(stray_labels(object));
        }
        if is_empty(selector) {
            out.push(Cause::invalid("spec.selector", selector, "empty selector is invalid for daemonset"));
        }
        pod::kept_running(at(object, "/spec/template"), "DaemonSet", &[], out);
    }
    not_negative(object, "/spec/minReadySeconds", out);
    daemon_strategy(at(object, "/spec/updateStrategy"), out);
    not_negative(object, "/spec/revisionHistoryLimit", out);
    if status_changed(object, old) {
        counts(object, &COUNTS, &[], out);
    }
}

fn daemon_strategy(strategy: &Value, out: &mut Vec<Cause>) {
    let update = &strategy["rollingUpdate"];
    match text(strategy, "/type") {
        "" | "OnDelete" => {}
        "RollingUpdate" => {
            let field = |name: &str| format!("spec.updateStrategy.rollingUpdate.{name}");
            let (unavailable, surge) = (&update["maxUnavailable"], &update["maxSurge"]);
            // The numbers of both are judged before the sizes of both.
            for judge in [amount_or_percent, at_most_all] {
                judge(unavailable, &field("maxUnavailable"), out);
                judge(surge, &field("maxSurge"), out);
            }
            match (is_none(unavailable), is_none(surge)) {
                (false, false) => {
                    let why = "may not be set when maxUnavailable is non-zero";
                    out.push(Cause::invalid(field("maxSurge"), surge, why));
                }
                (true, true) => {
                    out.push(Cause::required(field("maxUnavailable"), "cannot be 0 when maxSurge is 0"));
                }
                _ => {}
            }
        }
        other => {
            let quote = quoted(&[("Type", json!(other)), ("RollingUpdate", update.clone())]);
            out.push(Cause::unsupported_quoted("spec.updateStrategy", &quote, &["RollingUpdate", "OnDelete"]));
        }
    }
}

pub(super) fn stateful_set(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    const MUTABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    const COUNTS: [&str; 7] = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    const PARTS: [(&str, &str, &str); 5] = [
        ("readyReplicas", "replicas", "status.replicas"),
        ("currentReplicas", "replicas", "status.replicas"),
        ("updatedReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "readyReplicas", "status.readyReplicas"),
    ];
    stateful_policies(at(object, "/spec"), out);
    if old.is_none() {
        for (i, claim) in list(object, "/spec/volumeClaimTemplates").iter().enumerate() {
            pod::claim_template(at(claim, "/spec"), &format!("spec.volumeClaimTemplates[{i}].spec"), out);
        }
    }
    for field in ["replicas", "minReadySeconds", "ordinals/start"] {
        not_negative(object, &format!("/spec/{field}"), out);
    }
    let service = text(object, "/spec/serviceName");
    if !service.is_empty() && old.is_none() {
        label(service, "spec.serviceName", out);
    }
    if !same_template(object, old) {
        selected_template(object, "statefulset", "StatefulSet", out);
    }
    let Some(old) = old else { return };
    let fixed = |o: &Value| {
        let mut spec = at(o, "/spec").clone();
        if let Some(map) = spec.as_object_mut() {
            map.retain(|k, _| !MUTABLE.contains(&k.as_str()));
        }
        spec
    };
    if fixed(object) != fixed(old) {
        out.push(Cause::forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        ));
    }
    if status_changed(object, Some(old)) {
        counts(object, &COUNTS, &PARTS, out);
    }
}

/// How pods of a StatefulSet come, change and go.
fn stateful_policies(spec: &Value, out: &mut Vec<Cause>) {
    let invalid = |field: &str, value: &str, why: &str| Cause::invalid_quoted(field, value, why);
    let policy = text(spec, "/podManagementPolicy");
    if !["", "OrderedReady", "Parallel"].contains(&policy) {
        let quote = json!(policy).to_string();
        out.push(invalid("spec.podManagementPolicy", &quote, "must be 'OrderedReady' or 'Parallel'"));
    }
    let strategy = at(spec, "/updateStrategy");
    let update = &strategy["rollingUpdate"];
    let members = [("Partition", update["partition"].clone()), ("MaxUnavailable", update["maxUnavailable"].clone())];
    match text(strategy, "/type") {
        "OnDelete" if update.is_object() => {
            let why = "only allowed for updateStrategy 'RollingUpdate'";
            out.push(invalid("spec.updateStrategy.rollingUpdate", &quoted(&members), why));
        }
        "" | "OnDelete" => {}
        "RollingUpdate" => {
            let partition = &update["partition"];
            if partition.as_i64().is_some_and(|n| n < 0) {
                let why = "must be greater than or equal to 0";
                out.push(Cause::invalid("spec.updateStrategy.rollingUpdate.partition", partition, why));
            }
        }
        other => {
            let update = if update.is_object() { quoted(&members) } else { "null".to_owned() };
            let quote = format!("{{\"Type\":{},\"RollingUpdate\":{update}}}", json!(other));
            out.push(invalid("spec.updateStrategy", &quote, "must be 'RollingUpdate' or 'OnDelete'"));
        }
    }
    for key in ["whenDeleted", "whenScaled"] {
        let policy = at(spec, &format!("/persistentVolumeClaimRetentionPolicy/{key}"));
        if let Some(policy) = policy.as_str().filter(|p| !p.is_empty()) {
            let field = format!("spec.persistentVolumeClaimRetentionPolicy.{key}");
            formats::supported(policy, &field, &["Retain", "Delete"], out);
        }
    }
}

/// A revision of a template is made once and never changes.
pub(super) fn revision(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    not_negative(object, "/revision", out);
    match at(object, "/data") {
        _ if old.is_some() => immutable(object, old, "/data", out),
        Value::Null => out.push(Cause::required("data", "data is mandatory")),
        Value::Object(_) => {}
        _ => out.push(Cause::required("data", "data must be a valid JSON object")),
    }
}

pub(super) fn budget(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    let spec = at(object, "/spec");
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        let mut members = vec![("MinAvailable", spec["minAvailable"].clone())];
        members.push(("Selector", spec["selector"].clone()));
        members.push(("MaxUnavailable", spec["maxUnavailable"].clone()));
        members.push(("UnhealthyPodEvictionPolicy", spec["unhealthyPodEvictionPolicy"].clone()));
        out.push(Cause::invalid_quoted(
            "spec",
            &quoted(&members),
            "minAvailable and maxUnavailable cannot be both set",
        ));
    }
    for key in ["minAvailable", "maxUnavailable"] {
        amount_or_percent(&spec[key], &format!("spec.{key}"), out);
        at_most_all(&spec[key], &format!("spec.{key}"), out);
    }
    formats::label_selector(&spec["selector"], "spec.selector", out);
    one_of(object, "/spec/unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"], out);
    if status_changed(object, old) {
        counts(object, &["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"], &[], out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(judge: impl Fn(&Value, Option<&Value>, &mut Vec<Cause>), spec: Value) -> Vec<String> {
        let mut whole = json!({"selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "i"}]},
        }});
        ironclad_patch::merge_patch(&mut whole, &spec);
        let mut out = Vec::new();
        judge(&json!({"spec": whole}), None, &mut out);
        out.into_iter().map(|c| format!("{}: {}", c.field.trim_start_matches("spec."), c.message)).collect()
    }

    fn rolling(unavailable: Value, surge: Value) -> Value {
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}})
    }

    #[test]
    fn deployments() {
        let strategy = |strategy: Value| json!({"strategy": strategy});
        for (spec, want) in [
            (strategy(rolling(json!("25%"), json!(1))), vec![]),
            (
                strategy(rolling(json!("0%"), json!(0))),
                vec!["strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0"],
            ),
            (
                strategy(rolling(json!("101%"), json!(0))),
                vec!["strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%"],
            ),
            (
                strategy(json!({"type": "Slowly"})),
                vec![
                    "strategy: Unsupported value: {\"Type\":\"Slowly\",\"RollingUpdate\":null}: supported values: \"Recreate\", \"RollingUpdate\"",
                ],
            ),
            (
                json!({"progressDeadlineSeconds": 5, "minReadySeconds": 5}),
                vec!["progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"],
            ),
            (json!({"progressDeadlineSeconds": 6, "minReadySeconds": 5}), vec![]),
            (
                json!({"selector": {"matchLabels": null}}),
                vec!["selector: Invalid value: {}: empty selector is invalid for deployment"],
            ),
            (
                json!({"selector": {"matchLabels": null, "matchExpressions": [{"key": "a", "operator": "Near"}]}}),
                vec![
                    "selector.matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator",
                    "selector: Invalid value: {\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Near\"}]}: invalid label selector",
                ],
            ),
            (
                json!({"template": {"spec": {"activeDeadlineSeconds": 5}}}),
                vec![
                    "template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
                ],
            ),
        ] {
            assert_eq!(told(deployment, spec.clone()), want, "{spec}");
        }
    }

    #[test]
    fn daemon_sets() {
        let strategy = |strategy: Value| json!({"updateStrategy": strategy});
        for (spec, want) in [
            (strategy(rolling(json!(1), json!(0))), vec![]),
            (strategy(rolling(json!(0), json!("10%"))), vec![]),
            (
                strategy(rolling(json!(0), json!(0))),
                vec!["updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"],
            ),
            (
                strategy(rolling(json!(1), json!(1))),
                vec![
                    "updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero",
                ],
            ),
        ] {
            assert_eq!(told(daemon_set, spec.clone()), want, "{spec}");
        }
    }

    #[test]
    fn stateful_sets() {
        let claims = json!([{"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
        let mounts = |name: &str| json!({"volumeClaimTemplates": claims, "template": {"spec": {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": name, "mountPath": "/a"}]}]}}});
        for (spec, want) in [
            (mounts("v"), vec![]),
            (mounts("w"), vec!["template.spec.containers[0].volumeMounts[0].name: Not found: \"w\""]),
            (
                json!({"podManagementPolicy": "Sometimes"}),
                vec!["podManagementPolicy: Invalid value: \"Sometimes\": must be 'OrderedReady' or 'Parallel'"],
            ),
            (
                json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}}),
                vec![
                    "updateStrategy.rollingUpdate: Invalid value: {\"Partition\":1,\"MaxUnavailable\":null}: only allowed for updateStrategy 'RollingUpdate'",
                ],
            ),
            (
                json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Maybe"}}),
                vec![
                    "persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: \"Maybe\": supported values: \"Retain\", \"Delete\"",
                ],
            ),
        ] {
            assert_eq!(told(stateful_set, spec.clone()), want, "{spec}");
        }
    }

    #[test]
    fn budgets() {
        let told = |spec: Value| {
            let mut out = Vec::new();
            budget(&json!({"spec": spec}), None, &mut out);
            out.into_iter().map(|c| format!("{}: {}", c.field, c.message)).collect::<Vec<_>>()
        };
        for (spec, want) in [
            (json!({"minAvailable": "100%"}), vec![]),
            (
                json!({"minAvailable": "101%"}),
                vec!["spec.minAvailable: Invalid value: \"101%\": must not be greater than 100%"],
            ),
            (
                json!({"minAvailable": 1, "maxUnavailable": 1}),
                vec![
                    "spec: Invalid value: {\"MinAvailable\":1,\"Selector\":null,\"MaxUnavailable\":1,\"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be both set",
                ],
            ),
        ] {
            assert_eq!(told(spec.clone()), want, "{spec}");
        }
    }
}
