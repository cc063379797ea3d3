//! Actions: the fixed list of what pages can change, each of them a verb of the command line.

use futures::future::LocalBoxFuture;
use serde::Deserialize;
use serde_json::Value;

use crate::views::{Failed, Reference};

/// Bytes of the body of an action.
pub(crate) const BODY_MAX: usize = 4 * 1024;
/// Bytes of a name.
const NAME_MAX: usize = 253;

/// A change that a user asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A cluster gets no new work.
    Cordon(String),
    /// It gets new work again.
    Uncordon(String),
    /// Workloads of a cluster move elsewhere.
    Drain(String),
    /// Nothing is evicted in the whole fleet.
    PauseFailover,
    /// Evictions go on.
    ResumeFailover,
    /// A template is scheduled anew.
    Rebalance(Reference),
    /// The Pods of a template's copies are replaced.
    Restart(Reference),
}

/// Names of the actions in addresses.
pub(crate) const NAMES: [&str; 7] =
    ["cordon", "uncordon", "drain", "pause-failover", "resume-failover", "rebalance", "restart"];

/// Result of an action before or after it, as the verb prints it.
pub type Done<'a> = LocalBoxFuture<'a, Result<Value, Failed>>;

/// Implementation of the actions.
pub trait Actions {
    /// The command line of an action, and what it would do: nothing is written.
    fn rehearse<'a>(&'a self, action: &'a Action) -> Done<'a>;
    /// Does it.
    fn act<'a>(&'a self, action: &'a Action) -> Done<'a>;
}

/// Body of a request for an action.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    name: String,
    /// Only what it would do is asked.
    #[serde(default, rename = "dryRun")]
    dry_run: bool,
}

/// An action that is asked for, or only what it would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) action: Action,
    pub(crate) is_dry: bool,
}

/// Reads a request for the action of this name.
///
/// The verb gets names as words of a command line, so that nothing is one that could be a flag.
pub(crate) fn wish(name: &str, body: &[u8]) -> Result<Wish, Failed> {
    let wrong = |what: String| Failed::new(400, &what);
    let body: Body =
        serde_json::from_slice(body).map_err(|error| wrong(format!("the body of {name} can't be read: {error}")))?;
    let named = |field: &str, value: &str| match is_name(value) {
        true => Ok(value.to_owned()),
        false => Err(wrong(format!("{field} {value:?} of {name} is no name of an object"))),
    };
    let cluster = || match body.namespace.is_empty() && body.kind.is_empty() {
        true => named("name", &body.name),
        false => Err(wrong(format!("{name} is about a cluster, which has no kind and no namespace"))),
    };
    let fleet = |action| match body.name.is_empty() && body.namespace.is_empty() && body.kind.is_empty() {
        true => Ok(action),
        false => Err(wrong(format!("{name} is about the whole fleet, and has no object"))),
    };
    let template = || {
        Ok(Reference {
            namespace: if body.namespace.is_empty() { String::new() } else { named("namespace", &body.namespace)? },
            kind: named("kind", &body.kind)?,
            name: named("name", &body.name)?,
        })
    };
    let action = match name {
        "cordon" => Action::Cordon(cluster()?),
        "uncordon" => Action::Uncordon(cluster()?),
        "drain" => Action::Drain(cluster()?),
        "pause-failover" => fleet(Action::PauseFailover)?,
        "resume-failover" => fleet(Action::ResumeFailover)?,
        "rebalance" => Action::Rebalance(template()?),
        "restart" => Action::Restart(template()?),
        _ => return Err(Failed::new(404, &format!("there is no action {name}"))),
    };
    Ok(Wish { action, is_dry: body.dry_run })
}

/// True for a name that objects of the control plane can have, roles (`system:x`) included, which is no flag.
fn is_name(text: &str) -> bool {
    let is_of_it = |c: char| c.is_ascii_alphanumeric() || "-.:_".contains(c);
    !text.is_empty() && text.len() <= NAME_MAX && text.chars().all(is_of_it) && !text.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_say_what_an_action_is_about() {
        let web = Reference { namespace: "shop".into(), kind: "deployment.apps".into(), name: "web".into() };
        for (name, body, want) in [
            ("cordon", r#"{"name": "m1"}"#, Ok((Action::Cordon("m1".into()), false))),
            ("cordon", r#"{"name": "m1", "dryRun": true}"#, Ok((Action::Cordon("m1".into()), true))),
            ("uncordon", r#"{"name": "m1"}"#, Ok((Action::Uncordon("m1".into()), false))),
            ("drain", r#"{"name": "m1"}"#, Ok((Action::Drain("m1".into()), false))),
            ("pause-failover", "{}", Ok((Action::PauseFailover, false))),
            ("resume-failover", r#"{"dryRun": true}"#, Ok((Action::ResumeFailover, true))),
            (
                "rebalance",
                r#"{"namespace": "shop", "kind": "deployment.apps", "name": "web"}"#,
                Ok((Action::Rebalance(web.clone()), false)),
            ),
            (
                "restart",
                r#"{"namespace": "shop", "kind": "deployment.apps", "name": "web", "dryRun": true}"#,
                Ok((Action::Restart(web), true)),
            ),
            ("cordon", "{}", Err((400, "name \"\""))),
            ("cordon", r#"{"name": "--selector=a"}"#, Err((400, "name \"--selector=a\""))),
            ("cordon", r#"{"name": "m1 m2"}"#, Err((400, "name \"m1 m2\""))),
            ("cordon", r#"{"name": "m1", "namespace": "shop"}"#, Err((400, "has no kind and no namespace"))),
            ("drain", r#"{"name": "m1", "force": true}"#, Err((400, "unknown field `force`"))),
            ("pause-failover", r#"{"name": "m1"}"#, Err((400, "the whole fleet"))),
            ("rebalance", r#"{"name": "web"}"#, Err((400, "kind \"\""))),
            ("restart", r#"{"kind": "deployment", "name": "-C"}"#, Err((400, "name \"-C\""))),
            ("rebalance", r#"{"namespace": "-n", "kind": "pod", "name": "web"}"#, Err((400, "namespace \"-n\""))),
            ("cordon", "", Err((400, "can't be read"))),
            ("cordon", "name=m1", Err((400, "can't be read"))),
            ("delete", r#"{"name": "m1"}"#, Err((404, "no action delete"))),
        ] {
            match (wish(name, body.as_bytes()), want) {
                (Ok(got), Ok((action, is_dry))) => assert_eq!(got, Wish { action, is_dry }, "{name} {body}"),
                (Err(failed), Err((status, what))) => {
                    assert!(failed.status == status && failed.what.contains(what), "{name} {body}: {failed:?}");
                }
                (got, _) => panic!("{name} {body}: {got:?}"),
            }
        }
        for name in NAMES {
            let body = match name {
                "pause-failover" | "resume-failover" => "{}",
                _ => r#"{"name": "x"}"#,
            };
            assert!(!matches!(wish(name, body.as_bytes()), Err(Failed { status: 404, .. })), "{name} is none");
        }
    }
}
