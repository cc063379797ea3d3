//! Interpreters shipped for kinds of other projects (specification/propagation.md 21). They are scripts like those of
//! users, compiled when a kind first occurs.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use ironclad_interpreter::{Answer, InterpretError, Operation, Question, Source};

use crate::{Customization, Host};
use Operation::{
    AggregateStatus as A, InterpretComponent as C, InterpretDependency as D, InterpretHealth as H,
    InterpretReplica as R, InterpretStatus as S, Retain as T, ReviseReplica as V,
};

/// Kinds with their operations and scripts, in the order in which the scripts run.
struct Entry {
    /// Versions of one group whose fields the scripts read alike.
    api_versions: &'static [&'static str],
    kinds: &'static [&'static str],
    operations: &'static [Operation],
    scripts: &'static [&'static str],
}

macro_rules! entries {
    ($($group:literal [$($version:literal)+] $($kind:ident)+ [$($operation:ident)+] $($script:literal)+;)+) => {
        &[$(Entry {
            api_versions: entries!(@versions $group $($version)+),
            kinds: &[$(stringify!($kind)),+],
            operations: &[$($operation),+],
            scripts: entries!(@scripts $($script)+),
        },)+]
    };
    (@versions $group:literal $($version:literal)+) => {
        &[$(concat!($group, "/", $version)),+]
    };
    (@scripts $($script:literal)+) => {
        &[include_str!("../scripts/shared.lua") $(, include_str!(concat!("../scripts/", $script, ".lua")))+]
    };
}

/// All entries. specification/propagation.md 21 explains the letters of the operations.
static ENTRIES: &[Entry] = entries! {
    "apps.kruise.io" ["v1alpha1" "v1beta1"] AdvancedCronJob [A D] "kruise_advanced_cron_job";
    "apps.kruise.io" ["v1alpha1" "v1beta1"] BroadcastJob [R V H A S T D] "kruise_broadcast_job";
    "apps.kruise.io" ["v1alpha1" "v1beta1"] CloneSet [R V H A S D] "kruise_shared" "kruise_clone_set";
    "apps.kruise.io" ["v1alpha1" "v1beta1"] DaemonSet [H A S D] "kruise_daemon_set";
    "apps.kruise.io" ["v1alpha1" "v1beta1"] SidecarSet [R H A S T D] "kruise_sidecar_set";
    "apps.kruise.io" ["v1alpha1" "v1beta1"] StatefulSet [R V H A S D] "kruise_shared" "kruise_stateful_set";
    "apps.kruise.io" ["v1alpha1" "v1beta1"] UnitedDeployment [R V H A S D] "kruise_united_deployment";
    "argoproj.io" ["v1alpha1"] Rollout [R V H A S D] "argo_rollout";
    "argoproj.io" ["v1alpha1"] Workflow [R V H T D] "argo_workflow";
    "batch.volcano.sh" ["v1alpha1"] Job [C H A S] "volcano_job";
    "flink.apache.org" ["v1beta1"] FlinkDeployment [R C H A S] "flink_deployment";
    "helm.toolkit.fluxcd.io" ["v2beta1" "v2beta2" "v2"] HelmRelease [H A S T D] "flux_helm_release";
    "kubeflow.org" ["v1alpha1" "v1beta1" "v1"] Notebook [R H A S] "kubeflow_notebook";
    "kubeflow.org" ["v1"] JAXJob MPIJob PaddleJob PyTorchJob TFJob XGBoostJob [C H A D] "kubeflow_training_job";
    "kubeflow.org" ["v2beta1"] MPIJob [C H A S] "kubeflow_mpi_job";
    "kustomize.toolkit.fluxcd.io" ["v1beta2" "v1"] Kustomization [H A S T D] "flux_kustomization";
    "kyverno.io" ["v1" "v2beta1"] ClusterPolicy Policy [H A S] "kyverno_policy";
    "policies.kyverno.io" ["v1alpha1" "v1beta1" "v1"] DeletingPolicy GeneratingPolicy ImageValidatingPolicy MutatingPolicy ValidatingPolicy
        [H A S] "kyverno_cel_policy";
    "policies.kyverno.io" ["v1beta1" "v1"] NamespacedDeletingPolicy NamespacedGeneratingPolicy NamespacedImageValidatingPolicy
        NamespacedMutatingPolicy NamespacedValidatingPolicy [H A S] "kyverno_cel_policy";
    "ray.io" ["v1alpha1" "v1"] RayCluster [C H A] "ray_shared" "ray_cluster";
    "ray.io" ["v1alpha1" "v1"] RayJob [C H A D] "ray_shared" "ray_job";
    "ray.io" ["v1alpha1" "v1"] RayService [R V H A D] "ray_shared" "ray_service";
    "source.toolkit.fluxcd.io" ["v1beta2" "v1"] Bucket GitRepository HelmChart HelmRepository OCIRepository [H A S T D] "flux_source";
    "sparkoperator.k8s.io" ["v1beta2"] SparkApplication [C H A S] "spark_application";
    "trainer.kubeflow.org" ["v1alpha1"] TrainJob [C H A S] "kubeflow_train_job";
};

/// The shipped interpreters as a source.
#[derive(Debug)]
pub struct Shipped {
    host: Host,
    /// Compiled scripts by apiVersion and kind. Most fleets use only a few.
    compiled: Mutex<BTreeMap<(&'static str, &'static str), Arc<Customization>>>,
}

impl Shipped {
    /// Starts with nothing compiled.
    #[must_use]
    pub fn new(host: Host) -> Self {
        Self { host, compiled: Mutex::default() }
    }

    /// Number of customizations with an engine.
    #[must_use]
    pub fn engines(&self) -> usize {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// `apiVersion`, kind and operations of all entries.
    pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str, &'static [Operation])> {
        ENTRIES.iter().flat_map(|entry| {
            let versions = entry.api_versions.iter();
            versions.flat_map(|version| entry.kinds.iter().map(|kind| (*version, *kind, entry.operations)))
        })
    }

    /// `apiVersion`, kind and scripts of all entries, without the script that all share.
    #[cfg(test)]
    pub(crate) fn scripts() -> impl Iterator<Item = (&'static str, &'static str, &'static [&'static str])> {
        ENTRIES.iter().flat_map(|entry| {
            let versions = entry.api_versions.iter();
            versions.flat_map(|version| entry.kinds.iter().map(|kind| (*version, *kind, &entry.scripts[1..])))
        })
    }

    /// The entry of a kind, with the static names of its version and kind.
    fn find(api_version: &str, kind: &str) -> Option<(&'static Entry, (&'static str, &'static str))> {
        ENTRIES.iter().find_map(|entry| {
            let version = entry.api_versions.iter().find(|known| **known == api_version)?;
            let kind = entry.kinds.iter().find(|known| **known == kind)?;
            Some((entry, (*version, *kind)))
        })
    }

    fn compiled(&self, entry: &'static Entry, target: (&'static str, &'static str)) -> Arc<Customization> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let compile = || Arc::new(Customization::shipped(target, entry.operations, entry.scripts, &self.host));
        compiled.entry(target).or_insert_with(compile).clone()
    }
}

impl Source for Shipped {
    fn implements(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        Self::find(api_version, kind).is_some_and(|(entry, _)| entry.operations.contains(&operation))
    }

    fn answer(&self, question: &Question<'_>) -> Result<Answer, InterpretError> {
        let (api_version, kind) = question.kind();
        match Self::find(api_version, kind) {
            Some((entry, target)) => self.compiled(entry, target).answer(question).map(Answer::Is),
            None => Err(InterpretError::not_implemented(question)),
        }
    }
}
