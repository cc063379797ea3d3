//! Tables of copies in consumers.

use super::*;

struct Scene {
    mcs: MultiClusterService,
    clusters: Clusters,
    evicted: BTreeSet<ClusterName>,
    options: Options,
}

impl Scene {
    fn new(spec: Value) -> Self {
        Self { mcs: mcs(spec), clusters: three(), evicted: BTreeSet::new(), options: Options::default() }
    }

    fn run(&self, works: &[Arc<Work>]) -> Vec<dispatch::Effect> {
        let key = key();
        dispatch::decide(&self.seen(&key, works), ids("id")).effects
    }

    fn seen<'a>(&'a self, key: &'a ServiceKey, works: &'a [Arc<Work>]) -> dispatch::Seen<'a> {
        let (mcs, clusters) = (Some(&self.mcs), &self.clusters);
        dispatch::Seen { key, mcs, clusters, works, evicted: &self.evicted, options: self.options, now: now() }
    }

    /// The Works after the effects, with copies applied.
    fn settled(&self, works: &[Arc<Work>]) -> Vec<Arc<Work>> {
        let mut all = works.to_vec();
        for effect in self.run(works) {
            match effect {
                dispatch::Effect::Work(Write::Create(work)) => {
                    let applied = json!({"status": {"conditions": [{"type": "Applied", "status": "True", "reason": "a",
                        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
                    all.push(Arc::new(patched(&*stored(&work), &applied)));
                }
                dispatch::Effect::Work(Write::Delete { key, .. }) => {
                    all.retain(|work| crate::work::key_of(work).as_ref() != Some(&key));
                }
                dispatch::Effect::Work(Write::Patch { key, patch }) => {
                    let of_key = |work: &&mut Arc<Work>| crate::work::key_of(work).as_ref() == Some(&key);
                    let work = all.iter_mut().find(of_key).unwrap();
                    *work = Arc::new(patched(&**work, &patch));
                }
                _ => {}
            }
        }
        all
    }

    /// Cluster and name of each copy.
    fn copies(&self, works: &[Arc<Work>]) -> Vec<String> {
        let mut all: Vec<String> = self
            .settled(works)
            .iter()
            .filter(|work| super::super::provider_of(work).is_some())
            .map(|work| {
                let manifest: Value = work.spec.workload.manifests[0].object();
                let cluster = crate::work::key_of(work).unwrap().cluster;
                format!("{cluster}: {}", manifest["metadata"]["name"].as_str().unwrap())
            })
            .collect();
        all.sort();
        all
    }
}

#[test]
fn slices_go_to_all_consumers_but_their_own_cluster() {
    let works = [collected("m1", "web-x", &["10.0.0.1"]), collected("m2", "web-x", &["10.0.0.2"])];
    for (name, spec, want) in [
        ("all clusters are both", json!({}), &["m1: m2-web-x", "m2: m1-web-x", "m3: m1-web-x", "m3: m2-web-x"][..]),
        ("one consumer", json!({"consumerClusters": [{"name": "m3"}]}), &["m3: m1-web-x", "m3: m2-web-x"]),
        ("one provider", json!({"providerClusters": [{"name": "m1"}]}), &["m2: m1-web-x", "m3: m1-web-x"]),
        ("another type", json!({"types": ["LoadBalancer"]}), &[]),
    ] {
        let scene = Scene::new(spec);
        assert_eq!(scene.copies(&works), want, "{name}");
        let settled = scene.settled(&works);
        let again = scene.run(&settled);
        assert!(!again.iter().any(|effect| matches!(effect, dispatch::Effect::Work(_))), "{name}: {again:?}");
    }
}

#[test]
fn copies_that_are_not_wanted_any_more_go() {
    let works = [collected("m1", "web-x", &["10.0.0.1"]), collected("m2", "web-y", &["10.0.0.2"])];
    let all = Scene::new(json!({})).settled(&works);
    for (name, scene, want) in [
        ("fewer consumers", Scene::new(json!({"consumerClusters": [{"name": "m2"}]})), &["m2: m1-web-x"][..]),
        (
            "fewer providers",
            Scene::new(json!({"providerClusters": [{"name": "m2"}]})),
            &["m1: m2-web-y", "m3: m2-web-y"],
        ),
        ("another type", Scene::new(json!({"types": ["LoadBalancer"]})), &[]),
    ] {
        assert_eq!(scene.copies(&all), want, "{name}");
    }
    let mut lost = Scene::new(json!({}));
    lost.clusters.remove(&ClusterName::from("m1"));
    assert_eq!(lost.copies(&all[1..]), ["m3: m2-web-y"], "a deleted provider that is a consumer, too");
}

#[test]
fn equal_names_of_two_sources_do_not_meet() {
    let mut scene = Scene::new(json!({"consumerClusters": [{"name": "m3"}]}));
    for name in ["a", "a-b"] {
        scene.clusters.insert(name.into(), cluster(name, "True", json!({})));
    }
    let works = [collected("a", "b-x", &["10.0.0.1"]), collected("a-b", "x", &["10.0.0.2"])];
    let copies = scene.copies(&works);
    assert!(copies.len() == 2 && copies[0] == "m3: a-b-x" && copies[1].starts_with("m3: a-b-x-"), "{copies:?}");
}

#[test]
fn endpoints_of_a_provider_are_withheld_for_a_reason() {
    let acts = json!({"status": {"remedyActions": ["TrafficControl"]}});
    let annotated = |value: &str| json!({"metadata": {"annotations": {UNREADY_PROVIDERS: value}}});
    let drop_after = |minutes: u64| UnreadyProviders::DropAfter(Duration::from_secs(60 * minutes));
    let none = json!({});
    // The cluster is unready for five minutes.
    for (name, cluster, flag, evicted, mcs_patch, want) in [
        ("ready", cluster("m1", "True", json!({})), UnreadyProviders::Keep, false, &none, Some(None)),
        ("unready", cluster("m1", "False", json!({})), UnreadyProviders::Keep, false, &none, Some(None)),
        ("drop", cluster("m1", "False", json!({})), drop_after(0), false, &none, None),
        ("drop later", cluster("m1", "Unknown", json!({})), drop_after(7), false, &none, Some(Some(120))),
        ("drop by now", cluster("m1", "Unknown", json!({})), drop_after(5), false, &none, None),
        ("its own choice", cluster("m1", "False", json!({})), drop_after(0), false, &annotated("keep"), Some(None)),
        ("its own drop", cluster("m1", "False", json!({})), UnreadyProviders::Keep, false, &annotated("drop"), None),
        ("evicted", cluster("m1", "False", json!({})), UnreadyProviders::Keep, true, &none, None),
        ("evicted and ready", cluster("m1", "True", json!({})), UnreadyProviders::Keep, true, &none, Some(None)),
        ("a remedy", cluster("m1", "True", acts.clone()), UnreadyProviders::Keep, false, &none, None),
    ] {
        let mut scene = Scene::new(json!({}));
        scene.mcs = patched(&scene.mcs, mcs_patch);
        scene.options.unready_providers = flag;
        scene.evicted.extend(evicted.then(|| ClusterName::from("m1")));
        let key = key();
        let found = match dispatch::provider(&scene.seen(&key, &[]), &"m1".into(), &cluster) {
            Provider::Served => Some(None),
            Provider::ServedFor(left) => Some(Some(left.as_secs())),
            Provider::Withheld(_) => None,
        };
        assert_eq!(found, want, "{name}");
    }
    let mut off = Scene::new(json!({}));
    off.options.traffic_control = false;
    let key = key();
    let found = dispatch::provider(&off.seen(&key, &[]), &"m1".into(), &cluster("m1", "True", acts));
    assert_eq!(found, Provider::Served, "without the flag");
}

#[test]
fn dispatch_is_told_once_the_copies_are_applied() {
    let works = [collected("m1", "web-x", &["10.0.0.1"])];
    let mut scene = Scene::new(json!({"consumerClusters": [{"name": "m2"}, {"name": "m3"}]}));
    let told = |effects: &[dispatch::Effect]| {
        effects.iter().find_map(|effect| match effect {
            dispatch::Effect::Status(part) => Some(part.conditions[0].clone()),
            _ => None,
        })
    };
    assert_eq!(told(&scene.run(&works)), None, "on their way");
    let settled = scene.settled(&works);
    let condition = told(&scene.run(&settled)).unwrap();
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("True", "EndpointSliceDispatchedSucceed"));
    assert_eq!(condition.message, "EndpointSlices of m1 are dispatched to m2, m3");
    scene.mcs = patched(&scene.mcs, &json!({"status": {"conditions": [condition]}}));
    assert_eq!(scene.run(&settled), [], "told once");
    scene.clusters.insert("m3".into(), cluster("m3", "False", json!({})));
    let condition = told(&scene.run(&settled)).unwrap();
    assert!(condition.message.ends_with("; m3 is not ready since 2026-01-01T00:55:00Z"), "{}", condition.message);
    let failed = json!({"status": {"conditions": [{"type": "Applied", "status": "False", "reason": "a",
        "message": "refused", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    let refused: Vec<Arc<Work>> = settled.iter().map(|work| Arc::new(patched(&**work, &failed))).collect();
    let condition = told(&scene.run(&refused)).unwrap();
    assert_eq!(condition.status, "False");
    assert!(condition.message.contains("; m2: refused"), "{}", condition.message);
}

#[test]
fn backends_are_found_by_the_labels_of_their_pods() {
    let work = |cluster: &str, app: &str| -> Work {
        serde_json::from_value(json!({
            "metadata": {"namespace": format!("karmada-es-{cluster}"), "name": "w"},
            "spec": {"workload": {"manifests": [{"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"namespace": "shop", "name": app},
                "spec": {"template": {"metadata": {"labels": {"app": app, "v": "1"}}}}}]}},
        }))
        .unwrap()
    };
    let gone = patched(&work("m3", "web"), &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let works = [work("m1", "web"), work("m2", "other"), gone];
    let selector = [("app".to_owned(), "web".to_owned())].into();
    let near = json!({"metadata": {"annotations": {"resourcebinding.karmada.io/namespace": "shop"}}});
    let near: Vec<Work> = works.iter().map(|work| patched(work, &near)).collect();
    let unready: BTreeSet<ClusterName> = ["m1".into(), "m3".into()].into();
    let evicted = |works: &[Work], selector| dispatch::evicted(unready.clone(), "shop", selector, works);
    assert_eq!(evicted(&near, &selector), ["m3".into()].into());
    assert_eq!(evicted(&works, &selector), BTreeSet::new(), "Works of no binding say nothing");
    assert_eq!(evicted(&near[1..], &selector), BTreeSet::new(), "nobody has backends");
    assert_eq!(evicted(&near, &[].into()), BTreeSet::new(), "without a selector");
    assert_eq!(dispatch::may_be_backend(&works[0]).as_deref(), Some("shop"));
    assert_eq!(dispatch::may_be_backend(&collected("m1", "web-x", &[])), None);
}

#[test]
fn works_of_karmada_are_let_go_and_adopted() {
    let works = [collected("m1", "web-x", &["10.0.0.1"])];
    let scene = Scene::new(json!({"consumerClusters": [{"name": "m2"}]}));
    let settled = scene.settled(&works);
    // Karmada names the copy like the collected slice.
    let renamed = Arc::new(patched(&*settled[1], &json!({"metadata": {"name": "web-x-5df69fc76"}})));
    let effects = scene.run(&[works[0].clone(), renamed]);
    let creates =
        |effect: &dispatch::Effect| matches!(effect, dispatch::Effect::Work(Write::Create(_) | Write::Delete { .. }));
    assert!(!effects.iter().any(creates), "{effects:?}");
    let former = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["karmada.io/mcs-endpointslice-dispatch-controller", "x"]}});
    let leaving = Arc::new(patched(&*works[0], &former));
    let effects = scene.run(&[leaving]);
    let [dispatch::Effect::Work(Write::Patch { patch, .. })] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(*patch, json!({"metadata": {"finalizers": ["x"]}}));
}

proptest::proptest! {
    /// Whatever clusters provide and consume, with whatever names of slices: each consumer has the slices of all other
    /// providers that are served, each once, and a second pass writes nothing.
    #[test]
    fn every_consumer_has_what_the_other_providers_have(
        slices in proptest::collection::btree_set((0..4_usize, 0..3_usize), 0..9),
        providers in proptest::collection::btree_set(0..4_usize, 0..4),
        consumers in proptest::collection::btree_set(0..4_usize, 0..4),
        blocked in proptest::collection::btree_set(0..4_usize, 0..2),
        before in proptest::collection::btree_set(0..4_usize, 0..4),
    ) {
        // Names that meet when they are joined.
        let (names, parts) = (["a", "a-b", "a-b-c", "d"], ["x", "b-x", "c-x"]);
        let list = |set: &BTreeSet<usize>| set.iter().map(|n| json!({"name": names[*n]})).collect::<Vec<_>>();
        let mut scene = Scene::new(json!({"providerClusters": list(&providers), "consumerClusters": list(&before)}));
        scene.clusters.clear();
        for (n, name) in names.iter().enumerate() {
            let actions = if blocked.contains(&n) { json!(["TrafficControl"]) } else { json!([]) };
            let extra = json!({"status": {"remedyActions": actions}});
            scene.clusters.insert((*name).into(), cluster(name, "True", extra));
        }
        let works: Vec<Arc<Work>> =
            slices.iter().map(|(at, part)| collected(names[*at], parts[*part], &["10.0.0.1"])).collect();
        let earlier = scene.settled(&works);
        scene.mcs = patched(&scene.mcs, &json!({"spec": {"consumerClusters": list(&consumers)}}));
        let settled = scene.settled(&earlier);
        let all = |set: &BTreeSet<usize>, n: usize| set.is_empty() || set.contains(&n);
        for (n, consumer) in names.iter().enumerate() {
            let copies: Vec<(String, String)> = settled
                .iter()
                .filter(|work| &*crate::work::key_of(work).unwrap().cluster.0 == *consumer)
                .filter_map(|work| {
                    let name = work.spec.workload.manifests[0].object()["metadata"]["name"].as_str().unwrap().to_owned();
                    Some((super::super::provider_of(work)?.to_owned(), name))
                })
                .collect();
            let from = |provider: usize| slices.iter().filter(|(at, _)| *at == provider).count();
            let serves = |p: &usize| *p != n && all(&providers, *p) && !blocked.contains(p);
            let expected: usize = if all(&consumers, n) { (0..4).filter(serves).map(from).sum() } else { 0 };
            proptest::prop_assert_eq!(copies.len(), expected, "{}: {:?}", consumer, copies);
            let distinct: BTreeSet<&String> = copies.iter().map(|(_, name)| name).collect();
            proptest::prop_assert_eq!(distinct.len(), copies.len(), "{}: {:?}", consumer, copies);
        }
        let again = scene.run(&settled);
        let is_write = |effect: &dispatch::Effect| matches!(effect, dispatch::Effect::Work(_));
        proptest::prop_assert!(!again.iter().any(is_write), "{again:?}");
    }
}
