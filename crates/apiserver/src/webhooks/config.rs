//! Webhook configurations, read into what a write is compared with.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ironclad_store::{Query, Store};
use serde_json::Value;

use super::matcher::Matcher;
use crate::{object, registry::Registry};

pub(super) const GROUP: &str = "admissionregistration.k8s.io";

/// All webhooks in calling order: by configuration, then as listed in it.
#[derive(Debug, Default)]
pub(crate) struct Webhooks {
    pub(super) mutating: Vec<Hook>,
    pub(super) validating: Vec<Hook>,
}

/// One webhook.
#[derive(Debug)]
pub(super) struct Hook {
    pub(super) name: String,
    pub(super) client: Value,
    pub(super) ca_bundle: Option<Vec<u8>>,
    pub(super) matcher: Matcher,
    /// A call that fails refuses the write.
    pub(super) fails: bool,
    pub(super) timeout: Duration,
    /// It is called again when later ones change the object.
    pub(super) reinvoke: bool,
    /// It may be called for dry runs.
    pub(super) dry_run: bool,
}

impl Webhooks {
    pub(crate) fn read(store: &Store, registry: &Registry) -> Self {
        Self {
            mutating: hooks(store, registry, "mutatingwebhookconfigurations"),
            validating: hooks(store, registry, "validatingwebhookconfigurations"),
        }
    }
}

fn hooks(store: &Store, registry: &Registry, plural: &str) -> Vec<Hook> {
    let Some(resource) = registry.builtin(GROUP, plural) else { return vec![] };
    let Ok(range) = store.range(&Query::prefix(&resource.prefix)) else { return vec![] };
    let configurations = range.entries.iter().filter_map(|(_, e)| object::decode(&e.value, e.modified).ok());
    let hooks = configurations.flat_map(|c| c["webhooks"].as_array().cloned().unwrap_or_default());
    hooks.map(|hook| Hook::read(&hook)).collect()
}

impl Hook {
    fn read(hook: &Value) -> Self {
        let text = |key: &str| hook[key].as_str().unwrap_or_default();
        let seconds = hook["timeoutSeconds"].as_u64().unwrap_or(10).clamp(1, 30);
        let bundle = hook["clientConfig"]["caBundle"].as_str().filter(|b| !b.is_empty());
        Self {
            name: text("name").to_owned(),
            client: hook["clientConfig"].clone(),
            ca_bundle: bundle.and_then(|b| STANDARD.decode(b).ok()),
            matcher: Matcher::of_hook(hook),
            fails: text("failurePolicy") != "Ignore",
            timeout: Duration::from_secs(seconds),
            reinvoke: text("reinvocationPolicy") == "IfNeeded",
            dry_run: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
        }
    }
}
