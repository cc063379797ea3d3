//! What a kind's replicas, health, status and dependencies are (propagation.md 14, 15.3, 17-20; native kinds).
//!
//! No IO: a question is answered from the objects given, or, where a source needs a call, with what to ask
//! ([`Step::Ask`]); whoever asked makes the call and comes again with the answer. No source needs a call yet, which
//! [`Call`] says by having no value: `let Step::Done(x) = step;` holds, and stops compiling when one does.

mod aggregate;
mod dependencies;
mod health;
mod kind;
mod lens;
pub mod pod;
mod prune;
mod replicas;
mod retain;
mod status;

use std::collections::BTreeSet;

use ironclad_fleet::{ClusterName, Gvk};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::{
    aggregate::Item, dependencies::Dependency, kind::Operation, lens::ShapeError, prune::prune, replicas::Replicas,
};

/// What came of a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<T> {
    /// The answer.
    Done(T),
    /// Ask this first, then come again.
    Ask(Call),
}

/// A call that a source needs before it can answer. No source does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InterpretError {
    /// The object is not shaped as its kind demands.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Nothing implements the operation for the kind; ask [`Interpreter::implements`] first.
    #[error("no interpreter implements {operation} for {gvk}: add a ResourceInterpreterCustomization")]
    NotImplemented {
        /// What was asked.
        operation: Operation,
        /// Of which kind.
        gvk: Gvk,
    },
}

/// Health of one object in a member (api.md 7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Health {
    /// It does what it should.
    Healthy,
    /// It does not.
    Unhealthy,
}

/// Answers questions about objects by the precedence of propagation.md 20.1. Cheap to clone.
///
/// The native rules are the last source and the only one that is linked in.
#[derive(Debug, Clone, Default)]
pub struct Interpreter {}

type Answer<T> = Result<Step<T>, InterpretError>;

impl Interpreter {
    /// True if some source implements the operation for the kind. `InterpretStatus` always is implemented.
    #[must_use]
    pub fn implements(&self, gvk: &Gvk, operation: Operation) -> bool {
        kind::Kind::of_gvk(gvk).is_some_and(|kind| kind.implements(operation))
            || operation == Operation::InterpretStatus
    }

    /// Desired replicas and what one needs (19, 7.5).
    ///
    /// # Errors
    /// If nothing implements it or the template is misshapen.
    pub fn replicas(&self, template: &Value) -> Answer<Replicas> {
        let kind = native(template, Operation::InterpretReplica)?;
        Ok(Step::Done(replicas::replicas(kind, template)?))
    }

    /// The manifest with its replicas set to `replicas`, if it has the field (9.2 step 1).
    ///
    /// # Errors
    /// If nothing implements it or the manifest is misshapen.
    pub fn revise_replica(&self, manifest: &Value, replicas: i32) -> Answer<Value> {
        let kind = native(manifest, Operation::ReviseReplica)?;
        Ok(Step::Done(replicas::revise(kind, manifest, replicas)))
    }

    /// What of a member object's status the Work carries (15.3); `None`: nothing to tell.
    ///
    /// # Errors
    /// If the object is misshapen, or a generation-aware kind has no numeric template generation in its annotations.
    pub fn reflect_status(&self, object: &Value) -> Answer<Option<Value>> {
        Ok(Step::Done(status::reflect(kind::Kind::of(object), object)?))
    }

    /// Whether a member object does what it should (18); `None`: no rule for its kind, which counts as Healthy.
    ///
    /// # Errors
    /// If the object is misshapen.
    pub fn health(&self, object: &Value) -> Answer<Option<Health>> {
        let kind = kind::Kind::of(object).filter(|kind| kind.implements(Operation::InterpretHealth));
        Ok(Step::Done(kind.map(|kind| health::health(kind, object)).transpose()?))
    }

    /// The whole `.status` that the members' reports add up to (17); equal to the present one if nothing changes.
    ///
    /// `expected` are the clusters that should report (9.1); `now` is RFC 3339 in whole seconds, for conditions that
    /// begin here.
    ///
    /// # Errors
    /// If nothing implements it or a report is misshapen.
    pub fn aggregate_status(
        &self,
        template: &Value,
        items: &[Item<'_>],
        expected: &BTreeSet<ClusterName>,
        now: &str,
    ) -> Answer<Value> {
        let kind = native(template, Operation::AggregateStatus)?;
        Ok(Step::Done(aggregate::aggregate(kind, template, items, expected, now)?))
    }

    /// The manifest with what the member owns taken from the member object (14; row 25 of 31).
    ///
    /// `replicas_path` is the kind's `specReplicasPath` (`.spec.replicas`) where it has a scale subresource.
    ///
    /// # Errors
    /// If an object is misshapen, or replicas are to be retained and the member object has none.
    pub fn retain(&self, desired: &Value, observed: &Value, replicas_path: Option<&str>) -> Answer<Value> {
        Ok(Step::Done(retain::retain(kind::Kind::of(desired), desired, observed, replicas_path)?))
    }

    /// What the template refers to and what should travel with it (8.3), sorted and without doubles.
    ///
    /// # Errors
    /// If nothing implements it or the template is misshapen.
    pub fn dependencies(&self, template: &Value) -> Answer<Vec<Dependency>> {
        let kind = native(template, Operation::InterpretDependency)?;
        Ok(Step::Done(dependencies::dependencies(kind, template)?))
    }
}

fn native(object: &Value, operation: Operation) -> Result<kind::Kind, InterpretError> {
    kind::Kind::of(object).filter(|kind| kind.implements(operation)).ok_or_else(|| InterpretError::NotImplemented {
        operation,
        gvk: Gvk::from_manifest(lens::text(object, "/apiVersion"), lens::text(object, "/kind")),
    })
}
