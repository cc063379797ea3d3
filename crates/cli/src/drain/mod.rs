//! Moving everything off a cluster (specification/failover.md 9.4, specification/operations.md 2.12).
//!
//! The verb itself does the moving: it writes one binding after the other, so that it works on any control plane, and
//! ends with whoever asked for it. What it did is in the bindings, what it is about in an annotation of the Cluster: so
//! it can be stopped at any moment, looked at from elsewhere, and run again.

pub mod command;
mod fleet;
mod steps;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, future::BoxFuture, stream};
use ironclad_api::{
    annotations::DRAINING,
    cluster::Cluster,
    policy::PurgeMode,
    work::{ClusterResourceBinding, ResourceBinding},
};
use ironclad_failover::{drain::Health, flags::eviction::Check};
use ironclad_fleet::count::count;
use ironclad_fleet::{Binding, ClusterName, Clusters, World};
use ironclad_patch::selector::LabelSelector;
use ironclad_planning::{
    Fleet, Settings,
    drain::{concerns, counts},
};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use jiff::Timestamp;
use kube::{
    Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
    config::Kubeconfig,
};
use serde_json::{Value, json};

pub use ironclad_planning::drain::{Drain, Item, Stuck, Survey};
pub use steps::{Limit, Progress, Report, evict, wait};

use crate::{
    cordon::{self, Cordon},
    nodes::{self, Asked},
    taint::TaintError,
    unjoin::each,
    write::{FIELD_MANAGER, Mode},
};

/// Most bindings that a line names.
const NAMED_MAX: usize = 5;
/// Tries of a write that others get in the way of.
const TRIES: usize = 5;

/// Cluster to drain, and options.
#[derive(Debug, Clone)]
pub struct Options {
    /// The cluster.
    pub cluster: ClusterName,
    /// Only bindings of this namespace.
    pub namespace: Option<String>,
    /// Only templates of these kinds.
    pub kinds: Vec<String>,
    /// Only templates with these labels.
    pub selector: Option<LabelSelector>,
    /// Strictness of the pre-scheduling check before each move.
    pub check: Check,
    /// Removal of the old copies.
    pub purge_mode: PurgeMode,
    /// Moves per second.
    pub rate: f64,
    /// Reaction to unhealthy clusters in the fleet.
    pub health: Health,
    /// Handling of bindings that can't be moved.
    pub stuck: Stuck,
    /// Flags and gates of the leader, as far as they are known.
    pub settings: Settings,
    /// Kubeconfig with access to members whose Cluster has none.
    pub kubeconfig: Option<Kubeconfig>,
}

impl Options {
    /// All of a cluster, gracefully, as the reference has it.
    #[must_use]
    pub fn new(cluster: &str) -> Self {
        Self {
            cluster: cluster.into(),
            namespace: None,
            kinds: Vec::new(),
            selector: None,
            check: Check::Relaxed,
            purge_mode: PurgeMode::Gracefully,
            rate: 0.5,
            health: Health::Heeded,
            stuck: Stuck::Refuse,
            settings: Settings::default(),
            kubeconfig: None,
        }
    }
}

impl Options {
    fn drain(&self, now: Timestamp) -> Drain {
        let drain = Drain::new(self.cluster.clone(), self.check, self.purge_mode, now);
        Drain { settings: self.settings.clone(), ..drain }
    }
}

/// Error of a drain.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    /// There is no such cluster.
    #[error(
        "Error from server (NotFound): clusters.cluster.karmada.io {name:?} not found\n  try: ironclad get clusters"
    )]
    NotFound {
        /// Its name.
        name: String,
    },
    /// Bindings can't be moved.
    #[error(
        "cluster {name} was not drained, only cordoned\n  because {stuck} of {total} bindings can't be moved\n  \
         try: {}--skip-unmovable to leave them there, or --force to evict them anyway",
        relaxed_moves(*kept_by_strict)
    )]
    Refused {
        /// The cluster.
        name: String,
        /// Bindings that can't be moved.
        stuck: usize,
        /// Those of them that the relaxed check would let move.
        kept_by_strict: usize,
        /// Total.
        total: usize,
    },
    /// Bindings could not be moved: result of a dry run, which changes nothing.
    #[error(
        "cluster {name} would not be drained, only cordoned\n  because {stuck} of {total} bindings can't be moved\n  \
         try: {}--skip-unmovable to leave them there, or --force to evict them anyway",
        relaxed_moves(*kept_by_strict)
    )]
    WouldRefuse {
        /// The cluster.
        name: String,
        /// Bindings that can't be moved.
        stuck: usize,
        /// Those of them that the relaxed check would let move.
        kept_by_strict: usize,
        /// Total.
        total: usize,
    },
    /// Somebody ended it.
    #[error("the drain of cluster {name} was ended from elsewhere\n  try: the same command again, to go on")]
    Aborted {
        /// The cluster.
        name: String,
    },
    /// It took too long.
    #[error(
        "timed out after {seconds} s: cluster {name} is not drained\n  because {because}\n  try: ironclad drain {name} --status"
    )]
    TimedOut {
        /// The cluster.
        name: String,
        /// Timeout, seconds.
        seconds: u64,
        /// The part of it that was not done.
        because: String,
    },
    /// Something is left.
    #[error(
        "cluster {name} still has {}\n  because {because}\n  try: the same command again, once that is changed",
        count(*left, "binding")
    )]
    Left {
        /// The cluster.
        name: String,
        /// Number.
        left: usize,
        /// Reason.
        because: String,
    },
    /// The server would refuse some of the moves: result of a dry run, which changes nothing.
    #[error(
        "cluster {name} would still have {}\n  because {because}\n  try: the same command again, once that is changed",
        count(*left, "binding")
    )]
    WouldLeave {
        /// The cluster.
        name: String,
        /// Number.
        left: usize,
        /// The server's answers.
        because: String,
    },
    /// The cluster could not be cordoned.
    #[error("cluster {name} was not drained: cordoning it")]
    Cordon {
        /// The cluster.
        name: String,
        /// Error.
        source: TaintError,
    },
    /// Clusters can't be watched.
    #[error(
        "cluster {name} was not drained: watching clusters\n  because {because}\n  \
         try: a user who may list and watch clusters.cluster.karmada.io"
    )]
    Unwatched {
        /// The cluster.
        name: String,
        /// Error of the watch.
        because: String,
    },
    /// A server refused or did not answer.
    #[error("cluster {name} was not drained: {doing}")]
    Server {
        /// The cluster.
        name: String,
        /// The attempted operation.
        doing: String,
        /// The server's answer.
        source: Box<kube::Error>,
    },
}

fn relaxed_moves(kept_by_strict: usize) -> String {
    match kept_by_strict {
        0 => String::new(),
        some => format!("--pre-scheduling-check relaxed, which lets {} move; ", count(some, "binding")),
    }
}

fn failed(name: &ClusterName, doing: impl Into<String>) -> impl FnOnce(kube::Error) -> DrainError {
    let (name, doing) = (name.to_string(), doing.into());
    move |source| DrainError::Server { name, doing, source: Box::new(source) }
}

/// The first of these names, and the number of the others.
fn named(names: &[String]) -> String {
    named_by(names, ", ")
}

fn named_by(names: &[String], between: &str) -> String {
    match names.len() {
        0..=NAMED_MAX => names.join(between),
        all => format!("{}{between}and {} more", names[..NAMED_MAX].join(between), all - NAMED_MAX),
    }
}

/// All clusters of the fleet.
async fn clusters(plane: &Client, about: &ClusterName) -> Result<Clusters, DrainError> {
    let mut all: Clusters = BTreeMap::new();
    let api = Api::<Cluster>::all(plane.clone());
    let put = |cluster: &Cluster| {
        all.insert(cluster.name_any().as_str().into(), Arc::new(cluster.clone()));
    };
    each(&api, put).await.map_err(failed(about, "listing clusters"))?;
    Ok(all)
}

/// The bindings of both kinds that are to be kept, of the requested namespace and kinds; all of the namespace are shown
/// to `keep`.
async fn bindings(
    plane: &Client,
    options: &Options,
    mut keep: impl FnMut(&Binding) -> bool,
) -> Result<Vec<Binding>, DrainError> {
    let mut all = Vec::new();
    let mut put = |bound: Binding| {
        let kind = &bound.spec().resource.kind;
        let named = options.kinds.is_empty() || options.kinds.iter().any(|named| named.eq_ignore_ascii_case(kind));
        if keep(&bound) && named {
            all.push(bound);
        }
    };
    let namespaced = match &options.namespace {
        Some(namespace) => Api::<ResourceBinding>::namespaced(plane.clone(), namespace),
        None => Api::all(plane.clone()),
    };
    each(&namespaced, |binding| put(Binding::from(Arc::new(binding.clone()))))
        .await
        .map_err(failed(&options.cluster, "listing ResourceBindings"))?;
    if options.namespace.is_none() {
        let api = Api::<ClusterResourceBinding>::all(plane.clone());
        each(&api, |binding| put(Binding::from(Arc::new(binding.clone()))))
            .await
            .map_err(failed(&options.cluster, "listing ClusterResourceBindings"))?;
    }
    Ok(all)
}

/// The cluster.
///
/// # Errors
/// If there is none.
pub async fn find(plane: &Client, name: &ClusterName) -> Result<Cluster, DrainError> {
    let found = Api::<Cluster>::all(plane.clone()).get_opt(&name.0).await.map_err(failed(name, "reading it"))?;
    found.ok_or_else(|| DrainError::NotFound { name: name.to_string() })
}

/// Since when the cluster is being drained, if it is.
#[must_use]
pub fn draining_since(cluster: &Cluster) -> Option<&str> {
    cluster.metadata.annotations.as_ref()?.get(DRAINING).map(String::as_str)
}

/// Notes on the cluster that it is drained from now on, unless it says so already.
///
/// # Errors
/// If there is no such cluster, or the control plane refuses.
pub async fn begin(plane: &Client, name: &ClusterName, now: Timestamp) -> Result<(), DrainError> {
    annotate(plane, name, now, Mode::Keep).await
}

async fn annotate(plane: &Client, name: &ClusterName, now: Timestamp, mode: Mode) -> Result<(), DrainError> {
    change(plane, name, mode, |cluster| {
        let begun = draining_since(cluster).is_some();
        (!begun).then(|| json!({ "metadata": { "annotations": { DRAINING: now.to_string() } } }))
    })
    .await
}

/// Closes the cluster to new workloads.
async fn close(plane: &Client, name: &ClusterName, mode: Mode) -> Result<(), DrainError> {
    cordon::change(plane, &name.0, Cordon::Close, mode).await.map(drop).map_err(|error| match error {
        TaintError::NotFound { name } => DrainError::NotFound { name },
        source => DrainError::Cordon { name: name.to_string(), source },
    })
}

/// Asks the control plane whether it would take the writes of a drain of these bindings. None is made.
///
/// # Errors
/// If it would refuse one.
pub async fn rehearse(
    plane: &Client,
    options: &Options,
    bindings: &[Binding],
    now: Timestamp,
) -> Result<(), DrainError> {
    let name = &options.cluster;
    close(plane, name, Mode::DryRun).await?;
    annotate(plane, name, now, Mode::DryRun).await?;
    let refused = steps::would_refuse(plane, options, bindings).await?;
    match refused.len() {
        0 => Ok(()),
        left => Err(DrainError::WouldLeave { name: name.to_string(), left, because: named_by(&refused, "; ") }),
    }
}

/// Ends a drain: processes that move bindings stop. The cluster stays cordoned, and moved bindings are not moved back.
///
/// # Errors
/// If there is no such cluster, or the control plane refuses.
pub async fn abort(plane: &Client, name: &ClusterName) -> Result<(), DrainError> {
    change(plane, name, Mode::Keep, |cluster| {
        draining_since(cluster).map(|_| json!({ "metadata": { "annotations": { DRAINING: null } } }))
    })
    .await
}

/// Writes the cluster conditionally, and retries after conflicts.
async fn change(
    plane: &Client,
    name: &ClusterName,
    mode: Mode,
    patch: impl Fn(&Cluster) -> Option<Value>,
) -> Result<(), DrainError> {
    let api = Api::<Cluster>::all(plane.clone());
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        dry_run: mode == Mode::DryRun,
        ..PatchParams::default()
    };
    for tried in 1.. {
        let cluster = find(plane, name).await?;
        let Some(mut patch) = patch(&cluster) else { return Ok(()) };
        patch["metadata"]["resourceVersion"] = json!(cluster.metadata.resource_version);
        match api.patch(&name.0, &params, &Patch::Merge(patch)).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 && tried < TRIES => {}
            Err(error) => return Err(failed(name, "annotating it")(error)),
        }
    }
    Ok(())
}

/// Objects that are read at a time.
const READ_MAX: usize = 50;
/// Interval between checks of the fleet.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Lists the bindings on the cluster and decides on them. Members are asked for their nodes if the leader keeps
/// accounts by node. `say` is given the reasons of those that do not answer.
///
/// # Errors
/// If the control plane can't be asked.
pub async fn preview(
    plane: &Client,
    options: &Options,
    clock: &Clock,
    mut say: impl FnMut(&str),
) -> Result<Survey, DrainError> {
    let now = clock.wall_seconds();
    let clusters = clusters(plane, &options.cluster).await?;
    if !clusters.contains_key(&options.cluster) {
        return Err(DrainError::NotFound { name: options.cluster.to_string() });
    }
    let mut drain = options.drain(now);
    let mut world = World { clusters, ..World::default() };
    let mut others = Vec::new();
    let found = bindings(plane, options, |binding| {
        if let (true, Binding::Namespaced(other)) = (counts(binding, now), binding) {
            others.push(other.clone());
        }
        concerns(binding, &world.clusters, &drain)
    })
    .await?;
    world.bindings.extend(others.into_iter().map(|other| (Binding::Namespaced(other.clone()).key(), other)));
    // Boxed, since the compiler can't prove that a stream of closures' futures is `Send`.
    let read: Vec<BoxFuture<'_, Result<Option<Binding>, DrainError>>> = found
        .into_iter()
        .map(|binding| async move { Ok(labelled(plane, options, &binding).await?.then_some(binding)) }.boxed())
        .collect();
    let read: Vec<Option<Binding>> = stream::iter(read).buffered(READ_MAX).try_collect().await?;
    let concerned: Vec<Binding> = read.into_iter().flatten().collect();
    let fleet = Fleet { world, settings: options.settings.clone(), ..Fleet::default() };
    let mut members = Asked::default();
    loop {
        let survey = Survey::of(concerned.clone(), &fleet.world, &drain);
        if !members.ask(&fleet, &survey.unasked, plane, options.kubeconfig.as_ref(), clock).await {
            members.unknown.iter().for_each(|(cluster, why)| say(&nodes::unknown(cluster, why)));
            return Ok(survey);
        }
        drain.nodes.clone_from(&members.nodes);
    }
}

/// True if the template has the requested labels.
async fn labelled(plane: &Client, options: &Options, binding: &Binding) -> Result<bool, DrainError> {
    let Some(selector) = &options.selector else { return Ok(true) };
    let resource = &binding.spec().resource;
    let (group, version) = resource.api_version.split_once('/').unwrap_or(("", &resource.api_version));
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &resource.kind));
    let api: Api<DynamicObject> = match resource.namespace.as_str() {
        "" => Api::all_with(plane.clone(), &kind),
        namespace => Api::namespaced_with(plane.clone(), namespace, &kind),
    };
    let doing = format!("reading {} {}", resource.kind, resource.name);
    let template = api.get_opt(&resource.name).await.map_err(failed(&options.cluster, doing))?;
    let labels = template.and_then(|template| template.metadata.labels).unwrap_or_default();
    Ok(selector.matches(|key| labels.get(key).map(String::as_str)))
}
