//! From template to member (operations.md 6).

use std::time::Duration;

use ironclad_api::events;
use ironclad_fleet::Event;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use super::PlainCounter;

/// How something ended: `success` or `error`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

/// An object that was created in a member.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Created {
    result: &'static str,
    apiversion: String,
    kind: String,
    member_cluster: String,
    recreate: &'static str,
}

/// An object that was updated in a member.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
#[allow(non_snake_case, reason = "the label is called so")]
struct Updated {
    result: &'static str,
    apiversion: String,
    kind: String,
    member_cluster: String,
    operationResult: &'static str,
}

/// An object that was deleted from a member.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Deleted {
    result: &'static str,
    apiversion: String,
    kind: String,
    member_cluster: String,
}

type Seconds = Family<ResultLabel, Histogram, fn() -> Histogram>;

/// Which object a write to a member was about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About<'a> {
    /// Its `apiVersion`.
    pub(crate) api_version: &'a str,
    /// Its kind.
    pub(crate) kind: &'a str,
    /// The member.
    pub(crate) cluster: &'a str,
}

/// A write to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemberWrite {
    /// The object was created; again, if it had been there before.
    Create {
        /// Whether it was gone from the member.
        again: bool,
    },
    /// The object was replaced or patched.
    Update,
    /// The object was deleted.
    Delete,
}

/// The families. Cheap to clone.
#[derive(Clone)]
pub struct RoadMetrics {
    matched: Histogram,
    applied: Seconds,
    attempts: Family<ResultLabel, Counter>,
    preempted: Family<ResultLabel, Counter>,
    work: Seconds,
    workload: Seconds,
    created: Family<Created, PlainCounter>,
    updated: Family<Updated, PlainCounter>,
    deleted: Family<Deleted, PlainCounter>,
}

impl RoadMetrics {
    /// Registers the families.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 12));
        let all = Self {
            matched: seconds(),
            applied: Family::new_with_constructor(seconds),
            attempts: Family::default(),
            preempted: Family::default(),
            work: Family::new_with_constructor(seconds),
            workload: Family::new_with_constructor(seconds),
            created: Family::default(),
            updated: Family::default(),
            deleted: Family::default(),
        };
        let (matched, applied) = (all.matched.clone(), all.applied.clone());
        registry.register("resource_match_policy_duration_seconds", "Finding the policy of a template", matched);
        registry.register("resource_apply_policy_duration_seconds", "Applying a policy to a template", applied);
        registry.register("policy_apply_attempts", "Attempts to apply a policy", all.attempts.clone());
        let help = "Templates that a policy of higher priority took over";
        registry.register("policy_preemption", help, all.preempted.clone());
        registry.register("binding_sync_work_duration_seconds", "From binding to Works", all.work.clone());
        registry.register("work_sync_workload_duration_seconds", "From Work to member", all.workload.clone());
        registry.register("create_resource_to_cluster", "Objects created in members", all.created.clone());
        registry.register("update_resource_to_cluster", "Objects updated in members", all.updated.clone());
        registry.register("delete_resource_from_cluster", "Objects deleted from members", all.deleted.clone());
        all
    }

    /// A policy was found for a template, or none.
    pub(crate) fn matched(&self, took: Duration) {
        self.matched.observe(took.as_secs_f64());
    }

    /// A policy was applied to a template.
    pub(crate) fn applied(&self, took: Duration, result: &'static str) {
        let label = ResultLabel { result };
        self.attempts.get_or_create(&label).inc();
        self.applied.get_or_create(&label).observe(took.as_secs_f64());
    }

    /// Something was told of a template; of preemptions it is counted how they ended.
    pub(crate) fn told(&self, event: &Event) {
        let result = match event.reason {
            events::PREEMPT_POLICY_SUCCEED => "success",
            events::PREEMPT_POLICY_FAILED => "error",
            _ => return,
        };
        self.preempted.get_or_create(&ResultLabel { result }).inc();
    }

    /// A binding was turned into Works.
    pub(crate) fn synced_work(&self, took: Duration, result: &'static str) {
        self.work.get_or_create(&ResultLabel { result }).observe(took.as_secs_f64());
    }

    /// A Work was applied to its member.
    pub(crate) fn synced_workload(&self, took: Duration, result: &'static str) {
        self.workload.get_or_create(&ResultLabel { result }).observe(took.as_secs_f64());
    }

    /// An object was written to a member.
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
