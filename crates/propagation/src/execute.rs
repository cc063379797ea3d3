//! A Work's manifest becomes an object in its member, and goes with the Work (propagation.md 13, 31).
//!
//! The member is read before: nothing here knows whether a write will succeed. The effects stand in the order in which
//! they are to be sent, the report of success last; whoever sends them stops at the first that fails and reports
//! [`failed`] instead.

pub mod compare;
mod owner;
mod retention;
#[cfg(test)]
mod tests;

use ironclad_api::{
    Condition, Time, annotations,
    cluster::{ApiEnablement, Cluster},
    conditions::{self, work as types},
    events, finalizers,
    reasons::work as reasons,
    work::{ObjectReference, Work},
};
use ironclad_fleet::{Because, ClusterName, Event, ObjectKey, Plan, StatusPart, WorkKey, because::propagation::Reason};
use ironclad_interpreter::Interpreter;
use jiff::Timestamp;
use serde_json::{Value, json};

use self::owner::Owner;
use crate::{
    template::{self, Identity},
    works,
};

/// The longest message of a condition that a server takes.
const MESSAGE_BYTES_MAX: usize = 32_768;

/// One manifest's object in the member.
#[derive(Debug, Clone, Copy, Default)]
pub struct Member<'a> {
    /// The object as a whole, `None` if it is not there.
    pub object: Option<&'a Value>,
    /// The path of the replicas (`.spec.replicas`) where the kind has a scale subresource.
    pub replicas_path: Option<&'a str>,
}

/// What is seen of one Work.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The Work.
    pub work: &'a Work,
    /// Its cluster, `None` if there is no such Cluster.
    pub cluster: Option<&'a Cluster>,
    /// One for each manifest, in their order. They are looked at only while the cluster is Ready and dispatching (or
    /// deleting) is due: [`needs_member`] tells.
    pub members: &'a [Member<'a>],
    /// Answers about kinds.
    pub interpreter: &'a Interpreter,
    /// The wall clock.
    pub now: Timestamp,
}

/// What a parked Work waits for, without counting tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Park {
    /// The cluster becomes Ready (deletions first, then).
    UntilReady,
    /// What the member serves changes.
    UntilApis,
    /// The member object that is being deleted is gone.
    UntilGone,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Create the object in the member.
    Create {
        /// The whole object.
        object: Value,
    },
    /// Replace the object in the member.
    Replace {
        /// The whole object, with the resourceVersion that was seen.
        object: Value,
    },
    /// Merge patch of the object in the member.
    Patch {
        /// Which one.
        key: ObjectKey,
        /// With the resourceVersion that was seen.
        patch: Value,
    },
    /// Delete the object in the member, with background propagation. Not found is success.
    Delete {
        /// Which one.
        key: ObjectKey,
        /// Only if it still is this one.
        uid: String,
    },
    /// A part for the Work's status writer.
    Status(StatusPart),
    /// Merge patch of the Work: the end of its finalizer.
    PatchWork {
        /// Without resourceVersion.
        patch: Value,
    },
    /// Wait for something to happen.
    Park(Park),
    /// Come again with back-off.
    Retry,
    /// Tell people.
    Event(Event),
}

/// Whether [`decide`] will look at the member, so that it has to be read.
#[must_use]
pub fn needs_member(work: &Work, cluster: Option<&Cluster>) -> bool {
    cluster.is_some_and(is_ready) && (work.metadata.deletion_timestamp.is_some() || !is_suspended(work))
}

/// The keys of the member objects, in the order of the manifests.
#[must_use]
pub fn member_keys(work: &Work) -> Vec<ObjectKey> {
    work.spec.workload.manifests.iter().map(|manifest| Identity::of(manifest).key()).collect()
}

/// Makes the member what the Work says. Quiet when it is.
pub fn decide(seen: &Seen<'_>) -> Plan<Effect> {
    let mut plan = Plan::default();
    let Some(key) = works::key_of(seen.work) else { return plan };
    if seen.work.metadata.deletion_timestamp.is_some() {
        deleted(&mut plan, seen, &key);
        return plan;
    }
    if is_suspended(seen.work) {
        let suspended = Because::from(Reason::Suspended { work: key });
        let condition = conditions::condition(
            types::DISPATCHING,
            conditions::FALSE,
            reasons::SUSPEND_DISPATCHING,
            suspended.to_string(),
        );
        status(&mut plan, seen.work, vec![condition], seen.now);
        plan.note(suspended);
        return plan;
    }
    let dispatching = conditions::condition(
        types::DISPATCHING,
        conditions::TRUE,
        reasons::DISPATCHING,
        "Work is being dispatched to member clusters.",
    );
    let Some(cluster) = seen.cluster.filter(|cluster| is_ready(cluster)) else {
        let mut list = vec![dispatching];
        let applied = conditions::is_true(current(seen.work), types::APPLIED);
        if applied {
            // What the copies do is unknown, not bad; what was reported last stays.
            let why = Because::from(Reason::ClusterNotReady { cluster: key.cluster.clone() });
            list.push(conditions::condition(types::AVAILABLE, conditions::UNKNOWN, why.reason(), why.to_string()));
        }
        status(&mut plan, seen.work, list, seen.now);
        plan.push(Effect::Park(Park::UntilReady), Reason::ClusterNotReady { cluster: key.cluster }.into());
        return plan;
    };
    apply_all(&mut plan, seen, cluster, &key, dispatching);
    plan
}

/// The report that a write to the member failed.
pub fn failed(work: &Work, error: &str, now: Timestamp) -> Plan<Effect> {
    let mut plan = Plan::default();
    let total = work.spec.workload.manifests.len();
    let refused = Refused { reason: reasons::APPLIED_FAILED, message: error.to_owned(), park: None };
    report_failure(&mut plan, work, &[refused], total, Vec::new(), now);
    plan
}

fn is_ready(cluster: &Cluster) -> bool {
    cluster.ready() == Some(conditions::TRUE)
}

fn is_suspended(work: &Work) -> bool {
    work.spec.suspend_dispatching == Some(true)
}

fn current(work: &Work) -> &[Condition] {
    work.status.as_ref().map_or(&[], |status| &status.conditions)
}

/// Wants the conditions, unless they stand already.
fn status(plan: &mut Plan<Effect>, work: &Work, mut list: Vec<Condition>, now: Timestamp) {
    for condition in &mut list {
        condition.last_transition_time = Time(whole_second(now));
    }
    let part = StatusPart { conditions: list, ..StatusPart::default() };
    if StatusPart::patch(&json!(work.status), &[&part]).is_some() {
        plan.effects.push(Effect::Status(part));
    }
}

pub(crate) fn whole_second(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).expect("the second of a timestamp is a timestamp")
}

/// Why a manifest is not in the member.
struct Refused {
    reason: &'static str,
    message: String,
    park: Option<Park>,
}

fn apply_all(plan: &mut Plan<Effect>, seen: &Seen<'_>, cluster: &Cluster, key: &WorkKey, dispatching: Condition) {
    let work = seen.work;
    let manifests = &work.spec.workload.manifests;
    let mut refused = Vec::new();
    let mut already_exists = None;
    for (i, manifest) in manifests.iter().enumerate() {
        let member = seen.members.get(i).copied().unwrap_or_default();
        match apply(plan, seen, cluster, key, manifest, &member) {
            Ok(Applied::Ours) => {}
            Ok(Applied::AlreadyExists(because)) => already_exists = Some(because),
            Err(why) => refused.push(why),
        }
    }
    let mut list = vec![dispatching];
    if conditions::get(current(work), types::AVAILABLE).is_some() {
        list.push(conditions::condition(types::AVAILABLE, conditions::TRUE, "ClusterReady", "the cluster is ready"));
    }
    if !refused.is_empty() {
        report_failure(plan, work, &refused, manifests.len(), list, seen.now);
        return;
    }
    let (reason, message) = match already_exists {
        Some(because) => (reasons::ALREADY_EXISTS, because.to_string()),
        None => (reasons::APPLIED_SUCCESSFUL, "Manifest has been successfully applied".to_owned()),
    };
    let mut applied = conditions::condition(types::APPLIED, conditions::TRUE, reason, message);
    applied.observed_generation = work.metadata.generation;
    list.push(applied);
    status(plan, work, list, seen.now);
    if let Some(before) = conditions::get(current(work), types::APPLIED)
        && before.status == conditions::FALSE
        && before.reason == reasons::APPLIED_FAILED
    {
        let message = format!("applied in cluster {}, after: {}", key.cluster, before.message);
        tell(plan, work, false, &message);
    }
}

fn report_failure(
    plan: &mut Plan<Effect>,
    work: &Work,
    refused: &[Refused],
    total: usize,
    mut list: Vec<Condition>,
    now: Timestamp,
) {
    let texts: Vec<&str> = refused.iter().map(|why| why.message.as_str()).collect();
    let ok = total.saturating_sub(refused.len());
    let mut message = format!("Failed to apply all manifests ({ok}/{total}): {}", texts.join("; "));
    if message.len() > MESSAGE_BYTES_MAX {
        let end = (0..=MESSAGE_BYTES_MAX - 4).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
        message.truncate(end);
        message.push_str("...");
    }
    let reason = match refused {
        [only] => only.reason,
        _ => reasons::APPLIED_FAILED,
    };
    let before = conditions::get(current(work), types::APPLIED);
    if before.is_none_or(|before| before.status != conditions::FALSE || before.message != message) {
        tell(plan, work, true, &message);
    }
    let mut applied = conditions::condition(types::APPLIED, conditions::FALSE, reason, message);
    applied.observed_generation = work.metadata.generation;
    list.push(applied);
    status(plan, work, list, now);
    // A try may succeed any time unless all that is in the way is known to end with an event.
    match refused.iter().map(|why| why.park).collect::<Option<Vec<_>>>() {
        Some(parks) => plan.effects.extend(parks.into_iter().map(Effect::Park)),
        None => plan.effects.push(Effect::Retry),
    }
}

/// The same event on the Work and on the template that it came from.
fn tell(plan: &mut Plan<Effect>, work: &Work, warn: bool, message: &str) {
    let on_work = ObjectReference {
        api_version: "work.karmada.io/v1alpha1".into(),
        kind: "Work".into(),
        namespace: work.metadata.namespace.clone().unwrap_or_default(),
        name: work.metadata.name.clone().unwrap_or_default(),
        uid: work.metadata.uid.clone().unwrap_or_default(),
        resource_version: String::new(),
    };
    let on_template = work.spec.workload.manifests.first().and_then(|manifest| {
        let uid = template::annotation(manifest, annotations::TEMPLATE_UID);
        (!uid.is_empty()).then(|| ObjectReference { uid: uid.to_owned(), ..Identity::of(manifest).reference() })
    });
    for about in std::iter::once(on_work).chain(on_template) {
        plan.effects.push(Effect::Event(if warn {
            Event::warning(about, events::SYNC_FAILED, message)
        } else {
            Event::normal(about, events::SYNC_SUCCEED, message)
        }));
    }
}

enum Applied {
    Ours,
    /// Somebody else's namespace is enough for what goes into it.
    AlreadyExists(Because),
}

fn apply(
    plan: &mut Plan<Effect>,
    seen: &Seen<'_>,
    cluster: &Cluster,
    key: &WorkKey,
    manifest: &Value,
    member: &Member<'_>,
) -> Result<Applied, Refused> {
    let identity = Identity::of(manifest);
    let object = identity.key();
    if cluster.api_enablement(identity.api_version, identity.kind) == ApiEnablement::Disabled {
        let api = identity.gvk().to_string();
        let because = Because::from(Reason::ApiNotInstalled { cluster: key.cluster.clone(), api });
        let message = format!("{because}: install it there, or place the workload elsewhere");
        plan.note(because);
        return Err(Refused { reason: reasons::API_NOT_INSTALLED, message, park: Some(Park::UntilApis) });
    }
    let Some(observed) = member.object else {
        plan.push(Effect::Create { object: manifest.clone() }, Reason::MemberObjectMissing { object }.into());
        return Ok(Applied::Ours);
    };
    if template::is_deleting(observed) {
        let because = Because::from(Reason::MemberObjectTerminating { object });
        let message = because.to_string();
        plan.note(because);
        return Err(Refused { reason: reasons::TERMINATING, message, park: Some(Park::UntilGone) });
    }
    let owner = owner::of(observed, manifest);
    let overwrite =
        template::annotation(manifest, annotations::CONFLICT_RESOLUTION) == annotations::CONFLICT_RESOLUTION_OVERWRITE;
    let is_namespace = identity.api_version == "v1" && identity.kind == "Namespace";
    match owner {
        Owner::Ours => {}
        Owner::Nobody if is_namespace && !overwrite => {
            let because = Because::from(Reason::NamespaceExists { object });
            plan.note(because.clone());
            return Ok(Applied::AlreadyExists(because));
        }
        Owner::Nobody if is_namespace => {
            let patch = owner::adoption(manifest, observed);
            plan.push(Effect::Patch { key: object.clone(), patch }, Reason::NotOurs { object, owner: None }.into());
            return Ok(Applied::Ours);
        }
        Owner::Nobody | Owner::Other(_) if overwrite => {}
        Owner::Nobody | Owner::Other(_) => {
            let owner = if let Owner::Other(other) = owner { Some(other) } else { None };
            let message = refusal(
                &identity,
                &key.cluster,
                template::annotation(manifest, annotations::CONFLICT_RESOLUTION),
                owner.as_deref(),
            );
            plan.note(Reason::NotOurs { object, owner }.into());
            return Err(Refused { reason: reasons::APPLIED_FAILED, message, park: None });
        }
    }
    let desired = retention::retain_metadata(manifest, observed);
    let ironclad_interpreter::Step::Done(desired) =
        seen.interpreter.retain(&desired, observed, member.replicas_path).map_err(|error| Refused {
            reason: reasons::APPLIED_FAILED,
            message: error.to_string(),
            park: None,
        })?;
    // A field that left the manifest stands in the member still, and no comparison of what the manifest has can see it:
    // a Work that changed since it was last applied is sent whole.
    let applied = conditions::get(current(seen.work), types::APPLIED);
    let sent = applied.is_some_and(|applied| {
        applied.status == conditions::TRUE && applied.observed_generation == seen.work.metadata.generation
    });
    match compare::difference(&desired, observed) {
        Some(at) => plan.push(Effect::Replace { object: desired }, Reason::MemberObjectDiffers { object, at }.into()),
        None if !sent && compare::has_more(&desired, observed) => {
            let at = "/".to_owned();
            plan.push(Effect::Replace { object: desired }, Reason::MemberObjectDiffers { object, at }.into());
        }
        None => plan.note(Because::UpToDate),
    }
    Ok(Applied::Ours)
}

/// The message of 13.2, with the strategy, the owner if known, and the remedy (row 19 of 31).
fn refusal(object: &Identity<'_>, cluster: &ClusterName, strategy: &str, owner: Option<&str>) -> String {
    let name = if object.namespace.is_empty() {
        object.name.to_owned()
    } else {
        format!("{}/{}", object.namespace, object.name)
    };
    let strategy = if strategy.is_empty() { annotations::CONFLICT_RESOLUTION_ABORT } else { strategy };
    let by = owner.map(|owner| format!(" (managed by {owner})")).unwrap_or_default();
    format!(
        "resource(kind={}, {name}) already exists in the cluster {cluster}{by} and the {} strategy value is {strategy}, \
         Karmada will not manage this resource: set conflictResolution to Overwrite to take it over, or remove it there",
        object.kind,
        annotations::CONFLICT_RESOLUTION,
    )
}

/// The member object goes, or is released, and then the finalizer (13.7).
fn deleted(plan: &mut Plan<Effect>, seen: &Seen<'_>, key: &WorkKey) {
    let work = seen.work;
    let list = work.metadata.finalizers.clone().unwrap_or_default();
    if !list.iter().any(|f| f == finalizers::EXECUTION_CONTROLLER) {
        return;
    }
    let leaving = seen.cluster.is_none_or(|cluster| cluster.metadata.deletion_timestamp.is_some());
    if seen.cluster.is_some_and(is_ready) {
        let preserve = work.spec.preserve_resources_on_deletion == Some(true);
        for (i, manifest) in work.spec.workload.manifests.iter().enumerate() {
            let observed = seen.members.get(i).and_then(|member| member.object);
            remove(plan, manifest, observed, preserve);
        }
    } else if leaving {
        plan.note(Reason::LeftBehind { cluster: key.cluster.clone() }.into());
    } else {
        plan.push(Effect::Park(Park::UntilReady), Reason::ClusterNotReady { cluster: key.cluster.clone() }.into());
        return;
    }
    let rest: Vec<&String> = list.iter().filter(|f| *f != finalizers::EXECUTION_CONTROLLER).collect();
    plan.effects.push(Effect::PatchWork { patch: json!({"metadata": {"finalizers": rest}}) });
}

fn remove(plan: &mut Plan<Effect>, manifest: &Value, observed: Option<&Value>, preserve: bool) {
    let key = Identity::of(manifest).key();
    let Some(observed) = observed else {
        plan.note(Because::Gone { object: key });
        return;
    };
    match owner::of(observed, manifest) {
        Owner::Ours => {}
        Owner::Nobody => return plan.note(Reason::NotOurs { object: key, owner: None }.into()),
        Owner::Other(other) => return plan.note(Reason::NotOurs { object: key, owner: Some(other) }.into()),
    }
    if preserve || owner::is_adopted(observed) {
        if let Some(patch) = owner::release(observed) {
            plan.push(Effect::Patch { key: key.clone(), patch }, Reason::Released { object: key }.into());
        }
    } else if template::is_deleting(observed) {
        plan.note(Reason::MemberObjectTerminating { object: key }.into());
    } else {
        let uid = template::text(observed, "/metadata/uid").to_owned();
        plan.push(Effect::Delete { key: key.clone(), uid }, Reason::MemberObjectDeleted { object: key }.into());
    }
}
