//! Dependencies between crates: the arrows of ARCHITECTURE.md, checked over `cargo metadata`.
//!
//! A crate may depend on the crates in its row and on everything below them. Tests of the edge may depend sideways, on
//! a server for example, but not upwards: dependents of a crate would be built twice for its tests. The core is built
//! without IO, timers and randomness.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::{Graph, Package};

/// Layer of a crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// Pure functions of plain values.
    Core,
    /// Does IO.
    Edge,
}
use Side::{Core, Edge};

/// Each crate of the workspace, its layer, and the crates of the workspace that it builds on.
const CRATES: [(&str, Side, &[&str]); 37] = [
    ("ironclad-reference", Core, &[]),
    ("ironclad-noschema", Core, &[]),
    ("ironclad-quantity", Core, &[]),
    ("ironclad-quota", Core, &["ironclad-quantity"]),
    ("ironclad-cron", Core, &[]),
    ("ironclad-patch", Core, &["ironclad-quantity"]),
    ("ironclad-kinds", Core, &[]),
    ("ironclad-options", Core, &["ironclad-patch"]),
    (
        "ironclad-api",
        Core,
        &["ironclad-kinds", "ironclad-noschema", "ironclad-patch", "ironclad-quantity", "ironclad-reference"],
    ),
    ("ironclad-jsonpath", Core, &[]),
    ("ironclad-hpa", Core, &["ironclad-options", "ironclad-patch", "ironclad-quantity"]),
    ("ironclad-autoscaling", Core, &["ironclad-cron", "ironclad-hpa", "ironclad-propagation"]),
    ("ironclad-fleet", Core, &["ironclad-api"]),
    ("ironclad-interpreter", Core, &["ironclad-fleet", "ironclad-patch"]),
    ("ironclad-scheduling", Core, &["ironclad-fleet", "ironclad-options"]),
    ("ironclad-propagation", Core, &["ironclad-fleet", "ironclad-interpreter"]),
    ("ironclad-failover", Core, &["ironclad-jsonpath", "ironclad-patch", "ironclad-scheduling"]),
    (
        "ironclad-planning",
        Core,
        &[
            "ironclad-autoscaling", "ironclad-failover", "ironclad-interpreter", "ironclad-patch",
            "ironclad-propagation", "ironclad-scheduling",
        ],
    ),
    (
        "ironclad-admission",
        Core,
        &["ironclad-cron", "ironclad-failover", "ironclad-interpreter", "ironclad-patch", "ironclad-propagation"],
    ),
    ("ironclad-interpreter-lua", Edge, &["ironclad-interpreter"]),
    ("ironclad-seam", Edge, &[]),
    ("ironclad-serving", Edge, &["ironclad-seam"]),
    ("ironclad-dashboard", Edge, &["ironclad-serving"]),
    ("ironclad-store", Edge, &["ironclad-seam"]),
    (
        "ironclad-apiserver",
        Edge,
        &[
            "ironclad-store", "ironclad-cron", "ironclad-jsonpath", "ironclad-patch", "ironclad-quantity",
            "ironclad-quota", "ironclad-seam", "ironclad-serving",
        ],
    ),
    ("ironclad-runtime", Edge, &["ironclad-kinds", "ironclad-seam", "ironclad-serving"]),
    (
        "ironclad-kubecontrollers",
        Edge,
        &["ironclad-runtime", "ironclad-cron", "ironclad-hpa", "ironclad-patch", "ironclad-quota"],
    ),
    ("ironclad-simcluster", Edge, &["ironclad-apiserver", "ironclad-kubecontrollers"]),
    ("ironclad-members", Edge, &["ironclad-hpa", "ironclad-runtime", "ironclad-scheduling"]),
    ("ironclad-membermetrics", Edge, &[ALL_OF_THE_CORE, "ironclad-members"]),
    ("ironclad-estimator", Edge, &["ironclad-members", "ironclad-serving"]),
    (
        "ironclad-controllers",
        Edge,
        &[ALL_OF_THE_CORE, "ironclad-estimator", "ironclad-interpreter-lua", "ironclad-membermetrics"],
    ),
    ("ironclad-extension", Edge, &[ALL_OF_THE_CORE, "ironclad-apiserver", "ironclad-membermetrics"]),
    (
        "ironclad-cli",
        Edge,
        &[ALL_OF_THE_CORE, "ironclad-dashboard", "ironclad-estimator", "ironclad-interpreter-lua", "ironclad-runtime"],
    ),
    ("ironclad", Edge, &[EVERYTHING]),
    ("ironclad-testkit", Edge, &[EVERYTHING]),
    ("xtask", Edge, &[]),
];

/// Every crate whose side is [`Core`].
const ALL_OF_THE_CORE: &str = "the core";
/// Every crate except those that depend on everything themselves.
const EVERYTHING: &str = "everything";

/// Third-party crates that the core must not depend on, even indirectly: with them a decision could block, do IO,
/// read a clock or draw random numbers.
const NOT_IN_THE_CORE: [&str; 17] = [
    "axum", "futures-executor", "hyper", "hyper-util", "kube", "kube-client", "kube-runtime", "mlua", "parking_lot",
    "rand", "redb", "rustls", "tokio", "tokio-rustls", "tokio-util", "tonic", "tower",
];

/// Third-party crates that only these crates may declare, so that their use is in one place.
const RESERVED: [(&str, &[&str]); 7] = [
    ("redb", &["ironclad-store"]),
    ("axum", &["ironclad"]),
    ("rand_chacha", &["ironclad-seam"]),
    ("mlua", &["ironclad-interpreter-lua"]),
    ("tonic", &["ironclad-estimator"]),
    ("clap", &["ironclad", "ironclad-cli", "ironclad-testkit", "xtask"]),
    (
        "kube",
        &[
            "ironclad", "ironclad-cli", "ironclad-controllers", "ironclad-estimator", "ironclad-extension",
            "ironclad-kubecontrollers", "ironclad-membermetrics", "ironclad-members", "ironclad-runtime",
            "ironclad-simcluster", "ironclad-testkit",
        ],
    ),
];

/// Exceptions for the core, with the crate that depends on each: the parser of CEL, behind a feature of
/// `ironclad-patch` that only the API server enables, locks the tables of its grammar while it reads them.
const TOLERATED: [(&str, &str); 1] = [("parking_lot", "antlr4rust")];

/// Returns the crates of the workspace that `name` may depend on.
fn below(name: &str) -> BTreeSet<&'static str> {
    let arrows: BTreeMap<&str, &[&str]> = CRATES.iter().map(|(name, _, to)| (*name, *to)).collect();
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = arrows.get(name).map(|to| to.to_vec()).unwrap_or_default();
    while let Some(next) = open.pop() {
        for (candidate, side, to) in &CRATES {
            let meant = match next {
                ALL_OF_THE_CORE => *side == Core,
                EVERYTHING => !to.contains(&EVERYTHING) && *candidate != "xtask",
                _ => *candidate == next,
            };
            if meant && found.insert(*candidate) {
                open.extend(*to);
            }
        }
    }
    found
}

fn violations(graph: &Graph) -> Vec<String> {
    graph.members().flat_map(|package| violations_of(graph, package)).collect()
}

fn violations_of(graph: &Graph, package: &Package) -> Vec<String> {
    let name = &*package.name;
    let Some((_, side, _)) = CRATES.iter().find(|(known, _, _)| *known == name) else {
        return vec![format!("{name} is not in the table of xtask/src/guard/arrows.rs: list its dependencies there")];
    };
    let allowed = below(name);
    let ours: BTreeSet<&str> = graph.members().map(|member| &*member.name).collect();
    let mut violations = Vec::new();
    for dependency in &package.dependencies {
        let to = &*dependency.name;
        let is_sideways = || *side == Edge && !below(to).contains(name);
        let is_allowed = allowed.contains(to) || (dependency.kind.as_deref() == Some("dev") && is_sideways());
        if ours.contains(to) && !is_allowed {
            violations.push(format!("{name} may not depend on {to}: an arrow never runs back up"));
        }
        let reserved = RESERVED.iter().find(|(outside, _)| *outside == to);
        if let Some((_, holders)) = reserved.filter(|_| dependency.kind.as_deref() != Some("dev"))
            && !holders.contains(&name)
        {
            violations.push(format!("{name} may not depend on {to}: that is for {}", holders.join(", ")));
        }
    }
    if *side == Core {
        let reached = graph.reached_by(package);
        for outside in NOT_IN_THE_CORE {
            if let Some(by) = reached.get(outside).filter(|by| !TOLERATED.contains(&(outside, by))) {
                violations.push(format!("{name} is of the core and would be built with {outside}, through {by}"));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{cargo, metadata};

    #[test]
    fn no_arrow_of_this_workspace_is_forbidden() {
        let graph: Graph = metadata::read(&cargo::workspace_root()).unwrap();
        assert!(graph.members().count() > 10, "the workspace was read");
        let violations = violations(&graph);
        assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
    }

    #[test]
    fn nothing_is_built_with_schemars() {
        let graph: Graph = metadata::read(&cargo::workspace_root()).unwrap();
        for package in graph.members() {
            let by = graph.reached_by(package).get("schemars").copied();
            assert_eq!(by, None, "{}: CRDs are data; feature `schema` of ironclad-api is for their test", package.name);
        }
    }

    #[test]
    fn every_crate_in_the_table_has_a_row() {
        let known: BTreeSet<&str> = CRATES.iter().map(|(name, _, _)| *name).collect();
        let named = CRATES.iter().flat_map(|(_, _, to)| *to).chain(RESERVED.iter().flat_map(|(_, holders)| *holders));
        for name in named {
            assert!(known.contains(name) || [ALL_OF_THE_CORE, EVERYTHING].contains(name), "{name}");
        }
    }

    #[test]
    fn tables_name_no_crate_that_is_missing_and_reserve_nothing_unused() {
        let graph: Graph = metadata::read(&cargo::workspace_root()).unwrap();
        for (name, _, _) in CRATES {
            assert!(graph.members().any(|member| member.name == name), "{name} is not a member of the workspace");
        }
        for (outside, holder) in
            RESERVED.iter().flat_map(|(outside, holders)| holders.iter().map(move |h| (outside, h)))
        {
            let declares =
                |package: &Package| package.dependencies.iter().any(|dependency| dependency.name == *outside);
            assert!(
                graph.members().any(|member| member.name == *holder && declares(member)),
                "{outside} is reserved for {holder}, which does not declare it"
            );
        }
    }

    #[test]
    fn forbidden_arrows_are_found() {
        for (name, package, kind, dependency, want) in [
            ("down is allowed", "ironclad-store", None, "ironclad-seam", None),
            ("down over several steps, too", "ironclad-simcluster", None, "ironclad-seam", None),
            ("the binary holds everything", "ironclad", None, "ironclad-apiserver", None),
            (
                "up is not",
                "ironclad-fleet",
                None,
                "ironclad-scheduling",
                Some("ironclad-fleet may not depend on ironclad-scheduling: an arrow never runs back up"),
            ),
            (
                "nor for tests",
                "ironclad-seam",
                Some("dev"),
                "ironclad-store",
                Some("ironclad-seam may not depend on ironclad-store: an arrow never runs back up"),
            ),
            ("tests of the edge may look sideways", "ironclad-cli", Some("dev"), "ironclad-apiserver", None),
            ("so may the binary's at the testkit", "ironclad", Some("dev"), "ironclad-testkit", None),
            (
                "the product doesn't",
                "ironclad",
                None,
                "ironclad-testkit",
                Some("ironclad may not depend on ironclad-testkit: an arrow never runs back up"),
            ),
            (
                "nor do tests of the core",
                "ironclad-scheduling",
                Some("dev"),
                "ironclad-failover",
                Some("ironclad-scheduling may not depend on ironclad-failover: an arrow never runs back up"),
            ),
            (
                "the server knows nothing of the product's kinds",
                "ironclad-apiserver",
                None,
                "ironclad-api",
                Some("ironclad-apiserver may not depend on ironclad-api: an arrow never runs back up"),
            ),
            (
                "the core doesn't wait",
                "ironclad-scheduling",
                None,
                "tokio",
                Some("ironclad-scheduling is of the core and would be built with tokio, through ironclad-scheduling"),
            ),
            ("its tests may", "ironclad-scheduling", Some("dev"), "tokio", None),
            ("the edge does wait", "ironclad-runtime", None, "tokio", None),
            (
                "what is reserved stays where it is",
                "ironclad-runtime",
                None,
                "redb",
                Some("ironclad-runtime may not depend on redb: that is for ironclad-store"),
            ),
            (
                "a crate that the table doesn't know",
                "ironclad-utils",
                None,
                "ironclad-api",
                Some("ironclad-utils is not in the table of xtask/src/guard/arrows.rs: list its dependencies there"),
            ),
        ] {
            let found = violations(&with(package, kind, dependency));
            assert_eq!(found, want.into_iter().collect::<Vec<_>>(), "{name}");
        }
    }

    #[test]
    fn indirect_dependencies_are_found() {
        let mut graph = graph("ironclad-patch", None, "innocent");
        graph["packages"].as_array_mut().unwrap().push(package("redb", Value::Null));
        let nodes = graph["resolve"]["nodes"].as_array_mut().unwrap();
        nodes[1] = node("innocent", None, "redb");
        nodes.push(json!({"id": "redb", "deps": []}));
        let graph: Graph = serde_json::from_value(graph).unwrap();
        assert_eq!(
            violations(&graph),
            ["ironclad-patch is of the core and would be built with redb, through innocent"]
        );
    }

    /// A workspace in which `name` declares `dependency`.
    fn with(name: &str, kind: Option<&str>, dependency: &str) -> Graph {
        serde_json::from_value(graph(name, kind, dependency)).unwrap()
    }

    fn graph(name: &str, kind: Option<&str>, dependency: &str) -> Value {
        let member = |package: &str| package == name || package.starts_with("ironclad");
        let members: Vec<&str> = [name, dependency].into_iter().filter(|package| member(package)).collect();
        json!({
            "packages": [
                package(name, json!([{"name": dependency, "kind": kind}])),
                package(dependency, json!([])),
            ],
            "workspace_members": members,
            "resolve": {"nodes": [node(name, kind, dependency), {"id": dependency, "deps": []}]},
        })
    }

    fn package(name: &str, dependencies: Value) -> Value {
        let dependencies = if dependencies.is_null() { json!([]) } else { dependencies };
        json!({
            "id": name, "name": name, "version": "1.0.0", "license": "MIT", "source": null,
            "dependencies": dependencies, "manifest_path": "Cargo.toml",
        })
    }

    fn node(name: &str, kind: Option<&str>, dependency: &str) -> Value {
        json!({"id": name, "deps": [{"pkg": dependency, "dep_kinds": [{"kind": kind}]}]})
    }
}
