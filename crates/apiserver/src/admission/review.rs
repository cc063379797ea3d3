//! Writes as reviewers, webhooks and policies see them.

use std::fmt::Debug;

use serde_json::Value;

use super::objects::Objects;
use crate::{ApiError, Identity, registry::SubresourceKind};

/// The operation on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// It is new.
    Create,
    /// It is replaced, patched or applied to.
    Update,
    /// It is deleted, or marked for deletion.
    Delete,
    /// A connection: `exec`, `proxy` and their like. Nothing is written; only webhooks and policies review it.
    Connect,
}

/// One write that is to be reviewed.
#[derive(Debug, Clone, Copy)]
pub struct Review<'a> {
    pub operation: Operation,
    /// API group, empty for core.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Plural of the kind.
    pub resource: &'a str,
    /// Part of the object that is written, empty for the object itself.
    pub subresource: &'a str,
    pub kind: &'a str,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// The new object; absent at deletion.
    pub object: Option<&'a Value>,
    /// The stored object; absent at creation.
    pub old: Option<&'a Value>,
    /// The user.
    pub identity: &'a Identity,
    /// The requested field manager, or empty.
    pub field_manager: &'a str,
    /// Dry run: nothing is stored.
    pub dry_run: bool,
}

/// An admitted write.
#[derive(Debug, Clone, Default)]
pub struct Admitted {
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
    /// Other objects that are written with it, in one transaction: all of it happens or nothing.
    pub writes: Vec<SideWrite>,
}

/// An object that is written beside the reviewed one.
#[derive(Debug, Clone)]
pub struct SideWrite {
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural of the kind.
    pub resource: String,
    /// The whole object; its resourceVersion is the one that it is based on.
    pub object: Value,
}

/// Reviews writes for the embedder of the server. It runs within the write and must not block.
pub trait Admission: Debug + Send + Sync {
    /// The changed object, before defaults and validation; `None` without changes.
    ///
    /// # Errors
    /// The answer to the client, if the write is refused.
    fn mutate(&self, review: &Review<'_>, objects: &Objects<'_>) -> Result<Option<Value>, ApiError>;

    /// Admits or refuses a write after defaults and validation.
    ///
    /// # Errors
    /// The answer to the client, if the write is refused.
    fn validate(&self, review: &Review<'_>, objects: &Objects<'_>) -> Result<Admitted, ApiError>;
}

/// A write under review.
pub(crate) struct Write<'a> {
    pub(crate) operation: Operation,
    pub(crate) old: Option<&'a Value>,
    pub(crate) dry_run: bool,
    /// The kind of the subresource, where it differs from the object's.
    pub(crate) subresource_kind: Option<SubresourceKind>,
}
