//! Validation of a Cluster's taints (specification/failover.md 1.7).

use std::collections::BTreeSet;

use ironclad_api::{
    Taint,
    taints::{NO_EXECUTE, NO_SCHEDULE, PREFER_NO_EXECUTE},
};
use ironclad_patch::{FieldError, names};
use serde_json::json;

use super::TaintId;

/// The effects that there are, in the order in which messages list them.
pub const EFFECTS: [&str; 3] = [NO_EXECUTE, NO_SCHEDULE, PREFER_NO_EXECUTE];

/// Errors of a Cluster's taints; `path` is their field, as `spec.taints`.
#[must_use]
pub fn validate(taints: &[Taint], path: &str) -> Vec<FieldError> {
    let (mut errors, mut seen) = (Vec::new(), BTreeSet::new());
    for (i, taint) in taints.iter().enumerate() {
        let at = format!("{path}[{i}]");
        errors.extend(validate_parts(&taint.key, taint.value.as_deref().unwrap_or_default(), &taint.effect, &at));
        if !seen.insert(TaintId::of(taint)) {
            let mut twice = FieldError::duplicate(at, &json!(fleet_text(taint)));
            twice.message.push_str(": taints must be unique by key and effect pair");
            errors.push(twice);
        }
    }
    errors
}

/// Errors of key, value and effect of the taint at this path.
pub(crate) fn validate_parts(key: &str, value: &str, effect: &str, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let invalid =
        |field: &str, text: &str, why: &String| FieldError::invalid(format!("{path}.{field}"), &json!(text), why);
    errors.extend(names::label_key(key).iter().map(|why| invalid("key", key, why)));
    errors.extend(names::label_value(value).iter().map(|why| invalid("value", value, why)));
    if effect.is_empty() {
        errors.push(FieldError::required(format!("{path}.effect"), ""));
    } else if !EFFECTS.contains(&effect) {
        errors.push(FieldError::not_supported(format!("{path}.effect"), &json!(effect), &EFFECTS));
    }
    errors
}

fn fleet_text(taint: &Taint) -> String {
    ironclad_fleet::taint::text(taint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::taint;

    #[test]
    fn invalid_taints_are_rejected() {
        let valued = |value: &str| Taint { value: Some(value.into()), ..taint("a.io/b", NO_EXECUTE, None) };
        let unsupported = r#"spec.taints[0].effect: Unsupported value: "PreferNoSchedule": supported values: "NoExecute", "NoSchedule", "PreferNoExecute""#;
        for (name, taints, want) in [
            ("all three effects", EFFECTS.map(|effect| taint("a.io/b", effect, None)).to_vec(), vec![]),
            ("no effect", vec![taint("a", "", None)], vec!["spec.taints[0].effect: Required value"]),
            ("PreferNoSchedule is reserved", vec![taint("a", "PreferNoSchedule", None)], vec![unsupported]),
            ("one key with two effects", vec![taint("a", NO_EXECUTE, None), taint("a", NO_SCHEDULE, None)], vec![]),
            (
                "duplicates are detected without the value",
                vec![taint("a.io/b", NO_EXECUTE, None), valued("v")],
                vec![
                    r#"spec.taints[1]: Duplicate value: "a.io/b=v:NoExecute": taints must be unique by key and effect pair"#,
                ],
            ),
        ] {
            let got: Vec<String> = validate(&taints, "spec.taints").iter().map(ToString::to_string).collect();
            assert_eq!(got, want, "{name}");
        }
        let key = validate(&[taint("a b", NO_EXECUTE, None)], "spec.taints");
        assert!(key[0].to_string().starts_with(r#"spec.taints[0].key: Invalid value: "a b": "#), "{key:?}");
        let value = validate(&[valued("a b")], "spec.taints");
        assert!(value[0].to_string().starts_with(r#"spec.taints[0].value: Invalid value: "a b": "#), "{value:?}");
        assert!(!validate(&[taint("", NO_EXECUTE, None)], "spec.taints").is_empty(), "the key is required");
    }
}
