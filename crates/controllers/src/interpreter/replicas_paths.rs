//! Reads from CustomResourceDefinitions where their kinds have replicas, when an object with the label
//! `retain-replicas`, or the target of a distributed autoscaler, needs it. The cache of definitions has only their
//! metadata.

use std::{sync::Arc, time::Duration};

use ironclad_fleet::Gvk;
use ironclad_interpreter::{ReplicasPath, ReplicasPaths, replicas_paths};
use ironclad_runtime::{Api, Change, Failure};
use ironclad_seam::Seam;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;

use super::Interpreters;
use crate::{caches::Definition, mapper::Mapper};

/// Time after which an agent reads known definitions again.
const READ_AGAIN: Duration = Duration::from_secs(300);

impl Interpreters {
    /// The path of a kind's replicas, read from its definition if that was not done yet; `None` if it has no scale
    /// subresource.
    pub(crate) async fn replicas_path(&self, mapper: &Mapper, gvk: &Gvk) -> Result<Option<Arc<str>>, Failure> {
        if self.for_a_decision().replicas_path(gvk) == ReplicasPath::NotLookedUp {
            self.read_replicas_path(mapper, gvk).await?;
        }
        Ok(match self.for_a_decision().replicas_path(gvk) {
            ReplicasPath::At(path) => Some(path),
            ReplicasPath::Nowhere | ReplicasPath::NotLookedUp => None,
        })
    }

    /// Reads where a kind has its replicas. Decisions that begin afterwards know it.
    pub(crate) async fn read_replicas_path(&self, mapper: &Mapper, gvk: &Gvk) -> Result<(), Failure> {
        let forgotten = self.sources.lock().forgotten;
        let mut read: ReplicasPaths = [(gvk.clone(), None)].into();
        if let Some(served) = mapper.served(gvk).await? {
            let definitions: Api<CustomResourceDefinition> = Api::all(self.callers.plane.clone());
            let definition = definitions.get_opt(&served.definition_name()).await?;
            read.extend(definition.iter().flat_map(replicas_paths));
        }
        let mut sources = self.sources.lock();
        if sources.forgotten != forgotten {
            return Err(Failure::Conflict(format!("the definition of {gvk} changed while it was read")));
        }
        Arc::make_mut(&mut sources.replicas_paths).extend(read);
        self.publish(&sources);
        Ok(())
    }

    /// Has an agent, which may read definitions and not watch them, read those again from time to time that it knows.
    pub(super) fn read_definitions_again(self: &Arc<Self>, seam: &Seam, mapper: &Arc<Mapper>) {
        let (weak, clock, mapper) = (Arc::downgrade(self), seam.clock.clone(), mapper.clone());
        seam.tasks.supervise(&seam.clock, "definitions", move || {
            let (weak, clock, mapper) = (weak.clone(), clock.clone(), mapper.clone());
            async move {
                loop {
                    clock.sleep(READ_AGAIN).await;
                    let Some(this) = weak.upgrade() else { return };
                    this.read_known_again(&mapper).await;
                }
            }
        });
    }

    async fn read_known_again(&self, mapper: &Mapper) {
        let known = self.sources.lock().replicas_paths.clone();
        for (gvk, before) in &*known {
            if let Err(failure) = self.read_replicas_path(mapper, gvk).await {
                tracing::debug!(%gvk, %failure, "its definition was not read again");
                continue;
            }
            if self.sources.lock().replicas_paths.get(gvk) != Some(before) {
                self.notify(&|changed| changed == gvk);
            }
        }
    }

    /// Forgets the paths of the group of a changed definition.
    pub(super) fn on_definition(&self, change: &Change<Definition>) {
        let Some(definition) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let name = definition.name_any();
        let group = name.split_once('.').map_or("", |(_, group)| group);
        let forgotten = {
            let mut sources = self.sources.lock();
            sources.forgotten += 1;
            let (forgotten, kept): (ReplicasPaths, ReplicasPaths) = sources
                .replicas_paths
                .iter()
                .map(|(gvk, path)| (gvk.clone(), path.clone()))
                .partition(|(gvk, _)| &*gvk.group == group);
            if forgotten.is_empty() {
                return;
            }
            sources.replicas_paths = Arc::new(kept);
            self.publish(&sources);
            forgotten
        };
        self.notify(&|gvk| forgotten.contains_key(gvk));
    }
}
