//! CSIDrivers.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::Kind,
        shared::{
            defaults::{child, set},
            fields::{at, list, text},
            formats::supported,
        },
    },
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults: |o| {
            let spec = child(o, "spec");
            set(spec, "attachRequired", true);
            set(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
            for switch in ["podInfoOnMount", "requiresRepublish", "seLinuxMount", "storageCapacity"] {
                set(spec, switch, false);
            }
            set(spec, "volumeLifecycleModes", json!(["Persistent"]));
        },
        validate,
        warnings: |o, old| if old.is_some() { vec![] } else { warn(o) },
        ..Strategy::NONE
    },
    ..Kind::new("storage.k8s.io/v1 csidrivers CSIDriver C")
};

fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
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

fn warn(driver: &Value) -> Vec<String> {
    let spec = &driver["spec"];
    let asks = spec["tokenRequests"].as_array().is_some_and(|tokens| !tokens.is_empty());
    let open = asks && spec["serviceAccountTokenInSecrets"].is_null();
    open.then(|| "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes".to_owned())
        .into_iter()
        .collect()
}
