//! The descheduler: takes replicas back that members found no node for (specification/scheduling.md 12). Off by
//! default.

mod apply;
mod observe;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ironclad_scheduling::deschedule;
use ironclad_seam::{Seam, Tasks};

use self::{apply::Applier, observe::Observer};
use crate::{controller::Controller, setup::Setup};

struct Descheduler {
    seam: Seam,
    interval: Duration,
    observer: Observer,
    applier: Applier,
    /// True while bindings are looked at.
    busy: AtomicBool,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let interval = Duration::try_from(setup.settings.descheduler.interval).unwrap_or(Duration::MAX);
    Arc::new(Descheduler {
        seam: setup.seam.clone(),
        interval,
        observer: Observer::new(setup),
        applier: Applier::new(setup),
        busy: AtomicBool::new(false),
    })
}

impl Controller for Descheduler {
    fn start(self: Arc<Self>, tasks: &Tasks) {
        let this = self.clone();
        tasks.supervise(&self.seam.clock, "descheduler", move || {
            let this = this.clone();
            async move {
                loop {
                    this.seam.clock.sleep(this.interval).await;
                    this.busy.store(true, Ordering::Relaxed);
                    this.deschedule().await;
                    this.busy.store(false, Ordering::Relaxed);
                }
            }
        });
    }

    fn is_quiet(&self) -> bool {
        !self.busy.load(Ordering::Relaxed)
    }
}

impl Descheduler {
    async fn deschedule(&self) {
        for binding in self.observer.bindings() {
            let by = self.observer.decided_by(&binding);
            let unschedulable = self.observer.observe(&binding, by).await;
            let plan = deschedule::decide(&binding, by, &unschedulable, self.seam.clock.wall_seconds());
            self.applier.apply(&binding, &plan).await;
        }
    }
}
