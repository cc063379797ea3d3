//! What is seen of one Work and its objects in the member.

use std::{sync::Arc, time::Duration};

use ironclad_api::{cluster::Cluster, names, work::Work};
use ironclad_fleet::{ObjectKey, Plan};
use ironclad_interpreter::Interpreter;
use ironclad_propagation::execute::{self, Effect, Seen};
use ironclad_runtime::Failure;
use serde_json::Value;
use tokio::time::timeout;

use crate::{Context, Member, mapper::Served};

/// How long a pass waits for the first list of a kind; then it comes again with back-off.
const SYNC_DEADLINE: Duration = Duration::from_secs(10);

/// The snapshot.
pub(super) struct Observed {
    /// The Work; its version is the one to write over.
    pub(super) work: Arc<Work>,
    /// The Work with its status as it will stand.
    seen_work: Arc<Work>,
    cluster: Option<Arc<Cluster>>,
    /// What stands in the member for each manifest.
    pub(super) objects: Vec<Object>,
    interpreter: Interpreter,
}

/// One manifest's object in the member.
pub(super) struct Object {
    /// Which one.
    pub(super) key: ObjectKey,
    /// How its kind is served.
    pub(super) served: Arc<Served>,
    /// What stands there.
    pub(super) present: Option<Value>,
}

impl Observed {
    /// Decides over the snapshot.
    pub(super) fn decide(&self, cx: &Context, decide: impl FnOnce(&Seen<'_>) -> Plan<Effect>) -> Plan<Effect> {
        let members: Vec<execute::Member<'_>> = self
            .objects
            .iter()
            .map(|object| execute::Member { object: object.present.as_ref(), replicas_path: None })
            .collect();
        decide(&Seen {
            work: &self.seen_work,
            cluster: self.cluster.as_deref(),
            members: &members,
            interpreter: &self.interpreter,
            now: cx.seam.clock.wall_seconds(),
        })
    }
}

pub(super) async fn observe(cx: &Context, member: &Member, name: &str) -> Result<Option<Observed>, Failure> {
    let Some(work) = cx.works.get(&names::execution_namespace(&member.name.0), name) else { return Ok(None) };
    let seen_work = cx.work_as_written(&work);
    let cluster = cx.clusters.get("", &member.name.0);
    let mut objects = Vec::new();
    if execute::needs_member(&work, cluster.as_deref()) {
        for key in execute::member_keys(&work) {
            let Some(informer) = member.objects.informer(&key.gvk).await? else {
                return Err(Failure::Invalid(format!(
                    "the control plane does not serve {}, the kind of {key}: install its CustomResourceDefinition",
                    key.gvk
                )));
            };
            if timeout(SYNC_DEADLINE, informer.synced()).await.is_err() {
                let why = informer.trouble().unwrap_or_else(|| "no answer".to_owned());
                return Err(Failure::Unavailable(format!("listing {} in {}: {why}", key.gvk, member.name)));
            }
            let Some((served, _)) = member.objects.watched(&key.gvk) else { continue };
            let present = informer
                .get(&key.namespace, &key.name)
                .map(|object| serde_json::to_value(&*object))
                .transpose()
                .map_err(|e| Failure::Invalid(e.to_string()))?;
            objects.push(Object { key, served, present });
        }
    }
    Ok(Some(Observed { work, seen_work, cluster, objects, interpreter: cx.interpreter.clone() }))
}
