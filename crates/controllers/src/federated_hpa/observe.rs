//! The snapshot of one round: the template, its binding, its clusters, and what runs in them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
    time::Duration,
};

use futures::future::join_all;
use ironclad_api::{autoscaling::FederatedHPA, work::ResourceBinding};
use ironclad_autoscaling::{
    distributed_hpa::decides_in_members,
    federated_hpa::{placed, target::Unread},
    rivals::Rival,
};
use ironclad_fleet::{ClusterName, Gvk, ObjectKey};
use ironclad_hpa::{
    Snapshot,
    calibration::Calibration,
    needs_metrics,
    pods::{Phase, Pod, PodKey},
    proposal::Reading,
    selecting::{self, Selection},
    spec::Spec,
};
use ironclad_membermetrics::Member as AskedMember;
use ironclad_members::{Member, Members, PODS};
use ironclad_patch::selector::LabelSelector;
use ironclad_runtime::{Api, Failure, Informer};
use ironclad_seam::Clock;
use k8s_openapi::api::autoscaling::{v1::Scale, v2::HorizontalPodAutoscaler};
use kube::{Client, ResourceExt as _, api::DynamicObject};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::ask::{Askable, Asker};
use crate::{
    bindings::Bindings,
    clusters::ClusterSnapshot,
    index::{BY_SCALED, BY_TEMPLATE, scaled, template_name},
    mapper::{Mapper, Served},
    objects::Objects,
};

/// Time for what one member is asked in a round.
const MEMBER_DEADLINE: Duration = Duration::from_secs(3);
/// Time for which the selector of a member's scale is used again: it changes only with the template.
const SCALE_KEPT: Duration = Duration::from_secs(150);

/// The caches and clients that the controller reads.
pub(super) struct Observer {
    pub(super) plane: Client,
    pub(super) clock: Clock,
    pub(super) mapper: Arc<Mapper>,
    /// HorizontalPodAutoscalers of the control plane; members run some of them.
    pub(super) distributed: Informer<HorizontalPodAutoscaler>,
    pub(super) templates: Arc<Objects<DynamicObject>>,
    pub(super) bindings: Bindings,
    pub(super) fleet: ClusterSnapshot,
    pub(super) members: Arc<Members>,
    pub(super) asker: Asker,
    pub(super) selectors: Mutex<BTreeMap<(ObjectKey, ClusterName), KeptSelector>>,
}

/// Selector of the scale of a member's object.
pub(super) struct KeptSelector {
    /// The connection over which it was read; one that has ended is not kept alive.
    member: Weak<Member>,
    selector: Arc<str>,
    read: Instant,
}

/// The snapshot.
#[derive(Debug, Clone)]
pub(super) struct Observed {
    pub(super) current: i32,
    pub(super) pods: BTreeMap<PodKey, Arc<Pod>>,
    pub(super) selection: Selection,
    /// The selector, if it can be read.
    pub(super) selector: Option<LabelSelector>,
    status_replicas: i64,
    calibration: Calibration,
    is_settling: bool,
    pub(super) readings: Vec<Result<Reading, String>>,
    /// Clusters of the workload that were not reached, and why.
    pub(super) unreached: Vec<(String, String)>,
}

impl Observed {
    fn of_template(current: i32) -> Self {
        Self {
            current,
            pods: BTreeMap::new(),
            selection: Selection::NotNeeded,
            selector: None,
            status_replicas: 0,
            calibration: Calibration::ONE,
            is_settling: false,
            readings: Vec::new(),
            unreached: Vec::new(),
        }
    }

    /// The form that decisions take.
    pub(super) fn snapshot(&self) -> Snapshot<'_> {
        Snapshot {
            current: self.current,
            pods: &self.pods,
            selection: self.selection.clone(),
            status_replicas: self.status_replicas,
            calibration: self.calibration,
            is_settling: self.is_settling,
        }
    }
}

/// Reason why there is no snapshot, and the replicas of the template, if they are known.
pub(super) struct NotObserved {
    pub(super) unread: Unread,
    pub(super) current: Option<i32>,
}

impl From<Unread> for NotObserved {
    fn from(unread: Unread) -> Self {
        Self { unread, current: None }
    }
}

/// The workload of an autoscaler.
struct Target {
    key: ObjectKey,
    served: Arc<Served>,
}

/// Answers of one member.
struct Reached {
    member: AskedMember,
    selector: Arc<str>,
    parsed: Option<LabelSelector>,
    pods: Vec<(PodKey, Arc<Pod>)>,
}

impl Observer {
    pub(super) async fn observe(&self, object: &FederatedHPA, spec: &Spec<'_>) -> Result<Observed, NotObserved> {
        self.alone(object)?;
        let target = self.target(object).await?;
        let current = self.replicas(&target).await?;
        let known = |unread| NotObserved { unread, current: Some(current) };
        let mut observed = Observed::of_template(current);
        // Zero switches the autoscaler off: what runs in the clusters does not matter then.
        if current == 0 && !needs_metrics(spec, current) {
            return Ok(observed);
        }
        let binding = self.binding(&target.key).map_err(known)?;
        if binding.spec.clusters.is_empty() && current > 0 {
            return Err(known(Unread::Clusters));
        }
        if !needs_metrics(spec, current) {
            return Ok(observed);
        }
        let (reached, unreached) = if current > 0 { self.reach(&target, &binding).await } else { Default::default() };
        observed.unreached = unreached;
        self.count(&mut observed, &binding, &reached).map_err(known)?;
        let members: Vec<AskedMember> = reached.iter().map(|reached| reached.member.clone()).collect();
        let all = self.all_members();
        let selector = match &observed.selection {
            Selection::By(selector) => selector.as_str(),
            Selection::NotNeeded => "",
            _ => return Ok(observed),
        };
        let asked = Askable { reached: if current > 0 { &members } else { &all }, all: &all, selector };
        observed.readings = self.asker.readings(object, &asked).await;
        Ok(observed)
    }

    /// Refuses an object whose target members scale by themselves, as an older HorizontalPodAutoscaler says. One that
    /// is being released counts until the template has what its members decided.
    fn alone(&self, object: &FederatedHPA) -> Result<(), NotObserved> {
        let others = self.distributed.by_index(BY_SCALED, &scaled(object));
        let rivals: Vec<Rival> =
            others.iter().filter(|other| decides_in_members(other)).map(|other| Rival::from(&**other)).collect();
        match Rival::from(object).superior(&rivals) {
            Some(rival) => Err(Unread::Rival(rival.name.clone()).into()),
            None => Ok(()),
        }
    }

    async fn target(&self, object: &FederatedHPA) -> Result<Target, NotObserved> {
        let reference = &object.spec.scale_target_ref;
        let api_version = reference.api_version.as_deref().unwrap_or_default();
        if api_version.is_empty() || api_version.matches('/').count() > 1 {
            let why = format!("spec.scaleTargetRef.apiVersion {api_version:?} is no group and version");
            return Err(Unread::ApiVersion(why).into());
        }
        let gvk = Gvk::from_manifest(api_version, &reference.kind);
        let namespace = object.namespace().unwrap_or_default();
        let key = ObjectKey { gvk, namespace: namespace.into(), name: reference.name.as_str().into() };
        let unread = |failure: Failure| NotObserved::from(Unread::Scale(failure.to_string()));
        let gvk = &key.gvk;
        let unserved = || Unread::Scale(format!("the control plane does not serve {} of {api_version}", gvk.kind));
        let served = self.mapper.served(gvk).await.map_err(unread)?.ok_or_else(unserved)?;
        let templates = self.templates.listed(gvk).await.map_err(unread)?.ok_or_else(unserved)?;
        if templates.get(&key.namespace, &key.name).is_none() {
            return Err(Unread::Template(format!("{} {} does not exist", gvk.kind, key.name)).into());
        }
        Ok(Target { key, served })
    }

    async fn replicas(&self, target: &Target) -> Result<i32, NotObserved> {
        let scale = self.scale(&self.plane, target).await.map_err(|failure| Unread::Scale(failure.to_string()))?;
        Ok(scale.spec.and_then(|spec| spec.replicas).unwrap_or(0))
    }

    async fn scale(&self, client: &Client, target: &Target) -> Result<Scale, Failure> {
        let api: Api<DynamicObject> = target.served.api(client, &target.key.namespace);
        Ok(api.get_scale(&target.key.name).await?)
    }

    fn binding(&self, template: &ObjectKey) -> Result<Arc<ResourceBinding>, Unread> {
        let found = self.bindings.namespaced.by_index(BY_TEMPLATE, &template_name(template)).into_iter().next();
        let (kind, name) = (&template.gvk.kind, &template.name);
        found.ok_or_else(|| Unread::Binding(format!("{kind} {name} has none: no policy propagates it")))
    }

    /// Reads the clusters of the binding at the same time. One that does not answer costs its own pods only.
    async fn reach(&self, target: &Target, binding: &ResourceBinding) -> (Vec<Reached>, Vec<(String, String)>) {
        let reads = binding.spec.clusters.iter().map(|cluster| async move {
            let name = ClusterName::from(cluster.name.as_str());
            let read = async {
                let member = self.member(&name)?;
                let late = |_| format!("no answer within {MEMBER_DEADLINE:?}");
                timeout(MEMBER_DEADLINE, self.read_member(target, &member)).await.map_err(late)?
            };
            (cluster.name.clone(), read.await)
        });
        let (mut reached, mut unreached) = (Vec::new(), Vec::new());
        for (name, read) in join_all(reads).await {
            match read {
                Ok(read) => reached.push(read),
                Err(why) => unreached.push((name, why)),
            }
        }
        (reached, unreached)
    }

    fn member(&self, name: &ClusterName) -> Result<Arc<Member>, String> {
        let fleet = self.fleet.all();
        let cluster = fleet.get(name).ok_or("it is not registered")?;
        if !cluster.is_ready() {
            return Err("it is not ready".to_owned());
        }
        self.members.get(name).ok_or_else(|| "it is not connected".to_owned())
    }

    async fn read_member(&self, target: &Target, member: &Arc<Member>) -> Result<Reached, String> {
        let informer = member.watch(&PODS);
        informer.synced().await;
        let selector = self.selector(target, member).await?;
        let parsed = selecting::parse(&selector).ok();
        let cached = informer.namespace(&target.key.namespace);
        let selected = cached
            .iter()
            .filter(|pod| parsed.as_ref().is_some_and(|selector| selecting::selects(selector, pod.labels())));
        let key = |name: String| PodKey { cluster: member.name.0.clone(), name: name.into() };
        let pods: Vec<_> = selected.map(|pod| (key(pod.name_any()), Arc::new(pod.autoscaled()))).collect();
        let member = AskedMember { name: member.name.clone(), client: Ok(member.client.clone()) };
        Ok(Reached { member, selector, parsed, pods })
    }

    async fn selector(&self, target: &Target, member: &Arc<Member>) -> Result<Arc<str>, String> {
        let key = (target.key.clone(), member.name.clone());
        let now = self.clock.mono();
        let connection = Arc::downgrade(member);
        let is_valid = |kept: &&KeptSelector| kept.member.ptr_eq(&connection) && now < kept.read + SCALE_KEPT;
        if let Some(kept) = self.selectors.lock().get(&key).filter(is_valid) {
            return Ok(kept.selector.clone());
        }
        let scale = self.scale(&member.client, target).await.map_err(|failure| failure.to_string())?;
        let selector: Arc<str> = scale.status.and_then(|status| status.selector).unwrap_or_default().into();
        if !selector.is_empty() {
            let kept = KeptSelector { member: connection, selector: selector.clone(), read: now };
            self.selectors.lock().insert(key, kept);
        }
        Ok(selector)
    }

    /// Counts what was read.
    fn count(&self, observed: &mut Observed, binding: &ResourceBinding, reached: &[Reached]) -> Result<(), Unread> {
        let names: BTreeSet<&str> = match observed.current {
            // Nothing runs: every cluster is as far as it should be.
            0 => binding.spec.clusters.iter().map(|target| target.name.as_str()).collect(),
            _ => reached.iter().map(|reached| &*reached.member.name.0).collect(),
        };
        let calibration = placed::calibration(&binding.spec, &names);
        if observed.current == 0 {
            observed.calibration = calibration.unwrap_or(Calibration::ONE);
            return Ok(());
        }
        let others = || {
            let idle = binding.spec.clusters.iter().filter(|target| names.contains(target.name.as_str()));
            let idle = idle.map(|target| (target.name.clone(), "it runs none of the replicas".to_owned()));
            Unread::Reachable(observed.unreached.iter().cloned().chain(idle).collect())
        };
        observed.calibration = calibration.ok_or_else(others)?;
        let generation = binding.metadata.generation.unwrap_or(0);
        let status = binding.status.as_ref();
        observed.is_settling = placed::is_settling(&binding.spec, status, generation, observed.current, &names);
        observed.pods = reached.iter().flat_map(|reached| reached.pods.iter().cloned()).collect();
        let counts = |pod: &&Arc<Pod>| !pod.is_deleted && matches!(pod.phase, Phase::Pending | Phase::Running);
        observed.status_replicas = i64::try_from(observed.pods.values().filter(counts).count()).unwrap_or(i64::MAX);
        let first = reached.iter().find(|reached| !reached.selector.is_empty());
        observed.selector = first.and_then(|reached| reached.parsed.clone());
        observed.selection = match first {
            Some(first) => match selecting::parse(&first.selector) {
                Ok(_) => Selection::By(first.selector.to_string()),
                Err(selection) => selection,
            },
            None => Selection::Missing,
        };
        Ok(())
    }

    /// All clusters that are ready, in order of their names.
    fn all_members(&self) -> Vec<AskedMember> {
        let fleet = self.fleet.all();
        let ready = fleet.iter().filter(|(_, cluster)| cluster.is_ready());
        let member = |name: &ClusterName| {
            let client = self.members.get(name).map(|member| member.client.clone());
            AskedMember { name: name.clone(), client: client.ok_or_else(|| "it is not connected".to_owned()) }
        };
        ready.map(|(name, _)| member(name)).collect()
    }

    /// Forgets what was kept of a workload.
    pub(super) fn forget(&self, object: &FederatedHPA) {
        let reference = &object.spec.scale_target_ref;
        let gvk = Gvk::from_manifest(reference.api_version.as_deref().unwrap_or_default(), &reference.kind);
        let namespace = object.namespace().unwrap_or_default();
        let key = ObjectKey { gvk, namespace: namespace.into(), name: reference.name.as_str().into() };
        self.selectors.lock().retain(|(of, _), _| *of != key);
    }
}
