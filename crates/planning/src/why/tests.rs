//! Explanations of templates, over fleets of two clusters.

use ironclad_fleet::{Gvk, ObjectKey, tree::LinkState};
use ironclad_interpreter::Interpreter;
use jiff::Timestamp;

use super::{Explanation, answer, explain};
use crate::{Fleet, preemption::Answer, testkit::objects};

const CLUSTERS: &str = r#"
apiVersion: v1
kind: List
items:
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m1}, spec: {syncMode: Push}, status: &ready {apiEnablements: [{groupVersion: apps/v1, resources: [{name: deployments, kind: Deployment}]}], conditions: [{type: Ready, status: "True", reason: ClusterReady, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}}
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m2}, spec: {syncMode: Push}, status: *ready}
"#;

fn explanation(more: &str, api_version: &str, kind: &str, namespace: &str, name: &str) -> Explanation {
    let mut fleet = Fleet::default();
    for object in objects(&format!("{CLUSTERS}{more}")) {
        fleet.insert(object).unwrap();
    }
    let key = ObjectKey { gvk: Gvk::from_manifest(api_version, kind), namespace: namespace.into(), name: name.into() };
    explain(&fleet, &key, &Interpreter::default(), Timestamp::UNIX_EPOCH).unwrap()
}

#[test]
fn templates_without_a_claim_are_told_why() {
    let policy = "---\napiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: p, namespace: shop}\n\
                  spec: {dependentOverrides: [later], resourceSelectors: [{apiVersion: v1, kind: ConfigMap}], placement: {}}\n";
    let object = |api_version: &str, kind: &str, metadata: &str| {
        format!("---\n{{apiVersion: {api_version}, kind: {kind}, metadata: {{{metadata}}}}}\n")
    };
    let bound = "---\napiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\nmetadata: {name: x-configmap, namespace: shop, uid: b}\n\
                 spec: {resource: {apiVersion: v1, kind: ConfigMap, namespace: shop, name: x, uid: u}, clusters: [{name: m1}], placement: {}}\n";
    for (name, api_version, kind, namespace, labels, more, state, want) in [
        (
            "no policy",
            "v1",
            "ConfigMap",
            "shop",
            "",
            "",
            LinkState::Broken,
            "selects it: make a PropagationPolicy whose resourceSelectors name it",
        ),
        (
            "a policy that was deleted",
            "v1",
            "ConfigMap",
            "shop",
            "",
            bound,
            LinkState::Broken,
            "selects it any more, so its copies stay as they are: make a PropagationPolicy whose resourceSelectors name it",
        ),
        (
            "no policy of a cluster-scoped kind",
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            "",
            "",
            "",
            LinkState::Broken,
            "selects it: make a ClusterPropagationPolicy whose resourceSelectors name it",
        ),
        (
            "a Namespace",
            "v1",
            "Namespace",
            "",
            "",
            "",
            LinkState::Ok,
            "has claimed it: namespace sync brings it to every member, without a policy",
        ),
        (
            "a namespace that is not propagated",
            "v1",
            "ConfigMap",
            "kube-system",
            "",
            "",
            LinkState::Ok,
            "has claimed it: templates of this kind, or in this namespace, are not propagated",
        ),
        (
            "a policy that waits for an override",
            "v1",
            "ConfigMap",
            "shop",
            "",
            policy,
            LinkState::Waiting,
            "has claimed it: PropagationPolicy shop/p selects the template by kind; waiting for dependent overrides of PropagationPolicy shop/p: later",
        ),
        (
            "a template of another controller",
            "v1",
            "ConfigMap",
            "shop",
            ", labels: {resourcetemplate.karmada.io/claimed-by: Else}",
            "",
            LinkState::Ok,
            "has claimed it: the template belongs to a Else, policies leave it alone",
        ),
    ] {
        let at = if namespace.is_empty() { String::new() } else { format!(", namespace: {namespace}") };
        let dump = object(api_version, kind, &format!("name: x{at}{labels}")) + more;
        let explained = explanation(&dump, api_version, kind, namespace, "x").for_tree();
        assert_eq!(explained.unclaimed, Some((state, want.to_owned())), "{name}");
        assert_eq!(explained.placed.is_some(), kind == "Namespace", "{name}");
    }
}

#[test]
fn dependency_follows_its_workload_instead_of_being_scheduled() {
    let bound = "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: shop, uid: u}}\n---\n\
        apiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\nmetadata: {name: x-configmap, namespace: shop, uid: b}\n\
        spec: {resource: {apiVersion: v1, kind: ConfigMap, namespace: shop, name: x, uid: u}, requiredBy: [{namespace: shop, name: web-deployment, clusters: [{name: m1, replicas: 2}]}]}\n";
    let explanation = explanation(bound, "v1", "ConfigMap", "shop", "x");
    assert_eq!(explanation.scheduling, None);
    let summary = explanation.binding.as_ref().unwrap();
    let clusters: Vec<_> = summary.clusters.iter().map(|target| (target.name.as_str(), target.replicas)).collect();
    assert_eq!((clusters, summary.follows[0].to_string()), (vec![("m1", 0)], "shop/web-deployment".to_owned()));
    for (cluster, replicas, want) in [
        ("m1", Some(0), "it follows the workload of shop/web-deployment, which is there"),
        ("m2", None, "it follows the workload of shop/web-deployment, which is not there"),
    ] {
        let answer = answer(&explanation, &cluster.into());
        assert_eq!((answer.replicas, answer.because), (replicas, vec![want.to_owned()]), "{cluster}");
    }
}

#[test]
fn copy_that_is_not_applied_is_told_with_its_message() {
    let bound = "---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: x, namespace: shop, uid: u}, spec: {replicas: 1}}\n---\n\
        apiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\nmetadata: {name: x-deployment, namespace: shop, uid: b, generation: 1}\n\
        spec: {replicas: 1, placement: {}, resource: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: x, uid: u}, clusters: [{name: m1, replicas: 1}, {name: m2, replicas: 1}]}\n\
        status: {aggregatedStatus: [{clusterName: m1, applied: true}, {clusterName: m2, applied: false, appliedMessage: no such field}]}\n";
    let explanation = explanation(bound, "apps/v1", "Deployment", "shop", "x");
    let failed: Vec<_> = explanation.binding.as_ref().unwrap().not_applied.iter().collect();
    assert_eq!(failed, [(&"m2".to_owned(), &"no such field".to_owned())]);
    assert_eq!(answer(&explanation, &"m1".into()).not_applied, None);
    assert_eq!(answer(&explanation, &"m2".into()).not_applied.as_deref(), Some("no such field"));
}

/// Binding `NAME-deployment` of group `tier=gold` on these clusters, with its template.
fn member_of_a_group(name: &str, on: &str, more: &str) -> String {
    format!(
        "---\n{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: {name}, namespace: shop, uid: {name}}}, spec: {{replicas: 1}}}}\n---\n\
         apiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\n\
         metadata: {{name: {name}-deployment, namespace: shop, uid: {name}, generation: 1, labels: {{propagationpolicy.karmada.io/permanent-id: p}}}}\n\
         spec: {{replicas: 1, placement: {{}}, workloadAffinityGroups: {{antiAffinityGroup: tier=gold}}, \
         resource: {{apiVersion: apps/v1, kind: Deployment, namespace: shop, name: {name}, uid: {name}}}, clusters: {on}{more}}}\n"
    )
}

#[test]
fn a_refusal_by_a_group_names_the_other_workload() {
    let mut fleet = Fleet::default();
    let all = [member_of_a_group("db", "[{name: m1, replicas: 1}]", ""), member_of_a_group("web", "[]", "")];
    for object in objects(&format!("{CLUSTERS}{}", all.concat())) {
        fleet.insert(object).unwrap();
    }
    fleet.settings.scheduler.workload_affinity = true;
    let key =
        ObjectKey { gvk: Gvk::from_manifest("apps/v1", "Deployment"), namespace: "shop".into(), name: "web".into() };
    let explanation = explain(&fleet, &key, &Interpreter::default(), Timestamp::UNIX_EPOCH).unwrap();
    let refused = answer(&explanation, &"m1".into());
    assert!(refused.because.iter().any(|line| line.contains("(shop/db-deployment)")), "{refused:?}");
    let remedy = "move shop/db-deployment away from m1, or take the workload out of its anti-affinity group";
    assert_eq!(refused.remedy.as_deref(), Some(remedy));
    let result = &explanation.scheduling.as_ref().unwrap().result;
    assert_eq!(result.iter().map(|target| target.name.as_str()).collect::<Vec<_>>(), ["m2"]);
    assert!(explanation.binding.as_ref().unwrap().waits, "the scheduler has not answered it");
}

#[test]
fn a_nominated_binding_is_told_with_its_victims() {
    let room = "allocatable: {cpu: \"4\", pods: \"10\"}, allocated: {cpu: \"4\"}";
    let clusters = CLUSTERS.replace("status: &ready {", &format!("status: &ready {{resourceSummary: {{{room}}}, "));
    let needs = |priority: i32| {
        format!(
            ", replicaRequirements: {{resourceRequest: {{cpu: \"4\"}}}}, \
             schedulePriority: {{priority: {priority}, preemptionPolicy: PreemptLowerPriority}}"
        )
    };
    let divided = "placement: {clusterAffinity: {clusterNames: [m1]}, replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}}";
    let low = member_of_a_group("low", "[{name: m1, replicas: 1}]", &needs(1));
    let high = member_of_a_group("high", "[]", &needs(9));
    let status = "status: {nominatedClusters: [{name: m1, replicas: 1}], conditions: [{type: Scheduled, status: \"False\", reason: Unschedulable, message: \"\", lastTransitionTime: \"2026-01-01T00:00:00Z\"}]}\n";
    let observed = "status: {schedulerObservedGeneration: 1}\n";
    let all = format!("{clusters}{low}{observed}{high}{status}")
        .replace("placement: {}", divided)
        .replace("workloadAffinityGroups: {antiAffinityGroup: tier=gold}, ", "");
    let mut fleet = Fleet::default();
    for object in objects(&all) {
        fleet.insert(object).unwrap();
    }
    let key =
        ObjectKey { gvk: Gvk::from_manifest("apps/v1", "Deployment"), namespace: "shop".into(), name: "high".into() };
    let explanation = explain(&fleet, &key, &Interpreter::default(), Timestamp::UNIX_EPOCH).unwrap();
    let bound = explanation.binding.as_ref().unwrap();
    assert_eq!(
        bound.nominated.iter().map(|target| (target.name.as_str(), target.replicas)).collect::<Vec<_>>(),
        [("m1", 1)]
    );
    let plan = explanation.preemption.as_ref().expect("the search is run again");
    let Answer::Preempts { victims, .. } = &plan.answer else { panic!("{plan:?}") };
    assert_eq!(victims.iter().map(|victim| victim.binding.to_string()).collect::<Vec<_>>(), ["shop/low-deployment"]);
}

#[test]
fn last_copies_of_others_are_named_to_what_waits_for_their_capacity() {
    let full = "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: m1}\nspec: {syncMode: Push}\n\
                status: {apiEnablements: [{groupVersion: apps/v1, resources: [{name: deployments, kind: Deployment}]}], \
                conditions: [{type: Ready, status: \"True\", reason: ClusterReady, message: \"\", lastTransitionTime: \"2026-01-01T00:00:00Z\"}], \
                resourceSummary: {allocatable: {cpu: \"4\", pods: \"100\"}, allocated: {cpu: \"4\"}}}\n";
    let binding = |name: &str, cluster: &str, more: &str| {
        format!(
            "---\napiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\nmetadata: {{name: {name}-deployment, namespace: shop, uid: b-{name}, \
             generation: 1, labels: {{propagationpolicy.karmada.io/permanent-id: p}}}}\n\
             spec: {{resource: {{apiVersion: apps/v1, kind: Deployment, namespace: shop, name: {name}, uid: u-{name}}}, replicas: 2, \
             replicaRequirements: {{resourceRequest: {{cpu: \"2\"}}}}, placement: {{clusterAffinity: {{clusterNames: [{cluster}]}}, \
             replicaScheduling: {{replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}}}}{more}}}\n"
        )
    };
    let deployment = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: new, namespace: shop, uid: u-new}\nspec: {replicas: 2}\n";
    let task = |cluster: &str, mode: &str| {
        format!(
            ", gracefulEvictionTasks: [{{fromCluster: {cluster}, purgeMode: {mode}, reason: TaintUntolerated, producer: p, replicas: 2}}]"
        )
    };
    let gracefully = task("m1", "Gracefully");
    let placed = ", clusters: [{name: m2, replicas: 2}]";
    for (name, cluster, other, want) in [
        (
            "a last copy",
            "m1",
            gracefully.clone(),
            vec![
                "m1: the last copy of shop/old-deployment, replicas 2: it stays until that workload is placed again, deleted or scaled down",
            ],
        ),
        (
            "one that is deleted as soon as another one is scheduled",
            "m1",
            task("m1", "Directly"),
            vec![
                "m1: the last copy of shop/old-deployment, replicas 2: it stays until that workload is placed again, deleted or scaled down",
            ],
        ),
        ("it is placed elsewhere, and leaves by itself", "m1", format!("{gracefully}{placed}"), vec![]),
        ("in a cluster that it can't use", "m1", task("m2", "Gracefully"), vec![]),
        ("it waits for nothing", "m2", gracefully.clone(), vec![]),
    ] {
        let world = format!("{full}{}{}{deployment}", binding("new", cluster, ""), binding("old", "m1", &other));
        let explained = explanation(&world, "apps/v1", "Deployment", "shop", "new");
        let copies: Vec<String> = explained.last_copies.iter().map(ToString::to_string).collect();
        assert_eq!(copies, want, "{name}");
    }
}

/// The first group's cluster is well again, and the backup is in use.
#[test]
fn clusters_of_earlier_affinity_groups_are_told_with_the_way_back() {
    let groups = "{clusterAffinities: [{affinityName: primary, clusterNames: [m1]}, {affinityName: backup, clusterNames: [m2]}]}";
    let all = format!(
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, namespace: shop, uid: u}}\nspec: {{replicas: 1}}\n\
         ---\napiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {{name: p, namespace: shop}}\n\
         spec: {{resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment}}], placement: {groups}}}\n\
         ---\napiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\n\
         metadata: {{name: web-deployment, namespace: shop, uid: b, generation: 1, labels: {{propagationpolicy.karmada.io/permanent-id: p}}}}\n\
         spec: {{resource: {{apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web, uid: u}}, replicas: 1, \
         clusters: [{{name: m2, replicas: 1}}], placement: {groups}}}\n\
         status: {{schedulerObservedGeneration: 1, schedulerObservingAffinityName: backup}}\n"
    );
    let explained = explanation(&all, "apps/v1", "Deployment", "shop", "web");
    let told = answer(&explained, &"m1".into());
    let rule = "is chosen only by affinity group primary, before the one in use (backup): nothing goes back to earlier \
                groups by itself";
    assert!(told.because.iter().any(|line| line == rule), "{:?}", told.because);
    let remedy = "a WorkloadRebalancer that names the template: it starts with the first group";
    assert_eq!(told.remedy.as_deref(), Some(remedy));
    assert!(answer(&explained, &"m2".into()).because.iter().all(|line| line != rule));
}

#[test]
fn autoscalers_that_members_run_are_explained_with_their_targets() {
    let scaler = r#"---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, uid: w}, spec: {replicas: 2}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: scaler, namespace: shop, uid: h, labels: {federatedhpa.karmada.io/enabled: "true", resourcetemplate.karmada.io/claimed-by: FederatedHPA},
  annotations: {federatedhpa.karmada.io/status: '{"clusters":{"m1":{"min":1,"max":8,"share":5,"loan":3,"current":8}}}'}},
  spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 2, maxReplicas: 10}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: plain, namespace: shop, uid: q},
  spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: other}, maxReplicas: 10}}
---
{apiVersion: policy.karmada.io/v1alpha1, kind: OverridePolicy, metadata: {name: federatedhpa-scaler, namespace: shop, labels: {federatedhpa.karmada.io/managed: "true"}},
  spec: {overrideRules: [{targetCluster: {clusterNames: [m1]}, overriders: {plaintext: [{path: /spec/replicas, operator: replace, value: 7}]}}]}}
"#;
    for (kind, of, name, want) in [
        ("Deployment", "apps/v1", "web", Some(7)),
        ("HorizontalPodAutoscaler", "autoscaling/v2", "scaler", Some(7)),
        ("HorizontalPodAutoscaler", "autoscaling/v2", "plain", None),
    ] {
        let explained = explanation(scaler, of, kind, "shop", name);
        let found = explained.autoscaler.as_ref().map(|scaler| &scaler.members[&"m1".into()]);
        assert_eq!(found.and_then(|member| member.recorded), want, "{name}");
        assert_eq!(found.map(|member| (member.max, member.loan)), want.map(|_| (8, 3)), "{name}");
    }
    let tree = explanation(scaler, "autoscaling/v2", "HorizontalPodAutoscaler", "shop", "scaler").for_tree();
    let placed = tree.placed.unwrap();
    assert_eq!(placed.clusters, Some(["m1".into()].into()));
    assert_eq!(placed.works, [ironclad_api::names::work_name("HorizontalPodAutoscaler", "shop", "scaler")]);
    let said = "has claimed it: the members of its target run it (label federatedhpa.karmada.io/enabled), policies leave it alone";
    assert_eq!(tree.unclaimed, Some((LinkState::Ok, said.to_owned())));
    assert_eq!(explanation(scaler, "apps/v1", "Deployment", "shop", "web").for_tree().placed, None);
}
