//! Jobs.

use crate::kinds::shared::columns::TEMPLATE;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::Kind,
        shared::{
            columns::{
                AGE, CONTAINERS, IMAGES, NAME, SELECTOR, created, items, name, number, selector_cell, template_cells,
            },
            fields::text,
            warnings,
        },
    },
    object,
    registry::strategy::Strategy,
    table::age,
};

pub(super) mod defaults;
pub(super) mod validate;

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults: defaults::job,
        generate: defaults::generate_selector,
        prepare_update: defaults::keep_selector,
        validate: validate::job,
        // The server's own labels of a Job's pods are validated in its template.
        unchecked_labels: &["job-name", "batch.kubernetes.io/job-name"],
        warnings: warnings::template,
        columns: &[
            NAME,
            ("Status", "string", 0),
            ("Completions", "string", 0),
            ("Duration", "string", 0),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells,
        selectable_fields: &["status.successful"],
        ..Strategy::NONE
    },
    ..Kind::new("batch/v1 jobs Job N all gen +status")
};

fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let condition = |kind: &str| items(o, "/status/conditions").any(|c| c["type"] == kind && c["status"] == "True");
    let status = if condition("Complete") {
        "Complete"
    } else if condition("Failed") {
        "Failed"
    } else if object::terminating(o) {
        "Terminating"
    } else if condition("Suspended") {
        "Suspended"
    } else if condition("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    let succeeded = number(o, "/status/succeeded");
    let completions = match o.pointer("/spec/completions").and_then(Value::as_i64) {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if number(o, "/spec/parallelism") > 1 => format!("{succeeded}/1 of {}", number(o, "/spec/parallelism")),
        None => format!("{succeeded}/1"),
    };
    let time = |pointer| text(o, pointer).parse::<Timestamp>().ok();
    let duration = time("/status/startTime").map(|start| {
        let end = time("/status/completionTime").unwrap_or(now);
        age::human(end.as_second() - start.as_second())
    });
    let [containers, images] = template_cells(o, TEMPLATE);
    vec![
        name(o),
        json!(status),
        json!(completions),
        json!(duration.unwrap_or_default()),
        created(o, now),
        containers,
        images,
        selector_cell(o),
    ]
}
