//! Creates and deletes the pods of a workload. Neither a stale cache nor a lost response leads to an extra pod.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::future::join_all;
use ironclad_runtime::{Api, EventAbout, EventType, Failure, Informer, Recorder, Writer};
use ironclad_seam::Stream;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, ResourceExt as _,
    api::{ObjectMeta, PropagationPolicy},
};
use parking_lot::Mutex;

use crate::{
    Cluster,
    caches::PODS,
    owner::{BY_CONTROLLER, controller_of},
    pods::{is_terminating, name_base},
    workload::Kind,
};

/// Concurrent requests for one workload. After a failure no further batch is sent.
const REQUESTS_MAX: usize = 16;
/// Prefix of the places of interchangeable pods.
const ANY: char = '#';
const DRAWN: usize = 5;
/// Reason of an error because of which pods are missing.
pub(crate) const FAILED_CREATE: &str = "FailedCreate";
/// Reason of an error because of which there are too many pods.
pub(crate) const FAILED_DELETE: &str = "FailedDelete";

/// Error because of which a workload has too few or too many pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodError {
    /// [`FAILED_CREATE`] or [`FAILED_DELETE`].
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

pub(crate) struct PodControl {
    client: Client,
    pods: Informer<Pod>,
    writer: Writer,
    names: Stream,
    recorder: Recorder,
    /// The workload of these metadata, in events.
    about: fn(&ObjectMeta) -> EventAbout,
    memory: Mutex<BTreeMap<String, Memory>>,
}

/// In-memory state of a workload, by its uid.
#[derive(Debug, Default)]
struct Memory {
    /// Random names of pods that may or may not exist, by place. A name is reused until the server has responded,
    /// so that a create with a lost response is never repeated under another name.
    names: BTreeMap<String, String>,
    /// Pods whose deletion was requested while the cache still has them: no other is deleted in their place.
    deleting: BTreeSet<String>,
    last_error: Option<PodError>,
}

pub(crate) struct NewPod {
    /// Its place among the workload's pods: a node, an index. `None` if pods are interchangeable.
    pub(crate) place: Option<String>,
    /// Gets a random name if it has none.
    pub(crate) pod: Pod,
}

impl PodControl {
    pub(crate) fn new<W: Kind>(cluster: &Cluster) -> Self {
        Self {
            client: cluster.client.clone(),
            pods: cluster.caches.take(&PODS),
            writer: Writer::new(W::CONTROLLER),
            names: cluster.seam.rng.stream(&format!("names/{}", W::CONTROLLER)),
            recorder: Recorder::new(cluster.client.clone(), &cluster.seam, W::CONTROLLER),
            about: EventAbout::of::<W>,
            memory: Mutex::default(),
        }
    }

    pub(crate) fn pods(&self) -> &Informer<Pod> {
        &self.pods
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    pub(crate) fn api(&self, owner: &ObjectMeta) -> Api<Pod> {
        Api::namespaced(self.client.clone(), owner.namespace.as_deref().unwrap_or(""))
    }

    /// Returns the pods that this workload controls, without those whose deletion was requested.
    pub(crate) fn owned(&self, owner: &str) -> Vec<Arc<Pod>> {
        let mut owned = self.pods.by_index(BY_CONTROLLER, owner);
        if let Some(memory) = self.memory.lock().get_mut(owner)
            && !memory.deleting.is_empty()
        {
            let awaited: BTreeSet<_> = owned.iter().filter(|p| !is_terminating(p)).filter_map(|p| p.uid()).collect();
            memory.deleting.retain(|uid| awaited.contains(uid));
            let deleting = &memory.deleting;
            owned.retain(|p| !p.metadata.uid.as_ref().is_some_and(|uid| deleting.contains(uid)));
        }
        owned
    }

    /// Returns the number of pods that [`PodControl::owned`] left out.
    pub(crate) fn awaited(&self, owner: &str) -> usize {
        self.memory.lock().get(owner).map_or(0, |memory| memory.deleting.len())
    }

    pub(crate) fn last_error(&self, owner: &str) -> Option<PodError> {
        self.memory.lock().get(owner).and_then(|m| m.last_error.clone())
    }

    /// Forgets the last error of a workload: nothing is wanted any more of what failed.
    pub(crate) fn forget_error(&self, owner: &str) {
        if let Some(memory) = self.memory.lock().get_mut(owner) {
            memory.last_error = None;
        }
    }

    pub(crate) fn forget(&self, owner: &str) {
        self.memory.lock().remove(owner);
    }

    /// Creates these pods of the workload.
    ///
    /// # Errors
    /// The first failure; pods of the same batch may have been created.
    pub(crate) async fn create(&self, owner: &ObjectMeta, wanted: Vec<NewPod>) -> Result<(), Failure> {
        let made = self.create_all(owner, wanted).await;
        self.remember(owner, FAILED_CREATE, made)
    }

    async fn create_all(&self, owner: &ObjectMeta, wanted: Vec<NewPod>) -> Result<(), Failure> {
        let api = self.api(owner);
        let mut wanted = self.placed(owner, wanted).into_iter();
        loop {
            let batch: Vec<_> =
                wanted.by_ref().take(REQUESTS_MAX).map(|(place, pod)| self.named(owner, place, pod)).collect();
            if batch.is_empty() {
                return Ok(());
            }
            let answers = join_all(batch.iter().map(|(place, pod)| self.create_one(owner, &api, place, pod))).await;
            answers.into_iter().collect::<Result<Vec<()>, Failure>>()?;
        }
    }

    /// Assigns a place to each pod. Interchangeable pods first take the places of lost responses.
    fn placed(&self, owner: &ObjectMeta, wanted: Vec<NewPod>) -> Vec<(String, Pod)> {
        let open: Vec<String> = {
            let mut memory = self.memory.lock();
            let names = &mut memory.entry(uid(owner).to_owned()).or_default().names;
            let namespace = owner.namespace.as_deref().unwrap_or("");
            // A pod that the cache already has was counted: a pod to create is another one.
            names.retain(|_, name| self.pods.get(namespace, name).is_none());
            names.keys().filter(|place| place.starts_with(ANY)).cloned().collect()
        };
        let fresh = (0u64..).map(|n| format!("{ANY}{n}")).filter(|place| !open.contains(place));
        let mut any = open.iter().cloned().chain(fresh);
        let place = |w: NewPod| (w.place.or_else(|| any.next()).unwrap_or_default(), w.pod);
        wanted.into_iter().map(place).collect()
    }

    fn named(&self, owner: &ObjectMeta, place: String, mut pod: Pod) -> (String, Pod) {
        if pod.metadata.name.is_none() {
            let base = match pod.metadata.generate_name.take() {
                Some(base) => base,
                None => name_base(owner.name.as_deref().unwrap_or("")),
            };
            let mut memory = self.memory.lock();
            let names = &mut memory.entry(uid(owner).to_owned()).or_default().names;
            let name = names.entry(place.clone()).or_insert_with(|| format!("{base}{}", self.names.suffix(DRAWN)));
            pod.metadata.name = Some(name.clone());
            pod.metadata.generate_name = Some(base);
        }
        (place, pod)
    }

    async fn create_one(&self, owner: &ObjectMeta, api: &Api<Pod>, place: &str, pod: &Pod) -> Result<(), Failure> {
        let created = self.writer.create(api, Some(&self.pods), pod).await.map(|_| ());
        if let Err(Failure::AlreadyExists(message)) = &created {
            // Either ours, from an attempt whose response was lost, or a foreign pod. In both cases the name is taken;
            // the next reconcile counts again.
            let found = api.get_opt(&pod.name_any()).await?;
            let ours = found.filter(|f| controller_of(&f.metadata).is_some_and(|r| r.uid == uid(owner)));
            let drawn = pod.metadata.generate_name.is_some();
            if ours.is_some() || drawn {
                if let Some(ours) = ours {
                    self.pods.written(None, ours);
                }
                self.used_up(owner, place);
                return Err(Failure::Conflict(message.clone()));
            }
        }
        if created.is_ok() {
            self.used_up(owner, place);
        }
        created
    }

    fn used_up(&self, owner: &ObjectMeta, place: &str) {
        if let Some(memory) = self.memory.lock().get_mut(uid(owner)) {
            memory.names.remove(place);
        }
    }

    /// Deletes these pods of the workload.
    ///
    /// # Errors
    /// The first failure; pods of the same batch may have been deleted.
    pub(crate) async fn delete(&self, owner: &ObjectMeta, pods: &[Arc<Pod>]) -> Result<(), Failure> {
        let deleted = self.delete_all(owner, pods).await;
        self.remember(owner, FAILED_DELETE, deleted)
    }

    async fn delete_all(&self, owner: &ObjectMeta, pods: &[Arc<Pod>]) -> Result<(), Failure> {
        let api = self.api(owner);
        for batch in pods.chunks(REQUESTS_MAX) {
            let answers = join_all(batch.iter().map(|pod| async {
                self.writer.delete(&api, Some(&self.pods), pod, PropagationPolicy::Background).await?;
                let mut memory = self.memory.lock();
                memory.entry(uid(owner).to_owned()).or_default().deleting.extend(pod.uid());
                Ok(())
            }));
            answers.await.into_iter().collect::<Result<Vec<()>, Failure>>()?;
        }
        Ok(())
    }

    /// Records the outcome: an error remains until the same kind of request succeeds, and is an event of the workload.
    fn remember(&self, owner: &ObjectMeta, reason: &'static str, answer: Result<(), Failure>) -> Result<(), Failure> {
        let mut memory = self.memory.lock();
        match &answer {
            Ok(()) => {
                if let Some(memory) = memory.get_mut(uid(owner))
                    && memory.last_error.as_ref().is_some_and(|t| t.reason == reason)
                {
                    memory.last_error = None;
                }
            }
            Err(failure) if failure.is_final() => {
                let message = failure.to_string();
                let doing = if reason == FAILED_CREATE { "creating" } else { "deleting" };
                let event = format!("Error {doing}: {message}");
                self.recorder.record(&(self.about)(owner), EventType::Warning, reason, &event);
                memory.entry(uid(owner).to_owned()).or_default().last_error = Some(PodError { reason, message });
            }
            Err(_) => {}
        }
        answer
    }
}

fn uid(owner: &ObjectMeta) -> &str {
    owner.uid.as_deref().unwrap_or("")
}
