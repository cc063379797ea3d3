//! Deletion of old copies: specification/failover.md 5 and 7 as scripts with their transcripts.

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
    failover_05_application
    failover_06_cost
    failover_07_deadlock
    failover_07_graceful
    failover_09_keep_workloads
}
