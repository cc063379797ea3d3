//! One metadata watch per kind, which feeds the graph.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ironclad_runtime::{Api, Event, Watch, WatchScope, Yields};
use ironclad_seam::Seam;
use kube::api::{DynamicObject, PartialObjectMeta};

use super::{
    Collector,
    graph::{Node, Uid},
};
use crate::kinds::Kind;

const BACKOFF_BASE: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Server-side timeout of a watch, in seconds: an idle kind costs one request per half hour.
const WATCH_SECONDS: u32 = 1_800;

pub(super) async fn follow(collector: Arc<Collector>, kind: Arc<Kind>, seam: Seam) {
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(collector.client.clone(), &kind.resource);
    let mut watch = Watch::new(&api, &WatchScope::default(), WATCH_SECONDS, &seam.clock);
    let jitter = seam.rng.stream("garbage-collector");
    // After a restart, the first list shows which of the objects that the graph still has were deleted meanwhile.
    let mut known: BTreeSet<Uid> = collector.graph.lock().of_kind(&kind).collect();
    let mut listed: BTreeSet<Uid> = BTreeSet::new();
    let (mut failures, mut yields) = (0u32, Yields::default());
    loop {
        let event = match watch.next().await {
            Ok(event) => event,
            Err(error) => {
                let wait = BACKOFF_BASE.saturating_mul(1 << failures.min(10)).min(BACKOFF_MAX);
                failures = failures.saturating_add(1);
                tracing::debug!(kind = %kind.group_resource(), %error, ?wait, "watch failed");
                // A kind that can't be watched must not delay the others.
                collector.synced(&kind);
                seam.clock.sleep(wait + jitter.duration_up_to(wait / 2)).await;
                continue;
            }
        };
        failures = 0;
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => {
                listed.extend(apply(&collector, &kind, object));
                yields.done().await;
            }
            Event::InitDone => {
                for uid in known.difference(&listed) {
                    collector.deleted(&kind, uid);
                }
                known = std::mem::take(&mut listed);
                collector.synced(&kind);
            }
            Event::Apply(object) => known.extend(apply(&collector, &kind, object)),
            Event::Delete(object) => {
                if let Some(uid) = &object.metadata.uid {
                    known.remove(uid.as_str());
                    collector.deleted(&kind, uid);
                }
            }
        }
    }
}

fn apply(collector: &Collector, kind: &Arc<Kind>, object: Arc<PartialObjectMeta<DynamicObject>>) -> Option<Uid> {
    let object = Arc::unwrap_or_clone(object);
    let node = {
        let mut graph = collector.graph.lock();
        let namespace = graph.namespace(object.metadata.namespace.as_deref().unwrap_or(""));
        Node::of(kind, namespace, object.metadata)?
    };
    let uid = node.uid.clone();
    collector.applied(kind, node);
    Some(uid)
}
