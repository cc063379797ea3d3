//! `--sort-by`: objects in the order of one of their fields.

use std::cmp::Ordering;

use anyhow::bail;
use ironclad_api::quantity::Amount;
use ironclad_jsonpath::Path;
use serde_json::Value;

use super::format::RULES;

/// Sorts by the first value that the path selects. Objects without it come first; the sort is stable.
///
/// # Errors
/// If no object has the field, whose name is then probably wrong.
pub(super) fn sort<T>(
    items: &mut Vec<T>,
    path: &Path,
    text: &str,
    object: impl Fn(&T) -> &Value,
) -> anyhow::Result<()> {
    let mut keyed: Vec<(Option<Value>, T)> = Vec::with_capacity(items.len());
    for item in items.drain(..) {
        let found =
            path.select(object(&item), RULES).ok().and_then(|found| found.first().map(|value| (*value).clone()));
        keyed.push((found, item));
    }
    let lost = !keyed.is_empty() && keyed.iter().all(|(key, _)| key.is_none());
    keyed.sort_by(|(a, _), (b, _)| compare(a.as_ref(), b.as_ref()));
    items.extend(keyed.into_iter().map(|(_, item)| item));
    if lost {
        bail!("couldn't find any field with path {text:?} in the list of objects");
    }
    Ok(())
}

fn compare(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    let (Some(a), Some(b)) = (a, b) else { return a.is_some().cmp(&b.is_some()) };
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a.as_f64().unwrap_or(0.0).partial_cmp(&b.as_f64().unwrap_or(0.0)).unwrap_or(Ordering::Equal)
        }
        (Value::String(a), Value::String(b)) => match (amount(a), amount(b)) {
            (Some(a), Some(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            _ => naturally(a, b),
        },
        (a, b) => naturally(&a.to_string(), &b.to_string()),
    }
}

/// Natural order: text by characters, runs of digits by their number, so that `web-9` comes before `web-10`.
fn naturally(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let (x, y) = match (run(left), run(right)) {
            ("", "") => return Ordering::Equal,
            pair => pair,
        };
        let digits = |run: &str| run.starts_with(|c: char| c.is_ascii_digit());
        let order = if digits(x) && digits(y) {
            let (m, n) = (x.trim_start_matches('0'), y.trim_start_matches('0'));
            m.len().cmp(&n.len()).then_with(|| m.cmp(n)).then_with(|| x.len().cmp(&y.len()))
        } else {
            x.cmp(y)
        };
        if order.is_ne() {
            return order;
        }
        (left, right) = (&left[x.len()..], &right[y.len()..]);
    }
}

/// Splits off the longest prefix of digits only, or of other characters only.
fn run(text: &str) -> &str {
    let Some(first) = text.chars().next() else { return "" };
    let end = text.find(|c: char| c.is_ascii_digit() != first.is_ascii_digit()).unwrap_or(text.len());
    &text[..end]
}

fn amount(text: &str) -> Option<Amount> {
    Amount::parse(text).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sorted(path: &str, objects: &[Value]) -> Result<Vec<String>, String> {
        let mut items = objects.to_vec();
        let read = Path::relaxed(path).map_err(|error| error.to_string())?;
        sort(&mut items, &read, path, |item| item).map_err(|error| error.to_string())?;
        Ok(items.iter().map(|item| item["n"].as_str().unwrap_or_default().to_owned()).collect())
    }

    #[test]
    fn objects_are_sorted_by_type_of_value() {
        let each = |field: &str, values: &[(&str, Value)]| -> Vec<Value> {
            values.iter().map(|(name, value)| json!({"n": name, field: value})).collect()
        };
        for (name, objects, want) in [
            (
                "numbers are sorted by value",
                each("v", &[("a", json!(10)), ("b", json!(9)), ("c", json!(-1))]),
                ["c", "b", "a"],
            ),
            (
                "names with numbers",
                each("v", &[("a", json!("web-10")), ("b", json!("web-9")), ("c", json!("db"))]),
                ["c", "b", "a"],
            ),
            (
                "leading zeros",
                each("v", &[("a", json!("x010")), ("b", json!("x9")), ("c", json!("x10"))]),
                ["b", "c", "a"],
            ),
            (
                "quantities",
                each("v", &[("a", json!("1Gi")), ("b", json!("900Mi")), ("c", json!("2G"))]),
                ["b", "a", "c"],
            ),
            (
                "times",
                each(
                    "v",
                    &[
                        ("a", json!("2026-01-02T00:00:00Z")),
                        ("b", json!("2026-01-01T23:59:59Z")),
                        ("c", json!("2025-12-31T00:00:00Z")),
                    ],
                ),
                ["c", "b", "a"],
            ),
            (
                "equal values keep their order",
                each("v", &[("b", json!("x")), ("a", json!("x")), ("c", json!("x"))]),
                ["b", "a", "c"],
            ),
            (
                "false before true",
                each("v", &[("a", json!(true)), ("b", json!(false)), ("c", json!(true))]),
                ["b", "a", "c"],
            ),
            (
                "objects without the field are first",
                vec![json!({"n": "a", "v": 2}), json!({"n": "b"}), json!({"n": "c", "v": 1})],
                ["b", "c", "a"],
            ),
        ] {
            for path in [".v", "v", "{.v}"] {
                assert_eq!(sorted(path, &objects).unwrap(), want, "{name}");
            }
        }
        let objects = each("v", &[("a", json!(1))]);
        let error = "couldn't find any field with path \".w\" in the list of objects";
        assert_eq!(sorted(".w", &objects), Err(error.to_owned()));
        assert_eq!(sorted(".w", &[]), Ok(Vec::new()), "an empty list is no error");
    }
}
