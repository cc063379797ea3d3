//! The fleet before and after objects of a file are applied.

use std::collections::{BTreeMap, BTreeSet};

use ironclad_fleet::{ObjectKey, PolicyKey};
use ironclad_interpreter::Interpreter;
use ironclad_patch::merge_patch;
use ironclad_propagation::template::Identity;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::{ApplyPlan, Question, plan_apply, preemptions};
use crate::{
    Fleet, Preemption,
    preemption::{As, PreemptionPlan},
    world::InvalidObject,
};

/// Most objects of a file that are planned for at once.
pub const OBJECTS_MAX: usize = 1_000;

/// Error of planning for a file.
#[derive(Debug, thiserror::Error)]
pub enum InvalidFile {
    /// There is nothing in it.
    #[error("the file holds no object")]
    Empty,
    /// There is too much in it.
    #[error("the file holds {0} objects, more than {OBJECTS_MAX} are not planned for at once")]
    TooLarge(usize),
    /// An object can't be identified.
    #[error("an object of the file has no apiVersion, kind or metadata.name")]
    Unidentified,
    /// An object does not have the fields of its kind.
    #[error(transparent)]
    Object(#[from] InvalidObject),
}

/// An object that is applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Object {
    /// Its key, as text.
    pub name: String,
    /// Change of the object.
    pub change: Change,
}

/// Change of an applied object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// It does not exist yet.
    Created,
    /// It differs from the present one.
    Configured,
    /// It equals the present one.
    Unchanged,
}

impl Change {
    /// The word that `kubectl apply` prints.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
        }
    }

    fn of(present: Option<&Value>, applied: &Value) -> Self {
        let bare = |object: &Value| {
            let mut object = object.clone();
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.retain(|key, _| !matches!(key.as_str(), "managedFields" | "resourceVersion" | "generation"));
            }
            object
        };
        match present {
            None => Self::Created,
            Some(present) if bare(present) == bare(applied) => Self::Unchanged,
            Some(_) => Self::Configured,
        }
    }
}

/// The fleet before and after the objects are applied.
#[derive(Debug, Default)]
pub struct Planned {
    /// The fleet as it is.
    pub before: Fleet,
    /// The fleet with the applied objects in it.
    pub after: Fleet,
    /// Changes of the applied objects themselves.
    pub objects: Vec<Object>,
    pub(super) policies: BTreeSet<PolicyKey>,
    templates: BTreeSet<ObjectKey>,
    applied: Vec<Value>,
    not_followed: Vec<String>,
}

impl Planned {
    /// Puts the applied objects, each with its present state, into a copy of the fleet.
    ///
    /// # Errors
    /// If an object does not have the fields of its kind.
    pub fn new(before: Fleet, applied: Vec<(Option<Value>, Value)>) -> Result<Self, InvalidObject> {
        let mut planned = Self { after: before.clone(), before, ..Self::default() };
        for (present, object) in applied {
            let identity = Identity::of(&object);
            let key = identity.key();
            let (name, change) = (key.to_string(), Change::of(present.as_ref(), &object));
            if change != Change::Unchanged && !is_followed(identity.group(), identity.kind) {
                planned.not_followed.push(name.clone());
            }
            planned.objects.push(Object { name, change });
            match (identity.group(), identity.kind) {
                ("policy.karmada.io", "PropagationPolicy" | "ClusterPropagationPolicy") => {
                    let key = PolicyKey { namespace: identity.namespace.into(), name: identity.name.into() };
                    planned.policies.insert(key);
                }
                ("policy.karmada.io" | "cluster.karmada.io" | "work.karmada.io" | "config.karmada.io", _) => {}
                _ => {
                    planned.templates.insert(key);
                }
            }
            planned.after.insert(object.clone())?;
            planned.applied.push(object);
        }
        Ok(planned)
    }

    /// Applies the documents of a file to the objects of a dump, as merge patches. Documents of namespaced kinds that
    /// name no namespace go into the given one.
    ///
    /// # Errors
    /// If the file is empty or too large, or an object is not valid.
    pub fn of_dump(dump: Vec<Value>, documents: Vec<Value>, namespace: &str) -> Result<Self, InvalidFile> {
        check(&documents)?;
        let mut all: BTreeMap<ObjectKey, Value> = BTreeMap::new();
        for object in dump {
            all.insert(Identity::of(&object).key(), object);
        }
        // A file does not say which kinds are cluster-scoped; ours are known, and those that the dump has.
        let mut applied = Vec::new();
        for mut document in documents {
            let identity = Identity::of(&document);
            let (kind, is_named) = (identity.kind.to_owned(), !identity.namespace.is_empty());
            let is_global =
                is_global(&kind) || all.keys().any(|key| *key.gvk.kind == *kind && key.namespace.is_empty());
            if !is_named && !is_global {
                document["metadata"]["namespace"] = namespace.into();
            }
            let present = all.get(&Identity::of(&document).key()).cloned();
            let object = match &present {
                Some(present) => {
                    let mut object = present.clone();
                    merge_patch(&mut object, &document);
                    object
                }
                None => document,
            };
            applied.push((present, object));
        }
        let mut before = Fleet::default();
        for object in all.into_values() {
            before.insert(object)?;
        }
        Ok(Self::new(before, applied)?)
    }

    /// Follows the applied objects to the copies in the clusters.
    #[must_use]
    pub fn plan_apply(&self, preemption: Preemption, interpreter: &Interpreter, now: Timestamp) -> ApplyPlan {
        let mut found = plan_apply(&self.question(preemption, interpreter, now));
        found.not_followed.clone_from(&self.not_followed);
        found
    }

    /// Follows the applied objects to the preemptions that their workloads cause.
    #[must_use]
    pub fn preemptions(&self, given: As, interpreter: &Interpreter, now: Timestamp) -> Vec<PreemptionPlan> {
        preemptions(&self.question(Preemption::Off, interpreter, now), given)
    }

    fn question<'a>(&'a self, preemption: Preemption, interpreter: &'a Interpreter, now: Timestamp) -> Question<'a> {
        Question {
            before: &self.before,
            applied: &self.applied,
            policies: &self.policies,
            templates: &self.templates,
            preemption,
            interpreter,
            now,
        }
    }
}

/// True for kinds whose effect on copies is followed: templates, and what decides on them.
fn is_followed(group: &str, kind: &str) -> bool {
    match group {
        "policy.karmada.io" => matches!(
            kind,
            "PropagationPolicy" | "ClusterPropagationPolicy" | "OverridePolicy" | "ClusterOverridePolicy"
        ),
        "cluster.karmada.io" => kind == "Cluster",
        "work.karmada.io" => matches!(kind, "ResourceBinding" | "ClusterResourceBinding"),
        "config.karmada.io" => kind == "ResourceInterpreterCustomization",
        "apps.karmada.io"
        | "autoscaling.karmada.io"
        | "networking.karmada.io"
        | "remedy.karmada.io"
        | "sim.ironclad.io"
        | "apiextensions.k8s.io" => false,
        _ => true,
    }
}

/// Checks that a file holds objects that can be identified, and not too many.
///
/// # Errors
/// If it does not.
pub fn check(documents: &[Value]) -> Result<(), InvalidFile> {
    if documents.is_empty() {
        return Err(InvalidFile::Empty);
    }
    if documents.len() > OBJECTS_MAX {
        return Err(InvalidFile::TooLarge(documents.len()));
    }
    let is_identified = |document: &Value| {
        let identity = Identity::of(document);
        !identity.kind.is_empty() && !identity.api_version.is_empty() && !identity.name.is_empty()
    };
    if documents.iter().all(is_identified) { Ok(()) } else { Err(InvalidFile::Unidentified) }
}

fn is_global(kind: &str) -> bool {
    kind.starts_with("Cluster")
        || matches!(
            kind,
            "Namespace" | "CustomResourceDefinition" | "PersistentVolume" | "ResourceInterpreterCustomization"
        )
}
