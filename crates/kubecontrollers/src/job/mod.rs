//! Jobs: pods that run to completion.
//!
//! Finished pods are counted without the finalizer of `uncountedTerminatedPods`: that saves two writes per pod, and a
//! success that the status has shown is never forgotten.

mod decide;
mod indexes;

use std::sync::Arc;

use ironclad_patch::selector::LabelSelector;
use ironclad_runtime::{Failure, Key, Next};
use k8s_openapi::api::{
    batch::v1::{Job, JobStatus},
    core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector},
};
use kube::{Api, api::PropagationPolicy};

use self::decide::{Seen, decide, is_indexed};
pub(crate) use self::decide::{is_finished, is_successful};
use crate::{
    Cluster,
    caches::JOBS,
    owner::selector,
    pod_control::NewPod,
    pods::{from_template, name_base},
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

pub(crate) fn start(cluster: &Cluster) {
    let jobs = Workload::new(cluster, cluster.caches.take(&JOBS));
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
    let seen = Seen { job, pods: claims.mine.clone() };
    let plan = decide(&seen, now);
    let job = &*seen.job;
    let wait = jobs.write_status(key, job, &plan.status, plan.idle).await?;
    jobs.apply_claims(job, &claims).await?;
    if !plan.delete.is_empty() {
        jobs.control.delete(&job.metadata, &plan.delete).await?;
    }
    if !plan.create.is_empty() {
        jobs.control.create(&job.metadata, plan.create.iter().map(|place| pod(job, *place)).collect()).await?;
    }
    if plan.expire {
        let api: Api<Job> = Api::namespaced(jobs.cluster.client.clone(), &key.namespace);
        jobs.control.writer().delete(&api, Some(&jobs.objects), job, PropagationPolicy::Foreground).await?;
    }
    Ok(next(wait, plan.requeue_at, now))
}

fn pod(job: &Job, place: i32) -> NewPod {
    let mut pod = from_template(job.spec.as_ref().map(|s| &s.template), &job.metadata);
    pod.metadata.owner_references = Some(vec![Workload::reference(job)]);
    if is_indexed(job) {
        let index = place.to_string();
        let name = job.metadata.name.as_deref().unwrap_or("");
        pod.metadata.generate_name = Some(name_base(&format!("{name}-{index}")));
        pod.metadata.annotations.get_or_insert_default().insert(indexes::INDEX.to_owned(), index.clone());
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
