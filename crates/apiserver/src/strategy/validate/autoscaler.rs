//! HorizontalPodAutoscalers.

use serde_json::{Value, json};

use crate::status::Cause;

use super::{
    amounts, at,
    formats::{self, supported, wrong},
    label, list, not_negative, text,
};

const SOURCES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
const WINDOW_SECONDS_MAX: i64 = 3_600;
const PERIOD_SECONDS_MAX: i64 = 1_800;

pub(super) fn status(object: &Value, out: &mut Vec<Cause>) {
    not_negative(object, "/status/currentReplicas", out);
    not_negative(object, "/status/desiredReplicas", out);
}

pub(super) fn spec(object: &Value, out: &mut Vec<Cause>) {
    let (least, most) = (at(object, "/spec/minReplicas"), at(object, "/spec/maxReplicas").as_i64().unwrap_or(0));
    if least.as_i64().is_some_and(|n| n < 1) {
        out.push(Cause::invalid("spec.minReplicas", least, "must be greater than or equal to 1"));
    }
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
    // What a core kind is scaled by is in no group.
    reference(target, "spec.scaleTargetRef", text(target, "/kind") != "ReplicationController", out);
    let metrics = list(object, "/spec/metrics");
    let utilization = at(object, "/spec/targetCPUUtilizationPercentage");
    if utilization.as_i64().is_some_and(|n| n < 1) {
        // The one metric of autoscaling/v1 is one among many in the version that is looked at.
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

/// Where a metric comes from, and what it is to be.
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

/// How fast it may go in one direction.
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
