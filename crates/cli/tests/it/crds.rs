use std::time::Duration;

use ironclad_api::crds::crds;
use ironclad_cli::{Outcome, crds::install};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::ListParams};

use crate::support::World;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn installing_again_changes_nothing_and_every_kind_is_served() {
    let world = World::bare().await;
    let (client, clock) = (&world.plane.client, &world.seam.clock);
    let done = install(client, clock, crds(), MINUTE, false).await.unwrap();
    assert_eq!(done.len(), crds().len());
    assert!(done.iter().all(|(_, outcome)| *outcome == Outcome::Created), "{done:?}");
    let clusters: Api<ironclad_api::cluster::Cluster> = Api::all(client.clone());
    assert!(clusters.list(&ListParams::default()).await.is_ok());
    let again = install(client, clock, crds(), MINUTE, false).await.unwrap();
    assert!(again.iter().all(|(_, outcome)| *outcome == Outcome::Unchanged), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn older_definition_is_replaced_completely() {
    let world = World::bare().await;
    let (client, clock) = (&world.plane.client, &world.seam.clock);
    let mut old = crds();
    old.retain(|crd| crd.spec.names.kind == "Cluster");
    let mut older = old.clone();
    older[0].spec.names.short_names = Some(vec!["outdated".to_owned()]);
    install(client, clock, older, MINUTE, false).await.unwrap();
    let done = install(client, clock, old.clone(), MINUTE, false).await.unwrap();
    assert_eq!(done, [("clusters.cluster.karmada.io".to_owned(), Outcome::Updated)]);
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let stored = api.get("clusters.cluster.karmada.io").await.unwrap();
    assert_eq!(stored.spec.names.short_names, old[0].spec.names.short_names);
}

#[tokio::test(start_paused = true)]
async fn dry_run_installs_nothing() {
    let world = World::bare().await;
    let (client, clock) = (&world.plane.client, &world.seam.clock);
    let done = install(client, clock, crds(), MINUTE, true).await.unwrap();
    assert!(done.iter().all(|(_, outcome)| *outcome == Outcome::Created), "{done:?}");
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    assert!(api.list(&ListParams::default()).await.unwrap().items.is_empty());
}
