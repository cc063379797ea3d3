//! Makers for the tables of this crate.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};

use crate::{
    pods::{Phase, Pod, PodKey, Readiness, Requests},
    samples::Sample,
};

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

pub(crate) fn key(cluster: &str, name: &str) -> PodKey {
    PodKey { cluster: cluster.into(), name: name.into() }
}

pub(crate) fn sample(seconds: i64, value: i64) -> Sample {
    Sample { at: at(seconds), window: SignedDuration::ZERO, value }
}

/// A pod that has been ready for long, and requests 100m.
pub(crate) fn running() -> Pod {
    requesting(100)
}

/// A pod that has been ready for long, with this request of CPU in thousandths.
pub(crate) fn requesting(cpu: i64) -> Pod {
    let amounts = [(Arc::from("cpu"), cpu), (Arc::from("memory"), cpu)].into();
    Pod {
        labels: BTreeMap::new(),
        is_deleted: false,
        phase: Phase::Running,
        ready: Some(Readiness { is_ready: Some(true), since: Some(at(100)) }),
        started: Some(at(50)),
        requests: vec![Requests { container: "c".into(), amounts }],
        whole: None,
    }
}
