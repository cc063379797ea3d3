//! Kinds come and go with their CustomResourceDefinitions (propagation.md 2).

use std::{sync::Arc, time::Duration};

use ironclad_runtime::Change;
use kube::ResourceExt as _;

use crate::{Context, caches::Definition, policy};

/// Kinds of aggregated API servers come without a definition: those that somebody waits for are asked for again after this
/// time.
const ASK_AGAIN: Duration = Duration::from_secs(300);

/// Starts the look for kinds that come without a definition.
pub(crate) fn start(cx: &Arc<Context>) {
    let (weak, clock) = (Arc::downgrade(cx), cx.seam.clock.clone());
    cx.seam.tasks.spawn("kinds", async move {
        loop {
            clock.sleep(ASK_AGAIN).await;
            let Some(cx) = weak.upgrade() else { return };
            policy::wake_for_kinds(&cx);
        }
    });
}

/// A definition came, changed or went: what is served is asked for again, and nobody watches what is not.
pub(crate) fn on_definition(cx: &Arc<Context>, change: &Change<Definition>) {
    let Some(definition) = change.new.as_deref().or(change.old.as_deref()) else { return };
    let name = definition.name_any();
    let Some((plural, group)) = name.split_once('.') else { return };
    if change.new.is_none() {
        for gvk in cx.mapper.forget(plural, group) {
            cx.templates.stop(&gvk);
        }
        return;
    }
    // The first list tells nothing new: nothing was asked for yet.
    if cx.definitions.is_synced() {
        cx.mapper.forget(plural, group);
        cx.mapper.forget_absent();
        policy::wake_for_kinds(cx);
    }
}
