//! The parts from which controllers are built. A controller keeps those that it needs.

use std::sync::{Arc, OnceLock};

use ironclad_api::{
    cluster::Cluster,
    events::HOT_LOOP,
    work::{ObjectReference, Work},
};
use ironclad_fleet::{Event, Gvk};
use ironclad_members::{Connections, Member, Members, PerMember};
use ironclad_runtime::{
    Api, Caches, Change, HotLoops, Informer, PanicMetrics, Queue, StatusWriter, WatchScope, WorkMetrics, Writer,
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
    services::{MultiClusterServices, collect::Collector},
    settings::Settings,
    targets::{Templates, Typed, json},
    templates::TemplateQueue,
    works::WorkStatus,
};

/// Nodes and pods of each connected member whose nodes and pods are watched.
pub(crate) type Accounts = Arc<PerMember<ironclad_estimator::Member>>;

/// The parts, which know no controller. Those that watch something are made when a controller takes them, so that a
/// process of few controllers watches no more than they read.
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
    /// Reasons why targets of bindings have no Work.
    pub(crate) not_made: CopiesNotMade,
    /// Connected members.
    pub(crate) members: Arc<Members>,
    /// State in memory that is shown on request.
    pub(crate) explain: Explain,
    backends: Arc<dyn Backends>,
    pub(crate) made: Made,
}

/// The parts that were taken.
#[derive(Default)]
pub(crate) struct Made {
    interpreters: OnceLock<Arc<Interpreters>>,
    pub(crate) bindings: OnceLock<Bindings>,
    work_status: OnceLock<WorkStatus>,
    clusters: OnceLock<(Informer<Cluster>, ClusterSnapshot)>,
    cluster_status: OnceLock<StatusWriter<Typed<Cluster>>>,
    templates: OnceLock<Arc<Objects<DynamicObject>>>,
    template_status: OnceLock<StatusWriter<Templates>>,
    template_queue: OnceLock<TemplateQueue>,
    member_objects: OnceLock<MemberObjects>,
    multi_cluster_services: OnceLock<MultiClusterServices>,
    collector: OnceLock<Arc<Collector>>,
    pub(crate) accounts: OnceLock<Accounts>,
    pub(crate) capacity: OnceLock<FleetCapacity>,
    groups: OnceLock<Groups>,
    pub(crate) estimates: OnceLock<Estimates>,
}

impl Setup {
    pub(crate) fn new(
        plane: Client,
        seam: Seam,
        connections: Connections,
        backends: Arc<dyn Backends>,
        settings: Settings,
    ) -> Self {
        let mut registry = Registry::default();
        let work_metrics = WorkMetrics::register(&mut registry);
        registry.register_collector(Box::new(PanicMetrics(seam.tasks.panics().clone())));
        let events = Events::new(plane.clone(), &seam, &settings);
        let hot_loops = hot_loops(&seam, &mut registry, &events);
        Self {
            mapper: Arc::new(Mapper::new(plane.clone(), seam.clock.clone())),
            caches: Caches::new(settings.scope(), &seam),
            members: Arc::new(Members::new(connections, &seam)),
            seam,
            plane,
            settings: Arc::new(settings),
            work_metrics,
            registry: Mutex::new(registry),
            events,
            hot_loops,
            not_made: CopiesNotMade::default(),
            explain: Explain::default(),
            backends,
            made: Made::default(),
        }
    }

    /// Answers about kinds.
    pub(crate) fn interpreters(&self) -> &Arc<Interpreters> {
        self.made.interpreters.get_or_init(|| {
            let (metrics, settings) = (self.register(InterpreterMetrics::register), &self.settings);
            Interpreters::follow(
                &self.seam,
                (&self.plane, &self.mapper),
                &self.backends,
                &self.caches,
                &self.events,
                &metrics,
                settings,
            )
        })
    }

    /// Bindings of both kinds with the writer of their status.
    pub(crate) fn bindings(&self) -> &Bindings {
        self.made.bindings.get_or_init(|| Bindings::start(&self.seam, &self.plane, &self.caches, &self.events))
    }

    /// Works in the namespaces that the process reads.
    pub(crate) fn works(&self) -> Informer<Work> {
        self.caches.take(&WORKS)
    }

    /// The writer of their status.
    pub(crate) fn work_status(&self) -> &WorkStatus {
        let start = || WorkStatus::start(&self.seam, self.plane.clone(), self.works(), self.events.clone());
        self.made.work_status.get_or_init(start)
    }

    /// Clusters, and the same as decisions take them, which are up to date when other handlers are called.
    fn clusters_and_fleet(&self) -> &(Informer<Cluster>, ClusterSnapshot) {
        self.made.clusters.get_or_init(|| {
            let clusters = self.caches.take(&CLUSTERS);
            let fleet = ClusterSnapshot::follow(&clusters);
            (clusters, fleet)
        })
    }

    pub(crate) fn clusters(&self) -> &Informer<Cluster> {
        &self.clusters_and_fleet().0
    }

    /// The same, as decisions take them.
    pub(crate) fn fleet(&self) -> &ClusterSnapshot {
        &self.clusters_and_fleet().1
    }

    /// The writer of their status.
    pub(crate) fn cluster_status(&self) -> &StatusWriter<Typed<Cluster>> {
        self.made.cluster_status.get_or_init(|| {
            let target = Typed {
                client: self.plane.clone(),
                cache: self.clusters().clone(),
                writer: Writer::new("clusterStatus"),
                events: self.events.clone(),
                api: |client, _| Api::all(client.clone()),
                status: |c: &Cluster| json(&c.status),
            };
            StatusWriter::start("status/clusters", &self.seam, target)
        })
    }

    /// Templates of the kinds that some policy or binding names.
    pub(crate) fn templates(&self) -> &Arc<Objects<DynamicObject>> {
        self.made.templates.get_or_init(|| {
            let (scope, make) = (WatchScope::default(), Box::new(crate::objects::templates));
            let tasks = self.seam.tasks.child("templates");
            Arc::new(Objects::new(self.plane.clone(), self.mapper.clone(), &self.seam, tasks, scope, make))
        })
    }

    /// The writer of their status.
    pub(crate) fn template_status(&self) -> &StatusWriter<Templates> {
        self.made.template_status.get_or_init(|| {
            let (objects, writer) = (self.templates().clone(), Writer::new("bindingStatus"));
            let target = Templates { objects, writer, events: self.events.clone() };
            StatusWriter::start("status/templates", &self.seam, target)
        })
    }

    /// Templates that wait to be claimed.
    pub(crate) fn template_queue(&self) -> &TemplateQueue {
        self.made.template_queue.get_or_init(|| TemplateQueue::new(self.queue("detector")))
    }

    /// Objects that were applied in members.
    pub(crate) fn member_objects(&self) -> &MemberObjects {
        self.made.member_objects.get_or_init(|| {
            let all = MemberObjects::default();
            let (made, mapper, works) = (all.clone(), self.mapper.clone(), self.works());
            let interpreters = self.interpreters().clone();
            self.members.on_connect(move |member| {
                made.set(member, member_object::of(member, &mapper, &interpreters, &works));
            });
            all
        })
    }

    /// MultiClusterServices with the writer of their status.
    pub(crate) fn multi_cluster_services(&self) -> &MultiClusterServices {
        self.made.multi_cluster_services.get_or_init(|| MultiClusterServices::start(self))
    }

    /// The collector of EndpointSlices in members.
    pub(crate) fn collector(&self) -> &Arc<Collector> {
        self.made.collector.get_or_init(|| Collector::new(self))
    }

    /// Nodes and pods of members, if these are watched.
    pub(crate) fn accounts(&self) -> &Accounts {
        self.made.accounts.get_or_init(|| {
            let (all, needs) = (Accounts::default(), member_needs(&self.settings));
            if self.settings.propagation.resource_modeling.is_on() || needs.capacity || needs.unschedulable {
                let made = all.clone();
                self.members.on_connect(move |member| {
                    made.set(member, ironclad_estimator::Member::new(needs, &member.caches));
                });
            }
            all
        })
    }

    /// Available replicas of the fleet, as the scheduler assumes them.
    pub(crate) fn capacity(&self) -> &FleetCapacity {
        self.made.capacity.get_or_init(|| {
            let capacity = FleetCapacity::new(&self.settings, self.seam.clock.clone());
            let (made, accounts, bindings) = (capacity.clone(), self.accounts().clone(), self.bindings().clone());
            self.members.on_connect(move |member| made.follow(member, accounts.get(&member.name), &bindings));
            capacity
        })
    }

    /// Groups of workloads, as the scheduler assumes them.
    pub(crate) fn groups(&self) -> &Groups {
        let is_on = self.capacity().options().workload_affinity;
        self.made.groups.get_or_init(|| Groups::follow(&self.bindings().namespaced, is_on))
    }

    /// Answers of estimators over gRPC.
    pub(crate) fn estimates(&self) -> &Estimates {
        self.made.estimates.get_or_init(|| {
            Estimates::new(EstimateParts {
                settings: &self.settings,
                seam: &self.seam,
                backends: &self.backends,
                plane: &self.plane,
                clusters: self.clusters(),
                accounts: self.accounts(),
                bindings: self.bindings(),
                capacity: self.capacity(),
                registry: &mut self.registry.lock(),
            })
        })
    }

    /// True if every requested status is written.
    pub(crate) fn is_quiet(&self) -> bool {
        let made = &self.made;
        made.bindings.get().is_none_or(Bindings::is_quiet)
            && made.work_status.get().is_none_or(WorkStatus::is_quiet)
            && made.cluster_status.get().is_none_or(StatusWriter::is_quiet)
            && made.template_status.get().is_none_or(StatusWriter::is_quiet)
            && made.multi_cluster_services.get().is_none_or(MultiClusterServices::is_quiet)
    }

    /// A queue whose metrics carry this name.
    pub(crate) fn queue<T>(&self, name: &'static str) -> Queue<T>
    where
        T: Ord + Clone + std::fmt::Debug + Send + Sync + 'static,
    {
        let jitter = self.seam.rng.stream(&format!("jitter/{name}"));
        Queue::new(self.seam.clock.clone(), jitter).measured(name, &self.work_metrics)
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
    setup.interpreters().on_change(move |changed| {
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
    setup.templates().on_change(move |gvk, change| {
        if let Some(controller) = weak.upgrade() {
            handler(&controller, gvk, change);
        }
    });
}

/// Calls the handler for every member that is connected and that this process serves, as long as the controller lives.
pub(crate) fn on_serve<C>(setup: &Setup, controller: &Arc<C>, handler: fn(&Arc<C>, &Arc<Member>))
where
    C: Send + Sync + 'static,
{
    let weak = Arc::downgrade(controller);
    setup.members.on_connect(move |member| {
        if let Some(controller) = weak.upgrade().filter(|_| member.serves) {
            handler(&controller, member);
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
