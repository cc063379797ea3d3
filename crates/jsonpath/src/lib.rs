//! JSONPath templates of Kubernetes, such as `{.a.b[0]}`: text with actions in braces. RFC 9535 is another language.
//!
//! Supported are names, quoted names, indexes, slices, lists of them, wildcards, `..`, filters with one comparison,
//! quoted text, numbers, and `{range …}…{end}`. As in Kubernetes, `$` equals `@`: the current value.
//! Beyond Kubernetes, a filter may iterate over the values of an object, and compares the first of several values.

#![warn(missing_docs)]

mod read;
mod select;
#[cfg(test)]
mod tests;

use serde_json::Value;

use self::select::Walk;

/// Bytes of a template that are read.
const TEMPLATE_MAX: usize = 64 * 1024;

/// A template: text with paths in braces.
#[derive(Debug, Clone, PartialEq)]
pub struct Template(Vec<Part>);

/// One path.
#[derive(Debug, Clone, PartialEq)]
pub struct Path(Vec<Step>);

/// Treatment of a missing field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// An error.
    Refused,
    /// An empty result, as in kubectl.
    Nothing,
}

/// Rules of evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Treatment of missing fields.
    pub missing: Missing,
    /// Values that a path may select on its way: `..` and wildcards multiply.
    pub found_max: usize,
}

/// Reason why a template is invalid or yields no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// There are no braces: the template would be plain text.
    #[error("a path is written in braces, as {{.field}}")]
    NoBraces,
    /// A brace is not closed.
    #[error("unclosed action")]
    Unclosed,
    /// `{end}` without `{range}`.
    #[error("not in range, nothing to end")]
    NoRange,
    /// Something in braces can't be read.
    #[error("{0:?} can't be read")]
    Syntax(String),
    /// The template exceeds its maximum length.
    #[error("the template is longer than {0} bytes")]
    TooLong(usize),
    /// Ranges or filters are nested too deeply.
    #[error("ranges and filters are nested too deeply")]
    TooDeep,
    /// The path leads nowhere.
    #[error("{0} is not found")]
    NotFound(String),
    /// The path selects more values than its bound.
    #[error("the path selects more than {0} values")]
    TooMany(usize),
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    Path(Vec<Step>),
    Range(Vec<Step>, Vec<Part>),
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Name(String),
    /// The value and all that is in it.
    Deep,
    All,
    Pick(Vec<Pick>),
    Filter {
        left: Operand,
        compare: Option<(Compare, Operand)>,
    },
}

#[derive(Debug, Clone, PartialEq)]
enum Pick {
    Path(Vec<Step>),
    Index(i64),
    Slice { from: Option<i64>, to: Option<i64>, step: usize },
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Path(Vec<Step>),
    Is(Value),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Compare {
    Equal,
    Differs,
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// An action in braces is invalid.
    pub fn parse(template: &str) -> Result<Self, PathError> {
        if template.len() > TEMPLATE_MAX {
            return Err(PathError::TooLong(TEMPLATE_MAX));
        }
        read::template(template).map(Self)
    }

    /// Returns `true` if the template is plain text.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.0.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// Returns `true` if the template contains a range.
    #[must_use]
    pub fn has_ranges(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Range(..)))
    }

    /// The text of the template with what its paths select; several values of one path are parted by blanks.
    ///
    /// # Errors
    /// If a path leads nowhere and that is refused, if an index is out of bounds, or if too much is selected.
    pub fn render(&self, value: &Value, rules: Rules) -> Result<String, PathError> {
        let mut text = String::new();
        render(&self.0, value, Walk(rules), &mut text)?;
        Ok(text)
    }

    /// Returns the selected values, without the text of the template.
    ///
    /// # Errors
    /// As [`Self::render`].
    pub fn values(&self, value: &Value, rules: Rules) -> Result<Vec<Value>, PathError> {
        let mut found = Vec::new();
        values(&self.0, value, Walk(rules), &mut found)?;
        Ok(found)
    }
}

impl Path {
    /// Parses a path in any of the forms that flags accept: `.a.b`, `a.b` or `{.a.b}`.
    ///
    /// # Errors
    /// The path is invalid.
    pub fn relaxed(text: &str) -> Result<Self, PathError> {
        let syntax = || PathError::Syntax(text.to_owned());
        let bare = match text.strip_prefix('{') {
            Some(inner) => inner.strip_suffix('}').ok_or(PathError::Unclosed)?,
            None => text,
        };
        if bare.len() > TEMPLATE_MAX {
            return Err(PathError::TooLong(TEMPLATE_MAX));
        }
        if bare.is_empty() || bare.contains(['{', '}']) {
            return Err(syntax());
        }
        let dotted = if bare.starts_with(['.', '[', '$', '@']) { bare.to_owned() } else { format!(".{bare}") };
        match read::template(&format!("{{{dotted}}}"))?.as_slice() {
            [Part::Path(steps)] => Ok(Self(steps.clone())),
            _ => Err(syntax()),
        }
    }

    /// Returns the selected values.
    ///
    /// # Errors
    /// As [`Template::render`].
    pub fn select<'a>(&self, value: &'a Value, rules: Rules) -> Result<Vec<&'a Value>, PathError> {
        Walk(rules).select(value, &self.0)
    }
}

fn render(parts: &[Part], value: &Value, walk: Walk, text: &mut String) -> Result<(), PathError> {
    for part in parts {
        match part {
            Part::Text(plain) => text.push_str(plain),
            Part::Path(steps) => {
                let found: Vec<String> = walk.select(value, steps)?.into_iter().map(printed).collect();
                text.push_str(&found.join(" "));
            }
            Part::Range(steps, body) => {
                for value in walk.select(value, steps)? {
                    render(body, value, walk, text)?;
                }
            }
        }
    }
    Ok(())
}

fn values(parts: &[Part], value: &Value, walk: Walk, found: &mut Vec<Value>) -> Result<(), PathError> {
    for part in parts {
        match part {
            Part::Text(_) => {}
            Part::Path(steps) => found.extend(walk.select(value, steps)?.into_iter().cloned()),
            Part::Range(steps, body) => {
                for value in walk.select(value, steps)? {
                    values(body, value, walk, found)?;
                }
            }
        }
    }
    Ok(())
}

fn printed(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
