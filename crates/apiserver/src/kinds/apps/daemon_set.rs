//! DaemonSets.

use crate::kinds::shared::columns::TEMPLATE;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::Kind,
        shared::{
            columns::{
                AGE, CONTAINERS, IMAGES, NAME, SELECTOR, created, label_text, name, number, or_none, selector_cell,
                template_cells,
            },
            defaults::{child, set},
            fields::{at, not_negative, quoted, text},
            formats, pod, pod_defaults, warnings,
            workload::{
                amount_or_percent, at_most_all, counts, immutable_selector, is_empty, is_none, rolling_update,
                same_template, selects_own, status_changed, stray_labels,
            },
        },
    },
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults,
        validate,
        warnings: warnings::template,
        columns: &[
            NAME,
            ("Desired", "integer", 0),
            ("Current", "integer", 0),
            ("Ready", "integer", 0),
            ("Up-to-date", "integer", 0),
            ("Available", "integer", 0),
            ("Node Selector", "string", 0),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells,
        ..Strategy::NONE
    },
    ..Kind::new("apps/v1 daemonsets DaemonSet N short=ds all gen +status")
};

fn defaults(object: &mut Value) {
    let annotations = child(child(object, "metadata"), "annotations");
    set(annotations, "deprecated.daemonset.template.generation", "1");
    let spec = child(object, "spec");
    rolling_update(child(spec, "updateStrategy"), &[("maxUnavailable", json!(1)), ("maxSurge", json!(0))]);
    set(spec, "revisionHistoryLimit", 10);
    pod_defaults::template(child(spec, "template"));
    let status = child(object, "status");
    for count in ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"] {
        set(status, count, 0);
    }
}

fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    const COUNTS: [&str; 9] = [
        "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady", "observedGeneration",
        "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount",
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
        pod::validate_always_restart_template(at(object, "/spec/template"), "DaemonSet", &[], out);
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
            // A kube-apiserver validates both numbers before both sizes.
            for check in [amount_or_percent, at_most_all] {
                check(unavailable, &field("maxUnavailable"), out);
                check(surge, &field("maxSurge"), out);
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

fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let [containers, images] = template_cells(o, TEMPLATE);
    let count = |field: &str| json!(number(o, &format!("/status/{field}")));
    vec![
        name(o),
        count("desiredNumberScheduled"),
        count("currentNumberScheduled"),
        count("numberReady"),
        count("updatedNumberScheduled"),
        count("numberAvailable"),
        or_none(label_text(o.pointer("/spec/template/spec/nodeSelector"))),
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
    fn daemon_sets() {
        let strategy = |strategy: Value| json!({"updateStrategy": strategy});
        for (spec, want) in [
            (strategy(rolling_update(json!(1), json!(0))), vec![]),
            (strategy(rolling_update(json!(0), json!("10%"))), vec![]),
            (
                strategy(rolling_update(json!(0), json!(0))),
                vec!["updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"],
            ),
            (
                strategy(rolling_update(json!(1), json!(1))),
                vec![
                    "updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero",
                ],
            ),
        ] {
            assert_eq!(messages(validate, spec.clone()), want, "{spec}");
        }
    }
}
