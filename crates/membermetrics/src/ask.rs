//! Requests to the metrics APIs of members.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::Arc,
    time::Duration,
};

use futures::future::join_all;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use ironclad_fleet::ClusterName;
use ironclad_hpa::metrics::{
    Answer, Malformed, Measured, Merged, REUSE_MAX, custom, external,
    resource::{self, NodeSample, PodSample},
    reuse,
};
use ironclad_patch::selector::LabelSelector;
use ironclad_seam::Clock;
use kube::{Client, client::Body};
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use crate::{
    bucket::Bucket,
    observed::Observed,
    slots::{Kept, Slots},
};

/// Time for which the versions that a member serves are remembered, and that it serves none.
const VERSIONS_KEPT: Duration = Duration::from_secs(60);
/// Time for which a member that did not answer is not asked again.
const SILENCE_KEPT: Duration = Duration::from_secs(5);
/// Requests to one member at a time, so that a slow one leaves the others their share.
const PARALLEL_PER_MEMBER: usize = 8;
/// Different requests for pods of one member, within [`REUSE_MAX`], from which on it is asked for all of its pods.
const WIDEN_FROM: usize = 32;
const ALL_PODS_PREFIX: &str = "/apis/metrics.k8s.io/v1beta1";
/// Bytes of an error response that are read.
const ERROR_BYTES_MAX: usize = 16 * 1024;
/// Characters of a member's error that are repeated.
const ERROR_CHARS_MAX: usize = 200;
/// The most metrics that a member may list.
const RESOURCES_MAX: usize = 20_000;

/// Characters that a segment of a path, or a value of a query, need not escape.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Bounds of the requests to members.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// A member that has not answered by then is missing in the result.
    pub deadline: Duration,
    /// Requests at a time, to all members.
    pub parallel: usize,
    /// `--cluster-api-qps`: requests per second to each member; 0 for no bound.
    pub qps: f64,
    /// `--cluster-api-burst`: requests to each member that may exceed this rate.
    pub burst: u32,
    /// Largest answer.
    pub answer_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(3),
            parallel: 64,
            qps: 40.0,
            burst: 60,
            answer_bytes_max: 32 * 1024 * 1024,
        }
    }
}

/// A member that is to be asked.
#[derive(Clone)]
pub struct Member {
    pub name: ClusterName,
    /// Its client, or the reason why it can't be asked, which is its answer then.
    pub client: Result<Client, String>,
}

/// A request for custom metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomQuery {
    /// Namespace of the objects; `None` for cluster-scoped ones. Metrics of a namespace itself are asked with resource
    /// `namespaces` and without one.
    pub namespace: Option<String>,
    /// Resource and group of the objects: `pods`, `ingresses.networking.k8s.io`.
    pub resource: String,
    /// Name of the object; `None` for those that `labels` selects.
    pub name: Option<String>,
    /// Label selector of the objects.
    pub labels: Option<String>,
    /// Name of the metric.
    pub metric: String,
    /// Label selector of the metric's series.
    pub metric_labels: Option<String>,
}

/// A request for an external metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalQuery {
    /// Namespace of whoever asks.
    pub namespace: String,
    /// Name of the metric.
    pub metric: String,
    /// Label selector of the series.
    pub labels: Option<String>,
}

/// A metric that a member lists in its discovery.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricResource {
    /// `pods/http_requests`, or the name of an external metric.
    pub name: String,
    /// True for metrics of namespaced objects.
    pub namespaced: bool,
}

/// The metrics that the members list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricResources {
    /// All of them, each once.
    pub all: BTreeSet<MetricResource>,
    /// The members without an answer, and why.
    pub failed: BTreeMap<ClusterName, String>,
}

/// Asks members for metrics. Cheap to clone.
///
/// Members are asked at the same time; one that is dead, slow or answers nonsense costs its own answer only, and is
/// named in the result. An answer is used again while its measurements are as new as the source has them, and the same
/// request is not sent twice at a time.
#[derive(Clone)]
pub struct MemberMetrics(Arc<Shared>);

struct Shared {
    clock: Clock,
    options: Options,
    observed: Observed,
    parallel: Arc<Semaphore>,
    members: Mutex<BTreeMap<ClusterName, Arc<State>>>,
}

/// State of one member.
struct State {
    bucket: Mutex<Bucket>,
    parallel: Semaphore,
    /// The reason why it did not answer, and the end of the time in which it is not asked for that.
    silent: Mutex<Option<(String, Instant)>>,
    /// The different requests for pods of late.
    recent: Mutex<Recent>,
    /// Versions of a group that it serves.
    versions: Slots<Vec<String>>,
    resources: Slots<Vec<MetricResource>>,
    pods: Slots<Answer<PodSample>>,
    nodes: Slots<Answer<NodeSample>>,
    custom: Slots<Answer<custom::Sample>>,
    external: Slots<Answer<external::Sample>>,
}

/// The different requests within a span of time.
struct Recent {
    since: Instant,
    requests: BTreeSet<String>,
    /// There were many in the span before.
    was_busy: bool,
}

impl Recent {
    /// Counts a request. Returns true if there are many different ones.
    fn is_busy(&mut self, request: &str, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= REUSE_MAX {
            self.was_busy = self.requests.len() >= WIDEN_FROM;
            self.requests.clear();
            self.since = now;
        }
        if self.requests.len() < WIDEN_FROM {
            self.requests.insert(request.to_owned());
        }
        self.was_busy || self.requests.len() >= WIDEN_FROM
    }
}

/// Failure of a request to a member.
enum Failed {
    /// It does not serve the path, or has no such object.
    NotFound,
    /// It did not answer at all.
    Silent(String),
    Refused(String),
    /// Its answer can't be used.
    Unreadable(String),
    /// It was not asked: it has had all its requests.
    Throttled(String),
    /// It was not asked: it did not answer a moment ago.
    LeftAlone(String),
}

impl Failed {
    /// The reason, where the member is expected to have an answer.
    fn why(self) -> Option<String> {
        match self {
            Self::NotFound => None,
            Self::Silent(why)
            | Self::Refused(why)
            | Self::Unreadable(why)
            | Self::Throttled(why)
            | Self::LeftAlone(why) => Some(why),
        }
    }
}

/// The value of a label for an outcome.
fn result<T>(outcome: &Result<T, Failed>) -> &'static str {
    match outcome {
        Ok(_) => "success",
        Err(Failed::NotFound) => "not_found",
        Err(Failed::Silent(_)) => "no_answer",
        Err(Failed::Refused(_)) => "refused",
        Err(Failed::Unreadable(_)) => "unreadable",
        Err(Failed::Throttled(_)) => "throttled",
        Err(Failed::LeftAlone(_)) => "left_alone",
    }
}

impl MemberMetrics {
    /// Asks within these bounds.
    #[must_use]
    pub fn new(clock: Clock, options: Options) -> Self {
        let parallel = Arc::new(Semaphore::new(options.parallel.max(1)));
        Self(Arc::new(Shared { clock, options, observed: Observed::default(), parallel, members: Mutex::default() }))
    }

    /// Metrics of the requests to members.
    #[must_use]
    pub fn observed(&self) -> Observed {
        self.0.observed.clone()
    }

    /// Forgets the state of a member that was removed, or whose connection changed.
    pub fn forget(&self, name: &ClusterName) {
        self.0.members.lock().remove(name);
    }

    /// Returns the usage of pods in a namespace, or in all, with these labels.
    pub async fn pods(&self, members: &[Member], namespace: Option<&str>, labels: Option<&str>) -> Merged<PodSample> {
        self.each(members, |asked| asked.pods(namespace.map(str::to_owned), labels.map(str::to_owned))).await
    }

    /// Returns the usage of the pods of this name: one for each member that has it.
    pub async fn pod(&self, members: &[Member], namespace: &str, name: &str) -> Merged<PodSample> {
        let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{}/pods/{}", encoded(namespace), encoded(name));
        self.each(members, |asked| {
            let (path, namespace, name) = (path.clone(), namespace.to_owned(), name.to_owned());
            asked.get(|state| &state.pods, path, move |body| Ok(one(resource::read_pod(body, &namespace, &name)?)))
        })
        .await
    }

    /// Returns the usage of nodes with these labels.
    pub async fn nodes(&self, members: &[Member], labels: Option<&str>) -> Merged<NodeSample> {
        let path = with_query("/apis/metrics.k8s.io/v1beta1/nodes".to_owned(), &[("labelSelector", labels)]);
        self.each(members, |asked| asked.resource_metrics(|state| &state.nodes, path.clone(), resource::read_nodes))
            .await
    }

    /// Returns the usage of the nodes of this name: one for each member that has it.
    pub async fn node(&self, members: &[Member], name: &str) -> Merged<NodeSample> {
        let path = format!("/apis/metrics.k8s.io/v1beta1/nodes/{}", encoded(name));
        self.each(members, |asked| {
            let (path, name) = (path.clone(), name.to_owned());
            asked.get(|state| &state.nodes, path, move |body| Ok(one(resource::read_node(body, &name)?)))
        })
        .await
    }

    /// Returns the values of a custom metric, each in the newest version that its member serves. A member without the
    /// API, or without the metric, has none.
    pub async fn custom(&self, members: &[Member], query: &CustomQuery) -> Merged<custom::Sample> {
        self.each(members, |asked| {
            let query = query.clone();
            async move {
                let versions = asked.versions(custom::GROUP).await?;
                let Some(version) = custom::Version::newest(versions.iter().map(String::as_str)) else {
                    return Ok(Arc::default());
                };
                let path = query.path(version);
                let (namespace, metric) = (query.namespace, query.metric);
                let read = move |body: &[u8]| custom::read(body, namespace.as_deref(), &metric);
                asked.get(|state| &state.custom, path, read).await
            }
        })
        .await
    }

    /// Returns the series of an external metric. A member without the API, or without the metric, has none.
    pub async fn external(&self, members: &[Member], query: &ExternalQuery) -> Merged<external::Sample> {
        self.each(members, |asked| {
            let query = query.clone();
            async move {
                let versions = asked.versions(external::GROUP).await?;
                if !versions.iter().any(|version| version == external::VERSION) {
                    return Ok(Arc::default());
                }
                let path = format!(
                    "/apis/external.metrics.k8s.io/v1beta1/namespaces/{}/{}",
                    encoded(&query.namespace),
                    encoded(&query.metric)
                );
                let path = with_query(path, &[("labelSelector", query.labels.as_deref())]);
                let metric = query.metric;
                asked.get(|state| &state.external, path, move |body| external::read(body, &metric)).await
            }
        })
        .await
    }

    /// Returns the metrics that members list in their group `custom.metrics.k8s.io`.
    pub async fn custom_metrics(&self, members: &[Member]) -> MetricResources {
        self.resources(members, custom::GROUP, |versions| {
            custom::Version::newest(versions.iter().map(String::as_str)).map(custom::Version::as_str)
        })
        .await
    }

    /// Returns the metrics that members list in their group `external.metrics.k8s.io`.
    pub async fn external_metrics(&self, members: &[Member]) -> MetricResources {
        self.resources(members, external::GROUP, |versions| {
            versions.iter().any(|version| version == external::VERSION).then_some(external::VERSION)
        })
        .await
    }

    async fn resources(
        &self,
        members: &[Member],
        group: &'static str,
        choose: fn(&[String]) -> Option<&'static str>,
    ) -> MetricResources {
        let answers = self.ask(members, |asked| async move {
            let versions = asked.versions(group).await?;
            let Some(version) = choose(&versions) else { return Ok(Arc::default()) };
            asked.resources(format!("/apis/{group}/{version}")).await
        });
        let mut found = MetricResources::default();
        for (name, answer) in answers.await {
            match answer {
                Ok(resources) => found.all.extend(resources.iter().cloned()),
                Err(why) => {
                    found.failed.insert(name, why);
                }
            }
        }
        found
    }

    async fn each<T, F>(&self, members: &[Member], ask: impl Fn(Asked) -> F) -> Merged<T>
    where
        F: Future<Output = Result<Arc<Answer<T>>, String>>,
    {
        Merged::of(self.ask(members, ask).await.into_iter().map(|(name, answer)| (name.0, answer)))
    }

    /// Asks all members at the same time.
    async fn ask<T, F>(&self, members: &[Member], ask: impl Fn(Asked) -> F) -> Vec<(ClusterName, Result<T, String>)>
    where
        F: Future<Output = Result<T, String>>,
    {
        let asks = members.iter().map(|member| {
            let asked = member
                .client
                .clone()
                .map(|client| ask(Asked { shared: self.0.clone(), state: self.0.state(&member.name), client }));
            async move {
                let answer = match asked {
                    Ok(answer) => answer.await,
                    Err(why) => Err(why),
                };
                (member.name.clone(), answer)
            }
        });
        join_all(asks).await
    }
}

impl Shared {
    fn state(&self, name: &ClusterName) -> Arc<State> {
        let mut members = self.members.lock();
        let new = || {
            let bucket = Bucket::new(self.options.qps, self.options.burst, self.clock.mono());
            Arc::new(State {
                bucket: Mutex::new(bucket),
                parallel: Semaphore::new(PARALLEL_PER_MEMBER),
                silent: Mutex::default(),
                recent: Mutex::new(Recent { since: self.clock.mono(), requests: BTreeSet::new(), was_busy: false }),
                versions: Slots::default(),
                resources: Slots::default(),
                pods: Slots::default(),
                nodes: Slots::default(),
                custom: Slots::default(),
                external: Slots::default(),
            })
        };
        members.entry(name.clone()).or_insert_with(new).clone()
    }
}

/// One member that is asked.
#[derive(Clone)]
struct Asked {
    shared: Arc<Shared>,
    state: Arc<State>,
    client: Client,
}

impl Asked {
    /// Asks for the usage of pods. While very different pods are asked for, the member is asked for all of them at
    /// once: an answer is used again by everybody who asks within its window.
    async fn pods(self, namespace: Option<String>, labels: Option<String>) -> Result<Arc<Answer<PodSample>>, String> {
        let path = match &namespace {
            Some(namespace) => format!("{ALL_PODS_PREFIX}/namespaces/{}/pods", encoded(namespace)),
            None => format!("{ALL_PODS_PREFIX}/pods"),
        };
        let path = with_query(path, &[("labelSelector", labels.as_deref())]);
        let selector = LabelSelector::parse(labels.as_deref().unwrap_or_default());
        if let Ok(selector) = selector
            && self.state.recent.lock().is_busy(&path, self.shared.clock.mono())
        {
            let all = format!("{ALL_PODS_PREFIX}/pods");
            let read = |body: &[u8]| resource::read_pods(body, None);
            let all = self.clone().resource_metrics(|state| &state.pods, all, read).await?;
            // A source that gives no labels can't be narrowed here.
            if all.items.iter().all(|pod| !pod.labels.is_empty()) {
                let matches = |pod: &&Arc<PodSample>| {
                    namespace.as_ref().is_none_or(|namespace| *namespace == pod.namespace)
                        && selector.matches(|key| pod.labels.get(key).map(String::as_str))
                };
                let items = all.items.iter().filter(matches).cloned().collect();
                return Ok(Arc::new(Answer { items, refused: all.refused.clone() }));
            }
        }
        let read = move |body: &[u8]| resource::read_pods(body, namespace.as_deref());
        self.resource_metrics(|state| &state.pods, path, read).await
    }

    /// Asks for objects of `metrics.k8s.io`. A member that does not serve the group has unmeasured objects.
    async fn resource_metrics<T>(
        self,
        slots: fn(&State) -> &Slots<Answer<T>>,
        path: String,
        read: impl FnOnce(&[u8]) -> Result<Answer<T>, Malformed> + Send + 'static,
    ) -> Result<Arc<Answer<T>>, String>
    where
        T: Measured + Send + Sync + 'static,
    {
        let none = || Err(format!("it serves no {}", resource::GROUP));
        self.answer(slots, path, read, none).await
    }

    /// Asks for objects that a member may lack.
    async fn get<T>(
        self,
        slots: fn(&State) -> &Slots<Answer<T>>,
        path: String,
        read: impl FnOnce(&[u8]) -> Result<Answer<T>, Malformed> + Send + 'static,
    ) -> Result<Arc<Answer<T>>, String>
    where
        T: Measured + Send + Sync + 'static,
    {
        self.answer(slots, path, read, || Ok(Arc::default())).await
    }

    async fn answer<T>(
        self,
        slots: fn(&State) -> &Slots<Answer<T>>,
        path: String,
        read: impl FnOnce(&[u8]) -> Result<Answer<T>, Malformed> + Send + 'static,
        not_found: fn() -> Result<Arc<Answer<T>>, String>,
    ) -> Result<Arc<Answer<T>>, String>
    where
        T: Measured + Send + Sync + 'static,
    {
        let (state, clock, observed) = (self.state.clone(), self.shared.clock.clone(), self.shared.observed.clone());
        let key = path.clone();
        let ask = move || async move {
            let body = self.request(&path).await;
            let clock = &self.shared.clock;
            let answer = body.and_then(|body| read(&body).map_err(|e| Failed::Unreadable(e.to_string())));
            self.shared.observed.requested(result(&answer));
            match answer {
                Ok(answer) => {
                    let reuse = reuse(&answer, clock.wall());
                    let until = (!reuse.is_zero()).then(|| clock.mono() + reuse);
                    Kept { answer: Ok(Arc::new(answer)), until }
                }
                Err(failed) => Kept { answer: failed.why().map_or_else(not_found, Err), until: None },
            }
        };
        let (answer, origin) = slots(&state).get(&key, clock.mono(), ask).await;
        observed.answered(origin);
        answer
    }

    /// The versions of a group that the member serves; none if it does not have the group.
    async fn versions(&self, group: &'static str) -> Result<Arc<Vec<String>>, String> {
        #[derive(Deserialize)]
        struct ApiGroup {
            versions: Option<Vec<Version>>,
        }
        #[derive(Deserialize)]
        struct Version {
            version: String,
        }
        let read = |body: &[u8]| -> Result<Vec<String>, serde_json::Error> {
            let group: ApiGroup = serde_json::from_slice(body)?;
            Ok(group.versions.unwrap_or_default().into_iter().map(|version| version.version).collect())
        };
        self.discovered(|state| &state.versions, format!("/apis/{group}"), read).await
    }

    /// The resources of a group and version.
    async fn resources(&self, path: String) -> Result<Arc<Vec<MetricResource>>, String> {
        #[derive(Deserialize)]
        struct List {
            resources: Option<Vec<Resource>>,
        }
        #[derive(Deserialize)]
        struct Resource {
            name: String,
            #[serde(default)]
            namespaced: bool,
        }
        let read = |body: &[u8]| -> Result<Vec<MetricResource>, serde_json::Error> {
            let list: List = serde_json::from_slice(body)?;
            let all = list.resources.unwrap_or_default().into_iter().take(RESOURCES_MAX);
            Ok(all.map(|r| MetricResource { name: r.name, namespaced: r.namespaced }).collect())
        };
        self.discovered(|state| &state.resources, path, read).await
    }

    async fn discovered<T: Default + Send + Sync + 'static>(
        &self,
        slots: fn(&State) -> &Slots<T>,
        path: String,
        read: fn(&[u8]) -> Result<T, serde_json::Error>,
    ) -> Result<Arc<T>, String> {
        let (asked, key) = (self.clone(), path.clone());
        let ask = move || async move {
            let until = Some(asked.shared.clock.mono() + VERSIONS_KEPT);
            let unreadable = |e| Failed::Unreadable(format!("its answer to {path} can't be read: {e}"));
            let found = asked.request(&path).await.and_then(|body| read(&body).map_err(unreadable));
            asked.shared.observed.requested(result(&found));
            match found {
                Ok(found) => Kept { answer: Ok(Arc::new(found)), until },
                Err(failed) => match failed.why() {
                    None => Kept { answer: Ok(Arc::default()), until },
                    Some(why) => Kept { answer: Err(why), until: None },
                },
            }
        };
        let (answer, origin) = slots(&self.state).get(&key, self.shared.clock.mono(), ask).await;
        self.shared.observed.answered(origin);
        answer
    }

    /// Sends a request, in its turn, and returns the body of the answer.
    async fn request(&self, path: &str) -> Result<Vec<u8>, Failed> {
        let (clock, options) = (&self.shared.clock, &self.shared.options);
        if let Some((why, until)) = &*self.state.silent.lock()
            && clock.mono() < *until
        {
            return Err(Failed::LeftAlone(why.clone()));
        }
        let wait = self.state.bucket.lock().take(clock.mono(), options.deadline);
        let Ok(wait) = wait else {
            let why = format!("more than {} requests per second are asked of it (--cluster-api-qps)", options.qps);
            return Err(Failed::Throttled(why));
        };
        if !wait.is_zero() {
            clock.sleep(wait).await;
        }
        let sent = async {
            let _of_member = self.state.parallel.acquire().await;
            let _of_all = self.shared.parallel.acquire().await;
            self.send(path).await
        };
        let began = clock.mono();
        let answer = match timeout(options.deadline, sent).await {
            Ok(answer) => answer,
            Err(_) => Err(Failed::Silent(format!("no answer within {:?}", options.deadline))),
        };
        self.shared.observed.took(clock.mono().saturating_duration_since(began));
        *self.state.silent.lock() = match &answer {
            Err(Failed::Silent(why)) => Some((why.clone(), clock.mono() + SILENCE_KEPT)),
            _ => None,
        };
        answer
    }

    async fn send(&self, path: &str) -> Result<Vec<u8>, Failed> {
        let request = Request::get(path).header("accept", "application/json").body(Body::empty());
        let request = request.map_err(|e| Failed::Refused(e.to_string()))?;
        let response = self.client.send(request).await.map_err(|e| Failed::Silent(innermost(&e)))?;
        let status = response.status();
        let bound = if status.is_success() { self.shared.options.answer_bytes_max } else { ERROR_BYTES_MAX };
        let body = Limited::new(response.into_body(), bound).collect().await;
        if status == StatusCode::NOT_FOUND {
            return Err(Failed::NotFound);
        }
        let body = match body {
            Ok(body) => body.to_bytes(),
            Err(e) if e.is::<http_body_util::LengthLimitError>() => {
                return Err(Failed::Unreadable(format!("its answer is larger than {bound} bytes")));
            }
            Err(e) => return Err(Failed::Silent(format!("its answer ended early: {e}"))),
        };
        if !status.is_success() {
            return Err(Failed::Refused(refusal(status, &body)));
        }
        Ok(body.to_vec())
    }
}

impl CustomQuery {
    fn path(&self, version: custom::Version) -> String {
        let group = format!("/apis/{}/{}", custom::GROUP, version.as_str());
        let name = self.name.as_deref().map_or_else(|| "*".to_owned(), encoded);
        let path = match (&self.namespace, &*self.resource) {
            // The metrics of a namespace itself are at a place of their own.
            (None, "namespaces") => format!("{group}/namespaces/{name}/metrics/{}", encoded(&self.metric)),
            (Some(namespace), resource) => format!(
                "{group}/namespaces/{}/{}/{name}/{}",
                encoded(namespace),
                encoded(resource),
                encoded(&self.metric)
            ),
            (None, resource) => format!("{group}/{}/{name}/{}", encoded(resource), encoded(&self.metric)),
        };
        with_query(
            path,
            &[("labelSelector", self.labels.as_deref()), ("metricLabelSelector", self.metric_labels.as_deref())],
        )
    }
}

/// An answer of one item.
fn one<T>(item: T) -> Answer<T> {
    Answer { items: vec![Arc::new(item)], ..Answer::default() }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

fn with_query(path: String, parameters: &[(&str, Option<&str>)]) -> String {
    let given = parameters.iter().filter_map(|(key, value)| value.filter(|v| !v.is_empty()).map(|v| (key, v)));
    let query: Vec<String> = given.map(|(key, value)| format!("{key}={}", encoded(value))).collect();
    if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
}

/// An error response in one line.
fn refusal(status: StatusCode, body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Status {
        message: String,
    }
    let message = serde_json::from_slice::<Status>(body).map(|status| status.message).unwrap_or_default();
    let line: String = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().take(ERROR_CHARS_MAX).collect();
    if line.is_empty() { format!("it answered {status}") } else { format!("it answered {}: {line}", status.as_u16()) }
}

/// The innermost cause, which says what happened.
fn innermost(error: &kube::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
