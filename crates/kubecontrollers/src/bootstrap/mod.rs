//! Bootstrap tokens, like kube-controller-manager: their signatures in ConfigMap `kube-public/cluster-info`, and their
//! end (specification/operations.md 10.4).

mod decide;
pub(crate) mod names;

use ironclad_runtime::{Api, Failure, Key, Next, Queue, Writer};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use self::{
    decide::{Plan, ends_at, signatures},
    names::{CLUSTER_INFO, INFO_NAMESPACE},
};
use crate::{
    Cluster,
    caches::{BOOTSTRAP_TOKENS, CLUSTER_INFOS},
    workload::next,
};

const WORKERS: usize = 1;

/// Starts the signer as tasks of the cluster's seam. Each change of a token or of the ConfigMap leads to one look at
/// all, and so does the end of a token.
pub(crate) fn start_signer(cluster: &Cluster) {
    let (tokens, infos) = (cluster.caches.take(&BOOTSTRAP_TOKENS), cluster.caches.take(&CLUSTER_INFOS));
    let queue: Queue<Key> = cluster.queue("bootstrap-signer");
    let to = queue.clone();
    tokens.on_change(move |_| to.add(Key::new(INFO_NAMESPACE, CLUSTER_INFO)));
    let to = queue.clone();
    infos.on_change(move |_| to.add(Key::new(INFO_NAMESPACE, CLUSTER_INFO)));
    let (of, writer) = (cluster.clone(), Writer::new("bootstrap-signer-controller"));
    let ready = [tokens.when_synced(), infos.when_synced()];
    cluster.run("bootstrap-signer", queue, WORKERS, ready, move |key| {
        let (of, tokens, infos, writer) = (of.clone(), tokens.clone(), infos.clone(), writer.clone());
        async move {
            let Some(info) = infos.get_key(&key) else { return Ok(Next::Forget) };
            let now = of.seam.clock.wall();
            let Plan { patch, again } = signatures(&info, &tokens.list(), now);
            if let Some(patch) = patch {
                let api: Api<ConfigMap> = Api::namespaced(of.client.clone(), &key.namespace);
                writer.patch(&api, Some(&infos), &info, patch).await?;
            }
            Ok(next(None, again, now))
        }
    });
}

/// Starts the cleaner as tasks of the cluster's seam. A Secret has an appointment at its end.
pub(crate) fn start_cleaner(cluster: &Cluster) {
    let tokens = cluster.caches.take(&BOOTSTRAP_TOKENS);
    let queue: Queue<Key> = cluster.queue("token-cleaner");
    let to = queue.clone();
    tokens.on_change(move |change| {
        if let Some(secret) = change.new.as_ref().filter(|secret| ends_at(secret).is_some()) {
            to.add(Key::of(&**secret));
        }
    });
    let (of, writer) = (cluster.clone(), Writer::new("token-cleaner-controller"));
    let ready = [tokens.when_synced()];
    cluster.run("token-cleaner", queue, WORKERS, ready, move |key| {
        let (of, tokens, writer) = (of.clone(), tokens.clone(), writer.clone());
        async move {
            let Some(secret) = tokens.get_key(&key) else { return Ok(Next::Forget) };
            let now = of.seam.clock.wall();
            let Some(end) = ends_at(&secret) else { return Ok(Next::Forget) };
            if now < end {
                return Ok(next(None, Some(end), now));
            }
            let api: Api<Secret> = Api::namespaced(of.client.clone(), &key.namespace);
            match writer.delete_unchanged(&api, Some(&tokens), &secret).await {
                Ok(()) | Err(Failure::NotFound(_)) => Ok(Next::Forget),
                Err(failure) => Err(failure),
            }
        }
    });
}
