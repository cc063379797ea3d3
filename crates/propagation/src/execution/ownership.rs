//! Content of a member object after an update: the fields of the manifest, and those that only the member set
//! (specification/propagation.md 13.3).

use ironclad_api::annotations;
use ironclad_patch::managed::{Record, ThreeWay};
use serde_json::{Map, Value};

use super::compare;
use crate::template::{self, Identity};

/// Longest annotation [`annotations::APPLIED_FIELDS`], in bytes: all annotations together have 256 KiB.
const BYTES_MAX: usize = 16 * 1024;

/// Fields of built-in kinds that servers set if they are missing: of containers, probes, pods and workloads, by what
/// has them. A member may have other values there, by its admission or its users, and the control plane's server has
/// written these into every template.
const DEFAULTS: [(&[&str], &str, &str); 22] = [
    (&["containers", "initContainers"], "terminationMessagePath", r#""/dev/termination-log""#),
    (&["containers", "initContainers"], "terminationMessagePolicy", r#""File""#),
    (&PROBES, "timeoutSeconds", "1"),
    (&PROBES, "periodSeconds", "10"),
    (&PROBES, "successThreshold", "1"),
    (&PROBES, "failureThreshold", "3"),
    (&["httpGet"], "scheme", r#""HTTP""#),
    (&["configMap", "secret", "projected", "downwardAPI"], "defaultMode", "420"),
    (&["spec"], "restartPolicy", r#""Always""#),
    (&["spec"], "dnsPolicy", r#""ClusterFirst""#),
    (&["spec"], "schedulerName", r#""default-scheduler""#),
    (&["spec"], "terminationGracePeriodSeconds", "30"),
    (&["spec"], "revisionHistoryLimit", "10"),
    (&["spec"], "progressDeadlineSeconds", "600"),
    (&["spec"], "strategy", r#"{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"},"type":"RollingUpdate"}"#),
    (&["spec"], "updateStrategy", r#"{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1},"type":"RollingUpdate"}"#),
    (&["spec"], "updateStrategy", r#"{"rollingUpdate":{"partition":0},"type":"RollingUpdate"}"#),
    (&["spec"], "sessionAffinity", r#""None""#),
    (&["spec"], "internalTrafficPolicy", r#""Cluster""#),
    (&["spec"], "externalTrafficPolicy", r#""Cluster""#),
    (&["spec"], "ipFamilies", r#"["IPv4"]"#),
    (&["spec"], "ipFamilyPolicy", r#""SingleStack""#),
];
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// Value of [`annotations::APPLIED_FIELDS`] for a manifest.
pub(crate) fn applied_fields(manifest: &Value) -> String {
    record(manifest, &content(manifest)).print(BYTES_MAX)
}

/// A manifest merged into the object of a member.
pub(super) struct Merged {
    /// The object to send.
    pub(super) object: Value,
    /// JSON pointer of the first field of the object that the manifest had when it was applied last, and that it does
    /// not have now.
    pub(super) removed: Option<String>,
}

/// Merges the content of a manifest into the object. Metadata is the manifest's.
///
/// The object says what was applied last; an object that does not, since older versions or Karmada wrote it, counts as
/// applied with this manifest. Another version of the API is not merged: it has other fields.
pub(super) fn merge(manifest: &Value, observed: &Value) -> Merged {
    if template::text(manifest, "/apiVersion") != template::text(observed, "/apiVersion") {
        return Merged { object: manifest.clone(), removed: None };
    }
    let (ours, theirs) = (content(manifest), content(observed));
    let now = record(manifest, &ours);
    let last = Record::read(template::annotation(observed, annotations::APPLIED_FIELDS));
    let last = last.as_ref().unwrap_or(&now);
    let three_way = three_way(manifest);
    let rest = three_way.without(&theirs, last, &now);
    let removed = compare::surplus(&rest, observed);
    let mut object = three_way.merge(&rest, &ours, last, &now);
    if let (Some(merged), Some(manifest)) = (object.as_object_mut(), manifest.as_object()) {
        let more = manifest.iter().filter(|(key, _)| !compare::is_content(key));
        merged.extend(more.map(|(key, value)| (key.clone(), value.clone())));
    }
    Merged { object, removed }
}

/// Returns true if the object has the record of this manifest, so that nothing in it has to go.
pub(super) fn is_recorded(manifest: &Value, observed: &Value) -> bool {
    let of = |object| template::annotation(object, annotations::APPLIED_FIELDS);
    of(manifest) == of(observed)
}

fn record(manifest: &Value, content: &Value) -> Record {
    let built_in = compare::is_built_in(manifest);
    three_way(manifest).record(content, |parent, members, name| built_in && is_default(parent, members, name))
}

fn three_way(manifest: &Value) -> ThreeWay<'static> {
    let gvk = Identity::of(manifest).gvk();
    ThreeWay::of(&gvk.group, &gvk.version, &gvk.kind)
}

fn is_default(parent: &str, members: &Map<String, Value>, name: &str) -> bool {
    let Some(value) = members.get(name) else { return false };
    if name == "imagePullPolicy" {
        let image = members.get("image").and_then(Value::as_str).unwrap_or_default();
        let tag = image.rsplit('/').next().unwrap_or_default().split_once(':').map_or("latest", |(_, tag)| tag);
        return *value == if tag == "latest" && !image.contains('@') { "Always" } else { "IfNotPresent" };
    }
    let of_name = DEFAULTS.iter().filter(|(parents, field, _)| *field == name && parents.contains(&parent));
    of_name.into_iter().any(|(.., default)| *default == value.to_string())
}

/// The fields that are compared, without those that are null: to Kubernetes they are missing.
fn content(object: &Value) -> Value {
    let members = object.as_object().into_iter().flatten().filter(|(key, _)| compare::is_content(key));
    let members = members.filter(|(_, value)| !value.is_null());
    Value::Object(members.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().filter(|(_, value)| !value.is_null());
            Value::Object(members.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        value => value.clone(),
    }
}
