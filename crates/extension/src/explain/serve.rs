//! The group behind a kube-apiserver: each replica of `run` serves it, and one that does not lead asks the leader.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use ironclad_apiserver::{ForwardTarget, Forwarder as _, RequestBody, ResponseBody};
use ironclad_seam::Seam;
use kube::Client;
use parking_lot::Mutex;
use tokio::net::TcpListener;

use super::{Explain, GROUP, VERSION, discovery, place_of, unavailable};
use crate::{
    CertificateExpiry,
    admission::WebhookError,
    aggregated::{
        self, AggregatedApi, Registration, ReplicaAccess, Sender, ServedVersion, ServerNames, ServerService, failure,
    },
    forward::NetworkForwarder,
};

/// The process that can answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leads {
    Here,
    /// Another one, which serves the group at this address (`host:port`).
    At(String),
    /// None that can be asked, for this reason.
    Nowhere(String),
}

/// Serves the group on a listener. The leader registers it; certificates and registration are maintained until the
/// tasks are stopped.
///
/// # Errors
/// The control plane rejects the Secret, the Service or the APIService.
pub async fn serve_explain(
    client: Client,
    listener: TcpListener,
    explain: Explain,
    leads: impl Fn() -> Leads + Send + Sync + 'static,
    service: ServerService,
    expiry: &CertificateExpiry,
    seam: &Seam,
) -> Result<Registration, WebhookError> {
    let replica =
        Replica { explain, leads: Box::new(leads), forwarder: NetworkForwarder::default(), trust: Mutex::default() };
    aggregated::serve(client, listener, Arc::new(replica), service, expiry, seam).await
}

struct Replica {
    explain: Explain,
    leads: Box<dyn Fn() -> Leads + Send + Sync>,
    forwarder: NetworkForwarder,
    /// The name in the certificates of the others, and who signs them.
    trust: Mutex<(String, String)>,
}

/// Way of a request.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    Here,
    To(String),
    Refused(String),
}

/// Discovery is answered everywhere, so that the kube-apiserver finds each replica available. A request is passed on
/// once.
fn way(path: &str, by: &Sender, leads: Leads) -> Way {
    match (leads, by) {
        _ if place_of(path).is_none_or(|place| discovery(place.trim_end_matches('/')).is_some()) => Way::Here,
        (Leads::Here, _) => Way::Here,
        (Leads::At(address), Sender::Client(_)) => Way::To(address),
        (Leads::At(address), Sender::Replica) => Way::Refused(format!("another process leads by now: {address}")),
        (Leads::Nowhere(why), _) => Way::Refused(why),
    }
}

impl AggregatedApi for Replica {
    fn names(&self) -> ServerNames {
        ServerNames {
            server: "ironclad-explain",
            secret: "ironclad-explain-certificates",
            authority: "ironclad-explain-ca",
            flag: "--explain-service",
        }
    }

    fn versions(&self) -> Vec<ServedVersion> {
        vec![ServedVersion { group: GROUP, version: VERSION, priority: (100, 100) }]
    }

    fn registers(&self) -> bool {
        (self.leads)() == Leads::Here
    }

    fn take(&self, access: ReplicaAccess) {
        self.forwarder.present(access.certificate);
        *self.trust.lock() = (access.host_name, access.bundle);
    }

    fn answer(&self, request: Request<RequestBody>, by: Sender) -> BoxFuture<'static, Response<ResponseBody>> {
        let address = match way(request.uri().path(), &by, (self.leads)()) {
            Way::Here => return Box::pin(std::future::ready(self.explain.respond(&request))),
            Way::Refused(why) => return Box::pin(std::future::ready(failure(&unavailable(&why)))),
            Way::To(address) => address,
        };
        let (host_name, bundle) = self.trust.lock().clone();
        let target = ForwardTarget {
            base: format!("https://{address}"),
            server_name: Some(host_name),
            ca_bundle: Some(bundle.into_bytes()),
            insecure: false,
        };
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        // The headers name the user, whose right was checked here.
        let Ok(asked) = Request::builder().method(request.method()).uri(path).body(Bytes::new()) else {
            return Box::pin(std::future::ready(failure(&unavailable("the request can't be passed on"))));
        };
        let answer = self.forwarder.forward(target, asked);
        Box::pin(async move {
            match answer.await {
                Ok(answer) => answer.map(ResponseBody::boxed),
                Err(why) => failure(&unavailable(&format!("the leader at {address} does not answer: {why}"))),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregated::delegated::User;

    #[test]
    fn requests_go_to_the_leader_once() {
        let path = "/apis/explain.ironclad.io/v1alpha1/evictions";
        let at = || Leads::At("10.0.0.5:8446".to_owned());
        let client = || Sender::Client(User::default());
        let nobody = || Leads::Nowhere("nobody leads".to_owned());
        for (name, path, by, leads, want) in [
            ("the leader answers", path, client(), Leads::Here, Way::Here),
            ("and what is passed on to it", path, Sender::Replica, Leads::Here, Way::Here),
            ("another one asks it", path, client(), at(), Way::To("10.0.0.5:8446".to_owned())),
            (
                "the leader changed on the way",
                path,
                Sender::Replica,
                at(),
                Way::Refused("another process leads by now: 10.0.0.5:8446".to_owned()),
            ),
            ("nobody can be asked", path, client(), nobody(), Way::Refused("nobody leads".to_owned())),
            ("discovery of a replica", "/apis/explain.ironclad.io/v1alpha1/", client(), nobody(), Way::Here),
            ("other documents", "/openapi/v2", client(), at(), Way::Here),
        ] {
            assert_eq!(way(path, &by, leads), want, "{name}");
        }
    }
}
