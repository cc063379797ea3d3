//! Matching of typed `LabelSelector`s against labels.
//!
//! Borrows the selector as decisions read it from an object; [`ironclad_patch::selector`] has the meaning of the
//! operators.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

pub use ironclad_patch::selector::Operator;

/// A selector that cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The operator is none of the four.
    #[error("label selector: {operator:?} of key {key:?} is not one of In, NotIn, Exists, DoesNotExist")]
    Operator {
        /// The key of the requirement.
        key: String,
        /// Its operator.
        operator: String,
    },
    /// In or NotIn without values.
    #[error("label selector: {operator} of key {key:?} needs at least one value")]
    NoValues {
        /// The key of the requirement.
        key: String,
        /// Its operator.
        operator: String,
    },
    /// Exists or DoesNotExist with values.
    #[error("label selector: {operator} of key {key:?} must have no values")]
    Values {
        /// The key of the requirement.
        key: String,
        /// Its operator.
        operator: String,
    },
}

/// Returns `true` if the labels satisfy the selector. An empty selector matches everything; `NotIn` and `DoesNotExist`
/// also match where the key is missing.
///
/// # Errors
/// The selector cannot be evaluated, whatever the labels are.
pub fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> Result<bool, SelectorError> {
    let mut all = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    for requirement in selector.match_expressions.iter().flatten() {
        // Evaluate even if the result is known: an invalid selector must fail for every object.
        all &= requirement_matches(requirement, labels.get(&requirement.key).map(String::as_str))?;
    }
    Ok(all)
}

/// Returns `true` if the selector has no conditions, so that it matches everything.
pub fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

fn requirement_matches(requirement: &LabelSelectorRequirement, label: Option<&str>) -> Result<bool, SelectorError> {
    let values = requirement.values.as_deref().unwrap_or_default();
    let (key, name) = (|| requirement.key.clone(), || requirement.operator.clone());
    let operator = Operator::from_expression(&requirement.operator);
    match (operator, values.is_empty()) {
        (Some(Operator::In | Operator::NotIn), true) => Err(SelectorError::NoValues { key: key(), operator: name() }),
        (Some(Operator::Exists | Operator::DoesNotExist), false) => {
            Err(SelectorError::Values { key: key(), operator: name() })
        }
        (None | Some(Operator::GreaterThan | Operator::LessThan), _) => {
            Err(SelectorError::Operator { key: key(), operator: name() })
        }
        (Some(operator), _) => Ok(operator.matches(label, values)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> BTreeMap<String, String> {
        BTreeMap::from([("app".to_owned(), "web".to_owned()), ("tier".to_owned(), String::new())])
    }

    fn by_labels(pairs: &[(&str, &str)]) -> LabelSelector {
        LabelSelector {
            match_labels: Some(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()),
            match_expressions: None,
        }
    }

    fn by_expression(key: &str, operator: &str, values: &[&str]) -> LabelSelector {
        LabelSelector {
            match_labels: None,
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: key.to_owned(),
                operator: operator.to_owned(),
                values: Some(values.iter().map(|v| (*v).to_owned()).collect()),
            }]),
        }
    }

    #[test]
    fn selectors_match_labels() {
        for (name, selector, want) in [
            ("an empty selector matches everything", LabelSelector::default(), true),
            ("labels must be equal", by_labels(&[("app", "web")]), true),
            ("all labels must be equal", by_labels(&[("app", "web"), ("tier", "front")]), false),
            ("an empty value is a value", by_labels(&[("tier", "")]), true),
            ("an absent label does not match", by_labels(&[("zone", "")]), false),
            ("In: listed", by_expression("app", "In", &["api", "web"]), true),
            ("In: not listed", by_expression("app", "In", &["api"]), false),
            ("In: absent", by_expression("zone", "In", &["a"]), false),
            ("NotIn: listed", by_expression("app", "NotIn", &["web"]), false),
            ("NotIn: absent matches", by_expression("zone", "NotIn", &["a"]), true),
            ("Exists", by_expression("tier", "Exists", &[]), true),
            ("Exists: absent", by_expression("zone", "Exists", &[]), false),
            ("DoesNotExist", by_expression("zone", "DoesNotExist", &[]), true),
            ("DoesNotExist: there", by_expression("app", "DoesNotExist", &[]), false),
        ] {
            assert_eq!(matches(&selector, &labels()), Ok(want), "{name}");
        }
    }

    #[test]
    fn invalid_selectors_are_rejected() {
        for (selector, want) in [
            (
                by_expression("app", "Gt", &["1"]),
                "label selector: \"Gt\" of key \"app\" is not one of In, NotIn, Exists, DoesNotExist",
            ),
            (by_expression("app", "In", &[]), "label selector: In of key \"app\" needs at least one value"),
            (by_expression("app", "Exists", &["x"]), "label selector: Exists of key \"app\" must have no values"),
        ] {
            assert_eq!(matches(&selector, &BTreeMap::new()).unwrap_err().to_string(), want);
        }
    }
}
