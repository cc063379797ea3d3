//! The files of `data/crds` are the CRDs that the types give.
//!
//! `cargo xtask codegen crds` writes them; review the diff.

#![allow(clippy::unwrap_used, reason = "the whole file is tests")]

use std::{collections::BTreeSet, fs, path::PathBuf};

use ironclad_api::{Shared, crds::generate};
use schemars::schema_for;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/crds")
}

#[test]
fn crds_are_those_of_the_types() {
    let update = std::env::var_os("UPDATE_GOLDENS").is_some();
    let mut names = BTreeSet::new();
    let mut wrong = Vec::new();
    for crd in &generate::crds() {
        let name = format!("{}.json", crd.metadata.name.as_deref().expect("a CRD has a name"));
        let text = serde_json::to_string_pretty(crd).expect("a CRD is JSON") + "\n";
        let path = folder().join(&name);
        if update {
            fs::write(&path, &text).unwrap();
        }
        if fs::read_to_string(&path).unwrap_or_default() != text {
            wrong.push(name.clone());
        }
        names.insert(name);
    }
    for entry in fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !names.contains(&name) {
            wrong.push(format!("{name} (no such CRD)"));
        }
    }
    assert!(wrong.is_empty(), "in crates/api/data/crds: {wrong:?}; `cargo xtask codegen crds` rewrites them");
}

#[test]
fn shared_values_are_described_as_the_values_themselves() {
    assert_eq!(schema_for!(Shared<Vec<String>>), schema_for!(Vec<String>));
}
