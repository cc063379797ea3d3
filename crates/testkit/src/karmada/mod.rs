//! Karmada's own end-to-end suite: what Ginkgo reports of a run, beside the specs that are expected to fail.

use std::{collections::BTreeMap, fmt, path::Path};

use anyhow::{Context as _, ensure};
use serde::Deserialize;

/// The specs that are expected to fail, and the files that are left out of a run without a choice.
pub const KNOWN: &str = include_str!("../../tests/karmada/known.yaml");

/// Place of a spec: file and line.
pub type Place = (String, u64);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Known {
    /// Commit of Karmada whose lines are named.
    pub commit: String,
    /// Files that run only if they are asked for, each with the reason.
    pub left_out: BTreeMap<String, String>,
    /// Reasons, by `file:line` of a spec.
    failing: BTreeMap<String, String>,
}

/// Result of one spec.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    pub place: Place,
    pub state: String,
    pub seconds: f64,
    /// Where it failed, and the first line of why.
    pub failure: Option<(Place, String)>,
}

/// A run: its specs by place, and failures outside of specs.
#[derive(Debug, Default, PartialEq)]
pub struct Run {
    pub specs: Vec<Spec>,
    pub elsewhere: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Suite {
    #[serde(default)]
    spec_reports: Option<Vec<Reported>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Reported {
    leaf_node_type: String,
    leaf_node_location: Location,
    state: String,
    /// Nanoseconds.
    run_time: u64,
    failure: Option<Failure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
    location: Location,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Location {
    #[serde(default)]
    file_name: String,
    #[serde(default)]
    line_number: u64,
}

impl Location {
    fn place(&self) -> Place {
        let name = Path::new(&self.file_name).file_name().unwrap_or_default();
        (name.to_string_lossy().into_owned(), self.line_number)
    }
}

impl Known {
    pub fn read(text: &str) -> anyhow::Result<Self> {
        let known: Self = serde_saphyr::from_str(text).context("the list of expected failures")?;
        for place in known.failing.keys() {
            let line = place.rsplit_once(':').and_then(|(_, line)| line.parse::<u64>().ok());
            ensure!(line.is_some(), "failing: {place:?} is no FILE:LINE");
        }
        Ok(known)
    }

    /// Reason why a spec is expected to fail.
    pub fn reason(&self, (file, line): &Place) -> Option<&str> {
        self.failing.get(&format!("{file}:{line}")).map(String::as_str)
    }

    /// Regular expression on paths for the files that are left out.
    pub fn skipped_files(&self) -> String {
        let names: Vec<String> = self.left_out.keys().map(|name| name.replace('.', "\\.")).collect();
        format!("/({})$", names.join("|"))
    }
}

impl Run {
    /// Reads Ginkgo's report. Specs that were not chosen are left out.
    pub fn read(report: &str) -> anyhow::Result<Self> {
        let suites: Vec<Suite> = serde_json::from_str(report).context("the report of Ginkgo")?;
        let mut run = Self::default();
        for reported in suites.into_iter().flat_map(|suite| suite.spec_reports.unwrap_or_default()) {
            let failure = reported.failure.map(|failure| {
                let first = failure.message.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
                (failure.location.place(), first.to_owned())
            });
            if reported.leaf_node_type == "It" {
                if !matches!(&*reported.state, "skipped" | "pending") {
                    let (place, seconds) = (reported.leaf_node_location.place(), reported.run_time as f64 / 1e9);
                    run.specs.push(Spec { place, state: reported.state, seconds, failure });
                }
            } else if let Some(((file, line), message)) = failure {
                // Each process of a parallel run reports its own.
                let text = format!("{} failed at {file}:{line}: {message}", reported.leaf_node_type);
                if !run.elsewhere.contains(&text) {
                    run.elsewhere.push(text);
                }
            }
        }
        run.specs.sort_by(|a, b| a.place.cmp(&b.place));
        Ok(run)
    }

    /// One line for each spec whose result is not the expected one, and for each failure outside of specs.
    pub fn differences(&self, known: &Known) -> Vec<String> {
        let of = |spec: &Spec| {
            let (file, line) = &spec.place;
            match (spec.state == "passed", known.reason(&spec.place)) {
                (true, Some(reason)) => Some(format!("{file}:{line} passed, and was expected to fail: {reason}")),
                (false, None) => Some(format!("{file}:{line} {}, and was expected to pass", spec.state)),
                (true, None) | (false, Some(_)) => None,
            }
        };
        self.specs.iter().filter_map(of).chain(self.elsewhere.iter().cloned()).collect()
    }

    fn passed(&self) -> usize {
        self.specs.iter().filter(|spec| spec.state == "passed").count()
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wide = self.specs.iter().map(|spec| spec.place.0.len()).max().unwrap_or_default();
        writeln!(f, "{:<wide$} {:>5} {:<9} {:>7}  FAILED AT", "FILE", "LINE", "STATE", "SECONDS")?;
        for Spec { place: (file, line), state, seconds, failure } in &self.specs {
            let at = failure.as_ref().map(|((file, line), message)| format!("  {file}:{line} {message}"));
            writeln!(f, "{file:<wide$} {line:>5} {state:<9} {seconds:>7.1}{}", at.unwrap_or_default())?;
        }
        write!(f, "{} of {} specs passed", self.passed(), self.specs.len())
    }
}

#[cfg(test)]
mod tests;
