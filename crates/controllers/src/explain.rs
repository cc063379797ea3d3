//! What only the leader's memory knows, for whoever serves it (operations.md 4.4). Nothing here is on the way of a
//! reconcile: it is read when somebody asks.

use ironclad_api::conditions::{self, binding::SCHEDULED};
use ironclad_failover::eviction::{Report, Row};
use ironclad_fleet::BindingKey;
use ironclad_runtime::{Key, Queued};

use crate::Context;

impl Context {
    /// The rate in force and why, the faulty clusters, and everything that waits in order; `None` while no evictions are
    /// decided, since gate `Failover` or its controller is off. The report's own rows are left out.
    #[must_use]
    pub fn explain_evictions(&self) -> Option<(Report, Vec<Row>)> {
        let running = self.taint_manager.running.lock();
        let running = running.as_ref()?;
        let now = running.now();
        let report = Report { rows: Vec::new(), ..running.evictions.report(now) };
        Some((report, running.evictions.rows(now)))
    }

    /// The bindings that wait for the scheduler, in the order of their turns.
    #[must_use]
    pub fn explain_scheduling_queue(&self) -> Vec<(BindingKey, Queued<Key>)> {
        let key = |key: &Key| BindingKey { namespace: key.namespace.clone(), name: key.name.clone() };
        self.queues.scheduler.waiting().into_iter().map(|waiting| (key(&waiting.key), waiting)).collect()
    }

    /// The message of condition `Scheduled`.
    #[must_use]
    pub fn explain_scheduling(&self, binding: &BindingKey) -> Option<String> {
        let binding = self.bindings.get(&Key::new(&binding.namespace, &binding.name))?;
        let condition = conditions::get(&binding.view().status()?.conditions, SCHEDULED)?;
        Some(condition.message.clone())
    }
}
