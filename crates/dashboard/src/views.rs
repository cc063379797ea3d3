//! Views of the fleet, which somebody else computes.

use std::{fmt, rc::Rc};

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

/// The views, each computed anew.
pub trait Views {
    /// A row for each cluster: health with age, capacity, counts.
    fn fleet(&self) -> Look<'_>;
    /// One cluster: its row, conditions, evictions, and as rows the bindings that are placed there.
    fn cluster<'a>(&'a self, name: &'a str) -> Look<'a>;
    /// A row for each binding.
    fn workloads(&self) -> Look<'_>;
    /// The links from a template to its Pods.
    fn workload<'a>(&'a self, template: &'a Reference) -> Look<'a>;
    /// Reasons of the placement of a template.
    fn why<'a>(&'a self, template: &'a Reference) -> Look<'a>;
    /// A row for each copy of a template, with the difference of its manifest from the template. The lines are those of
    /// the copy in this cluster, or of the template.
    fn manifests<'a>(&'a self, template: &'a Reference, cluster: Option<&'a str>) -> Look<'a>;
    /// The last lines of the logs of all copies.
    fn logs<'a>(&'a self, template: &'a Reference) -> Look<'a>;
    /// Events and conditions of a template, its binding and its Works, newest first.
    fn timeline<'a>(&'a self, template: &'a Reference) -> Look<'a>;
    /// A row for each policy: the templates that it claims, and those that others keep from it.
    fn policies(&self) -> Look<'_>;
    /// A row for each service over clusters: where it comes from, and where it is reached.
    fn services(&self) -> Look<'_>;
    /// A row for each FederatedResourceQuota: its limits, their usage, and what it refuses.
    fn quotas(&self) -> Look<'_>;
    /// The eviction queue in order, with the rate.
    fn evictions(&self) -> Look<'_>;
    /// Events of the control plane, newest first.
    fn events(&self) -> Look<'_>;
    /// The leader with its settings and controllers.
    fn system(&self) -> Look<'_>;
    /// Findings of the doctor.
    fn doctor(&self) -> Look<'_>;
    /// The queue of the scheduler.
    fn scheduling(&self) -> Look<'_>;
    /// A row for each binding for which others leave, with those.
    fn preemptions(&self) -> Look<'_>;
    /// A row for each cluster: what the scheduler counts as free.
    fn accounts(&self, by: Account) -> Look<'_>;
    /// A row for each FederatedHPA.
    fn autoscalers(&self) -> Look<'_>;
    /// The last round of a FederatedHPA.
    fn autoscaler<'a>(&'a self, namespace: &'a str, name: &'a str) -> Look<'a>;
    /// Consequences of a change.
    fn plan<'a>(&'a self, change: &'a Change) -> Look<'a>;
}

/// A question for one of the views.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Question {
    Fleet,
    Cluster(String),
    Workloads,
    Workload(Reference),
    Why(Reference),
    /// The template, and the cluster whose copy is shown.
    Manifests(Reference, Option<String>),
    Logs(Reference),
    Timeline(Reference),
    Policies,
    Services,
    Quotas,
    Evictions,
    Events,
    System,
    Doctor,
    Scheduling,
    Preemptions,
    Accounts(Account),
    Autoscalers,
    /// Namespace and name.
    Autoscaler(String, String),
    Plan(Change),
}

impl Question {
    pub(crate) fn ask<'a>(&'a self, views: &'a dyn Views) -> Look<'a> {
        match self {
            Self::Fleet => views.fleet(),
            Self::Cluster(name) => views.cluster(name),
            Self::Workloads => views.workloads(),
            Self::Workload(template) => views.workload(template),
            Self::Why(template) => views.why(template),
            Self::Manifests(template, cluster) => views.manifests(template, cluster.as_deref()),
            Self::Logs(template) => views.logs(template),
            Self::Timeline(template) => views.timeline(template),
            Self::Policies => views.policies(),
            Self::Services => views.services(),
            Self::Quotas => views.quotas(),
            Self::Evictions => views.evictions(),
            Self::Events => views.events(),
            Self::System => views.system(),
            Self::Doctor => views.doctor(),
            Self::Scheduling => views.scheduling(),
            Self::Preemptions => views.preemptions(),
            Self::Accounts(by) => views.accounts(*by),
            Self::Autoscalers => views.autoscalers(),
            Self::Autoscaler(namespace, name) => views.autoscaler(namespace, name),
            Self::Plan(change) => views.plan(change),
        }
    }

    /// True if pages follow the view as it changes. The others take so long that they are computed on demand.
    pub(crate) fn is_followed(&self) -> bool {
        !matches!(self, Self::Doctor | Self::Logs(_) | Self::Accounts(Account::Nodes) | Self::Plan(_))
    }
}
