//! `ironclad logs`: logs of pods in the members (specification/operations.md 2.9).

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, bail};
use futures::{AsyncBufRead, AsyncBufReadExt as _, StreamExt as _, stream};
use ironclad_patch::selector::LabelSelector;
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, ResourceExt as _,
    api::{DynamicObject, ListParams, LogParams},
};
use serde_json::Value;

use crate::{
    connect::Plane,
    members::{self, Member},
    pages, print,
    report::{Misused, answer},
    resource::{Resource, Resources},
};

/// Default of `--tail` for several pods and for a label selector.
const TAIL_OF_SEVERAL: i64 = 10;
/// Interval of looking whether a pod started.
const LOOK: Duration = Duration::from_millis(250);
/// Annotation of a pod that names its default container.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// Print the logs of pods in the members.
///
/// Without -C all members are searched. Lines of several pods begin with cluster, pod and container.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad logs web-7db6d54f7d-fbmhf -n shop
  ironclad logs deploy/web -C member1 --tail 20
  ironclad logs -l app=web --since 5m --timestamps
  ironclad logs deploy/web --all-containers --since-time 2026-01-31T08:00:00Z --limit-bytes 100000
  ironclad logs deploy/web --all-pods --pod-running-timeout 1m
  ironclad logs deploy/web -f")]
pub struct Command {
    /// POD or TYPE/NAME
    #[arg(value_name = "WHAT", required_unless_present = "selector", conflicts_with = "selector")]
    pub what: Option<String>,
    /// Pods with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Namespace [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Only these members
    #[arg(short = 'C', long, alias = "cluster", value_delimiter = ',', value_name = "NAMES")]
    pub clusters: Vec<String>,
    /// The container
    #[arg(short, long, value_name = "NAME", conflicts_with = "all_containers")]
    pub container: Option<String>,
    /// All containers, including init and ephemeral containers
    #[arg(long)]
    pub all_containers: bool,
    /// All pods of a workload, which are printed anyway, with --prefix
    #[arg(long)]
    pub all_pods: bool,
    /// Time to wait until a pod is there that does not wait for its start [default: does not wait]
    #[arg(long, value_name = "DURATION", value_parser = crate::duration)]
    pub pod_running_timeout: Option<Duration>,
    /// Keep running, and print new lines
    #[arg(short, long)]
    pub follow: bool,
    /// Print the logs of the previous container
    #[arg(short, long)]
    pub previous: bool,
    /// Print the time of each line
    #[arg(long)]
    pub timestamps: bool,
    /// Number of last lines to print; -1 for all [default: all of one pod, 10 of several or with -l]
    #[arg(long, value_name = "LINES", allow_negative_numbers = true)]
    pub tail: Option<i64>,
    /// Only lines younger than this
    #[arg(long, value_name = "DURATION", value_parser = crate::duration, conflicts_with = "since_time")]
    pub since: Option<Duration>,
    /// Only lines after this time, such as 2026-01-31T08:00:00Z
    #[arg(long, value_name = "TIME")]
    pub since_time: Option<Timestamp>,
    /// Maximum number of bytes to print for each container
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(i64).range(1..))]
    pub limit_bytes: Option<i64>,
    /// Maximum number of containers to follow at once
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    pub max_log_requests: usize,
    /// Continue if a container does not answer
    #[arg(long)]
    pub ignore_errors: bool,
    /// Print cluster, pod and container before each line
    #[arg(long)]
    pub prefix: bool,
    /// Fail if a member does not answer
    #[arg(long)]
    pub strict: bool,
    /// Timeout for the answer of a member
    #[arg(long, value_parser = crate::duration, default_value = "5s", value_name = "DURATION")]
    pub timeout: Duration,
    #[command(flatten)]
    pub way: members::Way,
    #[command(flatten)]
    pub plane: Plane,
}

/// A container in a member. Its client is made when its log is opened: clients of all members would keep a connection
/// each.
struct Source<'a> {
    member: &'a Member,
    namespace: &'a str,
    pod: String,
    container: String,
}

/// Runs the command.
///
/// # Errors
/// If no member has such a pod, or a server refuses.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    let client = command.plane.client().await?;
    let namespace = command.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let clusters = members::clusters(&client, &command.clusters).await?;
    let members = members::connect(&client, command.plane.kubeconfig().ok().as_ref(), command.way, &clusters).await;
    let deadline = clock.mono() + command.pod_running_timeout.unwrap_or_default();
    let answers = loop {
        let answers = members::ask(&members, clock, command.timeout, async |_, client| {
            find(&client, command, &namespace).await.map_err(|error| format!("{error:#}"))
        })
        .await;
        let mut pods = answers.answered.iter().filter_map(|(_, pods)| pods.as_ref().ok()).flatten();
        if pods.any(is_started) || clock.mono() >= deadline {
            break answers;
        }
        clock.sleep(LOOK).await;
    };
    let (mut sources, mut is_noted) = (Vec::new(), false);
    let mut not_served = None;
    for (cluster, pods) in answers.answered {
        let pods = pods.unwrap_or_else(|error| {
            not_served = Some(error);
            Vec::new()
        });
        let Some(member) = members.iter().find(|member| member.name == cluster) else { continue };
        if !is_noted && !pods.is_empty() {
            note_default_container(&pods, command);
            is_noted = true;
        }
        for pod in pods {
            sources.extend(containers(&pod, command).into_iter().map(|container| Source {
                member,
                namespace: &namespace,
                pod: pod.name_any(),
                container,
            }));
        }
    }
    answers.silent.print();
    let verdict = answers.silent.verdict(members.len(), false, command.strict);
    if sources.is_empty() {
        verdict?;
        if let Some(error) = not_served {
            return Err(error);
        }
        bail!("{}", not_found(command, &namespace));
    }
    print_logs(&sources, command).await?;
    verdict
}

/// Error if no member that was asked has a pod. Of one named pod it has kubectl's words.
fn not_found(command: &Command, namespace: &str) -> String {
    let remedy = format!("  try: ironclad get pods -n {namespace} -s members");
    let named = command.what.as_deref().filter(|_| command.selector.is_none());
    let pod =
        named.and_then(|what| what.split_once('/').map_or(Some(what), |(kind, name)| is_pod(kind).then_some(name)));
    if let Some(pod) = pod {
        let whose = match command.clusters.is_empty() {
            true => "in any member".to_owned(),
            false => format!("in {}", command.clusters.join(", ")),
        };
        return format!(
            "Error from server (NotFound): pods {pod:?} not found {whose}, namespace {namespace}\n{remedy}"
        );
    }
    let what = named.or(command.selector.as_deref()).unwrap_or_default();
    format!("no member has a pod for {what} in namespace {namespace}\n{remedy}")
}

/// True if the word names pods.
fn is_pod(kind: &str) -> bool {
    matches!(kind, "pod" | "pods" | "po")
}

/// Finds the pods in one member. The inner error says that it does not serve the type.
async fn find(client: &Client, command: &Command, namespace: &str) -> anyhow::Result<Result<Vec<Pod>, anyhow::Error>> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let labels = match (&command.selector, command.what.as_deref().and_then(|what| what.split_once('/'))) {
        (Some(selector), _) => selector.clone(),
        (None, Some((kind, name))) if !is_pod(kind) => {
            let resource = match Resources::of(client).await?.find(kind) {
                Ok(resource) => resource,
                Err(error) => return Ok(Err(error)),
            };
            match selector_of(client, namespace, &resource, name).await? {
                Some(selector) => selector,
                None => return Ok(Ok(Vec::new())),
            }
        }
        (None, named) => {
            let name = named.map_or(command.what.as_deref().unwrap_or_default(), |(_, name)| name);
            let pod = api.get_opt(name).await.map_err(|e| anyhow::anyhow!(answer(&e)))?;
            return Ok(Ok(pod.into_iter().collect()));
        }
    };
    let found = pages::all(&api, ListParams::default().labels(&labels)).await;
    found.map(Ok).map_err(|e| anyhow::anyhow!(answer(&e)))
}

/// Label selector of a workload or a Service; `None` if the member does not have it.
async fn selector_of(
    client: &Client,
    namespace: &str,
    resource: &Resource,
    name: &str,
) -> anyhow::Result<Option<String>> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource.api);
    let Some(object) = api.get_opt(name).await.map_err(|e| anyhow::anyhow!(answer(&e)))? else { return Ok(None) };
    let selector = pod_selector(&object.data).map(Some);
    selector.with_context(|| format!("{}/{name} selects no pods", resource.api.plural))
}

/// The pod selector of a workload (`matchLabels` and `matchExpressions`) or of a Service (labels), as a list takes it;
/// `None` if it selects no pods.
pub(crate) fn pod_selector(object: &Value) -> Option<String> {
    let selector = object.pointer("/spec/selector")?;
    let selector = match ["matchLabels", "matchExpressions"].iter().any(|key| selector.get(*key).is_some()) {
        true => LabelSelector::from_object(selector).ok()??,
        false => LabelSelector::from_labels(selector.as_object()?),
    };
    (!selector.is_empty()).then(|| selector.to_string())
}

/// True if the pod runs, or has run.
fn is_started(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase.is_some_and(|phase| phase != "Pending")
}

/// Containers of a pod whose logs are printed.
fn containers(pod: &Pod, command: &Command) -> Vec<String> {
    let spec = pod.spec.as_ref();
    let plain = || spec.into_iter().flat_map(|spec| &spec.containers).map(|c| c.name.clone());
    if let Some(name) = &command.container {
        return vec![name.clone()];
    }
    if command.all_containers {
        let before = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten()).map(|c| c.name.clone());
        let debugging =
            spec.into_iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten()).map(|c| c.name.clone());
        return before.chain(plain()).chain(debugging).collect();
    }
    default_container(pod).into_iter().collect()
}

/// The container whose log is meant if none is named.
pub(crate) fn default_container(pod: &Pod) -> Option<String> {
    let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let named = pod.annotations().get(DEFAULT_CONTAINER);
    let chosen = containers.iter().find(|container| Some(&container.name) == named).or_else(|| containers.first());
    chosen.map(|container| container.name.clone())
}

/// Prints the container that was chosen in a pod with several, as kubectl does.
fn note_default_container(pods: &[Pod], command: &Command) {
    let Some(pod) = pods.iter().find(|pod| pod.spec.as_ref().is_some_and(|spec| spec.containers.len() > 1)) else {
        return;
    };
    if let ([taken], None, false) = (containers(pod, command).as_slice(), &command.container, command.all_containers) {
        let all: Vec<&str> = pod.spec.iter().flat_map(|spec| &spec.containers).map(|c| c.name.as_str()).collect();
        print::note(&format!("Defaulted container {taken:?} out of: {}", all.join(", ")));
    }
}

/// Parameters of a log request; `pods` is the number of pods that are followed.
fn parameters(command: &Command, container: &str, pods: usize) -> LogParams {
    let tail = match command.tail {
        Some(lines) => Some(lines).filter(|lines| *lines >= 0),
        None => (pods > 1 || command.selector.is_some()).then_some(TAIL_OF_SEVERAL),
    };
    LogParams {
        container: Some(container.to_owned()),
        follow: command.follow,
        previous: command.previous,
        timestamps: command.timestamps,
        tail_lines: tail,
        since_seconds: command.since.map(|since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX)),
        since_time: command.since_time,
        limit_bytes: command.limit_bytes,
        ..LogParams::default()
    }
}

async fn print_logs(sources: &[Source<'_>], command: &Command) -> anyhow::Result<()> {
    if command.follow && sources.len() > command.max_log_requests {
        return Err(Misused(format!(
            "you are attempting to follow {} log streams, but maximum allowed concurrency is {}\n  try: --max-log-requests {}",
            sources.len(),
            command.max_log_requests,
            sources.len(),
        ))
        .into());
    }
    let pods: BTreeSet<(&str, &str)> = sources.iter().map(|s| (s.member.name.as_str(), s.pod.as_str())).collect();
    let (pods, several) = (pods.len(), sources.len() > 1);
    // A container's lines stay together, and its request begins when those before it are printed; followed containers
    // are printed as lines come.
    if command.follow {
        let mut streams = Vec::new();
        for source in sources {
            match source.open(command, pods).await {
                Ok(log) => streams.push(Box::pin(lines(log).map(move |line| (source, line)))),
                Err(why) => source.fail(&why, command)?,
            }
        }
        let mut lines = stream::select_all(streams);
        while let Some((source, line)) = lines.next().await {
            source.print(line, several, command)?;
        }
        return Ok(());
    }
    for source in sources {
        match source.open(command, pods).await {
            Ok(log) => {
                let mut lines = Box::pin(lines(log));
                while let Some(line) = lines.next().await {
                    source.print(line, several, command)?;
                }
            }
            Err(why) => source.fail(&why, command)?,
        }
    }
    Ok(())
}

/// The lines of a log, each with its line break. A log is bytes: what is not UTF-8 is passed on as it is.
fn lines(log: impl AsyncBufRead + Unpin) -> impl futures::Stream<Item = std::io::Result<Vec<u8>>> {
    stream::unfold(Some(log), async |log| {
        let (mut log, mut line) = (log?, Vec::new());
        match log.read_until(b'\n', &mut line).await {
            Ok(0) => None,
            Ok(_) => {
                if !line.ends_with(b"\n") {
                    line.push(b'\n');
                }
                Some((Ok(line), Some(log)))
            }
            Err(error) => Some((Err(error), None)),
        }
    })
}

impl Source<'_> {
    async fn open(&self, command: &Command, pods: usize) -> Result<impl AsyncBufRead + Unpin, String> {
        let api: Api<Pod> = Api::namespaced(self.member.client()?, self.namespace);
        let log = api.log_stream(&self.pod, &parameters(command, &self.container, pods)).await;
        log.map(Box::pin).map_err(|error| answer(&error))
    }

    /// Prints a line of this container, or reports that its log broke off.
    fn print(&self, line: std::io::Result<Vec<u8>>, several: bool, command: &Command) -> anyhow::Result<()> {
        let line = match line {
            Ok(line) => line,
            Err(error) => return self.fail(&error.to_string(), command),
        };
        if command.prefix || command.all_pods || several {
            let prefix = format!("[{}/{}/{}] ", self.member.name, self.pod, self.container);
            return print::log(&[prefix.as_bytes(), &line].concat());
        }
        print::log(&line)
    }

    /// An error of this container, which `--ignore-errors` makes a note.
    fn fail(&self, why: &str, command: &Command) -> anyhow::Result<()> {
        let what =
            format!("the log of container {} of pod {} in member {}", self.container, self.pod, self.member.name);
        if !command.ignore_errors {
            bail!("{what} can't be read\n  because {why}");
        }
        print::note(&format!("{what} can't be read: {}", print::line(why)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::json;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        command: Command,
    }

    fn command(words: &str) -> Result<Command, String> {
        let line = Line::try_parse_from(std::iter::once("logs").chain(words.split(' ')));
        line.map(|line| line.command).map_err(|error| error.to_string())
    }

    #[test]
    fn pods_that_wait_for_their_start_are_waited_for() {
        for (phase, want) in [(Some("Running"), true), (Some("Failed"), true), (Some("Pending"), false), (None, false)]
        {
            let pod: Pod = serde_json::from_value(json!({"metadata": {}, "status": {"phase": phase}})).unwrap();
            assert_eq!(is_started(&pod), want, "{phase:?}");
        }
        let timed = command("deploy/web --pod-running-timeout 1m --all-pods").unwrap();
        assert_eq!(timed.pod_running_timeout, Some(Duration::from_secs(60)));
    }

    #[test]
    fn what_no_member_has_is_named() {
        for (words, want) in [
            ("web-1", "Error from server (NotFound): pods \"web-1\" not found in any member, namespace shop"),
            ("pod/web-1 -C a,b", "Error from server (NotFound): pods \"web-1\" not found in a, b, namespace shop"),
            ("deploy/web", "no member has a pod for deploy/web in namespace shop"),
            ("-l app=web", "no member has a pod for app=web in namespace shop"),
        ] {
            let told = not_found(&command(words).unwrap(), "shop");
            assert_eq!(told.lines().next(), Some(want), "{words}");
        }
    }

    #[test]
    fn flags_become_parameters_of_the_request() {
        let of = |words: &str, pods| {
            let asked = parameters(&command(words).unwrap(), "c", pods);
            let mut query = Vec::new();
            query.extend(asked.follow.then(|| "follow".to_owned()));
            query.extend(asked.previous.then(|| "previous".to_owned()));
            query.extend(asked.timestamps.then(|| "timestamps".to_owned()));
            query.extend(asked.tail_lines.map(|lines| format!("tail {lines}")));
            query.extend(asked.since_seconds.map(|seconds| format!("since {seconds} s")));
            query.extend(asked.since_time.map(|time| format!("since {time}")));
            query.extend(asked.limit_bytes.map(|bytes| format!("{bytes} bytes")));
            query.join(", ")
        };
        for (words, pods, want) in [
            ("web", 1, ""),
            ("deploy/web", 3, "tail 10"),
            ("deploy/web --tail -1", 3, ""),
            ("deploy/web --tail 0", 3, "tail 0"),
            ("-l app=web", 1, "tail 10"),
            ("-l app=web --tail 3", 2, "tail 3"),
            ("web -f -p --timestamps", 1, "follow, previous, timestamps"),
            ("web --since 5m", 1, "since 300 s"),
            ("web --since-time 2026-01-31T08:00:00Z", 1, "since 2026-01-31T08:00:00Z"),
            ("web --since-time 2026-01-31T09:00:00+01:00", 1, "since 2026-01-31T08:00:00Z"),
            ("web --limit-bytes 100", 1, "100 bytes"),
        ] {
            assert_eq!(of(words, pods), want, "{words}");
        }
        for bad in [
            "web --since 5m --since-time 2026-01-31T08:00:00Z",
            "web --since-time yesterday",
            "web --limit-bytes 0",
            "web -c a --all-containers",
            "web -l app=web",
        ] {
            assert!(command(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn containers_are_chosen_like_kubectl() {
        let pod = |metadata: Value| -> Pod {
            serde_json::from_value(json!({"metadata": metadata, "spec": {
                "initContainers": [{"name": "init"}], "containers": [{"name": "app"}, {"name": "proxy"}],
                "ephemeralContainers": [{"name": "debug"}],
            }}))
            .unwrap()
        };
        let (plain, named) = (pod(json!({})), pod(json!({"annotations": {DEFAULT_CONTAINER: "proxy"}})));
        let wrong = pod(json!({"annotations": {DEFAULT_CONTAINER: "gone"}}));
        for (name, words, pod, want) in [
            ("the first", "web", &plain, vec!["app"]),
            ("the default container of the annotation", "web", &named, vec!["proxy"]),
            ("the annotation names a container that does not exist", "web", &wrong, vec!["app"]),
            ("the container of the flag", "web -c debug", &named, vec!["debug"]),
            ("all", "web --all-containers", &named, vec!["init", "app", "proxy", "debug"]),
        ] {
            assert_eq!(containers(pod, &command(words).unwrap()), want, "{name}");
        }
    }

    #[test]
    fn selectors_of_workloads_and_services() {
        let tiers = json!([{"key": "tier", "operator": "In", "values": ["a", "b"]}, {"key": "old", "operator": "DoesNotExist"}]);
        for (object, want) in [
            (
                json!({"spec": {"selector": {"matchLabels": {"app": "me"}, "matchExpressions": tiers}}}),
                Some("app=me,!old,tier in (a,b)"),
            ),
            (
                json!({"spec": {"selector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}}}),
                Some("tier"),
            ),
            (json!({"spec": {"selector": {"matchExpressions": [{"key": "tier", "operator": "Is"}]}}}), None),
            (json!({"spec": {"selector": {"matchLabels": {"app": "web", "tier": "a"}}}}), Some("app=web,tier=a")),
            (json!({"spec": {"selector": {"app": "web"}}}), Some("app=web")),
            (json!({"spec": {"selector": {}}}), None),
            (json!({"spec": {}}), None),
        ] {
            assert_eq!(pod_selector(&object).as_deref(), want);
        }
    }

    #[tokio::test]
    async fn logs_are_bytes() {
        let log = futures::io::Cursor::new(b"caf\xe9\nwhole\nlast".to_vec());
        let read: Vec<Vec<u8>> = lines(log).map(Result::unwrap).collect().await;
        assert_eq!(read, [b"caf\xe9\n".to_vec(), b"whole\n".to_vec(), b"last\n".to_vec()]);
    }
}
