//! CronJobs: creates a Job at each time of a schedule.

mod decide;

use std::sync::Arc;

use ironclad_runtime::{Api, EventAbout, EventType, Failure, Informer, Key, Next, Queue, Recorder, Writer};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::{
    ResourceExt as _,
    api::{ObjectMeta, PropagationPolicy},
};

use self::decide::{Seen, decide, job_name};
use crate::{
    Cluster,
    caches::{CRON_JOBS, JOBS},
    owner::{BY_CONTROLLER, controller_of, controller_reference},
    status_debounce::status_patch,
    workload::next,
};

const WORKERS: usize = 4;
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

#[derive(Clone)]
struct Controller {
    cluster: Cluster,
    crons: Informer<CronJob>,
    jobs: Informer<Job>,
    writer: Writer,
    recorder: Recorder,
}

pub(crate) fn start(cluster: &Cluster) {
    let (crons, jobs) = (cluster.caches.take(&CRON_JOBS), cluster.caches.take(&JOBS));
    let queue: Queue<Key> = cluster.queue("cronjob");
    let to = queue.clone();
    crons.on_change(move |change| {
        if let Some(cron) = change.new.as_ref() {
            to.add(Key::of(&**cron));
        }
    });
    let to = queue.clone();
    jobs.on_change(move |change| {
        for job in change.old.iter().chain(&change.new) {
            if let Some(owner) = controller_of(&job.metadata).filter(|r| r.kind == "CronJob") {
                to.add(Key::new(job.metadata.namespace.as_deref().unwrap_or(""), &owner.name));
            }
        }
    });
    let writer = Writer::new("cronjob-controller");
    let recorder = Recorder::new(cluster.client.clone(), &cluster.seam, "cronjob-controller");
    let controller = Controller { cluster: cluster.clone(), crons, jobs, writer, recorder };
    let ready = [controller.crons.when_synced(), controller.jobs.when_synced()];
    cluster.run("cronjob", queue, WORKERS, ready, move |key| {
        let controller = controller.clone();
        async move { controller.reconcile(&key).await }
    });
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let now = self.cluster.seam.clock.wall_seconds();
        let Some(cron) = self.crons.get_key(key) else { return Ok(Next::Forget) };
        let uid = cron.metadata.uid.as_deref().unwrap_or("");
        let seen = Seen { cron: cron.clone(), jobs: self.jobs.by_index(BY_CONTROLLER, uid) };
        let plan = decide(&seen, now);
        if let Some(invalid) = &plan.invalid {
            let about = EventAbout::of::<CronJob>(&cron.metadata);
            self.recorder.record(&about, EventType::Warning, invalid.reason, &invalid.message);
        }
        let jobs: Api<Job> = Api::namespaced(self.cluster.client.clone(), &key.namespace);
        for old in &plan.delete {
            self.writer.delete(&jobs, Some(&self.jobs), old, PropagationPolicy::Background).await?;
        }
        // Create the Job first. Its name contains its scheduled time, so that a crash before the status is written
        // creates no second one.
        if let Some(time) = plan.create {
            match self.writer.create(&jobs, Some(&self.jobs), &job(&cron, time)).await {
                Ok(_) | Err(Failure::AlreadyExists(_)) => {}
                Err(failure) => return Err(failure),
            }
        }
        if cron.status.as_ref() != Some(&plan.status) {
            let api: Api<CronJob> = Api::namespaced(self.cluster.client.clone(), &key.namespace);
            let patch = status_patch(cron.status.as_ref(), &plan.status);
            let version = cron.resource_version().unwrap_or_default();
            self.writer.patch_status(&api, Some(&self.crons), &cron.name_any(), &version, patch).await?;
        }
        Ok(next(None, plan.requeue_at, now))
    }
}

fn job(cron: &Arc<CronJob>, time: Timestamp) -> Job {
    let template = cron.spec.job_template.clone();
    let meta = template.metadata.unwrap_or_default();
    let mut annotations = meta.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED.to_owned(), time.to_string());
    Job {
        metadata: ObjectMeta {
            name: Some(job_name(cron.metadata.name.as_deref().unwrap_or(""), time)),
            namespace: cron.metadata.namespace.clone(),
            labels: meta.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference("batch/v1", "CronJob", &cron.metadata)]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}
