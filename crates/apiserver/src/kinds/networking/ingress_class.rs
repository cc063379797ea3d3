//! IngressClasses.

use super::ingress::reference;
use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::Kind,
        shared::{
            columns::{AGE, NAME, created, name, or_none},
            defaults::set,
            fields::{at, immutable, is_new, text},
            formats::{self, wrong},
        },
    },
    names,
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults: |o| {
            if let Some(parameters) = o.pointer_mut("/spec/parameters").filter(|p| p.is_object()) {
                set(parameters, "scope", "Cluster");
            }
        },
        validate: |o, old, out| {
            if is_new(o, old) {
                validate(o, old, out);
            }
        },
        columns: &[NAME, ("Controller", "string", 0), ("Parameters", "string", 0), AGE],
        cells: |o, now| {
            let parameters = match text(o, "/spec/parameters/kind") {
                "" => String::new(),
                kind => format!("{kind}/{}", text(o, "/spec/parameters/name")),
            };
            vec![name(o), json!(text(o, "/spec/controller")), or_none(parameters), created(o, now)]
        },
        ..Strategy::NONE
    },
    ..Kind::new("networking.k8s.io/v1 ingressclasses IngressClass C gen")
};

const CONTROLLER_BYTES_MAX: usize = 250;

fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    immutable(object, old, "/spec/controller", out);
    let controller = text(object, "/spec/controller");
    if controller.len() > CONTROLLER_BYTES_MAX {
        out.push(Cause::too_long("spec.controller", CONTROLLER_BYTES_MAX));
    }
    formats::domain_prefixed_path(controller, "spec.controller", out);
    let parameters = at(object, "/spec/parameters");
    if !parameters.is_object() {
        return;
    }
    reference(parameters, "spec.parameters", out);
    let (scope, namespace) = (text(parameters, "/scope"), parameters["namespace"].as_str());
    let field = "spec.parameters.namespace";
    match (scope, namespace) {
        ("Namespace", None) => out.push(Cause::required(field, "`parameters.scope` is set to 'Namespace'")),
        ("Namespace", Some(namespace)) => wrong(field, namespace, names::dns_label(namespace), out),
        ("Cluster", Some(_)) => out.push(Cause::forbidden(field, "`parameters.scope` is set to 'Cluster'")),
        ("Cluster", None) => {}
        (other, _) => {
            out.push(Cause::unsupported("spec.parameters.scope", &json!(other), &["Cluster", "Namespace"]));
        }
    }
}
