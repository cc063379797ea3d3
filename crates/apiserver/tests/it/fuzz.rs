//! For any bytes the server answers, stores nothing that it can't read back, and an apply done twice is an apply done
//! once. The seeds and how to run more of it: `fuzz/README.md`.

use std::{fs, path::Path};

use http::Method;
use ironclad_seam::{Rng, Stream};
use serde_json::{Value, json};

use crate::support::{Answer, World, config_map, deployment};

/// Inputs of each campaign; `IRONCLAD_FUZZ` overrides it.
const EACH: u64 = 150;
/// Words to insert into text, which decoders and patches treat specially.
const WORDS: [&str; 24] = [
    "null", "\"\"", "{}", "[]", "-1", "1e999", "18446744073709551616", "\\u0000", "\\ud800", "$patch",
    "\"$retainKeys\"", "$setElementOrder/containers", "name", "/-", "~1", "&a ", "*a", "!!binary ", "<<: ", "---\n",
    "metadata", "generateName", "\u{2028}", "%00",
];

struct Seed {
    kind: String,
    bytes: Vec<u8>,
}

fn seeds(folder: &str) -> Vec<Seed> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(folder);
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let seed = |path: &std::path::PathBuf| {
        let stem = path.file_stem().unwrap().to_str().unwrap();
        Seed { kind: stem.split('-').next().unwrap().to_owned(), bytes: fs::read(path).unwrap() }
    };
    files.iter().map(seed).collect()
}

/// The number of inputs and their source of randomness.
fn campaign(name: &str) -> (u64, Stream) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let count = number("IRONCLAD_FUZZ");
    let rng = match (number("IRONCLAD_FUZZ_SEED"), count) {
        (Some(seed), _) => Rng::from_seed(seed),
        (None, Some(_)) => Rng::from_system(),
        // A fixed seed: unrelated changes must not fail on an old bug.
        (None, None) => Rng::from_seed(6),
    };
    println!("IRONCLAD_FUZZ_SEED={}", rng.seed());
    (count.unwrap_or(EACH), rng.stream(name))
}

/// The seeds as they are, then changed ones.
fn inputs(folder: &str) -> Vec<Seed> {
    let (count, chance) = campaign(folder);
    let seeds = seeds(folder);
    assert!(!seeds.is_empty(), "{folder} has no seeds");
    let mut all: Vec<Seed> = (0..count).map(|_| changed(&seeds, &chance)).collect();
    all.splice(0..0, seeds);
    all
}

/// A seed with a few changes.
fn changed(seeds: &[Seed], chance: &Stream) -> Seed {
    let below = |bound: usize| usize::try_from(chance.below(bound.max(1) as u64)).unwrap();
    let seed = &seeds[below(seeds.len())];
    let mut bytes = seed.bytes.clone();
    for _ in 0..=below(4) {
        let from = below(bytes.len() + 1);
        let to = (from + below(20)).min(bytes.len());
        match below(7) {
            0 if from < bytes.len() => bytes[from] ^= 1 << below(8),
            1 => drop(bytes.drain(from..to)),
            2 => {
                let piece = bytes[from..to].to_vec();
                let at = below(bytes.len() + 1);
                bytes.splice(at..at, piece);
            }
            3 => bytes.truncate(from),
            4 => {
                let other = &seeds[below(seeds.len())].bytes;
                let start = below(other.len());
                bytes.splice(from..to, other[start..(start + below(60)).min(other.len())].iter().copied());
            }
            5 => bytes.insert(from, u8::try_from(below(256)).unwrap()),
            _ => drop(bytes.splice(from..to, WORDS[below(WORDS.len())].bytes())),
        }
    }
    Seed { kind: seed.kind.clone(), bytes }
}

/// The path of a kind's collection.
fn collection(kind: &str) -> &'static str {
    match kind {
        "configmap" => "/api/v1/namespaces/default/configmaps",
        "service" => "/api/v1/namespaces/default/services",
        "deployment" => "/apis/apps/v1/namespaces/default/deployments",
        "foo" => "/apis/t.io/v1/namespaces/default/foos",
        "crd" => "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        other => panic!("the seeds have no kind {other}"),
    }
}

async fn world() -> World {
    let world = World::new().await;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer", "minimum": 0, "default": 1},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {
            "type": "object", "required": ["name"],
            "properties": {"name": {"type": "string"}, "v": {"type": "integer"}}}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "port": {"x-kubernetes-int-or-string": true},
    }}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "foos.t.io"},
        "spec": {
            "group": "t.io", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    world.post(collection("crd"), definition).await.expect(201);
    world
}

fn shown(bytes: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(bytes))
}

/// Fails unless the request succeeded or was refused with a Status.
#[track_caller]
fn sound(answer: &Answer, input: &[u8]) {
    let refused = matches!(answer.code, 400 | 404 | 409 | 413 | 415 | 422) && answer.body["kind"] == "Status";
    let done = matches!(answer.code, 200 | 201);
    assert!(done || refused, "{} {} for {}", answer.code, answer.body, shown(input));
}

/// A patch that meets no schema, or ends in what is no object of its kind, is refused by a kube-apiserver with a 500
/// that has no reason, so by us (specification/apiserver.md 12 and 13; `twelve::apply_that_fits_no_schema_is_a_500`).
/// A failure of our own has one.
fn is_raw_refusal(answer: &Answer) -> bool {
    answer.code == 500 && answer.body["kind"] == "Status" && answer.body.get("reason").is_none()
}

/// Checks that an accepted object is read back unchanged, and that writing it back changes nothing.
async fn read_back(world: &World, path: &str, accepted: &Value, input: &[u8]) {
    let read = world.get(path).await;
    assert_eq!(read.code, 200, "accepted, then gone: {}", shown(input));
    assert_eq!(&read.body, accepted, "read otherwise than answered: {}", shown(input));
    let version = read.at("/metadata/resourceVersion").clone();
    let again = world.put(path, read.body).await;
    assert_eq!(again.code, 200, "what was accepted is refused: {} for {}", again.body, shown(input));
    assert_eq!(again.at("/metadata/resourceVersion"), &version, "writing it back changes it: {}", shown(input));
}

/// Removes an object in spite of its finalizers.
async fn remove(world: &World, path: &str) {
    let free = json!({"metadata": {"finalizers": null}});
    world.patch(path, "merge-patch+json", free).await;
    world.call(Method::DELETE, path, json!({"propagationPolicy": "Background"})).await;
}

async fn created(folder: &str, content_type: &str) {
    let world = world().await;
    let mut accepted = 0;
    for input in inputs(folder) {
        let collection = collection(&input.kind);
        let path = format!("{collection}?fieldManager=fuzz");
        let answer = world.send(Method::POST, &path, &[("content-type", content_type)], input.bytes.clone()).await;
        sound(&answer, &input.bytes);
        if answer.code != 201 {
            continue;
        }
        accepted += 1;
        let path = format!("{collection}/{}", answer.at("/metadata/name").as_str().unwrap());
        // The status of definitions changes on its own.
        if input.kind != "crd" {
            read_back(&world, &path, &answer.body, &input.bytes).await;
        }
        remove(&world, &path).await;
    }
    assert!(accepted >= 2, "almost nothing was accepted: the seeds are no good");
}

#[tokio::test(start_paused = true)]
async fn json_bodies() {
    created("json", "application/json").await;
}

#[tokio::test(start_paused = true)]
async fn yaml_bodies() {
    created("yaml", "application/yaml").await;
}

#[tokio::test(start_paused = true)]
async fn protobuf_bodies() {
    created("protobuf", "application/vnd.kubernetes.protobuf").await;
}

/// Sends patches to an object of their kind.
async fn patched(folder: &str, content_type: &str) {
    let world = world().await;
    let mut accepted = 0;
    for input in inputs(folder) {
        let collection = collection(&input.kind);
        let path = format!("{collection}/target");
        let target = match input.kind.as_str() {
            "configmap" => config_map("target", json!({"a": "1"})),
            "deployment" => deployment("target"),
            _ => json!({"apiVersion": "t.io/v1", "kind": "Foo", "metadata": {"name": "target"},
                "spec": {"list": [{"name": "a", "v": 1}, {"name": "b"}]}}),
        };
        world.post(collection, target).await.expect(201);
        let url = format!("{path}?fieldManager=fuzz");
        let headers = [("content-type", content_type)];
        let answer = world.send(Method::PATCH, &url, &headers, input.bytes.clone()).await;
        if !is_raw_refusal(&answer) {
            sound(&answer, &input.bytes);
        }
        if answer.code < 300 {
            accepted += 1;
            read_back(&world, &path, &answer.body, &input.bytes).await;
        }
        remove(&world, &path).await;
    }
    assert!(accepted >= 2, "almost nothing was accepted: the seeds are no good");
}

#[tokio::test(start_paused = true)]
async fn json_patches() {
    patched("json-patch", "application/json-patch+json").await;
}

#[tokio::test(start_paused = true)]
async fn merge_patches() {
    patched("merge-patch", "application/merge-patch+json").await;
}

#[tokio::test(start_paused = true)]
async fn strategic_merge_patches() {
    patched("strategic-merge-patch", "application/strategic-merge-patch+json").await;
}

#[tokio::test(start_paused = true)]
async fn an_apply_done_twice_is_done_once() {
    let world = world().await;
    let mut accepted = 0;
    for input in inputs("apply-patch") {
        let path = format!("{}/target", collection(&input.kind));
        let url = format!("{path}?fieldManager=fuzz&force=true");
        let headers = [("content-type", "application/apply-patch+yaml")];
        let once = world.send(Method::PATCH, &url, &headers, input.bytes.clone()).await;
        if is_raw_refusal(&once) {
            continue;
        }
        sound(&once, &input.bytes);
        // The next input is often applied over this one, so fields are also removed.
        if once.code < 300 {
            accepted += 1;
            let twice = world.send(Method::PATCH, &url, &headers, input.bytes.clone()).await;
            assert_eq!(twice.code, 200, "{} for {}", twice.body, shown(&input.bytes));
            assert_eq!(twice.body, once.body, "twice is not once: {}", shown(&input.bytes));
            read_back(&world, &path, &twice.body, &input.bytes).await;
        }
        if accepted % 4 == 0 {
            remove(&world, &path).await;
        }
    }
    assert!(accepted >= 2, "almost nothing was accepted: the seeds are no good");
}

/// The outcome of a list by its query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Listed,
    BadRequest,
    Invalid,
    /// The continue token or the revision was compacted.
    Expired,
    /// The revision is in the future.
    TooLarge,
}

impl Outcome {
    /// The outcome of an answer; fails if code, kind and reason do not belong together.
    #[track_caller]
    fn of(answer: &Answer, query: &str) -> Self {
        let (kind, reason) = (answer.body["kind"].as_str().unwrap_or_default(), answer.body["reason"].as_str());
        match (answer.code, kind, reason) {
            (200, "ConfigMapList", None) => Self::Listed,
            (400, "Status", Some("BadRequest")) => Self::BadRequest,
            (422, "Status", Some("Invalid")) => Self::Invalid,
            (410, "Status", Some("Expired")) => Self::Expired,
            (504, "Status", Some("Timeout")) => Self::TooLarge,
            _ => panic!("{} {} for {query}", answer.code, answer.body),
        }
    }
}

/// The values of the parameters of a query, decoded; the first of each counts.
fn parameters(query: &str) -> std::collections::BTreeMap<String, String> {
    let decode =
        |text: &str| percent_encoding::percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    // The first value of a key counts, and collecting keeps the last.
    pairs.rev().map(|(key, value)| (decode(key), decode(value))).collect()
}

/// The outcomes that a query may have, by rules of its own: numbers are numbers, a selector can be parsed, a future
/// revision and an expired token need such a parameter.
fn possible(query: &str) -> Vec<Outcome> {
    let parameters = parameters(query);
    let get = |key: &str| parameters.get(key).map(String::as_str).filter(|value| !value.is_empty());
    let is_number = |key: &str| get(key).is_none_or(|value| value.parse::<i64>().is_ok());
    if !is_number("limit") || !is_number("timeoutSeconds") {
        return vec![Outcome::BadRequest];
    }
    let labels = get("labelSelector").unwrap_or_default();
    if ironclad_patch::selector::LabelSelector::parse(labels).is_err() {
        return vec![Outcome::BadRequest];
    }
    if get("resourceVersion").is_some_and(|version| version.parse::<u64>().is_err()) && get("continue").is_none() {
        return vec![Outcome::BadRequest, Outcome::Invalid];
    }
    let mut out = vec![Outcome::Listed];
    if get("fieldSelector").is_some() || get("continue").is_some() {
        out.push(Outcome::BadRequest);
    }
    if get("continue").is_some() {
        out.push(Outcome::Expired);
    }
    if get("resourceVersion").is_some() {
        out.extend([Outcome::TooLarge, Outcome::Expired]);
    }
    if get("resourceVersionMatch").is_some() || parameters.contains_key("sendInitialEvents") {
        out.push(Outcome::Invalid);
    }
    out
}

#[tokio::test(start_paused = true)]
async fn queries_are_answered_by_their_class() {
    let world = world().await;
    world.post(collection("configmap"), config_map("target", json!({}))).await.expect(201);
    for (query, want) in [
        ("", Outcome::Listed),
        ("labelSelector=app%3Da%2Cb%21%3Dc%2Cd+in+%28e%2Cf%29%2C%21g&limit=2", Outcome::Listed),
        ("fieldSelector=metadata.name%3Dtarget", Outcome::Listed),
        ("resourceVersion=0&limit=1", Outcome::Listed),
        ("limit=x", Outcome::BadRequest),
        ("timeoutSeconds=1s", Outcome::BadRequest),
        ("labelSelector=a+in+b", Outcome::BadRequest),
        ("labelSelector=a%3D%3D%3Db", Outcome::BadRequest),
        ("fieldSelector=data.a%3D1", Outcome::BadRequest),
        ("fieldSelector=metadata.name", Outcome::BadRequest),
        ("resourceVersion=latest", Outcome::BadRequest),
        ("continue=nonsense", Outcome::BadRequest),
        ("resourceVersionMatch=Exact", Outcome::Invalid),
        ("resourceVersion=1&resourceVersionMatch=Nearly", Outcome::Invalid),
        ("sendInitialEvents=true", Outcome::Invalid),
        ("resourceVersion=1000000", Outcome::TooLarge),
    ] {
        let answer = world.get(&format!("{}?{query}", collection("configmap"))).await;
        assert_eq!(Outcome::of(&answer, query), want, "{query}");
        assert!(possible(query).contains(&want), "the rules do not allow {want:?} for {query}");
    }
    let mut seen = std::collections::BTreeMap::<Outcome, usize>::new();
    let (mut skipped, mut sent) = (0, 0);
    for input in inputs("query") {
        let query = String::from_utf8(input.bytes).unwrap_or_default();
        let path = format!("{}?{query}", collection("configmap"));
        if query.is_empty() || path.parse::<http::Uri>().is_err() || query.contains("watch") {
            skipped += 1;
            continue;
        }
        sent += 1;
        let outcome = Outcome::of(&world.get(&path).await, &query);
        let possible = possible(&query);
        assert!(possible.contains(&outcome), "{outcome:?}, not one of {possible:?}, for {query}");
        *seen.entry(outcome).or_default() += 1;
    }
    println!("{sent} sent, {skipped} skipped, {seen:?}");
    assert!(sent > skipped, "most inputs are no requests: {sent} sent, {skipped} skipped");
    for outcome in [Outcome::Listed, Outcome::BadRequest] {
        assert!(seen.contains_key(&outcome), "no input was {outcome:?}: {seen:?}");
    }
}
