//! The printed answer, for two fleets of four clusters.

use std::path::Path;

use ironclad_planning::{Preemption, apply::Planned};
use ironclad_seam::Clock;
use jiff::Timestamp;

use super::{plan_apply, print};
use crate::plan::read::objects;

fn check(golden: &str, fleet: &str, file: &str) {
    let clock = Clock::simulated(Timestamp::from_second(1_790_000_000).unwrap());
    let planned = Planned::of_dump(objects(fleet).unwrap(), objects(file).unwrap(), "shop").unwrap();
    let text = print::table(&planned.objects, &plan_apply(&planned, Preemption::Off, &clock));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/plan/apply/goldens");
    ironclad_reference::check_golden(folder.join(golden), &text);
}

#[test]
fn dependency_follows_its_workload() {
    let (fleet, file) = (include_str!("fleets/dependency.yaml"), include_str!("fleets/dependency_moved.yaml"));
    check("dependency_follows_its_workload.txt", fleet, file);
}

#[test]
fn changed_placement_and_new_override() {
    let (fleet, file) = (include_str!("fleets/web.yaml"), include_str!("fleets/web_changed.yaml"));
    check("changed_placement_and_new_override.txt", fleet, file);
}
