//! Members and their metrics, for the metrics APIs of `up` and `run`.

use std::sync::Arc;

use ironclad_api::cluster::Cluster;
use ironclad_controllers::Connector;
use ironclad_extension::metrics::{MetricsAdapter, MetricsOptions};
use ironclad_membermetrics::{Fleet, MemberMetrics, Options};
use ironclad_seam::Seam;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;

/// Returns the metrics APIs over the members of this control plane, reached by this connector. It serves whether or not
/// this process leads: it only reads.
pub(crate) fn adapter(
    plane: Client,
    connector: Arc<dyn Connector>,
    options: Options,
    served: MetricsOptions,
    seam: &Seam,
) -> MetricsAdapter {
    let connect =
        Arc::new(move |cluster: &Cluster, credentials: Option<&Secret>| connector.connect(cluster, credentials));
    let metrics = MemberMetrics::new(seam.clock.clone(), options);
    MetricsAdapter::new(Fleet::start(plane, seam, connect, metrics), served)
}
