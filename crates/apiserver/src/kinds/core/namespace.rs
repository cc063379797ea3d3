//! Namespaces.

use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::{Hooks, Kind},
        shared::{
            columns::{AGE, NAME, created, name},
            defaults::{child, set},
            fields::text,
        },
    },
    names, object,
    registry::strategy::Strategy,
    status::ApiError,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults,
        prepare_create: Some(|o| {
            let Some(map) = o.as_object_mut() else { return };
            map.insert("status".into(), json!({"phase": "Active"}));
            let spec = map.entry("spec").or_insert_with(|| json!({}));
            spec["finalizers"] = json!(["kubernetes"]);
        }),
        prepare_update: |old, new| {
            if let Some(finalizers) = old.pointer("/spec/finalizers")
                && new.pointer("/spec/finalizers").is_none()
                && !object::terminating(old)
            {
                new["spec"]["finalizers"] = finalizers.clone();
            }
        },
        validate_name: names::dns_label,
        columns: &[NAME, ("Status", "string", 0), AGE],
        cells: |o, now| vec![name(o), json!(text(o, "/status/phase")), created(o, now)],
        selectable_fields: &["status.phase"],
        spec_finalizers: true,
        ..Strategy::NONE
    },
    hooks: Hooks {
        before_delete,
        on_deletion_timestamp: |_, o| o["status"]["phase"] = json!("Terminating"),
        ..Hooks::NONE
    },
    ..Kind::new("v1 namespaces Namespace C short=ns verbs=create,delete,get,list,patch,update,watch +finalize +status")
};

/// Namespaces that can't be deleted.
const UNDELETABLE: [&str; 3] = ["default", "kube-system", "kube-public"];

fn defaults(object: &mut Value) {
    let name = object::meta_str(object, "name").to_owned();
    let labels = child(child(object, "metadata"), "labels");
    labels["kubernetes.io/metadata.name"] = json!(name);
    set(child(object, "status"), "phase", "Active");
}

fn before_delete(namespace: &Value) -> Result<(), ApiError> {
    let name = object::meta_str(namespace, "name");
    if UNDELETABLE.contains(&name) {
        return Err(ApiError::forbidden("namespaces", "", name, "this namespace may not be deleted"));
    }
    Ok(())
}
