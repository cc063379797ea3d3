//! Paths of fields, and the mistakes that a review collects (admission.md 1.2).

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

    /// `path.field`; a dotted field goes several steps down.
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

/// Who may overrule a mistake (admission.md 8, break-glass).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The group `karmada:admission-bypass` gets a warning in its place.
    Ordinary,
    /// Nobody: it keeps users apart from each other.
    Security,
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where, and what.
    pub error: FieldError,
    /// Who may overrule it.
    pub kind: Kind,
}

/// All mistakes of an object, and what is legal but useless.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// The mistakes, in the order of the rules.
    pub errors: Vec<Finding>,
    /// Texts for people.
    pub warnings: Vec<String>,
    /// What is to be written beside the object.
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

    /// The same for what nobody may overrule.
    pub fn insecure(&mut self, path: impl Into<String>, value: &(impl Serialize + ?Sized), detail: &str) {
        let error = FieldError::invalid(path, &json(value), detail);
        self.errors.push(Finding { error, kind: Kind::Security });
    }

    /// One Invalid for each mistake of a text, as the functions of `names` find them.
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

    /// What another crate found.
    pub fn all(&mut self, errors: Vec<FieldError>) {
        errors.into_iter().for_each(|error| self.push(error));
    }

    /// Something legal that will have no effect, or not the one that is expected.
    pub fn warn(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }
}

/// The value as messages print it.
fn json(value: &(impl Serialize + ?Sized)) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// The texts of several mistakes as one: bare if it is one, else in brackets, each once (admission.md 1.2).
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
    fn the_classes_of_mistakes_and_their_texts() {
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
