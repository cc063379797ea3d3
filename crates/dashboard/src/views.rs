//! Views of the fleet, which somebody else computes.

use std::{fmt, rc::Rc, time::Duration};

use futures::future::LocalBoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{action::Actions, token::Token};

/// Result of computing a view. Rows that can be filtered, sorted and paged are in the array `rows` of the answer.
pub type Look<'a> = LocalBoxFuture<'a, Result<Value, Failed>>;

/// A template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Its namespace; empty if it has none.
    pub namespace: String,
    /// Its type as `kubectl get` takes it, such as `deployment.apps`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// A change that a plan is made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// These clusters are lost.
    Loss(Vec<String>),
    /// A cluster gets a taint, as `KEY[=VALUE]:EFFECT`.
    Taint(String, String),
    /// Evictions go at this rate, per second.
    Rate(String),
    /// This workload preempts others: its namespace and name.
    Preemption(String, String),
    /// The workloads of this PriorityClass preempt others.
    PriorityClass(String),
    /// A FederatedHPA of this namespace and name has this multiple of its load.
    Load(String, String, String),
    /// Manifests are applied.
    Apply(Manifests),
}

/// Manifests that a page sends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Manifests {
    /// YAML documents.
    pub manifests: String,
    /// Namespace of those that name none; empty for the default.
    pub namespace: String,
}

/// Source of the accounts of clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account {
    /// The reports of clusters.
    Reports,
    /// Nodes and pods of members, which are asked for them.
    Nodes,
}

/// Reason why a view could not be computed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// HTTP status: 403 if a right is missing, 404 if the object does not exist.
    pub status: u16,
    /// Description of what failed.
    pub what: String,
    /// Causes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<String>,
    /// Remedies.
    #[serde(rename = "try", skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<String>,
    /// Text that was printed before it failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub printed: String,
}

impl Failed {
    /// A failure without a cause.
    #[must_use]
    pub fn new(status: u16, what: &str) -> Self {
        Self { status, what: what.to_owned(), because: Vec::new(), remedies: Vec::new(), printed: String::new() }
    }
}

/// A user whom the control plane knows.
pub struct Admitted {
    /// Name of the user.
    pub user: String,
    /// Views with the rights of the user.
    pub views: Rc<dyn Views>,
    /// Actions with the rights of the user, where users can change something.
    pub actions: Option<Rc<dyn Actions>>,
}

impl fmt::Debug for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admitted").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Users of a control plane, known by their bearer tokens.
pub trait Users {
    /// Asks the control plane whose token this is. A failure has status 401 if it is nobody's.
    fn admit<'a>(&'a self, token: &'a Token) -> LocalBoxFuture<'a, Result<Admitted, Failed>>;
    /// True if users can change something, as far as their own rights go.
    fn can_act(&self) -> bool;
}

/// The views.
pub trait Views {
    /// Computes a view.
    fn look<'a>(&'a self, question: &'a Question) -> Look<'a>;
    /// State of what a view is computed from; `None` if only the view itself tells whether it has changed.
    fn version(&self, question: &Question) -> Option<Version>;
}

/// State of what a view is computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Number that differs when something has changed.
    pub changes: u64,
    /// Time after which the view is computed anew even if nothing has, because it shows what is not counted, too.
    pub holds: Duration,
}

/// A question for one of the views.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// A row for each cluster: health with age, capacity, counts.
    Fleet,
    /// One cluster: its row, conditions, evictions, and as rows the bindings that are placed there.
    Cluster(String),
    /// A row for each binding.
    Workloads,
    /// The links from a template to its Pods.
    Workload(Reference),
    /// Reasons of the placement of a template.
    Why(Reference),
    /// A row for each copy of a template, with the difference of its manifest from the template. The lines are those of
    /// the copy in this cluster, or of the template.
    Manifests(Reference, Option<String>),
    /// The last lines of the logs of all copies.
    Logs(Reference),
    /// A row for each node of a cluster, with the CPU and memory that its Pods use.
    NodeUsage(String),
    /// A row for each Pod of all copies of a template, with the CPU and memory that it uses.
    PodUsage(Reference),
    /// Events and conditions of a template, its binding and its Works, newest first.
    Timeline(Reference),
    /// A row for each policy: the templates that it claims, and those that others keep from it.
    Policies,
    /// A row for each service over clusters: where it comes from, and where it is reached.
    Services,
    /// A row for each FederatedResourceQuota: its limits, their usage, and what it refuses.
    Quotas,
    /// The eviction queue in order, with the rate.
    Evictions,
    /// Events of the control plane, newest first.
    Events,
    /// The leader with its settings and controllers.
    System,
    /// Findings of the doctor.
    Doctor,
    /// The queue of the scheduler.
    Scheduling,
    /// A row for each binding for which others leave, with those.
    Preemptions,
    /// A row for each cluster: what the scheduler counts as free.
    Accounts(Account),
    /// A row for each FederatedHPA.
    Autoscalers,
    /// The last round of the FederatedHPA of a namespace and name.
    Autoscaler(String, String),
    /// Consequences of a change.
    Plan(Change),
}

impl Question {
    /// True if pages follow the view as it changes. The others take so long that they are computed on demand.
    pub(crate) fn is_followed(&self) -> bool {
        !matches!(
            self,
            Self::Doctor
                | Self::Logs(_)
                | Self::NodeUsage(_)
                | Self::PodUsage(_)
                | Self::Accounts(Account::Nodes)
                | Self::Plan(_)
        )
    }
}
