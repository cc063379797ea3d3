//! Who has a turn when the interpretation of a kind changes.

use std::collections::BTreeSet;

use ironclad_fleet::Gvk;
use ironclad_propagation::drift;

use crate::{
    Context,
    index::{BY_TEMPLATE, object_key, template_name},
    member_object,
};

/// All watched kinds that fit.
pub(crate) fn kinds(cx: &Context, fits: &dyn Fn(&Gvk) -> bool) {
    let mut all: BTreeSet<Gvk> = cx.templates.kinds().into_iter().collect();
    for member in cx.members.list() {
        all.extend(member.objects.kinds());
    }
    for gvk in all.iter().filter(|gvk| fits(gvk)) {
        kind(cx, gvk);
    }
}

/// Templates of a kind, their bindings, and their copies in members.
fn kind(cx: &Context, gvk: &Gvk) {
    if let Some((_, templates)) = cx.templates.watched(gvk) {
        for template in templates.list() {
            let key = object_key(gvk, &*template);
            for binding in cx.bindings.by_index(BY_TEMPLATE, &template_name(&key)) {
                let binding = binding.key();
                cx.queues.binding.add_replay(binding.clone());
                cx.queues.dependencies.add_replay(binding);
            }
            cx.queues.template_status.add_replay(key.clone());
            cx.queues.detector.add_replay(key);
        }
    }
    for member in cx.members.list() {
        let Some((_, objects)) = member.objects.watched(gvk) else { continue };
        let all = objects.list();
        if member_object::lacks(&cx.interpreter(), gvk, &all) {
            // The Works ask for the kind anew, and its list brings the objects.
            member.objects.renew(gvk);
        }
        for object in all {
            if let Some((_, work)) = drift::work_of(None, Some(&object.metadata)) {
                member.works.add_replay(work.into());
            }
            member.statuses.add_replay(object_key(gvk, &*object));
        }
    }
}
