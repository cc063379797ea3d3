//! OverridePolicy and ClusterOverridePolicy (specification/admission.md 2.6, 2.7).

use ironclad_api::{
    StringMap,
    policy::{FieldOverrider, OverrideSpec, OverriderOperator, Overriders},
};
use ironclad_patch::names;
use serde_json::Value;

use super::{
    affinity,
    lens::{edit, text},
};
use crate::{
    Denial,
    field::{Findings, Path},
    request::{Cx, decode_spec},
};

/// Limit of the total size of an object's annotations, in bytes.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Fields that name the object in the member. If an override changed them, a user could write any object there with the
/// rights of the control plane. The override itself is checked again when it is applied.
const IDENTITY: [&str; 4] = ["/metadata/name", "/metadata/namespace", "/kind", "/apiVersion"];
/// Objects that contain these fields.
const CONTAINS_IDENTITY: [&str; 2] = ["", "/metadata"];

pub(crate) fn mutate(object: &mut Value, cx: &Cx<'_>) -> Result<(), Denial> {
    let Some(part) = object.get_mut("spec") else {
        return Err(Denial::undecodable("missing field `spec`"));
    };
    edit(part, |spec: &mut OverrideSpec| {
        for selector in spec.resource_selectors.iter_mut().filter(|selector| selector.namespace.is_empty()) {
            cx.request.namespace.clone_into(&mut selector.namespace);
        }
    })
}

pub(crate) fn validate(object: &Value, _: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    let spec: OverrideSpec = decode_spec(object)?;
    let path = Path::new("spec");
    let namespace = text(object, "/metadata/namespace");
    affinity::own_namespace(&spec.resource_selectors, namespace, &path.child("resourceSelectors"), out);
    check(&spec, &path, out);
    Ok(())
}

pub(crate) fn validate_cluster(object: &Value, _: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    check(&decode_spec(object)?, &Path::new("spec"), out);
    Ok(())
}

fn check(spec: &OverrideSpec, path: &Path, out: &mut Findings) {
    affinity::resource_selectors(&spec.resource_selectors, &path.child("resourceSelectors"), out);
    let deprecated = spec.overriders != Overriders::default();
    if !spec.override_rules.is_empty() {
        if spec.target_cluster.is_some() {
            let detail = "overrideRules and targetCluster can't co-exist: put it into a rule";
            out.invalid(path.child("targetCluster"), &spec.target_cluster, detail);
        }
        if deprecated {
            let detail = "overrideRules and overriders can't co-exist: put them into a rule";
            out.invalid(path.child("overriders"), &spec.overriders, detail);
        }
    }
    if let Some(affinity) = &spec.target_cluster {
        affinity::affinity(affinity, &path.child("targetCluster"), out);
    }
    overriders(&spec.overriders, &path.child("overriders"), out);
    for (i, rule) in spec.override_rules.iter().enumerate() {
        let at = path.child("overrideRules").index(i);
        if let Some(affinity) = &rule.target_cluster {
            affinity::affinity(affinity, &at.child("targetCluster"), out);
        }
        overriders(&rule.overriders, &at.child("overriders"), out);
    }
}

fn overriders(overriders: &Overriders, path: &Path, out: &mut Findings) {
    for (j, plain) in overriders.plaintext.iter().enumerate() {
        let at = path.child("plaintext").index(j);
        pointer(&plain.path, &at.child("path"), out);
        identity(&plain.path, &at.child("path"), out);
        value(plain.operator, plain.value.as_ref(), &at.child("value"), out);
        if plain.operator == OverriderOperator::Replace
            && ["/metadata/labels", "/metadata/annotations"].contains(&plain.path.as_str())
        {
            out.warn(format!(
                "{at} replaces the whole map: what other override policies set there is lost; set the keys one by one"
            ));
        }
    }
    for (j, image) in overriders.image_overrider.iter().enumerate() {
        if let Some(predicate) = &image.predicate {
            let at = path.child("imageOverrider").index(j).child("predicate.path");
            pointer(&predicate.path, &at, out);
            identity(&predicate.path, &at, out);
        }
    }
    for (j, annotations) in overriders.annotations_overrider.iter().enumerate() {
        annotation_map(&annotations.value, &path.child("annotationsOverrider").index(j).child("value"), out);
    }
    for (j, labels) in overriders.labels_overrider.iter().enumerate() {
        label_map(&labels.value, &path.child("labelsOverrider").index(j).child("value"), out);
    }
    for (j, field) in overriders.field_overrider.iter().enumerate() {
        field_overrider(field, &path.child("fieldOverrider").index(j), out);
    }
}

fn field_overrider(field: &FieldOverrider, path: &Path, out: &mut Findings) {
    match (field.json.is_empty(), field.yaml.is_empty()) {
        (false, false) => {
            out.invalid(path, field, "FieldOverrider has both YAML and JSON set. Only one is allowed");
        }
        (true, true) => out.required(path, "one of json and yaml must be set"),
        _ => {}
    }
    pointer(&field.field_path, &path.child("fieldPath"), out);
    identity(&field.field_path, &path.child("fieldPath"), out);
    for (format, patches) in [("json", &field.json), ("yaml", &field.yaml)] {
        for (k, patch) in patches.iter().enumerate() {
            let at = path.child(format).index(k);
            pointer(&patch.sub_path, &at.child("subPath"), out);
            value(patch.operator, patch.value.as_ref(), &at.child("value"), out);
        }
    }
}

fn pointer(text: &str, path: &Path, out: &mut Findings) {
    if !text.is_empty() && !text.starts_with('/') {
        let hint = format!("JSON pointer must be empty or start with a \"/\": write /{}", text.replace('.', "/"));
        out.invalid(path, text, &hint);
    }
}

fn identity(text: &str, path: &Path, out: &mut Findings) {
    let hit = |field: &str| text.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if CONTAINS_IDENTITY.contains(&text) || IDENTITY.iter().any(|field| hit(field)) {
        let detail = "name, namespace, kind and apiVersion of a copy can't be overridden: name a field below \
                      /metadata/labels, /metadata/annotations or outside of metadata";
        out.invalid(path, text, detail);
    }
}

fn value(operator: OverriderOperator, value: Option<&Value>, path: &Path, out: &mut Findings) {
    match (operator, value) {
        (OverriderOperator::Add | OverriderOperator::Replace, None) => {
            out.invalid(path, &Value::Null, "value is required for add or replace operation");
        }
        (OverriderOperator::Remove, Some(value)) => {
            out.invalid(path, value, "value is not allowed for remove operation");
        }
        _ => {}
    }
}

fn annotation_map(map: &StringMap, path: &Path, out: &mut Findings) {
    for key in map.keys() {
        // As Kubernetes does: annotation keys are compared in lower case.
        out.texts(path, key, names::label_key(&key.to_lowercase()));
    }
    let bytes: usize = map.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > ANNOTATIONS_BYTES_MAX {
        out.invalid(path, &bytes, &format!("may not be more than {ANNOTATIONS_BYTES_MAX} bytes together"));
    }
}

fn label_map(map: &StringMap, path: &Path, out: &mut Findings) {
    for (key, value) in map {
        out.texts(path, key, names::label_key(key));
        out.texts(path, value, names::label_value(value));
    }
}
