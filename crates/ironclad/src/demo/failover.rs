//! `up --demo failover`: a member is lost, its workload runs elsewhere, the member comes back.

use std::{fmt::Write as _, time::Duration};

use anyhow::{Context as _, bail};
use ironclad_api::{cluster::Cluster, policy::ClusterTaintPolicy, taints::NO_EXECUTE, work::ResourceBinding};
use ironclad_cli::sim::{Fleet, change::Action};
use ironclad_controllers::Settings;
use ironclad_failover::flags::HealthFlags;
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use kube::{Client, api::PostParams};
use tokio::time::Instant;

use crate::announce::announce;

/// Taints members that are not Ready with NoExecute.
const POLICY: &str = include_str!("../../../../samples/taint-not-ready.yaml");
/// The member that is lost.
const LOST: &str = "member1";
/// The binding of the sample that is divided over all members.
const BINDING: &str = "worker-deployment";
/// Deadline of each half: the loss and the return.
const DEADLINE: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Times with which a failover can be watched, where the command line says nothing else.
pub(crate) fn quicken(settings: &mut Settings) {
    let (defaults, short) = (HealthFlags::default(), Duration::from_secs(5));
    let health = &mut settings.failover.health;
    let quicker = |flag: &mut Duration, default: Duration, value: Duration| {
        if *flag == default {
            *flag = value;
        }
    };
    quicker(&mut health.status_update_frequency, defaults.status_update_frequency, Duration::from_secs(2));
    quicker(&mut health.success_threshold, defaults.success_threshold, short);
    quicker(&mut health.failure_threshold, defaults.failure_threshold, short);
    settings.failover.eviction.eviction_warm_up.get_or_insert(short);
    // One of three members is a third, which is no mass failure, but a second fault of the user's would be one.
    settings.failover.eviction.mass_failure_hold = Duration::ZERO;
}

/// State of the lost member and of what ran there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Seen {
    ready: bool,
    /// True if it has a NoExecute taint.
    tainted: bool,
    /// Replicas assigned to the lost member.
    there: i32,
    /// Replicas assigned to the others, and how many of them are ready.
    elsewhere: (i32, i64),
    /// True if a copy waits in the lost member for its replacement.
    leaving: bool,
}

impl Seen {
    fn of(cluster: &Cluster, binding: &ResourceBinding) -> Self {
        let spec = &binding.spec;
        let reports = binding.status.as_ref().map_or(&[][..], |status| &status.aggregated_status);
        let others = spec.clusters.iter().filter(|target| target.name != LOST);
        let ready = |name: &str| {
            let report = reports.iter().find(|report| report.cluster_name == name)?;
            report.status.as_ref()?.value()["readyReplicas"].as_i64()
        };
        Self {
            ready: cluster.is_ready(),
            tainted: cluster.spec.taints.iter().any(|taint| taint.effect == NO_EXECUTE),
            there: spec.target(LOST).map_or(0, |target| target.replicas),
            elsewhere: others.fold((0, 0), |(assigned, running), target| {
                (assigned + target.replicas, running + ready(&target.name).unwrap_or(0))
            }),
            leaving: spec.eviction(LOST).is_some(),
        }
    }

    /// True if nothing of the loss is still on its way.
    fn has_moved(&self) -> bool {
        self.there == 0 && !self.leaving && i64::from(self.elsewhere.0) == self.elsewhere.1
    }

    fn is_back(&self) -> bool {
        self.ready && !self.tainted
    }

    /// A line for each change since an earlier moment.
    fn since(&self, before: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.ready != before.ready {
            let state = if self.ready { "is Ready again" } else { "is not Ready" };
            lines.push(format!("{LOST} {state}"));
        }
        if self.tainted != before.tainted {
            let change = if self.tainted { "gets" } else { "loses" };
            lines.push(format!("{LOST} {change} the taint of ClusterTaintPolicy not-ready, effect NoExecute"));
        }
        if self.there < before.there {
            let mut line = format!("worker leaves {LOST}: {} replicas go to the others", before.there - self.there);
            if self.leaving {
                // A String takes all that is written.
                let _ = write!(line, ", its copy there stays until they are healthy");
            }
            lines.push(line);
        }
        if self.elsewhere.1 > before.elsewhere.1 {
            lines.push(format!("{} of its {} replicas elsewhere are ready", self.elsewhere.1, self.elsewhere.0));
        }
        if before.leaving && !self.leaving {
            lines.push(format!("the replacement is healthy, so the old copy in {LOST} is no longer wanted"));
        }
        lines
    }
}

/// Plays it, once the sample runs.
///
/// # Errors
/// If something is refused, or a half does not end in time.
pub(crate) async fn play(client: &Client, clock: &Clock, kubeconfig: &str) -> anyhow::Result<()> {
    let policy: ClusterTaintPolicy =
        serde_saphyr::from_str(POLICY).context("parsing the built-in ClusterTaintPolicy")?;
    match Api::<ClusterTaintPolicy>::all(client.clone()).create(&PostParams::default(), &policy).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        Err(error) => return Err(anyhow::Error::new(error).context("applying ClusterTaintPolicy not-ready")),
    }
    let scene = Scene { client: client.clone(), clock: clock.clone(), began: clock.mono(), kubeconfig };
    let mut seen = scene.seen().await?;
    announce(&format!("a failover: {LOST} is lost, as if its power was cut"));
    scene.act(&Action::Down).await?;
    seen = scene.until(seen, "the replicas run elsewhere", |seen| !seen.ready && seen.has_moved()).await?;
    announce(&format!("the recovery: {LOST} returns"));
    scene.act(&Action::Up).await?;
    scene.until(seen, "the member is back", Seen::is_back).await?;
    announce(
        "worker stays where it is: what runs is not moved again. web never moved: its policy names two members, and\n\
         its copy in the other one ran on. What to look at:\n  \
         ironclad why evicted                    who left, when, by which rule, and who stayed\n  \
         ironclad failover status                the queue and its rate\n  \
         kubectl get events --field-selector involvedObject.name=member1\n  \
         ironclad sim down member2               once more, by hand; ironclad sim up member2 ends it",
    );
    Ok(())
}

struct Scene<'a> {
    client: Client,
    clock: Clock,
    began: Instant,
    kubeconfig: &'a str,
}

impl Scene<'_> {
    async fn seen(&self) -> anyhow::Result<Seen> {
        let cluster = Api::<Cluster>::all(self.client.clone()).get(LOST).await?;
        let binding = Api::<ResourceBinding>::namespaced(self.client.clone(), "default").get(BINDING).await?;
        Ok(Seen::of(&cluster, &binding))
    }

    async fn act(&self, action: &Action) -> anyhow::Result<()> {
        let fleet = Fleet { plane: self.client.clone(), clock: self.clock.clone() };
        let members = fleet.named(&[LOST.to_owned()], false).await?;
        fleet.act(&members, action, DEADLINE).await
    }

    /// Prints each change until a state is reached, which is returned.
    async fn until(&self, mut seen: Seen, what: &str, is_reached: impl Fn(&Seen) -> bool) -> anyhow::Result<Seen> {
        let deadline = self.clock.mono() + DEADLINE;
        loop {
            let now = self.seen().await?;
            for line in now.since(&seen) {
                announce(&format!("{:>4} s  {line}", (self.clock.mono() - self.began).as_secs()));
            }
            if is_reached(&now) {
                return Ok(now);
            }
            if self.clock.mono() > deadline {
                bail!(
                    "not after {} s: {what}\n  try: ironclad why evicted --kubeconfig {}",
                    DEADLINE.as_secs(),
                    self.kubeconfig
                );
            }
            seen = now;
            self.clock.sleep(POLL_INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_REST: Seen = Seen { ready: true, tainted: false, there: 4, elsewhere: (4, 4), leaving: false };

    #[test]
    fn changes_are_told() {
        let lost = Seen { ready: false, ..AT_REST };
        let tainted = Seen { tainted: true, ..lost.clone() };
        let moving = Seen { there: 0, elsewhere: (8, 4), leaving: true, ..tainted.clone() };
        let moved = Seen { elsewhere: (8, 8), leaving: false, ..moving.clone() };
        for (name, before, now, want) in [
            ("nothing", AT_REST, AT_REST, &[][..]),
            ("lost", AT_REST, lost.clone(), &["member1 is not Ready"]),
            (
                "tainted",
                lost,
                tainted.clone(),
                &["member1 gets the taint of ClusterTaintPolicy not-ready, effect NoExecute"],
            ),
            (
                "evicted",
                tainted,
                moving.clone(),
                &["worker leaves member1: 4 replicas go to the others, its copy there stays until they are healthy"],
            ),
            (
                "replaced",
                moving,
                moved.clone(),
                &[
                    "8 of its 8 replicas elsewhere are ready",
                    "the replacement is healthy, so the old copy in member1 is no longer wanted",
                ],
            ),
            (
                "back",
                moved.clone(),
                Seen { ready: true, tainted: false, ..moved },
                &[
                    "member1 is Ready again",
                    "member1 loses the taint of ClusterTaintPolicy not-ready, effect NoExecute",
                ],
            ),
        ] {
            assert_eq!(now.since(&before), want, "{name}");
        }
    }

    #[test]
    fn what_the_command_line_says_stays() {
        let mut settings = Settings::default();
        settings.failover.health.failure_threshold = Duration::from_secs(7);
        quicken(&mut settings);
        let health = &settings.failover.health;
        assert_eq!((health.failure_threshold.as_secs(), health.success_threshold.as_secs()), (7, 5));
        assert_eq!(settings.failover.errors(), []);
    }
}
