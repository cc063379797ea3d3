//! Memory of the last hour, for pictures of it.

use std::sync::Arc;

use ironclad_planning::history::{History, SAMPLED_EVERY, Sample};
use ironclad_seam::{Clock, Tasks};
use parking_lot::Mutex;

use crate::{bindings::BindingChange, controller::Controller, explain::Explain, setup::Setup};

struct Recorder {
    clock: Clock,
    explain: Explain,
    history: Arc<Mutex<History>>,
}

pub(crate) fn new(setup: &Setup, history: &Arc<Mutex<History>>) -> Arc<dyn Controller> {
    let this = Arc::new(Recorder {
        clock: setup.seam.clock.clone(),
        explain: setup.explain.clone(),
        history: history.clone(),
    });
    setup.bindings().on_change(&this, Recorder::on_binding);
    this
}

impl Controller for Recorder {
    fn start(self: Arc<Self>, tasks: &Tasks) {
        let group = tasks.clone();
        tasks.spawn("history", async move {
            loop {
                self.sample();
                tokio::select! {
                    biased;
                    () = group.stopping() => return,
                    () = self.clock.sleep(SAMPLED_EVERY.unsigned_abs()) => {}
                }
            }
        });
    }
}

impl Recorder {
    fn sample(&self) {
        let Some(report) = self.explain.eviction_report() else { return };
        let (waiting, parked) = (report.ready + report.delayed, report.parked);
        self.history.lock().sample(Sample { at: report.at, waiting, parked, rate: report.rate });
    }

    fn on_binding(&self, change: &BindingChange) {
        let (old, new) = (change.old.as_ref(), change.new.as_ref());
        let Some(binding) = new.or(old) else { return };
        // What is listed at the start was placed before.
        let Some(before) = old.map(|old| &*old.spec().clusters) else { return };
        let after = new.map_or(&[][..], |new| &*new.spec().clusters);
        if before != after {
            self.history.lock().placed(self.clock.wall_seconds(), binding.key(), before, after);
        }
    }
}
