//! Evicts bindings from faulty clusters, as fast as the fleet can bear (failover.md 3, 6). Runs while gate `Failover` is on.
//!
//! [`Evictions`] decides; this feeds it with what the caches tell, writes what it hands out, and waits as long as it says.
//! The queue is memory of the leader: a new one builds it anew from the objects.

mod apply;
mod observe;
mod report;

use std::{sync::Arc, time::Duration};

use ironclad_api::{
    cluster::Cluster,
    work::{ClusterResourceBinding, ResourceBinding, ResourceBindingSpec},
};
use ironclad_failover::{
    Bound, Evictions, Flags, Now,
    eviction::{Eviction, Next, Notice},
    flags::NoExecutePolicy,
    guards::Held,
};
use ironclad_fleet::{ClusterName, Event, gates::Gate};
use ironclad_runtime::{Change, Informer};
use ironclad_seam::Clock;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use crate::Context;

/// The bindings of every faulty cluster are looked at again after this time, whatever was or was not told (6.8).
const RESCAN: Duration = Duration::from_secs(10);

/// The decisions with their clock. Metrics read them too.
pub(crate) struct Running {
    pub(crate) evictions: Evictions,
    began: Instant,
    clock: Clock,
}

impl Running {
    /// Decisions whose monotonic time begins now.
    #[cfg(test)]
    pub(crate) fn new(evictions: Evictions, clock: Clock) -> Self {
        Self { evictions, began: clock.mono(), clock }
    }

    pub(crate) fn now(&self) -> Now {
        Now { wall: self.clock.wall(), mono: self.clock.mono() - self.began }
    }
}

/// Nothing until the taint manager runs.
pub(crate) type Shared = Arc<Mutex<Option<Running>>>;

/// What is remembered of evictions.
pub(crate) struct State {
    pub(crate) running: Shared,
    changed: Notify,
    /// ConfigMap `karmada-system/ironclad-failover`, by which people pause evictions.
    pause: Informer<ConfigMap>,
    report: report::Report,
}

impl State {
    pub(crate) fn new(running: Shared) -> Self {
        Self { running, changed: Notify::new(), pause: Informer::new(&[]), report: report::Report::default() }
    }

    /// Tells the decisions of something, if they run, and has the loop look again.
    fn tell(&self, what: impl FnOnce(&mut Evictions, Now)) {
        if let Some(running) = self.running.lock().as_mut() {
            let now = running.now();
            what(&mut running.evictions, now);
        } else {
            return;
        }
        self.changed.notify_one();
    }
}

fn runs(cx: &Context) -> bool {
    cx.settings.gates.enabled(Gate::Failover) && cx.settings.controllers.enabled("taint-manager")
}

/// Fills the queue from the caches, which are complete, and starts the loop.
pub(crate) async fn start(cx: &Arc<Context>) {
    if !runs(cx) {
        return;
    }
    let flags = observe::flags(cx);
    warn_of_no_execute(&flags);
    observe::watch_pause(cx).await;
    let clock = cx.seam.clock.clone();
    let began = clock.mono();
    let now = Now { wall: clock.wall(), mono: Duration::ZERO };
    let mut evictions = Evictions::new(flags, now);
    observe::fill(cx, &mut evictions, now);
    *cx.taint_manager.running.lock() = Some(Running { evictions, began, clock });
    // What changed while it was filled was told to nobody.
    observe::rescan(cx);
    let running = cx.clone();
    drop(cx.seam.tasks.spawn("taint manager", async move { run(&running).await }));
    report::start(cx);
}

/// People who come from Karmada expect a fence around NoExecute that is open here (IR-12).
fn warn_of_no_execute(flags: &Flags) {
    if flags.eviction.enable_no_execute_taint_eviction && flags.no_execute_policy == NoExecutePolicy::Allowed {
        tracing::warn!(
            "NoExecute taints evict every workload that does not tolerate them, and ClusterTaintPolicies may add them: \
             --enable-no-execute-taint-eviction=false or --allow-no-execute-taint-policy=false is the fence that Karmada has"
        );
    }
}

/// What one look at the decisions came to.
struct Turn {
    next: Next,
    notice: Option<Notice>,
    events: Vec<Event>,
    /// When there is something to do, at the latest.
    wake: Option<Instant>,
    faulty: bool,
}

async fn run(cx: &Arc<Context>) {
    let state = &cx.taint_manager;
    let mut rescan_at = cx.seam.clock.mono() + RESCAN;
    loop {
        let changed = state.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let Some(turn) = turn(cx) else { return };
        for event in &turn.events {
            cx.events.record(event);
        }
        let told = turn.notice.is_some();
        if let Some(notice) = &turn.notice {
            apply::show(cx, notice);
        }
        match turn.next {
            Next::Evict(eviction) => {
                let worker = cx.clone();
                drop(cx.seam.tasks.spawn("eviction", async move { evict(&worker, *eviction).await }));
                continue;
            }
            Next::Again => {
                cx.seam.clock.sleep(Duration::ZERO).await;
                continue;
            }
            Next::Wait(_) if told => continue,
            Next::Wait(_) => {}
        }
        let rescan = turn.faulty.then_some(rescan_at);
        let wake = [turn.wake, rescan].into_iter().flatten().min();
        match wake {
            Some(at) => tokio::select! {
                biased;
                () = &mut changed => {}
                () = cx.seam.clock.sleep_until(at) => {}
            },
            None => changed.await,
        }
        if cx.seam.clock.mono() >= rescan_at {
            rescan_at = cx.seam.clock.mono() + RESCAN;
            if turn.faulty {
                observe::rescan(cx);
            }
        }
    }
}

fn turn(cx: &Context) -> Option<Turn> {
    let clusters = cx.all_clusters();
    let mut running = cx.taint_manager.running.lock();
    let running = running.as_mut()?;
    let now = running.now();
    let began = running.began;
    let evictions = &mut running.evictions;
    let notice = evictions.next_notice(now);
    let room = |spec: &ResourceBindingSpec, cluster: &ClusterName| observe::room(cx, spec, cluster);
    let next = evictions.next_with_room(&clusters, Some(&room), |key| observe::bound(cx, key), now);
    let events = evictions.take_events();
    cx.metrics.eviction.waited(evictions.take_waited());
    let at = match &next {
        Next::Wait(at) => *at,
        Next::Evict(_) | Next::Again => None,
    };
    let wake = [at, evictions.next_notice_at()].into_iter().flatten().min().map(|at| began + at);
    Some(Turn { next, notice, events, wake, faulty: !evictions.episodes().is_empty() })
}

/// Writes one eviction and reports how it went.
async fn evict(cx: &Context, eviction: Eviction) {
    let outcome = apply::evict(cx, &eviction).await;
    let key = &eviction.key.binding;
    cx.taint_manager.tell(|evictions, now| {
        if evictions.done(&eviction, &outcome, now) {
            evictions.binding(key, observe::bound(cx, key).as_ref(), now);
        }
    });
}

/// A cluster changed: its health, its taints, or whether it can take workloads.
pub(crate) fn on_cluster(cx: &Arc<Context>, change: &Change<Cluster>) {
    let Some(cluster) = change.new.as_ref().or(change.old.as_ref()) else { return };
    let name = ClusterName::from(cluster.name_any().as_str());
    if change.new.is_none() {
        cx.metrics.eviction.forget(&name.0);
    }
    cx.taint_manager.tell(|evictions, now| observe::cluster(cx, evictions, &name, change.new.as_ref(), now));
}

/// Some cluster has more room than before.
pub(crate) fn on_room(cx: &Context) {
    if cx.settings.failover.eviction.capacity_check {
        cx.taint_manager.tell(|evictions, _| evictions.room_appeared());
    }
}

/// A ResourceBinding changed.
pub(crate) fn on_binding(cx: &Arc<Context>, change: &Change<ResourceBinding>) {
    let (old, new) = (change.old.clone().map(Bound::from), change.new.clone().map(Bound::from));
    on_bound(cx, old, new);
}

/// A ClusterResourceBinding changed.
pub(crate) fn on_cluster_binding(cx: &Arc<Context>, change: &Change<ClusterResourceBinding>) {
    let (old, new) = (change.old.clone().map(Bound::from), change.new.clone().map(Bound::from));
    on_bound(cx, old, new);
}

fn on_bound(cx: &Context, old: Option<Bound>, new: Option<Bound>) {
    let Some(key) = new.as_ref().or(old.as_ref()).map(Bound::key) else { return };
    if old.as_ref().zip(new.as_ref()).is_some_and(|(old, new)| !observe::matters(old, new)) {
        return;
    }
    cx.taint_manager.tell(|evictions, now| {
        if let (Some(old), Some(new)) = (&old, &new) {
            evictions.moved(&key, old, new);
        }
        evictions.binding(&key, new.as_ref(), now);
    });
}

/// A person paused evictions, or lets them go on.
fn on_pause(cx: &Context) {
    let held = if observe::is_paused(cx) { Held::Paused } else { Held::No };
    cx.taint_manager.tell(|evictions, _| evictions.hold(held));
}

impl Context {
    /// True if no eviction is being written.
    pub(crate) fn evictions_are_quiet(&self) -> bool {
        self.taint_manager.running.lock().as_ref().is_none_or(|running| running.evictions.is_quiet())
    }
}
