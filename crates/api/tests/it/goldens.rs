//! Every CRD against its golden file.
//!
//! `UPDATE_GOLDENS=1 cargo test -p ironclad-api goldens` writes them; review the diff.

use std::{collections::BTreeSet, fs, path::PathBuf};

use ironclad_api::crds;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("goldens")
}

#[test]
fn crds_match_their_goldens() {
    let update = std::env::var_os("UPDATE_GOLDENS").is_some();
    let mut crds = crds::crds();
    crds.push(crds::simulated_cluster_crd());
    let mut names = BTreeSet::new();
    let mut wrong = Vec::new();
    for crd in &crds {
        let name = format!("{}.json", crd.metadata.name.as_deref().expect("a CRD has a name"));
        let text = serde_json::to_string_pretty(crd).expect("a CRD is JSON") + "\n";
        let path = folder().join(&name);
        if update {
            fs::create_dir_all(folder()).unwrap();
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
    assert!(wrong.is_empty(), "differ from crates/api/goldens: {wrong:?}; UPDATE_GOLDENS=1 rewrites them");
}
