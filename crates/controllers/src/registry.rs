//! The controllers, one row each: their names in `--controllers`, their defaults, gates and constructors.

use std::{collections::BTreeSet, sync::Arc};

use ironclad_fleet::gates::Gate;
use ironclad_planning::leader::{ActsOn, ControllerState, Running};

use crate::{
    application_failover, binding, binding_status, cluster, cluster_status,
    controller::Controller,
    cron_federated_hpa, dependencies, deployment_replicas_syncer, descheduler, detector, distributed_hpa, execution,
    federated_hpa, graceful_eviction, hpa_scale_target_marker, namespace, policy, quota, rebalance, scheduler,
    settings::{ControllerList, DESCHEDULER, Settings},
    setup::Setup,
    taint_manager, taint_policy, unified_auth, without_effect, without_node, work_status,
};

/// Effect of `--controllers` on a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Switch {
    /// It runs if the list contains it, as `*` does.
    Listed,
    /// The list may name it, and it runs whatever the list says.
    Always,
    /// Karmada's list does not know it: it runs unless the list excludes it, or, without `*`, names others of these.
    Own,
}

/// Name of the taint manager.
const TAINT_MANAGER: &str = "taint-manager";

/// One controller.
struct Row {
    name: &'static str,
    switch: Switch,
    /// The feature gate without which it does not run.
    gate: Option<Gate>,
    new: Constructor,
    about: &'static str,
}

type Constructor = fn(&Setup) -> Arc<dyn Controller>;

const fn row(name: &'static str, switch: Switch, gate: Option<Gate>, new: Constructor, about: &'static str) -> Row {
    Row { name, switch, gate, new, about }
}

/// All controllers, in the order in which they are constructed and started.
static CONTROLLERS: [Row; 26] = [
    row(
        "cluster",
        Switch::Always,
        None,
        cluster::new,
        "Connects members, keeps execution namespaces and taints by condition; runs always",
    ),
    row(
        "policy",
        Switch::Own,
        None,
        policy::new,
        "Finalizers and ids of policies, release of what a deleted policy claimed",
    ),
    row("detector", Switch::Own, None, detector::new, "Claims templates for policies and makes bindings"),
    row("scheduler", Switch::Own, None, scheduler::new, "Chooses clusters and replicas"),
    row(DESCHEDULER, Switch::Listed, None, descheduler::new, "Takes replicas back that members found no node for"),
    row("binding", Switch::Listed, None, binding::new, "Makes Works of bindings, with overrides"),
    row("workStatus", Switch::Listed, None, work_status::new, "Collects the status of objects in members"),
    row("clusterStatus", Switch::Listed, None, cluster_status::new, "Health, APIs and capacity of members"),
    row("execution", Switch::Listed, None, execution::new, "Applies Works in members"),
    row("bindingStatus", Switch::Listed, None, binding_status::new, "Aggregates status into bindings and templates"),
    row("namespace", Switch::Listed, None, namespace::new, "Copies namespaces to members"),
    row(
        "dependencies",
        Switch::Own,
        Some(Gate::PropagateDeps),
        dependencies::new,
        "Propagates what a workload refers to",
    ),
    row(
        "workloadRebalancer",
        Switch::Listed,
        None,
        rebalance::new,
        "Reschedules the workloads that a WorkloadRebalancer names",
    ),
    row(
        "cronFederatedHorizontalPodAutoscaler",
        Switch::Listed,
        None,
        cron_federated_hpa::new,
        "Scales workloads and FederatedHPAs by the clock",
    ),
    row(
        "federatedHorizontalPodAutoscaler",
        Switch::Listed,
        None,
        federated_hpa::new,
        "Scales workloads by the metrics of all their clusters",
    ),
    row(
        "hpaScaleTargetMarker",
        Switch::Listed,
        None,
        hpa_scale_target_marker::new,
        "Has members keep the replicas of workloads that propagated HorizontalPodAutoscalers scale",
    ),
    row(
        "deploymentReplicasSyncer",
        Switch::Listed,
        None,
        deployment_replicas_syncer::new,
        "Copies replicas that members decide to the templates of Deployments",
    ),
    row(
        distributed_hpa::NAME,
        Switch::Listed,
        None,
        distributed_hpa::new,
        "Runs HorizontalPodAutoscalers labelled `federatedhpa.karmada.io/enabled=true` in members",
    ),
    row("unifiedAuth", Switch::Listed, None, unified_auth::new, "Impersonation rights of users in members"),
    row(
        "federatedResourceQuotaSync",
        Switch::Listed,
        None,
        quota::new,
        "ResourceQuotas in members, usage of FederatedResourceQuotas",
    ),
    row(
        "clustertaintpolicy",
        Switch::Listed,
        Some(Gate::Failover),
        taint_policy::new,
        "Taints of ClusterTaintPolicies",
    ),
    row("gracefulEviction", Switch::Listed, None, graceful_eviction::new, "Ends eviction tasks"),
    row("applicationFailover", Switch::Listed, None, application_failover::new, "Evicts workloads that stay unhealthy"),
    row(
        TAINT_MANAGER,
        Switch::Listed,
        Some(Gate::Failover),
        taint_manager::new,
        "Evicts from clusters with NoExecute taints",
    ),
    row(
        without_node::NAME,
        Switch::Own,
        None,
        without_node::new,
        "Tells of pods of preemptors that members found no node for",
    ),
    row("withoutEffect", Switch::Own, None, without_effect::new, "Events on objects and fields on which nothing acts"),
];

/// Meaning of a name that no controller of this build has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accepted {
    /// The controller does not exist yet.
    NotBuilt,
    /// A part of `federatedResourceQuotaSync`.
    PartOfQuota,
}

impl Accepted {
    fn about(self) -> &'static str {
        match self {
            Self::NotBuilt => "Not built yet; accepted without effect",
            Self::PartOfQuota => "Part of `federatedResourceQuotaSync`",
        }
    }
}

/// Names that `--controllers` accepts because upstream has them, with their meaning.
const ACCEPTED: [(&str, Accepted); 10] = [
    ("agentcsrapproving", Accepted::NotBuilt),
    ("endpointSlice", Accepted::NotBuilt),
    ("endpointsliceCollect", Accepted::NotBuilt),
    ("endpointsliceDispatch", Accepted::NotBuilt),
    ("federatedResourceQuotaEnforcement", Accepted::PartOfQuota),
    ("federatedResourceQuotaStatus", Accepted::PartOfQuota),
    ("multiclusterservice", Accepted::NotBuilt),
    ("remedy", Accepted::NotBuilt),
    ("serviceExport", Accepted::NotBuilt),
    ("serviceImport", Accepted::NotBuilt),
];

/// Names that `*` does not contain.
const OFF_BY_DEFAULT: [&str; 3] = ["deploymentReplicasSyncer", DESCHEDULER, "hpaScaleTargetMarker"];

/// Objects that nothing happens to without the controller of this name, for `doctor`.
const ACTS_ON: [(&str, ActsOn); 24] = [
    ("cluster", ActsOn::Clusters),
    ("policy", ActsOn::Policies),
    ("detector", ActsOn::Policies),
    ("scheduler", ActsOn::Bindings),
    ("binding", ActsOn::Bindings),
    ("workStatus", ActsOn::Works),
    ("clusterStatus", ActsOn::Clusters),
    ("execution", ActsOn::Works),
    ("bindingStatus", ActsOn::Bindings),
    ("namespace", ActsOn::Clusters),
    ("dependencies", ActsOn::Dependencies),
    ("workloadRebalancer", ActsOn::WorkloadRebalancers),
    ("cronFederatedHorizontalPodAutoscaler", ActsOn::CronFederatedHpas),
    ("federatedResourceQuotaSync", ActsOn::FederatedResourceQuotas),
    ("clustertaintpolicy", ActsOn::TaintPolicies),
    ("gracefulEviction", ActsOn::EvictionTasks),
    ("applicationFailover", ActsOn::ApplicationFailover),
    (TAINT_MANAGER, ActsOn::EvictingTaints),
    ("federatedHorizontalPodAutoscaler", ActsOn::FederatedHpas),
    ("multiclusterservice", ActsOn::MultiClusterServices),
    ("remedy", ActsOn::Remedies),
    ("serviceExport", ActsOn::ServiceExports),
    ("serviceImport", ActsOn::ServiceImports),
    ("unifiedAuth", ActsOn::Clusters),
];

/// Every name that `--controllers` may contain, in alphabetical order (specification/operations.md 8.1).
#[must_use]
pub fn controller_names() -> Vec<&'static str> {
    let mut names: Vec<_> = CONTROLLERS.iter().map(|row| row.name).chain(ACCEPTED.map(|(name, _)| name)).collect();
    names.sort_unstable();
    names
}

/// A controller as the documentation describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerRow {
    /// Its name in `--controllers`.
    pub name: &'static str,
    /// True if `*` contains it.
    pub on_by_default: bool,
    /// The feature gate without which it does not run.
    pub gate: Option<Gate>,
    /// Its task.
    pub about: &'static str,
}

/// Every name that `--controllers` may contain, with its description; those that do something come first.
#[must_use]
pub fn controller_rows() -> Vec<ControllerRow> {
    let running = CONTROLLERS.iter().map(|row| (row.name, row.gate, row.about));
    let all = running.chain(ACCEPTED.map(|(name, meaning)| (name, None, meaning.about())));
    let on_by_default = |name| !OFF_BY_DEFAULT.contains(&name);
    all.map(|(name, gate, about)| ControllerRow { name, on_by_default: on_by_default(name), gate, about }).collect()
}

/// The controllers that Karmada's list does not know.
fn own_names() -> impl Iterator<Item = &'static str> {
    CONTROLLERS.iter().filter(|row| row.switch == Switch::Own).map(|row| row.name)
}

/// Constructs the controllers that run with these settings.
pub(crate) fn construct(setup: &Setup) -> Vec<(&'static str, Arc<dyn Controller>)> {
    let running = CONTROLLERS.iter().filter(|row| runs(row, &setup.settings));
    running.map(|row| (row.name, (row.new)(setup))).collect()
}

/// True if the taint manager runs with these settings.
pub(crate) fn evicts(settings: &Settings) -> bool {
    CONTROLLERS.iter().any(|row| row.name == TAINT_MANAGER && runs(row, settings))
}

/// State of every controller with these settings, and of those that this version does not have.
pub(crate) fn states(settings: &Settings) -> Vec<ControllerState> {
    let state = |name: &str, state, gate: Option<Gate>| ControllerState {
        name: name.to_owned(),
        state,
        gate: gate.map(|gate| gate.name().to_owned()),
        acts_on: ACTS_ON.iter().filter(|(of, _)| *of == name).map(|(_, acts_on)| *acts_on).collect(),
    };
    let built = CONTROLLERS.iter().map(|row| {
        let is_listed = row.switch == Switch::Always || settings.controllers.enabled(row.name);
        let running = match (runs(row, settings), is_listed) {
            (true, _) => Running::Running,
            (false, true) => Running::GateOff,
            (false, false) => Running::SwitchedOff,
        };
        state(row.name, running, row.gate)
    });
    let not_built = ACCEPTED.iter().filter(|(_, meaning)| *meaning == Accepted::NotBuilt);
    built.chain(not_built.map(|(name, _)| state(name, Running::NotBuilt, None))).collect()
}

fn runs(row: &Row, settings: &Settings) -> bool {
    let listed = row.switch == Switch::Always || settings.controllers.enabled(row.name);
    listed && row.gate.is_none_or(|gate| settings.gates.enabled(gate))
}

impl Default for ControllerList {
    fn default() -> Self {
        Self::of(controller_names().into_iter().filter(|name| !OFF_BY_DEFAULT.contains(name)))
    }
}

/// A name that `--controllers` does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--controllers names {name:?}, which is none\n  try: one of {}", controller_names().join(", "))]
pub struct UnknownController {
    /// The name as given.
    pub name: String,
}

impl ControllerList {
    fn of(names: impl IntoIterator<Item = &'static str>) -> Self {
        Self { enabled: names.into_iter().collect(), named: BTreeSet::new() }
    }

    /// Parses `*,-foo,bar`: `foo` enables, `-foo` disables, `*` means all that are on by default.
    ///
    /// A list without `*` means the same as in Karmada, whose detector and scheduler are in no list: they run. If it
    /// names one of these controllers, then only those that it names run, so that parts can run in processes of their
    /// own.
    ///
    /// # Errors
    /// If a name is unknown.
    pub fn parse(text: &str) -> Result<Self, UnknownController> {
        let items: Vec<&str> = text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect();
        let mut list = if items.contains(&"*") {
            Self::default()
        } else if own_names().any(|name| items.contains(&name)) {
            Self::of([])
        } else {
            Self::of(own_names())
        };
        let names = controller_names();
        for item in items.into_iter().filter(|item| *item != "*") {
            let (name, enable) = match item.strip_prefix('-') {
                Some(name) => (name, false),
                None => (item, true),
            };
            let known = names.iter().find(|known| **known == name);
            let name = known.ok_or_else(|| UnknownController { name: name.to_owned() })?;
            if enable {
                list.enabled.insert(name);
                list.named.insert(name);
            } else {
                list.enabled.remove(name);
            }
        }
        Ok(list)
    }

    /// Warnings about items of the list that have no effect, for people.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let not_built =
            ACCEPTED.iter().filter(|(name, meaning)| *meaning == Accepted::NotBuilt && self.named.contains(name));
        let mut warnings: Vec<String> = not_built
            .map(|(name, _)| format!("controller {name} has no effect: this version does not have it"))
            .collect();
        if !self.enabled("cluster") {
            warnings.push("controller cluster runs all the same: it connects the members".to_owned());
        }
        if self.enabled("policy") != self.enabled("detector") {
            warnings.push(
                "controllers policy and detector share a queue: in one process, templates of a deleted policy move on at once"
                    .to_owned(),
            );
        }
        let [sync, status] = ["federatedResourceQuotaSync", "federatedResourceQuotaStatus"];
        if self.enabled(sync) != self.enabled(status) {
            let does = if self.enabled(sync) { "runs" } else { "does not run" };
            warnings.push(format!("controller {status} {does}: it is one with {sync}"));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_controllers_are_parsed_as_upstream_parses_them() {
        let on = |text: &str, name: &str| ControllerList::parse(text).unwrap().enabled(name);
        let rows = [
            ("*", "namespace", true),
            ("*", "hpaScaleTargetMarker", false),
            ("*,hpaScaleTargetMarker", "hpaScaleTargetMarker", true),
            ("*,-namespace", "namespace", false),
            ("-namespace,*", "namespace", false),
            ("binding", "namespace", false),
            ("binding", "binding", true),
            ("", "binding", false),
            ("", "scheduler", true),
            ("binding", "detector", true),
            ("binding,-detector", "detector", false),
            ("*,-scheduler", "scheduler", false),
            ("*,-scheduler", "detector", true),
            ("scheduler", "scheduler", true),
            ("scheduler", "detector", false),
            ("scheduler", "binding", false),
            ("detector,policy,dependencies,binding", "scheduler", false),
            ("detector,policy,dependencies,binding", "binding", true),
        ];
        for (text, name, expected) in rows {
            assert_eq!(on(text, name), expected, "{text}: {name}");
        }
        for (text, want) in [
            ("*", &[][..]),
            ("*,-binding", &[]),
            ("*,remedy", &["controller remedy has no effect: this version does not have it"]),
            ("*,-cluster", &["controller cluster runs all the same: it connects the members"]),
            ("*,-federatedResourceQuotaSync,-federatedResourceQuotaStatus", &[]),
            (
                "*,-policy",
                &[
                    "controllers policy and detector share a queue: in one process, templates of a deleted policy move on at once",
                ],
            ),
            ("*,-policy,-detector", &[]),
            (
                "*,-federatedResourceQuotaSync",
                &["controller federatedResourceQuotaStatus does not run: it is one with federatedResourceQuotaSync"],
            ),
            (
                "*,-federatedResourceQuotaStatus",
                &["controller federatedResourceQuotaStatus runs: it is one with federatedResourceQuotaSync"],
            ),
        ] {
            assert_eq!(ControllerList::parse(text).unwrap().warnings(), want, "{text}");
        }
        let error = ControllerList::parse("*,-nmespace").unwrap_err().to_string();
        assert!(error.starts_with("--controllers names \"nmespace\", which is none\n  try: one of "), "{error}");
    }

    #[test]
    fn states_say_why_a_controller_does_not_run() {
        let names = controller_names();
        for (name, _) in ACTS_ON {
            assert!(names.contains(&name), "no controller is called {name}");
        }
        let settings = Settings {
            controllers: ControllerList::parse("*,-clustertaintpolicy,-namespace").unwrap(),
            gates: ironclad_fleet::gates::Gates::parse("Failover=false,PropagateDeps=true").unwrap().0,
            ..Settings::default()
        };
        let states = states(&settings);
        let of = |name: &str| states.iter().find(|one| one.name == name).map(|one| (one.state, one.gate.as_deref()));
        for (name, want) in [
            ("scheduler", Some((Running::Running, None))),
            ("dependencies", Some((Running::Running, Some("PropagateDeps")))),
            ("namespace", Some((Running::SwitchedOff, None))),
            (TAINT_MANAGER, Some((Running::GateOff, Some("Failover")))),
            ("clustertaintpolicy", Some((Running::SwitchedOff, Some("Failover")))),
            ("serviceExport", Some((Running::NotBuilt, None))),
            ("federatedResourceQuotaStatus", None),
        ] {
            assert_eq!(of(name), want, "{name}");
        }
    }

    #[test]
    fn switches_and_gates_decide_which_controllers_run() {
        let running = |controllers: &str, gates: &str| -> Vec<&str> {
            let settings = Settings {
                controllers: ControllerList::parse(controllers).unwrap(),
                gates: ironclad_fleet::gates::Gates::parse(gates).unwrap().0,
                ..Settings::default()
            };
            CONTROLLERS.iter().filter(|row| runs(row, &settings)).map(|row| row.name).collect()
        };
        let every = |rest: &str| format!("*,deploymentReplicasSyncer,descheduler,hpaScaleTargetMarker{rest}");
        let all = running(&every(""), "Failover=true,PropagateDeps=true");
        assert_eq!(all.len(), CONTROLLERS.len());
        assert!(!running("*", "").contains(&DESCHEDULER), "it is off by default");
        assert_eq!(
            running("", "Failover=true,PropagateDeps=false"),
            ["cluster", "policy", "detector", "scheduler", "withoutNode", "withoutEffect"]
        );
        let without = |controllers: &str, gates: &str| -> Vec<&str> {
            let running = running(controllers, gates);
            all.iter().filter(|name| !running.contains(name)).copied().collect()
        };
        assert_eq!(without(&every(""), "Failover=false,PropagateDeps=true"), ["clustertaintpolicy", "taint-manager"]);
        assert_eq!(without(&every(",-namespace,-cluster"), "Failover=true,PropagateDeps=true"), ["namespace"]);
        assert_eq!(running("scheduler", "PropagateDeps=true"), ["cluster", "scheduler"]);
        assert_eq!(
            without(&every(",-detector,-scheduler,-policy,-dependencies"), "Failover=true,PropagateDeps=true"),
            ["policy", "detector", "scheduler", "dependencies"]
        );
    }
}
