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
    api_version: &'static str,
    kinds: &'static [&'static str],
    operations: &'static [Operation],
    scripts: &'static [&'static str],
}

macro_rules! entries {
    ($($api_version:literal $($kind:ident)+ [$($operation:ident)+] $($script:literal)+;)+) => {
        &[$(Entry {
            api_version: $api_version,
            kinds: &[$(stringify!($kind)),+],
            operations: &[$($operation),+],
            scripts: entries!(@scripts $($script)+),
        },)+]
    };
    (@scripts $($script:literal)+) => {
        &[include_str!("../scripts/shared.lua") $(, include_str!(concat!("../scripts/", $script, ".lua")))+]
    };
}

/// All entries. specification/propagation.md 21 explains the letters of the operations.
static ENTRIES: &[Entry] = entries! {
    "apps.kruise.io/v1alpha1" AdvancedCronJob [A D] "kruise_advanced_cron_job";
    "apps.kruise.io/v1alpha1" BroadcastJob [R V H A S T D] "kruise_broadcast_job";
    "apps.kruise.io/v1alpha1" CloneSet [R V H A S D] "kruise_shared" "kruise_clone_set";
    "apps.kruise.io/v1alpha1" DaemonSet [H A S D] "kruise_daemon_set";
    "apps.kruise.io/v1alpha1" SidecarSet [R H A S T D] "kruise_sidecar_set";
    "apps.kruise.io/v1alpha1" UnitedDeployment [R V H A S D] "kruise_united_deployment";
    "apps.kruise.io/v1beta1" StatefulSet [R V H A S D] "kruise_shared" "kruise_stateful_set";
    "argoproj.io/v1alpha1" Workflow [R V H T D] "argo_workflow";
    "batch.volcano.sh/v1alpha1" Job [C H A S] "volcano_job";
    "flink.apache.org/v1beta1" FlinkDeployment [R C H A S] "flink_deployment";
    "helm.toolkit.fluxcd.io/v2beta1" HelmRelease [H A S T D] "flux_helm_release";
    "kubeflow.org/v1" Notebook [R H A S] "kubeflow_notebook";
    "kubeflow.org/v1" PyTorchJob TFJob [C H A D] "kubeflow_training_job";
    "kubeflow.org/v2beta1" MPIJob [C H A S] "kubeflow_mpi_job";
    "kustomize.toolkit.fluxcd.io/v1" Kustomization [H A S T D] "flux_kustomization";
    "kyverno.io/v1" ClusterPolicy Policy [H A S] "kyverno_policy";
    "ray.io/v1" RayCluster [C H A] "ray_shared" "ray_cluster";
    "ray.io/v1" RayJob [C H A D] "ray_shared" "ray_job";
    "ray.io/v1" RayService [R V H A D] "ray_shared" "ray_service";
    "source.toolkit.fluxcd.io/v1" GitRepository [H A S T D] "flux_source";
    "source.toolkit.fluxcd.io/v1beta2" Bucket HelmChart HelmRepository OCIRepository [H A S T D] "flux_source";
    "sparkoperator.k8s.io/v1beta2" SparkApplication [C H A S] "spark_application";
};

/// The shipped interpreters as a source.
#[derive(Debug)]
pub struct Shipped {
    host: Host,
    /// Compiled scripts by group and kind. Most fleets use only a few.
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
        ENTRIES.iter().flat_map(|entry| entry.kinds.iter().map(|kind| (entry.api_version, *kind, entry.operations)))
    }

    /// The entry of a kind, with the kind's static name.
    fn find(api_version: &str, kind: &str) -> Option<(&'static Entry, &'static str)> {
        ENTRIES.iter().filter(|entry| entry.api_version == api_version).find_map(|entry| {
            let kind = entry.kinds.iter().find(|known| **known == kind)?;
            Some((entry, *kind))
        })
    }

    fn compiled(&self, entry: &'static Entry, kind: &'static str) -> Arc<Customization> {
        let target = (entry.api_version, kind);
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
            Some((entry, kind)) => self.compiled(entry, kind).answer(question).map(Answer::Is),
            None => Err(InterpretError::not_implemented(question)),
        }
    }
}
