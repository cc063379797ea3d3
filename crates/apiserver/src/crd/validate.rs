//! What is wrong with a CRD (apiserver.md 18).

use serde_json::{Value, json};

use crate::{names, object, schema::CustomSchema, status::Cause};

use super::{condition, text, versions};

/// What is wrong with a CRD or, with `old`, with the change.
pub(crate) fn validate(crd: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if let Some(old) = old.filter(|old| condition(old, "Established")) {
        for field in ["scope", "group", "names/plural", "names/kind", "names/listKind"] {
            let pointer = format!("/spec/{field}");
            if crd.pointer(&pointer) != old.pointer(&pointer) {
                let value = crd.pointer(&pointer).unwrap_or(&Value::Null);
                causes.push(Cause::invalid(format!("spec.{}", field.replace('/', ".")), value, "field is immutable"));
            }
        }
    }
    let (group, plural) = (text(crd, "/spec/group"), text(crd, "/spec/names/plural"));
    let name = object::meta_str(crd, "name");
    if name != format!("{plural}.{group}") {
        causes.push(Cause::invalid("metadata.name", &json!(name), "must be spec.names.plural+\".\"+spec.group"));
    }
    if group.is_empty() {
        causes.push(Cause::required("spec.group", ""));
    } else if !group.contains('.') {
        causes.push(Cause::invalid("spec.group", &json!(group), "should be a domain with at least one dot"));
    } else {
        causes.extend(names::dns_subdomain(group).iter().map(|m| Cause::invalid("spec.group", &json!(group), m)));
    }
    match text(crd, "/spec/scope") {
        "Cluster" | "Namespaced" => {}
        other => causes.push(Cause::unsupported("spec.scope", &json!(other), &["Cluster", "Namespaced"])),
    }
    for field in ["plural", "singular", "kind", "listKind"] {
        let value = text(crd, &format!("/spec/names/{field}"));
        let path = format!("spec.names.{field}");
        if value.is_empty() {
            causes.push(Cause::required(path, ""));
        } else {
            causes.extend(
                names::dns_label(&value.to_lowercase()).iter().map(|m| Cause::invalid(&path, &json!(value), m)),
            );
        }
    }
    if versions(crd).filter(|v| v["storage"] == true).count() != 1 {
        causes.push(Cause::invalid(
            "spec.versions",
            crd.pointer("/spec/versions").unwrap_or(&Value::Null),
            "must have exactly one version marked as storage version",
        ));
    }
    if crd.pointer("/spec/preserveUnknownFields") == Some(&json!(true)) {
        causes.push(Cause::invalid(
            "spec.preserveUnknownFields",
            &json!(true),
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ));
    }
    protected_group(crd, group, &mut causes);
    for (i, version) in versions(crd).enumerate() {
        validate_version(version, &format!("spec.versions[{i}]"), &mut causes);
    }
    causes
}

fn protected_group(crd: &Value, group: &str, causes: &mut Vec<Cause>) {
    let protected = ["k8s.io", "kubernetes.io"].iter().any(|g| group == *g || group.ends_with(&format!(".{g}")));
    let approved =
        object::metadata(crd).get("annotations").is_some_and(|a| a.get("api-approved.kubernetes.io").is_some());
    if protected && !approved {
        causes.push(Cause::required(
            "metadata.annotations[api-approved.kubernetes.io]",
            "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111",
        ));
    }
}

fn validate_version(version: &Value, path: &str, causes: &mut Vec<Cause>) {
    let name = text(version, "/name");
    causes.extend(names::dns_label(name).iter().map(|m| Cause::invalid(format!("{path}.name"), &json!(name), m)));
    let schema_path = format!("{path}.schema.openAPIV3Schema");
    match version.pointer("/schema/openAPIV3Schema") {
        None => causes.push(Cause::required(schema_path, "schemas are required")),
        Some(schema) => match CustomSchema::parse(schema, &schema_path) {
            Ok(parsed) => causes.extend(parsed.check_rules(&schema_path)),
            Err(errors) => causes.extend(errors),
        },
    }
    let columns = version.pointer("/additionalPrinterColumns").and_then(Value::as_array);
    for (i, column) in columns.into_iter().flatten().enumerate() {
        let path = format!("{path}.additionalPrinterColumns[{i}]");
        if text(column, "/name").is_empty() {
            causes.push(Cause::required(format!("{path}.name"), ""));
        }
        let kind = text(column, "/type");
        if !["boolean", "date", "integer", "number", "string"].contains(&kind) {
            let message = "must be one of boolean,date,integer,number,string";
            causes.push(Cause::invalid(format!("{path}.type"), &json!(kind), message));
        }
        let json_path = text(column, "/jsonPath");
        if json_path.is_empty() {
            causes.push(Cause::required(format!("{path}.jsonPath"), ""));
        } else if !json_path.starts_with('.') {
            let message = "must be a simple json path starting with .";
            causes.push(Cause::invalid(format!("{path}.jsonPath"), &json!(json_path), message));
        }
    }
    let selectable = version.pointer("/selectableFields").and_then(Value::as_array).map_or(0, Vec::len);
    if selectable > 8 {
        let message = "Too many: must have at most 8 items".to_owned();
        causes.push(Cause { reason: "FieldValueTooMany".into(), message, field: format!("{path}.selectableFields") });
    }
}
