//! Watches of the kinds that count by number, each from the first quota on that names it.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use ironclad_quota::Counted;
use ironclad_runtime::{Api, Event, Watch, WatchScope, Yields};
use ironclad_seam::Seam;
use kube::{
    Client,
    api::{DynamicObject, PartialObjectMeta},
};

use super::{Controller, DEBOUNCE};
use crate::kinds::Kind;

const BACKOFF_BASE: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Server-side timeout of a watch, in seconds: an idle kind costs one request per half hour.
const WATCH_SECONDS: u32 = 1_800;

/// Starts the watch of a kind, unless it runs.
pub(super) fn ensure(controller: &Arc<Controller>, counted: &Counted, kind: &Arc<Kind>) {
    if !controller.watched.lock().insert(counted.clone()) {
        return;
    }
    let (client, seam) = (controller.cluster.client.clone(), controller.cluster.seam.clone());
    let (of, counted, kind) = (Arc::downgrade(controller), counted.clone(), kind.clone());
    controller.cluster.seam.tasks.spawn("resourcequota-watch", async move {
        follow(&of, &client, &seam, &counted, &kind).await;
        if let Some(of) = of.upgrade() {
            of.watched.lock().remove(&counted);
        }
    });
}

/// Counts again when objects of the kind are deleted. Returns when the watch fails and no quota names the kind.
async fn follow(of: &Weak<Controller>, client: &Client, seam: &Seam, counted: &Counted, kind: &Kind) {
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client.clone(), &kind.resource);
    let mut watch = Watch::new(&api, &WatchScope::default(), WATCH_SECONDS, &seam.clock);
    let jitter = seam.rng.stream("resourcequota");
    let (mut lists, mut failures, mut yields) = (0u32, 0u32, Yields::default());
    loop {
        let event = watch.next().await;
        let Some(of) = of.upgrade() else { return };
        let count_again = |namespace: Option<&str>| {
            let quotas = of.quotas_counting(counted, namespace);
            quotas.into_iter().for_each(|key| of.queue.add_after(key, DEBOUNCE));
        };
        match event {
            Ok(Event::Delete(object)) => count_again(object.metadata.namespace.as_deref()),
            Ok(Event::InitDone) => {
                failures = 0;
                // What was deleted between two lists is not reported.
                if lists > 0 {
                    count_again(None);
                }
                lists = lists.saturating_add(1);
            }
            Ok(Event::Apply(_)) => failures = 0,
            Ok(Event::Init) => {}
            Ok(Event::InitApply(_)) => yields.done().await,
            Err(error) => {
                if of.quotas_counting(counted, None).is_empty() {
                    return;
                }
                drop(of);
                let wait = BACKOFF_BASE.saturating_mul(1 << failures.min(10)).min(BACKOFF_MAX);
                failures = failures.saturating_add(1);
                tracing::debug!(kind = %kind.group_resource(), %error, ?wait, "watch failed");
                seam.clock.sleep(wait + jitter.duration_up_to(wait / 2)).await;
            }
        }
    }
}
