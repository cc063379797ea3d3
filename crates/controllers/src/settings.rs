//! Flags of `up` and `run` for the controllers (specification/operations.md 8).

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ironclad_api::names;
use ironclad_estimator::ClientTls;
use ironclad_failover::{self as failover, cluster::report::AgentReport};
use ironclad_fleet::{ClusterName, gates::Gates};
use ironclad_interpreter_lua::RunningScripts;
use ironclad_planning::history::History;
use ironclad_runtime::Scope;
use ironclad_scheduling as scheduling;
use parking_lot::Mutex;

/// All settings; the defaults are those of the reference.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// `--feature-gates`.
    pub gates: Gates,
    /// `--controllers`.
    pub controllers: ControllerList,
    /// The cluster whose agent this process is; `None` in a control plane.
    pub agent_of: Option<ClusterName>,
    /// Facts that an agent tells of itself; whoever knows one writes it here.
    pub agent_report: Arc<Mutex<AgentReport>>,
    pub propagation: ironclad_propagation::flags::Flags,
    /// Flags of the scheduler.
    pub scheduler: scheduling::Options,
    /// Flags of estimators over gRPC.
    pub estimators: EstimatorSettings,
    /// Flags of the descheduler.
    pub descheduler: scheduling::deschedule::Options,
    /// Flags of CronFederatedHPAs.
    pub cron: ironclad_autoscaling::cron::Options,
    /// Flags of FederatedHPAs.
    pub federated_hpa: ironclad_hpa::options::Options,
    /// Flags of distributed HorizontalPodAutoscalers.
    pub distributed_hpa: ironclad_autoscaling::distributed_hpa::Options,
    /// Flags of cluster health, taints and failover.
    pub failover: failover::Flags,
    /// `--success-events`: each success event of Karmada is written, once per change.
    pub success_events: bool,
    /// Bounds of the questions for metrics to each member.
    pub member_metrics: ironclad_membermetrics::Options,
    /// Record of the interpreter scripts that run, if the process keeps one.
    pub running_scripts: Option<Arc<RunningScripts>>,
    /// Memory of the last hour, if the process keeps one.
    pub history: Option<Arc<Mutex<History>>>,
}

/// Name of the descheduler in `--controllers`.
pub(crate) const DESCHEDULER: &str = "descheduler";

impl Settings {
    /// Namespaces of the control plane that are watched: an agent has rights in one.
    pub(crate) fn scope(&self) -> Scope {
        let namespace = self.agent_of.as_ref().map(|cluster| names::execution_namespace(&cluster.0));
        namespace.map_or(Scope::All, |namespace| Scope::Namespace(namespace.into()))
    }

    /// Returns whether the descheduler runs.
    #[must_use]
    pub fn deschedules(&self) -> bool {
        self.controllers.enabled(DESCHEDULER)
    }
}

/// Flags of estimators over gRPC (specification/operations.md 8.3).
#[derive(Debug, Clone)]
pub struct EstimatorSettings {
    /// `--enable-scheduler-estimator`.
    pub enabled: bool,
    /// `--scheduler-estimator-timeout`: deadline of one call.
    pub timeout: Duration,
    /// Estimators over gRPC.
    pub discovery: scheduling::estimator::Discovery,
    /// TLS of the connections to them.
    pub tls: ClientTls,
}

impl Default for EstimatorSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            timeout: Duration::from_secs(3),
            discovery: scheduling::estimator::Discovery::default(),
            tls: ClientTls::default(),
        }
    }
}

/// The enabled controllers. The registry parses it, as it knows their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerList {
    pub(crate) enabled: BTreeSet<&'static str>,
}

impl ControllerList {
    /// Disables a controller.
    pub fn disable(&mut self, name: &str) {
        self.enabled.remove(name);
    }

    /// True if a controller is enabled. An unknown name is not.
    #[must_use]
    pub fn enabled(&self, name: &str) -> bool {
        self.enabled.contains(name)
    }

    /// True if a controller is enabled that is none of these.
    #[must_use]
    pub fn has_others_than(&self, names: &[&str]) -> bool {
        self.enabled.iter().any(|name| !names.contains(name))
    }
}
