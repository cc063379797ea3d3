//! A mistake per rule, and how it is named. The messages whole, and their order, are compared with a real server's
//! (`testkit`, `differential/kinds/refused_pods.http`).

use serde_json::{Value, json};

use super::*;

/// `field: message` of what is wrong with a new pod of this spec, which has a container unless it says otherwise.
fn messages(patch: Value) -> Vec<String> {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 30});
    ironclad_patch::merge_patch(&mut spec, &patch);
    let mut out = Vec::new();
    pod(&json!({"spec": spec}), None, &mut out);
    out.into_iter().map(|c| format!("{}: {}", c.field.trim_start_matches("spec."), c.message)).collect()
}

/// The same with what is said of the one container.
fn of_container(patch: Value) -> Vec<String> {
    let mut container = json!({"name": "c", "image": "i"});
    ironclad_patch::merge_patch(&mut container, &patch);
    let messages = messages(json!({"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]}));
    messages.into_iter().map(|text| text.trim_start_matches("containers[0].").to_owned()).collect()
}

#[test]
fn containers() {
    let http = |get: Value| json!({"livenessProbe": {"httpGet": get}});
    let variable = |source: Value| json!({"env": [{"name": "A", "valueFrom": source}]});
    let mount = |mount: Value| json!({"volumeMounts": [mount]});
    for (patch, want) in [
        (json!({}), ""),
        (json!({"name": ""}), "name: Required value"),
        (json!({"image": " i"}), "image: Invalid value: \" i\": must not have leading or trailing whitespace"),
        (http(json!({"path": "/", "port": "web", "scheme": "HTTP"})), ""),
        (
            http(json!({"path": "/", "port": 0, "scheme": "HTTP"})),
            "livenessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
        ),
        (json!({"livenessProbe": {}}), "livenessProbe: Required value: must specify a handler type"),
        (
            json!({"livenessProbe": {"tcpSocket": {"port": 1}, "grpc": {"port": 1}}}),
            "livenessProbe.grpc: Forbidden: may not specify more than 1 handler type",
        ),
        (
            json!({"startupProbe": {"tcpSocket": {"port": 1}, "successThreshold": 2}}),
            "startupProbe.successThreshold: Invalid value: 2: must be 1",
        ),
        (
            json!({"readinessProbe": {"tcpSocket": {"port": 1}, "successThreshold": 2, "terminationGracePeriodSeconds": 1}}),
            "readinessProbe.terminationGracePeriodSeconds: Invalid value: 1: must not be set for readinessProbes",
        ),
        (json!({"lifecycle": {"preStop": {"sleep": {"seconds": 30}}}}), ""),
        (
            json!({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}),
            "lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)",
        ),
        (json!({"lifecycle": {"postStart": {"exec": {}}}}), "lifecycle.postStart.exec.command: Required value"),
        (
            json!({"ports": [{"containerPort": 1, "protocol": "tcp"}]}),
            "ports[0].protocol: Unsupported value: \"tcp\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
        ),
        (
            json!({"ports": [{"containerPort": 1, "protocol": "TCP", "name": "a"}, {"containerPort": 2, "protocol": "TCP", "name": "a"}]}),
            "ports[1].name: Duplicate value: \"a\"",
        ),
        (
            json!({"ports": [{"containerPort": 1, "protocol": "TCP", "hostPort": 9}, {"containerPort": 2, "protocol": "TCP", "hostPort": 9}]}),
            "ports[1].hostPort: Duplicate value: \"TCP//9\"",
        ),
        (
            json!({"env": [{"name": "a=b"}]}),
            "env[0].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='",
        ),
        (variable(json!({"fieldRef": {"fieldPath": "metadata.labels['a.b/c']"}})), ""),
        (
            variable(json!({"fieldRef": {"fieldPath": "status.phase"}})),
            "env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \"status.phase\": supported values: \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \"spec.serviceAccountName\", \"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \"status.podIPs\"",
        ),
        (
            variable(json!({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}})),
            "env[0].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource",
        ),
        (
            variable(json!({"configMapKeyRef": {"name": "a", "key": ""}})),
            "env[0].valueFrom.configMapKeyRef.key: Required value",
        ),
        (json!({"envFrom": [{}]}), "envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`"),
        (mount(json!({"name": "v", "mountPath": "/a", "subPath": "b"})), ""),
        (
            mount(json!({"name": "v", "mountPath": "/a", "subPath": "../b"})),
            "volumeMounts.subPath: Invalid value: \"../b\": must not contain '..'",
        ),
        (
            mount(json!({"name": "v", "mountPath": "/a", "mountPropagation": "Bidirectional"})),
            "volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
        ),
        (
            json!({"volumeDevices": [{"name": "v", "devicePath": "/a"}]}),
            "volumeDevices[0].name: Invalid value: \"v\": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
        ),
        (
            json!({"resources": {"requests": {"example.com/a": "1"}}}),
            "resources.limits: Required value: Limit must be set for non overcommitable resources",
        ),
        (
            json!({"resources": {"requests": {"cpu": "1100m"}, "limits": {"cpu": "1"}}}),
            "resources.requests: Invalid value: \"1100m\": must be less than or equal to cpu limit of 1",
        ),
        (json!({"resources": {"requests": {"cpu": "1000m"}, "limits": {"cpu": "1"}}}), ""),
        (
            json!({"resources": {"requests": {"hugepages-2Mi": "2Mi"}, "limits": {"hugepages-2Mi": "2Mi"}}}),
            "resources: Forbidden: HugePages require cpu or memory",
        ),
        (
            json!({"resources": {"claims": [{"name": "a"}]}}),
            "resources.claims[0]: Not found: \"a\": must be one of the names in pod.spec.resourceClaims which is empty",
        ),
        (
            json!({"securityContext": {"runAsUser": -1}}),
            "securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
        ),
        (
            json!({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "Often"}]}),
            "resizePolicy: Unsupported value: \"Often\": supported values: \"NotRequired\", \"RestartContainer\"",
        ),
    ] {
        let want: Vec<&str> = Some(want).filter(|w| !w.is_empty()).into_iter().collect();
        let mut patch = patch;
        for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
            if patch[probe].is_null() {
                patch.as_object_mut().unwrap().remove(probe);
            }
        }
        assert_eq!(of_container(patch.clone()), want, "{patch}");
    }
}

#[test]
fn pods() {
    let volume = |source: Value| {
        let mut volume = json!({"name": "v"});
        ironclad_patch::merge_patch(&mut volume, &source);
        json!({"volumes": [volume]})
    };
    let toleration = |t: Value| json!({"tolerations": [t]});
    let spread = |c: Value| json!({"topologySpreadConstraints": [c]});
    for (patch, want) in [
        (json!({}), vec![]),
        (json!({"containers": []}), vec!["containers: Required value"]),
        (json!({"terminationGracePeriodSeconds": -1}), vec![]),
        (
            json!({"activeDeadlineSeconds": 0}),
            vec!["activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
        ),
        (json!({"activeDeadlineSeconds": 1}), vec![]),
        (
            json!({"initContainers": [{"name": "c", "image": "i", "livenessProbe": {"exec": {"command": ["a"]}}}]}),
            vec![
                "initContainers[0].name: Duplicate value: \"c\"",
                "initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
            ],
        ),
        (
            json!({"initContainers": [{"name": "d", "image": "i", "restartPolicy": "Always", "livenessProbe": {"exec": {"command": ["a"]}}}]}),
            vec![],
        ),
        (
            json!({"dnsPolicy": "None"}),
            vec!["dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
        ),
        (
            json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["::1"], "searches": [".", "_a.b_c.", "x"]}}),
            vec![],
        ),
        (
            json!({"dnsConfig": {"nameservers": ["1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"]}}),
            vec![
                "dnsConfig.nameservers: Invalid value: [\"1.1.1.1\",\"1.1.1.2\",\"1.1.1.3\",\"1.1.1.4\"]: must not have more than 3 nameservers",
            ],
        ),
        (
            json!({"hostNetwork": true, "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 1, "hostPort": 2, "protocol": "TCP"}]}]}),
            vec![
                "containers[0].ports[0].hostPort: Invalid value: 2: must match `containerPort` when `hostNetwork` is true",
            ],
        ),
        (toleration(json!({"operator": "Exists"})), vec![]),
        (
            toleration(json!({"key": "a", "operator": "Exists", "value": "b"})),
            vec!["tolerations[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'"],
        ),
        (
            toleration(json!({"key": "a", "tolerationSeconds": 1})),
            vec![
                "tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
            ],
        ),
        (
            spread(json!({"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 1})),
            vec![],
        ),
        (
            spread(json!({"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 1})),
            vec![
                "topologySpreadConstraints[0].minDomains: Invalid value: 1: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
            ],
        ),
        (
            json!({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 101, "podAffinityTerm": {"topologyKey": "a"}}]}}}),
            vec![
                "affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: must be in the range 1-100",
            ],
        ),
        (volume(json!({"secret": {}})), vec!["volumes[0].secret.secretName: Required value"]),
        (
            volume(json!({"emptyDir": {}, "secret": {"secretName": "a"}})),
            vec!["volumes[0].secret: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            volume(json!({"configMap": {"name": "a", "items": [{"key": "a", "path": "..b"}]}})),
            vec!["volumes[0].configMap.items[0].path: Invalid value: \"..b\": must not start with '..'"],
        ),
        (volume(json!({"configMap": {"name": "a", "defaultMode": 511}})), vec![]),
        (
            volume(json!({"configMap": {"name": "a", "defaultMode": 512}})),
            vec![
                "volumes[0].configMap.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
            ],
        ),
        (
            volume(
                json!({"projected": {"sources": [{"serviceAccountToken": {"path": "a", "expirationSeconds": 599}}]}}),
            ),
            vec![
                "volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
            ],
        ),
        (
            json!({"schedulingGates": [{"name": "a.io/b"}], "nodeName": "n"}),
            vec!["nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
        ),
        (
            json!({"ephemeralContainers": [{"name": "d", "image": "i"}]}),
            vec!["ephemeralContainers: Forbidden: cannot be set on create"],
        ),
        (
            json!({"securityContext": {"seccompProfile": {"type": "Localhost"}}}),
            vec![
                "securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
            ],
        ),
        (
            json!({"os": {"name": "windows"}, "hostPID": true}),
            vec!["hostPID: Forbidden: cannot be set for a windows pod"],
        ),
    ] {
        assert_eq!(messages(patch.clone()), want, "{patch}");
    }
}

#[test]
fn unchanged_spec_is_not_validated_again() {
    let bad = json!({"spec": {"containers": []}});
    let mut out = Vec::new();
    pod(&bad, Some(&bad), &mut out);
    assert!(out.is_empty(), "{out:?}");
}
