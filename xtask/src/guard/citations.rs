//! Citations of the specification: each names a chapter below `docs/specification` and an existing anchor.
//!
//! A citation has the form `specification/failover.md 6.9`, several anchors separated by commas. An anchor is the
//! number of a heading or an id such as `IR-12`, which begins a heading, a row of a table or an item of a list, or is
//! an HTML anchor.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::LazyLock,
};

use regex::Regex;

/// The file whose tests quote citations that do not resolve.
const QUOTING: &str = "xtask/src/guard/citations.rs";

const CITING: [&str; 6] = ["rs", "http", "scenario", "md", "yaml", "toml"];

const SPECIFICATION: &str = "docs/specification/";

/// Anchors of each chapter, in lower case, by the chapter's path below [`SPECIFICATION`].
type Chapters = BTreeMap<String, BTreeSet<String>>;

macro_rules! pattern {
    ($name:ident, $pattern:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($pattern).expect("the pattern is valid"));
    };
}

pattern!(HEADING, r"^#+\s+(\S+)");
pattern!(ITEM, r"^\s*(?:\|\s*|[-*]\s+)[*`]*([A-Z]+-?[0-9]+(?:\.[0-9]+)*|[0-9]+(?:\.[0-9]+)+)\b");
pattern!(HTML, r#"<a\s+(?:id|name)="([^"]+)""#);
pattern!(CITATION, r"specification/((?:proposals/)?[a-z0-9-]+\.md)(?:#([A-Za-z0-9._-]+))?");
pattern!(SIBLING, r"(?:^|[^/\w.])((?:proposals/)?[a-z0-9]+\.md)( )(?:[0-9]|IR-|[BS][0-9])");
pattern!(ANCHOR, r"^[0-9]+(?:\.[0-9]+)*$|^[A-Z]+-?[0-9]+(?:\.[0-9]+)*$");
pattern!(NEXT, r"^(?:,| and| to)? ([A-Za-z0-9.-]+)");
pattern!(
    UNRESOLVED,
    r"(?:^|[^/\w.])((?:admission|api|apiserver|autoscaling|failover|operations|propagation|scheduling)\.md)\b|(?:^|[^/\w])((?:design|testing|crates)\.md)\b|(\bseeds? 0[0-9][0-9]\b)"
);
pattern!(UNRESOLVED_SECTION, r"(?:^|[^/\w.])([a-z]+\.md (?:[0-9]|IR-|[BS][0-9]))|(\bseeds? 0[0-9][0-9]\b)");

/// Collects the anchors of every chapter among `texts`.
fn chapters(texts: &[(PathBuf, String)]) -> Chapters {
    let mut chapters = Chapters::new();
    for (path, text) in texts {
        let Some(chapter) = path.to_str().and_then(|path| path.strip_prefix(SPECIFICATION)) else { continue };
        chapters.insert(chapter.to_owned(), anchors(text));
    }
    chapters
}

fn anchors(chapter: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in chapter.lines() {
        let heading = HEADING.captures_iter(line).map(|found| found[1].trim_matches(['*', '`', '.', ':']).to_owned());
        let item = ITEM.captures_iter(line).map(|found| found[1].to_owned());
        let html = HTML.captures_iter(line).map(|found| found[1].to_owned());
        anchors.extend(heading.chain(item).chain(html).map(|anchor| anchor.to_lowercase()));
    }
    anchors.extend(chapter.lines().filter(|line| line.starts_with('#')).map(slug));
    anchors
}

/// Returns the anchor that a Markdown renderer derives from a heading.
fn slug(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.trim_start_matches('#').trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
}

fn dangling(chapters: &Chapters, path: &Path, text: &str) -> Vec<(usize, String)> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let unresolved = if ending == "md" { &UNRESOLVED_SECTION } else { &UNRESOLVED };
    // Chapters cite one another by their names alone.
    let is_chapter = path.starts_with(SPECIFICATION);
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for citation in CITATION.captures_iter(line) {
            found.extend(dangling_anchors(chapters, &citation, line).map(|what| (index + 1, what)));
        }
        if is_chapter {
            for citation in SIBLING.captures_iter(line) {
                found.extend(dangling_anchors(chapters, &citation, line).map(|what| (index + 1, what)));
            }
            continue;
        }
        let prose = match ending {
            "rs" => line.split_once("//").map_or("", |(_, comment)| comment),
            "md" => line,
            _ => line.split_once('#').map_or("", |(_, comment)| comment),
        };
        for old in unresolved.captures_iter(prose) {
            let what = old.iter().skip(1).flatten().next().map_or("", |what| what.as_str());
            found.push((index + 1, format!("{what}: cite specification/<chapter>.md <anchor>")));
        }
    }
    found
}

/// Returns the anchors of the citation in `line` that do not resolve.
fn dangling_anchors(
    chapters: &Chapters,
    citation: &regex::Captures<'_>,
    line: &str,
) -> impl Iterator<Item = String> + use<> {
    let chapter = &citation[1];
    let mut dangling = Vec::new();
    match chapters.get(chapter) {
        None => dangling.push(format!("{SPECIFICATION}{chapter} does not exist")),
        Some(anchors) => {
            let fragment = citation.get(2).map(|anchor| anchor.as_str().trim()).filter(|anchor| !anchor.is_empty());
            let mut named: Vec<&str> = fragment.into_iter().collect();
            let mut rest =
                &line[citation.get(1).map_or(0, |chapter| chapter.end()) + fragment.map_or(0, |f| f.len() + 1)..];
            while let Some(next) = NEXT.captures(rest) {
                let anchor = next.get(1).map_or("", |anchor| anchor.as_str()).trim_end_matches('.');
                if !ANCHOR.is_match(anchor) {
                    break;
                }
                named.push(anchor);
                rest = &rest[next.get(0).map_or(0, |all| all.end())..];
            }
            let missing = named.into_iter().filter(|anchor| !anchors.contains(&anchor.to_lowercase()));
            dangling.extend(missing.map(|anchor| format!("{SPECIFICATION}{chapter} has no anchor {anchor}")));
        }
    }
    dangling.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cargo, guard::sources};

    #[test]
    fn every_citation_resolves() {
        let texts = sources::texts(&cargo::workspace_root());
        let chapters = chapters(&texts);
        let mut found = Vec::new();
        for (path, text) in &texts {
            let name = path.to_string_lossy();
            let cites = path.extension().is_some_and(|ending| CITING.iter().any(|citing| ending == *citing));
            if cites && name != QUOTING {
                let dangling = dangling(&chapters, path, text).into_iter();
                found.extend(dangling.map(|(line, what)| format!("{name}:{line}: {what}")));
            }
        }
        assert!(found.is_empty(), "{} citations don't resolve:\n{}\n", found.len(), found.join("\n"));
    }

    #[test]
    fn anchors_are_recognised_only_at_the_beginning() {
        let chapter = "# Failover\n## 6. Queue\n### 6.9 Check\n| **IR-12** | text 4 |\n| B57 |\n| 6.10 | x |\n- S4.7: x\n<a id=\"ir-13\"></a>\nsee B58\n";
        let anchors = anchors(chapter);
        for (anchor, want) in [
            ("6", true),
            ("6.9", true),
            ("ir-12", true),
            ("b57", true),
            ("s4.7", true),
            ("6.10", true),
            ("ir-13", true),
            ("b58", false),
        ] {
            assert_eq!(anchors.contains(anchor), want, "{anchor}");
        }
    }

    #[test]
    fn citations_that_do_not_resolve_are_found() {
        let chapter = ("docs/specification/failover.md".into(), "## 6.9 Check\n| IR-12 |\n".to_owned());
        let proposal = ("docs/specification/proposals/002.md".into(), "- S3: x\n".to_owned());
        let chapters = chapters(&[chapter, proposal]);
        for (name, path, line, want) in [
            ("a section", "a.rs", "// Why (specification/failover.md 6.9).", None),
            ("several anchors", "a.rs", "/// specification/failover.md 6.9, IR-12", None),
            ("a proposal", "a.rs", "// specification/proposals/002.md S3, and more", None),
            ("a chapter as a whole", "a.rs", "//! specification/failover.md", None),
            ("a link", "docs/x.md", "[why](specification/failover.md#ir-12)", None),
            ("a link to a heading", "docs/x.md", "[why](specification/failover.md#69-check)", None),
            ("a page of the same name", "docs/x.md", "[guide](failover.md) and failover.md", None),
            ("a chapter that cites another", "docs/specification/api.md", "as failover.md 6.9, IR-12 says", None),
            (
                "a chapter that cites a missing section",
                "docs/specification/api.md",
                "as failover.md 6.8 says",
                Some("docs/specification/failover.md has no anchor 6.8"),
            ),
            ("a string in code", "a.rs", "Self::Api => \"api.md\",", None),
            (
                "a missing section",
                "a.rs",
                "// specification/failover.md 6.9, 7.1",
                Some("docs/specification/failover.md has no anchor 7.1"),
            ),
            (
                "a missing chapter",
                "a.http",
                "# specification/store.md 1",
                Some("docs/specification/store.md does not exist"),
            ),
            (
                "a dead link",
                "docs/x.md",
                "[why](specification/failover.md#ir-13)",
                Some("docs/specification/failover.md has no anchor ir-13"),
            ),
            ("no path", "a.rs", "x; // failover.md 6.9", Some("failover.md: cite specification/<chapter>.md <anchor>")),
            (
                "no path in a document",
                "docs/x.md",
                "as failover.md 6.9 says",
                Some("failover.md 6: cite specification/<chapter>.md <anchor>"),
            ),
            (
                "a document that is not here",
                "a.rs",
                "/// (design.md 4)",
                Some("design.md: cite specification/<chapter>.md <anchor>"),
            ),
            (
                "a proposal by number only",
                "a.yaml",
                "x: y # seed 002",
                Some("seed 002: cite specification/<chapter>.md <anchor>"),
            ),
        ] {
            let found: Vec<String> =
                dangling(&chapters, Path::new(path), line).into_iter().map(|(_, what)| what).collect();
            assert_eq!(found, want.map(str::to_owned).into_iter().collect::<Vec<_>>(), "{name}");
        }
    }
}
