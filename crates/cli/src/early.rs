//! Flags of a verb that stand before it: kubectl takes those of the connection, and the namespace, there too.

use std::ffi::OsString;

use clap::{Arg, Args as _, Command};

use crate::connect::Plane;

/// The words of a command line, the program's first, with such flags behind all others. A verb that asks no control
/// plane gets only those that it has. From an unknown flag on the words stay as they are, as the parser says what is
/// wrong with it.
#[must_use]
pub fn behind(tree: &Command, mut words: Vec<OsString>) -> Vec<OsString> {
    let early = Plane::augment_args(Command::new("")).arg(Arg::new("namespace").short('n').long("namespace"));
    let (mut at, mut moved) = (1, Vec::new());
    while let Some(flag) = words.get(at).and_then(|word| word.to_str()).filter(|word| word.starts_with('-')) {
        match (length(tree, flag), length(&early, flag)) {
            (Some(own), _) => at += own,
            (None, Some(length)) => moved.push(words.drain(at..words.len().min(at + length)).collect::<Vec<_>>()),
            (None, None) => break,
        }
    }
    let verb = verb(tree, &words[at.min(words.len())..]);
    let is_taken = |flag: &Vec<OsString>| verb.is_none_or(|verb| takes(verb, &flag[0]));
    let kept: Vec<OsString> = moved.into_iter().filter(is_taken).flatten().collect();
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    drop(words.splice(end..end, kept));
    words
}

/// The verb that these words begin with, with those below it.
fn verb<'a>(tree: &'a Command, words: &[OsString]) -> Option<&'a Command> {
    let mut verbs = words.iter().map_while(|word| word.to_str().filter(|word| !word.starts_with('-')));
    let first = tree.find_subcommand(verbs.next()?)?;
    Some(verbs.fold(first, |verb, word| verb.find_subcommand(word).unwrap_or(verb)))
}

/// True if the verb has this flag, passes its arguments on, or asks a control plane: then the parser says what is
/// wrong.
fn takes(verb: &Command, flag: &OsString) -> bool {
    let has = |flag: &str| length(verb, flag).is_some();
    has("--kubeconfig")
        || flag.to_str().is_some_and(has)
        || verb.get_arguments().any(clap::Arg::is_trailing_var_arg_set)
}

/// Number of words that a flag takes, if the command has it.
fn length(command: &Command, flag: &str) -> Option<usize> {
    let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
    let arg = command.get_arguments().find(|arg| match name.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|all| all.contains(&long)),
        None => arg.get_short().is_some_and(|short| name.chars().nth(1) == Some(short)),
    })?;
    // Behind a short name its value may stand in the same word.
    let is_whole = value.is_none() && (name.starts_with("--") || name.len() == 2);
    Some(1 + usize::from(is_whole && arg.get_action().takes_values() && !arg.is_require_equals_set()))
}

#[cfg(test)]
mod tests {
    use clap::ArgAction;

    use super::*;

    #[test]
    fn flags_of_the_connection_are_taken_before_the_verb() {
        let own = Arg::new("verbosity").short('v').long("v").global(true);
        let switch = Arg::new("skip").long("skip-headers").num_args(0..=1).require_equals(true).global(true);
        let tree = Command::new("ironclad").arg(own).arg(switch).subcommand(
            Plane::augment_args(Command::new("get"))
                .arg(Arg::new("watch").short('w').action(ArgAction::SetTrue))
                .arg(Arg::new("kind")),
        );
        let raw = Arg::new("words").trailing_var_arg(true).num_args(0..);
        let token = Command::new("token").subcommand(Plane::augment_args(Command::new("list")));
        let manifests = Command::new("manifests").arg(Arg::new("namespace").short('n').long("namespace"));
        let agent = Command::new("agent").arg(Arg::new("member").long("cluster-kubeconfig").alias("kubeconfig"));
        let version = Command::new("version");
        let tree = tree.subcommands([version, Command::new("exec").arg(raw), token, manifests, agent]);
        for (line, want) in [
            ("get pods -n shop", "get pods -n shop"),
            ("--context x get pods", "get pods --context x"),
            ("--karmada-context=x -n shop get pods -w", "get pods -w --karmada-context=x -n shop"),
            ("-nshop get pods", "get pods -nshop"),
            ("-n=shop get -- pods", "get -n=shop -- pods"),
            ("-v 3 --kubeconfig k -v6 get", "-v 3 -v6 get --kubeconfig k"),
            (
                "--skip-headers --as me --insecure-skip-tls-verify get",
                "--skip-headers get --as me --insecure-skip-tls-verify",
            ),
            ("--kubeconfig k version", "version"),
            ("--kubeconfig=k -n shop version --short", "version --short"),
            ("--kubeconfig k -n shop manifests", "manifests -n shop"),
            ("--kubeconfig k agent", "agent --kubeconfig k"),
            ("--kubeconfig k token list", "token list --kubeconfig k"),
            ("--kubeconfig k exec pod", "exec pod --kubeconfig k"),
            ("--kubeconfig k nope", "nope --kubeconfig k"),
            ("--nope --context x get", "--nope --context x get"),
            ("--context x --nope get", "--nope get --context x"),
            ("--context", "--context"),
            ("- get", "- get"),
            ("", ""),
        ] {
            let words = ["ironclad"].into_iter().chain(line.split_whitespace()).map(OsString::from).collect();
            let got: Vec<_> = behind(&tree, words).into_iter().map(|word| word.into_string().unwrap()).collect();
            assert_eq!(got[1..].join(" "), want, "{line}");
        }
    }
}
