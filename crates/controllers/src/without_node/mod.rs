//! Conditions and events about the pods of preemptors for which members found no node (specification/scheduling.md
//! 15.10). It keeps no state: the pods are found in the caches of the connected members.

use std::sync::Arc;

use ironclad_fleet::{Binding, ClusterName};
use ironclad_members::{Member, Pod, WithoutNode};
use ironclad_runtime::{Change, Failure, Key, Next, Queue};
use ironclad_scheduling::{
    preempt::Mode,
    wakes,
    without_node::{self, SETTLES, Waiting},
};

use crate::{
    bindings::{BindingChange, Bindings, queue_key},
    controller::{Controller, Reconciler},
    events::Events,
    setup::{Accounts, Setup, on_connect},
};

/// Its name, also as a contributor of status.
pub(crate) const NAME: &str = "withoutNode";

struct WithoutNodes {
    queue: Queue<Key>,
    bindings: Bindings,
    accounts: Accounts,
    events: Events,
    mode: Mode,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let this = Arc::new(WithoutNodes {
        queue: setup.queue(WithoutNodes::NAME),
        bindings: setup.bindings().clone(),
        accounts: setup.accounts().clone(),
        events: setup.events.clone(),
        mode: setup.capacity().options().preemption(),
    });
    setup.bindings().on_change(&this, WithoutNodes::on_binding);
    if this.mode != Mode::Off {
        on_connect(setup, &this, WithoutNodes::follow);
    }
    this
}

impl Reconciler for WithoutNodes {
    type Key = Key;
    const NAME: &'static str = NAME;
    /// Bindings that are reconciled at once.
    const WORKERS: usize = 1;
    const HAS_APPOINTMENTS: bool = true;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(binding) = self.bindings.get_as_requested(key) else { return Ok(Next::Forget) };
        let asked = without_node::questions(binding.view(), self.mode).into_iter();
        let waiting = asked.map(|cluster| (cluster.clone(), self.waiting(&cluster, key))).collect();
        let decision = without_node::decide(binding.view(), self.mode, &waiting);
        if let Some(part) = decision.status {
            self.bindings.request_status(key, binding.uid(), NAME, part);
        }
        self.events.record_all(&decision.events);
        Ok(decision.again.map_or(Next::Forget, Next::After))
    }
}

impl WithoutNodes {
    /// Pods without node in a cluster, of the workload of this binding.
    fn waiting(&self, cluster: &ClusterName, binding: &Key) -> Vec<Waiting> {
        let Some(account) = self.accounts.get(cluster) else { return Vec::new() };
        let pods = account.without_node(&binding.namespace, &binding.name);
        let found = pods.iter().filter_map(|pod| pod.without_node());
        found.map(|found| Waiting { pod: found.pod.to_owned(), message: found.message.to_owned() }).collect()
    }

    fn on_binding(&self, change: &BindingChange) {
        let Some(new) = &change.new else { return };
        let old = change.old.as_ref().map(Binding::view);
        if let Some(wait) = wakes::without_node::binding(old, new.view(), self.mode) {
            self.queue.add_after(queue_key(new), wait);
        }
    }

    fn follow(this: &Arc<Self>, member: &Arc<Member>) {
        let queue = this.queue.clone();
        let Some(account) = this.accounts.get(&member.name) else { return };
        account.pods().on_change(move |change: &Change<Pod>| {
            let (old, new) = (change.old.as_deref(), change.new.as_deref());
            let (old, new) = (old.and_then(Pod::without_node), new.and_then(Pod::without_node));
            if old != new {
                let bindings = [old, new].into_iter().flatten();
                let keys = bindings.map(|WithoutNode { namespace, binding, .. }| Key::new(namespace, &binding));
                keys.for_each(|key| queue.add_after(key, SETTLES));
            }
        });
    }
}
