//! The JSONPath templates of Kubernetes, as `{.a.b[0]}`: text with actions in braces. Not RFC 9535, which is another language.
//!
//! Read are names, quoted names, indexes, slices, lists of them, wildcards, `..`, filters with one comparison, quoted text, numbers,
//! and `{range …}…{end}`. As in Kubernetes `$` is what `@` is: whatever stands at this place. Other than there a filter may look
//! through the values of an object, and at the first of several values.

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

/// What is made of a name that an object has not, or that leads into nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// An error.
    Refused,
    /// Nothing, as kubectl has it.
    Nothing,
}

/// How a template is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// What is made of what is not there.
    pub missing: Missing,
    /// Values that a path may select on its way: `..` and wildcards multiply.
    pub found_max: usize,
}

/// Why a template can't be read, or gives nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// There are no braces: it would be taken as plain text.
    #[error("a path stands in braces, as {{.field}}")]
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
    /// It is longer than its bound.
    #[error("the template is longer than {0} bytes")]
    TooLong(usize),
    /// Ranges or filters stand in each other more deeply than anybody means.
    #[error("ranges and filters stand too deep in each other")]
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
    /// Reads a template.
    ///
    /// # Errors
    /// If what stands in its braces can't be read.
    pub fn parse(template: &str) -> Result<Self, PathError> {
        if template.len() > TEMPLATE_MAX {
            return Err(PathError::TooLong(TEMPLATE_MAX));
        }
        read::template(template).map(Self)
    }

    /// Whether nothing of it depends on what it is filled with.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.0.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// Whether it repeats a part of itself.
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

    /// What its paths select, without its text.
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
    /// One path as it is written where nothing else can stand: `.a.b`, `a.b` or `{.a.b}`.
    ///
    /// # Errors
    /// If it can't be read.
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

    /// What it selects.
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
