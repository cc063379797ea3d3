//! The FederatedHPA controller: scales workloads by the metrics of all their clusters (specification/autoscaling.md 2).

mod apply;
mod ask;
pub(crate) mod metrics;
mod observe;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_api::{autoscaling::FederatedHPA, work::ObjectReference};
use ironclad_autoscaling::{
    federated_hpa::{
        self,
        report::{Report, Round},
    },
    wakes,
};
use ironclad_fleet::{BindingKey, reference};
use ironclad_hpa::{
    Plan, explain,
    history::History,
    options::Options,
    plan::Written,
    selecting::{Selection, others},
    spec::Spec,
    status::{before_zero, status},
};
use ironclad_membermetrics::MemberMetrics;
use ironclad_members::Member;
use ironclad_patch::selector::LabelSelector;
use ironclad_planning::history as lately;
use ironclad_runtime::{Change, Failure, Informer, Key, Next, Queue};
use ironclad_seam::Seam;
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{CrossVersionObjectReference, HorizontalPodAutoscaler};
use kube::Resource as _;
use parking_lot::Mutex;

use self::{
    apply::Applier,
    ask::Asker,
    metrics::HpaMetrics,
    observe::{NotObserved, Observed, Observer},
};
use crate::{
    caches::{FEDERATED_HPAS, HORIZONTAL_POD_AUTOSCALERS},
    controller::{Controller, Reconciler},
    index::{BY_SCALED, template_name},
    setup::{Setup, on_change, on_connect},
};

/// Wait after the first of several failed rounds; it doubles up to the period of successful ones.
const RETRY_FIRST: Duration = Duration::from_secs(1);

/// Interval at which an object looks for the place of its target at first.
const FIRST_LOOK: Duration = Duration::from_secs(1);

struct Autoscaler {
    seam: Seam,
    options: Options,
    queue: Queue<Key>,
    objects: Informer<FederatedHPA>,
    observer: Observer,
    applier: Applier,
    metrics: HpaMetrics,
    states: Mutex<BTreeMap<Key, State>>,
    /// Memory of the last hour, if the process keeps one.
    lately: Option<Arc<Mutex<lately::History>>>,
}

/// State in memory of one object.
#[derive(Clone, Default)]
struct State {
    uid: String,
    /// The workload. State of another one says nothing about it.
    target: CrossVersionObjectReference,
    /// False until its replicas are read for the first time.
    is_begun: bool,
    history: History,
    /// Selector of its pods, by which others of the namespace find that they share them.
    selector: Option<LabelSelector>,
    /// Rounds that failed one after another.
    failures: u32,
    /// The last round, for people.
    report: Option<Arc<Report>>,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let objects = setup.caches.take(&FEDERATED_HPAS);
    let metrics = setup.register(HpaMetrics::register);
    let options = federated_hpa::with_gates(setup.settings.federated_hpa.clone(), &setup.settings.gates);
    let this = Arc::new(Autoscaler {
        seam: setup.seam.clone(),
        queue: setup.queue(Autoscaler::NAME),
        observer: Observer {
            plane: setup.plane.clone(),
            clock: setup.seam.clock.clone(),
            mapper: setup.mapper.clone(),
            distributed: setup.caches.take(&HORIZONTAL_POD_AUTOSCALERS),
            templates: setup.templates().clone(),
            bindings: setup.bindings().clone(),
            fleet: setup.fleet().clone(),
            members: setup.members.clone(),
            asker: Asker {
                mapper: setup.mapper.clone(),
                members: MemberMetrics::new(setup.seam.clock.clone(), setup.settings.member_metrics.clone()),
                clock: setup.seam.clock.clone(),
                metrics: metrics.clone(),
                options: options.clone(),
            },
            selectors: Mutex::default(),
        },
        applier: Applier {
            plane: setup.plane.clone(),
            mapper: setup.mapper.clone(),
            events: setup.events.clone(),
            writer: setup.writer(Autoscaler::NAME),
            objects: objects.clone(),
        },
        objects,
        options,
        metrics,
        states: Mutex::default(),
        lately: setup.settings.history.clone(),
    });
    on_change(&this.objects, &this, Autoscaler::on_object);
    on_change(&this.observer.distributed, &this, Autoscaler::on_distributed);
    let weak = Arc::downgrade(&this);
    setup.explain.offer_autoscalers(move |key| weak.upgrade()?.states.lock().get(key)?.report.clone());
    on_connect(setup, &this, |this, member: &Arc<Member>| this.observer.asker.members.forget(&member.name));
    this
}

impl Reconciler for Autoscaler {
    type Key = Key;
    const NAME: &'static str = "federatedHorizontalPodAutoscaler";
    /// Objects that are reconciled at once. Most of a round is spent in waiting for members.
    const WORKERS: usize = 8;
    const HAS_APPOINTMENTS: bool = true;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let live = |object: &Arc<FederatedHPA>| object.metadata.deletion_timestamp.is_none();
        let Some(object) = self.objects.get_key(key).filter(live) else {
            self.states.lock().remove(key);
            return Ok(Next::Forget);
        };
        let began = self.seam.clock.mono();
        let observed = self.observer.observe(&object, &self.spec(&object)).await;
        let mut state = self.state(key, &object);
        // The time after the questions: answers are not from the future.
        let now = self.seam.clock.wall_seconds();
        let created = object.metadata.creation_timestamp.as_ref().map(|time| time.0);
        if let Err(NotObserved { unread, .. }) = &observed
            && let Some(left) = unread.patience(created, now)
        {
            // Soon, so that the first round follows the scheduler closely.
            let left = Duration::try_from(left).unwrap_or(FIRST_LOOK);
            return Ok(Next::After(left.min(FIRST_LOOK)));
        }
        let plan = self.decide(key, &object, observed, &mut state, now);
        if let Some(status) = before_zero(object.status.as_ref(), &plan, now) {
            self.states.lock().insert(key.clone(), state);
            self.applier.write_status(&object, &reference_of(&object), &status).await?;
            return Ok(Next::After(Duration::ZERO));
        }
        let written = self.applier.scale(&object, &plan).await;
        let outcome = self.finish(&object, &plan, &written, &mut state, now).await;
        let failed = plan.error.is_some() || outcome.is_err() || matches!(written, Written::Failed(_));
        state.failures = if failed { state.failures.saturating_add(1) } else { 0 };
        let wait = self.wait(state.failures);
        self.metrics.rounded(&plan, failed && !plan.is_complete, self.seam.clock.mono() - began);
        self.states.lock().insert(key.clone(), state);
        outcome?;
        Ok(Next::After(wait))
    }
}

impl Autoscaler {
    fn decide(
        &self,
        key: &Key,
        object: &FederatedHPA,
        observed: Result<Observed, NotObserved>,
        state: &mut State,
        now: Timestamp,
    ) -> Plan {
        let mut observed = match observed {
            Ok(observed) => observed,
            Err(NotObserved { unread, current }) => {
                let plan = unread.plan(current);
                state.report =
                    Some(Arc::new(self.round(object, &self.spec(object), &plan, &state.history, now).report()));
                return plan;
            }
        };
        state.selector.clone_from(&observed.selector);
        self.find_others(key, &mut observed);
        let (spec, seen) = (self.spec(object), observed.snapshot());
        if !std::mem::replace(&mut state.is_begun, true) {
            state.history = History::begin(observed.current, object.status.as_ref(), now);
        }
        let history = &mut state.history;
        history.settle(seen.is_settling, now);
        let began = self.seam.clock.mono();
        let (plan, trace) = explain(&spec, &seen, &observed.readings, history, &self.options, now);
        self.metrics.computed(&trace.metrics, observed.current, self.seam.clock.mono() - began);
        let report = Round {
            seen: Some(&seen),
            readings: &observed.readings,
            unreached: &observed.unreached,
            trace: Some(&trace),
            ..self.round(object, &spec, &plan, &state.history, now)
        };
        let report = report.report();
        if let Some(lately) = &self.lately {
            let proposals = report.metrics.iter().map(|metric| metric.proposal).collect();
            let round = lately::Round { at: now, current: report.current, desired: report.desired, proposals };
            let key = BindingKey { namespace: (*key.namespace).into(), name: (*key.name).into() };
            lately.lock().round(key, round);
        }
        state.report = Some(Arc::new(report));
        plan
    }

    /// The spec, with what the last round left in the status.
    fn spec<'a>(&self, object: &'a FederatedHPA) -> Spec<'a> {
        federated_hpa::spec(&object.spec).with_status(object.status.as_ref(), &self.options)
    }

    /// A round of which nothing was seen, for people.
    fn round<'a>(
        &'a self,
        object: &'a FederatedHPA,
        spec: &'a Spec<'a>,
        plan: &'a Plan,
        history: &'a History,
        now: Timestamp,
    ) -> Round<'a> {
        Round {
            namespace: object.metadata.namespace.as_deref().unwrap_or_default(),
            name: object.metadata.name.as_deref().unwrap_or_default(),
            spec,
            seen: None,
            readings: &[],
            unreached: &[],
            trace: None,
            plan,
            history,
            options: &self.options,
            now,
        }
    }

    /// Tells the decision which other autoscalers select the same pods.
    fn find_others(&self, key: &Key, observed: &mut Observed) {
        let Selection::By(selector) = &observed.selection else { return };
        let states = self.states.lock();
        let namespace = Key::new(&key.namespace, "")..;
        let same = states.range(namespace).take_while(|(other, _)| other.namespace == key.namespace);
        let selectors = same.filter_map(|(other, state)| Some((&*other.name, state.selector.as_ref()?)));
        let others = others(&key.name, observed.pods.values().map(|pod| &**pod), selectors);
        if !others.is_empty() {
            observed.selection = Selection::Ambiguous { selector: selector.clone(), others };
        }
    }

    /// Records the round in memory, and writes events and status.
    async fn finish(
        &self,
        object: &FederatedHPA,
        plan: &Plan,
        written: &Written,
        state: &mut State,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let about = reference_of(object);
        let events = plan.events.iter().cloned().chain(plan.notice_of(written)).collect();
        let history = &mut state.history;
        plan.record(history, written, now);
        history.forget(&self.spec(object), &self.options, now);
        let news = history.news(events);
        self.applier.record_events(&about, news);
        let status = status(object.status.as_ref(), object.metadata.generation, plan, written, now);
        self.applier.write_status(object, &about, &status).await
    }

    fn state(&self, key: &Key, object: &FederatedHPA) -> State {
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let target = &object.spec.scale_target_ref;
        let known = self.states.lock().get(key).filter(|state| state.uid == uid && state.target == *target).cloned();
        known.unwrap_or_else(|| State { uid, target: target.clone(), ..State::default() })
    }

    fn wait(&self, failures: u32) -> Duration {
        let period = Duration::try_from(self.options.sync_period).unwrap_or(RETRY_FIRST).max(RETRY_FIRST);
        match failures.checked_sub(1) {
            None => period,
            Some(repeated) => RETRY_FIRST.saturating_mul(1 << repeated.min(16)).min(period),
        }
    }

    /// An autoscaler whose target begins or ceases to be scaled by members works from now on, or does not.
    fn on_distributed(&self, change: &Change<HorizontalPodAutoscaler>) {
        for target in wakes::distributed_hpa::target(change.old.as_deref(), change.new.as_deref()) {
            let objects = self.objects.by_index(BY_SCALED, &template_name(&target));
            objects.iter().for_each(|object| self.queue.add(Key::of(&**object)));
        }
    }

    fn on_object(&self, change: &Change<FederatedHPA>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if let Some(old) = old.filter(|old| wakes::federated_hpa::leaves_target(old, new)) {
            self.observer.forget(old);
        }
        if let Some(object) = new.or(old).filter(|_| wakes::federated_hpa::object(old, new)) {
            self.queue.add(Key::of(object));
        }
    }
}

fn reference_of(object: &FederatedHPA) -> ObjectReference {
    reference(&FederatedHPA::api_version(&()), &FederatedHPA::kind(&()), &object.metadata)
}
