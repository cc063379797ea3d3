//! Filter, order and page of the rows of a view.

use std::cmp::Ordering;

use serde_json::Value;

/// Rows of a page.
const PAGE: usize = 200;
/// Length of a filter, in bytes; what is behind it is left out.
const FILTER_MAX: usize = 500;

/// Rows that are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Terms that all match: `field=value`, `field!=value`, or a part of any text of the row.
    terms: Vec<Term>,
    /// Path of the field by which they are ordered; in the order of the view without one.
    sort: Option<String>,
    descending: bool,
    offset: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Term {
    Is(String, String),
    IsNot(String, String),
    Has(String),
}

impl Wanted {
    /// As names and values of a query say it: `filter`, `sort` (with `-` before it: the largest first) and `offset`.
    pub(crate) fn of(pairs: &[(String, String)]) -> Self {
        let value = |key: &str| pairs.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value.as_str());
        let filter: String = value("filter").chars().take(FILTER_MAX).collect::<String>().to_lowercase();
        let terms = filter.split([',', ' ']).filter(|term| !term.is_empty()).map(Term::of).collect();
        let sort = value("sort");
        let field = sort.trim_start_matches('-');
        Self {
            terms,
            sort: (!field.is_empty()).then(|| field.to_owned()),
            descending: sort.starts_with('-'),
            offset: value("offset").parse().unwrap_or(0),
        }
    }

    /// Replaces the rows of a view by those of the page, with the numbers of all and of those that match.
    pub(crate) fn apply(&self, view: &mut Value) {
        let Some(rows) = view.get_mut("rows").map(Value::take) else { return };
        let Value::Array(mut rows) = rows else { return };
        let total = rows.len();
        rows.retain(|row| self.terms.iter().all(|term| term.matches(row)));
        if let Some(field) = &self.sort {
            rows.sort_by(|a, b| self.order(at(a, field), at(b, field)));
        }
        let matching = rows.len();
        // Beyond the last page, the last one: rows may have gone since the page before it was shown.
        let offset = self.offset.min(matching.saturating_sub(1)) / PAGE * PAGE;
        let page: Vec<Value> = rows.into_iter().skip(offset).take(PAGE).collect();
        view["rows"] = page.into();
        view["total"] = total.into();
        view["matching"] = matching.into();
        view["offset"] = offset.into();
        view["page"] = PAGE.into();
    }

    /// Rows without a value are last in either direction.
    fn order(&self, a: Option<&Value>, b: Option<&Value>) -> Ordering {
        let (a, b) = (a.filter(|value| !value.is_null()), b.filter(|value| !value.is_null()));
        match (a, b) {
            (Some(a), Some(b)) if self.descending => compared(b, a),
            (Some(a), Some(b)) => compared(a, b),
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }
}

impl Term {
    fn of(term: &str) -> Self {
        match (term.split_once("!="), term.split_once('=')) {
            (Some((field, value)), _) if !field.is_empty() => Self::IsNot(field.to_owned(), value.to_owned()),
            (None, Some((field, value))) if !field.is_empty() => {
                Self::Is(field.to_owned(), value.trim_start_matches('=').to_owned())
            }
            _ => Self::Has(term.to_owned()),
        }
    }

    fn matches(&self, row: &Value) -> bool {
        match self {
            Self::Is(field, value) => is_value(row, field, value),
            Self::IsNot(field, value) => !is_value(row, field, value),
            Self::Has(text) => has(row, text),
        }
    }
}

/// The value at a path of fields, `a.b`. Case does not count, as filters are written by hand.
fn at<'a>(row: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(row, |value, name| {
        let fields = value.as_object()?;
        fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    })
}

/// True if the field has this value, or one of its values is it.
fn is_value(row: &Value, field: &str, wanted: &str) -> bool {
    let is = |value: &Value| match value {
        Value::String(text) => text.to_lowercase() == wanted,
        Value::Null => wanted.is_empty(),
        Value::Array(_) | Value::Object(_) => false,
        other => other.to_string().as_str() == wanted,
    };
    match at(row, field) {
        None => wanted.is_empty(),
        Some(Value::Array(all)) => all.iter().any(|one| is(one) || one.get("name").is_some_and(is)),
        Some(one) => is(one),
    }
}

fn has(value: &Value, text: &str) -> bool {
    match value {
        Value::String(one) => one.to_lowercase().contains(text),
        Value::Array(all) => all.iter().any(|one| has(one, text)),
        Value::Object(fields) => fields.values().any(|one| has(one, text)),
        Value::Number(number) => number.to_string() == text,
        Value::Null | Value::Bool(_) => false,
    }
}

/// Numbers by size, texts by their letters, lists by their length; of different types the number first.
fn compared(a: &Value, b: &Value) -> Ordering {
    let number = |value: &Value| match value {
        Value::Array(all) => Some(all.len() as f64),
        Value::Bool(is) => Some(f64::from(u8::from(*is))),
        other => other.as_f64(),
    };
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (None, None) => {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_lowercase();
            text(a).cmp(&text(b))
        }
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wanted(filter: &str, sort: &str, offset: &str) -> Wanted {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Wanted::of(&[pair("filter", filter), pair("sort", sort), pair("offset", offset)])
    }

    fn names(wanted: &Wanted, view: &Value) -> String {
        let mut view = view.clone();
        wanted.apply(&mut view);
        let rows = view["rows"].as_array().unwrap();
        rows.iter().map(|row| row["name"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn rows_are_filtered_and_sorted() {
        let view = json!({"rows": [
            {"name": "m10", "region": "EU", "nodes": 3, "zones": ["a", "b"], "ready": {"status": "True"}},
            {"name": "m2", "region": "us", "nodes": 20, "ready": {"status": "False"}, "message": "dial tcp: refused"},
            {"name": "m1", "zones": ["b"], "targets": [{"name": "x1", "replicas": 2}], "ready": {"status": "Unknown"}},
        ]});
        for (filter, sort, want) in [
            ("", "", "m10 m2 m1"),
            ("m1", "", "m10 m1"),
            ("REFUSED", "", "m2"),
            ("region=eu", "", "m10"),
            ("region==eu", "", "m10"),
            ("region!=eu", "", "m2 m1"),
            ("region=", "", "m1"),
            ("zones=b", "", "m10 m1"),
            ("targets=x1", "", "m1"),
            ("ready.status=false", "", "m2"),
            ("READY.Status!=true,m", "", "m2 m1"),
            ("zones=b m10", "", "m10"),
            ("nodes=20", "", "m2"),
            ("=x", "", ""),
            ("nothing", "", ""),
            ("", "name", "m1 m10 m2"),
            ("", "-name", "m2 m10 m1"),
            ("", "nodes", "m10 m2 m1"),
            ("", "-nodes", "m2 m10 m1"),
            ("", "zones", "m1 m10 m2"),
            ("", "ready.status", "m2 m10 m1"),
            ("", "none", "m10 m2 m1"),
        ] {
            assert_eq!(names(&wanted(filter, sort, ""), &view), want, "{filter:?} by {sort:?}");
        }
    }

    #[test]
    fn pages_have_200_rows() {
        let rows: Vec<Value> = (0..450).map(|number| json!({ "name": format!("{number:03}") })).collect();
        let view = json!({ "rows": rows, "other": 1 });
        for (offset, first, length) in
            [("", "000", 200), ("200", "200", 200), ("250", "200", 200), ("400", "400", 50), ("9999", "400", 50)]
        {
            let mut page = view.clone();
            wanted("", "", offset).apply(&mut page);
            let rows = page["rows"].as_array().unwrap();
            assert_eq!((rows[0]["name"].as_str(), rows.len()), (Some(first), length), "{offset}");
            assert_eq!((&page["total"], &page["matching"], &page["other"]), (&json!(450), &json!(450), &json!(1)));
        }
        let mut none = json!({ "rows": [] });
        wanted("", "", "7").apply(&mut none);
        assert_eq!((&none["offset"], &none["total"]), (&json!(0), &json!(0)));
        let mut other = json!({ "links": [] });
        wanted("x", "", "").apply(&mut other);
        assert_eq!(other, json!({ "links": [] }), "a view without rows stays as it is");
    }
}
