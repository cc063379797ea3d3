//! Targets of status writers: one [`StatusWriter`](ironclad_runtime::StatusWriter) for each kind of object.

use std::{future::Future, pin::Pin, sync::Arc};

use ironclad_api::{events::UPDATE_STATUS_FAILED, work::ObjectReference};
use ironclad_fleet::{Event, ObjectKey, StatusPart};
use ironclad_runtime::{Api, Current, Failure, Informer, Key, StatusTarget, Writer};
use kube::{Client, ResourceExt as _};
use serde_json::Value;

use crate::{events::Events, objects::Objects};

/// Objects of one of our kinds.
pub(crate) struct Typed<K> {
    /// The client of the control plane.
    pub(crate) client: Client,
    /// The cache of the kind.
    pub(crate) cache: Informer<K>,
    /// Writer of the status.
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    /// The API of the kind in a namespace.
    pub(crate) api: fn(&Client, &str) -> Api<K>,
    /// The status of an object, as JSON.
    pub(crate) status: fn(&K) -> Value,
}

impl<K> StatusTarget for Typed<K>
where
    K: ironclad_runtime::Object<DynamicType = ()>,
{
    type Key = Key;
    type Part = StatusPart;

    fn current(&self, key: &Key) -> Option<Current> {
        let object = self.cache.get_key(key)?;
        Some(Current {
            resource_version: object.resource_version().unwrap_or_default(),
            uid: object.uid().unwrap_or_default(),
            status: (self.status)(&object),
        })
    }

    fn merge(&self, current: &Value, parts: &[&StatusPart]) -> Option<Value> {
        StatusPart::patch(current, parts)
    }

    fn combine(&self, earlier: &StatusPart, later: &StatusPart) -> StatusPart {
        earlier.followed_by(later)
    }

    fn write(
        &self,
        key: &Key,
        resource_version: &str,
        patch: Value,
    ) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + '_>> {
        let api = (self.api)(&self.client, &key.namespace);
        let (key, base) = (key.clone(), resource_version.to_owned());
        Box::pin(async move {
            let written = self.writer.patch_status(&api, Some(&self.cache), &key.name, &base, patch).await.map(drop);
            let about = || {
                let uid = self.cache.get_key(&key).and_then(|object| object.uid()).unwrap_or_default();
                reference(&K::api_version(&()), &K::kind(&()), &key.namespace, &key.name, uid)
            };
            told(&self.events, about, written)
        })
    }
}

/// Templates of any kind.
pub(crate) struct Templates {
    /// The caches of the templates.
    pub(crate) objects: Arc<Objects>,
    /// Writer of the status.
    pub(crate) writer: Writer,
    pub(crate) events: Events,
}

impl StatusTarget for Templates {
    type Key = ObjectKey;
    type Part = StatusPart;

    fn current(&self, key: &ObjectKey) -> Option<Current> {
        let object = self.objects.get(key)?;
        Some(Current {
            resource_version: object.resource_version().unwrap_or_default(),
            uid: object.uid().unwrap_or_default(),
            status: object.data.get("status").cloned().unwrap_or(Value::Null),
        })
    }

    fn merge(&self, current: &Value, parts: &[&StatusPart]) -> Option<Value> {
        StatusPart::patch(current, parts)
    }

    fn combine(&self, earlier: &StatusPart, later: &StatusPart) -> StatusPart {
        earlier.followed_by(later)
    }

    fn write(
        &self,
        key: &ObjectKey,
        resource_version: &str,
        patch: Value,
    ) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + '_>> {
        let (key, base) = (key.clone(), resource_version.to_owned());
        Box::pin(async move {
            let Some((served, cache)) = self.objects.watched(&key.gvk) else {
                return Err(Failure::NotFound(format!("{key} is of a kind that is not served")));
            };
            let api = served.api(self.objects.client(), &key.namespace);
            let written = self.writer.patch_status(&api, Some(&cache), &key.name, &base, patch).await.map(drop);
            let about = || {
                let uid = self.objects.get(&key).and_then(|object| object.uid()).unwrap_or_default();
                reference(&key.gvk.api_version(), &key.gvk.kind, &key.namespace, &key.name, uid)
            };
            told(&self.events, about, written)
        })
    }
}

/// Records an event if the server never takes the status, for example since it is too large.
fn told(events: &Events, about: impl Fn() -> ObjectReference, written: Result<(), Failure>) -> Result<(), Failure> {
    if let Err(Failure::Invalid(message)) = &written {
        let message = format!("the status was not written: {message}");
        events.record(&Event::warning(about(), UPDATE_STATUS_FAILED, message));
    }
    written
}

fn reference(api_version: &str, kind: &str, namespace: &str, name: &str, uid: String) -> ObjectReference {
    ObjectReference {
        api_version: api_version.into(),
        kind: kind.into(),
        namespace: namespace.into(),
        name: name.into(),
        uid,
        resource_version: String::new(),
    }
}

/// A status as JSON, `Null` if there is none.
pub(crate) fn json<T: serde::Serialize>(status: &Option<T>) -> Value {
    // A status of ours is always JSON. Otherwise it would count as absent and be written again.
    serde_json::to_value(status).unwrap_or(Value::Null)
}
