//! The words before the one that is completed.

use std::{ffi::OsString, path::PathBuf};

use clap::{ArgMatches, Command, parser::ValueSource};

use crate::{connect::Plane, get::Scope};

/// Positional arguments that take several words.
const POSITIONALS: [&str; 3] = ["resources", "resource", "words"];

/// Servers to ask for names, by the words before the completed one.
#[derive(Debug, Default, Clone)]
pub(super) struct Line {
    /// The control plane.
    pub(super) plane: Plane,
    /// Kubeconfig of a member.
    pub(super) member_kubeconfig: Option<PathBuf>,
    /// Namespace, if one is named.
    pub(super) namespace: Option<String>,
    pub(super) all_namespaces: bool,
    /// Members, if some are named.
    pub(super) clusters: Vec<String>,
    /// Members are asked instead of the control plane.
    pub(super) of_members: bool,
    /// Positional words of an argument that takes several.
    pub(super) positionals: Vec<String>,
}

impl Line {
    /// Reads the words, the program's name first, as far as they make sense.
    pub(super) fn read(tree: &Command, words: &[OsString]) -> Self {
        let Ok(matches) = tree.clone().ignore_errors(true).try_get_matches_from(words) else { return Self::default() };
        let mut verb = &matches;
        while let Some((_, below)) = verb.subcommand() {
            verb = below;
        }
        let clusters = many(verb, "clusters");
        let scope = verb.try_get_one::<Scope>("operation_scope").ok().flatten().copied();
        let of_members = match scope {
            Some(scope) => scope == Scope::Members,
            None => !clusters.is_empty(),
        };
        Self {
            plane: Plane {
                kubeconfig: one(verb, "kubeconfig"),
                context: one(verb, "context"),
                user: one(verb, "user"),
                server: one(verb, "server"),
                token: one(verb, "token"),
                insecure_skip_tls_verify: is_set(verb, "insecure_skip_tls_verify"),
                as_user: one(verb, "as_user"),
                as_groups: many(verb, "as_groups"),
                as_uid: one(verb, "as_uid"),
                request_timeout: None,
                warnings_as_errors: false,
                given: None,
            },
            member_kubeconfig: one(verb, "cluster_kubeconfig"),
            namespace: one(verb, "namespace"),
            all_namespaces: is_set(verb, "all_namespaces"),
            clusters,
            of_members,
            positionals: POSITIONALS.iter().flat_map(|id| many(verb, id)).collect(),
        }
    }
}

/// Value of an argument that was given; verbs without it have none.
fn one<T: Clone + Send + Sync + 'static>(verb: &ArgMatches, id: &str) -> Option<T> {
    let value = verb.try_get_one::<T>(id).ok().flatten().cloned()?;
    (verb.value_source(id) != Some(ValueSource::DefaultValue)).then_some(value)
}

fn many(verb: &ArgMatches, id: &str) -> Vec<String> {
    verb.try_get_many::<String>(id).ok().flatten().into_iter().flatten().cloned().collect()
}

fn is_set(verb: &ArgMatches, id: &str) -> bool {
    one::<bool>(verb, id).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::*;

    fn line(words: &str) -> Line {
        let get = crate::get::Command::augment_args(Command::new("get"));
        let top = crate::top::Command::augment_args(Command::new("top"));
        let join = crate::join::command::Command::augment_args(Command::new("join"));
        let tree = Command::new("ironclad").subcommands([get, top, join]);
        Line::read(&tree, &words.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn words_before_the_completed_one_are_read() {
        let read = line("ironclad get deploy web -n shop -C m1,m2 --kubeconfig kc --context plane --as me");
        assert_eq!(read.positionals, ["deploy", "web"]);
        assert_eq!((read.namespace.as_deref(), read.of_members), (Some("shop"), true));
        assert_eq!(read.clusters, ["m1", "m2"]);
        assert_eq!(read.plane.kubeconfig, Some("kc".into()));
        assert_eq!((read.plane.context.as_deref(), read.plane.as_user.as_deref()), (Some("plane"), Some("me")));
        let read = line("ironclad top pod -A");
        assert!(read.all_namespaces && read.clusters.is_empty() && !read.of_members);
        assert!(line("ironclad get pods -s members").of_members);
        assert!(!line("ironclad get pods -s all -C m1").of_members);
        assert_eq!(line("ironclad join m1 --cluster-kubeconfig m.kc").member_kubeconfig, Some("m.kc".into()));
    }

    #[test]
    fn unfinished_lines_are_read_as_far_as_they_make_sense() {
        for words in ["ironclad", "ironclad get", "ironclad get -n", "ironclad nosuch", "ironclad get --nosuch", ""] {
            assert_eq!(line(words).positionals, Vec::<String>::new(), "{words}");
        }
        let read = line("ironclad get deploy -n shop --context plane --timeout");
        assert_eq!((read.positionals, read.namespace), (vec!["deploy".to_owned()], Some("shop".to_owned())));
        assert_eq!(read.plane.context.as_deref(), Some("plane"));
    }
}
