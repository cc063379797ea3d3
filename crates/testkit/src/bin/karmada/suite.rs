//! Ginkgo, with its lines as progress and its report as the result.

use std::{fs, io::Write as _, path::Path, process::Stdio};

use anyhow::{Context as _, ensure};
use ironclad_testkit::karmada::{Known, Run};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

use crate::bed::Bed;

/// Helpers of the suite poll for seven minutes whatever these say.
const POLLS: [&str; 2] = ["--poll-interval=1s", "--poll-timeout=60s"];

#[derive(clap::Args)]
pub(crate) struct Choice {
    /// Only specs of files whose path this regular expression matches, as `/overridepolicy_test.go`; may repeat
    #[arg(long, value_name = "RE")]
    focus_file: Vec<String>,
    /// Only specs whose texts this regular expression matches; may repeat
    #[arg(long, value_name = "TEXT")]
    focus: Vec<String>,
    /// Specs at a time: they wait rather than compute
    #[arg(long, value_name = "N", default_value_t = 6)]
    procs: usize,
}

impl Choice {
    /// Without a choice of files, the ones that are left out are skipped.
    fn flags(&self, known: &Known) -> Vec<String> {
        let mut flags = vec![format!("--procs={}", self.procs)];
        flags.extend(self.focus_file.iter().map(|file| format!("--focus-file={file}")));
        flags.extend(self.focus.iter().map(|text| format!("--focus={text}")));
        if self.focus_file.is_empty() {
            flags.push(format!("--skip-file={}", known.skipped_files()));
        }
        flags
    }
}

pub(crate) async fn run(bed: &Bed, built: &Path, choice: &Choice, known: &Known) -> anyhow::Result<Run> {
    const REPORT: &str = "report.json";
    eprintln!("==> the suite; its whole output is in {}", built.join("suite.log").display());
    let report = built.join(REPORT);
    // The one of an earlier run is no result.
    if report.exists() {
        fs::remove_file(&report).with_context(|| report.display().to_string())?;
    }
    let mut command = Command::new(built.join("ginkgo"));
    command.args(["run", "--no-color", "-v"]).args(choice.flags(known));
    command.arg(format!("--json-report={REPORT}")).arg(format!("--output-dir={}", built.display()));
    command.arg(built.join("e2e.test")).arg("--").args(POLLS);
    command.env("KUBECONFIG", &bed.kubeconfig).env("GOPATH", &bed.go_path).env("HOME", &bed.home);
    command.env("IRONCLAD_CLUSTER_HOOK", &bed.hook);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context("ginkgo can't be run\n  try: cargo xtask karmada PATH, which builds it")?;
    let mut group = Group(child.id());
    let mut log = fs::File::create(built.join("suite.log")).context("suite.log")?;
    let mut lines = BufReader::new(child.stdout.take().context("ginkgo's output is a pipe")?).lines();
    let mut progress = Progress::default();
    while let Some(line) = lines.next_line().await.context("ginkgo's output")? {
        writeln!(log, "{line}").context("suite.log")?;
        if let Some(told) = progress.told(&line) {
            eprintln!("{told}");
        }
    }
    child.wait().await.context("ginkgo")?;
    group.0 = None;
    let text = fs::read_to_string(&report).with_context(|| {
        format!("ginkgo wrote no report, so it did not start the suite: read the end of {}/suite.log", built.display())
    })?;
    let run = Run::read(&text)?;
    ensure!(
        !run.specs.is_empty(),
        "no spec was run\n  try: another --focus or --focus-file\n{}",
        run.elsewhere.join("\n")
    );
    Ok(run)
}

/// Process group of Ginkgo and of the suite's processes. Those poll on for minutes when Ginkgo is killed alone.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            // They may have ended meanwhile.
            let _ = std::process::Command::new("kill").args(["-KILL", "--", &format!("-{id}")]).status();
        }
    }
}

/// Tells of each spec that ended, from Ginkgo's verbose output: a line with its state and time, then its texts, then
/// its place.
#[derive(Default)]
struct Progress {
    ended: usize,
    of: Option<String>,
    state: Option<String>,
}

impl Progress {
    fn told(&mut self, line: &str) -> Option<String> {
        if let Some(rest) = line.strip_prefix("Will run ") {
            self.of = rest.split(' ').next().map(str::to_owned);
        } else if let Some(state) = line.strip_prefix("• ") {
            self.state = Some(state.to_owned());
        } else if let Some(place) = place(line) {
            let state = self.state.take()?;
            self.ended += 1;
            return Some(format!("{}/{} {place} {state}", self.ended, self.of.as_deref().unwrap_or("?")));
        }
        None
    }
}

/// File and line of a spec, if the line is nothing but the path of a test's file and a line number. Where a node
/// around the spec failed, the line of the spec itself says so.
fn place(line: &str) -> Option<&str> {
    let path = line.trim();
    let path = path.strip_prefix("[It] ").unwrap_or(path);
    let (_, number) = path.rsplit_once("_test.go:").filter(|(file, _)| !file.contains(' '))?;
    number.parse::<u64>().ok()?;
    path.rsplit('/').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_that_ended_are_told_once() {
        let mut progress = Progress::default();
        let lines = [
            "Will run 2 of 274 specs",
            "------------------------------",
            "• [5.120 seconds]",
            "[Quota] is enforced",
            "/src/base/quota_test.go:80",
            "  at /src/base/quota_test.go:99",
            "/src/base/quota_test.go:91",
            "• [FAILED] [430.200 seconds]",
            "  [BeforeEach] /src/base/quota_test.go:70",
            "  [It] /src/base/quota_test.go:90",
        ];
        let told: Vec<String> = lines.iter().filter_map(|line| progress.told(line)).collect();
        assert_eq!(told, ["1/2 quota_test.go:80 [5.120 seconds]", "2/2 quota_test.go:90 [FAILED] [430.200 seconds]"]);
    }

    #[test]
    fn a_choice_of_files_is_taken_as_it_is() {
        let known = Known::read("{commit: a, leftOut: {b_test.go: slow}, failing: {}}").unwrap();
        let choice = |files: &[&str]| Choice {
            focus_file: files.iter().map(|file| (*file).to_owned()).collect(),
            focus: vec!["quota".to_owned()],
            procs: 2,
        };
        for (files, want) in [
            (&[][..], &["--procs=2", "--focus=quota", "--skip-file=/(b_test\\.go)$"][..]),
            (&["/b_test.go"], &["--procs=2", "--focus-file=/b_test.go", "--focus=quota"]),
        ] {
            assert_eq!(choice(files).flags(&known), want, "{files:?}");
        }
    }
}
