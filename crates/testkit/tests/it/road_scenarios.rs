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
    road_08_dependencies
    road_20_interpreters
    road_22_namespaces
    road_26_rebalancer
}
