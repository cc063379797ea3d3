//! Validation of CRDs (specification/apiserver.md 18).

use serde_json::{Value, json};

use crate::{names, object, schema, status::Cause};

use ironclad_patch::text_at;

use super::{condition, versions};

/// Validates a CRD or, with `old`, a change.
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
    let (group, plural) = (text_at(crd, "/spec/group"), text_at(crd, "/spec/names/plural"));
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
    match text_at(crd, "/spec/scope") {
        "Cluster" | "Namespaced" => {}
        other => causes.push(Cause::unsupported("spec.scope", &json!(other), &["Cluster", "Namespaced"])),
    }
    for field in ["plural", "singular", "kind", "listKind"] {
        let value = text_at(crd, &format!("/spec/names/{field}"));
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
    stored_versions(crd, &mut causes);
    conversion(&crd["spec"]["conversion"], &mut causes);
    if crd.pointer("/spec/preserveUnknownFields") == Some(&json!(true)) {
        causes.push(Cause::invalid(
            "spec.preserveUnknownFields",
            &json!(true),
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ));
    }
    protected_group(crd, group, &mut causes);
    for (i, version) in versions(crd).enumerate() {
        let name = text_at(version, "/name");
        let field = format!("spec.versions[{i}].name");
        causes.extend(names::dns_label(name).iter().map(|m| Cause::invalid(&field, &json!(name), m)));
    }
    // Fields that are equal in all versions are validated once, under their names of single-version CRDs.
    let hoisted = |pointer: &str| {
        let mut all = versions(crd).map(|v| v.pointer(pointer));
        let first = all.next().flatten();
        first.filter(|first| all.all(|other| other == Some(*first)))
    };
    match hoisted("/schema") {
        Some(schema) => validate_schema(schema.get("openAPIV3Schema"), "spec.validation.openAPIV3Schema", &mut causes),
        None => {
            for (i, version) in versions(crd).enumerate() {
                let path = format!("spec.versions[{i}].schema.openAPIV3Schema");
                validate_schema(version.pointer("/schema/openAPIV3Schema"), &path, &mut causes);
            }
        }
    }
    match hoisted("/additionalPrinterColumns") {
        Some(columns) => validate_columns(columns, "spec", "JSONPath", &mut causes),
        None => {
            for (i, version) in versions(crd).enumerate() {
                let columns = version.pointer("/additionalPrinterColumns").unwrap_or(&Value::Null);
                validate_columns(columns, &format!("spec.versions[{i}]"), "jsonPath", &mut causes);
            }
        }
    }
    for (i, version) in versions(crd).enumerate() {
        let selectable = version.pointer("/selectableFields").and_then(Value::as_array).map_or(0, Vec::len);
        if selectable > 8 {
            let message = "Too many: must have at most 8 items".to_owned();
            let field = format!("spec.versions[{i}].selectableFields");
            causes.push(Cause { reason: "FieldValueTooMany".into(), message, field });
        }
    }
    causes
}

/// A version that objects may be stored in has to stay.
fn stored_versions(crd: &Value, causes: &mut Vec<Cause>) {
    let stored = crd.pointer("/status/storedVersions").and_then(Value::as_array);
    for (i, version) in stored.into_iter().flatten().enumerate() {
        if !versions(crd).any(|known| known["name"] == *version) {
            let name = version.as_str().unwrap_or_default();
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a \
                 storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            causes.push(Cause::invalid(format!("status.storedVersions[{i}]"), version, why));
        }
    }
}

/// Fields go by their names inside a kube-apiserver.
fn conversion(conversion: &Value, causes: &mut Vec<Cause>) {
    const CLIENT: &str = "spec.conversion.webhookClientConfig";
    const REVIEWS: &str = "spec.conversion.conversionReviewVersions";
    let (client, reviews) =
        (&conversion["webhook"]["clientConfig"], &conversion["webhook"]["conversionReviewVersions"]);
    match text_at(conversion, "/strategy") {
        "Webhook" => {}
        strategy => {
            match strategy {
                "None" => {}
                "" => causes.push(Cause::required("spec.conversion.strategy", "")),
                other => {
                    causes.push(Cause::unsupported("spec.conversion.strategy", &json!(other), &["None", "Webhook"]));
                }
            }
            let why = "should not be set when strategy is not set to Webhook";
            if client.is_object() {
                causes.push(Cause::forbidden(CLIENT, why));
            }
            if reviews.as_array().is_some_and(|list| !list.is_empty()) {
                causes.push(Cause::forbidden(REVIEWS, why));
            }
            return;
        }
    }
    match (client.is_object(), client["url"].as_str(), client["service"].is_object()) {
        (false, ..) => causes.push(Cause::required(CLIENT, "required when strategy is set to Webhook")),
        (_, Some(_), true) | (_, None, false) => {
            causes.push(Cause::required(CLIENT, "exactly one of url or service is required"));
        }
        (_, Some(url), false) if !url.starts_with("https://") => {
            let why = "'https' is the only allowed URL scheme";
            causes.push(Cause::invalid(format!("{CLIENT}.url"), &json!(url), why));
        }
        (_, None, true) => {
            for key in ["namespace", "name"] {
                if text_at(client, &format!("/service/{key}")).is_empty() {
                    causes.push(Cause::required(format!("{CLIENT}.service.{key}"), ""));
                }
            }
        }
        _ => {}
    }
    let versions: Vec<&str> = reviews.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if versions.is_empty() {
        causes.push(Cause::required(REVIEWS, ""));
    } else if !versions.iter().any(|v| super::conversion::REVIEWS.contains(v)) {
        causes.push(Cause::invalid(REVIEWS, reviews, "must include at least one of v1, v1beta1"));
    }
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

fn validate_schema(schema: Option<&Value>, path: &str, causes: &mut Vec<Cause>) {
    match schema {
        None => causes.push(Cause::required(path, "")),
        Some(schema) => causes.extend(schema::mistakes(schema, path)),
    }
}

/// `path_name` is the name of the field `jsonPath` in messages, which in one place is that of v1beta1.
fn validate_columns(columns: &Value, path: &str, path_name: &str, causes: &mut Vec<Cause>) {
    for (i, column) in columns.as_array().into_iter().flatten().enumerate() {
        let path = format!("{path}.additionalPrinterColumns[{i}]");
        if text_at(column, "/name").is_empty() {
            causes.push(Cause::required(format!("{path}.name"), ""));
        }
        let kind = text_at(column, "/type");
        if !["boolean", "date", "integer", "number", "string"].contains(&kind) {
            let message = "must be one of boolean,date,integer,number,string";
            causes.push(Cause::invalid(format!("{path}.type"), &json!(kind), message));
        }
        let json_path = text_at(column, "/jsonPath");
        if json_path.is_empty() {
            causes.push(Cause::required(format!("{path}.{path_name}"), ""));
        } else if !json_path.starts_with('.') {
            let message = "must be a simple json path starting with .";
            causes.push(Cause::invalid(format!("{path}.{path_name}"), &json!(json_path), message));
        }
    }
}
