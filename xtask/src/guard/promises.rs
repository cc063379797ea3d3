//! The pages of the proposals name existing tests: a renamed test must not leave a requirement without its proof.
//! Only the names of proofs are checked; reviewers judge whether a test covers its requirement.

/// The proofs that the last column of a row names: a file below `crates`, and a test in it where one is named.
fn proofs(page: &str) -> Vec<(String, Option<String>)> {
    let mut proofs = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        let Some((_, shown)) = row.trim_end_matches(" |").rsplit_once(" | ") else { continue };
        let mut file = None;
        for quoted in shown.split('`').skip(1).step_by(2) {
            let is_test = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
            if quoted.ends_with(".rs") {
                file = Some(quoted.to_owned());
                proofs.push((quoted.to_owned(), None));
            } else if let Some(file) = file.as_ref().filter(|_| is_test(quoted)) {
                proofs.push((file.clone(), Some(quoted.to_owned())));
            }
        }
    }
    proofs
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::cargo;

    #[test]
    fn tests_named_by_the_proposals_exist() {
        let root = cargo::workspace_root();
        let (mut count, mut missing) = (0, Vec::new());
        for entry in fs::read_dir(root.join("docs/specification/proposals")).unwrap() {
            let path = entry.unwrap().path();
            for (file, test) in proofs(&fs::read_to_string(&path).unwrap()) {
                count += 1;
                let text = fs::read_to_string(root.join("crates").join(&file)).unwrap_or_default();
                if text.is_empty() || test.as_ref().is_some_and(|test| !text.contains(&format!("fn {test}("))) {
                    missing.push(format!("{}: crates/{file} {}", path.display(), test.unwrap_or_default()));
                }
            }
        }
        assert!(count > 60, "only {count} proofs are named");
        assert!(missing.is_empty(), "these do not exist:\n{}", missing.join("\n"));
    }

    #[test]
    fn rows() {
        let page = "| promise | shown by |\n| --- | --- |\n| a `flag.rs` | `a/b.rs` `one` `two`, `c.rs`; and `Gate`, `--flag` |\ntext `d.rs`\n";
        let named = |file: &str, test: Option<&str>| (file.to_owned(), test.map(str::to_owned));
        let want =
            [named("a/b.rs", None), named("a/b.rs", Some("one")), named("a/b.rs", Some("two")), named("c.rs", None)];
        assert_eq!(proofs(page), want);
    }
}
