//! Every rule has a test: the table of `tests/differential/README.md` names tests that exist.
//! Only names are compared: reviewers judge whether a test covers its rule.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fs,
    path::Path,
};

use anyhow::Context as _;
use ironclad_testkit::differential;

/// Collects the sources of a crate and of its tests.
fn sources(directory: &Path, out: &mut String) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, out)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push_str(&fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

fn code_of(directory: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    for part in ["src", "tests"].map(|part| directory.join(part)) {
        if part.is_dir() {
            sources(&part, &mut text)?;
        }
    }
    Ok(text)
}

#[test]
fn every_rule_names_tests_that_exist() -> anyhow::Result<()> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = home.join("tests/differential");
    let scenarios: BTreeSet<String> = differential::scenarios(&directory)?.into_iter().map(|s| s.name).collect();
    let crates = home.parent().context("crates lie beside each other")?;
    let mut code = BTreeMap::new();
    let (mut rules, mut missing) = (0, Vec::new());
    for line in fs::read_to_string(directory.join("README.md"))?.lines().filter(|line| line.starts_with("| ")) {
        let by = line.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        let tests: Vec<&str> = by.split('`').skip(1).step_by(2).collect();
        if tests.is_empty() {
            continue;
        }
        rules += 1;
        for test in tests {
            let exists = match test.split_once("::") {
                None => scenarios.contains(test),
                Some((name, function)) => {
                    let text: &mut String = match code.entry(name.to_owned()) {
                        Entry::Occupied(known) => known.into_mut(),
                        Entry::Vacant(new) => new.insert(code_of(&crates.join(name))?),
                    };
                    text.contains(&format!("fn {function}("))
                }
            };
            if !exists {
                missing.push(format!("{test}: {line}"));
            }
        }
    }
    assert!(missing.is_empty(), "named tests that do not exist:\n{}", missing.join("\n"));
    assert!(rules > 100, "{rules} rules");
    Ok(())
}
