//! Comparison and hashes of pod templates.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;

const SAFE_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
pub(crate) const HASH_LABEL: &str = "pod-template-hash";

pub(crate) fn same_template(a: &PodTemplateSpec, b: &PodTemplateSpec) -> bool {
    let (a, b) = (without_hash(a), without_hash(b));
    a == b || canonical(&a) == canonical(&b)
}

fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    if let Some(labels) = template.metadata.as_mut().and_then(|m| m.labels.as_mut()) {
        labels.remove(HASH_LABEL);
    }
    template
}

/// Returns the template as JSON without empty lists and nulls: servers differ in keeping them.
fn canonical(template: &PodTemplateSpec) -> Value {
    let mut value = serde_json::to_value(template).unwrap_or_default();
    prune(&mut value);
    value
}

fn prune(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(prune);
            fields.retain(|_, v| match v {
                Value::Null => false,
                Value::Array(items) => !items.is_empty(),
                // An empty object can have a meaning, as in `emptyDir: {}`.
                _ => true,
            });
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

/// Hash of a template, in letters. It differs from Kubernetes', which hashes a dump of its own types.
pub(crate) fn hash(template: &PodTemplateSpec, collisions: i32) -> String {
    let mut hash = 0x811c_9dc5u32;
    let text = canonical(&without_hash(template)).to_string();
    for byte in text.bytes().chain(collisions.to_le_bytes()) {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    hash.to_string().bytes().map(|d| char::from(SAFE_LETTERS[usize::from(d) % SAFE_LETTERS.len()])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::template;

    #[test]
    fn a_collision_changes_the_name() {
        let template = template("web", "i:1");
        assert_ne!(hash(&template, 0), hash(&template, 1));
    }

    #[test]
    fn empty_lists_make_no_difference() {
        let template = template("web", "i:1");
        let mut with_empty = template.clone();
        with_empty.spec.as_mut().unwrap().volumes = Some(vec![]);
        assert!(same_template(&template, &with_empty));
        assert_eq!(hash(&template, 0), hash(&with_empty, 0));
    }
}
