//! The objects that every cluster has from its first start: namespaces, roles and bindings.

use ironclad_store::{Compare, Op, StoreError};
use serde_json::json;

use crate::{auth, object, state::State};

/// Writes those that are missing.
pub(crate) async fn run(state: &State) -> Result<(), StoreError> {
    let Some(resource) = state.registry.builtin("", "namespaces") else { return Ok(()) };
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let key = resource.key("", name);
        if state.store.get(&key).is_some() {
            continue;
        }
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": name, "uid": state.uid(), "creationTimestamp": state.now(),
                "labels": {"kubernetes.io/metadata.name": name},
            },
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
        });
        let put = Op::put(key.as_str(), object::encode(&namespace));
        state.store.txn(vec![Compare::absent(key)], vec![put]).await?;
    }
    auth::bootstrap::run(state).await
}
