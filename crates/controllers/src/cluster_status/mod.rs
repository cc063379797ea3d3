//! The cluster status controller: probes members, and collects the kinds that they serve and the resources of their
//! nodes (specification/failover.md 1).

mod collect;
mod health;
pub(crate) mod metrics;
mod witness;

use std::sync::{Arc, atomic::Ordering};

use ironclad_api::cluster::Cluster;
use ironclad_members::{Member, Members};
use ironclad_propagation::wakes::drift;
use ironclad_runtime::Change;

use self::{
    collect::Collector,
    health::{Found, HealthChecks},
    metrics::ClusterMetrics,
};
use crate::{
    controller::Controller,
    member_object::{MemberObject, MemberObjects},
    setup::{Setup, on_change, on_serve},
};

struct ClusterStatus {
    members: Arc<Members>,
    objects: MemberObjects,
    checks: Arc<HealthChecks>,
    collector: Arc<Collector>,
    metrics: ClusterMetrics,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let metrics = setup.register(ClusterMetrics::register);
    let collector = Collector::new(setup);
    let this = Arc::new(ClusterStatus {
        members: setup.members.clone(),
        objects: setup.member_objects().clone(),
        checks: HealthChecks::new(setup, metrics.clone(), collector.clone()),
        collector,
        metrics,
    });
    on_change(setup.clusters(), &this, ClusterStatus::on_cluster);
    let weak = Arc::downgrade(&this.checks);
    setup.members.on_join(move |name, now, tasks| {
        let Some(checks) = weak.upgrade() else { return };
        let (name, now) = (name.clone(), now.clone());
        let clock = checks.clock().clone();
        tasks.supervise(&clock, "health", move || {
            let (checks, name, now) = (checks.clone(), name.clone(), now.clone());
            async move { checks.run(&name, &now).await }
        });
    });
    on_serve(setup, &this, |this, member| {
        let checked = this.checks.found.set(member, Found::of(this.collector.start(member)));
        this.watch_kinds(member, &checked);
    });
    this
}

impl Controller for ClusterStatus {}

impl ClusterStatus {
    fn on_cluster(&self, change: &Change<Cluster>) {
        self.metrics.changed(change);
    }

    /// Requests a check when a definition in the member changes the kinds that it serves.
    fn watch_kinds(&self, member: &Member, found: &Arc<Found>) {
        let Some(objects) = self.objects.get(&member.name) else { return };
        let (name, members, weak) = (member.name.clone(), Arc::downgrade(&self.members), Arc::downgrade(found));
        objects.on_change(move |gvk, change: &Change<MemberObject>| {
            let (old, new) =
                (change.old.as_deref().map(MemberObject::cached), change.new.as_deref().map(MemberObject::cached));
            if drift::changes_kinds(gvk, old, new)
                && let (Some(members), Some(found)) = (members.upgrade(), weak.upgrade())
            {
                found.kinds_changed.store(true, Ordering::Relaxed);
                members.check_now(&name);
            }
        });
    }
}
