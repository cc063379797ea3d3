//! Adding and removing a finalizer of an object.

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

/// The object's finalizers without this one; `None` if the object does not have it.
#[must_use]
pub fn removed(metadata: &ObjectMeta, finalizer: &str) -> Option<Vec<String>> {
    let list = metadata.finalizers.as_deref().unwrap_or_default();
    let rest: Vec<_> = list.iter().filter(|one| *one != finalizer).cloned().collect();
    (rest.len() < list.len()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finalizer_is_added_and_removed_once() {
        let mut metadata = ObjectMeta { finalizers: Some(vec!["theirs".into()]), ..ObjectMeta::default() };
        assert_eq!(removed(&metadata, "ours"), None);
        add(&mut metadata, "ours");
        assert_eq!(added(&metadata, "ours"), None);
        assert_eq!(metadata.finalizers, Some(vec!["theirs".into(), "ours".into()]));
        assert_eq!(removed(&metadata, "ours"), Some(vec!["theirs".into()]));
    }
}
