//! Label selectors: an AND of requirements (apiserver.md 10).

use serde_json::{Value, json};

use crate::{names, object, status::ApiError};

/// An AND of requirements; none selects everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LabelSelector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

/// One piece of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Sign(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Token::Word(w) => w,
            Token::Sign(s) => s,
            Token::End => "",
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    const SIGNS: [&str; 9] = ["==", "!=", "=", "!", ">", "<", ",", "(", ")"];
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(sign) = SIGNS.iter().find(|s| rest.starts_with(**s)) {
            out.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else {
            let end = rest.find(|c: char| c.is_whitespace() || "=!><,()".contains(c)).unwrap_or(rest.len());
            out.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    out.push(Token::End);
    out
}

impl LabelSelector {
    /// Reads a selector as the query carries it.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        Parser { tokens: tokens(text), at: 0 }.all().map(Self).map_err(ApiError::bad_request)
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// True for an object with such labels.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        let labels = object::metadata(object).get("labels").and_then(Value::as_object);
        self.0.iter().all(|r| r.matches(labels.and_then(|l| l.get(&r.key)).and_then(Value::as_str)))
    }
}

impl Requirement {
    fn matches(&self, label: Option<&str>) -> bool {
        let number = || label.and_then(|l| l.parse::<i64>().ok());
        match &self.test {
            Test::Exists => label.is_some(),
            Test::Absent => label.is_none(),
            Test::In(values) => label.is_some_and(|l| values.iter().any(|v| v == l)),
            Test::NotIn(values) => !label.is_some_and(|l| values.iter().any(|v| v == l)),
            Test::Greater(n) => number().is_some_and(|l| l > *n),
            Test::Less(n) => number().is_some_and(|l| l < *n),
        }
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn all(&mut self) -> Result<Vec<Requirement>, String> {
        let mut out = Vec::new();
        if *self.peek() == Token::End {
            return Ok(out);
        }
        loop {
            match self.peek() {
                Token::Word(_) | Token::Sign("!") => {
                    out.push(self.requirement().map_err(|e| format!("unable to parse requirement: {e}"))?)
                }
                other => return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text())),
            }
            match self.next() {
                Token::End => return Ok(out),
                Token::Sign(",") => {
                    if !matches!(self.peek(), Token::Word(_) | Token::Sign("!")) {
                        return Err(format!("found '{}', expected: identifier after ','", self.peek().text()));
                    }
                }
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = *self.peek() == Token::Sign("!");
        if absent {
            self.next();
        }
        let Token::Word(key) = self.next() else {
            self.at -= 1;
            return Err(format!("found '{}', expected: identifier", self.peek().text()));
        };
        if let Some(message) = names::qualified_name(&key).first() {
            return Err(format!("key: Invalid value: {key:?}: {message}"));
        }
        if absent {
            return Ok(Requirement { key, test: Test::Absent });
        }
        let test = match self.peek().clone() {
            Token::End | Token::Sign(",") => Test::Exists,
            Token::Sign("=" | "==") => Test::In(vec![self.value()?]),
            Token::Sign("!=") => Test::NotIn(vec![self.value()?]),
            Token::Sign(">") => Test::Greater(self.number()?),
            Token::Sign("<") => Test::Less(self.number()?),
            Token::Word(w) if w == "in" => Test::In(self.values()?),
            Token::Word(w) if w == "notin" => Test::NotIn(self.values()?),
            other => return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text())),
        };
        if let Test::In(values) | Test::NotIn(values) = &test {
            for (i, value) in values.iter().enumerate() {
                if let Some(message) = names::label_value(value).first() {
                    return Err(format!("values[{i}][{key}]: Invalid value: {value:?}: {message}"));
                }
            }
        }
        Ok(Requirement { key, test })
    }

    /// The value behind an operator; nothing is the empty value.
    fn value(&mut self) -> Result<String, String> {
        self.next();
        match self.peek().clone() {
            Token::Word(word) => {
                self.next();
                Ok(word)
            }
            Token::End | Token::Sign(",") => Ok(String::new()),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn number(&mut self) -> Result<i64, String> {
        let value = self.value()?;
        value.parse().map_err(|_| {
            format!(
                "values[0]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
                json!(value)
            )
        })
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        self.next();
        match self.next() {
            Token::Sign("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut out = vec![];
        let mut word = String::new();
        loop {
            match self.next() {
                Token::Word(w) if word.is_empty() => word = w,
                Token::Sign(",") => out.push(std::mem::take(&mut word)),
                Token::Sign(")") => {
                    out.push(word);
                    out.sort();
                    out.dedup();
                    return Ok(out);
                }
                other => return Err(format!("found '{}', expected: ',', or ')'", other.text())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects() {
        let object = json!({"metadata": {"labels": {"a": "1", "e": "", "x.io/t": "web"}}});
        for (text, want) in [
            ("", true),
            ("a", true),
            ("!a", false),
            ("!b", true),
            ("a=1", true),
            ("a==2", false),
            ("a!=2,b!=3", true),
            ("a in (1, 2)", true),
            ("a notin (1)", false),
            ("b notin (1)", true),
            ("e=", true),
            ("e in ()", true),
            ("e in (,1)", true),
            ("a>0", true),
            ("a<1", false),
            ("b>0", false),
            ("x.io/t = web , a", true),
        ] {
            assert_eq!(LabelSelector::parse(text).unwrap().matches(&object), want, "{text}");
        }
    }

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
            assert_eq!(LabelSelector::parse(text).unwrap_err().message, want, "{text}");
        }
    }
}
