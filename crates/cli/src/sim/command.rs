//! `ironclad sim`.

use std::{collections::BTreeMap, time::Duration};

use ironclad_api::{
    Quantity, ResourceList, StringMap,
    quantity::Amount,
    sim::{Flap, Slow, UsageRule},
};
use ironclad_seam::Clock;
use serde_json::Value;

use super::{Fleet, change::Action, change::faults, change::selector, curl};
use crate::{
    connect::Plane,
    print::{self, Output},
    report::Misused,
};

/// Change the simulated members of `ironclad up`: faults, load, nodes, adding and removing members.
///
/// Each verb changes the SimulatedCluster of that name, which kubectl can do too, and waits until the member applies
/// it.
/// Faults affect the connection of a member to the control plane, and survive a restart of `up`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad sim list
  ironclad sim down member1
  ironclad sim up --all
  ironclad sim slow member1 member2 --latency 2s
  ironclad sim load member1 -n shop -l app=web --cpu 800m --memory 1Gi
  ironclad sim curl web --from member2 --count 10
  ironclad sim add edge --nodes 2 --cpu 4 --memory 8Gi --label tier=edge
  ironclad sim remove edge")]
pub struct Command {
    #[command(subcommand)]
    pub verb: Verb,
    #[command(flatten)]
    pub plane: Plane,
}

/// Action.
#[derive(clap::Subcommand, Debug)]
pub enum Verb {
    /// Show the simulated members with their nodes, faults and reported usage
    #[command(
        visible_alias = "get",
        after_help = "Examples:\n  ironclad sim list\n  ironclad sim list member1 -o yaml"
    )]
    List {
        /// The members [default: all]
        #[arg(value_name = "MEMBER")]
        members: Vec<String>,
        /// Output format
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Stop members: their servers do not answer, and their controllers do not run
    #[command(after_help = "Examples:\n  ironclad sim down member1\n  ironclad sim down member1 member2 --wait 0")]
    Down(Targets),
    /// Remove all faults of members
    #[command(visible_alias = "heal", after_help = "Examples:\n  ironclad sim up member1\n  ironclad sim heal --all")]
    Up(Targets),
    /// Stop and start members in turns, beginning with up
    #[command(after_help = "Examples:\n  ironclad sim flap member1 --up 2m --down 30s")]
    Flap {
        #[command(flatten)]
        targets: Targets,
        /// Time that it is up
        #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = written_duration)]
        up: String,
        /// Time that it is down
        #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = written_duration)]
        down: String,
    },
    /// Delay every answer to the control plane
    #[command(after_help = "Examples:\n  ironclad sim slow member1 --latency 2s")]
    Slow {
        #[command(flatten)]
        targets: Targets,
        /// Added latency
        #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = written_duration)]
        latency: String,
    },
    /// Cut members off from the control plane; they keep running
    #[command(after_help = "Examples:\n  ironclad sim partition member1\n  ironclad sim heal member1")]
    Partition(Targets),
    /// Set the usage that the metrics API of members reports for each of these pods
    #[command(after_help = "Examples:
  ironclad sim load member1 -n shop -l app=web --cpu 800m --memory 1Gi
  ironclad sim load member1 --cpu 2
  ironclad sim load member1 --clear")]
    Load {
        #[command(flatten)]
        targets: Targets,
        /// Namespace of the pods [default: all]
        #[arg(short, long, value_name = "NAMESPACE", default_value = "", hide_default_value = true)]
        namespace: String,
        /// Labels of the pods, as app=web [default: all]
        #[arg(short = 'l', long, value_name = "SELECTOR")]
        selector: Option<String>,
        /// CPU usage of each pod
        #[arg(long, value_name = "QUANTITY", value_parser = quantity)]
        cpu: Option<Quantity>,
        /// Memory usage of each pod
        #[arg(long, value_name = "QUANTITY", value_parser = quantity)]
        memory: Option<Quantity>,
        /// Remove all usage that was set
        #[arg(long, conflicts_with_all = ["cpu", "memory", "namespace", "selector"])]
        clear: bool,
    },
    /// Ask a Service of a member, as a Pod there would, and show which Pods of which clusters answer
    ///
    /// Nothing is sent: Pods of simulated members run nothing. The endpoints that kube-proxy of the member chooses from
    /// are asked for in turns, and a request is answered if a Pod runs at the address in the cluster that it came from.
    #[command(after_help = "Examples:
  ironclad sim curl web --from member2
  ironclad sim curl derived-web --from member2 -n shop --port http --count 100")]
    Curl(curl::Args),
    /// Set the number and size of the nodes of members
    #[command(
        after_help = "Examples:\n  ironclad sim nodes member1 --count 5\n  ironclad sim nodes member1 --cpu 16 --node-label disk=ssd"
    )]
    Nodes {
        #[command(flatten)]
        targets: Targets,
        /// Number of nodes
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
        count: Option<u32>,
        #[command(flatten)]
        each: Capacity,
    },
    /// Add members, and join them
    #[command(after_help = "Examples:
  ironclad sim add member4
  ironclad sim add edge1 edge2 --nodes 2 --cpu 4 --memory 8Gi --label tier=edge --label topology.kubernetes.io/region=eu")]
    Add {
        /// Names of the members
        #[arg(value_name = "MEMBER", required = true)]
        members: Vec<String>,
        /// Number of nodes of each
        #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
        nodes: u32,
        #[command(flatten)]
        each: Capacity,
        /// Labels of the Clusters, as tier=edge (repeatable); topology.kubernetes.io/region and …/zone become fields
        /// too
        #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
        labels: Vec<(String, String)>,
        /// Start-up delay of pods, such as 250ms or 5s [default: 1s]
        #[arg(long, value_name = "DURATION", value_parser = written_duration)]
        startup_delay: Option<String>,
        /// Timeout until the members are ready; 0 does not wait
        #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = crate::duration)]
        wait: Duration,
    },
    /// Delete members with everything that runs in them
    #[command(visible_alias = "rm", after_help = "Examples:\n  ironclad sim remove edge1 edge2")]
    Remove(Targets),
}

/// Members.
#[derive(clap::Args, Debug)]
pub struct Targets {
    /// The members
    #[arg(value_name = "MEMBER", required_unless_present = "all")]
    pub members: Vec<String>,
    /// All simulated members
    #[arg(long, conflicts_with = "members")]
    pub all: bool,
    /// Timeout until the members apply the change; 0 does not wait
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = crate::duration)]
    pub wait: Duration,
}

/// Size of a node.
#[derive(clap::Args, Debug)]
pub struct Capacity {
    /// CPU of each node
    #[arg(long, value_name = "QUANTITY", value_parser = positive)]
    pub cpu: Option<Quantity>,
    /// Memory of each node
    #[arg(long, value_name = "QUANTITY", value_parser = positive)]
    pub memory: Option<Quantity>,
    /// Maximum number of pods of each node
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub pods: Option<u32>,
    /// Label of each node, such as disk=ssd (repeatable)
    #[arg(long = "node-label", value_name = "KEY=VALUE", value_parser = pair)]
    pub node_labels: Vec<(String, String)>,
}

impl Capacity {
    fn capacity(&self) -> ResourceList {
        let pods = self.pods.map(|count| Quantity(count.to_string()));
        let each = [("cpu", self.cpu.clone()), ("memory", self.memory.clone()), ("pods", pods)];
        each.into_iter().filter_map(|(name, amount)| Some((name.to_owned(), amount?))).collect()
    }

    fn labels(&self) -> StringMap {
        self.node_labels.iter().cloned().collect()
    }
}

fn written_duration(text: &str) -> Result<String, String> {
    match crate::duration(text)? {
        time if time.is_zero() => Err("it must be longer than 0".to_owned()),
        // A number without a unit means seconds on the command line, and is invalid in an object.
        _ if text.bytes().all(|b| b.is_ascii_digit()) => Ok(format!("{text}s")),
        _ => Ok(text.to_owned()),
    }
}

fn quantity(text: &str) -> Result<Quantity, String> {
    match Amount::parse(text) {
        Ok(_) => Ok(Quantity(text.to_owned())),
        Err(_) => Err(format!("{text:?} is not a quantity (write it like 800m, 2 or 1Gi)")),
    }
}

fn positive(text: &str) -> Result<Quantity, String> {
    match quantity(text)? {
        amount if Amount::parse(&amount.0).is_ok_and(|amount| amount > Amount::ZERO) => Ok(amount),
        _ => Err(format!("{text:?} is not above 0 (write it like 800m, 2 or 1Gi)")),
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not KEY=VALUE")),
    }
}

/// Runs the command.
///
/// # Errors
/// If there are no such members, the control plane refuses, or a member does not apply the change in time.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    let fleet = Fleet { plane: command.plane.client().await?, clock: clock.clone() };
    let act = async |targets: &Targets, action: Action| {
        fleet.act(&fleet.named(&targets.members, targets.all).await?, &action, targets.wait).await
    };
    match &command.verb {
        Verb::List { members, output } => list(&fleet, members, *output).await,
        Verb::Down(targets) => act(targets, Action::Down).await,
        Verb::Up(targets) => act(targets, Action::Up).await,
        Verb::Partition(targets) => act(targets, Action::Partition).await,
        Verb::Flap { targets, up, down } => {
            act(targets, Action::Flap(Flap { up: up.clone(), down: down.clone() })).await
        }
        Verb::Slow { targets, latency } => act(targets, Action::Slow(Slow { latency: latency.clone() })).await,
        Verb::Load { targets, clear: true, .. } => act(targets, Action::Unload).await,
        Verb::Load { targets, namespace, selector: labels, cpu, memory, .. } => {
            if cpu.is_none() && memory.is_none() {
                return Err(Misused("nothing to report\n  try: --cpu 800m, --memory 1Gi, or --clear".to_owned()).into());
            }
            let selector = labels
                .as_deref()
                .map(selector)
                .transpose()
                .map_err(|why| Misused(format!("--selector can't be used\n  because {why}\n  try: -l app=web")))?;
            let rule = UsageRule { namespace: namespace.clone(), selector, cpu: cpu.clone(), memory: memory.clone() };
            act(targets, Action::Load(rule)).await
        }
        Verb::Nodes { targets, count, each } => {
            let count = count.map(|n| i32::try_from(n).unwrap_or(i32::MAX));
            let action = Action::Nodes { count, capacity: each.capacity(), labels: each.labels() };
            act(targets, action).await
        }
        Verb::Add { members, nodes, each, labels, startup_delay, wait } => {
            let labels: BTreeMap<_, _> = labels.iter().cloned().collect();
            let mut capacity: ResourceList = [("cpu", "8"), ("memory", "32Gi"), ("pods", "110")]
                .map(|(resource, amount)| (resource.to_owned(), Quantity(amount.to_owned())))
                .into();
            capacity.extend(each.capacity());
            let objects: Vec<Value> = members
                .iter()
                .map(|name| super::member(name, *nodes, &capacity, &each.labels(), &labels, startup_delay.as_deref()))
                .collect();
            fleet.add(&objects, *wait).await
        }
        Verb::Curl(args) => curl::run(args, &command.plane, clock).await,
        Verb::Remove(targets) => fleet.remove(&fleet.named(&targets.members, targets.all).await?, targets.wait).await,
    }
}

async fn list(fleet: &Fleet, members: &[String], output: Output) -> anyhow::Result<()> {
    let found = fleet.named(members, members.is_empty()).await?;
    let values: Vec<Value> = found.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
    let text = match output {
        Output::Name => values.iter().map(|v| print::name(v) + "\n").collect(),
        Output::Json | Output::Yaml => print::objects(output, &values)?,
        Output::Table | Output::Wide => {
            let rows: Vec<Vec<String>> = found
                .iter()
                .map(|member| {
                    let amount = |name: &str| member.spec.capacity.get(name).map_or("-".to_owned(), |q| q.0.clone());
                    let mut row = vec![
                        member.metadata.name.clone().unwrap_or_default(),
                        member.spec.nodes.to_string(),
                        amount("cpu"),
                        amount("memory"),
                        faults(&member.spec.faults),
                        member.spec.usage.len().to_string(),
                    ];
                    if output == Output::Wide {
                        row.push(member.status.as_ref().map(|s| s.endpoint.clone()).unwrap_or_default());
                    }
                    row
                })
                .collect();
            let mut heading = vec!["NAME", "NODES", "CPU/NODE", "MEMORY/NODE", "FAULTS", "LOAD RULES"];
            if output == Output::Wide {
                heading.push("ENDPOINT");
            }
            print::table(&heading, &rows)
        }
    };
    print::out(&text)
}
