//! Options of writes and deletions (apiserver.md 8).

use serde_json::{Value, json};

use crate::{
    request::Query,
    status::{ApiError, Cause},
};

/// What happens to fields that the schema doesn't know.
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
    /// The object comes from an apply, which has noted ownership already.
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
            if manager.chars().any(char::is_control) {
                return Err(invalid(Cause::invalid(
                    "fieldManager",
                    &json!(manager),
                    "should only contain printable characters",
                )));
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
        [one] if one.is_empty() => Ok(false),
        all if all.iter().all(|v| v == "All") => Ok(true),
        other => Err(ApiError::invalid_option(kind, Cause::unsupported("dryRun", &json!(other), &["All"]))),
    }
}

/// What becomes of dependents.
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
            serde_json::from_slice(body)
                .or_else(|json_error| {
                    let text = std::str::from_utf8(body).map_err(|_| json_error)?;
                    serde_saphyr::from_str::<Value>(text).map_err(<serde_json::Error as serde::de::Error>::custom)
                })
                .map_err(|e| ApiError::bad_request(format!("couldn't read the delete options: {e}")))?
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
