//! Changes a JSON or YAML document stored as text in one field (specification/propagation.md 10.4, fieldOverrider).

use ironclad_api::policy::{FieldOverrider, ValuePatch};
use serde_json::Value;

/// Largest document that is parsed, in bytes.
const DOCUMENT_BYTES_MAX: usize = 1024 * 1024;

/// Parses the text, patches it, and writes it back. YAML loses its comments and the order of its keys.
pub(super) fn apply(manifest: &mut Value, overrider: &FieldOverrider) -> Result<(), String> {
    let path = &overrider.field_path;
    let field = manifest.pointer_mut(path).ok_or_else(|| format!("there is no field {path}"))?;
    let text = field.as_str().ok_or_else(|| format!("{path} is not a string"))?;
    if text.len() > DOCUMENT_BYTES_MAX {
        return Err(format!("{path} is longer than {DOCUMENT_BYTES_MAX} bytes"));
    }
    let changed = if !overrider.yaml.is_empty() {
        let mut document: Value =
            serde_saphyr::from_str(text).map_err(|e| format!("{path} is not YAML: {}", first_line(&e)))?;
        patch(&mut document, &overrider.yaml)?;
        serde_saphyr::to_string(&document).map_err(|e| format!("{path}: {}", first_line(&e)))?
    } else if !overrider.json.is_empty() {
        let mut document: Value = serde_json::from_str(text).map_err(|e| format!("{path} is not JSON: {e}"))?;
        patch(&mut document, &overrider.json)?;
        document.to_string()
    } else {
        String::new()
    };
    *field = changed.into();
    Ok(())
}

fn patch(document: &mut Value, patches: &[ValuePatch]) -> Result<(), String> {
    super::json_patch(document, patches.iter().map(|p| (p.sub_path.as_str(), p.operator, p.value.as_ref())))
}

fn first_line(error: &impl ToString) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
