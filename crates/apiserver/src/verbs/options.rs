//! Options of writes and deletions (specification/apiserver.md 8).

use serde_json::{Value, json};

use crate::{
    protobuf,
    request::Query,
    status::{ApiError, Cause},
};

/// The treatment of fields that the schema does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// Options of create, update and patch.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_validation: FieldValidation,
    pub(crate) force: bool,
    /// The object comes from an apply, which has set field ownership already.
    pub(crate) applied: bool,
}

const MANAGER_BYTES_MAX: usize = 128;

impl WriteOptions {
    /// Reads the query; `kind` is `CreateOptions`, `UpdateOptions` or `PatchOptions`.
    pub(crate) fn parse(query: &Query, kind: &str) -> Result<Self, ApiError> {
        let invalid = |cause| ApiError::invalid_option(kind, cause);
        let field_validation = match query.get("fieldValidation").unwrap_or_default() {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                return Err(invalid(Cause::unsupported("fieldValidation", &json!(other), &supported)));
            }
        };
        if let Some(manager) = query.get("fieldManager") {
            if manager.len() > MANAGER_BYTES_MAX {
                return Err(invalid(Cause::too_long("fieldManager", MANAGER_BYTES_MAX)));
            }
            if let Some((at, bad)) = manager.char_indices().find(|(_, c)| c.is_control()) {
                let why = format!("invalid character U+{:04X} (at position {at})", u32::from(bad));
                return Err(invalid(Cause::invalid("fieldManager", &json!(manager), why)));
            }
        }
        Ok(Self {
            dry_run: dry_run(query.all("dryRun"), kind)?,
            field_validation,
            force: query.flag("force"),
            applied: false,
        })
    }
}

fn dry_run(values: &[String], kind: &str) -> Result<bool, ApiError> {
    match values {
        [] => Ok(false),
        all if all.iter().all(|v| v == "All") => Ok(true),
        other => Err(ApiError::invalid_option(kind, Cause::unsupported("dryRun", &json!(other), &["All"]))),
    }
}

/// The treatment of dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// Options of a deletion.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    pub(crate) grace_seconds: Option<i64>,
    /// `None`: the kind's default.
    pub(crate) propagation: Option<Propagation>,
    pub(crate) uid: Option<String>,
    pub(crate) revision: Option<String>,
}

/// The options in a body, which is JSON, or YAML where it doesn't look like JSON, or says that it is protobuf: that is
/// what typed clients in Go send when they delete built-in kinds.
fn read_body(body: &[u8]) -> Result<Value, ApiError> {
    let value: Value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(_) if body.starts_with(protobuf::PREFIX) => protobuf::decode(body)?,
        Err(error) if body.trim_ascii_start().first() == Some(&b'{') => {
            let why = if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() };
            return Err(ApiError::bad_request(format!("couldn't get version/kind; json parse error: {why}")));
        }
        Err(error) => std::str::from_utf8(body)
            .map_err(|_| error.to_string())
            .and_then(|text| serde_saphyr::from_str(text).map_err(|e| e.to_string()))
            .map_err(|e| ApiError::bad_request(format!("couldn't get version/kind; json parse error: {e}")))?,
    };
    if let Some(kind) = value["kind"].as_str().filter(|k| !k.is_empty() && *k != "DeleteOptions") {
        let version = value["apiVersion"].as_str().unwrap_or_default();
        return Err(ApiError::bad_request(format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    Ok(value)
}

impl DeleteOptions {
    /// Reads the body or, when there is none, the query: never both.
    pub(crate) fn parse(query: &Query, body: &[u8]) -> Result<Self, ApiError> {
        let value = if body.iter().all(u8::is_ascii_whitespace) {
            let mut out = json!({"dryRun": query.all("dryRun")});
            if let Some(grace) = query.text("gracePeriodSeconds") {
                let grace: i64 = grace.parse().map_err(|_| {
                    ApiError::bad_request(format!("strconv.ParseInt: parsing {grace:?}: invalid syntax"))
                })?;
                out["gracePeriodSeconds"] = json!(grace);
            }
            if let Some(policy) = query.text("propagationPolicy") {
                out["propagationPolicy"] = json!(policy);
            }
            if let Some(orphan) = query.text("orphanDependents") {
                out["orphanDependents"] = json!(orphan != "false" && orphan != "0");
            }
            out
        } else {
            read_body(body)?
        };
        Self::of(&value)
    }

    fn of(value: &Value) -> Result<Self, ApiError> {
        let invalid = |cause| ApiError::invalid_option("DeleteOptions", cause);
        let dry: Vec<String> =
            value["dryRun"].as_array().into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect();
        let propagation = match value["propagationPolicy"].as_str() {
            None => None,
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                return Err(invalid(Cause::unsupported("propagationPolicy", &json!(other), &supported)));
            }
        };
        let legacy = value["orphanDependents"].as_bool();
        if legacy.is_some() && propagation.is_some() {
            let message = "orphanDependents and deletionPropagation cannot be both set";
            return Err(invalid(Cause::invalid("propagationPolicy", &value["propagationPolicy"], message)));
        }
        let legacy = legacy.map(|orphan| if orphan { Propagation::Orphan } else { Propagation::Background });
        let condition =
            |key: &str| value.pointer(&format!("/preconditions/{key}")).and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            dry_run: dry_run(&dry, "DeleteOptions")?,
            grace_seconds: value["gracePeriodSeconds"].as_i64().map(|g| if g < 0 { 1 } else { g }),
            propagation: propagation.or(legacy),
            uid: condition("uid"),
            revision: condition("resourceVersion"),
        })
    }
}
