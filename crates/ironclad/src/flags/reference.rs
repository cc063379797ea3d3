//! Flags of `run` and `up` against the tables of the specification: names and defaults (specification/operations.md 8
//! and 9, specification/api.md 14, specification/admission.md 1).

use std::collections::{BTreeMap, BTreeSet};

use clap::CommandFactory as _;
use ironclad_api::gates::Gate;
use ironclad_controllers::RunsIn;
use ironclad_reference::Reference;

use super::accepted::ACCEPTED;
use crate::Ironclad;

/// Programs that are another verb here.
const OTHER_PROGRAMS: [&str; 1] = ["estimator"];

/// Defaults that differ from the table's, and why.
const OTHER_DEFAULTS: [(&str, &str, &str); 4] = [
    ("metrics-bind-address", "127.0.0.1:10357", "one listener, on loopback (operations.md 7.2)"),
    ("skipped-propagating-apis", "", "the built-in list is skipped besides what is given"),
    ("enable-taint-manager", "", "retired: --controllers decides, and so it says nothing unless it is given"),
    ("eviction-warm-up", "", "follows --cluster-monitor-grace-period, whatever that is"),
];

/// Cells that shorten the names of their flags.
const SHORTENED: [(&str, &[&str]); 7] = [
    ("`--horizontal-pod-autoscaler-upscale-delay`", &["horizontal-pod-autoscaler-downscale-delay"]),
    ("`--kube-api-qps`", &["kube-api-burst"]),
    ("`--kube-api-qps/-burst`", &["kube-api-burst"]),
    ("`--cluster-api-qps`", &["cluster-api-burst"]),
    ("`--rate-limiter-base-delay`", &["rate-limiter-max-delay", "rate-limiter-qps", "rate-limiter-bucket-size"]),
    ("`--scheduler-estimator-port/", &["scheduler-estimator-service-namespace", "scheduler-estimator-ca-file"]),
    (
        "`--concurrent-*-syncs`",
        &[
            "concurrent-cluster-syncs",
            "concurrent-work-syncs",
            "concurrent-resourcebinding-syncs",
            "concurrent-clusterresourcebinding-syncs",
            "concurrent-resource-template-syncs",
            "concurrent-dependent-resource-syncs",
            "concurrent-namespace-syncs",
            "concurrent-propagation-policy-syncs",
            "concurrent-cluster-propagation-policy-syncs",
        ],
    ),
];

/// Flags of a verb with their default; empty if there is none.
fn flags(verb: &str) -> BTreeMap<String, String> {
    let tree = Ironclad::command();
    let verb = tree.find_subcommand(verb).unwrap();
    let default = |arg: &clap::Arg| {
        let values = arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned());
        values.collect::<Vec<_>>().join(",")
    };
    verb.get_arguments().filter_map(|arg| Some((arg.get_long()?.to_owned(), default(arg)))).collect()
}

/// Flags that a cell names, in its order, with their defaults.
fn named(cell: &str, default: &str) -> Vec<(String, Option<String>)> {
    let words = cell.split('`').skip(1).step_by(2);
    let mut names: Vec<String> = words
        .filter_map(|word| word.strip_prefix("--"))
        .map(|word| word.split(['/', '=']).next().unwrap_or_default().to_owned())
        .filter(|name| !name.contains('*'))
        .collect();
    for (start, more) in SHORTENED {
        if cell.starts_with(start) || cell.contains(&format!(", {start}")) {
            names.extend(more.iter().map(|name| (*name).to_owned()));
        }
    }
    // `**true** (upstream false)`, `15s / 10s`, and a list where the row has several flags.
    let plain = default.replace("**", "").replace('`', "");
    let plain = plain.split(" (").next().unwrap_or_default();
    let values: Vec<&str> = match names.len() {
        1 if cell.starts_with("`--controllers`") => vec!["*"],
        1 => vec![plain.split(" of ").next().unwrap_or_default().trim()],
        _ => plain.split([',', '/']).map(str::trim).collect(),
    };
    let value = |at: usize| -> Option<String> {
        let value = values.get(at).filter(|_| values.len() == names.len())?;
        Some(if ["–", "empty", "off"].contains(value) { String::new() } else { (*value).to_owned() })
    };
    let values: Vec<_> = (0..names.len()).map(value).collect();
    names.into_iter().zip(values).collect()
}

fn every_row() -> Vec<(String, Option<String>)> {
    let mut all = Vec::new();
    for (reference, anchor, flag, default) in [
        (Reference::Operations, "### 8.1", "flag", "default"),
        (Reference::Operations, "### 8.3", "flag", "default"),
        (Reference::Operations, "### 8.5", "flag", "default"),
        (Reference::Api, "## 14. Feature gates and failover flags (second table)", "Flag", "Default"),
        (Reference::Admission, "## 1. ", "Flag", "Default"),
    ] {
        let table = reference.table(anchor);
        for row in &table.rows {
            if !OTHER_PROGRAMS.contains(&table.cell(row, "process")) {
                let cell = table.cell(row, flag);
                // Two tables name the flag without back quotes.
                let cell = if cell.starts_with("--") {
                    format!("`{}`", cell.split(' ').next().unwrap())
                } else {
                    cell.to_owned()
                };
                all.extend(named(&cell, table.cell(row, default)));
            }
        }
    }
    all
}

#[test]
fn flags_and_defaults_equal_the_tables() {
    let run = flags("run");
    let accepted: BTreeSet<&str> = ACCEPTED.iter().map(|(flag, _)| *flag).collect();
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for (flag, default) in every_row() {
        let Some(is) = run.get(&flag) else {
            wrong.push(format!("--{flag} is not taken"));
            continue;
        };
        if accepted.contains(flag.as_str()) {
            continue;
        }
        let want = match OTHER_DEFAULTS.iter().find(|(other, ..)| *other == flag) {
            Some((_, other, _)) => Some((*other).to_owned()),
            None => default,
        };
        let Some(want) = want else { continue };
        compared += 1;
        // Rates have a unit in one of the tables, feature gates the location of their list.
        let want = want.trim_end_matches(" /s");
        if *is != want && flag != "feature-gates" && !want.contains(':') {
            wrong.push(format!("--{flag} is {is:?} by default, by the table {want:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 40, "only {compared} defaults were compared");
}

#[test]
fn up_has_the_flags_of_run_except_webhooks() {
    let (run, up) = (flags("run"), flags("up"));
    let missing: Vec<&String> = run
        .keys()
        .filter(|flag| !up.contains_key(*flag))
        .filter(|flag| {
            !["webhook-", "metrics-adapter-", "explain-", "proxy-", "clusters-", "dashboard-"]
                .iter()
                .any(|area| flag.starts_with(area))
        })
        .collect();
    assert_eq!(
        missing,
        [
            "aggregate-clusters", "context", "install", "script-state-dir", "serve-legacy-binding-api",
            "take-over-karmada"
        ]
    );
}

/// specification/operations.md 9: the row of the controller manager, and our own Lease below it.
#[test]
fn lease_durations_equal_the_table() {
    let table = Reference::Operations.table("## 9. ");
    let run = flags("run");
    let times =
        ["lease-duration", "renew-deadline", "retry-period"].map(|time| run[&format!("leader-elect-{time}")].clone());
    for row in &table.rows {
        assert_eq!(times.join(" / "), row[2], "{}", row[0]);
    }
    let names: Vec<&str> = table.rows[..3].iter().filter_map(|row| row[1].split('`').nth(1)).collect();
    assert_eq!(names, crate::leader::OF_KARMADA, "which --take-over-karmada holds");
}

/// specification/operations.md 8.1: the controllers that `--controllers` knows, and which of them are off.
#[test]
fn controllers_are_those_of_the_table() {
    // The first sentence, without the proposals that it names in brackets.
    fn names(text: &str) -> BTreeSet<&str> {
        let plain = text.split(['.', '*']).next().unwrap_or_default();
        let words = plain.split([',', ' ']).filter(|word| !word.is_empty() && *word != "and");
        words.filter(|word| *word != "(proposal" && !word.ends_with(')')).collect()
    }
    let table = Reference::Operations.table("### 8.1");
    let (known, off) = table.rows[0][2].split_once("Known: ").unwrap().1.split_once("**Off by default: ").unwrap();
    let (of_karmada, ours) = known.split_once("; Ironclad's own: ").unwrap();
    let listed: BTreeSet<&str> = names(of_karmada).into_iter().chain(names(ours)).collect();
    let all: BTreeSet<&str> = ironclad_controllers::controller_names().into_iter().collect();
    assert_eq!(all, listed);
    let list = ironclad_controllers::ControllerList::default();
    let is_off: BTreeSet<&str> = all.into_iter().filter(|name| !list.enabled(name)).collect();
    assert_eq!(is_off, names(off));
}

/// specification/operations.md 8.6, whose list is a text: the gates besides those of specification/api.md 14, which
/// tests of `api` compare.
#[test]
fn gates_for_all_of_a_stage_are_understood() {
    for gates in ["AllAlpha=true", "AllBeta=false", "AllAlpha=true,AllBeta=true"] {
        assert!(ironclad_fleet::gates::Gates::parse(gates).is_ok(), "{gates}");
    }
    assert!(ironclad_fleet::gates::Gates::parse("Nope=true").is_err());
    assert_eq!(Gate::ALL.len(), Reference::Api.table("## 14.").rows.len());
}

/// specification/operations.md 2.2: which verbs there are.
#[test]
fn verbs_are_those_of_the_table() {
    let mut unlisted: BTreeSet<String> =
        Ironclad::command().get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    let table = Reference::Operations.table("### 2.2");
    let mut compared = 0;
    for row in &table.rows {
        let want = match table.cell(row, "Ironclad").split([' ', ';', ':']).next() {
            Some("yes") => true,
            Some("no" | "not") => false,
            _ => panic!("{row:?}"),
        };
        let verbs: BTreeSet<&str> =
            row[0].split('`').skip(1).step_by(2).filter_map(|words| words.split(' ').next()).collect();
        compared += verbs.len();
        for verb in verbs {
            assert_eq!(unlisted.remove(verb), want, "{verb} of {row:?}");
        }
    }
    assert!(compared > 45, "only {compared} verbs were compared");
    assert!(unlisted.is_empty(), "the table does not list {unlisted:?}");
}

/// The verbs at the ends of the tree, by the words that lead to them.
fn leaves() -> BTreeMap<String, clap::Command> {
    fn walk(command: &clap::Command, path: &str, into: &mut BTreeMap<String, clap::Command>) {
        for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
            let path = format!("{path} {}", verb.get_name()).trim_start().to_owned();
            walk(verb, &path, into);
            if verb.get_subcommands().all(|verb| verb.get_name() == "help") {
                into.insert(path, verb.clone());
            }
        }
    }
    let (mut tree, mut leaves) = (Ironclad::command(), BTreeMap::new());
    tree.build();
    walk(&tree, "", &mut leaves);
    leaves
}

/// Verbs of each flag of specification/operations.md 2.1, by the prefix of its row (`*` for all), and other names that
/// it must have.
const SHARED: [(&str, &[&str], &[&str]); 8] = [
    (
        "`--kubeconfig`",
        &[
            "backup", "cordon", "crds", "doctor", "drain", "failover pause", "failover resume", "failover status",
            "get", "join", "logs", "plan apply", "plan cluster-loss", "plan rate", "plan taint", "register", "run",
            "sim add", "sim list", "sim load", "taint", "token create", "token delete", "token list", "top cluster",
            "top node", "top pod", "tree", "uncordon", "unjoin", "unregister", "why evicted", "why not",
        ],
        &[],
    ),
    ("`--karmada-context`", &["get", "join", "register", "top pod", "plan apply", "why not"], &["context"]),
    ("`-n, --namespace`", &["get", "logs", "tree", "why not", "top pod", "drain", "plan apply"], &[]),
    ("`-s, --operation-scope`", &["get"], &[]),
    ("`-C, --cluster`", &["get", "logs", "top pod"], &["clusters"]),
    ("`--dry-run`", &["cordon", "uncordon", "taint", "join", "unjoin", "register", "unregister", "drain"], &[]),
    ("`-v`", &["*"], &[]),
    ("`--cluster-namespace`", &["join", "unjoin", "register", "unregister"], &[]),
];

/// specification/operations.md 2.1: a shared flag has the same spelling and default on every verb.
#[test]
fn flags_that_verbs_share_are_those_of_the_table() {
    let leaves = leaves();
    let table = Reference::Operations.table("### 2.1");
    assert_eq!(table.rows.len(), SHARED.len());
    for (row, (start, verbs, more)) in table.rows.iter().zip(SHARED) {
        assert!(row[0].starts_with(start), "{row:?}");
        let words: Vec<&str> = row[0].split(['`', ',', '/', ' ']).filter(|word| word.starts_with('-')).collect();
        let longs = words.iter().filter_map(|word| word.strip_prefix("--")).chain(more.iter().copied());
        let shorts: Vec<char> =
            words.iter().filter(|word| word.len() == 2).filter_map(|word| word.chars().nth(1)).collect();
        let of_all = verbs == ["*"];
        for long in longs {
            for path in leaves.keys().map(String::as_str).filter(|path| of_all || verbs.contains(path)) {
                let verb = &leaves[path];
                let named = |arg: &&clap::Arg| {
                    arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|all| all.contains(&long))
                };
                let arg = verb.get_arguments().find(named).unwrap_or_else(|| panic!("{path} has no --{long}"));
                assert_eq!(arg.get_short().into_iter().collect::<Vec<_>>(), shorts, "{path} --{long}");
                let default: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
                // Backticks mark a default; other text describes its source.
                let want = row[1].trim_matches('`');
                match want {
                    "karmada-cluster" | "0" => assert_eq!(default, [want], "{path} --{long}"),
                    // With -C the default is a context of the members; the help says so.
                    "karmada" => assert!(arg.get_help().unwrap().to_string().contains("default: karmada"), "{path}"),
                    // Kubectl's word for it.
                    "false" => assert_eq!(default, ["none"], "{path} --{long}"),
                    _ => assert_eq!(default, Vec::<String>::new(), "{path} --{long}"),
                }
            }
        }
        assert!(
            of_all || verbs.iter().all(|verb| leaves.contains_key(*verb)),
            "{start}: {verbs:?} of {:?}",
            leaves.keys()
        );
    }
    let scopes = leaves["get"].get_arguments().find(|arg| arg.get_long() == Some("operation-scope")).unwrap();
    let words: Vec<String> = scopes.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    let listed: Vec<&str> = table.rows[3][2].split('`').skip(1).step_by(2).collect();
    assert_eq!(words, listed);
    // No other flag uses -n, -s, -C or these names.
    for (path, verb) in &leaves {
        for arg in verb.get_arguments() {
            let shorts = [('n', "namespace"), ('s', "operation-scope"), ('C', "clusters"), ('v', "v")];
            for (short, long) in shorts {
                assert!(arg.get_short() != Some(short) || arg.get_long() == Some(long), "{path} -{short}");
            }
        }
    }
}

/// specification/operations.md 8.2: an agent has all flags of Karmada's, with their defaults except where it renews
/// certificates by itself.
#[test]
fn flags_of_agents_are_those_of_the_table() {
    let leaves = leaves();
    let table = Reference::Operations.table("### 8.2");
    let agent = &leaves["agent"];
    for row in &table.rows {
        let cell = row[0].replace("`, `", ",").replace("/-", ",--cluster-");
        let names = cell.trim_matches('`').split(',').map(|name| name.trim().trim_start_matches('-').to_owned());
        for name in names {
            let is_it = |arg: &&clap::Arg| {
                arg.get_long() == Some(&*name) || arg.get_all_aliases().is_some_and(|all| all.contains(&&*name))
            };
            let arg = agent.get_arguments().find(is_it).unwrap_or_else(|| panic!("agents lack --{name}"));
            let default = arg.get_default_values().first().and_then(|value| value.to_str()).unwrap_or_default();
            match name.as_str() {
                "cluster-namespace" => assert_eq!(row[1].split(',').next(), Some(default), "{name}"),
                _ if name.starts_with("cluster-") => {
                    let want = if row[1].ends_with('–') { "" } else { &*row[1] };
                    assert_eq!(default, want, "{name}");
                }
                _ => {}
            }
        }
        if row[0].contains("--controllers") {
            let list = row[1].split_once(" of ").unwrap().1;
            let names: Vec<&str> = list.split(", ").map(|name| name.split(' ').next().unwrap()).collect();
            let (own, shared): (Vec<&str>, Vec<&str>) = names.into_iter().partition(|name| *name == "certRotation");
            let mut in_agents = ironclad_controllers::controller_rows();
            in_agents.retain(|row| row.runs_in == RunsIn::ControlPlaneAndAgent);
            let in_agents: BTreeSet<&str> = in_agents.iter().map(|row| row.name).collect();
            assert_eq!((own.len(), shared.into_iter().collect()), (1, in_agents), "controllers that agents run");
        }
    }
}
