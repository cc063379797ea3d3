//! Members and their metrics, for the metrics APIs of `up` and `run`.

use ironclad_extension::metrics::{MetricsAdapter, MetricsOptions};
use ironclad_membermetrics::{Fleet, MemberMetrics, Options};
use ironclad_members::Connections;
use ironclad_seam::Seam;
use kube::Client;

/// Returns the metrics APIs over the members of this control plane, over the connections of this process. It serves
/// whether or not this process leads: it only reads.
pub(crate) fn adapter(
    plane: &Client,
    members: Connections,
    options: Options,
    served: MetricsOptions,
    seam: &Seam,
) -> MetricsAdapter {
    let metrics = MemberMetrics::new(seam.clock.clone(), options);
    MetricsAdapter::new(Fleet::start(plane, seam, members, metrics), served)
}
