//! Subresources (apiserver.md 17).

use ironclad_patch::managed;
use serde_json::{Value, json};

use crate::{
    context::Cx,
    object,
    request::Verb,
    respond::{self, Reply},
    schema,
    status::{ApiError, Cause},
    table::jsonpath,
};

use super::{
    body, delete,
    modify::{Part, modify},
    options::WriteOptions,
    patch, read, token, update,
};

/// A request about a subresource.
pub(crate) async fn handle(cx: &Cx, bytes: &[u8]) -> Result<Reply, ApiError> {
    let name = cx.subresource().unwrap_or_default();
    let Some(subresource) = cx.resource.subresource(name) else {
        return Err(match cx.resource.custom() {
            Some(_) => ApiError::not_found(&cx.resource.plural, &cx.resource.group, cx.name()),
            None => ApiError::no_resource(),
        });
    };
    if !subresource.verbs.contains(&cx.verb.as_str()) {
        return Err(ApiError::method_not_allowed());
    }
    match (name, cx.verb) {
        ("status" | "resize" | "ephemeralcontainers" | "approval", Verb::Get) => read::get(cx).await,
        ("status", Verb::Update) => update::update(cx, bytes, Part::Status).await,
        ("status", Verb::Patch) => patch::patch(cx, bytes, Part::Status).await,
        ("approval", Verb::Update) => update::update(cx, bytes, Part::Approval).await,
        ("approval", Verb::Patch) => patch::patch(cx, bytes, Part::Approval).await,
        ("resize" | "ephemeralcontainers", Verb::Update) => update::update(cx, bytes, Part::Inner).await,
        ("resize" | "ephemeralcontainers", Verb::Patch) => patch::patch(cx, bytes, Part::Inner).await,
        ("finalize", Verb::Update) => update::update(cx, bytes, Part::Finalize).await,
        ("scale", verb) => scale(cx, bytes, verb).await,
        ("binding", Verb::Create) => bind(cx, bytes).await,
        ("eviction", Verb::Create) => evict(cx, bytes).await,
        ("token", Verb::Create) => token::request(cx, bytes),
        ("log", Verb::Get) => log(cx),
        ("exec" | "attach" | "portforward", _) => exec(cx),
        ("proxy", _) => {
            found(cx)?;
            Err(ApiError::bad_request("address not allowed"))
        }
        _ => Err(ApiError::no_resource()),
    }
}

/// The object of the path.
pub(crate) fn found(cx: &Cx) -> Result<Value, ApiError> {
    let entry = cx.server.store.get(&cx.key());
    let entry = entry.ok_or_else(|| ApiError::not_found(&cx.resource.plural, &cx.resource.group, cx.name()))?;
    object::decode(&entry.value, entry.modified).map_err(ApiError::internal)
}

/// Where a kind keeps its numbers.
struct Paths {
    spec: String,
    status: String,
    selector: Option<String>,
}

fn paths(cx: &Cx) -> Paths {
    match cx.resource.custom().and_then(|c| c.scale.as_ref()) {
        Some(scale) => {
            Paths { spec: scale.spec.clone(), status: scale.status.clone(), selector: scale.selector.clone() }
        }
        None => Paths { spec: ".spec.replicas".into(), status: ".status.replicas".into(), selector: None },
    }
}

/// The Scale of an object.
fn scale_of(cx: &Cx, value: &Value) -> Result<Value, ApiError> {
    let paths = paths(cx);
    let get = |path: &str| value.pointer(&path.replace('.', "/")).filter(|v| !v.is_null());
    let replicas = match get(&paths.spec) {
        Some(replicas) => replicas.clone(),
        None if cx.resource.custom().is_some() => {
            return Err(ApiError::internal(format!("the spec replicas field {:?} does not exist", paths.spec)));
        }
        None => json!(0),
    };
    let metadata = object::metadata(value);
    let kept = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let metadata: serde_json::Map<String, Value> =
        kept.iter().filter_map(|k| metadata.get(*k).map(|v| ((*k).to_owned(), v.clone()))).collect();
    let mut status = json!({"replicas": get(&paths.status).cloned().unwrap_or(json!(0))});
    let selector = match &paths.selector {
        Some(path) => get(path).and_then(Value::as_str).map(str::to_owned),
        None if cx.resource.custom().is_some() => None,
        None => selector_text(value),
    };
    if let Some(selector) = selector {
        status["selector"] = json!(selector);
    }
    let mut spec = json!({});
    if replicas != json!(0) {
        spec["replicas"] = replicas;
    }
    Ok(json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}))
}

/// The selector of a workload as a text: `a=b,c in (d,e)`.
pub(crate) fn selector_text(workload: &Value) -> Option<String> {
    let selector = workload.pointer("/spec/selector")?.as_object()?;
    let plain = !selector.contains_key("matchLabels") && !selector.contains_key("matchExpressions");
    let labels = if plain { Some(selector) } else { selector.get("matchLabels").and_then(Value::as_object) };
    let mut parts: Vec<String> =
        labels.into_iter().flatten().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect();
    let expressions = selector.get("matchExpressions").and_then(Value::as_array).filter(|_| !plain);
    for expression in expressions.into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        parts.push(match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    parts.sort();
    Some(parts.join(","))
}

async fn scale(cx: &Cx, bytes: &[u8], verb: Verb) -> Result<Reply, ApiError> {
    if verb == Verb::Get {
        return Ok(respond::formatted(cx, 200, &scale_of(cx, &found(cx)?)?));
    }
    let kind = if verb == Verb::Update { "UpdateOptions" } else { "PatchOptions" };
    let options = WriteOptions::parse(&cx.query, kind)?;
    let request = ScaleRequest::read(cx, bytes, verb)?;
    let (manager, now) = (cx.field_manager(), cx.server.now());
    let place = paths(cx).spec;
    let place: Vec<&str> = place.split('.').filter(|f| !f.is_empty()).collect();
    // Who owns the replicas is worked out on the Scale, and then brought to the object.
    let write = WriteOptions { applied: true, ..options.clone() };
    let mut make = |old: &Value| {
        let mut live = scale_of(cx, old)?;
        let owners = managed::scale_from_parent(old, &place);
        if owners.as_array().is_some_and(|list| !list.is_empty()) {
            live["metadata"]["managedFields"] = owners;
        }
        let mut scale = live.clone();
        let mut tracked = cx.server.options.managed_fields || object::metadata(old).contains_key("managedFields");
        if let ScaleRequest::Apply(config) = &request {
            let applied = schema::with_scale_tracker(|t| t.apply(Some(&live), config, &manager, options.force, &now));
            let applied = applied.ok_or_else(|| ApiError::unclassified("no schema is known for Scale"))?;
            (scale, tracked) = (applied.map_err(patch::refused)?.object, true);
        } else {
            request.apply(&mut scale)?;
            // Zero is not written in a Scale, and nobody owns what isn't there.
            if scale.pointer("/spec/replicas") == Some(&json!(0)) {
                scale["spec"] = json!({});
            }
            schema::with_scale_tracker(|t| t.update(Some(&live), &mut scale, &manager, &now));
        }
        let replicas = scale.pointer("/spec/replicas").cloned().unwrap_or(json!(0));
        if replicas.as_i64().is_none_or(|r| r < 0) {
            let cause = Cause::invalid("spec.replicas", &replicas, "must be greater than or equal to 0");
            return Err(ApiError::invalid("Scale", "autoscaling", cx.name(), vec![cause]));
        }
        let mut new = old.clone();
        jsonpath::set(&mut new, &paths(cx).spec, replicas);
        let metadata = object::metadata_mut(&mut new);
        if let Some(revision) = scale.pointer("/metadata/resourceVersion") {
            metadata.insert("resourceVersion".into(), revision.clone());
        }
        if tracked {
            let owners = managed::scale_to_parent(old, &scale, &place, &cx.resource.api_version());
            metadata.insert("managedFields".into(), owners);
        }
        Ok(new)
    };
    let done = modify(cx, Part::Inner, &write, false, &mut make).await?;
    Ok(respond::formatted(cx, 200, &scale_of(cx, &done)?))
}

/// What a write of the scale subresource says.
enum ScaleRequest {
    Whole(Value),
    Json(Value),
    Merge(Value),
    Apply(Value),
}

impl ScaleRequest {
    fn read(cx: &Cx, bytes: &[u8], verb: Verb) -> Result<Self, ApiError> {
        use crate::negotiate::{self, PatchFormat};
        let content_type = cx.header(http::header::CONTENT_TYPE);
        if verb == Verb::Update {
            let format = negotiate::body_format(content_type)?;
            return Ok(Self::Whole(body::parse("Scale", bytes, format)?));
        }
        let patch =
            || serde_json::from_slice(bytes).map_err(|e| ApiError::bad_request(format!("error decoding patch: {e}")));
        Ok(match negotiate::patch_format(content_type, false)? {
            PatchFormat::Json => Self::Json(patch()?),
            PatchFormat::Apply => Self::Apply(patch::read_apply(bytes)?),
            PatchFormat::Merge | PatchFormat::Strategic => Self::Merge(patch()?),
        })
    }

    fn apply(&self, scale: &mut Value) -> Result<(), ApiError> {
        match self {
            Self::Whole(value) => *scale = value.clone(),
            Self::Json(value) => ironclad_patch::json_patch(scale, value).map_err(patch::refused)?,
            Self::Merge(value) | Self::Apply(value) => ironclad_patch::merge_patch(scale, value),
        }
        Ok(())
    }
}

fn created() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}

/// POST of a binding: puts a pod on a node.
pub(crate) async fn bind(cx: &Cx, bytes: &[u8]) -> Result<Reply, ApiError> {
    let options = WriteOptions::parse(&cx.query, "CreateOptions")?;
    let format = crate::negotiate::body_format(cx.header(http::header::CONTENT_TYPE))?;
    let binding = body::parse("Binding", bytes, format)?;
    let node = binding.pointer("/target/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    if node.is_empty() {
        let cause = Cause::required("target.name", "");
        return Err(ApiError::invalid("Binding", "", cx.name(), vec![cause]));
    }
    let now = cx.server.now();
    let mut make = |old: &Value| {
        let bound = old.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
        if !bound.is_empty() {
            let why = format!("pod {} is already assigned to node {bound:?}", cx.name());
            return Err(ApiError::conflict("pods/binding", "", cx.name(), &why));
        }
        if object::terminating(old) {
            let why = format!("pod {} is being deleted, cannot be assigned to a host", cx.name());
            return Err(ApiError::conflict("pods/binding", "", cx.name(), &why));
        }
        let mut new = old.clone();
        new["spec"]["nodeName"] = json!(node);
        let scheduled =
            json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
        let conditions = new["status"].as_object_mut().map(|s| s.entry("conditions").or_insert_with(|| json!([])));
        if let Some(list) = conditions.and_then(Value::as_array_mut) {
            list.retain(|c| c["type"] != "PodScheduled");
            list.push(scheduled);
        }
        Ok(new)
    };
    modify(cx, Part::Binding, &options, false, &mut make).await?;
    Ok(respond::formatted(cx, 201, &created()))
}

/// POST of an eviction: a deletion that budgets may refuse.
async fn evict(cx: &Cx, bytes: &[u8]) -> Result<Reply, ApiError> {
    let format = crate::negotiate::body_format(cx.header(http::header::CONTENT_TYPE))?;
    let eviction = body::parse("Eviction", bytes, format)?;
    let named = object::meta_str(&eviction, "name");
    if !named.is_empty() && named != cx.name() {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let pod = found(cx)?;
    let pending =
        matches!(pod.pointer("/status/phase").and_then(Value::as_str), Some("Pending" | "Succeeded" | "Failed"));
    if !pending && !object::terminating(&pod) {
        spend_budget(cx, &pod).await?;
    }
    let options = eviction.get("deleteOptions").map(Value::to_string).unwrap_or_default();
    delete::delete(cx, options.as_bytes()).await?;
    Ok(respond::formatted(cx, 201, &created()))
}

/// Takes one allowed disruption of the pod's budget, or refuses.
async fn spend_budget(cx: &Cx, pod: &Value) -> Result<(), ApiError> {
    use ironclad_store::{Compare, Op, Query, TxnResult};
    let Some(resource) = crate::registry::Registry::builtin("policy", "poddisruptionbudgets") else { return Ok(()) };
    let prefix = resource.prefix_of(cx.namespace());
    loop {
        let range = cx.server.store.range(&Query::prefix(&prefix)).map_err(ApiError::internal)?;
        let mut budgets = Vec::new();
        for (key, entry) in range.entries {
            let budget = object::decode(&entry.value, entry.modified).map_err(ApiError::internal)?;
            let text = selector_text(&budget).unwrap_or_default();
            if crate::select::LabelSelector::parse(&text).is_ok_and(|s| s.matches_object(pod)) {
                budgets.push((key, entry, budget));
            }
        }
        let (key, entry, mut budget) = match budgets.len() {
            0 => return Ok(()),
            1 => budgets.remove(0),
            _ => {
                return Err(ApiError::internal(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        };
        let allowed = budget.pointer("/status/disruptionsAllowed").and_then(Value::as_i64).unwrap_or(0);
        if allowed <= 0 {
            let text = format!(
                "The disruption budget {} does not allow evicting pods currently",
                object::meta_str(&budget, "name")
            );
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            return Err(ApiError::new(429, "TooManyRequests", message).cause("DisruptionBudget", &text, ""));
        }
        budget["status"]["disruptionsAllowed"] = json!(allowed - 1);
        budget["status"]["disruptedPods"][cx.name()] = json!(cx.server.now());
        let put = Op::put(key.as_str(), object::encode(&budget));
        let compare = Compare::modified(key, entry.modified);
        if let TxnResult::Done { .. } = cx.server.txn(vec![compare], vec![put]).await? {
            return Ok(());
        }
    }
}

const NO_ADDRESSES: &str = "no preferred addresses found; known addresses: []";

/// What a pod without a reachable kubelet says.
fn log(cx: &Cx) -> Result<Reply, ApiError> {
    let pod = found(cx)?;
    let of = |list: &str| {
        let containers = pod.pointer(&format!("/spec/{list}")).and_then(Value::as_array).into_iter().flatten();
        containers.filter_map(|c| c["name"].as_str()).collect::<Vec<_>>()
    };
    let containers = of("containers");
    let all: Vec<&str> = [of("initContainers"), containers.clone(), of("ephemeralContainers")].concat();
    match cx.query.text("container") {
        Some(name) if !all.contains(&name) => {
            return Err(ApiError::bad_request(format!("container {name} is not valid for pod {}", cx.name())));
        }
        None if containers.len() > 1 => {
            return Err(ApiError::bad_request(format!(
                "a container name must be specified for pod {}, choose one of: [{}]",
                cx.name(),
                containers.join(" ")
            )));
        }
        _ => {}
    }
    match pod.pointer("/spec/nodeName").and_then(Value::as_str) {
        None | Some("") => {
            let mut reply = respond::text(204, "");
            reply.headers_mut().remove(http::header::CONTENT_TYPE);
            Ok(reply)
        }
        Some(_) => Err(ApiError::unclassified(NO_ADDRESSES)),
    }
}

fn exec(cx: &Cx) -> Result<Reply, ApiError> {
    let pod = found(cx)?;
    match pod.pointer("/spec/nodeName").and_then(Value::as_str) {
        None | Some("") => Err(ApiError::bad_request(format!("pod {} does not have a host assigned", cx.name()))),
        Some(_) => Err(ApiError::unclassified(NO_ADDRESSES)),
    }
}

/// POST of a `Binding` object: the old way to bind the pod of its name.
pub(crate) async fn binding(cx: &Cx, bytes: &[u8]) -> Result<Reply, ApiError> {
    let format = crate::negotiate::body_format(cx.header(http::header::CONTENT_TYPE))?;
    let value = body::parse("Binding", bytes, format)?;
    let Some(pods) = crate::registry::Registry::builtin("", "pods") else { return Err(ApiError::no_resource()) };
    let mut path = cx.path.clone();
    path.resource = "pods".into();
    path.name = Some(object::meta_str(&value, "name").to_owned());
    path.subresource = Some("binding".into());
    let of_pod = Cx {
        server: cx.server.clone(),
        resource: pods,
        path,
        verb: cx.verb,
        query: cx.query.clone(),
        headers: cx.headers.clone(),
        identity: cx.identity.clone(),
        accept: cx.accept,
        pretty: cx.pretty,
        warnings: parking_lot::Mutex::default(),
    };
    bind(&of_pod, bytes).await
}
