//! Field selectors: an AND of comparisons of the few fields that a kind offers (specification/apiserver.md 10).

use serde_json::Value;

use crate::{registry::Resource, status::ApiError};

/// An AND of comparisons; none selects everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FieldSelector(Vec<Term>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    path: String,
    equal: bool,
    value: String,
}

/// The fields of a built-in kind besides its name and namespace.
fn fields(resource: &Resource) -> &'static [&'static str] {
    resource.builtin().map_or(&[], |builtin| builtin.strategy.selectable_fields)
}

impl FieldSelector {
    /// Reads a selector as the query carries it; refuses fields that the kind doesn't offer.
    pub(crate) fn parse(resource: &Resource, text: &str) -> Result<Self, ApiError> {
        let selector = Self::terms(text)?;
        selector.0.iter().try_for_each(|term| check(resource, &term.path))?;
        Ok(selector)
    }

    /// Reads a selector of any fields.
    pub(crate) fn terms(text: &str) -> Result<Self, ApiError> {
        let mut parts = split(text);
        // The order of a kube-apiserver: of two required names authorization sees the first.
        parts.sort_unstable();
        let terms = parts.into_iter().map(|part| {
            let (path, equal, value) = term(&part).ok_or_else(|| {
                ApiError::bad_request(format!("invalid selector: '{text}'; can't understand '{part}'"))
            })?;
            Ok(Term { path, equal, value })
        });
        Ok(Self(terms.collect::<Result<_, ApiError>>()?))
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// True for an object with such fields.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.matches_values(|path, value| value_at(object, path) == value)
    }

    /// True if all comparisons hold; `has` compares the field at a path with a value.
    pub(super) fn matches_values(&self, has: impl Fn(&str, &str) -> bool) -> bool {
        self.0.iter().all(|term| has(&term.path, &term.value) == term.equal)
    }

    /// The only name that can match, when one is required: what authorization sees as the request's name.
    pub(crate) fn name(&self) -> Option<&str> {
        self.0.iter().find(|t| t.equal && t.path == "metadata.name").map(|t| t.value.as_str())
    }

    /// The only namespace that can match, when one is required.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.0.iter().find(|t| t.equal && t.path == "metadata.namespace").map(|t| t.value.as_str())
    }
}

/// The paths that selectors of a resource may name.
pub(super) fn paths(resource: &Resource) -> impl Iterator<Item = &str> {
    let custom = resource.custom().into_iter().flat_map(|custom| custom.selectable.iter().map(String::as_str));
    ["metadata.name", "metadata.namespace"].into_iter().chain(fields(resource).iter().copied()).chain(custom)
}

fn check(resource: &Resource, path: &str) -> Result<(), ApiError> {
    if path == "metadata.name" || (path == "metadata.namespace" && resource.namespaced) {
        return Ok(());
    }
    let own = fields(resource);
    let known = match resource.custom() {
        Some(custom) => custom.selectable.iter().any(|f| f == path),
        None => own.contains(&path),
    };
    if known {
        Ok(())
    } else if resource.custom().is_some() || !own.is_empty() {
        Err(ApiError::bad_request(format!("field label not supported: {path}")))
    } else {
        let only = if resource.namespaced { "\"metadata.name\", \"metadata.namespace\"" } else { "\"metadata.name\"" };
        Err(ApiError::bad_request(format!("{path:?} is not a known field selector: only {only}")))
    }
}

/// Cuts at commas that aren't escaped.
fn split(text: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let last = out.last_mut().expect("one part from the start");
        match c {
            '\\' => {
                last.push(c);
                last.extend(chars.next());
            }
            ',' => out.push(String::new()),
            c => last.push(c),
        }
    }
    out.retain(|p| !p.is_empty());
    out
}

fn term(part: &str) -> Option<(String, bool, String)> {
    let at = part.find(['=', '!'])?;
    let (path, rest) = part.split_at(at);
    let (equal, value) = match rest {
        r if r.starts_with("!=") => (false, &r[2..]),
        r if r.starts_with("==") => (true, &r[2..]),
        r if r.starts_with('=') => (true, &r[1..]),
        _ => return None,
    };
    let mut unescaped = String::new();
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        unescaped.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    (!path.is_empty()).then(|| (path.to_owned(), equal, unescaped))
}

/// The value that a path is compared as.
pub(super) fn value_at(object: &Value, path: &str) -> String {
    let mut value = object;
    for part in path.split('.') {
        match value.get(part) {
            Some(next) => value = next,
            None => return default_of(object, path),
        }
    }
    match value {
        Value::String(s) => s.clone(),
        Value::Object(m) => m.get("component").and_then(Value::as_str).unwrap_or_default().to_owned(),
        Value::Null => default_of(object, path),
        other => other.to_string(),
    }
}

/// The value that an absent field is compared as.
fn default_of(object: &Value, path: &str) -> String {
    match path {
        "spec.unschedulable" | "spec.hostNetwork" => "false".into(),
        "status.successful" => object.pointer("/status/succeeded").map_or_else(|| "0".into(), Value::to_string),
        "status.replicas" => "0".into(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::Registry;

    #[test]
    fn selects_and_refuses() {
        let registry = Registry::new(crate::kinds::groups());
        let pods = registry.builtin("", "pods").unwrap();
        let maps = registry.builtin("", "configmaps").unwrap();
        let pod = json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"nodeName": "x"}, "status": {"phase": "Running"}});
        for (text, want) in [
            ("", true),
            ("metadata.name=a", true),
            ("metadata.name!=a", false),
            ("spec.nodeName==x,status.phase=Running", true),
            ("metadata.name=a,metadata.name=b", false),
            ("status.podIP=", true),
            ("spec.hostNetwork=false", true),
        ] {
            assert_eq!(FieldSelector::parse(&pods, text).unwrap().matches(&pod), want, "{text}");
        }
        for (resource, text, want) in [
            (&pods, "x", "invalid selector: 'x'; can't understand 'x'"),
            (&pods, "spec.size=1", "field label not supported: spec.size"),
            (
                &maps,
                "data.a=1",
                "\"data.a\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            ),
        ] {
            assert_eq!(FieldSelector::parse(resource, text).unwrap_err().message, want, "{text}");
        }
    }
}
