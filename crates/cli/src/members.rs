//! The members that a verb asks: clients with the rights that the control plane has in them, a bound on how many are
//! asked at a time, and one rule for those that do not answer (specification/operations.md 2.7).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, future::BoxFuture, stream};
use ironclad_api::{
    cluster::{Cluster, SyncMode},
    conditions,
};
use ironclad_members::client;
use ironclad_runtime::{Api, client_from_kubeconfig};
use ironclad_seam::Clock;
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, Config, ResourceExt as _, api::ListParams, config::Kubeconfig};

use crate::{
    connect, pages, print,
    proxied::{self, Front},
    warnings,
};

/// Members that are asked at a time. Each takes a connection, and a process may usually open 1,024 files.
pub(crate) const ASKED_MAX: usize = 50;
/// Wait after which somebody is told what is waited for.
const MOMENT: Duration = Duration::from_secs(1);
/// Time in which a member behind the proxy has to answer to be asked that way.
const PROBE_MAX: Duration = Duration::from_secs(3);
/// Most members that such a line names.
const WAITED_NAMED_MAX: usize = 5;

/// A member.
pub struct Member {
    /// The cluster's name.
    pub name: String,
    /// Access to its API server, or one line that says why there is none.
    pub access: Result<Access, String>,
}

/// Ways to members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Via {
    /// The proxy of the control plane
    Proxy,
    /// The cluster's own address, by its Secret or a context of the kubeconfig
    Direct,
}

/// Choice of the way to members.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct Way {
    /// Ask members only through the control plane's proxy, or only directly [default: through the proxy if it lets you
    /// in, else directly]
    #[arg(long, global = true, value_enum, value_name = "WAY")]
    pub via: Option<Via>,
}

/// Access to a member's API server.
pub enum Access {
    /// By a context of the kubeconfig.
    Context(Box<Config>),
    /// By the Cluster's address and the Secret that it names.
    Secret(Box<Cluster>, Option<Box<Secret>>),
    /// By a client.
    Client(Client),
}

impl Member {
    /// A client. Its connections end with it.
    ///
    /// # Errors
    /// One line that says why there is none.
    pub fn client(&self) -> Result<Client, String> {
        match self.access.as_ref().map_err(Clone::clone)? {
            Access::Context(config) => connect::client((**config).clone()).map_err(|error| error.to_string()),
            Access::Secret(cluster, secret) => client(cluster, secret.as_deref(), warnings::printing()),
            Access::Client(client) => Ok(client.clone()),
        }
    }
}

/// The Clusters of these names, or all.
///
/// # Errors
/// If one does not exist, or the control plane does not answer.
pub async fn clusters(plane: &Client, names: &[String]) -> anyhow::Result<Vec<Cluster>> {
    let api: &Api<Cluster> = &Api::all(plane.clone());
    if names.is_empty() {
        return pages::all(api, ListParams::default()).await.context("listing the clusters");
    }
    let names: BTreeSet<&String> = names.iter().collect();
    let read = names.into_iter().map(async |name| match api.get_opt(name).await {
        Ok(Some(cluster)) => Ok(cluster),
        Ok(None) => {
            bail!("Error from server (NotFound): clusters.cluster.karmada.io {name:?} not found\n  try: ironclad get clusters")
        }
        Err(error) => Err(anyhow::Error::new(error).context(format!("reading cluster {name}"))),
    });
    stream::iter(read).buffered(ASKED_MAX).try_collect().await
}

/// Members with access to them: through the control plane's proxy, if it has one that lets the user in; else by the
/// Secret that `join` wrote, if it may be read; else by the context of the kubeconfig that has the cluster's name and
/// its endpoint (as `ironclad up` writes it for simulated members). A choice of the way leaves out the others.
pub async fn connect(plane: &Client, kubeconfig: Option<&Kubeconfig>, way: Way, clusters: &[Cluster]) -> Vec<Member> {
    let front = match kubeconfig.filter(|_| way.via != Some(Via::Direct)) {
        Some(_) => proxied::front(plane).await,
        None => None,
    };
    let front = front.as_ref();
    // Boxed, since the compiler can't prove that a stream of closures' futures is `Send`.
    let found: Vec<BoxFuture<'_, _>> =
        clusters.iter().map(|each| access(plane, kubeconfig, (way, front), each).boxed()).collect();
    let found: Vec<_> = stream::iter(found).buffered(ASKED_MAX).collect().await;
    let found = clusters.iter().zip(found);
    found.map(|(cluster, access)| Member { name: cluster.name_any(), access }).collect()
}

/// The same members, of which those whose Cluster says that they are not Ready are not asked: they would answer late,
/// or not at all.
#[must_use]
pub fn without_unready(members: Vec<Member>, clusters: &[Cluster]) -> Vec<Member> {
    let unready = |name: &str| {
        let cluster = clusters.iter().find(|cluster| cluster.name_any() == name)?;
        let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let ready = conditions::get(conditions, conditions::cluster::READY)?;
        (ready.status != conditions::TRUE).then(|| format!("its Cluster is not Ready: {}", ready.reason))
    };
    let seen = members.into_iter().map(|member| match unready(&member.name) {
        Some(why) => Member { access: Err(why), ..member },
        None => member,
    });
    seen.collect()
}

/// The way through the proxy of the control plane, if it answers for a member that is not known to be away; else why
/// not.
async fn through(
    kubeconfig: &Kubeconfig,
    (way, front): (Way, Option<&Front>),
    cluster: &Cluster,
) -> Result<Access, String> {
    let name = cluster.name_any();
    if way.via.is_none() && !cluster.is_ready() {
        return Err("its Cluster is not Ready".to_owned());
    }
    let answered = async {
        let kubeconfig = proxied::kubeconfig(kubeconfig, front, std::slice::from_ref(&name))?;
        let config = connect::config(kubeconfig, None, "proxy").await?;
        let client = client_from_kubeconfig(config.clone(), Arc::default())?;
        let asked = http::Request::get("/version").body(Vec::new())?;
        client.request::<serde_json::Value>(asked).await?;
        anyhow::Ok(config)
    };
    let why = match tokio::time::timeout(PROBE_MAX, answered).await {
        Ok(Ok(config)) => return Ok(Access::Context(Box::new(config))),
        Ok(Err(error)) => match error.downcast::<kube::Error>() {
            Ok(error) => crate::report::answer(&error),
            Err(error) => format!("{error:#}"),
        },
        Err(_) => "no answer in time".to_owned(),
    };
    tracing::debug!(cluster = name, why, "not asked through the proxy");
    Err(why)
}

async fn access(
    plane: &Client,
    kubeconfig: Option<&Kubeconfig>,
    (way, front): (Way, Option<&Front>),
    cluster: &Cluster,
) -> Result<Access, String> {
    let only_proxied = cluster.spec.sync_mode == SyncMode::Pull && cluster.spec.secret_ref.is_none();
    match (way.via, kubeconfig) {
        (Some(Via::Direct), _) if only_proxied => {
            return Err(
                "it is a pull member, which is reached through the proxy only: leave --via=direct out".to_owned()
            );
        }
        (Some(Via::Proxy), None) => return Err("there is no kubeconfig for the way through the proxy".to_owned()),
        (Some(Via::Direct), _) | (None, None) => {}
        (via, Some(kubeconfig)) => match through(kubeconfig, (way, front), cluster).await {
            Ok(access) => return Ok(access),
            // There is no other way to it, or none is wanted.
            Err(why) if only_proxied || via.is_some() => return Err(why),
            Err(_) => {}
        },
    }
    let secret = match &cluster.spec.secret_ref {
        None => Ok(None),
        Some(reference) => {
            let secrets: Api<Secret> = Api::namespaced(plane.clone(), &reference.namespace);
            secrets.get_opt(&reference.name).await.map_err(|error| crate::report::answer(&error))
        }
    };
    let name = cluster.name_any();
    // Whoever may not read the Secret may have rights of their own in the member.
    if !matches!(secret, Ok(Some(_)))
        && let Some(kubeconfig) = kubeconfig
        && let Ok(config) = connect::config(kubeconfig.clone(), Some(&name), "member").await
        && config.cluster_url.to_string().trim_end_matches('/') == cluster.spec.api_endpoint.trim_end_matches('/')
    {
        return Ok(Access::Context(Box::new(config)));
    }
    Ok(Access::Secret(Box::new(cluster.clone()), secret?.map(Box::new)))
}

/// Answers of members.
pub struct Answers<T> {
    /// By cluster, in the order in which they were asked.
    pub answered: Vec<(String, T)>,
    /// The members that did not answer.
    pub silent: Silent,
}

/// Members that did not answer, each with the first reason.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Silent(BTreeMap<String, String>);

/// Asks all members, at most 50 at a time and each no longer than `patience`. A client and its connections end with
/// the answer.
pub async fn ask<'m, T>(
    members: impl IntoIterator<Item = &'m Member>,
    clock: &Clock,
    patience: Duration,
    question: impl AsyncFn(&Member, Client) -> Result<T, String>,
) -> Answers<T> {
    ask_telling(members, clock, patience, question, |_| {}).await
}

/// The same; whoever waits for members longer than a moment is told for which.
pub async fn ask_telling<'m, T>(
    members: impl IntoIterator<Item = &'m Member>,
    clock: &Clock,
    patience: Duration,
    question: impl AsyncFn(&Member, Client) -> Result<T, String>,
    mut say: impl FnMut(&str),
) -> Answers<T> {
    let members: Vec<&Member> = members.into_iter().collect();
    let mut open: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let asked = members.iter().enumerate().map(async |(place, member)| {
        let answer = match member.client() {
            Ok(client) => within(clock, patience, question(member, client)).await.and_then(|answer| answer),
            Err(why) => Err(why),
        };
        (place, member.name.clone(), answer)
    });
    // Not in order: a silent member would keep those behind it from being asked.
    let mut asked = std::pin::pin!(stream::iter(asked).buffer_unordered(ASKED_MAX));
    let (mut all, mut is_late, mut moment) = (Vec::new(), false, std::pin::pin!(clock.sleep(MOMENT)));
    loop {
        tokio::select! {
            biased;
            next = asked.next() => match next {
                Some(answer) => {
                    open.remove(answer.1.as_str());
                    all.push(answer);
                }
                None => break,
            },
            () = &mut moment, if !is_late => is_late = true,
        }
        if is_late && !open.is_empty() {
            say(&waiting_for(&open, members.len(), patience));
        }
    }
    all.sort_unstable_by_key(|(place, ..)| *place);
    let mut answers = Answers { answered: Vec::new(), silent: Silent::default() };
    for (_, name, answer) in all {
        match answer {
            Ok(answer) => answers.answered.push((name, answer)),
            Err(why) => answers.silent.add(name, why),
        }
    }
    answers
}

fn waiting_for(open: &BTreeSet<&str>, asked: usize, patience: Duration) -> String {
    let mut names = open.iter().take(WAITED_NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    if open.len() > WAITED_NAMED_MAX {
        names.push_str(&format!(" and {} more", open.len() - WAITED_NAMED_MAX));
    }
    let answered = asked - open.len();
    format!("{answered} of {asked} clusters have answered; waiting up to {} s for {names}", patience.as_secs())
}

impl Silent {
    /// True if this member did not answer.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Adds a member; its first reason counts.
    pub fn add(&mut self, name: String, why: String) {
        self.0.entry(name).or_insert(why);
    }

    /// Adds the members of another question.
    pub fn extend(&mut self, other: Self) {
        other.0.into_iter().for_each(|(name, why)| self.add(name, why));
    }

    /// True if all answered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their names, separated by commas.
    #[must_use]
    pub fn names(&self) -> String {
        self.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    /// The members and why each did not answer.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, why)| (name.as_str(), why.as_str()))
    }

    /// Names on stderr who did not answer and why.
    pub fn print(&self) {
        for (name, why) in self.iter() {
            print::note(&format!(
                "cluster({name}) is inaccessible, please check authorization or network: {}",
                print::line(why)
            ));
        }
    }

    /// The end of a verb that asked `asked` members and, if `others_answered`, the control plane with success. The
    /// answers and [`print`](Self::print) come before it.
    ///
    /// # Errors
    /// If no server answered, or with `strict` if one did not.
    pub fn verdict(&self, asked: usize, others_answered: bool, strict: bool) -> anyhow::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let none = self.0.len() >= asked && !others_answered;
        let summary = format!("{} of {} clusters did not answer: {}", self.0.len(), asked, self.names());
        if strict || none {
            bail!("{summary}\n  try: ironclad get clusters");
        }
        print::note(&summary);
        Ok(())
    }
}

/// Answer of a member, or an error if it did not answer in time.
///
/// # Errors
/// One line that says that there is no answer.
pub async fn within<T>(clock: &Clock, patience: Duration, question: impl Future<Output = T>) -> Result<T, String> {
    tokio::select! {
        biased;
        answer = question => Ok(answer),
        () = clock.sleep(patience) => Err(format!("no answer within {} s", patience.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use super::*;

    /// Members that answer after a second each, but for those whose number `is_silent`.
    fn members(count: usize, is_silent: fn(usize) -> bool) -> Vec<Member> {
        let member = |number: usize| Member {
            name: format!("m{number:04}"),
            access: match is_silent(number) {
                true => Err("no route".to_owned()),
                false => Ok(Access::Client(Client::new(
                    tower::service_fn(|_: http::Request<kube::client::Body>| async {
                        Ok::<_, Infallible>(http::Response::new(kube::client::Body::empty()))
                    }),
                    "default",
                ))),
            },
        };
        (0..count).map(member).collect()
    }

    #[tokio::test]
    async fn members_that_are_not_ready_are_not_asked() {
        let cluster = |name: &str, ready: &str| -> Cluster {
            serde_json::from_value(
                serde_json::json!({"metadata": {"name": name}, "spec": {"syncMode": "Push"}, "status": {
                "conditions": [{"type": "Ready", "status": ready, "reason": "ClusterNotReachable", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}),
            )
            .unwrap()
        };
        let mut unheard = cluster("m0002", "True");
        unheard.status = None;
        let clusters = [cluster("m0000", "True"), cluster("m0001", "False"), unheard];
        let seen = without_unready(members(3, |_| false), &clusters);
        let asked: Vec<bool> = seen.iter().map(|member| member.access.is_ok()).collect();
        assert_eq!(asked, [true, false, true]);
        let why = seen[1].access.as_ref().err().map(String::as_str);
        assert_eq!(why, Some("its Cluster is not Ready: ClusterNotReachable"));
    }

    #[tokio::test]
    async fn who_may_not_read_the_secret_uses_a_context() {
        let cluster: Cluster = serde_json::from_value(serde_json::json!({"metadata": {"name": "m1"}, "spec": {
            "syncMode": "Push", "apiEndpoint": "https://m1:6443", "secretRef": {"namespace": "karmada-cluster", "name": "m1"}}}))
        .unwrap();
        let kubeconfig = |server: &str| {
            Kubeconfig::from_yaml(&format!(
                "clusters: [{{name: m1, cluster: {{server: \"{server}\"}}}}]\nusers: [{{name: me, user: {{token: t}}}}]\n\
                 contexts: [{{name: m1, context: {{cluster: m1, user: me}}}}]"
            ))
            .unwrap()
        };
        let plane = Client::new(
            tower::service_fn(|_: http::Request<kube::client::Body>| async {
                let body = r#"{"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "not you"}"#;
                let body = kube::client::Body::from(body.as_bytes().to_vec());
                Ok::<_, Infallible>(http::Response::builder().status(403).body(body).unwrap())
            }),
            "default",
        );
        for (server, want) in [("https://m1:6443", true), ("https://other:6443", false)] {
            let found = access(&plane, Some(&kubeconfig(server)), (Way::default(), None), &cluster).await;
            assert_eq!(matches!(found, Ok(Access::Context(_))), want, "{server}");
            assert_eq!(found.is_err_and(|why| why.contains("not you")), !want, "{server}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn at_most_fifty_members_are_asked_at_a_time() {
        let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (clock, members) = (Clock::system(), members(1000, |number| number % 7 == 0));
        let answers = ask(&members, &clock, Duration::from_secs(5), async |member, _client| {
            most.fetch_max(open.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            clock.sleep(Duration::from_secs(1)).await;
            open.fetch_sub(1, Ordering::Relaxed);
            Ok(member.name.clone())
        })
        .await;
        assert_eq!(most.load(Ordering::Relaxed), ASKED_MAX);
        assert!(answers.answered.iter().all(|(name, answer)| name == answer));
        assert_eq!((answers.answered.len(), answers.silent.0.len()), (857, 143));
        assert!(answers.answered.is_sorted(), "in the order of the members");
    }

    /// 100 silent members in 50 places take the time of two.
    #[tokio::test(start_paused = true)]
    async fn silent_members_do_not_keep_others_from_being_asked() {
        let (clock, members) = (Clock::system(), members(1000, |_| false));
        let (began, patience) = (clock.mono(), Duration::from_secs(5));
        let answers = ask(&members, &clock, patience, async |member, _client| {
            let is_silent = member.name.ends_with('7');
            clock.sleep(if is_silent { Duration::from_secs(60) } else { Duration::from_millis(10) }).await;
            Ok(())
        })
        .await;
        assert_eq!((answers.answered.len(), answers.silent.0.len()), (900, 100));
        let took = clock.mono() - began;
        assert!(took < 3 * patience, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn members_that_are_waited_for_are_named() {
        let (clock, members) = (Clock::system(), members(4, |_| false));
        for (name, takes, want) in [
            ("all at once", [0, 0, 0, 0], vec![]),
            (
                "one later, and one not at all",
                [0, 3, 60, 0],
                vec![
                    "2 of 4 clusters have answered; waiting up to 5 s for m0001, m0002",
                    "3 of 4 clusters have answered; waiting up to 5 s for m0002",
                ],
            ),
        ] {
            let mut said = Vec::new();
            let question = async |member: &Member, _: Client| {
                let place = members.iter().position(|other| other.name == member.name).unwrap();
                clock.sleep(Duration::from_secs(takes[place])).await;
                Ok(())
            };
            let say = |line: &str| said.push(line.to_owned());
            ask_telling(&members, &clock, Duration::from_secs(5), question, say).await;
            assert_eq!(said, want, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn some_answers_are_a_success_and_none_is_a_failure() {
        let clock = Clock::system();
        for (name, is_silent, others, strict, want) in [
            ("all answer", (|_| false) as fn(usize) -> bool, false, false, Ok(())),
            ("all answer a strict verb", |_| false, false, true, Ok(())),
            ("one is silent", |number| number == 1, false, false, Ok(())),
            (
                "one is silent and --strict",
                |number| number == 1,
                true,
                true,
                Err("1 of 3 clusters did not answer: m0001"),
            ),
            ("none answers", |_| true, false, false, Err("3 of 3 clusters did not answer: m0000, m0001, m0002")),
            ("only the control plane answers", |_| true, true, false, Ok(())),
        ] {
            let members = members(3, is_silent);
            let answers = ask(&members, &clock, Duration::from_secs(1), async |_, _| Ok(())).await;
            let verdict = answers.silent.verdict(members.len(), others, strict);
            let got = verdict.map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned());
            assert_eq!(got, want.map_err(str::to_owned), "{name}");
        }
        let one = members(1, |_| false);
        let late = ask(&one, &clock, Duration::from_secs(2), async |_, _| {
            clock.sleep(Duration::from_secs(3)).await;
            Ok(())
        });
        assert_eq!(late.await.silent.iter().collect::<Vec<_>>(), [("m0000", "no answer within 2 s")]);
    }
}
