//! Update strategy of a Deployment with its percentages resolved.

use k8s_openapi::{
    api::apps::v1::{Deployment, DeploymentSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};

use crate::rounding::{Round, resolve};

/// The default of both `maxSurge` and `maxUnavailable`.
const QUARTER: &str = "25%";

/// Limits of a rollout, in pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Strategy {
    /// Old pods are removed before new ones are created.
    pub(crate) recreate: bool,
    pub(crate) replicas: i32,
    /// Pods above that number during a rollout.
    pub(crate) max_surge: i32,
    /// Pods below that number that may be unavailable during a rollout.
    pub(crate) max_unavailable: i32,
}

impl Strategy {
    /// Returns the strategy of a Deployment with percentages resolved: surge rounded up, unavailable rounded down. If
    /// both are zero, one pod may be unavailable, or nothing could progress.
    pub(crate) fn of(deployment: &Deployment) -> Self {
        let spec = deployment.spec.as_ref();
        let replicas = spec.and_then(|s| s.replicas).unwrap_or(1).max(0);
        if is_recreate(spec) {
            return Self { recreate: true, replicas, max_surge: 0, max_unavailable: 0 };
        }
        let rolling = spec.and_then(|s| s.strategy.as_ref()).and_then(|s| s.rolling_update.as_ref());
        let quarter = IntOrString::String(QUARTER.into());
        let surge = resolve(rolling.and_then(|r| r.max_surge.as_ref()).unwrap_or(&quarter), replicas, Round::Up);
        let unavailable =
            resolve(rolling.and_then(|r| r.max_unavailable.as_ref()).unwrap_or(&quarter), replicas, Round::Down);
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Self { recreate: false, replicas, max_surge: surge, max_unavailable: unavailable.min(replicas) }
    }

    pub(crate) fn most(&self) -> i32 {
        self.replicas.saturating_add(self.max_surge)
    }

    pub(crate) fn least_available(&self) -> i32 {
        self.replicas - self.max_unavailable
    }
}

fn is_recreate(spec: Option<&DeploymentSpec>) -> bool {
    spec.and_then(|s| s.strategy.as_ref()).and_then(|s| s.type_.as_deref()) == Some("Recreate")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::testkit::{deployment, percent};

    #[test]
    fn strategies() {
        let int = IntOrString::Int;
        for (name, replicas, surge, unavailable, want) in [
            ("a quarter of 10: surge rounds up, unavailable down", 10, percent(25), percent(25), (3, 2)),
            ("a quarter of 1: surge 1, unavailable 0", 1, percent(25), percent(25), (1, 0)),
            ("both zero: one may be unavailable", 4, int(0), int(0), (0, 1)),
            ("both round to zero: one may be unavailable", 4, int(0), percent(10), (0, 1)),
            ("unavailable is at most the replicas", 2, int(1), int(5), (1, 2)),
            ("zero replicas: both are zero", 0, percent(25), percent(25), (0, 0)),
        ] {
            let s = Strategy::of(&deployment(replicas).rolling(surge, unavailable).build());
            assert_eq!((s.max_surge, s.max_unavailable), want, "{name}");
        }
        let s = Strategy::of(&deployment(3).recreate().build());
        assert_eq!((s.most(), s.least_available()), (3, 3));
    }
}
