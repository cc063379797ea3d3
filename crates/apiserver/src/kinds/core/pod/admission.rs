//! Admission of pods (specification/apiserver.md 21): ServiceAccount, priority, tolerations, limits.

use serde_json::{Value, json};

use super::runtime_class;
use crate::{
    context::Cx, kinds::core::limit_range::enforce, object, options::ServiceAccountAdmission, status::ApiError,
};

/// ServiceAccount of pods that name none.
const DEFAULT_SERVICE_ACCOUNT: &str = "default";

/// Admits a new pod.
pub(super) fn create(cx: &Cx, value: &mut Value) -> Result<(), ApiError> {
    enforce::default(cx, value);
    let name = object::meta_str(value, "name").to_owned();
    let Some(spec) = value.get_mut("spec").filter(|s| s.is_object()) else { return Ok(()) };
    match cx.state.options.service_account_admission {
        ServiceAccountAdmission::Off => {}
        ServiceAccountAdmission::Named => service_account(cx, &name, spec, &[DEFAULT_SERVICE_ACCOUNT])?,
        ServiceAccountAdmission::All => service_account(cx, &name, spec, &[])?,
    }
    priority(cx, &name, spec)?;
    default_tolerations(spec);
    runtime_class::apply(cx, &name, spec)
}

/// Admits a changed pod.
pub(super) fn update(cx: &Cx, _: &Value, new: &mut Value) -> Result<(), ApiError> {
    if cx.subresource().is_none() && new["spec"].is_object() {
        default_tolerations(&mut new["spec"]);
    }
    Ok(())
}

/// Refuses the pod if its account does not exist; those of `accepted` are not looked up.
fn service_account(cx: &Cx, pod: &str, spec: &mut Value, accepted: &[&str]) -> Result<(), ApiError> {
    let namespace = cx.namespace().unwrap_or_default();
    let account = match spec["serviceAccountName"].as_str() {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => DEFAULT_SERVICE_ACCOUNT.to_owned(),
    };
    if !accepted.contains(&account.as_str())
        && cx.state.builtin_object("", "serviceaccounts", namespace, &account).is_none()
    {
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
