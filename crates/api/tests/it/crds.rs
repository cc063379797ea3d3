//! The files of `data/crds`: all of them are served, as they are.

use std::{collections::BTreeMap, fs, path::PathBuf};

use ironclad_api::crds;
use serde_json::Value;

#[test]
fn every_file_is_served_as_it_is_written() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/crds");
    let written: BTreeMap<String, Value> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let crd: Value = serde_json::from_str(&fs::read_to_string(entry.unwrap().path()).unwrap()).unwrap();
            (crd["metadata"]["name"].as_str().unwrap().to_owned(), crd)
        })
        .collect();
    let ours = crds::crds();
    assert!(ours.is_sorted_by_key(|crd| &crd.metadata.name));
    let served = ours.into_iter().chain([crds::simulated_cluster_crd()]);
    let served: BTreeMap<String, Value> =
        served.map(|crd| (crd.metadata.name.clone().unwrap(), serde_json::to_value(crd).unwrap())).collect();
    assert_eq!(served.keys().collect::<Vec<_>>(), written.keys().collect::<Vec<_>>(), "crds::OURS names the files");
    assert!(served == written, "the files have more than the types of a CRD");
}
