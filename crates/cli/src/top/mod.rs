//! `ironclad top`: usage of pods, nodes and clusters (specification/operations.md 2.15).

pub mod figures;

use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

use anyhow::bail;
use http::Request;
use ironclad_planning::views;
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use k8s_openapi::api::core::v1::Node;
use kube::{Client, ResourceExt as _, api::ListParams};
use serde::Serialize;
use serde_json::Value;

use self::figures::{ClusterFigure, Figure, SortBy, Used, amounts, nodes, pods, share, sort};
use crate::{
    connect::Plane,
    members::{self, Answers, Member, Silent},
    pages,
    print::{self, Output},
    report::answer,
};

/// Show the CPU and memory usage of pods, nodes and clusters, from the members' metrics APIs.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad top pod -n shop
  ironclad top pod -A -C member1 --sort-by cpu
  ironclad top node
  ironclad top cluster")]
pub struct Command {
    #[command(subcommand)]
    pub verb: Verb,
    /// Timeout for the answer of a member
    #[arg(long, value_parser = crate::duration, default_value = "5s", value_name = "DURATION", global = true)]
    pub timeout: Duration,
    /// Fail if a member does not answer
    #[arg(long, global = true)]
    pub strict: bool,
    #[command(flatten)]
    pub way: members::Way,
    #[command(flatten)]
    pub plane: Plane,
}

/// Kind of object whose usage is printed.
#[derive(clap::Subcommand, Debug)]
pub enum Verb {
    /// Pods
    #[command(visible_aliases = ["pods", "po"], after_help = "Examples:
  ironclad top pod -n shop -l app=web
  ironclad top pod -A --containers --sort-by memory --sum
  ironclad top pod -A -o json")]
    Pod {
        /// Only the pod of this name
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// Namespace [default: the context's]
        #[arg(short, long, value_name = "NAME")]
        namespace: Option<String>,
        /// All namespaces
        #[arg(short = 'A', long)]
        all_namespaces: bool,
        /// Only pods with these labels
        #[arg(short = 'l', long, value_name = "SELECTOR")]
        selector: Option<String>,
        /// Only pods with these fields
        #[arg(long, value_name = "SELECTOR")]
        field_selector: Option<String>,
        /// Print a row for each container
        #[arg(long)]
        containers: bool,
        /// Print the sum in a last row
        #[arg(long, conflicts_with = "output")]
        sum: bool,
        #[command(flatten)]
        shape: Shape,
    },
    /// Nodes
    #[command(visible_aliases = ["nodes", "no"], after_help = "Examples:
  ironclad top node --sort-by cpu
  ironclad top node -C member1,member2 --show-capacity")]
    Node {
        /// Only the node of this name
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// Only nodes with these labels
        #[arg(short = 'l', long, value_name = "SELECTOR")]
        selector: Option<String>,
        /// Print percentages of the capacity instead of the allocatable resources
        #[arg(long)]
        show_capacity: bool,
        #[command(flatten)]
        shape: Shape,
    },
    /// Clusters: allocatable, requested and used resources
    #[command(
        visible_alias = "clusters",
        after_help = "Examples:\n  ironclad top cluster\n  ironclad top cluster -C member1"
    )]
    Cluster {
        #[command(flatten)]
        shape: Shape,
    },
}

/// Members, and output options.
#[derive(clap::Args, Debug)]
pub struct Shape {
    /// Only these members
    #[arg(short = 'C', long, alias = "cluster", value_delimiter = ',', value_name = "NAMES")]
    pub clusters: Vec<String>,
    /// Order of the rows
    #[arg(long, value_enum, value_name = "RESOURCE")]
    pub sort_by: Option<SortBy>,
    /// Do not print the heading
    #[arg(long)]
    pub no_headers: bool,
    /// Output format
    #[arg(short, long, value_parser = Output::without(&[Output::Wide, Output::Name]), default_value = "table", value_name = "FORMAT")]
    pub output: Output,
}

impl Shape {
    async fn members(&self, command: &Command, client: &Client) -> anyhow::Result<Vec<Member>> {
        let clusters = members::clusters(client, &self.clusters).await?;
        let members = members::connect(client, command.plane.kubeconfig().ok().as_ref(), command.way, &clusters).await;
        Ok(members::without_unready(members, &clusters))
    }

    /// Prints figures, as rows with these cells or as objects.
    fn print<F: Serialize>(
        &self,
        heading: &[&str],
        figures: &[F],
        cells: impl Fn(&F) -> Vec<String>,
        last: Option<Vec<String>>,
    ) -> anyhow::Result<()> {
        if self.output.is_objects() {
            let items = figures.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
            return print::out(&print::objects(self.output, &[print::list(items)])?);
        }
        let rows: Vec<_> = figures.iter().map(cells).chain(last).collect();
        if rows.is_empty() {
            print::note("no metrics found");
            return Ok(());
        }
        let text = print::table(heading, &rows);
        let skipped = if self.no_headers { text.find('\n').map_or(0, |at| at + 1) } else { 0 };
        print::out(&text[skipped..])
    }
}

/// Runs the command.
///
/// # Errors
/// If the control plane or all members do not answer, or no member has the named object.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    let client = command.plane.client().await?;
    match &command.verb {
        Verb::Pod { name, namespace, all_namespaces, selector, field_selector, containers, sum, shape } => {
            let namespace = namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
            let path = match all_namespaces {
                true => "/apis/metrics.k8s.io/v1beta1/pods".to_owned(),
                false => format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods"),
            };
            let path = narrowed(&path, selector.as_deref(), field_selector.as_deref());
            let members = shape.members(command, &client).await?;
            let Answers { answered, silent } = lists(&members, &path, clock, command.timeout).await;
            let mut rows: Vec<Figure> =
                answered.iter().flat_map(|(cluster, list)| pods(cluster, list, *containers)).collect();
            rows.retain(|row| name.as_ref().is_none_or(|name| row.name == *name));
            silent.print();
            if let (Some(name), true) = (name, rows.is_empty()) {
                silent.verdict(members.len(), false, command.strict)?;
                bail!(
                    "no member reports a pod {name} in namespace {namespace}\n  try: ironclad get pods -n {namespace} -s members"
                );
            }
            sort(&mut rows, shape.sort_by);
            if !rows.is_empty() || silent.is_empty() {
                print_pods(&rows, *all_namespaces, *containers, *sum, shape)?;
            }
            silent.verdict(members.len(), false, command.strict)
        }
        Verb::Node { name, selector, show_capacity, shape } => {
            let members = shape.members(command, &client).await?;
            let NodeUsage { mut rows, silent } =
                of_nodes(&members, selector.as_deref(), *show_capacity, clock, command.timeout).await;
            rows.retain(|row| name.as_ref().is_none_or(|name| row.name == *name));
            silent.print();
            if let (Some(name), true) = (name, rows.is_empty()) {
                silent.verdict(members.len(), false, command.strict)?;
                bail!("no member reports a node {name}\n  try: ironclad get nodes -s members");
            }
            sort(&mut rows, shape.sort_by);
            let cells = |row: &Figure| {
                let of = row.of.unwrap_or_default();
                let [cpu, memory] = row.used.cells();
                let of_cpu = share(row.used.cpu_millis, of.cpu_millis);
                let of_memory = share(row.used.memory_bytes, of.memory_bytes);
                vec![row.name.clone(), row.cluster.clone(), cpu, of_cpu, memory, of_memory]
            };
            if !rows.is_empty() || silent.is_empty() {
                let heading = ["NAME", "CLUSTER", "CPU(cores)", "CPU%", "MEMORY(bytes)", "MEMORY%"];
                shape.print(&heading, &rows, cells, None)?;
            }
            silent.verdict(members.len(), false, command.strict)
        }
        Verb::Cluster { shape } => clusters(command, &client, shape, clock).await,
    }
}

/// Usage of nodes.
pub(crate) struct NodeUsage {
    pub(crate) rows: Vec<Figure>,
    pub(crate) silent: Silent,
}

/// Asks members for the usage of their nodes with these labels.
pub(crate) async fn of_nodes(
    members: &[Member],
    selector: Option<&str>,
    show_capacity: bool,
    clock: &Clock,
    patience: Duration,
) -> NodeUsage {
    let path = narrowed("/apis/metrics.k8s.io/v1beta1/nodes", selector, None);
    let Answers { answered, mut silent } = lists(members, &path, clock, patience).await;
    let mut rows: Vec<_> = answered.iter().flat_map(|(cluster, list)| nodes(cluster, list)).collect();
    let answering = members.iter().filter(|member| answered.iter().any(|(name, _)| *name == member.name));
    let whole = wholes(answering, show_capacity, clock, patience, &mut silent).await;
    for row in &mut rows {
        row.of = whole.get(&(row.cluster.clone(), row.name.clone())).copied();
    }
    NodeUsage { rows, silent }
}

fn print_pods(rows: &[Figure], namespaces: bool, containers: bool, sum: bool, shape: &Shape) -> anyhow::Result<()> {
    let mut heading = vec!["NAME", "CLUSTER", "CPU(cores)", "MEMORY(bytes)"];
    if containers {
        heading.splice(0..1, ["POD", "NAME"]);
    }
    if namespaces {
        heading.insert(0, "NAMESPACE");
    }
    let cells = |row: &Figure| {
        let [cpu, memory] = row.used.cells();
        let mut cells = vec![row.name.clone()];
        cells.extend(row.container.clone());
        cells.extend([row.cluster.clone(), cpu, memory]);
        if namespaces {
            cells.insert(0, row.namespace.clone());
        }
        cells
    };
    let last = (sum && !rows.is_empty()).then(|| {
        let all = rows.iter().map(|row| row.used).fold(Used::default(), Used::plus).cells();
        std::iter::repeat_n(String::new(), heading.len() - 2).chain(all).collect()
    });
    shape.print(&heading, rows, cells, last)
}

async fn clusters(command: &Command, client: &Client, shape: &Shape, clock: &Clock) -> anyhow::Result<()> {
    let clusters = members::clusters(client, &shape.clusters).await?;
    let members = members::connect(client, command.plane.kubeconfig().ok().as_ref(), command.way, &clusters).await;
    let members = members::without_unready(members, &clusters);
    let Answers { answered, silent } =
        lists(&members, "/apis/metrics.k8s.io/v1beta1/nodes", clock, command.timeout).await;
    let used: BTreeMap<String, Used> = answered
        .iter()
        .map(|(name, list)| (name.clone(), nodes(name, list).iter().map(|n| n.used).fold(Used::default(), Used::plus)))
        .collect();
    silent.print();
    let mut rows: Vec<_> = clusters
        .iter()
        .map(|cluster| {
            let (name, capacity) = (cluster.name_any(), views::capacity(cluster));
            ClusterFigure { used: used.get(&name).copied(), name, capacity }
        })
        .collect();
    let used = |row: &ClusterFigure| row.used.unwrap_or_default();
    match shape.sort_by {
        Some(SortBy::Cpu) => rows.sort_by_key(|row| Reverse(used(row).cpu_millis)),
        Some(SortBy::Memory) => rows.sort_by_key(|row| Reverse(used(row).memory_bytes)),
        None => {}
    }
    let heading = [
        "NAME", "CPU USED", "REQUESTED", "WAITING", "ALLOCATABLE", "MEMORY USED", "REQUESTED", "WAITING",
        "ALLOCATABLE", "PODS", "OF",
    ];
    shape.print(&heading, &rows, ClusterFigure::cells, None)?;
    // The control plane knows what is allocatable and requested.
    silent.verdict(members.len(), true, command.strict)
}

/// Queries the metrics APIs of members.
async fn lists(members: &[Member], path: &str, clock: &Clock, patience: Duration) -> Answers<Value> {
    members::ask(members, clock, patience, async |_, client| list(&client, path).await).await
}

/// Queries the metrics API of a member.
async fn list(client: &Client, path: &str) -> Result<Value, String> {
    let request = Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    client.request::<Value>(request).await.map_err(|error| match &error {
        kube::Error::Api(status) if status.code == 404 => "it serves no metrics.k8s.io".to_owned(),
        error => answer(error),
    })
}

/// Asks a member for the usage of its pods in a namespace with these labels.
pub(crate) async fn of_pods(
    client: &Client,
    cluster: &str,
    namespace: &str,
    selector: Option<&str>,
) -> Result<Vec<Figure>, String> {
    let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods");
    Ok(pods(cluster, &list(client, &narrowed(&path, selector, None)).await?, false))
}

/// Allocatable resources of each node, by member and name.
async fn wholes<'a>(
    members: impl Iterator<Item = &'a Member>,
    capacity: bool,
    clock: &Clock,
    patience: Duration,
    silent: &mut Silent,
) -> BTreeMap<(String, String), Used> {
    let members: Vec<&Member> = members.collect();
    let answers = members::ask(members, clock, patience, async |_, client| {
        pages::all(&Api::<Node>::all(client), ListParams::default()).await.map_err(|error| answer(&error))
    })
    .await;
    silent.extend(answers.silent);
    let mut all = BTreeMap::new();
    for (cluster, list) in answers.answered {
        for node in list {
            let status = node.status.as_ref();
            let list = if capacity {
                status.and_then(|s| s.capacity.as_ref())
            } else {
                status.and_then(|s| s.allocatable.as_ref())
            };
            if let Some(list) = list {
                all.insert((cluster.clone(), node.name_any()), amounts(list));
            }
        }
    }
    all
}

fn narrowed(path: &str, labels: Option<&str>, fields: Option<&str>) -> String {
    let mut query = Vec::new();
    for (key, value) in [("labelSelector", labels), ("fieldSelector", fields)] {
        query.extend(value.map(|value| format!("{key}={}", encoded(value))));
    }
    if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) }
}

/// A value of a query.
fn encoded(text: &str) -> String {
    let keep = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~');
    text.bytes().map(|b| if keep(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        assert_eq!(narrowed("/p", None, None), "/p");
        assert_eq!(narrowed("/p", Some("a=b,c in (d)"), None), "/p?labelSelector=a%3Db%2Cc%20in%20%28d%29");
    }
}
