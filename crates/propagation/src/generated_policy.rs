//! Policies that verbs make: one for each template, which it names (specification/operations.md 2.10, 2.13).

use ironclad_api::{
    names,
    policy::{ClusterPropagationPolicy, PropagationPolicy, ResourceSelector},
};
use ironclad_fleet::Gvk;
use serde_json::{Value, json};

use crate::{
    policy_match::{self, Policy},
    skipped_resources::Skipped,
    template::Identity,
};

/// A policy that selects this template alone, with this placement. Its name is that of every verb for the template,
/// so that to make it again changes the same policy.
#[must_use]
pub fn of(template: &Value, placement: &Value, name: Option<&str>) -> Value {
    let text = |pointer: &str| template.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (namespace, of) = (text("/metadata/namespace"), text("/metadata/name"));
    let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
    let gvk = names::gvk_text(group, version, text("/kind"));
    let name = name.map_or_else(|| names::policy_name(namespace, of, &gvk), str::to_owned);
    let mut selector = json!({"apiVersion": text("/apiVersion"), "kind": text("/kind"), "name": of});
    let mut metadata = json!({"name": name});
    let kind = match namespace {
        "" => "ClusterPropagationPolicy",
        namespace => {
            selector["namespace"] = json!(namespace);
            metadata["namespace"] = json!(namespace);
            "PropagationPolicy"
        }
    };
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": kind, "metadata": metadata,
        "spec": {"resourceSelectors": [selector], "placement": placement},
    })
}

/// The template for which a verb made a policy ([`of`]). `None` for policies with other names: they are a user's.
#[must_use]
pub fn template_of(policy: Policy<'_>) -> Option<&ResourceSelector> {
    let [only] = policy.spec().resource_selectors.as_slice() else { return None };
    let metadata = policy.metadata();
    let (group, version) = only.api_version.split_once('/').unwrap_or(("", &only.api_version));
    let gvk = names::gvk_text(group, version, &only.kind);
    let is_within = only.namespace == metadata.namespace.as_deref().unwrap_or_default();
    let name = names::policy_name(&only.namespace, &only.name, &gvk);
    (is_within && !only.name.is_empty() && metadata.name.as_ref() == Some(&name)).then_some(only)
}

/// The policy that keeps a promoted template in its cluster, and the object there when the template is deleted.
#[must_use]
pub fn of_promoted(template: &Value, cluster: &str, name: Option<&str>) -> Value {
    let mut policy = of(template, &json!({"clusterAffinity": {"clusterNames": [cluster]}}), name);
    policy["spec"]["conflictResolution"] = json!("Overwrite");
    policy["spec"]["preserveResourcesOnDeletion"] = json!(true);
    policy
}

/// The policy that would claim the template instead of its generated one, if there is one, for people. `policies` are
/// those that the control plane has.
///
/// # Errors
/// If the generated policy is none.
pub fn claimed_instead<'a>(
    generated: &Value,
    policies: impl Iterator<Item = Policy<'a>>,
    template: &Value,
) -> Result<Option<String>, serde_json::Error> {
    let (namespaced, wide): (PropagationPolicy, ClusterPropagationPolicy);
    let own = match generated["kind"].as_str() {
        Some("PropagationPolicy") => {
            namespaced = serde_json::from_value(generated.clone())?;
            Policy::Namespaced(&namespaced)
        }
        _ => {
            wide = serde_json::from_value(generated.clone())?;
            Policy::Cluster(&wide)
        }
    };
    let key = own.key();
    let mut all: Vec<Policy<'_>> = policies.filter(|policy| policy.key() != key).collect();
    all.push(own);
    let Some(choice) = policy_match::choose(all.into_iter(), &Identity::of(template)) else { return Ok(None) };
    let lost = choice.losers.iter().find(|(policy, _)| policy.key() == key);
    Ok(lost.map(|(_, why)| format!("{} would claim it, not the generated policy: {why}", choice.policy.key())))
}

/// Manifests with a policy before each, which propagates it to these clusters; none named means all.
#[derive(Debug, Default, PartialEq)]
pub struct WithPolicies {
    /// Everything to apply, in order. A policy has the labels of its template, so that selectors of labels find
    /// both.
    pub manifests: Vec<Value>,
    /// Positions of the policies in it; the template of each follows.
    pub generated: Vec<usize>,
    /// `kind/name` of those that no policy propagates: they are for the control plane alone.
    pub of_plane: Vec<String>,
}

/// Adds the policies. Namespaces get none: every cluster has them anyway.
#[must_use]
pub fn of_manifests(manifests: Vec<Value>, clusters: &[String]) -> WithPolicies {
    let skipped = Skipped::default();
    let affinity = if clusters.is_empty() { json!({}) } else { json!({"clusterNames": clusters}) };
    let placement = json!({"clusterAffinity": affinity});
    let mut all = WithPolicies::default();
    for manifest in manifests {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        let gvk = Gvk::from_manifest(text("/apiVersion"), kind);
        if skipped.skips_kind(&gvk) || skipped.skips_object(&gvk, text("/metadata/namespace"), name) {
            all.of_plane.push(format!("{}/{name}", kind.to_ascii_lowercase()));
        } else if !(gvk.group.is_empty() && kind == "Namespace") {
            let mut policy = of(&manifest, &placement, None);
            if let Some(labels) = manifest.pointer("/metadata/labels").filter(|labels| labels.is_object()) {
                policy["metadata"]["labels"] = labels.clone();
            }
            all.generated.push(all.manifests.len());
            all.manifests.push(policy);
        }
        all.manifests.push(manifest);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_names_the_object_and_its_cluster() {
        let namespaced =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}});
        let got = of_promoted(&namespaced, "m1", None);
        let name = names::policy_name("shop", "web", &names::gvk_text("apps", "v1", "Deployment"));
        assert_eq!(got["kind"], json!("PropagationPolicy"));
        assert_eq!(got["metadata"], json!({"name": name, "namespace": "shop"}));
        assert_eq!(
            got["spec"],
            json!({
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}],
                "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
                "conflictResolution": "Overwrite", "preserveResourcesOnDeletion": true,
            })
        );
        let wide =
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}});
        let got = of_promoted(&wide, "m1", Some("p"));
        assert_eq!((&got["kind"], &got["metadata"]), (&json!("ClusterPropagationPolicy"), &json!({"name": "p"})));
    }

    #[test]
    fn generated_policies_are_recognised() {
        let web =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}});
        let made = of(&web, &json!({}), None);
        for (name, patch, want) in [
            ("as it was made", json!({}), Some("web")),
            (
                "with another placement",
                json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": ["m1"]}}}}),
                Some("web"),
            ),
            ("a name of a user's", json!({"metadata": {"name": "web"}}), None),
            ("in another namespace", json!({"metadata": {"namespace": "other"}}), None),
            ("for more", json!({"spec": {"resourceSelectors": []}}), None),
        ] {
            let mut object = made.clone();
            ironclad_patch::merge_patch(&mut object, &patch);
            let policy: PropagationPolicy = serde_json::from_value(object).unwrap();
            let of = template_of(Policy::Namespaced(&policy)).map(|of| of.name.as_str());
            assert_eq!(of, want, "{name}");
        }
        let role =
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}});
        let policy: ClusterPropagationPolicy = serde_json::from_value(of(&role, &json!({}), None)).unwrap();
        assert_eq!(template_of(Policy::Cluster(&policy)).map(|of| of.name.as_str()), Some("r"));
    }

    #[test]
    fn another_policy_may_claim_the_template_instead() {
        let web = |namespace: &str| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": namespace}});
        let policy = |name: &str, priority: i32, selector: Value| -> PropagationPolicy {
            let mut full = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
            full.as_object_mut().unwrap().extend(selector.as_object().unwrap().clone());
            serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": name}, "spec": {"priority": priority, "resourceSelectors": [full]}})).unwrap()
        };
        let named = json!({"name": "web"});
        for (name, others, want) in [
            ("none", vec![], None),
            ("one for all Deployments", vec![policy("all", 0, json!({}))], None),
            (
                "one of a higher priority",
                vec![policy("all", 1, json!({}))],
                Some("PropagationPolicy shop/all would claim it, not the generated policy: its priority is lower"),
            ),
            ("one of a lower priority", vec![policy("a", -1, named.clone())], None),
            (
                "an equal one whose name is first",
                vec![policy("a", 0, named.clone())],
                Some("PropagationPolicy shop/a would claim it, not the generated policy: its name comes later"),
            ),
            ("an equal one whose name is last", vec![policy("zz", 0, named)], None),
            ("one for others", vec![policy("all", 5, json!({"name": "api"}))], None),
            ("the same one, of an earlier run", vec![policy("web-1", 0, json!({"name": "web"}))], None),
        ] {
            let generated = of_promoted(&web("shop"), "m1", Some("web-1"));
            let got = claimed_instead(&generated, others.iter().map(Policy::Namespaced), &web("shop")).unwrap();
            assert_eq!(got.as_deref(), want, "{name}");
        }
    }

    #[test]
    fn a_policy_stands_before_each_manifest_that_can_be_propagated() {
        let object = |api_version: &str, kind: &str, namespace: &str, name: &str| {
            let mut metadata = json!({"name": name});
            if !namespace.is_empty() {
                metadata["namespace"] = json!(namespace);
            }
            json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})
        };
        for (name, manifest, policy, is_of_plane) in [
            ("a workload", object("apps/v1", "Deployment", "shop", "web"), Some("PropagationPolicy"), false),
            (
                "a ClusterRole",
                object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "r"),
                Some("ClusterPropagationPolicy"),
                false,
            ),
            (
                "a definition",
                object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "d"),
                Some("ClusterPropagationPolicy"),
                false,
            ),
            ("a Namespace", object("v1", "Namespace", "", "shop"), None, false),
            ("a policy", object("policy.karmada.io/v1alpha1", "OverridePolicy", "shop", "o"), None, true),
            ("one of the system", object("v1", "ConfigMap", "kube-system", "c"), None, true),
            ("one that each cluster makes", object("v1", "ServiceAccount", "shop", "default"), None, true),
        ] {
            let got = of_manifests(vec![manifest.clone()], &["m1".to_owned()]);
            let kinds: Vec<_> = got.manifests.iter().map(|one| one["kind"].as_str().unwrap()).collect();
            let want: Vec<_> = policy.into_iter().chain([manifest["kind"].as_str().unwrap()]).collect();
            assert_eq!((kinds, got.of_plane.len()), (want, usize::from(is_of_plane)), "{name}");
        }
        let mut labelled = object("v1", "ConfigMap", "shop", "c");
        labelled["metadata"]["labels"] = json!({"app": "web"});
        let got = of_manifests(vec![labelled.clone()], &[]);
        assert_eq!(got.manifests[0]["spec"]["placement"], json!({"clusterAffinity": {}}), "all clusters");
        assert_eq!(got.manifests[0]["metadata"]["labels"], json!({"app": "web"}));
        assert_eq!(got.manifests[1], labelled, "the manifest is as it was");
        let some = of_manifests(vec![labelled], &["m1".to_owned(), "m2".to_owned()]);
        assert_eq!(some.manifests[0]["metadata"]["name"], got.manifests[0]["metadata"]["name"]);
        assert_eq!(some.manifests[0]["spec"]["placement"], json!({"clusterAffinity": {"clusterNames": ["m1", "m2"]}}));
    }
}
