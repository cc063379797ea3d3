//! Creates or updates the object in the member (specification/propagation.md 13.1, specification/propagation.md 13.2;
//! specification/propagation.md 31 rows 7, 8, 15, 17, 19, 24, 27).

use ironclad_api::{annotations, cluster::ApiEnablement, labels, reasons::work as reasons, work::Manifest};
use ironclad_fleet::{Because, ObjectKey, Plan, because::propagation::Reason};
use serde_json::Value;

use super::{
    awaited, compare,
    comparison::Comparison,
    object::{finished, object_key},
    owner::{self, Owner},
    ownership, report, retention,
    snapshot::{Context, Effect, Observed, Served},
};
use crate::{
    services,
    template::{self, Identity},
};

pub(super) fn decide(plan: &mut Plan<Effect>, cx: &Context<'_>) {
    let seen = cx.seen;
    if seen.work.spec.suspend_dispatching == Some(true) {
        // A Work that reports to the control plane is not held back: it is never for the member.
        if services::reports(seen.work) {
            return;
        }
        let because = Because::from(Reason::Suspended { work: cx.key.clone() });
        report::suspended(plan, cx, &because);
        plan.note(because);
        return;
    }
    if let Some(because) = cx.unreachable() {
        report::waiting(plan, cx);
        plan.push(Effect::Park, because);
        return;
    }
    let manifests = seen.work.spec.workload.manifests.as_slice();
    let [stored] = manifests else {
        let because = Because::from(Reason::NotOneManifest { count: manifests.len() });
        let message = format!("{because}: make one Work for each object");
        plan.note(because);
        report::refused(plan, cx, &message);
        return;
    };
    let Some(key) = object_key(seen.work) else {
        let message = "spec.workload.manifests[0] needs kind and metadata.name".to_owned();
        report::refused(plan, cx, &message);
        plan.note(Reason::NotInterpreted { message }.into());
        return;
    };
    let raw = &stored.object();
    let identity = Identity::of(raw);
    let api = || identity.gvk().to_string();
    if seen.cluster.is_some_and(|c| c.api_enablement(identity.api_version, identity.kind) == ApiEnablement::Disabled) {
        let because = Because::from(Reason::ApiNotInstalled { cluster: cx.key.cluster.clone(), api: api() });
        let message = format!("{because}: install it there and the object is applied, or place it elsewhere");
        report::blocked(plan, cx, reasons::API_NOT_INSTALLED, &message);
        plan.push(Effect::Park, because);
        return;
    }
    if seen.served == Served::No {
        let because = Because::from(Reason::KindNotServed { api: api() });
        let message = format!("{because}: install its CRD there as well");
        plan.note(because);
        report::failure(plan, cx, &message);
        return;
    }
    let manifest = finished(seen.work, raw);
    match seen.object {
        Observed::Unknown => read(plan, key),
        // A member may forbid the create of an object that exists by other words than AlreadyExists.
        Observed::Uncached if report::is_refused(cx) => read(plan, key),
        Observed::Uncached | Observed::Absent => match awaited::wait(cx) {
            // A create would be refused, and users would see a failure that is none.
            Some(wait) => {
                let namespace = identity.namespace.to_owned();
                plan.push(
                    Effect::AwaitNamespace { namespace: namespace.clone(), by_others: false },
                    Reason::AwaitsNamespace { namespace }.into(),
                );
                plan.effects.push(Effect::RetryAfter(wait));
            }
            None => {
                let because = Reason::MemberObjectMissing { object: key }.into();
                plan.push(Effect::CreateInMember(manifest.into_owned()), because);
                applied(plan, cx);
            }
        },
        Observed::Cached { object, found } => {
            if is_for_an_update(plan, cx, &key, &manifest, object) {
                keep(plan, cx, key, (stored, &manifest), object, found);
            }
        }
        Observed::Present(object) => {
            if is_for_an_update(plan, cx, &key, &manifest, object) {
                update(plan, cx, key, &manifest, object);
            }
        }
    }
}

fn read(plan: &mut Plan<Effect>, key: ObjectKey) {
    plan.push(Effect::Read(key.clone()), Reason::NotLookedUp { object: key }.into());
}

/// Keeps the object if its content is known to match the manifest; otherwise reads the whole object.
fn keep(
    plan: &mut Plan<Effect>,
    cx: &Context<'_>,
    key: ObjectKey,
    (stored, manifest): (&Manifest, &Value),
    observed: &Value,
    found: Option<Comparison>,
) {
    let was_sent = report::was_sent(cx);
    // The comparison takes the member's replicas for those wanted, and zero may have to be left.
    let may_rise = !was_sent && template::label(manifest, labels::RETAIN_REPLICAS) == labels::TRUE;
    let content = !may_rise && found.is_some_and(|found| found.is_sufficient(stored, was_sent));
    let retained = retention::retain_metadata_of(manifest, observed);
    if content && compare::metadata_difference(&retained, observed).is_none() {
        plan.note(Because::UpToDate);
        applied(plan, cx);
    } else {
        read(plan, key);
    }
}

fn applied(plan: &mut Plan<Effect>, cx: &Context<'_>) {
    report::success(plan, cx, reasons::APPLIED_SUCCESSFUL, "Manifest has been successfully applied");
    report::end_of_contest(plan, cx);
}

/// Returns true if the object is ours or becomes ours, and is not being deleted. Otherwise adds effects to the plan.
fn is_for_an_update(
    plan: &mut Plan<Effect>,
    cx: &Context<'_>,
    object: &ObjectKey,
    manifest: &Value,
    observed: &Value,
) -> bool {
    if template::is_deleting(observed) {
        let because = Because::from(Reason::MemberObjectTerminating { object: object.clone() });
        let message = format!("{because}: it is made anew when that is done");
        report::blocked(plan, cx, reasons::TERMINATING, &message);
        plan.note(because);
        if !is_watched_for(observed, manifest) {
            plan.effects.push(Effect::Retry);
        }
        return false;
    }
    match owner::of(observed, manifest) {
        Owner::Ours => true,
        Owner::Other(other) => {
            let message = format!(
                "{}: two control planes or two Works claim it; delete one of the claims, or take the label {} off the \
                 object in the member to give it to this one",
                exists(cx, object, manifest, Some(&other)),
                labels::WORK_PERMANENT_ID,
            );
            report::failure(plan, cx, &message);
            plan.note(Reason::NotOurs { object: object.clone(), owner: Some(other) }.into());
            false
        }
        Owner::Nobody => adopt(plan, cx, object, manifest, observed),
    }
}

fn update(plan: &mut Plan<Effect>, cx: &Context<'_>, object: ObjectKey, manifest: &Value, observed: &Value) {
    let retained = retention::retain_metadata(manifest, observed);
    let merged = ownership::merge(&retained, observed);
    let mut desired = match cx.seen.interpreter.retain(&merged.object, observed) {
        Ok(desired) => desired,
        Err(error) => {
            let message = error.to_string();
            report::failure(plan, cx, &message);
            plan.note(Reason::NotInterpreted { message }.into());
            return;
        }
    };
    // Once for each Work: a member that scales to zero itself stays there.
    if !report::was_sent(cx) {
        cx.seen.interpreter.leave_zero_replicas(manifest, &mut desired);
    }
    // An element of a list that is replaced may have lost a field, which a comparison with the manifest's fields cannot
    // find. So a Work that changed since it was last applied is sent, unless the object has no other fields.
    let at = compare::difference(&desired, observed)
        .or(merged.removed)
        .or_else(|| if report::was_sent(cx) { None } else { compare::surplus(&desired, observed) });
    match at {
        Some(at) => {
            // If status is not a subresource, a PUT without it would remove what the member's controllers wrote.
            if let (Some(status), Some(desired)) = (observed.get("status"), desired.as_object_mut()) {
                desired.insert("status".into(), status.clone());
            }
            plan.push(Effect::ReplaceInMember(desired), Reason::MemberObjectDiffers { object, at }.into());
        }
        None => plan.note(Because::UpToDate),
    }
    applied(plan, cx);
}

/// Returns true if an unmanaged object may be replaced. Otherwise adds effects to the plan.
fn adopt(plan: &mut Plan<Effect>, cx: &Context<'_>, object: &ObjectKey, manifest: &Value, observed: &Value) -> bool {
    let overwrite = strategy(manifest) == annotations::CONFLICT_RESOLUTION_OVERWRITE;
    let is_namespace = object.gvk.group.is_empty() && &*object.gvk.kind == "Namespace";
    match (is_namespace, overwrite) {
        (false, true) => return true,
        (true, true) => {
            let patch = owner::adoption(manifest, observed);
            let because = Reason::NotOurs { object: object.clone(), owner: None }.into();
            plan.push(Effect::PatchInMember { key: object.clone(), patch }, because);
            applied(plan, cx);
        }
        (true, false) => {
            let because = Because::from(Reason::NamespaceExists { object: object.clone() });
            report::success(plan, cx, reasons::ALREADY_EXISTS, &because.to_string());
            plan.note(because);
        }
        (false, false) => {
            let owner = owner::likely_owner(observed);
            let message = format!(
                "{}: set the annotation {}: {} on the template or conflictResolution: Overwrite in its policy to take it \
                 over, or delete it in the member",
                exists(cx, object, manifest, owner.as_deref()),
                annotations::CONFLICT_RESOLUTION,
                annotations::CONFLICT_RESOLUTION_OVERWRITE,
            );
            report::failure(plan, cx, &message);
            plan.note(Reason::NotOurs { object: object.clone(), owner }.into());
        }
    }
    false
}

/// Refusal of an existing object. Clients of Karmada match on its first words (specification/propagation.md 31 row
/// 19).
fn exists(cx: &Context<'_>, object: &ObjectKey, manifest: &Value, owner: Option<&str>) -> String {
    let name = if object.namespace.is_empty() {
        object.name.to_string()
    } else {
        format!("{}/{}", object.namespace, object.name)
    };
    let value = match strategy(manifest) {
        "" => "not set, which means abort".to_owned(),
        value => format!("{value:?}"),
    };
    let by = owner.map(|owner| format!(", managed by {owner},")).unwrap_or_default();
    format!(
        "resource(kind={}, {name}) already exists in the cluster {}{by} and the {} strategy value is {value}, Karmada \
         will not manage this resource",
        object.gvk.kind,
        cx.key.cluster,
        annotations::CONFLICT_RESOLUTION,
    )
}

fn strategy(manifest: &Value) -> &str {
    template::annotation(manifest, annotations::CONFLICT_RESOLUTION)
}

/// Returns true if the deletion of the object reconciles the Work: the cache has the object, and it names the Work.
fn is_watched_for(observed: &Value, manifest: &Value) -> bool {
    let same = |key| template::annotation(observed, key) == template::annotation(manifest, key);
    template::label(observed, labels::MANAGED) == labels::TRUE
        && same(annotations::WORK_NAMESPACE)
        && same(annotations::WORK_NAME)
}
