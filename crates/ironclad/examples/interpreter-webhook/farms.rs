//! Interpretation of a Farm: the part to rewrite for your kind.

use ironclad_api::{
    config::{
        DependentObjectReference, JSON_PATCH, RequestStatus, ResourceInterpreterRequest, ResourceInterpreterResponse,
        operations,
    },
    work::ReplicaRequirements,
};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

/// The answer to a question.
pub(crate) fn answer(request: &ResourceInterpreterRequest) -> ResourceInterpreterResponse {
    let mut response = match interpret(request) {
        Ok(response) => ResourceInterpreterResponse { successful: true, ..response },
        // The control plane retries later, and shows this message on the object.
        Err(message) => ResourceInterpreterResponse {
            status: Some(RequestStatus { message, code: 400 }),
            ..ResourceInterpreterResponse::default()
        },
    };
    // The response must repeat the request's uid.
    response.uid.clone_from(&request.uid);
    response
}

fn interpret(request: &ResourceInterpreterRequest) -> Result<ResourceInterpreterResponse, String> {
    let farm = &request.object;
    let mut response = ResourceInterpreterResponse::default();
    match request.operation.as_str() {
        // Replicas to divide, and the resources of one replica.
        operations::INTERPRET_REPLICA => {
            response.replicas = Some(size(farm)?);
            response.replica_requirements = Some(ReplicaRequirements {
                resource_request: serde_json::from_value(farm["spec"]["field"].clone()).unwrap_or_default(),
                ..ReplicaRequirements::default()
            });
        }
        // The farm as a cluster gets it: with its share. Objects are answered as patches of what was sent.
        operations::REVISE_REPLICA => {
            let share = request.desired_replicas.ok_or("the question has no replicas")?;
            patch(&mut response, &json!([{"op": "add", "path": "/spec/size", "value": share}]));
        }
        // The part of the member's status to report.
        operations::INTERPRET_STATUS => response.raw_status = Some(json!({"ready": ready(&farm["status"])})),
        // The template's status, from the reports of all clusters.
        operations::AGGREGATE_STATUS => {
            let reports = request.aggregated_status.iter().filter_map(|item| item.status.as_ref());
            let sum: i64 = reports.map(|status| ready(&status.value())).sum();
            patch(&mut response, &json!([{"op": "add", "path": "/status", "value": {"ready": sum}}]));
        }
        operations::INTERPRET_HEALTH => {
            response.healthy = Some(ready(&farm["status"]) >= i64::from(size(farm)?));
        }
        // Objects that must be propagated with the farm if its policy has propagateDeps.
        operations::INTERPRET_DEPENDENCY => {
            response.dependencies = farm["spec"]["seeds"]
                .as_str()
                .map(|seeds| DependentObjectReference {
                    api_version: "v1".to_owned(),
                    kind: "ConfigMap".to_owned(),
                    namespace: request.namespace.clone(),
                    name: seeds.to_owned(),
                    label_selector: None,
                })
                .into_iter()
                .collect();
        }
        other => return Err(format!("{other} of a Farm is not answered here: take it out of the webhook's rules")),
    }
    Ok(response)
}

fn patch(response: &mut ResourceInterpreterResponse, operations: &Value) {
    response.patch = Some(ByteString(operations.to_string().into_bytes()));
    response.patch_type = Some(JSON_PATCH.to_owned());
}

fn size(farm: &Value) -> Result<i32, String> {
    let size = farm["spec"]["size"].as_i64().unwrap_or_default();
    i32::try_from(size).map_err(|_| format!("spec.size is {size}, which is too many"))
}

fn ready(status: &Value) -> i64 {
    status["ready"].as_i64().unwrap_or_default()
}
