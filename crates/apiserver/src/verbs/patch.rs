//! patch: the four kinds of it (specification/apiserver.md 12).

use ironclad_patch::{PatchError, decode};
use serde_json::{Value, json};

use crate::{
    context::Cx,
    negotiate::{self, PatchFormat},
    object,
    registry::Lookup,
    respond::{self, Reply},
    schema,
    status::{ApiError, Cause},
};

use super::{
    modify::{UpdateScope, modify},
    options::{FieldValidation, WriteOptions},
};

/// A patch that was read, ready to be applied again and again.
enum Ready {
    Json(Value),
    Merge(Value),
    Strategic(Value),
}

/// PATCH of an object or of its status.
pub(crate) async fn patch(cx: &Cx, bytes: &[u8], scope: UpdateScope) -> Result<Reply, ApiError> {
    let options = WriteOptions::parse(&cx.query, "PatchOptions")?;
    let format = negotiate::patch_format(cx.header(http::header::CONTENT_TYPE), cx.resource.custom().is_some())?;
    if format == PatchFormat::Apply {
        return super::apply::apply(cx, bytes, scope, &options).await;
    }
    if options.force {
        let cause = Cause::forbidden("force", "may not be specified for non-apply patch");
        return Err(ApiError::invalid_option("PatchOptions", cause));
    }
    let ready = read(bytes, format)?;
    let validation = options.field_validation;
    let done = modify(cx, scope, &options, false, &mut |old| candidate(cx, &ready, old, validation)).await?;
    respond::object(cx, 200, done)
}

fn read(bytes: &[u8], format: PatchFormat) -> Result<Ready, ApiError> {
    let undecodable = |why: &str| match format {
        PatchFormat::Strategic => ApiError::bad_request(why),
        _ => ApiError::bad_request(format!("error decoding patch: {why}")),
    };
    let value: Value = serde_json::from_slice(bytes).map_err(|e| {
        undecodable(&if e.is_eof() { "unexpected end of JSON input".to_owned() } else { e.to_string() })
    })?;
    if format == PatchFormat::Merge {
        match &value {
            Value::Null => return Err(ApiError::bad_request("Invalid JSON Patch")),
            Value::Array(_) => {
                return Err(undecodable("json: cannot unmarshal array into Go value of type map[string]interface {}"));
            }
            _ => {}
        }
    }
    Ok(match format {
        PatchFormat::Json => Ready::Json(value),
        PatchFormat::Strategic => Ready::Strategic(value),
        _ => Ready::Merge(value),
    })
}

fn candidate(cx: &Cx, ready: &Ready, old: &Value, validation: FieldValidation) -> Result<Value, ApiError> {
    let mut new = old.clone();
    match ready {
        Ready::Json(patch) => ironclad_patch::json_patch(&mut new, patch).map_err(refused)?,
        Ready::Merge(patch) => ironclad_patch::merge_patch(&mut new, patch),
        Ready::Strategic(patch) => return strategic(cx, old, patch, validation),
    }
    typed(cx, old, new, validation)
}

/// The object that a strategic merge patch makes of the old one.
pub(crate) fn strategic(cx: &Cx, old: &Value, patch: &Value, validation: FieldValidation) -> Result<Value, ApiError> {
    let decoded = schema::strategic(&cx.resource, old.clone(), patch).map_err(refused)?;
    let mut new = decoded.value;
    same_object(cx, old, &mut new, &|why| {
        let text = Value::String(patch.to_string());
        ApiError::invalid("", "", "", vec![Cause::invalid("patch", &text, why)])
    })?;
    match validation {
        FieldValidation::Strict if !decoded.strict.is_empty() => {
            let text = Value::String(ironclad_patch::strategic::go_print(patch));
            let why = decode::strict_message(&decoded.strict);
            Err(ApiError::invalid("", "", "", vec![Cause::invalid("patch", &text, why)]))
        }
        FieldValidation::Warn => {
            decoded.strict.iter().for_each(|t| cx.warn(t));
            Ok(new)
        }
        _ => Ok(new),
    }
}

/// The patched object must still be the same one, of the same kind.
fn same_object(cx: &Cx, old: &Value, new: &mut Value, invalid: &dyn Fn(String) -> ApiError) -> Result<(), ApiError> {
    if !new.is_object() {
        return Err(ApiError::unprocessable());
    }
    let given = object::meta_str(new, "name");
    if given != cx.name() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({})",
            cx.name()
        )));
    }
    // Another served version of the kind is ignored, another kind or an unknown version is refused.
    let (group, version) = {
        let given = new["apiVersion"].as_str().unwrap_or_default();
        let (group, version) = given.split_once('/').unwrap_or(("", given));
        (group.to_owned(), version.to_owned())
    };
    let known = matches!(cx.state.registry.find(&group, &version, &cx.resource.plural), Lookup::Resource(_));
    if !known && cx.resource.builtin().is_some() {
        let given = crate::registry::group_version(&group, &version);
        return Err(invalid(format!(
            "no kind {:?} is registered for version {given:?} in scheme \"pkg/runtime/scheme.go:111\"",
            cx.resource.kind
        )));
    }
    new["apiVersion"] = old["apiVersion"].clone();
    if new["kind"] == old["kind"] {
        return Ok(());
    }
    let resource = &*cx.resource;
    Err(match resource.custom() {
        Some(_) => {
            let kind = new["kind"].as_str().unwrap_or_default();
            let cause = Cause::invalid("kind", &json!(kind), format!("must be {}", resource.kind));
            ApiError::invalid(kind, &resource.group, cx.name(), vec![cause])
        }
        None => invalid(format!("no kind {} is registered for this version", new["kind"])),
    })
}

/// Reads a patched object as one of its kind.
pub(crate) fn typed(cx: &Cx, old: &Value, mut new: Value, validation: FieldValidation) -> Result<Value, ApiError> {
    let whole = new.clone();
    let invalid = |why: String| {
        let text = Value::String(whole.to_string());
        ApiError::invalid("", "", "", vec![Cause::invalid("patch", &text, why)])
    };
    same_object(cx, old, &mut new, &invalid)?;
    let decoded = schema::check(&cx.resource, new).map_err(|e| invalid(e.to_string()))?;
    match validation {
        FieldValidation::Strict if !decoded.strict.is_empty() => Err(invalid(decode::strict_message(&decoded.strict))),
        FieldValidation::Warn => {
            decoded.strict.iter().for_each(|t| cx.warn(t));
            Ok(decoded.value)
        }
        _ => Ok(decoded.value),
    }
}

/// The answer to a patch that can't be applied.
pub(crate) fn refused(error: PatchError) -> ApiError {
    let message = error.to_string();
    match error {
        PatchError::BadRequest(_) => ApiError::bad_request(message),
        PatchError::TooLarge(_) => ApiError::too_large(message),
        PatchError::Unprocessable(_) => ApiError::unprocessable(),
        PatchError::Invalid { value, message } => {
            ApiError::invalid("", "", "", vec![Cause::invalid("patch", &Value::String(value), message)])
        }
        PatchError::Conflict { message, conflicts } => {
            let mut out = ApiError::new(409, "Conflict", message);
            for conflict in conflicts {
                let text = format!("conflict with {}", conflict.manager);
                out = out.cause("FieldManagerConflict", &text, &conflict.field);
            }
            out
        }
        PatchError::Raw(_) => ApiError::unclassified(message),
    }
}

/// Reads the YAML or JSON of an apply patch.
pub(crate) fn read_apply(bytes: &[u8]) -> Result<Value, ApiError> {
    let undecodable =
        |e: String| ApiError::bad_request(format!("error decoding YAML: error converting YAML to JSON: {e}"));
    let value: Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(_) => {
            let text = std::str::from_utf8(bytes).map_err(|e| undecodable(e.to_string()))?;
            serde_saphyr::from_str(text).map_err(|e| undecodable(e.to_string()))?
        }
    };
    let what = match &value {
        Value::Object(_) | Value::Null => return Ok(value),
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
    };
    Err(ApiError::bad_request(format!(
        "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {what} into Go value of \
         type map[string]interface {{}}"
    )))
}

/// Checks that the body of an apply names what the path names.
pub(crate) fn check_apply(cx: &Cx, value: &Value) -> Result<(), ApiError> {
    let (version, kind) =
        (value["apiVersion"].as_str().unwrap_or_default(), value["kind"].as_str().unwrap_or_default());
    if kind != cx.resource.kind || version != cx.resource.api_version() {
        let gv = if version.contains('/') { version.to_owned() } else { format!("/{version}") };
        return Err(ApiError::bad_request(format!("invalid object type: {gv}, Kind={kind}")));
    }
    match object::meta_str(value, "name") {
        "" if cx.state.store.get(&cx.key()).is_none() => Err(ApiError::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            cx.name()
        ))),
        "" => Ok(()),
        given if given != cx.name() => Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({})",
            cx.name()
        ))),
        _ if object::metadata(value).get("managedFields").is_some_and(|m| !m.is_null()) => {
            Err(ApiError::bad_request("metadata.managedFields must be nil"))
        }
        _ => Ok(()),
    }
}
