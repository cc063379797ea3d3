//! CustomResourceDefinitions.

use serde_json::Value;

use crate::{
    context::Cx,
    crd::{self, lifecycle},
    kinds::kind::{FollowUp, Hooks, Kind},
    object,
    registry::strategy::Strategy,
    status::ApiError,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults: crd::default,
        validate: |o, old, out| out.extend(crd::validate(o, old)),
        any_finalizer: true,
        ..Strategy::NONE
    },
    hooks: Hooks { before_write, on_deletion_timestamp, after_write, ..Hooks::NONE },
    ..Kind::new(
        "apiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition C short=crd,crds ext gen +status",
    )
};

fn before_write(cx: &Cx, old: Option<&Value>, new: &mut Value) -> Result<(), ApiError> {
    let changed = |old: &Value| old.get("spec") != new.get("spec") || new.pointer("/status/conditions").is_none();
    if old.is_none_or(changed) {
        crd::set_conditions(new, &lifecycle::crds(&cx.state)?, &cx.state.now());
    }
    if old.is_none() {
        object::add_finalizer(new, crd::CLEANUP_FINALIZER);
    }
    Ok(())
}

fn on_deletion_timestamp(now: &str, crd: &mut Value) {
    crd::set_terminating(
        crd,
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        now,
    );
}

fn after_write(cx: &Cx, old: Option<&Value>, new: Option<&Value>) -> Result<Vec<FollowUp>, ApiError> {
    lifecycle::refresh_registry(&cx.state)?;
    let mut out = Vec::new();
    if let Some(new) = new
        && object::terminating(new)
        && !old.is_some_and(object::terminating)
    {
        out.push(FollowUp::CleanUpCrd(object::meta_str(new, "name").to_owned()));
    }
    out.push(FollowUp::SyncApiServices);
    Ok(out)
}
