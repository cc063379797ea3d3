//! The group `explain.ironclad.io` of this process: the state of its controllers, and the process that leads.

use ironclad_api::annotations::EXPLAIN_LEADER_ADDRESS;
use ironclad_controllers::Controllers;
use ironclad_extension::explain::{Leader, Leads};
use ironclad_failover::taint_manager::{Report, Row};
use ironclad_fleet::BindingKey;
use ironclad_planning::{
    history::{Of, Told},
    leader::{Configuration, EstimatorAnswer, QueuedBinding},
};
use ironclad_runtime::leader::Elector;
use serde_json::Value;

use crate::term::Present;

/// The controllers of this process; none while another one leads.
pub(crate) struct Here(pub(crate) Present<Controllers>);

impl Here {
    fn ask<T>(&self, question: impl FnOnce(&Controllers) -> Option<T>) -> Option<T> {
        let controllers = self.0.lock().clone();
        question(&*controllers?)
    }
}

impl Leader for Here {
    fn evictions(&self) -> Option<(Report, Vec<Row>)> {
        self.ask(Controllers::explain_evictions)
    }

    fn autoscaler(&self, namespace: &str, name: &str) -> Option<Value> {
        serde_json::to_value(&*self.ask(|controllers| controllers.explain_autoscaler(namespace, name))?).ok()
    }

    fn history(&self, of: &Of) -> Option<Told> {
        self.ask(|controllers| controllers.history(of))
    }

    fn configuration(&self) -> Option<Configuration> {
        self.ask(|controllers| Some(controllers.configuration()))
    }

    fn estimates(&self, binding: &BindingKey) -> Vec<EstimatorAnswer> {
        self.ask(|controllers| Some(controllers.explain_estimates(binding))).unwrap_or_default()
    }

    fn scheduling_queue(&self) -> Option<Vec<QueuedBinding>> {
        self.ask(Controllers::explain_scheduling_queue)
    }
}

/// The process that can answer: this one while it leads, or the one whose address is on the Lease.
pub(crate) fn leads(elector: &Elector) -> Leads {
    let holder = elector.holder();
    match elector.annotation(EXPLAIN_LEADER_ADDRESS) {
        _ if elector.leads() => Leads::Here,
        _ if holder.is_empty() => Leads::Nowhere("no process leads".to_owned()),
        Some(address) => Leads::At(address),
        None => Leads::Nowhere(format!("the leader {holder} is not asked: start it with --explain-bind-address")),
    }
}
