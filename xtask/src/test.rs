//! `cargo xtask test`: everything that must hold before a change goes in, with all its own set-up.

use std::{
    collections::VecDeque,
    env,
    ffi::OsString,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail, ensure};

use crate::{
    cargo, codegen,
    kubernetes::{self, Programs, location},
    licences,
    stages::Stages,
};

/// The profile of everything that is tested: seeds need optimised code, and one profile means one build.
const PROFILE: &str = "sim";

/// Tells tests that real Kubernetes is not wanted (`ironclad_testkit::real::QUICK_VARIABLE`).
const QUICK_VARIABLE: &str = "IRONCLAD_QUICK";

/// Names the file in which skipped tests are noted (`ironclad_testkit::real::SKIPPED_VARIABLE`).
const SKIPPED_VARIABLE: &str = "IRONCLAD_SKIPPED";

/// Names the built product for tests that run it.
pub(crate) const PRODUCT_VARIABLE: &str = "IRONCLAD_BIN";

/// Which part of it to run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask test                                everything
  cargo xtask test --quick                        without real Kubernetes
  cargo xtask test --only tests -- real_env       the tests with that in their name
  cargo xtask test --only licences                that stage alone")]
pub(crate) struct Args {
    /// Run this stage alone, and what it can't do without.
    #[arg(long, value_enum, value_name = "STAGE")]
    only: Option<Stage>,
    /// Leave out what needs real Kubernetes; each test that is skipped is named.
    #[arg(long)]
    quick: bool,
    /// Passed to every test runner: parts of tests' names, or its flags.
    #[arg(last = true)]
    runner: Vec<OsString>,
}

/// The stages, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Stage {
    /// Licences and sources of all dependencies.
    Licences,
    /// The CRDs of our kinds, compared with their types; built apart, in profile `dev`.
    Crds,
    /// The programs of real Kubernetes and the clients in Go, built or found in the cache.
    Kubernetes,
    /// The product and all tests, in profile `sim`.
    Build,
    /// Unit and integration tests.
    Tests,
    /// The examples in the documentation.
    Docs,
}

/// Extent of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing may.
    ContinuousIntegration,
    Elsewhere,
}

impl Place {
    fn here() -> Self {
        let set = env::var("CI").is_ok_and(|value| !matches!(&*value, "" | "0" | "false"));
        if set { Self::ContinuousIntegration } else { Self::Elsewhere }
    }
}

/// Runs the stages and prints a table of their seconds.
pub(crate) fn run(root: &Path, args: &Args) -> anyhow::Result<()> {
    let place = Place::here();
    if args.quick && place == Place::ContinuousIntegration {
        bail!("--quick leaves tests out, and CI is set: nothing may be skipped there");
    }
    let mut stages = Stages::default();
    let mut run = Run { root, args, place, environment: Vec::new(), totals: Totals::default() };
    let result = run.stages(&mut stages);
    eprint!("\n{stages}");
    if run.totals.runners > 0 {
        // On stdout, where the runners' own closing lines are.
        println!("{}", run.totals);
    }
    for failure in &run.totals.failures {
        println!("failed: {failure}");
    }
    for skipped in run.skipped() {
        println!("skipped: {skipped}");
    }
    // Their own output is far above, and a reader of CI may see the end only.
    for failure in run.totals.failures.iter().filter(|failure| !failure.output.is_empty()) {
        println!("\nend of the output of {failure}:");
        for line in &failure.output {
            println!("  {line}");
        }
    }
    result
}

struct Run<'a> {
    root: &'a Path,
    args: &'a Args,
    place: Place,
    /// Environment of the tests.
    environment: Vec<(&'static str, OsString)>,
    totals: Totals,
}

impl Run<'_> {
    fn stages(&mut self, stages: &mut Stages) -> anyhow::Result<()> {
        let only = self.args.only;
        let wanted = |stage| only.is_none_or(|only| only == stage);
        let tests = wanted(Stage::Tests);
        if wanted(Stage::Licences) {
            stages.run("licences", || licences::check(self.root))?;
        }
        if wanted(Stage::Crds) {
            stages.run("crds", || codegen::crds(self.root, true))?;
        }
        if !self.args.quick && (wanted(Stage::Kubernetes) || tests) {
            stages.run("kubernetes", || self.kubernetes())?;
        }
        if wanted(Stage::Build) || tests {
            stages.run("build", || cargo::run(self.cargo("build").args(["--all-targets"])))?;
        }
        if tests {
            stages.run("tests", || self.tests())?;
        }
        if wanted(Stage::Docs) {
            stages.run("docs", || self.runners(&["--doc"], &[]))?;
        }
        Ok(())
    }

    /// Always with all members, so that every command has the same features and nothing is built twice.
    fn cargo(&self, verb: &str) -> Command {
        let mut command = cargo::cargo(self.root);
        command.args([verb, "--workspace", "--profile", PROFILE]);
        command
    }

    fn kubernetes(&mut self) -> anyhow::Result<()> {
        match (kubernetes::find_or_build(self.root)?, self.place) {
            (Programs::At(folder), _) => {
                eprintln!("real Kubernetes is in {}", folder.display());
                self.environment.push((location::FOLDER_VARIABLE, folder.into()));
                let clients = kubernetes::clients(self.root)?.context(kubernetes::GO_IS_MISSING)?;
                self.environment.push((location::CLIENTS_VARIABLE, clients.into()));
            }
            (Programs::GoIsMissing, Place::ContinuousIntegration) => bail!(kubernetes::GO_IS_MISSING),
            (Programs::GoIsMissing, Place::Elsewhere) => {
                eprintln!("{}", kubernetes::GO_IS_MISSING);
                eprintln!("the tests that need them are skipped, and named at the end");
            }
        }
        Ok(())
    }

    fn tests(&mut self) -> anyhow::Result<()> {
        let skipped = self.skipped_file();
        fs::write(&skipped, "").with_context(|| format!("{} can't be written", skipped.display()))?;
        let product = cargo::target_directory(self.root).join(PROFILE).join("ironclad");
        ensure!(product.is_file(), "the build left no {}", product.display());
        self.environment.push((SKIPPED_VARIABLE, skipped.into()));
        self.environment.push((PRODUCT_VARIABLE, product.into()));
        if self.args.quick {
            self.environment.push((QUICK_VARIABLE, "1".into()));
        }
        self.runners(&["--lib", "--bins", "--tests", "--no-fail-fast"], &self.args.runner)
    }

    /// Runs the test runners. Their output passes through; the closing lines are added up.
    fn runners(&mut self, targets: &[&str], runner: &[OsString]) -> anyhow::Result<()> {
        let mut command = self.cargo("test");
        command.args(targets).arg("--").args(runner).envs(self.environment.iter().map(|(name, value)| (name, value)));
        let shown = cargo::shown(&command);
        let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| format!("`{shown}` can't be run"))?;
        let output = child.stdout.take().context("the runners' output is a pipe")?;
        let mut stdout = std::io::stdout().lock();
        for line in BufReader::new(output).split(b'\n') {
            let line = line.context("the runners' output")?;
            self.totals.add(&String::from_utf8_lossy(&line));
            stdout.write_all(&line)?;
            stdout.write_all(b"\n")?;
        }
        let status = child.wait()?;
        ensure!(status.success(), "`{shown}` ended with {status}");
        Ok(())
    }

    fn skipped_file(&self) -> PathBuf {
        cargo::target_directory(self.root).join("skipped-tests.txt")
    }

    fn skipped(&self) -> Vec<String> {
        if self.environment.iter().all(|(name, _)| *name != SKIPPED_VARIABLE) {
            return Vec::new();
        }
        let text = fs::read_to_string(self.skipped_file()).unwrap_or_default();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }
}

/// Lines of a failed test's output that are repeated at the end.
const OUTPUT_MAX: usize = 40;
/// Characters of such a line.
const LINE_MAX: usize = 600;

/// The closing lines of all runners, added up, and what failed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    runners: u32,
    passed: u32,
    failed: u32,
    ignored: u32,
    failures: Vec<FailedTest>,
    /// Index of the failure whose output is being read.
    reading: Option<usize>,
}

/// A test that failed.
#[derive(Debug, Default, PartialEq, Eq)]
struct FailedTest {
    name: String,
    /// Its last lines.
    output: VecDeque<String>,
}

impl std::fmt::Display for FailedTest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

impl Totals {
    /// Takes in a line of a runner's output, if it is its closing line or about a failure.
    fn add(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.failures.push(FailedTest { name: name.to_owned(), ..FailedTest::default() });
        }
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            self.reading = self.failures.iter().rposition(|failure| failure.name == name);
        } else if line == "failures:" || line.starts_with("test result: ") {
            self.reading = None;
        } else if let Some(failure) = self.reading.and_then(|index| self.failures.get_mut(index)) {
            failure.output.push_back(line.chars().take(LINE_MAX).collect());
            if failure.output.len() > OUTPUT_MAX {
                failure.output.pop_front();
            }
        }
        let Some((_, counts)) = line.split_once("test result: ") else { return };
        self.runners += 1;
        for count in counts.split(['.', ';']) {
            let mut words = count.split_whitespace();
            if let (Some(number), Some(what)) = (words.next().and_then(|word| word.parse::<u32>().ok()), words.next()) {
                match what {
                    "passed" => self.passed += number,
                    "failed" => self.failed += number,
                    "ignored" => self.ignored += number,
                    _ => {}
                }
            }
        }
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { runners, passed, failed, ignored, .. } = self;
        write!(f, "all runners ({runners}): {passed} passed; {failed} failed; {ignored} ignored")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_added_up() {
        let mut totals = Totals::default();
        for line in [
            "running 3 tests",
            "test wait::it_waits ... ok",
            "test wait::it_ends ... FAILED",
            "failures:",
            "",
            "---- wait::it_ends stdout ----",
            "it waits for ever",
            "",
            "failures:",
            "    wait::it_ends",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.00s",
            "test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s",
        ] {
            totals.add(line);
        }
        let output = VecDeque::from(["it waits for ever".to_owned(), String::new()]);
        let failures = vec![FailedTest { name: "wait::it_ends".to_owned(), output }];
        assert_eq!(totals, Totals { runners: 2, passed: 13, failed: 2, ignored: 1, failures, reading: None });
        assert_eq!(totals.to_string(), "all runners (2): 13 passed; 2 failed; 1 ignored");
    }
}
