//! HorizontalPodAutoscalers, stored as autoscaling/v2.

use crate::kinds::shared::columns::number;
use crate::kinds::shared::columns::plain;
use crate::kinds::shared::fields::label;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    feature_gates::FeatureGates,
    kinds::{
        kind::Kind,
        shared::{
            amounts,
            columns::{AGE, NAME, created, items, name, or_none},
            defaults::{child, set},
            fields::{at, is_new, list, not_negative, text},
            formats::{self, supported, wrong},
        },
    },
    object,
    registry::strategy::{Conversion, Strategy},
    status::Cause,
};

pub(in crate::kinds) const V1: Kind = Kind {
    strategy: Strategy {
        conversion: Some(Conversion { api_version: "autoscaling/v2", from_storage: to_v1, to_storage: to_v2 }),
        ..KIND.strategy
    },
    ..Kind::new("autoscaling/v1 horizontalpodautoscalers HorizontalPodAutoscaler N short=hpa all +status")
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults,
        validate: |o, old, out| if is_new(o, old) { validate_spec(o, out) } else { validate_status(o, out) },
        validate_gated: |gates, o, old, out| {
            if is_new(o, old) {
                validate_minimum(gates, o, old, out);
            }
        },
        columns: &[
            NAME,
            ("Reference", "string", 0),
            ("Targets", "string", 0),
            ("MinPods", "string", 0),
            ("MaxPods", "string", 0),
            ("Replicas", "string", 0),
            AGE,
        ],
        cells,
        ..Strategy::NONE
    },
    ..Kind::new("autoscaling/v2 horizontalpodautoscalers HorizontalPodAutoscaler N short=hpa all +status")
};

const SOURCES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

const WINDOW_SECONDS_MAX: i64 = 3_600;

const PERIOD_SECONDS_MAX: i64 = 1_800;

fn defaults(object: &mut Value) {
    let spec = child(object, "spec");
    set(spec, "minReplicas", 1);
    if object["apiVersion"] == "autoscaling/v1" {
        let status = child(object, "status");
        set(status, "currentReplicas", 0);
        set(status, "desiredReplicas", 0);
        return;
    }
    let spec = child(object, "spec");
    if spec["metrics"].as_array().is_none_or(Vec::is_empty) {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        spec["metrics"] = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
    }
    if spec["behavior"].is_object() {
        let policy = |kind: &str, value: i64| json!({"type": kind, "value": value, "periodSeconds": 15});
        let up = child(&mut spec["behavior"], "scaleUp");
        set(up, "stabilizationWindowSeconds", 0);
        set(up, "selectPolicy", "Max");
        set(up, "policies", json!([policy("Pods", 4), policy("Percent", 100)]));
        let down = child(&mut spec["behavior"], "scaleDown");
        set(down, "selectPolicy", "Max");
        set(down, "policies", json!([policy("Percent", 100)]));
    }
    let status = child(object, "status");
    set(status, "desiredReplicas", 0);
    if let Some(map) = status.as_object_mut() {
        map.entry("currentMetrics").or_insert(Value::Null);
    }
}

fn validate_status(object: &Value, out: &mut Vec<Cause>) {
    not_negative(object, "/status/currentReplicas", out);
    not_negative(object, "/status/desiredReplicas", out);
}

/// Zero needs a gate, or must have been stored before.
fn validate_minimum(gates: FeatureGates, object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    let was_zero = old.is_some_and(|old| at(old, "/spec/minReplicas").as_i64() == Some(0));
    let (least, allowed) = (at(object, "/spec/minReplicas"), i64::from(!gates.hpa_scale_to_zero && !was_zero));
    if least.as_i64().is_some_and(|n| n < allowed) {
        out.push(Cause::invalid("spec.minReplicas", least, format!("must be greater than or equal to {allowed}")));
    }
}

fn validate_spec(object: &Value, out: &mut Vec<Cause>) {
    let (least, most) = (at(object, "/spec/minReplicas"), at(object, "/spec/maxReplicas").as_i64().unwrap_or(0));
    if most == 0 {
        out.push(Cause::required("spec.maxReplicas", "must be set and greater than 0"));
    } else if most < 0 {
        out.push(Cause::invalid("spec.maxReplicas", &json!(most), "must be greater than or equal to 1"));
    }
    if least.as_i64().is_some_and(|least| most < least) {
        let why = "must be greater than or equal to `minReplicas`";
        out.push(Cause::invalid("spec.maxReplicas", &json!(most), why));
    }
    let target = at(object, "/spec/scaleTargetRef");
    // Kinds of the core group have no group.
    reference(target, "spec.scaleTargetRef", text(target, "/kind") != "ReplicationController", out);
    let metrics = list(object, "/spec/metrics");
    let utilization = at(object, "/spec/targetCPUUtilizationPercentage");
    if utilization.as_i64().is_some_and(|n| n < 1) {
        // The one metric of autoscaling/v1 is validated as one of many, in the stored version.
        let field = "spec.metrics[0].resource.target.averageUtilization";
        out.push(Cause::invalid(field, utilization, "must be greater than 0"));
    }
    for (i, one) in metrics.iter().enumerate() {
        metric(one, &format!("spec.metrics[{i}]"), out);
    }
    let on_demand = metrics.iter().any(|m| m["type"] == "Object" || m["type"] == "External");
    if least.as_i64() == Some(0) && !on_demand {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        out.push(Cause::forbidden("spec.metrics", why));
    }
    for side in ["scaleUp", "scaleDown"] {
        let rules = at(object, &format!("/spec/behavior/{side}"));
        if rules.is_object() {
            behavior(rules, &format!("spec.behavior.{side}"), out);
        }
    }
}

/// An object by its version, kind and name.
fn reference(reference: &Value, field: &str, in_a_group: bool, out: &mut Vec<Cause>) {
    for key in ["kind", "name"] {
        formats::path_segment(text(reference, &format!("/{key}")), &format!("{field}.{key}"), out);
    }
    let version = text(reference, "/apiVersion");
    let field = format!("{field}.apiVersion");
    if version.matches('/').count() > 1 {
        wrong(&field, version, [format!("unexpected GroupVersion string: {version}")], out);
    } else if in_a_group && version.split_once('/').is_none_or(|(group, _)| group.is_empty()) {
        wrong(&field, version, ["apiVersion must specify API group"], out);
    }
}

fn metric(metric: &Value, field: &str, out: &mut Vec<Cause>) {
    let kind = text(metric, "/type");
    let at_type = format!("{field}.type");
    if kind.is_empty() {
        out.push(Cause::required(&at_type, "must specify a metric source type"));
    }
    let expected = match kind {
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "External" => "external",
        "ContainerResource" => "containerResource",
        _ => "",
    };
    supported(kind, &at_type, &SOURCES, out);
    let given = ["object", "external", "pods", "resource", "containerResource"];
    let given: Vec<&str> = given.into_iter().filter(|key| metric[key].is_object()).collect();
    if let Some(first) = given.first() {
        source(first, &metric[first], &format!("{field}.{first}"), out);
    }
    if expected.is_empty() {
        supported(kind, &at_type, &SOURCES, out);
    } else if !metric[expected].is_object() {
        let why = "must populate information for the given metric source";
        out.push(Cause::required(format!("{field}.{expected}"), why));
    }
    if given.len() > 1 {
        for other in given.into_iter().filter(|key| *key != expected) {
            out.push(Cause::forbidden(format!("{field}.{other}"), "must populate the given metric source only"));
        }
    }
}

/// Validates the source of a metric and its target.
fn source(kind: &str, source: &Value, field: &str, out: &mut Vec<Cause>) {
    let aim = &source["target"];
    let at_aim = |name: &str| format!("{field}.target.{name}");
    let given = |name: &str| !aim[name].is_null();
    if kind == "object" {
        reference(&source["describedObject"], &format!("{field}.describedObject"), false, out);
    }
    if matches!(kind, "object" | "external" | "pods") {
        let at_name = format!("{field}.metric.name");
        match text(source, "/metric/name") {
            "" => out.push(Cause::required(at_name, "must specify a metric name")),
            name => formats::path_segment(name, &at_name, out),
        }
        target(aim, &format!("{field}.target"), out);
    }
    match kind {
        "pods" if !given("averageValue") => {
            out.push(Cause::required(at_aim("averageValue"), "must specify a positive target averageValue"));
        }
        "object" if !given("value") && !given("averageValue") => {
            out.push(Cause::required(at_aim("averageValue"), "must set either a target value or averageValue"));
        }
        "external" if !given("value") && !given("averageValue") => {
            let why = "must set either a target value for metric or a per-pod target";
            out.push(Cause::required(at_aim("averageValue"), why));
        }
        "external" if given("value") && given("averageValue") => {
            let why = "may not set both a target value for metric and a per-pod target";
            out.push(Cause::forbidden(at_aim("value"), why));
        }
        "resource" | "containerResource" => {
            let (name, at_name) = (text(source, "/name"), format!("{field}.name"));
            match name {
                "" => out.push(Cause::required(at_name, "must specify a resource name")),
                name if kind == "containerResource" => amounts::container_resource_name(name, &at_name, out),
                _ => {}
            }
            if kind == "containerResource" {
                let field = format!("{field}.container");
                match text(source, "/container") {
                    "" => out.push(Cause::required(field, "must specify a container")),
                    name => label(name, &field, out),
                }
            }
            target(aim, &format!("{field}.target"), out);
            match (given("averageUtilization"), given("averageValue")) {
                (false, false) => {
                    let why = "must set either a target raw value or a target utilization";
                    out.push(Cause::required(at_aim("averageUtilization"), why));
                }
                (true, true) => {
                    let why = "may not set both a target raw value and a target utilization";
                    out.push(Cause::forbidden(at_aim("averageValue"), why));
                }
                _ => {}
            }
        }
        _ => {}
    }
}

fn target(target: &Value, field: &str, out: &mut Vec<Cause>) {
    let kind = text(target, "/type");
    if kind.is_empty() {
        out.push(Cause::required(format!("{field}.type"), "must specify a metric target type"));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind) {
        wrong(&format!("{field}.type"), kind, ["must be either Utilization, Value, or AverageValue"], out);
    }
    for key in ["value", "averageValue"] {
        if !target[key].is_null() && !amounts::is_positive(&target[key]) {
            out.push(Cause::invalid(format!("{field}.{key}"), &target[key], "must be positive"));
        }
    }
    let utilization = &target["averageUtilization"];
    if utilization.as_i64().is_some_and(|n| n < 1) {
        out.push(Cause::invalid(format!("{field}.averageUtilization"), utilization, "must be greater than 0"));
    }
}

/// Validates the scaling rules of one direction.
fn behavior(rules: &Value, field: &str, out: &mut Vec<Cause>) {
    let (window, at_window) = (&rules["stabilizationWindowSeconds"], format!("{field}.stabilizationWindowSeconds"));
    match window.as_i64() {
        Some(n) if n < 0 => out.push(Cause::invalid(at_window, window, "must be greater than or equal to zero")),
        Some(n) if n > WINDOW_SECONDS_MAX => {
            let why = format!("must be less than or equal to {WINDOW_SECONDS_MAX}");
            out.push(Cause::invalid(at_window, window, why));
        }
        _ => {}
    }
    if let Some(policy) = rules["selectPolicy"].as_str() {
        supported(policy, &format!("{field}.selectPolicy"), &["Disabled", "Max", "Min"], out);
    }
    let policies = list(rules, "/policies");
    if policies.is_empty() {
        out.push(Cause::required(format!("{field}.policies"), "must specify at least one Policy"));
    }
    for (i, policy) in policies.iter().enumerate() {
        let field = |name: &str| format!("{field}.policies[{i}].{name}");
        supported(text(policy, "/type"), &field("type"), &["Percent", "Pods"], out);
        for key in ["value", "periodSeconds"] {
            let number = policy[key].as_i64().unwrap_or(0);
            if number <= 0 {
                out.push(Cause::invalid(field(key), &json!(number), "must be greater than zero"));
            }
            if key == "periodSeconds" && number > PERIOD_SECONDS_MAX {
                let why = format!("must be less than or equal to {PERIOD_SECONDS_MAX}");
                out.push(Cause::invalid(field(key), &json!(number), why));
            }
        }
    }
    amounts::not_negative(&rules["tolerance"], &format!("{field}.tolerance"), out);
}

const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";

fn is_cpu_utilization(metric: &Value) -> bool {
    metric["type"] == "Resource"
        && metric["resource"]["name"] == "cpu"
        && metric["resource"]["target"]["type"] == "Utilization"
}

fn to_v1(object: &mut Value) {
    let mut notes: Vec<(&str, Value)> = Vec::new();
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        if let Some(Value::Array(mut metrics)) = spec.remove("metrics") {
            if let Some(at) = metrics.iter().position(is_cpu_utilization) {
                let cpu = metrics.remove(at);
                let target = cpu["resource"]["target"]["averageUtilization"].clone();
                spec.insert("targetCPUUtilizationPercentage".into(), target);
            }
            if !metrics.is_empty() {
                notes.push((METRICS, Value::Array(metrics)));
            }
        }
        if let Some(behavior) = spec.remove("behavior") {
            notes.push((BEHAVIOR, behavior));
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("currentMetrics");
        status.remove("conditions");
        status.entry("currentReplicas").or_insert(json!(0));
    }
    let metadata = object::metadata_mut(object);
    for (key, value) in notes {
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        annotations[key] = json!(value.to_string());
    }
}

fn to_v2(object: &mut Value) {
    let mut kept: Vec<(&str, Value)> = Vec::new();
    if let Some(annotations) = object::metadata_mut(object).get_mut("annotations").and_then(Value::as_object_mut) {
        for (key, field) in [(METRICS, "metrics"), (BEHAVIOR, "behavior")] {
            if let Some(value) =
                annotations.remove(key).as_ref().and_then(Value::as_str).and_then(|t| serde_json::from_str(t).ok())
            {
                kept.push((field, value));
            }
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.entry("currentMetrics").or_insert(Value::Null);
        if status.get("currentReplicas") == Some(&json!(0)) {
            status.remove("currentReplicas");
        }
    }
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for (field, value) in kept {
        spec.insert(field.into(), value);
    }
    if let Some(percent) = spec.remove("targetCPUUtilizationPercentage") {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        let metrics = spec.entry("metrics").or_insert_with(|| json!([]));
        if let Some(list) = metrics.as_array_mut() {
            list.insert(0, cpu);
        }
    }
}

fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let reference = format!("{}/{}", text(o, "/spec/scaleTargetRef/kind"), text(o, "/spec/scaleTargetRef/name"));
    let current: Vec<&Value> = items(o, "/status/currentMetrics").collect();
    let one = |i: usize, metric: &Value| {
        let kind = metric["type"].as_str().unwrap_or_default();
        let field = match kind {
            "Resource" => "resource",
            "ContainerResource" => "containerResource",
            "Pods" => "pods",
            "Object" => "object",
            _ => "external",
        };
        let amount = |of: &Value, key: &str| of.get(key).filter(|v| !v.is_null()).map(plain);
        let target = &metric[field]["target"];
        let now = current.get(i).map_or(Value::Null, |c| c[field]["current"].clone());
        let (key, sign) = if target["averageUtilization"].is_number() {
            ("averageUtilization", "%")
        } else if target["averageValue"].is_null() {
            ("value", "")
        } else {
            ("averageValue", "")
        };
        let wanted = amount(target, key).map_or_else(|| "<auto>".to_owned(), |v| v + sign);
        let now = amount(&now, key).map_or_else(|| "<unknown>".to_owned(), |v| v + sign);
        let label = if field == "resource" { format!("{}: ", text(metric, "/resource/name")) } else { String::new() };
        format!("{label}{now}/{wanted}")
    };
    // In v1 the one metric that it knows is a field of its own.
    let cpu = o.pointer("/spec/targetCPUUtilizationPercentage").map(
        |percent| json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": percent}}}),
    );
    let metrics = cpu.iter().chain(items(o, "/spec/metrics"));
    let targets: Vec<String> = metrics.enumerate().map(|(i, m)| one(i, m)).collect();
    let shown = if targets.len() > 2 {
        format!("{} + {} more...", targets[..2].join(", "), targets.len() - 2)
    } else {
        targets.join(", ")
    };
    let least = o.pointer("/spec/minReplicas").map_or_else(|| "<unset>".to_owned(), plain);
    vec![
        name(o),
        json!(reference),
        or_none(shown),
        json!(least),
        json!(number(o, "/spec/maxReplicas")),
        json!(number(o, "/status/currentReplicas")),
        created(o, now),
    ]
}
