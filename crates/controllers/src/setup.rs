//! The parts from which controllers are built. A controller keeps those that it needs.

use std::sync::Arc;

use ironclad_api::{
    cluster::Cluster,
    events::HOT_LOOP,
    work::{ObjectReference, Work},
};
use ironclad_fleet::{Event, Gvk};
use ironclad_members::{Connections, Member, Members, PerMember};
use ironclad_runtime::{
    Api, Caches, Change, HotLoops, Informer, PanicMetrics, Queue, Scope, StatusWriter, WatchScope, WorkMetrics, Writer,
};
use ironclad_seam::Seam;
use kube::{Client, api::DynamicObject};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;

use crate::{
    backends::Backends,
    bindings::Bindings,
    caches::{CLUSTERS, WORKS},
    capacity::FleetCapacity,
    clusters::ClusterSnapshot,
    estimates::{EstimateParts, Estimates, member_needs},
    events::Events,
    explain::Explain,
    groups::Groups,
    interpreter::{Interpreters, metrics::InterpreterMetrics},
    mapper::Mapper,
    member_object::{self, MemberObjects},
    not_made::CopiesNotMade,
    objects::Objects,
    settings::Settings,
    targets::{Templates, Typed, json},
    templates::TemplateQueue,
    works::WorkStatus,
};

/// Nodes and pods of each connected member whose nodes and pods are watched.
pub(crate) type Accounts = Arc<PerMember<ironclad_estimator::Member>>;

/// The parts. They know no controller.
pub(crate) struct Setup {
    /// Time, chance and the owner of all tasks.
    pub(crate) seam: Seam,
    /// Client of the control plane.
    pub(crate) plane: Client,
    /// Kinds that the control plane serves.
    pub(crate) mapper: Arc<Mapper>,
    /// Flags.
    pub(crate) settings: Arc<Settings>,
    /// Metrics of queues and workers.
    pub(crate) work_metrics: WorkMetrics,
    registry: Mutex<Registry>,
    /// Informers of the control plane's kinds.
    pub(crate) caches: Caches,
    /// Recorder of events.
    pub(crate) events: Events,
    /// Guard against writes that are sent again and again.
    pub(crate) hot_loops: HotLoops,
    /// Answers about kinds.
    pub(crate) interpreters: Arc<Interpreters>,
    /// Bindings of both kinds with the writer of their status.
    pub(crate) bindings: Bindings,
    pub(crate) works: Informer<Work>,
    /// The writer of their status.
    pub(crate) work_status: WorkStatus,
    /// Reasons why targets of bindings have no Work.
    pub(crate) not_made: CopiesNotMade,
    pub(crate) clusters: Informer<Cluster>,
    /// The same, as decisions take them.
    pub(crate) fleet: ClusterSnapshot,
    /// The writer of their status.
    pub(crate) cluster_status: StatusWriter<Typed<Cluster>>,
    /// Templates of the kinds that some policy or binding names.
    pub(crate) templates: Arc<Objects<DynamicObject>>,
    /// The writer of their status.
    pub(crate) template_status: StatusWriter<Templates>,
    /// Connected members.
    pub(crate) members: Arc<Members>,
    /// Objects that were applied in them.
    pub(crate) member_objects: MemberObjects,
    /// Their nodes and pods, if these are watched.
    pub(crate) accounts: Accounts,
    /// Templates that wait to be claimed.
    pub(crate) template_queue: TemplateQueue,
    /// Available replicas of the fleet, as the scheduler assumes them.
    pub(crate) capacity: FleetCapacity,
    /// Groups of workloads, as the scheduler assumes them.
    pub(crate) groups: Groups,
    /// Answers of estimators over gRPC.
    pub(crate) estimates: Estimates,
    /// State in memory that is shown on request.
    pub(crate) explain: Explain,
}

impl Setup {
    pub(crate) fn new(
        plane: Client,
        seam: Seam,
        connections: Connections,
        backends: Arc<dyn Backends>,
        settings: Settings,
    ) -> Self {
        let (mut registry, caches) = (Registry::default(), Caches::new(Scope::All, &seam));
        let work_metrics = WorkMetrics::register(&mut registry);
        registry.register_collector(Box::new(PanicMetrics(seam.tasks.panics().clone())));
        let interpreter_metrics = InterpreterMetrics::register(&mut registry);
        let events = Events::new(plane.clone(), &seam, &settings);
        let hot_loops = hot_loops(&seam, &mut registry, &events);
        let mapper = Arc::new(Mapper::new(plane.clone(), seam.clock.clone()));
        let interpreters = Interpreters::follow(
            &seam, &plane, &backends, &caches, &events, &interpreter_metrics, &settings.running_scripts,
        );
        let clusters = caches.take(&CLUSTERS);
        let fleet = ClusterSnapshot::follow(&clusters);
        let bindings = Bindings::start(&seam, &plane, &caches);
        let works = caches.take(&WORKS);
        let work_status = WorkStatus::start(&seam, plane.clone(), works.clone());
        let target = Typed {
            client: plane.clone(),
            cache: clusters.clone(),
            writer: Writer::new("clusterStatus"),
            api: |client, _| Api::all(client.clone()),
            status: |c: &Cluster| json(&c.status),
        };
        let cluster_status = StatusWriter::start("status/clusters", &seam, target);
        let templates = Arc::new(Objects::new(
            plane.clone(),
            mapper.clone(),
            &seam,
            seam.tasks.child("templates"),
            WatchScope::default(),
            Box::new(crate::objects::templates),
        ));
        let target = Templates { objects: templates.clone(), writer: Writer::new("bindingStatus") };
        let template_status = StatusWriter::start("status/templates", &seam, target);
        let template_queue = TemplateQueue::new(queue(&seam, &work_metrics, "detector"));
        let capacity = FleetCapacity::new(&settings, seam.clock.clone());
        let groups = Groups::follow(&bindings.namespaced, capacity.options().workload_affinity);
        let members = Arc::new(Members::new(connections, &seam));
        let (member_objects, accounts): (MemberObjects, Accounts) = Default::default();
        let (objects, from) = (member_objects.clone(), (mapper.clone(), interpreters.clone(), works.clone()));
        members.on_connect(move |member| {
            objects.set(member, member_object::of(member, &from.0, &from.1, &from.2));
        });
        let needs = member_needs(&settings);
        let watches = settings.propagation.resource_modeling.is_on() || needs.capacity || needs.unschedulable;
        let (of_member, followed, capacities) = (accounts.clone(), bindings.clone(), capacity.clone());
        members.on_connect(move |member| {
            let account = watches.then(|| ironclad_estimator::Member::new(needs, &member.caches));
            capacities.follow(member, account.clone(), &followed);
            account.into_iter().for_each(|account| drop(of_member.set(member, account)));
        });
        let settings = Arc::new(settings);
        let estimates = Estimates::new(EstimateParts {
            settings: &settings,
            seam: &seam,
            backends: &backends,
            plane: &plane,
            clusters: &clusters,
            accounts: &accounts,
            bindings: &bindings,
            capacity: &capacity,
            registry: &mut registry,
        });
        Self {
            seam,
            plane,
            mapper,
            settings,
            work_metrics,
            registry: Mutex::new(registry),
            caches,
            events,
            hot_loops,
            interpreters,
            bindings,
            works,
            work_status,
            not_made: CopiesNotMade::default(),
            clusters,
            fleet,
            cluster_status,
            templates,
            template_status,
            members,
            member_objects,
            accounts,
            template_queue,
            capacity,
            groups,
            estimates,
            explain: Explain::default(),
        }
    }

    /// A queue whose metrics carry this name.
    pub(crate) fn queue<T>(&self, name: &'static str) -> Queue<T>
    where
        T: Ord + Clone + std::fmt::Debug + Send + Sync + 'static,
    {
        queue(&self.seam, &self.work_metrics, name)
    }

    /// A writer for this controller that does not send the same again and again.
    pub(crate) fn writer(&self, controller: &str) -> Writer {
        Writer::new(controller).guarded(&self.hot_loops)
    }

    /// Registers the metrics of a controller.
    pub(crate) fn register<T>(&self, register: impl FnOnce(&mut Registry) -> T) -> T {
        register(&mut self.registry.lock())
    }

    /// The registry with everything that was registered.
    pub(crate) fn take_registry(&self) -> Registry {
        std::mem::take(&mut self.registry.lock())
    }
}

/// The guard, which reports hot loops as events on the objects.
fn hot_loops(seam: &Seam, registry: &mut Registry, events: &Events) -> HotLoops {
    let events = events.clone();
    HotLoops::new(seam.clock.clone(), registry, move |found| {
        let about = ObjectReference {
            api_version: found.api_version.clone(),
            kind: found.kind.clone(),
            namespace: found.namespace.clone(),
            name: found.name.clone(),
            uid: found.uid.clone(),
            resource_version: String::new(),
        };
        events.record(&Event::warning(about, HOT_LOOP, found.to_string()));
    })
}

fn queue<T>(seam: &Seam, metrics: &WorkMetrics, name: &'static str) -> Queue<T>
where
    T: Ord + Clone + std::fmt::Debug + Send + Sync + 'static,
{
    Queue::new(seam.clock.clone(), seam.rng.stream(&format!("jitter/{name}"))).measured(name, metrics)
}

/// Calls the handler for every change as long as the controller lives. The caches do not keep it alive.
pub(crate) fn on_change<C, K>(informer: &Informer<K>, controller: &Arc<C>, handler: fn(&C, &Change<K>))
where
    C: Send + Sync + 'static,
    K: ironclad_runtime::Object,
{
    let weak = Arc::downgrade(controller);
    informer.on_change(move |change| {
        if let Some(controller) = weak.upgrade() {
            handler(&controller, change);
        }
    });
}

/// True for the kinds that are meant.
pub(crate) type KindFilter<'a> = &'a dyn Fn(&Gvk) -> bool;

/// Calls the handler when the interpretation of kinds changes, with a filter of these kinds, as long as the controller
/// lives.
pub(crate) fn on_interpretation<C>(setup: &Setup, controller: &Arc<C>, handler: fn(&C, KindFilter<'_>))
where
    C: Send + Sync + 'static,
{
    let weak = Arc::downgrade(controller);
    setup.interpreters.on_change(move |changed| {
        if let Some(controller) = weak.upgrade() {
            handler(&controller, changed);
        }
    });
}

/// Calls the handler for every change of a template as long as the controller lives.
pub(crate) fn on_template<C>(setup: &Setup, controller: &Arc<C>, handler: fn(&C, &Gvk, &Change<DynamicObject>))
where
    C: Send + Sync + 'static,
{
    let weak = Arc::downgrade(controller);
    setup.templates.on_change(move |gvk, change| {
        if let Some(controller) = weak.upgrade() {
            handler(&controller, gvk, change);
        }
    });
}

/// Calls the handler for every member that is connected as long as the controller lives.
pub(crate) fn on_connect<C>(setup: &Setup, controller: &Arc<C>, handler: fn(&Arc<C>, &Arc<Member>))
where
    C: Send + Sync + 'static,
{
    let weak = Arc::downgrade(controller);
    setup.members.on_connect(move |member| {
        if let Some(controller) = weak.upgrade() {
            handler(&controller, member);
        }
    });
}
