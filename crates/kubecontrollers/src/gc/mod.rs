//! Garbage collector: deletes dependents after, before or without their owners (specification/apiserver.md 7, 19).
//!
//! It follows the metadata of every kind that can be watched and deleted, including kinds of CRDs, and stores only
//! location and owners of each object. It sends no lists while nothing changes, and treats an object as absent only if
//! a watch or the server said so.

mod apply;
mod decide;
mod graph;
mod watch;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use ironclad_runtime::{Failure, Next, Queue, run_workers};
use ironclad_seam::{Seam, TaskHandle};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::graph::{Graph, Node, Uid};
use crate::kinds::{Kind, Kinds, discover};

const WORKERS: usize = 8;
/// Delay of the discovery of kinds after a CRD changed ...
const REFRESH_SOON: Duration = Duration::from_millis(100);
/// ... and of a second one, since a server may take time to serve them.
const REFRESH_LATE: Duration = Duration::from_secs(3);
/// Work begins when all kinds are listed, or after this: until then an unknown owner costs a request.
const SYNC_MAX: Duration = Duration::from_secs(10);
/// Numerous kinds whose owner references do not matter.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

struct Collector {
    client: Client,
    graph: Mutex<Graph>,
    kinds: Mutex<Kinds>,
    watches: Mutex<BTreeMap<(String, String), Watched>>,
    queue: Queue<Uid>,
    refresh: Queue<Refresh>,
    progress: Notify,
}

struct Watched {
    kind: Arc<Kind>,
    task: TaskHandle<()>,
    synced: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Refresh {
    Soon,
    Late,
}

impl fmt::Display for Refresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Soon => "soon",
            Self::Late => "late",
        })
    }
}

pub(crate) fn start(client: &Client, seam: &Seam) {
    let queue = |name: &str| seam.rng.stream(&format!("queue/{name}"));
    let collector = Arc::new(Collector {
        client: client.clone(),
        graph: Mutex::default(),
        kinds: Mutex::default(),
        watches: Mutex::default(),
        queue: Queue::new(seam.clock.clone(), queue("garbage-collector")),
        refresh: Queue::new(seam.clock.clone(), queue("garbage-collector-kinds")),
        progress: Notify::new(),
    });
    let refresher = (collector.clone(), seam.clone());
    run_workers("garbage-collector-kinds", &seam.tasks, &collector.refresh, 1, move |_| {
        let (collector, seam) = refresher.clone();
        async move { collector.refresh_kinds(&seam).await }
    });
    collector.refresh.add(Refresh::Soon);
    let worker_seam = seam.clone();
    seam.tasks.spawn("garbage-collector-start", async move {
        let seam = worker_seam;
        tokio::select! {
            biased;
            () = collector.all_synced() => {}
            () = seam.clock.sleep(SYNC_MAX) => {}
        }
        let worker = collector.clone();
        run_workers("garbage-collector", &seam.tasks, &collector.queue, WORKERS, move |uid| {
            let collector = worker.clone();
            async move { collector.reconcile(&uid).await }
        });
    });
}

impl Collector {
    fn applied(&self, kind: &Kind, node: Node) {
        let affected = self.graph.lock().applied(node);
        affected.into_iter().for_each(|uid| self.queue.add(uid));
        self.kind_changed(kind);
    }

    fn deleted(&self, kind: &Kind, uid: &str) {
        let affected = self.graph.lock().deleted(uid);
        affected.into_iter().for_each(|uid| self.queue.add(uid));
        self.kind_changed(kind);
    }

    fn kind_changed(&self, kind: &Kind) {
        if kind.resource.group == "apiextensions.k8s.io" && kind.resource.plural == "customresourcedefinitions" {
            self.refresh.add_after(Refresh::Soon, REFRESH_SOON);
            self.refresh.add_after(Refresh::Late, REFRESH_LATE);
        }
    }

    fn synced(&self, kind: &Kind) {
        let key = (kind.resource.group.clone(), kind.resource.plural.clone());
        if let Some(watched) = self.watches.lock().get_mut(&key) {
            watched.synced = true;
        }
        self.progress.notify_waiters();
    }

    async fn all_synced(&self) {
        loop {
            let progress = self.progress.notified();
            tokio::pin!(progress);
            progress.as_mut().enable();
            {
                let watches = self.watches.lock();
                if !watches.is_empty() && watches.values().all(|w| w.synced) {
                    return;
                }
            }
            progress.await;
        }
    }

    /// Starts watches of new kinds and stops those of removed ones.
    async fn refresh_kinds(self: Arc<Self>, seam: &Seam) -> Result<Next, Failure> {
        let kinds = discover(&self.client).await?;
        let followed = |kind: &Kind| {
            let name = (kind.resource.group.as_str(), kind.resource.plural.as_str());
            !IGNORED.contains(&name) && ["delete", "list", "watch"].iter().all(|verb| kind.has(verb))
        };
        let mut changed = false;
        {
            let mut watches = self.watches.lock();
            watches.retain(|key, watched| {
                let stays = kinds.get(key) == Some(&watched.kind);
                if !stays {
                    watched.task.abort();
                    self.graph.lock().forget_kind(&watched.kind);
                }
                stays
            });
            for (key, kind) in kinds.iter().filter(|(_, kind)| followed(kind)) {
                if !watches.contains_key(key) {
                    changed = true;
                    let name = format!("garbage-collector/{}", kind.group_resource());
                    let (collector, followed, own) = (self.clone(), kind.clone(), seam.clone());
                    let follow = move || watch::follow(collector.clone(), followed.clone(), own.clone());
                    let task = seam.tasks.supervise(&seam.clock, name, follow);
                    watches.insert(key.clone(), Watched { kind: kind.clone(), task, synced: false });
                }
            }
        }
        *self.kinds.lock() = kinds;
        if changed {
            let affected = self.graph.lock().with_unknown_owners();
            affected.into_iter().for_each(|uid| self.queue.add_low_priority(uid));
        }
        Ok(Next::Forget)
    }
}
