//! CustomResourceDefinitions: what one adds to the registry, and the status that the server gives it
//! (specification/apiserver.md 18).

pub(crate) mod conversion;
pub(crate) mod lifecycle;
mod validate;

use std::sync::Arc;

use ironclad_jsonpath::Path;
use ironclad_patch::{schema::Gvk, text_at};
use ironclad_store::Revision;
use serde_json::{Value, json};

use crate::{
    convert::Converter,
    object,
    registry::{Flavour, Group, Registry, Resource, Resources, Subresource, version_priority},
    schema::CustomSchema,
};

pub(crate) use conversion::ConversionWebhook;
pub(crate) use validate::validate;

/// The finalizer that holds a CRD while instances of it exist.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The verbs of a custom resource, in discovery's order.
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// One served version of a CRD.
#[derive(Debug)]
pub(crate) struct CustomVersion {
    /// The CRD's name.
    pub(crate) crd: String,
    /// The CRD's uid and generation: a change of either ends watches.
    pub(crate) identity: String,
    /// The version that objects are stored in.
    pub(crate) storage_version: String,
    /// Converts between versions, where more than the name differs.
    pub(crate) converter: Option<Converter>,
    /// Converts what the converter doesn't know.
    pub(crate) webhook: Option<ConversionWebhook>,
    /// The last write of the CRD: what is older may be of another schema.
    pub(crate) since: Revision,
    /// Types, defaults, pruning.
    pub(crate) schema: Arc<CustomSchema>,
    /// Printer columns; empty means Age alone.
    pub(crate) columns: Vec<Column>,
    /// Paths of the scale subresource.
    pub(crate) scale: Option<ScalePaths>,
    /// Fields for field selectors, without the leading dot.
    pub(crate) selectable: Vec<String>,
    /// The warning of a deprecated version.
    pub(crate) deprecated: Option<String>,
    /// The CRD is being deleted: nothing may be made.
    pub(crate) terminating: bool,
}

/// An `additionalPrinterColumns` element.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
    /// `None` for a path that cannot be read: its cells are empty.
    pub(crate) path: Option<Path>,
}

/// The paths of `subresources.scale`, with the leading dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec: String,
    pub(crate) status: String,
    pub(crate) selector: Option<String>,
}

fn strings(value: &Value, pointer: &str) -> Vec<String> {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|v| v.as_str().map(str::to_owned))
        .collect()
}

/// The versions array.
pub(crate) fn versions(crd: &Value) -> impl Iterator<Item = &Value> {
    crd.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten()
}

/// The version that objects are stored in.
pub(crate) fn storage_version(crd: &Value) -> &str {
    versions(crd).find(|v| v["storage"] == true).map_or("", |v| text_at(v, "/name"))
}

/// True when the condition has status True.
pub(crate) fn condition(crd: &Value, name: &str) -> bool {
    let conditions = crd.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|c| c["type"] == name && c["status"] == "True")
}

/// Fills in what a CRD leaves out.
pub(crate) fn default(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return };
    spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let blank = |v: Option<&Value>| v.and_then(Value::as_str).is_none_or(str::is_empty);
        if blank(names.get("singular")) {
            names.insert("singular".into(), json!(kind.to_lowercase()));
        }
        if blank(names.get("listKind")) {
            names.insert("listKind".into(), json!(format!("{kind}List")));
        }
    }
}

/// Sets the conditions by the names of the other CRDs: accepted and established, or in conflict.
pub(crate) fn set_conditions(crd: &mut Value, others: &[Arc<Definition>], now: &str) {
    let names = crd.pointer("/spec/names").cloned().unwrap_or_default();
    let group = text_at(crd, "/spec/group").to_owned();
    let storage = storage_version(crd).to_owned();
    let conflict = name_conflict(&names, &group, text_at(crd, "/metadata/name"), others);
    let established = condition(crd, "Established");
    let was = crd.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let set = |kind: &str, status: bool, reason: &str, message: &str| {
        let status = if status { "True" } else { "False" };
        let since = was
            .iter()
            .find(|c| c["type"] == kind && c["status"] == status)
            .map_or_else(|| json!(now), |c| c["lastTransitionTime"].clone());
        json!({"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message})
    };
    let mut conditions = match &conflict {
        None => vec![
            set("NamesAccepted", true, "NoConflicts", "no conflicts found"),
            set("Established", true, "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        Some((reason, message)) => vec![
            set("NamesAccepted", false, reason, message),
            // Once served, always served: a later clash changes no address.
            set(
                "Established",
                established,
                if established { "InitialNamesAccepted" } else { "NotAccepted" },
                if established { "the initial names have been accepted" } else { "not all names are accepted" },
            ),
        ],
    };
    conditions.extend(was.iter().filter(|c| c["type"] == "Terminating").cloned());
    let accepted = match &conflict {
        None => names,
        Some(_) => accepted_names(&names, &group, text_at(crd, "/metadata/name"), others),
    };
    let mut stored = strings(crd, "/status/storedVersions");
    if !storage.is_empty() && !stored.contains(&storage) {
        stored.push(storage);
    }
    crd["status"] = json!({"conditions": conditions, "acceptedNames": accepted, "storedVersions": stored});
}

/// The names of a CRD with the reason of each conflict: kinds conflict with kinds, resources with resources.
const CLASHES: [(&str, &str); 4] = [
    ("plural", "PluralConflict"),
    ("singular", "SingularConflict"),
    ("kind", "KindConflict"),
    ("listKind", "ListKindConflict"),
];

/// The names of other CRDs of the group: resources and kinds.
fn taken(group: &str, own: &str, others: &[Arc<Definition>]) -> (Vec<String>, Vec<String>) {
    let (mut resources, mut kinds) = (Vec::new(), Vec::new());
    for other in others.iter().map(|other| &other.head) {
        if text_at(other, "/spec/group") != group || object::meta_str(other, "name") == own {
            continue;
        }
        let Some(names) = other.pointer("/status/acceptedNames") else { continue };
        resources.extend(["/plural", "/singular"].map(|p| text_at(names, p).to_owned()));
        resources.extend(strings(names, "/shortNames"));
        kinds.extend(["/kind", "/listKind"].map(|p| text_at(names, p).to_owned()));
    }
    (resources, kinds)
}

/// The last conflict with another CRD of the group, which the condition reports: reason and message.
fn name_conflict(names: &Value, group: &str, own: &str, others: &[Arc<Definition>]) -> Option<(&'static str, String)> {
    let (resources, kinds) = taken(group, own, others);
    let mut conflict = None;
    for (field, reason) in CLASHES {
        let name = text_at(names, &format!("/{field}"));
        let list = if reason.contains("Kind") { &kinds } else { &resources };
        if !name.is_empty() && list.iter().any(|t| t == name) {
            conflict = Some((reason, format!("{name:?} is already in use")));
        }
    }
    match strings(names, "/shortNames").iter().find(|n| resources.contains(n)) {
        Some(name) if conflict.is_none() => Some(("ShortNamesConflict", format!("{name:?} is already in use"))),
        _ => conflict,
    }
}

/// The free names among those of a CRD in conflict.
fn accepted_names(names: &Value, group: &str, own: &str, others: &[Arc<Definition>]) -> Value {
    let (resources, kinds) = taken(group, own, others);
    let mut out = json!({"plural": "", "kind": ""});
    for (field, reason) in CLASHES {
        let name = text_at(names, &format!("/{field}"));
        let list = if reason.contains("Kind") { &kinds } else { &resources };
        if !name.is_empty() && !list.iter().any(|t| t == name) {
            out[field] = json!(name);
        }
    }
    out
}

/// The condition of a CRD whose instances are being removed.
pub(crate) fn set_terminating(crd: &mut Value, reason: &str, message: &str, now: &str) {
    let Some(status) = crd.get_mut("status").and_then(Value::as_object_mut) else { return };
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(list) = conditions.as_array_mut() else { return };
    list.retain(|c| c["type"] != "Terminating");
    list.push(json!({"type": "Terminating", "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}));
}

/// A parsed CRD at a revision.
#[derive(Debug)]
pub(crate) struct Definition {
    /// The revision of the write that made it.
    pub(crate) modified: Revision,
    /// The CRD without its versions, which hold the schemas.
    pub(crate) head: Value,
    /// The served resources; none before it is established.
    resources: Vec<Arc<Resource>>,
}

impl Definition {
    /// The converter is for those that name a conversion webhook, the registry knows what routes serve of it.
    pub(crate) fn new(mut crd: Value, modified: Revision, converter: Option<Converter>, registry: &Registry) -> Self {
        let mut resources = vec![];
        if condition(&crd, "Established") {
            let served = versions(&crd).filter(|v| v["served"] == true);
            let served = served.filter_map(|v| resource(&crd, v, modified, converter));
            resources.extend(served.map(|resource| Arc::new(registry.with_connects(resource))));
        }
        if let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("versions");
        }
        Self { modified, head: crd, resources }
    }
}

/// The custom groups that these CRDs make, names in order, preferred versions first.
pub(crate) fn groups(crds: &[Arc<Definition>]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for crd in crds {
        let name = text_at(&crd.head, "/spec/group");
        for resource in &crd.resources {
            let at = groups.iter().position(|g| g.name == name).unwrap_or_else(|| {
                groups.push(Group { name: name.to_owned(), versions: vec![] });
                groups.len() - 1
            });
            let group = &mut groups[at];
            let at = group.versions.iter().position(|(v, _)| *v == resource.version).unwrap_or_else(|| {
                group.versions.push((resource.version.clone(), Resources::new()));
                group.versions.len() - 1
            });
            group.versions[at].1.insert(resource.plural.clone(), resource.clone());
        }
    }
    for group in &mut groups {
        group.versions.sort_by_key(|(version, _)| version_priority(version));
    }
    groups.sort_by(|a, b| a.name.cmp(&b.name));
    groups
}

fn resource(crd: &Value, version: &Value, since: Revision, converter: Option<Converter>) -> Option<Resource> {
    let group = text_at(crd, "/spec/group").to_owned();
    let names = crd.pointer("/status/acceptedNames").filter(|n| !text_at(n, "/plural").is_empty())?;
    let plural = text_at(names, "/plural").to_owned();
    let object = json!({"type": "object"});
    let open_api = version.pointer("/schema/openAPIV3Schema").unwrap_or(&object);
    let kind = text_at(names, "/kind").to_owned();
    let version_name = text_at(version, "/name").to_owned();
    let gvk = Gvk { group: group.clone(), version: version_name.clone(), kind: kind.clone() };
    let schema = CustomSchema::of(gvk, open_api)?;
    let mut subresources = Vec::new();
    let scale = version.pointer("/subresources/scale").map(|scale| ScalePaths {
        spec: text_at(scale, "/specReplicasPath").to_owned(),
        status: text_at(scale, "/statusReplicasPath").to_owned(),
        selector: Some(text_at(scale, "/labelSelectorPath").to_owned()).filter(|p| !p.is_empty()),
    });
    let change = || vec!["get", "patch", "update"];
    if scale.is_some() {
        let scale = ("autoscaling", "v1", "Scale".to_owned());
        subresources.push(Subresource {
            name: "scale",
            group: scale.0,
            version: scale.1,
            kind: scale.2,
            verbs: change(),
        });
    }
    if version.pointer("/subresources/status").is_some() {
        subresources.push(Subresource { name: "status", group: "", version: "", kind: kind.clone(), verbs: change() });
    }
    let columns = version.pointer("/additionalPrinterColumns").and_then(Value::as_array);
    let columns = columns.into_iter().flatten().map(|column| Column {
        name: text_at(column, "/name").to_owned(),
        kind: text_at(column, "/type").to_owned(),
        format: text_at(column, "/format").to_owned(),
        description: text_at(column, "/description").to_owned(),
        priority: column["priority"].as_i64().unwrap_or(0),
        path: Path::relaxed(text_at(column, "/jsonPath")).ok(),
    });
    let selectable = version.pointer("/selectableFields").and_then(Value::as_array);
    let selectable =
        selectable.into_iter().flatten().map(|f| text_at(f, "/jsonPath").trim_start_matches('.').to_owned());
    let deprecated = (version["deprecated"] == true).then(|| match text_at(version, "/deprecationWarning") {
        "" => {
            // The one to use instead: the first in order that is served and not deprecated itself.
            let mut others: Vec<&str> = versions(crd)
                .filter(|v| v["served"] == true && v["deprecated"] != true)
                .map(|v| text_at(v, "/name"))
                .collect();
            others.sort_by_key(|v| version_priority(v));
            let instead = others.first().map(|v| format!("; use {group}/{v} {kind}")).unwrap_or_default();
            format!("{group}/{version_name} {kind} is deprecated{instead}")
        }
        warning => warning.to_owned(),
    });
    let custom = CustomVersion {
        crd: object::meta_str(crd, "name").to_owned(),
        identity: format!("{}/{}", object::meta_str(crd, "uid"), crd["metadata"]["generation"]),
        storage_version: storage_version(crd).to_owned(),
        converter: converter.filter(|_| text_at(crd, "/spec/conversion/strategy") == "Webhook"),
        webhook: ConversionWebhook::of(crd),
        since,
        schema,
        columns: columns.collect(),
        scale,
        selectable: selectable.collect(),
        deprecated,
        terminating: object::terminating(crd),
    };
    Some(Resource {
        prefix: format!("/registry/{group}/{plural}/"),
        group,
        version: version_name,
        singular: text_at(names, "/singular").to_owned(),
        kind,
        list_kind: text_at(names, "/listKind").to_owned(),
        namespaced: text_at(crd, "/spec/scope") == "Namespaced",
        short_names: strings(names, "/shortNames"),
        categories: strings(names, "/categories"),
        verbs: VERBS.to_vec(),
        subresources,
        plural,
        flavour: Flavour::Custom(Arc::new(custom)),
    })
}
