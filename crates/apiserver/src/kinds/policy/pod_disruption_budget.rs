//! PodDisruptionBudgets.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::Kind,
        shared::{
            columns::{AGE, NAME, created, name, number, plain},
            defaults::{child, set},
            fields::{at, one_of, quoted},
            formats,
            workload::{amount_or_percent, at_most_all, counts, status_changed},
        },
    },
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults: |o| {
            let status = child(o, "status");
            for count in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
                set(status, count, 0);
            }
        },
        validate,
        columns: &[
            NAME,
            ("Min Available", "string", 0),
            ("Max Unavailable", "string", 0),
            ("Allowed Disruptions", "integer", 0),
            AGE,
        ],
        cells,
        ..Strategy::NONE
    },
    ..Kind::new("policy/v1 poddisruptionbudgets PodDisruptionBudget N short=pdb gen rv +status")
};

fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
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

fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let bound = |pointer| match o.pointer(pointer) {
        Some(value) => json!(plain(value)),
        None => json!("N/A"),
    };
    let allowed = json!(number(o, "/status/disruptionsAllowed"));
    vec![name(o), bound("/spec/minAvailable"), bound("/spec/maxUnavailable"), allowed, created(o, now)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets() {
        let messages = |spec: Value| {
            let mut out = Vec::new();
            validate(&json!({"spec": spec}), None, &mut out);
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
            assert_eq!(messages(spec.clone()), want, "{spec}");
        }
    }
}
