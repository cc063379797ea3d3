//! Actions of the dashboard: each is a verb, which runs as it does on a command line, and what it prints is shown.

use clap::{Args, Command};
use futures::FutureExt as _;
use ironclad_dashboard::{Action, Actions, Done, Failed, Reference};
use ironclad_seam::Clock;
use serde_json::json;

use super::failed::failed;
use crate::{
    connect::Plane,
    cordon::{self, Cordon},
    drain, evictions, print, rebalance, rollout,
};

/// Actions with the rights of a kubeconfig.
pub struct Acting {
    plane: Plane,
    clock: Clock,
}

impl Acting {
    /// Actions in this control plane.
    #[must_use]
    pub fn new(plane: Plane, clock: Clock) -> Self {
        Self { plane, clock }
    }

    /// Runs the verb of these words; returns what it printed, too.
    async fn run(&self, action: &Action, words: &[String]) -> anyhow::Result<(anyhow::Result<()>, String)> {
        let plane = || self.plane.clone();
        Ok(match action {
            Action::Cordon(_) | Action::Uncordon(_) => {
                let which = cordon::command::Which { plane: plane(), ..parsed(words)? };
                let to = if matches!(action, Action::Cordon(_)) { Cordon::Close } else { Cordon::Open };
                print::captured(cordon::command::run(&which, to)).await
            }
            Action::Drain(_) => {
                let command = drain::command::Command { plane: plane(), ..parsed(words)? };
                print::captured(drain::command::run(&command, &self.clock)).await
            }
            Action::PauseFailover | Action::ResumeFailover => {
                let command = evictions::failover::Command { plane: plane(), ..parsed(words)? };
                print::captured(evictions::failover::run(&command, &self.clock)).await
            }
            Action::Rebalance(_) => {
                let command = rebalance::Command { plane: plane(), ..parsed(words)? };
                print::captured(rebalance::run(&command, &self.clock)).await
            }
            Action::Restart(_) => {
                let command = rollout::Restart { plane: plane(), ..parsed(&words[1..])? };
                print::captured(rollout::restart(&command, &self.clock)).await
            }
        })
    }

    fn told<'a>(&'a self, action: &'a Action, more: &'static [&'static str]) -> Done<'a> {
        async move {
            let mut words = words(action);
            let line = format!("ironclad {}", words.join(" "));
            words.extend(more.iter().map(|word| (*word).to_owned()));
            let (done, text) = self.run(action, &words).await.unwrap_or_else(|error| (Err(error), String::new()));
            match done {
                Ok(()) => Ok(json!({ "line": line, "text": text })),
                Err(error) => Err(Failed { printed: text, ..failed(&crate::asked::explained(error)) }),
            }
        }
        .boxed_local()
    }
}

impl Actions for Acting {
    fn rehearse<'a>(&'a self, action: &'a Action) -> Done<'a> {
        self.told(action, &["--dry-run"])
    }

    fn act<'a>(&'a self, action: &'a Action) -> Done<'a> {
        self.told(action, &[])
    }
}

/// The command line of an action, behind the program's name.
fn words(action: &Action) -> Vec<String> {
    let of_cluster = |verb: &str, name: &String| vec![verb.to_owned(), name.clone()];
    let of_template = |verb: &str, Reference { namespace, kind, name }: &Reference| {
        let mut words: Vec<String> = verb.split(' ').map(str::to_owned).collect();
        words.push(format!("{kind}/{name}"));
        if !namespace.is_empty() {
            words.extend(["-n".to_owned(), namespace.clone()]);
        }
        words
    };
    match action {
        Action::Cordon(name) => of_cluster("cordon", name),
        Action::Uncordon(name) => of_cluster("uncordon", name),
        Action::Drain(name) => of_cluster("drain", name),
        Action::PauseFailover => vec!["failover".to_owned(), "pause".to_owned()],
        Action::ResumeFailover => vec!["failover".to_owned(), "resume".to_owned()],
        Action::Rebalance(template) => of_template("rebalance", template),
        Action::Restart(template) => of_template("rollout restart", template),
    }
}

/// The arguments of a verb, as its command line is read.
pub(super) fn parsed<T: Args>(words: &[String]) -> anyhow::Result<T> {
    let matches = T::augment_args(Command::new("verb")).try_get_matches_from(words)?;
    Ok(T::from_arg_matches(&matches)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dry_run::DryRun;

    fn web() -> Reference {
        Reference { namespace: "shop".into(), kind: "deployment.apps".into(), name: "web".into() }
    }

    #[test]
    fn actions_are_command_lines() {
        let bare = Reference { namespace: String::new(), ..web() };
        for (action, want) in [
            (Action::Cordon("m1".into()), "cordon m1"),
            (Action::Uncordon("m1".into()), "uncordon m1"),
            (Action::Drain("m1".into()), "drain m1"),
            (Action::PauseFailover, "failover pause"),
            (Action::ResumeFailover, "failover resume"),
            (Action::Rebalance(web()), "rebalance deployment.apps/web -n shop"),
            (Action::Rebalance(bare), "rebalance deployment.apps/web"),
            (Action::Restart(web()), "rollout restart deployment.apps/web -n shop"),
        ] {
            assert_eq!(words(&action).join(" "), want);
        }
    }

    #[test]
    fn verbs_read_what_actions_say_and_write_nothing_when_it_is_rehearsed() {
        for (more, want) in [(vec![], DryRun::None), (vec!["--dry-run".to_owned()], DryRun::Client)] {
            let of = |action: &Action| [words(action), more.clone()].concat();
            let which: cordon::command::Which = parsed(&of(&Action::Cordon("m1".into()))).unwrap();
            assert_eq!((which.clusters, which.dry_run), (vec!["m1".to_owned()], want));
            let command: drain::command::Command = parsed(&of(&Action::Drain("m1".into()))).unwrap();
            assert_eq!((command.cluster.as_str(), command.dry_run), ("m1", want));
            let command: evictions::failover::Command = parsed(&of(&Action::PauseFailover)).unwrap();
            assert!(matches!(command.verb, evictions::failover::Verb::Pause { dry_run } if dry_run == want));
            let command: evictions::failover::Command = parsed(&of(&Action::ResumeFailover)).unwrap();
            assert!(matches!(command.verb, evictions::failover::Verb::Resume { dry_run } if dry_run == want));
            let command: rebalance::Command = parsed(&of(&Action::Rebalance(web()))).unwrap();
            assert_eq!((command.resource, command.dry_run), (vec!["deployment.apps/web".to_owned()], want));
            assert_eq!(command.namespace.as_deref(), Some("shop"));
            let command: rollout::Restart = parsed(&of(&Action::Restart(web()))[1..]).unwrap();
            assert_eq!((command.resource, command.dry_run), (vec!["deployment.apps/web".to_owned()], want));
            assert_eq!(command.namespace.as_deref(), Some("shop"));
        }
    }
}
