//! Every well-known name of the reference has a constant (specification/api.md 12, 13, 14, 18).

use ironclad_api::{
    eviction,
    gates::{Gate, Stage},
    names, namespaces, taints,
};
use ironclad_reference::Reference;

/// Returns the words that are missing as string constants in a module's source.
fn missing<'a>(source: &str, words: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let words = words.into_iter().map(|word| word.trim().trim_matches('`'));
    words.filter(|word| !word.is_empty() && !source.contains(&format!("= \"{word}\";"))).collect()
}

#[test]
fn keys_have_constants() {
    for (anchor, source, known) in [
        ("### 12.1", include_str!("../../src/labels.rs"), 26),
        ("### 12.2", include_str!("../../src/annotations.rs"), 32),
        ("### 12.3", include_str!("../../src/finalizers.rs"), 10),
    ] {
        let table = Reference::Api.table(anchor);
        let cells: Vec<&str> = table.rows.iter().flat_map(|row| row[0].split(", ")).collect();
        assert!(cells.len() >= known, "{anchor}: only {} keys were read", cells.len());
        // A key that ends in a placeholder has a constant for its prefix.
        let keys = cells.iter().map(|key| key.split_once("`<").map_or(*key, |(prefix, _)| prefix));
        assert_eq!(missing(source, keys), Vec::<&str>::new(), "{anchor}");
    }
}

/// The source of `pub mod NAME` in a module's source.
fn module<'a>(source: &'a str, name: &str) -> &'a str {
    let start = source.find(&format!("pub mod {name} {{")).unwrap_or_else(|| panic!("no module {name}"));
    let rest = &source[start..];
    &rest[..rest.find("\n}").expect("its end")]
}

#[test]
fn conditions_and_reasons_have_constants() {
    let conditions = include_str!("../../src/conditions.rs");
    let reasons = include_str!("../../src/reasons.rs");
    for (anchor, kind, of_reasons) in [
        ("### 13.1", "cluster", &[2][..]),
        ("### 13.2", "binding", &[2]),
        ("### 13.3", "work", &[2]),
        ("### 13.4", "multi_cluster_service", &[2]),
        ("### 13.5", "federated_hpa", &[1, 2]),
    ] {
        for row in &Reference::Api.table(anchor).rows {
            let type_ = row[0].split(" (").next();
            assert_eq!(missing(module(conditions, kind), type_), Vec::<&str>::new(), "{anchor}");
            for column in of_reasons {
                let words = row[*column].split([',', '/']);
                assert_eq!(missing(module(reasons, kind), words), Vec::<&str>::new(), "{anchor} {row:?}");
            }
        }
    }
    // Reasons in the text below the tables.
    let (work, hpa) = (module(reasons, "work"), module(reasons, "federated_hpa"));
    assert_eq!(missing(module(conditions, "work"), ["Progressing", "Available", "Degraded"]), Vec::<&str>::new());
    assert_eq!(missing(work, ["Terminating", "APINotInstalled", "AlreadyExists"]), Vec::<&str>::new());
    assert_eq!(missing(hpa, ["FailedGetExternalMetric"]), Vec::<&str>::new());
}

/// Values that nothing writes yet, by the row's key.
const VALUES_OF_WHAT_IS_NOT_BUILT: [(&str, &str); 2] = [
    ("karmada.io/bootstrapping", "an installer's; `up` and `run` install nothing"),
    ("autoscaling.karmada.io/merge.", "custom metrics of members are not merged yet"),
];

#[test]
fn values_of_keys_have_constants() {
    let sources = [include_str!("../../src/labels.rs"), include_str!("../../src/annotations.rs")].concat();
    let kinds: Vec<String> = ironclad_api::crds::crds().into_iter().map(|crd| crd.spec.names.kind).collect();
    let mut seen = 0;
    for anchor in ["### 12.1", "### 12.2"] {
        let table = Reference::Api.table(anchor);
        for row in &table.rows {
            if VALUES_OF_WHAT_IS_NOT_BUILT.iter().any(|(key, _)| row[0].starts_with(key)) {
                continue;
            }
            for value in table.cell(row, "Value").split('`').skip(1).step_by(2) {
                // A placeholder, an example, or a separator is not a value.
                if value.contains(['<', '[', '"', ',']) || value == "." {
                    continue;
                }
                seen += 1;
                let known = sources.contains(&format!("= \"{value}\";")) || kinds.iter().any(|kind| kind == value);
                assert!(known, "{anchor} {}: no constant says {value:?}", row[0]);
            }
        }
    }
    assert!(seen > 10, "only {seen} values were read");
}

#[test]
fn taints_match_the_table() {
    let table = Reference::Api.table("### 12.4");
    let source = include_str!("../../src/taints.rs");
    for row in &table.rows {
        let keys = row[0].split(", ").filter(|key| key.contains('/'));
        assert_eq!(missing(source, keys), Vec::<&str>::new());
        assert_eq!(missing(source, row[1].split(" / ")), Vec::<&str>::new(), "{row:?}");
    }
    let effects: Vec<_> = Reference::Api.table("### 2.3").rows.iter().map(|row| row[0].clone()).collect();
    let known = [taints::NO_SCHEDULE, taints::NO_EXECUTE, taints::PREFER_NO_EXECUTE];
    assert!(effects.iter().zip(known).all(|(row, effect)| row.split(' ').next() == Some(effect)), "{effects:?}");
}

/// specification/api.md 12.5.
#[test]
fn reasons_and_producers_of_evictions() {
    let reasons = [
        eviction::TAINT_UNTOLERATED,
        eviction::APPLICATION_FAILURE,
        eviction::TAINT_PREFER_NO_EXECUTE,
        eviction::CLUSTER_DRAIN,
        eviction::BINDING_PREEMPTED,
    ];
    let want = ["TaintUntolerated", "ApplicationFailure", "TaintPreferNoExecute", "ClusterDrain", "BindingPreempted"];
    assert_eq!(reasons, want);
    let producers = [
        eviction::PRODUCER_TAINT_MANAGER,
        eviction::PRODUCER_APPLICATION_FAILOVER,
        eviction::PRODUCER_CLUSTER_APPLICATION_FAILOVER,
        eviction::PRODUCER_DRAIN,
        eviction::PRODUCER_SCHEDULER,
    ];
    let want = [
        "TaintManager",
        "resource-binding-application-failover-controller",
        "cluster-resource-binding-application-failover-controller",
        "Drain",
        "Scheduler",
    ];
    assert_eq!(producers, want);
}

/// specification/operations.md 1 and 10.1, specification/api.md 12.6: names generated for a cluster called
/// `<cluster>`.
#[test]
fn names_that_other_tools_rely_on() {
    const C: &str = "<cluster>";
    let account = names::member_service_account(C);
    let execution = names::execution_namespace(C);
    let secret = names::impersonation_secret(C);
    let of_members = namespaces::CLUSTER;
    for (thing, names) in [
        ("Host-side namespace", vec![namespaces::SYSTEM.to_owned()]),
        ("Namespace that holds member credentials", vec![of_members.to_owned()]),
        ("Execution space", vec![execution.clone()]),
        ("Reserved namespaces", vec![namespaces::SYSTEM.to_owned(), of_members.to_owned()]),
        ("Member service account for push", vec![account.clone(), of_members.to_owned()]),
        ("Member ClusterRole and", vec![names::member_cluster_role(&account)]),
        ("Member service account used for imp", vec![names::IMPERSONATOR.to_owned(), of_members.to_owned()]),
        (
            "Control-plane credential Secret",
            vec![C.to_owned(), namespaces::SECRET_CA_BUNDLE.to_owned(), namespaces::SECRET_TOKEN.to_owned()],
        ),
        ("Control-plane impersonation Secret", vec![secret.clone(), namespaces::SECRET_TOKEN.to_owned()]),
        ("Member ClusterRole/Binding", vec![names::IMPERSONATOR.to_owned()]),
        ("Estimator service", vec![names::estimator("karmada-scheduler-estimator", C)]),
        ("Collected EndpointSlice", vec![names::imported_endpoint_slice(C, "<slice>")]),
        ("Service derived", vec![names::derived_service("<name>")]),
        ("Annotation saying where", vec![ironclad_api::annotations::CACHED_FROM_CLUSTER.to_owned()]),
        ("Label put on everything", vec![format!("{}={}", ironclad_api::labels::SYSTEM, ironclad_api::labels::TRUE)]),
        ("Default scheduler name", vec![ironclad_api::policy::DEFAULT_SCHEDULER_NAME.to_owned()]),
    ] {
        let table = Reference::Operations.table("## 1. ");
        let row = table.rows.iter().find(|row| row[0].starts_with(thing)).unwrap_or_else(|| panic!("no {thing}"));
        for name in names {
            assert!(row[1].contains(&format!("`{name}`")), "{thing}: {name} is not {}", row[1]);
        }
    }
    let secrets = Reference::Operations.table("### 10.1");
    let got: Vec<&str> = secrets.rows.iter().map(|row| row[0].trim_matches('`')).collect();
    assert_eq!(got, [C, secret.as_str()]);
    let spaces = Reference::Api.table("### 12.6");
    let got: Vec<String> = spaces.rows.iter().map(|row| row[0].replace('`', "")).collect();
    let authentication = format!("{}/{}", namespaces::KUBE_SYSTEM, namespaces::EXTENSION_APISERVER_AUTHENTICATION);
    assert_eq!(got[..3], [namespaces::SYSTEM, of_members, &execution]);
    assert_eq!(got[4], format!("{authentication} (ConfigMap)"));
}

#[test]
fn events_have_constants() {
    for row in &Reference::Api.table("## 18.").rows {
        assert_eq!(missing(crate::events::CONSTANTS, row[0].split([',', '/'])), Vec::<&str>::new(), "{row:?}");
    }
}

#[test]
fn feature_gates_match_the_reference() {
    let table = Reference::Api.table("## 14.");
    let want: Vec<_> = table.rows.iter().map(|row| (row[0].clone(), row[1] == "true")).collect();
    let got: Vec<_> = Gate::ALL.iter().map(|gate| (gate.name().to_owned(), gate.default_on())).collect();
    assert_eq!(got, want);
    for (gate, row) in Gate::ALL.iter().zip(&table.rows) {
        // "Alpha 1.13, Beta 1.19": the last stage counts.
        let last = ["Alpha", "Beta", "Ironclad"].iter().max_by_key(|stage| row[2].rfind(**stage)).unwrap();
        let want = match *last {
            "Alpha" => Stage::Alpha,
            "Beta" => Stage::Beta,
            _ => Stage::Ours,
        };
        assert_eq!(gate.stage(), want, "{}", gate.name());
    }
}
