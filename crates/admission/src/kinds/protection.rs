//! Deletion protection: an object with the protection label cannot be deleted (specification/admission.md 5.4).

use ironclad_api::labels;
use serde_json::Value;

use super::lens::{label, text};
use crate::{
    Denial, Need, Request,
    request::{Config, Cx, Needs},
};

/// At most this many protected objects of a namespace are named in a refusal.
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

/// Refuses to delete a protected object.
pub(crate) fn delete(cx: &Cx<'_>) -> Result<(), Denial> {
    match cx.request.old {
        Some(old) if is_protected(old) => Err(Denial::forbidden(format!(
            "This resource is protected, please make sure to remove the label: {}",
            labels::DELETION_PROTECTED
        ))),
        _ => Ok(()),
    }
}

/// Looks up the protected objects of a namespace that is not being deleted yet.
pub(crate) fn needs_contents(request: &Request<'_>, config: &Config, needs: &mut Needs) {
    let going = request.old.is_some_and(|old| !text(old, "/metadata/deletionTimestamp").is_empty());
    if config.protect_namespace_contents && !going {
        needs.insert(contents(request.name));
    }
}

/// Refuses to delete a namespace with protected objects: it would stay Terminating after everything else in it was
/// deleted.
pub(crate) fn delete_namespace(cx: &Cx<'_>) -> Result<(), Denial> {
    let mut asked = Needs::new();
    needs_contents(cx.request, cx.config, &mut asked);
    let Some(need) = asked.first() else { return Ok(()) };
    let Some(found) = cx.lookups.get(need) else {
        return Err(Denial::failure(
            "the protected objects of the namespace could not be listed, so it is not known whether it may be deleted; try \
             again, or see the log for the kind that cannot be listed",
        ));
    };
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
