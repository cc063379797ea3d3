//! Test fixtures: Deployments and their ReplicaSets.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{
    api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, ReplicaSet, RollingUpdateDeployment},
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, Time},
        util::intstr::IntOrString,
    },
};

use super::{
    decide::{Seen, Set},
    revision,
    strategy::Strategy,
};
use crate::{
    owner::Claims,
    replicaset::Counts,
    testkit::{at, meta, template},
};

pub(crate) fn percent(n: i32) -> IntOrString {
    IntOrString::String(format!("{n}%"))
}

#[derive(Clone)]
pub(crate) struct DeploymentMaker(Deployment);

pub(crate) fn deployment(replicas: i32) -> DeploymentMaker {
    DeploymentMaker(Deployment {
        metadata: meta("web"),
        spec: Some(DeploymentSpec {
            replicas: Some(replicas),
            selector: LabelSelector {
                match_labels: Some(BTreeMap::from([("app".to_owned(), "web".to_owned())])),
                ..LabelSelector::default()
            },
            template: template("web", "i:1"),
            progress_deadline_seconds: Some(600),
            revision_history_limit: Some(10),
            ..DeploymentSpec::default()
        }),
        status: None,
    })
}

impl DeploymentMaker {
    pub(crate) fn spec(mut self, change: impl FnOnce(&mut DeploymentSpec)) -> Self {
        change(self.0.spec.as_mut().unwrap());
        self
    }

    pub(crate) fn rolling(self, surge: IntOrString, unavailable: IntOrString) -> Self {
        self.spec(|s| {
            s.strategy = Some(DeploymentStrategy {
                type_: Some("RollingUpdate".into()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_surge: Some(surge),
                    max_unavailable: Some(unavailable),
                }),
            });
        })
    }

    pub(crate) fn recreate(self) -> Self {
        self.spec(|s| {
            s.strategy = Some(DeploymentStrategy { type_: Some("Recreate".into()), rolling_update: None });
        })
    }

    pub(crate) fn image(self, image: &str) -> Self {
        self.spec(|s| s.template = template("web", image))
    }

    pub(crate) fn build(self) -> Deployment {
        self.0
    }
}

/// Returns a ReplicaSet of the Deployment with this image and this many available pods.
pub(crate) fn set(image: &str, created: i64, replicas: i32, available: i32) -> Set {
    let of = deployment(replicas).image(image).build();
    let mut set: ReplicaSet = revision::new_set(&of, &Strategy::of(&of), created + 1, 0);
    set.metadata.uid = Some(format!("uid-{image}"));
    set.metadata.generation = Some(1);
    set.metadata.creation_timestamp = Some(Time(at(created)));
    set.spec.as_mut().unwrap().replicas = Some(replicas);
    Set {
        set: Arc::new(set),
        counts: Counts { replicas, labelled: replicas, ready: available, available, next: None },
        unfinished: replicas,
    }
}

/// Sets the size annotations as if the Deployment had this strategy when it last scaled the set.
pub(crate) fn sized(mut of: Set, strategy: Strategy) -> Set {
    let set = Arc::make_mut(&mut of.set);
    set.metadata.annotations.get_or_insert_default().extend(revision::size_annotations(&strategy));
    of
}

pub(crate) fn seen(deployment: DeploymentMaker, sets: Vec<Set>) -> Seen {
    Seen { deployment: Arc::new(deployment.0), sets, claims: Claims { mine: vec![], adopt: vec![], release: vec![] } }
}

pub(crate) fn now() -> Timestamp {
    at(1_000)
}
