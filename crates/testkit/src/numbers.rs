//! Replacement of ids and times that differ from run to run.

use std::sync::LazyLock;

use regex::{Captures, Regex};

static UID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").expect("the pattern is valid")
});
static TIME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.(\d+))?Z").expect("the pattern is valid"));

#[derive(Debug, Clone, Default)]
pub(crate) struct Numbers(Vec<String>);

impl Numbers {
    pub(crate) fn of(&mut self, text: &str) -> usize {
        let at = self.0.iter().position(|seen| seen == text).unwrap_or_else(|| {
            self.0.push(text.to_owned());
            self.0.len() - 1
        });
        at + 1
    }
}

/// Replaces every uuid in the text by the result of `name`.
pub(crate) fn replace_uids(text: &str, mut name: impl FnMut(&str) -> String) -> String {
    UID.replace_all(text, |uid: &Captures<'_>| name(&uid[0])).into_owned()
}

/// Masks times in the text. The number of fractional digits is kept: it distinguishes MicroTime from Time.
pub(crate) fn without_times(text: &str) -> String {
    let replacement = |time: &Captures<'_>| {
        time.get(1).map_or_else(|| "<time>".to_owned(), |fraction| format!("<time.{}>", fraction.len()))
    };
    TIME.replace_all(text, replacement).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_one_number() {
        let mut numbers = Numbers::default();
        assert_eq!(["a", "b", "a", "c"].map(|text| numbers.of(text)), [1, 2, 1, 3]);
    }

    #[test]
    fn fractions_of_times_keep_their_length() {
        for (text, want) in [
            ("at 2026-01-01T00:00:00Z.", "at <time>."),
            ("2026-01-01T00:00:00.123456Z", "<time.6>"),
            ("2026-01-01T00:00:00.123Z", "<time.3>"),
            ("2026-01-01", "2026-01-01"),
        ] {
            assert_eq!(without_times(text), want);
        }
    }
}
