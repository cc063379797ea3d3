//! Pods.

use serde_json::{Value, json};

use super::limit_range::enforce;
use crate::{
    admission::review::Operation,
    kinds::{
        kind::{Hooks, Kind},
        shared::{pod as validators, pod_defaults, warnings},
    },
    object,
    registry::strategy::{Strategy, SubresourceUpdate},
};

mod admission;
mod columns;
mod runtime_class;
mod subresources;

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults: pod_defaults::pod,
        prepare_create: Some(|o| {
            o["status"] = json!({"phase": "Pending"});
            validators::annotations::set_app_armor_profiles(o);
        }),
        validate: validators::pod,
        warnings: |o, old| {
            let of_annotations = if old.is_none() { validators::annotations::warnings(o) } else { Vec::new() };
            [of_annotations, warnings::containers("/spec", "spec", o, old)].concat()
        },
        columns: columns::COLUMNS,
        cells: columns::cells,
        selectable_fields: &[
            "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
            "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
        ],
        grace_seconds: Some(grace_seconds),
        subresource_update: Some(SubresourceUpdate {
            restrict: subresources::restrict,
            validate: subresources::validate,
        }),
        ..Strategy::NONE
    },
    hooks: Hooks {
        admit_create: admission::create,
        admit_update: admission::update,
        admit_valid: |cx, operation, old, new| match (operation, cx.subresource()) {
            (Operation::Create, None) => {
                let spec = new.and_then(|new| Some((object::meta_str(new, "name"), new.get("spec")?)));
                spec.map_or(Ok(()), |(name, spec)| runtime_class::check_overhead(cx, name, spec))?;
                enforce::validate_pod(cx, old, new)
            }
            (Operation::Update, Some("resize")) => enforce::validate_pod(cx, old, new),
            _ => Ok(()),
        },
        ..Hooks::NONE
    },
    ..Kind::new(
        "v1 pods Pod N short=po all gen +attach +binding +ephemeralcontainers +eviction +exec +log +portforward +proxy +resize +status",
    )
};

/// The grace period of a deleted pod, in seconds.
fn grace_seconds(old: &Value, asked: Option<i64>) -> i64 {
    let bound = old.pointer("/spec/nodeName").and_then(Value::as_str).is_some_and(|n| !n.is_empty());
    let ended = matches!(old.pointer("/status/phase").and_then(Value::as_str), Some("Succeeded" | "Failed"));
    if !bound || ended {
        return 0;
    }
    let own = old.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(30);
    let wanted = asked.unwrap_or(own);
    match object::metadata(old).get("deletionGracePeriodSeconds").and_then(Value::as_i64) {
        // A second deletion can only make it shorter.
        Some(before) if object::terminating(old) => wanted.min(before),
        _ => wanted,
    }
}
