#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::sync::Arc;

use ironclad_api::crds::simulated_cluster_crd;
use ironclad_apiserver::{Identity, Options, Server};
use ironclad_runtime::{Traffic, in_process_client};
use ironclad_seam::{Rng, Seam, Tasks};
use ironclad_store::{Commit, Engine, MemoryBackend};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::*;
use crate::report;

async fn fleet(simulates: bool, members: &[&str]) -> Fleet {
    let clock = Clock::simulated(Timestamp::from_second(1_700_000_000).unwrap());
    let seam = Seam { clock: clock.clone(), rng: Rng::from_seed(1), tasks: Tasks::new("cli") };
    let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Inline, clock.clone()).unwrap();
    let server = Server::open(Options::default(), engine.store("plane"), seam).await.unwrap();
    let plane = in_process_client(server.in_process(Identity::admin("a")), Arc::new(Traffic::default()));
    let fleet = Fleet { plane: plane.clone(), clock };
    if simulates {
        let definitions: Api<CustomResourceDefinition> = Api::all(plane);
        definitions.create(&PostParams::default(), &simulated_cluster_crd()).await.unwrap();
    }
    for name in members {
        let object = serde_json::from_value(member(
            name,
            2,
            &ResourceList::default(),
            &StringMap::default(),
            &BTreeMap::default(),
            None,
        ));
        fleet.objects().create(&PostParams::default(), &object.unwrap()).await.unwrap();
    }
    fleet
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn members_are_changed_by_name_or_all_at_once() {
    let fleet = fleet(true, &["a", "b"]).await;
    let one = fleet.named(&names(&["b"]), false).await.unwrap();
    fleet.act(&one, &Action::Down, Duration::ZERO).await.unwrap();
    // An older version of the object: the change applies to the current one.
    fleet.act(&one, &Action::Partition, Duration::ZERO).await.unwrap();
    let b = fleet.objects().get("b").await.unwrap();
    assert!(b.spec.faults.down && b.spec.faults.partition);
    assert!(!fleet.objects().get("a").await.unwrap().spec.faults.down);
    fleet.act(&fleet.named(&[], true).await.unwrap(), &Action::Up, Duration::ZERO).await.unwrap();
    let (a, b) = (fleet.objects().get("a").await.unwrap(), fleet.objects().get("b").await.unwrap());
    assert_eq!(b.spec.faults, ironclad_api::sim::Faults::default());
    assert_eq!(a.metadata.generation, Some(1), "a change without effect is not written");
}

#[tokio::test(start_paused = true)]
async fn errors_have_cause_and_remedy() {
    let plain = fleet(false, &[]).await;
    let error = plain.named(&[], true).await.unwrap_err();
    assert!(report::render(&error).starts_with("error: this control plane has no simulated members\n  because only"));

    let fleet = fleet(true, &["a"]).await;
    let error = report::render(&fleet.named(&names(&["a", "x"]), false).await.unwrap_err());
    assert_eq!(
        error,
        "error: there is no simulated member x\n  because the simulated members are a\n  try: ironclad sim add x"
    );
    let members = fleet.named(&[], true).await.unwrap();
    let error = fleet.act(&members, &Action::Down, Duration::from_secs(2)).await.unwrap_err();
    assert!(
        report::render(&error).contains("timed out after 2 s waiting for a to follow"),
        "no simulator runs in this test"
    );
    let again = serde_json::to_value(&members[0]).unwrap();
    let mut again = again;
    again["metadata"] = json!({"name": "a"});
    let error = fleet.add(&[again], Duration::ZERO).await.unwrap_err();
    assert!(report::render(&error).contains("a was not added\n  because it exists"));
}
