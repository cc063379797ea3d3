//! Validation of node selectors: terms over the labels and fields of nodes.

use serde_json::Value;

use crate::{names, status::Cause};

use super::{
    fields::{list, text},
    formats::{self, wrong},
};

/// A node selector: any of its terms, and there is one.
pub(crate) fn node_selector(selector: &Value, field: &str, out: &mut Vec<Cause>) {
    let terms = list(selector, "/nodeSelectorTerms");
    let field = format!("{field}.nodeSelectorTerms");
    if terms.is_empty() {
        return out.push(Cause::required(field, "must have at least one node selector term"));
    }
    for (i, one) in terms.iter().enumerate() {
        term(one, &format!("{field}[{i}]"), out);
    }
}

/// All of its requirements.
pub(crate) fn term(term: &Value, field: &str, out: &mut Vec<Cause>) {
    for (i, one) in list(term, "/matchExpressions").iter().enumerate() {
        expression(one, &format!("{field}.matchExpressions[{i}]"), out);
    }
    for (i, one) in list(term, "/matchFields").iter().enumerate() {
        of_field(one, &format!("{field}.matchFields[{i}]"), out);
    }
}

fn expression(expression: &Value, field: &str, out: &mut Vec<Cause>) {
    let values = list(expression, "/values");
    let at = format!("{field}.values");
    match text(expression, "/operator") {
        "In" | "NotIn" if values.is_empty() => {
            out.push(Cause::required(&at, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            out.push(Cause::forbidden(&at, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            out.push(Cause::required(&at, "must be specified single value when `operator` is 'Lt' or 'Gt'"));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => wrong(&format!("{field}.operator"), other, ["not a valid selector operator"], out),
    }
    formats::qualified(text(expression, "/key"), &format!("{field}.key"), out);
    for (i, value) in values.iter().filter_map(Value::as_str).enumerate() {
        wrong(&format!("{at}[{i}]"), value, names::label_value(value), out);
    }
}

/// A node by a field of it, which can only be its name.
fn of_field(requirement: &Value, field: &str, out: &mut Vec<Cause>) {
    let values = list(requirement, "/values");
    match text(requirement, "/operator") {
        "In" | "NotIn" if values.len() != 1 => {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            out.push(Cause::required(format!("{field}.values"), why));
        }
        "In" | "NotIn" => {}
        other => wrong(&format!("{field}.operator"), other, ["not a valid selector operator"], out),
    }
    match text(requirement, "/key") {
        "metadata.name" => {
            for (i, value) in values.iter().filter_map(Value::as_str).enumerate() {
                formats::subdomain(value, &format!("{field}.values[{i}]"), out);
            }
        }
        other => wrong(&format!("{field}.key"), other, ["not a valid field selector key"], out),
    }
}
