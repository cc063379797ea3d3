//! Rules as table rows: a write, and the exact answer.

mod agents;
mod autoscaling;
mod clusters;
mod engine;
mod interpreters;
mod networking;
mod overrides;
mod propagation;
mod protection;
mod quotas;
mod rows;
mod selectors;
mod work_objects;

use ironclad_patch::merge_patch;
use serde_json::{Value, json};

use crate::{Config, Lookups, Operation, Request, Verdict, mutate, validate};

/// The id that every review receives.
pub(super) const ID: &str = "0d8e1a4c-0000-4000-8000-000000000001";

/// A write and its user.
#[derive(Clone)]
pub(super) struct Write {
    pub(super) operation: Operation,
    pub(super) group: &'static str,
    pub(super) resource: &'static str,
    pub(super) object: Option<Value>,
    pub(super) old: Option<Value>,
    pub(super) user: &'static str,
    pub(super) may_be_own: bool,
    pub(super) groups: Vec<String>,
    pub(super) field_manager: &'static str,
    pub(super) lookups: Lookups,
    pub(super) config: Config,
    pub(super) dry_run: bool,
}

impl Write {
    pub(super) fn create(group: &'static str, resource: &'static str, object: Value) -> Self {
        Self {
            operation: Operation::Create,
            group,
            resource,
            object: Some(object),
            old: None,
            user: "alice",
            may_be_own: true,
            groups: vec![],
            field_manager: "kubectl",
            lookups: Lookups { id: ID.to_owned(), ..Lookups::default() },
            config: Config::default(),
            dry_run: false,
        }
    }

    pub(super) fn update(group: &'static str, resource: &'static str, old: Value, new: Value) -> Self {
        Self { operation: Operation::Update, old: Some(old), ..Self::create(group, resource, new) }
    }

    pub(super) fn delete(group: &'static str, resource: &'static str, old: Value) -> Self {
        Self {
            operation: Operation::Delete,
            object: None,
            old: Some(old),
            ..Self::create(group, resource, Value::Null)
        }
    }

    pub(super) fn with_request<T>(&self, read: impl FnOnce(&Request<'_>) -> T) -> T {
        let any = self.object.as_ref().or(self.old.as_ref()).unwrap();
        let text = |pointer: &str| any.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        read(&Request {
            operation: self.operation,
            group: self.group,
            version: "v1alpha1",
            resource: self.resource,
            subresource: "",
            kind: text("/kind"),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
            object: self.object.as_ref(),
            old: self.old.as_ref(),
            user: self.user,
            may_be_own: self.may_be_own,
            groups: &self.groups,
            field_manager: self.field_manager,
            dry_run: self.dry_run,
        })
    }

    pub(super) fn validated(&self) -> Verdict {
        self.with_request(|request| validate(request, &self.lookups, &self.config))
    }

    /// The message of the refusal, empty if the write is admitted.
    pub(super) fn refusal(&self) -> String {
        self.validated().denial.map(|denial| denial.message).unwrap_or_default()
    }

    /// The object after mutation; mutating it once more changes nothing.
    pub(super) fn mutated(&self) -> Value {
        let changed = self.with_request(|request| mutate(request, &self.lookups, &self.config)).unwrap();
        let Some(once) = changed else { return self.object.clone().unwrap() };
        let again = Self { object: Some(once.clone()), ..self.clone() };
        let twice = again.with_request(|request| mutate(request, &self.lookups, &self.config)).unwrap();
        assert_eq!(twice, None, "mutating twice");
        once
    }
}

/// `base` with a merge patch.
pub(super) fn with(base: &Value, patch: &Value) -> Value {
    let mut object = base.clone();
    merge_patch(&mut object, patch);
    object
}

/// `base` with a merge patch of its spec.
pub(super) fn with_spec(base: &Value, spec: &Value) -> Value {
    with(base, &json!({ "spec": spec }))
}
