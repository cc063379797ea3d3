//! Evictions of a drain, one after the other, and the wait for the old copies.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use ironclad_api::work::{ClusterResourceBinding, ResourceBinding};
use ironclad_failover::{
    drain::{self, Verdict},
    flags::HealthFlags,
    taint_manager::rate::State,
};
use ironclad_fleet::{Binding, BindingKey, ClusterName, Clusters, count::count};
use ironclad_planning::doctor::replacements;
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use jiff::Timestamp;
use kube::{
    Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{DrainError, Options, POLL_INTERVAL, READ_MAX, Stuck, TRIES, draining_since, failed, fleet::Fleet, named};
use crate::write::{FIELD_MANAGER, Mode};

/// Progress of a drain.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    /// Bindings that are to be moved.
    pub total: usize,
    /// Bindings that were moved.
    pub evicted: usize,
    /// Old copies that wait for their replacements to be healthy.
    pub waiting: usize,
    /// Could not be moved after all.
    pub failed: usize,
    /// Moves per second that are allowed now.
    pub rate: f64,
    /// Reason if no eviction is allowed.
    pub hold: Option<Hold>,
    /// Bindings that stay on the drained cluster, each with the reason, at the end.
    pub stays: Vec<String>,
    /// Bindings whose replacements are not healthy, each with the state of those.
    pub awaited: Vec<String>,
}

/// Time until which a whole drain must be done: its moves, and the wait for what was moved.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    timeout: Duration,
    end: Option<Instant>,
}

impl Limit {
    /// A limit of this time from now on; zero is none.
    #[must_use]
    pub fn of(timeout: Duration, clock: &Clock) -> Self {
        Self { timeout, end: (!timeout.is_zero()).then(|| clock.mono() + timeout) }
    }

    /// The earlier of this moment and the end.
    fn until(self, moment: Instant) -> Instant {
        self.end.map_or(moment, |end| moment.min(end))
    }

    fn check(self, cluster: &ClusterName, clock: &Clock, because: impl FnOnce() -> String) -> Result<(), DrainError> {
        match self.end {
            Some(end) if clock.mono() >= end => {
                let seconds = self.timeout.as_secs();
                Err(DrainError::TimedOut { name: cluster.to_string(), seconds, because: because() })
            }
            _ => Ok(()),
        }
    }
}

/// Report of a running drain.
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

impl Progress {
    /// Takes in the old copies that are left.
    pub(super) fn awaits(&mut self, left: &[Binding]) {
        self.waiting = left.len();
        self.awaited = left.iter().map(awaited).collect();
    }
}

/// A binding and the state of its new copies.
fn awaited(binding: &Binding) -> String {
    let key = binding.key();
    match replacements(binding) {
        Some(state) => format!("{key}: {state}"),
        None if binding.spec().clusters.is_empty() => format!("{key}: it has no cluster yet"),
        None => key.to_string(),
    }
}

/// Too many clusters are unhealthy, so that nothing is moved at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    pub unhealthy: usize,
    pub total: usize,
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { total, evicted, waiting, failed, rate, hold, awaited, .. } = self;
        let whom = if awaited.is_empty() { String::new() } else { format!(" ({})", named(awaited)) };
        write!(f, "evicted {evicted}/{total}, waiting for health {waiting}{whom}, failed {failed}, ")?;
        match hold {
            None => write!(f, "rate {rate}/s"),
            Some(Hold { unhealthy, total }) => {
                write!(f, "on hold: unhealthy other clusters: {unhealthy} of {total} (--ignore-health)")
            }
        }
    }
}

/// Moves these bindings at the requested rate. Those that meanwhile went by themselves are skipped; those that have
/// nowhere to go any more, or that the server does not let go, count as failed. Returns what is moved and still there.
///
/// # Errors
/// If it takes longer than the limit, somebody ended the drain, or the control plane can't be asked.
pub async fn evict(
    plane: &Client,
    clock: &Clock,
    options: &Options,
    bindings: Vec<Binding>,
    limit: Limit,
    progress: &mut Progress,
    mut report: impl FnMut(Report<'_>),
) -> Result<Vec<Binding>, DrainError> {
    progress.total += bindings.len();
    let mut left = Vec::new();
    if bindings.is_empty() {
        return Ok(left);
    }
    let fleet = Fleet::watch(plane, clock, &options.cluster).await?;
    let mut next = clock.mono();
    let mut looked = clock.mono();
    for binding in bindings {
        let clusters = loop {
            limit.check(&options.cluster, clock, || not_moved(progress))?;
            if clock.mono() >= looked + POLL_INTERVAL {
                looked = clock.mono();
                recount(plane, options, &mut left, progress).await?;
            }
            // Whoever ends the drain annotates its cluster, which therefore is read again.
            let cluster = super::find(plane, &options.cluster).await?;
            if draining_since(&cluster).is_none() {
                return Err(DrainError::Aborted { name: options.cluster.to_string() });
            }
            let clusters = fleet.clusters(cluster);
            let interval = pace(clock, options, &clusters, progress);
            match interval {
                Some(_) if clock.mono() >= next => {
                    next = clock.mono() + interval.unwrap_or_default();
                    break clusters;
                }
                Some(_) => clock.sleep_until(limit.until(next)).await,
                None => {
                    report(Report::Progress(progress));
                    clock.sleep_until(limit.until(clock.mono() + POLL_INTERVAL)).await;
                }
            }
        };
        match one(plane, options, &binding, &clusters, clock.wall_seconds(), &mut report).await? {
            Some(moved) => {
                progress.evicted += 1;
                if drain::is_under_way(moved.spec(), &options.cluster) {
                    progress.waiting += 1;
                    progress.awaited.push(awaited(&moved));
                }
                left.push(moved);
            }
            None => progress.failed += 1,
        }
        report(Report::Progress(progress));
    }
    Ok(left)
}

/// Takes old copies that are gone out of those that are left, the first that were moved first.
async fn recount(
    plane: &Client,
    options: &Options,
    left: &mut Vec<Binding>,
    progress: &mut Progress,
) -> Result<(), DrainError> {
    let rest = left.split_off(left.len().min(READ_MAX));
    let read: Vec<_> = left.iter().map(|binding| get(plane, options, binding).boxed()).collect();
    let present: Vec<Option<Binding>> = stream::iter(read).buffered(READ_MAX).try_collect().await?;
    let is_left = |present: &Binding| drain::is_under_way(present.spec(), &options.cluster);
    *left = present.into_iter().flatten().filter(is_left).chain(rest).collect();
    let waiting: Vec<Binding> = left.iter().filter(|binding| is_left(binding)).cloned().collect();
    progress.awaits(&waiting);
    Ok(())
}

/// The moves that are left when the time is over.
fn not_moved(progress: &Progress) -> String {
    let left = count(progress.total.saturating_sub(progress.evicted + progress.failed), "workload");
    match progress.hold {
        Some(Hold { unhealthy, total }) => {
            format!("{left} could not be moved while {unhealthy} of {total} other clusters are unhealthy")
        }
        None => format!("{left} were not moved yet at {}/s", progress.rate),
    }
}

/// Interval between moves at present; `None` while moves are on hold.
fn pace(clock: &Clock, options: &Options, clusters: &Clusters, progress: &mut Progress) -> Option<Duration> {
    let all = clusters.iter().map(|(name, cluster)| (name, &**cluster));
    let grace = HealthFlags::default().startup_grace_period;
    let pace = drain::pace(options.rate, all, &options.cluster, options.health, grace, clock.wall_seconds());
    progress.rate = pace.interval.map_or(0.0, |interval| 1.0 / interval.as_secs_f64());
    let halted = pace.interval.is_none() && pace.state != State::Normal;
    progress.hold = halted.then_some(Hold { unhealthy: pace.counts.unhealthy, total: pace.counts.total });
    pace.interval
}

/// Moves one binding as it is now; `None` if it can't be moved.
async fn one(
    plane: &Client,
    options: &Options,
    binding: &Binding,
    clusters: &Clusters,
    now: Timestamp,
    report: &mut impl FnMut(Report<'_>),
) -> Result<Option<Binding>, DrainError> {
    for _ in 0..TRIES {
        let Some(present) = get(plane, options, binding).await? else { return Ok(Some(deleted(binding))) };
        match options.drain(now).judge(&present, clusters) {
            Some(Verdict::Moves | Verdict::Leaves) => {}
            Some(Verdict::Finished) => return Ok(Some(present)),
            Some(Verdict::Stuck(_)) if options.stuck == Stuck::Force => {}
            Some(_) => return Ok(None),
            None => return Ok(Some(present)),
        }
        let Some(patch) = drain::patch(present.spec(), &options.cluster, options.purge_mode) else {
            return Ok(Some(present));
        };
        match write(plane, &present, patch, Mode::Keep).await {
            Ok(moved) => return Ok(Some(moved)),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Some(deleted(binding))),
            // What a server refuses is this binding's trouble, not that of the others.
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) => {
                report(Report::Refused { binding: &binding.key(), message: &status.message });
                return Ok(None);
            }
            Err(error) => return Err(failed(&options.cluster, format!("moving {}", binding.key()))(error)),
        }
    }
    Ok(None)
}

/// A binding that was deleted leaves nothing behind.
fn deleted(binding: &Binding) -> Binding {
    let mut deleted = ResourceBinding::new(&binding.key().name, ironclad_api::work::ResourceBindingSpec::default());
    deleted.metadata.namespace = Some(binding.key().namespace.to_string());
    Binding::from(Arc::new(deleted))
}

async fn get(plane: &Client, options: &Options, binding: &Binding) -> Result<Option<Binding>, DrainError> {
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
    let found = found.map_err(failed(&options.cluster, doing))?;
    Ok(found.filter(|found| found.uid() == binding.uid()))
}

/// Asks the server whether it would let these bindings move. Returns its answers about those that it would not.
pub(super) async fn would_refuse(
    plane: &Client,
    options: &Options,
    bindings: &[Binding],
) -> Result<Vec<String>, DrainError> {
    let mut refused = Vec::new();
    for binding in bindings {
        let key = binding.key();
        let Some(patch) = drain::patch(binding.spec(), &options.cluster, options.purge_mode) else { continue };
        match write(plane, binding, patch, Mode::DryRun).await {
            Ok(_) => {}
            // Others changed or deleted it meanwhile: a drain would look at it again.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) => {
                refused.push(format!("{key}: {}", status.message));
            }
            Err(error) => return Err(failed(&options.cluster, format!("moving {key}"))(error)),
        }
    }
    Ok(refused)
}

async fn write(plane: &Client, seen: &Binding, mut patch: Value, mode: Mode) -> Result<Binding, kube::Error> {
    let key = seen.key();
    patch["metadata"]["resourceVersion"] = json!(seen.metadata().resource_version);
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        dry_run: mode == Mode::DryRun,
        ..PatchParams::default()
    };
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

/// Waits until no old copy of these bindings is left.
///
/// # Errors
/// If it takes longer than the limit, somebody ended the drain, or the control plane can't be asked.
pub async fn wait(
    plane: &Client,
    clock: &Clock,
    options: &Options,
    mut left: Vec<Binding>,
    limit: Limit,
    progress: &mut Progress,
    mut report: impl FnMut(Report<'_>),
) -> Result<(), DrainError> {
    loop {
        let read: Vec<_> = left.iter().map(|binding| get(plane, options, binding).boxed()).collect();
        let present: Vec<Option<Binding>> = stream::iter(read).buffered(READ_MAX).try_collect().await?;
        let is_left = |present: &Binding| drain::is_under_way(present.spec(), &options.cluster);
        left = present.into_iter().flatten().filter(is_left).collect();
        progress.awaits(&left);
        report(Report::Progress(progress));
        if left.is_empty() {
            return Ok(());
        }
        let cluster = super::find(plane, &options.cluster).await?;
        if draining_since(&cluster).is_none() {
            return Err(DrainError::Aborted { name: options.cluster.to_string() });
        }
        let unhealthy = || {
            let names: Vec<String> = left.iter().map(awaited).collect();
            format!("replacements of {} are not healthy yet: {}", count(left.len(), "old copy"), named(&names))
        };
        limit.check(&options.cluster, clock, unhealthy)?;
        clock.sleep_until(limit.until(clock.mono() + POLL_INTERVAL)).await;
    }
}
