//! RuntimeClasses.

use serde_json::Value;

use crate::{
    kinds::{
        kind::Kind,
        shared::{
            amounts,
            fields::{at, immutable, text},
            formats::{self, wrong},
        },
    },
    names,
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy { validate, ..Strategy::NONE },
    ..Kind::new("node.k8s.io/v1 runtimeclasses RuntimeClass C")
};

fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
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
