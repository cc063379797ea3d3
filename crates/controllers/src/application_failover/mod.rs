//! Moves workloads away from clusters in which they are unhealthy for too long (failover.md 5). Independent of the gate
//! `Failover`.

mod apply;
mod observe;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_api::work::{ClusterResourceBinding, ResourceBinding};
use ironclad_failover::{
    Now,
    application::{self, Asking, Memory, Parts},
};
use ironclad_runtime::{Change, Failure, Key, Next, run_workers};
use ironclad_seam::Clock;
use jiff::Timestamp;
use kube::Resource;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::Context;

/// Its name in `--controllers`.
const NAME: &str = "applicationFailover";
/// Bindings judged at once.
const WORKERS: usize = 5;

/// Since when which bindings are unhealthy where: only those that are.
#[derive(Debug)]
pub(crate) struct Memories {
    origin: Instant,
    began: Timestamp,
    unhealthy: Mutex<BTreeMap<Key, Memory>>,
    /// Since when bindings ask for it that did not before, from the origin on.
    asked: Mutex<BTreeMap<Key, Duration>>,
}

impl Memories {
    /// Nothing is remembered; times count from now.
    pub(crate) fn new(clock: &Clock) -> Self {
        Self { origin: clock.mono(), began: clock.wall_seconds(), unhealthy: Mutex::default(), asked: Mutex::default() }
    }

    fn of(&self, key: &Key) -> Memory {
        self.unhealthy.lock().get(key).cloned().unwrap_or_default()
    }

    fn remember(&self, key: &Key, memory: Memory) {
        if memory.is_empty() {
            self.unhealthy.lock().remove(key);
        } else {
            self.unhealthy.lock().insert(key.clone(), memory);
        }
    }

    fn asked(&self, key: &Key) -> Option<Duration> {
        self.asked.lock().get(key).copied()
    }

    fn asks(&self, key: &Key, asking: Asking, clock: &Clock) {
        let mut asked = self.asked.lock();
        match asking {
            Asking::Begins => drop(asked.insert(key.clone(), self.now(clock).mono)),
            Asking::Not => drop(asked.remove(key)),
            Asking::Goes => {}
        }
    }

    fn knows(&self, key: &Key) -> bool {
        self.unhealthy.lock().contains_key(key)
    }

    fn now(&self, clock: &Clock) -> Now {
        Now { wall: clock.wall(), mono: clock.mono().saturating_duration_since(self.origin) }
    }
}

/// Starts the workers.
pub(crate) fn start(cx: &Arc<Context>) {
    let worker = cx.clone();
    run_workers(NAME, &cx.seam.tasks, &cx.queues.application_failover, WORKERS, move |key| {
        let cx = worker.clone();
        async move { reconcile(&cx, &key).await }
    });
}

async fn reconcile(cx: &Context, key: &Key) -> Result<Next, Failure> {
    if !crate::runs(cx, NAME) {
        return Ok(Next::Forget);
    }
    let memories = &cx.unhealthy;
    let Some(observed) = observe::observe(cx, key, memories.of(key)) else {
        memories.remember(key, Memory::default());
        return Ok(Next::Forget);
    };
    let mut decision = application::decide(&observed.seen(cx), memories.now(&cx.seam.clock));
    memories.remember(key, std::mem::take(&mut decision.memory));
    apply::apply(cx, key, &observed, &decision).await
}

/// A binding came, changed or went.
pub(crate) fn on_binding(cx: &Arc<Context>, change: &Change<ResourceBinding>) {
    changed(cx, change, |b| (&b.spec, b.status.as_ref()));
}

/// The same for bindings of cluster-scoped templates.
pub(crate) fn on_cluster_binding(cx: &Arc<Context>, change: &Change<ClusterResourceBinding>) {
    changed(cx, change, |b| (&b.spec, b.status.as_ref()));
}

/// Only what concerns a binding that asks for it, or that is remembered.
fn changed<K: Resource>(cx: &Context, change: &Change<K>, parts: impl Fn(&K) -> Parts<'_>) {
    let Some(any) = change.new.as_deref().or(change.old.as_deref()) else { return };
    let key = Key::of(any);
    let (old, new) = (change.old.as_deref().map(&parts), change.new.as_deref().map(&parts));
    let turn = application::turn(old, new, cx.unhealthy.knows(&key));
    cx.unhealthy.asks(&key, turn.asking, &cx.seam.clock);
    if turn.look {
        cx.queues.application_failover.add(key);
    }
}
