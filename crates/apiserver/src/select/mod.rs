//! Selectors of lists and watches: by labels and by fields (specification/apiserver.md 10).

mod derived;
mod field;

use serde_json::Value;

pub(crate) use derived::selected_states;
pub(crate) use field::FieldSelector;
pub(crate) use ironclad_patch::selector::LabelSelector;

use crate::{registry::Resource, request::Query, status::ApiError};

/// Both selectors of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Selector {
    /// Reads both from the query.
    pub(crate) fn of(resource: &Resource, query: &Query) -> Result<Self, ApiError> {
        Ok(Self {
            labels: LabelSelector::parse(query.get("labelSelector").unwrap_or_default())
                .map_err(|e| ApiError::bad_request(e.to_string()))?,
            fields: FieldSelector::parse(resource, query.get("fieldSelector").unwrap_or_default())?,
        })
    }

    /// True when nothing is selected away.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_everything()
    }

    /// True for an object that both select.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.labels.matches_object(object) && self.fields.matches(object)
    }
}

/// The selector of a workload as a text: `a=b,c in (d,e)`.
pub(crate) fn selector_text(workload: &Value) -> Option<String> {
    let selector = workload.pointer("/spec/selector")?.as_object()?;
    let plain = !selector.contains_key("matchLabels") && !selector.contains_key("matchExpressions");
    let labels = if plain { Some(selector) } else { selector.get("matchLabels").and_then(Value::as_object) };
    let mut parts: Vec<String> =
        labels.into_iter().flatten().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect();
    let expressions = selector.get("matchExpressions").and_then(Value::as_array).filter(|_| !plain);
    for expression in expressions.into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        parts.push(match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    parts.sort();
    Some(parts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses() {
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
        ] {
            assert_eq!(LabelSelector::parse(text).unwrap_err().to_string(), want, "{text}");
        }
    }
}
