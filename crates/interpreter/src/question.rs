//! What is asked of an interpreter, and who may answer (propagation.md 20.1).

use std::fmt;

use ironclad_api::work::Component;
use serde_json::Value;

use crate::{Dependency, Health, InterpretError, Item, Operation, Replicas, lens, webhook::Call};

/// One question about an object.
#[derive(Debug, Clone, Copy)]
pub enum Question<'a> {
    /// How many replicas, and what one needs.
    Replicas {
        /// The template.
        template: &'a Value,
    },
    /// Which pod templates there are.
    Components {
        /// The template.
        template: &'a Value,
    },
    /// The manifest with so many replicas.
    Revise {
        /// The manifest.
        manifest: &'a Value,
        /// How many.
        replicas: i32,
    },
    /// The manifest with what the member keeps.
    Retain {
        /// The manifest.
        desired: &'a Value,
        /// The object in the member.
        observed: &'a Value,
    },
    /// What of the status is reported.
    Status {
        /// The object in the member.
        object: &'a Value,
    },
    /// Whether it does what it should.
    Health {
        /// The object in the member.
        object: &'a Value,
    },
    /// The template with the status that the members' add up to.
    Aggregate {
        /// The template.
        template: &'a Value,
        /// The members' reports.
        items: &'a [Item<'a>],
    },
    /// What travels along.
    Dependencies {
        /// The template.
        template: &'a Value,
    },
}

impl<'a> Question<'a> {
    /// Which operation this is.
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

    /// The object that it is about: of Retain the manifest.
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

/// What was answered.
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

/// What a source makes of a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The answer.
    Is(Reply),
    /// Somebody else has to be called.
    Ask(Box<Call>),
}

/// One of the sources that may answer, in order of precedence: customizations, webhooks, what is shipped.
pub trait Source: fmt::Debug + Send + Sync {
    /// Whether it answers this operation for this kind. If it does, no source after it is asked.
    fn implements(&self, api_version: &str, kind: &str, operation: Operation) -> bool;

    /// Answers a question that it implements.
    ///
    /// # Errors
    /// If it can't. No other source is asked then.
    fn answer(&self, question: &Question<'_>) -> Result<Answer, InterpretError>;
}

/// Refuses an answer that makes another object of the one that it is about.
///
/// # Errors
/// With what it changed.
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
    fn an_answer_is_about_the_same_object() {
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
