//! Test fixtures: objects for table tests.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Container, ContainerStatus, Pod, PodCondition, PodSpec, PodStatus, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::api::ObjectMeta;

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

pub(crate) fn meta(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some("d".into()),
        uid: Some(format!("uid-{name}")),
        generation: Some(1),
        creation_timestamp: Some(Time(at(0))),
        ..ObjectMeta::default()
    }
}

pub(crate) fn template(app: &str, image: &str) -> PodTemplateSpec {
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(BTreeMap::from([("app".to_owned(), app.to_owned())])),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            containers: vec![Container { name: "c".into(), image: Some(image.into()), ..Container::default() }],
            ..PodSpec::default()
        }),
    }
}

#[derive(Clone)]
pub(crate) struct PodMaker(Pod);

pub(crate) fn pod(name: &str) -> PodMaker {
    PodMaker(Pod {
        metadata: meta(name),
        spec: Some(PodSpec::default()),
        status: Some(PodStatus { phase: Some("Pending".into()), ..PodStatus::default() }),
    })
}

impl PodMaker {
    pub(crate) fn status(&mut self) -> &mut PodStatus {
        self.0.status.get_or_insert_default()
    }

    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.0.metadata.labels.get_or_insert_default().insert(key.into(), value.into());
        self
    }

    pub(crate) fn annotation(mut self, key: &str, value: &str) -> Self {
        self.0.metadata.annotations.get_or_insert_default().insert(key.into(), value.into());
        self
    }

    pub(crate) fn node(mut self, node: &str) -> Self {
        self.0.spec.get_or_insert_default().node_name = Some(node.into());
        self
    }

    pub(crate) fn created(mut self, seconds: i64) -> Self {
        self.0.metadata.creation_timestamp = Some(Time(at(seconds)));
        self
    }

    pub(crate) fn phase(mut self, phase: &str) -> Self {
        self.status().phase = Some(phase.into());
        self
    }

    pub(crate) fn ready(mut self, since: i64) -> Self {
        self.status().conditions = Some(vec![PodCondition {
            type_: "Ready".into(),
            status: "True".into(),
            last_transition_time: Some(Time(at(since))),
            ..PodCondition::default()
        }]);
        self.phase("Running")
    }

    pub(crate) fn restarts(mut self, count: i32) -> Self {
        self.status().container_statuses =
            Some(vec![ContainerStatus { restart_count: count, ..ContainerStatus::default() }]);
        self
    }

    pub(crate) fn terminating(mut self) -> Self {
        self.0.metadata.deletion_timestamp = Some(Time(at(1)));
        self
    }

    pub(crate) fn build(self) -> Pod {
        self.0
    }

    pub(crate) fn arc(self) -> Arc<Pod> {
        Arc::new(self.0)
    }
}
