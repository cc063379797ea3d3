//! The controllers, one row each: their names in `--controllers`, their defaults, gates and constructors.

use std::sync::Arc;

use ironclad_fleet::gates::Gate;
use ironclad_planning::leader::{ActsOn, ControllerState, Running};

use crate::{
    agent_csr_approving, agent_rights, application_failover, binding, binding_status, cluster, cluster_status,
    controller::Controller,
    cron_federated_hpa, dependencies, deployment_replicas_syncer, descheduler, detector, distributed_hpa, execution,
    federated_hpa, graceful_eviction, hpa_scale_target_marker, namespace, policy, quota, rebalance, remedy, scheduler,
    services,
    settings::{ControllerList, DESCHEDULER, Settings},
    setup::Setup,
    taint_manager, taint_policy, unified_auth, without_effect, without_node, work_status,
};

/// Effect of `--controllers` on a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Switch {
    /// It runs if the list contains it, as `*` does.
    Listed,
    /// It runs if the list names it; `*` does not contain it.
    Named,
    /// The list may name it, and it runs whatever the list says.
    Always,
    /// Karmada's list does not know it: it runs unless the list excludes it, or, without `*`, names others of these.
    Own,
}

/// Code behind a name of `--controllers`.
#[derive(Clone, Copy)]
enum Code {
    /// It is constructed by this function.
    Built(Constructor),
    /// A part of `federatedResourceQuotaSync`, which upstream has a name for.
    PartOfQuota,
}

/// The processes in which a controller has work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunsIn {
    ControlPlane,
    /// The control plane, for the members that it connects to, and the agent of a member in pull mode, for that one.
    ControlPlaneAndAgent,
}

/// Name of the taint manager.
const TAINT_MANAGER: &str = "taint-manager";

/// Everything about one controller. [`row`], [`not_built`] and [`part_of_quota`] make it; the methods set the rest.
#[derive(Clone, Copy)]
struct Row {
    name: &'static str,
    about: &'static str,
    code: Code,
    switch: Switch,
    runs_in: RunsIn,
    /// The feature gate without which it does not run.
    gate: Option<Gate>,
    /// Objects that nothing happens to without it, for `doctor`.
    acts_on: Option<ActsOn>,
}

type Constructor = fn(&Setup) -> Arc<dyn Controller>;

const fn row(name: &'static str, new: Constructor, about: &'static str) -> Row {
    listed(name, Code::Built(new), about)
}

const fn listed(name: &'static str, code: Code, about: &'static str) -> Row {
    let (switch, runs_in) = (Switch::Listed, RunsIn::ControlPlane);
    Row { name, about, code, switch, runs_in, gate: None, acts_on: None }
}

const fn part_of_quota(name: &'static str) -> Row {
    listed(name, Code::PartOfQuota, "Part of `federatedResourceQuotaSync`")
}

impl Row {
    const fn switch(self, switch: Switch) -> Self {
        Self { switch, ..self }
    }

    const fn gate(self, gate: Gate) -> Self {
        Self { gate: Some(gate), ..self }
    }

    const fn acts_on(self, acts_on: ActsOn) -> Self {
        Self { acts_on: Some(acts_on), ..self }
    }

    const fn also_in_agents(self) -> Self {
        Self { runs_in: RunsIn::ControlPlaneAndAgent, ..self }
    }

    /// Its state with these settings; `None` if it is a part of another.
    fn state(&self, settings: &Settings) -> Option<Running> {
        let has_work = settings.agent_of.is_none() || self.runs_in == RunsIn::ControlPlaneAndAgent;
        let is_listed = self.switch == Switch::Always || settings.controllers.enabled(self.name);
        match self.code {
            Code::PartOfQuota => None,
            Code::Built(_) if !has_work || !is_listed => Some(Running::SwitchedOff),
            Code::Built(_) if self.gate.is_some_and(|gate| !settings.gates.enabled(gate)) => Some(Running::GateOff),
            Code::Built(_) => Some(Running::Running),
        }
    }

    fn runs(&self, settings: &Settings) -> bool {
        self.state(settings) == Some(Running::Running)
    }
}

/// All controllers, in the order in which they are constructed and started; those that upstream has besides come last.
static CONTROLLERS: &[Row] = &[
    row("cluster", cluster::new, "Connects members, keeps execution namespaces and taints by condition; runs always")
        .switch(Switch::Always)
        .acts_on(ActsOn::Clusters),
    row("policy", policy::new, "Finalizers and ids of policies, release of what a deleted policy claimed")
        .switch(Switch::Own)
        .acts_on(ActsOn::Policies),
    row("detector", detector::new, "Claims templates for policies and makes bindings")
        .switch(Switch::Own)
        .acts_on(ActsOn::Policies),
    row("scheduler", scheduler::new, "Chooses clusters and replicas").switch(Switch::Own).acts_on(ActsOn::Bindings),
    row(DESCHEDULER, descheduler::new, "Takes replicas back that members found no node for").switch(Switch::Named),
    row("binding", binding::new, "Makes Works of bindings, with overrides").acts_on(ActsOn::Bindings),
    row("workStatus", work_status::new, "Collects the status of objects in members")
        .also_in_agents()
        .acts_on(ActsOn::Works),
    row("clusterStatus", cluster_status::new, "Health, APIs and capacity of members")
        .also_in_agents()
        .acts_on(ActsOn::Clusters),
    row("execution", execution::new, "Applies Works in members").also_in_agents().acts_on(ActsOn::Works),
    row("bindingStatus", binding_status::new, "Aggregates status into bindings and templates")
        .acts_on(ActsOn::Bindings),
    row("namespace", namespace::new, "Copies namespaces to members").acts_on(ActsOn::Clusters),
    row("dependencies", dependencies::new, "Propagates what a workload refers to")
        .switch(Switch::Own)
        .gate(Gate::PropagateDeps)
        .acts_on(ActsOn::Dependencies),
    row("workloadRebalancer", rebalance::new, "Reschedules the workloads that a WorkloadRebalancer names")
        .acts_on(ActsOn::WorkloadRebalancers),
    row(
        "cronFederatedHorizontalPodAutoscaler",
        cron_federated_hpa::new,
        "Scales workloads and FederatedHPAs by the clock",
    )
    .acts_on(ActsOn::CronFederatedHpas),
    row(
        "federatedHorizontalPodAutoscaler",
        federated_hpa::new,
        "Scales workloads by the metrics of all their clusters",
    )
    .acts_on(ActsOn::FederatedHpas),
    row(
        "hpaScaleTargetMarker",
        hpa_scale_target_marker::new,
        "Has members keep the replicas of workloads that propagated HorizontalPodAutoscalers scale",
    )
    .switch(Switch::Named),
    row(
        "deploymentReplicasSyncer",
        deployment_replicas_syncer::new,
        "Copies replicas that members decide to the templates of Deployments",
    )
    .switch(Switch::Named),
    row(
        distributed_hpa::NAME,
        distributed_hpa::new,
        "Runs HorizontalPodAutoscalers labelled `federatedhpa.karmada.io/enabled=true` in members",
    ),
    row("unifiedAuth", unified_auth::new, "Impersonation rights of users in members").acts_on(ActsOn::Clusters),
    row("federatedResourceQuotaSync", quota::new, "ResourceQuotas in members, usage of FederatedResourceQuotas")
        .acts_on(ActsOn::FederatedResourceQuotas),
    row("clustertaintpolicy", taint_policy::new, "Taints of ClusterTaintPolicies")
        .gate(Gate::Failover)
        .acts_on(ActsOn::TaintPolicies),
    row("gracefulEviction", graceful_eviction::new, "Ends eviction tasks").acts_on(ActsOn::EvictionTasks),
    row("applicationFailover", application_failover::new, "Evicts workloads that stay unhealthy")
        .acts_on(ActsOn::ApplicationFailover),
    row(TAINT_MANAGER, taint_manager::new, "Evicts from clusters with NoExecute taints")
        .gate(Gate::Failover)
        .acts_on(ActsOn::EvictingTaints),
    row(without_node::NAME, without_node::new, "Tells of pods of preemptors that members found no node for")
        .switch(Switch::Own),
    row(
        "agentcsrapproving",
        agent_csr_approving::new,
        "Approves certificates of agents, unless they would take the name of a cluster that has an agent",
    ),
    row("agentRights", agent_rights::new, "Roles, bindings and namespaces of agents").switch(Switch::Own),
    row("withoutEffect", without_effect::new, "Events on objects and fields on which nothing acts").switch(Switch::Own),
    row("multiclusterservice", services::claim::new, "Services of MultiClusterServices in their clusters")
        .gate(Gate::MultiClusterService)
        .acts_on(ActsOn::MultiClusterServices),
    row(
        "endpointsliceCollect",
        services::collect::for_services,
        "Collects EndpointSlices of members for MultiClusterServices",
    )
    .also_in_agents(),
    row("endpointsliceDispatch", services::dispatch::new, "EndpointSlices of MultiClusterServices in their consumers")
        .gate(Gate::MultiClusterService),
    row("serviceExport", services::export::new, "Collects EndpointSlices of members for ServiceExports")
        .also_in_agents()
        .acts_on(ActsOn::ServiceExports),
    row("endpointSlice", services::imported::new, "EndpointSlices of ServiceExports in the control plane"),
    row("serviceImport", services::import::new, "Services of ServiceImports").acts_on(ActsOn::ServiceImports),
    row(
        "mciStatus",
        services::ingress::new,
        "Clusters of the backends of MultiClusterIngresses, for controllers that program load balancers or DNS",
    )
    .switch(Switch::Named),
    row("remedy", remedy::new, "Actions that Remedies ask of clusters").acts_on(ActsOn::Remedies),
    part_of_quota("federatedResourceQuotaEnforcement"),
    part_of_quota("federatedResourceQuotaStatus"),
];

/// Every name that `--controllers` may contain, in alphabetical order (specification/operations.md 8.1).
#[must_use]
pub fn controller_names() -> Vec<&'static str> {
    let mut names: Vec<_> = CONTROLLERS.iter().map(|row| row.name).collect();
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
    /// The processes in which it has work.
    pub runs_in: RunsIn,
    /// The feature gate without which it does not run.
    pub gate: Option<Gate>,
    /// Its task.
    pub about: &'static str,
}

/// Every name that `--controllers` may contain, with its description; those that do something come first.
#[must_use]
pub fn controller_rows() -> Vec<ControllerRow> {
    let described = |&Row { name, about, switch, runs_in, gate, .. }: &Row| ControllerRow {
        name,
        on_by_default: switch != Switch::Named,
        runs_in,
        gate,
        about,
    };
    CONTROLLERS.iter().map(described).collect()
}

/// The controllers that Karmada's list does not know.
fn own_names() -> impl Iterator<Item = &'static str> {
    CONTROLLERS.iter().filter(|row| row.switch == Switch::Own).map(|row| row.name)
}

/// Constructs the controllers that run with these settings.
pub(crate) fn construct(setup: &Setup) -> Vec<(&'static str, Arc<dyn Controller>)> {
    let running = CONTROLLERS.iter().filter(|row| row.runs(&setup.settings));
    let construct = |row: &Row| match row.code {
        Code::Built(new) => Some((row.name, new(setup))),
        Code::PartOfQuota => None,
    };
    running.filter_map(construct).collect()
}

/// True if the taint manager runs with these settings.
pub(crate) fn evicts(settings: &Settings) -> bool {
    CONTROLLERS.iter().any(|row| row.name == TAINT_MANAGER && row.runs(settings))
}

/// State of every controller with these settings.
pub(crate) fn states(settings: &Settings) -> Vec<ControllerState> {
    let state = |row: &Row| {
        Some(ControllerState {
            name: row.name.to_owned(),
            state: row.state(settings)?,
            gate: row.gate.map(|gate| gate.name().to_owned()),
            acts_on: row.acts_on.into_iter().collect(),
        })
    };
    CONTROLLERS.iter().filter_map(state).collect()
}

impl Default for ControllerList {
    fn default() -> Self {
        Self::of(CONTROLLERS.iter().filter(|row| row.switch != Switch::Named).map(|row| row.name))
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
        Self { enabled: names.into_iter().collect() }
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
            } else {
                list.enabled.remove(name);
            }
        }
        Ok(list)
    }

    /// Warnings about items of the list that have no effect, for people.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
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
    use std::collections::BTreeSet;

    use ironclad_api::cluster::Cluster;
    use ironclad_members::Connections;
    use ironclad_runtime::Scope;
    use ironclad_seam::Seam;
    use k8s_openapi::api::core::v1::Secret;
    use kube::Client;

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

    /// Plurals of the kinds of the control plane that a process with these settings watches.
    fn watched(settings: Settings) -> BTreeSet<&'static str> {
        struct NoMembers;
        impl ironclad_members::Connector for NoMembers {
            fn connect(&self, _: &Cluster, _: Option<&Secret>) -> Result<Client, String> {
                Err("there are none".to_owned())
            }
        }
        let silent = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, std::convert::Infallible>>()
        });
        let plane = Client::new(silent, "default");
        let connections = Connections::new(Arc::new(NoMembers), Scope::All);
        let setup = Setup::new(plane, Seam::system("test"), connections, Arc::new(crate::NetworkBackends), settings);
        drop(construct(&setup));
        setup.caches.names()
    }

    #[tokio::test]
    async fn a_process_watches_what_its_controllers_read() {
        let agent = watched(Settings { agent_of: Some("m1".into()), ..Settings::default() });
        let of_interpreters = ["resourceinterpretercustomizations", "resourceinterpreterwebhookconfigurations"];
        let want: BTreeSet<_> = ["clusters", "works"].into_iter().chain(of_interpreters).collect();
        assert_eq!(agent, want, "an agent");
        let plane = watched(Settings::default());
        assert!(plane.is_superset(&want) && plane.contains("propagationpolicies"), "{plane:?}");
        let controllers =
            ControllerList::parse("namespace,-scheduler,-detector,-policy,-dependencies,-withoutEffect").unwrap();
        let few = watched(Settings { controllers, ..Settings::default() });
        assert!(few.contains("namespaces") && !few.contains("propagationpolicies"), "{few:?}");
    }

    #[test]
    fn states_say_why_a_controller_does_not_run() {
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
            ("serviceExport", Some((Running::Running, None))),
            ("multiclusterservice", Some((Running::GateOff, Some("MultiClusterService")))),
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
            CONTROLLERS.iter().filter(|row| row.runs(&settings)).map(|row| row.name).collect()
        };
        let every = |rest: &str| format!("*,deploymentReplicasSyncer,descheduler,hpaScaleTargetMarker,mciStatus{rest}");
        let all = running(&every(""), "Failover=true,PropagateDeps=true,MultiClusterService=true");
        assert_eq!(all.len(), CONTROLLERS.iter().filter(|row| matches!(row.code, Code::Built(_))).count());
        assert!(!running("*", "").contains(&DESCHEDULER), "it is off by default");
        assert_eq!(
            running("", "Failover=true,PropagateDeps=false"),
            ["cluster", "policy", "detector", "scheduler", "withoutNode", "agentRights", "withoutEffect"]
        );
        let without = |controllers: &str, gates: &str| -> Vec<&str> {
            let running = running(controllers, gates);
            all.iter().filter(|name| !running.contains(name)).copied().collect()
        };
        let gated = ["multiclusterservice", "endpointsliceDispatch"];
        let off = "Failover=false,PropagateDeps=true,MultiClusterService=true";
        assert_eq!(without(&every(""), off), ["clustertaintpolicy", "taint-manager"]);
        assert_eq!(without(&every(""), "Failover=true,PropagateDeps=true"), gated);
        let on = "Failover=true,PropagateDeps=true,MultiClusterService=true";
        assert_eq!(without(&every(",-namespace,-cluster"), on), ["namespace"]);
        assert_eq!(running("scheduler", "PropagateDeps=true"), ["cluster", "scheduler"]);
        assert_eq!(
            without(&every(",-detector,-scheduler,-policy,-dependencies"), on),
            ["policy", "detector", "scheduler", "dependencies"]
        );
    }
}
