//! What is to be reviewed, what a review must know besides, and what it answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use ironclad_failover::flags::NoExecutePolicy;
use ironclad_fleet::gates::Gates;
use ironclad_interpreter::CheckScript;
use ironclad_patch::FieldError;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::field;

/// What is done with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// It is new.
    Create,
    /// It is replaced, patched or applied to.
    Update,
    /// It goes.
    Delete,
    /// Something is sent to it, such as a command to a pod.
    Connect,
}

impl Operation {
    /// As AdmissionReviews and registrations spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// One write to be reviewed.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
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
    /// Name; empty while the server has yet to draw it.
    pub name: &'a str,
    /// The object as it shall be; absent at deletion.
    pub object: Option<&'a Value>,
    /// The object as it is; absent at creation.
    pub old: Option<&'a Value>,
    /// Who asks.
    pub user: &'a str,
    /// The groups of who asks.
    pub groups: &'a [String],
    /// As which field manager.
    pub field_manager: &'a str,
    /// Nothing is stored.
    pub dry_run: bool,
}

/// Something that a review must know besides the request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// A new UUID.
    Id,
    /// All objects of a resource, in one namespace or, if that is empty, everywhere.
    List {
        /// Which resource.
        resource: Resource,
        /// Where.
        namespace: String,
    },
    /// One object, if it exists.
    Get {
        /// Which resource.
        resource: Resource,
        /// Its namespace, empty for cluster-scoped ones.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The first of the objects in a namespace, of whatever kind, that have a label of this value.
    Labelled {
        /// The label's key.
        key: &'static str,
        /// Its value.
        value: &'static str,
        /// Where.
        namespace: String,
        /// No more than so many.
        at_most: usize,
    },
}

/// A resource to look in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource {
    /// API group, empty for core.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Plural.
    pub plural: &'static str,
}

/// What was found of what a review needs. A need that is missing here could not be looked up: rules that would only warn are
/// silent then, others refuse.
#[derive(Debug, Clone, Default)]
pub struct Lookups {
    /// The time, in whole seconds.
    pub now: Timestamp,
    /// The answer to [`Need::Id`].
    pub id: String,
    /// The answers to all others.
    pub found: BTreeMap<Need, Vec<Value>>,
}

impl Lookups {
    /// What was found, or `None` if it was not looked up.
    pub(crate) fn get(&self, need: &Need) -> Option<&[Value]> {
        self.found.get(need).map(Vec::as_slice)
    }
}

/// What is the same for all reviews of a process: flags and gates (admission.md 1, operations.md 8).
#[derive(Clone)]
pub struct Config {
    /// The feature gates.
    pub gates: Gates,
    /// Whether ClusterTaintPolicies may evict: `--allow-no-execute-taint-policy`.
    pub no_execute_policy: NoExecutePolicy,
    /// Whether a namespace with protected objects is protected itself: `--protect-namespace-contents`.
    pub protect_namespace_contents: bool,
    /// The user that our own controllers are. Their writes, under a field manager `ironclad-…`, are not reviewed
    /// (admission.md 1.3).
    pub own_user: Option<String>,
    /// Checks scripts; absent where no script engine is built in.
    pub check_script: Option<CheckScript>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            gates: Gates::default(),
            no_execute_policy: NoExecutePolicy::default(),
            protect_namespace_contents: true,
            own_user: None,
            check_script: None,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("gates", &self.gates)
            .field("no_execute_policy", &self.no_execute_policy)
            .field("protect_namespace_contents", &self.protect_namespace_contents)
            .field("own_user", &self.own_user)
            .field("check_script", &self.check_script.is_some())
            .finish()
    }
}

/// What a rule sees.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cx<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) lookups: &'a Lookups,
    pub(crate) config: &'a Config,
}

/// A write beside the reviewed one.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// The status of another object; its resourceVersion is the one that the review saw.
    WriteStatus {
        /// Which resource.
        resource: Resource,
        /// The whole object with its new status.
        object: Value,
    },
}

/// Why a write is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The webhook that refuses.
    pub webhook: &'static str,
    /// HTTP code of the answer: 400, 403 or 500 (admission.md 1.1).
    pub code: u16,
    /// Reason of the answer, empty where there is none.
    pub reason: &'static str,
    /// What is wrong, without the webhook's name.
    pub message: String,
    /// The single mistakes.
    pub causes: Vec<FieldError>,
}

/// The reason of a refusal by quota; the scheduler branches on it (admission.md 1.1).
pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";

impl Denial {
    /// A rule says no.
    #[must_use]
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self { webhook: "", code: 403, reason: "Forbidden", message: message.into(), causes: vec![] }
    }

    /// The quota says no.
    #[must_use]
    pub fn quota(message: impl Into<String>) -> Self {
        Self { reason: QUOTA_EXCEEDED, ..Self::forbidden(message) }
    }

    /// The object is not one of its kind.
    #[must_use]
    pub fn undecodable(message: impl Into<String>) -> Self {
        Self { code: 400, reason: "BadRequest", ..Self::forbidden(message) }
    }

    /// The review itself failed.
    #[must_use]
    pub fn failure(message: impl Into<String>) -> Self {
        Self { code: 500, reason: "InternalError", ..Self::forbidden(message) }
    }

    pub(crate) fn of(causes: Vec<FieldError>) -> Self {
        Self { causes: causes.clone(), ..Self::forbidden(field::message(&causes)) }
    }

    /// What the client reads, as a kube-apiserver words it.
    #[must_use]
    pub fn told(&self) -> String {
        format!("admission webhook {:?} denied the request: {}", self.webhook, self.message)
    }
}

/// The answer of the validating rules.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    /// Why not; absent if the write may go on.
    pub denial: Option<Denial>,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
    /// Annotations of the audit event.
    pub audit: BTreeMap<String, String>,
    /// Writes beside it, to be done only if it is allowed.
    pub effects: Vec<Effect>,
}

/// Reads an object as one of its kind.
pub(crate) fn decode<K: DeserializeOwned>(object: &Value) -> Result<K, Denial> {
    K::deserialize(object).map_err(|e| Denial::undecodable(e.to_string()))
}

/// All that is needed, collected.
pub(crate) type Needs = BTreeSet<Need>;
