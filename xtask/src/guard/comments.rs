//! Form of comments: lines end at 120 columns, and doc comments begin with a noun or a verb.

/// Maximum columns of a comment line.
const COLUMNS: usize = 120;

/// Maximum number of comment lines longer than [`COLUMNS`].
const LONG_LINES_MAX: usize = 5;

/// Maximum number of doc comments that begin with one of [`OPENINGS`].
const OPENINGS_MAX: usize = 10;

/// First words of doc comments that are questions rather than nouns or verbs.
const OPENINGS: [&str; 4] = ["What", "Who", "Whether", "Nobody"];

/// Returns the comment lines of `text` that are too long.
fn long_lines(text: &str) -> Vec<usize> {
    let is_long = |line: &str| line.trim_start().starts_with("//") && line.chars().count() > COLUMNS;
    text.lines().enumerate().filter(|(_, line)| is_long(line)).map(|(index, _)| index + 1).collect()
}

/// The first lines of doc comments of `text` that begin with one of [`OPENINGS`].
fn riddles(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut before = "";
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let doc = |line: &'_ str| ["/// ", "//! "].iter().find_map(|mark| line.strip_prefix(mark).map(str::to_owned));
        let begins = doc(line).is_some_and(|doc| {
            let word = doc.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            OPENINGS.contains(&word)
        });
        if begins && doc(before).is_none() {
            found.push(index + 1);
        }
        before = line;
    }
    found
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{cargo, guard::sources};

    /// All findings in the sources of the workspace.
    fn everywhere(find: impl Fn(&str) -> Vec<usize>) -> Vec<String> {
        let texts = sources::texts(&cargo::workspace_root());
        let is_rust = |path: &Path| path.extension().is_some_and(|ending| ending == "rs");
        let sources = texts.iter().filter(|(path, _)| is_rust(path));
        sources
            .flat_map(|(path, text)| find(text).into_iter().map(move |line| format!("{}:{line}", path.display())))
            .collect()
    }

    #[test]
    fn comment_lines_end_at_120_columns() {
        let found = everywhere(long_lines);
        assert!(found.len() <= LONG_LINES_MAX, "{} lines are longer:\n{}\n", found.len(), found.join("\n"));
    }

    #[test]
    fn doc_comments_begin_with_a_noun_or_a_verb() {
        let found = everywhere(riddles);
        assert!(found.len() <= OPENINGS_MAX, "{} begin with a question:\n{}\n", found.len(), found.join("\n"));
    }

    #[test]
    fn only_comments_are_measured() {
        let text = "x".repeat(120);
        assert_eq!(long_lines(&format!("let a = \"{text}\";\n    // {text}\n/// short\n")), [2]);
        assert_eq!(long_lines(&format!("//{}\n//{}", &text[..118], &text[..119])), [2]);
    }

    #[test]
    fn only_the_first_line_of_a_doc_comment_counts() {
        for (name, text, want) in [
            ("a question", "/// Whether it is so.\n", vec![1]),
            ("of a module", "//! What it is.\n//!\n//! Who cares.\n", vec![1, 3]),
            ("a later line", "/// The state.\n/// What follows\n", vec![]),
            ("a longer word", "/// Whatever is stored.\n", vec![]),
            ("no doc comment", "// What now?\n", vec![]),
        ] {
            assert_eq!(riddles(text), want, "{name}");
        }
    }
}
