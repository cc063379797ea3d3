//! Daily work of users with kubectl: the same flows through `ironclad up` and on real kube-apiservers.

mod content;
mod life;
mod placement;

use std::time::Duration;

use anyhow::{Context as _, ensure};
use ironclad_testkit::real::{Kubectl, until};
use serde_json::Value;

const DEADLINE: Duration = Duration::from_secs(90);

/// A control plane, two members, and the namespace of the flow.
pub(crate) struct Flow<'a> {
    pub(crate) plane: &'a Kubectl,
    pub(crate) members: &'a [Kubectl],
    namespace: String,
}

/// Runs every flow, one after the other, each in its own namespace.
pub(crate) async fn walk(plane: &Kubectl, members: &[Kubectl]) -> anyhow::Result<()> {
    macro_rules! flows {
        ($($module:ident::$name:ident),+ $(,)?) => {
            $({
                let flow = Flow { plane, members, namespace: stringify!($name).replace('_', "-") };
                let _ = plane.run(["create", "namespace", &flow.namespace]).await?;
                Box::pin($module::$name(&flow)).await.context(concat!("flow ", stringify!($name)))?;
                println!("flow {}: passed", stringify!($name));
                plane.run(["delete", "namespace", &flow.namespace, "--wait=false"]).await?;
            })+
        };
    }
    flows!(
        placement::by_labels,
        placement::by_fields,
        placement::excluded,
        placement::tainted,
        placement::handed_over,
        content::overridden,
        content::dependencies,
        content::custom_resources,
        content::cluster_scoped,
        content::jobs_divided,
        content::stateful_and_daemon_sets,
        content::services,
        life::suspended,
        life::preserved,
        life::adopted,
        life::replicas_retained,
        life::rebalanced,
        life::namespace_kept_out,
        life::rolled_out,
        life::deletion_protected,
    );
    Ok(())
}

impl Flow<'_> {
    /// Applies manifests in the control plane; `NS` in them is the flow's namespace.
    pub(crate) async fn apply(&self, manifests: &str) -> anyhow::Result<()> {
        let manifests = manifests.replace("NS", &self.namespace);
        self.plane.apply(&manifests).await.map(drop)
    }

    /// Runs `kubectl -n NS ARGUMENTS` in the control plane.
    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.plane.run([&["-n", self.namespace.as_str()], arguments].concat()).await
    }

    /// Runs `kubectl -n NS ARGUMENTS` in a member, `1` the first.
    pub(crate) async fn in_member(&self, member: usize, arguments: &[&str]) -> anyhow::Result<String> {
        let member = member.checked_sub(1).and_then(|i| self.members.get(i)).context("no such member")?;
        member.run([&["-n", self.namespace.as_str()], arguments].concat()).await
    }

    /// Waits until a field of an object in a member has this value.
    pub(crate) async fn member_has(
        &self,
        member: usize,
        object: &str,
        pointer: &str,
        value: Value,
    ) -> anyhow::Result<()> {
        until(&format!("{object} in member{member} has {value} at {pointer:?}"), DEADLINE, async || {
            is(&self.in_member(member, &["get", object, "-o", "json"]).await?, pointer, &value)
        })
        .await
    }

    /// Waits until a field of an object in the control plane has this value.
    pub(crate) async fn plane_has(&self, object: &str, pointer: &str, value: Value) -> anyhow::Result<()> {
        until(&format!("{object} has {value} at {pointer:?}"), DEADLINE, async || {
            is(&self.kubectl(&["get", object, "-o", "json"]).await?, pointer, &value)
        })
        .await
    }

    /// Waits until a member has the object, or does not have it.
    pub(crate) async fn is_in_member(&self, member: usize, object: &str, there: bool) -> anyhow::Result<()> {
        until(&format!("{object} is{} in member{member}", if there { "" } else { " not" }), DEADLINE, async || {
            let found = self.in_member(member, &["get", object, "--ignore-not-found", "-o", "name"]).await?;
            ensure!(found.trim().is_empty() != there, "found {found:?}");
            Ok(())
        })
        .await
    }

    /// Waits until a condition of an object in the control plane is `True`.
    pub(crate) async fn is_true(&self, object: &str, condition: &str) -> anyhow::Result<()> {
        let template = format!("jsonpath={{.status.conditions[?(@.type==\"{condition}\")].status}}");
        until(&format!("{object} is {condition}"), DEADLINE, async || {
            let status = self.kubectl(&["get", object, "-o", &template]).await?;
            ensure!(status == "True", "it is {status:?}");
            Ok(())
        })
        .await
    }

    /// Waits until a binding is scheduled to these clusters: `member1:2,member2`.
    pub(crate) async fn placed(&self, binding: &str, clusters: &str) -> anyhow::Result<()> {
        until(&format!("{binding} is placed on {clusters}"), DEADLINE, async || {
            let object: Value =
                serde_json::from_str(&self.kubectl(&["get", "resourcebinding", binding, "-o", "json"]).await?)?;
            let mut all: Vec<String> = object["spec"]["clusters"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|target| match target["replicas"].as_i64() {
                    Some(replicas) if replicas > 0 => {
                        format!("{}:{replicas}", target["name"].as_str().unwrap_or_default())
                    }
                    _ => target["name"].as_str().unwrap_or_default().to_owned(),
                })
                .collect();
            all.sort();
            ensure!(all.join(",") == clusters, "it is on {}: {}", all.join(","), object["status"]["conditions"]);
            Ok(())
        })
        .await
    }
}

fn is(text: &str, pointer: &str, value: &Value) -> anyhow::Result<()> {
    let object: Value = serde_json::from_str(text)?;
    let found = object.pointer(pointer).unwrap_or(&Value::Null);
    ensure!(found == value, "it has {found}");
    Ok(())
}

pub(crate) fn deployment(name: &str, replicas: u32) -> String {
    crate::propagation::deployment(name, replicas).replace("namespace: default", "namespace: NS")
}

/// A PropagationPolicy for one object of the flow's namespace; `more` goes below `spec`.
pub(crate) fn policy(name: &str, api_version: &str, kind: &str, more: &str) -> String {
    format!(
        "---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: {name}, namespace: NS}}
spec:
  resourceSelectors: [{{apiVersion: {api_version}, kind: {kind}, name: {name}}}]
  {more}
"
    )
}
