//! RuntimeClasses.

use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::Kind,
        shared::{
            amounts,
            fields::{at, immutable, list, quoted, text},
            formats::{self, wrong},
            pod,
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
    let tolerations = list(object, "/scheduling/tolerations");
    for (i, toleration) in tolerations.iter().enumerate() {
        let field = format!("scheduling.tolerations[{i}]");
        pod::toleration(toleration, &field, out);
        if tolerations[..i].contains(toleration) {
            let member = |key: &str| json!(text(toleration, key));
            let members = [
                ("Key", member("/key")),
                ("Operator", member("/operator")),
                ("Value", member("/value")),
                ("Effect", member("/effect")),
                ("TolerationSeconds", toleration["tolerationSeconds"].clone()),
            ];
            out.push(Cause::duplicate_quoted(field, &quoted(&members)));
        }
    }
}
