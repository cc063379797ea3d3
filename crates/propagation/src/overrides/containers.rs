//! Containers of the six kinds that overriders support (specification/propagation.md 10.4); init containers are not
//! included.

use ironclad_api::policy::{CommandArgsOverrider, SequenceOperator};
use serde_json::Value;

use crate::template;

/// The containers of a supported kind; `None` for other kinds.
pub(super) fn of(manifest: &mut Value) -> Option<&mut Vec<Value>> {
    let pointer = match template::text(manifest, "/kind") {
        "Pod" => "/spec/containers",
        "ReplicaSet" | "Deployment" | "DaemonSet" | "StatefulSet" | "Job" => "/spec/template/spec/containers",
        _ => return None,
    };
    manifest.pointer_mut(pointer)?.as_array_mut()
}

/// Changes `command` or `args` of the container; false if there is none with that name.
pub(super) fn change_list(manifest: &mut Value, list: &str, overrider: &CommandArgsOverrider) -> Result<bool, String> {
    let mut found = false;
    for container in of(manifest).into_iter().flatten() {
        if template::text(container, "/name") != overrider.container_name {
            continue;
        }
        found = true;
        let Some(container) = container.as_object_mut() else { continue };
        let items = container.entry(list).or_insert_with(|| Value::Array(Vec::new()));
        if items.is_null() {
            *items = Value::Array(Vec::new());
        }
        let items = items
            .as_array_mut()
            .ok_or_else(|| format!("{list} of container {} is not a list", overrider.container_name))?;
        match overrider.operator {
            SequenceOperator::Add => items.extend(overrider.value.iter().map(|value| Value::from(value.as_str()))),
            SequenceOperator::Remove => {
                items.retain(|item| !overrider.value.iter().any(|value| item.as_str() == Some(value)));
            }
        }
    }
    Ok(found)
}
