//! Generated tables of `docs/reference`: kinds, events and feature gates, compared with the code.
//!
//! `UPDATE_GOLDENS=1 cargo test -p ironclad-api docs` writes them.

use std::{fmt::Write as _, fs, path::PathBuf};

use ironclad_api::{
    crds,
    gates::{Gate, Stage},
};

use crate::events;

const BEGIN: &str = "<!-- generated: UPDATE_GOLDENS=1 cargo test -p ironclad-api docs -->\n";
const END: &str = "<!-- end of generated -->\n";

/// Compares the generated part of a page with this text, or writes it.
fn check_page(name: &str, want: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has the mark of the begin of the generated part");
    let (written, after) = rest.split_once(END).expect("the page has the mark of its end");
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{want}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(written, want, "UPDATE_GOLDENS=1 writes docs/reference/{name}");
}

fn kinds() -> String {
    let mut all = crds::crds();
    all.push(crds::simulated_cluster_crd());
    all.sort_by_key(|crd| (crd.spec.group.clone(), crd.spec.names.kind.clone()));
    let mut text =
        "\n| group | kind | short | scope | versions | what it is |\n| --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
    for crd in all {
        let versions = crd.spec.versions.iter().map(|version| {
            let marks = match (version.storage, version.served) {
                (true, _) => "",
                (false, true) => " (not stored)",
                (false, false) => " (not served)",
            };
            format!("{}{marks}", version.name)
        });
        let stored = crd.spec.versions.iter().find(|version| version.storage).expect("one version is stored");
        let schema = stored.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
        let what = schema.and_then(|schema| schema.description.as_deref()).unwrap_or_default();
        let what = what.split("\n\n").next().unwrap_or_default().replace('\n', " ");
        let names = &crd.spec.names;
        let short = names.short_names.clone().unwrap_or_default().join(", ");
        let versions = versions.collect::<Vec<_>>().join(", ");
        writeln!(
            text,
            "| `{}` | {} | {short} | {} | {versions} | {what} |",
            crd.spec.group, names.kind, crd.spec.scope
        )
        .expect("a text takes all");
    }
    text + "\n"
}

fn gates() -> String {
    let mut text = "\n| gate | stage | default | meaning |\n| --- | --- | --- | --- |\n".to_owned();
    let descriptions = Gate::ALL.iter().map(|gate| {
        let start = format!("    {} ", gate.name());
        let line = include_str!("../../src/gates.rs").lines().find(|line| line.starts_with(&start));
        line.and_then(|line| line.split('"').nth(1)).unwrap_or_else(|| panic!("{} has no description", gate.name()))
    });
    for (gate, description) in Gate::ALL.iter().zip(descriptions) {
        let stage = match gate.stage() {
            Stage::Alpha => "alpha",
            Stage::Beta => "beta",
            Stage::Ours => "Ironclad's own",
        };
        let default = if gate.default_on() { "on" } else { "off" };
        // The section of the specification is for developers.
        let description = description.split(" (").next().unwrap_or(description).trim_end_matches('.');
        writeln!(text, "| `{}` | {stage} | {default} | {description} |", gate.name()).expect("a String takes all");
    }
    text + "\n"
}

fn events() -> String {
    let mut text = "\n| reason | type | object and meaning |\n| --- | --- | --- |\n".to_owned();
    for (reason, is_warning, description) in events::recorded() {
        let kind = if is_warning { "Warning" } else { "Normal" };
        writeln!(text, "| `{reason}` | {kind} | {description} |").expect("a String takes all");
    }
    text + "\n"
}

#[test]
fn page_of_kinds_is_current() {
    check_page("api.md", &kinds());
}

#[test]
fn page_of_feature_gates_is_current() {
    check_page("feature-gates.md", &gates());
}

#[test]
fn page_of_events_is_current() {
    check_page("events.md", &events());
}
