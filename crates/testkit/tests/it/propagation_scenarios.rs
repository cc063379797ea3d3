//! Each chapter of specification/propagation.md as a script with its transcript.

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
    propagation_01_cost
    propagation_01_success_events
    propagation_02_kinds
    propagation_03_policies
    propagation_04_matching
    propagation_04_dependent_overrides
    propagation_05_claims
    propagation_05_clones
    propagation_06_lazy_and_preserved
    propagation_06_preemption
    propagation_07_bindings
    propagation_08_dependencies
    propagation_08_kinds
    propagation_08_shared
    propagation_09_works
    propagation_10_cluster_changes
    propagation_10_overrides
    propagation_11_suspension
    propagation_12_protection
    propagation_13_answers
    propagation_13_execution
    propagation_13_takeover
    propagation_14_ownership
    propagation_14_priority
    propagation_14_retention
    propagation_14_retention_of_scaled_kinds
    propagation_15_status
    propagation_16_binding_status
    propagation_17_finished_jobs
    propagation_17_template_status
    propagation_18_health
    propagation_19_replicas
    propagation_20_interpreters
    propagation_20_kind_appears
    propagation_21_shipped
    propagation_22_namespaces
    propagation_23_unified_auth
    propagation_25_enforced
    propagation_25_quota
    propagation_25_refused
    propagation_25_waiting
    propagation_26_rebalancer
    propagation_29_cluster_status
    propagation_30_flags
    propagation_31_correctness
    propagation_31_owners
    propagation_31_quota_and_rebalance
    propagation_31_scale
    propagation_31_usability
    propagation_90_samples
    propagation_91_failures
    propagation_92_lies
}
