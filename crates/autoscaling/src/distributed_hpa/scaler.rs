//! Autoscalers of any kind as decisions read them: a HorizontalPodAutoscaler, or an object of another kind seen as one
//! by the row of its kind (specification/autoscaling.md 6.11).

use std::sync::Arc;

use ironclad_api::{
    cluster::Cluster,
    conditions::{self, cluster::COMPLETE_API_ENABLEMENTS, federated_hpa::ABLE_TO_SCALE},
    work::Work,
};
use ironclad_fleet::{
    ClusterName, Gvk, ObjectKey,
    divide::{TieOrder, Weight, by_weight},
};
use ironclad_interpreter::{AutoscalerKind, AutoscalerKinds};
use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerSpec,
    HorizontalPodAutoscalerStatus,
};
use serde_json::Value;

use super::{
    API_VERSION, KIND,
    manifest::{self, Version},
    report::{self, Report, ReportedCondition},
    split::{Bounds, Mode},
};

/// One autoscaler.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaler {
    /// The row of its kind.
    pub kind: Arc<AutoscalerKind>,
    /// Its metadata, target, bounds and condition `AbleToScale`.
    pub hpa: Arc<HorizontalPodAutoscaler>,
    /// The object, unless it is a HorizontalPodAutoscaler.
    object: Option<Arc<Value>>,
}

impl From<HorizontalPodAutoscaler> for Scaler {
    fn from(hpa: HorizontalPodAutoscaler) -> Self {
        Arc::new(hpa).into()
    }
}

impl From<Arc<HorizontalPodAutoscaler>> for Scaler {
    fn from(hpa: Arc<HorizontalPodAutoscaler>) -> Self {
        Self { kind: Arc::new(AutoscalerKind::hpa()), hpa, object: None }
    }
}

impl Scaler {
    /// A HorizontalPodAutoscaler as JSON.
    #[must_use]
    pub fn from_object(object: &Value) -> Option<Self> {
        let hpa: HorizontalPodAutoscaler = serde_json::from_value(object.clone()).ok()?;
        Some(hpa.into())
    }

    /// An object of another kind. `None` if it names no target.
    #[must_use]
    pub fn of_object(kind: Arc<AutoscalerKind>, object: Value) -> Option<Self> {
        let scale_target_ref = kind.target(&object)?;
        let (min, max) = kind.bounds(&object);
        let metadata = serde_json::from_value(object.get("metadata")?.clone()).ok()?;
        let able = kind.paths.able_condition.as_deref().and_then(|type_| condition(object.get("status")?, type_));
        let conditions = able.map(|able| {
            vec![HorizontalPodAutoscalerCondition {
                type_: ABLE_TO_SCALE.to_owned(),
                status: able.status,
                reason: Some(able.reason),
                message: Some(able.message),
                last_transition_time: None,
            }]
        });
        let hpa = HorizontalPodAutoscaler {
            metadata,
            spec: HorizontalPodAutoscalerSpec {
                scale_target_ref,
                min_replicas: Some(min),
                max_replicas: max,
                ..HorizontalPodAutoscalerSpec::default()
            },
            status: Some(HorizontalPodAutoscalerStatus { conditions, ..HorizontalPodAutoscalerStatus::default() }),
        };
        Some(Self { kind, hpa: Arc::new(hpa), object: Some(Arc::new(object)) })
    }

    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        super::key_of_kind(&self.kind.gvk, &self.hpa)
    }

    pub(super) fn api_version(&self) -> String {
        self.kind.gvk.api_version()
    }

    /// The object that members get a copy of.
    pub(super) fn template(&self) -> Value {
        match &self.object {
            Some(object) => (**object).clone(),
            None => serde_json::to_value(&*self.hpa).unwrap_or_default(),
        }
    }

    /// The status of the object, unless it is a HorizontalPodAutoscaler.
    pub(super) fn own_status(&self) -> Option<Value> {
        Some(self.object.as_ref()?.get("status").cloned().unwrap_or_default())
    }

    /// True if members may be without replicas: they come back by themselves.
    #[must_use]
    pub fn may_rest(&self) -> bool {
        !self.kind.is_hpa() && self.hpa.spec.min_replicas == Some(0)
    }

    /// The bounds in a manifest for a member, if it has them.
    pub(super) fn bounds_of(&self, object: &Value) -> Option<Bounds> {
        if self.kind.is_hpa() {
            return manifest::bounds_of(object);
        }
        let (min, max) = self.kind.bounds(object);
        Some(Bounds { min, max })
    }

    /// Writes bounds into a manifest for a member.
    pub(super) fn set_bounds(&self, object: &mut Value, bounds: Bounds) {
        self.kind.set_bounds(object, bounds.min, bounds.max);
    }

    /// The object for a member.
    pub(super) fn manifest(&self, template: &Value, version: Option<Version>, bounds: Bounds) -> Value {
        match version {
            Some(version) => manifest::manifest(template, version, bounds),
            None => {
                let mut object = manifest::stripped(template);
                self.set_bounds(&mut object, bounds);
                object
            }
        }
    }

    /// Divides the totals of a manifest: the cluster gets its part of each, by weight and without a floor, since zero
    /// is a number like any other there.
    pub(super) fn divide_totals(&self, object: &mut Value, mode: &Mode, cluster: &ClusterName, weights: &Weights) {
        if *mode == Mode::PerCluster {
            return;
        }
        let all_zero = weights.values().all(|weight| *weight == 0);
        let party = |(cluster, weight): (&ClusterName, &u32)| Weight {
            cluster: cluster.clone(),
            weight: if all_zero { 1 } else { i64::from(*weight) },
        };
        let parties: Vec<Weight> = weights.iter().map(party).collect();
        let at = parties.iter().position(|party| party.cluster == *cluster);
        self.kind.each_total(object, |total| {
            let parts = by_weight(i64::from(total), &parties, TieOrder::Ascending);
            let part = at.and_then(|at| parts.get(at).copied()).unwrap_or(0);
            i32::try_from(part).unwrap_or(total)
        });
    }

    /// False if a member is known not to serve the kind.
    pub(super) fn is_served_by(&self, cluster: &Cluster) -> bool {
        let status = cluster.status.as_ref();
        let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        let mut enablements = status.iter().flat_map(|status| &status.api_enablements);
        let lists = enablements.any(|enablement| {
            enablement.group_version == self.api_version()
                && enablement.resources.iter().any(|resource| *resource.kind == *self.kind.gvk.kind)
        });
        lists || !conditions::is_true(conditions, COMPLETE_API_ENABLEMENTS)
    }

    /// The report of a member. Kinds that do not say a number report what the target runs, by its Work.
    pub(super) fn report(&self, work: &Work, target: Option<&Work>) -> Option<Report> {
        if self.kind.is_hpa() {
            return report::read(work);
        }
        let status = report::status(work)?;
        let paths = &self.kind.paths;
        let current = target.and_then(report::status).map(|status| count(&status, "/replicas").unwrap_or(0))?;
        // The paths of a row are those of the whole object.
        let desired = match paths.desired_replicas.as_ref().map(|path| path.strip_prefix("/status").unwrap_or(path)) {
            Some(path) => count(&status, path)?,
            None => current,
        };
        let able = match paths.able_condition.as_deref() {
            Some(type_) => condition(&status, type_)?,
            None => ReportedCondition { status: conditions::TRUE.to_owned(), ..ReportedCondition::default() },
        };
        let is_able = able.is_true();
        let able = ReportedCondition {
            type_: ABLE_TO_SCALE.to_owned(),
            reason: if is_able { report::ABLE_REASONS[3].to_owned() } else { able.reason },
            ..able
        };
        let max = work.spec.workload.manifests.first().map(|manifest| self.kind.bounds(&manifest.object()).1);
        let at_most = max.is_some_and(|max| current >= max) && self.kind.has_bounds();
        Some(Report {
            current_replicas: current,
            desired_replicas: desired,
            conditions: std::iter::once(able).chain(at_most.then(ReportedCondition::at_maximum)).collect(),
            may_rest: true,
            ..Report::default()
        })
    }
}

/// Weights by cluster.
pub(super) type Weights = std::collections::BTreeMap<ClusterName, u32>;

/// The key of the object that a Work or an OverridePolicy was made for: versions of HorizontalPodAutoscalers are one
/// kind.
#[must_use]
pub fn kind_of(api_version: &str, kind: &str) -> Gvk {
    let gvk = Gvk::from_manifest(api_version, kind);
    if super::is_kind(&gvk) { Gvk::from_manifest(API_VERSION, KIND) } else { gvk }
}

/// Finds the row of an object's kind, and sees the object by it.
#[must_use]
pub fn seen_by(kinds: &AutoscalerKinds, gvk: &Gvk, object: Value) -> Option<Scaler> {
    Scaler::of_object(kinds.get(gvk)?.clone(), object)
}

fn count(status: &Value, path: &str) -> Option<i32> {
    i32::try_from(status.pointer(path)?.as_i64()?).ok().map(|count| count.max(0))
}

fn condition(status: &Value, type_: &str) -> Option<ReportedCondition> {
    let all = status.get("conditions")?.as_array()?;
    let found = all.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(type_))?;
    serde_json::from_value(found.clone()).ok()
}
