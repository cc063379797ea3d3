//! Writes into the member, in the order of the plan, and reports how it went.

use ironclad_api::conditions::{self, work::APPLIED};
use ironclad_fleet::{ObjectKey, Plan, StatusPart};
use ironclad_propagation::{
    execute::{self, Effect},
    template::Identity,
};
use ironclad_runtime::{Failure, Key, Next, Writer};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, PropagationPolicy},
};
use serde_json::Value;

use super::observe::{Object, Observed};
use crate::{Context, Member};

pub(super) async fn apply(
    cx: &Context,
    member: &Member,
    seen: &mut Observed,
    plan: Plan<Effect>,
) -> Result<Next, Failure> {
    let writer = Writer::new("execution");
    for because in &plan.because {
        tracing::debug!(cluster = %member.name, work = %seen.work.name_any(), %because, "executed");
    }
    match send(cx, member, seen, &writer, plan).await {
        Ok(next) => Ok(next),
        Err(Sent::Exists(key)) => {
            // The cache holds only what is ours: look at what stands there, and decide about that.
            look(member, seen, &key).await?;
            let plan = seen.decide(cx, execute::decide);
            match send(cx, member, seen, &writer, plan).await {
                Ok(next) => Ok(next),
                Err(Sent::Exists(key)) => Err(Failure::Conflict(format!("{key} comes and goes"))),
                Err(Sent::Failed(failure)) => report(cx, seen, failure),
            }
        }
        Err(Sent::Failed(failure)) => report(cx, seen, failure),
    }
}

/// Why a plan was not sent to its end.
enum Sent {
    /// A create met an object.
    Exists(ObjectKey),
    Failed(Failure),
}

impl From<Failure> for Sent {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

async fn send(
    cx: &Context,
    member: &Member,
    seen: &Observed,
    writer: &Writer,
    plan: Plan<Effect>,
) -> Result<Next, Sent> {
    let mut next = Next::Forget;
    for effect in plan.effects {
        match effect {
            Effect::Create { object } => {
                let (key, object) = parse(object)?;
                let created = writer.create(&api(member, seen, &key), cache(member, &key).as_ref(), &object).await;
                match created {
                    Ok(_) => {}
                    Err(Failure::AlreadyExists(_)) => return Err(Sent::Exists(key)),
                    Err(other) => return Err(Sent::Failed(other)),
                }
            }
            Effect::Replace { object } => {
                let (key, object) = parse(object)?;
                writer.replace(&api(member, seen, &key), cache(member, &key).as_ref(), &object).await?;
            }
            Effect::Patch { key, patch } => {
                if let Some(standing) = standing(seen, &key)? {
                    writer.patch(&api(member, seen, &key), cache(member, &key).as_ref(), &standing, patch).await?;
                }
            }
            Effect::Delete { key, uid } => {
                if let Some(standing) = standing(seen, &key)?.filter(|o| o.uid().as_deref() == Some(&uid)) {
                    let api = api(member, seen, &key);
                    let background = PropagationPolicy::Background;
                    writer.delete(&api, cache(member, &key).as_ref(), &standing, background).await?;
                }
            }
            Effect::Status(part) => {
                let uid = seen.work.metadata.uid.clone().unwrap_or_default();
                let urgent = is_bad_news(&part);
                cx.work_status.want(&Key::of(&*seen.work), &uid, "execution", part, urgent);
            }
            Effect::PatchWork { patch } => {
                let namespace = seen.work.metadata.namespace.clone().unwrap_or_default();
                let api = Api::namespaced(cx.plane.clone(), &namespace);
                match writer.patch(&api, Some(&cx.works), &*seen.work, patch).await {
                    Ok(_) | Err(Failure::NotFound(_)) => {}
                    Err(other) => return Err(Sent::Failed(other)),
                }
            }
            // What ends the wait gives the Work its next turn: the cluster's or the object's event.
            Effect::Park(_) => {}
            Effect::Retry => next = Next::Retry,
            Effect::Event(event) => cx.emit(&event),
        }
    }
    Ok(next)
}

/// Says on the Work what the member said, unless the world only moved on, and comes again.
fn report(cx: &Context, seen: &Observed, failure: Failure) -> Result<Next, Failure> {
    if failure.is_conflict() {
        return Err(failure);
    }
    let plan = seen.decide(cx, |seen| execute::failed(seen.work, &failure.to_string(), seen.now));
    let uid = seen.work.metadata.uid.clone().unwrap_or_default();
    for effect in plan.effects {
        match effect {
            Effect::Status(part) => {
                cx.work_status.want(&Key::of(&*seen.work), &uid, "execution", part, true);
            }
            Effect::Event(event) => cx.emit(&event),
            _ => {}
        }
    }
    Err(failure)
}

/// Reads one object of the member past the cache.
async fn look(member: &Member, seen: &mut Observed, key: &ObjectKey) -> Result<(), Failure> {
    let Some(object) = seen.objects.iter_mut().find(|object| object.key == *key) else { return Ok(()) };
    let api = object.served.api(&member.client, &key.namespace);
    object.present = match api.get_opt(&key.name).await? {
        Some(found) => Some(serde_json::to_value(&found).map_err(|e| Failure::Invalid(e.to_string()))?),
        None => None,
    };
    Ok(())
}

fn find<'a>(seen: &'a Observed, key: &ObjectKey) -> Option<&'a Object> {
    seen.objects.iter().find(|object| object.key == *key)
}

fn standing(seen: &Observed, key: &ObjectKey) -> Result<Option<DynamicObject>, Failure> {
    let present = find(seen, key).and_then(|object| object.present.clone());
    present.map(serde_json::from_value).transpose().map_err(|e| Failure::Invalid(e.to_string()))
}

fn parse(object: Value) -> Result<(ObjectKey, DynamicObject), Failure> {
    let key = Identity::of(&object).key();
    let object = serde_json::from_value(object).map_err(|e| Failure::Invalid(format!("{key}: {e}")))?;
    Ok((key, object))
}

fn api(member: &Member, seen: &Observed, key: &ObjectKey) -> Api<DynamicObject> {
    match find(seen, key) {
        Some(object) => object.served.api(&member.client, &key.namespace),
        // Every effect is about an object that was observed; were it not, the request would be refused by its path.
        None => Api::all_with(member.client.clone(), &kube::core::ApiResource::from_gvk(&gvk_of(key))),
    }
}

fn gvk_of(key: &ObjectKey) -> kube::api::GroupVersionKind {
    kube::api::GroupVersionKind::gvk(&key.gvk.group, &key.gvk.version, &key.gvk.kind)
}

fn cache(member: &Member, key: &ObjectKey) -> Option<ironclad_runtime::Informer<DynamicObject>> {
    member.objects.watched(&key.gvk).map(|(_, cache)| cache)
}

/// `Applied` False goes out at once (propagation.md 1.1).
fn is_bad_news(part: &StatusPart) -> bool {
    part.conditions.iter().any(|condition| condition.type_ == APPLIED && condition.status == conditions::FALSE)
}
