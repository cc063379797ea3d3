//! The parts that answers of all metrics APIs have in common.

use std::time::Duration;

use ironclad_quantity::Amount;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Answer, ITEMS_MAX, Refused};

/// Characters of a foreign text that a message repeats.
const SHOWN: usize = 64;

/// An answer that is not of the kind that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its answer is not a {expected}: {why}")]
pub struct Malformed {
    /// The kind that was asked for.
    pub expected: &'static str,
    /// The difference.
    pub why: String,
}

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct List<T> {
    #[serde(default)]
    kind: String,
    items: Option<Vec<T>>,
}

/// Reads a list of this kind, and each of its items.
pub(super) fn list<R: DeserializeOwned, T>(
    body: &[u8],
    expected: &'static str,
    mut item: impl FnMut(R) -> Result<T, String>,
) -> Result<Answer<T>, Malformed> {
    let wrong = |why: String| Malformed { expected, why };
    let list: List<R> = serde_json::from_slice(body).map_err(|e| wrong(e.to_string()))?;
    if list.kind != expected {
        return Err(wrong(format!("its kind is {}", quoted(&list.kind))));
    }
    let mut answer = Answer { items: Vec::new(), refused: Refused::default() };
    for (index, raw) in list.items.unwrap_or_default().into_iter().enumerate() {
        if index >= ITEMS_MAX {
            answer.refused.add(|| format!("there are more than {ITEMS_MAX} items"));
            continue;
        }
        match item(raw) {
            Ok(item) => answer.items.push(item.into()),
            Err(why) => answer.refused.add(|| why),
        }
    }
    Ok(answer)
}

/// Reads a measured quantity. It is not negative, and its thousandths can be counted.
pub(super) fn amount(value: &Value) -> Result<Amount, String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        other => return Err(format!("{} is not a quantity", quoted(&other.to_string()))),
    };
    let amount = Amount::parse(&text).map_err(|_| format!("{} is not a quantity", quoted(&text)))?;
    if amount.is_negative() {
        return Err(format!("{} is negative", quoted(&text)));
    }
    if amount.milli_value() == i64::MAX {
        return Err(format!("{} is more than can be counted", quoted(&text)));
    }
    Ok(amount)
}

/// As [`amount`], for values that may be below zero, such as a difference.
pub(super) fn signed_amount(value: &Value) -> Result<Amount, String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        other => return Err(format!("{} is not a quantity", quoted(&other.to_string()))),
    };
    let amount = Amount::parse(&text).map_err(|_| format!("{} is not a quantity", quoted(&text)))?;
    if amount.milli_value() == i64::MAX || amount.milli_value() == i64::MIN {
        return Err(format!("{} is more than can be counted", quoted(&text)));
    }
    Ok(amount)
}

/// Reads the end of the measured interval.
pub(super) fn timestamp(value: &Value) -> Result<Timestamp, String> {
    let text = value.as_str().unwrap_or_default();
    text.parse().map_err(|_| format!("timestamp {} is not a time", quoted(text)))
}

/// Reads a window as Go prints durations: `15s`, `1m0.5s`.
pub(super) fn window(value: &Value) -> Result<Duration, String> {
    let text = value.as_str().unwrap_or_default();
    let parsed: Option<SignedDuration> = text.parse().ok();
    parsed.and_then(|d| Duration::try_from(d).ok()).ok_or_else(|| format!("window {} is not a duration", quoted(text)))
}

/// Reads a window in seconds; an absent one is unknown.
pub(super) fn window_seconds(value: Option<i64>) -> Result<Option<Duration>, String> {
    let Some(seconds) = value else { return Ok(None) };
    let seconds = u64::try_from(seconds).map_err(|_| format!("windowSeconds {seconds} is negative"))?;
    Ok(Some(Duration::from_secs(seconds)))
}

/// A foreign text for a message: its beginning, in quotes.
pub(super) fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}
