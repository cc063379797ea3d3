use std::{sync::Arc, time::Duration};

use ironclad_api::config::{
    CustomizationRules, CustomizationTarget, LuaScript, ResourceInterpreterCustomizationSpec as Spec,
};
use ironclad_interpreter::{
    Health, InterpretError, Interpreter, Item, Operation, Question, Reply, ScriptError, Source,
};
use serde_json::{Value, json};

use crate::{Conflict, Customization, Declarative, Host, SCRIPT_BYTES_MAX, STEPS_MAX, check_script};

mod deaths;
mod extremes;
mod sandbox;
mod shipped;

fn script(text: &str) -> Option<LuaScript> {
    Some(LuaScript { lua_script: text.to_owned() })
}

fn rule(operation: Operation, text: &str) -> CustomizationRules {
    let mut rules = CustomizationRules::default();
    let field = match operation {
        Operation::InterpretReplica => &mut rules.replica_resource,
        Operation::InterpretComponent => &mut rules.component_resource,
        Operation::ReviseReplica => &mut rules.replica_revision,
        Operation::Retain => &mut rules.retention,
        Operation::InterpretStatus => &mut rules.status_reflection,
        Operation::InterpretHealth => &mut rules.health_interpretation,
        Operation::AggregateStatus => &mut rules.status_aggregation,
        Operation::InterpretDependency => &mut rules.dependency_interpretation,
    };
    *field = script(text);
    rules
}

fn customization(name: &str, rules: CustomizationRules) -> Customization {
    let target = CustomizationTarget { api_version: "farm.io/v1".into(), kind: "Farm".into() };
    Customization::compile(name, &Spec { target, customizations: rules }, &Host::at(1_767_225_845))
}

fn farm() -> Value {
    json!({
        "apiVersion": "farm.io/v1", "kind": "Farm", "metadata": {"name": "f", "namespace": "n"},
        "spec": {"size": 3, "scratch": {}, "fields": [], "template": {"spec": {
            "serviceAccountName": "farmer",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}, "envFrom": [{"secretRef": {"name": "s"}}]}],
        }}},
        "status": {"ready": 2},
    })
}

/// Evaluates an expression and returns its value as the message of `InterpretHealth`, which the script throws.
fn eval(body: &str) -> String {
    let text = format!("function InterpretHealth(o)\n{body}\nend");
    match customization("a", rule(Operation::InterpretHealth, &text)).answer(&Question::Health { object: &farm() }) {
        Ok(reply) => format!("{reply:?}"),
        Err(InterpretError::Script { error, .. }) => error.to_string(),
        Err(other) => other.to_string(),
    }
}

/// Evaluates an expression and returns its value as a field of a reflected status.
fn value(expression: &str) -> Value {
    let text = format!("function ReflectStatus(o) return {{ value = {expression} }} end");
    let customization = customization("a", rule(Operation::InterpretStatus, &text));
    match customization.answer(&Question::Status { object: &farm() }) {
        Ok(Reply::Status(Some(mut status))) => status["value"].take(),
        other => json!(format!("{other:?}")),
    }
}

#[test]
fn each_operation_answers() {
    let (farm, mut member) = (farm(), farm());
    member["spec"]["size"] = json!(7);
    let status = json!({"ready": 2});
    let items = [Item::of("m1", Some(&status)), Item::of("m2", Some(&status)), Item::of("m3", None)];
    let revised = |size: i64| {
        let mut farm = self::farm();
        farm["spec"]["size"] = json!(size);
        farm
    };
    let rows: Vec<(&str, &str, Question<'_>, Result<Value, &str>)> = vec![
        (
            "replicas and needs",
            "local kube = require('kube')\nfunction GetReplicas(o) return o.spec.size, kube.accuratePodRequirements(o.spec.template) end",
            Question::Replicas { template: &farm },
            Ok(json!([3, {"resourceRequest": {"cpu": "100m"}}])),
        ),
        (
            "a quantity may be a number",
            "function GetReplicas(o) return 1, {resourceRequest = {cpu = 1.5, memory = '1Gi'}} end",
            Question::Replicas { template: &farm },
            Ok(json!([1, {"resourceRequest": {"cpu": "1.5", "memory": "1Gi"}}])),
        ),
        (
            "replicas alone",
            "function GetReplicas(o) return 2 end",
            Question::Replicas { template: &farm },
            Ok(json!([2, null])),
        ),
        (
            "replicas are a number",
            "function GetReplicas(o) return o.nothing end",
            Question::Replicas { template: &farm },
            Err("GetReplicas must return a number of replicas, it returned nil"),
        ),
        (
            "a whole one",
            "function GetReplicas(o) return 1.5 end",
            Question::Replicas { template: &farm },
            Err("GetReplicas must return a whole number of replicas between 0 and 2147483647"),
        ),
        (
            "needs are shaped",
            "function GetReplicas(o) return 1, {nodeClaim = 'x'} end",
            Question::Replicas { template: &farm },
            Err("its replica requirements: invalid type: string \"x\", expected struct NodeClaim"),
        ),
        (
            "components",
            "function GetComponents(o) return {{name = 'a', replicas = 1, replicaRequirements = {resourceRequest = {cpu = '1'}}}, {name = 'b', replicas = 2}} end",
            Question::Components { template: &farm },
            Ok(
                json!([{"name": "a", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}}, {"name": "b", "replicas": 2}]),
            ),
        ),
        (
            "no components",
            "function GetComponents(o) return nil end",
            Question::Components { template: &farm },
            Ok(json!([])),
        ),
        (
            "components by one name",
            "function GetComponents(o) return {{name = 'a', replicas = 1}, {name = 'a', replicas = 2}} end",
            Question::Components { template: &farm },
            Err("there are two components a"),
        ),
        (
            "revised, and what was empty stays so",
            "function ReviseReplica(o, n) o.spec.size = n return o end",
            Question::Revise { manifest: &farm, replicas: 5 },
            Ok(revised(5)),
        ),
        (
            "retained",
            "function Retain(desired, observed) desired.spec.size = observed.spec.size return desired end",
            Question::Retain { desired: &farm, observed: &member },
            Ok(revised(7)),
        ),
        (
            "not another object",
            "function Retain(desired, observed) desired.metadata.name = 'g' return desired end",
            Question::Retain { desired: &farm, observed: &member },
            Err("the answer changed /metadata/name of the object, which no interpreter may"),
        ),
        (
            "a status",
            "function ReflectStatus(o) return {ready = o.status.ready} end",
            Question::Status { object: &farm },
            Ok(json!({"ready": 2})),
        ),
        (
            "an empty status",
            "function ReflectStatus(o) return {} end",
            Question::Status { object: &farm },
            Ok(json!({})),
        ),
        (
            "a status is a table",
            "function ReflectStatus(o) return nil end",
            Question::Status { object: &farm },
            Err("ReflectStatus must return a table, it returned nil"),
        ),
        (
            "a verdict",
            "function InterpretHealth(o) return o.status.ready == 2 end",
            Question::Health { object: &farm },
            Ok(json!(true)),
        ),
        (
            "a verdict is one of two",
            "function InterpretHealth(o) return 1 end",
            Question::Health { object: &farm },
            Err("InterpretHealth must return true or false, it returned integer"),
        ),
        (
            "the members' status adds up; one has none",
            "function AggregateStatus(o, items)\n  local sum = 0\n  for _, item in ipairs(items) do if item.status ~= nil then sum = sum + item.status.ready end end\n  o.status.ready = sum\n  return o\nend",
            Question::Aggregate { template: &farm, items: &items },
            Ok(json!({"ready": 4})),
        ),
        (
            "dependencies",
            "local kube = require('kube')\nfunction GetDependencies(o) return kube.getPodDependencies(o.spec.template, o.metadata.namespace) end",
            Question::Dependencies { template: &farm },
            Ok(json!(["v1 Secret n/s", "v1 ServiceAccount n/farmer"])),
        ),
        (
            "no dependencies",
            "function GetDependencies(o) return {} end",
            Question::Dependencies { template: &farm },
            Ok(json!([])),
        ),
        (
            "dependencies are checked",
            "function GetDependencies(o) return {{apiVersion = 'v1', kind = 'Secret'}} end",
            Question::Dependencies { template: &farm },
            Err("dependency 1 has no name and no labelSelector"),
        ),
        (
            "and a list",
            "function GetDependencies(o) return {kind = 'Secret'} end",
            Question::Dependencies { template: &farm },
            Err("GetDependencies must return a list, it returned a table with names as keys"),
        ),
    ];
    for (name, text, question, want) in rows {
        let answer = customization("a", rule(question.operation(), text)).answer(&question).map(|reply| match reply {
            Reply::Replicas(replicas) => json!([replicas.replicas, replicas.requirements]),
            Reply::Components(components) => json!(components),
            Reply::Object(mut object) if question.operation() == Operation::AggregateStatus => object["status"].take(),
            Reply::Object(object) => object,
            Reply::Status(status) => json!(status),
            Reply::Health(health) => json!(health == Health::Healthy),
            Reply::Dependencies(list) => {
                list.iter().map(|d| format!("{} {} {}/{}", d.api_version, d.kind, d.namespace, d.name)).collect()
            }
        });
        let want = want.map_err(|message| {
            format!("ResourceInterpreterCustomization a: script {}: {message}", question.operation())
        });
        assert_eq!(answer.map_err(|error| error.to_string()), want, "{name}");
    }
}

#[test]
fn errors_name_the_customization_the_operation_and_the_line() {
    let object = farm();
    let error = |text: &str| {
        let customization = customization("farms", rule(Operation::InterpretHealth, text));
        customization.answer(&Question::Health { object: &object }).unwrap_err().to_string()
    };
    for (text, want) in [
        ("function InterpretHealth(o)\n\n  return o.a.b == 1\nend", "line 3: attempt to index field 'a' (a nil value)"),
        ("function InterpretHealth(o)\n  error('no rain')\nend", "line 2: no rain"),
        ("function InterpretHealth(o)\n  error('no rain', 0)\nend", "line 2: no rain"),
        (
            "local kube = require('kube')\nfunction InterpretHealth(o)\n  return kube.resourceAdd('x') == 1\nend",
            "line 3: resourceAdd: argument 1: \"x\" is not a quantity: a number with an optional suffix such as m, k, M, Gi or e3 is needed",
        ),
        (
            "function InterpretHealth(o)\n  return string.gsub('a', 'b', 'c')\nend",
            "call function string.gsub is not supported in karmada customized resourceinterpreter.",
        ),
        (
            "function InterpretHealth(o)\n  local a = string.find('a', '[')\n  return a\nend",
            "line 2: malformed pattern (missing ']')",
        ),
        (
            "function InterpretHealth(o)\n  return o.status.ready < nil\nend",
            "line 2: attempt to compare number with nil",
        ),
        (
            "function InterpretHealth(o)\n  return\n",
            "line 3: 'end' expected (to close 'function' at line 1) near '<eof>'",
        ),
        ("local function f() return f() + 1 end\nfunction InterpretHealth(o)\n  return f()\nend", "stack overflow"),
        ("nothing = 1", "it does not define the function InterpretHealth"),
        ("InterpretHealth = true", "its InterpretHealth is a boolean, not a function"),
    ] {
        let got = error(text);
        assert!(got.starts_with("ResourceInterpreterCustomization farms: script InterpretHealth"), "{text}: {got}");
        assert!(got.contains(want), "{text}: {got}");
    }
}

#[test]
fn first_by_name_answers_and_dependencies_are_merged() {
    let secret = |name: &str| {
        format!("function GetDependencies(o) return {{{{apiVersion = 'v1', kind = 'Secret', name = '{name}'}}}} end")
    };
    let of = |name: &str, replicas: Option<&str>, dependency: &str| {
        let rules = CustomizationRules {
            replica_resource: replicas.and_then(script),
            dependency_interpretation: script(&secret(dependency)),
            ..CustomizationRules::default()
        };
        (name.to_owned(), Arc::new(customization(name, rules)))
    };
    let declarative = Declarative::new([
        of("c", Some("function GetReplicas(o) return 3 end"), "x"),
        of("b", Some("function GetReplicas(o) return 2 end"), "y"),
        of("a", None, "x"),
    ]);
    assert_eq!(
        declarative.conflicts(),
        [Conflict { loser: "c".into(), winner: "b".into(), operation: Operation::InterpretReplica }]
    );
    assert!(!declarative.implements("farm.io/v1", "Farm", Operation::Retain));
    assert!(!declarative.implements("farm.io/v2", "Farm", Operation::InterpretReplica));
    let interpreter = Interpreter::new(vec![Arc::new(declarative)]);
    let template = farm();
    assert_eq!(interpreter.replicas(&template).unwrap().replicas, 2);
    let names: Vec<String> = interpreter.dependencies(&template).unwrap().into_iter().map(|d| d.name).collect();
    assert_eq!(names, ["x", "y"]);
}

#[test]
fn broken_script_is_not_skipped() {
    let target = CustomizationTarget { api_version: "apps/v1".into(), kind: "Deployment".into() };
    let spec = Spec { target, customizations: rule(Operation::InterpretHealth, "function InterpretHealth(") };
    let broken = Customization::compile("broken", &spec, &Host::at(0));
    assert_eq!(broken.errors().count(), 1);
    let interpreter = Interpreter::new(vec![Arc::new(Declarative::new([("broken".into(), Arc::new(broken))]))]);
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1}});
    assert_eq!(
        interpreter.health(&deployment).unwrap_err().to_string(),
        "ResourceInterpreterCustomization broken: script InterpretHealth, line 1: <name> or '...' expected near '<eof>'"
    );
    assert_eq!(interpreter.replicas(&deployment).unwrap().replicas, 1, "other operations are as ever");
}

#[test]
fn scripts_are_checked_before_they_are_used() {
    for (name, operation, text, want) in [
        ("good", Operation::Retain, "function Retain(a, b) return a end", None),
        ("a local first", Operation::InterpretHealth, "local x = {}\nfunction InterpretHealth(o) return x end", None),
        ("any number of parameters", Operation::Retain, "function Retain(...) return ... end", None),
        ("no Lua", Operation::Retain, "func Retain(a, b)", Some("script Retain, line 1: '=' expected near 'Retain'")),
        (
            "another name",
            Operation::Retain,
            "function Keep(a, b) return a end",
            Some("script Retain: it does not define the function Retain"),
        ),
        (
            "too few",
            Operation::Retain,
            "function Retain(a) return a end",
            Some("script Retain: its function Retain has 1 parameter, it is called with 2 arguments"),
        ),
        (
            "too many",
            Operation::InterpretHealth,
            "function InterpretHealth(a, b) return a end",
            Some("script InterpretHealth: its function InterpretHealth has 2 parameters, it is called with 1 argument"),
        ),
        (
            "of the library",
            Operation::InterpretHealth,
            "InterpretHealth = string.len",
            Some("script InterpretHealth: its InterpretHealth is a function of the library, not of the script"),
        ),
        (
            "no end at load",
            Operation::InterpretHealth,
            "while true do end",
            Some("script InterpretHealth, line 1: it takes more than 1000000 steps"),
        ),
        (
            "fails at load",
            Operation::InterpretHealth,
            "\nlocal x = nil + 1",
            Some("script InterpretHealth, line 2: attempt to perform arithmetic on a nil value"),
        ),
        (
            "goto is of a later Lua",
            Operation::InterpretHealth,
            "function InterpretHealth(o) goto out ::out:: return true end",
            Some("script InterpretHealth, line 1: '=' expected near 'out'"),
        ),
    ] {
        assert_eq!(
            check_script(&Host::at(0), operation, text).map_err(|error| error.to_string()),
            want.map_or(Ok(()), |w| Err(w.to_owned())),
            "{name}"
        );
    }
    let comment = |n: usize| format!("function InterpretHealth(o) return true end --{}", "x".repeat(n));
    let at_most = comment(SCRIPT_BYTES_MAX - comment(0).len());
    assert_eq!(at_most.len(), SCRIPT_BYTES_MAX);
    assert_eq!(check_script(&Host::at(0), Operation::InterpretHealth, &at_most), Ok(()));
    let error = ScriptError {
        operation: Operation::InterpretHealth,
        line: None,
        message: "it has more than 65536 bytes".into(),
    };
    assert_eq!(check_script(&Host::at(0), Operation::InterpretHealth, &format!("{at_most}x")), Err(error));
}

#[test]
fn trace_reports_steps_and_output() {
    let text = "function InterpretHealth(o) print('ready', o.status.ready) for i = 1, 1000 do end return true end";
    let customization = customization("a", rule(Operation::InterpretHealth, text));
    let object = farm();
    let (answer, trace) = customization.trace(&Question::Health { object: &object });
    assert_eq!(answer, Ok(Reply::Health(Health::Healthy)));
    assert_eq!(trace.printed, ["ready\t2"]);
    assert!((1_000..5_000).contains(&trace.steps), "{}", trace.steps);
    assert!(trace.steps < STEPS_MAX);
}

#[test]
fn trace_reports_lines() {
    let text = "local n = 0\nfunction InterpretHealth(o)\n  for i = 1, 3 do\n    n = n + i\n  end\n  if n > 100 then\n    return false\n  end\n  return n + o.nope\nend";
    let customization = customization("a", rule(Operation::InterpretHealth, text));
    let object = farm();
    for _ in 0..2 {
        let (answer, trace) = customization.trace(&Question::Health { object: &object });
        assert!(answer.is_err());
        assert_eq!(trace.failed, Some(9));
        assert!((20..40).contains(&trace.steps), "each step of a short script counts: {}", trace.steps);
        let ran = |line| trace.lines.get(&line).copied();
        assert_eq!((ran(1), ran(4), ran(6), ran(7), ran(9)), (Some(1), Some(3), Some(1), None, Some(1)), "{trace:?}");
    }
    assert!(customization.answer(&Question::Health { object: &object }).is_err());
    let (_, trace) = customization.trace(&Question::Health { object: &object });
    assert_eq!(trace.lines.get(&4), Some(&3), "what is not traced is not counted: {trace:?}");
}

#[test]
fn host_clock_limits_expensive_steps() {
    let calls = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let ticks = calls.clone();
    let host = Host {
        running: None,
        wall_seconds: Arc::new(|| 0),
        elapsed: Arc::new(move || Duration::from_millis(ticks.fetch_add(100, std::sync::atomic::Ordering::Relaxed))),
    };
    let target = CustomizationTarget { api_version: "farm.io/v1".into(), kind: "Farm".into() };
    let spec = Spec {
        target,
        customizations: rule(
            Operation::InterpretHealth,
            "function InterpretHealth(o)\n for i = 1, 100000 do end\n return true end",
        ),
    };
    let slow = Customization::compile("slow", &spec, &host);
    assert_eq!(
        slow.answer(&Question::Health { object: &farm() }).unwrap_err().to_string(),
        "ResourceInterpreterCustomization slow: script InterpretHealth, line 2: it takes longer than 1 s"
    );
}
