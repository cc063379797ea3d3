//! The page of the seeds' promises names tests that are there: a renamed test must not leave a promise without its proof.

/// What a row of the page names in its last column: a file below `crates`, and a test in it where one is named.
fn proofs(page: &str) -> Vec<(String, Option<String>)> {
    let mut proofs = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        let Some((_, shown)) = row.trim_start_matches("| ").split_once(" | ") else { continue };
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
    fn every_proof_is_there() {
        let root = cargo::workspace_root();
        let page = fs::read_to_string(root.join("docs/seeds.md")).unwrap();
        let proofs = proofs(&page);
        assert!(proofs.len() > 60, "only {} are named", proofs.len());
        for (file, test) in proofs {
            let text = fs::read_to_string(root.join("crates").join(&file))
                .unwrap_or_else(|error| panic!("docs/seeds.md names crates/{file}: {error}"));
            if let Some(test) = test {
                assert!(
                    text.contains(&format!("fn {test}(")),
                    "docs/seeds.md names {test}, which crates/{file} has not"
                );
            }
        }
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
