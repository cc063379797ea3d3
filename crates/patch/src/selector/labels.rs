//! Label selectors: `app in (a, b),!canary,tier!=cache`, and `LabelSelector` objects.

use std::{collections::BTreeSet, fmt};

use serde_json::{Map, Value};

use super::{SelectorError, parser::Parser};
use crate::{error::FieldError, names};

/// Comparison of a label's value with the values of a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `=`, `==`, and each entry of `matchLabels`: the value is that one.
    Equals,
    /// `!=`: the value is another one, or the label is absent.
    NotEquals,
    /// The value is one of those.
    In,
    /// The value is none of those, or the label is absent.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The value is a larger integer.
    GreaterThan,
    /// The value is a smaller integer.
    LessThan,
}

impl Operator {
    /// Reads the operator of a `matchExpressions` entry of a label selector or of a node selector.
    ///
    /// `Gt` and `Lt` are valid in node selectors only.
    pub fn from_expression(text: &str) -> Option<Self> {
        match text {
            "In" => Some(Self::In),
            "NotIn" => Some(Self::NotIn),
            "Exists" => Some(Self::Exists),
            "DoesNotExist" => Some(Self::DoesNotExist),
            "Gt" => Some(Self::GreaterThan),
            "Lt" => Some(Self::LessThan),
            _ => None,
        }
    }

    /// Returns `true` if a label's value, or its absence, satisfies the operator with these values.
    pub fn matches<'v>(self, label: Option<&str>, values: impl IntoIterator<Item = &'v String>) -> bool {
        let mut values = values.into_iter();
        match self {
            Self::Equals | Self::In => label.is_some_and(|label| values.any(|value| value == label)),
            Self::NotEquals | Self::NotIn => label.is_none_or(|label| values.all(|value| value != label)),
            Self::Exists => label.is_some(),
            Self::DoesNotExist => label.is_none(),
            Self::GreaterThan | Self::LessThan => {
                let number = |text: &str| text.parse::<i64>().ok();
                let limit = values.next().and_then(|limit| number(limit));
                let ordering = label.and_then(number).zip(limit).map(|(value, limit)| value.cmp(&limit));
                ordering.is_some_and(|o| if self == Self::GreaterThan { o.is_gt() } else { o.is_lt() })
            }
        }
    }
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// Key of the label.
    pub key: String,
    /// Comparison of the label's value with `values`.
    pub operator: Operator,
    /// Values of the comparison: one or more for `In` and `NotIn`, none for `Exists` and `DoesNotExist`, else exactly
    /// one.
    pub values: BTreeSet<String>,
}

/// Conditions that must all hold. Without any, everything matches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// The conditions, sorted by key.
    pub requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Reads the text of a `labelSelector` parameter.
    ///
    /// # Errors
    /// The message of a kube-apiserver's 400 response.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        Ok(Self::sorted(Parser::of(text).all().map_err(SelectorError)?))
    }

    /// Reads a `LabelSelector` object (`matchLabels`, `matchExpressions`).
    ///
    /// Returns `None` for anything but an object: an absent selector matches nothing, while `{}` matches everything.
    ///
    /// # Errors
    /// An operator is unknown, a key or value is not that of a label, or the operator and the number of values
    /// do not fit.
    pub fn from_object(selector: &Value) -> Result<Option<Self>, SelectorError> {
        if !selector.is_object() {
            return Ok(None);
        }
        let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
        let labels = selector["matchLabels"].as_object().into_iter().flatten();
        let expressions = selector["matchExpressions"].as_array().into_iter().flatten().map(|expression| {
            let values = expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let values = values.map(str::to_owned).collect();
            (text(&expression["key"]), text(&expression["operator"]), values)
        });
        Self::from_parts(labels.map(|(key, value)| (key.clone(), text(value))), expressions).map(Some)
    }

    /// Creates a selector from the `matchLabels`, and from key, operator and values of the `matchExpressions`.
    ///
    /// # Errors
    /// As [`LabelSelector::from_object`].
    pub fn from_parts(
        labels: impl IntoIterator<Item = (String, String)>,
        expressions: impl IntoIterator<Item = (String, String, BTreeSet<String>)>,
    ) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        for (key, value) in labels {
            requirements.push(requirement(&key, Operator::Equals, BTreeSet::from([value]))?);
        }
        for (key, operator, values) in expressions {
            let known = match operator.as_str() {
                "In" | "NotIn" | "Exists" | "DoesNotExist" => Operator::from_expression(&operator),
                _ => None,
            };
            let Some(known) = known else {
                return Err(SelectorError(format!("{operator:?} is not a valid label selector operator")));
            };
            requirements.push(requirement(&key, known, values)?);
        }
        Ok(Self::sorted(requirements))
    }

    /// Reads a plain map of labels, the selector of ReplicationControllers and Services. Keys and values are not
    /// checked.
    pub fn from_labels(labels: &Map<String, Value>) -> Self {
        let equals = |(key, value): (&String, &Value)| Requirement {
            key: key.clone(),
            operator: Operator::Equals,
            values: BTreeSet::from([value.as_str().unwrap_or_default().to_owned()]),
        };
        Self::sorted(labels.iter().map(equals).collect())
    }

    fn sorted(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements }
    }

    /// Returns `true` if there are no conditions, so that everything matches.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns `true` if the labels satisfy all conditions; `label` looks up the value of a key.
    pub fn matches<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(label(&requirement.key)))
    }

    /// Returns `true` if the object's `metadata.labels` satisfy all conditions.
    pub fn matches_object(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.matches(|key| labels.get(key).and_then(Value::as_str))
    }
}

impl Requirement {
    /// Returns `true` if a label's value, or its absence, satisfies the condition.
    pub fn matches(&self, value: Option<&str>) -> bool {
        self.operator.matches(value, &self.values)
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        let list = values.join(",");
        match self.operator {
            Operator::Equals => write!(f, "{key}={list}"),
            Operator::NotEquals => write!(f, "{key}!={list}"),
            Operator::In => write!(f, "{key} in ({list})"),
            Operator::NotIn => write!(f, "{key} notin ({list})"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{list}"),
            Operator::LessThan => write!(f, "{key}<{list}"),
        }
    }
}

impl fmt::Display for LabelSelector {
    /// Writes the text that Kubernetes shows in columns and in `status.selector` of a `Scale`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            write!(f, "{}{requirement}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// Checks key, values and their number, and returns the requirement.
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
    fn matching() {
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
        let one = json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]});
        let one = LabelSelector::from_object(&one).expect("a selector").expect("not absent");
        assert_eq!(one.to_string(), "a in (1)", "Kubernetes prints In with one value as a list");
        let labels = json!({"b": "2", "a": "1"});
        assert_eq!(LabelSelector::from_labels(labels.as_object().expect("a map")).to_string(), "a=1,b=2");
        assert!(selector.matches_object(&json!({"metadata": {"labels": {"a": "1", "c": ""}}})));
        assert!(!selector.matches_object(&json!({"metadata": {"labels": {"a": "1", "b": "x", "c": ""}}})));
        assert_eq!(LabelSelector::from_object(&Value::Null), Ok(None));
        assert_eq!(LabelSelector::from_object(&json!({})).map(|s| s.map(|s| s.is_empty())), Ok(Some(true)));
        let odd = |operator: &str| json!({"matchExpressions": [{"key": "b", "operator": operator, "values": ["1"]}]});
        for operator in ["Nope", "Gt", "=", ""] {
            assert_eq!(
                LabelSelector::from_object(&odd(operator)),
                Err(SelectorError(format!("{operator:?} is not a valid label selector operator")))
            );
        }
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
