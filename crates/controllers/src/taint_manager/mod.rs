//! The taint manager: evicts bindings from faulty clusters, as fast as the fleet can bear (specification/failover.md 3,
//! 6).
//!
//! [`Evictions`] decides. This controller feeds it with changes of the caches, writes the evictions that it hands out,
//! and waits as long as it says. The queue is memory of the leader: a new leader builds it from the objects.

mod apply;
pub(crate) mod metrics;
mod observe;
pub(crate) mod running;

use std::{sync::Arc, time::Duration};

use ironclad_api::{cluster::Cluster, events::EVICT_WORKLOAD_FROM_CLUSTER_FAILED, work::ResourceBindingSpec};
use ironclad_failover::{
    Evictions, Flags, Now,
    flags::NoExecutePolicy,
    taint_manager::{Eviction, Next, Notice, Surroundings},
    wakes,
};
use ironclad_fleet::{Binding, ClusterName, Event, EventType};
use ironclad_runtime::Change;
use ironclad_seam::{Seam, Tasks};
use kube::ResourceExt as _;
use tokio::{sync::Notify, time::Instant};

use self::{
    apply::Applier,
    metrics::EvictionMetrics,
    observe::Observer,
    running::{Running, Shared},
};
use crate::{
    bindings::BindingChange,
    controller::Controller,
    setup::{Setup, on_change},
};

/// Time after which the bindings of every faulty cluster are evaluated again, in case an event was lost
/// (specification/failover.md 6.8).
const RESCAN: Duration = Duration::from_secs(10);

struct TaintManager {
    seam: Seam,
    running: Shared,
    changed: Notify,
    observer: Observer,
    applier: Applier,
    metrics: EvictionMetrics,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let metrics = setup.register(EvictionMetrics::register);
    let running = metrics.source();
    let explained = running.clone();
    setup.explain.offer_evictions(move || {
        let running = explained.lock();
        let running = running.as_ref()?;
        let now = running.now();
        Some((running.evictions.report(now), running.evictions.rows(now)))
    });
    let this = Arc::new(TaintManager {
        seam: setup.seam.clone(),
        changed: Notify::new(),
        observer: Observer::new(setup),
        applier: Applier::new(setup, running.clone()),
        running,
        metrics,
    });
    on_change(setup.clusters(), &this, TaintManager::on_cluster);
    setup.bindings().on_change(&this, TaintManager::on_binding);
    this.observer.pause.on_change(&this, TaintManager::on_pause);
    let weak = Arc::downgrade(&this);
    setup.groups().on_fellow(move |fellow| {
        if let Some(this) = weak.upgrade() {
            this.update(|evictions, now| evictions.fellow_moved(&fellow.key, now));
        }
    });
    let weak = Arc::downgrade(&this);
    setup.capacity().on_growth(move || {
        if let Some(this) = weak.upgrade() {
            this.update(|evictions, _| evictions.capacity_appeared());
        }
    });
    this
}

impl Controller for TaintManager {
    /// Fills the queue from the caches, which are complete, and starts the loop.
    fn start(self: Arc<Self>, tasks: &Tasks) {
        let flags = self.observer.flags.clone();
        warn_of_no_execute(&flags);
        let clock = self.seam.clock.clone();
        let began = clock.mono();
        let now = Now { wall: clock.wall(), mono: Duration::ZERO };
        let mut evictions = Evictions::new(flags, now);
        self.observer.fill(&mut evictions, now);
        *self.running.lock() = Some(Running::since(began, evictions, clock));
        // Changes during the fill reached nobody.
        self.update(|evictions, now| self.observer.rescan(evictions, now));
        let this = self.clone();
        tasks.supervise(&self.seam.clock, "taint manager", move || {
            let this = this.clone();
            async move { this.run().await }
        });
    }

    /// True if no eviction is being written.
    fn is_quiet(&self) -> bool {
        self.running.lock().as_ref().is_none_or(|running| running.evictions.is_quiet())
    }
}

/// People who come from Karmada expect that NoExecute taints evict only once that is allowed
/// (specification/failover.md IR-12).
fn warn_of_no_execute(flags: &Flags) {
    if flags.eviction.enable_no_execute_taint_eviction && flags.health.no_execute_policy == NoExecutePolicy::Allowed {
        tracing::warn!(
            "NoExecute taints evict every workload that does not tolerate them, and ClusterTaintPolicies may add them; \
             --enable-no-execute-taint-eviction=false or --allow-no-execute-taint-policy=false behaves like Karmada"
        );
    }
}

/// Result of one step of the decisions.
struct Step {
    next: Next,
    notice: Option<Notice>,
    events: Vec<Event>,
    /// Time of the next step, at the latest.
    due: Option<Instant>,
    faulty: bool,
}

/// Logs what happens to clusters, and evictions that are parked or fail; those on templates repeat these.
fn log(event: &Event) {
    let Event { about, reason, message, .. } = event;
    let is_of_cluster = about.kind == "Cluster";
    let is_kept_back = *reason == EVICT_WORKLOAD_FROM_CLUSTER_FAILED && about.kind.ends_with("ResourceBinding");
    match event.type_ {
        EventType::Warning if is_of_cluster => tracing::warn!(cluster = about.name, reason = %reason, "{message}"),
        EventType::Normal if is_of_cluster => tracing::info!(cluster = about.name, reason = %reason, "{message}"),
        EventType::Warning if is_kept_back => {
            tracing::warn!(namespace = about.namespace, binding = about.name, "{message}");
        }
        _ => {}
    }
}

impl TaintManager {
    /// Feeds the decisions, if they run, and wakes the loop.
    fn update(&self, feed: impl FnOnce(&mut Evictions, Now)) {
        if let Some(running) = self.running.lock().as_mut() {
            let now = running.now();
            feed(&mut running.evictions, now);
        } else {
            return;
        }
        self.changed.notify_one();
    }

    async fn run(self: &Arc<Self>) {
        let clock = &self.seam.clock;
        let mut rescan_at = clock.mono() + RESCAN;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let Some(step) = self.step() else { return };
            for event in &step.events {
                log(event);
                self.applier.events.record(event);
            }
            let has_notice = step.notice.is_some();
            if let Some(notice) = &step.notice {
                self.applier.show(notice);
            }
            match step.next {
                Next::Evict(eviction) => {
                    let this = self.clone();
                    drop(self.seam.tasks.spawn("eviction", async move { this.evict(*eviction).await }));
                    continue;
                }
                Next::Again => {
                    clock.sleep(Duration::ZERO).await;
                    continue;
                }
                Next::Wait(_) if has_notice => continue,
                Next::Wait(_) => {}
            }
            let rescan = step.faulty.then_some(rescan_at);
            match [step.due, rescan].into_iter().flatten().min() {
                Some(at) => tokio::select! {
                    biased;
                    () = &mut changed => {}
                    () = clock.sleep_until(at) => {}
                },
                None => changed.await,
            }
            if clock.mono() >= rescan_at {
                rescan_at = clock.mono() + RESCAN;
                if step.faulty {
                    self.update(|evictions, now| self.observer.rescan(evictions, now));
                }
            }
        }
    }

    fn step(&self) -> Option<Step> {
        let clusters = self.observer.clusters();
        let mut running = self.running.lock();
        let running = running.as_mut()?;
        let now = running.now();
        let began = running.began;
        let evictions = &mut running.evictions;
        let notice = evictions.next_notice(now);
        let available = |spec: &ResourceBindingSpec, cluster: &ClusterName| self.observer.available(spec, cluster);
        let peers = self.observer.groups.read();
        let around = Surroundings { clusters: &clusters, available: Some(&available), peers: peers.as_deref() };
        let next = evictions.next_in(around, |key| self.observer.binding(key), now);
        drop(peers);
        let events = evictions.take_events();
        self.metrics.waited(evictions.take_waited());
        let at = match &next {
            Next::Wait(at) => *at,
            Next::Evict(_) | Next::Again => None,
        };
        let due = [at, evictions.next_notice_at()].into_iter().flatten().min().map(|at| began + at);
        Some(Step { next, notice, events, due, faulty: !evictions.episodes().is_empty() })
    }

    /// Writes one eviction and feeds back the outcome.
    async fn evict(&self, eviction: Eviction) {
        let outcome = self.applier.evict(&eviction).await;
        let key = &eviction.key.binding;
        self.update(|evictions, now| {
            if evictions.done(&eviction, &outcome, now) {
                evictions.binding(key, self.observer.binding(key).as_ref(), now);
            }
        });
    }

    fn on_cluster(&self, change: &Change<Cluster>) {
        let Some(cluster) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let name = ClusterName::from(cluster.name_any().as_str());
        if change.new.is_none() {
            self.metrics.forget(&name.0);
        }
        self.update(|evictions, now| self.observer.cluster(evictions, &name, change.new.as_ref(), now));
    }

    fn on_binding(&self, change: &BindingChange) {
        fn parts(binding: &Binding) -> wakes::Parts<'_> {
            (binding.metadata(), binding.spec(), binding.status())
        }
        let BindingChange { old, new } = change;
        let Some(key) = new.as_ref().or(old.as_ref()).map(Binding::key) else { return };
        if !wakes::taint_manager::binding(old.as_ref().map(parts), new.as_ref().map(parts)) {
            return;
        }
        self.update(|evictions, now| {
            if let (Some(old), Some(new)) = (old, new) {
                evictions.moved(&key, old, new);
            }
            evictions.binding(&key, new.as_ref(), now);
        });
    }

    fn on_pause(&self) {
        let pause = self.observer.pause();
        self.update(|evictions, _| evictions.hold(pause));
    }
}
