//! Host functions for scripts: patterns, time, and the module `kube` (specification/propagation.md 20.4).

use std::sync::Arc;

use ironclad_api::quantity::{Amount, Format};
use ironclad_interpreter::pod;
use mlua::{Error, Lua, LuaString, MultiValue, Result, Table, Value, Variadic};

use crate::{
    budget::Budget,
    calendar,
    convert::{self, Empties},
    pattern::{self, Capture, Found, PatternError},
};

/// Longest text that the string library accepts, in bytes.
pub const TEXT_BYTES_MAX: usize = 1_000_000;
/// Longest pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 4_096;

/// The table of host functions from which the prelude builds environments.
pub(crate) fn host(lua: &Lua, budget: &Arc<Budget>) -> Result<Table> {
    let host = lua.create_table()?;
    host.raw_set("text_max", TEXT_BYTES_MAX)?;
    let b = budget.clone();
    host.raw_set(
        "check",
        lua.create_function(move |_, ()| b.check().map_err(|exhausted| fail(b.message(exhausted))))?,
    )?;
    host.raw_set("text", lua.create_function(|_, problem: Value| Ok(text_of(&problem)))?)?;
    let b = budget.clone();
    host.raw_set(
        "print",
        lua.create_function(move |_, values: Variadic<Value>| {
            let words: Vec<String> = values.iter().map(printed).collect();
            b.print(words.join("\t"));
            Ok(())
        })?,
    )?;
    patterns(lua, &host, budget)?;
    times(lua, &host, budget)?;
    host.raw_set("kube", kube(lua)?)?;
    Ok(host)
}

pub(crate) fn fail(message: impl Into<String>) -> Error {
    Error::RuntimeError(message.into())
}

fn text_of(problem: &Value) -> String {
    match problem {
        Value::Error(error) => first_line(&root(error).to_string()),
        other => printed(other),
    }
}

/// The innermost error, without the wrappers of callbacks.
pub(crate) fn root(error: &Error) -> &Error {
    match error {
        Error::CallbackError { cause, .. } => root(cause),
        other => other,
    }
}

/// A message without the traceback that mlua adds.
pub(crate) fn first_line(message: &str) -> String {
    let message = message.split("\nstack traceback:").next().unwrap_or_default();
    let message = message.strip_prefix("runtime error: ").unwrap_or(message);
    message.strip_prefix("memory error: ").unwrap_or(message).trim().to_owned()
}

fn printed(value: &Value) -> String {
    match value {
        Value::Nil => "nil".to_owned(),
        Value::Boolean(b) => b.to_string(),
        Value::Integer(n) => n.to_string(),
        Value::Number(n) => n.to_string(),
        Value::String(text) => text.to_string_lossy(),
        other => other.type_name().to_owned(),
    }
}

fn patterns(lua: &Lua, host: &Table, budget: &Arc<Budget>) -> Result<()> {
    let b = budget.clone();
    host.raw_set(
        "find",
        lua.create_function(
            move |lua, (text, pattern, from, plain): (LuaString, LuaString, Option<i64>, Option<Value>)| {
                let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
                let from = start(from, text.len());
                let plain = plain.is_some_and(|p| !matches!(p, Value::Nil | Value::Boolean(false)));
                if plain {
                    bounded(&text, &pattern)?;
                    let at = (from..=text.len()).find(|at| text[*at..].starts_with(&pattern));
                    b.step(at.unwrap_or(text.len()).saturating_sub(from) as u64)
                        .map_err(|exhausted| fail(b.message(exhausted)))?;
                    return match at {
                        Some(at) => {
                            values(lua, [Value::Integer(whole(at + 1)), Value::Integer(whole(at + pattern.len()))])
                        }
                        None => values(lua, [Value::Nil]),
                    };
                }
                match search(&b, &text, &pattern, from, true)? {
                    None => values(lua, [Value::Nil]),
                    Some(found) => {
                        let mut all = vec![Value::Integer(whole(found.start + 1)), Value::Integer(whole(found.end))];
                        all.extend(captures(lua, &text, &found, false)?);
                        values(lua, all)
                    }
                }
            },
        )?,
    )?;
    let b = budget.clone();
    host.raw_set(
        "match",
        lua.create_function(move |lua, (text, pattern, from): (LuaString, LuaString, Option<i64>)| {
            let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
            match search(&b, &text, &pattern, start(from, text.len()), true)? {
                None => values(lua, [Value::Nil]),
                Some(found) => values(lua, captures(lua, &text, &found, true)?),
            }
        })?,
    )?;
    let b = budget.clone();
    host.raw_set(
        "gmatch",
        lua.create_function(move |lua, (text, pattern): (LuaString, LuaString)| {
            let (b, mut next) = (b.clone(), 0);
            lua.create_function_mut(move |lua, _: MultiValue| {
                let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
                if next > text.len() {
                    return values(lua, [Value::Nil]);
                }
                match search(&b, &text, &pattern, next, false)? {
                    None => {
                        next = text.len() + 1;
                        values(lua, [Value::Nil])
                    }
                    Some(found) => {
                        next = if found.end == found.start { found.end + 1 } else { found.end };
                        values(lua, captures(lua, &text, &found, true)?)
                    }
                }
            })
        })?,
    )
}

fn bounded(text: &[u8], pattern: &[u8]) -> Result<()> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(fail(format!("a text given to the string library has more than {TEXT_BYTES_MAX} bytes")));
    }
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(fail(format!("a pattern has more than {PATTERN_BYTES_MAX} bytes")));
    }
    Ok(())
}

fn search(budget: &Budget, text: &[u8], pattern: &[u8], from: usize, anchor: bool) -> Result<Option<Found>> {
    bounded(text, pattern)?;
    let before = budget.left();
    let mut left = before;
    let found = pattern::find(text, pattern, from, anchor, &mut left);
    let used = if found == Err(PatternError::Exhausted) { before + 1 } else { before - left };
    budget.step(used).map_err(|exhausted| fail(budget.message(exhausted)))?;
    found.map_err(|error| match error {
        PatternError::Malformed(what) => fail(what),
        PatternError::Exhausted => fail("the pattern takes too many steps"),
    })
}

/// Byte index of a Lua position: from 1, negative from the end.
fn start(from: Option<i64>, length: usize) -> usize {
    let from = from.unwrap_or(1);
    let from = if from < 0 { whole(length) + from } else { from - 1 };
    usize::try_from(from.max(0)).unwrap_or(0).min(length)
}

fn whole(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn values(_: &Lua, values: impl IntoIterator<Item = Value>) -> Result<MultiValue> {
    Ok(values.into_iter().collect())
}

fn captures(lua: &Lua, text: &[u8], found: &Found, whole_if_none: bool) -> Result<Vec<Value>> {
    if found.captures.is_empty() && whole_if_none {
        return Ok(vec![Value::String(lua.create_string(&text[found.start..found.end])?)]);
    }
    found
        .captures
        .iter()
        .map(|capture| match capture {
            Capture::Text(from, to) => Ok(Value::String(lua.create_string(&text[*from..*to])?)),
            Capture::Position(at) => Ok(Value::Integer(whole(*at))),
        })
        .collect()
}

fn times(lua: &Lua, host: &Table, budget: &Arc<Budget>) -> Result<()> {
    let b = budget.clone();
    host.raw_set(
        "time",
        lua.create_function(move |_, parts: Option<Table>| {
            let Some(parts) = parts else { return Ok(b.wall_seconds()) };
            let part = |name: &str, absent: Option<i64>| -> Result<i64> {
                parts
                    .raw_get::<Option<i64>>(name)?
                    .or(absent)
                    .ok_or_else(|| fail(format!("field '{name}' missing in date table")))
            };
            let date = (part("year", None)?, part("month", None)?, part("day", None)?);
            let time = (part("hour", Some(12))?, part("min", Some(0))?, part("sec", Some(0))?);
            Ok(calendar::seconds(date, time))
        })?,
    )?;
    let b = budget.clone();
    host.raw_set(
        "date",
        lua.create_function(move |lua, (format, at): (Option<LuaString>, Option<f64>)| {
            let format = format.map_or_else(|| "%c".to_owned(), |f| f.to_string_lossy());
            // The control plane has no local time zone: local time is UTC, with or without the leading `!`.
            let format = format.strip_prefix('!').unwrap_or(&format);
            #[expect(clippy::cast_possible_truncation, reason = "a time of a script, cut to what there is")]
            let moment = calendar::UtcTime::of(at.map_or_else(|| b.wall_seconds(), |at| at as i64));
            if format.starts_with("*t") {
                let parts = lua.create_table()?;
                for (name, value) in moment.parts() {
                    parts.raw_set(name, value)?;
                }
                parts.raw_set("isdst", false)?;
                return Ok(Value::Table(parts));
            }
            if format.len() > PATTERN_BYTES_MAX {
                return Err(fail("the format of a date is too long"));
            }
            Ok(Value::String(lua.create_string(moment.print(format))?))
        })?,
    )
}

fn kube(lua: &Lua) -> Result<Table> {
    let kube = lua.create_table()?;
    kube.raw_set(
        "resourceAdd",
        lua.create_function(|_, quantities: MultiValue| {
            let mut sum: Option<Amount> = None;
            for (i, quantity) in quantities.iter().enumerate() {
                if matches!(quantity, Value::Nil) {
                    continue;
                }
                let amount = amount(quantity).map_err(|e| fail(format!("resourceAdd: argument {}: {e}", i + 1)))?;
                sum = Some(sum.map_or(amount, |sum| sum + amount));
            }
            Ok(sum.unwrap_or(Amount::new(0, Format::DecimalSi)).to_string())
        })?,
    )?;
    kube.raw_set(
        "getResourceQuantity",
        lua.create_function(|_, quantity: Value| {
            let amount = amount(&quantity).map_err(|e| fail(format!("getResourceQuantity: {e}")))?;
            if amount.is_negative() {
                return Err(fail(format!("getResourceQuantity: {amount} is negative")));
            }
            Ok(amount.to_f64())
        })?,
    )?;
    kube.raw_set(
        "accuratePodRequirements",
        lua.create_function(|lua, arguments: MultiValue| {
            let template = template(&arguments, 1, "accuratePodRequirements")?;
            let needs = pod::requirements(&template, "").map_err(|e| fail(format!("accuratePodRequirements: {e}")))?;
            needs.map_or(Ok(Value::Nil), |needs| convert::to_lua(lua, &needs))
        })?,
    )?;
    kube.raw_set(
        "getPodDependencies",
        lua.create_function(|lua, arguments: MultiValue| {
            let template = template(&arguments, 2, "getPodDependencies")?;
            let namespace = match arguments.get(1) {
                None | Some(Value::Nil) => "default".to_owned(),
                Some(Value::String(text)) => text.to_string_lossy(),
                Some(other) => {
                    return Err(fail(format!(
                        "getPodDependencies: the namespace is a {}, not a text",
                        other.type_name()
                    )));
                }
            };
            let found = pod::dependencies(&template, "/spec", &namespace)
                .map_err(|e| fail(format!("getPodDependencies: {e}")))?;
            let found = serde_json::to_value(found).map_err(|e| fail(e.to_string()))?;
            convert::to_lua(lua, &found)
        })?,
    )?;
    Ok(kube)
}

fn template(arguments: &MultiValue, most: usize, function: &str) -> Result<serde_json::Value> {
    match arguments.front() {
        Some(table @ Value::Table(_)) if arguments.len() <= most => {
            convert::to_json(table, &Empties::none()).map_err(|e| fail(format!("{function}: {e}")))
        }
        _ => Err(fail(format!("{function}: takes a pod template, which is a table"))),
    }
}

fn amount(quantity: &Value) -> std::result::Result<Amount, String> {
    let text = match quantity {
        Value::String(text) => text.to_string_lossy(),
        Value::Integer(n) => n.to_string(),
        Value::Number(n) if n.is_finite() => n.to_string(),
        other => return Err(format!("a {} is not a quantity", other.type_name())),
    };
    Amount::parse(&text).map_err(|error| error.to_string())
}
