//! LimitRanges.

use crate::names;
use std::collections::BTreeSet;

use ironclad_quantity::{Format, Quantity};
use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::Kind,
        shared::{
            amounts,
            defaults::{child, each, set},
            fields::{is_new, list, text},
            formats::{self, wrong},
        },
    },
    registry::strategy::Strategy,
    status::Cause,
};

pub(crate) mod enforce;

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults: |o| each(child(o, "spec"), "limits").for_each(default_limits),
        validate: |o, old, out| {
            if is_new(o, old) {
                validate(o, out);
            }
        },
        ..Strategy::NONE
    },
    ..Kind::new("v1 limitranges LimitRange N short=limits put")
};

/// Limits of a container default to its maximum, requests to the limits or the minimum.
fn default_limits(limit: &mut Value) {
    if limit["type"] != "Container" {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        for (name, amount) in limit[from].as_object().cloned().into_iter().flatten() {
            set(child(limit, to), &name, amount);
        }
    }
}

const TYPES: [&str; 3] = ["Container", "PersistentVolumeClaim", "Pod"];

fn validate(object: &Value, out: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (i, limit) in list(object, "/spec/limits").iter().enumerate() {
        let field = format!("spec.limits[{i}]");
        let kind = text(limit, "/type");
        let at_type = format!("{field}.type");
        if !kind.contains('/') && !TYPES.contains(&kind) && names::qualified_name(kind).is_empty() {
            wrong(&at_type, kind, ["must be a standard limit type or fully qualified"], out);
        }
        formats::qualified(kind, &at_type, out);
        if !seen.insert(kind) {
            out.push(Cause::duplicate(at_type, &json!(kind)));
        }
        named(limit, kind, &field, out);
        let names: BTreeSet<&String> = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]
            .into_iter()
            .filter(|key| kind != "Pod" || !key.starts_with("default"))
            .filter_map(|key| limit[key].as_object())
            .flat_map(|map| map.keys())
            .collect();
        for name in names {
            compared(limit, kind, name, &field, out);
        }
    }
}

/// Which resources are limited.
fn named(limit: &Value, kind: &str, field: &str, out: &mut Vec<Cause>) {
    let check = |key: &str, out: &mut Vec<Cause>| {
        for (name, _) in limit[key].as_object().into_iter().flatten() {
            let field = format!("{field}.{key}[{name}]");
            match kind {
                "Pod" | "Container" => amounts::container_resource_name(name, &field, out),
                _ => amounts::resource_name(name, &field, out),
            }
        }
    };
    check("max", out);
    check("min", out);
    for key in ["default", "defaultRequest"] {
        if kind != "Pod" {
            check(key, out);
        } else if limit[key].as_object().is_some_and(|map| !map.is_empty()) {
            out.push(Cause::forbidden(format!("{field}.{key}"), "may not be specified when `type` is 'Pod'"));
        }
    }
    if kind == "PersistentVolumeClaim" && ["min", "max"].iter().all(|key| limit[key]["storage"].is_null()) {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        out.push(Cause::required(format!("{field}.limits"), why));
    }
    check("maxLimitRequestRatio", out);
}

/// Validates the limits of one resource against each other.
fn compared(limit: &Value, kind: &str, name: &str, field: &str, out: &mut Vec<Cause>) {
    let of = |key: &str| {
        let value = Some(limit.get(key)?.get(name)?).filter(|_| kind != "Pod" || !key.starts_with("default"))?;
        Some((value, amounts::amount(value)?))
    };
    let (min, max) = (of("min"), of("max"));
    let (default, request, ratio) = (of("default"), of("defaultRequest"), of("maxLimitRequestRatio"));
    let field = |key: &str| format!("{field}.{key}[{name}]");
    // Each: the smaller one, the greater one, the field that is reported, and the message.
    type Of<'a> = &'a Option<(&'a Value, Quantity)>;
    let mut ordered =
        |small: Of<'_>, great: Of<'_>, at: &str, shown: Of<'_>, why: fn(&Quantity, &Quantity) -> String| {
            if let (Some((_, a)), Some((_, b)), Some((shown, _))) = (small, great, shown)
                && a > b
            {
                out.push(Cause::invalid(field(at), shown, why(a, b)));
            }
        };
    ordered(&min, &max, "min", &min, |a, b| format!("min value {a} is greater than max value {b}"));
    ordered(&min, &request, "defaultRequest", &request, |a, b| {
        format!("min value {a} is greater than default request value {b}")
    });
    ordered(&request, &max, "defaultRequest", &request, |a, b| {
        format!("default request value {a} is greater than max value {b}")
    });
    ordered(&request, &default, "defaultRequest", &request, |a, b| {
        format!("default request value {a} is greater than default limit value {b}")
    });
    ordered(&min, &default, "default", &min, |a, b| format!("min value {a} is greater than default value {b}"));
    ordered(&default, &max, "default", &max, |a, b| format!("default value {a} is greater than max value {b}"));
    if let Some((shown, ratio)) = &ratio {
        if *ratio < Quantity::new(1, Format::DecimalSi) {
            out.push(Cause::invalid(field("maxLimitRequestRatio"), shown, format!("ratio {ratio} is less than 1")));
        }
        if let (Some((_, min)), Some((_, max))) = (&min, &max) {
            let most = max.milli_value() as f64 / min.milli_value() as f64;
            if ratio.milli_value() as f64 / 1_000.0 > most {
                let why = format!("ratio {ratio} is greater than max/min = {most:.6}");
                out.push(Cause::invalid(field("maxLimitRequestRatio"), shown, why));
            }
        }
    }
    if let (Some((_, default)), Some((shown, request))) = (&default, &request)
        && !amounts::may_overcommit(name)
        && default != request
    {
        let why = format!("default value {default} must equal to defaultRequest value {request} in {name}");
        out.push(Cause::invalid(field("defaultRequest"), shown, why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_consistent() {
        for (name, limit, want) in [
            ("as it should be", json!({"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "1"}}), vec![]),
            (
                "the least is above the most",
                json!({"type": "Container", "min": {"cpu": "1001m"}, "max": {"cpu": "1"}}),
                vec!["min[cpu]: Invalid value: \"1001m\": min value 1001m is greater than max value 1"],
            ),
            (
                "a default is above the most",
                json!({"type": "Container", "default": {"cpu": "2"}, "max": {"cpu": "1"}}),
                vec!["default[cpu]: Invalid value: \"1\": default value 2 is greater than max value 1"],
            ),
            ("a ratio of one", json!({"type": "Pod", "maxLimitRequestRatio": {"cpu": "1"}}), vec![]),
            (
                "a ratio below one",
                json!({"type": "Pod", "maxLimitRequestRatio": {"cpu": "900m"}}),
                vec!["maxLimitRequestRatio[cpu]: Invalid value: \"900m\": ratio 900m is less than 1"],
            ),
            (
                "pods have no defaults",
                json!({"type": "Pod", "default": {"cpu": "9"}, "max": {"cpu": "1"}}),
                vec!["default: Forbidden: may not be specified when `type` is 'Pod'"],
            ),
        ] {
            let mut out = Vec::new();
            validate(&json!({"spec": {"limits": [limit]}}), &mut out);
            let messages: Vec<String> = out
                .iter()
                .map(|c| format!("{}: {}", c.field.trim_start_matches("spec.limits[0]."), c.message))
                .collect();
            assert_eq!(messages, want, "{name}");
        }
    }
}
