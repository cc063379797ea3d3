//! Schemas of our types: the macro `JsonSchema` that all of them derive, and what it cannot express.
//!
//! The product is built without schemas, as the CRDs are data ([`crate::crds`]): the macro then derives nothing.

#[cfg(feature = "schema")]
mod fields;
#[cfg(feature = "schema")]
mod kind;

#[cfg(feature = "schema")]
pub(crate) use self::{
    fields::{any_object, any_objects, any_value, int},
    kind::{Kind, KindInfo, Member, Scope},
};
#[cfg(not(feature = "schema"))]
pub(crate) use ironclad_noschema::JsonSchema;
#[cfg(feature = "schema")]
pub(crate) use schemars::JsonSchema;
