//! A script that ended the process is skipped by the next one (docs/decisions/0031).

use std::{env, process::Command};

use super::*;
use crate::{RunningScripts, SKIP_SECONDS, Shipped};

/// Set in the process that dies.
const DIRECTORY: &str = "IRONCLAD_TEST_DEATH";

fn host(directory: &std::path::Path, now: i64) -> Host {
    let running = Some(Arc::new(RunningScripts::open(directory, now).unwrap()));
    Host { wall_seconds: Arc::new(move || now), running, ..Host::at(0) }
}

fn farms(host: &Host, script: &str) -> Customization {
    let target = CustomizationTarget { api_version: "farm.io/v1".into(), kind: "Farm".into() };
    let mut rules = rule(Operation::InterpretHealth, script);
    rules.replica_resource = self::script("function GetReplicas(o) return 3 end");
    Customization::compile("farms", &Spec { target, customizations: rules }, host)
}

/// Stands for an engine that crashes: the host's clock, which is read while a script runs, ends the process.
fn die(directory: &std::path::Path, script: &str) {
    let running = host(directory, 1_000).running;
    // The clock is read while a script is marked, and before: only a mark ends the process.
    let marks = directory.join("running-scripts");
    let elapsed = Arc::new(move || match std::fs::read(&marks) {
        Ok(bytes) if bytes.first().is_some_and(|byte| *byte != 0) => std::process::abort(),
        _ => Duration::ZERO,
    });
    let farms = farms(&Host { elapsed, running, ..Host::at(1_000) }, script);
    let _ = farms.answer(&Question::Health { object: &farm() });
}

#[test]
fn script_that_ended_the_process_is_skipped() {
    const SCRIPT: &str = "function InterpretHealth(o) return true end";
    if let Some(directory) = env::var_os(DIRECTORY) {
        die(directory.as_ref(), SCRIPT);
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let name = "tests::deaths::script_that_ended_the_process_is_skipped";
    let mut child = Command::new(env::current_exe().unwrap());
    let status = child.args(["--exact", name]).env(DIRECTORY, directory.path()).output().unwrap().status;
    assert!(!status.success(), "it survived");

    let object = farm();
    let health = Question::Health { object: &object };
    let begun = host(directory.path(), 2_000);
    let skipped = farms(&begun, SCRIPT);
    let message = "the process ended while it ran, so it is not run before 1970-01-01T00:43:20Z: change or remove it";
    assert_eq!(skipped.skipped().map(|error| error.message).collect::<Vec<_>>(), [message]);
    assert_eq!(
        skipped.answer(&health).unwrap_err().to_string(),
        format!("ResourceInterpreterCustomization farms: script InterpretHealth: {message}")
    );
    let replicas = skipped.answer(&Question::Replicas { template: &object });
    assert!(replicas.is_ok(), "its other scripts run: {replicas:?}");
    assert!(
        farms(&begun, "function InterpretHealth(o) return false end").answer(&health).is_ok(),
        "a changed one runs"
    );
    let error = check_script(&begun, Operation::InterpretHealth, SCRIPT).unwrap_err();
    assert_eq!(error.message, message, "admission does not run it either");
    let deployment = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "c", "namespace": "n"},
        "spec": {"replicas": 1}});
    assert!(Shipped::new(begun.clone()).answer(&Question::Replicas { template: &deployment }).is_ok());
    drop((skipped, begun));
    assert!(
        farms(&host(directory.path(), 2_000 + SKIP_SECONDS), SCRIPT).answer(&health).is_ok(),
        "it runs again later"
    );
}
