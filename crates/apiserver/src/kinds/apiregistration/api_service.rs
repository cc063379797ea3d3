//! APIServices.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    api_services,
    kinds::{
        kind::{FollowUp, Hooks, Kind},
        shared::{
            columns::{AGE, NAME, created, items, name},
            defaults::set,
            fields::{at, text},
        },
    },
    names,
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults: |o| {
            if let Some(service) = o.pointer_mut("/spec/service").filter(|s| s.is_object()) {
                set(service, "port", 443);
            }
        },
        validate: |o, _, out| validate(o, out),
        validate_name: names::path_segment,
        any_finalizer: true,
        columns: &[NAME, ("Service", "string", 0), ("Available", "string", 0), AGE],
        cells,
        ..Strategy::NONE
    },
    hooks: Hooks {
        before_write: |cx, old, new| {
            let forwards = cx.state.options.forwarder.is_some();
            api_services::set_conditions(old, new, &cx.state.now(), forwards);
            Ok(())
        },
        // A deleted APIService of the server's own is created again.
        after_write: |cx, _, new| {
            cx.state.aggregation.changed.notify_one();
            Ok(if new.is_none() { vec![FollowUp::SyncApiServices] } else { vec![] })
        },
        ..Hooks::NONE
    },
    ..Kind::new("apiregistration.k8s.io/v1 apiservices APIService C ext +status")
};

const GROUP_PRIORITY_MAX: i64 = 20_000;

const VERSION_PRIORITY_MAX: i64 = 1_000;

const PORT_MAX: i64 = 65_535;

fn validate(object: &Value, out: &mut Vec<Cause>) {
    let (group, version) = (text(object, "/spec/group"), text(object, "/spec/version"));
    let (name, wanted) = (text(object, "/metadata/name"), format!("{version}.{group}"));
    if name != wanted {
        let why = format!("must be `spec.version+\".\"+spec.group`: {wanted:?}");
        out.push(Cause::invalid("metadata.name", &json!(name), why));
    }
    if group.is_empty() && version != "v1" {
        let why = "only v1 may have an empty group and it better be legacy kube";
        out.push(Cause::required("spec.group", why));
    }
    if !group.is_empty() {
        let messages = names::dns_subdomain(group);
        out.extend(messages.iter().map(|m| Cause::invalid("spec.group", &json!(group), m)));
    }
    let messages = names::dns_1035_label(version);
    out.extend(messages.iter().map(|m| Cause::invalid("spec.version", &json!(version), m)));
    for (field, max) in [("groupPriorityMinimum", GROUP_PRIORITY_MAX), ("versionPriority", VERSION_PRIORITY_MAX)] {
        let value = at(object, &format!("/spec/{field}")).as_i64().unwrap_or(0);
        if value <= 0 || value > max {
            let why = format!("must be positive and less than {max}");
            out.push(Cause::invalid(format!("spec.{field}"), &json!(value), why));
        }
    }
    let service = at(object, "/spec/service");
    let (bundle, insecure) =
        (text(object, "/spec/caBundle"), at(object, "/spec/insecureSkipTLSVerify") == &json!(true));
    if !service.is_object() {
        if !bundle.is_empty() {
            let shown = json!(format!("{} bytes", bundle.len() / 4 * 3));
            out.push(Cause::invalid("spec.caBundle", &shown, "local APIServices may not have a caBundle"));
        }
        if insecure {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            out.push(Cause::invalid("spec.insecureSkipTLSVerify", &json!(true), why));
        }
        return;
    }
    for field in ["namespace", "name"] {
        if text(service, &format!("/{field}")).is_empty() {
            out.push(Cause::required(format!("spec.service.{field}"), ""));
        }
    }
    let port = service["port"].as_i64().unwrap_or(0);
    if !(1..=PORT_MAX).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        out.push(Cause::invalid("spec.service.port", &json!(port), why));
    }
    if insecure && !bundle.is_empty() {
        let why = "may not be true if caBundle is present";
        out.push(Cause::invalid("spec.insecureSkipTLSVerify", &json!(true), why));
    }
}

fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let service = match text(o, "/spec/service/name") {
        "" => "Local".to_owned(),
        service => format!("{}/{service}", text(o, "/spec/service/namespace")),
    };
    let available = items(o, "/status/conditions").find(|c| c["type"] == "Available");
    let available = available.map_or("Unknown", |c| text(c, "/status"));
    vec![name(o), json!(service), json!(available), created(o, now)]
}
