//! Numbers with their nouns, as people read them.

use std::fmt::Display;

/// `1 binding`, `2 bindings`, `2 policies`, `2 days`.
#[must_use]
pub fn count(number: impl Display, noun: &str) -> String {
    let number = number.to_string();
    match (number.as_str(), noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u']))) {
        ("1", _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {noun}s"),
    }
}

/// The first "1 things" in a text that people read. For tests of messages.
#[must_use]
pub fn wrong_plural(text: &str) -> Option<&str> {
    text.match_indices("1 ").find_map(|(at, _)| {
        let begins = !text[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '/'));
        let noun = text[at + 2..].split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        let plural = noun.ends_with('s') && !noun.ends_with("ss") && !["is", "was", "has", "as"].contains(&noun);
        (begins && plural).then(|| &text[at..at + 2 + noun.len()])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_plurals_are_found() {
        for (text, want) in [
            ("evicted 1 bindings", Some("1 bindings")),
            ("1 replicas, 2 left", Some("1 replicas")),
            ("evicted 1 binding in 11 clusters", None),
            ("version v1.1 takes", None),
            ("1 of 3 is left", None),
            ("only 1 is left", None),
        ] {
            assert_eq!(wrong_plural(text), want, "{text}");
        }
    }

    #[test]
    fn nouns_agree_with_their_numbers() {
        for (number, noun, want) in [
            (0, "binding", "0 bindings"),
            (1, "binding", "1 binding"),
            (2, "binding", "2 bindings"),
            (1, "old copy", "1 old copy"),
            (2, "old copy", "2 old copies"),
            (2, "day", "2 days"),
        ] {
            assert_eq!(count(number, noun), want);
        }
    }
}
