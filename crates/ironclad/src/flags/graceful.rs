//! Flags of graceful eviction, and those that specification/proposals/004.md retired (specification/failover.md 7.4,
//! 10).

use ironclad_controllers::ControllerList;
use ironclad_failover::{Flags, deprecated::Deprecated, graceful_eviction::Plugins};

/// Graceful eviction flags.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Cluster failover")]
pub(crate) struct GracefulArgs {
    /// Conditions under which an evicted copy is removed, any of them suffices: `*` all, `-name` not this one
    #[arg(
        long,
        env = "IRONCLAD_EVICT_PLUGINS",
        default_value = "ResourceHealth,ClusterInScheduleResult",
        value_name = "LIST",
        allow_hyphen_values = true
    )]
    evict_plugins: String,
    /// Deprecated: ignored, nothing is removed because time passed
    #[arg(long, value_name = "DURATION", hide = true)]
    graceful_eviction_timeout: Option<String>,
    /// Deprecated: use --controllers=-taint-manager
    #[arg(long, value_name = "BOOL", hide = true, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    enable_taint_manager: Option<bool>,
    /// Deprecated: ignored, policies get no tolerations by themselves
    #[arg(long, value_name = "SECONDS", hide = true, allow_hyphen_values = true)]
    default_not_ready_toleration_seconds: Option<i64>,
    /// Deprecated: ignored, policies get no tolerations by themselves
    #[arg(long, value_name = "SECONDS", hide = true, allow_hyphen_values = true)]
    default_unreachable_toleration_seconds: Option<i64>,
}

impl GracefulArgs {
    /// Writes the values into the options of failover and the list of controllers; returns a warning for each flag
    /// without an effect.
    ///
    /// # Errors
    /// A plugin is unknown.
    pub(crate) fn apply_to(
        &self,
        flags: &mut Flags,
        controllers: &mut ControllerList,
    ) -> Result<Vec<String>, ironclad_failover::graceful_eviction::UnknownPlugin> {
        flags.evict_plugins = Plugins::parse(self.evict_plugins.split(','))?;
        let deprecated = Deprecated {
            graceful_eviction_timeout: self.graceful_eviction_timeout.clone(),
            enable_taint_manager: self.enable_taint_manager,
            default_not_ready_toleration_seconds: self.default_not_ready_toleration_seconds,
            default_unreachable_toleration_seconds: self.default_unreachable_toleration_seconds,
        };
        if deprecated.disables_taint_manager() {
            controllers.disable("taint-manager");
        }
        Ok(deprecated.warnings())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: GracefulArgs,
    }

    #[test]
    fn flags_set_the_options() {
        let read = |line: &[&str]| {
            let line = Line::try_parse_from(std::iter::once("x").chain(line.iter().copied())).unwrap();
            let (mut flags, mut controllers) = (Flags::default(), ControllerList::default());
            let warnings = line.args.apply_to(&mut flags, &mut controllers);
            (flags.evict_plugins.names(), controllers.enabled("taint-manager"), warnings)
        };
        let all = vec!["ResourceHealth", "ClusterInScheduleResult"];
        assert_eq!(read(&[]), (all.clone(), true, Ok(vec![])));
        assert_eq!(read(&["--evict-plugins=*,-ResourceHealth"]).0, all[1..]);
        assert_eq!(read(&["--evict-plugins", "Nope"]).2.unwrap_err().to_string(), "unknown evict plugin \"Nope\"");
        let (_, manager, warnings) = read(&["--enable-taint-manager=false"]);
        assert_eq!((manager, warnings.unwrap().len()), (false, 1));
        let (_, manager, warnings) = read(&["--enable-taint-manager"]);
        assert_eq!((manager, warnings.unwrap().len()), (true, 1));
        let old = [
            "--graceful-eviction-timeout=10m",
            "--default-not-ready-toleration-seconds=300",
            "--default-unreachable-toleration-seconds=0",
        ];
        assert_eq!(read(&old).2.unwrap().len(), 3);
        assert!(Line::try_parse_from(["x", "--failover-eviction-timeout=5m"]).is_err(), "unknown, as upstream");
    }
}
