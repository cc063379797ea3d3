//! Server's side of the protocol (specification/scheduling.md 10.5, 10.6): answers from the caches of one member.

use std::{
    future::{Ready, ready},
    sync::Arc,
};

use ironclad_scheduling::estimator::{Question, SetPart, Wanted};
use ironclad_seam::Clock;
use jiff::SignedDuration;
use tonic::{
    Code, Request, Response, Status,
    body::Body,
    server::{Grpc, UnaryService},
};
use tonic_prost::ProstCodec;

use crate::{
    Member, convert,
    metrics::{CallMetrics, Step},
    proto,
};

/// Methods of the protocol.
const REPLICAS: &str = "MaxAvailableReplicas";
const SETS: &str = "MaxAvailableComponentSets";
const UNSCHEDULABLE: &str = "GetUnschedulableReplicas";

/// The estimator of one member. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    cluster: Arc<str>,
    member: Arc<Member>,
    clock: Clock,
    metrics: CallMetrics,
}

impl Service {
    /// Service for the member of this name, whose caches run.
    #[must_use]
    pub fn new(cluster: &str, member: Arc<Member>, clock: Clock, metrics: CallMetrics) -> Self {
        Self { cluster: cluster.into(), member, clock, metrics }
    }

    /// Answers a call, and records that.
    fn called<T>(&self, method: &'static str, answer: impl FnOnce() -> Result<T, Status>) -> Result<T, Status> {
        let began = self.clock.mono();
        let answer = answer();
        self.metrics.called(method, answer.is_ok(), self.clock.mono().saturating_duration_since(began));
        answer
    }

    fn check(&self, cluster: &str) -> Result<(), Status> {
        if *self.cluster == *cluster {
            return Ok(());
        }
        Err(Status::unknown(format!("cluster name does not match, got: {cluster}, desire: {}", self.cluster)))
    }

    fn replicas(
        &self,
        request: &proto::MaxAvailableReplicasRequest,
    ) -> Result<proto::MaxAvailableReplicasResponse, Status> {
        self.check(&request.cluster)?;
        let needs = request.replica_requirements.as_ref().map(convert::read_requirements).transpose();
        let needs = needs.map_err(|error| invalid(&error))?;
        let namespace = needs.as_ref().map_or("", |needs| needs.namespace.as_str());
        let question = Question::replicas(namespace, needs.as_ref());
        let fits = self.fits(&question, &request.assumed_workloads)?;
        Ok(proto::MaxAvailableReplicasResponse { max_replicas: fits })
    }

    fn sets(
        &self,
        request: &proto::MaxAvailableComponentSetsRequest,
    ) -> Result<proto::MaxAvailableComponentSetsResponse, Status> {
        self.check(&request.cluster)?;
        let components: Result<Vec<_>, _> = request.components.iter().map(convert::read_component).collect();
        let components = components.map_err(|error| invalid(&error))?;
        let fits = self.fits(&Question::sets(&request.namespace, &components), &request.assumed_workloads)?;
        Ok(proto::MaxAvailableComponentSetsResponse { max_sets: fits })
    }

    fn unschedulable(
        &self,
        request: &proto::UnschedulableReplicasRequest,
    ) -> Result<proto::UnschedulableReplicasResponse, Status> {
        self.check(&request.cluster)?;
        let resource = request.resource.clone().unwrap_or_default();
        if resource.kind != "Deployment" {
            let name = format!("{}/{}", resource.namespace, resource.name);
            return Err(Status::unknown(format!("kind({}) of workload({name}) is not supported", resource.kind)));
        }
        let threshold = SignedDuration::from_nanos(request.unschedulable_threshold);
        let now = self.clock.wall();
        let began = self.clock.mono();
        let count = self.member.unschedulable(&resource.namespace, &resource.name, threshold, now);
        let took = self.clock.mono().saturating_duration_since(began);
        self.metrics.step(UNSCHEDULABLE, Step::Unschedulable, count.is_some(), took);
        Ok(proto::UnschedulableReplicasResponse { unschedulable_replicas: count.ok_or_else(starting)? })
    }

    fn fits(&self, question: &Question, assumed: &[proto::AssumedWorkload]) -> Result<i32, Status> {
        let parts = |workload: &proto::AssumedWorkload| {
            let parts: Result<Vec<SetPart>, _> = workload
                .components
                .iter()
                .map(|component| convert::read_component(component).map(|component| SetPart::of(&component)))
                .collect();
            parts.map(|parts| (workload.namespace.clone(), parts))
        };
        let assumed: Result<Vec<_>, _> = assumed.iter().map(parts).collect();
        let assumed = assumed.map_err(|error| invalid(&error))?;
        let (method, step) = match question.wanted {
            Wanted::Replicas(_) => (REPLICAS, Step::Replicas),
            Wanted::Sets(_) => (SETS, Step::Sets),
        };
        let (began, mut last) = (self.clock.mono(), self.clock.mono());
        let fits = self.member.fits_beside(question, &assumed, &mut |part| {
            let now = self.clock.mono();
            self.metrics.plugin(step, part, now.saturating_duration_since(last));
            last = now;
        });
        let took = self.clock.mono().saturating_duration_since(began);
        self.metrics.step(method, step, fits.is_some(), took);
        fits.map(|fits| i32::try_from(fits).unwrap_or(i32::MAX)).ok_or_else(starting)
    }
}

fn starting() -> Status {
    Status::unavailable("the nodes and pods of the member are not listed yet; ask again later")
}

fn invalid(error: &dyn std::error::Error) -> Status {
    let source = error.source().map_or_else(String::new, |source| format!(": {source}"));
    Status::new(Code::InvalidArgument, format!("{error}{source}"))
}

/// A method as tonic calls it.
struct Method<F>(F);

impl<F, Req, Res> UnaryService<Req> for Method<F>
where
    F: Fn(&Req) -> Result<Res, Status>,
{
    type Response = Res;
    type Future = Ready<Result<Response<Res>, Status>>;

    fn call(&mut self, request: Request<Req>) -> Self::Future {
        let object = request.metadata().get("object").and_then(|object| object.to_str().ok());
        let answer = (self.0)(request.get_ref());
        if let Err(status) = &answer {
            tracing::warn!(object, error = status.message(), "the call failed");
        }
        ready(answer.map(Response::new))
    }
}

impl Service {
    /// Answers a call of one of the methods.
    pub(crate) async fn answer(&self, request: http::Request<Body>) -> http::Response<Body> {
        let service = request.uri().path().strip_prefix('/').and_then(|path| path.strip_prefix(proto::SERVICE));
        let method = service.and_then(|rest| rest.strip_prefix('/')).unwrap_or_default().to_owned();
        match method.as_str() {
            REPLICAS => {
                let answer = Method(|request: &proto::MaxAvailableReplicasRequest| {
                    self.called(REPLICAS, || self.replicas(request))
                });
                Grpc::new(ProstCodec::default()).unary(answer, request).await
            }
            SETS => {
                let answer = Method(|request: &proto::MaxAvailableComponentSetsRequest| {
                    self.called(SETS, || self.sets(request))
                });
                Grpc::new(ProstCodec::default()).unary(answer, request).await
            }
            UNSCHEDULABLE => {
                let answer = Method(|request: &proto::UnschedulableReplicasRequest| {
                    self.called(UNSCHEDULABLE, || self.unschedulable(request))
                });
                Grpc::new(ProstCodec::default()).unary(answer, request).await
            }
            _ => Status::unimplemented(format!("the estimator has no method {method:?}")).into_http(),
        }
    }
}
