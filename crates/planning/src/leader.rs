//! Settings and state of the leader, as group `explain.ironclad.io` tells them (specification/operations.md 4.4).
//!
//! The leader fills these types and the command line reads them; nothing here asks anybody.

use std::{collections::BTreeMap, fmt};

use ironclad_autoscaling::federated_hpa;
use ironclad_failover::{Flags, taint_manager::EvictionSettings};
use ironclad_fleet::{
    BindingKey,
    gates::{Gate, Gates},
};
use ironclad_hpa::options::Options as AutoscalerOptions;
use ironclad_options::announced;
use ironclad_propagation::detector::binding;
use ironclad_scheduling::{Options, capacity::Modelling};
use serde::{Deserialize, Serialize};

/// The controller that decides on evictions.
pub(crate) const EVICTIONS: &str = "taint-manager";

/// Flags and gates that decisions on placement read. The defaults where no leader tells its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Feature gates.
    pub gates: Gates,
    /// Flags of the scheduler, with the effect of the gates.
    pub scheduler: Options,
    /// Flags of FederatedHPAs, with the effect of the gates.
    pub autoscaler: AutoscalerOptions,
    /// True if the leader keeps accounts of clusters by node: `--enable-cluster-resource-modeling`.
    pub estimators: bool,
}

impl Settings {
    /// Settings with these gates, and these flags of the scheduler as they were given.
    #[must_use]
    pub fn new(gates: Gates, scheduler: &Options) -> Self {
        Self { scheduler: scheduler.with_gates(&gates), gates, ..Self::default() }.with_autoscaler(&Default::default())
    }

    /// Returns the settings with these flags of FederatedHPAs as they were given.
    #[must_use]
    pub fn with_autoscaler(self, options: &AutoscalerOptions) -> Self {
        Self { autoscaler: federated_hpa::with_gates(options.clone(), &self.gates), ..self }
    }

    /// Returns the settings with accounts of clusters by node or not.
    #[must_use]
    pub fn with_estimators(self, estimators: bool) -> Self {
        Self { estimators, ..self }
    }

    /// Gates that the detector reads.
    #[must_use]
    pub fn detector(&self) -> binding::Options {
        binding::Options::of(&self.gates)
    }

    /// Use of resource models.
    #[must_use]
    pub fn modelling(&self) -> Modelling {
        Modelling::of(&self.gates)
    }
}

/// Settings of the leader, and which controllers run in its process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    /// Feature gates by name.
    #[serde(default)]
    pub gates: BTreeMap<String, bool>,
    /// Flags of the scheduler. The effect of gates is that of `gates`.
    #[serde(default, with = "announced")]
    pub scheduler: Options,
    /// Flags of evictions; `None` if it decides on none, or is of a version that does not announce them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evictions: Option<EvictionSettings>,
    /// Flags of FederatedHPAs.
    #[serde(default, with = "announced")]
    pub autoscaler: AutoscalerOptions,
    /// True if it keeps accounts of clusters by node: `--enable-cluster-resource-modeling`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimators: bool,
    /// All controllers that it knows, in the order of its registry.
    #[serde(default)]
    pub controllers: Vec<ControllerState>,
}

/// A controller of the leader's process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerState {
    /// Its name in `--controllers`.
    pub name: String,
    pub state: Running,
    /// The feature gate without which it does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// Objects that nothing happens to without it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acts_on: Vec<ActsOn>,
}

/// State of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Running {
    /// It runs.
    Running,
    /// `--controllers` leaves it out.
    SwitchedOff,
    /// Its feature gate is off.
    GateOff,
    /// The version of the leader does not have it.
    NotBuilt,
    /// A state that this version does not know.
    #[serde(other)]
    Unknown,
}

/// Objects that a controller acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ActsOn {
    Clusters,
    /// PropagationPolicies and ClusterPropagationPolicies.
    Policies,
    /// ResourceBindings and ClusterResourceBindings.
    Bindings,
    /// Bindings with `spec.propagateDeps`.
    Dependencies,
    /// Bindings with `spec.failover.application`.
    ApplicationFailover,
    /// Eviction tasks of bindings.
    EvictionTasks,
    Works,
    /// ClusterTaintPolicies.
    TaintPolicies,
    /// Clusters with taints that evict.
    EvictingTaints,
    /// WorkloadRebalancers.
    WorkloadRebalancers,
    /// FederatedResourceQuotas.
    FederatedResourceQuotas,
    /// CronFederatedHPAs.
    CronFederatedHpas,
    /// FederatedHPAs.
    FederatedHpas,
    /// MultiClusterServices.
    MultiClusterServices,
    /// ServiceExports.
    ServiceExports,
    /// ServiceImports.
    ServiceImports,
    Remedies,
    /// Objects that this version does not know.
    #[serde(other)]
    Unknown,
}

impl Configuration {
    /// Configuration of a leader with these settings and controllers.
    #[must_use]
    pub fn new(settings: &Settings, controllers: Vec<ControllerState>) -> Self {
        let gates = Gate::ALL.iter().map(|gate| (gate.name().to_owned(), settings.gates.enabled(*gate)));
        Self {
            gates: gates.collect(),
            scheduler: announced::of(&settings.scheduler),
            autoscaler: announced::of(&settings.autoscaler),
            estimators: settings.estimators,
            controllers,
            ..Self::default()
        }
    }

    /// Returns the configuration with these flags of evictions, if they are decided on.
    #[must_use]
    pub fn with_evictions(self, flags: &Flags) -> Self {
        let evictions = self.runs(EVICTIONS).then(|| EvictionSettings::from(flags));
        Self { evictions, ..self }
    }

    /// True if a controller runs.
    pub(crate) fn runs(&self, name: &str) -> bool {
        self.controllers.iter().any(|one| one.name == name && one.state == Running::Running)
    }

    /// True if `--controllers` leaves some to other processes, or to none.
    #[must_use]
    pub fn leaves_out_controllers(&self) -> bool {
        self.controllers.iter().any(|one| one.state == Running::SwitchedOff)
    }

    /// Reason why no evictions are decided, if it tells that none are.
    #[must_use]
    pub fn evicts_nothing(&self) -> Option<&'static str> {
        let of_evictions = self.controllers.iter().find(|one| one.name == EVICTIONS)?;
        match of_evictions.state {
            Running::Running => None,
            Running::GateOff => Some("feature gate Failover is off"),
            Running::SwitchedOff => Some("controller taint-manager is off in --controllers"),
            Running::NotBuilt | Running::Unknown => Some("controller taint-manager does not run"),
        }
    }

    /// Settings that decisions read. Gates that this version does not know are left out; those that the leader does not
    /// tell have their default.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let mut gates = Gates::default();
        for gate in Gate::ALL {
            if let Some(on) = self.gates.get(gate.name()) {
                gates = gates.with(*gate, *on);
            }
        }
        let settings = Settings::new(gates, &self.scheduler).with_autoscaler(&self.autoscaler);
        settings.with_estimators(self.estimators)
    }
}

/// Answer of the account of a cluster, or of an estimator over gRPC, about a binding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EstimatorAnswer {
    /// The member.
    pub cluster: String,
    /// `Nodes`: the leader watches nodes and pods of the member itself. `Server`: an estimator over gRPC.
    pub source: String,
    /// Replicas or component sets that fit; absent for no opinion and without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fits: Option<i64>,
    /// The account behind an answer by nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Milliseconds since the answer; absent if it was never asked about the binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// Reason why there is no answer; others decide then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl fmt::Display for EstimatorAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, source, .. } = self;
        match source.as_str() {
            "Nodes" => write!(f, "{cluster}, by its nodes: ")?,
            _ => write!(f, "{cluster}, by its estimator server: ")?,
        }
        match (&self.error, self.fits, self.age_ms) {
            (Some(error), ..) if source == "Nodes" => write!(f, "no answer, its summary decides: {error}")?,
            (Some(error), ..) => write!(f, "no answer, others decide: {error}")?,
            (None, Some(fits), _) => {
                write!(f, "{fits} more")?;
                if let Some(account) = &self.account {
                    write!(f, " ({account})")?;
                }
            }
            (None, None, Some(_)) => f.write_str("no opinion")?,
            (None, None, None) => f.write_str("not asked about this binding yet")?,
        }
        match self.age_ms {
            Some(age) if age >= 1_000 => write!(f, ", {} s ago", age / 1_000),
            _ => Ok(()),
        }
    }
}

/// A binding that waits for the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuedBinding {
    /// The binding; without a namespace it is a ClusterResourceBinding.
    pub binding: BindingKey,
    /// Position in the queue, from 1.
    pub position: usize,
    /// `spec.schedulePriority.priority`: a higher one is scheduled first.
    pub priority: i32,
    /// `Change` of a user, or `Replay` after a start or a change of the fleet, which comes later within a priority.
    pub cause: String,
    /// `Scheduling`, `Active`, `Backoff` after an error, or `Unschedulable` for lack of capacity or of a cluster that
    /// fits.
    pub state: String,
    /// Milliseconds until it is tried again even without an event, while it is in `Backoff` or `Unschedulable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// Attempts in a row that failed.
    pub attempts: u32,
    /// Message of the last scheduling attempt, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[cfg(test)]
mod tests {
    use ironclad_hpa::ratio::Tolerance;
    use ironclad_scheduling::{Plugins, preempt::Mode};
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_of_estimators_are_told_with_their_age() {
        let of = |source: &str, fits, age_ms, error: Option<&str>| EstimatorAnswer {
            cluster: "m1".into(),
            source: source.into(),
            fits,
            account: None,
            age_ms,
            error: error.map(str::to_owned),
        };
        let account = Some("3 of 10 cpu free on n1; 2 promised to default/web, not started".to_owned());
        for (answer, want) in [
            (
                EstimatorAnswer { account, ..of("Nodes", Some(1), Some(0), None) },
                "m1, by its nodes: 1 more (3 of 10 cpu free on n1; 2 promised to default/web, not started)",
            ),
            (of("Nodes", Some(7), Some(0), None), "m1, by its nodes: 7 more"),
            (of("Server", Some(0), Some(4_900), None), "m1, by its estimator server: 0 more, 4 s ago"),
            (of("Server", None, Some(1_000), None), "m1, by its estimator server: no opinion, 1 s ago"),
            (of("Server", None, None, None), "m1, by its estimator server: not asked about this binding yet"),
            (
                of("Server", None, Some(2_000), Some("it did not answer in time")),
                "m1, by its estimator server: no answer, others decide: it did not answer in time, 2 s ago",
            ),
        ] {
            assert_eq!(answer.to_string(), want);
            let wire = serde_json::to_value(&answer).unwrap();
            assert_eq!(serde_json::from_value::<EstimatorAnswer>(wire).unwrap(), answer);
        }
    }

    #[test]
    fn settings_of_a_leader_are_those_that_it_tells() {
        let (gates, _) = Gates::parse("WorkloadAffinity=true,PriorityBasedPreemptiveScheduling=true").unwrap();
        let plugins = Plugins::parse(["*", "-TaintToleration"]).unwrap();
        let flags = Options {
            scheduler_name: "mine".to_owned(),
            clear_unfit_result_after: SignedDuration::from_secs(7),
            preemption_mode: Mode::Observe,
            preemption_max_victims: 3,
            preemption_max_evictions_per_minute: 5,
            plugins,
            ..Options::default()
        };
        let autoscaler = AutoscalerOptions {
            sync_period: SignedDuration::from_millis(1_500),
            tolerance: Tolerance::parse("0.05").unwrap(),
            downscale_stabilization: SignedDuration::from_secs(60),
            cpu_initialization_period: SignedDuration::ZERO,
            initial_readiness_delay: SignedDuration::from_secs(5),
            ..AutoscalerOptions::default()
        };
        let settings = Settings::new(gates, &flags).with_autoscaler(&autoscaler).with_estimators(true);
        assert!(settings.scheduler.workload_affinity && settings.detector().workload_affinity);
        let mut failover = Flags::default();
        failover.eviction.resource_eviction_rate = 7.0;
        let announced = |state| {
            let controller = ControllerState { name: EVICTIONS.to_owned(), state, gate: None, acts_on: Vec::new() };
            let configuration = Configuration::new(&settings, vec![controller]).with_evictions(&failover);
            serde_json::from_value::<Configuration>(json!(configuration)).unwrap()
        };
        let read = announced(Running::Running);
        assert_eq!(read.settings(), settings);
        assert_eq!(read.evictions.as_ref().unwrap().flags(), failover);
        assert_eq!(read.evicts_nothing(), None);
        let off = announced(Running::GateOff);
        assert_eq!((off.evictions.is_none(), off.evicts_nothing()), (true, Some("feature gate Failover is off")));
        let switched_off = announced(Running::SwitchedOff).evicts_nothing();
        assert_eq!(switched_off, Some("controller taint-manager is off in --controllers"));
        assert_eq!(Configuration::default().evicts_nothing(), None, "an older leader, which tells no controllers");
    }

    #[test]
    fn newer_and_older_leaders_are_understood() {
        let read = |text: serde_json::Value| serde_json::from_value::<Configuration>(text).unwrap();
        assert_eq!(read(json!({})).settings(), Settings::default(), "a leader that tells nothing");
        let newer = read(json!({
            "gates": {"Unheard": true, "WorkloadAffinity": true}, "unheard": 1,
            "scheduler": {"plugins": ["ClusterAffinity", "Unheard"], "preemptionMode": "Off"},
            "controllers": [{"name": "x", "state": "Dreaming", "actsOn": ["Unheard", "Works"]}],
        }));
        assert!(newer.settings().scheduler.workload_affinity);
        assert_eq!(newer.scheduler.preemption_mode, Mode::Off, "as earlier leaders tell it");
        assert_eq!(newer.controllers[0].state, Running::Unknown);
        assert_eq!(newer.controllers[0].acts_on, [ActsOn::Unknown, ActsOn::Works]);
        let plugins: Vec<&str> = newer.settings().scheduler.plugins.enabled().map(|plugin| plugin.name).collect();
        assert_eq!(plugins, ["ClusterAffinity"]);
    }
}
