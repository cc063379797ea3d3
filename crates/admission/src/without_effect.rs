//! Fields and kinds that are accepted and that no code acts on: each is answered with a warning
//! (specification/admission.md 1.5).
//!
//! The list is `data/without-effect.txt`. A guard in xtask finds the fields that nobody reads, and compares.

use std::sync::OnceLock;

use serde_json::Value;

/// Path of an entry that is about a whole kind.
pub const WHOLE_KIND: &str = "*";

/// Reason for which an entry is in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// No code reads it.
    Unread,
    /// It is read only to fill fields of the list, which the guard cannot know.
    Copied,
    /// No code reads it, since another field must say the same; no warning.
    Implied,
    /// No code reads it, and no webhook validates its kind, which only controllers write; no warning.
    Internal,
}

impl Class {
    /// Returns true if a write that sets it is answered with a warning.
    pub fn is_warned_of(self) -> bool {
        matches!(self, Self::Unread | Self::Copied)
    }
}

/// An entry of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithoutEffect {
    /// Kinds that have it.
    pub kinds: Vec<&'static str>,
    /// JSON path from the root, lists entered implicitly; [`WHOLE_KIND`] for a whole kind.
    pub path: &'static str,
    pub class: Class,
    /// Reason, as the end of a sentence.
    pub reason: &'static str,
}

pub fn list() -> &'static [WithoutEffect] {
    static LIST: OnceLock<Vec<WithoutEffect>> = OnceLock::new();
    LIST.get_or_init(|| include_str!("../data/without-effect.txt").lines().filter_map(entry).collect())
}

/// Reads a line; `None` for comments. A test reads each line of the file.
fn entry(line: &'static str) -> Option<WithoutEffect> {
    let mut columns = line.split(" | ");
    let (kinds, path, class, reason) = (columns.next()?, columns.next()?, columns.next()?, columns.next()?);
    let class = match class {
        "unread" => Class::Unread,
        "copied" => Class::Copied,
        "implied" => Class::Implied,
        "internal" => Class::Internal,
        _ => return None,
    };
    Some(WithoutEffect { kinds: kinds.split(", ").collect(), path, class, reason })
}

/// Kinds on which no controller acts.
pub fn whole_kinds() -> impl Iterator<Item = &'static str> {
    let whole = list().iter().filter(|entry| entry.path == WHOLE_KIND && entry.class.is_warned_of());
    whole.flat_map(|entry| entry.kinds.iter().copied())
}

/// Reason why nothing acts on this kind, if nothing does.
pub fn of_kind(kind: &str) -> Option<&'static str> {
    let mut whole = list().iter().filter(|entry| entry.path == WHOLE_KIND && entry.kinds.contains(&kind));
    whole.next().map(|entry| entry.reason)
}

/// The fields of an object that are set and have no effect, a line each.
pub fn of_object(kind: &str, object: &Value) -> Vec<String> {
    warnings(kind, object)
}

/// Warnings about the fields of an object that have no effect.
pub(crate) fn warnings(kind: &str, object: &Value) -> Vec<String> {
    let of_kind = list().iter().filter(|entry| entry.path != WHOLE_KIND && entry.kinds.contains(&kind));
    let found = of_kind.filter(|entry| entry.class.is_warned_of() && is_set(object, entry.path));
    found.map(|entry| format!("{} has no effect: {}", entry.path, entry.reason)).collect()
}

/// Returns true if the path leads to a value that is not empty.
fn is_set(value: &Value, path: &str) -> bool {
    if let Value::Array(items) = value {
        return items.iter().any(|item| is_set(item, path));
    }
    if path.is_empty() {
        return match value {
            Value::Null | Value::Bool(false) => false,
            Value::String(text) => !text.is_empty(),
            Value::Object(members) => !members.is_empty(),
            _ => true,
        };
    }
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    value.get(name).is_some_and(|inner| is_set(inner, rest))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::PathBuf};

    use serde_json::json;

    use super::*;
    use crate::table::{Act, WEBHOOKS};

    #[test]
    fn every_line_of_the_list_is_read() {
        let lines = include_str!("../data/without-effect.txt").lines().filter(|line| !line.starts_with('#'));
        assert_eq!(lines.count(), list().len());
    }

    #[test]
    fn kinds_without_effect_are_those_of_the_webhooks_that_warn() {
        let kinds = list().iter().filter(|entry| entry.path == WHOLE_KIND).flat_map(|entry| &entry.kinds);
        let kinds: BTreeSet<String> = kinds.map(|kind| kind.to_lowercase().trim_end_matches('y').to_owned()).collect();
        let warning = WEBHOOKS.iter().filter(|webhook| webhook.not_built).map(|webhook| webhook.resource);
        let warning: BTreeSet<&str> = warning.collect();
        assert_eq!(kinds.len(), warning.len(), "{kinds:?} {warning:?}");
        for kind in kinds {
            assert!(warning.iter().any(|resource| resource.starts_with(&*kind)), "{kind} is not in {warning:?}");
        }
    }

    #[test]
    fn every_kind_with_a_warning_is_validated() {
        for entry in list().iter().filter(|entry| entry.class.is_warned_of()) {
            for kind in &entry.kinds {
                let plural = kind.to_lowercase();
                let plural = plural.trim_end_matches('y');
                let is_validated = WEBHOOKS
                    .iter()
                    .any(|webhook| matches!(webhook.act, Act::Validate { .. }) && webhook.resource.starts_with(plural));
                assert!(is_validated, "no webhook validates {kind}, so nobody is warned of {}", entry.path);
            }
        }
    }

    #[test]
    fn only_fields_that_are_set_are_warned_of() {
        let association =
            "spec.association has no effect: it is the deprecated forerunner of spec.propagateDeps: set that instead";
        for (name, kind, object, want) in [
            ("nothing set", "PropagationPolicy", json!({"spec": {}}), vec![]),
            ("set", "PropagationPolicy", json!({"spec": {"association": true}}), vec![association]),
            ("the default", "PropagationPolicy", json!({"spec": {"association": false}}), vec![]),
            ("another kind", "OverridePolicy", json!({"spec": {"association": true}}), vec![]),
            (
                "what another field says too",
                "Cluster",
                json!({"spec": {"resourceModels": [{"ranges": [{"max": "1"}]}]}}),
                vec![],
            ),
        ] {
            assert_eq!(warnings(kind, &object), want, "{name}");
        }
        let in_list = json!({"spec": {"components": [{"name": "a"}, {"needs": {"claim": {"a": 1}}}]}});
        assert!(is_set(&in_list, "spec.components.needs.claim"), "in one of a list");
        assert!(!is_set(&in_list, "spec.components.needs.other"));
    }

    /// `UPDATE_GOLDENS=1 cargo test -p ironclad-admission without_effect` writes it.
    #[test]
    fn page_of_fields_without_effect_is_current() {
        const BEGIN: &str = "<!-- generated: UPDATE_GOLDENS=1 cargo test -p ironclad-admission without_effect -->\n";
        const END: &str = "<!-- end of generated -->\n";
        let rows = list().iter().filter(|entry| entry.class != Class::Implied).map(|entry| {
            let path = if entry.path == WHOLE_KIND { "the whole kind".to_owned() } else { format!("`{}`", entry.path) };
            format!("| {} | {path} | {} |\n", entry.kinds.join(", "), entry.reason)
        });
        let want =
            format!("\n| kind | field | why it has no effect |\n| --- | --- | --- |\n{}\n", rows.collect::<String>());
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/admission.md");
        let page = fs::read_to_string(&path).unwrap();
        let (before, rest) = page.split_once(BEGIN).expect("the page has the mark of the begin of the generated part");
        let (written, after) = rest.split_once(END).expect("the page has the mark of its end");
        if std::env::var_os("UPDATE_GOLDENS").is_some() {
            fs::write(&path, format!("{before}{BEGIN}{want}{END}{after}")).unwrap();
            return;
        }
        assert_eq!(written, want, "UPDATE_GOLDENS=1 writes docs/reference/admission.md");
    }
}
