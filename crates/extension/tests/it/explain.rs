//! The leader's state, served in front of the embedded server.

use std::sync::Arc;

use ironclad_admission::Config;
use ironclad_apiserver::Identity;
use ironclad_extension::explain::{Explain, Leader};
use ironclad_failover::{
    Evictions, Flags, Now,
    taint_manager::{Report, Row},
};
use ironclad_fleet::BindingKey;
use ironclad_planning::{
    history::{Of, Told},
    leader::{Configuration, EstimatorAnswer, QueuedBinding},
};
use ironclad_runtime::{Traffic, in_process_client};
use serde_json::{Value, json};

use crate::support::{plane, send};

const QUEUE: &str = "/apis/explain.ironclad.io/v1alpha1/schedulingqueue";
const EVICTIONS: &str = "/apis/explain.ironclad.io/v1alpha1/evictions";

struct Started;

impl Leader for Started {
    fn evictions(&self) -> Option<(Report, Vec<Row>)> {
        let now = Now { wall: jiff::Timestamp::UNIX_EPOCH, mono: std::time::Duration::ZERO };
        Some((Evictions::new(Flags::default(), now).report(now), Vec::new()))
    }

    fn autoscaler(&self, namespace: &str, name: &str) -> Option<serde_json::Value> {
        (namespace == "shop" && name == "web").then(|| serde_json::json!({"namespace": namespace, "name": name}))
    }

    fn estimates(&self, _: &BindingKey) -> Vec<EstimatorAnswer> {
        Vec::new()
    }

    fn scheduling_queue(&self) -> Option<Vec<QueuedBinding>> {
        Some(Vec::new())
    }

    fn configuration(&self) -> Option<Configuration> {
        None
    }

    fn history(&self, _: &Of) -> Option<Told> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn explain_requires_rbac_rights() {
    let plane = plane(Config::default(), &[]).await;
    let somebody = Identity::user("somebody", &["system:authenticated"]);
    let somebody = in_process_client(plane.server.in_process(somebody), Arc::new(Traffic::default()));
    let get = async |client, path| send(client, "GET", path, "application/json", &Value::Null).await;
    assert_eq!(get(&plane.client, EVICTIONS).await.0, 404, "nobody serves it yet");
    plane.server.mount(Arc::new(Explain::new(Arc::new(Started))));
    let (code, _, body) = get(&plane.client, EVICTIONS).await;
    assert_eq!((code, &body["items"]), (200, &json!([])), "{body}");
    assert_eq!(get(&somebody, EVICTIONS).await.0, 403);

    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "watcher"},
        "rules": [{"apiGroups": ["explain.ironclad.io"], "resources": ["schedulingqueue"], "verbs": ["get", "list"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "watcher"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "watcher"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "somebody"}]});
    for (plural, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{plural}");
        let (code, _, body) = send(&plane.client, "POST", &path, "application/json", &object).await;
        assert_eq!(code, 201, "{body}");
    }
    assert_eq!((get(&somebody, QUEUE).await.0, get(&somebody, EVICTIONS).await.0), (200, 403), "each by its own right");
}
