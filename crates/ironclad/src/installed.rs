//! The command lines in manifests are ones that this program takes.

use clap::Parser as _;
use ironclad_cli::manifests::{Release, Values, objects};
use serde_json::Value;

use crate::{Ironclad, Verb};

/// Values with which arguments differ.
const ROWS: [&str; 9] = [
    "mode: embedded",
    "{mode: embedded, embedded: {publicAddresses: [fleet.example, 10.0.0.5], simulatedMembers: 3}, controllers: ['*', '-namespace']}",
    "{mode: embedded, featureGates: {Failover: true, PropagateDeps: false}, extraArgs: [--resource-eviction-rate=1]}",
    "mode: external",
    "{mode: external, external: {explain: {enabled: true}, metricsAdapter: {enabled: true}, clusters: {enabled: true}, install: []}}",
    "{mode: external, external: {kubeconfigSecret: {name: plane}, proxy: {url: 'https://fleet.example:8447'}}}",
    "{mode: external, external: {webhooks: {url: 'https://hooks.example'}}, controllers: ['*', '-scheduler'], extraArgs: [-v, '3']}",
    "{mode: agent, agent: {clusterName: member1}}",
    "{mode: agent, agent: {clusterName: member1, kubeconfigSecret: second, apiEndpoint: 'https://10.0.0.1:6443', provider: p, region: r, \
      zones: [a, b], proxyServerAddress: 'http://p'}, controllers: ['*'], metrics: {port: 20000}}",
];

/// These rows, and the files with which the chart is tested.
fn rows() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/ironclad/ci");
    let files = std::fs::read_dir(folder).unwrap();
    let files = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    ROWS.into_iter().map(str::to_owned).chain(files).collect()
}

fn arguments(values: &str) -> Vec<String> {
    let values = Values::new(&[("row".to_owned(), values.to_owned())], &[]).unwrap();
    let release = Release { name: "ironclad".to_owned(), namespace: "ironclad-system".to_owned(), values };
    let objects = objects(&release).unwrap();
    let containers = objects.iter().find_map(|object| object.pointer("/spec/template/spec/containers/0"));
    let words = containers.unwrap()["args"].as_array().unwrap().iter().filter_map(Value::as_str);
    words.map(str::to_owned).collect()
}

#[test]
fn arguments_of_manifests_are_taken() {
    for row in &rows() {
        let words = arguments(row);
        let line = std::iter::once("ironclad".to_owned()).chain(words.clone());
        let ironclad = Ironclad::try_parse_from(line).unwrap_or_else(|error| panic!("{row}: {words:?}: {error}"));
        // A server checks these before it connects.
        let checked: anyhow::Result<()> = (|| {
            match &ironclad.verb {
                Verb::Up(args) => {
                    drop((args.controllers.settings()?, args.metrics.options()?, args.fleet.described()?))
                }
                Verb::Run(args) => drop((
                    args.controllers.settings()?,
                    args.at_start()?,
                    args.webhooks.webhooks()?,
                    args.adapter.adapter()?,
                    args.explain.explain()?,
                    args.proxy.proxy()?,
                )),
                Verb::Agent(args) => drop(args.settings()?),
                other => anyhow::bail!("{other:?} is no server"),
            }
            Ok(())
        })();
        assert!(checked.is_ok(), "{row}: {words:?}: {checked:?}");
    }
}

/// Every address on which a Pod listens is one that its port list, its Service and its probes know by number.
#[test]
fn ports_of_manifests_are_the_addresses_that_are_served() {
    for row in &rows() {
        let values = Values::new(&[("row".to_owned(), row.to_owned())], &[]).unwrap();
        let release = Release { name: "ironclad".to_owned(), namespace: "ironclad-system".to_owned(), values };
        let objects = objects(&release).unwrap();
        let container = objects.iter().find_map(|object| object.pointer("/spec/template/spec/containers/0")).unwrap();
        let listens = |word: &str| {
            let (flag, value) = word.split_once('=')?;
            (flag.ends_with("bind-address") || flag == "--listen").then(|| value.rsplit(':').next().unwrap().to_owned())
        };
        let mut listened: Vec<String> =
            container["args"].as_array().unwrap().iter().filter_map(Value::as_str).filter_map(listens).collect();
        let mut ports: Vec<String> =
            container["ports"].as_array().unwrap().iter().map(|port| port["containerPort"].to_string()).collect();
        listened.sort();
        ports.sort();
        assert_eq!(listened, ports, "{row}");
    }
}

#[test]
fn an_installation_of_nothing_and_something_is_refused() {
    for (line, want) in [
        ("run", Ok((false, false))),
        ("run --install=crds,roles", Ok((true, true))),
        ("run --install=crds", Ok((true, false))),
        ("run --install=none,crds", Err("--install has none and others")),
    ] {
        let Verb::Run(args) =
            Ironclad::try_parse_from(std::iter::once("ironclad").chain(line.split(' '))).unwrap().verb
        else {
            panic!("{line}")
        };
        match (args.at_start(), want) {
            (Ok(at_start), Ok(want)) => assert_eq!((at_start.crds, at_start.roles), want, "{line}"),
            (Err(error), Err(want)) => assert!(error.to_string().starts_with(want), "{line}: {error}"),
            (got, want) => panic!("{line}: {got:?} instead of {want:?}"),
        }
    }
}

/// The command lines in the units of `cargo xtask dist`, with the variables that systemd and their files set.
#[test]
fn arguments_of_units_are_taken() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/dist/systemd");
    let set = [
        ("${STATE_DIRECTORY}", "/var/lib/ironclad"),
        ("${CREDENTIALS_DIRECTORY}", "/run/credentials/ironclad"),
        ("$IRONCLAD_AGENT_REGISTER", "--cluster-name=m1 --register=plane.example:6443 --token=abcdef.0123456789abcdef"),
    ];
    let mut verbs = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let (path, mut text) = (file.as_ref().unwrap().path(), std::fs::read_to_string(file.unwrap().path()).unwrap());
        set.iter().for_each(|(name, value)| text = text.replace(name, value));
        let line = text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/")).unwrap();
        assert!(!line.contains('$'), "{}: {line}", path.display());
        let parsed = Ironclad::try_parse_from(line.split_whitespace());
        let ironclad = parsed.unwrap_or_else(|error| panic!("{}: {line}: {error}", path.display()));
        verbs.push(match ironclad.verb {
            Verb::Up(_) => "up",
            Verb::Run(_) => "run",
            Verb::Agent(_) => "agent",
            other => panic!("{}: {other:?} is no server", path.display()),
        });
    }
    verbs.sort_unstable();
    assert_eq!(verbs, ["agent", "run", "up"]);
}
