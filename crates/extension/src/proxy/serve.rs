//! The proxy on a listener of `ironclad run`: the control plane's kube-apiserver says who asks, and who may.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use http::{Method, Request, Response, request::Parts};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use ironclad_api::{
    names::{PROXY, PROXY_ADDRESS, PROXY_CA_BUNDLE},
    namespaces,
};
use ironclad_apiserver::{
    AUTHENTICATED, ApiError, Identity, Impersonation, RequestBody, ResponseBody, Route as _, Upgrade,
};
use ironclad_runtime::{Api, Tunnels};
use ironclad_seam::Seam;
use ironclad_serving::{self as serving, Listener, Peer};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::{
    Client,
    api::{ObjectMeta, PostParams},
};
use tokio::net::TcpListener;

use super::{
    ClusterProxy, ProxyObserved, Rights,
    address::{Address, Clusters},
    tunnel,
};
use crate::{
    CertificateExpiry,
    admission::{Purpose, WebhookError, certificates, failed},
    aggregated::{
        attributes::{Attributes, verb},
        delegated::{Delegated, User},
        failure,
    },
    forward::publish,
    tls::InUse,
};

const NAME: &str = "ironclad-proxy";
/// Time for which an answer of the kube-apiserver about a user is used again. A right that is taken away counts then.
const ANSWERS_KEPT: Duration = Duration::from_secs(1);
/// Time between two looks whether the certificate ends.
const CHECK_EVERY: Duration = Duration::from_secs(3_600);

/// Serves the proxy on this listener until the tasks are stopped, with managed certificates for these hosts, and tells
/// where it is in the ConfigMap [`PROXY`]. Every replica serves it. Agents open their tunnels there, too.
///
/// # Errors
/// The control plane rejects the Secret or the ConfigMap, or does not say whom it trusts.
pub async fn serve_proxy(
    client: Client,
    listener: TcpListener,
    (endpoint, hosts): (String, Vec<String>),
    tunnels: Tunnels,
    observed: ProxyObserved,
    expiry: &CertificateExpiry,
    seam: &Seam,
) -> Result<(), WebhookError> {
    let in_use = expiry.in_use(NAME);
    let delegated = Delegated::start(client.clone(), in_use.clone(), ANSWERS_KEPT, seam).await;
    let delegated = delegated.map_err(WebhookError::Certificate)?;
    let keeper = Arc::new(Keeper { client: client.clone(), in_use, endpoint, hosts });
    keeper.check(seam).await?;
    let front = Front {
        proxy: ClusterProxy::new(client, Asked(delegated.clone()), seam, tunnels, observed),
        delegated: delegated.clone(),
        seam: seam.clone(),
    };
    let fallback = delegated.tls().ok_or_else(|| WebhookError::Certificate("no TLS settings".to_owned()))?;
    let of_listener = seam.clone();
    seam.tasks.spawn(NAME, async move {
        let config = Arc::new(move || delegated.tls().unwrap_or_else(|| fallback.clone()));
        let answer = serving::Front::new(move |request, peer| {
            let front = front.clone();
            async move { front.answer(request, peer).await.map(BodyExt::boxed_unsync) }
        });
        Listener::new(listener, Some(config), NAME).serve(&of_listener.clock, &of_listener.tasks, answer).await;
    });
    let of_keeper = seam.clone();
    seam.tasks.supervise(&seam.clock, "proxy-certificate", move || {
        let (keeper, seam) = (keeper.clone(), of_keeper.clone());
        async move {
            loop {
                seam.clock.sleep(CHECK_EVERY).await;
                if let Err(error) = keeper.check(&seam).await {
                    tracing::warn!(%error, "checking the certificate of the proxy failed");
                }
            }
        }
    });
    Ok(())
}

/// Maintains the certificate, and what clients need to know.
struct Keeper {
    client: Client,
    in_use: Arc<InUse>,
    endpoint: String,
    hosts: Vec<String>,
}

impl Keeper {
    async fn check(&self, seam: &Seam) -> Result<(), WebhookError> {
        let purpose = Purpose {
            secret: "ironclad-proxy-certificates",
            authority: "ironclad-proxy-ca",
            name: NAME,
            hosts: Some(self.hosts.clone()),
        };
        let found = certificates(&self.client, &purpose, seam).await?;
        self.in_use.set(&found.serving).map_err(WebhookError::Certificate)?;
        let data = [(PROXY_ADDRESS, self.endpoint.clone()), (PROXY_CA_BUNDLE, found.bundle)];
        publish(&self.client, namespaces::SYSTEM, PROXY, &data, NAME).await?;
        self.let_users_read().await
    }

    /// Lets every authenticated user read where the proxy is, unless somebody has arranged that otherwise.
    async fn let_users_read(&self) -> Result<(), WebhookError> {
        const GROUP: &str = "rbac.authorization.k8s.io";
        let metadata = ObjectMeta { name: Some(PROXY.to_owned()), ..ObjectMeta::default() };
        let params = PostParams { field_manager: Some(NAME.into()), ..PostParams::default() };
        let rule = PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["configmaps".to_owned()]),
            resource_names: Some(vec![PROXY.to_owned()]),
            verbs: vec!["get".to_owned()],
            ..PolicyRule::default()
        };
        let role = Role { metadata: metadata.clone(), rules: Some(vec![rule]) };
        let users = Subject {
            api_group: Some(GROUP.to_owned()),
            kind: "Group".to_owned(),
            name: AUTHENTICATED.to_owned(),
            ..Subject::default()
        };
        let role_ref = RoleRef { api_group: Some(GROUP.to_owned()), kind: "Role".to_owned(), name: PROXY.to_owned() };
        let binding = RoleBinding { metadata, role_ref, subjects: Some(vec![users]) };
        let (roles, bindings): (Api<Role>, Api<RoleBinding>) = (
            Api::namespaced(self.client.clone(), namespaces::SYSTEM),
            Api::namespaced(self.client.clone(), namespaces::SYSTEM),
        );
        let made = [roles.create(&params, &role).await.map(drop), bindings.create(&params, &binding).await.map(drop)];
        for made in made {
            match made {
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                made => made.map_err(failed(format!("Role {}/{PROXY} or its binding", namespaces::SYSTEM)))?,
            }
        }
        Ok(())
    }
}

/// Rights by reviews of the control plane.
pub(crate) struct Asked(Arc<Delegated>);

/// Rights by reviews of this control plane, for a proxy that is served behind its kube-apiserver.
pub(crate) async fn asked(client: Client, seam: &Seam) -> Result<Asked, String> {
    Delegated::start(client, Arc::new(InUse::default()), ANSWERS_KEPT, seam).await.map(Asked)
}

impl Rights for Asked {
    fn check<'a>(
        &'a self,
        user: &'a Identity,
        method: &'a Method,
        path: &'a str,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            let attributes = Attributes::of(path);
            let verb = verb(method.as_str(), attributes.as_ref());
            let asked = self.0.authorize(&known(user), &verb, path, attributes.as_ref()).await;
            asked.map_err(|why| {
                let of = attributes.unwrap_or_default();
                let why = format!("User {:?} cannot {verb} resource \"clusters/proxy\": {why}", user.user);
                ApiError::forbidden(&of.resource, &of.group, &of.name, why.trim_end_matches(": "))
            })
        })
    }
}

fn known(identity: &Identity) -> User {
    let Identity { user, uid, groups, extra, .. } = identity;
    User { name: user.clone(), uid: uid.clone(), groups: groups.clone(), extra: extra.clone() }
}

#[derive(Clone)]
struct Front {
    proxy: ClusterProxy,
    delegated: Arc<Delegated>,
    seam: Seam,
}

impl Front {
    async fn answer(&self, request: Request<Incoming>, peer: Peer) -> Response<ResponseBody> {
        if matches!(request.uri().path().trim_end_matches('/'), "/readyz" | "/healthz" | "/livez") {
            return Response::new(ResponseBody::full("ok"));
        }
        let (parts, body) = request.into_parts();
        match self.admitted(&parts, &peer).await {
            Ok(identity) => {
                let body = body.map_err(std::io::Error::other).boxed_unsync();
                let mut request: Request<RequestBody> = Request::from_parts(parts, body);
                Upgrade::allow(&mut request, &self.seam.tasks);
                self.proxy.call(request, identity).await
            }
            Err(error) => failure(&error),
        }
    }

    /// The user of a request, who may send it.
    async fn admitted(&self, request: &Parts, peer: &Peer) -> Result<Identity, ApiError> {
        let path = request.uri.path();
        let address = Address::of(path);
        if address.is_none() && tunnel::cluster_of(path).is_none() {
            return Err(ApiError::no_resource());
        }
        let asking = self.delegated.authenticate(&request.headers, peer).await.map_err(|why| {
            tracing::debug!(why, "a request was not authenticated");
            ApiError::unauthorized()
        })?;
        let identity = match Impersonation::of(&request.headers)? {
            Some(wanted) => self.impersonated(&asking, wanted).await?,
            None => asking.into(),
        };
        // Each of all clusters is authorized by the proxy.
        if address.is_none_or(|address| address.clusters != Clusters::Every) {
            Asked(self.delegated.clone()).check(&identity, &request.method, path).await?;
        }
        Ok(identity)
    }

    async fn impersonated(&self, asking: &User, wanted: Impersonation) -> Result<Identity, ApiError> {
        for right in &wanted.needed {
            let attributes = Attributes {
                group: right.group.to_owned(),
                resource: right.resource.to_owned(),
                subresource: right.subresource.clone(),
                namespace: right.namespace.clone(),
                name: right.name.clone(),
                ..Attributes::default()
            };
            let asked = self.delegated.authorize(asking, "impersonate", "", Some(&attributes)).await;
            asked.map_err(|why| right.refused(&asking.name, &why))?;
        }
        Ok(wanted.identity)
    }
}
