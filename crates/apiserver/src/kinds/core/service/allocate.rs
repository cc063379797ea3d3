//! Cluster addresses and node ports of Services: drawn at random, each reserved by a key of its own that is written in
//! the same transaction as the Service. So no list of reservations is stored or searched.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use ironclad_store::{Compare, Op};
use serde_json::{Value, json};

use super::defaults;
use crate::{
    kinds::kind::Transaction,
    object,
    state::State,
    status::{ApiError, Cause},
};

/// Addresses are 10.96.0.0/16.
const NETWORK: [u8; 2] = [10, 96];
/// Node ports are these.
const PORTS: std::ops::RangeInclusive<u64> = 30_000..=32_767;
const TAKEN: &str = "provided port is already allocated";
/// Draws before giving up: the range is as good as full then.
const DRAWS: usize = 256;

fn of_type(service: &Value, types: &[&str]) -> bool {
    service.pointer("/spec/type").and_then(Value::as_str).is_some_and(|t| types.contains(&t))
}

fn address_key(address: &str) -> String {
    format!("/ironclad/service-addresses/{address}")
}

fn port_key(port: u64, protocol: &str) -> String {
    format!("/ironclad/node-ports/{protocol}/{port}")
}

/// The keys that a Service reserves, each with the field and value that require it.
fn claims(service: Option<&Value>) -> BTreeMap<String, (String, Value)> {
    let mut out = BTreeMap::new();
    let Some(service) = service else { return out };
    if !of_type(service, &["ExternalName"]) {
        let addresses = service.pointer("/spec/clusterIPs").and_then(Value::as_array);
        for address in addresses.into_iter().flatten().filter_map(Value::as_str).filter(|a| *a != "None") {
            out.insert(address_key(address), ("spec.clusterIPs".to_owned(), json!([address])));
        }
    }
    let ports = service.pointer("/spec/ports").and_then(Value::as_array);
    for (i, port) in ports.into_iter().flatten().enumerate() {
        if let Some(number) = port["nodePort"].as_u64().filter(|n| *n != 0) {
            let protocol = port["protocol"].as_str().unwrap_or("TCP");
            out.insert(port_key(number, protocol), (format!("spec.ports[{i}].nodePort"), port["nodePort"].clone()));
        }
    }
    let health = &service["spec"]["healthCheckNodePort"];
    if let Some(number) = health.as_u64().filter(|n| *n != 0 && defaults::needs_health_check(service)) {
        out.insert(port_key(number, "TCP"), ("spec.healthCheckNodePort".to_owned(), health.clone()));
    }
    out
}

/// Gives a Service what its type needs and it doesn't have; refuses what others have.
pub(super) fn allocate(state: &State, old: Option<&Value>, new: &mut Value) -> Result<(), ApiError> {
    if let Some(old) = old {
        defaults::keep_node_ports(old, new);
        defaults::drop_of_other_types(old, new);
    }
    // A new ExternalName Service is validated as the client sent it.
    if old.is_some() || !of_type(new, &["ExternalName"]) {
        defaults::families(new);
    }
    let old_claims = claims(old);
    let refuse = |field: &str, value: &Value, why: String| {
        let name = object::meta_str(new, "name");
        Err(ApiError::invalid("Service", "", name, vec![Cause::invalid(field, value, why)]))
    };
    if let Some((field, value)) = claimed_twice(new) {
        return refuse(&field, &value, TAKEN.to_owned());
    }
    for (key, (field, value)) in claims(Some(new)) {
        if old_claims.contains_key(&key) {
            continue;
        }
        let address = value.pointer("/0").and_then(Value::as_str);
        if address.is_none() && !value.as_u64().is_some_and(|n| PORTS.contains(&n)) {
            let (first, last) = (PORTS.start(), PORTS.end());
            let why = format!("provided port is not in the valid range. The range of valid ports is {first}-{last}");
            return refuse(&field, &value, why);
        }
        let fits = address.and_then(|a| a.parse::<Ipv4Addr>().ok()).is_none_or(|a| a.octets()[..2] == NETWORK);
        if let Some(address) = address.filter(|_| !fits) {
            let why = format!("failed to allocate IP {address}: the provided network does not match the current range");
            return refuse(&field, &value, why);
        }
        if state.store.get(&key).is_some() {
            let why = match address {
                Some(address) => format!("failed to allocate IP {address}: provided IP is already allocated"),
                None => TAKEN.to_owned(),
            };
            return refuse(&field, &value, why);
        }
    }
    draw_address(state, new)?;
    draw_ports(state, new)?;
    if defaults::needs_health_check(new) && new["spec"]["healthCheckNodePort"].as_u64().is_none_or(|n| n == 0) {
        let ports = new.pointer("/spec/ports").and_then(Value::as_array);
        let drawn: Vec<u64> = ports.into_iter().flatten().filter_map(|p| p["nodePort"].as_u64()).collect();
        new["spec"]["healthCheckNodePort"] = json!(free_port(state, "TCP", &drawn)?);
    }
    Ok(())
}

/// Draws a free port that is none of `taken`.
fn free_port(state: &State, protocol: &str, taken: &[u64]) -> Result<u64, ApiError> {
    let stream = state.seam.rng.stream("node-ports");
    for _ in 0..DRAWS {
        let number = PORTS.start() + stream.below(PORTS.end() - PORTS.start() + 1);
        if !taken.contains(&number) && state.store.get(&port_key(number, protocol)).is_none() {
            return Ok(number);
        }
    }
    Err(ApiError::internal("no node port is left"))
}

fn draw_address(state: &State, service: &mut Value) -> Result<(), ApiError> {
    let has = service.pointer("/spec/clusterIP").and_then(Value::as_str).is_some_and(|ip| !ip.is_empty());
    let listed = service.pointer("/spec/clusterIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    if has || listed || !of_type(service, &["ClusterIP", "NodePort", "LoadBalancer"]) {
        return Ok(());
    }
    let stream = state.seam.rng.stream("service-addresses");
    for _ in 0..DRAWS {
        // The first addresses are for well-known services, as in every cluster.
        let host = 16 + stream.below(65_536 - 32);
        let address = Ipv4Addr::new(NETWORK[0], NETWORK[1], (host >> 8) as u8, (host & 0xff) as u8).to_string();
        if state.store.get(&address_key(&address)).is_none() {
            service["spec"]["clusterIP"] = json!(address);
            service["spec"]["clusterIPs"] = json!([address]);
            return Ok(());
        }
    }
    Err(ApiError::internal("no address is left for services"))
}

fn draw_ports(state: &State, service: &mut Value) -> Result<(), ApiError> {
    let wanted = of_type(service, &["NodePort"])
        || (of_type(service, &["LoadBalancer"])
            && service.pointer("/spec/allocateLoadBalancerNodePorts") != Some(&json!(false)));
    if !wanted {
        return Ok(());
    }
    let mut drawn = Vec::new();
    let ports = service.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        if port["nodePort"].as_u64().is_some_and(|n| n != 0) {
            continue;
        }
        let protocol = port["protocol"].as_str().unwrap_or("TCP").to_owned();
        let number = free_port(state, &protocol, &drawn)?;
        drawn.push(number);
        port["nodePort"] = json!(number);
    }
    Ok(())
}

/// A node port that two ports of one protocol ask for.
fn claimed_twice(service: &Value) -> Option<(String, Value)> {
    let ports = service.pointer("/spec/ports")?.as_array()?;
    let mut seen = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let number = port["nodePort"].as_u64().filter(|n| *n != 0);
        if number.is_some_and(|n| !seen.insert((n, port["protocol"].as_str().unwrap_or("TCP")))) {
            return Some((format!("spec.ports[{i}].nodePort"), port["nodePort"].clone()));
        }
    }
    None
}

/// The reservations to write and delete with a change of a Service.
pub(super) fn reservations(old: Option<&Value>, new: Option<&Value>) -> Transaction {
    let (before, after) = (claims(old), claims(new));
    let (mut compares, mut ops) = (Vec::new(), Vec::new());
    for key in after.keys().filter(|k| !before.contains_key(*k)) {
        compares.push(Compare::absent(key.as_str()));
        ops.push(Op::put(key.as_str(), bytes::Bytes::new()));
    }
    ops.extend(before.keys().filter(|k| !after.contains_key(*k)).map(|k| Op::delete(k.as_str())));
    (compares, ops)
}
