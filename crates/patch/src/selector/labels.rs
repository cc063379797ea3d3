//! `app in (a, b),!canary,tier!=cache`

use std::{collections::BTreeSet, fmt};

use serde_json::Value;

use super::{SelectorError, parser::Parser};
use crate::{error::FieldError, names};

/// How a requirement compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// The value is one of those; `=` and `==` too.
    In,
    /// The value is none of those, or there is none; `!=` too.
    NotIn,
    /// There is a value.
    Exists,
    /// There is none.
    DoesNotExist,
    /// The value is a larger integer.
    GreaterThan,
    /// The value is a smaller integer.
    LessThan,
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// The comparison.
    pub operator: Operator,
    /// What it is compared with.
    pub values: BTreeSet<String>,
}

/// Conditions that must all hold. Without any, everything matches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// The conditions, by key.
    pub requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Reads the text of a `labelSelector` parameter.
    ///
    /// # Errors
    /// The message of a kube-apiserver's 400.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut requirements = Parser::of(text).all().map_err(SelectorError)?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// Reads a `LabelSelector` object (`matchLabels`, `matchExpressions`). An absent one (`null`) matches nothing and is
    /// `None`.
    ///
    /// # Errors
    /// If an operator is unknown, or keys and values don't fit.
    pub fn from_object(object: &Value) -> Result<Option<Self>, SelectorError> {
        if object.is_null() {
            return Ok(None);
        }
        let mut requirements = Vec::new();
        for (key, value) in object["matchLabels"].as_object().into_iter().flatten() {
            let values = BTreeSet::from([value.as_str().unwrap_or_default().to_owned()]);
            requirements.push(requirement(key, Operator::In, values)?);
        }
        for expression in object["matchExpressions"].as_array().into_iter().flatten() {
            let operator = match expression["operator"].as_str().unwrap_or_default() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(SelectorError(format!("{other:?} is not a valid label selector operator"))),
            };
            let values = expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let key = expression["key"].as_str().unwrap_or_default();
            requirements.push(requirement(key, operator, values.map(str::to_owned).collect())?);
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Some(Self { requirements }))
    }

    /// Whether it matches everything because it asks for nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether labels fulfil it; `label` looks one up.
    pub fn matches<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(label(&requirement.key)))
    }

    /// Whether an object's `metadata.labels` fulfil it.
    #[must_use]
    pub fn matches_object(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.matches(|key| labels.get(key).and_then(Value::as_str))
    }
}

impl Requirement {
    /// Whether a label's value, or its absence, fulfils it.
    #[must_use]
    pub fn matches(&self, value: Option<&str>) -> bool {
        let compare = |holds: fn(i64, i64) -> bool| {
            let limit = self.values.first().and_then(|limit| limit.parse().ok());
            value.and_then(|value| value.parse().ok()).zip(limit).is_some_and(|(value, limit)| holds(value, limit))
        };
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => compare(|value, limit| value > limit),
            Operator::LessThan => compare(|value, limit| value < limit),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        let list = values.join(",");
        match self.operator {
            Operator::In if values.len() == 1 => write!(f, "{key}={list}"),
            Operator::In => write!(f, "{key} in ({list})"),
            Operator::NotIn if values.len() == 1 => write!(f, "{key}!={list}"),
            Operator::NotIn => write!(f, "{key} notin ({list})"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{list}"),
            Operator::LessThan => write!(f, "{key}<{list}"),
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            write!(f, "{}{requirement}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

pub(super) fn requirement(
    key: &str,
    operator: Operator,
    values: BTreeSet<String>,
) -> Result<Requirement, SelectorError> {
    let mut errors = Vec::new();
    let mistakes = names::label_key(key);
    if !mistakes.is_empty() {
        errors.push(FieldError::invalid("key", &Value::from(key), &mistakes.join("; ")));
    }
    let list = || Value::from(values.iter().cloned().collect::<Vec<_>>());
    match operator {
        Operator::In | Operator::NotIn if values.is_empty() => {
            let detail = "for 'in', 'notin' operators, values set can't be empty";
            errors.push(FieldError::invalid("values", &list(), detail));
        }
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            let detail = "values set must be empty for exists and does not exist";
            errors.push(FieldError::invalid("values", &list(), detail));
        }
        Operator::GreaterThan | Operator::LessThan => {
            for (i, value) in values.iter().enumerate().filter(|(_, value)| value.parse::<i64>().is_err()) {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(FieldError::invalid(format!("values[{i}]"), &Value::from(value.as_str()), detail));
            }
        }
        _ => {}
    }
    for (i, value) in values.iter().enumerate() {
        let mistakes = names::label_value(value);
        if !mistakes.is_empty() {
            let field = format!("values[{i}][{key}]");
            errors.push(FieldError::invalid(field, &Value::from(value.as_str()), &mistakes.join("; ")));
        }
    }
    match errors.as_slice() {
        [] => Ok(Requirement { key: key.to_owned(), operator, values }),
        [one] => Err(SelectorError(one.to_string())),
        several => {
            let texts: Vec<String> = several.iter().map(ToString::to_string).collect();
            Err(SelectorError(format!("[{}]", texts.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        let selector = LabelSelector::parse(selector).expect(selector);
        selector.matches(|key| labels.iter().find(|(k, _)| *k == key).map(|(_, v)| *v))
    }

    #[test]
    fn what_matches() {
        for (selector, labels, want) in [
            ("", &[][..], true),
            ("a", &[("a", "1")], true),
            ("a", &[], false),
            ("!a", &[], true),
            ("!a", &[("a", "")], false),
            ("a=1", &[("a", "1")], true),
            ("a==1", &[("a", "2")], false),
            ("a!=1", &[("a", "2")], true),
            ("a!=1", &[], true),
            ("a!=1", &[("a", "1")], false),
            ("a in (1,2)", &[("a", "2")], true),
            ("a in (1,2)", &[], false),
            ("a notin (1,2)", &[], true),
            ("a notin (1,2)", &[("a", "1")], false),
            ("a>3", &[("a", "4")], true),
            ("a>3", &[("a", "3")], false),
            ("a<3", &[("a", "x")], false),
            ("a<3", &[], false),
            ("a=", &[("a", "")], true),
            ("a in ()", &[("a", "")], true),
            ("a in (,1)", &[("a", "")], true),
            ("a in (1,)", &[("a", "")], true),
            ("in in (in)", &[("in", "in")], true),
            (" a = 1 , b ", &[("a", "1"), ("b", "2")], true),
            ("a=1,b=2", &[("a", "1")], false),
        ] {
            assert_eq!(matches(selector, labels), want, "{selector} on {labels:?}");
        }
    }

    #[test]
    fn mistakes() {
        for (text, want) in [
            ("i>=3", "unable to parse requirement: found '=', expected: identifier"),
            ("i in 1", "unable to parse requirement: found '1' expected: '('"),
            (",", "found ',', expected: !, identifier, or 'end of string'"),
            ("i=a b", "found 'b', expected: ',' or 'end of string'"),
            ("bad key", "unable to parse requirement: found 'key', expected: in, notin, =, ==, !=, gt, lt"),
            (
                "i>a",
                "unable to parse requirement: values[0]: Invalid value: \"a\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
            ("a,", "found '', expected: identifier after ','"),
            ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
        ] {
            assert_eq!(LabelSelector::parse(text), Err(SelectorError(want.to_owned())), "{text}");
        }
        let error = LabelSelector::parse("-a=1").expect_err("a bad key");
        assert!(
            error.0.starts_with("unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of")
        );
        let error = LabelSelector::parse("a=-").expect_err("a bad value");
        assert!(
            error
                .0
                .starts_with("unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid label must be")
        );
    }

    #[test]
    fn objects() {
        let object = json!({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["x", "y"]}, {"key": "c", "operator": "Exists"}]});
        let selector = LabelSelector::from_object(&object).expect("a selector").expect("not absent");
        assert_eq!(selector.to_string(), "a=1,b notin (x,y),c");
        assert!(selector.matches_object(&json!({"metadata": {"labels": {"a": "1", "c": ""}}})));
        assert!(!selector.matches_object(&json!({"metadata": {"labels": {"a": "1", "b": "x", "c": ""}}})));
        assert_eq!(LabelSelector::from_object(&Value::Null), Ok(None));
        assert_eq!(LabelSelector::from_object(&json!({})).map(|s| s.map(|s| s.is_empty())), Ok(Some(true)));
        let odd = json!({"matchExpressions": [{"key": "b", "operator": "Nope"}]});
        assert_eq!(
            LabelSelector::from_object(&odd),
            Err(SelectorError("\"Nope\" is not a valid label selector operator".to_owned()))
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-c!=<>(), in]{0,20}|.{0,20}") {
            if let Ok(selector) = LabelSelector::parse(&text) {
                let again = LabelSelector::parse(&selector.to_string()).expect("what it prints");
                prop_assert_eq!(again, selector);
            }
        }
    }
}
