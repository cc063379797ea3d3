//! `metadata.name=a,status.phase!=Running`

use std::fmt;

use super::SelectorError;

/// One condition on one field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldRequirement {
    /// `metadata.name`
    pub field: String,
    /// The value must be equal, or must differ.
    pub equal: bool,
    /// The value, unescaped.
    pub value: String,
}

/// Conditions that must all hold. The caller decides which fields a kind supports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// The conditions, by text.
    pub requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Reads the text of a `fieldSelector` parameter.
    ///
    /// # Errors
    /// The message of a kube-apiserver's 400.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = split(text);
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let operator = term.char_indices().find_map(|(at, _)| {
                ["!=", "==", "="].into_iter().find(|op| term[at..].starts_with(op)).map(|op| (at, op))
            });
            let Some((at, operator)) = operator else {
                return Err(SelectorError(format!("invalid selector: '{text}'; can't understand '{term}'")));
            };
            requirements.push(FieldRequirement {
                field: term[..at].to_owned(),
                equal: operator != "!=",
                value: unescape(&term[at + operator.len()..])?,
            });
        }
        Ok(Self { requirements })
    }

    /// Returns `true` if there are no conditions, so that everything matches.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns the value that a field must have, if there is one: a lookup by name needs no scan.
    pub fn exact(&self, field: &str) -> Option<&str> {
        let found = self.requirements.iter().find(|requirement| requirement.equal && requirement.field == field);
        found.map(|requirement| requirement.value.as_str())
    }

    /// Returns `true` if the fields satisfy all conditions; `field` returns their values, empty if not set.
    pub fn matches<'f>(&self, field: impl Fn(&str) -> std::borrow::Cow<'f, str>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| (field(&requirement.field) == requirement.value) == requirement.equal)
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, FieldRequirement { field, equal, value }) in self.requirements.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let operator = if *equal { "=" } else { "!=" };
            let value = value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            write!(f, "{comma}{field}{operator}{value}")?;
        }
        Ok(())
    }
}

/// Splits at commas that are not escaped by a backslash.
fn split(text: &str) -> Vec<&str> {
    let (mut terms, mut from, mut escaped) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[from..]);
    terms
}

fn unescape(text: &str) -> Result<String, SelectorError> {
    let wrong =
        |sequence: String| Err(SelectorError(format!("invalid field selector: invalid escape sequence: {sequence}")));
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return wrong(format!("\\{c}")),
                None => return wrong("\\".to_owned()),
            },
            // Kubernetes prints the number of the character.
            ',' | '=' => {
                let text = format!("invalid field selector: unescaped character in value: {}", c as u32);
                return Err(SelectorError(text));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn matching() {
        let field = |name: &str| Cow::Borrowed(if name == "metadata.name" { "a,b" } else { "" });
        for (text, want) in [
            ("", true),
            (r"metadata.name=a\,b", true),
            (r"metadata.name==a\,b", true),
            (r"metadata.name!=a\,b", false),
            ("metadata.name!=x,other=", true),
            ("other=x", false),
            (",", true),
        ] {
            assert_eq!(FieldSelector::parse(text).expect(text).matches(field), want, "{text}");
        }
        let selector = FieldSelector::parse("metadata.name=x,a!=b").expect("a selector");
        assert_eq!((selector.exact("metadata.name"), selector.exact("a")), (Some("x"), None));
    }

    #[test]
    fn mistakes() {
        for (text, want) in [
            ("x", "invalid selector: 'x'; can't understand 'x'"),
            ("a=b,x", "invalid selector: 'a=b,x'; can't understand 'x'"),
            (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ] {
            assert_eq!(FieldSelector::parse(text), Err(SelectorError(want.to_owned())), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in r"[a-c!=\\,.]{0,20}|.{0,20}") {
            if let Ok(selector) = FieldSelector::parse(&text) {
                let mut again = FieldSelector::parse(&selector.to_string()).expect("what it prints").requirements;
                let mut before = selector.requirements;
                again.sort();
                before.sort();
                prop_assert_eq!(again, before);
            }
        }
    }
}
