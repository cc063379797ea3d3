//! `bench schedule`: decisions of the scheduler on one core as the fleet grows, preemptions as the number of placed
//! bindings grows, the cost of a changed cluster, and the memory of large caches and of accounts by node; with `--real`
//! whole cycles.

use std::{collections::BTreeMap, hint::black_box, sync::Arc, time::Duration};

use anyhow::ensure;
use ironclad_api::{
    cluster::Cluster,
    conditions::{self, TRUE, cluster::READY},
    shared::{BindingPools, ClusterPools},
    work::{ResourceBinding, TargetCluster},
};
use ironclad_fleet::{BindingKey, BindingRef, ClusterName, Clusters};
use ironclad_scheduling::{
    Available, Capacity, Index, Interests, Options, Seen, Since,
    capacity::Modelling,
    decide, estimator,
    preempt::{Outcome, Placed, Preempting, Preemptors},
    wakes::cluster::{Wakes, enqueues},
};
use ironclad_seam::Clock;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{process::used, schedule_real};

/// Options of the bench.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Sizes of the fleet, in clusters [default: 100,1000,5000,20000; with --real 1000,5000]
    #[arg(long, value_delimiter = ',', hide_default_value = true)]
    clusters: Vec<usize>,
    /// Schedule bindings of a real kube-apiserver instead, with `ironclad run`
    #[arg(long)]
    real: bool,
    /// Bindings for each size of the fleet with --real
    #[arg(long, default_value_t = 300)]
    bindings: usize,
    /// Assumed bindings: placed and not in a summary yet
    #[arg(long, default_value_t = 1_000)]
    assumed: usize,
    /// Numbers of placed bindings among which a pending one preempts, on a full fleet
    #[arg(long, value_delimiter = ',', default_value = "1000,10000")]
    placed: Vec<usize>,
    /// Bindings that wait for capacity while a label of a cluster changes
    #[arg(long, default_value_t = 10_000)]
    waiting: usize,
    /// Clusters in caches for the figure of memory; 0 leaves it out
    #[arg(long, default_value_t = 5_000)]
    cached_clusters: usize,
    /// Bindings in caches for the figure of memory
    #[arg(long, default_value_t = 100_000)]
    cached_bindings: usize,
    /// Time for each figure, in milliseconds
    #[arg(long, default_value_t = 100)]
    milliseconds: u64,
}

/// Requests that bindings share.
const SHAPES: usize = 8;

pub(crate) async fn run(mut args: Args) -> anyhow::Result<()> {
    if args.clusters.is_empty() {
        args.clusters = if args.real { vec![1_000, 5_000] } else { vec![100, 1_000, 5_000, 20_000] };
    }
    if args.real {
        return schedule_real::run(&args.clusters, args.bindings).await;
    }
    let args = &args;
    memory_of_accounts(args)?;
    decisions(args)?;
    preemptions(args)?;
    changes(args)?;
    memory(args)
}

/// Time of one call, after one for each request.
fn measure(args: &Args, mut call: impl FnMut(usize)) -> Duration {
    (0..SHAPES).for_each(&mut call);
    let (clock, at_least) = (Clock::system(), Duration::from_millis(args.milliseconds));
    let (began, mut calls) = (clock.mono(), 0_u32);
    loop {
        call(calls as usize);
        calls += 1;
        let lasted = clock.mono() - began;
        if lasted >= at_least {
            return lasted / calls;
        }
    }
}

fn fleet(count: usize, is_full: bool) -> anyhow::Result<Clusters> {
    (0..count)
        .map(|n| {
            let mut cluster = ready_cluster(n)?;
            let summary = cluster.status.as_mut().and_then(|status| status.resource_summary.as_mut());
            if let Some(summary) = summary.filter(|_| is_full) {
                summary.allocated = summary.allocatable.clone();
                summary.allocatable_modelings.iter_mut().for_each(|grade| grade.count = 0);
            }
            Ok((name(n), cluster.into()))
        })
        .collect()
}

/// A cluster that is ready.
pub(crate) fn ready_cluster(number: usize) -> anyhow::Result<Cluster> {
    let mut cluster = cluster(number)?;
    if let Some(status) = &mut cluster.status {
        status.conditions = vec![conditions::condition(READY, TRUE, "ClusterReady", "")];
    }
    Ok(cluster)
}

/// Placements of the table, by the heading of their column.
pub(crate) fn placements(clusters: usize) -> [(&'static str, Value); 7] {
    let by_capacity = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"}});
    let spread =
        |field: &str, min: usize, max: usize| json!({"spreadByField": field, "minGroups": min, "maxGroups": max});
    let rack = json!({"labelSelector": {"matchLabels": {"rack": format!("k{}", clusters / 20)}}});
    let names: Vec<_> = (0..3).map(|n| name(n * clusters / 3)).collect();
    [
        ("three by name", json!({"clusterAffinity": {"clusterNames": names}})),
        ("ten by label", json!({"clusterAffinity": rack})),
        ("ten by label, divided", json!({"clusterAffinity": rack, "replicaScheduling": by_capacity})),
        (
            "ten of all, divided",
            json!({"replicaScheduling": by_capacity, "spreadConstraints": [spread("cluster", 1, 10)]}),
        ),
        (
            "two regions, divided",
            json!({"replicaScheduling": by_capacity,
                "spreadConstraints": [spread("region", 2, 2), spread("cluster", 2, 10)]}),
        ),
        (
            "regions and zones",
            json!({"replicaScheduling": by_capacity,
                "spreadConstraints": [spread("region", 2, 3), spread("zone", 4, 6), spread("cluster", 4, 10)]}),
        ),
        ("component set", json!({"spreadConstraints": [spread("cluster", 1, 1)], "replicaScheduling": by_capacity})),
    ]
}

/// Decisions on new bindings, with the index of the fleet and without it.
fn decisions(args: &Args) -> anyhow::Result<()> {
    let options = Options { overcommit_protection: true, component_scheduling: true, ..Options::default() };
    let available = Available::new();
    println!(
        "{:>8}   {:<22} {:>12} {:>12}   {:>15}",
        "clusters", "placement", "decision", "per second", "without index"
    );
    for count in &args.clusters {
        let clusters = fleet(*count, false)?;
        let (index, mut capacity) = (Index::of(&clusters), Capacity::of(&clusters, Modelling::On));
        for n in 0..args.assumed {
            let mut placed = binding(&json!({}), n)?;
            placed.metadata.name = Some(format!("b{n}"));
            let target = TargetCluster { name: name(n % count).to_string(), replicas: 1, components: Vec::new() };
            capacity.assigned(BindingRef::from(&placed), &[target], &options, Duration::ZERO);
        }
        for (heading, placement) in placements(*count) {
            let of = |n| if heading == "component set" { set(&placement, n) } else { binding(&placement, n) };
            let bindings: Vec<ResourceBinding> = (0..SHAPES).map(of).collect::<anyhow::Result<_>>()?;
            let decide_on = |n: usize, index| {
                let seen = Seen {
                    binding: BindingRef::from(&bindings[n % SHAPES]),
                    clusters: &clusters,
                    available: &available,
                    capacity: &capacity,
                    options: &options,
                    since: Since::default(),
                    preempting: None,
                    peers: None,
                    index,
                };
                decide(&seen, Timestamp::UNIX_EPOCH)
            };
            let found = decide_on(0, Some(&index));
            ensure!(found.result().is_some_and(|found| !found.is_empty()), "{heading}: {:?}", found.failure);
            let with = measure(args, |n| drop(black_box(decide_on(n, Some(&index)))));
            let without = measure(args, |n| drop(black_box(decide_on(n, None))));
            let (rate, ratio) = (1.0 / with.as_secs_f64(), without.as_secs_f64() / with.as_secs_f64());
            println!("{count:>8}   {heading:<22} {with:>12.2?} {rate:>12.0}   {without:>12.2?} {ratio:>5.1}x");
        }
    }
    Ok(())
}

/// Decisions that find a plan, on clusters without free capacity.
fn preemptions(args: &Args) -> anyhow::Result<()> {
    let (clock, available) = (Clock::system(), Available::new());
    let options = Options { preempts: true, ..Options::default() };
    println!(
        "{:>8} {:>10}   {:>12} {:>16}   {:>12}",
        "clusters", "placed", "one cluster", "several clusters", "index/change"
    );
    for count in &args.clusters {
        let clusters = fleet(*count, true)?;
        let (capacity, fleet) = (Capacity::of(&clusters, Modelling::On), Index::of(&clusters));
        for placed in &args.placed {
            let mut bindings = Vec::with_capacity(*placed);
            for n in 0..*placed {
                bindings.push(placed_binding(n, *count)?);
            }
            let began = clock.mono();
            let index = Placed::of(&bindings);
            let change = (clock.mono() - began) / u32::try_from(*placed).unwrap_or(u32::MAX).max(1);
            let preemptors = Preemptors::default();
            let pass = |replicas: i32, placement: &Value| -> anyhow::Result<Duration> {
                let mut pending = binding(placement, 0)?;
                pending.spec.replicas = replicas;
                let priority = json!({"priority": 100, "preemptionPolicy": "PreemptLowerPriority"});
                pending.spec.schedule_priority = Some(serde_json::from_value(priority)?);
                let seen = Seen {
                    binding: BindingRef::from(&pending),
                    clusters: &clusters,
                    available: &available,
                    capacity: &capacity,
                    options: &options,
                    since: Since::default(),
                    preempting: Some(Preempting {
                        placed: &index,
                        preemptors: &preemptors,
                        over_quota: None,
                        paused: false,
                    }),
                    peers: None,
                    index: Some(&fleet),
                };
                let found = decide(&seen, Timestamp::UNIX_EPOCH).preemption;
                ensure!(matches!(found, Some(Outcome::Nominated(_))), "no plan: {found:?}");
                Ok(measure(args, |_| drop(black_box(decide(&seen, Timestamp::UNIX_EPOCH)))))
            };
            let divided = json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
            let mut single = divided.clone();
            single["spreadConstraints"] = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]);
            let figures = [pass(3, &single)?, pass(10, &divided)?];
            println!("{count:>8} {placed:>10}   {:>12.2?} {:>16.2?}   {change:>12.2?}", figures[0], figures[1]);
        }
    }
    Ok(())
}

/// One changed cluster: a heartbeat with another summary, and a label, beside bindings that wait.
fn changes(args: &Args) -> anyhow::Result<()> {
    let options = Options::default();
    println!(
        "{:>8}   {:>12} {:>12}   {:>14} {:>14}",
        "clusters", "summary", "label", "bindings found", "without index"
    );
    // Of a hundred policies.
    let waits = |n: usize| -> anyhow::Result<(BindingKey, ResourceBinding)> {
        let rack = format!("k{}", n % 100);
        let placement = json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"rack": rack}}}});
        let mut binding = binding(&placement, n)?;
        binding.metadata.name = Some(format!("b{n}"));
        Ok((BindingRef::from(&binding).key(), binding))
    };
    let waiting: BTreeMap<BindingKey, ResourceBinding> = (0..args.waiting).map(waits).collect::<anyhow::Result<_>>()?;
    let mut interests = Interests::default();
    waiting.values().for_each(|binding| interests.update(binding.into()));
    for count in &args.clusters {
        let clusters = fleet(*count, false)?;
        let (mut index, mut capacity) = (Index::of(&clusters), Capacity::of(&clusters, Modelling::On));
        let Some((name, old)) = clusters.first_key_value() else { continue };
        let mut busier = (**old).clone();
        if let Some(summary) = busier.status.as_mut().and_then(|status| status.resource_summary.as_mut()) {
            summary.allocated = serde_json::from_value(json!({"cpu": "1", "pods": "1"}))?;
        }
        let mut moved = (**old).clone();
        moved.metadata.labels.get_or_insert_default().insert("rack".into(), "k1".into());
        let mut change = |other: Cluster| {
            let versions = [old.clone(), Arc::new(other)];
            measure(args, |n| {
                let (from, to) = (&versions[n % 2], &versions[(n + 1) % 2]);
                index.update(name, Some(to));
                capacity.cluster(name, Some(&**from), Some(&**to));
            })
        };
        let figures = [change(busier), change(moved.clone())];
        let wakes = |binding: &BindingRef<'_>| {
            let (old, new) = (Some(&**old), Some(&moved));
            enqueues(*binding, old, new, Wakes::Concerned, || true, &options, Timestamp::UNIX_EPOCH).is_some()
        };
        let slow = measure(args, |_| {
            black_box(waiting.values().map(BindingRef::from).filter(wakes).count());
        });
        let fast = measure(args, |_| {
            let found = interests.selecting(Some(&**old), Some(&moved)).filter_map(|key| waiting.get(key));
            black_box(found.map(BindingRef::from).filter(wakes).count());
        });
        println!("{count:>8}   {:>12.2?} {:>12.2?}   {fast:>14.2?} {slow:>14.2?}", figures[0], figures[1]);
    }
    Ok(())
}

/// Members of which an account by node is kept, so that their memory is more than what allocators keep besides.
const ACCOUNTS: usize = 20;

/// Memory of accounts by node for each node and pod, beside the caches of nodes and pods: of large members, and of one
/// large node.
fn memory_of_accounts(args: &Args) -> anyhow::Result<()> {
    if args.cached_clusters == 0 {
        return Ok(());
    }
    let own = || used(std::process::id()).map(|used| used.own_mib * 1024.0 * 1024.0);
    println!("   nodes       pods  workloads   bytes/node   bytes/pod");
    for (nodes, pods, workloads) in [(1_000, 30_000, 3_000), (1, 100_000, 3_000), (1, 100_000, 100_000)] {
        let before = own()?;
        let mut accounts = vec![estimator::Index::default(); ACCOUNTS];
        for account in &mut accounts {
            for number in 0..nodes {
                account.node(&node_name(number), Some(node(number)));
            }
        }
        let of_nodes = own()? - before;
        for account in &mut accounts {
            for number in 0..pods {
                account.pod(None, Some(&pod(number % workloads, (number + number / workloads * 101) % nodes)));
            }
        }
        let of_pods = own()? - before - of_nodes;
        // The allocator would serve what follows from what is given back here, unseen.
        std::mem::forget(black_box(accounts));
        let [each_node, each_pod] = [(of_nodes, nodes), (of_pods, pods)].map(|(all, n)| all / (ACCOUNTS * n) as f64);
        println!("{nodes:>8} {pods:>10} {workloads:>10}   {each_node:>10.0}   {each_pod:>9.1}");
    }
    Ok(())
}

fn node_name(number: usize) -> String {
    format!("ip-10-0-{}-{}.eu-central-1.compute.internal", number / 256, number % 256)
}

/// A node with labels and resources as those of clouds have them.
fn node(number: usize) -> estimator::Node {
    let hostname = node_name(number);
    let labels = [
        ("beta.kubernetes.io/arch", "amd64"),
        ("beta.kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/hostname", &hostname),
        ("kubernetes.io/os", "linux"),
        ("node.kubernetes.io/instance-type", "m6i.16xlarge"),
        ("eks.amazonaws.com/nodegroup", "workers"),
        ("topology.ebs.csi.aws.com/zone", "eu-central-1a"),
        ("topology.kubernetes.io/region", "eu-central-1"),
        ("topology.kubernetes.io/zone", "eu-central-1a"),
    ];
    let allocatable = [("cpu", 63_000), ("ephemeral-storage", 900 << 30), ("memory", 250 << 30), ("pods", 110_000)];
    estimator::Node {
        labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        allocatable: allocatable.map(|(name, amount)| (name.to_owned(), amount)).into(),
        ..estimator::Node::default()
    }
}

/// A pod of this workload on this node.
fn pod(workload: usize, node: usize) -> estimator::Pod {
    let cpu = i64::try_from(100 * (workload % SHAPES + 1)).unwrap_or(i64::MAX);
    estimator::Pod {
        node: node_name(node).into(),
        request: [("cpu".to_owned(), cpu), ("memory".to_owned(), 1 << 30)].into(),
        workload: estimator::Workload::new("Deployment", "shop", &format!("web-{workload}")),
        is_replica: true,
        ..estimator::Pod::default()
    }
}

/// Memory of the objects, which share values as in the caches of controllers, and of what the scheduler derives from
/// them.
fn memory(args: &Args) -> anyhow::Result<()> {
    if args.cached_clusters == 0 {
        return Ok(());
    }
    let own = || used(std::process::id()).map(|used| used.own_mib);
    let before = own()?;
    let mut pools = ClusterPools::default();
    let mut clusters = Clusters::new();
    for n in 0..args.cached_clusters {
        let mut cluster = ready_cluster(n)?;
        pools.share(&mut cluster, None);
        clusters.insert(name(n), cluster.into());
    }
    let of_clusters = own()? - before;
    let mut pools = BindingPools::default();
    let mut bindings = Vec::with_capacity(args.cached_bindings);
    for n in 0..args.cached_bindings {
        let mut binding = placed_binding(n, args.cached_clusters)?;
        pools.share(&mut binding.spec, None);
        bindings.push(Arc::new(binding));
    }
    let of_bindings = own()? - before - of_clusters;
    let derived = (
        Index::of(&clusters),
        Capacity::of(&clusters, Modelling::On),
        Placed::of(bindings.iter().map(|binding| &**binding)),
        bindings.iter().fold(Interests::default(), |mut interests, binding| {
            interests.update(BindingRef::from(&**binding));
            interests
        }),
    );
    let whole = own()? - before;
    drop(black_box((clusters, bindings, derived)));
    println!(
        "{} clusters {of_clusters:.0} MiB, {} bindings {of_bindings:.0} MiB, derived {:.0} MiB: {whole:.0} MiB",
        args.cached_clusters,
        args.cached_bindings,
        whole - of_clusters - of_bindings
    );
    Ok(())
}

pub(crate) fn name(number: usize) -> ClusterName {
    format!("m{number:05}").as_str().into()
}

fn cluster(number: usize) -> anyhow::Result<Cluster> {
    let grade = |grade: u64, cpu: u64| {
        json!({"grade": grade, "ranges": [{"name": "cpu", "min": cpu.to_string(), "max": (2 * cpu).to_string()},
            {"name": "memory", "min": format!("{}Gi", 4 * cpu), "max": format!("{}Gi", 8 * cpu)}]})
    };
    let kinds = |group: usize| {
        let kind = |n: usize| json!({"name": format!("things{n}"), "kind": format!("Thing{n}")});
        json!({"groupVersion": format!("g{group}.example.io/v1"), "resources": (0..8).map(kind).collect::<Vec<_>>()})
    };
    let mut served: Vec<Value> = (0..8).map(kinds).collect();
    served.push(json!({"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}));
    let tier = ["gold", "silver", "bronze"][number % 3];
    let taints = if number % 50 == 7 { json!([{"key": "dedicated", "effect": "NoSchedule"}]) } else { json!([]) };
    Ok(serde_json::from_value(json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name(number), "generation": 1, "labels": {"rack": format!("k{}", number / 10),
            "tier": tier, "name": name(number)}},
        "spec": {"syncMode": "Push", "region": format!("r{}", number % 20), "provider": format!("p{}", number % 3),
            "zones": [format!("r{}-z{}", number % 20, number % 60)], "taints": taints,
            "resourceModels": (0..8).map(|n| grade(n, 1 << n)).collect::<Vec<_>>()},
        "status": {
            "apiEnablements": served,
            "resourceSummary": {
                "allocatable": {"cpu": "4000", "memory": "16000Gi", "pods": "110000"},
                "allocated": {"cpu": (number * 37 % 3_000).to_string(), "memory": "100Gi", "pods": "100"},
                "allocatableModelings": (0..8).map(|n| json!({"grade": n, "count": 20})).collect::<Vec<_>>(),
            },
        },
    }))?)
}

fn binding(placement: &Value, number: usize) -> anyhow::Result<ResourceBinding> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "generation": 1,
            "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "uid": "u"},
            "replicas": 100,
            "replicaRequirements":
                {"resourceRequest": {"cpu": format!("{}m", 500 + number % SHAPES), "memory": "1Gi"}},
            "placement": placement,
        },
    }))?)
}

/// Workload of two components.
fn set(placement: &Value, number: usize) -> anyhow::Result<ResourceBinding> {
    let mut binding = binding(placement, number)?;
    let request = json!({"resourceRequest": {"cpu": format!("{}m", 500 + number % SHAPES), "memory": "1Gi"}});
    binding.spec.components = serde_json::from_value(json!([
        {"name": "manager", "replicas": 1, "replicaRequirements": request},
        {"name": "worker", "replicas": 4, "replicaRequirements": request},
    ]))?;
    (binding.spec.replicas, binding.spec.replica_requirements) = (0, None);
    Ok(binding)
}

/// Name of a binding with this number; names have the order of the numbers.
pub(crate) fn binding_name(number: usize) -> String {
    format!("b{number:06}")
}

/// A binding to create on a server.
pub(crate) fn new_binding(placement: &Value, number: usize) -> anyhow::Result<ResourceBinding> {
    let mut binding = binding(placement, number)?;
    let name = binding_name(number);
    (binding.metadata.uid, binding.metadata.generation) = (None, None);
    binding.metadata.namespace = Some("default".into());
    binding.spec.resource.name.clone_from(&name);
    binding.metadata.name = Some(name);
    // No member runs a Pod of them, so all stay promised: there has to be room for the sum.
    binding.spec.replicas = 10;
    Ok(binding)
}

fn placed_binding(number: usize, clusters: usize) -> anyhow::Result<ResourceBinding> {
    let mut binding = binding(&json!({}), number)?;
    binding.metadata.name = Some(format!("b{number}"));
    binding.spec.resource.name = format!("b{number}");
    binding.spec.replicas = 4;
    binding.spec.schedule_priority = Some(serde_json::from_value(json!({"priority": number % 10}))?);
    binding.spec.clusters = serde_json::from_value(json!([{"name": name(number % clusters), "replicas": 4}]))?;
    Ok(binding)
}
