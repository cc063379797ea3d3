//! Values that many objects have in common, and that a cache holds once.
//!
//! Bindings of one policy have equal placements, replicas of similar workloads equal requirements, and members of one
//! version serve the same APIs. A value is shared by its owner, here a cache: parsing an object shares nothing.

mod pool;
mod pools;

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

pub use pool::Pool;
pub use pools::{BindingPools, ClusterPools};

/// Value that several objects may own together. Cheap to clone. A change is made in a copy if there are other owners.
///
/// It is serialized, and described in schemas, as the value itself.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Shared<T>(Arc<T>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Shared<T> {
    /// Returns whether both are one value in memory.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T: Clone> Shared<T> {
    /// The value; a copy if there are other owners.
    pub fn into_inner(self) -> T {
        Arc::unwrap_or_clone(self.0)
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || *self.0 == *other.0
    }
}

impl<T: PartialEq> PartialEq<T> for Shared<T> {
    fn eq(&self, other: &T) -> bool {
        *self.0 == *other
    }
}

impl<'a, T> IntoIterator for &'a Shared<T>
where
    &'a T: IntoIterator,
{
    type Item = <&'a T as IntoIterator>::Item;
    type IntoIter = <&'a T as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        (&*self.0).into_iter()
    }
}

#[cfg(feature = "schema")]
impl<T: schemars::JsonSchema> schemars::JsonSchema for Shared<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> std::borrow::Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        T::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_value_leaves_the_other_owners_alone() {
        let one = Shared::from(vec![1, 2]);
        let mut other = one.clone();
        assert!(one.is_same(&other));
        other.push(3);
        assert_eq!((one.into_inner(), other.into_inner()), (vec![1, 2], vec![1, 2, 3]));
    }

    #[test]
    fn it_is_written_as_the_value_itself() {
        let value = Shared::from(vec!["a".to_owned()]);
        let text = serde_json::to_string(&value).unwrap();
        assert_eq!(text, r#"["a"]"#);
        let read: Shared<Vec<String>> = serde_json::from_str(&text).unwrap();
        assert!(read == value && !read.is_same(&value), "reading shares nothing");
    }
}
