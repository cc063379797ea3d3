//! Adding a finalizer to an object.

use ironclad_api::ObjectMeta;

/// Adds the finalizer unless the object has it.
pub fn add(metadata: &mut ObjectMeta, finalizer: &str) {
    if let Some(list) = added(metadata, finalizer) {
        metadata.finalizers = Some(list);
    }
}

/// The object's finalizers with this one appended; `None` if the object has it.
#[must_use]
pub fn added(metadata: &ObjectMeta, finalizer: &str) -> Option<Vec<String>> {
    let list = metadata.finalizers.as_deref().unwrap_or_default();
    (!list.iter().any(|one| one == finalizer)).then(|| [list, &[finalizer.to_owned()]].concat())
}
