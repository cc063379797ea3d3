use std::{fs, path::Path};

use ironclad_cli::{interpret::Command, report};
use ironclad_seam::Clock;

const FARMS: &str = "
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: farms}
spec:
  target: {apiVersion: farm.io/v1, kind: Farm}
  customizations:
    replicaResource:
      luaScript: |
        local kube = require('kube')
        function GetReplicas(o)
          print('size', o.spec.size)
          return o.spec.size, kube.accuratePodRequirements(o.spec.template)
        end
    componentResource: {luaScript: \"function GetComponents(o) return {{name = 'a', replicas = o.spec.size}} end\"}
    replicaRevision: {luaScript: 'function ReviseReplica(o, n) o.spec.size = n return o end'}
    retention: {luaScript: 'function Retain(d, o) d.spec.plot = o.spec.plot return d end'}
    statusReflection: {luaScript: 'function ReflectStatus(o) return {ready = o.status.ready} end'}
    healthInterpretation: {luaScript: 'function InterpretHealth(o) return o.status.ready > 1 end'}
    statusAggregation:
      luaScript: |
        function AggregateStatus(o, items)
          local sum = 0
          for _, item in ipairs(items) do sum = sum + item.status.ready end
          o.status = {ready = sum}
          return o
        end
    dependencyInterpretation: {luaScript: \"function GetDependencies(o) return {{apiVersion = 'v1', kind = 'Secret', namespace = 'n', name = 's'}} end\"}
";
const FARM: &str = "
apiVersion: farm.io/v1
kind: Farm
metadata: {name: f, namespace: n}
spec: {size: 3, plot: north, template: {spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}}
status: {ready: 2}
";

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn asked(operation: &str, change: impl FnOnce(&mut Command, &Path)) -> anyhow::Result<String> {
    let folder = tempfile::tempdir()?;
    let farm = file(folder.path(), "farm.yaml", FARM);
    let mut command = Command {
        files: vec![file(folder.path(), "farms.yaml", FARMS)],
        operation: Some(operation.to_owned()),
        observed_file: Some(farm.clone()),
        desired_file: Some(farm),
        ..Command::default()
    };
    change(&mut command, folder.path());
    ironclad_cli::interpret::answer(&command, &Clock::system())
}

#[tokio::test]
async fn every_operation_prints_its_results() {
    let reports = "[{clusterName: m1, status: {ready: 1}}, {clusterName: m2, status: {ready: 4}}]";
    for (operation, want) in [
        ("InterpretReplica", "---\n# [1/2] replica:\n3\n---\n# [2/2] requires:\nresourceRequest:\n  cpu: \"1\"\n"),
        ("interpretcomponent", "---\n# [1/1] components:\n- name: a\n  replicas: 3\n"),
        ("InterpretStatus", "---\n# [1/1] status:\nready: 2\n"),
        ("InterpretHealth", "---\n# [1/1] healthy:\ntrue\n"),
        (
            "InterpretDependency",
            "---\n# [1/1] dependencies:\n- apiVersion: v1\n  kind: Secret\n  name: s\n  namespace: \"n\"\n",
        ),
    ] {
        assert_eq!(asked(operation, |_, _| {}).unwrap(), want, "{operation}");
    }
    for (operation, only) in [
        ("InterpretReplica", "observed"),
        ("InterpretComponent", "observed"),
        ("ReviseReplica", "observed"),
        ("InterpretDependency", "observed"),
        ("InterpretStatus", "desired"),
        ("InterpretHealth", "desired"),
    ] {
        let of = |only: &str| {
            asked(operation, |command, _| {
                command.desired_replica = Some(9);
                match only {
                    "observed" => command.desired_file = None,
                    "desired" => command.observed_file = None,
                    _ => {}
                }
            })
        };
        assert_eq!(of(only).unwrap(), of("both").unwrap(), "{operation} takes the object from either flag");
    }
    let neither = asked("InterpretReplica", |command, _| (command.desired_file, command.observed_file) = (None, None));
    assert_eq!(report::render(&neither.unwrap_err()), "error: --operation InterpretReplica needs --desired-file");
    let revised = asked("ReviseReplica", |command, _| command.desired_replica = Some(9)).unwrap();
    assert!(revised.starts_with("---\n# [1/1] revised:\n") && revised.contains("size: 9"), "{revised}");
    let retained = asked("Retain", |command, folder| {
        command.desired_file = Some(file(folder, "desired.yaml", &FARM.replace("plot: north", "plot: south")));
    });
    assert!(retained.unwrap().contains("plot: north"));
    let status = asked("AggregateStatus", |command, folder| {
        command.status_file = Some(file(folder, "reports.yaml", reports));
    });
    assert!(status.unwrap().ends_with("status:\n  ready: 5\n"));
    let json = asked("InterpretHealth", |command, _| command.output = Some(ironclad_cli::print::Output::Json)).unwrap();
    assert_eq!(json, "{\n  \"healthy\": true\n}\n");
}

#[tokio::test]
async fn built_in_interpreter_is_used_without_customizations() {
    let deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 4}}";
    let answer = asked("InterpretReplica", |command, folder| {
        command.files.clear();
        command.desired_file = Some(file(folder, "d.yaml", deployment));
    });
    assert_eq!(answer.unwrap(), "---\n# [1/2] replica:\n4\n---\n# [2/2] requires:\nnull\n");
    let foreign = asked("InterpretReplica", |command, _| command.files.clear()).unwrap_err();
    assert_eq!(
        report::render(&foreign),
        "error: no interpreter implements InterpretReplica for farm.io/v1 Farm: add a ResourceInterpreterCustomization"
    );
}

#[tokio::test]
async fn missing_and_invalid_input_is_reported() {
    type Change = fn(&mut Command, &Path);
    let rows: [(&str, Change, u8, &str); 6] = [
        (
            "Health",
            |_, _| {},
            report::MISUSED,
            "error: --operation Health is not known\n  try: one of InterpretReplica, InterpretComponent,",
        ),
        ("ReviseReplica", |_, _| {}, report::MISUSED, "error: --operation ReviseReplica needs --desired-replica"),
        (
            "Retain",
            |command, _| command.observed_file = None,
            report::MISUSED,
            "error: --operation Retain needs --observed-file",
        ),
        (
            "Retain",
            |command, _| command.observed_file = Some("nowhere.yaml".into()),
            report::FAILED,
            "error: nowhere.yaml can't be read\n  because No such file",
        ),
        (
            "Retain",
            |command, folder| command.files = vec![file(folder, "pod.yaml", "{apiVersion: v1, kind: Pod}")],
            report::FAILED,
            "error: ",
        ),
        (
            "InterpretHealth",
            |command, folder| {
                command.observed_file = Some(file(folder, "bare.yaml", "{apiVersion: farm.io/v1, kind: Farm}"))
            },
            report::FAILED,
            "error: ResourceInterpreterCustomization farms: script InterpretHealth, line 1: attempt to index field 'status' (a nil value)",
        ),
    ];
    for (operation, change, code, want) in rows {
        let error = asked(operation, change).unwrap_err();
        let said = report::render(&error);
        assert!(said.starts_with(want), "{said}");
        assert_eq!(report::exit_code(&error), code, "{said}");
    }
}

#[tokio::test]
async fn customizations_are_read_from_directories() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("deeper")).unwrap();
    file(folder.path(), "a.yaml", FARMS);
    file(folder.path(), "notes.txt", "not YAML: [");
    file(&folder.path().join("deeper"), "b.json", "{\"kind\": \"Pod\"}");
    let health = |recursive| {
        let path = folder.path().display().to_string();
        asked("InterpretHealth", |command, _| (command.files, command.recursive) = (vec![path], recursive))
    };
    assert_eq!(health(false).unwrap(), "---\n# [1/1] healthy:\ntrue\n");
    assert!(health(true).unwrap_err().to_string().contains("holds a \"Pod\""));
}
