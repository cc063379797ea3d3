//! Metrics of writes to members (specification/operations.md 6).

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use super::plain_counter::PlainCounter;
use crate::metrics::ResultLabel;

/// Labels of objects created in members.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Created {
    result: &'static str,
    apiversion: String,
    kind: String,
    member_cluster: String,
    recreate: &'static str,
}

/// Labels of objects updated in members.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
#[allow(non_snake_case, reason = "upstream's name of the label")]
struct Updated {
    result: &'static str,
    apiversion: String,
    kind: String,
    member_cluster: String,
    operationResult: &'static str,
}

/// Labels of objects deleted from members.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Deleted {
    result: &'static str,
    apiversion: String,
    kind: String,
    member_cluster: String,
}

/// The object of a write to a member.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About<'a> {
    /// Its `apiVersion`.
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    /// The member.
    pub(crate) cluster: &'a str,
}

/// A write to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemberWrite {
    /// The object was created; `again` if it had been applied before.
    Create { again: bool },
    /// The object was replaced or patched.
    Update,
    /// The object was deleted.
    Delete,
}

/// The families. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ExecutionMetrics {
    synced: Family<ResultLabel, Histogram, fn() -> Histogram>,
    created: Family<Created, PlainCounter>,
    updated: Family<Updated, PlainCounter>,
    deleted: Family<Deleted, PlainCounter>,
}

impl ExecutionMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 12));
        let all = Self {
            synced: Family::new_with_constructor(seconds),
            created: Family::default(),
            updated: Family::default(),
            deleted: Family::default(),
        };
        registry.register("work_sync_workload_duration_seconds", "From Work to member", all.synced.clone());
        registry.register("create_resource_to_cluster", "Objects created in members", all.created.clone());
        registry.register("update_resource_to_cluster", "Objects updated in members", all.updated.clone());
        registry.register("delete_resource_from_cluster", "Objects deleted from members", all.deleted.clone());
        all
    }

    /// Records that a Work was applied to its member.
    pub(crate) fn synced<T, E>(&self, took: Duration, outcome: &Result<T, E>) {
        self.synced.get_or_create(&ResultLabel::of(outcome)).observe(took.as_secs_f64());
    }

    /// Records a write to a member.
    pub(crate) fn wrote(&self, write: MemberWrite, about: About<'_>, result: &'static str) {
        let (apiversion, kind) = (about.api_version.to_owned(), about.kind.to_owned());
        let member_cluster = about.cluster.to_owned();
        match write {
            MemberWrite::Create { again } => {
                let recreate = if again { "true" } else { "false" };
                self.created.get_or_create(&Created { result, apiversion, kind, member_cluster, recreate }).inc();
            }
            MemberWrite::Update => {
                let operation = if result == "success" { "updated" } else { "none" };
                let labels = Updated { result, apiversion, kind, member_cluster, operationResult: operation };
                self.updated.get_or_create(&labels).inc();
            }
            MemberWrite::Delete => {
                self.deleted.get_or_create(&Deleted { result, apiversion, kind, member_cluster }).inc();
            }
        }
    }
}
