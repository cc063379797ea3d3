//! Cluster and ClusterTaintPolicy (specification/admission.md 7, 5.5).

use ironclad_failover::flags::NoExecutePolicy;
use ironclad_fleet::gates::{Gate, Gates};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Write, with, with_spec};
use crate::{Need, needs, table::Phase};

const GROUP: &str = "cluster.karmada.io";

fn cluster() -> Value {
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"},
        "spec": {"syncMode": "Push", "apiEndpoint": "https://10.0.0.1:6443"},
    })
}

fn models(list: &[(u64, &str, &str)]) -> Value {
    let model = |(grade, min, max): &(u64, &str, &str)| json!({"grade": grade, "ranges": [{"name": "cpu", "min": min, "max": max}]});
    json!({"resourceModels": list.iter().map(model).collect::<Vec<_>>()})
}

#[test]
fn cluster_defaults() {
    let made = |old: Option<Value>, spec: Value| {
        let object = with_spec(&cluster(), &spec);
        let mut write = match old {
            None => Write::create(GROUP, "clusters", object),
            Some(old) => Write::update(GROUP, "clusters", old, object),
        };
        write.lookups.now = Timestamp::from_second(1_700_000_000).unwrap();
        write.mutated()["spec"].clone()
    };
    let spec = made(None, json!({"unknown": 1}));
    assert_eq!(spec["unknown"], 1);
    let grades = spec["resourceModels"].as_array().unwrap();
    assert_eq!(grades.len(), 9);
    assert_eq!(
        grades[0],
        json!({"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "1"}, {"name": "memory", "min": "0", "max": "4Gi"}]})
    );
    assert_eq!(grades[1]["ranges"][1], json!({"name": "memory", "min": "4Gi", "max": "16Gi"}));
    assert_eq!(
        grades[8],
        json!({"grade": 8, "ranges": [{"name": "cpu", "min": "128", "max": "9223372036854775807"}, {"name": "memory", "min": "1Ti", "max": "9223372036854775807"}]})
    );
    let accepted = Write::create(GROUP, "clusters", with_spec(&cluster(), &json!({"resourceModels": grades})));
    assert_eq!(accepted.refusal(), "", "the default grades are valid");
    assert_eq!(made(Some(cluster()), json!({})).get("resourceModels"), None, "none are added later");
    let sorted = made(Some(cluster()), models(&[(1, "2", "4"), (0, "1", "2")]));
    assert_eq!(sorted["resourceModels"], models(&[(0, "0", "2"), (1, "2", "9223372036854775807")])["resourceModels"]);
    let mut off = Write::create(GROUP, "clusters", cluster());
    off.config.gates = Gates::default().with(Gate::CustomizedClusterResourceModeling, false);
    assert_eq!(off.mutated(), cluster(), "without the gate, nothing");

    assert_eq!(made(None, json!({"zone": "z"}))["zones"], json!(["z"]));
    assert_eq!(made(None, json!({"zone": "z"})).get("zone"), None);
    assert_eq!(
        made(None, json!({"zone": "z", "zones": ["y"]}))["zone"],
        "z",
        "what is contradictory is left to the validation"
    );
    let taint = |effect: &str, at: Value| json!({"taints": [with(&json!({"key": "k", "effect": effect}), &json!({"timeAdded": at}))]});
    for (name, old, new, want) in [
        ("NoExecute", None, taint("NoExecute", Value::Null), json!("2023-11-14T22:13:20Z")),
        ("PreferNoExecute", None, taint("PreferNoExecute", Value::Null), json!("2023-11-14T22:13:20Z")),
        ("NoSchedule needs none", None, taint("NoSchedule", Value::Null), Value::Null),
        (
            "one that has a time keeps it",
            None,
            taint("NoExecute", json!("2020-01-01T00:00:00Z")),
            json!("2020-01-01T00:00:00Z"),
        ),
        (
            "an existing one keeps its time",
            Some(with_spec(&cluster(), &taint("NoExecute", json!("2020-01-01T00:00:00Z")))),
            taint("NoExecute", Value::Null),
            json!("2020-01-01T00:00:00Z"),
        ),
    ] {
        assert_eq!(made(old, new)["taints"][0].get("timeAdded").cloned().unwrap_or_default(), want, "{name}");
    }
}

#[test]
fn grades_that_limit_nothing_are_warned_of() {
    const TEXT: &str = "spec.resourceModels limits nothing: the nodes and Pods of clusters in Push mode are watched, and \
                        what is free on each node counts instead";
    let max = "9223372036854775807";
    let of = |mode: &str, spec: &Value| with_spec(&cluster(), &with(&json!({ "syncMode": mode }), spec));
    let push = |spec: &Value| of("Push", spec);
    let own = models(&[(0, "0", "3"), (1, "3", max)]);
    let (other, none) = (models(&[(0, "0", max)]), json!({}));
    let filled_in = Write::create(GROUP, "clusters", cluster()).mutated();
    for (name, old, new, watches, is_warned) in [
        ("the defaults of a new cluster", None, filled_in.clone(), true, false),
        ("a new cluster without grades", None, cluster(), true, false),
        ("a new cluster with grades", None, push(&own), true, true),
        ("a new cluster in Pull mode", None, of("Pull", &own), true, false),
        ("members are not watched", None, push(&own), false, false),
        ("own grades in place of the defaults", Some(filled_in.clone()), push(&own), true, true),
        ("other grades", Some(push(&own)), push(&other), true, true),
        ("grades stay", Some(push(&own)), with_spec(&push(&own), &json!({"region": "r"})), true, false),
        ("grades go", Some(push(&own)), push(&none), true, false),
        ("the defaults again", Some(push(&own)), filled_in, true, false),
    ] {
        let mut write = match old {
            None => Write::create(GROUP, "clusters", new),
            Some(old) => Write::update(GROUP, "clusters", old, new),
        };
        write.config.watches_members = watches;
        let verdict = write.validated();
        let want = if is_warned { vec![TEXT.to_owned()] } else { vec![] };
        assert_eq!((verdict.denial, verdict.warnings), (None, want), "{name}");
    }
}

/// The right to get a Secret in `karmada-cluster`.
fn may_get(name: &str) -> Need {
    let resource = crate::Resource { group: "", version: "v1", kind: "Secret", plural: "secrets" };
    let namespace = "karmada-cluster".to_owned();
    Need::Access { user: "alice".into(), groups: vec![], verb: "get", resource, namespace, name: name.into() }
}

#[test]
fn a_secret_is_sent_only_to_addresses_of_those_who_may_read_it() {
    let secret = |name: &str| json!({"namespace": "karmada-cluster", "name": name});
    let with = |spec: Value| with_spec(&cluster(), &spec);
    let both = || with(json!({"secretRef": secret("a"), "impersonatorSecretRef": secret("b")}));
    let plain = || with(json!({"secretRef": secret("a")}));
    for (name, old, new, want) in [
        ("no Secret", None, cluster(), vec![]),
        ("a new cluster", None, both(), vec!["a", "b"]),
        ("without changes", Some(both()), both(), vec![]),
        ("a change of something else", Some(both()), with_spec(&both(), &json!({"region": "r"})), vec![]),
        ("another Secret", Some(plain()), with(json!({"secretRef": secret("c")})), vec!["c"]),
        ("one more", Some(plain()), both(), vec!["b"]),
        ("none any more", Some(both()), plain(), vec![]),
        ("another address", Some(both()), with_spec(&both(), &json!({"apiEndpoint": "https://evil"})), vec!["a", "b"]),
        ("another proxy", Some(plain()), with_spec(&plain(), &json!({"proxyURL": "http://evil"})), vec!["a"]),
        (
            "any certificate",
            Some(plain()),
            with_spec(&plain(), &json!({"insecureSkipTLSVerification": true})),
            vec!["a"],
        ),
        ("half a Secret", None, with(json!({"secretRef": {"namespace": "n", "name": ""}})), vec![]),
    ] {
        let mut write = match old {
            None => Write::create(GROUP, "clusters", new),
            Some(old) => Write::update(GROUP, "clusters", old, new),
        };
        let asked = write.with_request(|request| needs(Phase::Validating, request, &write.config));
        assert_eq!(asked, want.iter().map(|secret| may_get(secret)).collect(), "{name}");
        if want.is_empty() {
            continue;
        }
        assert_eq!(write.validated().denial.map(|denial| denial.code), Some(500), "{name}: not known is not permitted");
        for allowed in [false, true] {
            let found = |_: &&str| if allowed { vec![Value::Bool(true)] } else { vec![] };
            write.lookups.found = want.iter().map(|secret| (may_get(secret), found(secret))).collect();
            let refused = write.refusal();
            assert_eq!(refused.is_empty(), allowed, "{name}: {refused}");
            // Members of the break-glass group, too.
            write.groups = vec![crate::BYPASS_GROUP.to_owned()];
            let asked = write.with_request(|request| needs(Phase::Validating, request, &write.config));
            write.lookups.found = asked.into_iter().map(|need| (need, found(&""))).collect();
            assert_eq!(write.refusal().is_empty(), allowed, "{name}: break-glass");
            write.groups.clear();
        }
    }
    let mut write = Write::create(GROUP, "clusters", plain());
    write.lookups.found.insert(may_get("a"), vec![]);
    assert_eq!(
        write.refusal(),
        "spec.secretRef: Forbidden: the control plane would send the token of Secret karmada-cluster/a to spec.apiEndpoint, and user \"alice\" may not get that Secret"
    );
}

#[test]
fn cluster_rules() {
    let never = |path: &str, url: &str| {
        format!(
            "{path}: Invalid value: {url:?}: must not be a link-local, multicast or unspecified address: no API server has one, and clouds answer there with the credentials of machines"
        )
    };
    let max = "9223372036854775807";
    let label = |path: &str| {
        format!(
            "{path}: Invalid value: \"a b\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        )
    };
    for (name, spec, want) in [
        ("a plain one", json!({}), String::new()),
        ("an address without scheme", json!({"apiEndpoint": "10.0.0.1:6443"}), String::new()),
        ("no host", json!({"apiEndpoint": "https:///x"}), r#"spec.apiEndpoint: Invalid value: "https:///x": must be a URL with a host, as https://host:port"#.into()),
        ("a user", json!({"apiEndpoint": "https://u@a"}), r#"spec.apiEndpoint: Invalid value: "https://u@a": user information is not permitted in the URL"#.into()),
        ("a query", json!({"apiEndpoint": "https://a?b"}), r#"spec.apiEndpoint: Invalid value: "https://a?b": query parameters are not permitted in the URL"#.into()),
        ("a fragment", json!({"apiEndpoint": "https://a#b"}), r#"spec.apiEndpoint: Invalid value: "https://a#b": fragments are not permitted in the URL"#.into()),
        ("half a secret", json!({"secretRef": {"namespace": "", "name": "a"}}), "spec.secretRef.namespace: Required value".into()),
        ("the other half", json!({"secretRef": {"namespace": "a", "name": ""}}), "spec.secretRef.name: Required value".into()),
        ("the impersonator's other half", json!({"impersonatorSecretRef": {"namespace": "", "name": "a"}}), "spec.impersonatorSecretRef.namespace: Required value".into()),
        ("no mode", json!({"syncMode": null}), "spec.syncMode: Required value".into()),
        ("an empty mode", json!({"syncMode": ""}), "spec.syncMode: Required value".into()),
        (
            "neither pushed nor pulled",
            json!({"syncMode": "Carry"}),
            r#"spec.syncMode: Unsupported value: "Carry": supported values: "Pull", "Push""#.into(),
        ),
        ("half an impersonator", json!({"impersonatorSecretRef": {"namespace": "a", "name": ""}}), "spec.impersonatorSecretRef.name: Required value".into()),
        ("a proxy", json!({"proxyURL": "socks5://p:1"}), String::new()),
        ("a proxy that is none", json!({"proxyURL": "p"}), r#"spec.proxyURL: Invalid value: "p": must be a URL, as https://host:port"#.into()),
        ("a proxy of another scheme", json!({"proxyURL": "ftp://p"}), r#"spec.proxyURL: Invalid value: "ftp://p": unsupported scheme "ftp", must be http, https, or socks5"#.into()),
        ("a member on this host", json!({"apiEndpoint": "https://127.0.0.1:6443"}), String::new()),
        ("a service of the cloud", json!({"apiEndpoint": "https://169.254.169.254/latest"}), never("spec.apiEndpoint", "https://169.254.169.254/latest")),
        ("the same in IPv6", json!({"apiEndpoint": "[::ffff:169.254.169.254]:80"}), never("spec.apiEndpoint", "[::ffff:169.254.169.254]:80")),
        ("a link-local address", json!({"apiEndpoint": "https://[fe80::1]:6443"}), never("spec.apiEndpoint", "https://[fe80::1]:6443")),
        ("every address", json!({"apiEndpoint": "https://0.0.0.0:6443"}), never("spec.apiEndpoint", "https://0.0.0.0:6443")),
        ("a link-local proxy", json!({"proxyURL": "http://u:p@169.254.0.1:80"}), never("spec.proxyURL", "http://u:p@169.254.0.1:80")),
        ("headers for the proxy", json!({"proxyHeader": {"X-A": "a, b"}}), String::new()),
        ("a header without a name", json!({"proxyHeader": {"X A": "a"}}), r#"spec.proxyHeader[X A]: Invalid value: "X A": must be a name of an HTTP header"#.into()),
        ("a header of two lines", json!({"proxyHeader": {"X": "a\r\nY: b"}}), r#"spec.proxyHeader[X]: Invalid value: "a\r\nY: b": must not contain control characters"#.into()),
        ("the host of the proxy", json!({"proxyHeader": {"Host": "a"}}), "spec.proxyHeader[Host]: Forbidden: this header cannot be set".into()),
        ("provider", json!({"provider": "a b"}), label("spec.provider")),
        ("region", json!({"region": "a b"}), label("spec.region")),
        ("zone", json!({"zone": "a b"}), label("spec.zone")),
        ("zones", json!({"zones": ["a", "a b"]}), label("spec.zones[1]")),
        ("zone and zones", json!({"zone": "a", "zones": ["a"]}), r#"spec.zones: Invalid value: ["a"]: zone is deprecated and can't be used together with zones"#.into()),
        ("a taint", json!({"taints": [{"key": "k", "effect": "PreferNoExecute"}]}), String::new()),
        (
            "a taint of no name",
            json!({"taints": [{"key": "/k", "effect": "NoSchedule"}]}),
            r#"spec.taints[0].key: Invalid value: "/k": prefix part must be non-empty"#.into(),
        ),
        ("a taint of no value", json!({"taints": [{"key": "k", "value": "a b", "effect": "NoSchedule"}]}), label("spec.taints[0].value")),
        (
            "a taint of Kubernetes' nodes",
            json!({"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}),
            r#"spec.taints[0].effect: Unsupported value: "PreferNoSchedule": supported values: "NoExecute", "NoSchedule", "PreferNoExecute""#.into(),
        ),
        (
            "a taint twice",
            json!({"taints": [{"key": "k", "effect": "NoSchedule"}, {"key": "k", "value": "v", "effect": "NoSchedule"}]}),
            r#"spec.taints[1]: Duplicate value: "k=v:NoSchedule": taints must be unique by key and effect pair"#.into(),
        ),
        ("grades", models(&[(0, "0", "1024Mi"), (1, "1Gi", max)]), String::new()),
        ("a grade twice", models(&[(0, "0", "1"), (0, "1", max)]), "spec.resourceModels[1].grade: Invalid value: 0: the grades of models must be unique".into()),
        (
            "other resources",
            json!({"resourceModels": [{"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "1"}]}, {"grade": 1, "ranges": [{"name": "memory", "min": "1", "max": max}]}]}),
            format!(r#"spec.resourceModels[1].ranges: Invalid value: [{{"max":"{max}","min":"1","name":"memory"}}]: the number and the names of the resources must be the same in all models, in the same order"#),
        ),
        (
            "an empty range",
            models(&[(0, "0", "1"), (1, "1", "1"), (2, "1", max)]),
            r#"spec.resourceModels[1].ranges[0]: Invalid value: {"max":"1","min":"1","name":"cpu"}: the max value of each resource must be greater than the min value"#.into(),
        ),
        ("from one", models(&[(0, "1", max)]), r#"spec.resourceModels[0].ranges[0].min: Invalid value: "1": the min value of each resource in the first model should be 0"#.into()),
        ("a gap", models(&[(0, "0", "1"), (1, "2", max)]), r#"spec.resourceModels[1].ranges[0].min: Invalid value: "2": model intervals for resources must be contiguous and non-overlapping"#.into()),
        ("an end", models(&[(0, "0", "1")]), r#"spec.resourceModels[0].ranges[0].max: Invalid value: "1": the max value of each resource in the last model should be MaxInt64"#.into()),
    ] {
        assert_eq!(Write::create(GROUP, "clusters", with_spec(&cluster(), &spec)).refusal(), want, "{name}");
    }
    for (name, want) in [("a.b", "metadata.name: Invalid value: \"a.b\": must not contain dots"), (&"m".repeat(48), "")]
    {
        let named = with(&cluster(), &json!({"metadata": {"name": name}}));
        assert_eq!(Write::create(GROUP, "clusters", named).refusal(), want, "{name}");
    }
    let long = with(&cluster(), &json!({"metadata": {"name": "m".repeat(49)}}));
    assert_eq!(
        Write::create(GROUP, "clusters", long).refusal(),
        format!("metadata.name: Invalid value: \"{}\": must be no more than 48 characters", "m".repeat(49))
    );
    let change = |spec: Value| {
        Write::update(GROUP, "clusters", with_spec(&cluster(), &json!({"id": "a"})), with_spec(&cluster(), &spec))
            .validated()
    };
    assert_eq!(
        change(json!({"id": "a", "syncMode": "Pull"})).warnings,
        [
            "spec.syncMode changes to Pull: copies stay as they are until an agent serves the member (`ironclad register`)"
        ]
    );
    assert_eq!(
        change(json!({"id": "b"})).warnings,
        ["spec.id changes from \"a\" to \"b\": it identifies the cluster and should not change"]
    );
}

#[test]
fn taint_policy_rules() {
    let policy = |name: &str, spec: Value| json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterTaintPolicy", "metadata": {"name": name}, "spec": spec});
    let matching = |effect: &str| json!({"matchConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["False"]}], "taintsToAdd": [{"key": "k", "effect": effect}]});
    let create = |spec: Value| {
        let mut write = Write::create("policy.karmada.io", "clustertaintpolicies", policy("a", spec));
        write.config.gates = Gates::default().with(Gate::Failover, true);
        write
    };
    assert_eq!(create(matching("NoExecute")).refusal(), "", "policies may evict");
    let mut fenced = create(matching("NoExecute"));
    fenced.config.no_execute_policy = NoExecutePolicy::Forbidden;
    assert_eq!(
        fenced.refusal(),
        "spec.taintsToAdd[0]: Forbidden: Configuring taint with NoExecute effect is not allowed, this capability must be explicitly enabled by administrators through command-line flags"
    );
    let mixed = with(&matching("NoSchedule"), &json!({"taints": [{"key": "k2", "effect": "NoSchedule"}]}));
    assert!(create(mixed).refusal().contains("Forbidden: "), "two spellings in one object");
    let odd = with(
        &matching("NoSchedule"),
        &json!({"targetCluster": {"fieldSelector": {"matchExpressions": [{"key": "x", "operator": "In"}]}}}),
    );
    assert_eq!(
        create(odd).refusal(),
        r#"spec.targetCluster.fieldSelector: Invalid value: {"matchExpressions":[{"key":"x","operator":"In"}]}: unsupported key "x", must be provider, region, or zone"#
    );
    let mut second = create(matching("NoSchedule"));
    for need in second.with_request(|request| needs(Phase::Validating, request, &second.config)) {
        second.lookups.found.insert(need, vec![policy("b", matching("NoSchedule"))]);
    }
    assert_eq!(
        second.validated().warnings,
        [
            "policy b sets taint k:NoSchedule too: on a cluster that both select it is removed when neither matches any more"
        ]
    );
    let off =
        Write::create("policy.karmada.io", "clustertaintpolicies", policy("a", matching("NoSchedule"))).validated();
    assert_eq!(off.warnings, ["the policy has no effect: feature gate Failover is off"]);
}

#[test]
fn a_dry_run_of_a_taint_policy_names_its_clusters() {
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterTaintPolicy", "metadata": {"name": "p"}, "spec": {
        "matchConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["False"]}], "taintsToAdd": [{"key": "k", "effect": "NoSchedule"}],
    }});
    let down = with(
        &cluster(),
        &json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Down", "message": "", "lastTransitionTime": "2023-11-14T22:13:20Z"}]}}),
    );
    let write = |dry_run: bool| {
        let mut write = Write::create("policy.karmada.io", "clustertaintpolicies", policy.clone());
        write.config.gates = Gates::default().with(Gate::Failover, true);
        write.lookups.now = Timestamp::from_second(1_700_000_060).unwrap();
        write.dry_run = dry_run;
        write
    };
    let asked = |write: &Write| write.with_request(|request| needs(Phase::Validating, request, &write.config));
    let mut dry = write(true);
    assert_eq!(
        dry.validated().warnings,
        ["dry run: it is not known which clusters match, since they could not be listed"]
    );
    for need in asked(&dry) {
        let clusters = matches!(&need, Need::List { resource, .. } if resource.plural == "clusters");
        dry.lookups.found.insert(need, if clusters { vec![down.clone()] } else { vec![] });
    }
    assert_eq!(
        dry.validated().warnings,
        [
            "dry run: 1 of 1 clusters are selected, and the conditions of 1 of them match",
            "dry run: cluster m1 would get k:NoSchedule in 240 s",
        ]
    );
    let real = write(false);
    assert_eq!((asked(&real).len(), asked(&dry).len()), (1, 2), "a write that counts reads no cluster");
    assert_eq!(real.validated().warnings, Vec::<String>::new());
}
