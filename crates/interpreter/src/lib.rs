//! Resource interpreter: replicas, health, status and dependencies of a kind (specification/propagation.md 14, 15.3,
//! 17-20).
//!
//! Four sources, in this order; the first that implements the operation for the kind answers: customizations
//! (scripts), webhooks, shipped scripts for well-known kinds of other projects, and native rules. If it fails, its
//! error is the answer: no other source is asked.
//!
//! This crate does no IO. A rule that needs a webhook's answer returns the call to make ([`Interpreter::take_open`])
//! instead of a result; the reconciler makes the call, stores the answer with [`Interpreter::answer`], and runs the
//! decision again. Each run sees the answers of the calls before it, so with the same answers the same snapshot gives
//! the same plan ([`Interpreter::for_a_decision`]).

mod aggregate;
mod autoscalers;
mod checked;
mod dependencies;
mod error;
mod health;
mod kept;
mod kind;
mod lens;
mod member_replicas;
pub mod pod;
mod prune;
mod question;
mod replicas;
mod replicas_paths;
mod retain;
mod status;
pub mod webhook;

use std::{collections::BTreeSet, sync::Arc};

use ironclad_api::work::Component;
use ironclad_fleet::{ClusterName, Gvk};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::{
    aggregate::Item,
    autoscalers::{AutoscalerKind, AutoscalerKinds, AutoscalerPaths, InvalidRow},
    checked::{checked_components, checked_replicas},
    dependencies::Dependency,
    error::{CheckScript, InterpretError, ScriptError},
    kept::Kept,
    kind::Operation,
    lens::ShapeError,
    member_replicas::MemberReplicas,
    prune::prune,
    question::{Answer, Question, Reply, Source, checked_object},
    replicas::Replicas,
    replicas_paths::{ReplicasPath, ReplicasPaths, replicas_paths, replicas_pointer},
};
use crate::{kind::Kind, webhook::CallLog};

/// Health of one object in a member (specification/api.md 7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Health {
    /// The object does what it should.
    Healthy,
    /// The object does not do what it should.
    Unhealthy,
}

/// Answers questions about objects by the precedence of specification/propagation.md 20.1. Cheap to clone.
///
/// The default interpreter has only the native rules.
#[derive(Debug, Clone, Default)]
pub struct Interpreter {
    sources: Arc<Vec<Arc<dyn Source>>>,
    replicas_paths: Arc<ReplicasPaths>,
    /// Rows of users; those that are shipped are there anyway.
    autoscalers: Arc<AutoscalerKinds>,
    calls: Arc<CallLog>,
}

impl Interpreter {
    /// Places these sources before the native rules, in order of precedence.
    #[must_use]
    pub fn new(sources: Vec<Arc<dyn Source>>) -> Self {
        Self { sources: Arc::new(sources), ..Self::default() }
    }

    /// The same sources with these paths, for the label `retain-replicas`.
    #[must_use]
    pub fn with_replicas_paths(self, replicas_paths: Arc<ReplicasPaths>) -> Self {
        Self { replicas_paths, ..self }
    }

    /// The same sources with these rows of autoscalers.
    #[must_use]
    pub fn with_autoscalers(self, autoscalers: Arc<AutoscalerKinds>) -> Self {
        Self { autoscalers, ..self }
    }

    /// The kinds that scale a target, without HorizontalPodAutoscalers. Rows of users come before shipped ones.
    #[must_use]
    pub fn autoscalers(&self) -> AutoscalerKinds {
        let mut all = AutoscalerKind::shipped();
        all.extend(self.autoscalers.iter().map(|(gvk, row)| (gvk.clone(), row.clone())));
        all
    }

    /// The kind of a manifest whose replicas are to be retained, if it is not known where it has them: look it up and
    /// pass it to [`Self::with_replicas_paths`].
    #[must_use]
    pub fn missing_replicas_path(&self, manifest: &Value) -> Option<Gvk> {
        if !retain::may_retain_replicas(manifest) || retain::native_replicas_path(manifest).is_some() {
            return None;
        }
        let (api_version, kind) = (lens::text(manifest, "/apiVersion"), lens::text(manifest, "/kind"));
        let gvk = Gvk::from_manifest(api_version, kind);
        let is_scripted = self.sources.iter().any(|source| source.implements(api_version, kind, Operation::Retain));
        let needs_path = !is_scripted || MemberReplicas::of(manifest).is_some();
        (needs_path && !self.replicas_paths.contains_key(&gvk)).then_some(gvk)
    }

    /// The place at which a kind has its replicas.
    #[must_use]
    pub fn replicas_path(&self, gvk: &Gvk) -> ReplicasPath {
        let (api_version, kind) = (gvk.api_version(), &*gvk.kind);
        if let Some(path) = retain::native_path(&api_version, kind) {
            return ReplicasPath::At(path.into());
        }
        match self.replicas_paths.get(gvk) {
            Some(Some(path)) => ReplicasPath::At(path.clone()),
            Some(None) => ReplicasPath::Nowhere,
            None => ReplicasPath::NotLookedUp,
        }
    }

    /// The same sources without any answers, for one decision. The decision is run again as long as
    /// [`Self::take_open`] returns calls, each answered with [`Self::answer`]. A clone belongs to the same decision.
    #[must_use]
    pub fn for_a_decision(&self) -> Self {
        Self { calls: Arc::default(), ..self.clone() }
    }

    /// The calls that the last run of the decision needed, without duplicates.
    #[must_use]
    pub fn take_open(&self) -> Vec<webhook::Call> {
        self.calls.take_open()
    }

    /// Stores the outcome of a call for the next runs.
    pub fn answer(&self, call: &webhook::Call, called: webhook::Called) {
        self.calls.answer(call, called);
    }

    /// Returns true if a source implements the operation for the kind. `InterpretStatus` is always implemented.
    #[must_use]
    pub fn implements(&self, gvk: &Gvk, operation: Operation) -> bool {
        let api_version = gvk.api_version();
        self.sources.iter().any(|source| source.implements(&api_version, &gvk.kind, operation))
            || Kind::of_gvk(gvk).is_some_and(|kind| kind.implements(operation))
            || operation == Operation::InterpretStatus
    }

    /// Fields of a member object to cache besides its metadata and status, so that its health and status can be
    /// computed and retention needs no request.
    #[must_use]
    pub fn kept(&self, gvk: &Gvk) -> Kept {
        let api_version = gvk.api_version();
        let asks = |source: &Arc<dyn Source>| {
            kept::OPERATIONS.iter().any(|operation| source.implements(&api_version, &gvk.kind, *operation))
        };
        if self.sources.iter().any(asks) { Kept::Whole } else { Kept::Fields(kept::native(Kind::of_gvk(gvk))) }
    }

    /// Asks the sources before the native rules; `None` if none implements the operation for the kind.
    fn ask(&self, question: &Question<'_>) -> Result<Option<Reply>, InterpretError> {
        let (api_version, kind) = question.kind();
        let operation = question.operation();
        let Some(source) = self.sources.iter().find(|source| source.implements(api_version, kind, operation)) else {
            return Ok(None);
        };
        match source.answer(question)? {
            Answer::Is(reply) => Ok(Some(reply)),
            Answer::Ask(call) => self.calls.reply(*call, question).map(Some),
        }
    }

    /// Desired replicas and the requirements of one replica (specification/propagation.md 19, 7.5).
    ///
    /// # Errors
    /// If no source implements it or the template is malformed.
    pub fn replicas(&self, template: &Value) -> Result<Replicas, InterpretError> {
        match self.ask(&Question::Replicas { template })? {
            Some(Reply::Replicas(replicas)) => Ok(replicas),
            _ => Ok(replicas::replicas(native(template, Operation::InterpretReplica)?, template)?),
        }
    }

    /// The pod templates with their replicas and requirements (specification/propagation.md 7.4). No native kind has
    /// several.
    ///
    /// # Errors
    /// If no source implements it or the template is malformed.
    pub fn components(&self, template: &Value) -> Result<Vec<Component>, InterpretError> {
        match self.ask(&Question::Components { template })? {
            Some(Reply::Components(components)) => Ok(components),
            _ => Err(not_implemented(template, Operation::InterpretComponent)),
        }
    }

    /// The manifest with its replicas set to `replicas`, if it has the field (specification/propagation.md 9.2 step
    /// 1).
    ///
    /// # Errors
    /// If no source implements it or the manifest is malformed.
    pub fn revise_replica(&self, manifest: &Value, replicas: i32) -> Result<Value, InterpretError> {
        match self.ask(&Question::Revise { manifest, replicas })? {
            Some(Reply::Object(revised)) => Ok(revised),
            _ => Ok(replicas::revise(native(manifest, Operation::ReviseReplica)?, manifest, replicas)),
        }
    }

    /// The part of a member object's status that the Work carries (specification/propagation.md 15.3); `None` if there
    /// is none.
    ///
    /// # Errors
    /// If the object is malformed, or a generation-aware kind has no numeric template generation in its annotations.
    pub fn reflect_status(&self, object: &Value) -> Result<Option<Value>, InterpretError> {
        match self.ask(&Question::Status { object })? {
            Some(Reply::Status(status)) => Ok(status),
            _ => Ok(status::reflect(Kind::of(object), object)?),
        }
    }

    /// Health of a member object (specification/propagation.md 18). `None` if its kind has no rule, which counts as
    /// Healthy.
    ///
    /// # Errors
    /// If the object is malformed.
    pub fn health(&self, object: &Value) -> Result<Option<Health>, InterpretError> {
        match self.ask(&Question::Health { object })? {
            Some(Reply::Health(health)) => Ok(Some(health)),
            _ => {
                let kind = Kind::of(object).filter(|kind| kind.implements(Operation::InterpretHealth));
                Ok(kind.map(|kind| health::health(kind, object)).transpose()?)
            }
        }
    }

    /// The aggregated `.status` of the members' reports (specification/propagation.md 17); equal to the present one if
    /// nothing changes.
    ///
    /// `expected` are the clusters that should report (9.1); `now` is RFC 3339 in whole seconds, for conditions that
    /// begin here. Scripts and webhooks receive the reports that exist; of their result only the status is used.
    ///
    /// # Errors
    /// If no source implements it or a report is malformed.
    pub fn aggregate_status(
        &self,
        template: &Value,
        items: &[Item<'_>],
        expected: &BTreeSet<ClusterName>,
        now: &str,
    ) -> Result<Value, InterpretError> {
        match self.ask(&Question::Aggregate { template, items })? {
            Some(Reply::Object(mut object)) => match object.get_mut("status").map(Value::take) {
                Some(status) if !status.is_null() => Ok(status),
                _ => Ok(template.get("status").cloned().unwrap_or(Value::Null)),
            },
            _ => {
                let kind = native(template, Operation::AggregateStatus)?;
                Ok(aggregate::aggregate(kind, template, items, expected, now)?)
            }
        }
    }

    /// The manifest with the fields that the member owns taken from the member object (specification/propagation.md
    /// 14; 31, row 25).
    ///
    /// Label `retain-replicas` also keeps the replicas of kinds with a scale subresource, if the path is known
    /// ([`Self::missing_replicas_path`]). A source that implements Retain decides alone, but for replicas that an
    /// autoscaler in the member decides ([`MemberReplicas`]).
    ///
    /// # Errors
    /// If an object is malformed, or replicas are to be retained and the member object has none.
    pub fn retain(&self, desired: &Value, observed: &Value) -> Result<Value, InterpretError> {
        let path = || {
            let gvk = Gvk::from_manifest(lens::text(desired, "/apiVersion"), lens::text(desired, "/kind"));
            self.replicas_paths.get(&gvk).and_then(Option::as_deref)
        };
        let mut kept = match self.ask(&Question::Retain { desired, observed })? {
            Some(Reply::Object(retained)) => retained,
            _ => retain::retain(Kind::of(desired), desired, observed, path())?,
        };
        retain::keep_member_replicas(&mut kept, desired, observed, path());
        Ok(kept)
    }

    /// Gives an object that keeps the member's replicas by label `retain-replicas`, and has none, those of the manifest
    /// (specification/autoscaling.md 5): the member's autoscaler takes zero for switched off, and never leaves it. A
    /// source that implements Retain decides alone.
    pub fn leave_zero_replicas(&self, manifest: &Value, kept: &mut Value) {
        let (api_version, kind) = (lens::text(manifest, "/apiVersion"), lens::text(manifest, "/kind"));
        if self.sources.iter().any(|source| source.implements(api_version, kind, Operation::Retain)) {
            return;
        }
        let gvk = Gvk::from_manifest(api_version, kind);
        let path = self.replicas_paths.get(&gvk).and_then(Option::as_deref);
        retain::leave_zero_replicas(manifest, kept, path);
    }

    /// The objects that are propagated along with the template (specification/propagation.md 8.3), sorted and without
    /// duplicates.
    ///
    /// # Errors
    /// If no source implements it or the template is malformed.
    pub fn dependencies(&self, template: &Value) -> Result<Vec<Dependency>, InterpretError> {
        match self.ask(&Question::Dependencies { template })? {
            Some(Reply::Dependencies(found)) => Ok(found),
            _ => Ok(dependencies::dependencies(native(template, Operation::InterpretDependency)?, template)?),
        }
    }
}

fn native(object: &Value, operation: Operation) -> Result<Kind, InterpretError> {
    Kind::of(object).filter(|kind| kind.implements(operation)).ok_or_else(|| not_implemented(object, operation))
}

fn not_implemented(object: &Value, operation: Operation) -> InterpretError {
    let gvk = Gvk::from_manifest(lens::text(object, "/apiVersion"), lens::text(object, "/kind"));
    InterpretError::NotImplemented { operation, gvk }
}
