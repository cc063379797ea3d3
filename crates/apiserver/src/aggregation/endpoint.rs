//! Address of the Service that an APIService names (specification/apiserver.md 22).

use serde_json::Value;

/// The most addresses of one Service that are tried.
const TRIED_MAX: usize = 4;
/// The label by which an EndpointSlice belongs to a Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Namespace, name and port of a Service in an APIService.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) port: u16,
}

/// Reason and message of a condition that says why a Service leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Nowhere {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Returns the addresses at which a Service is reached, as `HOST:PORT`; all are equal, and at most [`TRIED_MAX`].
///
/// One of type ExternalName is reached by its name. The others are reached at the ready addresses in their
/// EndpointSlices, or in their Endpoints if they have no slices: no cluster IP leads anywhere from this server. Their
/// port is that of the slice, by the name of the Service's port.
pub(super) fn addresses(
    named: Named<'_>,
    service: Option<&Value>,
    slices: &[Value],
    endpoints: Option<&Value>,
) -> Result<Vec<String>, Nowhere> {
    let Named { namespace, name, port } = named;
    let nowhere = |reason, message| Err(Nowhere { reason, message });
    let Some(service) = service else {
        return nowhere("ServiceNotFound", format!("service/{name} in {namespace:?} is not present"));
    };
    if service["spec"]["type"] == "ExternalName" {
        let host = service["spec"]["externalName"].as_str().unwrap_or_default();
        return Ok(vec![format!("{host}:{port}")]);
    }
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let Some(of_service) = ports.into_iter().find(|of| of["port"].as_u64() == Some(u64::from(port))) else {
        return nowhere(
            "ServicePortError",
            format!("service/{name} in {namespace:?} is not listening on port {port}: name one of its ports"),
        );
    };
    let port_name = of_service["name"].as_str().unwrap_or_default();
    let of_this = |slice: &&Value| slice["metadata"]["labels"][SERVICE_NAME] == name;
    let own: Vec<&Value> = slices.iter().filter(of_this).collect();
    let found = match (own.is_empty(), endpoints) {
        (false, _) => own.iter().flat_map(|slice| in_slice(slice, port_name)).collect::<Vec<_>>(),
        (true, Some(endpoints)) => in_endpoints(endpoints, port_name),
        (true, None) => {
            return nowhere(
                "EndpointsNotFound",
                format!(
                    "cannot find endpointslices for service/{name} in {namespace:?}: make one with addresses that this server \
                     reaches, or make the Service one of type ExternalName"
                ),
            );
        }
    };
    let mut found: Vec<String> = found.into_iter().filter_map(|(ip, port)| at(&ip, port)).collect();
    found.sort();
    found.dedup();
    found.truncate(TRIED_MAX);
    if found.is_empty() {
        return nowhere(
            "MissingEndpoints",
            format!(
                "endpointslices for service/{name} in {namespace:?} have no addresses with port name {port_name:?}"
            ),
        );
    }
    Ok(found)
}

/// The ready addresses of a slice. Absent readiness is ready, and of an endpoint's addresses the first counts.
fn in_slice(slice: &Value, port_name: &str) -> Vec<(String, u64)> {
    let Some(port) = port_of(&slice["ports"], port_name) else { return Vec::new() };
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false);
    ready.filter_map(|endpoint| Some((endpoint["addresses"][0].as_str()?.to_owned(), port))).collect()
}

/// The ready addresses of Endpoints.
fn in_endpoints(endpoints: &Value, port_name: &str) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for subset in endpoints["subsets"].as_array().into_iter().flatten() {
        let Some(port) = port_of(&subset["ports"], port_name) else { continue };
        let addresses = subset["addresses"].as_array().into_iter().flatten();
        found.extend(addresses.filter_map(|address| Some((address["ip"].as_str()?.to_owned(), port))));
    }
    found
}

/// The port of this name. A port without a name has the empty one.
fn port_of(ports: &Value, name: &str) -> Option<u64> {
    let ports = ports.as_array().into_iter().flatten();
    let mut named = ports.filter(|port| port["name"].as_str().unwrap_or_default() == name);
    named.find_map(|port| port["port"].as_u64())
}

/// `IP:PORT`; `None` for what is no address of another server: an address of this host, of its link, or of a group.
fn at(ip: &str, port: u64) -> Option<String> {
    let ip: std::net::IpAddr = ip.parse().ok()?;
    let port = u16::try_from(port).ok().filter(|port| *port > 0)?;
    let is_of_the_link = match ip {
        std::net::IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        std::net::IpAddr::V6(ip) => {
            ip.is_unicast_link_local() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_link_local() || ip.is_loopback())
        }
    };
    let barred = ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() || is_of_the_link;
    (!barred).then(|| std::net::SocketAddr::new(ip, port).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(spec: Value) -> Option<Value> {
        Some(json!({"metadata": {"name": "agg"}, "spec": spec}))
    }

    fn slice(service: &str, port_name: &str, endpoints: Value) -> Value {
        json!({"metadata": {"labels": {SERVICE_NAME: service}}, "ports": [
            {"name": "other", "port": 1}, {"name": port_name, "port": 8443},
        ], "endpoints": endpoints})
    }

    #[test]
    fn services_are_reached_by_name_or_at_their_ready_addresses() {
        let one = |ip: &str| json!([{"addresses": [ip, "10.9.9.9"]}]);
        let inside = || {
            service(json!({"type": "ClusterIP", "clusterIP": "10.96.0.9", "ports": [{"name": "https", "port": 443}]}))
        };
        let headless = || service(json!({"type": "ClusterIP", "clusterIP": "None", "ports": [{"port": 443}]}));
        let many = json!((1..=9).map(|n| json!({"addresses": [format!("10.0.0.{n}")]})).collect::<Vec<_>>());
        let readiness = json!([
            {"addresses": ["10.0.0.1"], "conditions": {"ready": false}},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": true}},
            {"addresses": ["10.0.0.3"], "conditions": {}},
        ]);
        let of_endpoints = json!({"subsets": [
            {"addresses": [{"ip": "10.0.0.7"}], "notReadyAddresses": [{"ip": "10.0.0.8"}], "ports": [{"name": "https", "port": 6443}]},
            {"addresses": [{"ip": "10.0.0.6"}], "ports": [{"name": "metrics", "port": 1}]},
        ]});
        let barred =
            ["127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "::1", "fe80::1", "::ffff:127.0.0.1", "localhost"];
        let barred = json!(barred.map(|ip| json!({"addresses": [ip]})));
        for (name, service, slices, endpoints, want) in [
            (
                "an external name with the port of the APIService",
                service(json!({"type": "ExternalName", "externalName": "keda.example.com"})),
                vec![],
                None,
                Ok(vec!["keda.example.com:443"]),
            ),
            ("none", None, vec![], None, Err("ServiceNotFound")),
            (
                "a port that the Service lacks",
                service(json!({"ports": [{"port": 8080}]})),
                vec![slice("agg", "", one("10.0.0.1"))],
                None,
                Err("ServicePortError"),
            ),
            ("a cluster IP leads nowhere", inside(), vec![], None, Err("EndpointsNotFound")),
            (
                "the port of the slice",
                inside(),
                vec![slice("agg", "https", one("10.0.0.1"))],
                None,
                Ok(vec!["10.0.0.1:8443"]),
            ),
            (
                "slices of another Service",
                inside(),
                vec![slice("x", "https", one("10.0.0.1"))],
                None,
                Err("EndpointsNotFound"),
            ),
            ("another port name", inside(), vec![slice("agg", "web", one("10.0.0.1"))], None, Err("MissingEndpoints")),
            (
                "a headless Service, a port without name",
                headless(),
                vec![slice("agg", "", one("10.0.0.1"))],
                None,
                Ok(vec!["10.0.0.1:8443"]),
            ),
            (
                "only ready ones",
                inside(),
                vec![slice("agg", "https", readiness)],
                None,
                Ok(vec!["10.0.0.2:8443", "10.0.0.3:8443"]),
            ),
            ("IPv6", inside(), vec![slice("agg", "https", one("fd00::1"))], None, Ok(vec!["[fd00::1]:8443"])),
            (
                "a few of many",
                inside(),
                vec![slice("agg", "https", many)],
                None,
                Ok(vec!["10.0.0.1:8443", "10.0.0.2:8443", "10.0.0.3:8443", "10.0.0.4:8443"]),
            ),
            ("Endpoints without slices", inside(), vec![], Some(of_endpoints.clone()), Ok(vec!["10.0.0.7:6443"])),
            (
                "slices come before Endpoints",
                inside(),
                vec![slice("agg", "https", one("10.0.0.1"))],
                Some(of_endpoints),
                Ok(vec!["10.0.0.1:8443"]),
            ),
            ("this host and its link", inside(), vec![slice("agg", "https", barred)], None, Err("MissingEndpoints")),
            (
                "nonsense",
                inside(),
                vec![json!({"metadata": {"labels": {SERVICE_NAME: "agg"}}, "ports": 7, "endpoints": "x"})],
                Some(json!(1)),
                Err("MissingEndpoints"),
            ),
        ] {
            let named = Named { namespace: "keda", name: "agg", port: 443 };
            let got = addresses(named, service.as_ref(), &slices, endpoints.as_ref());
            let want = want.map(|all| all.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(
                got.as_ref().map_err(|nowhere| nowhere.reason),
                want.as_ref().map_err(|reason| *reason),
                "{name}"
            );
        }
    }
}
