//! Client of one cluster's estimator (specification/scheduling.md 10.5).

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use http::uri::PathAndQuery;
use ironclad_api::work::{Component, ReplicaRequirements, ResourceBindingSpec};
use ironclad_seam::{Clock, Tasks};
use jiff::SignedDuration;
use parking_lot::Mutex;
use tonic::{Request, client::Grpc, transport::Channel};
use tonic_prost::ProstCodec;

use crate::{convert, proto, tls::ClientTls};

/// Time within which a connection to one address is made.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// First and longest wait between two rounds over the addresses.
const DIAL_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Metadata key of the object that a call is about, for logs of the server.
const OBJECT: &str = "object";

/// Workload that a call is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Such as `apps/v1`.
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

/// Call of an estimator.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// Further replicas that fit.
    Replicas(ReplicaRequirements),
    /// Complete sets of components in a namespace that fit.
    Sets(String, Vec<Component>),
    /// Replicas of the workload that have been unschedulable for longer than this.
    Unschedulable(SignedDuration),
}

/// Assumed workload: one set of these components in a namespace.
pub type Assumed = (String, Vec<Component>);

/// Estimator of one cluster.
pub trait Estimator: Send + Sync {
    /// Calls it. The caller sets the deadline.
    ///
    /// # Errors
    /// Returns the reason as text.
    fn call(&self, workload: &Workload, call: &Call, assumed: &[Assumed]) -> BoxFuture<'static, Result<i32, String>>;
}

impl Workload {
    /// Template of a binding.
    #[must_use]
    pub fn of(spec: &ResourceBindingSpec) -> Self {
        let resource = &spec.resource;
        Self {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
            namespace: resource.namespace.clone(),
            name: resource.name.clone(),
        }
    }
}

impl Call {
    /// Question about further replicas of a binding, or complete sets of its components.
    #[must_use]
    pub fn fits(spec: &ResourceBindingSpec, sets: bool) -> Self {
        if sets {
            return Self::Sets(spec.resource.namespace.clone(), spec.components.clone());
        }
        let mut needs = spec.replica_requirements.as_deref().cloned().unwrap_or_default();
        if needs.namespace.is_empty() {
            needs.namespace.clone_from(&spec.resource.namespace);
        }
        Self::Replicas(needs)
    }

    /// Name of the method.
    #[must_use]
    pub fn method(&self) -> &'static str {
        match self {
            Self::Replicas(_) => "MaxAvailableReplicas",
            Self::Sets(..) => "MaxAvailableComponentSets",
            Self::Unschedulable(_) => "GetUnschedulableReplicas",
        }
    }

    /// Name of the method in errors.
    fn in_errors(&self) -> &'static str {
        match self {
            Self::Unschedulable(_) => "UnschedulableReplicas",
            _ => self.method(),
        }
    }
}

/// Client over the network. Connections are made in the background: a call never waits for one.
pub struct Client {
    cluster: Arc<str>,
    channel: Arc<Mutex<Option<Channel>>>,
    tasks: Tasks,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.tasks.kill();
    }
}

impl Client {
    /// Client that connects to the first of these addresses (`host:port`) that answers.
    #[must_use]
    pub fn new(cluster: &str, addresses: Vec<String>, tls: ClientTls, clock: &Clock, tasks: &Tasks) -> Self {
        let channel = Arc::new(Mutex::new(None));
        let tasks = tasks.child(&format!("estimator/{cluster}"));
        let (into, name, dial_clock) = (channel.clone(), cluster.to_owned(), clock.clone());
        tasks.supervise(clock, "connect", move || {
            let (into, name, clock) = (into.clone(), name.clone(), dial_clock.clone());
            let (addresses, tls) = (addresses.clone(), tls.clone());
            async move {
                let mut wait = DIAL_AGAIN.0;
                loop {
                    for address in &addresses {
                        match dial(&tls, address).await {
                            Ok(channel) => {
                                tracing::info!(cluster = %name, %address, "connected to the estimator");
                                *into.lock() = Some(channel);
                                return;
                            }
                            Err(error) => tracing::debug!(cluster = %name, %address, %error, "no estimator"),
                        }
                    }
                    clock.sleep(wait).await;
                    wait = (wait * 2).min(DIAL_AGAIN.1);
                }
            }
        });
        Self { cluster: cluster.into(), channel, tasks }
    }

    /// True once a connection was made.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.channel.lock().is_some()
    }
}

async fn dial(tls: &ClientTls, address: &str) -> Result<Channel, String> {
    let endpoint = tls.endpoint(address).map_err(|error| chain(&error))?;
    endpoint.connect_timeout(DIAL_TIMEOUT).connect().await.map_err(|error| chain(&error))
}

/// Error with its sources; tonic's own text is only `transport error`.
fn chain(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}

impl Estimator for Client {
    fn call(&self, workload: &Workload, call: &Call, assumed: &[Assumed]) -> BoxFuture<'static, Result<i32, String>> {
        let cluster = self.cluster.to_string();
        let Some(channel) = self.channel.lock().clone() else {
            let error = format!("cluster {cluster} does not exist in estimator cache");
            return Box::pin(std::future::ready(Err(error)));
        };
        let name = call.in_errors();
        let failed = {
            let cluster = cluster.clone();
            move |status: tonic::Status| {
                format!("gRPC request cluster({cluster}) estimator error when calling {name}: {}", status.message())
            }
        };
        let object = format!("kind={}, name={}/{}", workload.kind, workload.namespace, workload.name);
        let assumed_workloads = assumed
            .iter()
            .map(|(namespace, components)| proto::AssumedWorkload {
                namespace: namespace.clone(),
                components: components.iter().map(convert::component).collect(),
            })
            .collect();
        let method = call.method();
        match call {
            Call::Replicas(needs) => {
                let request = proto::MaxAvailableReplicasRequest {
                    cluster,
                    replica_requirements: Some(convert::requirements(needs)),
                    assumed_workloads,
                };
                Box::pin(async move {
                    let answer: Result<proto::MaxAvailableReplicasResponse, _> =
                        unary(channel, method, &object, request).await;
                    answer.map(|answer| answer.max_replicas).map_err(failed)
                })
            }
            Call::Sets(namespace, components) => {
                let request = proto::MaxAvailableComponentSetsRequest {
                    cluster,
                    components: components.iter().map(convert::component).collect(),
                    namespace: namespace.clone(),
                    assumed_workloads,
                };
                Box::pin(async move {
                    let answer: Result<proto::MaxAvailableComponentSetsResponse, _> =
                        unary(channel, method, &object, request).await;
                    answer.map(|answer| answer.max_sets).map_err(failed)
                })
            }
            Call::Unschedulable(threshold) => {
                let request = proto::UnschedulableReplicasRequest {
                    cluster,
                    resource: Some(proto::ObjectReference {
                        api_version: workload.api_version.clone(),
                        kind: workload.kind.clone(),
                        namespace: workload.namespace.clone(),
                        name: workload.name.clone(),
                    }),
                    unschedulable_threshold: i64::try_from(threshold.as_nanos()).unwrap_or(i64::MAX),
                };
                Box::pin(async move {
                    let answer: Result<proto::UnschedulableReplicasResponse, _> =
                        unary(channel, method, &object, request).await;
                    answer.map(|answer| answer.unschedulable_replicas).map_err(failed)
                })
            }
        }
    }
}

async fn unary<Req, Res>(channel: Channel, method: &str, object: &str, request: Req) -> Result<Res, tonic::Status>
where
    Req: prost::Message + Send + Sync + 'static,
    Res: prost::Message + Default + Send + Sync + 'static,
{
    let path: PathAndQuery = format!("/{}/{method}", proto::SERVICE)
        .parse()
        .map_err(|error| tonic::Status::internal(format!("the path of {method} is invalid: {error}")))?;
    let mut request = Request::new(request);
    if let Ok(object) = object.parse() {
        request.metadata_mut().insert(OBJECT, object);
    }
    let mut client = Grpc::new(channel);
    client.ready().await.map_err(|error| tonic::Status::unavailable(chain(&error)))?;
    let codec: ProstCodec<Req, Res> = ProstCodec::default();
    client.unary(request, path, codec).await.map(tonic::Response::into_inner)
}
