use ironclad_api::config::{RequestStatus, ResourceInterpreterWebhook, RuleWithOperations};
use k8s_openapi::ByteString;
use serde_json::json;

use super::*;
use crate::{Interpreter, Item};

fn hook(name: &str, operations: &[&str], group: &str, kind: &str) -> ResourceInterpreterWebhook {
    let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>();
    ResourceInterpreterWebhook {
        name: name.into(),
        rules: vec![RuleWithOperations {
            operations: list(operations),
            api_groups: list(&[group]),
            api_versions: list(&["v1"]),
            kinds: list(&[kind]),
        }],
        interpreter_context_versions: list(&["v1alpha1"]),
        ..ResourceInterpreterWebhook::default()
    }
}

fn configuration(name: &str, webhooks: Vec<ResourceInterpreterWebhook>) -> ResourceInterpreterWebhookConfiguration {
    let mut configuration = ResourceInterpreterWebhookConfiguration { webhooks, ..Default::default() };
    configuration.metadata.name = Some(name.into());
    configuration
}

fn farm() -> Value {
    json!({"apiVersion": "farm.io/v1", "kind": "Farm", "metadata": {"name": "f", "namespace": "n"}, "spec": {"size": 3}})
}

#[test]
fn first_matching_webhook_is_called() {
    let hooks = Webhooks::new(&[
        configuration("b", vec![hook("x.io", &["*"], "farm.io", "Farm")]),
        configuration(
            "a",
            vec![hook("z.io", &["InterpretHealth"], "*", "*"), hook("y.io", &["Retain"], "farm.io", "Barn")],
        ),
        configuration(
            "0",
            vec![ResourceInterpreterWebhook {
                interpreter_context_versions: vec!["v9".into()],
                ..hook("old.io", &["*"], "*", "*")
            }],
        ),
    ]);
    let asked = |api_version, kind, operation| hooks.find(api_version, kind, operation).map(|hook| hook.key.as_str());
    for (name, api_version, kind, operation, want) in [
        ("two match: the smaller key", "farm.io/v1", "Farm", Operation::InterpretHealth, Some("a/z.io")),
        ("only one has the operation", "farm.io/v1", "Farm", Operation::Retain, Some("b/x.io")),
        ("another version", "farm.io/v2", "Farm", Operation::Retain, None),
        ("another kind", "farm.io/v1", "Barn", Operation::Retain, Some("a/y.io")),
        ("the core group by the star", "v1", "Pod", Operation::InterpretHealth, Some("a/z.io")),
        ("the core group is no other", "v1", "Farm", Operation::Retain, None),
    ] {
        assert_eq!(asked(api_version, kind, operation), want, "{name}");
    }
}

#[test]
fn responses_are_decoded_by_operation() {
    let template = farm();
    let items = [Item::of("m1", None)];
    let observed = farm();
    let patch = |text: &str| ResourceInterpreterResponse {
        patch: Some(ByteString(text.as_bytes().to_vec())),
        patch_type: Some("JSONPatch".into()),
        ..ResourceInterpreterResponse::default()
    };
    let none = ResourceInterpreterResponse::default;
    let replicas = Question::Replicas { template: &template };
    let revise = Question::Revise { manifest: &template, replicas: 5 };
    let retain = Question::Retain { desired: &template, observed: &observed };
    let aggregate = Question::Aggregate { template: &template, items: &items };
    let status = Question::Status { object: &template };
    let health = Question::Health { object: &template };
    let dependencies = Question::Dependencies { template: &template };
    let mut revised = farm();
    revised["spec"]["size"] = json!(5);
    let to_five = r#"[{"op": "replace", "path": "/spec/size", "value": 5}]"#;
    let rows: Vec<(&str, Question<'_>, ResourceInterpreterResponse, Result<Reply, &str>)> = vec![
        (
            "replicas",
            replicas,
            ResourceInterpreterResponse { replicas: Some(2), ..none() },
            Ok(Reply::Replicas(Replicas { replicas: 2, requirements: None })),
        ),
        ("replicas are mandatory", replicas, none(), Err("its answer has no replicas")),
        (
            "and not negative",
            replicas,
            ResourceInterpreterResponse { replicas: Some(-1), ..none() },
            Err("it has -1 replicas, which must be between 0 and 2147483647"),
        ),
        (
            "components may be none",
            Question::Components { template: &template },
            none(),
            Ok(Reply::Components(Vec::new())),
        ),
        ("a patch of the manifest", revise, patch(to_five), Ok(Reply::Object(revised.clone()))),
        ("no patch, no change", retain, none(), Ok(Reply::Object(farm()))),
        (
            "a patch of the template",
            aggregate,
            patch(r#"[{"op": "add", "path": "/status", "value": {}}]"#),
            Ok(Reply::Object({
                let mut with = farm();
                with["status"] = json!({});
                with
            })),
        ),
        (
            "a patch without its type",
            revise,
            ResourceInterpreterResponse { patch_type: None, ..patch(to_five) },
            Err("its answer has a patch and no patchType"),
        ),
        (
            "a type without a patch",
            revise,
            ResourceInterpreterResponse { patch: None, ..patch(to_five) },
            Err("its answer has a patchType and no patch"),
        ),
        (
            "another type",
            revise,
            ResourceInterpreterResponse { patch_type: Some("Merge".into()), ..patch(to_five) },
            Err("its patchType is \"Merge\"; only JSONPatch is known"),
        ),
        (
            "a patch that is none",
            revise,
            patch("{"),
            Err("its patch is not JSON: EOF while parsing an object at line 1 column 1"),
        ),
        (
            "a patch that renames",
            revise,
            patch(r#"[{"op": "replace", "path": "/metadata/name", "value": "g"}]"#),
            Err("the answer changed /metadata/name of the object, which no interpreter may"),
        ),
        (
            "a status",
            status,
            ResourceInterpreterResponse { raw_status: Some(json!({"a": 1})), ..none() },
            Ok(Reply::Status(Some(json!({"a": 1})))),
        ),
        ("a status is mandatory", status, none(), Err("its answer has no rawStatus")),
        (
            "healthy",
            health,
            ResourceInterpreterResponse { healthy: Some(true), ..none() },
            Ok(Reply::Health(Health::Healthy)),
        ),
        (
            "unhealthy",
            health,
            ResourceInterpreterResponse { healthy: Some(false), ..none() },
            Ok(Reply::Health(Health::Unhealthy)),
        ),
        ("a verdict is mandatory", health, none(), Err("its answer has no healthy")),
        ("dependencies may be none", dependencies, none(), Ok(Reply::Dependencies(Vec::new()))),
        (
            "but not bad",
            dependencies,
            ResourceInterpreterResponse {
                dependencies: vec![ironclad_api::config::DependentObjectReference {
                    api_version: "v1".into(),
                    kind: "Secret".into(),
                    ..Default::default()
                }],
                ..none()
            },
            Err("dependency 1 has no name and no labelSelector"),
        ),
    ];
    for (name, question, response, want) in rows {
        let response = ResourceInterpreterResponse { successful: true, ..response };
        assert_eq!(read(&question, &response), want.map_err(str::to_owned), "{name}");
    }
    let refused = ResourceInterpreterResponse {
        status: Some(RequestStatus { message: "no farm today".into(), code: 403 }),
        ..none()
    };
    assert_eq!(read(&health, &refused), Err("it answered 403: no farm today".into()));
    assert_eq!(read(&health, &none()), Err("it answered without success and gave no status".into()));
}

#[test]
fn request_has_the_fields_of_its_operation() {
    let (template, observed) = (farm(), farm());
    let status = json!({"ready": 1});
    let items = [Item {
        message: "no room",
        health: Some(ironclad_api::work::ResourceHealth::Unknown),
        applied: false,
        ..Item::of("m1", Some(&status))
    }];
    let plain = request(&Question::Health { object: &template });
    assert_eq!(
        (plain.kind.group.as_str(), plain.kind.version.as_str(), plain.kind.kind.as_str()),
        ("farm.io", "v1", "Farm")
    );
    assert_eq!(
        (plain.name.as_str(), plain.namespace.as_str(), plain.operation.as_str()),
        ("f", "n", "InterpretHealth")
    );
    assert_eq!((&plain.object, &plain.observed_object, plain.desired_replicas), (&template, &None, None));
    let retain = request(&Question::Retain { desired: &template, observed: &observed });
    assert_eq!(retain.observed_object, Some(observed.clone()));
    assert_eq!(request(&Question::Revise { manifest: &template, replicas: 4 }).desired_replicas, Some(4));
    let aggregate = request(&Question::Aggregate { template: &template, items: &items });
    assert_eq!(
        json!(aggregate.aggregated_status),
        json!([{"clusterName": "m1", "status": {"ready": 1}, "appliedMessage": "no room", "health": "Unknown"}])
    );
    let sent = json!(body(
        &Call { hook: Arc::new(Hook { key: "a/b".into(), webhook: hook("b", &[], "", "") }), request: plain },
        "u-1"
    ));
    assert_eq!((&sent["kind"], &sent["request"]["uid"]), (&json!("ResourceInterpreterContext"), &json!("u-1")));
}

#[test]
fn response_must_echo_the_uid() {
    let answer = |uid: &str| {
        json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext",
        "response": {"uid": uid, "successful": true, "healthy": true}})
        .to_string()
    };
    assert_eq!(decode(answer("u").as_bytes(), "u").unwrap().healthy, Some(true));
    // As Karmada's SDK answers.
    let bare = r#"{"response":{"uid":"u","successful":true,"replicas":2,"replicaRequirements":{"resourceRequest":{"cpu":"1"}}}}"#;
    assert_eq!(decode(bare.as_bytes(), "u").unwrap().replicas, Some(2));
    let nulls = r#"{"request":null,"response":{"uid":"u","successful":true,"status":null,"patch":null,"components":null,"dependencies":null,"rawStatus":{"a":1}}}"#;
    assert_eq!(decode(nulls.as_bytes(), "u").unwrap().raw_status, Some(json!({"a": 1})));
    let empty =
        r#"{"kind":"","apiVersion":"","response":{"uid":"u","successful":false,"status":{"message":"no","code":500}}}"#;
    assert_eq!(decode(empty.as_bytes(), "u").unwrap().status.unwrap().message, "no");
    for (body, want) in [
        (answer("v"), "its answer has uid \"v\" instead of \"u\""),
        ("{}".into(), "its answer has no response"),
        (
            r#"{"response": {"uid": "", "successful": false, "status": {"code": 400, "message": "no body"}}}"#.into(),
            "it answered 400: no body",
        ),
        ("[]".into(), "its answer has no response"),
        ("OK".into(), "its answer is not a ResourceInterpreterContext: expected value at line 1 column 1"),
        (r#"{"response": null}"#.into(), "its answer has no response"),
        (r#"{"response": {"successful": true}}"#.into(), "the response of its answer: missing field `uid`"),
        (r#"{"apiVersion": "x", "kind": "y"}"#.into(), "its answer has no response"),
    ] {
        assert_eq!(decode(body.as_bytes(), "u").unwrap_err(), want);
    }
}

#[test]
fn decision_runs_again_until_no_call_is_open() {
    let hooks = Webhooks::new(&[configuration("a", vec![hook("x.io", &["*"], "farm.io", "Farm")])]);
    let interpreter = Interpreter::new(vec![Arc::new(hooks)]).for_a_decision();
    let object = farm();
    let open = interpreter.health(&object).unwrap_err();
    assert_eq!(open.to_string(), "interpreter webhook a/x.io was not asked for InterpretHealth yet");
    assert!(interpreter.reflect_status(&object).is_err(), "a second question of the same decision");
    assert!(interpreter.health(&object).is_err(), "the same one twice is one call");
    let calls = interpreter.take_open();
    assert_eq!(
        calls.iter().map(|c| c.request.operation.as_str()).collect::<Vec<_>>(),
        ["InterpretHealth", "InterpretStatus"]
    );
    interpreter.answer(
        &calls[0],
        Ok(ResourceInterpreterResponse { successful: true, healthy: Some(false), ..Default::default() }),
    );
    interpreter.answer(&calls[1], Err("no answer within 10 s".into()));
    assert_eq!(interpreter.health(&object), Ok(Some(Health::Unhealthy)));
    assert_eq!(
        interpreter.reflect_status(&object).unwrap_err().to_string(),
        "interpreter webhook a/x.io: InterpretStatus: no answer within 10 s",
        "there is no silent fallback to what is built in"
    );
    assert_eq!(interpreter.take_open(), []);
}
