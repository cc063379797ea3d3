//! The particulars of a built-in kind as pure functions (upstream: `strategy.go` of each kind).

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::{feature_gates::FeatureGates, names, status::Cause};

/// A column of a built-in kind: name, type, priority (1: only when wide).
pub(crate) type Column = (&'static str, &'static str, i64);

/// Conversion between a served version and the stored one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conversion {
    /// The apiVersion that is stored.
    pub(crate) api_version: &'static str,
    pub(crate) from_storage: fn(&mut Value),
    pub(crate) to_storage: fn(&mut Value),
}

/// The operations of the subresources that change a part of an object which an ordinary update may not change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SubresourceUpdate {
    /// Restores all that the named subresource does not change: subresource, old, new.
    pub(crate) restrict: fn(&str, &Value, &mut Value),
    /// Validates the change instead of [`Strategy::validate`]: subresource, new, old.
    pub(crate) validate: fn(&str, &Value, &Value) -> Vec<Cause>,
}

/// The particulars of a kind. [`Strategy::NONE`] is a kind without any.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Strategy {
    /// Fills in the defaults of every object.
    pub(crate) defaults: fn(&mut Value),
    /// Adds what the server generates for a new object, after its defaults.
    pub(crate) generate: fn(&mut Value),
    /// Drops or sets what a client may not choose in a new object; `None` drops its status.
    pub(crate) prepare_create: Option<fn(&mut Value)>,
    /// Carries over what an update may not leave out.
    pub(crate) prepare_update: fn(old: &Value, new: &mut Value),
    /// Restores what an update of the status may not change, besides the spec.
    pub(crate) prepare_status_update: fn(old: &Value, new: &mut Value),
    /// Sets the times of changed conditions: now, old, new.
    pub(crate) set_condition_times: fn(&str, &Value, &mut Value),
    /// Validates an object or, with `old`, a change.
    pub(crate) validate: fn(&Value, Option<&Value>, &mut Vec<Cause>),
    /// Validates what gates of Kubernetes change, before [`Strategy::validate`].
    pub(crate) validate_gated: fn(FeatureGates, &Value, Option<&Value>, &mut Vec<Cause>),
    /// Validates names.
    pub(crate) validate_name: fn(&str) -> Vec<String>,
    /// Labels that are validated elsewhere.
    pub(crate) unchecked_labels: &'static [&'static str],
    /// Finalizers may be any qualified name.
    pub(crate) any_finalizer: bool,
    /// Advice about an object that is allowed and unwise.
    pub(crate) warnings: fn(&Value, Option<&Value>) -> Vec<String>,
    /// Warning on every request, for a deprecated kind.
    pub(crate) deprecated: &'static str,
    /// Columns of tables.
    pub(crate) columns: &'static [Column],
    /// The cells of an object, one for each column.
    pub(crate) cells: fn(&Value, Timestamp) -> Vec<Value>,
    /// Fields for field selectors, besides name and namespace.
    pub(crate) selectable_fields: &'static [&'static str],
    /// Storage in another version.
    pub(crate) conversion: Option<Conversion>,
    /// Objects expire this long after their last write.
    pub(crate) time_to_live: Option<Duration>,
    /// Lists from revision 0 honour `limit`, as those of kinds that a kube-apiserver does not cache.
    pub(crate) uncached: bool,
    /// The spec belongs to the server once the object is created: no manager owns its fields.
    pub(crate) server_owns_spec: bool,
    /// The key of metadata whose changes count in `metadata.generation`, besides those of the spec.
    pub(crate) generation_counts: Option<&'static str>,
    /// `spec.finalizers` keep a deleted object, besides those in metadata.
    pub(crate) spec_finalizers: bool,
    /// Seconds until a deleted object is removed: object, seconds that were asked for. Only kinds with this are
    /// answered with the object.
    pub(crate) grace_seconds: Option<fn(&Value, Option<i64>) -> i64>,
    /// Subresources that change a part of the object.
    pub(crate) subresource_update: Option<SubresourceUpdate>,
}

impl Strategy {
    /// A kind without peculiarities.
    pub(crate) const NONE: Self = Self {
        defaults: |_| {},
        generate: |_| {},
        prepare_create: None,
        prepare_update: |_, _| {},
        prepare_status_update: |_, _| {},
        set_condition_times: |_, _, _| {},
        validate: |_, _, _| {},
        validate_gated: |_, _, _, _| {},
        validate_name: names::dns_subdomain,
        unchecked_labels: &[],
        any_finalizer: false,
        warnings: |_, _| vec![],
        deprecated: "",
        columns: &[("Name", "string", 0), ("Created At", "date", 0)],
        cells: |o, _| {
            let text = |key: &str| o["metadata"][key].as_str().unwrap_or_default().into();
            vec![text("name"), text("creationTimestamp")]
        },
        selectable_fields: &[],
        conversion: None,
        time_to_live: None,
        uncached: false,
        server_owns_spec: false,
        generation_counts: None,
        spec_finalizers: false,
        grace_seconds: None,
        subresource_update: None,
    };
}
