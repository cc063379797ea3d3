//! The parts of the large test program, which run side by side: tests that start real processes mostly wait, and tests
//! in virtual time take a core each.

use anyhow::{Context as _, bail, ensure};

/// Crate and target of the program.
pub(super) const PROGRAM: (&str, &str) = ("testkit", "system");

/// Modules of the program whose tests start processes, or use real time and sockets.
const PROCESSES: [&str; 48] = [
    "admission_real", "authorization", "autoscalers", "autoscaling_real", "backup_up", "bad_input", "capacity_up",
    "certificates_up", "clients", "clients_kube_rs", "clients_restart", "clusters_real", "crds_real", "credentials_up",
    "dashboard_run", "dashboard_up", "differential", "evictions_up", "explain_real", "failover_real", "failover_up",
    "flows_up", "installed_real", "interpreter_webhook_go", "interpreter_webhook_up", "kill_loop", "kubectl_lines",
    "limits_up", "member_controllers", "metrics_real", "metrics_up", "nodes_up", "old_member", "preemption_up",
    "promote_up", "propagation_real", "propagation_up", "proxied_members", "proxy_up", "pull_up", "real_env",
    "settings_real", "shown", "sim_up", "takeover_real", "tenant_up", "upgrade_up", "verbs_up",
];

/// Calls webhooks that have a deadline, and so needs a core of its own.
const PACED: &str = "differential::the_embedded_server_answers_like_a_real_one";

/// The tests of a program by part: each test is in one of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    /// Needs a core of its own.
    pub(super) paced: Vec<String>,
    /// Start processes.
    pub(super) processes: Vec<String>,
    /// In virtual time, by module.
    pub(super) simulations: Vec<(String, Vec<String>)>,
}

impl Parts {
    /// Divides what a program prints with `--list`.
    pub(super) fn of(listed: &str) -> anyhow::Result<Self> {
        let (names, count) = names(listed)?;
        let mut parts = Self::default();
        for name in names {
            let module = name.split("::").next().unwrap_or(&name);
            if name == PACED {
                parts.paced.push(name);
            } else if PROCESSES.contains(&module) {
                parts.processes.push(name);
            } else {
                match parts.simulations.last_mut().filter(|(last, _)| last == module) {
                    Some((_, tests)) => tests.push(name),
                    None => parts.simulations.push((module.to_owned(), vec![name])),
                }
            }
        }
        let simulations = parts.simulations.iter().flat_map(|(_, tests)| tests);
        let mut all: Vec<&String> = parts.paced.iter().chain(&parts.processes).chain(simulations).collect();
        all.sort();
        all.dedup();
        ensure!(all.len() == count, "the parts have {} different tests, and the program has {count}", all.len());
        Ok(parts)
    }
}

/// The names of all tests, and the number that the program itself gives at the end.
fn names(listed: &str) -> anyhow::Result<(Vec<String>, usize)> {
    let mut names = Vec::new();
    for line in listed.lines().filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_suffix(": test") {
            names.push(name.to_owned());
        } else if let Some((count, _)) = line.split_once(" tests, ").or_else(|| line.split_once(" test, ")) {
            let count = count.parse().with_context(|| format!("no number of tests: {line:?}"))?;
            return Ok((names, count));
        } else {
            bail!("not a line of a list of tests: {line:?}");
        }
    }
    bail!("the list of tests ends without their number")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_test_is_in_one_part() {
        let listed = format!(
            "capacity_rows::one: test\ncapacity_rows::two: test\n{PACED}: test\ndifferential::enough: test\n\
             tenant::reaches_nothing: test\nsim_up::verbs: test\n\n6 tests, 0 benchmarks\n"
        );
        let strings = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let want = Parts {
            paced: strings(&[PACED]),
            processes: strings(&["differential::enough", "sim_up::verbs"]),
            simulations: vec![
                ("capacity_rows".to_owned(), strings(&["capacity_rows::one", "capacity_rows::two"])),
                ("tenant".to_owned(), strings(&["tenant::reaches_nothing"])),
            ],
        };
        assert_eq!(Parts::of(&listed).unwrap(), want);
        for (name, listed, part) in [
            ("a test is lost", "a::b: test\n\n2 tests, 0 benchmarks\n", "1 different tests, and the program has 2"),
            ("a test is there twice", "a::b: test\na::b: test\n\n2 tests, 0 benchmarks\n", "1 different tests"),
            ("the list is cut off", "a::b: test\n", "without their number"),
            ("another output", "a::b: bench\n", "a::b: bench"),
        ] {
            let error = Parts::of(listed).unwrap_err().to_string();
            assert!(error.contains(part), "{name}: {error}");
        }
        assert_eq!(Parts::of("a: test\n\n1 test, 0 benchmarks\n").unwrap().simulations.len(), 1);
    }

    #[test]
    fn modules_with_processes_are_those_whose_sources_name_them() {
        let folder = crate::cargo::workspace_root().join("crates/testkit/tests/it");
        let main = fs::read_to_string(folder.join("main.rs")).unwrap();
        let mut named = Vec::new();
        for module in main.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';')) {
            let mut text = fs::read_to_string(folder.join(format!("{module}.rs"))).unwrap_or_default();
            for file in fs::read_dir(folder.join(module)).into_iter().flatten() {
                text += &fs::read_to_string(file.unwrap().path()).unwrap();
            }
            let uses = ["RealEnv", "Daemon", "Binaries", "TcpListener", "differential::", "binary::"];
            let has_tests = text.contains("#[test") || text.contains("#[tokio::test");
            if has_tests && uses.iter().any(|name| text.contains(name)) {
                named.push(module.to_owned());
            }
        }
        assert_eq!(named, PROCESSES, "the list in this file, in the order of tests/it/main.rs");
    }
}
