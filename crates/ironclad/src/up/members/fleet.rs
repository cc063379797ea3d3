//! Members that a start of `up` requests: a number, or a file of SimulatedClusters.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use ironclad_api::{Quantity, crds::simulated_cluster_crd, quantity::Amount, sim::SimulatedCluster};
use ironclad_patch::structural::Structural;
use ironclad_runtime::Api;
use kube::{
    Client, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::decide::{FINALIZER, NODES_MAX, STARTUP_DELAY};

/// Default number of members.
const CLUSTERS: u32 = 3;

/// Fleet flags.
#[derive(clap::Args, Debug, Clone)]
#[command(next_help_heading = "Simulated members")]
pub(crate) struct FleetArgs {
    /// Simulated members; more are added on a later start if the number is larger [default: 3 on the first start]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub clusters: Option<u32>,
    /// SimulatedClusters (YAML or JSON) to create, or to update if they exist
    #[arg(long, value_name = "FILE", conflicts_with = "clusters")]
    pub fleet: Option<PathBuf>,
    /// Nodes of each member that is added
    #[arg(long, default_value_t = 3, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=i64::from(NODES_MAX)))]
    pub nodes: u32,
    /// Cpu of each of their nodes
    #[arg(long, default_value = "8", value_name = "QUANTITY", value_parser = quantity)]
    pub cpu: String,
    /// Memory of each of their nodes
    #[arg(long, default_value = "32Gi", value_name = "QUANTITY", value_parser = quantity)]
    pub memory: String,
    /// Pods per node
    #[arg(long, default_value_t = 110, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub pods: u32,
    /// Startup time of pods, such as 250ms or 5s [default: 1s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub startup_delay: Option<String>,
}

fn quantity(text: &str) -> Result<String, String> {
    match Amount::parse(text) {
        Ok(amount) if amount > Amount::ZERO => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is not a quantity above 0 (write it like 8, 500m or 32Gi)")),
    }
}

fn duration(text: &str) -> Result<String, String> {
    match ironclad_simcluster::duration(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(format!("{text:?} is not a duration (write it like 250ms, 30s or 2m)")),
    }
}

/// State of the data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    First,
    Again,
}

impl FleetArgs {
    /// The SimulatedClusters of `--fleet`; `None` without the flag.
    ///
    /// # Errors
    /// The file is invalid.
    pub(crate) fn described(&self) -> anyhow::Result<Option<Vec<Value>>> {
        let Some(file) = &self.fleet else { return Ok(None) };
        let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        Ok(Some(described(&text).with_context(|| format!("{} can't be used", file.display()))?))
    }

    /// Creates the requested SimulatedClusters that do not exist, and updates those of a file.
    ///
    /// # Errors
    /// The control plane rejects one of them.
    pub(crate) async fn ensure(&self, admin: &Client, fleet: Option<Vec<Value>>, start: Start) -> anyhow::Result<()> {
        let api: Api<SimulatedCluster> = Api::all(admin.clone());
        if let Some(fleet) = fleet {
            for object in fleet {
                merge(&api, object).await?;
            }
            return Ok(());
        }
        let wanted = self.clusters.unwrap_or(if start == Start::First { CLUSTERS } else { 0 });
        let present: Vec<String> =
            api.list(&ListParams::default()).await?.items.iter().map(ResourceExt::name_any).collect();
        for name in missing(&present, wanted as usize) {
            api.create(&PostParams::default(), &self.one(&name)?).await.with_context(|| format!("adding {name}"))?;
        }
        Ok(())
    }

    fn one(&self, name: &str) -> anyhow::Result<SimulatedCluster> {
        let annotations = self.startup_delay.as_ref().map(|delay| json!({STARTUP_DELAY: delay}));
        let pods = self.pods.to_string();
        let capacity = [("cpu", &self.cpu), ("memory", &self.memory), ("pods", &pods)];
        let capacity = capacity.map(|(resource, amount)| (resource.to_owned(), Quantity(amount.clone())));
        Ok(serde_json::from_value(json!({
            "apiVersion": "sim.ironclad.io/v1alpha1", "kind": "SimulatedCluster",
            "metadata": {"name": name, "finalizers": [FINALIZER], "annotations": annotations},
            "spec": {"nodes": self.nodes, "capacity": std::collections::BTreeMap::from(capacity)},
        }))?)
    }
}

/// The names `memberN` that fill the fleet up to the wanted number.
fn missing(present: &[String], wanted: usize) -> Vec<String> {
    let free = (1u32..).map(|n| format!("member{n}")).filter(|name| !present.contains(name));
    free.take(wanted.saturating_sub(present.len())).collect()
}

/// The SimulatedClusters of a file.
fn described(text: &str) -> anyhow::Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    let schema = json!(simulated_cluster_crd()).pointer("/spec/versions/0/schema/openAPIV3Schema").cloned();
    let schema = Structural::parse(&schema.unwrap_or_default(), "").unwrap_or_else(|_| unreachable!("a test reads it"));
    let mut found = Vec::new();
    for document in documents.into_iter().filter(|d| !d.is_null()) {
        let items = match document["kind"].as_str() {
            Some("List" | "SimulatedClusterList") => document["items"].as_array().cloned().unwrap_or_default(),
            _ => vec![document],
        };
        for item in items {
            let (kind, name) = (item["kind"].as_str().unwrap_or_default(), item["metadata"]["name"].as_str());
            let Some(name) = name.filter(|_| kind == "SimulatedCluster") else {
                bail!(
                    "it contains a {kind:?}, and only SimulatedClusters with a name are allowed\n  \
                     try: kubectl get simulatedclusters -o yaml, for an example"
                );
            };
            // Parse all documents before the first write, so that a mistake changes nothing.
            check(&item, &schema).with_context(|| format!("reading {name}"))?;
            found.push(item);
        }
    }
    Ok(found)
}

/// Finds the first field that a SimulatedCluster does not have, or that has a wrong value.
fn check(object: &Value, schema: &Structural) -> anyhow::Result<()> {
    let mut known = object.clone();
    let unknown = schema.prune(&mut known).into_iter().map(|field| format!("{field}: there is no such field"));
    let wrong = schema.validate(&known).into_iter().map(|error| error.to_string());
    if let Some(first) = unknown.chain(wrong).next() {
        bail!("{first}\n  try: kubectl get simulatedclusters -o yaml, for an example");
    }
    serde_json::from_value::<SimulatedCluster>(known).map(drop).map_err(Into::into)
}

async fn merge(api: &Api<SimulatedCluster>, object: Value) -> anyhow::Result<()> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let done = if api.get_opt(&name).await?.is_some() {
        api.patch(&name, &PatchParams::default(), &Patch::Merge(&object)).await
    } else {
        api.create(&PostParams::default(), &serde_json::from_value(object)?).await
    };
    done.map(drop).with_context(|| format!("adding simulated member {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_members_are_created() {
        let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        for (name, present, wanted, want) in [
            ("none yet", &[][..], 2, &["member1", "member2"][..]),
            ("a gap is filled", &["member2"], 3, &["member1", "member3"]),
            ("others count too", &["edge"], 2, &["member1"]),
            ("enough", &["a", "b"], 1, &[]),
        ] {
            assert_eq!(missing(&names(present), wanted), names(want), "{name}");
        }
    }

    #[test]
    fn files() {
        let one = "kind: SimulatedCluster\napiVersion: sim.ironclad.io/v1alpha1\nmetadata: {name: a}\nspec: {nodes: 1, capacity: {cpu: '1'}}\n";
        let two = format!("{one}---\n{}", one.replace("name: a", "name: b"));
        for (name, text, want) in [
            ("nothing", "", Ok(0)),
            ("one", one, Ok(1)),
            ("several", &two, Ok(2)),
            ("another kind", "kind: Cluster\nmetadata: {name: a}", Err("it contains a \"Cluster\"")),
            ("no name", "kind: SimulatedCluster", Err("with a name are allowed")),
            (
                "a spec that is none",
                "kind: SimulatedCluster\nmetadata: {name: a}\nspec: {nodes: many}",
                Err("reading a: spec.nodes: Invalid value"),
            ),
            (
                "no capacity",
                &one.replace(", capacity: {cpu: '1'}", ""),
                Err("reading a: spec.capacity: Required value"),
            ),
            ("a misspelt field", &one.replace("nodes", "nodez"), Err("reading a: spec.nodez: there is no such field")),
        ] {
            match (described(text), want) {
                (Ok(found), Ok(count)) => assert_eq!(found.len(), count, "{name}"),
                (Err(error), Err(text)) => assert!(format!("{error:#}").contains(text), "{name}: {error:#}"),
                (got, want) => panic!("{name}: {got:?}, wanted {want:?}"),
            }
        }
    }
}
