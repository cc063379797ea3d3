//! Flags of Karmada's programs without an effect here: accepted with a warning, so that existing command lines still
//! start (specification/operations.md 2.1, 8).

use clap::{Arg, ArgMatches, Command, error::Error};

const NO_LIMIT: &str = "no client of ours limits itself: API servers have limits of their own";
const WORKERS: &str = "each controller has the workers that it needs";
const OPS: &str = "health is served at --metrics-bind-address";
const PPROF: &str = "profiles are not served";
const LEGACY: &str = "it has no effect in Karmada either";

const CLUSTER_API: &str = "clusters are not discovered from a Cluster API; `ironclad join` adds them";
const WEBHOOKS: &str = "webhooks are served at --webhook-bind-address, with certificates that the control plane holds";
const ELECTION: &str = "`up` always holds the Lease of its control plane while it works";

/// Each flag of `run` and `up`, and the reason why it has no effect.
pub(crate) const ACCEPTED: [(&str, &str); 26] = [
    ("kube-api-qps", NO_LIMIT),
    ("kube-api-burst", NO_LIMIT),
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
    ("cluster-api-kubeconfig", CLUSTER_API),
    ("cluster-api-context", CLUSTER_API),
    ("bind-address", WEBHOOKS),
    ("secure-port", WEBHOOKS),
    ("cert-dir", WEBHOOKS),
    ("tls-cert-file-name", WEBHOOKS),
    ("tls-private-key-file-name", WEBHOOKS),
    ("tls-min-version", WEBHOOKS),
    ("health-probe-bind-address", OPS),
    ("enable-pprof", PPROF),
    ("profiling-bind-address", PPROF),
    ("log-flush-frequency", "each line is written at once"),
];

/// The flags of the election, which `run` has.
const OF_ELECTION: [(&str, &str); 6] = [
    ("leader-elect", ELECTION),
    ("leader-elect-lease-duration", ELECTION),
    ("leader-elect-renew-deadline", ELECTION),
    ("leader-elect-retry-period", ELECTION),
    ("leader-elect-resource-name", ELECTION),
    ("leader-elect-resource-namespace", ELECTION),
];

/// Lists of accepted flags.
const LISTS: [&[(&str, &str)]; 2] = [&ACCEPTED, &OF_ELECTION];

/// Flags of one of the lists that were given on the command line.
#[derive(Debug, Default)]
pub(crate) struct Accepted<const LIST: usize>(Vec<(&'static str, &'static str)>);

/// Accepted flags of `run` and `up`.
pub(crate) type AcceptedArgs = Accepted<0>;
/// Accepted flags of `up`.
pub(crate) type AcceptedElectionArgs = Accepted<1>;

impl<const LIST: usize> Accepted<LIST> {
    /// A warning for each.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.0.iter().map(|(flag, why)| format!("--{flag} is ignored: {why}")).collect()
    }
}

impl<const LIST: usize> clap::Args for Accepted<LIST> {
    fn augment_args(command: Command) -> Command {
        let is_switch = |flag: &str| {
            flag == "leader-elect" || ["enable-", "disable-", "insecure-"].iter().any(|start| flag.starts_with(start))
        };
        let form = |flag: &str| if is_switch(flag) { Form::Switch } else { Form::Value };
        command.args(LISTS[LIST].iter().map(|(flag, _)| arg(flag, form(flag))))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const LIST: usize> clap::FromArgMatches for Accepted<LIST> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(LISTS[LIST].iter().copied().filter(|(flag, _)| matches.contains_id(flag)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Form of a flag's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Value,
    /// One that switches something on.
    Switch,
}

fn arg(flag: &'static str, form: Form) -> Arg {
    let arg = Arg::new(flag).long(flag).hide(true).value_name("VALUE").allow_hyphen_values(true);
    match form {
        Form::Value => arg,
        Form::Switch => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
    }
}

/// Flags of klog, the logger of Kubernetes' programs, besides -v, on every verb (specification/operations.md 2.1).
const KLOG: [(&str, Form); 12] = [
    ("add-dir-header", Form::Switch),
    ("alsologtostderr", Form::Switch),
    ("log-backtrace-at", Form::Value),
    ("log-dir", Form::Value),
    ("log-file", Form::Value),
    ("log-file-max-size", Form::Value),
    ("logtostderr", Form::Switch),
    ("one-output", Form::Switch),
    ("skip-headers", Form::Switch),
    ("skip-log-headers", Form::Switch),
    ("stderrthreshold", Form::Value),
    ("vmodule", Form::Value),
];

/// Flags of klog on the command line.
#[derive(Debug, Default)]
pub(crate) struct KlogArgs(Vec<&'static str>);

impl KlogArgs {
    /// A warning for each.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let all = self.0.iter();
        all.map(|flag| format!("--{flag} is ignored: logs go to stderr, see --log-filter and --log-format")).collect()
    }
}

impl clap::Args for KlogArgs {
    fn augment_args(command: Command) -> Command {
        command.args(KLOG.map(|(flag, form)| arg(flag, form).global(true)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for KlogArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(KLOG.into_iter().map(|(flag, _)| flag).filter(|flag| matches.contains_id(flag)).collect()))
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
        #[command(flatten)]
        election: AcceptedElectionArgs,
    }

    #[test]
    fn accepted_flags_cause_a_warning() {
        let warnings = |line: &[&str]| {
            let line = Line::try_parse_from(std::iter::once("x").chain(line.iter().copied())).unwrap();
            [line.args.warnings(), line.election.warnings()].concat()
        };
        assert_eq!(warnings(&[]), Vec::<String>::new());
        for (flag, why) in ACCEPTED.into_iter().chain(OF_ELECTION) {
            let given = format!("--{flag}=-1");
            assert_eq!(warnings(&[&given]), [format!("--{flag} is ignored: {why}")]);
        }
        assert_eq!(warnings(&["--enable-pprof", "--kube-api-qps", "40"]).len(), 2, "as upstream's manifests have them");
    }

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        klog: KlogArgs,
        #[command(subcommand)]
        verb: Verb,
    }

    #[derive(clap::Subcommand)]
    enum Verb {
        Get,
    }

    #[test]
    fn klog_flags_are_accepted_by_every_verb() {
        let given = |line: &[&str]| {
            let Program { klog, verb: Verb::Get } =
                Program::try_parse_from(std::iter::once("x").chain(line.iter().copied())).unwrap();
            klog
        };
        assert_eq!(given(&["get"]).warnings(), Vec::<String>::new());
        for (flag, form) in KLOG {
            let flag = format!("--{flag}");
            let words: &[&str] = if form == Form::Switch { &[&flag] } else { &[&flag, "1"] };
            for line in [[words, &["get"]].concat(), [&["get"], words].concat()] {
                let want = [format!("{flag} is ignored: logs go to stderr, see --log-filter and --log-format")];
                assert_eq!(given(&line).warnings(), want, "{line:?}");
            }
        }
        assert_eq!(given(&["get", "--logtostderr=false", "--vmodule", "a=1"]).warnings().len(), 2);
    }
}
