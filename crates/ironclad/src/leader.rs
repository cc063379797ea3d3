//! Leader election of `run` and `up`: flags, identity, and the Leases of a Karmada that is replaced
//! (specification/operations.md 9).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use ironclad_api::annotations::EXPLAIN_LEADER_ADDRESS;
use ironclad_cli::{duration, print, report::Misused};
use ironclad_controllers::{ControllerList, Controllers};
use ironclad_planning::announcement::LeaseName;
use ironclad_runtime::Api;
use ironclad_runtime::leader::{Elector, LeaderOptions};
use ironclad_seam::{Clock, Seam};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Namespace};
use kube::{
    Client,
    api::{ObjectMeta, PostParams},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};
use tokio::sync::Notify;

use crate::{ops, term::Present};

/// The Leases of a Karmada's processes that do what we do.
pub(crate) const OF_KARMADA: [&str; 3] = ["karmada-controller-manager", "karmada-scheduler", "karmada-descheduler"];
/// Prefix of the holders of those Leases that are ours.
const OURS: &str = "ironclad_";

/// Leader election flags.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Leader election")]
pub(crate) struct LeaderFlags {
    /// Work only while this process holds the Lease, so that several can run
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", env = "IRONCLAD_LEADER_ELECT")]
    leader_elect: bool,
    /// Time without renewal after which another process acquires the Lease
    #[arg(long, value_parser = duration, default_value = "15s", value_name = "DURATION", env = "IRONCLAD_LEADER_ELECT_LEASE_DURATION")]
    leader_elect_lease_duration: Duration,
    /// A leader that could not renew for this long stops its work
    #[arg(long, value_parser = duration, default_value = "10s", value_name = "DURATION", env = "IRONCLAD_LEADER_ELECT_RENEW_DEADLINE")]
    leader_elect_renew_deadline: Duration,
    /// Interval between attempts
    #[arg(long, value_parser = duration, default_value = "2s", value_name = "DURATION", env = "IRONCLAD_LEADER_ELECT_RETRY_PERIOD")]
    leader_elect_retry_period: Duration,
    /// Namespace of the Lease
    #[arg(
        long,
        default_value = "karmada-system",
        value_name = "NAMESPACE",
        env = "IRONCLAD_LEADER_ELECT_RESOURCE_NAMESPACE"
    )]
    leader_elect_resource_namespace: String,
    /// Name of the Lease
    #[arg(long, default_value = "ironclad", value_name = "NAME", env = "IRONCLAD_LEADER_ELECT_RESOURCE_NAME")]
    leader_elect_resource_name: String,
    /// Also hold the Leases of Karmada's own processes, so that none of them works beside this one
    #[arg(long, env = "IRONCLAD_TAKE_OVER_KARMADA", value_parser = clap::builder::BoolishValueParser::new(), action = clap::ArgAction::SetTrue)]
    take_over_karmada: bool,
}

impl LeaderFlags {
    /// Returns the electors: the one that decides whether this process works, and those that keep Karmada's processes
    /// from working. Without election there are none. `explained_at` is the address at which others ask this process
    /// what only the leader knows.
    ///
    /// # Errors
    /// The durations do not fit together, or the namespace cannot be created.
    pub(crate) async fn electors(
        &self,
        client: &Client,
        explained_at: Option<String>,
        seam: &Seam,
    ) -> anyhow::Result<Option<Electors>> {
        let me = format!("{}_{}", host(), seam.rng.uuid());
        let options = LeaderOptions {
            namespace: self.leader_elect_resource_namespace.clone(),
            name: self.leader_elect_resource_name.clone(),
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
            annotations: [(EXPLAIN_LEADER_ADDRESS, explained_at)].into(),
            ..LeaderOptions::new(&me)
        };
        options.check().map_err(|error| Misused(format!("{error}\n  try: --help")))?;
        if self.take_over_karmada && !self.leader_elect {
            return Err(Misused("--take-over-karmada needs --leader-elect".to_owned()).into());
        }
        if !self.leader_elect {
            return Ok(None);
        }
        ensure_namespace(client, &options.namespace).await?;
        let mut beside = Vec::new();
        if self.take_over_karmada {
            for name in OF_KARMADA {
                let options = LeaderOptions {
                    name: name.to_owned(),
                    identity: format!("{OURS}{me}"),
                    annotations: BTreeMap::new(),
                    ..options.clone()
                };
                beside.push(Elector::new(client.clone(), seam.child(name), options));
            }
        }
        Ok(Some(Electors { main: Elector::new(client.clone(), seam.clone(), options), beside }))
    }

    /// Refuses to work beside a running Karmada: observes the Leases of those of its processes that do what these
    /// controllers do, for one lease duration, unless they have expired by the clock of this machine. With
    /// `--take-over-karmada` all of them are observed, expired or not.
    ///
    /// # Errors
    /// One of them is renewed, or can't be read.
    pub(crate) async fn refuse_beside_karmada(
        &self,
        client: &Client,
        controllers: &ControllerList,
        seam: &Seam,
    ) -> anyhow::Result<()> {
        let names = if self.take_over_karmada { OF_KARMADA.to_vec() } else { doing_the_same(controllers) };
        let may_live = |lease: &Lease| {
            let spec = lease.spec.clone().unwrap_or_default();
            let seconds = spec.lease_duration_seconds.unwrap_or_default().unsigned_abs();
            let ends = spec.renew_time.map(|renewed| renewed.0 + Duration::from_secs(seconds.into()));
            self.take_over_karmada || ends.is_some_and(|ends| ends >= seam.clock.wall())
        };
        let api: Api<Lease> = Api::namespaced(client.clone(), &self.leader_elect_resource_namespace);
        let look = async || -> anyhow::Result<BTreeMap<&str, (String, Lease)>> {
            let mut leases = BTreeMap::new();
            for name in names.iter().copied() {
                let lease = api.get_opt(name).await.with_context(|| format!("reading Lease {name}"))?;
                let holder = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
                if let Some((lease, holder)) = lease.and_then(|lease| holder(&lease).map(|holder| (lease, holder)))
                    && !holder.is_empty()
                    && !holder.starts_with(OURS)
                    && may_live(&lease)
                {
                    leases.insert(name, (holder, lease));
                }
            }
            Ok(leases)
        };
        let before = look().await?;
        if before.is_empty() {
            return Ok(());
        }
        let lasts = self.leader_elect_lease_duration;
        print::note(&format!("waiting {lasts:?} for renewals by a running Karmada"));
        seam.clock.sleep(lasts).await;
        for (name, (holder, lease)) in look().await? {
            if before.get(name).is_none_or(|(_, old)| old.spec != lease.spec) {
                bail!(
                    "Karmada's {name} runs here, held by {holder}\n  because its Lease is renewed: two would control the \
                     same clusters\n  try: stop it first, or leave out here what it does: --controllers"
                );
            }
        }
        Ok(())
    }
}

/// Prefix of the identities of `up`. Its data directory is locked, so another one that held the Lease has ended.
const UP: &str = "up_";

/// Returns the elector of `up`, which competes with each `run` that somebody starts beside it. It renews less often
/// than `run`, as each renewal is a write to the disk, and nobody waits for its end: its control plane ends with it.
///
/// # Errors
/// The namespace cannot be created, or the Lease not be read.
pub(crate) async fn of_up(client: &Client, seam: &Seam) -> anyhow::Result<Electors> {
    let options = LeaderOptions {
        lease_duration: Duration::from_secs(60),
        renew_deadline: Duration::from_secs(40),
        retry_period: Duration::from_secs(10),
        annotations: [(EXPLAIN_LEADER_ADDRESS, None)].into(),
        ..LeaderOptions::new(&format!("{UP}{}_{}", host(), seam.rng.uuid()))
    };
    ensure_namespace(client, &options.namespace).await?;
    release_predecessor(client, &options).await?;
    Ok(Electors::of(Elector::new(client.clone(), seam.clone(), options)))
}

/// Releases the Lease that an `up` held which was killed.
async fn release_predecessor(client: &Client, options: &LeaderOptions) -> anyhow::Result<()> {
    let api: Api<Lease> = Api::namespaced(client.clone(), &options.namespace);
    let lease = api.get_opt(&options.name).await.with_context(|| format!("reading Lease {}", options.name))?;
    let Some(mut lease) = lease else { return Ok(()) };
    let spec = lease.spec.get_or_insert_default();
    if !spec.holder_identity.as_ref().is_some_and(|holder| holder.starts_with(UP)) {
        return Ok(());
    }
    spec.holder_identity = Some(String::new());
    api.replace(&options.name, &PostParams::default(), &lease)
        .await
        .with_context(|| format!("releasing Lease {}", options.name))?;
    Ok(())
}

/// Electors of this process.
#[derive(Clone)]
pub(crate) struct Electors {
    /// Decides whether this process works.
    pub(crate) main: Elector,
    beside: Vec<Elector>,
}

impl Electors {
    /// One that competes for no other Lease.
    pub(crate) fn of(main: Elector) -> Self {
        Self { main, beside: Vec::new() }
    }

    /// Competes, as tasks of this seam; `begin` is called each time this process becomes the leader.
    pub(crate) fn start<T: Send + 'static>(&self, seam: &Seam, begin: impl FnMut(Seam) -> T + Send + 'static) {
        for elector in self.beside.clone() {
            seam.tasks.supervise(&seam.clock, "election beside", move || {
                let elector = elector.clone();
                async move { elector.run(|_| ()).await }
            });
        }
        let (main, begin) = (self.main.clone(), Arc::new(parking_lot::Mutex::new(begin)));
        seam.tasks.supervise(&seam.clock, "election", move || {
            let (main, begin) = (main.clone(), begin.clone());
            async move { main.run(move |term| begin.lock()(term)).await }
        });
        let (clock, observed) = (seam.clock.clone(), self.main.clone());
        seam.tasks.supervise(&seam.clock, "election observed", move || report_leader(clock.clone(), observed.clone()));
    }

    /// Waits until this process leads and `started` is notified, or until another one is known to lead.
    pub(crate) async fn started(&self, clock: &Clock, started: &Notify) {
        let notified = started.notified();
        tokio::pin!(notified);
        loop {
            tokio::select! {
                biased;
                () = &mut notified => return,
                () = clock.sleep(Duration::from_millis(100)) => {}
            }
            if !self.main.leads() && !self.main.holder().is_empty() {
                return;
            }
        }
    }

    /// The Lease by which this process leads, and its identity there.
    pub(crate) fn leads_by(&self) -> (LeaseName, String) {
        let (namespace, name) = self.main.lease();
        let lease = LeaseName { namespace: namespace.to_owned(), name: name.to_owned() };
        (lease, self.main.identity().to_owned())
    }

    /// Releases all Leases. The work must have ended.
    pub(crate) async fn release(&self) {
        self.main.release().await;
        for elector in &self.beside {
            elector.release().await;
        }
    }

    /// `leader_election_master_status`, as Kubernetes' own processes have it.
    pub(crate) fn collector(&self) -> Box<dyn Collector> {
        Box::new(MasterStatus(self.main.clone()))
    }
}

/// Reports each new leader while this process stands by.
async fn report_leader(clock: Clock, observed: Elector) {
    let mut last = String::new();
    loop {
        clock.sleep(Duration::from_secs(1)).await;
        let holder = observed.holder();
        if !observed.leads() && !holder.is_empty() && holder != last {
            print::note(&format!("standing by: {holder} is the leader"));
        }
        last = holder;
    }
}

/// Readiness. A process that stands by is ready: its caches fill when it becomes the leader.
pub(crate) fn checks(electors: &Electors, controllers: &Present<Controllers>) -> Vec<ops::Check> {
    if electors.main.leads() { ops::checks(controllers.lock().as_deref()) } else { vec![("caches", Ok(()))] }
}

#[derive(Debug)]
struct MasterStatus(Elector);

impl Collector for MasterStatus {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let help = "1 while this process leads, 0 while it stands by";
        let mut family = encoder.encode_descriptor("leader_election_master_status", help, None, MetricType::Gauge)?;
        let labels = [("name", "ironclad")];
        ConstGauge::new(i64::from(self.0.leads())).encode(family.encode_family(&labels)?)
    }
}

async fn ensure_namespace(client: &Client, name: &str) -> anyhow::Result<()> {
    let api: Api<Namespace> = Api::all(client.clone());
    let asking = || format!("looking for namespace {name}, where the Lease of the leader election is");
    if api.get_opt(name).await.with_context(asking)?.is_some() {
        return Ok(());
    }
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    match api.create(&PostParams::default(), &namespace).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        done => done.map(|_| ()).with_context(|| format!("creating namespace {name}")),
    }
}

/// The Leases of those processes of Karmada that do what these controllers do.
fn doing_the_same(controllers: &ControllerList) -> Vec<&'static str> {
    let [manager, scheduler, descheduler] = OF_KARMADA;
    let apart = [(scheduler, "scheduler"), (descheduler, "descheduler")];
    let of_manager = controllers.has_others_than(&apart.map(|(_, name)| name)).then_some(manager);
    let apart = apart.into_iter().filter(|(_, name)| controllers.enabled(name)).map(|(lease, _)| lease);
    of_manager.into_iter().chain(apart).collect()
}

/// The name of this machine.
pub(crate) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned());
    name.or_else(|| std::env::var("HOSTNAME").ok()).filter(|name| !name.is_empty()).unwrap_or_else(|| "ironclad".into())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use ironclad_apiserver::{Identity, Options, Server};
    use ironclad_runtime::{Traffic, in_process_client};
    use ironclad_seam::{Rng, Tasks};
    use ironclad_store::{Commit, Engine, MemoryBackend};
    use jiff::Timestamp;
    use kube::api::{Patch, PatchParams};
    use serde_json::json;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        leader: LeaderFlags,
    }

    struct Plane {
        client: Client,
        seam: Seam,
        _engine: Engine,
    }

    impl Plane {
        async fn new() -> Self {
            let clock = Clock::simulated(Timestamp::from_second(1_790_000_000).unwrap());
            let seam = Seam { clock: clock.clone(), rng: Rng::from_seed(1), tasks: Tasks::new("test") };
            let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Inline, clock).unwrap();
            let server = Server::open(Options::default(), engine.store("plane"), seam.child("plane")).await.unwrap();
            let client = in_process_client(server.in_process(Identity::admin("test")), Arc::new(Traffic::default()));
            ensure_namespace(&client, "karmada-system").await.unwrap();
            Self { client, seam, _engine: engine }
        }

        fn leases(&self) -> Api<Lease> {
            Api::namespaced(self.client.clone(), "karmada-system")
        }

        /// Renews a Lease as another process would.
        async fn renewed(&self, name: &str, holder: &str) {
            let now = self.seam.clock.wall_seconds();
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": name },
                "spec": {
                    "holderIdentity": holder, "leaseDurationSeconds": 15,
                    "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string(),
                },
            });
            self.leases().patch(name, &PatchParams::apply("test").force(), &Patch::Apply(&lease)).await.unwrap();
        }

        async fn electors(&self, line: &str) -> anyhow::Result<Option<Electors>> {
            self.electors_of(line, "*").await
        }

        async fn electors_of(&self, line: &str, controllers: &str) -> anyhow::Result<Option<Electors>> {
            let line = std::iter::once("run").chain(line.split_whitespace());
            let controllers = ControllerList::parse(controllers).unwrap();
            let leader = Line::try_parse_from(line).unwrap().leader;
            leader.refuse_beside_karmada(&self.client, &controllers, &self.seam).await?;
            leader.electors(&self.client, None, &self.seam).await
        }

        async fn holder(&self, name: &str) -> String {
            let lease = self.leases().get_opt(name).await.unwrap();
            lease.and_then(|lease| lease.spec).and_then(|spec| spec.holder_identity).unwrap_or_default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stopped_karmada_is_replaced_and_cannot_start() {
        let plane = Plane::new().await;
        plane.renewed("karmada-scheduler", "old-host_1").await;
        let began = plane.seam.clock.mono();
        let electors = plane.electors("--take-over-karmada").await.unwrap().unwrap();
        assert_eq!(
            plane.seam.clock.mono() - began,
            Duration::from_secs(15),
            "one lease duration is waited for its renewal"
        );
        // The process ends, the control plane remains.
        let process = plane.seam.child("process");
        electors.start(&process, |_| ());
        // A Lease that is not renewed expires, and then we acquire it.
        plane.seam.clock.sleep(Duration::from_secs(60)).await;
        assert!(electors.main.leads());
        for name in OF_KARMADA {
            assert!(plane.holder(name).await.starts_with(OURS), "{name} is held by {}", plane.holder(name).await);
        }
        // A second process of ours stands by, and starts without a wait.
        let began = plane.seam.clock.mono();
        let second = plane.electors("--take-over-karmada").await.unwrap().unwrap();
        assert_eq!((plane.seam.clock.mono() - began, second.main.leads()), (Duration::ZERO, false));
        process.tasks.stop();
        process.tasks.kill();
        electors.release().await;
        for name in OF_KARMADA.iter().chain(&["ironclad"]) {
            assert_eq!(plane.holder(name).await, "", "{name} is given back at a clean end");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_running_karmada_is_not_replaced() {
        for name in OF_KARMADA {
            let plane = Plane::new().await;
            plane.renewed(name, "host_1").await;
            let renewal = async {
                plane.seam.clock.sleep(Duration::from_secs(2)).await;
                plane.renewed(name, "host_1").await;
            };
            let (electors, ()) = futures::join!(plane.electors("--take-over-karmada"), renewal);
            let error = electors.err().map(|error| error.to_string()).unwrap_or_default();
            let want = format!("Karmada's {name} runs here, held by host_1\n  because its Lease is renewed");
            assert!(error.starts_with(&want), "{error}");
            assert_eq!(plane.holder(name).await, "host_1", "nothing was taken from it");
        }
    }

    /// Without the flag those are refused that would do the same work, also without an election.
    #[tokio::test(start_paused = true)]
    async fn nothing_runs_beside_a_karmada_that_does_the_same() {
        for (line, controllers, name, want) in [
            ("", "*", "karmada-controller-manager", true),
            ("--leader-elect=false", "*", "karmada-controller-manager", true),
            ("", "*", "karmada-scheduler", true),
            ("", "*,-scheduler", "karmada-scheduler", false),
            ("", "scheduler", "karmada-controller-manager", false),
            ("", "scheduler", "karmada-scheduler", true),
            ("", "*,descheduler", "karmada-descheduler", true),
            ("", "*", "karmada-descheduler", false),
        ] {
            let plane = Plane::new().await;
            plane.renewed(name, "host_1").await;
            let renewal = async {
                plane.seam.clock.sleep(Duration::from_secs(2)).await;
                plane.renewed(name, "host_1").await;
            };
            let (electors, ()) = futures::join!(plane.electors_of(line, controllers), renewal);
            let refused = electors.err().is_some_and(|error| error.to_string().starts_with("Karmada's"));
            assert_eq!(refused, want, "{line} --controllers={controllers} beside {name}");
        }
        // One that has ended long ago delays nobody.
        let plane = Plane::new().await;
        plane.renewed("karmada-scheduler", "host_1").await;
        plane.seam.clock.sleep(Duration::from_secs(16)).await;
        let began = plane.seam.clock.mono();
        plane.electors("").await.unwrap();
        assert_eq!(plane.seam.clock.mono(), began);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_of_the_election_ends_the_term_and_the_process_competes_again() {
        let plane = Plane::new().await;
        let electors = plane.electors("").await.unwrap().unwrap();
        let ran = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let (terms, log) = (electors.main.clone(), ran.clone());
        electors.start(&plane.seam, move |term: Seam| {
            let (number, log, clock) = (terms.terms(), log.clone(), term.clock.clone());
            term.tasks.spawn("work", async move {
                clock.sleep(Duration::from_secs(30)).await;
                log.lock().push(number);
            });
            assert_ne!(number, 1, "on purpose");
        });
        plane.seam.clock.sleep(Duration::from_secs(60)).await;
        assert_eq!(*ran.lock(), [2], "work of a term that panicked does not run beside that of the next");
        assert!(electors.main.leads());
    }

    #[tokio::test(start_paused = true)]
    async fn karmadas_leases_are_not_acquired_without_the_flag() {
        let plane = Plane::new().await;
        plane.renewed("karmada-scheduler", "host_1").await;
        let electors = plane.electors("").await.unwrap().unwrap();
        electors.start(&plane.seam, |_| ());
        plane.seam.clock.sleep(Duration::from_secs(60)).await;
        assert!(electors.main.leads());
        assert_eq!(plane.holder("karmada-scheduler").await, "host_1");
        assert!(plane.electors("--leader-elect=false").await.unwrap().is_none());
        let misused = plane.electors("--leader-elect=false --take-over-karmada").await.err().unwrap();
        assert_eq!(misused.to_string(), "--take-over-karmada needs --leader-elect");
    }

    #[tokio::test(start_paused = true)]
    async fn up_leads_at_once_and_a_run_beside_it_stands_by() {
        let plane = Plane::new().await;
        let first = plane.seam.child("up");
        let up = of_up(&plane.client, &first).await.unwrap();
        up.start(&first, |_| ());
        let run = plane.electors("").await.unwrap().unwrap();
        run.start(&plane.seam.child("run"), |_| ());
        plane.seam.clock.sleep(Duration::from_secs(3_600)).await;
        assert!(up.main.leads() && !run.main.leads());
        assert!(run.main.holder().starts_with(UP), "{}", run.main.holder());

        // Killed without a word: the next one on the data directory need not wait until the Lease expires.
        first.tasks.kill();
        let second = plane.seam.child("up2");
        let up = of_up(&plane.client, &second).await.unwrap();
        up.start(&second, |_| ());
        plane.seam.clock.sleep(Duration::from_millis(100)).await;
        assert!(up.main.leads() && !run.main.leads());

        // A clean end lets the other one work.
        second.tasks.kill();
        up.release().await;
        plane.seam.clock.sleep(Duration::from_secs(3)).await;
        assert!(run.main.leads());
    }

    #[tokio::test(start_paused = true)]
    async fn up_stands_by_while_a_run_leads() {
        let plane = Plane::new().await;
        let process = plane.seam.child("run");
        let run = plane.electors("").await.unwrap().unwrap();
        run.start(&process, |_| ());
        plane.seam.clock.sleep(Duration::from_secs(1)).await;
        let up = of_up(&plane.client, &plane.seam.child("up")).await.unwrap();
        up.start(&plane.seam, |_| ());
        up.started(&plane.seam.clock, &Notify::new()).await;
        plane.seam.clock.sleep(Duration::from_secs(600)).await;
        assert!(run.main.leads() && !up.main.leads());
        assert!(checks(&up, &Present::default()).iter().all(|(_, check)| check.is_ok()), "it is ready to take over");
        process.tasks.kill();
        plane.seam.clock.sleep(Duration::from_secs(30)).await;
        assert!(up.main.leads() && !run.main.leads(), "the other one's Lease has expired");
    }
}
