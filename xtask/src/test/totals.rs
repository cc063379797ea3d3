//! The closing lines of test runners, added up, and what failed.

use std::collections::VecDeque;

/// Lines of a failed test's output that are repeated at the end.
const OUTPUT_MAX: usize = 40;
/// Characters of such a line.
const LINE_MAX: usize = 600;

/// The closing lines of all runners, added up, and what failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) runners: u32,
    passed: u32,
    failed: u32,
    ignored: u32,
    pub(super) failures: Vec<FailedTest>,
    /// Index of the failure whose output is being read.
    reading: Option<usize>,
}

/// A test that failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FailedTest {
    pub(super) name: String,
    /// Its last lines.
    pub(super) output: VecDeque<String>,
}

impl std::fmt::Display for FailedTest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

impl Totals {
    /// Takes in a line of a runner's output, if it is its closing line or about a failure.
    pub(super) fn add(&mut self, line: &str) {
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

    /// Adds those of another runner, whose output is complete.
    pub(super) fn merge(&mut self, other: Self) {
        self.runners += other.runners;
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.failures.extend(other.failures);
    }

    /// Tests that ended or are marked as ignored.
    pub(super) fn tests(&self) -> u32 {
        self.passed + self.failed + self.ignored
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

    #[test]
    fn runners_side_by_side_do_not_mix_the_output_of_their_failures() {
        let (mut all, mut one, mut other) = (Totals::default(), Totals::default(), Totals::default());
        // Two runners with a test of the same name, whose lines arrive in turn.
        for (first, second) in [
            ("test tests::it_holds ... FAILED", "test tests::it_holds ... FAILED"),
            ("---- tests::it_holds stdout ----", "---- tests::it_holds stdout ----"),
            ("of the first", "of the second"),
            (
                "test result: FAILED. 0 passed; 1 failed; 0 ignored",
                "test result: FAILED. 2 passed; 1 failed; 0 ignored",
            ),
        ] {
            one.add(first);
            other.add(second);
        }
        assert_eq!((one.tests(), other.tests()), (1, 3));
        all.merge(one);
        all.merge(other);
        assert_eq!(all.to_string(), "all runners (2): 2 passed; 2 failed; 0 ignored");
        let outputs: Vec<&str> = all.failures.iter().flat_map(|failure| &failure.output).map(String::as_str).collect();
        assert_eq!(outputs, ["of the first", "of the second"]);
    }
}
