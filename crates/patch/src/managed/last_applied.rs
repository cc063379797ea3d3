//! The annotation of kubectl's client-side apply: its fields may be taken over without force.

use serde_json::Value;

use super::{Applied, Ref, Set, Tracker, compare, without_managed_fields};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The only manager that takes over fields from client-side apply.
const KUBECTL: &str = "kubectl";

fn annotation(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][ANNOTATION].as_str().filter(|text| !text.is_empty())
}

impl Tracker<'_> {
    /// Returns the fields that were applied client-side and still have those values.
    pub(super) fn allowed_by_last_applied<'l>(
        &self,
        live: Option<&'l Value>,
        manager: &str,
    ) -> Option<(Set, &'l Value)> {
        let live = live.filter(|_| manager == KUBECTL)?;
        let config: Value = serde_json::from_str(annotation(live)?).ok()?;
        let of = Ref::of(self.table, self.schema);
        if config["apiVersion"] != self.api_version || !of.misfits(&config, false).is_empty() {
            return None;
        }
        let changes = compare(of, &config, &without_managed_fields(live));
        let differing = changes.modified.union(&changes.added).union(&changes.removed);
        Some((of.fields(&config).difference(&differing), live))
    }

    pub(super) fn with_last_applied(&self, mut applied: Applied, config: &Value, manager: &str) -> Applied {
        if manager != KUBECTL || annotation(&applied.object).is_none() {
            return applied;
        }
        let mut config = config.clone();
        if let Some(annotations) = config["metadata"].get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(ANNOTATION);
        }
        let text = format!("{config}\n");
        if annotation(&applied.object) != Some(text.as_str()) {
            applied.object["metadata"]["annotations"][ANNOTATION] = Value::String(text);
            applied.changed = true;
        }
        applied
    }
}
