//! Crash, staleness and drop matrices over the scripts of propagation: whichever single write is disturbed, and
//! whichever single event of a watch is late or lost, a script shows the same and its world settles in the same state.

use std::{path::Path, time::Duration};

use ironclad_testkit::{
    scenario,
    sim::{
        EventFault, Fault,
        matrix::{self, Disturbance, Pass, Played},
    },
};

/// Scripts that observe only settled states, and in which the order of concurrent changes does not matter: the
/// policy that is seen first gets a template.
///
/// With all places, crashes in `propagation_04` differ while a template has lost its policy: a process that starts
/// then propagates the current template (6.2), while a running one leaves the copy unchanged.
const SCRIPTS: [&str; 10] = [
    "propagation_04_matching",
    "propagation_05_claims",
    "propagation_06_lazy_and_preserved",
    "propagation_06_preemption",
    "propagation_08_dependencies",
    "propagation_09_works",
    "propagation_11_suspension",
    "propagation_17_template_status",
    "propagation_22_namespaces",
    "propagation_25_quota",
];

fn play(script: &&str, disturbance: Disturbance) -> anyhow::Result<Played> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    scenario::play(&folder.join(format!("{script}.scenario")), disturbance)
}

macro_rules! passes {
    ($($name:ident: $pass:expr, $at_most:expr;)+) => {$(
        #[test]
        fn $name() -> anyhow::Result<()> {
            matrix::run(&SCRIPTS, |script| (*script).to_owned(), play, $pass, $at_most)
        }
    )+};
}

passes! {
    a_conflict_at_any_write: Pass::Writes(Fault::Conflict), 6;
    a_crash_after_the_answer_to_any_write: Pass::Writes(Fault::KillAfterAnswer), 6;
    a_crash_before_the_answer_to_any_write: Pass::Writes(Fault::KillBeforeAnswer), 6;
    a_lost_answer_to_any_write: Pass::Writes(Fault::LoseAnswer), 6;
    an_event_lost_with_a_list_in_its_place: Pass::Events(EventFault::Expire), 8;
    an_event_that_comes_late: Pass::Events(EventFault::Hold(Duration::from_secs(7))), 8;
}
