//! The tunnels that an agent holds open, one to each replica of the control plane.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{body::Incoming, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use ironclad_api::agents::tunnel_path;
use ironclad_runtime::{AGENT, HELD, REPLICA, StreamBody, Streams, TUNNEL, serve_tunnel};
use ironclad_seam::Seam;
use ironclad_serving::Answer;
use kube::Config;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Notify,
    time::timeout,
};

use super::{
    TunnelledMember,
    bandwidth::{Bandwidth, Narrowed},
};

/// Time until the first attempt after another one.
const FIRST: Duration = Duration::from_secs(1);
/// Longest time between two attempts to open a tunnel.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Longest time until it is looked again whether there is one more replica.
const LOOK_MAX: Duration = Duration::from_secs(300);
/// Time for the control plane to answer.
const ANSWER_MAX: Duration = Duration::from_secs(32);
/// Life of a tunnel that was worth its attempt: the next one is made at once.
const LASTING: Duration = Duration::from_secs(60);
/// Most bytes of an answer that is none of a tunnel's.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// Holds a tunnel of a cluster open to each replica of the control plane, over which these reach the member. All
/// replicas have one address: a load balancer decides which of them answers, so another tunnel is asked for again and
/// again, less and less often while no replica is new. `plane` makes the configuration of the control plane anew each
/// time; `told` gets to know whether a tunnel is open, or why there is none. `instance` is the name of this process
/// among the agents of the cluster, and `bandwidth` the limit of what its tunnels carry.
pub async fn hold_tunnels<F, R>(
    plane: F,
    told: impl Fn(Result<(), String>),
    member: TunnelledMember,
    (cluster, instance): (&str, &str),
    bandwidth: Option<Bandwidth>,
    seam: &Seam,
) where
    F: Fn() -> R,
    R: Future<Output = Result<Config, String>>,
{
    let (plane, bandwidth) = (&plane, &bandwidth);
    let opened = |held: Vec<String>| async move {
        let opening = async {
            let opened = open(plane().await?, cluster, instance, &held).await?;
            Ok(opened.map(|Tunnel { replica, connection }| {
                let connection = Narrowed::new(connection, bandwidth.clone());
                Tunnel { replica, connection }
            }))
        };
        let opened = timeout(ANSWER_MAX, opening).await;
        opened.unwrap_or_else(|_| Err(format!("the control plane does not answer in {} s", ANSWER_MAX.as_secs())))
    };
    hold(opened, told, &member.answer(), seam).await;
}

/// Holds the tunnels that `opened` opens, given the names of the replicas to which there are some.
async fn hold<S, R>(opened: impl Fn(Vec<String>) -> R, told: impl Fn(Result<(), String>), answer: &Answer, seam: &Seam)
where
    R: Future<Output = Result<Option<Tunnel<S>>, String>>,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let jitter = seam.rng.stream("tunnel");
    let held = Held::default();
    let mut pace = Pace::default();
    let mut said = Reason::default();
    loop {
        let found = match opened(held.names()).await {
            Ok(Some(tunnel)) => {
                tracing::info!(replica = tunnel.replica, "a tunnel to the control plane is open");
                said = Reason::default();
                let found = if tunnel.replica.is_some() { Found::Another } else { Found::TheOnly };
                held.serve(tunnel, answer.clone(), seam);
                told(Ok(()));
                found
            }
            Ok(None) => Found::Known,
            Err(why) => {
                if held.names().is_empty() {
                    if said.is_new(&why) {
                        tracing::warn!(why, "there is no tunnel to the control plane: it does not reach the member");
                    }
                    told(Err(why));
                } else {
                    tracing::debug!(why, "no further tunnel to the control plane was opened");
                }
                Found::Nothing
            }
        };
        let wait = pace.after(found);
        let next = async {
            match wait {
                Some(wait) => seam.clock.sleep(wait / 2 + jitter.duration_up_to(wait / 2)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = held.0.ended.notified() => {
                let Ended { lived, why } = std::mem::take(&mut *held.0.last.lock());
                if held.names().is_empty() {
                    told(Err(why));
                }
                let wait = pace.ended(lived);
                seam.clock.sleep(jitter.duration_up_to(wait)).await;
            }
            () = next => {}
        }
    }
}

/// The reason why there is no tunnel, as it was logged last. A control plane without tunnels, as Karmada's, gives the
/// same for ever.
#[derive(Default)]
struct Reason(String);

impl Reason {
    /// True if this one was not logged last.
    fn is_new(&mut self, why: &str) -> bool {
        let is_new = self.0 != why;
        self.0 = why.to_owned();
        is_new
    }
}

/// The result of an attempt to open a tunnel.
#[derive(Clone, Copy)]
enum Found {
    /// A replica to which there was none.
    Another,
    /// One of which there are no others.
    TheOnly,
    /// A replica that has one.
    Known,
    Nothing,
}

/// Times of attempts to open tunnels.
struct Pace {
    wait: Duration,
    /// After the next tunnel that does not last.
    lost: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { wait: FIRST, lost: FIRST }
    }
}

impl Pace {
    /// Time until the next attempt; none while the tunnel that there is lives.
    fn after(&mut self, found: Found) -> Option<Duration> {
        let max = match found {
            Found::TheOnly => return None,
            Found::Another => {
                self.wait = FIRST;
                return Some(self.wait);
            }
            Found::Known => LOOK_MAX,
            Found::Nothing => RETRY_MAX,
        };
        let wait = self.wait.min(max);
        self.wait = (wait * 2).min(max);
        Some(wait)
    }

    /// Longest time until the next attempt, after a tunnel ended that lived so long. Those that end at once, because
    /// something on the way cuts them or others take their place, are opened less and less often.
    fn ended(&mut self, lived: Duration) -> Duration {
        self.wait = FIRST;
        if lived >= LASTING {
            self.lost = FIRST;
        }
        let wait = self.lost;
        self.lost = (wait * 2).min(2 * RETRY_MAX);
        wait
    }
}

/// The tunnels of this agent.
#[derive(Clone, Default)]
struct Held(Arc<Replicas>);

#[derive(Default)]
struct Replicas {
    /// The newest tunnel to each.
    newest: Mutex<BTreeMap<String, u64>>,
    made: AtomicU64,
    ended: Notify,
    last: Mutex<Ended>,
}

/// The tunnel that ended last.
#[derive(Default)]
struct Ended {
    lived: Duration,
    why: String,
}

impl Held {
    /// The replicas to which they lead. One that has no name has the empty one.
    fn names(&self) -> Vec<String> {
        self.0.newest.lock().keys().cloned().collect()
    }

    /// Answers what comes over a tunnel until it ends.
    fn serve<S>(&self, tunnel: Tunnel<S>, answer: Answer, seam: &Seam)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (held, seam) = (self.clone(), seam.clone());
        let name = tunnel.replica.unwrap_or_default();
        let id = held.0.made.fetch_add(1, Ordering::Relaxed);
        held.0.newest.lock().insert(name.clone(), id);
        let began = seam.clock.mono();
        seam.tasks.clone().spawn("tunnel", async move {
            let why = match serve_tunnel(tunnel.connection, &seam.tasks, answer).await {
                Ok(()) => {
                    tracing::info!(replica = name, "a tunnel to the control plane ended");
                    "it ended".to_owned()
                }
                Err(error) => {
                    tracing::warn!(replica = name, %error, "a tunnel to the control plane broke");
                    format!("it broke: {error}")
                }
            };
            {
                let mut newest = held.0.newest.lock();
                if newest.get(&name) == Some(&id) {
                    newest.remove(&name);
                }
            }
            *held.0.last.lock() = Ended { lived: seam.clock.mono() - began, why };
            held.0.ended.notify_one();
        });
    }
}

struct Tunnel<S> {
    /// The process in which it ends, if there may be several.
    replica: Option<String>,
    connection: S,
}

/// Opens a tunnel; none where the replica that answers has one.
async fn open(
    plane: Config,
    cluster: &str,
    instance: &str,
    held: &[String],
) -> Result<Option<Tunnel<TokioIo<Upgraded>>>, String> {
    let mut request: Request<StreamBody> = Request::new(Full::default().map_err(|never| match never {}).boxed_unsync());
    *request.uri_mut() = tunnel_path(cluster).parse().map_err(|error| format!("cluster {cluster:?}: {error}"))?;
    let headers = request.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static(TUNNEL));
    headers.extend(HeaderValue::try_from(held.join(",")).ok().map(|names| (HELD, names)));
    headers.extend(HeaderValue::try_from(instance).ok().map(|name| (AGENT, name)));
    let server = plane.cluster_url.clone();
    let mut answer = Streams::by_config(plane)?.send(request).await?;
    let is_ours = answer.headers().get(header::UPGRADE).is_some_and(|protocol| protocol == TUNNEL);
    match answer.status() {
        StatusCode::SWITCHING_PROTOCOLS if is_ours => {}
        StatusCode::CONFLICT if !held.is_empty() => return Ok(None),
        _ => return Err(refusal(answer, &server.to_string()).await),
    }
    let replica = answer.headers().get(REPLICA).and_then(|name| name.to_str().ok()).map(str::to_owned);
    let connection = hyper::upgrade::on(&mut answer).await.map_err(|error| error.to_string())?;
    Ok(Some(Tunnel { replica, connection: TokioIo::new(connection) }))
}

/// The reason why an answer opens no tunnel.
async fn refusal(answer: Response<Incoming>, server: &str) -> String {
    let status = answer.status();
    let body = match status {
        StatusCode::SWITCHING_PROTOCOLS => Vec::new(),
        _ => Limited::new(answer.into_body(), REFUSAL_BYTES_MAX)
            .collect()
            .await
            .map_or_else(|_| Vec::new(), |body| body.to_bytes().to_vec()),
    };
    let told: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    refused(status, told["message"].as_str(), server)
}

/// The reason by what the server at this address says, if it is a control plane.
fn refused(status: StatusCode, message: Option<&str>, server: &str) -> String {
    match (status, message) {
        (StatusCode::UNAUTHORIZED, _) => format!(
            "the control plane at {server} does not let this agent in ({status}): its certificate has ended, is not \
             valid yet by the control plane's clock, or is of another control plane; if the clocks agree, register again"
        ),
        (_, Some(message)) => format!("the control plane answers {status} {message}"),
        (_, None) => format!(
            "{server} answers {status}, which is not an answer of a control plane: it, or a proxy on the way, has to \
             pass upgrades of HTTP/1.1 on"
        ),
    }
}

#[cfg(test)]
mod tests {
    use ironclad_runtime::Tunnels;
    use ironclad_seam::{Clock, Rng, Tasks};
    use tokio::{io::DuplexStream, time::sleep};

    use super::*;

    #[test]
    fn attempts_are_rarer_while_no_replica_is_new() {
        let mut pace = Pace::default();
        let mut seconds = |found| pace.after(found).map(|wait| wait.as_secs());
        let known: Vec<_> = std::iter::repeat_with(|| seconds(Found::Known)).take(10).flatten().collect();
        assert_eq!(known, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(seconds(Found::Nothing), Some(30), "a failure is tried again soon");
        assert_eq!(seconds(Found::Another), Some(1));
        assert_eq!(seconds(Found::Known), Some(1));
        let failures: Vec<_> = std::iter::repeat_with(|| seconds(Found::Nothing)).take(6).flatten().collect();
        assert_eq!(failures, [2, 4, 8, 16, 30, 30]);
        assert_eq!(seconds(Found::TheOnly), None);
    }

    #[test]
    fn tunnels_that_do_not_last_are_opened_less_often() {
        let mut pace = Pace::default();
        let mut seconds = |lived| pace.ended(Duration::from_secs(lived)).as_secs();
        let short: Vec<_> = std::iter::repeat_with(|| seconds(59)).take(8).collect();
        assert_eq!(short, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!([seconds(60), seconds(0), seconds(0)], [1, 2, 4], "one lasted");
    }

    #[test]
    fn a_reason_is_logged_once_until_there_is_another() {
        let mut said = Reason::default();
        let logged = ["a", "a", "b", "a", "a"].map(|why| said.is_new(why));
        assert_eq!(logged, [true, false, true, true, false]);
    }

    #[test]
    fn refusals_say_what_to_do() {
        let server = "https://plane:6443";
        for (status, message, want) in [
            (401, Some("Unauthorized"), "register again"),
            (403, Some("clusters \"m1\" is forbidden"), "403 Forbidden clusters \"m1\" is forbidden"),
            (200, None, "https://plane:6443 answers 200 OK, which is not an answer of a control plane"),
            (101, None, "has to pass upgrades of HTTP/1.1 on"),
        ] {
            let got = refused(StatusCode::from_u16(status).unwrap(), message, server);
            assert!(got.contains(want), "{status}: {got}");
        }
    }

    /// Reports of an agent about its tunnels.
    type Said = Arc<Mutex<Vec<Result<(), String>>>>;

    /// A control plane in memory, and the number of attempts to open a tunnel to it.
    #[derive(Clone)]
    struct Plane {
        tunnels: Tunnels,
        tasks: Arc<Mutex<Tasks>>,
        attempts: Arc<AtomicU64>,
        behaves: Arc<Mutex<Behaves>>,
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Behaves {
        Well,
        /// It accepts tunnels and drops them.
        Drops,
        /// It can't be reached.
        Away,
        /// Tunnels are accepted, and carry nothing.
        Mute,
    }

    impl Plane {
        fn new() -> Self {
            let (attempts, behaves) = (Arc::default(), Arc::new(Mutex::new(Behaves::Well)));
            Self { tunnels: Tunnels::default(), tasks: Arc::new(Mutex::new(Tasks::new("plane"))), attempts, behaves }
        }

        /// Starts an agent of cluster m1.
        fn agent(&self, name: &'static str) -> (Tasks, Said) {
            let seam = Seam { clock: Clock::system(), rng: Rng::from_seed(7).child(name), tasks: Tasks::new(name) };
            let (plane, said) = (self.clone(), Said::default());
            let (told, tasks) = (said.clone(), seam.tasks.clone());
            let opened = move |_| {
                let plane = plane.clone();
                async move { plane.opened(name) }
            };
            let answer = Answer::new(|_| async { Ok(Response::new(StreamBody::default())) });
            drop(tasks.spawn("hold", async move {
                hold(opened, move |result| told.lock().push(result), &answer, &seam).await;
            }));
            (tasks, said)
        }

        fn opened(&self, agent: &'static str) -> Result<Option<Tunnel<DuplexStream>>, String> {
            self.attempts.fetch_add(1, Ordering::Relaxed);
            let (near, far) = tokio::io::duplex(1 << 16);
            match *self.behaves.lock() {
                Behaves::Away => return Err("nobody is there".to_owned()),
                Behaves::Drops => drop(near),
                Behaves::Mute => drop(self.tasks.lock().spawn("mute", async move {
                    let _near = near;
                    std::future::pending::<()>().await;
                })),
                Behaves::Well => {
                    let tunnels = self.tunnels.clone();
                    drop(self.tasks.lock().spawn("carry", async move { tunnels.carry("m1", agent, near).await }));
                }
            }
            Ok(Some(Tunnel { replica: None, connection: far }))
        }

        /// Ends all tunnels.
        fn cut(&self) {
            let mut tasks = self.tasks.lock();
            tasks.kill();
            *tasks = Tasks::new("plane");
        }

        fn attempts(&self) -> u64 {
            self.attempts.swap(0, Ordering::Relaxed)
        }

        async fn during(&self, behaves: Behaves, seconds: u64) -> u64 {
            *self.behaves.lock() = behaves;
            self.attempts();
            sleep(Duration::from_secs(seconds)).await;
            self.attempts()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn two_agents_of_one_cluster_leave_each_other_their_tunnels() {
        let plane = Plane::new();
        let (first, _) = plane.agent("first");
        sleep(Duration::from_secs(100)).await;
        let (second, said) = plane.agent("second");
        let opened = plane.during(Behaves::Well, 3_600).await;
        assert_eq!((opened, plane.tunnels.agents("m1")), (1, vec!["first".to_owned(), "second".to_owned()]));
        assert_eq!(*said.lock(), [Ok(())]);
        second.kill();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(plane.tunnels.agents("m1"), ["first"]);
        first.kill();
    }

    #[tokio::test(start_paused = true)]
    async fn more_agents_than_tunnels_are_kept_take_turns_slowly() {
        let plane = Plane::new();
        let agents = ["a", "b", "c", "d", "e", "f"].map(|name| plane.agent(name).0);
        sleep(Duration::from_secs(600)).await;
        let attempts = plane.during(Behaves::Well, 3_600).await;
        assert!(attempts < 6 * 120, "{attempts} in an hour");
        assert!(plane.tunnels.is_open("m1"));
        agents.iter().for_each(Tasks::kill);
    }

    #[tokio::test(start_paused = true)]
    async fn a_control_plane_that_is_away_or_drops_tunnels_gets_no_storm() {
        let plane = Plane::new();
        let (agent, said) = plane.agent("first");
        sleep(Duration::from_secs(600)).await;
        for (name, behaves, most) in
            [("it drops tunnels", Behaves::Drops, 40), ("away", Behaves::Away, 45), ("mute", Behaves::Mute, 40)]
        {
            plane.cut();
            let attempts = plane.during(behaves, 600).await;
            assert!((1..=most).contains(&attempts), "{name}: {attempts} attempts in ten minutes");
            assert!(said.lock().last().is_some(), "{name}: the user is told");
        }
        agent.kill();
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_that_was_cut_for_ten_minutes_is_there_again_soon() {
        let plane = Plane::new();
        let (agent, said) = plane.agent("first");
        sleep(Duration::from_secs(600)).await;
        assert!(plane.tunnels.is_open("m1"));
        *plane.behaves.lock() = Behaves::Away;
        plane.cut();
        sleep(Duration::from_secs(600)).await;
        assert!(!plane.tunnels.is_open("m1"));
        assert_eq!(said.lock().last(), Some(&Err("nobody is there".to_owned())));
        *plane.behaves.lock() = Behaves::Well;
        sleep(RETRY_MAX).await;
        assert!(plane.tunnels.is_open("m1"));
        assert_eq!(said.lock().last(), Some(&Ok(())));
        agent.kill();
    }
}
