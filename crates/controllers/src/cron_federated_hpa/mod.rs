//! The CronFederatedHPA controller: scales by the clock (specification/autoscaling.md 4).

mod apply;
pub(crate) mod metrics;

use std::{sync::Arc, time::Duration};

use ironclad_api::{
    autoscaling::{CronFederatedHPA, FederatedHPA},
    events::{CONFLICTS_WITH_FEDERATED_HPA, START_RULE_FAILED},
    work::ObjectReference,
};
use ironclad_autoscaling::cron::{Seen, decide, record};
use ironclad_fleet::{Event, reference};
use ironclad_runtime::{Change, Failure, Informer, Key, Next, Queue};
use ironclad_seam::Seam;
use kube::{Resource as _, ResourceExt as _};

use self::{apply::Applier, metrics::CronMetrics};
use crate::{
    caches::{CRON_FEDERATED_HPAS, FEDERATED_HPAS},
    controller::{Controller, Reconciler},
    events::Events,
    index::{BY_SCALED, scaled_name},
    settings::Settings,
    setup::{Setup, on_change},
};

/// Wait for a time that has passed already.
const SOON: Duration = Duration::from_millis(10);

struct CronAutoscaler {
    seam: Seam,
    settings: Arc<Settings>,
    queue: Queue<Key>,
    objects: Informer<CronFederatedHPA>,
    autoscalers: Informer<FederatedHPA>,
    applier: Applier,
    events: Events,
    metrics: CronMetrics,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let (objects, autoscalers) = (setup.caches.take(&CRON_FEDERATED_HPAS), setup.caches.take(&FEDERATED_HPAS));
    let this = Arc::new(CronAutoscaler {
        seam: setup.seam.clone(),
        settings: setup.settings.clone(),
        queue: setup.queue(CronAutoscaler::NAME),
        applier: Applier::new(setup, objects.clone(), autoscalers.clone()),
        objects,
        autoscalers,
        events: setup.events.clone(),
        metrics: setup.register(CronMetrics::register),
    });
    on_change(&this.objects, &this, CronAutoscaler::on_object);
    this
}

impl Reconciler for CronAutoscaler {
    type Key = Key;
    const NAME: &'static str = "cronFederatedHorizontalPodAutoscaler";
    /// Objects that are reconciled at once.
    const WORKERS: usize = 2;
    const HAS_APPOINTMENTS: bool = true;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let began = self.seam.clock.mono();
        let outcome = self.observe_and_apply(key).await;
        self.metrics.processed(self.seam.clock.mono() - began, outcome.is_ok());
        outcome
    }
}

impl CronAutoscaler {
    async fn observe_and_apply(&self, key: &Key) -> Result<Next, Failure> {
        let Some(object) = self.objects.get_key(key) else { return Ok(Next::Forget) };
        let seen = Seen { object: &object, options: &self.settings.cron, now: self.seam.clock.wall() };
        let mut plan = decide(&seen);
        let about = reference_of(&object);
        for invalid in &plan.invalid {
            self.events.record(&Event::warning(about.clone(), START_RULE_FAILED, invalid.message.as_str()));
        }
        for due in plan.due.clone() {
            let began = self.seam.clock.mono();
            let applied = self.applier.execute(&object, &due).await?;
            self.metrics.executed(self.seam.clock.mono() - began, applied.is_ok());
            match &applied {
                Ok(_) => self.tell_of_conflict(&object, &about),
                Err(message) => self.applier.tell_of_failure(&object, &about, &due, message),
            }
            record(&seen, &mut plan, &due, applied);
        }
        self.applier.write_status(&object, &about, &plan.status).await?;
        Ok(plan.wake.map_or(Next::Forget, |wake| {
            let wait = wake.duration_since(self.seam.clock.wall());
            Next::After(Duration::try_from(wait).unwrap_or(SOON).max(SOON))
        }))
    }

    /// Its own status writes change nothing that it decides by, but a status that somebody else wrote does.
    fn on_object(&self, change: &Change<CronFederatedHPA>) {
        if let Some(object) = &change.new {
            self.queue.add(Key::of(&**object));
        }
    }

    /// Warns if a FederatedHPA scales the same workload: both would write its replicas.
    fn tell_of_conflict(&self, object: &CronFederatedHPA, about: &ObjectReference) {
        let target = &object.spec.scale_target_ref;
        let scaled = scaled_name(&object.namespace().unwrap_or_default(), target);
        if let Some(other) = self.autoscalers.by_index(BY_SCALED, &scaled).first() {
            let (kind, target, name) = (&target.kind, &target.name, other.name_any());
            let message = format!(
                "FederatedHPA {name} scales {kind} {target}, too, and will change its replicas again: target the \
                 FederatedHPA instead"
            );
            self.events.record(&Event::warning(about.clone(), CONFLICTS_WITH_FEDERATED_HPA, message));
        }
    }
}

fn reference_of(object: &CronFederatedHPA) -> ObjectReference {
    reference(&CronFederatedHPA::api_version(&()), &CronFederatedHPA::kind(&()), &object.metadata)
}
