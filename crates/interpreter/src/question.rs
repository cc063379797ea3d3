//! Questions to interpreters, and the sources that answer them (specification/propagation.md 20.1).

use std::fmt;

use ironclad_api::work::Component;
use serde_json::Value;

use crate::{Dependency, Health, InterpretError, Item, Operation, Replicas, lens, webhook::Call};

/// One question about an object.
#[derive(Debug, Clone, Copy)]
pub enum Question<'a> {
    /// Replicas and requirements of one replica.
    Replicas { template: &'a Value },
    /// Pod templates with their replicas.
    Components { template: &'a Value },
    /// The manifest with this number of replicas.
    Revise {
        manifest: &'a Value,
        /// The number of replicas.
        replicas: i32,
    },
    /// The manifest with the fields that the member owns.
    Retain {
        /// The manifest.
        desired: &'a Value,
        /// The object in the member.
        observed: &'a Value,
    },
    /// The part of the status to report.
    Status {
        /// The object in the member.
        object: &'a Value,
    },
    /// Health of the copy.
    Health {
        /// The object in the member.
        object: &'a Value,
    },
    /// The template with the aggregated status.
    Aggregate {
        template: &'a Value,
        /// The members' reports.
        items: &'a [Item<'a>],
    },
    /// Objects that are propagated along with the template.
    Dependencies { template: &'a Value },
}

impl<'a> Question<'a> {
    /// The operation of the question.
    #[must_use]
    pub fn operation(&self) -> Operation {
        match self {
            Self::Replicas { .. } => Operation::InterpretReplica,
            Self::Components { .. } => Operation::InterpretComponent,
            Self::Revise { .. } => Operation::ReviseReplica,
            Self::Retain { .. } => Operation::Retain,
            Self::Status { .. } => Operation::InterpretStatus,
            Self::Health { .. } => Operation::InterpretHealth,
            Self::Aggregate { .. } => Operation::AggregateStatus,
            Self::Dependencies { .. } => Operation::InterpretDependency,
        }
    }

    /// The object that the question is about: for Retain the manifest.
    #[must_use]
    pub fn object(&self) -> &'a Value {
        match self {
            Self::Replicas { template }
            | Self::Components { template }
            | Self::Aggregate { template, .. }
            | Self::Dependencies { template } => template,
            Self::Revise { manifest, .. } => manifest,
            Self::Retain { desired, .. } => desired,
            Self::Status { object } | Self::Health { object } => object,
        }
    }

    /// The `apiVersion` and `kind` of the object.
    #[must_use]
    pub fn kind(&self) -> (&'a str, &'a str) {
        (lens::text(self.object(), "/apiVersion"), lens::text(self.object(), "/kind"))
    }
}

/// Answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// To [`Question::Replicas`].
    Replicas(Replicas),
    /// To [`Question::Components`].
    Components(Vec<Component>),
    /// To [`Question::Revise`], [`Question::Retain`] and [`Question::Aggregate`].
    Object(Value),
    /// To [`Question::Status`].
    Status(Option<Value>),
    /// To [`Question::Health`].
    Health(Health),
    /// To [`Question::Dependencies`].
    Dependencies(Vec<Dependency>),
}

/// Result of asking a source.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The answer.
    Is(Reply),
    /// A webhook has to be called first.
    Ask(Box<Call>),
}

/// Source of answers. Order of precedence: customizations, webhooks, shipped scripts.
pub trait Source: fmt::Debug + Send + Sync {
    /// Returns true if it answers this operation for this kind. No later source is asked then.
    fn implements(&self, api_version: &str, kind: &str, operation: Operation) -> bool;

    /// Answers a question that it implements.
    ///
    /// # Errors
    /// If it cannot. No other source is asked then.
    fn answer(&self, question: &Question<'_>) -> Result<Answer, InterpretError>;
}

/// Refuses an answer whose object is not the one that the question is about.
///
/// # Errors
/// The field that differs.
pub fn checked_object(before: &Value, after: &Value) -> Result<(), String> {
    for pointer in ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"] {
        if lens::text(before, pointer) != lens::text(after, pointer) {
            return Err(format!("the answer changed {pointer} of the object, which no interpreter may"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answer_must_keep_the_identity_of_the_object() {
        let before =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "n"}, "spec": {}});
        let mut after = before.clone();
        after["spec"]["x"] = json!(1);
        assert_eq!(checked_object(&before, &after), Ok(()));
        for pointer in ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"] {
            let mut after = before.clone();
            *after.pointer_mut(pointer).unwrap() = json!("other");
            assert!(checked_object(&before, &after).unwrap_err().contains(pointer));
        }
    }
}
