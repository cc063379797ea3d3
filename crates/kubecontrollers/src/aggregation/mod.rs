//! Aggregated ClusterRoles: their rules are those of the roles that their label selectors match.

mod decide;

use std::sync::Arc;

use ironclad_runtime::{Api, Change, Failure, Informer, Key, Next, Queue, Writer};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Client;
use serde_json::json;

use self::decide::{decide, takes};
use crate::{Cluster, caches::CLUSTER_ROLES};

const WORKERS: usize = 1;

struct Controller {
    client: Client,
    roles: Informer<ClusterRole>,
    writer: Writer,
}

pub(crate) fn start(cluster: &Cluster) {
    let controller = Arc::new(Controller {
        client: cluster.client.clone(),
        roles: cluster.caches.take(&CLUSTER_ROLES),
        writer: Writer::new("clusterrole-aggregation-controller"),
    });
    let queue: Queue<Key> = cluster.queue("aggregation");
    // The informer lives in the controller: a strong reference back would keep both for ever.
    let (to, of) = (queue.clone(), Arc::downgrade(&controller));
    controller.roles.on_change(move |change| {
        if let Some(of) = of.upgrade() {
            of.affected(change).into_iter().for_each(|key| to.add(key));
        }
    });
    let ready = [controller.roles.when_synced()];
    cluster.run("aggregation", queue, WORKERS, ready, move |key| {
        let controller = controller.clone();
        async move { controller.reconcile(&key).await }
    });
}

impl Controller {
    /// Returns the role itself, if it is aggregated, and the roles that aggregate it.
    fn affected(&self, change: &Change<ClusterRole>) -> Vec<Key> {
        let mut keys = Vec::new();
        let all = self.roles.list();
        for role in change.old.iter().chain(&change.new) {
            keys.extend(role.aggregation_rule.is_some().then(|| Key::of(&**role)));
            keys.extend(all.iter().filter(|aggregated| takes(aggregated, role)).map(|a| Key::of(&**a)));
        }
        keys
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(role) = self.roles.get_key(key) else { return Ok(Next::Forget) };
        if let Some(rules) = decide(&role, self.roles.list().iter()) {
            let api: Api<ClusterRole> = Api::all(self.client.clone());
            self.writer.patch(&api, Some(&self.roles), &role, json!({"rules": rules})).await?;
        }
        Ok(Next::Forget)
    }
}
