//! Services over clusters in random worlds: providers, consumers, slices made by hand, faults of processes and members.
//! Whatever came before, consumers have at rest what their providers have (specification/mcs.md 2.2, 2.3, 4).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use ironclad_api::{
    annotations::{ENDPOINT_SLICE_PROVISION_CLUSTER, EXPORTED_SERVICE_NAME},
    multicluster::{ServiceExport, ServiceImport},
    networking::MultiClusterService,
    policy::PropagationPolicy,
    work::Work,
};
use ironclad_fleet::gates::Gates;
use ironclad_seam::{Rng, Stream};
use ironclad_simcluster::Faults;
use ironclad_testkit::sim::{Fault, Setup, World, WorldOptions, nightly};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{apps::v1::Deployment, core::v1::Service, discovery::v1::EndpointSlice},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// Worlds of a nightly run: a second each.
const WORLDS: u64 = 12;
/// Variable: the one world to try.
const WORLD: &str = "IRONCLAD_SERVICES_WORLD";
/// Variable: number of worlds.
const NUMBER: &str = "IRONCLAD_SERVICES_WORLDS";
/// Members; the last one is in pull mode.
const MEMBERS: usize = 4;
/// Changes of one world.
const STEPS: u64 = 16;

/// An endpoint: the cluster that it comes from, the name of its slice there, its address and whether it is ready.
type Endpoints = BTreeSet<(String, String, String, bool)>;

fn api<K>(client: &Client) -> Api<K>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), "default")
}

/// Creates it, or merges it into the one of its name.
async fn put<K>(client: &Client, object: Value) -> anyhow::Result<()>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: serde::Serialize + serde::de::DeserializeOwned + Clone + std::fmt::Debug,
{
    let name = object["metadata"]["name"].as_str().context("a name")?.to_owned();
    match api::<K>(client).create(&PostParams::default(), &serde_json::from_value(object.clone())?).await {
        Err(kube::Error::Api(error)) if error.code == 409 => {
            api::<K>(client).patch(&name, &PatchParams::default(), &Patch::Merge(object)).await.map(drop)
        }
        other => other.map(drop),
    }
    .with_context(|| format!("writing {name}"))
}

async fn delete<K>(client: &Client, name: &str) -> anyhow::Result<()>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: serde::de::DeserializeOwned + Clone + std::fmt::Debug,
{
    match api::<K>(client).delete(name, &DeleteParams::default()).await {
        Err(kube::Error::Api(error)) if error.code == 404 => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

/// A random world, and what was done to it, for the message of a failure.
struct Fleet {
    world: World,
    rng: Stream,
    user: Client,
    done: Vec<String>,
}

impl Fleet {
    async fn start(seed: u64) -> anyhow::Result<Self> {
        let mut setup = Setup { pull: 1, ..Setup::from(WorldOptions { seed, members: MEMBERS }) };
        setup.settings.gates = Gates::parse("MultiClusterService=true")?.0;
        let mut world = World::start(setup).await?;
        world.start_controllers().await;
        let user = world.user();
        let mut fleet = Self { world, rng: Rng::from_seed(seed).stream("services"), user, done: Vec::new() };
        let template =
            json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template});
        put::<Deployment>(&fleet.user, json!({"metadata": {"name": "web"}, "spec": spec})).await?;
        fleet.place().await?;
        fleet.service().await?;
        Ok(fleet)
    }

    /// A random set of members.
    fn some(&self) -> Vec<String> {
        (1..=MEMBERS).filter(|_| self.rng.chance(0.5)).map(|n| format!("member{n}")).collect()
    }

    fn one(&self) -> String {
        format!("member{}", 1 + self.rng.below(MEMBERS as u64))
    }

    async fn service(&mut self) -> anyhow::Result<()> {
        let spec = json!({"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]});
        put::<Service>(&self.user, json!({"metadata": {"name": "web"}, "spec": spec})).await
    }

    async fn place(&mut self) -> anyhow::Result<()> {
        let mut clusters = self.some();
        if clusters.is_empty() {
            clusters.push("member1".to_owned());
        }
        self.done.push(format!("backends in {clusters:?}"));
        let spec = json!({
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
            "placement": {"clusterAffinity": {"clusterNames": clusters}}});
        put::<PropagationPolicy>(&self.user, json!({"metadata": {"name": "web"}, "spec": spec})).await
    }

    /// One random change.
    async fn step(&mut self) -> anyhow::Result<()> {
        let name = |names: Vec<String>| -> Vec<Value> { names.into_iter().map(|name| json!({"name": name})).collect() };
        match self.rng.below(14) {
            0 | 1 => {
                let (providers, consumers) = (self.some(), self.some());
                self.done.push(format!("from {providers:?} to {consumers:?}"));
                let spec = json!({"types": ["CrossCluster"], "providerClusters": name(providers),
                    "consumerClusters": name(consumers)});
                put::<MultiClusterService>(&self.user, json!({"metadata": {"name": "web"}, "spec": spec})).await?;
            }
            2 => {
                self.done.push("no MultiClusterService".to_owned());
                delete::<MultiClusterService>(&self.user, "web").await?;
            }
            3 => self.place().await?,
            4 | 5 => {
                let replicas = self.rng.below(5);
                self.done.push(format!("{replicas} replicas"));
                let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
                api::<Deployment>(&self.user).patch("web", &PatchParams::default(), &patch).await?;
            }
            6 => {
                self.done.push("the Service anew".to_owned());
                delete::<Service>(&self.user, "web").await?;
                self.world.pass(self.rng.duration_up_to(Duration::from_secs(3))).await?;
                self.service().await?;
            }
            7 | 8 => {
                // Equal names in several members are wanted.
                let (member, ready) = (self.one(), self.rng.chance(0.7));
                let client = self.world.member(&member)?.client();
                let address = format!("10.9.{}.{}", &member[6..], 1 + self.rng.below(3));
                self.done.push(format!("slice by-hand of {member}: {address}, ready: {ready}"));
                let slice = json!({
                    "metadata": {"name": "by-hand", "labels": {"kubernetes.io/service-name": "web"}},
                    "addressType": "IPv4", "ports": [{"name": "http", "port": 80}],
                    "endpoints": [{"addresses": [address], "conditions": {"ready": ready}}]});
                put::<EndpointSlice>(&client, slice).await?;
            }
            9 => {
                let member = self.one();
                self.done.push(format!("no slice by-hand in {member}"));
                delete::<EndpointSlice>(&self.world.member(&member)?.client(), "by-hand").await?;
            }
            10 => {
                let (member, down) = (self.one(), self.rng.chance(0.5));
                self.done.push(format!("{member} is {}", if down { "down" } else { "up" }));
                self.world.member(&member)?.set_faults(Faults { down, ..Faults::default() });
            }
            11 => {
                let process = usize::try_from(self.rng.below(2))? * self.world.agents().start;
                self.done.push(format!("process {process} crashes"));
                self.world.crash(process, self.rng.duration_up_to(Duration::from_secs(20)));
            }
            12 => {
                let fault = Fault::ALL[usize::try_from(self.rng.below(Fault::ALL.len() as u64))?];
                let write = 1 + self.rng.below(10);
                self.done.push(format!("{fault} at write {write} from here"));
                self.world.faults.on_coming_write(write, fault);
            }
            _ => {
                let is_exported = self.rng.chance(0.6);
                self.done.push(format!("exported: {is_exported}"));
                if is_exported {
                    put::<ServiceExport>(&self.user, json!({"metadata": {"name": "web"}})).await?;
                    let spec = json!({"type": "ClusterSetIP", "ports": [{"name": "http", "port": 80}]});
                    put::<ServiceImport>(&self.user, json!({"metadata": {"name": "web"}, "spec": spec})).await?;
                } else {
                    delete::<ServiceExport>(&self.user, "web").await?;
                }
            }
        }
        self.world.pass(self.rng.duration_up_to(Duration::from_secs(20))).await
    }

    /// The slices of a Service in a cluster.
    async fn slices(client: &Client, service: &str) -> anyhow::Result<Vec<EndpointSlice>> {
        let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
        Ok(api::<EndpointSlice>(client).list(&of_service).await?.items)
    }

    /// The endpoints of slices, as those of a cluster, without what slices came from others with.
    fn endpoints<'s>(slices: impl IntoIterator<Item = &'s EndpointSlice>, cluster: &str, prefix: &str) -> Endpoints {
        let mut all = Endpoints::new();
        for slice in slices {
            let name = slice.name_any();
            let name = name.strip_prefix(prefix).unwrap_or(&name).to_owned();
            for endpoint in slice.endpoints.iter().flatten() {
                let ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) != Some(false);
                for address in &endpoint.addresses {
                    all.insert((cluster.to_owned(), name.clone(), address.clone(), ready));
                }
            }
        }
        all
    }

    /// The endpoints that each member has itself.
    async fn own(&self) -> anyhow::Result<BTreeMap<String, Endpoints>> {
        let mut all = BTreeMap::new();
        for (name, member) in self.world.members.iter() {
            let slices = Self::slices(&member.client(), "web").await?;
            let own = slices.iter().filter(|slice| !slice.annotations().contains_key(ENDPOINT_SLICE_PROVISION_CLUSTER));
            all.insert(name.clone(), Self::endpoints(own, name, ""));
        }
        Ok(all)
    }

    /// The endpoints of slices that came from other clusters.
    fn from_others(slices: &[EndpointSlice], prefix: &str) -> anyhow::Result<Endpoints> {
        let mut all = Endpoints::new();
        for slice in slices {
            let Some(from) = slice.annotations().get(ENDPOINT_SLICE_PROVISION_CLUSTER) else { continue };
            for endpoint in Self::endpoints([slice], from, &format!("{prefix}{from}-")) {
                ensure!(all.insert(endpoint.clone()), "{endpoint:?} is there twice");
            }
        }
        Ok(all)
    }

    /// Returns the number of endpoints that came from other clusters.
    async fn check(&mut self) -> anyhow::Result<usize> {
        let mut compared = 0;
        let own = self.own().await?;
        let mcs = api::<MultiClusterService>(&self.user).get_opt("web").await?;
        let named = |list: &[ironclad_api::networking::ClusterSelector], member: &str| {
            list.is_empty() || list.iter().any(|one| one.name == member)
        };
        for (name, member) in self.world.members.iter() {
            let found = Self::from_others(&Self::slices(&member.client(), "web").await?, "")?;
            let mut want = Endpoints::new();
            for (provider, endpoints) in own.iter().filter(|(provider, _)| *provider != name) {
                let is_served = mcs.as_ref().is_some_and(|mcs| {
                    named(&mcs.spec.provider_clusters, provider) && named(&mcs.spec.consumer_clusters, name)
                });
                want.extend(endpoints.iter().filter(|_| is_served).cloned());
            }
            ensure!(found == want, "{name} has {found:?}, and should have {want:?}");
            compared += want.len();
        }
        let export = api::<ServiceExport>(&self.user).get_opt("web").await?;
        let works = Api::<Work>::all(self.user.clone()).list(&ListParams::default()).await?.items;
        let has_service = |member: &str| {
            let space = format!("karmada-es-{member}");
            works.iter().any(|work| {
                let of_kind = |manifest: &Value| manifest["kind"] == "Service" && manifest["metadata"]["name"] == "web";
                work.namespace().as_deref() == Some(&*space)
                    && work.spec.workload.manifests.iter().any(|manifest| of_kind(&manifest.object()))
            })
        };
        let exporters = own.iter().filter(|(name, _)| export.is_some() && has_service(name));
        let want: Endpoints = exporters.flat_map(|(_, endpoints)| endpoints.iter().cloned()).collect();
        let of_import: Vec<EndpointSlice> = api::<EndpointSlice>(&self.user).list(&ListParams::default()).await?.items;
        let of_import: Vec<EndpointSlice> = of_import
            .into_iter()
            .filter(|slice| slice.annotations().get(EXPORTED_SERVICE_NAME).is_some_and(|name| name == "web"))
            .collect();
        let found = Self::from_others(&of_import, "imported-")?;
        ensure!(found == want, "the control plane imports {found:?}, and should import {want:?}");
        Ok(compared + want.len())
    }

    async fn run(&mut self) -> anyhow::Result<usize> {
        for _ in 0..STEPS {
            self.step().await?;
        }
        self.done.push("all is healed".to_owned());
        for member in self.world.members.values() {
            member.set_faults(Faults::default());
        }
        self.world.heal_processes();
        self.world.pass(Duration::from_secs(60)).await?;
        self.world.until_quiet().await?;
        self.check().await
    }
}

fn run(world: u64) -> anyhow::Result<usize> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(async {
        let mut fleet = Fleet::start(world).await?;
        fleet
            .run()
            .await
            .with_context(|| format!("again with {WORLD}={world}; what was done:\n  {}\n", fleet.done.join("\n  ")))
    })
}

#[test]
fn consumers_have_what_providers_have() -> anyhow::Result<()> {
    if let Ok(world) = std::env::var(WORLD) {
        return run(world.parse()?).map(drop);
    }
    let worlds = std::env::var(NUMBER).map_or(Ok(nightly::half(WORLDS)), |number| number.parse())?;
    let root = Rng::from_system();
    println!("{worlds} worlds, half of them from root {:#x}", root.seed());
    let draws = root.stream("worlds");
    let mut compared = 0;
    for world in (0..worlds / 2).chain((worlds / 2..worlds).map(|_| draws.u64())) {
        compared += run(world)?;
    }
    println!("{compared} endpoints from other clusters");
    ensure!(compared > 0, "nothing was ever served elsewhere");
    Ok(())
}

/// A slice that changes ten times a second costs a write of each of its Works in each interval of a second.
#[tokio::test(start_paused = true)]
async fn endpoints_that_churn_are_written_once_an_interval() -> anyhow::Result<()> {
    const CHANGES: u64 = 100;
    let mut setup = Setup::from(WorldOptions { seed: 7, members: 2 });
    setup.settings.gates = Gates::parse("MultiClusterService=true")?.0;
    let mut world = World::start(setup).await?;
    world.start_controllers().await;
    let (user, first, second) = (world.user(), world.member("member1")?.client(), world.member("member2")?.client());
    put::<Service>(&user, json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}})).await?;
    let spec = json!({"types": ["CrossCluster"], "providerClusters": [{"name": "member1"}],
        "consumerClusters": [{"name": "member2"}]});
    put::<MultiClusterService>(&user, json!({"metadata": {"name": "web"}, "spec": spec})).await?;
    let slice = |addresses: u64| {
        let endpoints: Vec<Value> = (0..=addresses).map(|n| json!({"addresses": [format!("10.9.0.{n}")]})).collect();
        json!({"metadata": {"name": "web", "labels": {"kubernetes.io/service-name": "web"}}, "addressType": "IPv4",
            "ports": [{"port": 80}], "endpoints": endpoints})
    };
    put::<EndpointSlice>(&first, slice(0)).await?;
    let arrived = async |number: usize| -> anyhow::Result<bool> {
        Ok(Fleet::from_others(&Fleet::slices(&second, "web").await?, "")?.len() == number)
    };
    world.until("the first endpoint arrives", async || arrived(1).await).await?;
    world.until_quiet().await?;
    let before = world.faults.changes();
    for n in 1..=CHANGES {
        put::<EndpointSlice>(&first, slice(n)).await?;
        world.pass(Duration::from_millis(100)).await?;
    }
    world.until("the last endpoint arrives", async || arrived(101).await).await?;
    world.until_quiet().await?;
    let writes = world.faults.changes() - before;
    println!("{CHANGES} changes of a slice in 10 s: {writes} writes to the control plane");
    // The collected slice, its copy, and their statuses.
    ensure!(writes <= 4 * 12, "{writes} writes");
    Ok(())
}
