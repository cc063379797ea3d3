//! Subresources (specification/apiserver.md 17).

use ironclad_patch::managed;
use serde_json::{Value, json};

use crate::{
    admission::{self, Operation},
    context::Cx,
    conversion, convert, object,
    request::Verb,
    respond::{self, Reply},
    schema,
    select::{LabelSelector, selector_text},
    status::{ApiError, Cause},
};

use super::{
    body, connect, delete,
    modify::{UpdateScope, modify},
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
        ("status", Verb::Update) => update::update(cx, bytes, UpdateScope::Status).await,
        ("status", Verb::Patch) => patch::patch(cx, bytes, UpdateScope::Status).await,
        ("approval", Verb::Update) => update::update(cx, bytes, UpdateScope::Approval).await,
        ("approval", Verb::Patch) => patch::patch(cx, bytes, UpdateScope::Approval).await,
        ("resize" | "ephemeralcontainers", Verb::Update) => update::update(cx, bytes, UpdateScope::Subresource).await,
        ("resize" | "ephemeralcontainers", Verb::Patch) => patch::patch(cx, bytes, UpdateScope::Subresource).await,
        ("finalize", Verb::Update) => update::update(cx, bytes, UpdateScope::Finalize).await,
        ("scale", verb) => scale(cx, bytes, verb).await,
        ("binding", Verb::Create) => bind(cx, bytes).await,
        ("eviction", Verb::Create) => evict(cx, bytes).await,
        ("token", Verb::Create) => token::request(cx, bytes).await,
        ("log", Verb::Get) => connect::log(cx).await,
        ("exec" | "attach" | "portforward" | "proxy", _) => connect::connect(cx).await,
        _ => Err(ApiError::no_resource()),
    }
}

/// The object of the path.
pub(crate) async fn found(cx: &Cx) -> Result<Value, ApiError> {
    let entry = cx.state.store.get(&cx.key());
    let entry = entry.ok_or_else(|| ApiError::not_found(&cx.resource.plural, &cx.resource.group, cx.name()))?;
    convert::read(&cx.resource, &conversion::one_in_version(cx, &entry).await?)
}

/// The path of the replicas.
fn replicas_path(cx: &Cx) -> Vec<String> {
    paths(cx).spec.split('.').filter(|f| !f.is_empty()).map(str::to_owned).collect()
}

/// The paths of a kind's replicas and selector.
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

async fn scale(cx: &Cx, bytes: &[u8], verb: Verb) -> Result<Reply, ApiError> {
    if verb == Verb::Get {
        return Ok(respond::formatted(cx, 200, &scale_of(cx, &found(cx).await?)?));
    }
    let kind = if verb == Verb::Update { "UpdateOptions" } else { "PatchOptions" };
    let options = WriteOptions::parse(&cx.query, kind)?;
    let request = ScaleRequest::read(cx, bytes, verb)?;
    // Ownership of the replicas is computed on the Scale and then copied to the object.
    let write = WriteOptions { applied: true, ..options.clone() };
    for _ in 0..TRIES {
        let reviewed = match admission::is_asked(cx) {
            true => Some(reviewed_scale(cx, &request, &options).await?),
            false => None,
        };
        let mut raced = false;
        let mut make = |old: &Value| {
            let wanted = match &reviewed {
                None => desired_scale(cx, &request, &options, old)?,
                Some((revision, wanted)) if revision == object::meta_str(old, "resourceVersion") => wanted.clone(),
                Some(_) => {
                    raced = true;
                    return Err(ApiError::modified(&cx.resource.plural, &cx.resource.group, cx.name()));
                }
            };
            check_scale(cx, &wanted)?;
            Ok(scaled(cx, old, &wanted))
        };
        match modify(cx, UpdateScope::Subresource, &write, false, &mut make).await {
            Err(_) if raced => continue,
            done => return Ok(respond::formatted(cx, 200, &scale_of(cx, &done?)?)),
        }
    }
    Err(ApiError::modified(&cx.resource.plural, &cx.resource.group, cx.name()))
}

/// Attempts of reviewing a Scale whose object changes concurrently.
const TRIES: usize = 64;

/// The Scale that a request makes.
#[derive(Debug, Clone)]
struct DesiredScale {
    live: Value,
    scale: Value,
    /// Field ownership is written with it.
    tracked: bool,
}

/// The Scale after admission, and the resourceVersion of the object that it was made from.
async fn reviewed_scale(
    cx: &Cx,
    request: &ScaleRequest,
    options: &WriteOptions,
) -> Result<(String, DesiredScale), ApiError> {
    let old = found(cx).await?;
    let mut wanted = desired_scale(cx, request, options, &old)?;
    let (operation, dry_run) = (Operation::Update, options.dry_run);
    identify_as(cx, &mut wanted.scale, "autoscaling/v1", "Scale", cx.name());
    if wanted.scale["status"].is_null() {
        wanted.scale["status"] = json!({"replicas": 0});
    }
    admission::mutate_subresource(cx, operation, Some(&wanted.live), &mut wanted.scale, dry_run).await?;
    check_scale(cx, &wanted)?;
    // Validating reviewers see the Scales before and after without field ownership.
    let (live, desired) = (scale_of(cx, &old)?, scale_of(cx, &scaled(cx, &old, &wanted))?);
    admission::validate_subresource(cx, operation, Some(&live), &desired, dry_run).await?;
    Ok((object::meta_str(&old, "resourceVersion").to_owned(), wanted))
}

fn desired_scale(
    cx: &Cx,
    request: &ScaleRequest,
    options: &WriteOptions,
    old: &Value,
) -> Result<DesiredScale, ApiError> {
    let (manager, now) = (cx.field_manager(), cx.state.now());
    let mut live = scale_of(cx, old)?;
    let path = replicas_path(cx);
    let owners = managed::scale_from_parent(old, &path.iter().map(String::as_str).collect::<Vec<_>>());
    if owners.as_array().is_some_and(|list| !list.is_empty()) {
        live["metadata"]["managedFields"] = owners;
    }
    if let ScaleRequest::Apply(config) = request {
        let applied = schema::with_scale_tracker(|t| t.apply(Some(&live), config, &manager, options.force, &now));
        let applied = applied.ok_or_else(|| ApiError::unclassified("no schema is known for Scale"))?;
        let scale = applied.map_err(patch::refused)?.object;
        return Ok(DesiredScale { live, scale, tracked: true });
    }
    let mut scale = live.clone();
    request.apply(&mut scale)?;
    // Zero replicas are omitted in a Scale, so no manager owns them.
    if scale.pointer("/spec/replicas") == Some(&json!(0)) {
        scale["spec"] = json!({});
    }
    schema::with_scale_tracker(|t| t.update(Some(&live), &mut scale, &manager, &now));
    let tracked = cx.state.options.managed_fields || object::metadata(old).contains_key("managedFields");
    Ok(DesiredScale { live, scale, tracked })
}

fn replicas(scale: &Value) -> Value {
    scale.pointer("/spec/replicas").cloned().unwrap_or(json!(0))
}

fn check_scale(cx: &Cx, wanted: &DesiredScale) -> Result<(), ApiError> {
    let replicas = replicas(&wanted.scale);
    if replicas.as_i64().is_some_and(|r| r >= 0) {
        return Ok(());
    }
    let cause = Cause::invalid("spec.replicas", &replicas, "must be greater than or equal to 0");
    Err(ApiError::invalid("Scale", "autoscaling", cx.name(), vec![cause]))
}

/// The object with the replicas of a Scale.
fn scaled(cx: &Cx, old: &Value, wanted: &DesiredScale) -> Value {
    let mut new = old.clone();
    let path = replicas_path(cx);
    let mut at = &mut new;
    for field in &path {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[field.as_str()];
    }
    *at = replicas(&wanted.scale);
    let metadata = object::metadata_mut(&mut new);
    if let Some(revision) = wanted.scale.pointer("/metadata/resourceVersion") {
        metadata.insert("resourceVersion".into(), revision.clone());
    }
    if wanted.tracked {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let owners = managed::scale_to_parent(old, &wanted.scale, &path, &cx.resource.api_version());
        metadata.insert("managedFields".into(), owners);
    }
    new
}

/// The body of a write of the scale subresource.
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
async fn bind(cx: &Cx, bytes: &[u8]) -> Result<Reply, ApiError> {
    let (options, binding) = reviewed_binding(cx, bytes, Some(cx.name())).await?;
    bind_pod(cx, &options, &binding).await
}

/// The Binding of a body after admission; `name` is the pod's.
async fn reviewed_binding(cx: &Cx, bytes: &[u8], name: Option<&str>) -> Result<(WriteOptions, Value), ApiError> {
    let options = WriteOptions::parse(&cx.query, "CreateOptions")?;
    let format = crate::negotiate::body_format(cx.header(http::header::CONTENT_TYPE))?;
    let mut binding = body::parse("Binding", bytes, format)?;
    let named = object::meta_str(&binding, "name").to_owned();
    if name.is_some_and(|name| name != named) {
        return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
    }
    if admission::is_asked(cx) {
        identify_as(cx, &mut binding, "v1", "Binding", &named);
        track_subresource(cx, &mut binding, ("", "v1", "Binding"));
        admission::mutate_subresource(cx, Operation::Create, None, &mut binding, options.dry_run).await?;
        admission::validate_subresource(cx, Operation::Create, None, &binding, options.dry_run).await?;
    }
    Ok((options, binding))
}

/// Records field ownership of a subresource's object, for webhooks to see.
pub(crate) fn track_subresource(cx: &Cx, value: &mut Value, kind: (&str, &str, &str)) {
    if cx.state.options.managed_fields {
        let (manager, now) = (cx.field_manager(), cx.state.now());
        let subresource = cx.subresource().unwrap_or_default();
        schema::with_kind_tracker(kind, subresource, |t| t.update(None, value, &manager, &now));
    }
}

/// Sets kind, name and namespace of a subresource's object, which clients may leave out.
pub(crate) fn identify_as(cx: &Cx, value: &mut Value, api_version: &str, kind: &str, name: &str) {
    value["apiVersion"] = json!(api_version);
    value["kind"] = json!(kind);
    let metadata = object::metadata_mut(value);
    metadata.insert("name".into(), json!(name));
    if let Some(namespace) = cx.namespace() {
        metadata.insert("namespace".into(), json!(namespace));
    }
}

async fn bind_pod(cx: &Cx, options: &WriteOptions, binding: &Value) -> Result<Reply, ApiError> {
    let node = binding.pointer("/target/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    if node.is_empty() {
        let cause = Cause::required("target.name", "");
        return Err(ApiError::invalid("Binding", "", cx.name(), vec![cause]));
    }
    let now = cx.state.now();
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
    modify(cx, UpdateScope::Binding, options, false, &mut make).await?;
    Ok(respond::formatted(cx, 201, &created()))
}

/// POST of an eviction: a deletion that budgets may refuse.
async fn evict(cx: &Cx, bytes: &[u8]) -> Result<Reply, ApiError> {
    let format = crate::negotiate::body_format(cx.header(http::header::CONTENT_TYPE))?;
    let mut eviction = body::parse("Eviction", bytes, format)?;
    if object::meta_str(&eviction, "name") != cx.name() {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let version = match eviction["apiVersion"].as_str() {
        Some("policy/v1beta1") => "v1beta1",
        _ => "v1",
    };
    let dry_run = WriteOptions::parse(&cx.query, "CreateOptions")?.dry_run;
    if admission::is_asked(cx) {
        identify_as(cx, &mut eviction, &format!("policy/{version}"), "Eviction", cx.name());
        track_subresource(cx, &mut eviction, ("policy", version, "Eviction"));
        admission::mutate_subresource(cx, Operation::Create, None, &mut eviction, dry_run).await?;
    }
    if dry_run && eviction["deleteOptions"]["dryRun"].is_null() {
        eviction["deleteOptions"]["dryRun"] = json!(["All"]);
    }
    if admission::is_asked(cx) {
        admission::validate_subresource(cx, Operation::Create, None, &eviction, dry_run).await?;
    }
    let pod = found(cx).await?;
    let pending =
        matches!(pod.pointer("/status/phase").and_then(Value::as_str), Some("Pending" | "Succeeded" | "Failed"));
    let dry_run = eviction["deleteOptions"]["dryRun"].as_array().is_some_and(|list| !list.is_empty());
    if !pending && !object::terminating(&pod) {
        spend_budget(cx, &pod, dry_run).await?;
    }
    let options = eviction.get("deleteOptions").map(Value::to_string).unwrap_or_default();
    delete::delete(cx, options.as_bytes()).await?;
    Ok(respond::formatted(cx, 201, &created()))
}

/// Takes one allowed disruption of the pod's budget, or refuses.
async fn spend_budget(cx: &Cx, pod: &Value, dry_run: bool) -> Result<(), ApiError> {
    use ironclad_store::{Compare, Op, Query, TxnResult};
    let Some(resource) = cx.state.registry.builtin("policy", "poddisruptionbudgets") else { return Ok(()) };
    let prefix = resource.prefix_of(cx.namespace());
    loop {
        let range = cx.state.store.range(&Query::prefix(&prefix)).map_err(ApiError::internal)?;
        let mut budgets = Vec::new();
        for (key, entry) in range.entries {
            let budget = convert::read(&resource, &entry)?;
            let selector = LabelSelector::from_object(&budget["spec"]["selector"]);
            // A budget with an empty selector counts for every pod, one without a selector for none.
            if selector.is_ok_and(|s| s.is_some_and(|s| s.matches_object(pod))) {
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
        if dry_run {
            return Ok(());
        }
        budget["status"]["disruptionsAllowed"] = json!(allowed - 1);
        budget["status"]["disruptedPods"][cx.name()] = json!(cx.state.now());
        let put = Op::put(key.as_str(), object::encode(&budget));
        let compare = Compare::modified(key, entry.modified);
        if let TxnResult::Done { .. } = cx.state.txn(vec![compare], vec![put]).await? {
            return Ok(());
        }
    }
}

/// POST of a `Binding` object: the old way to bind the pod of its name.
pub(crate) async fn binding(cx: &Cx, bytes: &[u8]) -> Result<Reply, ApiError> {
    let (options, value) = reviewed_binding(cx, bytes, None).await?;
    let Some(pods) = cx.state.registry.builtin("", "pods") else { return Err(ApiError::no_resource()) };
    let mut path = cx.path.clone();
    path.resource = "pods".into();
    path.name = Some(object::meta_str(&value, "name").to_owned());
    path.subresource = Some("binding".into());
    let of_pod = Cx {
        state: cx.state.clone(),
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
    bind_pod(&of_pod, &options, &value).await
}
