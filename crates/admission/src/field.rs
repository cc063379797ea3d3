//! Field paths, and the findings that a review collects (specification/admission.md 1.2).

use std::fmt;

use ironclad_patch::FieldError;
use serde::Serialize;
use serde_json::Value;

/// Path of a field, printed as in `spec.metrics[0].type` and `spec.overall[cpu]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    /// A field of the object itself.
    #[must_use]
    pub fn new(field: &str) -> Self {
        Self(field.to_owned())
    }

    /// `path.field`; a dotted field descends several levels.
    #[must_use]
    pub fn child(&self, field: &str) -> Self {
        Self(format!("{}.{field}", self.0))
    }

    /// `path[index]`.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// `path[key]`.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Path> for String {
    fn from(path: Path) -> Self {
        path.0
    }
}

impl From<&Path> for String {
    fn from(path: &Path) -> Self {
        path.0.clone()
    }
}

/// Severity of an error: whether the break-glass group may overrule it (specification/admission.md 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Members of the group `karmada:admission-bypass` get a warning instead.
    Ordinary,
    /// Cannot be overruled: the rule isolates tenants from each other.
    Security,
}

/// An error that a rule found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The field and the error.
    pub error: FieldError,
    /// True if break-glass users may overrule the refusal.
    pub kind: Kind,
}

/// Errors and warnings of a review.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// The errors, in the order of the rules.
    pub errors: Vec<Finding>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// Writes to other objects.
    pub effects: Vec<crate::Effect>,
}

impl Findings {
    fn push(&mut self, error: FieldError) {
        self.errors.push(Finding { error, kind: Kind::Ordinary });
    }

    /// `Invalid value: <json>: detail`.
    pub fn invalid(&mut self, path: impl Into<String>, value: &(impl Serialize + ?Sized), detail: &str) {
        self.push(FieldError::invalid(path, &json(value), detail));
    }

    /// `Invalid value`, which cannot be overruled.
    pub fn insecure(&mut self, path: impl Into<String>, value: &(impl Serialize + ?Sized), detail: &str) {
        let error = FieldError::invalid(path, &json(value), detail);
        self.errors.push(Finding { error, kind: Kind::Security });
    }

    /// `Forbidden: detail`, which cannot be overruled.
    pub fn not_permitted(&mut self, path: impl Into<String>, detail: &str) {
        self.errors.push(Finding { error: FieldError::forbidden(path, detail), kind: Kind::Security });
    }

    /// One `Invalid value` for each reason that the functions of `names` return.
    pub fn texts(&mut self, path: impl Into<String>, value: &str, mistakes: Vec<String>) {
        let path = path.into();
        for mistake in mistakes {
            self.invalid(path.as_str(), value, &mistake);
        }
    }

    /// `Required value[: detail]`.
    pub fn required(&mut self, path: impl Into<String>, detail: &str) {
        self.push(FieldError::required(path, detail));
    }

    /// `Duplicate value: <json>`.
    pub fn duplicate(&mut self, path: impl Into<String>, value: &(impl Serialize + ?Sized)) {
        self.push(FieldError::duplicate(path, &json(value)));
    }

    /// `Unsupported value: <json>: supported values: "a", "b"`, sorted.
    pub fn not_supported(&mut self, path: impl Into<String>, value: &(impl Serialize + ?Sized), supported: &[&str]) {
        let mut supported = supported.to_vec();
        supported.sort_unstable();
        self.push(FieldError::not_supported(path, &json(value), &supported));
    }

    /// `Forbidden: detail`.
    pub fn forbidden(&mut self, path: impl Into<String>, detail: &str) {
        self.push(FieldError::forbidden(path, detail));
    }

    /// Adds errors that another crate found.
    pub fn all(&mut self, errors: Vec<FieldError>) {
        errors.into_iter().for_each(|error| self.push(error));
    }

    /// Warns of something that is valid but has no effect, or not the expected one.
    pub fn warn(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }
}

/// The value as it appears in messages.
fn json(value: &(impl Serialize + ?Sized)) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// Joins error texts: one error as it is, several in brackets without duplicates (specification/admission.md 1.2).
#[must_use]
pub fn message(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for text in errors.iter().map(ToString::to_string) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_texts_are_those_of_kubernetes() {
        let spec = Path::new("spec");
        let at = spec.child("metrics").index(0).child("type");
        for (name, make, want) in [
            (
                "Invalid",
                (|out, at| out.invalid(at, "x", "must be y")) as fn(&mut Findings, &Path),
                r#"spec.metrics[0].type: Invalid value: "x": must be y"#,
            ),
            (
                "a number",
                |out, at| out.invalid(at, &-1, "must be greater"),
                "spec.metrics[0].type: Invalid value: -1: must be greater",
            ),
            ("Required", |out, at| out.required(at, ""), "spec.metrics[0].type: Required value"),
            (
                "Required with detail",
                |out, at| out.required(at, "say why"),
                "spec.metrics[0].type: Required value: say why",
            ),
            ("Duplicate", |out, at| out.duplicate(at, "x"), r#"spec.metrics[0].type: Duplicate value: "x""#),
            (
                "NotSupported, sorted",
                |out, at| out.not_supported(at, "x", &["b", "a"]),
                r#"spec.metrics[0].type: Unsupported value: "x": supported values: "a", "b""#,
            ),
            ("Forbidden", |out, at| out.forbidden(at, "not here"), "spec.metrics[0].type: Forbidden: not here"),
        ] {
            let mut out = Findings::default();
            make(&mut out, &at);
            let errors: Vec<FieldError> = out.errors.into_iter().map(|f| f.error).collect();
            assert_eq!(message(&errors), want, "{name}");
        }
        let mut out = Findings::default();
        out.required(spec.child("overall").key("cpu"), "");
        out.required(spec.child("b"), "");
        out.required(spec.child("b"), "");
        let errors: Vec<FieldError> = out.errors.into_iter().map(|f| f.error).collect();
        assert_eq!(
            message(&errors),
            "[spec.overall[cpu]: Required value, spec.b: Required value]",
            "several, each once"
        );
    }
}
