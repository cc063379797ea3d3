//! The rules of `metadata`: what the server sets, what a client may change, what is refused
//! (specification/apiserver.md 7).

use serde_json::{Map, Value, json};

use crate::{
    names, object,
    registry::Resource,
    status::{ApiError, Cause},
};

/// The most bytes of all annotations together.
const ANNOTATION_BYTES_MAX: usize = 256 * 1024;
/// generateName is cut so that five letters fit behind it.
const GENERATE_BASE_MAX: usize = 58;

/// Sets what the server owns of a new object's metadata; the name is there or drawn with `suffix`.
pub(crate) fn prepare_create(
    resource: &Resource,
    object: &mut Value,
    namespace: Option<&str>,
    uid: String,
    now: &str,
    suffix: impl FnOnce() -> String,
) -> Result<(), ApiError> {
    let generation = resource.has_generation();
    let metadata = object::metadata_mut(object);
    let given = metadata.get("resourceVersion").and_then(Value::as_str).unwrap_or_default();
    if !given.is_empty() && given != "0" {
        return Err(ApiError::unclassified("resourceVersion should not be set on objects to be created"));
    }
    for key in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(key);
    }
    set_namespace(resource, metadata, namespace)?;
    let base = metadata.get("generateName").and_then(Value::as_str).unwrap_or_default();
    if metadata.get("name").and_then(Value::as_str).is_none_or(str::is_empty) && !base.is_empty() {
        let base: String = base.chars().take(GENERATE_BASE_MAX).collect();
        metadata.insert("name".into(), json!(base + &suffix()));
    }
    metadata.insert("uid".into(), json!(uid));
    metadata.insert("creationTimestamp".into(), json!(now));
    if generation {
        metadata.insert("generation".into(), json!(1));
    }
    tidy(metadata);
    Ok(())
}

/// Puts the object into the namespace of the path, or out of any.
fn set_namespace(
    resource: &Resource,
    metadata: &mut Map<String, Value>,
    namespace: Option<&str>,
) -> Result<(), ApiError> {
    const MISMATCH: &str = "the namespace of the provided object does not match the namespace sent on the request";
    let given = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    match namespace {
        Some(namespace) if resource.namespaced => {
            if !given.is_empty() && given != namespace {
                return Err(ApiError::bad_request(MISMATCH));
            }
            metadata.insert("namespace".into(), json!(namespace));
        }
        _ if !given.is_empty() && !resource.namespaced => return Err(ApiError::bad_request(MISMATCH)),
        _ => {
            metadata.remove("namespace");
        }
    }
    Ok(())
}

/// Drops what would not be printed: empty maps and lists, nulls; and duplicates among owners.
fn tidy(metadata: &mut Map<String, Value>) {
    metadata.retain(|_, v| match v {
        Value::Null => false,
        Value::Object(m) => !m.is_empty(),
        Value::Array(a) => !a.is_empty(),
        Value::String(s) => !s.is_empty(),
        _ => true,
    });
}

/// Drops references that name an owner a second time; answers the warnings.
pub(crate) fn dedup_owners(object: &mut Value) -> Vec<String> {
    let Some(owners) = object::metadata_mut(object).get_mut("ownerReferences").and_then(Value::as_array_mut) else {
        return vec![];
    };
    let mut seen = std::collections::BTreeSet::new();
    let mut twice = Vec::new();
    owners.retain(|owner| {
        let uid = owner["uid"].as_str().unwrap_or_default().to_owned();
        let new = seen.insert(uid.clone());
        if !new {
            twice.push(uid);
        }
        new
    });
    if twice.is_empty() {
        return vec![];
    }
    vec![format!(
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may \
         reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        twice.join(", ")
    )]
}

/// Carries over what a client may not change, before validation. `Err` for what may not even be tried.
pub(crate) fn prepare_update(
    resource: &Resource,
    old: &Value,
    new: &mut Value,
    namespace: Option<&str>,
    name: &str,
) -> Result<(), ApiError> {
    let old = object::metadata(old);
    let metadata = object::metadata_mut(new);
    set_namespace(resource, metadata, namespace)?;
    let given = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
    if given != name {
        if !given.is_empty() {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({given}) does not match the name on the URL ({name})"
            )));
        }
        metadata.insert("name".into(), json!(name));
    }
    if metadata.get("uid").and_then(Value::as_str).is_none_or(str::is_empty) {
        carry(old, metadata, "uid");
    }
    // Nulled or left out they are kept; another value is for validation to refuse.
    for key in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        if metadata.get(key).is_none_or(Value::is_null) {
            carry(old, metadata, key);
        }
    }
    carry(old, metadata, "creationTimestamp");
    if resource.has_generation() || metadata.get("generation").is_none_or(|g| g.is_null() || *g == json!(0)) {
        carry(old, metadata, "generation");
    }
    metadata.remove("selfLink");
    tidy(metadata);
    Ok(())
}

fn carry(old: &Map<String, Value>, metadata: &mut Map<String, Value>, key: &str) {
    match old.get(key) {
        Some(value) => metadata.insert(key.into(), value.clone()),
        None => metadata.remove(key),
    };
}

/// Bumps the generation if the wish changed: everything but metadata and (where it is a subresource) status.
pub(crate) fn count_generation(resource: &Resource, old: &Value, new: &mut Value) {
    if !resource.has_generation() {
        return;
    }
    let mut changed = spec_differs(resource, old, new);
    if let Some(key) = resource.builtin().and_then(|builtin| builtin.strategy.generation_counts) {
        changed |= object::metadata(old).get(key) != object::metadata(new).get(key);
    }
    if changed {
        bump_generation(new);
    }
}

/// Adds one to the generation of an object that has one.
pub(crate) fn bump_generation(object: &mut Value) {
    let metadata = object::metadata_mut(object);
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
        metadata.insert("generation".into(), json!(generation + 1));
    }
}

fn spec_differs(resource: &Resource, old: &Value, new: &Value) -> bool {
    let status_counts = !resource.has_status() && resource.custom().is_some();
    let counts = |key: &str| key != "metadata" && (key != "status" || status_counts);
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return true };
    let side = |m: &Map<String, Value>| m.keys().filter(|k| counts(k)).count();
    side(old) != side(new) || old.iter().any(|(k, v)| counts(k) && new.get(k) != Some(v))
}

/// Validates a new object's metadata.
pub(crate) fn validate_create(resource: &Resource, object: &Value) -> Vec<Cause> {
    let metadata = object::metadata(object);
    let mut causes = Vec::new();
    if let Some(base) = metadata.get("generateName").and_then(Value::as_str).filter(|b| !b.is_empty()) {
        // A suffix is appended, so a dash at the end is valid.
        let masked = base.strip_suffix('-').map_or_else(|| base.to_owned(), |b| format!("{b}a"));
        let messages = name_rule(resource, &masked);
        causes.extend(messages.iter().map(|m| Cause::invalid("metadata.generateName", &json!(base), m)));
    }
    match metadata.get("name").and_then(Value::as_str).filter(|n| !n.is_empty()) {
        None => causes.push(Cause::required("metadata.name", "name or generateName is required")),
        Some(name) => {
            let messages = name_rule(resource, name);
            causes.extend(messages.iter().map(|m| Cause::invalid("metadata.name", &json!(name), m)));
        }
    }
    validate_both(resource, metadata, &mut causes);
    causes
}

fn name_rule(resource: &Resource, name: &str) -> Vec<String> {
    match resource.builtin() {
        Some(builtin) => (builtin.strategy.validate_name)(name),
        None => names::dns_subdomain(name),
    }
}

/// Validates an update of metadata.
pub(crate) fn validate_update(resource: &Resource, old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if object::terminating(old) {
        let had = object::finalizers(old);
        let mut added: Vec<&str> = object::finalizers(new).into_iter().filter(|f| !had.contains(f)).collect();
        added.sort_unstable();
        if !added.is_empty() {
            let list = added.iter().map(|f| format!("{f:?}")).collect::<Vec<_>>().join(", ");
            let cause = Cause::forbidden(
                "metadata.finalizers",
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"
                ),
            );
            causes.extend([cause.clone(), cause]);
        }
    }
    let (was, is) = (object::metadata(old), object::metadata(new));
    for key in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if was.get(key) != is.get(key) {
            let cause =
                Cause::invalid(format!("metadata.{key}"), is.get(key).unwrap_or(&Value::Null), "field is immutable");
            causes.extend([cause.clone(), cause]);
        }
    }
    validate_both(resource, is, &mut causes);
    causes
}

fn validate_both(resource: &Resource, metadata: &Map<String, Value>, causes: &mut Vec<Cause>) {
    let unchecked = resource.builtin().map_or(&[][..], |builtin| builtin.strategy.unchecked_labels);
    let labels = metadata.get("labels").and_then(Value::as_object).into_iter().flatten();
    for (key, value) in labels.filter(|(key, _)| !unchecked.contains(&key.as_str())) {
        causes.extend(names::qualified_name(key).iter().map(|m| Cause::invalid("metadata.labels", &json!(key), m)));
        let text = value.as_str().unwrap_or_default();
        causes.extend(names::label_value(text).iter().map(|m| Cause::invalid("metadata.labels", value, m)));
    }
    let mut bytes = 0;
    for (key, value) in metadata.get("annotations").and_then(Value::as_object).into_iter().flatten() {
        let messages = names::qualified_name(&key.to_lowercase());
        causes.extend(messages.iter().map(|m| Cause::invalid("metadata.annotations", &json!(key), m)));
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > ANNOTATION_BYTES_MAX {
        causes.push(Cause::too_long("metadata.annotations", ANNOTATION_BYTES_MAX));
    }
    validate_owners(metadata, causes);
    validate_finalizers(resource, metadata, causes);
}

fn validate_owners(metadata: &Map<String, Value>, causes: &mut Vec<Cause>) {
    let mut controller: Option<String> = None;
    let owners = metadata.get("ownerReferences");
    for owner in owners.and_then(Value::as_array).into_iter().flatten() {
        let get = |key: &str| owner[key].as_str().unwrap_or_default();
        let field = |key: &str| format!("metadata.ownerReferences.{key}");
        let version = get("apiVersion").rsplit('/').next().unwrap_or_default();
        if version.is_empty() || get("apiVersion").matches('/').count() > 1 {
            causes.push(Cause::invalid(field("apiVersion"), &json!(get("apiVersion")), "version must not be empty"));
        }
        for key in ["kind", "name", "uid"] {
            if get(key).is_empty() {
                causes.push(Cause::invalid(field(key), &json!(""), "must not be empty"));
            }
        }
        if get("apiVersion") == "v1" && get("kind") == "Event" {
            causes.push(Cause::invalid(
                "metadata.ownerReferences",
                owner,
                "/v1, Kind=Event is disallowed from being an owner",
            ));
        }
        if owner["controller"] == true {
            let this = format!("{}/{}", get("kind"), get("name"));
            match &controller {
                Some(first) => causes.push(Cause::invalid(
                    "metadata.ownerReferences",
                    owners.unwrap_or(&Value::Null),
                    format!("Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"),
                )),
                None => controller = Some(this),
            }
        }
    }
}

fn validate_finalizers(resource: &Resource, metadata: &Map<String, Value>, causes: &mut Vec<Cause>) {
    const STANDARD: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];
    let list = metadata.get("finalizers").and_then(Value::as_array);
    // Custom resources and the kinds of the extension servers take any qualified name.
    let strict = resource.builtin().is_some_and(|builtin| !builtin.strategy.any_finalizer);
    let mut both = (false, false);
    for (i, value) in list.into_iter().flatten().enumerate() {
        let name = value.as_str().unwrap_or_default();
        both.0 |= name == "orphan";
        both.1 |= name == "foregroundDeletion";
        let field = format!("metadata.finalizers[{i}]");
        let messages = names::qualified_name(name);
        causes.extend(messages.iter().map(|m| Cause::invalid("metadata.finalizers", value, m)));
        if strict && messages.is_empty() && !name.contains('/') && !STANDARD.contains(&name) {
            causes.push(Cause::invalid(
                field,
                value,
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
    if both == (true, true) {
        causes.push(Cause::invalid(
            "metadata.finalizers",
            &json!(list),
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
}
