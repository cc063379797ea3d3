//! Requests, the objects that a review needs besides, and its verdict.

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

/// Operation on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Create,
    /// Update, patch or apply.
    Update,
    Delete,
    /// Connect, such as exec into a pod.
    Connect,
}

impl Operation {
    /// Spelling in AdmissionReviews and registrations.
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

/// Write to review.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub operation: Operation,
    /// API group, empty for core.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Plural of the resource.
    pub resource: &'a str,
    /// Subresource, empty for the object itself.
    pub subresource: &'a str,
    pub kind: &'a str,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Name; empty if the server still has to generate it.
    pub name: &'a str,
    /// The new object; `None` for a delete.
    pub object: Option<&'a Value>,
    /// The old object; `None` for a create.
    pub old: Option<&'a Value>,
    /// Name of the requesting user.
    pub user: &'a str,
    /// False if the server knows that the request does not come from its own process, whatever its user is called.
    pub may_be_own: bool,
    /// Groups of the requesting user.
    pub groups: &'a [String],
    /// Field manager of the request.
    pub field_manager: &'a str,
    /// True if nothing is stored.
    pub dry_run: bool,
}

/// Input that a review needs besides the request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// A new UUID.
    Id,
    /// All objects of a resource, in one namespace or, if that is empty, in all.
    List { resource: Resource, namespace: String },
    /// One object, if it exists.
    Get {
        resource: Resource,
        /// Its namespace, empty for cluster-scoped ones.
        namespace: String,
        name: String,
    },
    /// One value if this user may do this to one object, else none.
    Access {
        /// Name of the user.
        user: String,
        /// Groups of the user.
        groups: Vec<String>,
        verb: &'static str,
        resource: Resource,
        /// The object's namespace, empty for cluster-scoped ones.
        namespace: String,
        /// The object's name.
        name: String,
    },
    /// The first objects of any kind in a namespace with this label.
    Labelled {
        /// The label's key.
        key: &'static str,
        value: &'static str,
        namespace: String,
        /// At most this many.
        at_most: usize,
    },
}

/// Resource to look up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource {
    /// API group, empty for core.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
}

/// Answers to the needs of a review. A need that is missing here could not be looked up: rules that only warn skip it,
/// others refuse.
#[derive(Debug, Clone, Default)]
pub struct Lookups {
    /// The time, in whole seconds.
    pub now: Timestamp,
    /// The answer to [`Need::Id`].
    pub id: String,
    /// The answers to all other needs.
    pub found: BTreeMap<Need, Vec<Value>>,
}

impl Lookups {
    /// The objects found, or `None` if they were not looked up.
    pub(crate) fn get(&self, need: &Need) -> Option<&[Value]> {
        self.found.get(need).map(Vec::as_slice)
    }
}

/// Settings of the process: flags and feature gates (specification/admission.md 1, specification/operations.md 8).
#[derive(Clone)]
pub struct Config {
    /// The feature gates.
    pub gates: Gates,
    /// True if ClusterTaintPolicies may evict: `--allow-no-execute-taint-policy`.
    pub no_execute_policy: NoExecutePolicy,
    /// True if a namespace with protected objects is protected itself: `--protect-namespace-contents`.
    pub protect_namespace_contents: bool,
    /// True if the nodes and pods of members in Push mode are watched, so that accounts by node count for them
    /// (specification/scheduling.md 10).
    pub watches_members: bool,
    /// User name of our own controllers. Their writes with a field manager `ironclad-…` are not reviewed
    /// (specification/admission.md 1.3).
    pub own_user: Option<String>,
    /// Compiles scripts to check them; `None` where no script engine is built in.
    pub check_script: Option<CheckScript>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            gates: Gates::default(),
            no_execute_policy: NoExecutePolicy::default(),
            protect_namespace_contents: true,
            watches_members: true,
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
            .field("watches_members", &self.watches_members)
            .field("own_user", &self.own_user)
            .field("check_script", &self.check_script.is_some())
            .finish()
    }
}

/// Input of a rule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cx<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) lookups: &'a Lookups,
    pub(crate) config: &'a Config,
}

/// Write of another object.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Update the status of another object, with the resourceVersion that the review read.
    WriteStatus {
        resource: Resource,
        /// The whole object with its new status.
        object: Value,
    },
}

/// Refusal of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The webhook that refuses.
    pub webhook: &'static str,
    /// HTTP code of the answer: 400, 403 or 500 (specification/admission.md 1.1).
    pub code: u16,
    /// Reason in the answer, empty if there is none.
    pub reason: &'static str,
    /// The message, without the webhook's name.
    pub message: String,
    /// The single errors.
    pub causes: Vec<FieldError>,
}

/// Reason of a refusal by quota. The scheduler depends on it (specification/admission.md 1.1).
pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";

/// Code of a refusal of an object that cannot be decoded.
pub(crate) const UNDECODABLE: u16 = 400;

impl Denial {
    /// A rule refuses the write.
    #[must_use]
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self { webhook: "", code: 403, reason: "Forbidden", message: message.into(), causes: vec![] }
    }

    /// A quota refuses the write.
    #[must_use]
    pub fn quota(message: impl Into<String>) -> Self {
        Self { reason: QUOTA_EXCEEDED, ..Self::forbidden(message) }
    }

    /// The object cannot be decoded as its kind.
    #[must_use]
    pub fn undecodable(message: impl Into<String>) -> Self {
        Self { code: UNDECODABLE, reason: "BadRequest", ..Self::forbidden(message) }
    }

    /// The review itself failed.
    #[must_use]
    pub fn failure(message: impl Into<String>) -> Self {
        Self { code: 500, reason: "InternalError", ..Self::forbidden(message) }
    }

    pub(crate) fn of(causes: Vec<FieldError>) -> Self {
        Self { causes: causes.clone(), ..Self::forbidden(field::message(&causes)) }
    }

    /// The message that the client reads, in the words of a kube-apiserver.
    #[must_use]
    pub fn client_message(&self) -> String {
        format!("admission webhook {:?} denied the request: {}", self.webhook, self.message)
    }
}

/// Result of the validating rules.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    /// The refusal; `None` if the write is admitted.
    pub denial: Option<Denial>,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
    /// Annotations of the audit event.
    pub audit: BTreeMap<String, String>,
    /// Writes of other objects, to carry out only if the write is admitted.
    pub effects: Vec<Effect>,
}

/// Decodes an object as its kind. The schema, which names the field of a wrong type, is checked before by all servers.
pub(crate) fn decode<K: DeserializeOwned>(object: &Value) -> Result<K, Denial> {
    K::deserialize(object).map_err(|error| Denial::undecodable(error.to_string()))
}

/// Decodes the spec of an object.
pub(crate) fn decode_spec<S: DeserializeOwned>(object: &Value) -> Result<S, Denial> {
    S::deserialize(object.get("spec").unwrap_or(&Value::Null))
        .map_err(|error| Denial::undecodable(format!("spec: {error}")))
}

/// The needs of a review.
pub(crate) type Needs = BTreeSet<Need>;
