//! Descriptions of built-in kinds and their fields, as a real kube-apiserver publishes them.
//!
//! The texts are most of the bytes of all documents and are read only to make one, so they are kept packed.

use std::{
    collections::BTreeMap,
    io::Read as _,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

static PACKED: &[u8] = include_bytes!("../../data/kubernetes-descriptions.json.gz");

/// The texts by schema and field.
#[derive(Debug)]
pub(super) struct Descriptions(BTreeMap<String, BTreeMap<String, String>>);

impl Descriptions {
    /// The texts, unpacked while in use.
    pub(super) fn get() -> Arc<Self> {
        static HELD: Mutex<Weak<Descriptions>> = Mutex::new(Weak::new());
        let mut held = HELD.lock();
        held.upgrade().unwrap_or_else(|| {
            let unpacked = Arc::new(Self::unpack());
            *held = Arc::downgrade(&unpacked);
            unpacked
        })
    }

    fn unpack() -> Self {
        let mut text = String::new();
        flate2::read::GzDecoder::new(PACKED)
            .read_to_string(&mut text)
            .expect("the data in the tree is gzipped JSON, a test reads it");
        Self(serde_json::from_str(&text).expect("the data in the tree has this form, a test reads it"))
    }

    /// The description of a field, or of the schema itself under the empty name.
    pub(super) fn of(&self, schema: &str, field: &str) -> Option<&str> {
        self.0.get(schema)?.get(field).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_explained() {
        let texts = Descriptions::get();
        for (schema, field, want) in [
            ("io.k8s.api.apps.v1.Deployment", "", "Deployment enables declarative updates for Pods and ReplicaSets."),
            ("io.k8s.api.apps.v1.DeploymentSpec", "replicas", "Number of desired pods."),
        ] {
            let text = texts.of(schema, field).unwrap_or_default();
            assert!(text.starts_with(want), "{schema} {field}: {text}");
        }
        assert_eq!(texts.of("io.k8s.api.apps.v1.DeploymentSpec", "nothing"), None);
        assert!(Arc::ptr_eq(&texts, &Descriptions::get()), "unpacked once for all who hold it");
    }
}
