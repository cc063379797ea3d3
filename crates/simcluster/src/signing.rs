//! Connects the controller that decides on certificates with the authority that signs them.

use ironclad_apiserver::pki::{self, Authority};
use ironclad_kubecontrollers::Signer;

/// Returns the signer of this authority for the controllers of a cluster.
pub fn signer(authority: Authority) -> Signer {
    Signer::new(move |order, now| {
        let order = pki::Order {
            request: &order.request,
            usages: &order.usages,
            not_before: order.not_before,
            not_after: order.not_after,
        };
        authority.sign(order, now)
    })
}
