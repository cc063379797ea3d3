//! Cluster: defaults, validation and immutable fields (specification/admission.md 7, specification/api.md 2.2).

use std::net::IpAddr;

use ironclad_api::{
    Quantity,
    addresses::is_never_a_server,
    agents::may_have_agent,
    cluster::{Cluster, ClusterSpec, ResourceModel, ResourceModelRange, SyncMode},
    quantity::Amount,
};
use ironclad_failover::taints;
use ironclad_fleet::gates::Gate;
use ironclad_patch::names;
use serde_json::{Value, json};

use super::{
    lens::{at, edit, list, text},
    quota,
};
use crate::{
    Denial, Need, Operation, Request, Resource,
    field::{Findings, Path},
    request::{Config, Cx, Needs, decode},
};

const SECRETS: Resource = Resource { group: "", version: "v1", kind: "Secret", plural: "secrets" };
/// Fields that name credentials.
const REFERENCES: [&str; 2] = ["secretRef", "impersonatorSecretRef"];
/// Fields that decide where credentials are sent, and who can read them on the way.
const DESTINATION: [&str; 5] = ["syncMode", "apiEndpoint", "proxyURL", "proxyHeader", "insecureSkipTLSVerification"];

/// Upper bound of the last grade.
const NO_END: i64 = i64::MAX;
const GIB: i64 = 1 << 30;

/// Sets the defaults of a Cluster.
pub(crate) fn mutate(object: &mut Value, cx: &Cx<'_>) -> Result<(), Denial> {
    let existing: Vec<_> = match cx.request.old {
        Some(old) => decode::<Cluster>(old).map(|old| old.spec.taints).unwrap_or_default(),
        None => vec![],
    };
    let Some(part) = object.get_mut("spec") else {
        return Err(Denial::undecodable("missing field `spec`"));
    };
    let modeled = cx.config.gates.enabled(Gate::CustomizedClusterResourceModeling);
    let created = cx.request.operation == Operation::Create;
    edit(part, |spec: &mut ClusterSpec| {
        if let Some(stamped) = taints::stamped(&spec.taints, &existing, cx.lookups.now) {
            spec.taints = stamped;
        }
        if !spec.zone.is_empty() && spec.zones.is_empty() {
            spec.zones = vec![std::mem::take(&mut spec.zone)];
        }
        if modeled {
            complete_models(&mut spec.resource_models, created);
        }
    })
}

/// Sorts the grades and makes them cover everything from zero up. A new cluster without grades gets the default ones.
fn complete_models(models: &mut Vec<ResourceModel>, created: bool) {
    if models.is_empty() {
        if created {
            *models = default_models();
        }
        return;
    }
    models.sort_by_key(|model| model.grade);
    if let Some(first) = models.first_mut() {
        first.ranges.iter_mut().for_each(|range| set(&mut range.min, 0));
    }
    if let Some(last) = models.last_mut() {
        last.ranges.iter_mut().for_each(|range| set(&mut range.max, NO_END));
    }
}

/// Sets a quantity unless it has the same value in another spelling.
fn set(quantity: &mut Quantity, value: i64) {
    let wanted = Amount::new(value, ironclad_api::quantity::Format::DecimalSi);
    if Amount::try_from(&*quantity).is_ok_and(|amount| amount == wanted) {
        return;
    }
    *quantity = wanted.into();
}

/// Nine grades: CPU in cores and memory in GiB double from one grade to the next.
fn default_models() -> Vec<ResourceModel> {
    const CORES: [i64; 10] = [0, 1, 2, 4, 8, 16, 32, 64, 128, NO_END];
    const GIBIBYTES: [i64; 10] = [0, 4, 16, 32, 64, 128, 256, 512, 1024, NO_END];
    let cores = |n: i64| Quantity(n.to_string());
    let memory = |n: i64| match n {
        0 | NO_END => Quantity(n.to_string()),
        n => Amount::new(n * GIB, ironclad_api::quantity::Format::BinarySi).into(),
    };
    let range = |name: &str, min, max| ResourceModelRange { name: name.to_owned(), min, max };
    (0..9)
        .map(|i| ResourceModel {
            grade: i as u64,
            ranges: vec![
                range("cpu", cores(CORES[i]), cores(CORES[i + 1])),
                range("memory", memory(GIBIBYTES[i]), memory(GIBIBYTES[i + 1])),
            ],
        })
        .collect()
}

const PUSH: &str = "Push";
const SYNC_MODES: [&str; 2] = ["Pull", PUSH];

pub(crate) fn validate(object: &Value, _: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    // Before the object is decoded, which fails for an unknown mode.
    let mode = text(object, "/spec/syncMode");
    if mode.is_empty() {
        out.required("spec.syncMode", "");
        return Ok(());
    }
    if !SYNC_MODES.contains(&mode) {
        out.not_supported("spec.syncMode", mode, &SYNC_MODES);
        return Ok(());
    }
    let cluster: Cluster = decode(object)?;
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    for mistake in quota::cluster_name_mistakes(name) {
        out.invalid("metadata.name", name, &mistake);
    }
    if cluster.spec.sync_mode == SyncMode::Pull && !may_have_agent(name) {
        out.invalid(
            "metadata.name",
            name,
            "its agent would be an identity of karmadactl; in Pull mode it needs another name",
        );
    }
    let (spec, path) = (&cluster.spec, Path::new("spec"));
    if !spec.api_endpoint.is_empty() {
        endpoint(&spec.api_endpoint, &path.child("apiEndpoint"), out);
    }
    for (field, reference) in REFERENCES.into_iter().zip([&spec.secret_ref, &spec.impersonator_secret_ref]) {
        let Some(reference) = reference else { continue };
        for (part, text) in [("namespace", &reference.namespace), ("name", &reference.name)] {
            if text.is_empty() {
                out.required(path.child(field).child(part), "");
            }
        }
    }
    if !spec.proxy_url.is_empty() {
        proxy(&spec.proxy_url, &path.child("proxyURL"), out);
    }
    for (name, value) in &spec.proxy_header {
        proxy_header(name, value, &path.child("proxyHeader").key(name), out);
    }
    for (field, text) in [("provider", &spec.provider), ("region", &spec.region), ("zone", &spec.zone)] {
        out.texts(path.child(field), text, names::label_value(text));
    }
    for (i, zone) in spec.zones.iter().enumerate() {
        out.texts(path.child("zones").index(i), zone, names::label_value(zone));
    }
    if !spec.zone.is_empty() && !spec.zones.is_empty() {
        out.invalid(path.child("zones"), &spec.zones, "zone is deprecated and can't be used together with zones");
    }
    out.all(taints::validate(&spec.taints, "spec.taints"));
    if !spec.resource_models.is_empty() {
        check_models(&spec.resource_models, &path.child("resourceModels"), out);
    }
    Ok(())
}

/// The right to read each Secret that this write sends to another address, by the field that names it.
fn credentials(request: &Request<'_>) -> Vec<(&'static str, Need)> {
    let Some(new) = request.object else { return vec![] };
    let spec = |object: &Value, field: &str| at(object, &format!("/spec/{field}")).clone();
    let differs = |field: &str| request.old.is_none_or(|old| spec(old, field) != spec(new, field));
    let moves = DESTINATION.iter().any(|field| differs(field));
    let named = REFERENCES.into_iter().filter(|field| moves || differs(field));
    let need = |field: &str| -> Option<Need> {
        let [namespace, name] =
            ["namespace", "name"].map(|part| text(new, &format!("/spec/{field}/{part}")).to_owned());
        (!namespace.is_empty() && !name.is_empty()).then(|| Need::Access {
            user: request.user.to_owned(),
            groups: request.groups.to_vec(),
            verb: "get",
            resource: SECRETS,
            namespace,
            name,
        })
    };
    named.filter_map(|field| Some((field, need(field)?))).collect()
}

pub(crate) fn needs(request: &Request<'_>, _: &Config, needs: &mut Needs) {
    needs.extend(credentials(request).into_iter().map(|(_, need)| need));
}

/// Refuses to send a Secret to an address of somebody who may not read it.
fn check_credentials(cx: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    for (field, need) in credentials(cx.request) {
        let Need::Access { namespace, name, .. } = &need else { continue };
        let Some(found) = cx.lookups.get(&need) else {
            return Err(Denial::failure(format!(
                "the right to read Secret {namespace}/{name} is not known; try again"
            )));
        };
        if found.is_empty() {
            let why = format!(
                "the control plane would send the token of Secret {namespace}/{name} to spec.apiEndpoint, and user {:?} may not get that Secret",
                cx.request.user
            );
            out.not_permitted(Path::new("spec").child(field), &why);
        }
    }
    Ok(())
}

/// Warns of grades that somebody wrote for a cluster whose account is kept by node: they limit nothing there.
fn check_use_of_models(cx: &Cx<'_>, out: &mut Findings) {
    let Some(new) = cx.request.object else { return };
    let models = list(new, "/spec/resourceModels");
    let is_changed = cx.request.old.is_none_or(|old| list(old, "/spec/resourceModels") != models);
    let is_own = !models.is_empty() && json!(models) != json!(default_models());
    if cx.config.watches_members && is_changed && is_own && text(new, "/spec/syncMode") == PUSH {
        out.warn(
            "spec.resourceModels limits nothing: the nodes and Pods of clusters in Push mode are watched, and what is \
             free on each node counts instead",
        );
    }
}

/// Refuses credentials that the writer may not read; warns of changes that want more, and of grades without effect.
pub(crate) fn change(cx: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    check_credentials(cx, out)?;
    check_use_of_models(cx, out);
    let (Operation::Update, Some(old), Some(new)) = (cx.request.operation, cx.request.old, cx.request.object) else {
        return Ok(());
    };
    match (text(old, "/spec/syncMode"), text(new, "/spec/syncMode")) {
        (before, after) if before == after => {}
        (_, PUSH) => out.warn(
            "spec.syncMode changes to Push: copies stay as they are until the control plane reaches the member by \
             spec.apiEndpoint and spec.secretRef (`ironclad join` sets both); then remove the agent",
        ),
        _ => out.warn(
            "spec.syncMode changes to Pull: copies stay as they are until an agent serves the member (`ironclad register`)",
        ),
    }
    let (before, after) = (text(old, "/spec/id"), text(new, "/spec/id"));
    if !before.is_empty() && before != after {
        out.warn(format!(
            "spec.id changes from {before:?} to {after:?}: it identifies the cluster and should not change"
        ));
    }
    Ok(())
}

/// Splits `scheme://host…`; `None` if the text is not a URL.
fn parts(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let plain = !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    plain.then_some((scheme, rest))
}

fn endpoint(url: &str, path: &Path, out: &mut Findings) {
    // A bare host:port is an address as well: clients use https for it.
    let rest = parts(url).map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.is_empty() || host.ends_with('@') || host.contains(char::is_whitespace) {
        out.invalid(path, url, "must be a URL with a host, as https://host:port");
    }
    if host.contains('@') {
        out.invalid(path, url, "user information is not permitted in the URL");
    }
    if names_no_server(rest) {
        out.insecure(path, url, NO_SERVER);
    }
    if url.contains('#') {
        out.invalid(path, url, "fragments are not permitted in the URL");
    }
    if url.contains('?') {
        out.invalid(path, url, "query parameters are not permitted in the URL");
    }
}

fn proxy(url: &str, path: &Path, out: &mut Findings) {
    match parts(url) {
        None => out.invalid(path, url, "must be a URL, as https://host:port"),
        Some((scheme, _)) if !["http", "https", "socks5"].contains(&scheme) => {
            out.invalid(path, url, &format!("unsupported scheme {scheme:?}, must be http, https, or socks5"));
        }
        Some((_, rest)) if rest.split(['/', '?', '#']).next().unwrap_or_default().is_empty() => {
            out.invalid(path, url, "must be a URL with a host, as https://host:port");
        }
        Some((_, rest)) if names_no_server(rest) => out.insecure(path, url, NO_SERVER),
        Some(_) => {}
    }
}

const NO_SERVER: &str = "must not be a link-local, multicast or unspecified address: no API server has one, and clouds \
                         answer there with the credentials of machines";

/// True if the host after the scheme is an address that no member and no proxy can have.
fn names_no_server(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((v6, _)) => v6,
        None => host.split(':').next().unwrap_or_default(),
    };
    host.parse::<IpAddr>().is_ok_and(|address| is_never_a_server(&address))
}

/// Headers that make the request to the proxy and are not for others to set.
const OWN_HEADERS: [&str; 4] = ["host", "content-length", "transfer-encoding", "connection"];

fn proxy_header(name: &str, value: &str, path: &Path, out: &mut Findings) {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(token) {
        out.invalid(path, name, "must be a name of an HTTP header");
    }
    if OWN_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
        out.forbidden(path, "this header cannot be set");
    }
    if value.chars().any(char::is_control) {
        out.invalid(path, value, "must not contain control characters");
    }
}

fn check_models(models: &[ResourceModel], path: &Path, out: &mut Findings) {
    let amount = |quantity: &Quantity| Amount::try_from(quantity).unwrap_or(Amount::ZERO);
    let zero = |quantity: &Quantity| amount(quantity).is_zero();
    for (i, model) in models.iter().enumerate() {
        let at = path.index(i);
        if model.ranges.is_empty() {
            out.required(at.child("ranges"), "a model without resources grades no node");
        }
        if i > 0 && models[i - 1].grade == model.grade {
            out.invalid(at.child("grade"), &model.grade, "the grades of models must be unique");
        }
        if i > 0 {
            let names = |model: &ResourceModel| model.ranges.iter().map(|range| range.name.clone()).collect::<Vec<_>>();
            if names(model) != names(&models[i - 1]) {
                let detail =
                    "the number and the names of the resources must be the same in all models, in the same order";
                out.invalid(at.child("ranges"), &model.ranges, detail);
                continue;
            }
        }
        for (j, range) in model.ranges.iter().enumerate() {
            let at = at.child("ranges").index(j);
            if amount(&range.max) <= amount(&range.min) {
                out.invalid(&at, range, "the max value of each resource must be greater than the min value");
            }
            if i == 0 && !zero(&range.min) {
                out.invalid(
                    at.child("min"),
                    &range.min.0,
                    "the min value of each resource in the first model should be 0",
                );
            }
            if i > 0 && amount(&range.min) != amount(&models[i - 1].ranges[j].max) {
                let detail = "model intervals for resources must be contiguous and non-overlapping";
                out.invalid(at.child("min"), &range.min.0, detail);
            }
            if i + 1 == models.len() && amount(&range.max).value() != NO_END {
                let detail = "the max value of each resource in the last model should be MaxInt64";
                out.invalid(at.child("max"), &range.max.0, detail);
            }
        }
    }
}
