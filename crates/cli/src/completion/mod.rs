//! `ironclad completion SHELL`, and the names that shells then ask this program for (specification/operations.md 2.17).

mod line;
mod names;

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    io::Write as _,
    path::PathBuf,
    sync::Arc,
};

use anyhow::Context as _;
use clap_complete::{ArgValueCompleter, CompleteEnv, CompletionCandidate, Shell, engine, env::Shells};

use self::line::Line;
use crate::{early, print, program};

/// Variable that is set while a shell asks for candidates.
const VARIABLE: &str = "IRONCLAD_COMPLETE";
/// A program of this name is asked by kubectl for the candidates of its plugin `kubectl-ironclad`.
const PLUGIN: &str = "kubectl_complete-";
/// Directive of cobra, which kubectl reads after the candidates: complete no files if there are none.
const NO_FILES: &str = ":4";

/// Print a completion script for a shell, or write manual pages.
///
/// Types, names of objects, clusters, namespaces and contexts are completed, too: the script asks this program, which
/// asks the control plane of the command line for at most a second. For kubectl's plugin link this program to the name
/// `kubectl_complete-ironclad` in the PATH.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  source <(ironclad completion bash)
  ironclad completion zsh > \"${fpath[1]}/_ironclad\"
  ironclad completion fish > ~/.config/fish/completions/ironclad.fish
  ironclad completion --man ~/.local/share/man/man1")]
pub struct Command {
    /// The shell
    #[arg(value_enum, required_unless_present = "man")]
    pub shell: Option<Shell>,
    /// Write manual pages to this folder instead, one for each verb
    #[arg(long, value_name = "DIR", conflicts_with = "shell")]
    pub man: Option<PathBuf>,
}

/// Prints the script, or writes the manual pages of this tree of commands.
///
/// # Errors
/// If stdout or the folder can't be written to.
pub fn run(command: &Command, called: &str, tree: clap::Command) -> anyhow::Result<()> {
    if let Some(folder) = &command.man {
        let context = || format!("writing manual pages to {}", folder.display());
        fs::create_dir_all(folder).with_context(context)?;
        return clap_mangen::generate_to(tree, folder).with_context(context);
    }
    // Completion of a plugin is kubectl's.
    let program = if called.contains(' ') { program::NAME } else { called };
    let Some(shell) = command.shell else { return Ok(()) };
    print::data(&script(shell, program)?)
}

fn script(shell: Shell, program: &str) -> anyhow::Result<String> {
    let shells = Shells::builtins();
    let known = shells.completer(&shell.to_string()).context("there is no script for this shell")?;
    let mut script = Vec::new();
    known.write_registration(VARIABLE, program, program, program, &mut script).context("writing the script")?;
    String::from_utf8(script).context("writing the script")
}

/// Answers a shell or kubectl that asks for candidates, if that is what this process was started for: then the result
/// is true.
#[must_use]
pub fn answer(tree: &clap::Command) -> bool {
    let words: Vec<OsString> = env::args_os().collect();
    let name = words.first().map(std::path::Path::new).and_then(|path| path.file_name());
    if name.is_some_and(|name| name.to_string_lossy().starts_with(PLUGIN)) {
        // An error is an answer without candidates.
        let _ = print::data(&of_plugin(tree, words));
        return true;
    }
    let asked: Vec<OsString> = words.iter().skip_while(|word| *word != "--").skip(1).cloned().collect();
    let index = env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|index| index.parse().ok());
    let index: usize = index.unwrap_or(asked.len().saturating_sub(1));
    let is_empty = asked.get(index).is_none_or(|word| word.is_empty());
    let before = early::behind(tree, asked.get(..index).unwrap_or_default().to_vec());
    let own = words.len() - asked.len();
    let asked = before.iter().chain(asked.iter().skip(index));
    let words = words.iter().take(own).chain(asked).cloned().collect::<Vec<_>>();
    let factory = || with_names(tree, &Arc::new(Line::read(tree, &before)), is_empty);
    let done = CompleteEnv::with_factory(factory).var(VARIABLE).try_complete(words, env::current_dir().ok().as_deref());
    // A script of another version, or words that make no sense: there are no candidates.
    done.unwrap_or(true)
}

/// Candidates in the lines that kubectl reads.
fn of_plugin(tree: &clap::Command, mut words: Vec<OsString>) -> String {
    if let Some(first) = words.first_mut() {
        *first = program::NAME.into();
    }
    let last = words.pop();
    let mut words = early::behind(tree, words);
    let line = Arc::new(Line::read(tree, &words));
    let index = words.len();
    let folder = env::current_dir().ok();
    let is_empty = last.as_ref().is_none_or(|word| word.is_empty());
    words.extend(last);
    let mut tree = with_names(tree, &line, is_empty);
    let found = engine::complete(&mut tree, words, index, folder.as_deref()).unwrap_or_default();
    let mut text = Vec::new();
    for candidate in found {
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        let help = help.lines().next().unwrap_or_default();
        let _ = writeln!(text, "{}\t{help}", candidate.get_value().to_string_lossy());
    }
    String::from_utf8_lossy(&text).into_owned() + NO_FILES + "\n"
}

/// Kind of names that an argument takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Clusters of the fleet.
    Clusters,
    /// Namespaces of the control plane.
    Namespaces,
    /// Types, without names.
    Kinds,
    /// `TYPE NAME…` or `TYPE/NAME…`.
    Objects,
    /// ResourceBindings of the control plane.
    Bindings,
    /// Pods of members, or `TYPE/NAME` of the control plane.
    Pods,
    /// `clusters`, their names, and taints.
    Taints,
    /// Contexts of the kubeconfig of the control plane.
    Contexts,
    /// Contexts of the kubeconfig of a member.
    MemberContexts,
    /// Users of the kubeconfig.
    Users,
    /// Output formats of `get`.
    Formats,
}

/// Names that an argument takes, by its verb (`sim add`) and id; `None` if it takes none that are known.
#[must_use]
pub fn source(verb: &str, argument: &str) -> Option<Source> {
    Some(match (verb, argument) {
        // New clusters.
        ("join", "cluster") | ("sim add", _) => return None,
        ("get", "output") => Source::Formats,
        ("get" | "promote" | "rebalance" | "rollout restart" | "tree", "resources" | "resource") => Source::Objects,
        (verb, "resource") if verb.split(' ').next() == Some("why") => Source::Objects,
        ("why evicted", "names") => Source::Bindings,
        ("logs", "what") => Source::Pods,
        ("taint", "words") => Source::Taints,
        ("drain", "kind") => Source::Kinds,
        (_, "cluster" | "clusters" | "members") | ("sim curl", "from") => Source::Clusters,
        (_, "namespace" | "cluster_namespace") => Source::Namespaces,
        (_, "context") => Source::Contexts,
        (_, "cluster_context") => Source::MemberContexts,
        (_, "user") => Source::Users,
        _ => return None,
    })
}

/// The tree of commands whose arguments know the names that they take. Beside names, an empty word gets no flags.
fn with_names(tree: &clap::Command, line: &Arc<Line>, is_empty: bool) -> clap::Command {
    fn decorated(command: clap::Command, verb: &str, line: &Arc<Line>, is_empty: bool) -> clap::Command {
        let command = command.mut_args(|arg| {
            // Hidden candidates are offered if there are no others.
            let arg = if is_empty && !arg.is_positional() { arg.hide(true) } else { arg };
            match source(verb, arg.get_id().as_str()) {
                Some(source) => {
                    let line = line.clone();
                    arg.add(ArgValueCompleter::new(move |current: &OsStr| candidates(source, &line, current)))
                }
                None => arg,
            }
        });
        // The one that clap adds comes too late to be hidden.
        let command = if is_empty { command.disable_help_flag(true) } else { command };
        command.mut_subcommands(|below| {
            let name = format!("{verb} {}", below.get_name());
            decorated(below, name.trim_start(), line, is_empty)
        })
    }
    decorated(tree.clone(), "", line, is_empty)
}

fn candidates(source: Source, line: &Line, current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let names = names::ask(source, line, current);
    let fitting = names.into_iter().filter(|name| name.starts_with(current) && is_plain(name));
    fitting.map(CompletionCandidate::new).collect()
}

/// True for names that a shell takes as they are: what a server calls its objects must not run as a command.
fn is_plain(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || "-._:/@=+,".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_take_the_names_that_their_ids_say() {
        for (verb, argument, want) in [
            ("get", "resources", Some(Source::Objects)),
            ("get", "clusters", Some(Source::Clusters)),
            ("get", "output", Some(Source::Formats)),
            ("drain", "output", None),
            ("why", "resource", Some(Source::Objects)),
            ("why evicted", "names", Some(Source::Bindings)),
            ("why not", "cluster", Some(Source::Clusters)),
            ("why not", "resource", Some(Source::Objects)),
            ("sim down", "members", Some(Source::Clusters)),
            ("sim add", "members", None),
            ("join", "cluster", None),
            ("unjoin", "cluster", Some(Source::Clusters)),
            ("unjoin", "cluster_context", Some(Source::MemberContexts)),
            ("top pod", "namespace", Some(Source::Namespaces)),
            ("version", "short", None),
        ] {
            assert_eq!(source(verb, argument), want, "{verb} {argument}");
        }
    }

    #[test]
    fn scripts_ask_this_program() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            for program in [program::NAME, "karmadactl"] {
                let script = script(shell, program).unwrap();
                assert!(script.contains(VARIABLE) && script.contains(program), "{shell}: {script}");
            }
        }
    }

    #[test]
    fn names_with_a_meaning_for_shells_are_no_candidates() {
        for (name, want) in [
            ("web-1.shop", true),
            ("system:node", true),
            ("arn:aws:eks:eu:1:cluster/a", true),
            ("me@gke_x", true),
            ("$(reboot)", false),
            ("a;b", false),
            ("a b", false),
            ("a\u{1b}[2J", false),
            ("`id`", false),
        ] {
            assert_eq!(is_plain(name), want, "{name:?}");
        }
    }

    #[test]
    fn kubectl_gets_candidates_and_a_directive() {
        let tree = clap::Command::new("ironclad")
            .subcommand(clap::Command::new("get").about("Show").arg(clap::Arg::new("output").long("output")))
            .subcommand(clap::Command::new("logs").about("Print"));
        let asked = |words: &str| {
            let words = words.split(' ').map(OsString::from).collect();
            of_plugin(&tree, words)
        };
        assert_eq!(asked("kubectl_complete-ironclad ge"), "get\tShow\n:4\n");
        let kinds = clap::Arg::new("kind").value_parser(["pods", "nodes"]);
        let tree =
            tree.clone().mut_subcommand("get", |get| get.arg(kinds).arg(clap::Arg::new("context").long("context")));
        let asked_for = |words: &str| of_plugin(&tree, words.split(' ').map(OsString::from).collect());
        assert_eq!(asked_for("kubectl_complete-ironclad get "), "pods\t\nnodes\t\n:4\n", "no flags beside names");
        assert_eq!(asked_for("kubectl_complete-ironclad --context x get "), "pods\t\nnodes\t\n:4\n");
        assert_eq!(asked_for("kubectl_complete-ironclad get -"), "--output\t\n--context\t\n-h\tPrint help\n:4\n");
        assert_eq!(
            asked("kubectl_complete-ironclad get --output js"),
            "json\t\njsonpath=\t\njsonpath-as-json=\t\njsonpath-file=\t\n:4\n"
        );
    }
}
