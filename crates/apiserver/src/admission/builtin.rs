//! The built-in admission: namespaces that are missing or going, what pods get (apiserver.md 19, 21).

use serde_json::{Value, json};

use super::limit_range;
use crate::{
    certificates,
    context::Cx,
    object,
    status::{ApiError, Cause},
};

/// Before a new object is defaulted.
pub(crate) fn create(cx: &Cx, value: &mut Value) -> Result<(), ApiError> {
    namespace_takes_objects(cx, value)?;
    if let Some(custom) = cx.resource.custom()
        && custom.terminating
    {
        return Err(ApiError::forbidden(
            &cx.resource.plural,
            &cx.resource.group,
            object::meta_str(value, "name"),
            "create not allowed while custom resource definition is terminating",
        ));
    }
    if cx.resource.is("", "Pod") {
        limit_range::default(cx, value);
        pod(cx, value)?;
    }
    if cx.resource.is(certificates::GROUP, certificates::KIND) {
        certificates::create(cx, value)?;
    }
    if cx.resource.is("", "PersistentVolumeClaim") {
        protect(value, "kubernetes.io/pvc-protection");
    }
    if cx.resource.is("", "PersistentVolume") {
        protect(value, "kubernetes.io/pv-protection");
    }
    Ok(())
}

/// Before a changed object is defaulted.
pub(crate) fn update(cx: &Cx, old: &Value, new: &mut Value) -> Result<(), ApiError> {
    if cx.resource.is("", "Pod") && cx.subresource().is_none() && new["spec"].is_object() {
        default_tolerations(&mut new["spec"]);
    }
    if cx.resource.is(certificates::GROUP, certificates::KIND) {
        certificates::update(cx, old, new)?;
    }
    Ok(())
}

fn protect(value: &mut Value, finalizer: &str) {
    let metadata = object::metadata_mut(value);
    let list = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut()
        && !list.iter().any(|f| f == finalizer)
    {
        list.push(json!(finalizer));
    }
}

/// Objects are made in namespaces that exist and aren't going.
fn namespace_takes_objects(cx: &Cx, value: &Value) -> Result<(), ApiError> {
    let Some(name) = cx.namespace().filter(|_| cx.resource.namespaced) else { return Ok(()) };
    let Some(namespace) = cx.state.builtin_object("", "namespaces", "", name) else {
        return Err(ApiError::not_found("namespaces", "", name));
    };
    if !object::terminating(&namespace) {
        return Ok(());
    }
    let resource = &cx.resource;
    let why = format!("unable to create new content in namespace {name} because it is being terminated");
    let mut error = ApiError::forbidden(&resource.plural, &resource.group, object::meta_str(value, "name"), &why);
    if let Some(details) = &mut error.details {
        details.causes.push(Cause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {name} is being terminated"),
            field: "metadata.namespace".into(),
        });
    }
    Err(error)
}

fn pod(cx: &Cx, value: &mut Value) -> Result<(), ApiError> {
    let name = object::meta_str(value, "name").to_owned();
    let Some(spec) = value.get_mut("spec").filter(|s| s.is_object()) else { return Ok(()) };
    if cx.state.options.service_account_admission {
        service_account(cx, &name, spec)?;
    }
    priority(cx, &name, spec)?;
    default_tolerations(spec);
    Ok(())
}

fn service_account(cx: &Cx, pod: &str, spec: &mut Value) -> Result<(), ApiError> {
    let namespace = cx.namespace().unwrap_or_default();
    let account = match spec["serviceAccountName"].as_str() {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => "default".to_owned(),
    };
    if cx.state.builtin_object("", "serviceaccounts", namespace, &account).is_none() {
        let why =
            format!("error looking up service account {namespace}/{account}: serviceaccount {account:?} not found");
        return Err(ApiError::forbidden("pods", "", pod, &why));
    }
    spec["serviceAccountName"] = json!(account);
    spec["serviceAccount"] = json!(account);
    Ok(())
}

fn priority(cx: &Cx, pod: &str, spec: &mut Value) -> Result<(), ApiError> {
    let class = spec["priorityClassName"].as_str().unwrap_or_default().to_owned();
    let (value, preemption) = match class.as_str() {
        "" => (json!(0), json!("PreemptLowerPriority")),
        "system-cluster-critical" => (json!(2_000_000_000), json!("PreemptLowerPriority")),
        "system-node-critical" => (json!(2_000_001_000), json!("PreemptLowerPriority")),
        name => match cx.state.builtin_object("scheduling.k8s.io", "priorityclasses", "", name) {
            Some(class) => (class["value"].clone(), class["preemptionPolicy"].clone()),
            None => {
                let why = format!("no PriorityClass with name {name} was found");
                return Err(ApiError::forbidden("pods", "", pod, &why));
            }
        },
    };
    let preemption = if preemption.is_null() { json!("PreemptLowerPriority") } else { preemption };
    for (key, called, computed) in [
        ("priority", "the integer value of priority", value),
        ("preemptionPolicy", "the string value of PreemptionPolicy", preemption),
    ] {
        let given = &spec[key];
        if !given.is_null() && *given != computed {
            let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let why = format!(
                "{called} ({}) must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass name",
                plain(given),
                plain(&computed)
            );
            return Err(ApiError::forbidden("pods", "", pod, &why));
        }
        spec[key] = computed;
    }
    Ok(())
}

/// A pod stays for five minutes on a node that is not ready or not reachable.
fn default_tolerations(spec: &mut Value) {
    if spec["tolerations"].is_null() {
        spec["tolerations"] = json!([]);
    }
    let Some(list) = spec["tolerations"].as_array_mut() else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = list.iter().any(|t| {
            let of_key = t["key"] == key || t["key"].as_str().is_none_or(str::is_empty);
            of_key && (t["effect"] == "NoExecute" || t["effect"].as_str().is_none_or(str::is_empty))
        });
        if !tolerated {
            list.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
}
