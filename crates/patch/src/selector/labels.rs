//! `app in (a, b),!canary,tier!=cache`

use std::{collections::BTreeSet, fmt};

use serde_json::Value;

use super::SelectorError;
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
        let mut parser = Parser { tokens: tokens(text), at: 0 };
        let mut requirements = parser.all().map_err(SelectorError)?;
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

fn requirement(key: &str, operator: Operator, values: BTreeSet<String>) -> Result<Requirement, SelectorError> {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Error,
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

const SPECIAL: &str = "=!(),><";

fn literal(text: &str) -> Option<Token> {
    Some(match text {
        ")" => Token::Close,
        "," => Token::Comma,
        "!" => Token::Not,
        "==" => Token::DoubleEquals,
        "=" => Token::Equals,
        ">" => Token::Greater,
        "in" => Token::In,
        "<" => Token::Less,
        "!=" => Token::NotEquals,
        "notin" => Token::NotIn,
        "(" => Token::Open,
        _ => return None,
    })
}

fn tokens(text: &str) -> Vec<(Token, String)> {
    let mut out = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        // Kubernetes takes a zero byte for the end.
        let Some(first) = rest.chars().next().filter(|c| *c != '\0') else {
            out.push((Token::End, String::new()));
            return out;
        };
        let length = if SPECIAL.contains(first) {
            special(rest, &mut out)
        } else {
            let stop = |c: char| SPECIAL.contains(c) || " \t\r\n\0".contains(c);
            let length = rest.find(stop).unwrap_or(rest.len());
            let word = &rest[..length];
            out.push((literal(word).unwrap_or(Token::Identifier), word.to_owned()));
            length
        };
        rest = &rest[length..];
    }
}

/// The longest operator that begins here.
fn special(rest: &str, out: &mut Vec<(Token, String)>) -> usize {
    let run = rest.find(|c: char| !SPECIAL.contains(c)).unwrap_or(rest.len());
    let mut best: Option<(Token, usize)> = None;
    for length in 1..=run {
        match literal(&rest[..length]) {
            Some(token) => best = Some((token, length)),
            None if best.is_some() => break,
            None => {}
        }
    }
    match best {
        Some((token, length)) => {
            out.push((token, rest[..length].to_owned()));
            length
        }
        None => {
            out.push((Token::Error, format!("error expected: keyword found '{}'", &rest[..run])));
            run
        }
    }
}

struct Parser {
    tokens: Vec<(Token, String)>,
    at: usize,
}

impl Parser {
    /// `in` and `notin` are words like any other where no operator can stand.
    fn peek(&self) -> (Token, &str) {
        match self.tokens.get(self.at) {
            Some((Token::In | Token::NotIn, text)) => (Token::Identifier, text),
            Some((token, text)) => (*token, text),
            None => (Token::End, ""),
        }
    }

    fn next(&mut self) -> (Token, String) {
        let (token, text) = self.peek();
        let found = (token, text.to_owned());
        self.at += 1;
        found
    }

    fn all(&mut self) -> Result<Vec<Requirement>, String> {
        let mut out = Vec::new();
        loop {
            match self.peek() {
                (Token::Identifier | Token::Not, _) => {
                    let one = self.one().map_err(|error| format!("unable to parse requirement: {error}"))?;
                    out.push(one);
                    match self.next() {
                        (Token::End, _) => return Ok(out),
                        (Token::Comma, _) => {
                            if let (token, text) = self.peek()
                                && !matches!(token, Token::Identifier | Token::Not)
                            {
                                return Err(format!("found '{text}', expected: identifier after ','"));
                            }
                        }
                        (_, text) => return Err(format!("found '{text}', expected: ',' or 'end of string'")),
                    }
                }
                (Token::End, _) => return Ok(out),
                (_, text) => return Err(format!("found '{text}', expected: !, identifier, or 'end of string'")),
            }
        }
    }

    fn one(&mut self) -> Result<Requirement, String> {
        let (mut token, mut key) = self.next();
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.next();
        }
        if token != Token::Identifier {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let mistakes = names::label_key(&key);
        if !mistakes.is_empty() {
            return Err(FieldError::invalid("<nil>", &Value::from(key), &mistakes.join("; ")).to_string());
        }
        let made = |operator, values| requirement(&key, operator, values).map_err(|error| error.0);
        if negated {
            return made(Operator::DoesNotExist, BTreeSet::new());
        }
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return made(Operator::Exists, BTreeSet::new());
        }
        let operator = self.tokens.get(self.at).cloned().unwrap_or((Token::End, String::new()));
        self.at += 1;
        match operator.0 {
            Token::In => made(Operator::In, self.values()?),
            Token::NotIn => made(Operator::NotIn, self.values()?),
            Token::Equals | Token::DoubleEquals => made(Operator::In, self.exact()?),
            Token::NotEquals => made(Operator::NotIn, self.exact()?),
            Token::Greater => made(Operator::GreaterThan, self.exact()?),
            Token::Less => made(Operator::LessThan, self.exact()?),
            _ => Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", operator.1)),
        }
    }

    fn exact(&mut self) -> Result<BTreeSet<String>, String> {
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok(BTreeSet::from([String::new()]));
        }
        match self.next() {
            (Token::Identifier, text) => Ok(BTreeSet::from([text])),
            (_, text) => Err(format!("found '{text}', expected: identifier")),
        }
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        match self.next() {
            (Token::Open, _) => {}
            (_, text) => return Err(format!("found '{text}' expected: '('")),
        }
        let (first, text) = self.peek();
        let text = text.to_owned();
        match first {
            Token::Identifier | Token::Comma => {
                let values = self.list()?;
                match self.next() {
                    (Token::Close, _) => Ok(values),
                    _ => Err(format!("found '{text}', expected: ')'")),
                }
            }
            Token::Close => {
                self.at += 1;
                Ok(BTreeSet::from([String::new()]))
            }
            _ => Err(format!("found '{text}', expected: ',', ')' or identifier")),
        }
    }

    fn list(&mut self) -> Result<BTreeSet<String>, String> {
        let mut out = BTreeSet::new();
        loop {
            match self.next() {
                (Token::Identifier, text) => {
                    out.insert(text);
                    match self.peek() {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => return Ok(out),
                        (_, text) => return Err(format!("found '{text}', expected: ',' or ')'")),
                    }
                }
                (Token::Comma, _) => {
                    if out.is_empty() {
                        out.insert(String::new());
                    }
                    match self.peek().0 {
                        Token::Close => {
                            out.insert(String::new());
                            return Ok(out);
                        }
                        Token::Comma => drop(out.insert(String::new())),
                        _ => {}
                    }
                }
                (_, text) => return Err(format!("found '{text}', expected: ',', or identifier")),
            }
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
