//! Deployments.

use crate::kinds::shared::columns::TEMPLATE;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::Kind,
        shared::{
            columns::{AGE, CONTAINERS, IMAGES, NAME, SELECTOR, created, name, number, selector_cell, template_cells},
            defaults::{child, set},
            fields::{at, not_negative, quoted, text},
            pod_defaults, warnings,
            workload::{
                amount_or_percent, at_most_all, counts, immutable_selector, is_none, rolling_update, same_template,
                selected_template,
            },
        },
    },
    object,
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults,
        prepare_status_update: |old, new| {
            let labels = object::metadata(old).get("labels").cloned();
            let metadata = object::metadata_mut(new);
            match labels {
                Some(labels) => metadata.insert("labels".into(), labels),
                None => metadata.remove("labels"),
            };
        },
        validate,
        warnings: warnings::template,
        columns: &[
            NAME,
            ("Ready", "string", 0),
            ("Up-to-date", "string", 0),
            ("Available", "string", 0),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells,
        // Its controller copies its annotations.
        generation_counts: Some("annotations"),
        ..Strategy::NONE
    },
    ..Kind::new("apps/v1 deployments Deployment N short=deploy all gen +scale +status")
};

fn defaults(object: &mut Value) {
    let spec = child(object, "spec");
    set(spec, "replicas", 1);
    rolling_update(child(spec, "strategy"), &[("maxUnavailable", json!("25%")), ("maxSurge", json!("25%"))]);
    set(spec, "revisionHistoryLimit", 10);
    set(spec, "progressDeadlineSeconds", 600);
    pod_defaults::template(child(spec, "template"));
    child(object, "status");
}

fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
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
    // Validate a status only when it changes: an invalid stored one must not block other updates.
    if old.is_some_and(|old| old["status"] != object["status"]) {
        deployment_status(object, out);
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

fn deployment_status(object: &Value, out: &mut Vec<Cause>) {
    const COUNTS: [&str; 6] = [
        "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
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

fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let ready = format!("{}/{}", number(o, "/status/readyReplicas"), number(o, "/spec/replicas"));
    let [containers, images] = template_cells(o, TEMPLATE);
    vec![
        name(o),
        json!(ready),
        json!(number(o, "/status/updatedReplicas")),
        json!(number(o, "/status/availableReplicas")),
        created(o, now),
        containers,
        images,
        selector_cell(o),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::shared::workload::tests::{messages, rolling_update};

    #[test]
    fn deployments() {
        let strategy = |strategy: Value| json!({"strategy": strategy});
        for (spec, want) in [
            (strategy(rolling_update(json!("25%"), json!(1))), vec![]),
            (
                strategy(rolling_update(json!("0%"), json!(0))),
                vec!["strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0"],
            ),
            (
                strategy(rolling_update(json!("101%"), json!(0))),
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
            assert_eq!(messages(validate, spec.clone()), want, "{spec}");
        }
    }
}
