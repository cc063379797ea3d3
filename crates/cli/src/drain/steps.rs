//! The moves of a drain, one after the other, and the wait for what they leave.

use std::{sync::Arc, time::Duration};

use ironclad_api::{
    namespaces,
    work::{ClusterResourceBinding, ResourceBinding},
};
use ironclad_failover::{
    drain::{self, Verdict},
    eviction::PAUSE_CONFIG_MAP,
    flags::HealthFlags,
    guards,
    rate::State,
};
use ironclad_fleet::{Binding, BindingKey, Clusters};
use ironclad_seam::Clock;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{DrainError, LOOK, Stuck, TRIES, Wanted, clusters, draining_since, failed};
use crate::write::FIELD_MANAGER;

/// How far a drain is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Progress {
    /// Bindings that are to be moved.
    pub total: usize,
    /// Of these are moved.
    pub evicted: usize,
    /// Old copies that wait for their replacements to be healthy.
    pub waiting: usize,
    /// Could not be moved after all.
    pub failed: usize,
    /// Moves per second that are allowed now.
    pub rate: f64,
    /// Why none is, if none is.
    pub held: Option<Held>,
}

/// What a drain reports while it runs.
#[derive(Debug, Clone, Copy)]
pub enum Report<'a> {
    /// It got further.
    Progress(&'a Progress),
    /// The server refused to move one binding; the others are moved.
    Refused {
        /// The binding.
        binding: &'a BindingKey,
        /// The server's answer.
        message: &'a str,
    },
}

impl std::fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Progress(progress) => progress.fmt(f),
            Self::Refused { binding, message } => write!(f, "{binding} was not moved: {message}"),
        }
    }
}

/// Why nothing is moved for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Too many clusters are unhealthy.
    Unhealthy {
        /// How many.
        unhealthy: usize,
        /// Of how many.
        total: usize,
    },
    /// Somebody paused all evictions.
    Paused,
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { total, evicted, waiting, failed, rate, held } = self;
        write!(f, "evicted {evicted}/{total}, waiting for health {waiting}, failed {failed}, ")?;
        match held {
            None => write!(f, "rate {rate}/s"),
            Some(Held::Paused) => f.write_str("held: evictions are paused (ironclad failover resume)"),
            Some(Held::Unhealthy { unhealthy, total }) => {
                write!(f, "held: {unhealthy} of {total} other clusters are unhealthy (--ignore-health)")
            }
        }
    }
}

/// Moves these bindings at the wanted rate. Those that meanwhile went by themselves are skipped; those that have nowhere
/// to go any more, or that the server does not let go, count as failed. Returns what is moved and still there.
///
/// # Errors
/// If somebody ended the drain, or the control plane can't be asked.
pub async fn evict(
    plane: &Client,
    clock: &Clock,
    wanted: &Wanted,
    bindings: Vec<Binding>,
    progress: &mut Progress,
    mut report: impl FnMut(Report<'_>),
) -> Result<Vec<Binding>, DrainError> {
    progress.total += bindings.len();
    let mut left = Vec::new();
    let mut next = clock.mono();
    for binding in bindings {
        let clusters = loop {
            let clusters = clusters(plane, &wanted.cluster).await?;
            let Some(cluster) = clusters.get(&wanted.cluster) else {
                return Err(DrainError::NotFound { name: wanted.cluster.to_string() });
            };
            if draining_since(cluster).is_none() {
                return Err(DrainError::Aborted { name: wanted.cluster.to_string() });
            }
            let interval = pace(plane, clock, wanted, &clusters, progress).await?;
            match interval {
                Some(_) if clock.mono() >= next => {
                    next = clock.mono() + interval.unwrap_or_default();
                    break clusters;
                }
                Some(_) => clock.sleep_until(next).await,
                None => {
                    report(Report::Progress(progress));
                    clock.sleep(LOOK).await;
                }
            }
        };
        match one(plane, wanted, &binding, &clusters, &mut report).await? {
            Some(moved) => {
                progress.evicted += 1;
                progress.waiting += usize::from(drain::is_under_way(moved.spec(), &wanted.cluster));
                left.push(moved);
            }
            None => progress.failed += 1,
        }
        report(Report::Progress(progress));
    }
    Ok(left)
}

/// How fast it may go now.
async fn pace(
    plane: &Client,
    clock: &Clock,
    wanted: &Wanted,
    clusters: &Clusters,
    progress: &mut Progress,
) -> Result<Option<Duration>, DrainError> {
    let maps = Api::<ConfigMap>::namespaced(plane.clone(), namespaces::SYSTEM);
    let pause = maps
        .get_opt(PAUSE_CONFIG_MAP)
        .await
        .map_err(failed(&wanted.cluster, "reading whether evictions are paused"))?;
    if guards::is_paused(pause.and_then(|map| map.data).as_ref()) {
        (progress.rate, progress.held) = (0.0, Some(Held::Paused));
        return Ok(None);
    }
    let all = clusters.iter().map(|(name, cluster)| (name, &**cluster));
    let grace = HealthFlags::default().startup_grace_period;
    let pace = drain::pace(wanted.rate, all, &wanted.cluster, wanted.health, grace, clock.wall_seconds());
    progress.rate = pace.interval.map_or(0.0, |interval| 1.0 / interval.as_secs_f64());
    let halted = pace.interval.is_none() && pace.state != State::Normal;
    progress.held = halted.then_some(Held::Unhealthy { unhealthy: pace.counts.unhealthy, total: pace.counts.total });
    Ok(pace.interval)
}

/// Moves one binding as it is now; `None` if it can't be moved.
async fn one(
    plane: &Client,
    wanted: &Wanted,
    binding: &Binding,
    clusters: &Clusters,
    report: &mut impl FnMut(Report<'_>),
) -> Result<Option<Binding>, DrainError> {
    for _ in 0..TRIES {
        let Some(present) = get(plane, wanted, binding).await? else { return Ok(Some(gone(binding))) };
        match drain::judge(&present, &wanted.cluster, clusters, wanted.check) {
            Some(Verdict::Moves) => {}
            Some(Verdict::Stuck(_)) if wanted.stuck == Stuck::Force => {}
            Some(_) => return Ok(None),
            None => return Ok(Some(present)),
        }
        let Some(patch) = drain::patch(present.spec(), &wanted.cluster, wanted.purge_mode) else {
            return Ok(Some(present));
        };
        match write(plane, &present, patch).await {
            Ok(moved) => return Ok(Some(moved)),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Some(gone(binding))),
            // What a server refuses is this binding's trouble, not that of the others.
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) => {
                report(Report::Refused { binding: &binding.key(), message: &status.message });
                return Ok(None);
            }
            Err(error) => return Err(failed(&wanted.cluster, format!("moving {}", binding.key()))(error)),
        }
    }
    Ok(None)
}

/// A binding that was deleted leaves nothing behind.
fn gone(binding: &Binding) -> Binding {
    let mut gone = ResourceBinding::new(&binding.key().name, ironclad_api::work::ResourceBindingSpec::default());
    gone.metadata.namespace = Some(binding.key().namespace.to_string());
    Binding::from(Arc::new(gone))
}

async fn get(plane: &Client, wanted: &Wanted, binding: &Binding) -> Result<Option<Binding>, DrainError> {
    let key = binding.key();
    let doing = format!("reading {key}");
    let found = match binding {
        Binding::Namespaced(_) => {
            let api = Api::<ResourceBinding>::namespaced(plane.clone(), &key.namespace);
            api.get_opt(&key.name).await.map(|found| found.map(|b| Binding::from(Arc::new(b))))
        }
        Binding::Cluster(_) => {
            let api = Api::<ClusterResourceBinding>::all(plane.clone());
            api.get_opt(&key.name).await.map(|found| found.map(|b| Binding::from(Arc::new(b))))
        }
    };
    let found = found.map_err(failed(&wanted.cluster, doing))?;
    Ok(found.filter(|found| found.uid() == binding.uid()))
}

async fn write(plane: &Client, seen: &Binding, mut patch: Value) -> Result<Binding, kube::Error> {
    let key = seen.key();
    patch["metadata"]["resourceVersion"] = json!(seen.metadata().resource_version);
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    match seen {
        Binding::Namespaced(_) => {
            let api = Api::<ResourceBinding>::namespaced(plane.clone(), &key.namespace);
            api.patch(&key.name, &params, &Patch::Merge(patch)).await.map(|b| Binding::from(Arc::new(b)))
        }
        Binding::Cluster(_) => {
            let api = Api::<ClusterResourceBinding>::all(plane.clone());
            api.patch(&key.name, &params, &Patch::Merge(patch)).await.map(|b| Binding::from(Arc::new(b)))
        }
    }
}

/// Waits until no old copy of these bindings is left. Zero is no limit of time.
///
/// # Errors
/// If it takes longer than that, somebody ended the drain, or the control plane can't be asked.
pub async fn wait(
    plane: &Client,
    clock: &Clock,
    wanted: &Wanted,
    mut left: Vec<Binding>,
    timeout: Duration,
    progress: &mut Progress,
    mut report: impl FnMut(Report<'_>),
) -> Result<(), DrainError> {
    let began = clock.mono();
    loop {
        let mut still = Vec::new();
        for binding in left {
            let present = get(plane, wanted, &binding).await?;
            still.extend(present.filter(|present| drain::is_under_way(present.spec(), &wanted.cluster)));
        }
        left = still;
        progress.waiting = left.len();
        report(Report::Progress(progress));
        if left.is_empty() {
            return Ok(());
        }
        let cluster = super::find(plane, &wanted.cluster).await?;
        if draining_since(&cluster).is_none() {
            return Err(DrainError::Aborted { name: wanted.cluster.to_string() });
        }
        if !timeout.is_zero() && clock.mono() - began >= timeout {
            let (name, seconds, waiting) = (wanted.cluster.to_string(), timeout.as_secs(), left.len());
            return Err(DrainError::TimedOut { name, seconds, waiting });
        }
        clock.sleep(LOOK).await;
    }
}
