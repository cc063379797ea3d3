//! REST mapping of one API server: from kinds to resources.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ironclad_fleet::Gvk;
use ironclad_propagation::selector::template_version;
use ironclad_runtime::{Api, Failure, discover};
use ironclad_seam::Clock;
use kube::{
    Client, Resource,
    api::ApiResource,
    core::DynamicResourceScope,
    discovery::{Discovery, Scope, verbs},
};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Time after which a kind that was not found is looked up again (specification/propagation.md 2).
const ABSENT_FOR: Duration = Duration::from_secs(30);
/// Reads of discovery for one question, if definitions change meanwhile.
const READS_MAX: usize = 3;
/// Shortest time between two reads of the whole discovery document.
const REFRESH_MIN: Duration = Duration::from_secs(1);

/// Resource of a kind.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    resource: ApiResource,
    scope: Scope,
    preferred: bool,
}

impl Served {
    /// The API of this kind in a namespace; over all objects if the kind is cluster-scoped or the namespace empty.
    #[must_use]
    pub(crate) fn api<K>(&self, client: &Client, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    {
        if self.is_namespaced() && !namespace.is_empty() {
            Api::namespaced_with(client.clone(), namespace, &self.resource)
        } else {
            Api::all_with(client.clone(), &self.resource)
        }
    }

    /// Name of the CustomResourceDefinition that it has, if it has one.
    #[must_use]
    pub(crate) fn definition_name(&self) -> String {
        format!("{}.{}", self.resource.plural, self.resource.group)
    }

    /// Name with its group, as metrics APIs spell it: `services`, `ingresses.networking.k8s.io`.
    #[must_use]
    pub(crate) fn group_resource(&self) -> String {
        if self.resource.group.is_empty() { self.resource.plural.clone() } else { self.definition_name() }
    }

    /// The same resource in another version.
    #[must_use]
    pub(crate) fn in_version(&self, version: &str) -> Self {
        let group = &self.resource.group;
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let resource = ApiResource { version: version.to_owned(), api_version, ..self.resource.clone() };
        Self { resource, scope: self.scope.clone(), preferred: false }
    }

    /// True if its objects have a namespace.
    #[must_use]
    pub(crate) fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }
}

/// Looks kinds up in a server's discovery and caches the results.
pub(crate) struct Mapper {
    client: Client,
    clock: Clock,
    state: Mutex<State>,
    /// Locked during a look-up: one at a time.
    refreshing: tokio::sync::Mutex<Option<Read>>,
}

#[derive(Default)]
struct State {
    known: BTreeMap<Gvk, Arc<Served>>,
    absent: BTreeMap<Gvk, Instant>,
    /// Number of times that something was forgotten: answers from before say nothing about kinds that were not found.
    forgotten: u64,
}

/// A complete read of discovery.
#[derive(Clone, Copy)]
struct Read {
    began: Instant,
    /// [`State::forgotten`] when it began.
    forgotten: u64,
}

impl Mapper {
    /// An empty mapping.
    #[must_use]
    pub(crate) fn new(client: Client, clock: Clock) -> Self {
        Self { client, clock, state: Mutex::default(), refreshing: tokio::sync::Mutex::new(None) }
    }

    /// The resource of the kind, `None` if the server does not serve it.
    ///
    /// # Errors
    /// If the server does not answer.
    pub(crate) async fn served(&self, gvk: &Gvk) -> Result<Option<Arc<Served>>, Failure> {
        if let Some(answer) = self.remembered(gvk) {
            return Ok(answer);
        }
        let mut last = self.refreshing.lock().await;
        for _ in 0..READS_MAX {
            if let Some(answer) = self.remembered(gvk) {
                return Ok(answer);
            }
            if let Some(read) = *last {
                if self.clock.mono() < read.began + REFRESH_MIN && self.is_absent_since(gvk, read) {
                    return Ok(None);
                }
                self.clock.sleep_until(read.began + REFRESH_MIN).await;
            }
            let read = Read { began: self.clock.mono(), forgotten: self.state.lock().forgotten };
            let discovery = discover(&self.client).await?;
            *last = Some(read);
            let known = kinds(&discovery);
            let answer = {
                let mut state = self.state.lock();
                state.known = known;
                state.absent.clear();
                state.known.get(gvk).cloned()
            };
            if answer.is_some() || self.is_absent_since(gvk, read) {
                return Ok(answer);
            }
        }
        Ok(None)
    }

    /// Notes that the kind was not found, unless something was forgotten since the read began: then the kind may have
    /// been made meanwhile. Returns true if it was noted.
    fn is_absent_since(&self, gvk: &Gvk, read: Read) -> bool {
        let mut state = self.state.lock();
        let is_current = state.forgotten == read.forgotten;
        if is_current {
            state.absent.insert(gvk.clone(), read.began);
        }
        is_current
    }

    /// True if the server is known to serve the kind.
    pub(crate) fn is_known(&self, gvk: &Gvk) -> bool {
        self.state.lock().known.contains_key(gvk)
    }

    /// Returns true if objects of the kind are templates in this version
    /// (specification/propagation.md 2).
    ///
    /// # Errors
    /// If the server does not answer.
    pub(crate) async fn prefers(&self, gvk: &Gvk) -> Result<bool, Failure> {
        Ok(self.served(gvk).await?.is_some_and(|served| served.preferred))
    }

    /// Forgets a resource, so that it is looked up again; returns its known kinds.
    pub(crate) fn forget(&self, plural: &str, group: &str) -> Vec<Gvk> {
        let mut state = self.state.lock();
        state.forgotten += 1;
        let is_it = |served: &Served| served.resource.plural == plural && served.resource.group == group;
        let removed: Vec<Gvk> =
            state.known.iter().filter(|(_, served)| is_it(served)).map(|(gvk, _)| gvk.clone()).collect();
        for gvk in &removed {
            state.known.remove(gvk);
        }
        removed
    }

    /// Forgets that kinds were not found: they are looked up again.
    pub(crate) fn forget_absent(&self) {
        let mut state = self.state.lock();
        state.forgotten += 1;
        state.absent.clear();
    }

    fn remembered(&self, gvk: &Gvk) -> Option<Option<Arc<Served>>> {
        let state = self.state.lock();
        if let Some(served) = state.known.get(gvk) {
            return Some(Some(served.clone()));
        }
        let asked = state.absent.get(gvk)?;
        (self.clock.mono() < *asked + ABSENT_FOR).then_some(None)
    }
}

/// The kinds whose objects can be listed, watched and deleted: only they can be templates
/// (specification/propagation.md 2).
fn kinds(discovery: &Discovery) -> BTreeMap<Gvk, Arc<Served>> {
    let mut known = BTreeMap::new();
    for group in discovery.groups_alphabetical() {
        let preferred = group.preferred_version_or_latest();
        let versions: Vec<&str> = group.versions().collect();
        let best = template_version(group.name(), preferred, &versions);
        let mut seen = BTreeSet::new();
        let others = versions.iter().copied().filter(|version| *version != best);
        for version in std::iter::once(best).chain(others) {
            for (resource, capabilities) in group.versioned_resources(version) {
                if ![verbs::LIST, verbs::WATCH, verbs::DELETE].iter().all(|verb| capabilities.supports_operation(verb))
                {
                    continue;
                }
                let preferred = seen.insert(resource.plural.clone());
                let gvk = Gvk {
                    group: resource.group.as_str().into(),
                    version: resource.version.as_str().into(),
                    kind: resource.kind.as_str().into(),
                };
                known.insert(gvk, Arc::new(Served { resource, scope: capabilities.scope, preferred }));
            }
        }
    }
    known
}
