//! Objects of members. Caches keep their metadata, their status, a hash of the rest, and the result of its comparison
//! with the manifest. They keep complete objects only of kinds whose interpreter may read any field.

use std::{borrow::Cow, sync::Arc};

use ironclad_api::{JsonText, ObjectMeta, labels, work::Work};
use ironclad_fleet::Gvk;
use ironclad_interpreter::{Interpreter, Kept};
use ironclad_members::{Member, PerMember};
use ironclad_propagation::{
    execution::{self, Comparison},
    wakes::drift,
};
use ironclad_runtime::{Failure, Informer, WatchScope};
use kube::{
    Resource,
    api::{ApiResource, TypeMeta},
    core::DynamicResourceScope,
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, MapAccess, Visitor},
    ser::{Error as _, SerializeMap as _},
};
use serde_json::{Map, Value};

use crate::{interpreter::Interpreters, mapper::Mapper, objects::Objects};

/// One object of a member. It is complete in answers to requests, and mostly trimmed in caches.
#[derive(Debug, Clone)]
pub(crate) struct MemberObject {
    types: Option<TypeMeta>,
    /// Its metadata, without `managedFields` where it comes from a cache.
    pub(crate) metadata: ObjectMeta,
    status: Option<JsonText>,
    rest: Rest,
}

/// Fields other than type, metadata and status.
#[derive(Debug, Clone)]
enum Rest {
    Complete(Map<String, Value>),
    Trimmed {
        /// The fields that interpreters read.
        kept: JsonText,
        /// Hash of all fields ([`execution::content_hash`]).
        hash: u64,
        /// Its comparison with the manifest of its Work.
        found: Option<Comparison>,
    },
}

impl MemberObject {
    /// Parses a complete object.
    ///
    /// # Errors
    /// If its metadata is missing or invalid.
    pub(crate) fn parse(object: Value) -> Result<Self, Failure> {
        serde_json::from_value(object).map_err(|error| Failure::Invalid(error.to_string()))
    }

    /// Its JSON; of a trimmed object, the fields that are kept.
    ///
    /// # Errors
    /// Never for an object of a server.
    pub(crate) fn json(&self) -> Result<Value, Failure> {
        serde_json::to_value(View(self)).map_err(|error| Failure::Invalid(error.to_string()))
    }

    /// True if it is complete.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.rest, Rest::Complete(_))
    }

    /// Its comparison with the manifest; `None` if it is complete or was not compared.
    pub(crate) fn found(&self) -> Option<Comparison> {
        if let Rest::Trimmed { found, .. } = self.rest { found } else { None }
    }

    /// The form that decisions about drift take.
    pub(crate) fn cached(&self) -> drift::Cached<'_> {
        let content = match &self.rest {
            Rest::Trimmed { hash, .. } => *hash,
            Rest::Complete(rest) => hash_of(rest),
        };
        drift::Cached { metadata: &self.metadata, status: self.status.as_ref(), content }
    }

    /// Removes the fields that are not kept, after `find` compared the complete object. `find` gets the earlier
    /// comparison of the same content.
    fn trim(
        &mut self,
        fields: &[&str],
        before: Option<&Self>,
        find: impl FnOnce(&Self, Option<Comparison>) -> Result<Option<Comparison>, Failure>,
    ) -> Result<(), Failure> {
        let Rest::Complete(rest) = &self.rest else { return Ok(()) };
        let hash = hash_of(rest);
        let same = before.filter(|before| before.cached().content == hash);
        let found = find(self, same.and_then(Self::found))?;
        let mut kept = Map::new();
        for field in fields {
            let Some((parent, name)) = field.strip_prefix('/').and_then(|path| path.split_once('/')) else { continue };
            if let Some(value) = rest.get(parent).and_then(|parent| parent.get(name)) {
                kept.entry(parent).or_insert_with(|| Value::Object(Map::new()))[name] = value.clone();
            }
        }
        self.rest = Rest::Trimmed { kept: (&Value::Object(kept)).into(), hash, found };
        Ok(())
    }
}

fn hash_of(rest: &Map<String, Value>) -> u64 {
    execution::content_hash(rest)
}

/// Applied objects of each connected member, by kind.
pub(crate) type MemberObjects = Arc<PerMember<Objects<MemberObject>>>;

/// The objects that are applied in a member, of which nothing is watched yet.
pub(crate) fn of(
    member: &Member,
    mapper: &Arc<Mapper>,
    interpreters: &Arc<Interpreters>,
    works: &Informer<Work>,
) -> Objects<MemberObject> {
    // Objects of other origin are found by the answer to a create, at the price of one read.
    let scope = WatchScope { labels: Some(format!("{}={}", labels::MANAGED, labels::TRUE)), fields: None };
    let (interpreters, works, seam) = (interpreters.clone(), works.clone(), &member.seam);
    let make = Box::new(move |gvk: &Gvk| informer(&interpreters, &works, gvk));
    Objects::new(member.client.clone(), mapper.clone(), seam, seam.tasks.clone(), scope, make).of_older_servers()
}

/// The cache of a kind in a member.
fn informer(interpreters: &Arc<Interpreters>, works: &Informer<Work>, gvk: &Gvk) -> Informer<MemberObject> {
    let (interpreters, works, gvk) = (interpreters.clone(), works.clone(), gvk.clone());
    Informer::with_transform(&[], move |object: &mut MemberObject, before| {
        let interpreter = interpreters.for_a_decision();
        let Kept::Fields(fields) = interpreter.kept(&gvk) else { return };
        let work = drift::work_of(None, Some(&object.metadata)).and_then(|(space, name)| works.get(space, name));
        let find = |object: &MemberObject, before: Option<Comparison>| {
            let Some(work) = &work else { return Ok(None) };
            let manifest = work.spec.workload.manifests.first();
            match before.filter(|before| manifest.is_some_and(|manifest| before.is_of(manifest))) {
                Some(found) => Ok(Some(found)),
                None => Ok(execution::compare_content(work, &object.json()?, &interpreter)),
            }
        };
        if let Err(error) = object.trim(fields, before, find) {
            tracing::warn!(%gvk, %error, "an object of a member could not be trimmed and is cached completely");
        }
    })
}

/// Returns true if some of these objects were trimmed although the interpreter of their kind needs complete objects
/// now.
pub(crate) fn lacks(interpreter: &Interpreter, gvk: &Gvk, objects: &[Arc<MemberObject>]) -> bool {
    interpreter.kept(gvk) == Kept::Whole && objects.iter().any(|object| !object.is_whole())
}

ironclad_runtime::objects! { MemberObject }

impl Resource for MemberObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<'de> Deserialize<'de> for MemberObject {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = MemberObject;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object of an API server")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MemberObject, A::Error> {
        let (mut api_version, mut kind, mut metadata, mut status, mut rest) = (None, None, None, None, Map::new());
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "apiVersion" => api_version = map.next_value()?,
                "kind" => kind = map.next_value()?,
                "metadata" => metadata = Some(map.next_value()?),
                "status" => status = map.next_value()?,
                _ => drop(rest.insert(key, map.next_value()?)),
            }
        }
        let types = match (api_version, kind) {
            (Some(api_version), Some(kind)) => Some(TypeMeta { api_version, kind }),
            _ => None,
        };
        let metadata = metadata.ok_or_else(|| A::Error::missing_field("metadata"))?;
        Ok(MemberObject { types, metadata, status, rest: Rest::Complete(rest) })
    }
}

/// Only a complete object can be sent.
impl Serialize for MemberObject {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if !self.is_whole() {
            return Err(S::Error::custom("a trimmed object can't be sent"));
        }
        View(self).serialize(to)
    }
}

/// The fields that an object has.
struct View<'a>(&'a MemberObject);

impl Serialize for View<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let object = self.0;
        let kept: Map<String, Value>;
        let rest = match &object.rest {
            Rest::Complete(rest) => rest,
            Rest::Trimmed { kept: text, .. } => {
                kept = serde_json::from_str(text.as_str()).map_err(S::Error::custom)?;
                &kept
            }
        };
        let mut map = to.serialize_map(None)?;
        if let Some(types) = &object.types {
            map.serialize_entry("apiVersion", &types.api_version)?;
            map.serialize_entry("kind", &types.kind)?;
        }
        map.serialize_entry("metadata", &object.metadata)?;
        for (key, value) in rest {
            map.serialize_entry(key, value)?;
        }
        if let Some(status) = &object.status {
            map.serialize_entry("status", status)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn web(replicas: i64) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"replicas": replicas, "paused": true}, "status": {"readyReplicas": 1}})
    }

    fn trimmed(object: Value, before: Option<&MemberObject>) -> (MemberObject, bool) {
        let mut object = MemberObject::parse(object).unwrap();
        let work = serde_json::from_value(json!({
            "metadata": {"namespace": "karmada-es-m1", "name": "web-x"}, "spec": {"workload": {"manifests": [web(2)]}},
        }))
        .unwrap();
        let mut compared = false;
        let find = |object: &MemberObject, before: Option<Comparison>| {
            compared = before.is_none();
            Ok(before.or_else(|| execution::compare_content(&work, &object.json().unwrap(), &Default::default())))
        };
        object.trim(&["/spec/replicas", "/spec/type"], before, find).unwrap();
        (object, compared)
    }

    #[test]
    fn a_complete_object_is_sent_unchanged() {
        for object in
            [web(2), json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"b": "c"}})]
        {
            assert_eq!(serde_json::to_value(MemberObject::parse(object.clone()).unwrap()).unwrap(), object);
        }
        let bare = json!({"metadata": {"name": "a"}, "data": null});
        assert_eq!(serde_json::to_value(MemberObject::parse(bare.clone()).unwrap()).unwrap(), bare, "of a list");
        assert!(MemberObject::parse(json!({"apiVersion": "v1", "kind": "ConfigMap"})).is_err(), "no metadata");
    }

    #[test]
    fn a_trimmed_object_keeps_named_fields_and_the_hash_of_all() {
        let (object, _) = trimmed(web(2), None);
        let kept = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"replicas": 2}, "status": {"readyReplicas": 1}});
        assert_eq!(object.json().unwrap(), kept);
        assert!(!object.is_whole());
        assert!(serde_json::to_value(&object).is_err(), "it can't be sent: a PUT of it would wipe the rest");
        let whole = MemberObject::parse(web(2)).unwrap();
        assert_eq!(object.cached().content, whole.cached().content, "the hash is that of the whole");
        let (other, _) = trimmed(web(3), None);
        assert_ne!(object.cached().content, other.cached().content);
    }

    #[test]
    fn unchanged_content_is_not_compared_again() {
        let (first, compared) = trimmed(web(2), None);
        assert!(compared && first.found().is_some());
        let mut ready = web(2);
        ready["status"]["readyReplicas"] = json!(2);
        let (second, compared) = trimmed(ready, Some(&first));
        assert!(!compared, "only its status changed");
        assert_eq!(second.found(), first.found());
        let (third, compared) = trimmed(web(3), Some(&second));
        assert!(compared && third.found() != first.found());
    }
}
