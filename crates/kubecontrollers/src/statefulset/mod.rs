//! StatefulSets: pods with stable names, an order, and their own storage.

mod claims;
mod decide;

use std::{collections::BTreeSet, sync::Arc};

use ironclad_patch::selector::LabelSelector;
use ironclad_runtime::{Api, Failure, Informer, Key, Next};
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec, StatefulSetStatus},
    core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume},
};
use kube::{ResourceExt as _, api::ObjectMeta};
use serde_json::{Value, json};

use self::{
    claims::{ClaimOwner, claim_owner, owner_references},
    decide::{Seen, decide, is_condemned, ordinal},
};
use crate::{
    Cluster,
    caches::{CLAIMS, REVISIONS, STATEFUL_SETS},
    history,
    owner::{BY_CONTROLLER, controller_reference, selector},
    pod_control::NewPod,
    pods::{from_template, labels},
    workload::{Kind, Workload, next},
};

/// Label with the name of the pod: Services for one pod select by it.
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

impl Kind for StatefulSet {
    const CONTROLLER: &'static str = "statefulset-controller";
    type Status = StatefulSetStatus;

    fn selector(&self) -> Option<LabelSelector> {
        selector(self.spec.as_ref().map(|s| &s.selector))
    }

    fn status(&self) -> Option<&StatefulSetStatus> {
        self.status.as_ref()
    }
}

pub(crate) fn start(cluster: &Cluster) {
    let sets = Workload::new(cluster, cluster.caches.take(&STATEFUL_SETS));
    let (revisions, claims) = (cluster.caches.take(&REVISIONS), cluster.caches.take(&CLAIMS));
    sets.run([revisions.when_synced(), claims.when_synced()], move |sets, key| {
        let (revisions, claims) = (revisions.clone(), claims.clone());
        async move { reconcile(&sets, &revisions, &claims, &key).await }
    });
}

async fn reconcile(
    sets: &Arc<Workload<StatefulSet>>,
    revisions: &Informer<ControllerRevision>,
    volume_claims: &Informer<PersistentVolumeClaim>,
    key: &Key,
) -> Result<Next, Failure> {
    let now = sets.cluster.seam.clock.wall_seconds();
    let Some((set, claims)) = sets.find(key) else { return Ok(Next::Forget) };
    let (meta, spec) = (&set.metadata, set.spec.clone().unwrap_or_default());
    let known = revisions.by_index(BY_CONTROLLER, meta.uid.as_deref().unwrap_or(""));
    let reported = set.status.as_ref().and_then(|s| s.current_revision.clone());
    let in_pods = claims.mine.iter().filter_map(|p| labels(&p.metadata).get(history::REVISION_LABEL).cloned());
    let used: BTreeSet<String> = in_pods.chain(reported.clone()).collect();
    let past = history::decide(meta, &spec.template, &known, spec.revision_history_limit, &used);
    let current = reported.filter(|name| known.iter().any(|r| r.name_any() == *name));
    let seen = Seen {
        set: set.clone(),
        pods: claims.mine.clone(),
        current: current.unwrap_or_else(|| past.update.clone()),
        update: past.update.clone(),
    };
    let plan = decide(&seen, now);
    let wait = sets.write_status(key, &set, &plan.status, plan.idle).await?;
    if meta.deletion_timestamp.is_some() {
        return Ok(Next::Forget);
    }
    sets.apply_claims(&set, &claims).await?;
    let (client, writer) = (&sets.cluster.client, sets.control.writer());
    history::apply(client, writer, revisions, meta, Workload::reference(&*set), &spec.template, &past).await?;
    // Before pods are deleted: their claims may have to go with them.
    for pod in &claims.mine {
        own_claims(sets, volume_claims, &set, &spec, pod).await?;
    }
    if !plan.delete.is_empty() {
        sets.control.delete(meta, &plan.delete).await?;
    }
    if !plan.create.is_empty() {
        let old = known.iter().find(|r| r.name_any() == seen.current).and_then(|r| history::template_of(r));
        let mut wanted = Vec::new();
        for (ordinal, revision) in &plan.create {
            let template =
                if *revision == seen.update { &spec.template } else { old.as_ref().unwrap_or(&spec.template) };
            make_claims(sets, &set, &spec, *ordinal).await?;
            wanted.push(pod(&set, &spec, template, *ordinal, revision));
        }
        sets.control.create(meta, wanted).await?;
    }
    Ok(next(wait, plan.requeue_at, now))
}

fn claim_name(template: &PersistentVolumeClaim, pod: &str) -> String {
    format!("{}-{pod}", template.metadata.name.as_deref().unwrap_or(""))
}

fn pod_name(set: &StatefulSet, ordinal: i32) -> String {
    format!("{}-{ordinal}", set.metadata.name.as_deref().unwrap_or(""))
}

/// Writes the owners of a pod's claims that the set's retention policy wants.
async fn own_claims(
    sets: &Workload<StatefulSet>,
    claims: &Informer<PersistentVolumeClaim>,
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    pod: &Pod,
) -> Result<(), Failure> {
    let Some(ordinal) = ordinal(set.metadata.name.as_deref().unwrap_or(""), pod) else { return Ok(()) };
    let wanted = claim_owner(spec.persistent_volume_claim_retention_policy.as_ref(), is_condemned(set, ordinal));
    let of_set = Workload::reference(set);
    let of_pod = controller_reference("v1", "Pod", &pod.metadata);
    let namespace = set.metadata.namespace.as_deref().unwrap_or("");
    let api: Api<PersistentVolumeClaim> = Api::namespaced(sets.cluster.client.clone(), namespace);
    for template in spec.volume_claim_templates.iter().flatten() {
        let name = claim_name(template, &pod.name_any());
        let claim = claims.get(namespace, &name).filter(|claim| claim.metadata.deletion_timestamp.is_none());
        let Some(claim) = claim else { continue };
        if let Some(owners) = owner_references(&claim.metadata, wanted, &of_set, &of_pod) {
            let owners = if owners.is_empty() { Value::Null } else { json!(owners) };
            let patch = json!({"metadata": {"uid": claim.metadata.uid, "ownerReferences": owners}});
            sets.control.writer().patch(&api, Some(claims), &claim, patch).await?;
        }
    }
    Ok(())
}

/// Creates the claims of a pod. Claims outlive their pods: an existing one is reused.
async fn make_claims(
    sets: &Workload<StatefulSet>,
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    ordinal: i32,
) -> Result<(), Failure> {
    let namespace = set.metadata.namespace.as_deref().unwrap_or("");
    let api: Api<PersistentVolumeClaim> = Api::namespaced(sets.cluster.client.clone(), namespace);
    for template in spec.volume_claim_templates.iter().flatten() {
        let mut labels = template.metadata.labels.clone().unwrap_or_default();
        labels.extend(spec.selector.match_labels.clone().unwrap_or_default());
        let policy = spec.persistent_volume_claim_retention_policy.as_ref();
        let owned = claim_owner(policy, is_condemned(set, ordinal)) == ClaimOwner::Set;
        let claim = PersistentVolumeClaim {
            metadata: ObjectMeta {
                owner_references: owned.then(|| vec![Workload::reference(set)]),
                name: Some(claim_name(template, &pod_name(set, ordinal))),
                namespace: set.metadata.namespace.clone(),
                labels: Some(labels),
                annotations: template.metadata.annotations.clone(),
                ..ObjectMeta::default()
            },
            spec: template.spec.clone(),
            status: None,
        };
        match sets.control.writer().create(&api, None, &claim).await {
            Ok(_) | Err(Failure::AlreadyExists(_)) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

fn pod(set: &StatefulSet, spec: &StatefulSetSpec, template: &PodTemplateSpec, ordinal: i32, revision: &str) -> NewPod {
    let mut pod = from_template(Some(template), &set.metadata);
    let name = pod_name(set, ordinal);
    pod.metadata.name = Some(name.clone());
    pod.metadata.owner_references = Some(vec![Workload::reference(set)]);
    let own = [(history::REVISION_LABEL, revision), (POD_NAME, name.as_str()), (POD_INDEX, &ordinal.to_string())]
        .map(|(k, v)| (k.to_owned(), v.to_owned()));
    pod.metadata.labels.get_or_insert_default().extend(own);
    let pod_spec = pod.spec.get_or_insert_default();
    pod_spec.hostname = Some(name.clone());
    pod_spec.subdomain = spec.service_name.clone().filter(|s| !s.is_empty());
    for claim in spec.volume_claim_templates.iter().flatten() {
        let volumes = pod_spec.volumes.get_or_insert_default();
        volumes.retain(|v| Some(&v.name) != claim.metadata.name.as_ref());
        volumes.push(Volume {
            name: claim.metadata.name.clone().unwrap_or_default(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim_name(claim, &name),
                read_only: None,
            }),
            ..Volume::default()
        });
    }
    NewPod { place: Some(ordinal.to_string()), pod }
}
