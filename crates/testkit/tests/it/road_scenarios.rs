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
    road_04_matching
    road_06_lazy_and_preserved
    road_06_preemption
    road_08_dependencies
    road_10_overrides
    road_11_suspension
    road_13_execution
    road_14_priority
    road_20_interpreters
    road_22_namespaces
    road_23_unified_auth
    road_25_quota
    road_26_rebalancer
    road_29_cluster_status
}
