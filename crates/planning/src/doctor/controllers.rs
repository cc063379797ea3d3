//! Controllers that do not run in the leader's process although objects of the fleet need them.

use std::collections::BTreeMap;

use ironclad_failover::taints::is_faulty;
use ironclad_fleet::{Binding, World, count::count};

use super::{Finding, Grade};
use crate::leader::{ActsOn, ControllerState, Running};

/// Numbers of objects of kinds that no decision on placement reads, and a [`World`] does not hold.
pub type Others = BTreeMap<ActsOn, usize>;

/// Kinds that a [`World`] does not hold and whose controllers do not run: their objects have to be counted.
#[must_use]
pub fn to_count(controllers: &[ControllerState]) -> Vec<ActsOn> {
    let idle = controllers.iter().filter(|one| is_idle(one.state)).flat_map(|one| &one.acts_on);
    let mut kinds: Vec<ActsOn> = idle.copied().filter(|acts_on| kind_of(*acts_on).is_some()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// `apiVersion` and kind of objects that a [`World`] does not hold.
#[must_use]
pub fn kind_of(acts_on: ActsOn) -> Option<(&'static str, &'static str)> {
    Some(match acts_on {
        ActsOn::WorkloadRebalancers => ("apps.karmada.io/v1alpha1", "WorkloadRebalancer"),
        ActsOn::FederatedResourceQuotas => ("policy.karmada.io/v1alpha1", "FederatedResourceQuota"),
        ActsOn::CronFederatedHpas => ("autoscaling.karmada.io/v1alpha1", "CronFederatedHPA"),
        ActsOn::FederatedHpas => ("autoscaling.karmada.io/v1alpha1", "FederatedHPA"),
        ActsOn::MultiClusterServices => ("networking.karmada.io/v1alpha1", "MultiClusterService"),
        ActsOn::ServiceExports => ("multicluster.x-k8s.io/v1alpha1", "ServiceExport"),
        ActsOn::ServiceImports => ("multicluster.x-k8s.io/v1alpha1", "ServiceImport"),
        ActsOn::Remedies => ("remedy.karmada.io/v1alpha1", "Remedy"),
        _ => return None,
    })
}

fn is_idle(state: Running) -> bool {
    matches!(state, Running::SwitchedOff | Running::GateOff | Running::NotBuilt)
}

/// Findings about the controllers that the leader tells of; `others` has the numbers that [`to_count`] asks for.
#[must_use]
pub fn findings(controllers: &[ControllerState], world: &World, others: &Others) -> Vec<Finding> {
    let mut found = Vec::new();
    for controller in controllers.iter().filter(|one| is_idle(one.state)) {
        for acts_on in &controller.acts_on {
            let Some(needing) = needing(*acts_on, world, others) else { continue };
            found.push(finding(controller, &needing));
        }
    }
    let (running, off): (Vec<_>, Vec<_>) =
        controllers.iter().filter(|one| one.state != Running::NotBuilt).partition(|one| one.state == Running::Running);
    if !controllers.is_empty() {
        let names: Vec<&str> = off.iter().map(|one| one.name.as_str()).collect();
        let off = if names.is_empty() { String::new() } else { format!("; off: {}", names.join(", ")) };
        let runs = if running.len() == 1 { "runs" } else { "run" };
        found.push(Finding::new(Grade::Fine, format!("{} {runs}{off}", count(running.len(), "controller"))));
    }
    found
}

fn finding(controller: &ControllerState, needing: &str) -> Finding {
    let name = &controller.name;
    let (why, remedy) = match (controller.state, &controller.gate) {
        (Running::NotBuilt, _) => ("this version does not have it".to_owned(), None),
        (Running::GateOff, Some(gate)) => (
            format!("feature gate {gate} is off"),
            Some(format!("--feature-gates={gate}=true, where the leader starts")),
        ),
        _ => (
            "--controllers leaves it out".to_owned(),
            Some(format!("--controllers='*,{name}', where the leader starts; or let another process run it")),
        ),
    };
    let found = Finding::new(
        Grade::Warning,
        format!("controller {name} does not run, and nothing else acts on {needing}: {why}"),
    );
    match remedy {
        Some(remedy) => found.remedy(remedy),
        None => found,
    }
}

/// The objects that need it, with their number; `None` if there are none.
fn needing(acts_on: ActsOn, world: &World, others: &Others) -> Option<String> {
    let bindings = |wanted: fn(&Binding) -> bool| world.all_bindings().filter(wanted).count();
    let (number, what) = match acts_on {
        ActsOn::Clusters => (world.clusters.len(), "cluster"),
        ActsOn::Policies => (world.policies.len() + world.cluster_policies.len(), "policy"),
        ActsOn::Bindings => (bindings(|_| true), "binding"),
        ActsOn::Dependencies => (bindings(|one| one.spec().propagate_deps), "binding with spec.propagateDeps"),
        ActsOn::ApplicationFailover => (
            bindings(|one| one.spec().failover.as_ref().is_some_and(|failover| failover.application.is_some())),
            "binding with spec.failover.application",
        ),
        ActsOn::EvictionTasks => {
            (bindings(|one| !one.spec().graceful_eviction_tasks.is_empty()), "binding with eviction tasks")
        }
        ActsOn::Works => (world.works.len(), "Work"),
        ActsOn::TaintPolicies => (world.taint_policies.len(), "ClusterTaintPolicy"),
        ActsOn::EvictingTaints => {
            (world.clusters.values().filter(|cluster| is_faulty(cluster)).count(), "cluster with evicting taints")
        }
        ActsOn::Unknown => return None,
        of_kind => (others.get(&of_kind).copied().unwrap_or_default(), kind_of(of_kind)?.1),
    };
    (number > 0).then(|| several(number, what))
}

/// The number with the plural of the first word.
fn several(number: usize, what: &str) -> String {
    let (noun, rest) = what.split_once(' ').map_or((what, String::new()), |(noun, rest)| (noun, format!(" {rest}")));
    match noun.strip_suffix('y') {
        Some(stem) if number != 1 => format!("{number} {stem}ies{rest}"),
        _ => format!("{}{rest}", count(number, noun)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::world_of;

    const FLEET: &str = r#"
apiVersion: v1
kind: List
items:
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m1}, spec: {syncMode: Push}}
- {apiVersion: policy.karmada.io/v1alpha1, kind: ClusterTaintPolicy, metadata: {name: t}, spec: {taints: []}}
- {apiVersion: policy.karmada.io/v1alpha1, kind: ClusterTaintPolicy, metadata: {name: u}, spec: {taints: []}}
- apiVersion: work.karmada.io/v1alpha2
  kind: ResourceBinding
  metadata: {name: web-deployment, namespace: shop}
  spec: {propagateDeps: true, resource: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web}}
"#;

    #[test]
    fn controllers_that_objects_need_are_reported_with_what_starts_them() {
        let world = world_of(FLEET);
        let one = |name: &str, state, gate: Option<&str>, acts_on| ControllerState {
            name: name.to_owned(),
            state,
            gate: gate.map(str::to_owned),
            acts_on: vec![acts_on],
        };
        let (off, gate, absent) = (Running::SwitchedOff, Running::GateOff, Running::NotBuilt);
        let said = |controllers: &[ControllerState], others: &Others| -> Vec<String> {
            let found = findings(controllers, &world, others);
            found.into_iter().filter(|one| one.grade == Grade::Warning).map(|one| one.what).collect()
        };
        let none = Others::new();
        for (name, controller, want) in [
            ("it runs", one("scheduler", Running::Running, None, ActsOn::Bindings), None),
            (
                "switched off",
                one("scheduler", off, None, ActsOn::Bindings),
                Some(
                    "controller scheduler does not run, and nothing else acts on 1 binding: --controllers leaves it out",
                ),
            ),
            (
                "its gate is off",
                one("clustertaintpolicy", gate, Some("Failover"), ActsOn::TaintPolicies),
                Some(
                    "controller clustertaintpolicy does not run, and nothing else acts on 2 ClusterTaintPolicies: \
                     feature gate Failover is off",
                ),
            ),
            (
                "a field needs it",
                one("dependencies", off, None, ActsOn::Dependencies),
                Some(
                    "controller dependencies does not run, and nothing else acts on 1 binding with spec.propagateDeps: \
                     --controllers leaves it out",
                ),
            ),
            ("nothing needs it", one("applicationFailover", off, None, ActsOn::ApplicationFailover), None),
            ("no cluster is tainted", one("taint-manager", gate, Some("Failover"), ActsOn::EvictingTaints), None),
            ("not built and not used", one("remedy", absent, None, ActsOn::Remedies), None),
            ("a newer leader", one("x", off, None, ActsOn::Unknown), None),
        ] {
            assert_eq!(said(&[controller], &none), want.into_iter().collect::<Vec<_>>(), "{name}");
        }
        let remedies = [one("remedy", absent, None, ActsOn::Remedies)];
        assert_eq!(to_count(&remedies), [ActsOn::Remedies]);
        assert_eq!(
            said(&remedies, &Others::from([(ActsOn::Remedies, 3)])),
            ["controller remedy does not run, and nothing else acts on 3 Remedies: this version does not have it"]
        );
        let fine =
            findings(&[one("scheduler", Running::Running, None, ActsOn::Bindings), remedies[0].clone()], &world, &none);
        assert_eq!(fine[0].what, "1 controller runs");
    }
}
