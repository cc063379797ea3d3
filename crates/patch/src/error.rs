//! Errors of patches and objects as clients see them (specification/apiserver.md 6).

use std::fmt;

use serde_json::Value;

/// Reason why a patch was rejected. The variant decides the HTTP code, [`fmt::Display`] gives the Status message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// 400 `BadRequest`: the patch can't be decoded or a directive is malformed.
    #[error("{0}")]
    BadRequest(String),
    /// 409 `Conflict`: applied fields are owned by other managers.
    #[error("{message}")]
    Conflict {
        /// The whole Status message.
        message: String,
        /// One cause per field, in the order of the message.
        conflicts: Vec<crate::error::Conflict>,
    },
    /// 413 `RequestEntityTooLarge`: more operations than the server accepts. The text follows `Request entity too
    /// large: `.
    #[error("Request entity too large: {0}")]
    TooLarge(String),
    /// 422 `Invalid` with an empty details object: an operation does not apply. Clients see one fixed message; this
    /// text is for the log.
    #[error("the server rejected our request due to an error in our request")]
    Unprocessable(String),
    /// 422 `Invalid` about the patched object, with empty kind and name:
    /// ` "" is invalid: patch: Invalid value: "<value>": <message>`.
    #[error(" \"\" is invalid: patch: Invalid value: {}: {message}", Value::String(value.clone()))]
    Invalid {
        /// The patched JSON, or Go's print of the patch for a strategic merge patch.
        value: String,
        /// The mistake.
        message: String,
    },
    /// 500 without a reason: Kubernetes returns these texts unchanged.
    #[error("{0}")]
    Raw(String),
}

/// A field that an apply must not change, because `manager` owns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The owner as clients see it: `"m1"`, `"m1" using v1`, `"sc" with subresource "scale"`.
    pub manager: String,
    /// Path such as `.spec.template.spec.containers[name="c1"].image`.
    pub field: String,
}

impl PatchError {
    /// The HTTP status code of the answer.
    pub fn code(&self) -> u16 {
        match self {
            Self::BadRequest(_) => 400,
            Self::Conflict { .. } => 409,
            Self::TooLarge(_) => 413,
            Self::Unprocessable(_) | Self::Invalid { .. } => 422,
            Self::Raw(_) => 500,
        }
    }

    /// The Status reason, empty where Kubernetes sends none.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::BadRequest(_) => "BadRequest",
            Self::Conflict { .. } => "Conflict",
            Self::TooLarge(_) => "RequestEntityTooLarge",
            Self::Unprocessable(_) | Self::Invalid { .. } => "Invalid",
            Self::Raw(_) => "",
        }
    }
}

/// The reason of a cause in a 422 Status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A value is missing.
    Required,
    /// A value is wrong.
    Invalid,
    /// The value is not one of those allowed.
    NotSupported,
    /// A value must not be given here.
    Forbidden,
    /// A value occurs twice where it must be unique.
    Duplicate,
    /// A value is too long.
    TooLong,
    /// A list has too many items.
    TooMany,
    /// A value is of the wrong type.
    TypeInvalid,
}

impl Reason {
    /// The word in `details.causes[].reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }
}

/// One cause of a 422 Status. [`fmt::Display`] gives the line in the Status message, `field: message`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldError {
    /// Path such as `spec.template.spec.containers[0].name`; `<nil>` for the object as a whole.
    pub field: String,
    /// The kind of mistake.
    pub reason: Reason,
    /// Text of `details.causes[].message`, for example `Invalid value: 0: must be …`.
    pub message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl FieldError {
    /// `Required value[: detail]`.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        Self { field: field.into(), reason: Reason::Required, message: with_detail("Required value", detail) }
    }

    /// `Invalid value: <json>: detail`.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let message = with_detail(&format!("Invalid value: {}", print(value)), detail);
        Self { field: field.into(), reason: Reason::Invalid, message }
    }

    /// `Unsupported value: <json>: supported values: "a", "b"`; the caller orders `supported`.
    pub fn not_supported<S: AsRef<str>>(field: impl Into<String>, value: &Value, supported: &[S]) -> Self {
        let list: Vec<String> = supported.iter().map(|s| print(&Value::String(s.as_ref().to_owned()))).collect();
        let detail = if list.is_empty() { String::new() } else { format!("supported values: {}", list.join(", ")) };
        let message = with_detail(&format!("Unsupported value: {}", print(value)), &detail);
        Self { field: field.into(), reason: Reason::NotSupported, message }
    }

    /// `Forbidden: detail`.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self { field: field.into(), reason: Reason::Forbidden, message: with_detail("Forbidden", detail) }
    }

    /// `Duplicate value: <json>`.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        let message = format!("Duplicate value: {}", print(value));
        Self { field: field.into(), reason: Reason::Duplicate, message }
    }

    /// `Too long: may not be more than N bytes`.
    pub fn too_long(field: impl Into<String>, max: u64) -> Self {
        let message = format!("Too long: may not be more than {max} bytes");
        Self { field: field.into(), reason: Reason::TooLong, message }
    }

    /// `Too many: N: must have at most M items`.
    pub fn too_many(field: impl Into<String>, actual: usize, max: u64) -> Self {
        let items = if max == 1 { "item" } else { "items" };
        let message = format!("Too many: {actual}: must have at most {max} {items}");
        Self { field: field.into(), reason: Reason::TooMany, message }
    }
}

/// Prints a value as in messages: compact JSON.
pub(crate) fn print(value: &Value) -> String {
    value.to_string()
}

fn with_detail(head: &str, detail: &str) -> String {
    if detail.is_empty() { head.to_owned() } else { format!("{head}: {detail}") }
}
