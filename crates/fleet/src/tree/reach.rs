//! How far a template has come on its way to its clusters (specification/operations.md 2.10, `apply --wait`).

use ironclad_api::{ObjectMeta, annotations::TEMPLATE_GENERATION, conditions, work::Work};
use serde_json::Value;

use super::{
    Applied, Explained, LinkState, binding_of, cluster_state, is_observed, is_suspended, not_made, reported, scheduled,
    tree, work_of,
};
use crate::{ClusterName, ObjectKey, World, targets};

/// How far the present version of a template has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// All of these clusters have applied it, as far as Works tell their version: those of objects without a generation
    /// do not, so that it is to be asked again a moment later.
    Applied(Vec<ClusterName>),
    /// This is waited for.
    Waits(String),
}

/// Says how far a template has come. The world is that of [`tree()`], without copies; so is `without_works`. `is_of`
/// tells whether a binding with this metadata was built from this template as it is now.
#[must_use]
pub fn reach(
    world: &World,
    template: &ObjectKey,
    without_works: bool,
    is_of: impl Fn(&ObjectMeta, &Value) -> bool,
) -> Reach {
    reached(world, template, without_works, is_of).map_or_else(Reach::Waits, Reach::Applied)
}

fn reached(
    world: &World,
    key: &ObjectKey,
    without_works: bool,
    is_of: impl Fn(&ObjectMeta, &Value) -> bool,
) -> Result<Vec<ClusterName>, String> {
    let template = world.templates.get(key).ok_or("is not there")?;
    let Some(bound) = binding_of(world, key) else {
        let chain = tree(world, key, &Explained::default()).unwrap_or_default();
        let awaited = chain.first_broken.and_then(|at| chain.links.get(at));
        return Err(awaited.map_or_else(String::new, |link| format!("{} {}", link.object, link.detail)));
    };
    if !is_of(bound.metadata, template) {
        return Err("its binding is not of its newest version yet".to_owned());
    }
    let (state, detail) = scheduled(&bound);
    if state != LinkState::Ok {
        return Err(detail);
    }
    if bound.spec.required_by.is_empty() && !is_observed(&bound) {
        return Err("is not scheduled anew yet".to_owned());
    }
    let staying = targets::staying(bound.spec);
    let clusters: Vec<ClusterName> = targets::targets(bound.spec).into_iter().map(|target| target.cluster).collect();
    for cluster in &clusters {
        let stays = staying.iter().find(|copy| copy.cluster == *cluster && copy.replicas > 0);
        let work = work_of(world, &bound, cluster);
        let known = match without_works {
            true => reported(&bound, cluster).map(Applied::reported),
            false => work.map(Applied::of),
        };
        let awaited = match (cluster_state(world, cluster), &known, stays) {
            ((LinkState::Broken | LinkState::Waiting, detail), ..) => detail,
            _ if is_suspended(&bound, cluster) => "dispatching is suspended".to_owned(),
            (_, None, _) => not_made(world, &bound, cluster).1,
            (.., Some(copy)) => copy.stays(),
            (_, Some(known), _) if known.state != LinkState::Ok => known.detail.clone(),
            _ if work.is_some_and(|work| !has_version(work, template) || !is_of_present(work)) => {
                "its newest version is not applied yet".to_owned()
            }
            _ => continue,
        };
        return Err(format!("{cluster}: {awaited}"));
    }
    Ok(clusters)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns whether a Work has the generation of the template, as far as both tell.
fn has_version(work: &Work, template: &Value) -> bool {
    let Some(wanted) = template.pointer("/metadata/generation").and_then(Value::as_i64) else { return true };
    let pointer = format!("/metadata/annotations/{}", TEMPLATE_GENERATION.replace('/', "~1"));
    let manifests = work.spec.workload.manifests.iter();
    let mut told = manifests.filter_map(|manifest| text(&manifest.object(), &pointer).parse::<i64>().ok());
    told.all(|told| told >= wanted)
}

/// Returns whether the conditions of a Work are about its present content.
fn is_of_present(work: &Work) -> bool {
    let conditions = work.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let observed =
        conditions::get(conditions, conditions::work::APPLIED).and_then(|applied| applied.observed_generation);
    observed.is_none() || observed == work.metadata.generation
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        Gvk,
        check::tests::{binding, changed, template, work, world},
    };

    fn key() -> ObjectKey {
        ObjectKey { gvk: Gvk::from_manifest("apps/v1", "Deployment"), namespace: "shop".into(), name: "web".into() }
    }

    /// The template of every test world, changed.
    fn retemplate(world: &mut World, patch: Value) {
        world.insert_template(changed(template(), patch));
    }

    fn rework(world: &mut World, patch: Value) {
        world.insert_work(changed(work("m2", 1), patch));
    }

    fn rebind(world: &mut World, patch: Value) {
        world.insert_binding(changed(binding(), patch));
    }

    fn said(world: &World, without_works: bool) -> String {
        let is_of = |binding: &ObjectMeta, template: &Value| {
            text(template, "/metadata/resourceVersion") == binding.resource_version.as_deref().unwrap_or_default()
        };
        match reach(world, &key(), without_works, is_of) {
            Reach::Applied(clusters) => clusters.iter().map(|cluster| &*cluster.0).collect::<Vec<_>>().join(" "),
            Reach::Waits(awaited) => awaited,
        }
    }

    #[test]
    fn a_template_has_come_to_its_clusters_or_waits() {
        let manifest = |generation: &str| {
            let annotations = json!({TEMPLATE_GENERATION: generation});
            let manifest =
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"annotations": annotations}});
            json!({"spec": {"workload": {"manifests": [manifest]}}})
        };
        let applied = |status: &str, observed: Value| {
            let mut condition = json!({"type": "Applied", "status": status, "reason": "R", "message": "no room", "lastTransitionTime": "2026-01-01T00:00:00Z"});
            condition["observedGeneration"] = observed;
            json!({"metadata": {"generation": 3}, "status": {"conditions": [condition]}})
        };
        type Change<'a> = &'a dyn Fn(&mut World);
        let rows: [(&str, Change<'_>, &str); 18] = [
            ("all in order", &|_| {}, "m1 m2"),
            ("it went", &|w| w.templates.clear(), "is not there"),
            (
                "no policy",
                &|w| {
                    retemplate(w, json!({"metadata": {"annotations": null}}));
                    w.bindings.clear();
                },
                "no policy has claimed it",
            ),
            ("no binding", &|w| w.bindings.clear(), "ResourceBinding is not made yet"),
            (
                "a newer template",
                &|w| retemplate(w, json!({"metadata": {"resourceVersion": "9"}})),
                "its binding is not of its newest version yet",
            ),
            (
                "the same with its binding",
                &|w| {
                    retemplate(w, json!({"metadata": {"resourceVersion": "9"}}));
                    rebind(w, json!({"metadata": {"resourceVersion": "9"}}));
                },
                "m1 m2",
            ),
            (
                "a newer generation",
                &|w| {
                    retemplate(w, json!({"metadata": {"generation": 5}}));
                    rework(w, manifest("4"));
                },
                "m2: its newest version is not applied yet",
            ),
            (
                "the same generation",
                &|w| {
                    retemplate(w, json!({"metadata": {"generation": 5}}));
                    rework(w, manifest("5"));
                },
                "m1 m2",
            ),
            ("not scheduled", &|w| rebind(w, json!({"status": {"conditions": []}})), "is not scheduled yet"),
            (
                "scheduled for the generation before",
                &|w| rebind(w, json!({"metadata": {"generation": 3}})),
                "is not scheduled anew yet",
            ),
            (
                "a cluster that is gone",
                &|w| drop(w.clusters.remove(&"m1".into())),
                "m1: does not exist: join it, or take it out of the placement",
            ),
            (
                "no dispatching",
                &|w| rebind(w, json!({"spec": {"suspension": {"dispatchingOnClusters": {"clusterNames": ["m2"]}}}})),
                "m2: dispatching is suspended",
            ),
            ("no Work", &|w| w.works.clear(), "m1: is not made yet"),
            ("a Work without conditions", &|w| rework(w, json!({"status": null})), "m2: is not applied yet"),
            ("refused", &|w| rework(w, applied("False", Value::Null)), "m2: R: no room"),
            ("applied before", &|w| rework(w, applied("True", json!(2))), "m2: its newest version is not applied yet"),
            ("applied now", &|w| rework(w, applied("True", json!(3))), "m1 m2"),
            (
                "applied by a control plane that does not say of what",
                &|w| rework(w, applied("True", Value::Null)),
                "m1 m2",
            ),
        ];
        for (name, change, want) in rows {
            let mut world = world();
            change(&mut world);
            assert_eq!(said(&world, false), want, "{name}");
        }
    }

    #[test]
    fn the_binding_answers_who_may_not_read_works() {
        let mut world = world();
        world.works.clear();
        assert_eq!(said(&world, true), "m1 m2");
        rebind(&mut world, json!({"status": {"aggregatedStatus": [{"clusterName": "m1", "applied": true}]}}));
        assert_eq!(said(&world, true), "m2: is not made yet");
    }
}
