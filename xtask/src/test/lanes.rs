//! Which test program runs when: two lanes, each of which runs one program at a time.
//!
//! The first lane begins with the test that needs a core of its own, the second leaves it that core: meanwhile it runs
//! one test at a time. Then the tests that start processes run beside those in virtual time, and the lane that is
//! ready first goes on with the programs of other crates. Simulations are run in several jobs, the long ones first, so
//! that both lanes have some to the end.

use std::{collections::VecDeque, mem};

use super::parts::Parts;
use crate::built::TestProgram;

/// A test program to run, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    /// Printed before each line.
    pub(super) name: String,
    pub(super) program: TestProgram,
    /// Names of its tests; `None` for all.
    pub(super) tests: Option<Vec<String>>,
    /// Tests at once; `None` for the runner's own choice.
    pub(super) threads: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    First,
    Second,
}

/// Tests at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Width {
    pub(super) simulations: usize,
    pub(super) processes: usize,
}

/// Memory of a test with a control plane and three members, each a real kube-apiserver with its etcd.
const MEMORY_OF_A_FLEET: u64 = 3 << 30;

impl Width {
    /// For a machine with this many cores and bytes of free memory: a core for a simulation, and two waiting tests a
    /// core as far as the memory goes.
    pub(super) fn of(cores: usize, memory: u64) -> Self {
        let fleets = usize::try_from(memory / MEMORY_OF_A_FLEET).unwrap_or(usize::MAX);
        Self { simulations: cores.max(1), processes: (2 * cores).min(fleets).max(1) }
    }
}

/// Tests of a job of simulations, at least, unless there are no more.
const SIMULATIONS: usize = 12;

/// Returns whether the simulations of a module take minutes: they run every script with many faults, or many seeds.
fn is_long(module: &str) -> bool {
    module.ends_with("_matrix") || module.ends_with("_seeds")
}

/// The jobs that are not started.
#[derive(Debug)]
pub(super) struct Plan {
    /// The program that is divided, and its parts.
    large: Option<(TestProgram, Parts)>,
    others: VecDeque<TestProgram>,
    width: Width,
    /// Until its tests have ended.
    paced: bool,
}

impl Plan {
    pub(super) fn new(large: Option<(TestProgram, Parts)>, others: Vec<TestProgram>, width: Width) -> Self {
        let paced = large.as_ref().is_some_and(|(_, parts)| !parts.paced.is_empty());
        let mut large = large;
        if let Some((_, parts)) = &mut large {
            parts.simulations.sort_by_key(|(module, _)| !is_long(module));
        }
        Self { large, others: others.into(), width, paced }
    }

    /// The next job of a lane; `None` if there is none for it any more.
    pub(super) fn next(&mut self, lane: Lane) -> Option<Job> {
        match lane {
            Lane::First => self.processes().or_else(|| self.simulations(1)).or_else(|| self.other(None)),
            Lane::Second if self.paced => self.other(Some(1)).or_else(|| self.simulations(1)),
            Lane::Second => self.simulations(self.width.simulations).or_else(|| self.other(None)),
        }
    }

    /// To be called when a job of the first lane ended.
    pub(super) fn ended(&mut self, lane: Lane) {
        if lane == Lane::First {
            self.paced = false;
        }
    }

    fn other(&mut self, threads: Option<usize>) -> Option<Job> {
        let program = self.others.pop_front()?;
        let target = &program.target;
        let name = match program.member() {
            member if *target == format!("ironclad_{}", member.replace('-', "_")) || *target == member => member,
            member => format!("{member} {target}"),
        };
        Some(Job { name, program, tests: None, threads })
    }

    /// The test that needs a core, then all tests that start processes.
    fn processes(&mut self) -> Option<Job> {
        let width = self.width;
        let (_, parts) = self.large.as_mut()?;
        match mem::take(&mut parts.paced) {
            paced if paced.is_empty() => {
                let tests = mem::take(&mut parts.processes);
                self.part("processes", tests, width.processes)
            }
            paced => self.part("differential", paced, 1),
        }
    }

    /// The simulations of one module, or of several that are short.
    fn simulations(&mut self, threads: usize) -> Option<Job> {
        let (_, parts) = self.large.as_mut()?;
        let (name, mut tests) = (!parts.simulations.is_empty()).then(|| parts.simulations.remove(0))?;
        while tests.len() < SIMULATIONS && !is_long(&name) && !parts.simulations.is_empty() {
            tests.extend(parts.simulations.remove(0).1);
        }
        self.part(&name, tests, threads)
    }

    fn part(&self, name: &str, tests: Vec<String>, threads: usize) -> Option<Job> {
        let (program, _) = self.large.as_ref().filter(|_| !tests.is_empty())?;
        Some(Job { name: name.to_owned(), program: program.clone(), tests: Some(tests), threads: Some(threads) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(member: &str, target: &str) -> TestProgram {
        let folder = format!("/w/crates/{member}").into();
        TestProgram { target: target.to_owned(), folder, path: format!("/t/{member}-{target}").into() }
    }

    fn parts(paced: bool) -> Parts {
        let strings = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Parts {
            paced: if paced { strings(&["differential::slow"]) } else { Vec::new() },
            processes: strings(&["real_env::a", "real_env::b"]),
            simulations: vec![
                ("tenant".to_owned(), strings(&["tenant::a"])),
                ("cron_sim".to_owned(), (0..SIMULATIONS).map(|at| format!("cron_sim::t{at}")).collect()),
                ("foretold".to_owned(), strings(&["foretold::a"])),
                ("node_matrix".to_owned(), strings(&["node_matrix::a"])),
            ],
        }
    }

    const WIDTH: Width = Width { simulations: 2, processes: 4 };

    fn shown(job: Option<Job>) -> String {
        job.map_or("-".to_owned(), |job| {
            let tests = job.tests.map_or("all".to_owned(), |tests| tests.len().to_string());
            format!("{}: {tests} tests, {:?} at once", job.name, job.threads)
        })
    }

    #[test]
    fn one_test_at_a_time_runs_beside_the_one_that_needs_a_core() {
        let others = vec![program("seam", "ironclad_seam"), program("store", "it")];
        let mut plan = Plan::new(Some((program("testkit", "system"), parts(true))), others, WIDTH);
        // The second lane asks first, and is limited all the same.
        for (lane, want) in [
            (Lane::Second, "seam: all tests, Some(1) at once"),
            (Lane::First, "differential: 1 tests, Some(1) at once"),
            (Lane::Second, "store it: all tests, Some(1) at once"),
            (Lane::Second, "node_matrix: 1 tests, Some(1) at once"),
        ] {
            assert_eq!(shown(plan.next(lane)), want);
        }
        plan.ended(Lane::Second);
        assert_eq!(shown(plan.next(Lane::Second)), "tenant: 13 tests, Some(1) at once", "it still runs");
        plan.ended(Lane::First);
        assert_eq!(shown(plan.next(Lane::First)), "processes: 2 tests, Some(4) at once");
        assert_eq!(shown(plan.next(Lane::Second)), "foretold: 1 tests, Some(2) at once");
        assert_eq!((plan.next(Lane::First), plan.next(Lane::Second)), (None, None));
    }

    #[test]
    fn the_lane_that_is_ready_first_goes_on_with_other_crates() {
        let others = vec![program("interpreter-lua", "ironclad_interpreter_lua"), program("ironclad", "ironclad")];
        let mut plan = Plan::new(Some((program("testkit", "system"), parts(false))), others, WIDTH);
        for (lane, want) in [
            (Lane::First, "processes: 2 tests, Some(4) at once"),
            (Lane::Second, "node_matrix: 1 tests, Some(2) at once"),
            (Lane::Second, "tenant: 13 tests, Some(2) at once"),
            (Lane::First, "foretold: 1 tests, Some(1) at once"),
            (Lane::Second, "interpreter-lua: all tests, None at once"),
            (Lane::First, "ironclad: all tests, None at once"),
            (Lane::First, "-"),
            (Lane::Second, "-"),
        ] {
            assert_eq!(shown(plan.next(lane)), want);
        }
    }

    #[test]
    fn without_the_large_program_both_lanes_run_the_others() {
        let others = vec![program("seam", "ironclad_seam"), program("store", "ironclad_store")];
        let mut plan = Plan::new(None, others, WIDTH);
        for (lane, want) in [
            (Lane::First, "seam: all tests, None at once"),
            (Lane::Second, "store: all tests, None at once"),
            (Lane::Second, "-"),
        ] {
            assert_eq!(shown(plan.next(lane)), want);
        }
    }

    #[test]
    fn width_follows_cores_and_memory() {
        for (cores, gib, simulations, processes) in [(2, 23, 2, 4), (2, 7, 2, 2), (1, 1, 1, 1), (8, 64, 8, 16)] {
            let want = Width { simulations, processes };
            assert_eq!(Width::of(cores, gib << 30), want, "{cores} cores, {gib} GiB");
        }
    }
}
