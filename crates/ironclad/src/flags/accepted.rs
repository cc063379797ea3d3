//! Flags of Karmada's processes that say nothing in one process: accepted, so that command lines that exist still start, and
//! warned of (operations.md 8).

use clap::{Arg, ArgMatches, Command, error::Error};

const NO_LIMIT: &str = "no client of ours limits itself: API servers have limits of their own";
const WORKERS: &str = "each controller has the workers that it needs";
const OPS: &str = "health is served at --metrics-bind-address";
const PPROF: &str = "profiles are not served";
const LEGACY: &str = "it has no effect in Karmada either";

/// Each flag, and why it says nothing.
pub(crate) const ACCEPTED: [(&str, &str); 19] = [
    ("kube-api-qps", NO_LIMIT),
    ("kube-api-burst", NO_LIMIT),
    ("cluster-api-qps", NO_LIMIT),
    ("cluster-api-burst", NO_LIMIT),
    ("concurrent-cluster-syncs", WORKERS),
    ("concurrent-work-syncs", WORKERS),
    ("concurrent-resourcebinding-syncs", WORKERS),
    ("concurrent-clusterresourcebinding-syncs", WORKERS),
    ("concurrent-resource-template-syncs", WORKERS),
    ("concurrent-dependent-resource-syncs", WORKERS),
    ("concurrent-namespace-syncs", WORKERS),
    ("concurrent-propagation-policy-syncs", WORKERS),
    ("concurrent-cluster-propagation-policy-syncs", WORKERS),
    ("resync-period", "caches are kept true by watches alone"),
    ("horizontal-pod-autoscaler-upscale-delay", LEGACY),
    ("horizontal-pod-autoscaler-downscale-delay", LEGACY),
    ("health-probe-bind-address", OPS),
    ("enable-pprof", PPROF),
    ("profiling-bind-address", PPROF),
];

/// Those that were given.
#[derive(Debug, Default)]
pub(crate) struct AcceptedArgs(Vec<(&'static str, &'static str)>);

impl AcceptedArgs {
    /// A warning for each.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.0.iter().map(|(flag, why)| format!("--{flag} is ignored: {why}")).collect()
    }
}

impl clap::Args for AcceptedArgs {
    fn augment_args(command: Command) -> Command {
        let arg = |(flag, _): (&'static str, &str)| {
            let arg = Arg::new(flag).long(flag).hide(true).value_name("VALUE").allow_hyphen_values(true);
            // A flag that switches something on needs no value.
            if flag.starts_with("enable-") {
                arg.num_args(0..=1).require_equals(true).default_missing_value("true")
            } else {
                arg
            }
        };
        command.args(ACCEPTED.map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for AcceptedArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(ACCEPTED.into_iter().filter(|(flag, _)| matches.contains_id(flag)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: AcceptedArgs,
    }

    #[test]
    fn each_is_taken_and_warned_of() {
        let warnings = |line: &[&str]| {
            Line::try_parse_from(std::iter::once("x").chain(line.iter().copied())).unwrap().args.warnings()
        };
        assert_eq!(warnings(&[]), Vec::<String>::new());
        for (flag, why) in ACCEPTED {
            let given = format!("--{flag}=-1");
            assert_eq!(warnings(&[&given]), [format!("--{flag} is ignored: {why}")]);
        }
        assert_eq!(warnings(&["--enable-pprof", "--kube-api-qps", "40"]).len(), 2, "as upstream's manifests have them");
    }
}
