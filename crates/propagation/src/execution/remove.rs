//! Deletes the object in the member with its Work, or releases it (specification/propagation.md 13.7;
//! specification/propagation.md 31 rows 2 and 3).

use std::time::Duration;

use ironclad_api::{annotations, cluster::ApiEnablement, finalizers, labels};
use ironclad_fleet::{Because, Plan, because::propagation::Reason, finalizer};
use serde_json::{Value, json};

use super::{
    object::{finished, object_key, serving_api},
    owner::{self, Owner},
    report,
    snapshot::{Context, Effect, Observed, Served, WantedAgain},
};
use crate::{
    template::{self, Identity},
    unified_auth,
};

/// Time after which an object is looked at again whose end is awaited, if no event tells of it.
const AWAITED_AGAIN: Duration = Duration::from_secs(5);

/// Suspension does not delay a deletion. The Work waits for the end of the member object only if new copies do.
pub(super) fn decide(plan: &mut Plan<Effect>, cx: &Context<'_>) {
    let work = cx.seen.work;
    let Some(rest) = finalizer::removed(&work.metadata, finalizers::EXECUTION_CONTROLLER) else { return };
    let leaves = cx.seen.cluster.is_none_or(|cluster| cluster.metadata.deletion_timestamp.is_some());
    let wanted = cx.seen.wanted_again;
    if let Some(object) = object_key(work).filter(|_| wanted != WantedAgain::No && !leaves) {
        if wanted == WantedAgain::Cached {
            // An object that is kept by mistake has no Work any more: nobody would delete it later.
            plan.effects.push(Effect::ReadBinding);
            return;
        }
        // Nothing is sent to the member, so it need not be reachable.
        plan.note(Reason::WantedAgain { object }.into());
    } else if let Some(because) = cx.unreachable() {
        if !leaves || cx.is_ready() {
            plan.push(Effect::Park, because);
            return;
        }
        plan.note(Reason::LeftBehind { cluster: cx.key.cluster.clone() }.into());
    } else if !cleaned(plan, cx) {
        return;
    }
    plan.effects.push(Effect::ReleaseWork { patch: json!({"metadata": {"finalizers": rest}}) });
}

/// Returns true if the member has no object of the Work once the plan's effects are applied.
fn cleaned(plan: &mut Plan<Effect>, cx: &Context<'_>) -> bool {
    let seen = cx.seen;
    // A Work without an object never applied one.
    let ([manifest], Some(key)) = (seen.work.spec.workload.manifests.as_slice(), object_key(seen.work)) else {
        return true;
    };
    let manifest = manifest.object();
    let identity = Identity::of(&manifest);
    let api = || identity.gvk().to_string();
    if seen.cluster.is_some_and(|c| {
        c.api_enablement(identity.api_version, identity.kind) == ApiEnablement::Disabled
            && serving_api(c, &identity.gvk()).is_none()
    }) {
        // Without the API there are no objects of the kind.
        plan.note(Reason::ApiNotInstalled { cluster: cx.key.cluster.clone(), api: api() }.into());
        return true;
    }
    if seen.served == Served::No {
        let because = Because::from(Reason::KindNotServed { api: api() });
        let message = format!("{because}: install it there until the Work is deleted");
        plan.note(because);
        report::not_removed(plan, cx, &message);
        return false;
    }
    match seen.object {
        // The cache may be late, or the answer to a create may be lost: look before the Work is released.
        Observed::Unknown | Observed::Uncached => {
            plan.push(Effect::Read(key.clone()), Reason::NotLookedUp { object: key }.into());
            return false;
        }
        Observed::Absent => plan.note(Because::Gone { object: key }),
        Observed::Cached { object: observed, .. } | Observed::Present(observed) => {
            if remove(plan, cx, &manifest, observed) && seen.is_awaited {
                plan.effects.push(Effect::RetryAfter(AWAITED_AGAIN));
                return false;
            }
        }
    }
    true
}

/// Returns true if the object is being deleted afterwards.
fn remove(plan: &mut Plan<Effect>, cx: &Context<'_>, manifest: &Value, observed: &Value) -> bool {
    let key = Identity::of(manifest).key();
    let owner = owner::of(observed, &finished(cx.seen.work, manifest));
    let managed = template::label(observed, labels::MANAGED) == labels::TRUE;
    if let (Owner::Other(_) | Owner::Nobody, _) | (_, false) = (&owner, managed) {
        // A removed managed label means that the object is to be kept.
        let owner = if let Owner::Other(other) = owner { Some(other) } else { None };
        plan.note(Reason::NotOurs { object: key, owner }.into());
        false
    } else if cx.seen.work.spec.preserve_resources_on_deletion == Some(true)
        || keeps_workloads_on_removal(cx, manifest)
        || owner::is_adopted(observed)
    {
        if let Some(patch) = owner::release(observed) {
            plan.push(Effect::PatchInMember { key: key.clone(), patch }, Reason::Released { object: key }.into());
        }
        false
    } else if template::is_deleting(observed) {
        plan.note(Reason::MemberObjectTerminating { object: key }.into());
        true
    } else {
        let uid = template::text(observed, "/metadata/uid").to_owned();
        plan.push(Effect::DeleteInMember { key: key.clone(), uid }, Reason::MemberObjectDeleted { object: key }.into());
        true
    }
}

/// Returns true if the member is removed and keeps the objects that were propagated to it (specification/operations.md
/// 2.4 `--keep-workloads`).
///
/// Checked here instead of being written into the Works: whichever controller created a Work, and whenever, its object
/// is never deleted in between. A Work that is deleted for other reasons while the member remains is not affected. The
/// impersonation rights are ours, not the user's, and are deleted.
fn keeps_workloads_on_removal(cx: &Context<'_>, manifest: &Value) -> bool {
    let Some(metadata) = cx.seen.cluster.map(|cluster| &cluster.metadata) else { return false };
    let kept = metadata.annotations.as_ref().and_then(|all| all.get(annotations::KEEP_WORKLOADS));
    metadata.deletion_timestamp.is_some()
        && kept.is_some_and(|value| value == labels::TRUE)
        && template::text(manifest, "/metadata/name") != unified_auth::NAME
}
