//! `bench queue`: the eviction queue and its limiter alone: cost per event as the queue grows, memory per
//! element.

use std::{sync::Arc, time::Duration};

use ironclad_api::{
    Taint, Time,
    cluster::{APIEnablement, APIResource, Cluster, ClusterSpec},
    conditions::{self, cluster::READY},
    labels::PROPAGATION_POLICY_PERMANENT_ID,
    policy::{Placement, SpreadByField, SpreadConstraint},
    taints::NO_EXECUTE,
    work::{ObjectReference, ResourceBinding, ResourceBindingSpec, TargetCluster},
};
use ironclad_failover::{
    Evictions, Flags, Now,
    taint_manager::rate::{Counts, Pacer, formula},
    taint_manager::{Next, Outcome},
};
use ironclad_fleet::{Binding, BindingKey, ClusterName, Clusters};
use ironclad_seam::Clock;
use jiff::Timestamp;

/// Options of the bench.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Sizes of the queue, in elements
    #[arg(long, value_delimiter = ',', default_value = "1000,5000,20000")]
    sizes: Vec<usize>,
    /// Clusters, six tenths of which fail
    #[arg(long, default_value_t = 100)]
    clusters: usize,
}

/// Result for one size, in time per event.
struct Figures {
    elements: usize,
    enter: Duration,
    again: Duration,
    evict: Duration,
    recover: Duration,
    bytes: Option<usize>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let clock = Clock::system();
    let mut all = Vec::new();
    for elements in &args.sizes {
        all.push(measure(&clock, args.clusters, *elements)?);
    }
    println!("elements   enter/event   again/event   evict/event   recover/element   bytes/element");
    for f in &all {
        let bytes = f.bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
        println!(
            "{:>8}   {:>11.2?}   {:>11.2?}   {:>11.2?}   {:>15.2?}   {:>13}",
            f.elements, f.enter, f.again, f.evict, f.recover, bytes
        );
    }
    if let (Some(small), Some(large)) = (all.first(), all.last()) {
        let ratio = |a: Duration, b: Duration| b.as_secs_f64() / a.as_secs_f64().max(1e-12);
        println!(
            "growth from {} to {} elements: enter x{:.2}, again x{:.2}, evict x{:.2} (a linear scan would be x{:.0})",
            small.elements,
            large.elements,
            ratio(small.enter, large.enter),
            ratio(small.again, large.again),
            ratio(small.evict, large.evict),
            large.elements as f64 / small.elements as f64,
        );
    }
    limiter(&clock);
    Ok(())
}

fn limiter(clock: &Clock) {
    const ROUNDS: u32 = 1_000_000;
    let flags = Flags::default();
    let mut pacer = Pacer::new(Duration::ZERO, flags.eviction.concurrent_binding_eviction_syncs);
    let began = clock.mono();
    let mut taken = 0u32;
    for n in 0..ROUNDS {
        let counts = Counts { total: 100, unhealthy: (n % 100) as usize };
        let (rate, _) = formula(counts, &flags.eviction);
        let now = Duration::from_millis(u64::from(n));
        if let Some(token) = pacer.take(rate, now) {
            pacer.answered(token, now);
            taken += 1;
        }
    }
    let each = (clock.mono() - began) / ROUNDS;
    println!("limiter: {each:?} per question, {taken} tokens in {ROUNDS} ms of virtual time");
}

fn now(second: u64) -> anyhow::Result<Now> {
    Ok(Now { wall: Timestamp::from_second(1_000_000 + i64::try_from(second)?)?, mono: Duration::from_secs(second) })
}

fn cluster(name: &str, status: &str, tainted: bool) -> Arc<Cluster> {
    let mut cluster = Cluster::new(name, ClusterSpec::default());
    cluster.metadata.uid = Some(format!("uid-{name}"));
    let ready = conditions::condition(READY, status, "Because", "");
    let resources = vec![APIResource { name: "deployments".into(), kind: "Deployment".into() }];
    let state = cluster.status.get_or_insert_default();
    state.conditions = vec![ready];
    state.api_enablements = vec![APIEnablement { group_version: "apps/v1".into(), resources }].into();
    if tainted {
        let time_added = Timestamp::from_second(1_000_100).ok().map(Time);
        cluster.spec.taints = vec![Taint { key: "k".into(), effect: NO_EXECUTE.into(), value: None, time_added }];
    }
    Arc::new(cluster)
}

fn binding(n: usize, on: &str) -> Binding {
    let spread = SpreadConstraint {
        spread_by_field: Some(SpreadByField::Cluster),
        min_groups: 1,
        ..SpreadConstraint::default()
    };
    let name = format!("workload-{n:06}-deployment");
    let mut binding = ResourceBinding::new(
        &name,
        ResourceBindingSpec {
            resource: ObjectReference {
                api_version: "apps/v1".into(),
                kind: "Deployment".into(),
                namespace: format!("team-{}", n % 100),
                name: format!("workload-{n:06}"),
                uid: format!("00000000-0000-4000-8000-{n:012}"),
                ..ObjectReference::default()
            },
            replicas: 2,
            clusters: vec![TargetCluster { name: on.to_owned(), replicas: 2, components: vec![] }],
            placement: Some(Placement { spread_constraints: vec![spread], ..Placement::default() }.into()),
            ..ResourceBindingSpec::default()
        },
    );
    binding.metadata.namespace = Some(format!("team-{}", n % 100));
    binding.metadata.uid = Some(format!("10000000-0000-4000-8000-{n:012}"));
    binding.metadata.labels = Some([(PROPAGATION_POLICY_PERMANENT_ID.to_owned(), "id".to_owned())].into());
    Binding::from(Arc::new(binding))
}

fn measure(clock: &Clock, clusters: usize, elements: usize) -> anyhow::Result<Figures> {
    let faulty = clusters * 6 / 10;
    let name = |n: usize| format!("member{n}");
    let bindings: Vec<Binding> = (0..elements).map(|n| binding(n, &name(n % faulty))).collect();
    let by_key: std::collections::BTreeMap<BindingKey, Binding> =
        bindings.iter().map(|b| (b.key(), b.clone())).collect();
    let mut flags = Flags::default();
    flags.eviction.secondary_resource_eviction_rate = 1e6;
    flags.eviction.resource_eviction_rate = 1e6;
    flags.eviction.mass_failure_hold = Duration::ZERO;
    let before = resident();
    let mut evictions = Evictions::new(flags, now(0)?);
    let mut fleet = Clusters::new();
    for n in 0..clusters {
        let cluster = if n < faulty { cluster(&name(n), "False", true) } else { cluster(&name(n), "True", false) };
        let key = ClusterName::from(name(n).as_str());
        evictions.cluster(&key, Some(&cluster), false.into(), now(100)?);
        fleet.insert(key, cluster);
    }
    let each = |took: Duration, n: usize| took / u32::try_from(n.max(1)).unwrap_or(u32::MAX);

    let began = clock.mono();
    for binding in &bindings {
        evictions.binding(&binding.key(), Some(binding), now(100)?);
    }
    let enter = each(clock.mono() - began, elements);
    let bytes = resident().zip(before).map(|(after, before)| after.saturating_sub(before) / elements.max(1));

    // Most events are about a binding that is queued already.
    let rounds = 1_000.min(elements);
    let began = clock.mono();
    for n in 0..rounds {
        let binding = &bindings[n * (elements / rounds)];
        evictions.binding(&binding.key(), Some(binding), now(101)?);
    }
    let again = each(clock.mono() - began, rounds);

    let began = clock.mono();
    let mut evicted = 0;
    let mut moment = now(200)?;
    while evicted < rounds {
        match evictions.next(&fleet, |key| by_key.get(key).cloned(), moment) {
            Next::Evict(eviction) => {
                evictions.done(&eviction, &Outcome::Written, moment);
                evicted += 1;
            }
            Next::Wait(Some(at)) => moment.mono = at.max(moment.mono + Duration::from_nanos(1)),
            Next::Again => {}
            Next::Wait(None) => break,
        }
    }
    let evict = each(clock.mono() - began, evicted);
    drop(evictions.take_events());

    let left = evictions.queue().len();
    let began = clock.mono();
    for n in 0..faulty {
        evictions.cluster(&name(n).as_str().into(), Some(&cluster(&name(n), "True", false)), false.into(), moment);
    }
    let recover = each(clock.mono() - began, left);
    Ok(Figures { elements, enter, again, evict, recover, bytes })
}

/// Resident memory of this process in bytes, where the system reports it.
fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}
