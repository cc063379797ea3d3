//! A built-in kind: a row of the table in [`super`].

use ironclad_store::{Compare, Op};
use serde_json::Value;

use crate::{admission::review::Operation, context::Cx, registry::strategy::Strategy, state::State, status::ApiError};

/// Compares and operations of a transaction.
pub(crate) type Transaction = (Vec<Compare>, Vec<Op>);

/// Work that a write leaves to its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FollowUp {
    /// Delete the instances of this CRD, then the CRD itself.
    CleanUpCrd(String),
    /// Remove this CRD if no instance is left.
    ReleaseCrd(String),
    /// Write the APIServices that are missing, remove those that no longer apply.
    SyncApiServices,
}

/// Admits an object: old, new.
type Admit = fn(&Cx, Operation, Option<&Value>, Option<&Value>) -> Result<(), ApiError>;
/// Runs after a write: old, new.
type AfterWrite = fn(&Cx, Option<&Value>, Option<&Value>) -> Result<Vec<FollowUp>, ApiError>;
/// Answers a review.
pub(crate) type Review = fn(&Cx, &mut Value) -> Result<Value, ApiError>;

/// Hooks around the requests of a kind. [`Hooks::NONE`] does nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hooks {
    /// Admits a new object, before its defaults.
    pub(crate) admit_create: fn(&Cx, &mut Value) -> Result<(), ApiError>,
    /// Admits a change, before defaults: old, new.
    pub(crate) admit_update: fn(&Cx, &Value, &mut Value) -> Result<(), ApiError>,
    /// Refuses to grant rights that the user lacks: old, new. Runs again after webhooks changed the object.
    pub(crate) check_escalation: fn(&Cx, Option<&Value>, &Value) -> Result<(), ApiError>,
    /// Admits a valid object: operation, old, new.
    pub(crate) admit_valid: Admit,
    /// Draws what the server allocates: old, new.
    pub(crate) allocate: fn(&State, Option<&Value>, &mut Value) -> Result<(), ApiError>,
    /// The reservations that are written with a change: old, new.
    pub(crate) reservations: fn(Option<&Value>, Option<&Value>) -> Transaction,
    /// Completes a valid object just before it is stored: old, new.
    pub(crate) before_write: fn(&Cx, Option<&Value>, &mut Value) -> Result<(), ApiError>,
    /// Refuses deletions.
    pub(crate) before_delete: fn(&Value) -> Result<(), ApiError>,
    /// Changes an object that is first marked for deletion: now, object.
    pub(crate) on_deletion_timestamp: fn(&str, &mut Value),
    /// Runs after a write is durable: old (absent after a create), new (absent after a removal).
    pub(crate) after_write: AfterWrite,
    /// Answers a review, which is never stored, with its status.
    pub(crate) review: Option<Review>,
    /// A create binds the pod of its name instead of storing an object.
    pub(crate) binds_pod: bool,
}

impl Hooks {
    /// A kind without hooks.
    pub(crate) const NONE: Self = Self {
        admit_create: |_, _| Ok(()),
        admit_update: |_, _, _| Ok(()),
        check_escalation: |_, _, _| Ok(()),
        admit_valid: |_, _, _, _| Ok(()),
        allocate: |_, _, _| Ok(()),
        reservations: |_, _| (vec![], vec![]),
        before_write: |_, _, _| Ok(()),
        before_delete: |_| Ok(()),
        on_deletion_timestamp: |_, _| {},
        after_write: |_, _, _| Ok(vec![]),
        review: None,
        binds_pod: false,
    };
}

/// A built-in kind in one version.
#[derive(Debug)]
pub(crate) struct Kind {
    /// Discovery: `group/version plural Kind scope flags…`, see [`super::KINDS`].
    pub(crate) discovery: &'static str,
    pub(crate) strategy: Strategy,
    pub(crate) hooks: Hooks,
}

impl Kind {
    /// A kind without peculiarities.
    pub(crate) const fn new(discovery: &'static str) -> Self {
        Self { discovery, strategy: Strategy::NONE, hooks: Hooks::NONE }
    }
}
