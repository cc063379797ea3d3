//! ReplicationControllers.

use serde_json::Value;

use crate::{
    kinds::{
        apps::replica_set,
        kind::Kind,
        shared::{
            defaults::{child, set},
            fields::{at, not_negative},
            pod, pod_defaults, warnings,
            workload::{same_template, stray_labels},
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
        columns: replica_set::COLUMNS,
        cells: replica_set::cells,
        selectable_fields: &["status.replicas"],
        ..Strategy::NONE
    },
    ..Kind::new("v1 replicationcontrollers ReplicationController N short=rc all gen +scale +status")
};

fn defaults(object: &mut Value) {
    let spec = child(object, "spec");
    set(spec, "replicas", 1);
    if spec["template"].is_object() {
        pod_defaults::template(&mut spec["template"]);
    }
    let labels = spec.pointer("/template/metadata/labels").cloned().unwrap_or(Value::Null);
    if labels.is_object() {
        set(spec, "selector", labels.clone());
        set(child(object, "metadata"), "labels", labels);
    }
    set(child(object, "status"), "replicas", 0);
}

fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    not_negative(object, "/spec/minReadySeconds", out);
    let selector = at(object, "/spec/selector").as_object();
    if selector.is_none_or(serde_json::Map::is_empty) {
        out.push(Cause::required("spec.selector", ""));
    }
    not_negative(object, "/spec/replicas", out);
    let template = at(object, "/spec/template");
    if !template.is_object() {
        out.push(Cause::required("spec.template", ""));
    } else if !same_template(object, old) {
        let labels = at(template, "/metadata/labels");
        if selector.into_iter().flatten().any(|(key, value)| labels.get(key) != Some(value)) {
            out.push(stray_labels(object));
        }
        pod::validate_always_restart_template(template, "ReplicationController", &[], out);
    }
}
