//! `ironclad sim curl`: the Pods that answer requests to a Service of a member, in whatever cluster they run
//! (specification/mcs.md 6).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::bail;
use ironclad_api::{annotations::ENDPOINT_SLICE_PROVISION_CLUSTER, labels::SERVICE_NAME};
use ironclad_fleet::count::count;
use ironclad_runtime::Api;
use ironclad_seam::{Clock, Rng};
use kube::{
    Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use serde_json::Value;

use crate::{
    connect::Plane,
    members::{self, Member, Way},
    pages, print,
    report::answer,
};

/// Time in which a member has to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most requests of one call.
const REQUESTS_MAX: u32 = 1000;

/// Options of the verb.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The Service, by the name that it has in the member
    #[arg(value_name = "SERVICE")]
    pub service: String,
    /// The member that the requests come from
    #[arg(long, value_name = "MEMBER", required = true)]
    pub from: String,
    /// Namespace [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Port of the Service, by name or number [default: its first]
    #[arg(long, value_name = "PORT")]
    pub port: Option<String>,
    /// Number of requests; endpoints get them in turns
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(REQUESTS_MAX)))]
    pub count: u32,
}

/// An endpoint of a Service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Backend {
    /// The cluster whose Pod has the address.
    cluster: String,
    address: String,
    port: i64,
}

/// Elements of a list in an object.
fn elements<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The endpoints among which kube-proxy of a member chooses: those that are ready, or if none is, those that still
/// serve while they end. Service and EndpointSlices are those of the member.
fn backends(service: &Value, slices: &[Value], own: &str, port: Option<&str>) -> Result<Vec<Backend>, String> {
    if service["spec"]["type"] == "ExternalName" {
        return Err("a Service of type ExternalName has no endpoints".to_owned());
    }
    let ports = elements(service, "/spec/ports");
    let number = |one: &Value| one["port"].as_i64().unwrap_or_default();
    let is_asked = |one: &&Value| port.is_none_or(|asked| one["name"] == asked || asked.parse() == Ok(number(one)));
    let Some(port) = ports.iter().find(is_asked) else {
        let all: Vec<String> = ports.iter().map(|one| number(one).to_string()).collect();
        return Err(format!("it has no such port: its ports are {}", all.join(", ")));
    };
    let name = |one: &Value| one["name"].as_str().unwrap_or_default().to_owned();
    let with = |is_chosen: &dyn Fn(&Value) -> bool| -> BTreeSet<Backend> {
        let of_slice = |slice: &Value| {
            let from = slice["metadata"]["annotations"][ENDPOINT_SLICE_PROVISION_CLUSTER].as_str();
            let target = elements(slice, "/ports").iter().find(|one| name(one) == name(port)).map(number);
            let chosen = elements(slice, "/endpoints").iter().filter(|endpoint| is_chosen(&endpoint["conditions"]));
            let addresses = chosen.filter_map(|endpoint| endpoint["addresses"][0].as_str());
            let backend = |address: &str| {
                Some(Backend { cluster: from.unwrap_or(own).to_owned(), address: address.to_owned(), port: target? })
            };
            addresses.filter_map(backend).collect::<Vec<_>>()
        };
        slices.iter().flat_map(of_slice).collect()
    };
    let mut found = with(&|conditions| conditions["ready"] != false);
    if found.is_empty() {
        found = with(&|conditions| conditions["serving"] != false && conditions["terminating"] == true);
    }
    Ok(found.into_iter().collect())
}

/// Requests for each backend, when this many go around in turns from the one at `first`.
fn in_turns(backends: &[Backend], requests: u32, first: u64) -> BTreeMap<&Backend, u32> {
    let mut sent = BTreeMap::new();
    let from = usize::try_from(first).unwrap_or_default();
    for backend in backends.iter().cycle().skip(from).take(requests as usize) {
        *sent.entry(backend).or_default() += 1;
    }
    sent
}

/// The Pods that answer, by address: those that run.
fn answering(pods: &[Value]) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let running = pods.iter().filter(|pod| pod["status"]["phase"] == "Running");
    running.filter_map(|pod| Some((text(&pod["status"]["podIP"])?, text(&pod["metadata"]["name"])?))).collect()
}

/// The objects of a kind in a namespace of a member.
async fn listed(
    member: &Client,
    kind: (&str, &str, &str),
    namespace: &str,
    params: ListParams,
) -> Result<Vec<Value>, String> {
    let (group, version, kind) = kind;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = Api::namespaced_with(member.clone(), namespace, &resource);
    let all = pages::all(&api, params).await.map_err(|error| answer(&error))?;
    all.iter().map(|object| serde_json::to_value(object).map_err(|error| error.to_string())).collect()
}

/// Runs the verb.
///
/// # Errors
/// If the member or its Service does not answer, the Service has no endpoints, or a request reaches no Pod.
pub async fn run(args: &Args, plane: &Plane, clock: &Clock) -> anyhow::Result<()> {
    let client = plane.client().await?;
    let namespace = args.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let name = args.service.rsplit('/').next().unwrap_or_default();
    let (about, from) = (format!("Service {namespace}/{name} of {}", args.from), std::slice::from_ref(&args.from));
    let mut answers = ask_each(&client, plane, clock, from, async |_, member| {
        let of_name = ListParams::default().fields(&format!("metadata.name={name}"));
        let of_service = ListParams::default().labels(&format!("{SERVICE_NAME}={name}"));
        let service = listed(&member, ("", "v1", "Service"), &namespace, of_name).await?.pop();
        let slices = listed(&member, ("discovery.k8s.io", "v1", "EndpointSlice"), &namespace, of_service).await?;
        Ok((service, slices))
    })
    .await?;
    let Some((service, slices)) = answers.remove(&args.from) else {
        bail!("{about} was not asked\n  because {} does not answer\n  try: ironclad sim up {}", args.from, args.from)
    };
    let Some(service) = service else {
        bail!("there is no {about}\n  because nothing made one there\n  try: ironclad why mcs/{name} -n {namespace}")
    };
    let backends = match backends(&service, &slices, &args.from, args.port.as_deref()) {
        Ok(backends) => backends,
        Err(why) => bail!(
            "{about} cannot be asked\n  because {why}\n  try: ironclad get service {name} -n {namespace} -C {}",
            args.from
        ),
    };
    if backends.is_empty() {
        bail!(
            "{about} does not answer\n  because none of its {} has an endpoint that is ready\n  try: ironclad why mcs/{name} -n {namespace}",
            count(slices.len(), "EndpointSlice")
        );
    }
    let clusters: Vec<String> =
        backends.iter().map(|one| one.cluster.clone()).collect::<BTreeSet<_>>().into_iter().collect();
    let pods = ask_each(&client, plane, clock, &clusters, async |_, member| {
        Ok(answering(&listed(&member, ("", "v1", "Pod"), &namespace, ListParams::default()).await?))
    })
    .await?;
    let first = Rng::from_system().stream("curl").below(backends.len() as u64);
    let (mut rows, mut lost) = (Vec::new(), 0);
    for (backend, requests) in in_turns(&backends, args.count, first) {
        let pod = pods.get(&backend.cluster).and_then(|of_cluster| of_cluster.get(&backend.address));
        let is_up = pods.contains_key(&backend.cluster);
        let said = match pod {
            Some(_) => "answered",
            None if is_up => "no Pod there",
            None => "no way there",
        };
        lost += if pod.is_some() { 0 } else { requests };
        rows.push(vec![
            backend.cluster.clone(),
            pod.map_or("-", String::as_str).to_owned(),
            format!("{}:{}", backend.address, backend.port),
            requests.to_string(),
            said.to_owned(),
        ]);
    }
    print::out(&print::table(&["CLUSTER", "POD", "ADDRESS", "REQUESTS", "RESULT"], &rows))?;
    if lost > 0 {
        bail!(
            "{lost} of {} were not answered\n  because no Pod runs at these addresses now\n  try: ironclad why mcs/{name} -n {namespace}",
            count(args.count as usize, "request")
        );
    }
    Ok(())
}

/// Answers of these members by name; those that give none are told.
async fn ask_each<T>(
    client: &Client,
    plane: &Plane,
    clock: &Clock,
    names: &[String],
    question: impl AsyncFn(&Member, Client) -> Result<T, String>,
) -> anyhow::Result<BTreeMap<String, T>> {
    let clusters = members::clusters(client, names).await?;
    let kubeconfig = plane.kubeconfig().ok();
    let members = members::connect(client, kubeconfig.as_ref(), Way::default(), &clusters).await;
    let answers = members::ask(&members, clock, PATIENCE, question).await;
    answers.silent.print();
    Ok(answers.answered.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(ports: Value) -> Value {
        json!({"metadata": {"name": "web"}, "spec": {"ports": ports}})
    }

    fn slice(cluster: Option<&str>, ports: Value, endpoints: Value) -> Value {
        let annotations = cluster.map(|cluster| json!({ENDPOINT_SLICE_PROVISION_CLUSTER: cluster}));
        json!({"metadata": {"annotations": annotations}, "ports": ports, "endpoints": endpoints})
    }

    #[test]
    fn endpoints_are_chosen_as_kube_proxy_does() {
        let ports = json!([{"name": "http", "port": 80}, {"name": "admin", "port": 81}]);
        let targets = json!([{"name": "http", "port": 8080}, {"name": "admin", "port": 9090}]);
        let up = json!({"addresses": ["10.0.0.1"], "conditions": {"ready": true}});
        let ending =
            json!({"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": true, "terminating": true}});
        let down = json!({"addresses": ["10.0.0.3"], "conditions": {"ready": false, "serving": false}});
        let own = slice(None, targets.clone(), json!([up, ending, down]));
        let other = slice(Some("m1"), targets.clone(), json!([{"addresses": ["10.1.0.1"]}]));
        let leaving = slice(None, targets, json!([ending, down]));
        for (name, slices, port, want) in [
            ("those of all clusters", vec![own.clone(), other], None, &["m1 10.1.0.1:8080", "m2 10.0.0.1:8080"][..]),
            ("a port by name", vec![own.clone()], Some("admin"), &["m2 10.0.0.1:9090"]),
            ("a port by number", vec![own.clone()], Some("81"), &["m2 10.0.0.1:9090"]),
            ("twice in slices", vec![own.clone(), own.clone()], None, &["m2 10.0.0.1:8080"]),
            ("only those that end", vec![leaving], None, &["m2 10.0.0.2:8080"]),
            ("none", vec![], None, &[]),
        ] {
            let found = backends(&service(ports.clone()), &slices, "m2", port).unwrap();
            let found: Vec<String> =
                found.iter().map(|one| format!("{} {}:{}", one.cluster, one.address, one.port)).collect();
            assert_eq!(found, want, "{name}");
        }
        let error = backends(&service(ports), &[own], "m2", Some("443")).unwrap_err();
        assert_eq!(error, "it has no such port: its ports are 80, 81");
        let external = json!({"spec": {"type": "ExternalName"}});
        assert!(backends(&external, &[], "m2", None).is_err());
    }

    #[test]
    fn requests_go_around_in_turns() {
        let backend = |address: &str| Backend { cluster: "m1".into(), address: address.into(), port: 80 };
        let all = [backend("a"), backend("b"), backend("c")];
        for (requests, first, want) in [(1, 2, [0, 0, 1]), (4, 1, [1, 2, 1]), (6, 0, [2, 2, 2])] {
            let sent = in_turns(&all, requests, first);
            let found: Vec<u32> = all.iter().map(|one| sent.get(one).copied().unwrap_or_default()).collect();
            assert_eq!(found, want, "{requests} from {first}");
        }
    }

    #[test]
    fn pods_that_run_answer() {
        let pod = |name: &str, phase: &str, ip: Value| json!({"metadata": {"name": name}, "status": {"phase": phase, "podIP": ip}});
        let pods = [pod("a", "Running", json!("1")), pod("b", "Failed", json!("2")), pod("c", "Running", Value::Null)];
        assert_eq!(answering(&pods), [("1".to_owned(), "a".to_owned())].into());
    }
}
