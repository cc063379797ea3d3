//! Columns of everything that is neither a pod nor a workload.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{object, table::age};

use super::{AGE, Cells, NAME, Spec, created, labels, list, name, number, or_none, plain, text};

/// Columns and cells of a kind of this file.
pub(super) fn printer(group: &str, kind: &str) -> Option<(&'static [Spec], Cells)> {
    Some(match (group, kind) {
        ("", "ConfigMap") => (&[NAME, ("Data", "string", 0), AGE], |o, now| {
            let count = |key: &str| o[key].as_object().map_or(0, serde_json::Map::len);
            vec![name(o), json!(count("data") + count("binaryData")), created(o, now)]
        }),
        ("", "Secret") => (&[NAME, ("Type", "string", 0), ("Data", "string", 0), AGE], |o, now| {
            let count = o["data"].as_object().map_or(0, serde_json::Map::len);
            vec![name(o), json!(text(o, "/type")), json!(count), created(o, now)]
        }),
        ("", "ServiceAccount") => (&[NAME, AGE], |o, now| vec![name(o), created(o, now)]),
        ("", "Namespace") => (&[NAME, ("Status", "string", 0), AGE], |o, now| {
            vec![name(o), json!(text(o, "/status/phase")), created(o, now)]
        }),
        ("", "Node") => (
            &[
                NAME,
                ("Status", "string", 0),
                ("Roles", "string", 0),
                AGE,
                ("Version", "string", 0),
                ("Internal-IP", "string", 1),
                ("External-IP", "string", 1),
                ("OS-Image", "string", 1),
                ("Kernel-Version", "string", 1),
                ("Container-Runtime", "string", 1),
            ],
            node,
        ),
        ("" | "events.k8s.io", "Event") => (
            &[
                ("Last Seen", "string", 0),
                ("Type", "string", 0),
                ("Reason", "string", 0),
                ("Object", "string", 0),
                ("Subobject", "string", 1),
                ("Source", "string", 1),
                ("Message", "string", 0),
                ("First Seen", "string", 1),
                ("Count", "string", 1),
                ("Name", "string", 1),
            ],
            event,
        ),
        ("", "Service") => (
            &[
                NAME,
                ("Type", "string", 0),
                ("Cluster-IP", "string", 0),
                ("External-IP", "string", 0),
                ("Port(s)", "string", 0),
                AGE,
                ("Selector", "string", 1),
            ],
            service,
        ),
        ("", "Endpoints") => (&[NAME, ("Endpoints", "string", 0), AGE], |o, now| {
            let mut addresses = Vec::new();
            for subset in list(o, "/subsets") {
                for address in list(subset, "/addresses") {
                    let ip = text(address, "/ip");
                    let ports: Vec<String> =
                        list(subset, "/ports").map(|p| format!("{ip}:{}", plain(&p["port"]))).collect();
                    if ports.is_empty() { addresses.push(ip.to_owned()) } else { addresses.extend(ports) }
                }
            }
            if addresses.len() > 3 {
                let more = format!(" + {} more...", addresses.len() - 3);
                addresses.truncate(3);
                addresses[2] += &more;
            }
            vec![name(o), or_none(addresses.join(",")), created(o, now)]
        }),
        ("", "PersistentVolumeClaim") => (
            &[
                NAME,
                ("Status", "string", 0),
                ("Volume", "string", 0),
                ("Capacity", "string", 0),
                ("Access Modes", "string", 0),
                ("StorageClass", "string", 0),
                ("VolumeAttributesClass", "string", 0),
                AGE,
                ("VolumeMode", "string", 1),
            ],
            claim,
        ),
        ("", "PersistentVolume") => (
            &[
                NAME,
                ("Capacity", "string", 0),
                ("Access Modes", "string", 0),
                ("Reclaim Policy", "string", 0),
                ("Status", "string", 0),
                ("Claim", "string", 0),
                ("StorageClass", "string", 0),
                ("VolumeAttributesClass", "string", 0),
                ("Reason", "string", 0),
                AGE,
                ("VolumeMode", "string", 1),
            ],
            volume,
        ),
        ("", "ResourceQuota") => (&[NAME, ("Request", "string", 0), ("Limit", "string", 0), AGE], quota),
        ("networking.k8s.io", "Ingress") => (
            &[
                NAME,
                ("Class", "string", 0),
                ("Hosts", "string", 0),
                ("Address", "string", 0),
                ("Ports", "string", 0),
                AGE,
            ],
            ingress,
        ),
        ("networking.k8s.io", "IngressClass") => {
            (&[NAME, ("Controller", "string", 0), ("Parameters", "string", 0), AGE], |o, now| {
                let parameters = match text(o, "/spec/parameters/kind") {
                    "" => String::new(),
                    kind => format!("{kind}/{}", text(o, "/spec/parameters/name")),
                };
                vec![name(o), json!(text(o, "/spec/controller")), or_none(parameters), created(o, now)]
            })
        }
        ("networking.k8s.io", "NetworkPolicy") => (&[NAME, ("Pod-Selector", "string", 0), AGE], |o, now| {
            vec![name(o), or_none(labels(o.pointer("/spec/podSelector/matchLabels"))), created(o, now)]
        }),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => (
            &[
                NAME,
                ("Role", "string", 0),
                AGE,
                ("Users", "string", 1),
                ("Groups", "string", 1),
                ("ServiceAccounts", "string", 1),
            ],
            binding,
        ),
        ("storage.k8s.io", "StorageClass") => (
            &[
                NAME,
                ("Provisioner", "string", 0),
                ("ReclaimPolicy", "string", 0),
                ("VolumeBindingMode", "string", 0),
                ("AllowVolumeExpansion", "string", 0),
                AGE,
            ],
            |o, now| {
                let expansion = o["allowVolumeExpansion"] == true;
                vec![
                    name(o),
                    json!(text(o, "/provisioner")),
                    json!(text(o, "/reclaimPolicy")),
                    json!(text(o, "/volumeBindingMode")),
                    json!(expansion),
                    created(o, now),
                ]
            },
        ),
        ("coordination.k8s.io", "Lease") => (&[NAME, ("Holder", "string", 0), AGE], |o, now| {
            vec![name(o), json!(text(o, "/spec/holderIdentity")), created(o, now)]
        }),
        ("scheduling.k8s.io", "PriorityClass") => (
            &[NAME, ("Value", "integer", 0), ("Global-Default", "boolean", 0), AGE, ("PreemptionPolicy", "string", 0)],
            |o, now| {
                let default = o["globalDefault"] == true;
                vec![
                    name(o),
                    json!(number(o, "/value")),
                    json!(default),
                    created(o, now),
                    json!(text(o, "/preemptionPolicy")),
                ]
            },
        ),
        ("discovery.k8s.io", "EndpointSlice") => (
            &[NAME, ("AddressType", "string", 0), ("Ports", "string", 0), ("Endpoints", "string", 0), AGE],
            |o, now| {
                let ports: Vec<String> = list(o, "/ports").map(|p| plain(&p["port"])).collect();
                let addresses: Vec<&str> =
                    list(o, "/endpoints").flat_map(|e| list(e, "/addresses")).filter_map(Value::as_str).collect();
                let unset = |text: String| json!(if text.is_empty() { "<unset>".to_owned() } else { text });
                vec![
                    name(o),
                    json!(text(o, "/addressType")),
                    unset(ports.join(",")),
                    unset(addresses.join(",")),
                    created(o, now),
                ]
            },
        ),
        ("apps", "ControllerRevision") => {
            (&[NAME, ("Controller", "string", 0), ("Revision", "string", 0), AGE], |o, now| {
                let owner = list(o, "/metadata/ownerReferences").find(|r| r["controller"] == true);
                let owner = owner.map(|r| {
                    let group = text(r, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
                    let kind = [text(r, "/kind"), group].join(".");
                    format!("{}/{}", kind.trim_end_matches('.').to_lowercase(), text(r, "/name"))
                });
                vec![name(o), or_none(owner.unwrap_or_default()), json!(number(o, "/revision")), created(o, now)]
            })
        }
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
            (&[NAME, ("Webhooks", "integer", 0), AGE], |o, now| {
                vec![name(o), json!(list(o, "/webhooks").count()), created(o, now)]
            })
        }
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            let columns: &[Spec] = &[
                NAME,
                AGE,
                ("SignerName", "string", 0),
                ("Requestor", "string", 0),
                ("RequestedDuration", "string", 0),
                ("Condition", "string", 0),
            ];
            (columns, |o, now| {
                let seconds = o.pointer("/spec/expirationSeconds").and_then(Value::as_i64);
                let duration = seconds.map_or_else(|| "<none>".to_owned(), age::human);
                let (signer, asked_by) = (text(o, "/spec/signerName"), text(o, "/spec/username"));
                let condition = certificate_condition(o);
                vec![name(o), created(o, now), json!(signer), json!(asked_by), json!(duration), json!(condition)]
            })
        }
        ("apiregistration.k8s.io", "APIService") => {
            (&[NAME, ("Service", "string", 0), ("Available", "string", 0), AGE], |o, now| {
                let service = match text(o, "/spec/service/name") {
                    "" => "Local".to_owned(),
                    service => format!("{}/{service}", text(o, "/spec/service/namespace")),
                };
                let available = list(o, "/status/conditions").find(|c| c["type"] == "Available");
                let available = available.map_or("Unknown", |c| text(c, "/status"));
                vec![name(o), json!(service), json!(available), created(o, now)]
            })
        }
        _ => return None,
    })
}

/// What became of a request for a certificate: `Approved,Issued`.
fn certificate_condition(o: &Value) -> String {
    let is = |wanted: &str| list(o, "/status/conditions").any(|c| c["type"] == wanted);
    let mut out = match (is("Denied"), is("Approved")) {
        (true, _) => "Denied".to_owned(),
        (_, true) => "Approved".to_owned(),
        _ => "Pending".to_owned(),
    };
    if is("Failed") {
        out += ",Failed";
    }
    if !text(o, "/status/certificate").is_empty() {
        out += ",Issued";
    }
    out
}

fn node(o: &Value, now: Timestamp) -> Vec<Value> {
    let ready = list(o, "/status/conditions").find(|c| c["type"] == "Ready");
    let mut status = match ready.map(|c| text(c, "/status")) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if o.pointer("/spec/unschedulable") == Some(&json!(true)) {
        status += ",SchedulingDisabled";
    }
    let mut roles: Vec<&str> = Vec::new();
    for (key, value) in o.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten() {
        match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => roles.push(role),
            _ if key == "kubernetes.io/role" => roles.extend(value.as_str()),
            _ => {}
        }
    }
    let address = |kind: &str| {
        let found = list(o, "/status/addresses").find(|a| a["type"] == kind);
        or_none(found.map_or("", |a| text(a, "/address")))
    };
    let info = |key: &str| match text(o, &format!("/status/nodeInfo/{key}")) {
        "" => json!("<unknown>"),
        text => json!(text),
    };
    vec![
        name(o),
        json!(status),
        or_none(roles.join(",")),
        created(o, now),
        json!(text(o, "/status/nodeInfo/kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

/// Either name of a field: core/v1 and events.k8s.io/v1.
fn either<'a>(o: &'a Value, a: &str, b: &str) -> &'a str {
    match text(o, a) {
        "" => text(o, b),
        found => found,
    }
}

fn event(o: &Value, now: Timestamp) -> Vec<Value> {
    let first = either(o, "/firstTimestamp", "/deprecatedFirstTimestamp");
    let first = if first.is_empty() { text(o, "/eventTime") } else { first };
    let last = match text(o, "/series/lastObservedTime") {
        "" => either(o, "/lastTimestamp", "/deprecatedLastTimestamp"),
        observed => observed,
    };
    let last = if last.is_empty() { first } else { last };
    let kind = either(o, "/involvedObject/kind", "/regarding/kind").to_lowercase();
    let target = format!("{kind}/{}", either(o, "/involvedObject/name", "/regarding/name"));
    let component = match either(o, "/source/component", "/deprecatedSource/component") {
        "" => either(o, "/reportingComponent", "/reportingController"),
        component => component,
    };
    let host = either(o, "/source/host", "/deprecatedSource/host");
    let source = if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") };
    let count = [number(o, "/series/count"), number(o, "/count"), number(o, "/deprecatedCount")];
    let count = count.into_iter().find(|c| *c > 0).unwrap_or(1);
    vec![
        json!(age::since(last, now)),
        json!(text(o, "/type")),
        json!(text(o, "/reason")),
        json!(target),
        json!(either(o, "/involvedObject/fieldPath", "/regarding/fieldPath")),
        json!(source),
        json!(either(o, "/message", "/note").trim()),
        json!(age::since(first, now)),
        json!(count),
        name(o),
    ]
}

fn service(o: &Value, now: Timestamp) -> Vec<Value> {
    let kind = text(o, "/spec/type");
    let balancers: Vec<&str> = list(o, "/status/loadBalancer/ingress").map(|i| either(i, "/ip", "/hostname")).collect();
    let external: Vec<&str> = list(o, "/spec/externalIPs").filter_map(Value::as_str).collect();
    let external = match kind {
        "ExternalName" => text(o, "/spec/externalName").to_owned(),
        "LoadBalancer" if balancers.is_empty() && external.is_empty() => "<pending>".to_owned(),
        "LoadBalancer" => [balancers, external].concat().join(","),
        _ => external.join(","),
    };
    let ports: Vec<String> = list(o, "/spec/ports")
        .map(|p| match number(p, "/nodePort") {
            0 => format!("{}/{}", plain(&p["port"]), text(p, "/protocol")),
            node => format!("{}:{node}/{}", plain(&p["port"]), text(p, "/protocol")),
        })
        .collect();
    vec![
        name(o),
        json!(kind),
        or_none(text(o, "/spec/clusterIP")),
        or_none(external),
        or_none(ports.join(",")),
        created(o, now),
        or_none(labels(o.pointer("/spec/selector"))),
    ]
}

/// Access modes by their short names.
fn access_modes(o: &Value, pointer: &str) -> Value {
    let short = list(o, pointer).filter_map(Value::as_str).map(|mode| match mode {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        other => other,
    });
    json!(short.collect::<Vec<_>>().join(","))
}

fn claim(o: &Value, now: Timestamp) -> Vec<Value> {
    let status = if object::terminating(o) { "Terminating" } else { text(o, "/status/phase") };
    let bound = !text(o, "/spec/volumeName").is_empty();
    vec![
        name(o),
        json!(status),
        json!(text(o, "/spec/volumeName")),
        json!(if bound { text(o, "/status/capacity/storage") } else { "" }),
        if bound { access_modes(o, "/status/accessModes") } else { json!("") },
        json!(text(o, "/spec/storageClassName")),
        json!(match text(o, "/spec/volumeAttributesClassName") {
            "" => "<unset>",
            class => class,
        }),
        created(o, now),
        json!(text(o, "/spec/volumeMode")),
    ]
}

fn volume(o: &Value, now: Timestamp) -> Vec<Value> {
    let status = if object::terminating(o) { "Terminating" } else { text(o, "/status/phase") };
    let claim = match text(o, "/spec/claimRef/name") {
        "" => String::new(),
        claim => format!("{}/{claim}", text(o, "/spec/claimRef/namespace")),
    };
    vec![
        name(o),
        json!(text(o, "/spec/capacity/storage")),
        access_modes(o, "/spec/accessModes"),
        json!(text(o, "/spec/persistentVolumeReclaimPolicy")),
        json!(status),
        json!(claim),
        json!(text(o, "/spec/storageClassName")),
        json!(match text(o, "/spec/volumeAttributesClassName") {
            "" => "<unset>",
            class => class,
        }),
        json!(text(o, "/status/reason")),
        created(o, now),
        json!(text(o, "/spec/volumeMode")),
    ]
}

fn quota(o: &Value, now: Timestamp) -> Vec<Value> {
    let mut sides = [Vec::new(), Vec::new()];
    for (resource, hard) in o.pointer("/status/hard").and_then(Value::as_object).into_iter().flatten() {
        let used = o.pointer("/status/used").and_then(|u| u.get(resource)).map_or_else(|| "0".to_owned(), plain);
        let cell = format!("{resource}: {used}/{}", plain(hard));
        sides[usize::from(resource.starts_with("limits."))].push(cell);
    }
    vec![name(o), json!(sides[0].join(", ")), json!(sides[1].join(", ")), created(o, now)]
}

fn ingress(o: &Value, now: Timestamp) -> Vec<Value> {
    let hosts: Vec<&str> = list(o, "/spec/rules").filter_map(|r| r["host"].as_str()).collect();
    let addresses: Vec<&str> = list(o, "/status/loadBalancer/ingress").map(|i| either(i, "/ip", "/hostname")).collect();
    let tls = list(o, "/spec/tls").next().is_some();
    vec![
        name(o),
        or_none(text(o, "/spec/ingressClassName")),
        json!(if hosts.is_empty() { "*".to_owned() } else { hosts.join(",") }),
        json!(addresses.join(",")),
        json!(if tls { "80, 443" } else { "80" }),
        created(o, now),
    ]
}

fn binding(o: &Value, now: Timestamp) -> Vec<Value> {
    let of = |kind: &str| {
        let subjects = list(o, "/subjects").filter(|s| s["kind"] == kind).map(|s| match text(s, "/namespace") {
            "" if kind != "ServiceAccount" => text(s, "/name").to_owned(),
            namespace => format!("{namespace}/{}", text(s, "/name")),
        });
        json!(subjects.collect::<Vec<_>>().join(", "))
    };
    let role = format!("{}/{}", text(o, "/roleRef/kind"), text(o, "/roleRef/name"));
    vec![name(o), json!(role), created(o, now), of("User"), of("Group"), of("ServiceAccount")]
}
