//! What is marked against deletion stays until the mark is gone (admission.md 5.4).

use ironclad_api::labels;
use serde_json::Value;

use super::lens::{label, text};
use crate::{
    Denial, Need, Request,
    request::{Config, Cx, Needs},
};

/// So many of a namespace's protected objects are named.
const NAMED_MAX: usize = 5;

fn contents(namespace: &str) -> Need {
    Need::Labelled {
        key: labels::DELETION_PROTECTED,
        value: labels::DELETION_PROTECTED_ALWAYS,
        namespace: namespace.to_owned(),
        at_most: NAMED_MAX + 1,
    }
}

fn is_protected(object: &Value) -> bool {
    label(object, labels::DELETION_PROTECTED) == labels::DELETION_PROTECTED_ALWAYS
}

/// Marked objects may not go.
pub(crate) fn delete(cx: &Cx<'_>) -> Result<(), Denial> {
    match cx.request.old {
        Some(old) if is_protected(old) => Err(Denial::forbidden(format!(
            "This resource is protected, please make sure to remove the label: {}",
            labels::DELETION_PROTECTED
        ))),
        _ => Ok(()),
    }
}

/// A namespace that is not going yet is looked through.
pub(crate) fn needs_contents(request: &Request<'_>, config: &Config, needs: &mut Needs) {
    let going = request.old.is_some_and(|old| !text(old, "/metadata/deletionTimestamp").is_empty());
    if config.protect_namespace_contents && !going {
        needs.insert(contents(request.name));
    }
}

/// A namespace with marked objects may not go: it would stay Terminating, and take the others along.
pub(crate) fn delete_namespace(cx: &Cx<'_>) -> Result<(), Denial> {
    let found = cx.lookups.get(&contents(cx.request.name)).unwrap_or_default();
    if found.is_empty() {
        return Ok(());
    }
    let mut names: Vec<String> = found
        .iter()
        .take(NAMED_MAX)
        .map(|object| format!("{} {}", text(object, "/kind"), text(object, "/metadata/name")))
        .collect();
    if found.len() > NAMED_MAX {
        names.push("more".to_owned());
    }
    Err(Denial::forbidden(format!(
        "This namespace holds protected resources: {}; please make sure to remove the label: {}",
        names.join(", "),
        labels::DELETION_PROTECTED
    )))
}
