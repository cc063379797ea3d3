//! Jobs: pods that run to completion.
//!
//! Pods have a finalizer until their end is counted ([`ends`]). Restarts of containers in a pod count against the
//! back-off limit too.

mod decide;
mod ends;
mod failure_policy;
mod indexes;

use std::{collections::BTreeMap, sync::Arc};

use futures::future::join_all;
use ironclad_patch::selector::LabelSelector;
use ironclad_runtime::{Api, Failure, Informer, Key, Next, Queue, Writer};
use k8s_openapi::api::{
    batch::v1::{Job, JobStatus},
    core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod},
};
use serde_json::{Value, json};

pub(crate) use self::decide::{finished_at, is_finished, is_successful};
use self::{
    decide::{Seen, decide, is_indexed},
    ends::{FINALIZER, INDEX_FAILURES, is_tracked, untracked},
};
use crate::{
    Cluster,
    caches::JOBS,
    owner::{BY_CONTROLLER, controller_of, selector},
    pod_control::NewPod,
    pods::{from_template, is_terminating, name_base},
    workload::{Kind, Workload, next},
};

impl Kind for Job {
    const CONTROLLER: &'static str = "job-controller";
    type Status = JobStatus;

    fn selector(&self) -> Option<LabelSelector> {
        selector(self.spec.as_ref().and_then(|s| s.selector.as_ref()))
    }

    fn status(&self) -> Option<&JobStatus> {
        self.status.as_ref()
    }
}

/// Workers that free pods without a Job.
const ORPHAN_WORKERS: usize = 2;
/// Concurrent patches of one Job's pods.
const PATCHES_MAX: usize = 16;

pub(crate) fn start(cluster: &Cluster) {
    let jobs = Workload::new(cluster, cluster.caches.take(&JOBS));
    start_orphans(cluster, &jobs);
    jobs.run([], |jobs, key| async move { reconcile(&jobs, &key).await });
}

async fn reconcile(jobs: &Arc<Workload<Job>>, key: &Key) -> Result<Next, Failure> {
    let now = jobs.cluster.seam.clock.wall_seconds();
    let Some((job, claims)) = jobs.find(key) else { return Ok(Next::Forget) };
    // Another controller manages this Job.
    if job.spec.as_ref().is_some_and(|s| s.managed_by.as_deref().is_some_and(|by| by != "kubernetes.io/job-controller"))
    {
        return Ok(Next::Forget);
    }
    let awaited = jobs.control.awaited(job.metadata.uid.as_deref().unwrap_or(""));
    let seen = Seen { job, pods: claims.mine.clone(), awaited };
    let plan = decide(&seen, now);
    let job = &*seen.job;
    let wait = jobs.write_status(key, job, &plan.status, plan.idle).await?;
    jobs.apply_claims(job, &claims).await?;
    let (api, writer, pods) = (jobs.control.api(&job.metadata), jobs.control.writer(), jobs.control.pods());
    patch_all(writer, &api, pods, &plan.track, |pod| [untracked(pod), vec![FINALIZER.to_owned()]].concat()).await?;
    patch_all(writer, &api, pods, &plan.release, untracked).await?;
    // A withdrawn pod that is deleted while it has the finalizer would count as failed.
    patch_all(writer, &api, pods, &plan.withdraw, untracked).await?;
    let deleted = [plan.delete, plan.withdraw].concat();
    if !deleted.is_empty() {
        jobs.control.delete(&job.metadata, &deleted).await?;
    }
    if !plan.create.is_empty() {
        let wanted = plan.create.iter().map(|place| new_pod(job, *place, &plan.index_failures)).collect();
        jobs.control.create(&job.metadata, wanted).await?;
    }
    Ok(next(wait, plan.requeue_at, now))
}

/// Starts the loop that removes the finalizer of pods whose Job no longer exists, or that have no Job.
fn start_orphans(cluster: &Cluster, workload: &Arc<Workload<Job>>) {
    let (jobs, pods) = (workload.objects.clone(), workload.control.pods().clone());
    let queue: Queue<Key> = cluster.queue("job-orphans");
    let to = queue.clone();
    pods.on_change(move |change| {
        if let Some(pod) = change.new.as_ref().filter(|pod| is_tracked(pod)) {
            to.add(Key::of(&**pod));
        }
    });
    let (to, of) = (queue.clone(), pods.clone());
    jobs.on_change(move |change| {
        if let (Some(job), None) = (&change.old, &change.new) {
            let owned = of.by_index(BY_CONTROLLER, job.metadata.uid.as_deref().unwrap_or(""));
            owned.iter().filter(|pod| is_tracked(pod)).for_each(|pod| to.add(Key::of(&**pod)));
        }
    });
    let (client, writer) = (cluster.client.clone(), Writer::new(Job::CONTROLLER));
    let ready = [jobs.when_synced(), pods.when_synced()];
    cluster.run("job-orphans", queue, ORPHAN_WORKERS, ready, move |key| {
        let (client, jobs, pods, writer) = (client.clone(), jobs.clone(), pods.clone(), writer.clone());
        async move {
            let Some(pod) = pods.get_key(&key).filter(|pod| is_tracked(pod)) else { return Ok(Next::Forget) };
            let owner = controller_of(&pod.metadata).filter(|owner| owner.kind == "Job");
            let job = owner.and_then(|owner| jobs.get(&key.namespace, &owner.name).zip(Some(owner)));
            if job.is_none_or(|(job, owner)| job.metadata.uid.as_ref() != Some(&owner.uid)) {
                let api: Api<Pod> = Api::namespaced(client, &key.namespace);
                patch(&writer, &api, &pods, &pod, untracked(&pod)).await?;
            }
            Ok(Next::Forget)
        }
    });
}

/// Replaces the finalizers of these pods.
async fn patch_all(
    writer: &Writer,
    api: &Api<Pod>,
    cache: &Informer<Pod>,
    pods: &[Arc<Pod>],
    finalizers: impl Fn(&Pod) -> Vec<String>,
) -> Result<(), Failure> {
    for batch in pods.chunks(PATCHES_MAX) {
        let answers = join_all(batch.iter().map(|pod| patch(writer, api, cache, pod, finalizers(pod)))).await;
        answers.into_iter().collect::<Result<Vec<()>, Failure>>()?;
    }
    Ok(())
}

async fn patch(
    writer: &Writer,
    api: &Api<Pod>,
    cache: &Informer<Pod>,
    pod: &Pod,
    finalizers: Vec<String>,
) -> Result<(), Failure> {
    if pod.metadata.finalizers.as_deref().unwrap_or_default() == finalizers {
        return Ok(());
    }
    let list = if finalizers.is_empty() { Value::Null } else { json!(finalizers) };
    // The answer about a pod that is being deleted may be its last version: the watch reports its deletion.
    let cache = (!is_terminating(pod)).then_some(cache);
    let change = json!({"metadata": {"uid": pod.metadata.uid, "finalizers": list}});
    match writer.patch(api, cache, pod, change).await {
        Ok(_) | Err(Failure::NotFound(_)) => Ok(()),
        Err(failure) => Err(failure),
    }
}

fn new_pod(job: &Job, place: i32, index_failures: &BTreeMap<i32, i32>) -> NewPod {
    let mut pod = from_template(job.spec.as_ref().map(|s| &s.template), &job.metadata);
    pod.metadata.finalizers.get_or_insert_default().push(FINALIZER.to_owned());
    pod.metadata.owner_references = Some(vec![Workload::reference(job)]);
    if is_indexed(job) {
        let index = place.to_string();
        let name = job.metadata.name.as_deref().unwrap_or("");
        pod.metadata.generate_name = Some(name_base(&format!("{name}-{index}")));
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(indexes::INDEX.to_owned(), index.clone());
        if job.spec.as_ref().is_some_and(|s| s.backoff_limit_per_index.is_some()) {
            let failures = index_failures.get(&place).copied().unwrap_or(0);
            annotations.insert(INDEX_FAILURES.to_owned(), failures.to_string());
        }
        pod.metadata.labels.get_or_insert_default().insert(indexes::INDEX.to_owned(), index.clone());
        let spec = pod.spec.get_or_insert_default();
        spec.hostname.get_or_insert(format!("{name}-{index}"));
        let variable = EnvVar {
            name: "JOB_COMPLETION_INDEX".into(),
            value: None,
            value_from: Some(EnvVarSource {
                field_ref: Some(ObjectFieldSelector {
                    api_version: None,
                    field_path: format!("metadata.annotations['{}']", indexes::INDEX),
                }),
                ..EnvVarSource::default()
            }),
        };
        for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
            container.env.get_or_insert_default().push(variable.clone());
        }
    }
    NewPod { place: is_indexed(job).then(|| place.to_string()), pod }
}
