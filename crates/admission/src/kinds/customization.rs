//! ResourceInterpreterCustomization (specification/admission.md 5.6).

use ironclad_api::{annotations, config::ResourceInterpreterCustomization};
use ironclad_fleet::Gvk;
use ironclad_interpreter::{AutoscalerKind, Operation as Interpretation};
use serde_json::Value;

use super::lens::at;
use crate::{
    Denial, Need, Operation, Request, Resource,
    field::{Findings, Path},
    request::{Config, Cx, Needs, decode},
};

const CUSTOMIZATIONS: Resource = Resource {
    group: "config.karmada.io",
    version: "v1alpha1",
    kind: "ResourceInterpreterCustomization",
    plural: "resourceinterpretercustomizations",
};

/// The annotation that says that the kind is an autoscaler.
const ROW: &str = "/metadata/annotations/interpreter.ironclad.io~1autoscaler";

fn all() -> Need {
    Need::List { resource: CUSTOMIZATIONS, namespace: String::new() }
}

/// Looks up the other customizations: no two may have a script for the same kind and operation.
pub(crate) fn needs(request: &Request<'_>, _: &Config, needs: &mut Needs) {
    if !is_same(request) {
        needs.insert(all());
    }
}

/// Returns true if only metadata changes. Such a write is admitted, so that an old object can always be labelled or
/// deleted.
fn is_same(request: &Request<'_>) -> bool {
    request.operation == Operation::Update
        && matches!((request.old, request.object), (Some(old), Some(new)) if at(old, "/spec") == at(new, "/spec")
            && at(old, ROW) == at(new, ROW))
}

pub(crate) fn validate(object: &Value, cx: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    if is_same(cx.request) {
        return Ok(());
    }
    let customization: ResourceInterpreterCustomization = decode(object)?;
    let path = Path::new("spec");
    let target = &customization.spec.target;
    for (field, text) in [("apiVersion", &target.api_version), ("kind", &target.kind)] {
        let at = path.child("target").child(field);
        if text.is_empty() {
            out.required(at, "");
        } else if text.contains('*') {
            out.invalid(at, text, "must name one kind: patterns are not possible");
        }
    }
    let scripts: Vec<(Interpretation, &str)> = Interpretation::ALL
        .into_iter()
        .filter_map(|operation| Some((operation, operation.script(&customization.spec.customizations)?)))
        .filter(|(_, script)| !script.is_empty())
        .collect();
    let annotation = customization.metadata.annotations.as_ref().and_then(|all| all.get(annotations::AUTOSCALER));
    if let Some(text) = annotation {
        let gvk = Gvk::from_manifest(&target.api_version, &target.kind);
        if let Err(error) = AutoscalerKind::of_annotation(gvk, text) {
            let at = Path::new("metadata").child("annotations").key(annotations::AUTOSCALER);
            out.invalid(at, shown(text), &error.to_string());
        }
    } else if scripts.is_empty() {
        out.warn("spec.customizations has no script: the customization has no effect");
    }
    conflicts(&customization, &scripts, cx)?;
    let Some(check) = &cx.config.check_script else { return Ok(()) };
    for (operation, script) in &scripts {
        if let Err(error) = check(*operation, script) {
            let at = path.child("customizations").child(operation.rule()).child("luaScript");
            out.invalid(at, shown(script), &error.to_string());
        }
    }
    Ok(())
}

/// The beginning of a script, short enough for an error message.
fn shown(script: &str) -> &str {
    const CHARS_MAX: usize = 64;
    match script.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => &script[..end],
        None => script,
    }
}

/// Refuses a second script for a kind and operation. Dependency scripts are exempt: their results are merged.
fn conflicts(
    mine: &ResourceInterpreterCustomization,
    scripts: &[(Interpretation, &str)],
    cx: &Cx<'_>,
) -> Result<(), Denial> {
    let Some(others) = cx.lookups.get(&all()) else {
        return Err(Denial::failure("the other ResourceInterpreterCustomizations could not be listed; try again"));
    };
    for other in others {
        let Ok(other) = decode::<ResourceInterpreterCustomization>(other) else { continue };
        if other.metadata.name == mine.metadata.name || other.spec.target != mine.spec.target {
            continue;
        }
        let both = scripts.iter().find(|(operation, _)| {
            *operation != Interpretation::InterpretDependency
                && operation.script(&other.spec.customizations).is_some_and(|script| !script.is_empty())
        });
        if let Some((operation, _)) = both {
            return Err(Denial::forbidden(format!(
                "conflicting with ResourceInterpreterCustomization({}): both have a script of {operation} for {} {}; remove one",
                other.metadata.name.as_deref().unwrap_or_default(),
                mine.spec.target.api_version,
                mine.spec.target.kind,
            )));
        }
    }
    Ok(())
}
