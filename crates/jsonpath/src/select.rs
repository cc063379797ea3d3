//! Evaluation of a path.

use std::cmp::Ordering;

use serde_json::Value;

use super::{Compare, Missing, Operand, PathError, Pick, Rules, Step};

/// One walk over a value, by its rules.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walk(pub(super) Rules);

impl Walk {
    pub(super) fn select<'a>(self, value: &'a Value, steps: &[Step]) -> Result<Vec<&'a Value>, PathError> {
        let mut found = vec![value];
        let mut is_deep = false;
        for step in steps {
            let mut next = Vec::new();
            // As kubectl does, apply each element of a list to all values before the next element.
            let parts: &[Pick] = if let Step::Pick(picks) = step { picks } else { &[] };
            for value in &found {
                if parts.is_empty() {
                    self.tried(is_deep, |walk| walk.step(step, value, &mut next))?;
                }
            }
            for pick in parts {
                for value in &found {
                    self.tried(is_deep, |walk| walk.pick(pick, value, &mut next))?;
                }
            }
            self.check_count(&next)?;
            is_deep = matches!(step, Step::Deep);
            found = next;
        }
        if found.is_empty() && self.0.missing == Missing::Refused {
            return Err(PathError::NotFound(steps.last().map_or_else(String::new, Step::text)));
        }
        Ok(found)
    }

    /// Descends (`..`) skip values without the field.
    fn tried(self, is_deep: bool, step: impl FnOnce(Self) -> Result<(), PathError>) -> Result<(), PathError> {
        let missing = if is_deep { Missing::Nothing } else { self.0.missing };
        match step(Self(Rules { missing, ..self.0 })) {
            Err(PathError::NotFound(_)) if is_deep => Ok(()),
            other => other,
        }
    }

    fn check_count(self, found: &[&Value]) -> Result<(), PathError> {
        if found.len() > self.0.found_max { Err(PathError::TooMany(self.0.found_max)) } else { Ok(()) }
    }

    fn missing(self, what: impl FnOnce() -> String) -> Result<(), PathError> {
        match self.0.missing {
            Missing::Refused => Err(PathError::NotFound(what())),
            Missing::Nothing => Ok(()),
        }
    }

    fn step<'a>(self, step: &Step, value: &'a Value, into: &mut Vec<&'a Value>) -> Result<(), PathError> {
        match step {
            Step::Name(name) => match value.get(name).filter(|value| !value.is_null()) {
                Some(found) => into.push(found),
                None => self.missing(|| name.clone())?,
            },
            Step::Deep => self.deep(value, into)?,
            Step::All => {
                into.extend(children(value));
                self.check_count(into)?;
            }
            // Handled above.
            Step::Pick(_) => {}
            Step::Filter { left, compare } => {
                for element in children(value) {
                    if self.fits(element, left, compare.as_ref()) {
                        into.push(element);
                    }
                }
            }
        }
        Ok(())
    }

    /// Appends the value and all its descendants, parents first. Not recursive: the depth of objects is not bounded
    /// here.
    fn deep<'a>(self, value: &'a Value, into: &mut Vec<&'a Value>) -> Result<(), PathError> {
        let mut waiting = vec![value];
        while let Some(value) = waiting.pop() {
            into.push(value);
            self.check_count(into)?;
            let within = waiting.len();
            waiting.extend(children(value));
            waiting[within..].reverse();
        }
        Ok(())
    }

    fn pick<'a>(self, pick: &Pick, value: &'a Value, into: &mut Vec<&'a Value>) -> Result<(), PathError> {
        let not_found = |what: String| PathError::NotFound(what);
        match pick {
            Pick::Path(steps) => {
                let strict = Self(Rules { missing: Missing::Refused, ..self.0 });
                match strict.select(value, steps) {
                    Ok(found) => into.extend(found),
                    Err(PathError::NotFound(what)) => self.missing(|| what)?,
                    Err(other) => return Err(other),
                }
            }
            // An index out of bounds is an error under any rules.
            Pick::Index(index) => {
                let list = value.as_array().ok_or_else(|| not_found(format!("[{index}]")))?;
                let at = if *index < 0 { i64::try_from(list.len()).unwrap_or(i64::MAX) + index } else { *index };
                let found = usize::try_from(at).ok().and_then(|at| list.get(at));
                into.push(found.ok_or_else(|| not_found(format!("[{index}]")))?);
            }
            Pick::Slice { from, to, step } => {
                let list = value.as_array().ok_or_else(|| not_found("a list".to_owned()))?;
                let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
                let place = |at: i64| if at < 0 { (length + at).max(0) } else { at.min(length) };
                let (from, to) = (place(from.unwrap_or(0)), place(to.unwrap_or(length)));
                let (from, to) = (usize::try_from(from).unwrap_or(0), usize::try_from(to).unwrap_or(0));
                into.extend(list.get(from..to).unwrap_or_default().iter().step_by((*step).max(1)));
            }
        }
        Ok(())
    }

    fn fits(self, element: &Value, left: &Operand, compare: Option<&(Compare, Operand)>) -> bool {
        let Some(found) = self.first(element, left) else { return false };
        match compare {
            None => true,
            Some((compare, right)) => self.first(element, right).is_some_and(|wanted| compare.holds(found, wanted)),
        }
    }

    fn first<'a>(self, element: &'a Value, operand: &'a Operand) -> Option<&'a Value> {
        match operand {
            Operand::Is(value) => Some(value),
            Operand::Path(steps) => self.select(element, steps).ok()?.first().copied(),
        }
    }
}

/// The elements of a list, or the values of an object by their names.
fn children(value: &Value) -> Box<dyn DoubleEndedIterator<Item = &Value> + '_> {
    match value {
        Value::Array(list) => Box::new(list.iter()),
        Value::Object(map) => {
            let mut all: Vec<(&String, &Value)> = map.iter().collect();
            all.sort_unstable_by_key(|(name, _)| *name);
            Box::new(all.into_iter().map(|(_, value)| value))
        }
        _ => Box::new(std::iter::empty()),
    }
}

impl Step {
    fn text(&self) -> String {
        match self {
            Self::Name(name) => name.clone(),
            Self::Deep => "..".to_owned(),
            Self::All => "*".to_owned(),
            Self::Pick(_) => "what the brackets name".to_owned(),
            Self::Filter { .. } => "what the filter asks for".to_owned(),
        }
    }
}

impl Compare {
    fn holds(self, found: &Value, wanted: &Value) -> bool {
        let order = match (found, wanted) {
            (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (a, b) => (a == b).then_some(Ordering::Equal),
        };
        match self {
            Self::Equal => order.is_some_and(Ordering::is_eq),
            Self::Differs => !order.is_some_and(Ordering::is_eq),
            Self::Less => order.is_some_and(Ordering::is_lt),
            Self::AtMost => order.is_some_and(Ordering::is_le),
            Self::More => order.is_some_and(Ordering::is_gt),
            Self::AtLeast => order.is_some_and(Ordering::is_ge),
        }
    }
}
