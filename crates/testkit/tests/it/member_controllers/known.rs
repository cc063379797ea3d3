//! Differences between the two clusters, and the list of those that are decided.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::Context as _;
use serde::Deserialize;

use super::state::State;

/// The list of decided differences.
#[derive(Debug)]
pub(crate) struct Known(Vec<Entry>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    /// Patterns of lines; `*` stands for any text.
    lines: Vec<String>,
    reason: String,
    /// Set if the difference need not occur in each run.
    #[serde(default)]
    sometimes: bool,
}

pub(crate) struct Report {
    pub(crate) all: usize,
    pub(crate) decided: usize,
    /// Differences that are not decided, and entries of the list that no longer occur.
    pub(crate) lines: Vec<String>,
}

impl Known {
    pub(crate) fn read(file: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let entries: Option<Vec<Entry>> = serde_saphyr::from_str(&text)?;
        let entries = entries.unwrap_or_default();
        for entry in &entries {
            anyhow::ensure!(
                !entry.reason.is_empty() && !entry.lines.is_empty(),
                "{}: no reason or no line",
                entry.name
            );
        }
        Ok(Self(entries))
    }

    pub(crate) fn judge(&self, found: &[String]) -> Report {
        let mut occurred = BTreeSet::new();
        let mut lines = Vec::new();
        for line in found {
            let entry = self.0.iter().find(|entry| entry.lines.iter().any(|pattern| matches(pattern, line)));
            match entry {
                Some(entry) => drop(occurred.insert(entry.name.as_str())),
                None => lines.push(line.clone()),
            }
        }
        let decided = found.len() - lines.len();
        let stale = self.0.iter().filter(|entry| !entry.sometimes && !occurred.contains(entry.name.as_str()));
        lines.extend(stale.map(|entry| format!("known.yaml: {} no longer occurs", entry.name)));
        Report { all: found.len(), decided, lines }
    }
}

/// Returns a line for each fact that differs.
pub(crate) fn differences(
    scenario: &str,
    real: &BTreeMap<String, State>,
    simulated: &BTreeMap<String, State>,
) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, real) in real {
        let nothing = State::new();
        let simulated = simulated.get(name).unwrap_or(&nothing);
        let facts: BTreeSet<&String> = real.keys().chain(simulated.keys()).collect();
        for fact in facts {
            let (real, simulated) = (real.get(fact), simulated.get(fact));
            if real != simulated {
                let show = |value: Option<&String>| value.map_or_else(|| "nothing".to_owned(), |v| format!("{v:?}"));
                lines.push(format!("{scenario}, {name}: {fact}: real {}, simulated {}", show(real), show(simulated)));
            }
        }
    }
    lines
}

/// Returns `true` if the text has the form of the pattern.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[test]
fn patterns_match_whole_lines() {
    for (pattern, text, want) in [
        ("a: b", "a: b", true),
        ("a: b", "a: bc", false),
        ("a*", "a: b", true),
        ("*b", "a: b", true),
        ("*x*", "a: b", false),
        ("a*: *d", "abc: c d", true),
        ("a*c", "ab", false),
    ] {
        assert_eq!(matches(pattern, text), want, "{pattern} on {text}");
    }
}

#[test]
fn differences_are_named_and_judged() {
    let state = |pairs: &[(&str, &str)]| -> BTreeMap<String, State> {
        let facts = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        [("end".to_owned(), facts)].into()
    };
    let found =
        differences("jobs", &state(&[("j: failed", "1"), ("same", "1")]), &state(&[("same", "1"), ("new", "2")]));
    let lines =
        ["jobs, end: j: failed: real \"1\", simulated nothing", "jobs, end: new: real nothing, simulated \"2\""];
    assert_eq!(found, lines);
    let entry = |name: &str, line: &str| Entry {
        name: name.into(),
        lines: vec![line.into()],
        reason: "r".into(),
        sometimes: false,
    };
    let known = Known(vec![entry("decided", "jobs*failed*"), entry("old", "nothing like it")]);
    let report = known.judge(&found);
    assert_eq!((report.all, report.decided), (2, 1));
    assert_eq!(report.lines, [lines[1], "known.yaml: old no longer occurs"]);
}
