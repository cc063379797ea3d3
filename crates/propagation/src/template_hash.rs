//! Hashes that show across restarts whether a template changed (specification/propagation.md 6.5,
//! specification/propagation.md 7.2; specification/propagation.md 31 row 9).

use serde_json::{Map, Value};

/// Annotation on a binding (ours): the [`TemplateHash`] of the template that it was last built from.
///
/// It distinguishes an edit from a status write, which must not cost a binding write (specification/propagation.md
/// 7.2), and keeps a lazy policy lazy across a restart.
pub const APPLIED_TEMPLATE: &str = "policy.ironclad.io/applied-template";

/// Annotation on a template (ours): the hash of its user's fields ([`TemplateHash::users`]) when a lazy policy
/// claimed it. While it is equal, the template waits for an edit and has no binding; a restart does not end the wait
/// (specification/propagation.md 6.5).
pub const AWAITS_EDIT: &str = "policy.ironclad.io/awaits-edit";

/// The one label of our domains that counts as the user's (specification/propagation.md 6.5).
const USERS_OWN: &str = ironclad_api::labels::SKIP_AUTO_PROPAGATION;

/// Two hashes of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TemplateHash {
    /// Hash of everything but status, managedFields, resourceVersion and generation.
    pub whole: u64,
    /// The same without labels and annotations that the control plane sets: the fields of the user.
    pub users: u64,
}

impl TemplateHash {
    /// Hashes a template.
    #[must_use]
    pub fn of(template: &Value) -> Self {
        let mut rest = Map::new();
        for (key, value) in template.as_object().into_iter().flatten() {
            if key != "status" && key != "metadata" {
                rest.insert(key.clone(), value.clone());
            }
        }
        let mut metadata = template.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        for field in ["managedFields", "resourceVersion", "generation"] {
            metadata.remove(field);
        }
        rest.insert("metadata".into(), Value::Object(metadata));
        let mut rest = Value::Object(rest);
        let whole = fingerprint(&rest);
        for map in ["labels", "annotations"] {
            if let Some(keys) = rest.pointer_mut(&format!("/metadata/{map}")).and_then(Value::as_object_mut) {
                keys.retain(|key, _| !is_control_planes(key));
                if keys.is_empty()
                    && let Some(metadata) = rest.get_mut("metadata").and_then(Value::as_object_mut)
                {
                    metadata.remove(map);
                }
            }
        }
        Self { whole, users: fingerprint(&rest) }
    }

    /// Text for the annotation.
    #[must_use]
    pub fn to_text(self) -> String {
        format!("{:016x}.{:016x}", self.whole, self.users)
    }

    /// The hash of the user's fields as text.
    #[must_use]
    pub fn users_text(self) -> String {
        format!("{:016x}", self.users)
    }

    /// Parses the annotation.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, users) = text.split_once('.')?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        Some(Self { whole: hex(whole)?, users: hex(users)? })
    }
}

fn is_control_planes(key: &str) -> bool {
    (key.contains(".karmada.io") && key != USERS_OWN) || key == AWAITS_EDIT
}

/// 64-bit FNV-1a over the JSON text. Keys are sorted, so equal values have equal hashes.
#[must_use]
pub fn fingerprint(value: &Value) -> u64 {
    struct Fnv(u64);
    impl std::io::Write for Fnv {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            for byte in bytes {
                self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    serde_json::to_writer(&mut hash, value).expect("a JSON value can be written to memory");
    hash.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hashes_ignore_status_and_bookkeeping() {
        let base = json!({"kind": "X", "metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "generation": 1, "labels": {"app": "a"}}, "spec": {"n": 1}});
        let (whole, users) = (TemplateHash::of(&base).whole, TemplateHash::of(&base).users);
        for (name, pointer, value, changes_whole, changes_users) in [
            ("status", "/status", json!({"n": 1}), false, false),
            ("resourceVersion", "/metadata/resourceVersion", json!("2"), false, false),
            ("generation", "/metadata/generation", json!(2), false, false),
            ("managedFields", "/metadata/managedFields", json!([1]), false, false),
            ("spec", "/spec/n", json!(2), true, true),
            ("a label of the user", "/metadata/labels/tier", json!("x"), true, true),
            ("a claim label", "/metadata/labels/propagationpolicy.karmada.io~1permanent-id", json!("x"), true, false),
            ("a claim annotation", "/metadata/annotations/propagationpolicy.karmada.io~1name", json!("x"), true, false),
            (
                "the one label of ours that is the user's",
                "/metadata/labels/namespace.karmada.io~1skip-auto-propagation",
                json!("true"),
                true,
                true,
            ),
            ("another uid", "/metadata/uid", json!("v"), true, true),
        ] {
            let mut changed = base.clone();
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            if changed.pointer(parent).is_none() {
                changed["metadata"]["annotations"] = json!({});
            }
            changed.pointer_mut(parent).unwrap()[key.replace("~1", "/")] = value;
            let content = TemplateHash::of(&changed);
            assert_eq!((content.whole != whole, content.users != users), (changes_whole, changes_users), "{name}");
        }
    }

    #[test]
    fn annotation_text_round_trips() {
        let content = TemplateHash::of(&json!({"a": 1}));
        assert_eq!(TemplateHash::parse(&content.to_text()), Some(content));
        for bad in ["", "1", "x.y", "1.g"] {
            assert_eq!(TemplateHash::parse(bad), None, "{bad}");
        }
    }
}
