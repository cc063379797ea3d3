//! Each chapter of propagation.md as a script with its transcript.

use std::path::Path;

use ironclad_testkit::scenario;

macro_rules! scenarios {
    ($($name:ident)+) => {$(
        #[test]
        fn $name() -> anyhow::Result<()> {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
            scenario::check(&folder.join(concat!(stringify!($name), ".scenario")))
        }
    )+};
}

scenarios! {
    road_01_cost
    road_02_kinds
    road_03_policies
    road_04_matching
    road_05_claims
    road_06_lazy_and_preserved
    road_06_preemption
    road_07_bindings
    road_08_dependencies
    road_08_kinds
    road_09_works
    road_10_overrides
    road_11_suspension
    road_12_protection
    road_13_execution
    road_14_priority
    road_14_retention
    road_15_status
    road_16_binding_status
    road_17_template_status
    road_18_health
    road_19_replicas
    road_20_interpreters
    road_21_shipped
    road_22_namespaces
    road_23_unified_auth
    road_25_enforced
    road_25_quota
    road_26_rebalancer
    road_29_cluster_status
    road_30_flags
    road_31_correctness
    road_31_quota_and_rebalance
    road_31_scale
    road_31_usability
    road_90_samples
    road_91_failures
    road_92_lies
}
