//! PodTemplates.

use serde_json::Value;

use crate::{
    kinds::{
        kind::Kind,
        shared::{fields::at, pod, pod_defaults},
    },
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy { defaults: |o| pod_defaults::template(&mut o["template"]), validate, ..Strategy::NONE },
    ..Kind::new("v1 podtemplates PodTemplate N gen")
};

/// A template by itself: its pods may be started again in any way.
fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    if old.is_none_or(|old| old["template"] != object["template"]) {
        pod::template(at(object, "/template"), "template", out);
    }
}
