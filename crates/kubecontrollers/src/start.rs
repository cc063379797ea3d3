//! Controllers to run, by the names of kube-controller-manager.

use std::fmt;

pub use ironclad_hpa::options::Options as AutoscalingOptions;

use crate::{
    Cluster, Signer, aggregation, bootstrap, certificates, cronjob, daemonset, deployment, disruption, endpointslice,
    gc, hpa, job, namespace, protection, replicaset, resourcequota, statefulset, token, ttl,
};

/// A built-in controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    /// Deletes objects without owners, and completes foreground and orphaning deletions.
    GarbageCollector,
    /// Empties namespaces that are being deleted.
    Namespace,
    /// Creates the ServiceAccount `default` in each namespace.
    ServiceAccount,
    /// Fills Secrets with tokens of ServiceAccounts.
    Token,
    /// Publishes the root certificate in each namespace.
    RootCertificate,
    /// Removes the protection finalizer of claims without pods.
    ClaimProtection,
    /// Removes the protection finalizer of volumes without claims.
    VolumeProtection,
    /// Maintains the rules of aggregated ClusterRoles.
    RoleAggregation,
    /// Signs requests for certificates that were approved, and removes old ones.
    CertificateSigning,
    /// Signs ConfigMap `kube-public/cluster-info` with each bootstrap token.
    BootstrapSigner,
    /// Deletes bootstrap tokens at their expiration.
    TokenCleaner,
    /// Maintains the status of ResourceQuotas.
    ResourceQuota,
    /// Deletes finished Jobs after their time to live.
    TtlAfterFinished,
    /// Maintains the EndpointSlices of Services.
    EndpointSlice,
    /// Maintains the status of PodDisruptionBudgets.
    Disruption,
    /// Maintains ReplicaSets of Deployments.
    Deployment,
    /// Maintains pods of ReplicaSets.
    ReplicaSet,
    /// Maintains pods of ReplicationControllers.
    ReplicationController,
    /// Maintains pods of StatefulSets.
    StatefulSet,
    /// Maintains a pod of each DaemonSet on each node.
    DaemonSet,
    /// Runs the pods of Jobs.
    Job,
    /// Creates the Jobs of CronJobs.
    CronJob,
    /// Scales workloads by resource usage (HorizontalPodAutoscaler).
    Autoscaler,
}

impl Controller {
    /// All controllers, in the order in which they start.
    pub const ALL: [Self; 23] = [
        Self::GarbageCollector,
        Self::Namespace,
        Self::ServiceAccount,
        Self::Token,
        Self::RootCertificate,
        Self::ClaimProtection,
        Self::VolumeProtection,
        Self::RoleAggregation,
        Self::CertificateSigning,
        Self::BootstrapSigner,
        Self::TokenCleaner,
        Self::ResourceQuota,
        Self::TtlAfterFinished,
        Self::EndpointSlice,
        Self::Disruption,
        Self::Deployment,
        Self::ReplicaSet,
        Self::ReplicationController,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::Job,
        Self::CronJob,
        Self::Autoscaler,
    ];

    /// Controllers of the control plane. Its workloads are templates, which must not start.
    pub const PLANE: [Self; 13] = [
        Self::GarbageCollector,
        Self::Namespace,
        Self::ServiceAccount,
        Self::Token,
        Self::RootCertificate,
        Self::ClaimProtection,
        Self::VolumeProtection,
        Self::RoleAggregation,
        Self::CertificateSigning,
        Self::BootstrapSigner,
        Self::TokenCleaner,
        Self::ResourceQuota,
        Self::TtlAfterFinished,
    ];

    /// True if kube-controller-manager runs it unless its `--controllers` says otherwise.
    pub fn is_on_by_default(self) -> bool {
        !matches!(self, Self::BootstrapSigner | Self::TokenCleaner)
    }

    /// The name in kube-controller-manager's `--controllers`.
    pub fn name(self) -> &'static str {
        match self {
            Self::GarbageCollector => "garbage-collector-controller",
            Self::Namespace => "namespace-controller",
            Self::ServiceAccount => "serviceaccount-controller",
            Self::Token => "serviceaccount-token-controller",
            Self::RootCertificate => "root-ca-certificate-publisher-controller",
            Self::ClaimProtection => "persistentvolumeclaim-protection-controller",
            Self::VolumeProtection => "persistentvolume-protection-controller",
            Self::RoleAggregation => "clusterrole-aggregation-controller",
            Self::CertificateSigning => "certificatesigningrequest-signing-controller",
            Self::BootstrapSigner => "bootstrap-signer-controller",
            Self::TokenCleaner => "token-cleaner-controller",
            Self::ResourceQuota => "resourcequota-controller",
            Self::TtlAfterFinished => "ttl-after-finished-controller",
            Self::EndpointSlice => "endpointslice-controller",
            Self::Disruption => "disruption-controller",
            Self::Deployment => "deployment-controller",
            Self::ReplicaSet => "replicaset-controller",
            Self::ReplicationController => "replicationcontroller-controller",
            Self::StatefulSet => "statefulset-controller",
            Self::DaemonSet => "daemonset-controller",
            Self::Job => "job-controller",
            Self::CronJob => "cronjob-controller",
            Self::Autoscaler => "horizontal-pod-autoscaler-controller",
        }
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Options of the controllers.
#[derive(Debug, Clone)]
pub struct Options {
    /// Controllers to run.
    pub controllers: Vec<Controller>,
    /// Certificate (PEM) that [`Controller::RootCertificate`] publishes and [`Controller::Token`] adds to tokens;
    /// without it, the former does nothing.
    pub root_certificate: Option<String>,
    /// Signer of [`Controller::CertificateSigning`]; without it, that controller does nothing.
    pub signer: Option<Signer>,
    /// Flags of [`Controller::Autoscaler`].
    pub autoscaling: AutoscalingOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            controllers: Vec::new(),
            root_certificate: None,
            signer: None,
            autoscaling: AutoscalingOptions::of_one_cluster(),
        }
    }
}

/// Prepares these controllers on the cluster's caches and starts their loops as tasks of its seam. The loops wait for
/// the caches: call [`Cluster::start_caches`] once all their users are prepared.
pub fn start(cluster: &Cluster, options: &Options) {
    for controller in Controller::ALL.into_iter().filter(|c| options.controllers.contains(c)) {
        match controller {
            Controller::GarbageCollector => gc::start(&cluster.client, &cluster.seam),
            Controller::Namespace => namespace::start(cluster),
            Controller::ServiceAccount => namespace::start_service_account(cluster),
            Controller::Token => token::start(cluster, options.root_certificate.as_deref()),
            Controller::RootCertificate => {
                if let Some(certificate) = &options.root_certificate {
                    namespace::start_root_ca(cluster, certificate);
                }
            }
            Controller::ClaimProtection => protection::start_claims(cluster),
            Controller::VolumeProtection => protection::start_volumes(cluster),
            Controller::RoleAggregation => aggregation::start(cluster),
            Controller::CertificateSigning => {
                if let Some(signer) = &options.signer {
                    certificates::start(cluster, signer);
                }
            }
            Controller::BootstrapSigner => bootstrap::start_signer(cluster),
            Controller::TokenCleaner => bootstrap::start_cleaner(cluster),
            Controller::ResourceQuota => resourcequota::start(cluster),
            Controller::TtlAfterFinished => ttl::start(cluster),
            Controller::EndpointSlice => endpointslice::start(cluster),
            Controller::Disruption => disruption::start(cluster),
            Controller::Deployment => deployment::start(cluster),
            Controller::ReplicaSet => replicaset::start(cluster),
            Controller::ReplicationController => replicaset::start_replication_controllers(cluster),
            Controller::StatefulSet => statefulset::start(cluster),
            Controller::DaemonSet => daemonset::start(cluster),
            Controller::Job => job::start(cluster),
            Controller::CronJob => cronjob::start(cluster),
            Controller::Autoscaler => hpa::start(cluster, &options.autoscaling),
        }
    }
}
