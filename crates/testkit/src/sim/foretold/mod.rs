//! Properties of what explains and foretells: for random fleets, what `why` and `tree` say agrees with what the next
//! ten minutes show, and what `plan apply` and `plan cluster-loss` say is what then happens. Each asks `planning` over
//! the objects as a user reads them, lets virtual time pass, and compares.
//!
//! A seed determines the fleet, its faults and edits, and the moment of the question: `cargo xtask sim --foretold
//! PROPERTY --seed N` runs one again.

mod apply;
mod draw;
mod loss;
mod why;

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
    sync::Arc,
};

use anyhow::Context as _;
use ironclad_api::policy::{ClusterOverridePolicy, ClusterTaintPolicy, OverridePolicy};
use ironclad_fleet::{ClusterName, Gvk, ObjectKey};
use ironclad_planning::{Fleet, Settings};
use ironclad_propagation::priority::Class;
use ironclad_runtime::Api;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap, scheduling::v1::PriorityClass};
use kube::{Client, api::ListParams};
use serde::Serialize;
use serde_json::Value;

use super::{History, World};

/// A property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Property {
    /// `why` and `tree`.
    Why,
    /// `plan apply`.
    Apply,
    /// `plan cluster-loss` and `plan taint`.
    Loss,
}

/// History of the fleet of a run, once there is one.
type Trace = OnceCell<History>;

/// Situations that a run met, so that a test can demand that all were met.
pub type Met = BTreeSet<&'static str>;

impl Property {
    /// All properties.
    pub const ALL: [Self; 3] = [Self::Why, Self::Apply, Self::Loss];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Why => "why",
            Self::Apply => "apply",
            Self::Loss => "loss",
        }
    }

    /// The property of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn parse(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|property| property.name() == name);
        found.ok_or_else(|| format!("one of {}", Self::ALL.map(Self::name).join(", ")))
    }

    /// Checks the property for the fleet of a seed.
    ///
    /// # Errors
    /// If a statement differs from what happened; the error says how to run the seed again.
    pub fn check(self, seed: u64) -> anyhow::Result<Met> {
        self.traced(seed).0
    }

    /// Checks the property for the fleet of a seed, and returns the history of the fleet, too.
    pub fn traced(self, seed: u64) -> (anyhow::Result<Met>, Vec<String>) {
        let trace = Trace::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let met = runtime.map_err(anyhow::Error::from).and_then(|runtime| {
            let checked: Pin<Box<dyn Future<Output = anyhow::Result<Met>>>> = match self {
                Self::Why => Box::pin(why::check(seed, &trace)),
                Self::Apply => Box::pin(apply::check(seed, &trace)),
                Self::Loss => Box::pin(loss::check(seed, &trace)),
            };
            runtime.block_on(checked)
        });
        let met = met.with_context(|| format!("cargo xtask sim --foretold {} --seed {seed}", self.name()));
        (met, trace.get().map(History::lines).unwrap_or_default())
    }
}

/// The fleet as `why` and `plan` read it, with the settings of the leader.
async fn fleet(world: &World) -> anyhow::Result<Fleet> {
    let user = world.user();
    let mut fleet = Fleet { world: world.observe().await?, ..Fleet::default() };
    fleet.settings = Settings::new(world.settings.gates.clone(), &world.settings.scheduler).with_estimators(true);
    for (name, member) in world.members.iter() {
        let name = ClusterName::from(name.as_str());
        let is_ready = fleet.world.clusters.get(&name).is_some_and(|cluster| cluster.is_ready());
        // Who does not answer is counted by its summary.
        if is_ready && let Ok(index) = ironclad_estimator::listed(&member.client()).await {
            fleet.nodes.insert(name, Arc::new(index));
        }
    }
    for policy in all::<ClusterTaintPolicy>(&user).await? {
        fleet.world.insert_taint_policy(policy);
    }
    fleet.overrides = all::<OverridePolicy>(&user).await?.into_iter().map(Arc::new).collect();
    fleet.cluster_overrides = all::<ClusterOverridePolicy>(&user).await?.into_iter().map(Arc::new).collect();
    for map in all::<ConfigMap>(&user).await? {
        fleet.world.insert_template(manifest(&map, "v1", "ConfigMap"));
    }
    let classes = all::<PriorityClass>(&user).await?;
    fleet.priority_classes = Some(
        classes
            .iter()
            .map(|class| Class::of_manifest(&manifest(class, "scheduling.k8s.io/v1", "PriorityClass")))
            .collect(),
    );
    Ok(fleet)
}

/// The Deployments of the control plane as templates.
async fn deployments(client: &Client) -> anyhow::Result<BTreeMap<ObjectKey, Value>> {
    let all = all::<Deployment>(client).await?;
    let keyed = |deployment: &Deployment| {
        let name = deployment.metadata.name.as_deref().unwrap_or_default();
        (deployment_key(name), manifest(deployment, "apps/v1", "Deployment"))
    };
    Ok(all.iter().map(keyed).collect())
}

fn deployment_key(name: &str) -> ObjectKey {
    ObjectKey { gvk: Gvk::from_manifest("apps/v1", "Deployment"), namespace: "default".into(), name: name.into() }
}

async fn all<K>(client: &Client) -> anyhow::Result<Vec<K>>
where
    K: ironclad_runtime::Object + kube::Resource<DynamicType = ()>,
{
    Ok(Api::<K>::all(client.clone()).list(&ListParams::default()).await?.items)
}

/// JSON with `apiVersion` and `kind`, which typed objects of a list lack.
fn manifest(object: &impl Serialize, api_version: &str, kind: &str) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = api_version.into();
    value["kind"] = kind.into();
    value
}

/// Clusters and replicas as `member1:2`, by name.
fn shares<'a>(targets: impl IntoIterator<Item = (&'a str, i32)>) -> Vec<String> {
    let mut all: Vec<String> = targets.into_iter().map(|(name, replicas)| format!("{name}:{replicas}")).collect();
    all.sort();
    all
}
