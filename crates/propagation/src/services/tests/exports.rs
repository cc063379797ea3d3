//! Tables of exports and imports.

use super::{claims::service, *};

#[test]
fn exported_slices_are_imported_into_the_control_plane() {
    let key = key();
    let run = |works: &[Arc<Work>], slices: &[Arc<Value>], leaving: &BTreeSet<ClusterName>| {
        imported::decide(&imported::Seen { key: &key, service: "derived-web", works, slices, leaving }).effects
    };
    let none = BTreeSet::new();
    let works = [collected("m1", "web-x", &["10.0.0.1"])];
    let effects = run(&works, &[], &none);
    let [imported::Effect::Create(slice)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(slice["metadata"]["name"], "imported-m1-web-x");
    let slice = Arc::new(slice.clone());
    assert_eq!(run(&works, std::slice::from_ref(&slice), &none), []);
    let moved = [collected("m1", "web-x", &["10.0.0.9"])];
    assert!(matches!(run(&moved, std::slice::from_ref(&slice), &none).as_slice(), [imported::Effect::Patch { .. }]));
    let gone = [imported::Effect::Delete { name: "imported-m1-web-x".into() }];
    assert_eq!(run(&[], std::slice::from_ref(&slice), &none), gone);
    assert_eq!(
        run(&works, std::slice::from_ref(&slice), &[ClusterName::from("m1")].into()),
        gone,
        "the cluster leaves"
    );
    let other = patched(&*slice, &json!({"metadata": {"annotations": {EXPORTED_SERVICE_NAME: "other"}}}));
    assert_eq!(run(&[], &[Arc::new(other)], &none), [], "of another export");
}

fn service_import(spec: Value) -> ServiceImport {
    serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "web", "uid": "i"}, "spec": spec})).unwrap()
}

#[test]
fn an_import_has_a_service() {
    let exporters: BTreeSet<ClusterName> = ["m1".into()].into();
    let run = |import: &ServiceImport, service: Option<&Value>| {
        import::decide(&import::Seen { import, service, exporters: &exporters, now: now() }).effects
    };
    let ports = json!([{"name": "http", "port": 80}]);
    let plain = service_import(json!({"type": "ClusterSetIP", "ports": ports, "ips": ["10.9.0.1"]}));
    let effects = run(&plain, None);
    let [import::Effect::Status(_), import::Effect::CreateService(service), import::Effect::Event(event)] =
        effects.as_slice()
    else {
        panic!("{effects:?}")
    };
    assert_eq!((event.reason, &service["metadata"]["name"]), ("SyncDerivedServiceSucceed", &json!("derived-web")));
    let told = effects[0].clone();
    let import::Effect::Status(part) = told else { panic!("{told:?}") };
    let [ready] = part.conditions.as_slice() else { panic!("{part:?}") };
    assert_eq!((&*ready.status, &*ready.reason), ("True", "Ready"));
    assert_eq!(ready.message, "Service derived-web leads to endpoints of m1");
    let status = json!({"status": {"clusters": [{"cluster": "m1"}], "conditions": [ready]}});
    let known = patched(&plain, &status);
    let server = json!({"metadata": {"uid": "s"}, "spec": {"clusterIP": "10.0.0.1",
        "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 80}]}});
    let present: Value = patched(service, &server);
    let effects = run(&known, Some(&present));
    let [import::Effect::ServiceStatus(part)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(json!(part.fields), json!({"loadBalancer": {"ingress": [{"ip": "10.9.0.1"}]}}));
    let complete =
        patched(&present, &json!({"status": {"loadBalancer": {"ingress": [{"ip": "10.9.0.1", "ipMode": "VIP"}]}}}));
    assert_eq!(run(&known, Some(&complete)), []);
    let changed = patched(&known, &json!({"spec": {"ports": [{"name": "http", "port": 81}]}}));
    assert!(matches!(
        run(&changed, Some(&complete)).as_slice(),
        [import::Effect::PatchService(_), import::Effect::Event(_)]
    ));

    let headless = service_import(json!({"type": "Headless", "ports": ports}));
    let effects = run(&headless, None);
    let service = effects.iter().find_map(|effect| match effect {
        import::Effect::CreateService(service) => Some(service),
        _ => None,
    });
    assert_eq!(service.unwrap()["spec"]["clusterIP"], "None");
}

#[test]
fn an_import_may_choose_its_name_unless_it_is_taken() {
    let chosen = json!({"metadata": {"annotations": {IMPORTED_SERVICE_NAME: "web"}}});
    let import = patched(&service_import(json!({"type": "ClusterSetIP", "ports": []})), &chosen);
    assert_eq!(import::service_name(Some(&import), "web"), "web");
    assert_eq!(import::service_name(None, "web"), "derived-web");
    let exporters = BTreeSet::new();
    let taken = service();
    let seen = import::Seen { import: &import, service: Some(&taken), exporters: &exporters, now: now() };
    let effects = import::decide(&seen).effects;
    let [import::Effect::Status(part), import::Effect::Event(event)] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    let ready = &part.conditions[0];
    assert_eq!((&*ready.status, &*ready.reason, &ready.message), ("False", "Pending", &event.message));
    assert!(event.reason == "SyncDerivedServiceFailed" && event.message.contains("does not belong to this import"));
}

#[test]
fn an_export_in_the_control_plane_marks_the_clusters_of_its_service() {
    let export: ServiceExport =
        serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "web", "uid": "e"}})).unwrap();
    let clusters: BTreeSet<ClusterName> = ["m1".into(), "m2".into()].into();
    let (key, spaces) = (key(), ["m1".into()].into());
    let run = |export: Option<&ServiceExport>, service: Option<&Value>, is_propagated: bool, works: &[Arc<Work>]| {
        let seen = export::Seen {
            key: &key,
            export,
            service,
            clusters: &clusters,
            is_propagated,
            spaces: &spaces,
            works,
            now: now(),
        };
        export::decide(&seen, ids("id")).effects
    };
    let effects = run(Some(&export), Some(&service()), false, &[]);
    let [export::Effect::Work(Write::Create(work)), export::Effect::Status(part)] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    let reasons: Vec<_> = part.conditions.iter().map(|c| (c.type_.as_str(), c.reason.as_str())).collect();
    assert_eq!(reasons, [("Valid", "Valid"), ("Ready", "Pending"), ("Conflict", "NoConflicts")]);
    assert_eq!(collect::export(work), Some((key.clone(), Flow::ServiceExport)));
    let works = [stored(work), collected("m1", "web-x", &["10.0.0.1"])];
    let effects = run(Some(&export), None, false, &works);
    let [export::Effect::Status(part)] = effects.as_slice() else { panic!("{effects:?}") };
    let reasons: Vec<_> = part.conditions.iter().map(|c| (c.type_.as_str(), c.reason.as_str())).collect();
    assert_eq!(reasons, [("Valid", "NoService"), ("Ready", "Exported"), ("Conflict", "NoConflicts")]);
    let told = patched(&export, &json!({"status": {"conditions": part.conditions}}));
    assert_eq!(run(Some(&told), None, false, &works), [], "told once");
    for (name, export, is_propagated) in [("deleted", None, false), ("a policy says where", Some(&told), true)] {
        let effects = run(export, None, is_propagated, &works);
        assert!(matches!(effects.as_slice(), [export::Effect::Work(Write::Delete { .. })]), "{name}: {effects:?}");
    }
}

#[test]
fn an_import_passes_on_how_traffic_is_routed() {
    let spec = json!({"type": "ClusterSetIP", "ports": [], "internalTrafficPolicy": "Local",
        "trafficDistribution": "PreferClose", "ipFamilies": ["IPv6"]});
    let (import, exporters) = (service_import(spec), BTreeSet::new());
    let effects = import::decide(&import::Seen { import: &import, service: None, exporters: &exporters, now: now() });
    let [import::Effect::Status(part), import::Effect::CreateService(service), _] = effects.effects.as_slice() else {
        panic!("{effects:?}")
    };
    let ready = &part.conditions[0];
    assert_eq!((&*ready.status, &*ready.reason), ("False", "Pending"));
    assert_eq!(ready.message, "no cluster exports it yet; spec.ipFamilies has no effect: each cluster has its own");
    assert_eq!(service["spec"]["internalTrafficPolicy"], "Local");
    assert_eq!(service["spec"]["trafficDistribution"], "PreferClose");
}

/// The condition `Conflict` of an export whose clusters report these slices.
fn conflict(slices: &[(&str, Value)]) -> (String, String, String) {
    let export: ServiceExport =
        serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "web", "uid": "e"}})).unwrap();
    let works: Vec<Arc<Work>> = slices
        .iter()
        .map(|(cluster, slice)| {
            let writes = collect(cluster, Some(slice), None, &exported(&[Flow::ServiceExport]));
            let [Write::Create(work)] = writes.as_slice() else { panic!("{writes:?}") };
            stored(work)
        })
        .collect();
    let (none, spaces, key) = (BTreeSet::new(), BTreeSet::new(), key());
    let seen = export::Seen {
        key: &key,
        export: Some(&export),
        service: None,
        clusters: &none,
        is_propagated: true,
        spaces: &spaces,
        works: &works,
        now: now(),
    };
    let effects = export::decide(&seen, ids("id")).effects;
    let [export::Effect::Status(part)] = effects.as_slice() else { panic!("{effects:?}") };
    let found = part.conditions.iter().find(|c| c.type_ == export::CONFLICT).unwrap();
    (found.status.clone(), found.reason.clone(), found.message.clone())
}

#[test]
fn clusters_that_export_what_differs_are_a_conflict() {
    let slice = |labels: Value, endpoints: Value, ports: Value| {
        let mut slice = member_slice("web-x", &[]);
        slice["metadata"]["labels"] = json!({"kubernetes.io/service-name": "web"});
        crate::testkit::merge(&mut slice["metadata"]["labels"], &labels);
        slice["endpoints"] = endpoints;
        slice["ports"] = ports;
        slice
    };
    let (headless, plain) = (json!({"service.kubernetes.io/headless": ""}), json!({}));
    let (one, host) = (json!([{"addresses": ["10.0.0.1"]}]), json!([{"addresses": ["10.0.0.1"], "hostname": "db-0"}]));
    let (http, both) = (json!([{"name": "http", "port": 80}]), json!([{"name": "http", "port": 81}, {"port": 90}]));
    let alike = ("False", "NoConflicts", "what the clusters export is alike");
    for (name, slices, want) in [
        ("nothing yet", vec![], alike),
        ("one cluster", vec![("m1", slice(headless.clone(), host.clone(), http.clone()))], alike),
        (
            "target ports may differ",
            vec![
                ("m1", slice(plain.clone(), one.clone(), http.clone())),
                ("m2", slice(plain.clone(), one.clone(), json!([{"name": "http", "port": 8080}]))),
            ],
            alike,
        ),
        (
            "a slice without endpoints has no ports",
            vec![
                ("m1", slice(plain.clone(), one.clone(), http.clone())),
                ("m2", slice(plain.clone(), json!([]), json!([]))),
            ],
            alike,
        ),
        (
            "a port that is not everywhere",
            vec![
                ("m1", slice(plain.clone(), one.clone(), http.clone())),
                ("m2", slice(plain.clone(), one.clone(), both)),
            ],
            ("True", "PortConflict", "port without a name/TCP is served in m2 and not in m1"),
        ),
        (
            "equal hostnames",
            vec![
                ("m1", slice(headless.clone(), host.clone(), http.clone())),
                ("m2", slice(headless.clone(), host.clone(), http.clone())),
            ],
            ("True", "HostnameConflict", "hostname db-0 is used in m1, m2: its addresses are served together"),
        ),
        (
            "hostnames mean nothing in other Services",
            vec![
                ("m1", slice(plain.clone(), host.clone(), http.clone())),
                ("m2", slice(plain.clone(), host.clone(), http.clone())),
            ],
            alike,
        ),
        (
            "several",
            vec![("m1", slice(headless, host, http.clone())), ("m2", slice(plain, one, json!([])))],
            (
                "True",
                "PortConflict,TypeConflict",
                "port http/TCP is served in m1 and not in m2; the Service is headless in m1 and not in m2",
            ),
        ),
    ] {
        let (status, reason, message) = conflict(&slices);
        assert_eq!((&*status, &*reason, &*message), want, "{name}");
    }
}

#[test]
fn the_status_of_an_ingress_names_the_clusters_of_its_backends() {
    let service = |name: &str| json!({"service": {"name": name, "port": {"number": 80}}});
    let paths = json!([{"path": "/", "pathType": "Prefix", "backend": service("web")},
        {"path": "/api", "pathType": "Prefix", "backend": service("api")}]);
    let ingress: MultiClusterIngress = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "i"},
        "spec": {"defaultBackend": service("web"), "rules": [{"http": {"paths": paths}}, {"host": "x"}]},
    }))
    .unwrap();
    assert_eq!(ingress::backends(&ingress), ["api".to_owned(), "web".to_owned()].into());
    let mut all = three();
    let drained = json!({"status": {"remedyActions": ["TrafficControl"]}});
    all.insert("m2".into(), cluster("m2", "True", drained.clone()));
    all.insert("m3".into(), cluster("m3", "True", drained));
    let locations = [("api".to_owned(), BTreeSet::new()), ("web".to_owned(), ["m1".into(), "m2".into()].into())].into();
    let run = |ingress: &MultiClusterIngress| {
        ingress::decide(&ingress::Seen { ingress, locations: &locations, clusters: &all }).effects
    };
    let effects = run(&ingress);
    let [part] = effects.as_slice() else { panic!("{effects:?}") };
    let status = json!({"serviceLocations": [{"name": "api"}, {"name": "web", "clusters": ["m1", "m2"]}],
        "trafficBlockClusters": ["m2"]});
    assert_eq!(json!(part.fields), status);
    let told: MultiClusterIngress = patched(&ingress, &json!({"status": status}));
    assert_eq!(run(&told), [], "up to date");
    let leaving = patched(&ingress, &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    assert_eq!(run(&leaving), []);
}
