//! `cargo xtask test`: everything that must hold before a change goes in, with all its own set-up.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail, ensure};

mod changed;
mod lanes;
mod parts;
mod side_by_side;
mod totals;

use totals::Totals;

use crate::{
    built::{Built, TestProgram},
    cargo, codegen,
    kept::Kept,
    kubernetes::{self, Programs, location},
    licences, size,
    stages::Stages,
};

/// The profile of everything that is tested: seeds need optimised code, and dependencies are built once.
const PROFILE: &str = "sim";

/// Tells tests that real Kubernetes is not wanted (`ironclad_testkit::real::QUICK_VARIABLE`).
const QUICK_VARIABLE: &str = "IRONCLAD_QUICK";

/// Names the file in which skipped tests are noted (`ironclad_testkit::real::SKIPPED_VARIABLE`).
const SKIPPED_VARIABLE: &str = "IRONCLAD_SKIPPED";

/// Tests of the whole, and with them the product and the simulation: optimised.
const SYSTEM: [&str; 3] = ["--workspace", "--test", parts::PROGRAM.1];

/// Tests of the crates. They run for seconds, and compiling them takes three times as long if they are optimised.
/// Names of programs: `--bins` has the product among them.
const UNITS: [&str; 10] =
    ["--workspace", "--lib", "--test", "it", "--bin", "xtask", "--bin", "bench", "--bin", "karmada"];

/// `-D warnings` in the form in which `cargo clippy` passes it to the compiler that also checks.
const CLIPPY_ARGUMENTS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// Names the built product for tests that run it.
pub(crate) const PRODUCT_VARIABLE: &str = "IRONCLAD_BIN";

/// The example that a test starts (`ironclad_testkit::binary::Daemon::start_example`).
const EXAMPLE: &str = "interpreter-webhook";

/// Which part of it to run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask test                                everything
  cargo xtask test --quick                        without real Kubernetes
  cargo xtask test --only tests -- real_env       the tests with that in their name
  cargo xtask test --only licences                that stage alone
  cargo xtask test --clippy --only build          all warnings of clippy and the compiler, as CI has them
  cargo xtask test --changed                      unit tests of the crates changed since the branch left main
  cargo xtask test --changed HEAD                 the same for what is not committed
  cargo xtask test --changed HEAD~3               the same since three commits ago")]
pub(crate) struct Args {
    /// Run this stage alone, and what it can't do without.
    #[arg(long, value_enum, value_name = "STAGE")]
    only: Option<Stage>,
    /// Leave out what needs real Kubernetes; each test that is skipped is named.
    #[arg(long)]
    quick: bool,
    /// Run unit tests, with their tables, of the crates that changed since this commit, committed or not, and of their
    /// direct users without a client, and the guards of the sources; what is left out is named. Without a value: since
    /// the merge base with `main`, which on `main` is the last commit.
    #[arg(long, value_name = "BASE", num_args = 0..=1, conflicts_with_all = ["only", "quick"])]
    changed: Option<Option<String>>,
    /// Compile all dependencies: neither take kept ones from the user's cache nor keep them.
    #[arg(long)]
    fresh: bool,
    /// Compile the workspace with clippy, whose warnings are then errors, and its examples with it.
    #[arg(long)]
    clippy: bool,
    /// Passed to every test runner: parts of tests' names, or its flags. Test programs then run one after the other.
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
    /// Size of the product's machine code, against its limits.
    Size,
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
    let result = match &args.changed {
        Some(base) => run.changed(base.as_deref(), &mut stages),
        None => run.stages(&mut stages),
    };
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
        if wanted(Stage::Build) || wanted(Stage::Size) || tests {
            let programs = self.build(self.everything()?, stages)?;
            let tested = if tests { stages.run("tests", || self.tests(programs)) } else { Ok(()) };
            // Behind the tests, and whatever they say: what is too large says nothing about what works.
            let measured = match wanted(Stage::Size) {
                true => stages.run("size", || size::check(self.root, PROFILE, 0)),
                false => Ok(()),
            };
            tested.and(measured)?;
        }
        if wanted(Stage::Docs) {
            let mut command = self.cargo("test");
            stages.run("docs", || self.run_tests(command.args(["--workspace", "--doc"])))?;
        }
        Ok(())
    }

    /// The tests of the crates that changed, and of their users.
    fn changed(&mut self, base: Option<&str>, stages: &mut Stages) -> anyhow::Result<()> {
        let (base, selection) = changed::select(self.root, base)?;
        let names = |names: &[String]| if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        println!("changed since {base}: {}", names(&selection.changed));
        println!("used by: {}", names(&selection.users));
        println!("tested: {}", names(&selection.tested));
        for left_out in &selection.left_out {
            println!("left out: {left_out}");
        }
        if !selection.tested.is_empty() {
            let packages = selection.tested.iter().flat_map(|name| ["--package", name]);
            let mut targets: Vec<&str> = packages.chain(["--lib"]).collect();
            targets.extend(selection.programs.then_some("--bins"));
            let mut command = self.units()?;
            command.arg("--no-run").args(&targets);
            let programs = self.build([command].into(), stages)?;
            stages.run("tests", || {
                if self.args.runner.is_empty() {
                    return self.side_by_side(programs);
                }
                let mut command = self.units()?;
                self.run_tests(command.args(&targets).arg("--").args(&self.args.runner))
            })?;
        }
        // In the profile of xtask itself, whose dependencies are compiled.
        let mut guards = cargo::cargo(self.root);
        guards.args(["test", "--quiet", "--profile", "dev", "--package", changed::XTASK]);
        stages.run("guards", || self.run_tests(&mut guards))
    }

    fn cargo(&self, verb: &str) -> Command {
        let mut command = cargo::cargo(self.root);
        command.args([verb, "--profile", PROFILE]);
        if self.args.clippy {
            // In all commands alike: cargo has another set of own crates for each wrapper.
            command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver").env("CLIPPY_ARGS", CLIPPY_ARGUMENTS);
        }
        command
    }

    /// `cargo test` with own crates that are not optimised, and the dependencies of the profile.
    fn units(&self) -> anyhow::Result<Command> {
        let mut command = self.cargo("test");
        for name in changed::members(self.root)? {
            command.arg("--config").arg(format!("profile.{PROFILE}.package.{name}.opt-level=0"));
        }
        Ok(command)
    }

    /// The commands that build all programs of tests, and what they start.
    fn everything(&self) -> anyhow::Result<Vec<Command>> {
        let mut units = self.units()?;
        units.arg("--no-run").args(UNITS);
        if self.args.clippy {
            // Nothing else checks them.
            units.arg("--examples");
        }
        let mut system = self.cargo("build");
        system.args(SYSTEM).args(["--example", EXAMPLE]);
        Ok(vec![units, system])
    }

    /// Builds with dependencies that are kept, and returns the test programs.
    fn build(&self, commands: Vec<Command>, stages: &mut Stages) -> anyhow::Result<Vec<TestProgram>> {
        // Without them everything is compiled, so no error of theirs ends the run.
        let kept = if self.args.fresh { None } else { explained(Kept::open(self.root, PROFILE)) };
        if let Some(kept) = &kept {
            stages.run("dependencies", || {
                if let Some(units) = explained(kept.restore()) {
                    eprintln!("{units} compiled units of dependencies are taken from {}", kept.folder().display());
                }
                Ok(())
            })?;
        }
        let mut built = Built::default();
        for mut command in commands {
            stages.run("build", || built.by(&mut command))?;
        }
        let Built { third_party, compiled, tests } = built;
        eprintln!("{compiled} of {} units of dependencies were compiled", third_party.len());
        // Of all members only: a part of them uses a part of the units.
        let keep = kept.filter(|_| self.args.changed.is_none());
        if let Some(Some(bytes)) = keep.as_ref().and_then(|kept| explained(kept.save(&third_party))) {
            eprintln!("{} MiB of compiled dependencies are kept for the next build", bytes >> 20);
        }
        Ok(tests)
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

    fn tests(&mut self, programs: Vec<TestProgram>) -> anyhow::Result<()> {
        let skipped = self.skipped_file();
        fs::write(&skipped, "").with_context(|| format!("{} can't be written", skipped.display()))?;
        let product = cargo::target_directory(self.root).join(PROFILE).join("ironclad");
        ensure!(product.is_file(), "the build left no {}", product.display());
        self.environment.push((SKIPPED_VARIABLE, skipped.into()));
        self.environment.push((PRODUCT_VARIABLE, product.into()));
        if self.args.quick {
            self.environment.push((QUICK_VARIABLE, "1".into()));
        }
        if self.args.runner.is_empty() {
            return self.side_by_side(programs);
        }
        let mut failed = None;
        for (mut command, targets) in [(self.units()?, &UNITS[..]), (self.cargo("test"), &SYSTEM[..])] {
            command.arg("--no-fail-fast").args(targets).arg("--").args(&self.args.runner);
            failed = self.run_tests(&mut command).err().or(failed);
        }
        failed.map_or(Ok(()), Err)
    }

    fn side_by_side(&mut self, programs: Vec<TestProgram>) -> anyhow::Result<()> {
        let outcome = side_by_side::run(programs, &self.environment)?;
        let result = outcome.result();
        self.totals.merge(outcome.totals);
        result
    }

    /// Runs tests by cargo. Their output passes through; the closing lines are added up.
    fn run_tests(&mut self, command: &mut Command) -> anyhow::Result<()> {
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let shown = cargo::shown(command);
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

/// The value, or a message to people: kept dependencies save time, and nothing depends on them.
fn explained<T>(result: anyhow::Result<T>) -> Option<T> {
    result.map_err(|error| eprintln!("compiled dependencies are not kept: {error:#}")).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn examples_that_tests_start_are_built() {
        let mut folders = vec![cargo::workspace_root().join("crates/testkit/tests")];
        let mut started = BTreeSet::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = fs::read_to_string(path).unwrap_or_default();
                let calls = text.split("start_example(\"").skip(1);
                started.extend(calls.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
            }
        }
        assert_eq!(started, [EXAMPLE.to_owned()].into());
    }
}
