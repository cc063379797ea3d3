//! Numbers with their nouns, as people read them.

/// `1 binding`, `2 bindings`.
#[must_use]
pub fn count(number: usize, noun: &str) -> String {
    let stem = noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    match (number, stem) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
