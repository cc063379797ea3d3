//! StorageClasses, CSIDrivers and RuntimeClasses.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{names, status::Cause};

use super::{
    amounts, at,
    formats::{self, supported, wrong},
    immutable, list, text,
};

const PARAMETERS_MAX: usize = 512;
const PARAMETERS_BYTES_MAX: usize = 256 * 1024;

pub(super) fn storage_class(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    // What a class is doesn't change; only whether it is the default one does, and what comes with it.
    for field in ["/parameters", "/provisioner", "/reclaimPolicy", "/volumeBindingMode"] {
        immutable(object, old, field, out);
    }
    if old.is_some() {
        return;
    }
    let provisioner = text(object, "/provisioner");
    match provisioner {
        "" => out.push(Cause::required("provisioner", "")),
        given => formats::qualified(&given.to_lowercase(), "provisioner", out),
    }
    parameters(at(object, "/parameters"), out);
    supported(text(object, "/reclaimPolicy"), "reclaimPolicy", &["Delete", "Retain"], out);
    supported(text(object, "/volumeBindingMode"), "volumeBindingMode", &["Immediate", "WaitForFirstConsumer"], out);
    for (i, term) in list(object, "/allowedTopologies").iter().enumerate() {
        let mut seen = BTreeSet::new();
        for (j, one) in list(term, "/matchLabelExpressions").iter().enumerate() {
            let field = format!("allowedTopologies[{i}].matchLabelExpressions[{j}]");
            let values = list(one, "/values");
            if values.is_empty() {
                out.push(Cause::required(format!("{field}.values"), ""));
            }
            let mut given = BTreeSet::new();
            for (k, value) in values.iter().filter_map(Value::as_str).enumerate() {
                if !given.insert(value) {
                    out.push(Cause::duplicate(format!("{field}.values[{k}]"), &json!(value)));
                }
            }
            let (key, field) = (text(one, "/key"), format!("{field}.key"));
            formats::qualified(key, &field, out);
            if !seen.insert(key) {
                out.push(Cause::duplicate(field, &json!(key)));
            }
        }
    }
}

fn parameters(parameters: &Value, out: &mut Vec<Cause>) {
    let Some(parameters) = parameters.as_object() else { return };
    if parameters.len() > PARAMETERS_MAX {
        return out.push(Cause::too_long("parameters", PARAMETERS_MAX));
    }
    if parameters.contains_key("") {
        wrong("parameters", "", ["field can not be empty."], out);
    }
    let bytes: usize = parameters.iter().map(|(k, v)| k.len() + v.as_str().map_or(0, str::len)).sum();
    if bytes > PARAMETERS_BYTES_MAX {
        out.push(Cause::too_long("parameters", PARAMETERS_BYTES_MAX));
    }
}

pub(super) fn csi_driver(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    const TEN_MINUTES: i64 = 600;
    const PERIOD_SECONDS_MIN: i64 = 10;
    let policy = text(object, "/spec/fsGroupPolicy");
    supported(policy, "spec.fsGroupPolicy", &["File", "None", "ReadWriteOnceWithFSType"], out);
    let mut audiences = BTreeSet::new();
    let tokens = list(object, "/spec/tokenRequests");
    for (i, token) in tokens.iter().enumerate() {
        let (audience, seconds) = (text(token, "/audience"), at(token, "/expirationSeconds"));
        let field = |name: &str| format!("spec.tokenRequests[{i}].{name}");
        if !audiences.insert(audience) {
            out.push(Cause::duplicate(field("audience"), &json!(audience)));
            continue;
        }
        match seconds.as_i64() {
            Some(n) if n < TEN_MINUTES => {
                let why = "may not specify a duration less than 10 minutes";
                out.push(Cause::invalid(field("expirationSeconds"), seconds, why));
            }
            Some(n) if n > 1 << 32 => {
                let why = "may not specify a duration larger than 2^32 seconds";
                out.push(Cause::invalid(field("expirationSeconds"), seconds, why));
            }
            _ => {}
        }
    }
    for mode in list(object, "/spec/volumeLifecycleModes").iter().filter_map(Value::as_str) {
        supported(mode, "spec.volumeLifecycleModes", &["Persistent", "Ephemeral"], out);
    }
    let period = at(object, "/spec/nodeAllocatableUpdatePeriodSeconds");
    if period.as_i64().is_some_and(|n| n < PERIOD_SECONDS_MIN) {
        let why = "must be greater than or equal to 10 seconds";
        out.push(Cause::invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, why));
    }
    let in_secrets = at(object, "/spec/serviceAccountTokenInSecrets");
    if !in_secrets.is_null() && tokens.is_empty() {
        let why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        out.push(Cause::invalid("spec.serviceAccountTokenInSecrets", in_secrets, why));
    }
    let Some(old) = old else { return };
    for (key, name) in [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")] {
        let pointer = format!("/spec/{key}");
        if at(object, &pointer) != at(old, &pointer) {
            out.push(Cause::invalid(format!("spec.{name}"), at(object, &pointer), "field is immutable"));
        }
    }
}

pub(super) fn runtime_class(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    immutable(object, old, "/handler", out);
    if old.is_some() {
        return;
    }
    match text(object, "/handler") {
        "" => out.push(Cause::required("handler", "")),
        handler => wrong("handler", handler, names::dns_label(handler), out),
    }
    amounts::limits(at(object, "/overhead/podFixed"), "overhead", out);
    formats::labels(at(object, "/scheduling/nodeSelector"), "scheduling.nodeSelector", out);
}
