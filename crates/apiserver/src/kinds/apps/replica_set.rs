//! ReplicaSets.

use crate::kinds::shared::columns::TEMPLATE;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::Kind,
        shared::{
            columns::{AGE, CONTAINERS, IMAGES, NAME, SELECTOR, created, name, number, selector_cell, template_cells},
            defaults::{child, set},
            fields::not_negative,
            pod_defaults, warnings,
            workload::{OF_REPLICAS, counts, immutable_selector, same_template, selected_template, status_changed},
        },
    },
    registry::strategy::{Column, Strategy},
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy { defaults, validate, warnings: warnings::template, columns: COLUMNS, cells, ..Strategy::NONE },
    ..Kind::new("apps/v1 replicasets ReplicaSet N short=rs all gen +scale +status")
};

pub(in crate::kinds) const COLUMNS: &[Column] = &[
    NAME,
    ("Desired", "integer", 0),
    ("Current", "integer", 0),
    ("Ready", "integer", 0),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn defaults(object: &mut Value) {
    let spec = child(object, "spec");
    set(spec, "replicas", 1);
    if spec["template"].is_object() {
        pod_defaults::template(&mut spec["template"]);
    }
    set(child(object, "status"), "replicas", 0);
}

fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    const COUNTS: [&str; 5] =
        ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"];
    not_negative(object, "/spec/replicas", out);
    not_negative(object, "/spec/minReadySeconds", out);
    if !same_template(object, old) {
        selected_template(object, "deployment", "ReplicaSet", out);
    }
    immutable_selector(object, old, out);
    if status_changed(object, old) {
        counts(object, &COUNTS, &OF_REPLICAS, out);
    }
}

pub(in crate::kinds) fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let [containers, images] = template_cells(o, TEMPLATE);
    let count = |pointer| json!(number(o, pointer));
    vec![
        name(o),
        count("/spec/replicas"),
        count("/status/replicas"),
        count("/status/readyReplicas"),
        created(o, now),
        containers,
        images,
        selector_cell(o),
    ]
}
