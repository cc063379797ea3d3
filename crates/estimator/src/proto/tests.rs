//! The wire format, compared with bytes that are put together here by protobuf's encoding rules from the field numbers
//! of the published definitions (specification/scheduling.md 10.5), not by the structs under test.

use ironclad_api::work;
use prost::Message as _;
use serde_json::json;

use super::*;
use crate::convert;

/// Length-delimited field.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    assert!(number < 16 && content.len() < 128, "one byte each");
    [&[number << 3 | 2, content.len() as u8], content].concat()
}

/// Variable-length integer.
fn integer(number: u8, mut value: u64) -> Vec<u8> {
    let mut bytes = vec![number << 3];
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn entry(number: u8, key: &str, value: &[u8]) -> Vec<u8> {
    field(number, &[field(1, key.as_bytes()), field(2, value)].concat())
}

fn needs() -> work::ReplicaRequirements {
    serde_json::from_value(json!({
        "namespace": "shop", "priorityClassName": "gold",
        "resourceRequest": {"cpu": "500m", "memory": "1Gi"},
        "nodeClaim": {
            "nodeSelector": {"disk": "ssd"},
            "hardNodeAffinity": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a", "b"]}]}]},
            "tolerations": [{"key": "team", "operator": "Exists", "tolerationSeconds": 60}],
        },
    }))
    .unwrap()
}

/// Node claim of [`needs`].
fn claim() -> Vec<u8> {
    let requirement = [field(1, b"gpu"), field(2, b"In"), field(3, b"a"), field(3, b"b")].concat();
    let affinity = field(1, &field(1, &requirement));
    let toleration = [field(1, b"team"), field(2, b"Exists"), field(3, b""), field(4, b""), integer(5, 60)].concat();
    [entry(2, "disk", b"ssd"), field(4, &affinity), field(5, &toleration)].concat()
}

#[test]
fn requests_have_the_published_form() {
    let quantities =
        |number| [entry(number, "cpu", &field(1, b"500m")), entry(number, "memory", &field(1, b"1Gi"))].concat();
    let replicas = MaxAvailableReplicasRequest {
        cluster: "m1".to_owned(),
        replica_requirements: Some(convert::requirements(&needs())),
        assumed_workloads: vec![AssumedWorkload {
            namespace: "shop".to_owned(),
            components: vec![Component { name: "w".to_owned(), replica_requirements: None, replicas: 300 }],
        }],
    };
    let requirements = [field(1, &claim()), field(3, b"shop"), field(4, b"gold"), quantities(5)].concat();
    let assumed = [field(1, b"shop"), field(2, &[field(1, b"w"), integer(3, 300)].concat())].concat();
    let want = [field(1, b"m1"), long(2, &requirements), field(3, &assumed)].concat();
    assert_eq!(replicas.encode_to_vec(), want);
    assert_eq!(MaxAvailableReplicasRequest::decode(want.as_slice()).unwrap(), replicas);

    let component: work::Component = serde_json::from_value(json!({
        "name": "worker", "replicas": 4,
        "replicaRequirements": {"priorityClassName": "gold", "resourceRequest": {"cpu": "500m", "memory": "1Gi"}},
    }))
    .unwrap();
    let sets = MaxAvailableComponentSetsRequest {
        cluster: "m1".to_owned(),
        components: vec![convert::component(&component)],
        namespace: "shop".to_owned(),
        assumed_workloads: Vec::new(),
    };
    let requirements = [field(3, b"gold"), quantities(4)].concat();
    let want = [
        field(1, b"m1"),
        field(2, &[field(1, b"worker"), field(2, &requirements), integer(3, 4)].concat()),
        field(3, b"shop"),
    ]
    .concat();
    assert_eq!(sets.encode_to_vec(), want);
    assert_eq!(
        convert::read_component(&MaxAvailableComponentSetsRequest::decode(&*want).unwrap().components[0]).unwrap(),
        component
    );

    let unschedulable = UnschedulableReplicasRequest {
        cluster: "m1".to_owned(),
        resource: Some(ObjectReference {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
        }),
        unschedulable_threshold: 300_000_000_000,
    };
    let reference = [field(1, b"apps/v1"), field(2, b"Deployment"), field(3, b"shop"), field(4, b"web")].concat();
    let want = [field(1, b"m1"), field(2, &reference), integer(3, 300_000_000_000)].concat();
    assert_eq!(unschedulable.encode_to_vec(), want);
}

/// Length-delimited field of up to 16,383 bytes.
fn long(number: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    if length < 128 {
        return field(number, content);
    }
    [&[number << 3 | 2, length as u8 | 0x80, (length >> 7) as u8], content].concat()
}

#[test]
fn answers_have_the_published_form() {
    assert_eq!(MaxAvailableReplicasResponse { max_replicas: 7 }.encode_to_vec(), integer(1, 7));
    assert_eq!(MaxAvailableComponentSetsResponse { max_sets: 300 }.encode_to_vec(), integer(1, 300));
    // A negative 32-bit number is extended to 64 bits: ten bytes.
    let no_opinion = integer(1, (-1_i64) as u64);
    assert_eq!(no_opinion.len(), 11);
    assert_eq!(UnschedulableReplicasResponse { unschedulable_replicas: -1 }.encode_to_vec(), no_opinion);
    assert_eq!(MaxAvailableReplicasResponse::decode(&*no_opinion).unwrap().max_replicas, -1);
    assert_eq!(MaxAvailableReplicasResponse::decode(&[][..]).unwrap().max_replicas, 0, "zero is left out");
}

#[test]
fn unknown_fields_are_skipped_and_garbage_is_an_error() {
    let newer = [integer(1, 7), field(9, b"from the future"), integer(12, 1)].concat();
    assert_eq!(MaxAvailableReplicasResponse::decode(&*newer).unwrap().max_replicas, 7);
    let needs = convert::requirements(&needs());
    assert_eq!(convert::read_requirements(&needs).unwrap(), super::tests::needs());
    let mut broken = needs;
    broken.node_claim.get_or_insert_default().tolerations_bytes = vec![vec![0xff]];
    assert_eq!(convert::read_requirements(&broken).unwrap_err().to_string(), "tolerationsBytes cannot be read");
}
