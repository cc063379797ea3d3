//! The end of finished Jobs: their `ttlSecondsAfterFinished`.

use ironclad_runtime::{Api, Failure, Key, Next, Queue, Writer};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use kube::api::PropagationPolicy;

use crate::{Cluster, caches::JOBS, job::finished_at, workload::next};

const WORKERS: usize = 2;

pub(crate) fn start(cluster: &Cluster) {
    let jobs = cluster.caches.take(&JOBS);
    let queue: Queue<Key> = cluster.queue("ttl-after-finished");
    let to = queue.clone();
    jobs.on_change(move |change| {
        if let Some(job) = change.new.as_ref().filter(|job| ends_at(job).is_some()) {
            to.add(Key::of(&**job));
        }
    });
    let (cluster_of_jobs, writer) = (cluster.clone(), Writer::new("ttl-after-finished-controller"));
    let ready = [jobs.when_synced()];
    cluster.run("ttl-after-finished", queue, WORKERS, ready, move |key| {
        let (cluster, jobs, writer) = (cluster_of_jobs.clone(), jobs.clone(), writer.clone());
        async move {
            let Some(job) = jobs.get_key(&key) else { return Ok(Next::Forget) };
            let now = cluster.seam.clock.wall_seconds();
            let Some(end) = ends_at(&job) else { return Ok(Next::Forget) };
            if end > now {
                return Ok(next(None, Some(end), now));
            }
            let api: Api<Job> = Api::namespaced(cluster.client.clone(), &key.namespace);
            match writer.delete(&api, Some(&jobs), &*job, PropagationPolicy::Foreground).await {
                Ok(_) | Err(Failure::NotFound(_)) => Ok(Next::Forget),
                Err(failure) => Err(failure),
            }
        }
    });
}

/// The time at which a finished Job is to be deleted; `None` for one that is being deleted.
fn ends_at(job: &Job) -> Option<Timestamp> {
    let ttl = job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished)?;
    let finished = finished_at(job).filter(|_| job.metadata.deletion_timestamp.is_none())?;
    Some(finished.checked_add(SignedDuration::from_secs(i64::from(ttl))).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn finished_jobs_end_after_their_ttl() {
        let over = |type_: &str, status: &str| json!([{"type": type_, "status": status, "lastTransitionTime": "1970-01-01T00:01:40Z"}]);
        for (name, ttl, conditions, deletion, want) in [
            ("complete", json!(30), over("Complete", "True"), Value::Null, Some(130)),
            ("failed, at once", json!(0), over("Failed", "True"), Value::Null, Some(100)),
            ("without a ttl", Value::Null, over("Complete", "True"), Value::Null, None),
            ("it runs", json!(30), json!([]), Value::Null, None),
            ("it fails", json!(30), over("FailureTarget", "True"), Value::Null, None),
            ("not complete", json!(30), over("Complete", "False"), Value::Null, None),
            ("without a time", json!(30), json!([{"type": "Complete", "status": "True"}]), Value::Null, None),
            ("deleted", json!(30), over("Complete", "True"), json!("1970-01-01T00:01:50Z"), None),
        ] {
            let job: Job = serde_json::from_value(json!({
                "metadata": {"name": "j", "deletionTimestamp": deletion},
                "spec": {"ttlSecondsAfterFinished": ttl, "template": {}},
                "status": {"conditions": conditions},
            }))
            .unwrap();
            assert_eq!(ends_at(&job).map(Timestamp::as_second), want, "{name}");
        }
    }
}
