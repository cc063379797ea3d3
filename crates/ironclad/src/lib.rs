//! The one program: flags, wiring and signals; it decides nothing. `main.rs` calls [`main`].

mod agent;
mod announce;
mod backup;
mod demo;
#[cfg(test)]
mod documented;
mod estimator;
mod explain;
mod flags;
#[cfg(test)]
mod impersonation;
#[cfg(test)]
mod installed;
mod leader;
mod memory;
mod metrics;
mod open_files;
mod ops;
#[cfg(test)]
mod pages;
mod run;
mod scripts;
mod signals;
mod term;
mod up;

use std::{io::IsTerminal as _, process::ExitCode};

use clap::{
    CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum,
    error::{ContextKind, ContextValue, ErrorKind},
};
use ironclad_cli::{
    apply, asked, completion,
    cordon::{self, Cordon},
    crds, dashboard, doctor, drain, early, evictions, get, help, interpret, join, kubeconfig, kubectl, logs, manifests,
    options, plan, print, program, promote, rebalance, register, report, rollout, sim, switches, taint, token, top,
    tree, unjoin, unregister, version, warnings, why,
};
use ironclad_seam::Clock;
use tracing_subscriber::EnvFilter;

/// One program that runs workloads over many Kubernetes clusters.
#[derive(Parser, Debug)]
#[command(
    name = "ironclad",
    version,
    arg_required_else_help = true,
    after_help = "Examples:
  ironclad up --demo
  ironclad crds --install --kubeconfig plane.kubeconfig
  ironclad run --kubeconfig plane.kubeconfig
  ironclad join member1 --kubeconfig plane.kubeconfig --cluster-kubeconfig member1.kubeconfig

Exit codes: 0 done, 1 failed, 2 misused; of plan also 3: something would move."
)]
struct Ironclad {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    log: Log,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Up(Box<up::UpArgs>),
    Run(Box<run::RunArgs>),
    Estimator(Box<estimator::EstimatorArgs>),
    Agent(Box<agent::AgentArgs>),
    Join(Box<join::command::Command>),
    Unjoin(Box<unjoin::command::Command>),
    Token(Box<token::command::Command>),
    Register(Box<register::command::Command>),
    Unregister(Box<unregister::command::Command>),
    Taint(Box<taint::command::Command>),
    Cordon(Box<cordon::command::CordonCommand>),
    Uncordon(Box<cordon::command::UncordonCommand>),
    Drain(Box<drain::command::Command>),
    Get(Box<get::Command>),
    Tree(Box<tree::Command>),
    Plan(Box<plan::command::Command>),
    Crds(Box<crds::Command>),
    Manifests(Box<manifests::Command>),
    Interpret(Box<interpret::Command>),
    Sim(Box<sim::command::Command>),
    Top(Box<top::Command>),
    Logs(Box<logs::Command>),
    Why(Box<why::Command>),
    Doctor(Box<doctor::Command>),
    Dashboard(Box<dashboard::Command>),
    Failover(Box<evictions::failover::Command>),
    Backup(Box<backup::Command>),
    Promote(Box<promote::Command>),
    Apply(Box<apply::Command>),
    Rebalance(Box<rebalance::Command>),
    Rollout(Box<rollout::Command>),
    Kubeconfig(Box<kubeconfig::Command>),
    #[command(flatten)]
    Kubectl(kubectl::Verb),
    Version(version::Command),
    Options(options::Command),
    Completion(completion::Command),
}

impl Verb {
    /// Returns `true` for servers, which run until they are stopped; the others are clients that log little.
    fn is_server(&self) -> bool {
        matches!(self, Self::Up(_) | Self::Run(_) | Self::Estimator(_) | Self::Agent(_))
    }
}

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Logging")]
struct Log {
    /// Verbosity: 0 to 2 is info, from 3 debug, from 6 trace
    #[arg(short, long = "v", global = true, value_name = "LEVEL", default_value_t = 0, hide_default_value = true)]
    verbosity: u8,
    /// Log filter, such as `info,ironclad_controllers=debug`; overrides -v
    #[arg(long, global = true, env = "IRONCLAD_LOG", value_name = "FILTER")]
    log_filter: Option<String>,
    /// Format of log lines on stderr
    #[arg(long, alias = "logging-format", global = true, env = "IRONCLAD_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    log_format: LogFormat,
    #[command(flatten)]
    klog: flags::accepted::KlogArgs,
}

impl Log {
    fn filter(&self, server: bool) -> String {
        if let Some(filter) = &self.log_filter {
            return filter.clone();
        }
        match (self.verbosity, server) {
            (6.., _) => "trace,h2=info,hyper=info,hyper_util=info,rustls=info,tower=info".to_owned(),
            (3.., _) => {
                "info,ironclad=debug".to_owned() + &DEBUGGED.map(|name| format!(",ironclad_{name}=debug")).concat()
            }
            (1.., _) | (0, true) => "info".to_owned(),
            // The library warns of certificates that are not verified, which the flag or the kubeconfig asked for.
            (0, false) => "warn,kube_client::client::tls=error".to_owned(),
        }
    }
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum LogFormat {
    Text,
    Json,
}

/// Runs the program with the arguments of the process.
pub fn main() -> ExitCode {
    let called = program::called(&std::env::args_os().next().unwrap_or_default());
    let tree = help::called(help::short(Ironclad::command()), &called);
    if completion::answer(&tree) {
        return ExitCode::from(report::DONE);
    }
    let matches = matches(&tree);
    let ironclad = Ironclad::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let done = start_logging(&ironclad.log, ironclad.verb.is_server()).and_then(|()| {
        open_files::raise();
        execute(ironclad.verb, &tree)?;
        warnings::verdict()
    });
    match done {
        Ok(()) => ExitCode::from(report::DONE),
        Err(error) if error.is::<report::Exit>() => {
            ExitCode::from(error.downcast_ref::<report::Exit>().map_or(report::FAILED, |exit| exit.0))
        }
        Err(error) => {
            let error = asked::explained(error);
            print::note(&program::in_lines(&report::render(&error), &called));
            ExitCode::from(report::exit_code(&error))
        }
    }
}

/// Parses the command line. Help and messages show flags without the values that they take as kubectl's do.
fn matches(tree: &clap::Command) -> clap::ArgMatches {
    let words = early::behind(tree, std::env::args_os().collect());
    switches::with_values(tree.clone()).try_get_matches_from(&words).unwrap_or_else(|error| match error.kind() {
        ErrorKind::ValueValidation => error.exit(),
        _ => {
            if let Some(text) = elsewhere(&error) {
                print::note(&text);
                std::process::exit(i32::from(report::MISUSED));
            }
            tree.clone().try_get_matches_from(&words).unwrap_or_else(|error| match unknown_flag(&error) {
                Some(text) => {
                    print::note(text.trim_end());
                    std::process::exit(i32::from(report::MISUSED));
                }
                None => error.exit(),
            })
        }
    })
}

/// The message about a flag that does not exist, in kubectl's words; the rest is the parser's.
fn unknown_flag(error: &clap::Error) -> Option<String> {
    let ContextValue::String(flag) = error.get(ContextKind::InvalidArg)? else { return None };
    let said = format!("unexpected argument '{flag}' found");
    let text = error.render().to_string();
    let is_flag = error.kind() == ErrorKind::UnknownArgument && flag.starts_with("--") && text.contains(&said);
    is_flag.then(|| text.replace(&said, &format!("unknown flag: {flag}")))
}

/// Answer to a verb of karmadactl that is missing here, in place of a guess which verb was meant.
fn elsewhere(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let what = ironclad_cli::elsewhere::instead(verb)?;
    Some(format!("error: there is no verb {verb}\n  try: {what}"))
}

fn start_logging(log: &Log, server: bool) -> anyhow::Result<()> {
    let filter = log.filter(server);
    let filter = EnvFilter::try_new(&filter).map_err(|error| {
        report::Misused(format!(
            "--log-filter {filter:?} can't be used\n  because {error}\n  try: info,ironclad_controllers=debug"
        ))
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match log.log_format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().init(),
    }
    for warning in log.klog.warnings() {
        tracing::warn!("{warning}");
    }
    Ok(())
}

/// Crates whose thoughts are shown from `-v 3` on.
const DEBUGGED: [&str; 7] =
    ["apiserver", "cli", "controllers", "estimator", "kubecontrollers", "runtime", "simcluster"];

fn execute(verb: Verb, tree: &clap::Command) -> anyhow::Result<()> {
    let mut runtime = if verb.is_server() {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    let runtime = runtime.enable_all().build()?;
    let clock = Clock::system();
    runtime.block_on(async {
        match verb {
            Verb::Up(args) => up::run(*args).await,
            Verb::Run(args) => run::run(*args).await,
            Verb::Estimator(args) => estimator::run(*args).await,
            Verb::Agent(args) => agent::run(*args).await,
            Verb::Join(command) => join::command::run(&command, &clock).await,
            Verb::Drain(command) => drain::command::run(&command, &clock).await,
            Verb::Unjoin(command) => unjoin::command::run(&command, &clock).await,
            Verb::Token(command) => token::command::run(&command, &clock).await,
            Verb::Register(command) => register::command::run(&command, &clock).await,
            Verb::Unregister(command) => unregister::command::run(&command, &clock).await,
            Verb::Taint(command) => taint::command::run(&command, &clock).await,
            Verb::Cordon(command) => cordon::command::run(&command.which, Cordon::Close).await,
            Verb::Uncordon(command) => cordon::command::run(&command.which, Cordon::Open).await,
            Verb::Get(command) => get::run(&command, &clock).await,
            Verb::Tree(command) => tree::run(&command, &clock).await,
            Verb::Top(command) => top::run(&command, &clock).await,
            Verb::Logs(command) => logs::run(&command, &clock).await,
            Verb::Sim(command) => sim::command::run(&command, &clock).await,
            Verb::Plan(command) => plan::command::run(&command, &clock).await,
            Verb::Interpret(command) => interpret::run(&command, &clock),
            Verb::Crds(command) => crds::run(&command, &clock).await,
            Verb::Manifests(command) => manifests::run(&command),
            Verb::Doctor(command) => doctor::run(&command, &clock).await,
            Verb::Dashboard(command) => dashboard::run(&command, &clock).await,
            Verb::Why(command) => why::run(&command, &clock).await,
            Verb::Failover(command) => evictions::failover::run(&command, &clock).await,
            Verb::Backup(command) => backup::run(&command).await,
            Verb::Promote(command) => promote::run(&command, &clock).await,
            Verb::Apply(command) => apply::run(&command, &clock).await,
            Verb::Rebalance(command) => rebalance::run(&command, &clock).await,
            Verb::Rollout(command) => rollout::run(&command, &clock).await,
            Verb::Kubeconfig(command) => kubeconfig::run(&command).await,
            Verb::Kubectl(verb) => kubectl::run(&verb).await,
            Verb::Version(command) => version::run(&command),
            Verb::Options(options::Command {}) => options::run(tree),
            Verb::Completion(command) => {
                completion::run(&command, tree.get_bin_name().unwrap_or(program::NAME), Ironclad::command())
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_flags_are_told_in_words_of_kubectl() {
        for (line, want) in [
            ("ironclad get pods --invalidflag", Some("error: unknown flag: --invalidflag\n")),
            ("ironclad version --invalidflag", Some("error: unknown flag: --invalidflag\n")),
            ("ironclad token list --showsecrets", Some("error: unknown flag: --showsecrets\n")),
            ("ironclad version word", None),
            ("ironclad nope", None),
        ] {
            let error = Ironclad::command().try_get_matches_from(line.split(' ')).unwrap_err();
            let told = unknown_flag(&error);
            assert_eq!(
                told.as_deref().map(|text| want.is_some_and(|want| text.starts_with(want))),
                want.map(|_| true),
                "{line}: {told:?}"
            );
        }
    }

    #[test]
    fn the_tree_of_commands_is_sound() {
        Ironclad::command().debug_assert();
        switches::with_values(Ironclad::command()).debug_assert();
    }

    #[test]
    fn verbs_of_karmadactl_that_are_missing_say_what_to_use() {
        let asked = |line: &str| {
            let words = std::iter::once("ironclad").chain(line.split(' '));
            elsewhere(&switches::with_values(Ironclad::command()).try_get_matches_from(words).unwrap_err())
        };
        for (verbs, what) in ironclad_cli::elsewhere::ELSEWHERE {
            for verb in verbs {
                let want = format!("error: there is no verb {verb}\n  try: {what}");
                assert_eq!(asked(&format!("{verb} deployment web -n shop")), Some(want), "{verb}");
            }
        }
        assert_eq!(asked("frobnicate"), None);
    }

    #[test]
    fn clients_log_no_warning_about_certificates_that_they_were_told_not_to_verify() {
        use tracing_subscriber::layer::SubscriberExt as _;
        const OF_LIBRARY: &str = "kube_client::client::tls::rustls_tls";
        for (line, of_library, own) in [
            ("join m1", false, true),
            ("join m1 -v 3", true, true),
            ("join m1 --log-filter error", false, false),
            ("run", true, true),
        ] {
            let words = std::iter::once("ironclad").chain(line.split(' '));
            let ironclad = Ironclad::try_parse_from(words).unwrap();
            let filter = EnvFilter::new(ironclad.log.filter(ironclad.verb.is_server()));
            tracing::subscriber::with_default(tracing_subscriber::registry().with(filter), || {
                assert_eq!(tracing::enabled!(target: OF_LIBRARY, tracing::Level::WARN), of_library, "{line}");
                assert_eq!(tracing::enabled!(target: "ironclad_cli", tracing::Level::WARN), own, "{line}");
            });
        }
    }

    #[test]
    fn flags_of_the_connection_are_taken_before_every_verb_that_has_them() {
        for (line, is_taken) in [
            ("--context x -n shop get pods", true),
            ("--kubeconfig=k -v 3 why -n shop evicted", true),
            ("-n shop why evicted", true),
            ("-n shop why not m1 deploy/web", true),
            ("--as me plan cluster-loss m1", true),
            ("--kubeconfig k up", true),
            ("-n shop doctor", false),
            ("--nodes 3 up", false),
        ] {
            let words = std::iter::once("ironclad").chain(line.split(' ')).map(Into::into).collect();
            let tree = Ironclad::command();
            let matches = switches::with_values(tree.clone()).try_get_matches_from(early::behind(&tree, words));
            assert_eq!(matches.is_ok(), is_taken, "{line}: {:?}", matches.err().map(|error| error.to_string()));
        }
    }

    /// A first look must fit on a screen or two.
    #[test]
    fn short_help_is_short() {
        let mut tree = help::short(Ironclad::command());
        tree.build();
        for verb in tree.get_subcommands_mut().filter(|verb| verb.get_name() != "help") {
            let lines = verb.render_help().to_string().lines().count();
            assert!(lines <= 60, "{} -h has {lines} lines", verb.get_name());
        }
        for verb in ["get", "apply", "kubeconfig", "version"] {
            let error = tree.try_get_matches_from_mut(["ironclad", verb, "-h"]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DisplayHelp, "{verb} -h");
        }
        let up = tree.find_subcommand_mut("up").unwrap();
        let (short, long) = (up.render_help().to_string(), up.render_long_help().to_string());
        assert!(short.starts_with("Start here: ironclad up --demo") && short.contains("--data-dir"), "{short}");
        assert!(long.contains("--resource-eviction-rate") && !short.contains("--resource-eviction-rate"), "{short}");
    }

    #[test]
    fn every_verb_has_examples() {
        for verb in Ironclad::command().get_subcommands() {
            let examples = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(examples.starts_with("Examples:\n  "), "{} has no examples", verb.get_name());
        }
    }

    /// Every argument for a cluster, a namespace, a context or an object says which names it takes.
    #[test]
    fn arguments_for_names_are_completed() {
        fn check(command: &clap::Command, verb: &str) {
            for arg in command.get_arguments() {
                let id = arg.get_id().as_str();
                let value = arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
                let wants_names = ["CLUSTER", "MEMBER", "NAMES", "TYPE", "TYPE/NAME"].contains(&value)
                    || ["namespace", "context", "clusters"].contains(&id);
                let is_new = verb == "join" && id == "cluster" || verb == "sim add";
                if wants_names && !is_new && !["up", "run", "estimator"].contains(&verb) {
                    assert!(completion::source(verb, id).is_some(), "{verb} {id}");
                }
            }
            for below in command.get_subcommands() {
                check(below, format!("{verb} {}", below.get_name()).trim_start());
            }
        }
        check(&Ironclad::command(), "");
    }

    #[test]
    fn flags_of_every_verb_take_booleans() {
        for (line, want) in [
            ("get cm -A=false --show-managed-fields=true --watch=false", Some("Get")),
            ("logs web --follow=false --timestamps=true", Some("Logs")),
            ("top pod --containers=false --strict=true", Some("Top")),
            ("drain m1 --force=true --ignore-health=false", Some("Drain")),
            ("get cm --insecure-skip-tls-verify=true --warnings-as-errors", Some("Get")),
            ("get cm --watch=maybe", None),
        ] {
            let words = std::iter::once("ironclad").chain(line.split(' '));
            let matches = switches::with_values(Ironclad::command()).try_get_matches_from(words);
            let verb = matches.ok().map(|matches| format!("{:?}", Ironclad::from_arg_matches(&matches).unwrap().verb));
            assert_eq!(verb.as_deref().and_then(|verb| verb.split('(').next()), want, "{line}");
        }
    }

    #[test]
    fn spellings_of_karmada_are_accepted() {
        let line = [
            "ironclad", "join", "m1", "--karmada-context", "c", "--karmada-as", "u", "--karmada-as-group", "g",
            "--dry-run",
        ];
        let Verb::Join(join) = Ironclad::try_parse_from(line).unwrap().verb else { panic!("not a join") };
        assert_eq!((join.plane.context.as_deref(), join.plane.as_user.as_deref()), (Some("c"), Some("u")));
        assert_eq!(join.dry_run, ironclad_cli::dry_run::DryRun::Client, "a bare --dry-run is the client's");
        assert!(Ironclad::try_parse_from(["ironclad", "join", "m1", "--wait=2m"]).is_ok());
        assert!(Ironclad::try_parse_from(["ironclad", "unjoin", "m1", "--wait", "never"]).is_err());
    }
}
