//! The printed answer, for two fleets of four clusters.

use ironclad_planning::{Preemption, apply::Planned};
use ironclad_seam::Clock;
use jiff::Timestamp;

use super::{plan_apply, print};
use crate::plan::read::objects;

fn printed(fleet: &str, file: &str) -> String {
    let clock = Clock::simulated(Timestamp::from_second(1_790_000_000).unwrap());
    let planned = Planned::of_dump(objects(fleet).unwrap(), objects(file).unwrap(), "shop").unwrap();
    print::table(&planned.objects, &plan_apply(&planned, Preemption::Off, &clock))
}

#[test]
fn a_dependency_moves_with_its_workload() {
    let (fleet, file) = (include_str!("fleets/dependency.yaml"), include_str!("fleets/dependency_moved.yaml"));
    insta::assert_snapshot!(printed(fleet, file));
}

#[test]
fn another_placement_and_an_override() {
    let (fleet, file) = (include_str!("fleets/web.yaml"), include_str!("fleets/web_changed.yaml"));
    insta::assert_snapshot!(printed(fleet, file));
}
