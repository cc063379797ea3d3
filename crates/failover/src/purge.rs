//! Purge mode of an eviction (specification/failover.md 4.2). What the modes do to Works is decided where Works
//! are made.

use ironclad_api::{policy::PurgeMode, work::ResourceBindingSpec};

/// Causes of an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// A NoExecute taint that is not tolerated; `unconfigured` is `--no-execute-taint-eviction-purge-mode`, the mode of
    /// bindings without `failover.cluster`.
    NoExecute {
        /// Default mode of bindings.
        unconfigured: PurgeMode,
    },
    /// A PreferNoExecute taint.
    PreferNoExecute,
    /// A drain, with the mode of the command.
    Drain(PurgeMode),
    /// The workload failed.
    Application,
}

/// Purge mode of the old copy; `None` if the trigger does not evict the binding.
#[must_use]
pub fn mode(spec: &ResourceBindingSpec, trigger: Trigger) -> Option<PurgeMode> {
    let failover = spec.failover.as_ref();
    let cluster = failover.and_then(|f| f.cluster.as_ref());
    match trigger {
        Trigger::NoExecute { unconfigured } => Some(cluster.map_or(unconfigured, |c| c.purge_mode())),
        Trigger::PreferNoExecute => cluster.map(|c| c.purge_mode()),
        Trigger::Drain(mode) => Some(mode),
        Trigger::Application => failover.and_then(|f| f.application.as_ref()).map(|a| a.purge_mode()),
    }
}

#[cfg(test)]
mod tests {
    use ironclad_api::policy::{
        ApplicationFailoverBehavior, ClusterFailoverBehavior, FailoverBehavior,
        PurgeMode::{Directly, Gracefully, Never},
    };

    use super::*;

    #[test]
    fn purge_mode_of_each_trigger() {
        let flag = |unconfigured| Trigger::NoExecute { unconfigured };
        let cluster = |purge_mode| {
            Some(FailoverBehavior {
                cluster: Some(ClusterFailoverBehavior { purge_mode, ..Default::default() }),
                application: None,
            })
        };
        let application = |purge_mode| {
            Some(FailoverBehavior {
                application: Some(ApplicationFailoverBehavior { purge_mode, ..Default::default() }),
                cluster: None,
            })
        };
        for (name, failover, trigger, want) in [
            ("NoExecute, FC says Directly", cluster(Some(Directly)), flag(Gracefully), Some(Directly)),
            ("NoExecute, FC says Gracefully", cluster(Some(Gracefully)), flag(Directly), Some(Gracefully)),
            ("NoExecute, FC is empty", cluster(None), flag(Directly), Some(Gracefully)),
            ("NoExecute, no FC: the flag", None, flag(Gracefully), Some(Gracefully)),
            ("NoExecute, no FC: the flag again", None, flag(Directly), Some(Directly)),
            ("application failover is not FC", application(Some(Never)), flag(Directly), Some(Directly)),
            ("PreferNoExecute, FC says Directly", cluster(Some(Directly)), Trigger::PreferNoExecute, Some(Directly)),
            ("PreferNoExecute, FC is empty", cluster(None), Trigger::PreferNoExecute, Some(Gracefully)),
            ("PreferNoExecute, no FC", None, Trigger::PreferNoExecute, None),
            ("a drain uses its own mode", cluster(Some(Directly)), Trigger::Drain(Gracefully), Some(Gracefully)),
            ("a drain without FC", None, Trigger::Drain(Directly), Some(Directly)),
            ("application failover", application(Some(Never)), Trigger::Application, Some(Never)),
            ("application failover, empty", application(None), Trigger::Application, Some(Gracefully)),
            ("no application failover", cluster(Some(Directly)), Trigger::Application, None),
        ] {
            let spec = ResourceBindingSpec { failover: failover.map(Into::into), ..ResourceBindingSpec::default() };
            assert_eq!(mode(&spec, trigger), want, "{name}");
        }
    }
}
