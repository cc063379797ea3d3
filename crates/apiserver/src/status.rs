//! Errors as clients see them: a `Status` with code, reason, message and details (specification/apiserver.md 6).

use std::borrow::Cow;

use serde_json::{Value, json};

/// One reason among the causes of a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// `FieldValueInvalid` and its like.
    pub reason: String,
    /// The fault, without the field.
    pub message: String,
    /// The path of the field; empty when none is meant.
    pub field: String,
}

impl Cause {
    fn new(reason: &str, field: impl Into<String>, message: String) -> Self {
        Self { reason: reason.to_owned(), message, field: field.into() }
    }

    /// The value isn't acceptable: `Invalid value: <json>: <detail>`.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: impl AsRef<str>) -> Self {
        let detail = detail.as_ref();
        let message = if detail.is_empty() {
            format!("Invalid value: {value}")
        } else {
            format!("Invalid value: {value}: {detail}")
        };
        Self::new("FieldValueInvalid", field, message)
    }

    /// The same with the value as JSON text, for values whose members have a fixed order.
    pub(crate) fn invalid_quoted(field: impl Into<String>, value: &str, detail: impl AsRef<str>) -> Self {
        Self::new("FieldValueInvalid", field, format!("Invalid value: {value}: {}", detail.as_ref()))
    }

    /// The same of a value that none of the known ones is.
    pub(crate) fn unsupported_quoted(field: impl Into<String>, value: &str, supported: &[&str]) -> Self {
        let list = supported.iter().map(|s| format!("{s:?}")).collect::<Vec<_>>().join(", ");
        Self::new("FieldValueNotSupported", field, format!("Unsupported value: {value}: supported values: {list}"))
    }

    /// The field must be given; the detail may be empty.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        Self::new("FieldValueRequired", field, message)
    }

    /// The field may not be given or changed here.
    pub fn forbidden(field: impl Into<String>, detail: impl AsRef<str>) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {}", detail.as_ref()))
    }

    /// Another element has this value already.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new("FieldValueDuplicate", field, format!("Duplicate value: {value}"))
    }

    /// The same of a value that is written as a kube-apiserver writes it.
    pub(crate) fn duplicate_quoted(field: impl Into<String>, value: &str) -> Self {
        Self::new("FieldValueDuplicate", field, format!("Duplicate value: {value}"))
    }

    /// The reference names nothing in the object.
    pub fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self::new("FieldValueNotFound", field, format!("Not found: {value}"))
    }

    /// Only a fixed set of values is known.
    pub fn unsupported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let list = supported.iter().map(|s| format!("{s:?}")).collect::<Vec<_>>().join(", ");
        Self::new("FieldValueNotSupported", field, format!("Unsupported value: {value}: supported values: {list}"))
    }

    /// Longer than so many bytes.
    pub fn too_long(field: impl Into<String>, max: usize) -> Self {
        Self::new("FieldValueTooLong", field, format!("Too long: may not be more than {max} bytes"))
    }

    fn text(&self) -> String {
        if self.field.is_empty() { self.message.clone() } else { format!("{}: {}", self.field, self.message) }
    }
}

/// The details of a Status about the object that it concerns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Details {
    /// The object's name.
    pub name: String,
    /// The API group; empty for core.
    pub group: String,
    /// The plural resource or the kind, by reason (specification/apiserver.md 6).
    pub kind: String,
    /// The uid, in answers to deletions.
    pub uid: String,
    pub causes: Vec<Cause>,
    /// Seconds until a retry.
    pub retry_after_seconds: u32,
}

/// A refusal. Its code and reason are what clients branch on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status code.
    pub code: u16,
    /// The reason; empty for the errors that a kube-apiserver gives none. Webhooks give reasons of their own.
    pub reason: Cow<'static, str>,
    /// The sentence for a person.
    pub message: String,
    /// The object concerned.
    pub details: Option<Box<Details>>,
    /// A token that continues a list whose snapshot was compacted.
    pub continue_token: Option<Box<str>>,
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.code, self.message)
    }
}

impl std::error::Error for ApiError {}

/// `deployments.apps`, `configmaps`.
pub(crate) fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

impl ApiError {
    /// An error of this code and reason.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason: Cow::Borrowed(reason), message: message.into(), details: None, continue_token: None }
    }

    fn about(mut self, name: &str, group: &str, kind: &str) -> Self {
        self.details = Some(Box::new(Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            ..Details::default()
        }));
        self
    }

    pub(crate) fn empty_details(mut self) -> Self {
        self.details = Some(Box::default());
        self
    }

    /// Adds a cause.
    #[must_use]
    pub fn cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        let cause = Cause { reason: reason.into(), message: message.into(), field: field.into() };
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 401.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 403 about an object or, with an empty name, a resource.
    pub fn forbidden(resource: &str, group: &str, name: &str, why: &str) -> Self {
        let res = qualified(resource, group);
        let message = if name.is_empty() {
            format!("{res} is forbidden: {why}")
        } else {
            format!("{res} {name:?} is forbidden: {why}")
        };
        Self::new(403, "Forbidden", message).about(name, group, resource)
    }

    /// 404 about an object.
    pub fn not_found(resource: &str, group: &str, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", qualified(resource, group)))
            .about(name, group, resource)
    }

    /// 404 about a path in a known group.
    pub fn no_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").empty_details()
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
            .empty_details()
    }

    /// 406.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    /// 409: something of this name exists.
    pub fn already_exists(resource: &str, group: &str, name: &str, terminating: bool) -> Self {
        let prefix = if terminating { "object is being deleted: " } else { "" };
        Self::new(409, "AlreadyExists", format!("{prefix}{} {name:?} already exists", qualified(resource, group)))
            .about(name, group, resource)
    }

    /// 409: the write was made from something that is no more.
    pub fn conflict(resource: &str, group: &str, name: &str, why: &str) -> Self {
        let res = qualified(resource, group);
        Self::new(409, "Conflict", format!("Operation cannot be fulfilled on {res} {name:?}: {why}"))
            .about(name, group, resource)
    }

    /// 409: the resourceVersion is stale.
    pub fn modified(resource: &str, group: &str, name: &str) -> Self {
        const WHY: &str = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, group, name, WHY)
    }

    /// 410: the revision was compacted away.
    pub fn expired(message: &str) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 413.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// 415.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 422 with causes.
    pub fn invalid(kind: &str, group: &str, name: &str, causes: Vec<Cause>) -> Self {
        // Kubernetes checks some fields twice: clients see the cause twice and the text once.
        let mut texts: Vec<String> = Vec::new();
        for text in causes.iter().map(Cause::text) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let list = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut error = Self::new(422, "Invalid", format!("{} {name:?} is invalid: {list}", qualified(kind, group)))
            .about(name, group, kind);
        if let Some(details) = &mut error.details {
            details.causes = causes;
        }
        error
    }

    /// 422 about an option of the request.
    pub fn invalid_option(options: &str, cause: Cause) -> Self {
        Self::invalid(options, "meta.k8s.io", "", vec![cause])
    }

    /// 422 without a clue, as a failing JSON patch is answered.
    pub fn unprocessable() -> Self {
        Self::new(422, "Invalid", "the server rejected our request due to an error in our request").empty_details()
    }

    /// 500 with a reason.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let text = message.to_string();
        let mut error = Self::new(500, "InternalError", format!("Internal error occurred: {text}"));
        error.details = Some(Box::new(Details {
            causes: vec![Cause { reason: String::new(), message: text, field: String::new() }],
            ..Details::default()
        }));
        error
    }

    /// 500 with nothing but a text, as a kube-apiserver answers what it never classified.
    pub fn unclassified(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// 429: too many requests at once.
    pub fn too_many_requests() -> Self {
        let mut error = Self::new(429, "TooManyRequests", "too many requests, please try again later");
        error.details = Some(Box::new(Details { retry_after_seconds: 1, ..Details::default() }));
        error
    }

    /// 504: a revision that isn't reached yet.
    pub fn future_revision(wanted: u64, current: u64) -> Self {
        let mut error =
            Self::new(504, "Timeout", format!("Timeout: Too large resource version: {wanted}, current: {current}"));
        error.details = Some(Box::new(Details {
            causes: vec![Cause {
                reason: "ResourceVersionTooLarge".into(),
                message: "Too large resource version".into(),
                field: String::new(),
            }],
            retry_after_seconds: 1,
            ..Details::default()
        }));
        error
    }

    /// 504: the request took too long.
    pub fn timeout() -> Self {
        let mut error = Self::new(504, "Timeout", "Timeout: request did not complete within the allotted timeout");
        error.details = Some(Box::new(Details { retry_after_seconds: 1, ..Details::default() }));
        error
    }

    /// The Status object.
    #[must_use]
    pub fn status(&self) -> Value {
        let mut metadata = json!({});
        if let Some(token) = &self.continue_token {
            metadata["continue"] = json!(token);
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure", "message": self.message,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(details) = &self.details {
            status["details"] = details.value();
        }
        status["code"] = json!(self.code);
        status
    }
}

impl Details {
    fn value(&self) -> Value {
        let mut out = serde_json::Map::new();
        for (key, text) in [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)] {
            if !text.is_empty() {
                out.insert(key.into(), json!(text));
            }
        }
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(|c| {
                let mut cause = serde_json::Map::new();
                for (key, text) in [("reason", &c.reason), ("message", &c.message), ("field", &c.field)] {
                    if !text.is_empty() {
                        cause.insert(key.into(), json!(text));
                    }
                }
                Value::Object(cause)
            });
            out.insert("causes".into(), causes.collect());
        }
        if self.retry_after_seconds > 0 {
            out.insert("retryAfterSeconds".into(), json!(self.retry_after_seconds));
        }
        Value::Object(out)
    }
}

/// The Status that a deletion which removed at once is answered with.
pub(crate) fn success(resource: &str, group: &str, name: &str, uid: &str) -> Value {
    let details = Details {
        name: name.into(),
        group: group.into(),
        kind: resource.into(),
        uid: uid.into(),
        ..Details::default()
    };
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details.value()})
}

/// An error with its causes, in one line.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
