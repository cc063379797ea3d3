//! Plugins that end a task: a small registry, selected by `--evict-plugins` (specification/failover.md 7.4).

use ironclad_api::{
    JsonText,
    annotations::{APPLIED_CLUSTER_OVERRIDES, APPLIED_OVERRIDES, FEDERATED_HPA_APPLIED_REPLICAS},
    labels::{RETAIN_REPLICAS, TRUE},
    work::{GracefulEvictionTask, ResourceHealth, TargetCluster, Work},
};
use ironclad_fleet::ClusterName;

use super::Snapshot;

/// A rule that can end a task. Pure: it reads only the task and the binding.
pub trait Plugin: std::fmt::Debug + Sync {
    /// Its name in `--evict-plugins`.
    fn name(&self) -> &'static str;

    /// True if it judges the result, which then must be a current one that is not empty.
    fn needs_current_result(&self) -> bool;

    /// True if the copy of the task may be deleted.
    fn can_clear(&self, task: &GracefulEvictionTask, binding: &Snapshot) -> bool;
}

/// Name of the plugin that waits until every new copy is healthy.
pub const RESOURCE_HEALTH: &str = "ResourceHealth";
/// Name of the plugin that ends a task whose cluster is a target again.
pub const CLUSTER_IN_SCHEDULE_RESULT: &str = "ClusterInScheduleResult";

static REGISTRY: [&dyn Plugin; 2] = [&EveryCopyHealthy, &TargetAgain];

/// Which plugins are asked, in the order of the registry. Any one that passes ends a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plugins([bool; REGISTRY.len()]);

/// A name in `--evict-plugins` that no plugin has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown evict plugin {0:?}")]
pub struct UnknownPlugin(pub String);

impl Default for Plugins {
    /// `ResourceHealth,ClusterInScheduleResult`.
    fn default() -> Self {
        Self([true; REGISTRY.len()])
    }
}

impl Plugins {
    /// Reads the list of the flag: names, `*` for all, and `-Name` to leave one out of what the list names otherwise.
    ///
    /// # Errors
    /// If a name is of no plugin.
    pub fn parse<'a>(list: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownPlugin> {
        let mut enabled = [false; REGISTRY.len()];
        let mut disabled = [false; REGISTRY.len()];
        for entry in list.into_iter().map(str::trim).filter(|entry| !entry.is_empty()) {
            let (set, name) = match entry.strip_prefix('-') {
                Some(name) => (&mut disabled, name),
                None => (&mut enabled, entry),
            };
            if entry == "*" {
                *set = [true; REGISTRY.len()];
                continue;
            }
            let place = REGISTRY.iter().position(|plugin| plugin.name() == name);
            set[place.ok_or_else(|| UnknownPlugin(name.to_owned()))?] = true;
        }
        Ok(Self(std::array::from_fn(|i| enabled[i] && !disabled[i])))
    }

    /// The enabled plugins.
    pub fn iter(&self) -> impl Iterator<Item = &'static dyn Plugin> + use<> {
        let enabled = self.0;
        REGISTRY.into_iter().zip(enabled).filter(|(_, enabled)| *enabled).map(|(plugin, _)| plugin)
    }

    /// Their names, for the line at the start.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.iter().map(Plugin::name).collect()
    }

    /// Warning for the operator about this choice.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.names().contains(&CLUSTER_IN_SCHEDULE_RESULT) {
            warnings.push(format!(
                "--evict-plugins leaves out {CLUSTER_IN_SCHEDULE_RESULT}: a workload that is scheduled back to the \
                 cluster it left keeps its eviction task until every copy is healthy"
            ));
        }
        if self.names().is_empty() {
            warnings.push("--evict-plugins is empty: only grace periods and suppressDeletion end evictions".to_owned());
        }
        warnings
    }
}

/// True if the copy of a Work runs another number of replicas than the scheduler gave it: an override sets them, or the
/// member decides (label `retain-replicas`, or the target of a distributed autoscaler). Whether that many are ready is
/// part of its health.
#[must_use]
pub fn runs_own_replicas(work: &Work, given: i32) -> bool {
    let Some(manifest) = work.spec.workload.manifests.first() else { return false };
    let overridden = work
        .metadata
        .annotations
        .as_ref()
        .is_some_and(|all| all.contains_key(APPLIED_OVERRIDES) || all.contains_key(APPLIED_CLUSTER_OVERRIDES));
    // Most copies are neither: their manifest is not parsed.
    if manifest.as_str().contains(FEDERATED_HPA_APPLIED_REPLICAS) {
        return true;
    }
    if !overridden && !manifest.as_str().contains(RETAIN_REPLICAS) {
        return false;
    }
    let manifest = manifest.object();
    let labels = manifest.get("metadata").and_then(|metadata| metadata.get("labels"));
    let retained = labels.and_then(|labels| labels.get(RETAIN_REPLICAS)?.as_str()) == Some(TRUE);
    let asked = manifest.pointer("/spec/replicas").and_then(serde_json::Value::as_i64);
    retained || (overridden && asked != Some(i64::from(given)))
}

/// Every cluster of the result has an applied, healthy copy with as many ready replicas as it was given (IR-29).
#[derive(Debug)]
struct EveryCopyHealthy;

impl Plugin for EveryCopyHealthy {
    fn name(&self) -> &'static str {
        RESOURCE_HEALTH
    }

    fn needs_current_result(&self) -> bool {
        true
    }

    fn can_clear(&self, _: &GracefulEvictionTask, binding: &Snapshot) -> bool {
        let targets = &binding.spec().clusters;
        !targets.is_empty() && targets.iter().all(|target| is_healthy(target, binding))
    }
}

fn is_healthy(target: &TargetCluster, binding: &Snapshot) -> bool {
    let cluster = ClusterName::from(target.name.as_str());
    // The last report of a lost cluster is outdated.
    if binding.not_ready.contains(&cluster) {
        return false;
    }
    let Some(line) = binding.reports().iter().find(|line| line.cluster_name == target.name) else { return false };
    let ready = line.status.as_ref().and_then(ready_replicas);
    line.applied
        && line.health == Some(ResourceHealth::Healthy)
        && (binding.own_replicas.contains(&cluster) || ready.is_none_or(|ready| ready >= i64::from(target.replicas)))
}

/// Ready replicas in a status, if its kind counts them.
fn ready_replicas(status: &JsonText) -> Option<i64> {
    status.value().get("readyReplicas")?.as_i64()
}

/// The task's cluster is a target again, so its copy is kept (IR-28).
#[derive(Debug)]
struct TargetAgain;

impl Plugin for TargetAgain {
    fn name(&self) -> &'static str {
        CLUSTER_IN_SCHEDULE_RESULT
    }

    fn needs_current_result(&self) -> bool {
        false
    }

    fn can_clear(&self, task: &GracefulEvictionTask, binding: &Snapshot) -> bool {
        binding.spec().target(&task.from_cluster).is_some()
    }
}
