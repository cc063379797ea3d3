//! The shared state of a server. Admission, verbs, tables and the router take a `&State`; it imports none of them.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU64},
};

use ironclad_seam::Seam;
use ironclad_store::{Compare, Expiry, Key, Op, Revision, Store, StoreError, TxnResult};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{
    Options, TokenKey,
    aggregation::apis::Aggregation,
    answer_budget::AnswerBudget,
    auth::rbac::Bindings,
    cached::Cached,
    crd::Definition,
    object,
    policies::Policies,
    quota::turns::Turns,
    registry::{Group, Lookup, Registry, Resource},
    status::{ApiError, error_chain},
    webhooks::Webhooks,
};

/// The server's options, store and registry, and what is cached of the store.
pub(crate) struct State {
    pub(crate) options: Options,
    pub(crate) store: Store,
    pub(crate) seam: Seam,
    pub(crate) registry: Registry,
    /// Notified when CRDs change what is served.
    pub(crate) registry_changed: Arc<Notify>,
    /// Locked while the registry is rebuilt.
    pub(crate) refreshing: Mutex<()>,
    /// The CRDs as they were last read, by key.
    pub(crate) definitions: Mutex<BTreeMap<Key, Arc<Definition>>>,
    pub(crate) token_key: TokenKey,
    /// AnswerBudget for answers to clients over the network.
    pub(crate) answers: AnswerBudget,
    /// Groups that routes and other servers serve.
    pub(crate) aggregation: Aggregation,
    /// Turns of the writes that are charged to quotas.
    pub(crate) quota_turns: Turns,
    webhooks: Cached<Webhooks>,
    policies: Cached<Policies>,
    rbac: Cached<Bindings>,
    /// Number of objects that were decoded for the selectors of watches.
    pub(crate) decoded_for_watches: AtomicU64,
    /// Number of requests that were answered, by verb and code.
    pub(crate) answered: Mutex<BTreeMap<(&'static str, u16), u64>>,
}

impl State {
    pub(crate) fn new(options: Options, store: Store, seam: Seam, builtin: &'static [Group]) -> Self {
        let token_key = options.token_key.clone().unwrap_or_else(|| {
            let mut secret = [0; 32];
            seam.rng.stream("token-key").fill(&mut secret);
            TokenKey::secret(&secret)
        });
        Self {
            answers: AnswerBudget::new(options.bounds.answer_bytes),
            options,
            store,
            seam,
            registry: Registry::new(builtin),
            registry_changed: Arc::new(Notify::new()),
            refreshing: Mutex::new(()),
            definitions: Mutex::default(),
            token_key,
            aggregation: Aggregation::default(),
            quota_turns: Turns::default(),
            webhooks: Cached::default(),
            policies: Cached::default(),
            rbac: Cached::default(),
            decoded_for_watches: AtomicU64::new(0),
            answered: Mutex::default(),
        }
    }

    /// The webhooks of users, read from the store after each change.
    pub(crate) fn webhooks(&self) -> Arc<Webhooks> {
        self.webhooks.get(|| Webhooks::read(&self.store, &self.registry))
    }

    /// The admission policies of users, read from the store after each change.
    pub(crate) fn policies(&self) -> Arc<Policies> {
        self.policies.get(|| Policies::read(&self.store, &self.registry))
    }

    /// The RBAC bindings with their rules, read from the store after each change.
    pub(crate) fn bindings(&self) -> Arc<Bindings> {
        self.rbac.get(|| Bindings::read(&self.store, &self.registry))
    }

    /// A webhook configuration, admission policy or binding was written.
    pub(crate) fn admission_changed(&self) {
        self.webhooks.changed();
        self.policies.changed();
    }

    /// A role or binding was written.
    pub(crate) fn rbac_changed(&self) {
        self.rbac.changed();
    }

    /// The wall clock in whole seconds, as metadata carries it.
    pub(crate) fn now(&self) -> String {
        self.seam.clock.wall_seconds().to_string()
    }

    pub(crate) fn uid(&self) -> String {
        self.seam.rng.uuid()
    }

    /// Five letters for generateName.
    pub(crate) fn suffix(&self) -> String {
        self.seam.rng.stream("names").suffix(5)
    }

    pub(crate) fn set_revision(&self, value: &mut Value, revision: Revision) {
        object::metadata_mut(value).insert("resourceVersion".into(), json!(revision.to_string()));
    }

    pub(crate) async fn txn(&self, compares: Vec<Compare>, ops: Vec<Op>) -> Result<TxnResult, ApiError> {
        self.store.txn(compares, ops).await.map_err(|e| match e {
            StoreError::ValueTooLarge { .. } => ApiError::unclassified("etcdserver: request is too large"),
            StoreError::Closed => ApiError::new(503, "ServiceUnavailable", e.to_string()),
            StoreError::ReadOnly { .. } => ApiError::internal(error_chain(&e)),
            other => ApiError::internal(other),
        })
    }

    /// True while this very version of a resource is served.
    pub(crate) fn still_served(&self, resource: &Resource) -> bool {
        let Some(custom) = resource.custom() else { return true };
        match self.registry.find(&resource.group, &resource.version, &resource.plural) {
            Lookup::Resource(now) => now.custom().is_some_and(|c| c.identity == custom.identity || c.terminating),
            _ => false,
        }
    }

    /// A built-in object as it is stored.
    pub(crate) fn builtin_object(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let resource = self.registry.builtin(group, plural)?;
        let entry = self.store.get(&resource.key(namespace, name))?;
        object::decode(&entry.value, entry.modified).ok()
    }

    /// The change that stores an object of this resource.
    pub(crate) fn put(&self, resource: &Resource, key: String, value: &Value) -> Result<Op, ApiError> {
        check_depth(resource, value)?;
        let bytes = object::encode(value);
        let expires = resource.time_to_live().and_then(|ttl| {
            let now = u64::try_from(self.seam.clock.wall().as_second()).unwrap_or(0);
            Expiry::at_unix_seconds(now + ttl.as_secs())
        });
        Ok(Op::Put { key: key.into(), value: bytes, expires })
    }
}

/// Refuses an object that is nested too deeply for the decoders of those who read it.
pub(crate) fn check_depth(resource: &Resource, value: &Value) -> Result<(), ApiError> {
    if !object::is_too_deep(value) {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "{} {:?} would be nested deeper than {} levels, of which metadata.managedFields repeats those of the object: \
         nest it less, or store the nested part as text",
        resource.plural,
        object::meta_str(value, "name"),
        object::DEPTH_MAX
    )))
}
