//! Writes as reviewers, webhooks and policies see them.

use std::fmt::Debug;

use serde_json::Value;

use super::objects::Objects;
use crate::{ApiError, Identity, registry::SubresourceKind};

/// What is done with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// It is new.
    Create,
    /// It is replaced, patched or applied to.
    Update,
    /// It is deleted, or marked for deletion.
    Delete,
    /// Somebody wants to talk to it: `exec`, `proxy` and their like. Nothing is written, only webhooks are asked.
    Connect,
}

/// One write that is to be reviewed.
#[derive(Debug, Clone, Copy)]
pub struct Review<'a> {
    /// What is done.
    pub operation: Operation,
    /// API group, empty for core.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Plural of the kind.
    pub resource: &'a str,
    /// Part of the object that is written, empty for the object itself.
    pub subresource: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// The object as it shall be; absent at deletion.
    pub object: Option<&'a Value>,
    /// The object as it is; absent at creation.
    pub old: Option<&'a Value>,
    /// Who asks.
    pub identity: &'a Identity,
    /// The field manager that was asked for, empty if none was.
    pub field_manager: &'a str,
    /// Nothing is stored.
    pub dry_run: bool,
}

/// A write that may go on.
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

/// Reviews writes for whoever embeds the server. It must not wait: it is asked within the write.
pub trait Admission: Debug + Send + Sync {
    /// Before defaults and validation: the object with what is filled in, `None` if nothing is.
    ///
    /// # Errors
    /// The answer to the client, if the write is refused.
    fn mutate(&self, review: &Review<'_>, objects: &Objects<'_>) -> Result<Option<Value>, ApiError>;

    /// After them: whether the write may go on.
    ///
    /// # Errors
    /// The answer to the client, if the write is refused.
    fn validate(&self, review: &Review<'_>, objects: &Objects<'_>) -> Result<Admitted, ApiError>;
}

/// The server's own deletions, such as of a CRD's instances, are nobody's to refuse.
pub(crate) const OWN_USER: &str = "system:apiserver";

/// A write on its way.
pub(crate) struct Write<'a> {
    pub(crate) operation: Operation,
    pub(crate) old: Option<&'a Value>,
    pub(crate) dry_run: bool,
    /// The kind that a subresource speaks, where that is not its object's.
    pub(crate) subresource_kind: Option<SubresourceKind>,
}
