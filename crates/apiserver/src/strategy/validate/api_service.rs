//! APIServices.

use serde_json::{Value, json};

use crate::{names, status::Cause};

use super::{at, text};

const GROUP_PRIORITY_MAX: i64 = 20_000;
const VERSION_PRIORITY_MAX: i64 = 1_000;
const PORT_MAX: i64 = 65_535;

pub(super) fn api_service(object: &Value, out: &mut Vec<Cause>) {
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
