use std::collections::BTreeSet;

use serde_json::json;

use super::*;

/// Files of values that the chart is rendered with, too.
const FILES: [(&str, &str); 7] = [
    ("embedded", include_str!("../../../../charts/ironclad/ci/embedded-values.yaml")),
    ("embedded-all", include_str!("../../../../charts/ironclad/ci/embedded-all-values.yaml")),
    ("external", include_str!("../../../../charts/ironclad/ci/external-values.yaml")),
    ("external-all", include_str!("../../../../charts/ironclad/ci/external-all-values.yaml")),
    ("external-kubeconfig", include_str!("../../../../charts/ironclad/ci/external-kubeconfig-values.yaml")),
    ("agent", include_str!("../../../../charts/ironclad/ci/agent-values.yaml")),
    ("agent-all", include_str!("../../../../charts/ironclad/ci/agent-all-values.yaml")),
];

fn release(name: &str, text: &str) -> Release {
    let values = Values::new(&[("case".to_owned(), text.to_owned())], &[]).unwrap();
    Release { name: name.to_owned(), namespace: "fleet".to_owned(), values }
}

fn made(name: &str, text: &str) -> Vec<Value> {
    objects(&release(name, text)).unwrap()
}

fn names(objects: &[Value]) -> Vec<String> {
    objects.iter().map(print::name).collect()
}

#[test]
fn objects_of_each_mode_are_in_the_order_in_which_they_are_applied() {
    for (text, want) in [
        (
            "mode: embedded",
            vec![
                "namespace/fleet",
                "serviceaccount/a",
                "service/a",
                "networkpolicy.networking.k8s.io/a",
                "statefulset.apps/a",
            ],
        ),
        (
            "mode: external",
            vec![
                "namespace/fleet",
                "serviceaccount/a",
                "clusterrole.rbac.authorization.k8s.io/ironclad:fleet:a",
                "clusterrolebinding.rbac.authorization.k8s.io/ironclad:fleet:a",
                "service/a",
                "networkpolicy.networking.k8s.io/a",
                "poddisruptionbudget.policy/a",
                "deployment.apps/a",
            ],
        ),
        (
            "{mode: external, external: {replicas: 1, kubeconfigSecret: {name: plane}}, networkPolicy: {enabled: false}}",
            vec!["namespace/fleet", "serviceaccount/a", "service/a", "deployment.apps/a"],
        ),
        (
            "{mode: agent, agent: {clusterName: m1}, serviceAccount: {name: there}, metrics: {serviceMonitor: {enabled: true}}}",
            vec![
                "namespace/fleet",
                "clusterrole.rbac.authorization.k8s.io/ironclad:fleet:a",
                "clusterrolebinding.rbac.authorization.k8s.io/ironclad:fleet:a",
                "service/a",
                "networkpolicy.networking.k8s.io/a",
                "deployment.apps/a",
                "servicemonitor.monitoring.coreos.com/a",
            ],
        ),
    ] {
        assert_eq!(names(&made("a", text)), want, "{text}");
    }
    let (one, two) = (made("a", "mode: external"), made("a", "mode: external"));
    assert_eq!(print::documents(&one).unwrap(), print::documents(&two).unwrap());
}

/// Nothing of a release but its namespace is the same object as one of another release.
#[test]
fn several_releases_share_a_cluster() {
    let key = |object: &Value| format!("{} {}", print::name(object), print::text(object, "/metadata/namespace"));
    for (case, text) in FILES {
        let keys = |release: &Release| -> BTreeSet<String> {
            let objects = objects(release).unwrap();
            objects.iter().filter(|object| object["kind"] != "Namespace").map(key).collect()
        };
        let one = release("one", text);
        let elsewhere = Release { namespace: "other".to_owned(), ..release("one", text) };
        for other in [release("two", text), elsewhere] {
            let both: Vec<_> = keys(&one).intersection(&keys(&other)).cloned().collect();
            assert_eq!(both, Vec::<String>::new(), "{case}");
        }
        let selector = |name: &str| {
            let objects = made(name, text);
            objects.iter().find_map(|object| object.pointer("/spec/selector/matchLabels").cloned()).unwrap()
        };
        assert_ne!(selector("one"), selector("two"), "{case}");
    }
}

#[test]
fn pods_have_no_rights_on_their_node() {
    for (case, text) in FILES {
        let objects = made("a", text);
        let pod = objects.iter().find_map(|object| object.pointer("/spec/template/spec")).unwrap();
        assert_eq!(
            pod["securityContext"],
            json!({
                "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            }),
            "{case}"
        );
        let [container] = pod["containers"].as_array().unwrap().as_slice() else { panic!("{case}: one container") };
        assert_eq!(
            container["securityContext"],
            json!({
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
            }),
            "{case}"
        );
        assert!(container["resources"]["requests"]["memory"].is_string(), "{case}");
        for probe in ["livenessProbe", "readinessProbe"] {
            assert_eq!(container[probe]["httpGet"]["port"], "metrics", "{case} {probe}");
        }
        // Labels by which Services, policies and the workload find the Pods are on them.
        let labels = objects.iter().find_map(|object| object.pointer("/spec/template/metadata/labels")).unwrap();
        for pointer in ["/spec/selector/matchLabels", "/spec/podSelector/matchLabels"] {
            for selector in objects.iter().filter_map(|object| object.pointer(pointer)) {
                for (key, value) in selector.as_object().unwrap() {
                    assert_eq!(labels.get(key), Some(value), "{case} {pointer}");
                }
            }
        }
    }
}

#[test]
fn values_reach_the_pod() {
    let objects = made("a", FILES[3].1);
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    for (what, got, want) in [
        ("replicas", &deployment["spec"]["replicas"], json!(3)),
        ("image", &container["image"], json!("example/ironclad@sha256:abc")),
        ("secrets", &pod["imagePullSecrets"], json!([{"name": "pull"}])),
        ("class", &pod["priorityClassName"], json!("system-cluster-critical")),
        ("nodes", &pod["nodeSelector"], json!({"disk": "fast"})),
        ("variables", &container["env"], json!([{"name": "IRONCLAD_LOG", "value": "info"}])),
        ("limits", &container["resources"]["limits"], json!({"memory": "1Gi"})),
        ("account", &pod["serviceAccountName"], json!("there")),
    ] {
        assert_eq!(got, &want, "{what}");
    }
    let names = |field: &str, of: &Value| -> Vec<Value> {
        of[field].as_array().into_iter().flatten().map(|one| one["name"].clone()).collect()
    };
    assert_eq!(
        (names("volumes", pod), names("volumeMounts", container)),
        (vec![json!("state"), json!("more")], vec![json!("state"), json!("more")])
    );
    let words: Vec<&str> = container["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let want = "run --install=crds --script-state-dir=/var/lib/ironclad --metrics-bind-address=0.0.0.0:10357 \
                --webhook-bind-address=0.0.0.0:9443 --webhook-url=https://hooks.example:443 \
                --explain-bind-address=0.0.0.0:8446 --explain-service=fleet/a:8446 \
                --metrics-adapter-bind-address=0.0.0.0:8444 --metrics-adapter-service=fleet/a:8444 \
                --aggregate-clusters --clusters-bind-address=0.0.0.0:9448 --clusters-service=fleet/a:9448 \
                --proxy-bind-address=0.0.0.0:8447 --proxy-url=https://fleet.example:8447 \
                --dashboard-bind-address=0.0.0.0:8449 --dashboard-host=fleet.example,10.0.0.5 --dashboard-write \
                --controllers=*,-namespace --feature-gates=Failover=true,PropagateDeps=false --resource-eviction-rate=1";
    assert_eq!(words.join(" "), want);
}

#[test]
fn values_without_sense_are_refused() {
    for (name, text, want) in [
        ("a", "mode: plane", "mode plane is not built\n  try: external"),
        ("a", "mode: hosted", "there is no mode \"hosted\""),
        ("A", "mode: embedded", "the name \"A\" can't be used"),
        ("1a", "mode: embedded", "the name \"1a\" can't be used"),
        ("a-name-of-more-than-forty-letters-is-too-long", "mode: embedded", "the name \"a-name"),
        ("a", "image: {pullPolicy: Sometimes}", "the value image.pullPolicy is \"Sometimes\""),
        ("a", "image: {repository: ''}", "the value image.repository is empty"),
        ("a", "metrics: {port: 80}", "the value metrics.port is 80"),
        ("a", "metrics: {port: 99999}", "the value metrics.port is 99999"),
        ("a", "embedded: {service: {type: None}}", "the value embedded.service.type is \"None\""),
        ("a", "embedded: {service: {nodePort: 30000}}", "the value embedded.service.nodePort has no effect"),
        ("a", "embedded: {persistence: {size: ''}}", "the value embedded.persistence.size is empty"),
        ("a", "{mode: external, external: {install: [webhooks]}}", "the value external.install has \"webhooks\""),
        (
            "a",
            "{mode: external, external: {explain: {enabled: true}, kubeconfigSecret: {name: p}}}",
            "the value external.explain.enabled can't be true with external.kubeconfigSecret",
        ),
        (
            "a",
            "{mode: external, external: {webhooks: {enabled: false, url: 'https://a'}}}",
            "the value external.webhooks.url has no effect",
        ),
        (
            "a",
            "{mode: external, external: {dashboard: {write: true}}}",
            "the value external.dashboard.write has no effect",
        ),
        ("a", "{mode: external, external: {proxy: {url: fleet}}}", "the value external.proxy.url is no https:// URL"),
        ("a", "mode: agent", "the value agent.clusterName is empty"),
        (
            "a",
            "{mode: agent, agent: {clusterName: m1}, featureGates: {Failover: true}}",
            "the value featureGates has no effect in mode agent",
        ),
    ] {
        let error = objects(&release(name, text)).unwrap_err();
        assert!(error.starts_with(want), "{text}: {error}");
        assert!(error.contains("\n  try: "), "{text}: {error}");
    }
}

#[test]
fn files_are_in_the_order_of_the_stream() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("manifests");
    let objects = made("a", "mode: external");
    write(&at, &objects).unwrap();
    let mut files: Vec<_> = fs::read_dir(&at).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let read: Vec<Value> =
        files.iter().map(|file| serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap()).collect();
    assert_eq!(read, objects);
    let again = write(&at, &objects).unwrap_err().to_string();
    assert!(again.contains("is not empty, and nothing was written"), "{again}");
}

#[test]
fn definitions_stand_behind_the_namespace() {
    let external = release("a", "mode: external");
    let mut objects = objects(&external).unwrap();
    add_definitions(&external, &mut objects).unwrap();
    let kinds: Vec<&str> = objects.iter().map(|object| print::text(object, "/kind")).collect();
    let definitions = kinds.iter().filter(|kind| **kind == "CustomResourceDefinition").count();
    assert_eq!(
        (kinds[0], kinds[1], kinds[definitions + 1]),
        ("Namespace", "CustomResourceDefinition", "ServiceAccount")
    );
    assert_eq!(definitions, ironclad_api::crds::crds().len());
    let refused = add_definitions(&release("a", "mode: embedded"), &mut objects).unwrap_err().to_string();
    assert!(refused.starts_with("--include-crds has no effect but in mode external"), "{refused}");
}
