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
        import::decide(&import::Seen { import, service, exporters: &exporters }).effects
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
    let known = patched(&plain, &json!({"status": {"clusters": [{"cluster": "m1"}]}}));
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
    let effects =
        import::decide(&import::Seen { import: &import, service: Some(&service()), exporters: &exporters }).effects;
    let [import::Effect::Event(event)] = effects.as_slice() else { panic!("{effects:?}") };
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
    assert_eq!(reasons, [("Valid", "Valid"), ("Ready", "Pending")]);
    assert_eq!(collect::export(work), Some((key.clone(), Flow::ServiceExport)));
    let works = [stored(work), collected("m1", "web-x", &["10.0.0.1"])];
    let effects = run(Some(&export), None, false, &works);
    let [export::Effect::Status(part)] = effects.as_slice() else { panic!("{effects:?}") };
    let reasons: Vec<_> = part.conditions.iter().map(|c| (c.type_.as_str(), c.reason.as_str())).collect();
    assert_eq!(reasons, [("Valid", "NoService"), ("Ready", "Exported")]);
    let told = patched(&export, &json!({"status": {"conditions": part.conditions}}));
    assert_eq!(run(Some(&told), None, false, &works), [], "told once");
    for (name, export, is_propagated) in [("deleted", None, false), ("a policy says where", Some(&told), true)] {
        let effects = run(export, None, is_propagated, &works);
        assert!(matches!(effects.as_slice(), [export::Effect::Work(Write::Delete { .. })]), "{name}: {effects:?}");
    }
}
