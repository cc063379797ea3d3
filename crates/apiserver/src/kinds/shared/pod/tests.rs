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
                "volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set",
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

/// The messages are those of a kube-apiserver 1.36 (`differential/kinds/refused_volumes.http`).
#[test]
fn volumes_of_seldom_used_kinds() {
    let of = |source: Value| {
        let mut volume = json!({"name": "v"});
        ironclad_patch::merge_patch(&mut volume, &source);
        let messages = messages(json!({"volumes": [volume], "serviceAccountName": "x"}));
        messages.into_iter().map(|text| text.trim_start_matches("volumes[0].").to_owned()).collect::<Vec<_>>()
    };
    let iscsi = |fields: Value| {
        let base = json!({"targetPortal": "p", "iqn": "iqn.2001-04.com.example:a", "lun": 0});
        let mut source = json!({ "iscsi": base });
        ironclad_patch::merge_patch(&mut source["iscsi"], &fields);
        source
    };
    let file = |path: &str| json!([{"key": "k", "path": path}]);
    let projected = |sources: Value| json!({"projected": {"sources": sources}});
    for (source, want) in [
        (
            json!({"fc": {}}),
            vec!["fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"],
        ),
        (
            json!({"fc": {"targetWWNs": ["a"], "lun": 300}}),
            vec!["fc.lun: Invalid value: 300: must be between 0 and 255, inclusive"],
        ),
        (
            json!({"fc": {"targetWWNs": ["a"], "wwids": ["b"], "lun": 1}}),
            vec!["fc.targetWWNs: Invalid value: [\"a\"]: targetWWNs and wwids can not be specified simultaneously"],
        ),
        (json!({"fc": {"wwids": ["b"], "lun": 300}}), vec![]),
        (json!({"flocker": {}}), vec!["flocker: Required value: one of datasetName and datasetUUID is required"]),
        (
            json!({"flocker": {"datasetName": "a", "datasetUUID": "b"}}),
            vec![
                "flocker: Invalid value: \"resource\": datasetName and datasetUUID can not be specified simultaneously",
            ],
        ),
        (
            json!({"flocker": {"datasetName": "a/b"}}),
            vec!["flocker.datasetName: Invalid value: \"a/b\": must not contain '/'"],
        ),
        (
            json!({"quobyte": {}}),
            vec![
                "quobyte.registry: Required value: must be a host:port pair or multiple pairs separated by commas",
                "quobyte.volume: Required value",
            ],
        ),
        (json!({"quobyte": {"registry": "h:7861,[::1]:1", "volume": "v"}}), vec![]),
        (
            json!({"quobyte": {"registry": "a:b:c", "volume": "v"}}),
            vec![
                "quobyte.registry: Invalid value: \"a:b:c\": must be a host:port pair or multiple pairs separated by commas",
            ],
        ),
        (json!({"cinder": {"volumeID": "a", "secretRef": {}}}), vec!["cinder.secretRef.name: Required value"]),
        (
            json!({"flexVolume": {"driver": "a/b", "options": {"kubernetes.io/fsType": "x", "akubernetes.io/b": "y"}}}),
            vec![
                "flexVolume.options[kubernetes.io/fsType]: Invalid value: \"kubernetes.io/fsType\": kubernetes.io and k8s.io namespaces are reserved",
            ],
        ),
        (
            json!({"azureDisk": {"diskName": "d", "diskURI": "u", "cachingMode": "Some", "kind": "Other"}}),
            vec![
                "azureDisk.cachingMode: Unsupported value: \"Some\": supported values: \"None\", \"ReadOnly\", \"ReadWrite\"",
                "azureDisk.kind: Unsupported value: \"Other\": supported values: \"Dedicated\", \"Managed\", \"Shared\"",
                "azureDisk.diskURI: Unsupported value: \"u\": supported values: \"https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd\"",
            ],
        ),
        (json!({"storageos": {"volumeName": "v", "secretRef": {}}}), vec!["storageos.secretRef.name: Required value"]),
        (
            json!({"scaleIO": {}}),
            vec![
                "scaleIO.gateway: Required value",
                "scaleIO.system: Required value",
                "scaleIO.volumeName: Required value",
            ],
        ),
        (iscsi(json!({})), vec![]),
        (iscsi(json!({"iqn": "eui.0123456789abcdef"})), vec![]),
        (
            iscsi(json!({"iqn": "naa.0123456789abcdef"})),
            vec!["iscsi.iqn: Invalid value: \"naa.0123456789abcdef\": must be valid format"],
        ),
        (iscsi(json!({"iqn": "iqn.bad"})), vec!["iscsi.iqn: Invalid value: \"iqn.bad\": must be valid format"]),
        (
            iscsi(json!({"iqn": "bad"})),
            vec!["iscsi.iqn: Invalid value: \"bad\": must be valid format starting with iqn, eui, or naa"],
        ),
        (
            iscsi(json!({"initiatorName": "eui.1"})),
            vec!["iscsi.initiatorname: Invalid value: \"eui.1\": must be valid format"],
        ),
        (iscsi(json!({"chapAuthSession": true})), vec!["iscsi.secretRef: Required value"]),
        (json!({"csi": {"driver": "a".repeat(64)}}), vec!["csi.driver: Too long: may not be more than 63 bytes"]),
        (
            projected(
                json!([{"secret": {"name": "a", "items": file("p")}}, {"configMap": {"name": "b", "items": file("p")}}]),
            ),
            vec!["projected: Invalid value: \"b\": conflicting duplicate paths"],
        ),
        (
            projected(
                json!([{"configMap": {"name": "b", "items": file("p")}}, {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}]}}]),
            ),
            vec!["projected: Invalid value: \"p\": conflicting duplicate paths"],
        ),
        (
            projected(json!([{"serviceAccountToken": {"path": "p"}}, {"secret": {"name": "a", "items": file("p")}}])),
            vec![],
        ),
        (
            json!({"secret": {"secretName": "s", "items": [{"key": "k", "path": "p"}, {"key": "l", "path": "p"}]}}),
            vec![],
        ),
    ] {
        assert_eq!(of(source.clone()), want, "{source}");
    }
    let token = json!({"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "p"}}]}}]});
    assert_eq!(
        messages(token),
        [
            "volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set"
        ]
    );
}

#[test]
fn windows_pods_run_as_processes_of_the_host_as_a_whole() {
    let host = |is_host: bool| json!({"windowsOptions": {"hostProcess": is_host}});
    let container = |name: &str, context: Value| json!({"name": name, "image": "i", "securityContext": context});
    let network =
        "hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers";
    let all = "spec: Invalid value: \"\": If pod contains any hostProcess containers then all containers must be HostProcess containers";
    for (spec, want) in [
        (json!({"securityContext": host(false)}), vec![]),
        (json!({"securityContext": host(true)}), vec![network]),
        (json!({"securityContext": host(true), "hostNetwork": true}), vec![]),
        (
            json!({"containers": [container("a", host(true)), container("b", json!({}))], "hostNetwork": true}),
            vec![all],
        ),
        (
            json!({"containers": [container("a", host(false))], "securityContext": host(true), "hostNetwork": true}),
            vec![
                "containers[0].securityContext.windowsOptions.hostProcess: Invalid value: false: pod hostProcess value must be identical if both are specified, was true",
            ],
        ),
        (
            json!({"securityContext": {"windowsOptions": {"gmsaCredentialSpec": ""}}}),
            vec![
                "securityContext.windowsOptions.gmsaCredentialSpec: Invalid value: \"\": gmsaCredentialSpec cannot be an empty string",
            ],
        ),
    ] {
        assert_eq!(messages(spec.clone()), want, "{spec}");
    }
}

#[test]
fn annotations_with_a_meaning_are_validated() {
    const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
    let pod = |annotations: &Value, fields: Value| {
        let mut spec = json!({"containers": [{"name": "a", "image": "i"}]});
        ironclad_patch::merge_patch(&mut spec, &fields);
        json!({"metadata": {"name": "p", "annotations": annotations}, "spec": spec})
    };
    let causes = |new: &Value, old: Option<&Value>| {
        let mut out = Vec::new();
        super::pod(new, old, &mut out);
        out.into_iter().map(|c| format!("{}: {}", c.field, c.message)).collect::<Vec<_>>()
    };
    let at = |key: &str, message: &str| vec![format!("metadata.annotations[{key}]: {message}")];
    for (annotations, fields, want) in [
        (json!({(format!("{APP_ARMOR}a")): "localhost/"}), json!({}), vec![]),
        (json!({(format!("{APP_ARMOR}a")): "other"}), json!({}), at(&format!("{APP_ARMOR}a"), "Invalid value: \"other\": invalid AppArmor profile name: \"other\"")),
        (json!({(format!("{APP_ARMOR}b")): "unconfined"}), json!({}), at(&format!("{APP_ARMOR}b"), "Invalid value: \"b\": container not found")),
        (json!({"kubernetes.io/config.mirror": "x"}), json!({}), at("kubernetes.io/config.mirror", "Invalid value: \"x\": must set spec.nodeName if mirror pod annotation is set")),
        (json!({"kubernetes.io/config.mirror": "x"}), json!({"nodeName": "n"}), vec![]),
        (json!({"controller.kubernetes.io/pod-deletion-cost": "-10"}), json!({}), vec![]),
        (json!({"controller.kubernetes.io/pod-deletion-cost": "01"}), json!({}), at("controller.kubernetes.io/pod-deletion-cost", "Invalid value: \"01\": must be a 32bit integer")),
        (
            json!({"seccomp.security.alpha.kubernetes.io/pod": "bad"}),
            json!({}),
            vec!["metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: \"bad\": must be a valid seccomp profile".to_owned()],
        ),
        (
            json!({(format!("{APP_ARMOR}a")): "runtime/default"}),
            json!({"containers": [{"name": "a", "image": "i", "securityContext": {"appArmorProfile": {"type": "Unconfined"}}}]}),
            vec!["spec.containers[0].securityContext.appArmorProfile.type: Forbidden: apparmor type in annotation and field must match".to_owned()],
        ),
    ] {
        assert_eq!(causes(&pod(&annotations, fields), None), want, "{annotations}");
    }
    let of = |annotations: Value| pod(&annotations, json!({"nodeName": "n"}));
    let old = of(json!({(format!("{APP_ARMOR}a")): "unconfined", "kubernetes.io/config.mirror": "x"}));
    for (new, want) in [
        (old.clone(), vec![]),
        (
            of(json!({(format!("{APP_ARMOR}a")): "unconfined"})),
            at("kubernetes.io/config.mirror", "Forbidden: may not remove or update mirror pod annotation"),
        ),
        (
            of(json!({(format!("{APP_ARMOR}a")): "runtime/default", "kubernetes.io/config.mirror": "x"})),
            at(&format!("{APP_ARMOR}a"), "Forbidden: may not remove or update AppArmor annotations"),
        ),
    ] {
        assert_eq!(causes(&new, Some(&old)), want, "{new}");
    }
    for (annotation, fields, want) in [
        ("runtime/default", json!({}), json!({"type": "RuntimeDefault"})),
        ("localhost/x", json!({}), json!({"type": "Localhost", "localhostProfile": "x"})),
        ("localhost/", json!({}), Value::Null),
        ("runtime/default", json!({"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}), Value::Null),
        (
            "runtime/default",
            json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}),
            json!({"type": "RuntimeDefault"}),
        ),
        ("runtime/default", json!({"os": {"name": "windows"}}), Value::Null),
    ] {
        let mut made = pod(&json!({(format!("{APP_ARMOR}a")): annotation}), fields.clone());
        annotations::set_app_armor_profiles(&mut made);
        let profile = made.pointer("/spec/containers/0/securityContext/appArmorProfile").cloned().unwrap_or_default();
        assert_eq!(profile, want, "{annotation} {fields}");
    }
}
