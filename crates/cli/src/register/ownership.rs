//! Ownership of the objects of an agent in its member: a registration writes over, and `unregister` deletes, only
//! those of the same cluster's agent.

use ironclad_api::labels::{SYSTEM, TRUE};
use k8s_openapi::ByteString;
use kube::{api::DynamicObject, config::Kubeconfig};
use serde_json::Value;

use super::objects::SECRET;
use crate::print::text;

/// Annotation of the objects that `ironclad register` made in a member: the name of the cluster.
pub(crate) const AGENT_OF: &str = "agent.ironclad.io/agent-of";
/// Flag of an agent, its cluster.
const CLUSTER_NAME: &str = "--cluster-name";

/// Owner of an object of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The agent of this cluster.
    Ours,
    /// An agent of which nothing says whose it is: karmadactl's objects have only a label.
    Unmarked,
    /// Somebody else, for the reason given.
    Other(String),
}

/// Owner of an object that the agent of a cluster has in its member.
pub(crate) fn of(object: &DynamicObject, cluster: &str) -> Owner {
    let of_cluster = |found: &str| {
        if found == cluster { Owner::Ours } else { Owner::Other(format!("it is of the agent of cluster {found}")) }
    };
    let annotations = object.metadata.annotations.as_ref();
    if let Some(found) = annotations.and_then(|all| all.get(AGENT_OF)) {
        return of_cluster(found);
    }
    if let Some(found) = flag(&object.data, CLUSTER_NAME) {
        return of_cluster(&found);
    }
    if let Some(found) = kubeconfig(&object.data).and_then(|config| user(&config)) {
        return of_cluster(&found);
    }
    let label = object.metadata.labels.as_ref().and_then(|labels| labels.get(SYSTEM));
    if label.is_some_and(|value| value == TRUE) {
        Owner::Unmarked
    } else {
        Owner::Other("no registration made it".to_owned())
    }
}

/// The value of a flag in the containers of a Deployment, in their commands and in their arguments, as `--flag=value`
/// or `--flag value`.
pub(crate) fn flag(deployment: &Value, name: &str) -> Option<String> {
    let containers = deployment.pointer("/spec/template/spec/containers").and_then(Value::as_array)?;
    let words = |container: &Value| -> Vec<String> {
        let lists = ["command", "args"].map(|list| container.get(list).and_then(Value::as_array).cloned());
        let words = lists.into_iter().flatten().flatten();
        words.filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    containers.iter().find_map(|container| {
        let words = words(container);
        let at = words.iter().position(|word| word == name || word.starts_with(&format!("{name}=")))?;
        match words[at].split_once('=') {
            Some((_, value)) => Some(value.to_owned()),
            None => words.get(at + 1).cloned(),
        }
    })
}

/// The kubeconfig in a Secret of an agent.
pub(crate) fn kubeconfig(secret: &Value) -> Option<Kubeconfig> {
    let data = text(secret, &format!("/data/{SECRET}"));
    let bytes: ByteString = serde_json::from_value(data.into()).ok()?;
    Kubeconfig::from_yaml(std::str::from_utf8(&bytes.0).ok()?).ok()
}

/// The user of a kubeconfig's current context, whose name is that of the cluster.
fn user(kubeconfig: &Kubeconfig) -> Option<String> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == *current)?;
    context.context.as_ref()?.user.clone().filter(|user| !user.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(command: &[&str], args: &[&str]) -> Value {
        json!({"metadata": {"name": "karmada-agent"}, "spec": {"template": {"spec": {"containers": [
            {"name": "sidecar"}, {"name": "karmada-agent", "command": command, "args": args},
        ]}}}})
    }

    #[test]
    fn only_objects_of_the_same_cluster_are_owned() {
        let kubeconfig = super::super::kubeconfig("https://plane:6443", "", "m1", "", "").unwrap();
        let secret =
            |text: &str| json!({"metadata": {}, "data": {"karmada-kubeconfig": ByteString(text.as_bytes().to_vec())}});
        let other = |why: &str| Owner::Other(why.to_owned());
        let m2 = other("it is of the agent of cluster m2");
        for (name, object, want) in [
            ("annotated", json!({"metadata": {"annotations": {AGENT_OF: "m1"}}}), Owner::Ours),
            ("annotated with another cluster", json!({"metadata": {"annotations": {AGENT_OF: "m2"}}}), m2.clone()),
            ("karmadactl's Deployment", deployment(&["/bin/karmada-agent", "--cluster-name=m1"], &[]), Owner::Ours),
            ("a chart's Deployment", deployment(&[], &["--v=2", "--cluster-name", "m2"]), m2),
            ("karmadactl's Secret", secret(&kubeconfig), Owner::Ours),
            ("labelled", json!({"metadata": {"labels": {SYSTEM: TRUE}}}), Owner::Unmarked),
            ("a Secret of a user", secret("no kubeconfig"), other("no registration made it")),
            ("anything else", json!({"metadata": {}}), other("no registration made it")),
        ] {
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            assert_eq!(of(&object, "m1"), want, "{name}");
        }
    }

    #[test]
    fn flags_are_found_in_commands_and_arguments() {
        for (command, args, want) in [
            (vec!["agent", "--karmada-kubeconfig=/a/b"], vec![], Some("/a/b")),
            (vec!["agent"], vec!["--karmada-kubeconfig", "/a/b"], Some("/a/b")),
            (vec!["agent", "--karmada-kubeconfig"], vec!["/a/b"], Some("/a/b")),
            (vec!["agent", "--karmada-kubeconfig-other=/a"], vec![], None),
            (vec!["agent", "--karmada-kubeconfig"], vec![], None),
        ] {
            assert_eq!(flag(&deployment(&command, &args), "--karmada-kubeconfig").as_deref(), want, "{command:?}");
        }
    }
}
