//! Updates of copies that others write, too, against a model of the merge (specification/propagation.md 13.3).

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Values by path; `[name]` is an item of a list.
type Fields = BTreeMap<String, Value>;

const CONTAINERS: &str = "spec/template/spec/containers";

/// Paths that are written, each with two values.
fn paths() -> Vec<(String, [Value; 2])> {
    let at = |path: &str, a: Value, b: Value| (path.to_owned(), [a, b]);
    let container = |path: &str, a: Value, b: Value| (format!("{CONTAINERS}/{path}"), [a, b]);
    vec![
        at("spec/minReadySeconds", json!(1), json!(2)),
        at("spec/paused", json!(true), json!(false)),
        at("spec/template/metadata/annotations/a", json!("1"), json!("2")),
        at("spec/template/metadata/annotations/restartedAt", json!("1"), json!("2")),
        at("spec/template/spec/nodeSelector/x", json!("1"), json!("2")),
        at("spec/template/spec/dnsPolicy", json!("ClusterFirst"), json!("None")),
        container("[c]/stdin", json!(true), json!(false)),
        container("[c]/args", json!(["1"]), json!(["2", "3"])),
        container("[c]/env/[E]/value", json!("1"), json!("2")),
        container("[c]/env/[F]/value", json!("1"), json!("2")),
        container("[c]/livenessProbe/initialDelaySeconds", json!(1), json!(2)),
        container("[c]/livenessProbe/periodSeconds", json!(10), json!(20)),
        container("[b]/image", json!("b:1"), json!("b:2")),
        container("[b]/stdin", json!(true), json!(false)),
    ]
}

/// Objects that go as a whole once the template has nothing in them.
fn wholes() -> [String; 4] {
    ["[b]", "[c]/env/[E]", "[c]/env/[F]", "[c]/livenessProbe"].map(|path| format!("{CONTAINERS}/{path}"))
}

fn is_default(path: &str, value: &Value) -> bool {
    (path.ends_with("/dnsPolicy") && value == "ClusterFirst") || (path.ends_with("/periodSeconds") && *value == 10)
}

fn merged(live: &Fields, last: &Fields, now: &Fields) -> Fields {
    let mut out = live.clone();
    out.retain(|path, _| now.contains_key(path) || !last.contains_key(path));
    for whole in wholes() {
        let has = |fields: &Fields| fields.keys().any(|path| path.starts_with(&format!("{whole}/")));
        if has(last) && !has(now) {
            out.retain(|path, _| !path.starts_with(&format!("{whole}/")));
        }
    }
    for (path, value) in now {
        let was_default = last.get(path).is_none_or(|last| is_default(path, last));
        if !(is_default(path, value) && was_default && out.contains_key(path)) {
            out.insert(path.clone(), value.clone());
        }
    }
    out
}

fn build(fields: &Fields) -> Value {
    let mut root = json!({});
    for (path, value) in fields {
        let mut at = &mut root;
        for step in path.split('/') {
            match step.strip_prefix('[').and_then(|step| step.strip_suffix(']')) {
                Some(name) => {
                    if at.is_null() {
                        *at = json!([]);
                    }
                    let items = at.as_array_mut().unwrap();
                    let found = items.iter().position(|item| item["name"] == name);
                    let index = found.unwrap_or_else(|| {
                        items.push(json!({ "name": name }));
                        items.len() - 1
                    });
                    at = &mut items[index];
                }
                None => at = &mut at[step],
            }
        }
        *at = value.clone();
    }
    root
}

fn read(value: &Value, path: &str, out: &mut Fields) {
    let below = |step: &str| if path.is_empty() { step.to_owned() } else { format!("{path}/{step}") };
    match value {
        Value::Null => {}
        Value::Object(members) => members.iter().for_each(|(key, value)| read(value, &below(key), out)),
        Value::Array(items) if items.iter().all(|item| item.get("name").is_some()) => {
            for item in items {
                let mut item = item.clone();
                let name = item.as_object_mut().unwrap().remove("name").unwrap();
                read(&item, &below(&format!("[{}]", name.as_str().unwrap())), out);
            }
        }
        value => drop(out.insert(path.to_owned(), value.clone())),
    }
}

/// The object as a server stores it: null is missing.
fn stored(object: &Value, fields: &Fields) -> Value {
    let mut object = object.clone();
    object["spec"] = build(fields)["spec"].clone();
    object
}

#[derive(Debug, Clone)]
enum Step {
    Template(usize, Option<usize>),
    Member(usize, Option<usize>),
    /// An older version of the control plane, or a user, took the record away.
    Forget,
    /// A reconcile of the Work; before it, the process may have been killed before it wrote the status.
    Sync {
        is_said: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let value = || prop::option::of(0..2_usize);
    prop_oneof![
        6 => (0..paths().len(), value()).prop_map(|(path, value)| Step::Template(path, value)),
        6 => (0..paths().len(), value()).prop_map(|(path, value)| Step::Member(path, value)),
        1 => Just(Step::Forget),
        6 => any::<bool>().prop_map(|is_said| Step::Sync { is_said }),
    ]
}

fn set(fields: &mut Fields, path: usize, value: Option<usize>) {
    let (path, values) = paths().swap_remove(path);
    match value {
        Some(value) => drop(fields.insert(path, values[value].clone())),
        None => drop(fields.remove(&path)),
    }
}

proptest! {
    #[test]
    fn copies_have_what_the_template_sets_and_what_only_the_member_set(steps in prop::collection::vec(step(), 1..40)) {
        let image = |image: &str| (format!("{CONTAINERS}/[c]/image"), json!(image));
        let mut template: Fields = [image("c:1")].into();
        let mut last: Option<Fields> = None;
        let mut live = Fields::new();
        let mut object: Option<Value> = None;
        let mut generation = 1;
        for step in steps {
            match step {
                Step::Template(path, value) => {
                    set(&mut template, path, value);
                    generation += 1;
                }
                Step::Member(path, value) => {
                    if let Some(object) = &mut object {
                        set(&mut live, path, value);
                        *object = stored(object, &live);
                    }
                }
                Step::Forget => {
                    if let Some(object) = &mut object {
                        object["metadata"]["annotations"].as_object_mut().unwrap().remove(annotations::APPLIED_FIELDS);
                        last = None;
                    }
                }
                Step::Sync { is_said } => {
                    let mut whole = deployment();
                    whole["spec"] = build(&template)["spec"].clone();
                    let work = with(&work(whole, ""), json!({"metadata": {"generation": generation}}));
                    let work = if is_said { done(&work) } else { work };
                    let mut scene = Scene::of(work);
                    scene.object = Some(object.clone());
                    live = match &object {
                        None => template.clone(),
                        Some(_) => merged(&live, last.as_ref().unwrap_or(&template), &template),
                    };
                    last = Some(template.clone());
                    let by_cache = scene.clone().cached().plan();
                    let next = scene.after(&scene.plan());
                    let writes = next.object != scene.object;
                    let reads = by_cache.effects.iter().any(|effect| matches!(effect, Effect::Read(_) | Effect::CreateInMember(_)));
                    prop_assert!(reads || !writes, "the cache hides a difference");
                    let mut found = Fields::new();
                    read(&next.object.clone().flatten().unwrap()["spec"], "spec", &mut found);
                    prop_assert_eq!(&found, &live);
                    let again = next.after(&next.plan());
                    prop_assert_eq!(&again.object, &next.object, "a second reconcile writes nothing");
                    object = next.object.flatten().map(|object| stored(&object, &live));
                }
            }
        }
    }
}

#[test]
fn fields_that_members_give_their_copies_outlive_edits() {
    let named = |api_version: &str, kind: &str, rest: Value| {
        changed(
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": "shop", "name": "web", "uid": "u"}}),
            rest,
        )
    };
    let pod = |notes: Value| json!({"spec": {"template": {"metadata": notes, "spec": {"containers": [{"name": "c", "image": "c:1"}]}}}});
    for (name, template, edit, member) in [
        (
            "the class of a load balancer",
            named(
                "v1",
                "Service",
                json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 80, "protocol": "TCP"}]}}),
            ),
            json!({"spec": {"ports": [{"port": 81, "protocol": "TCP"}]}}),
            json!({"spec": {"loadBalancerClass": "x.io/nlb"}}),
        ),
        (
            "the class of an Ingress",
            named("networking.k8s.io/v1", "Ingress", json!({"spec": {"rules": [{"host": "a"}]}})),
            json!({"spec": {"rules": [{"host": "b"}]}}),
            json!({"spec": {"ingressClassName": "nginx"}}),
        ),
        (
            "a restart in the member",
            named("apps/v1", "Deployment", pod(json!({"annotations": {"ours": "1"}}))),
            json!({"spec": {"replicas": 2}}),
            json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "t"}}}}}),
        ),
        (
            "an injected certificate",
            named(
                "apiregistration.k8s.io/v1",
                "APIService",
                json!({"spec": {"group": "x.io", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}}),
            ),
            json!({"spec": {"versionPriority": 2}}),
            json!({"spec": {"caBundle": "QQ=="}}),
        ),
        (
            "rules that the member aggregates",
            named(
                "rbac.authorization.k8s.io/v1",
                "ClusterRole",
                json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}, "rules": [{"verbs": ["get"]}]}),
            ),
            json!({"metadata": {"labels": {"x": "y"}}}),
            json!({"rules": [{"verbs": ["list"]}]}),
        ),
        (
            "a custom resource's own field",
            named("x.io/v1", "Farm", json!({"spec": {"size": 1, "pool": {"kind": "a"}}})),
            json!({"spec": {"size": 2}}),
            json!({"spec": {"pool": {"zone": "z"}, "class": "gold"}}),
        ),
    ] {
        let first = work(template.clone(), "");
        let created = Scene::of(first.clone()).after(&Scene::of(first.clone()).plan());
        let there = changed(created.object.flatten().unwrap(), member.clone());
        let edited = with(
            &done(&first),
            json!({"metadata": {"generation": 2}, "spec": json!(work(changed(template, edit.clone()), "").spec)}),
        );
        let scene = Scene::of(edited).has(there.clone());
        let after = scene.after(&scene.plan()).object.flatten().unwrap();
        let kept = |patch: Value| changed(after.clone(), patch) == after;
        assert!(kept(member) && kept(edit), "{name}: {after:#}");
        let quiet = Scene::of(done(&first)).has(there);
        assert_eq!(words(&quiet.plan()), Vec::<String>::new(), "{name}: no drift");
    }
    let paths: BTreeSet<String> = paths().into_iter().map(|(path, _)| path).collect();
    assert!(wholes().iter().all(|whole| paths.iter().any(|path| path.starts_with(whole))));
}
