//! EndpointSlices of a Service: its pods that have an address, a hundred to a slice.
//!
//! An endpoint stays in its slice, so that one pod's change costs one write, however many pods there are.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::{
    api::{
        core::v1::{ObjectReference, Pod, Service, ServicePort},
        discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::api::ObjectMeta;

use crate::{
    owner::controller_reference,
    pods::{is_finished, is_terminating, node_of, ready_since},
};

const PER_SLICE: usize = 100;
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub(crate) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
pub(crate) const MANAGER: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";

pub(crate) struct Seen {
    pub(crate) service: Arc<Service>,
    pub(crate) pods: Vec<Arc<Pod>>,
    pub(crate) slices: Vec<Arc<EndpointSlice>>,
    /// Zones by node name, for nodes that are in one.
    pub(crate) zones: BTreeMap<String, String>,
}

#[derive(Debug, Default, PartialEq)]
#[must_use]
pub(crate) struct Plan {
    /// Slices to create, without names.
    pub(crate) create: Vec<EndpointSlice>,
    /// Slices whose endpoints and ports become these.
    pub(crate) update: Vec<(Arc<EndpointSlice>, Vec<Endpoint>)>,
    pub(crate) delete: Vec<Arc<EndpointSlice>>,
}

/// Returns `true` if the Service selects pods, so that this controller maintains its slices.
pub(crate) fn has_endpoints(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    let selects = spec.and_then(|s| s.selector.as_ref()).is_some_and(|s| !s.is_empty());
    selects && spec.and_then(|s| s.type_.as_deref()) != Some("ExternalName")
}

/// Returns the parts of a pod that its endpoint depends on: unless they change, the Service needs no reconcile.
pub(crate) fn shows(pod: &Pod) -> impl PartialEq + '_ {
    (
        &pod.metadata.uid,
        &pod.metadata.labels,
        pod.status.as_ref().and_then(|s| s.pod_ip.as_deref()),
        ready_since(pod).is_some(),
        is_terminating(pod),
        is_finished(pod),
        node_of(pod),
    )
}

pub(crate) fn decide(seen: &Seen) -> Plan {
    let mut wanted: BTreeMap<PortsKey, (Vec<EndpointPort>, BTreeMap<String, Endpoint>)> = BTreeMap::new();
    if has_endpoints(&seen.service) {
        for pod in seen.pods.iter().filter(|p| !is_finished(p)) {
            let Some(endpoint) = endpoint(&seen.service, pod, &seen.zones) else { continue };
            let ports = ports(&seen.service, pod);
            let group = wanted.entry(PortsKey::of(&ports)).or_insert_with(|| (ports, BTreeMap::new()));
            group.1.insert(pod.metadata.uid.clone().unwrap_or_default(), endpoint);
        }
        if wanted.is_empty() {
            // A slice without endpoints shows that the controller ran.
            wanted.insert(PortsKey::default(), (Vec::new(), BTreeMap::new()));
        }
    }
    let mut plan = Plan::default();
    let mut slices = seen.slices.clone();
    slices.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    for slice in &slices {
        if !wanted.contains_key(&PortsKey::of(slice.ports.as_deref().unwrap_or_default())) {
            plan.delete.push(slice.clone());
        }
    }
    for (key, (ports, endpoints)) in wanted {
        let of_group = slices.iter().filter(|s| PortsKey::of(s.ports.as_deref().unwrap_or_default()) == key);
        fill(&mut plan, &seen.service, &ports, endpoints, &of_group.cloned().collect::<Vec<_>>());
    }
    plan
}

/// Distributes the endpoints of one group of ports over its slices.
fn fill(
    plan: &mut Plan,
    service: &Service,
    ports: &[EndpointPort],
    mut endpoints: BTreeMap<String, Endpoint>,
    slices: &[Arc<EndpointSlice>],
) {
    // Endpoints stay in their slice ...
    let mut filled: Vec<Vec<Endpoint>> = Vec::new();
    for slice in slices {
        let kept = of(slice).iter().filter_map(|old| endpoints.remove(uid(old)));
        filled.push(kept.take(PER_SLICE).collect());
    }
    // ... and new ones fill slices with free capacity.
    let mut rest = endpoints.into_values();
    for slice in &mut filled {
        let free = PER_SLICE.saturating_sub(slice.len());
        slice.extend(rest.by_ref().take(free));
    }
    // One slice must remain if there are no endpoints: keep the first empty one.
    let mut stays = filled.iter().all(Vec::is_empty);
    for (slice, endpoints) in slices.iter().zip(filled) {
        if endpoints.is_empty() && !std::mem::take(&mut stays) {
            plan.delete.push(slice.clone());
        } else if of(slice) != endpoints {
            plan.update.push((slice.clone(), endpoints));
        }
    }
    let rest: Vec<Endpoint> = rest.collect();
    let mut chunks: Vec<Vec<Endpoint>> = rest.chunks(PER_SLICE).map(<[Endpoint]>::to_vec).collect();
    if slices.is_empty() && chunks.is_empty() {
        chunks.push(Vec::new());
    }
    plan.create.extend(chunks.into_iter().map(|endpoints| slice_of(service, ports, endpoints)));
}

fn of(slice: &EndpointSlice) -> &[Endpoint] {
    slice.endpoints.as_deref().unwrap_or_default()
}

fn uid(endpoint: &Endpoint) -> &str {
    endpoint.target_ref.as_ref().and_then(|r| r.uid.as_deref()).unwrap_or("")
}

fn slice_of(service: &Service, ports: &[EndpointPort], endpoints: Vec<Endpoint>) -> EndpointSlice {
    let name = service.metadata.name.clone().unwrap_or_default();
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.to_owned(), name.clone());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    if service.spec.as_ref().and_then(|s| s.cluster_ip.as_deref()) == Some("None") {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![controller_reference("v1", "Service", &service.metadata)]),
            ..ObjectMeta::default()
        },
        address_type: "IPv4".to_owned(),
        endpoints: Some(endpoints),
        ports: (!ports.is_empty()).then(|| ports.to_vec()),
    }
}

fn endpoint(service: &Service, pod: &Pod, zones: &BTreeMap<String, String>) -> Option<Endpoint> {
    let address = pod.status.as_ref()?.pod_ip.clone().filter(|ip| !ip.is_empty())?;
    let spec = service.spec.as_ref();
    let unready_too = spec.and_then(|s| s.publish_not_ready_addresses) == Some(true);
    let (serving, terminating) = (ready_since(pod).is_some(), is_terminating(pod));
    let of_pod = pod.spec.as_ref();
    let named = of_pod.and_then(|p| p.subdomain.as_ref()) == service.metadata.name.as_ref();
    Some(Endpoint {
        addresses: vec![address],
        conditions: Some(EndpointConditions {
            ready: Some(unready_too || serving && !terminating),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: of_pod.and_then(|p| p.hostname.clone()).filter(|_| named),
        node_name: of_pod.and_then(|p| p.node_name.clone()),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            ..ObjectReference::default()
        }),
        zone: zones.get(node_of(pod)).cloned(),
        ..Endpoint::default()
    })
}

/// Resolves the ports of the Service on this pod; named ports that the pod lacks are left out.
fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let all = service.spec.iter().flat_map(|s| s.ports.iter().flatten());
    all.filter_map(|port| {
        Some(EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(number(port, pod)?),
            protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
            app_protocol: port.app_protocol.clone(),
        })
    })
    .collect()
}

fn number(port: &ServicePort, pod: &Pod) -> Option<i32> {
    let name = match &port.target_port {
        None => return Some(port.port),
        Some(IntOrString::Int(0)) => return Some(port.port),
        Some(IntOrString::Int(number)) => return Some(*number),
        Some(IntOrString::String(name)) => name,
    };
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    let sidecars = pod.spec.iter().flat_map(|s| s.init_containers.iter().flatten());
    let sidecars = sidecars.filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let containers = pod.spec.iter().flat_map(|s| &s.containers).chain(sidecars);
    let mut named = containers
        .flat_map(|c| c.ports.iter().flatten())
        .filter(|p| p.name.as_ref() == Some(name) && p.protocol.as_deref().unwrap_or("TCP") == protocol);
    named.next().map(|p| p.container_port)
}

#[derive(Debug, Default, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct PortsKey(BTreeSet<(String, i32, String, String)>);

impl PortsKey {
    fn of(ports: &[EndpointPort]) -> Self {
        let text = |t: &Option<String>| t.clone().unwrap_or_default();
        Self(
            ports
                .iter()
                .map(|p| (text(&p.name), p.port.unwrap_or(0), text(&p.protocol), text(&p.app_protocol)))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testkit::pod;

    fn service(change: impl FnOnce(&mut serde_json::Value)) -> Arc<Service> {
        let mut service = json!({
            "metadata": {"name": "web", "namespace": "d", "uid": "s", "labels": {"team": "a"}},
            "spec": {"selector": {"app": "a"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
        });
        change(&mut service);
        Arc::new(serde_json::from_value(service).unwrap())
    }

    fn at(name: &str, ip: &str) -> Arc<Pod> {
        let mut maker = pod(name).label("app", "a").node("n1").ready(5);
        maker.status().pod_ip = Some(ip.into());
        maker.arc()
    }

    fn seen(service: Arc<Service>, pods: Vec<Arc<Pod>>, slices: Vec<EndpointSlice>) -> Seen {
        let named = slices.into_iter().enumerate().map(|(n, mut slice)| {
            slice.metadata.name = Some(format!("web-{n}"));
            Arc::new(slice)
        });
        Seen { service, pods, slices: named.collect(), zones: [("n1".to_owned(), "z1".to_owned())].into() }
    }

    fn addresses(endpoints: &[Endpoint]) -> Vec<&str> {
        endpoints.iter().map(|e| e.addresses[0].as_str()).collect()
    }

    #[test]
    fn the_first_slice_has_all_addresses_and_is_stable() {
        let plan = decide(&seen(service(|_| {}), vec![at("p1", "10.0.0.1"), at("p2", "10.0.0.2")], vec![]));
        let slice = &plan.create[0];
        assert_eq!(addresses(of(slice)), ["10.0.0.1", "10.0.0.2"]);
        let labels = slice.metadata.labels.as_ref().unwrap();
        assert_eq!(
            (labels[SERVICE_NAME].as_str(), labels[MANAGED_BY].as_str(), labels["team"].as_str()),
            ("web", MANAGER, "a")
        );
        let port = &slice.ports.as_ref().unwrap()[0];
        assert_eq!(
            (port.name.as_deref(), port.port, port.protocol.as_deref()),
            (Some("http"), Some(8080), Some("TCP"))
        );
        let first = &of(slice)[0];
        assert_eq!((first.zone.as_deref(), first.node_name.as_deref()), (Some("z1"), Some("n1")));
        assert_eq!(first.conditions.as_ref().unwrap().ready, Some(true));
        let again = decide(&seen(service(|_| {}), vec![at("p1", "10.0.0.1"), at("p2", "10.0.0.2")], plan.create));
        assert_eq!(again, Plan::default(), "deciding again finds nothing to do");
    }

    #[test]
    fn endpoint_conditions_by_pod_state() {
        let waiting = || pod("waiting").label("app", "a").arc();
        let unready = || {
            let mut maker = pod("unready").label("app", "a").node("n1");
            maker.status().pod_ip = Some("10.0.0.9".into());
            maker.arc()
        };
        let going = || {
            let mut maker = pod("going").label("app", "a").node("n1").ready(1).terminating();
            maker.status().pod_ip = Some("10.0.0.8".into());
            maker.arc()
        };
        let done = || {
            let mut maker = pod("done").phase("Succeeded");
            maker.status().pod_ip = Some("10.0.0.7".into());
            maker.arc()
        };
        let conditions = |service: Arc<Service>, pod: Arc<Pod>| {
            let plan = decide(&seen(service, vec![pod], vec![]));
            let endpoint = of(&plan.create[0]).first().cloned()?;
            let c = endpoint.conditions?;
            Some((c.ready?, c.serving?, c.terminating?))
        };
        let publishes = |s: &mut serde_json::Value| s["spec"]["publishNotReadyAddresses"] = json!(true);
        for (name, service, pod, want) in [
            ("a pod without an address is no endpoint", service(|_| {}), waiting(), None),
            ("a finished pod is no endpoint", service(|_| {}), done(), None),
            ("an unready pod is a not-ready endpoint", service(|_| {}), unready(), Some((false, false, false))),
            ("publishNotReadyAddresses makes it ready", service(publishes), unready(), Some((true, false, false))),
            ("a terminating ready pod still serves", service(|_| {}), going(), Some((false, true, true))),
        ] {
            assert_eq!(conditions(service, pod), want, "{name}");
        }
    }

    #[test]
    fn services_without_pods() {
        for (name, change, slices) in [
            ("no selector: the slices are managed by others", json!({"spec": {"ports": []}}), 0),
            (
                "ExternalName has no slices",
                json!({"spec": {"type": "ExternalName", "externalName": "x", "selector": {"a": "b"}}}),
                0,
            ),
            ("no pods selected: one empty slice", json!({"spec": {"selector": {"app": "none"}}}), 1),
        ] {
            let plan = decide(&seen(service(|s| s["spec"] = change["spec"].clone()), vec![], vec![]));
            assert_eq!(plan.create.len(), slices, "{name}");
            assert!(plan.create.iter().all(|s| of(s).is_empty() && s.ports.is_none()));
        }
    }

    #[test]
    fn slices_have_a_hundred_endpoints_which_stay_in_their_slice() {
        let pods = |n: std::ops::Range<usize>| {
            n.map(|i| at(&format!("p{i:03}"), &format!("10.0.{}.{}", i / 250, i % 250))).collect::<Vec<_>>()
        };
        let first = decide(&seen(service(|_| {}), pods(0..150), vec![]));
        assert_eq!(first.create.iter().map(|s| of(s).len()).collect::<Vec<_>>(), [100, 50]);
        let more = decide(&seen(service(|_| {}), pods(0..151), first.create.clone()));
        assert_eq!((more.create.len(), more.delete.len(), more.update.len()), (0, 0, 1), "one write for one pod");
        assert_eq!(more.update[0].1.len(), 51);
        let fewer = decide(&seen(service(|_| {}), pods(0..90), first.create.clone()));
        assert_eq!((fewer.update.len(), fewer.delete.len()), (1, 1), "an empty slice is deleted");
        let none = decide(&seen(service(|_| {}), vec![], first.create));
        assert_eq!((none.create.len(), none.delete.len()), (1, 2), "one empty slice is kept");
    }

    #[test]
    fn ports_are_in_the_order_of_the_service_and_may_be_those_of_a_sidecar() {
        let ports = json!([{"name": "z", "port": 1}, {"name": "a", "port": 2, "targetPort": "metrics"}]);
        let service = service(|s| s["spec"]["ports"] = ports);
        let mut of = (*at("p", "10.0.0.1")).clone();
        let sidecar =
            json!({"name": "s", "restartPolicy": "Always", "ports": [{"name": "metrics", "containerPort": 9}]});
        of.spec = serde_json::from_value(json!({"containers": [], "initContainers": [sidecar]})).unwrap();
        let plan = decide(&seen(service, vec![Arc::new(of)], vec![]));
        let ports = plan.create[0].ports.iter().flatten().map(|p| (p.name.as_deref().unwrap(), p.port.unwrap()));
        assert_eq!(ports.collect::<Vec<_>>(), [("z", 1), ("a", 9)]);
    }

    #[test]
    fn pods_with_different_port_numbers_are_in_separate_slices() {
        let by_name = || service(|s| s["spec"]["ports"][0]["targetPort"] = json!("web"));
        let with_port = |name: &str, port: i32| {
            let mut p = (*at(name, &format!("10.0.0.{port}"))).clone();
            p.spec = serde_json::from_value(json!({"nodeName": "n1", "containers": [{"name": "c", "ports": [{"name": "web", "containerPort": port}]}]})).unwrap();
            Arc::new(p)
        };
        let plan = decide(&seen(by_name(), vec![with_port("a", 80), with_port("b", 81), at("c", "10.0.0.3")], vec![]));
        let ports: Vec<_> = plan.create.iter().map(|s| s.ports.as_ref().and_then(|p| p[0].port)).collect();
        assert_eq!(ports, [None, Some(80), Some(81)]);
    }
}
