//! Objects that a member needs before it has credentials: rights of bootstrap tokens, and the address of the control
//! plane.

use std::sync::Arc;

use ironclad_admission::Config;
use ironclad_api::agents::{bootstrap_rights, cluster_info};
use ironclad_apiserver::{Identity, MASTERS};
use ironclad_extension::agents::{ClusterInfo, Published, install_rights, publish};
use ironclad_runtime::{Failure, Traffic, in_process_client};
use serde_json::{Value, json};

use crate::support::{Plane, plane, send};

const INFO: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

impl Plane {
    fn of(&self, identity: Identity) -> kube::Client {
        in_process_client(self.server.in_process(identity), Arc::new(Traffic::default()))
    }

    async fn get(&self, path: &str) -> Value {
        send(&self.client, "GET", path, "application/json", &Value::Null).await.2
    }

    async fn patch(&self, path: &str, patch: Value) {
        let (code, _, body) = send(&self.client, "PATCH", path, "application/merge-patch+json", &patch).await;
        assert_eq!(code, 200, "{body}");
    }

    /// Versions of all objects of bootstrap tokens.
    async fn versions(&self) -> Vec<String> {
        let mut versions = vec![self.get(INFO).await["metadata"]["resourceVersion"].to_string()];
        for right in bootstrap_rights() {
            let (kind, meta) = (right["kind"].as_str().unwrap().to_lowercase(), &right["metadata"]);
            let within = meta["namespace"].as_str().map(|namespace| format!("namespaces/{namespace}/"));
            let path = format!("{RBAC}/{}{kind}s/{}", within.unwrap_or_default(), meta["name"].as_str().unwrap());
            versions.push(self.get(&path).await["metadata"]["resourceVersion"].to_string());
        }
        assert!(!versions.contains(&"null".to_owned()), "{versions:?}");
        versions
    }
}

fn at(server: &str) -> ClusterInfo<'_> {
    ClusterInfo { server, certificates: "pem" }
}

#[tokio::test(start_paused = true)]
async fn anonymous_users_may_get_cluster_info_and_nothing_else() {
    let plane = plane(Config::default(), &[]).await;
    publish(&plane.client, at("https://plane:6443"), Published::Replace).await.unwrap();
    let anonymous = plane.of(Identity::anonymous());
    let get = async |path: &str| send(&anonymous, "GET", path, "application/json", &Value::Null).await;
    assert_eq!(get(INFO).await.0, 403, "before the rights");
    install_rights(&plane.client).await.unwrap();
    let (code, _, body) = get(INFO).await;
    assert_eq!((code, &body["data"]["kubeconfig"]), (200, &json!(cluster_info("https://plane:6443", "cGVt"))));
    for path in [
        "/api/v1/namespaces/kube-public/configmaps",
        "/api/v1/namespaces/kube-public/configmaps/other",
        "/api/v1/namespaces/kube-system/configmaps/cluster-info",
    ] {
        assert_eq!(get(path).await.0, 403, "{path}");
    }
    let changed = json!({"data": {"kubeconfig": "forged"}});
    assert_eq!(send(&anonymous, "PATCH", INFO, "application/merge-patch+json", &changed).await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn later_starts_repair_and_write_nothing_else() {
    let plane = plane(Config::default(), &[]).await;
    install_rights(&plane.client).await.unwrap();
    publish(&plane.client, at("https://one"), Published::Replace).await.unwrap();
    let first = plane.versions().await;
    install_rights(&plane.client).await.unwrap();
    publish(&plane.client, at("https://one"), Published::Replace).await.unwrap();
    publish(&plane.client, at("https://two"), Published::Keep).await.unwrap();
    assert_eq!(plane.versions().await, first);

    let binding = format!("{RBAC}/clusterrolebindings/system:karmada:agent-bootstrap");
    let right = plane.get(&binding).await;
    plane.patch(&binding, json!({"subjects": null})).await;
    plane.patch(INFO, json!({"data": {"jws-kubeconfig-abcdef": "x"}})).await;
    install_rights(&plane.client).await.unwrap();
    publish(&plane.client, at("https://two"), Published::Replace).await.unwrap();
    assert_eq!(plane.get(&binding).await["subjects"], right["subjects"]);
    let info = plane.get(INFO).await;
    let data = json!({"kubeconfig": cluster_info("https://two", "cGVt"), "jws-kubeconfig-abcdef": "x"});
    assert_eq!(info["data"], data);
}

#[tokio::test(start_paused = true)]
async fn somebody_without_rights_is_denied() {
    let plane = plane(Config::default(), &[]).await;
    let somebody = plane.of(Identity::user("somebody", &[]));
    assert!(matches!(install_rights(&somebody).await, Err(Failure::Denied(_))));
    assert!(matches!(publish(&somebody, at("https://one"), Published::Keep).await, Err(Failure::Denied(_))));
    let master = plane.of(Identity::user("administrator", &[MASTERS]));
    install_rights(&master).await.unwrap();
}
