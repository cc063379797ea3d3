//! CronJobs.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::job::validate::{pod_template, spec as job_spec};
use crate::{
    kinds::{
        kind::Kind,
        shared::{
            columns::{AGE, CONTAINERS, IMAGES, NAME, SELECTOR, created, items, name, or_none, template_cells},
            defaults::{child, set},
            fields::{at, not_negative, one_of, quoted_selector, text},
            pod_defaults, warnings,
        },
    },
    object,
    registry::strategy::Strategy,
    status::Cause,
    table::age,
};

mod schedule;

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults,
        validate,
        warnings: |o, old| {
            let path = "spec.jobTemplate.spec.template.spec";
            warnings::containers("/spec/jobTemplate/spec/template/spec", path, o, old)
        },
        columns: &[
            NAME,
            ("Schedule", "string", 0),
            ("Timezone", "string", 0),
            ("Suspend", "boolean", 0),
            ("Active", "integer", 0),
            ("Last Schedule", "string", 0),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells,
        ..Strategy::NONE
    },
    ..Kind::new("batch/v1 cronjobs CronJob N short=cj all gen +status")
};

fn defaults(object: &mut Value) {
    let spec = child(object, "spec");
    set(spec, "concurrencyPolicy", "Allow");
    set(spec, "suspend", false);
    set(spec, "successfulJobsHistoryLimit", 3);
    set(spec, "failedJobsHistoryLimit", 1);
    let job = child(child(spec, "jobTemplate"), "spec");
    pod_defaults::template(child(job, "template"));
    child(object, "status");
}

fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    if old.is_none_or(|old| old["spec"] != object["spec"]) {
        schedule::schedule(object, old, out);
        not_negative(object, "/spec/startingDeadlineSeconds", out);
        schedule::time_zone(object, out);
        one_of(object, "/spec/concurrencyPolicy", &["Allow", "Forbid", "Replace"], out);
        let (job, path) = (at(object, "/spec/jobTemplate/spec"), "spec.jobTemplate.spec");
        job_spec(job, path, out);
        pod_template(job, path, out);
        if !job["selector"].is_null() {
            let quote = quoted_selector(&job["selector"]);
            out.push(Cause::invalid_quoted(format!("{path}.selector"), &quote, "`selector` will be auto-generated"));
        }
        if job["manualSelector"] == json!(true) {
            out.push(Cause::unsupported(format!("{path}.manualSelector"), &json!(true), &["nil", "false"]));
        }
        not_negative(object, "/spec/successfulJobsHistoryLimit", out);
        not_negative(object, "/spec/failedJobsHistoryLimit", out);
    }
    const NAME_MAX: usize = 52;
    let name = object::meta_str(object, "name");
    if old.is_none() && name.len() > NAME_MAX {
        out.push(Cause::invalid("metadata.name", &json!(name), format!("must be no more than {NAME_MAX} characters")));
    }
}

fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let last = match text(o, "/status/lastScheduleTime") {
        "" => json!("<none>"),
        time => json!(age::since(time, now)),
    };
    let [containers, images] = template_cells(o, "/spec/jobTemplate/spec/template/spec/containers");
    vec![
        name(o),
        json!(text(o, "/spec/schedule")),
        or_none(text(o, "/spec/timeZone")),
        json!(if o.pointer("/spec/suspend") == Some(&json!(true)) { "True" } else { "False" }),
        json!(items(o, "/status/active").count()),
        last,
        created(o, now),
        containers,
        images,
        or_none(""),
    ]
}
