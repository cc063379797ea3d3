//! Reading the objects that clients send: format, type, unknown fields (specification/apiserver.md 2, 14).

use ironclad_patch::decode::{self, DecodeError};
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
    let decoded = if format == BodyFormat::Json {
        let mut head = parse_head(&resource.kind, body)?;
        identify(resource, &mut head, body)?;
        schema::read(resource, body)
    } else {
        let (mut value, twice) = parse_counting(&resource.kind, body, format)?;
        identify(resource, &mut value, body)?;
        schema::check(resource, value).map(|mut decoded| {
            decoded.strict.splice(0..0, twice);
            decoded
        })
    };
    let mut decoded = decoded.map_err(|e| match e {
        DecodeError::Syntax(detail) => unreadable(&resource.kind, body, &detail),
        DecodeError::Type(why) => cannot(resource, &why),
    })?;
    report(cx, resource, &decoded.strict, validation)?;
    if !decoded.value.is_object() {
        decoded.value = json!({});
    }
    decoded.value["apiVersion"] = json!(resource.api_version());
    decoded.value["kind"] = json!(resource.kind);
    Ok(decoded.value)
}

/// apiVersion and kind alone, without building the rest.
fn parse_head(kind: &str, body: &[u8]) -> Result<Value, ApiError> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Head {
        api_version: Option<String>,
        kind: Option<String>,
        metadata: Option<Name>,
    }
    #[derive(serde::Deserialize)]
    struct Name {
        name: Option<String>,
    }
    let head: Option<Head> = match serde_json::from_slice(body) {
        Ok(head) => head,
        Err(e) if e.is_data() && body.trim_ascii_start().first() == Some(&b'{') => {
            // A type error in the head: parse the whole value to find where.
            return parse(kind, body, BodyFormat::Json);
        }
        Err(e) if e.is_data() => return Err(unreadable(kind, body, &no_object(body))),
        Err(e) => return Err(unreadable(kind, body, &e.to_string())),
    };
    let Some(head) = head else { return Ok(json!({})) };
    let name = head.metadata.and_then(|m| m.name);
    Ok(json!({"apiVersion": head.api_version, "kind": head.kind, "metadata": {"name": name}}))
}

fn missing_kind(resource: &Resource, body: &[u8]) -> ApiError {
    const SHOWN: usize = 256;
    let shown = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]);
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{shown}' ({})",
        resource.kind,
        if shown.starts_with('{') { shown.to_string() } else { excerpt(body) }
    ))
}

fn unreadable(kind: &str, body: &[u8], detail: &str) -> ApiError {
    let detail = if detail.starts_with("EOF while parsing") { "unexpected end of JSON input" } else { detail };
    let what = unrecognized(kind);
    let excerpt = excerpt(body);
    ApiError::bad_request(format!("{what}: couldn't get version/kind; json parse error: {detail} ({excerpt})"))
}

fn unrecognized(kind: &str) -> String {
    format!("the object provided is unrecognized (must be of type {kind})")
}

/// The message of a Go decoder about JSON that is not an object.
fn no_object(body: &[u8]) -> String {
    let what = match body.trim_ascii_start().first() {
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "bool",
        _ => "number",
    };
    format!(
        "json: cannot unmarshal {what} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
         Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    )
}

fn cannot(resource: &Resource, why: &str) -> ApiError {
    let (kind, version) = (&resource.kind, &resource.version);
    ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
}

/// The value of a body. YAML may repeat keys: the last one counts, the first repetition is returned as a warning.
fn parse_counting(kind: &str, body: &[u8], format: BodyFormat) -> Result<(Value, Option<String>), ApiError> {
    const TWICE: &str = "duplicate mapping key: ";
    if format != BodyFormat::Yaml {
        return Ok((parse(kind, body, format)?, None));
    }
    let text = std::str::from_utf8(body).map_err(|e| unreadable(kind, body, &e.to_string()))?;
    let error = match serde_saphyr::from_str::<Value>(text) {
        Ok(_) => return Ok((parse(kind, body, format)?, None)),
        Err(error) => error.to_string(),
    };
    let found = error.split_once(TWICE).and_then(|(_, rest)| {
        let key = rest.split(',').next()?;
        let line: usize = error.split_once("line ")?.1.split(' ').next()?.parse().ok()?;
        Some(format!("yaml: unmarshal errors:\n  line {line}: key {key:?} already set in map"))
    });
    let Some(repeated) = found else { return Err(unreadable(kind, body, &error)) };
    let options = serde_saphyr::options! { duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins };
    let value =
        serde_saphyr::from_str_with_options(text, options).map_err(|e| unreadable(kind, body, &e.to_string()))?;
    Ok((value, Some(repeated)))
}

/// The value of a body.
pub(crate) fn parse(kind: &str, body: &[u8], format: BodyFormat) -> Result<Value, ApiError> {
    let unreadable = |detail: String| unreadable(kind, body, &detail);
    let value: Value = match format {
        BodyFormat::Json => serde_json::from_slice(body).map_err(|e| unreadable(e.to_string()))?,
        BodyFormat::Yaml => {
            let text = std::str::from_utf8(body).map_err(|e| unreadable(e.to_string()))?;
            serde_saphyr::from_str(text).map_err(|e| unreadable(e.to_string()))?
        }
        BodyFormat::Protobuf => crate::protobuf::decode(body).map_err(|mut e| {
            // The decoder doesn't know what is wanted.
            if e.message.starts_with("provided data") {
                let detail = std::mem::take(&mut e.message);
                e.message = format!("{}: {detail} ({})", unrecognized(kind), excerpt(body));
            }
            e
        })?,
    };
    match value {
        Value::Object(_) => Ok(value),
        Value::Null => Ok(json!({})),
        _ => Err(unreadable(no_object(body))),
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
        Ok(text) if text.starts_with('{') => text.to_owned(),
        _ => head.iter().map(|b| format!("{b:02x}")).collect(),
    }
}

/// Checks apiVersion and kind, and fills them in for built-in kinds.
pub(crate) fn identify(resource: &Resource, object: &mut Value, body: &[u8]) -> Result<(), ApiError> {
    let want = resource.api_version();
    let given = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
    let (version, kind) = (given("apiVersion"), given("kind"));
    if resource.custom().is_some() {
        if kind.is_empty() {
            return Err(missing_kind(resource, body));
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
            "{} in version {:?} cannot be handled as a {}: no kind {:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\"",
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

/// Reports unknown and duplicate fields by the requested field validation.
pub(crate) fn report(
    cx: &Cx,
    resource: &Resource,
    strict: &[String],
    validation: FieldValidation,
) -> Result<(), ApiError> {
    match validation {
        _ if strict.is_empty() => Ok(()),
        FieldValidation::Strict => Err(cannot(resource, &decode::strict_message(strict))),
        FieldValidation::Warn => {
            strict.iter().for_each(|text| cx.warn(text));
            Ok(())
        }
        FieldValidation::Ignore => Ok(()),
    }
}
