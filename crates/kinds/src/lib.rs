//! Functions of kinds that are made once, in the crate that owns the type: decode, encode, erase.
//!
//! A generic function is compiled again in every crate that uses it with a type, and a decoder of a large kind is as
//! long as a program. So code over all kinds works on [`Erased`] objects, and its typed callers reach a kind's own
//! functions by the trait [`Object`], whose methods have no type parameters. [`objects!`] implements it; for kinds of
//! Kubernetes this crate does.

mod kubernetes;

use std::{any::Any, fmt::Debug, marker::PhantomData, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::{DynamicObject, PartialObjectMeta, Resource};
#[doc(hidden)]
pub use serde_json;

/// A kind of objects, with functions that are compiled once. [`objects!`] implements it.
pub trait Object: Resource + Clone + Debug + Send + Sync + 'static {
    /// Decodes an object of this kind.
    ///
    /// # Errors
    /// If the text is no JSON, or no object of this kind.
    fn decode(json: &[u8]) -> serde_json::Result<Self>;

    /// Decodes an object of this kind for code over all kinds.
    ///
    /// # Errors
    /// As [`Object::decode`].
    fn decode_erased(json: &[u8]) -> serde_json::Result<Arc<dyn Erased>>;

    /// The object for code over all kinds.
    fn erase(self) -> Arc<dyn Erased>;
}

/// A kind whose objects are written. [`objects!`] implements it.
pub trait Encode: Object {
    /// The object as JSON.
    ///
    /// # Errors
    /// If a map in it has keys that JSON does not have.
    fn encode(&self) -> serde_json::Result<Vec<u8>>;
}

/// An object of any kind.
pub trait Erased: Any + Debug + Send + Sync {
    /// Its metadata.
    fn meta(&self) -> &ObjectMeta;

    /// Its metadata, to be changed.
    fn meta_mut(&mut self) -> &mut ObjectMeta;
}

impl<K: Object> Erased for K {
    fn meta(&self) -> &ObjectMeta {
        Resource::meta(self)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        Resource::meta_mut(self)
    }
}

/// The metadata of a kind is decoded by the same code as that of every other kind.
impl<K: Resource + Clone + Debug + Send + Sync + 'static> Object for PartialObjectMeta<K> {
    fn decode(json: &[u8]) -> serde_json::Result<Self> {
        let PartialObjectMeta { types, metadata, .. } = metadata(json)?;
        Ok(Self { types, metadata, _phantom: PhantomData })
    }

    fn decode_erased(json: &[u8]) -> serde_json::Result<Arc<dyn Erased>> {
        Self::decode(json).map(Self::erase)
    }

    fn erase(self) -> Arc<dyn Erased> {
        Arc::new(self)
    }
}

fn metadata(json: &[u8]) -> serde_json::Result<PartialObjectMeta<DynamicObject>> {
    serde_json::from_slice(json)
}

/// The object as one of its kind; `None` if it is of another kind.
#[must_use]
pub fn typed<K: Object>(object: Arc<dyn Erased>) -> Option<Arc<K>> {
    let any: Arc<dyn Any + Send + Sync> = object;
    any.downcast().ok()
}

/// The object as one of its kind; `None` if it is of another kind.
#[must_use]
pub fn typed_ref<K: Object>(object: &dyn Erased) -> Option<&K> {
    let any: &dyn Any = object;
    any.downcast_ref()
}

/// The object as one of its kind, to be changed; `None` if it is of another kind.
#[must_use]
pub fn typed_mut<K: Object>(object: &mut dyn Erased) -> Option<&mut K> {
    let any: &mut dyn Any = object;
    any.downcast_mut()
}

/// Implements [`Object`] and [`Encode`] for kinds, in the crate that owns them; after `read:` the first alone.
#[macro_export]
macro_rules! objects {
    (read: $($kind:ty),* $(,)?) => { $(
        impl $crate::Object for $kind {
            #[inline(never)]
            fn decode(json: &[u8]) -> $crate::serde_json::Result<Self> {
                $crate::serde_json::from_slice(json)
            }

            #[inline(never)]
            fn decode_erased(json: &[u8]) -> $crate::serde_json::Result<std::sync::Arc<dyn $crate::Erased>> {
                $crate::serde_json::from_slice::<Self>(json).map(<Self as $crate::Object>::erase)
            }

            #[inline(never)]
            fn erase(self) -> std::sync::Arc<dyn $crate::Erased> {
                std::sync::Arc::new(self)
            }
        }
    )* };
    ($($kind:ty),* $(,)?) => {
        $crate::objects! { read: $($kind),* }
        $(
            impl $crate::Encode for $kind {
                #[inline(never)]
                fn encode(&self) -> $crate::serde_json::Result<Vec<u8>> {
                    $crate::serde_json::to_vec(self)
                }
            }
        )*
    };
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};

    use super::*;

    #[test]
    fn an_erased_object_is_of_its_kind_alone() {
        let json = br#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}"#;
        let mut erased = ConfigMap::decode_erased(json).unwrap();
        assert_eq!(erased.meta().name.as_deref(), Some("a"));
        Arc::get_mut(&mut erased).unwrap().meta_mut().name = Some("b".to_owned());
        assert!(typed_ref::<Secret>(&*erased).is_none() && typed::<Secret>(erased.clone()).is_none());
        let map: Arc<ConfigMap> = typed(erased).unwrap();
        assert_eq!(map.metadata.name.as_deref(), Some("b"));
        assert_eq!(ConfigMap::decode(&map.encode().unwrap()).unwrap(), *map);
    }

    #[test]
    fn what_is_no_object_of_the_kind_is_refused() {
        for json in ["", "<html>", "{", "[]", r#"{"metadata": 1}"#] {
            assert!(ConfigMap::decode(json.as_bytes()).is_err(), "{json}");
        }
    }
}
