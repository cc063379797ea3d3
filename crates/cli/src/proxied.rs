//! Members behind the control plane's proxy: contexts of a kubeconfig that lead there with the user's own credentials
//! (specification/operations.md 4.1).

use anyhow::{Context as _, bail};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use ironclad_api::{
    names::{PROXY, PROXY_ADDRESS, PROXY_CA_BUNDLE},
    namespaces,
};
use ironclad_runtime::Api;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Client,
    config::{Context, Kubeconfig, NamedCluster, NamedContext},
};

/// Address of the proxy, if it is not that of the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Front {
    /// `https://HOST:PORT`.
    pub address: String,
    /// Certificates to trust, PEM.
    pub ca_bundle: String,
}

/// The listener of `ironclad run`, if it told where it is, and the user may read that.
pub async fn front(plane: &Client) -> Option<Front> {
    let maps: Api<ConfigMap> = Api::namespaced(plane.clone(), namespaces::SYSTEM);
    let mut data = maps.get_opt(PROXY).await.ok()??.data?;
    Some(Front { address: data.remove(PROXY_ADDRESS)?, ca_bundle: data.remove(PROXY_CA_BUNDLE)? })
}

/// Address of a member behind the proxy of a control plane.
#[must_use]
pub fn address(server: &str, cluster: &str) -> String {
    format!("{}/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}/proxy", server.trim_end_matches('/'))
}

/// A kubeconfig with one context for each of these clusters, named like it, and the user of the current context; the
/// first one is its current context.
///
/// # Errors
/// If the kubeconfig has no current context that names a server.
pub fn kubeconfig(plane: &Kubeconfig, front: Option<&Front>, clusters: &[String]) -> anyhow::Result<Kubeconfig> {
    let current = plane.current_context.as_deref().unwrap_or_default();
    let context = plane.contexts.iter().find(|context| context.name == current);
    let Some(context) = context.and_then(|context| context.context.as_ref()) else {
        bail!("the kubeconfig has no context {current:?}\n  try: --context NAME");
    };
    let cluster = plane.clusters.iter().find(|cluster| cluster.name == context.cluster);
    let mut cluster = cluster.and_then(|cluster| cluster.cluster.clone()).unwrap_or_default();
    if let Some(Front { address, ca_bundle }) = front {
        cluster = kube::config::Cluster {
            server: Some(address.clone()),
            certificate_authority_data: Some(STANDARD.encode(ca_bundle)),
            proxy_url: cluster.proxy_url,
            ..kube::config::Cluster::default()
        };
    }
    let server = cluster.server.clone().with_context(|| {
        format!("cluster {:?} of the kubeconfig has no server\n  try: --server URL", context.cluster)
    })?;
    let behind = |name: &String| NamedCluster {
        name: name.clone(),
        cluster: Some(kube::config::Cluster { server: Some(address(&server, name)), ..cluster.clone() }),
        other: Default::default(),
    };
    let context_of = |name: &String| NamedContext {
        name: name.clone(),
        context: Some(Context { cluster: name.clone(), ..context.clone() }),
        other: Default::default(),
    };
    let users = plane.auth_infos.iter().filter(|user| Some(&user.name) == context.user.as_ref());
    Ok(Kubeconfig {
        api_version: Some("v1".to_owned()),
        kind: Some("Config".to_owned()),
        clusters: clusters.iter().map(behind).collect(),
        contexts: clusters.iter().map(context_of).collect(),
        auth_infos: users.cloned().collect(),
        current_context: clusters.first().cloned(),
        ..Kubeconfig::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_lead_through_the_proxy_as_the_same_user() {
        let plane = Kubeconfig::from_yaml(
            "clusters: [{name: c, cluster: {server: 'https://plane:6443/', certificate-authority-data: Q0E=}}]\n\
             users: [{name: ann, user: {token: secret}}, {name: root, user: {token: other}}]\n\
             contexts: [{name: x, context: {cluster: c, user: ann, namespace: shop}}]\ncurrent-context: x\n",
        )
        .unwrap();
        let got = kubeconfig(&plane, None, &["m1".to_owned(), "m2".to_owned()]).unwrap();
        let text = crate::print::documents(&[serde_json::to_value(&got).unwrap()]).unwrap();
        let got = Kubeconfig::from_yaml(&text).unwrap();
        let servers: Vec<_> =
            got.clusters.iter().map(|c| c.cluster.as_ref().unwrap().server.clone().unwrap()).collect();
        let path = "apis/cluster.karmada.io/v1alpha1/clusters";
        let want = ["m1", "m2"].map(|name| format!("https://plane:6443/{path}/{name}/proxy"));
        assert_eq!(servers, want);
        let context = got.contexts[1].context.as_ref().unwrap();
        assert_eq!(
            (&*context.cluster, context.user.as_deref(), context.namespace.as_deref()),
            ("m2", Some("ann"), Some("shop"))
        );
        assert_eq!(got.current_context.as_deref(), Some("m1"));
        assert!(text.contains("token: secret") && !text.contains("other"), "{text}");
        let front = Front { address: "https://front:8447".into(), ca_bundle: "PEM".into() };
        let got = kubeconfig(&plane, Some(&front), &["m1".to_owned()]).unwrap();
        let cluster = got.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some(&*format!("https://front:8447/{path}/m1/proxy")));
        assert_eq!(cluster.certificate_authority_data.as_deref(), Some("UEVN"), "not that of the control plane");
        let error = kubeconfig(&Kubeconfig::default(), None, &[]).unwrap_err().to_string();
        assert!(error.contains("--context NAME"), "{error}");
    }
}
