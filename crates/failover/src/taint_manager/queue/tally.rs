//! Counters of the queue (specification/failover.md 6.11). Every number follows a transition of one element, so that
//! re-reading what waits already changes nothing.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use ironclad_fleet::{BindingKey, ClusterName};

use super::{Element, Key, Order, Place};

/// Which of the two queues of specification/proposals/000.md an element would be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueName {
    /// ResourceBindings.
    ResourceBinding,
    /// ClusterResourceBindings.
    ClusterResourceBinding,
}

impl QueueName {
    /// Both.
    pub const ALL: [Self; 2] = [Self::ResourceBinding, Self::ClusterResourceBinding];

    /// Queue of this binding.
    #[must_use]
    pub fn of(binding: &BindingKey) -> Self {
        if binding.namespace.is_empty() { Self::ClusterResourceBinding } else { Self::ResourceBinding }
    }

    /// Label `queue_name` of specification/proposals/000.md.
    #[must_use]
    pub fn queue_name(self) -> &'static str {
        match self {
            Self::ResourceBinding => "resource-binding",
            Self::ClusterResourceBinding => "cluster-resource-binding",
        }
    }

    /// Label `name` of upstream.
    #[must_use]
    pub fn upstream_name(self) -> &'static str {
        match self {
            Self::ResourceBinding => "binding-eviction",
            Self::ClusterResourceBinding => "cluster-binding-eviction",
        }
    }

    /// The kind of the bindings.
    #[must_use]
    pub fn binding_kind(self) -> &'static str {
        match self {
            Self::ResourceBinding => "ResourceBinding",
            Self::ClusterResourceBinding => "ClusterResourceBinding",
        }
    }
}

/// Reason why an element left the queue without an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Abandoned {
    /// Its cluster recovered, or the relevant taints were removed.
    Recovered,
    /// No cluster would take it. It is parked, and so still there.
    NoTarget,
    /// The binding was deleted, recreated, or is no longer on the cluster.
    Obsolete,
    /// Its cluster was deleted.
    Deleted,
}

impl Abandoned {
    /// Label `reason`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Recovered => "recovered",
            Self::NoTarget => "no_target",
            Self::Obsolete => "obsolete",
            Self::Deleted => "deleted",
        }
    }

    /// The reason in the words of an event.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Recovered => "the cluster recovered, or its taints do not evict it any more",
            Self::NoTarget => "no cluster would take it",
            Self::Obsolete => "it has left the cluster",
            Self::Deleted => "the cluster was deleted",
        }
    }
}

/// Window of the measured eviction rate, in seconds.
const RATE_SECONDS: u64 = 60;

/// The numbers of one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterTally {
    /// Elements by kind of the template, as `apps/v1/Deployment`.
    pub kinds: BTreeMap<Arc<str>, usize>,
    /// Elements by kind of the binding.
    pub queues: BTreeMap<QueueName, usize>,
    /// Elements that came, since the process started.
    pub enqueued: u64,
    /// Elements that were evicted.
    pub evicted: u64,
    /// Elements that left otherwise; those without a target are counted each time they are parked.
    pub abandoned: BTreeMap<Abandoned, u64>,
    /// Evictions in this episode.
    pub episode_evicted: u64,
    /// Processed elements in this episode: evicted, or failed.
    pub episode_processed: u64,
    /// Elements that left by being processed, by second.
    recent: VecDeque<(u64, u32)>,
}

impl ClusterTally {
    /// Elements that are there.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.queues.values().sum()
    }

    /// Elements processed and removed per second, over the last minute.
    #[must_use]
    pub fn rate(&self, now: Duration) -> f64 {
        let from = now.as_secs().saturating_sub(RATE_SECONDS - 1);
        let recent: u32 = self.recent.iter().filter(|(second, _)| *second >= from).map(|(_, n)| n).sum();
        f64::from(recent) / 60.0
    }

    /// The share of successes among what was processed in this episode; `None` before the first.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "far fewer than a float distinguishes")]
    pub fn success_rate(&self) -> Option<f64> {
        (self.episode_processed > 0).then(|| self.episode_evicted as f64 / self.episode_processed as f64)
    }

    fn is_idle(&self) -> bool {
        self.pending() == 0
    }
}

/// The numbers of one of the two queues.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueTally {
    /// Elements that are there.
    pub pending: usize,
    /// Ready elements, in order.
    ready: BTreeSet<Order>,
    /// Successful processing attempts.
    pub succeeded: u64,
    /// Processing attempts that did not, those without a target included.
    pub failed: u64,
}

impl QueueTally {
    /// Number of ready elements.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The age of the one that has waited longest.
    #[must_use]
    pub fn oldest_age(&self, now: Duration) -> Duration {
        self.ready.first().map_or(Duration::ZERO, |(since, _)| now.saturating_sub(*since))
    }
}

/// A wait that ended, for the histograms of latency.
#[derive(Debug, Clone, PartialEq)]
pub struct Waited {
    /// From which cluster.
    pub cluster: ClusterName,
    /// In which queue.
    pub queue: QueueName,
    /// From becoming ready until processed.
    pub wait: Duration,
    /// True if it was evicted.
    pub succeeded: bool,
}

/// Waits are kept until they are read; a driver that never reads them does not make them grow beyond this.
const WAITED_MAX: usize = 4096;

/// Result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was evicted.
    Evicted,
    /// It was not.
    Failed,
}

/// All numbers.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    clusters: BTreeMap<ClusterName, ClusterTally>,
    queues: BTreeMap<QueueName, QueueTally>,
    kinds: BTreeSet<Arc<str>>,
    waited: Vec<Waited>,
}

impl Tally {
    /// By cluster.
    #[must_use]
    pub fn clusters(&self) -> &BTreeMap<ClusterName, ClusterTally> {
        &self.clusters
    }

    /// Counts of one cluster.
    #[must_use]
    pub fn cluster(&self, name: &ClusterName) -> Option<&ClusterTally> {
        self.clusters.get(name)
    }

    /// By queue.
    #[must_use]
    pub fn queue(&self, name: QueueName) -> QueueTally {
        self.queues.get(&name).cloned().unwrap_or_default()
    }

    /// Elements that are there.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.queues.values().map(|queue| queue.pending).sum()
    }

    /// Ready elements.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.queues.values().map(QueueTally::ready).sum()
    }

    /// The waits that ended since the last call.
    pub fn take_waited(&mut self) -> Vec<Waited> {
        std::mem::take(&mut self.waited)
    }

    /// Resets the cluster's counters: an episode began or ended.
    pub fn episode(&mut self, cluster: &ClusterName) {
        if let Some(tally) = self.clusters.get_mut(cluster) {
            (tally.episode_evicted, tally.episode_processed) = (0, 0);
            tally.recent.clear();
        }
    }

    /// Drops the counters of a deleted cluster.
    pub fn forget(&mut self, cluster: &ClusterName) {
        if self.clusters.get(cluster).is_some_and(ClusterTally::is_idle) {
            self.clusters.remove(cluster);
        }
    }

    pub(super) fn came(&mut self, key: &Key, element: &Element) {
        let kind = self.kind(element);
        let cluster = self.clusters.entry(key.cluster.clone()).or_default();
        *cluster.kinds.entry(kind).or_default() += 1;
        *cluster.queues.entry(QueueName::of(&key.binding)).or_default() += 1;
        cluster.enqueued += 1;
        let queue = self.queues.entry(QueueName::of(&key.binding)).or_default();
        queue.pending += 1;
        if element.place == Place::Ready {
            queue.ready.insert(element.order);
        }
    }

    pub(super) fn moved(&mut self, key: &Key, element: &Element, (before, order): (Place, Order)) {
        let queue = self.queues.entry(QueueName::of(&key.binding)).or_default();
        if before == Place::Ready {
            queue.ready.remove(&order);
        }
        if element.place == Place::Ready {
            queue.ready.insert(element.order);
        }
    }

    pub(super) fn abandoned(&mut self, key: &Key, element: &Element, why: Abandoned) {
        self.left(key, element);
        let cluster = self.clusters.entry(key.cluster.clone()).or_default();
        *cluster.abandoned.entry(why).or_default() += 1;
    }

    /// Counts an element without a target as a failure (S4), though it remains queued.
    pub(super) fn parked(&mut self, key: &Key, element: &Element, now: Duration) {
        self.processed(key, element, now, Outcome::Failed);
        let cluster = self.clusters.entry(key.cluster.clone()).or_default();
        *cluster.abandoned.entry(Abandoned::NoTarget).or_default() += 1;
    }

    pub(super) fn evicted(&mut self, key: &Key, element: &Element, now: Duration) {
        self.left(key, element);
        self.processed(key, element, now, Outcome::Evicted);
        let cluster = self.clusters.entry(key.cluster.clone()).or_default();
        cluster.evicted += 1;
        cluster.episode_evicted += 1;
        let second = now.as_secs();
        match cluster.recent.back_mut().filter(|(last, _)| *last == second) {
            Some((_, count)) => *count += 1,
            None => cluster.recent.push_back((second, 1)),
        }
        while cluster.recent.front().is_some_and(|(first, _)| first + RATE_SECONDS <= second) {
            cluster.recent.pop_front();
        }
    }

    fn left(&mut self, key: &Key, element: &Element) {
        let kind = self.kind(element);
        if let Some(cluster) = self.clusters.get_mut(&key.cluster) {
            subtract(&mut cluster.kinds, &kind);
            subtract(&mut cluster.queues, &QueueName::of(&key.binding));
        }
        if let Some(queue) = self.queues.get_mut(&QueueName::of(&key.binding)) {
            queue.pending = queue.pending.saturating_sub(1);
            if element.place == Place::Ready {
                queue.ready.remove(&element.order);
            }
        }
    }

    pub(super) fn processed(&mut self, key: &Key, element: &Element, now: Duration, outcome: Outcome) {
        let succeeded = outcome == Outcome::Evicted;
        let queue_name = QueueName::of(&key.binding);
        let cluster = self.clusters.entry(key.cluster.clone()).or_default();
        cluster.episode_processed += 1;
        let queue = self.queues.entry(queue_name).or_default();
        if succeeded {
            queue.succeeded += 1;
        } else {
            queue.failed += 1;
        }
        if self.waited.len() < WAITED_MAX {
            let wait = now.saturating_sub(element.enqueued_at.unwrap_or(now));
            self.waited.push(Waited { cluster: key.cluster.clone(), queue: queue_name, wait, succeeded });
        }
    }

    /// Label `resource_kind`; each text exists once.
    fn kind(&mut self, element: &Element) -> Arc<str> {
        let resource = &element.request.resource;
        let text = format!("{}/{}", resource.api_version, resource.kind);
        if let Some(known) = self.kinds.get(text.as_str()) {
            return known.clone();
        }
        let text: Arc<str> = text.into();
        self.kinds.insert(text.clone());
        text
    }
}

fn subtract<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}
