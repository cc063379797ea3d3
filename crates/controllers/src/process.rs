//! All controllers of one process.

use std::sync::Arc;

use ironclad_api::conditions::{self, binding::SCHEDULED};
use ironclad_autoscaling::federated_hpa::report::Report as AutoscalerReport;
use ironclad_failover::taint_manager::{Report, Row};
use ironclad_fleet::{Binding, BindingKey, ClusterName};
use ironclad_members::Connections;
use ironclad_planning::{
    self as planning,
    announcement::LeaseName,
    leader::{Configuration, EstimatorAnswer, QueuedBinding},
};
use ironclad_runtime::Key;
use ironclad_scheduling::Capacity;
use ironclad_seam::Seam;
use kube::Client;
use prometheus_client::registry::Registry;

use crate::{
    agent, announce, backends::Backends, controller::Controller, history, registry, settings::Settings, setup::Setup,
};

/// The controllers. Everything that runs is a task of the seam that they were given.
pub struct Controllers {
    setup: Setup,
    running: Vec<(&'static str, Arc<dyn Controller>)>,
    registry: Arc<Registry>,
}

impl Controllers {
    /// Constructs the controllers that these settings enable; they run from [`Controllers::start`] on.
    #[must_use]
    pub fn new(
        plane: Client,
        seam: Seam,
        members: Connections,
        backends: Arc<dyn Backends>,
        settings: Settings,
    ) -> Arc<Self> {
        let setup = Setup::new(plane, seam, members, backends, settings);
        let mut running = registry::construct(&setup);
        let agent = setup.settings.agent_of.as_ref().map(|cluster| ("agent", agent::new(&setup, cluster)));
        running.extend(agent);
        let history = setup.settings.history.as_ref().map(|kept| ("history", history::new(&setup, kept)));
        running.extend(history);
        let registry = Arc::new(setup.take_registry());
        Arc::new(Self { setup, running, registry })
    }

    /// Starts the watches, waits until the first lists are complete, and starts all controllers: none reconciles over
    /// half of the objects.
    pub async fn start(&self) {
        self.setup.caches.start(&self.setup.plane);
        self.setup.caches.synced().await;
        for (name, controller) in &self.running {
            tracing::debug!(controller = name, "starting");
            controller.clone().start(&self.setup.seam.tasks);
        }
    }

    /// True once the first lists are complete.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.setup.caches.is_synced()
    }

    /// The long-lived tasks that panicked again and again and were restarted each time.
    #[must_use]
    pub fn failing_tasks(&self) -> Vec<String> {
        self.setup.seam.tasks.panics().failing(self.setup.seam.clock.mono())
    }

    /// True if no controller has anything to do and every requested status is written.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.running.iter().all(|(_, controller)| controller.is_quiet()) && self.setup.is_quiet()
    }

    /// The metrics of all controllers.
    #[must_use]
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.clone()
    }

    /// The rate in force with its reason, the faulty clusters, and the elements of the eviction queue in order. `None`
    /// while no evictions are decided, since gate `Failover` or the controller is off. The report has no rows.
    #[must_use]
    pub fn explain_evictions(&self) -> Option<(Report, Vec<Row>)> {
        self.setup.explain.evictions()
    }

    /// Memory of the last hour, in answer to a question; `None` if this process keeps none.
    #[must_use]
    pub fn history(&self, of: &planning::history::Of) -> Option<planning::history::Told> {
        let history = self.setup.settings.history.as_ref()?;
        Some(history.lock().told(of, self.setup.seam.clock.wall_seconds()))
    }

    /// The settings that decisions on placement read, and the state of every controller.
    #[must_use]
    pub fn configuration(&self) -> Configuration {
        let settings = &self.setup.settings;
        Configuration::new(
            &planning::Settings::new(settings.gates.clone(), &settings.scheduler)
                .with_autoscaler(&settings.federated_hpa)
                .with_estimators(settings.propagation.resource_modeling.is_on()),
            registry::states(settings),
        )
        .with_evictions(&settings.failover)
    }

    /// Announces the settings to verbs that cannot ask this process, as a task of the seam: once, retried until it is
    /// written. `leads` names the Lease and this process in it, if there is an election.
    pub fn announce(self: &Arc<Self>, leads: Option<(LeaseName, String)>) {
        announce::start(&self.setup, self.configuration(), leads);
    }

    /// The bindings in the queue of the scheduler, in order; `None` if it does not run in this process.
    #[must_use]
    pub fn explain_scheduling_queue(&self) -> Option<Vec<QueuedBinding>> {
        let mut waiting = self.setup.explain.scheduling_queue()?;
        for one in &mut waiting {
            one.message = self.explain_scheduling(&one.binding);
        }
        Some(waiting)
    }

    /// The nodes, pods and quotas of a connected cluster as this process has them in its caches.
    #[must_use]
    pub fn observed(&self, cluster: &ClusterName) -> Option<Arc<ironclad_estimator::Member>> {
        self.setup.made.accounts.get()?.get(cluster)
    }

    /// The account of capacity as it is now, if this process keeps it. It costs a copy of it.
    #[must_use]
    pub fn capacity(&self) -> Option<Capacity> {
        Some(self.setup.made.capacity.get()?.lock().clone())
    }

    /// The answers about a binding: those of the accounts by node at present, and the last of each estimator over gRPC.
    /// None if there are neither, or if its result does not depend on capacity.
    #[must_use]
    pub fn explain_estimates(&self, binding: &BindingKey) -> Vec<EstimatorAnswer> {
        let (made, Some(binding)) = (&self.setup.made, self.binding(binding)) else { return Vec::new() };
        let by_node = made.capacity.get().map(|capacity| capacity.explain(binding.view()));
        let by_servers = made.estimates.get().map(|estimates| estimates.explain(binding.view()));
        by_node.into_iter().chain(by_servers).flatten().collect()
    }

    /// The last round of a FederatedHPA; `None` if this process has evaluated none of this name.
    #[must_use]
    pub fn explain_autoscaler(&self, namespace: &str, name: &str) -> Option<Arc<AutoscalerReport>> {
        self.setup.explain.autoscaler(&Key::new(namespace, name))
    }

    fn binding(&self, key: &BindingKey) -> Option<Binding> {
        self.setup.made.bindings.get()?.get(&Key::new(&key.namespace, &key.name))
    }

    /// The message of a binding's condition `Scheduled`.
    fn explain_scheduling(&self, binding: &BindingKey) -> Option<String> {
        let binding = self.binding(binding)?;
        let condition = conditions::get(&binding.view().status()?.conditions, SCHEDULED)?;
        Some(condition.message.clone())
    }
}
