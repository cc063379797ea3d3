//! Reading the objects that clients send: format, type, unknown fields (apiserver.md 2, 14).

use serde_json::{Value, json};

use crate::{
    context::Cx,
    negotiate::{self, BodyFormat},
    registry::Resource,
    schema,
    status::ApiError,
};

use super::options::FieldValidation;

/// The object of a create or update body, typed and without unknown fields.
pub(crate) fn object(cx: &Cx, body: &[u8], validation: FieldValidation) -> Result<Value, ApiError> {
    object_of(cx, &cx.resource, body, validation)
}

/// The same for a body that speaks another kind, as subresources do.
pub(crate) fn object_of(
    cx: &Cx,
    resource: &Resource,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Value, ApiError> {
    let format = negotiate::body_format(cx.header(http::header::CONTENT_TYPE))?;
    let mut object = parse(&resource.kind, body, format)?;
    identify(resource, &mut object)?;
    check_fields(cx, resource, &mut object, validation)?;
    Ok(object)
}

/// The value of a body.
pub(crate) fn parse(kind: &str, body: &[u8], format: BodyFormat) -> Result<Value, ApiError> {
    let unreadable = |detail: String| {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: {detail} ({})",
            excerpt(body)
        ))
    };
    let value: Value = match format {
        BodyFormat::Json => serde_json::from_slice(body).map_err(|e| unreadable(e.to_string()))?,
        BodyFormat::Yaml => {
            let text = std::str::from_utf8(body).map_err(|e| unreadable(e.to_string()))?;
            serde_saphyr::from_str(text).map_err(|e| unreadable(e.to_string()))?
        }
        BodyFormat::Protobuf => crate::protobuf::decode(body)?,
    };
    match value {
        Value::Object(_) => Ok(value),
        Value::Null => Ok(json!({})),
        _ => Err(unreadable("json: cannot unmarshal into Go value of type struct".into())),
    }
}

/// A short piece of a body for a message.
fn excerpt(body: &[u8]) -> String {
    const LONGEST: usize = 32;
    if body.is_empty() {
        return "<empty>".into();
    }
    let head = &body[..body.len().min(LONGEST)];
    match std::str::from_utf8(head) {
        Ok(text) if !text.contains(|c: char| c.is_control() && !c.is_whitespace()) => text.to_owned(),
        _ => head.iter().map(|b| format!("{b:02x}")).collect(),
    }
}

/// Checks apiVersion and kind, and fills them in for built-in kinds.
pub(crate) fn identify(resource: &Resource, object: &mut Value) -> Result<(), ApiError> {
    let want = resource.api_version();
    let given = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
    let (version, kind) = (given("apiVersion"), given("kind"));
    if resource.custom().is_some() {
        if kind.is_empty() {
            return Err(ApiError::bad_request(format!("Object 'Kind' is missing in '{object}'")));
        }
        if version.is_empty() {
            return Err(ApiError::bad_request(format!("Object 'apiVersion' is missing in '{object}'")));
        }
        if version != want {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version ({want})"
            )));
        }
        if kind != resource.kind {
            let name = crate::object::meta_str(object, "name").to_owned();
            let cause = crate::status::Cause::invalid("kind", &json!(kind), format!("must be {}", resource.kind));
            return Err(ApiError::invalid(&kind, &resource.group, &name, vec![cause]));
        }
        return Ok(());
    }
    let short = want.rsplit('/').next().unwrap_or_default();
    if !kind.is_empty() && kind != resource.kind {
        let internal =
            if resource.group.is_empty() { "core" } else { resource.group.split('.').next().unwrap_or_default() };
        return Err(ApiError::bad_request(format!(
            "{kind} in version {short:?} cannot be handled as a {}: converting ({short}.{kind}) to ({internal}.{}): unknown conversion",
            resource.kind, resource.kind
        )));
    }
    if !version.is_empty() && version != want {
        return Err(ApiError::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: no kind {:?} is registered for version {version:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
            resource.kind,
            version.rsplit('/').next().unwrap_or_default(),
            resource.kind,
            resource.kind
        )));
    }
    object["apiVersion"] = json!(want);
    object["kind"] = json!(resource.kind);
    Ok(())
}

/// Types and unknown fields, by the field validation that was asked for.
pub(crate) fn check_fields(
    cx: &Cx,
    resource: &Resource,
    object: &mut Value,
    validation: FieldValidation,
) -> Result<(), ApiError> {
    let version = &resource.version;
    let cannot = |why: String| {
        ApiError::bad_request(format!("{0} in version {version:?} cannot be handled as a {0}: {why}", resource.kind))
    };
    let unknown = schema::decode(resource, object).map_err(cannot)?;
    if unknown.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    match validation {
        FieldValidation::Strict => Err(cannot(format!("strict decoding error: {}", texts.join(", ")))),
        FieldValidation::Warn => {
            texts.into_iter().for_each(|t| cx.warn(t));
            Ok(())
        }
        FieldValidation::Ignore => Ok(()),
    }
}
