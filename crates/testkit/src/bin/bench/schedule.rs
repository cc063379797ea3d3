//! `bench schedule`: one scheduling cycle, and one preemption, as the fleet and the number of placed bindings grow.

use std::{hint::black_box, time::Duration};

use ironclad_api::{
    cluster::Cluster,
    conditions::{self, TRUE, cluster::READY},
    work::{ResourceBinding, TargetCluster},
};
use ironclad_fleet::{BindingRef, Clusters};
use ironclad_scheduling::{
    Available, Capacity, Options, Seen,
    capacity::Modelling,
    decide,
    preempt::{Mode, Outcome, Placed, Preempting, Preemptors},
};
use ironclad_seam::Clock;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Options of the bench.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Sizes of the fleet, in clusters
    #[arg(long, value_delimiter = ',', default_value = "10,100,1000")]
    clusters: Vec<usize>,
    /// Assumed bindings: placed and not in a summary yet
    #[arg(long, value_delimiter = ',', default_value = "0,1000,10000")]
    assumed: Vec<usize>,
    /// Numbers of placed bindings among which a pending one preempts, on a full fleet
    #[arg(long, value_delimiter = ',', default_value = "1000,10000")]
    placed: Vec<usize>,
    /// Scheduling cycles for each figure
    #[arg(long, default_value_t = 200)]
    passes: u32,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (clock, options) = (Clock::system(), Options { overcommit_protection: true, ..Options::default() });
    println!("clusters    assumed  capacity/cycle  spread/cycle  duplicated/cycle  summary/change   assume/write");
    for count in &args.clusters {
        let clusters = (0..*count).map(|n| Ok((format!("m{n:04}").as_str().into(), cluster(n)?.into())));
        let clusters: Clusters = clusters.collect::<anyhow::Result<_>>()?;
        for assumed in &args.assumed {
            let mut capacity = Capacity::of(&clusters, Modelling::On);
            let began = clock.mono();
            for n in 0..*assumed {
                let mut placed = binding(&json!({}))?;
                placed.metadata.name = Some(format!("b{n}"));
                let on: Vec<TargetCluster> =
                    serde_json::from_value(json!([{"name": format!("m{:04}", n % count), "replicas": 1}]))?;
                capacity.assigned(BindingRef::from(&placed), &on, &options, Duration::ZERO);
            }
            let assume = (clock.mono() - began) / u32::try_from(*assumed).unwrap_or(u32::MAX).max(1);
            let pass = |placement: &Value| -> anyhow::Result<Duration> {
                let (binding, available) = (binding(placement)?, Available::new());
                let began = clock.mono();
                for _ in 0..args.passes {
                    let binding = BindingRef::from(&binding);
                    let seen = Seen {
                        binding,
                        clusters: &clusters,
                        available: &available,
                        capacity: &capacity,
                        options: &options,
                        api_appeared: false,
                        preempting: None,
                        peers: None,
                        index: None,
                    };
                    drop(black_box(decide(&seen, Timestamp::UNIX_EPOCH)));
                }
                Ok((clock.mono() - began) / args.passes.max(1))
            };
            let by_room = json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                "weightPreference": {"dynamicWeight": "AvailableReplicas"}}});
            let mut spread = by_room.clone();
            spread["spreadConstraints"] = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 5}]);
            let figures = [pass(&by_room)?, pass(&spread)?, pass(&json!({}))?];
            let mut changing = capacity.clone();
            let (name, old) = clusters.first_key_value().map(|(name, old)| (name.clone(), old.clone())).unzip();
            let began = clock.mono();
            if let (Some(name), Some(old)) = (name, old) {
                let mut new = (*old).clone();
                if let Some(summary) = new.status.as_mut().and_then(|status| status.resource_summary.as_mut()) {
                    summary.allocated = serde_json::from_value(json!({"cpu": "1", "pods": "1"}))?;
                }
                for n in 0..args.passes {
                    let (from, to) = if n % 2 == 0 { (&*old, &new) } else { (&new, &*old) };
                    black_box(changing.cluster(&name, Some(from), Some(to)));
                }
            }
            let summary = (clock.mono() - began) / args.passes.max(1);
            println!(
                "{count:>8}   {assumed:>8}   {:>12.2?}   {:>11.2?}   {:>15.2?}   {summary:>14.2?}   {assume:>13.2?}",
                figures[0], figures[1], figures[2]
            );
        }
    }
    preemptions(args)
}

/// One decision that finds a plan, on clusters without free capacity.
fn preemptions(args: &Args) -> anyhow::Result<()> {
    let clock = Clock::system();
    let options = Options { preemption: Mode::Evict, ..Options::default() };
    println!("clusters     placed   one cluster  several clusters    index/change");
    for count in &args.clusters {
        let clusters = (0..*count).map(|n| {
            let mut cluster = cluster(n)?;
            if let Some(status) = &mut cluster.status {
                status.conditions = vec![conditions::condition(READY, TRUE, "ClusterReady", "")];
                if let Some(summary) = &mut status.resource_summary {
                    summary.allocated = summary.allocatable.clone();
                    summary.allocatable_modelings.iter_mut().for_each(|grade| grade.count = 0);
                }
            }
            Ok((format!("m{n:04}").as_str().into(), cluster.into()))
        });
        let clusters: Clusters = clusters.collect::<anyhow::Result<_>>()?;
        let capacity = Capacity::of(&clusters, Modelling::On);
        for placed in &args.placed {
            let mut bindings = Vec::with_capacity(*placed);
            for n in 0..*placed {
                let mut binding = binding(&json!({}))?;
                binding.metadata.name = Some(format!("b{n}"));
                binding.spec.replicas = 4;
                binding.spec.schedule_priority = Some(serde_json::from_value(json!({"priority": n % 10}))?);
                binding.spec.clusters =
                    serde_json::from_value(json!([{"name": format!("m{:04}", n % count), "replicas": 4}]))?;
                bindings.push(binding);
            }
            let began = clock.mono();
            let index = Placed::of(&bindings);
            let change = (clock.mono() - began) / u32::try_from(*placed).unwrap_or(u32::MAX).max(1);
            let preemptors = Preemptors::default();
            let pass = |replicas: i32, placement: &Value| -> anyhow::Result<Duration> {
                let (mut pending, available) = (binding(placement)?, Available::new());
                pending.spec.replicas = replicas;
                let priority = json!({"priority": 100, "preemptionPolicy": "PreemptLowerPriority"});
                pending.spec.schedule_priority = Some(serde_json::from_value(priority)?);
                let seen = Seen {
                    binding: BindingRef::from(&pending),
                    clusters: &clusters,
                    available: &available,
                    capacity: &capacity,
                    options: &options,
                    api_appeared: false,
                    preempting: Some(Preempting { placed: &index, preemptors: &preemptors }),
                    peers: None,
                    index: None,
                };
                let found = decide(&seen, Timestamp::UNIX_EPOCH).preemption;
                anyhow::ensure!(matches!(found, Some(Outcome::Nominated(_))), "no plan: {found:?}");
                let began = clock.mono();
                for _ in 0..args.passes {
                    drop(black_box(decide(&seen, Timestamp::UNIX_EPOCH)));
                }
                Ok((clock.mono() - began) / args.passes.max(1))
            };
            let divided = json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
            let mut single = divided.clone();
            single["spreadConstraints"] = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]);
            let figures = [pass(3, &single)?, pass(10, &divided)?];
            println!("{count:>8}   {placed:>8}   {:>11.2?}   {:>15.2?}   {change:>13.2?}", figures[0], figures[1]);
        }
    }
    Ok(())
}

fn cluster(number: usize) -> anyhow::Result<Cluster> {
    let grade = |grade: u64, cpu: u64| {
        json!({"grade": grade, "ranges": [{"name": "cpu", "min": cpu.to_string(), "max": (2 * cpu).to_string()},
            {"name": "memory", "min": format!("{}Gi", 4 * cpu), "max": format!("{}Gi", 8 * cpu)}]})
    };
    Ok(serde_json::from_value(json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": format!("m{number:04}"), "generation": 1},
        "spec": {"syncMode": "Push", "region": format!("r{}", number % 7), "resourceModels": (0..8).map(|n| grade(n, 1 << n)).collect::<Vec<_>>()},
        "status": {
            "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
            "resourceSummary": {
                "allocatable": {"cpu": "4000", "memory": "16000Gi", "pods": "110000"},
                "allocated": {"cpu": "100", "memory": "100Gi", "pods": "100"},
                "allocatableModelings": (0..8).map(|n| json!({"grade": n, "count": 20})).collect::<Vec<_>>(),
            },
        },
    }))?)
}

fn binding(placement: &Value) -> anyhow::Result<ResourceBinding> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "generation": 1,
            "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "uid": "u"},
            "replicas": 100, "replicaRequirements": {"resourceRequest": {"cpu": "500m", "memory": "1Gi"}}, "placement": placement,
        },
    }))?)
}
