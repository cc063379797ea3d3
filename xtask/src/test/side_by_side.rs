//! Runs test programs in two lanes at once, and prints their lines with the name of what they are of.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};

use anyhow::{Context as _, ensure};

use super::{
    lanes::{Job, Lane, Plan, Width},
    parts::{PROGRAM, Parts},
    totals::Totals,
};
use crate::{built::TestProgram, cargo, stages};

/// Environment of test programs.
pub(super) type Environment = [(&'static str, OsString)];

/// Programs that ran, and those of them that failed.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) totals: Totals,
    /// One line for each program that failed.
    failed: Vec<String>,
}

impl Outcome {
    pub(super) fn result(&self) -> anyhow::Result<()> {
        ensure!(self.failed.is_empty(), "{}", self.failed.join("\n"));
        Ok(())
    }
}

/// Runs all programs to their end, also if some fail.
pub(super) fn run(programs: Vec<TestProgram>, environment: &Environment) -> anyhow::Result<Outcome> {
    let is_large = |program: &TestProgram| (&*program.member(), &*program.target) == PROGRAM;
    let (large, others): (Vec<_>, Vec<_>) = programs.into_iter().partition(is_large);
    let large = large.into_iter().next().map(|program| divide(program, environment)).transpose()?;
    let width = Width::of(thread::available_parallelism().map_or(1, usize::from), free_memory());
    Ok(run_plan(Plan::new(large, others, width), environment))
}

fn divide(program: TestProgram, environment: &Environment) -> anyhow::Result<(TestProgram, Parts)> {
    let listed = cargo::output(command(&program, environment).arg("--list"))?;
    let parts = Parts::of(&String::from_utf8_lossy(&listed)).with_context(|| program.path.display().to_string())?;
    Ok((program, parts))
}

fn run_plan(plan: Plan, environment: &Environment) -> Outcome {
    let (plan, outcome) = (Mutex::new(plan), Mutex::new(Outcome::default()));
    thread::scope(|scope| {
        for lane in [Lane::First, Lane::Second] {
            let (plan, outcome) = (&plan, &outcome);
            scope.spawn(move || {
                while let Some(job) = { locked(plan).next(lane) } {
                    let (totals, result) = run_job(&job, environment);
                    let mut outcome = locked(outcome);
                    outcome.totals.merge(totals);
                    outcome.failed.extend(result.err().map(|error| format!("{}: {error:#}", job.name)));
                    locked(plan).ended(lane);
                }
            });
        }
    });
    outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run_job(job: &Job, environment: &Environment) -> (Totals, anyhow::Result<()>) {
    let mut totals = Totals::default();
    let (result, took) = stages::timed(|| run_to_end(job, environment, &mut totals));
    print_line(&job.name, &format!("ended after {:.1} s", took.as_secs_f64()));
    (totals, result)
}

fn run_to_end(job: &Job, environment: &Environment, totals: &mut Totals) -> anyhow::Result<()> {
    let mut command = command(&job.program, environment);
    if let Some(threads) = job.threads {
        command.arg("--test-threads").arg(threads.to_string());
    }
    if let Some(tests) = &job.tests {
        command.arg("--exact").args(tests);
    }
    let shown = job.program.path.display();
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| format!("{shown} can't be run"))?;
    let output = child.stdout.take().context("a test program's output is a pipe")?;
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("a test program's output")?;
        let line = String::from_utf8_lossy(&line);
        totals.add(&line);
        print_line(&job.name, &line);
    }
    let status = child.wait()?;
    ensure!(status.success(), "{shown} ended with {status}");
    // A name that the runner does not know is no error of the runner.
    let wanted = job.tests.as_ref().map_or(totals.tests() as usize, Vec::len);
    ensure!(totals.tests() as usize == wanted, "{shown} ran {} of {wanted} tests", totals.tests());
    Ok(())
}

/// In the environment that cargo gives test programs at run time.
fn command(program: &TestProgram, environment: &Environment) -> Command {
    let mut command = Command::new(&program.path);
    command.current_dir(&program.folder).stdin(Stdio::null()).env("CARGO_MANIFEST_DIR", &program.folder);
    command.env("CARGO", env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command
}

fn print_line(name: &str, line: &str) {
    println!("{name} | {line}");
}

/// Bytes that programs can take without swapping; unknown is much.
fn free_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = available.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A script that answers like a test program, whose tests are named in its first lines.
    fn program(folder: &Path, member: &str, target: &str, script: &str) -> TestProgram {
        let home = folder.join(member);
        fs::create_dir_all(&home).unwrap();
        let path = home.join(format!("{target}.sh"));
        // By another process: a child that another test starts meanwhile would inherit the open file, and a file that
        // is open for writing can't be run.
        let mut writing = Command::new("sh");
        writing.args(["-c", "printf '#!/bin/sh\\n%s' \"$1\" > \"$0\" && chmod 755 \"$0\""]).arg(&path).arg(script);
        assert!(writing.status().unwrap().success());
        TestProgram { target: target.to_owned(), folder: home, path }
    }

    /// Lists three tests; runs those that are named after `--exact`, which `cron_sim::lost` never is.
    const LARGE: &str = r#"
        if [ "$1" = --list ]; then
            printf 'real_env::starts: test\ncron_sim::a: test\ncron_sim::lost: test\n\n3 tests, 0 benchmarks\n'
            exit 0
        fi
        count=0
        for name in "$@"; do
            case $name in
                --* | [0-9]* | $LOST) ;;
                *) count=$((count + 1)); echo "test $name ... ok" ;;
            esac
        done
        echo "test result: ok. $count passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s"
    "#;

    #[test]
    fn all_programs_run_and_failures_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let failing = "echo 'test a::b ... FAILED'; echo '---- a::b stdout ----'; pwd; echo 'failures:'; \
             echo 'test result: FAILED. 1 passed; 1 failed; 2 ignored; 0 measured'; exit 101";
        let programs = vec![
            program(folder.path(), "testkit", "system", LARGE),
            program(folder.path(), "seam", "ironclad_seam", failing),
            program(folder.path(), "store", "it", "echo 'test result: ok. 7 passed; 0 failed; 0 ignored'"),
        ];
        let outcome = run(programs, &[("LOST", "no-test".into())]).unwrap();
        assert_eq!(outcome.totals.to_string(), "all runners (4): 11 passed; 1 failed; 2 ignored");
        let failure = &outcome.totals.failures[0];
        assert_eq!(failure.name, "a::b");
        assert!(failure.output[0].ends_with("/seam"), "it runs in its crate's folder: {:?}", failure.output);
        let error = outcome.result().unwrap_err().to_string();
        assert!(error.starts_with("seam: ") && error.ends_with("ended with exit status: 101"), "{error}");
    }

    #[test]
    fn a_test_that_a_runner_leaves_out_is_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let programs = vec![program(folder.path(), "testkit", "system", LARGE)];
        let outcome = run(programs, &[("LOST", "cron_sim::lost".into())]).unwrap();
        let error = outcome.result().unwrap_err().to_string();
        assert!(error.starts_with("cron_sim: ") && error.ends_with("ran 1 of 2 tests"), "{error}");
    }
}
