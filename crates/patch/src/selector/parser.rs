//! The grammar of label selectors, with the messages of a kube-apiserver.

use std::collections::BTreeSet;

use serde_json::Value;

use super::labels::{Operator, Requirement, requirement};
use crate::{error::FieldError, names};

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
        // Kubernetes treats a zero byte as the end.
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

/// Parses the longest operator at the beginning.
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

pub(super) struct Parser {
    tokens: Vec<(Token, String)>,
    at: usize,
}

impl Parser {
    pub(super) fn of(text: &str) -> Self {
        Self { tokens: tokens(text), at: 0 }
    }

    /// Returns the next token; `in` and `notin` are identifiers where no operator is possible.
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

    pub(super) fn all(&mut self) -> Result<Vec<Requirement>, String> {
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
            Token::Equals | Token::DoubleEquals => made(Operator::Equals, self.exact()?),
            Token::NotEquals => made(Operator::NotEquals, self.exact()?),
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
