//! Decisions of the control plane, taken over a copy of the fleet whose objects change as the decisions write them.
//!
//! `why` and `plan apply` ask the same [`Replay::template`], so their answers agree. Each template gets one reconcile
//! of the scheduler, which sees the results of those before.

mod dependencies;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::cluster::Cluster;
use ironclad_fleet::{Because, Binding, BindingKey, ClusterName, ObjectKey, PolicyKey, because::propagation::Reason};
use ironclad_interpreter::{Dependency, Interpreter};
use ironclad_propagation::{
    detector::{self, claim::Claim},
    new_ids::NewIds,
    policy::{self, Candidate, Claimed},
    policy_match::Policy,
    skipped_resources::Skipped,
};
use ironclad_scheduling::estimator::Workload;
use jiff::Timestamp;

use crate::{
    Fleet, Scheduling,
    schedule::{self, State},
    world::{put_binding, with_result},
};

/// Most reconciles of the detector on one template. Three lead from a template to its binding: claim, permanent id,
/// binding.
const RECONCILES_MAX: usize = 6;

/// Feature gate `PropagationPolicyPreemption`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preemption {
    /// The default: a claimed template keeps its policy.
    Off,
    /// A policy may take templates from policies of lower priority.
    On,
}

/// The decisions on one template.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Placement {
    /// True if the detector ignores the template, because of its kind or its namespace.
    pub skipped: bool,
    /// Reasons of the detector, without repetitions.
    pub because: Vec<Because>,
    /// The scheduler's decision, if the template has or gets a binding.
    pub scheduling: Option<Scheduling>,
    /// Clusters whose nodes decide on it, and that were not asked for them.
    pub unasked: BTreeSet<ClusterName>,
}

/// A copy of the fleet and what decides over it.
#[derive(Debug, Clone)]
pub struct Replay<'a> {
    /// The fleet as the decisions so far leave it.
    pub fleet: Fleet,
    interpreter: &'a Interpreter,
    now: Timestamp,
    /// Objects that workloads refer to. A fleet that lacks one of them makes the answer incomplete.
    needs: Vec<Dependency>,
    decisions: u32,
    /// State of the scheduler, from the first schedule on. Templates are scheduled one after the other, so that each
    /// result counts for the next.
    scheduler: Option<State>,
    /// Bindings that the scheduler takes again, since another member of their groups got other clusters.
    woken: BTreeSet<BindingKey>,
}

impl<'a> Replay<'a> {
    /// Starts from this fleet at this time.
    #[must_use]
    pub fn new(fleet: Fleet, interpreter: &'a Interpreter, now: Timestamp) -> Self {
        Self { fleet, interpreter, now, needs: Vec::new(), decisions: 0, scheduler: None, woken: BTreeSet::new() }
    }

    /// One reconcile of a policy: it releases templates that it does not select any more and preempts others. Returns
    /// the reasons by template.
    pub fn policy(&mut self, key: &PolicyKey, preemption: Preemption) -> BTreeMap<ObjectKey, Vec<Because>> {
        let mut changed: BTreeMap<ObjectKey, Vec<Because>> = BTreeMap::new();
        let fleet = self.fleet.clone();
        let Some(policy) = fleet.policy(key) else { return changed };
        let world = &fleet.world;
        let is_claimed = |claim: Option<Claim>| claim.is_some_and(|claim| claim.policy() == *key);
        let bindings: Vec<_> = world.all_bindings().collect();
        let claimed: Vec<Claimed<'_>> = bindings
            .iter()
            .filter(|binding| is_claimed(Claim::of_metadata(binding.metadata())))
            .map(|binding| {
                let template = world.templates.iter().find(|(key, _)| binding.view().is_of(key));
                Claimed { binding: binding.view(), template: template.map(|(_, template)| &**template) }
            })
            .collect();
        let templates: Vec<policy::Template<'_>> = world
            .templates
            .values()
            .filter(|template| is_claimed(Claim::of_template(template)))
            .map(|template| policy::Template { template, binding: None })
            .collect();
        let candidates: Vec<Candidate<'_>> = world
            .templates
            .values()
            .filter_map(|template| {
                let holder = fleet.policy(&Claim::of_template(template)?.policy());
                Some(Candidate { template, holder })
            })
            .collect();
        let seen = policy::Seen {
            policy,
            claimed: &claimed,
            templates: &templates,
            waiting: &[],
            preemption: (preemption == Preemption::On).then_some(candidates.as_slice()),
            now: self.now,
        };
        let plan = policy::decide(&seen, next_ids(&mut self.decisions));
        let mut reasons = plan.because.into_iter().filter(|because| *because != Because::UpToDate);
        for effect in plan.effects {
            match effect {
                policy::Effect::PatchPolicy { patch } => self.fleet.patch_policy(key, &patch),
                policy::Effect::PatchTemplate { key, patch } => {
                    self.fleet.patch_template(&key, &patch);
                    changed.entry(key).or_default().extend(reasons.next());
                }
                policy::Effect::PatchBinding { key, patch } => self.fleet.patch_binding(&key, &patch),
                _ => {}
            }
        }
        changed
    }

    /// Reconciles of the detector until nothing changes, with its reasons.
    pub fn claim(&mut self, key: &ObjectKey) -> Vec<Because> {
        let (skipped, mut because) = (Skipped::default(), Vec::new());
        if !skipped.skips_kind(&key.gvk) && !skipped.skips_object(&key.gvk, &key.namespace, &key.name) {
            for _ in 0..RECONCILES_MAX {
                if !self.detect(key, &mut because) {
                    break;
                }
            }
        }
        because
    }

    /// Reconciles of the detector until nothing changes, and one of the scheduler.
    pub fn template(&mut self, key: &ObjectKey) -> Placement {
        let skipped = Skipped::default();
        let mut placement = Placement::default();
        if skipped.skips_kind(&key.gvk) || skipped.skips_object(&key.gvk, &key.namespace, &key.name) {
            placement.skipped = true;
            return placement;
        }
        for _ in 0..RECONCILES_MAX {
            if !self.detect(key, &mut placement.because) {
                break;
            }
        }
        if let Some(binding) = self.fleet.world.binding_of(key) {
            let (fleet, world) = (&self.fleet, &self.fleet.world);
            let state = self.scheduler.get_or_insert_with(|| State::of_fleet(fleet, self.now));
            let options = &fleet.settings.scheduler;
            state.ask(binding.view(), options);
            let scheduling = schedule::schedule(&binding, &world.clusters, state, options, self.now);
            placement.unasked = schedule::unasked(fleet, binding.view(), &scheduling);
            // A binding without a placement follows its referrers: the scheduler writes no result.
            if binding.spec().placement.is_some() {
                let after = with_result(&binding, scheduling.result.clone());
                self.woken.extend(state.wakes(&binding, &after, world, options));
                state.written(&binding, &after, options);
                put_binding(&mut self.fleet.world, &binding.key(), after);
            }
            self.woken.remove(&binding.key());
            placement.scheduling = Some(scheduling);
        }
        placement
    }

    /// The next template whose binding the scheduler takes again, since another member of its groups got other
    /// clusters.
    pub(crate) fn next_woken(&mut self) -> Option<ObjectKey> {
        let key = self.woken.pop_first()?;
        let world = &self.fleet.world;
        let is_its = |template: &&ObjectKey| world.binding_of(template).is_some_and(|binding| binding.key() == key);
        world.templates.keys().find(is_its).cloned()
    }

    /// One reconcile of the detector. Returns true if it changed the template or its binding.
    fn detect(&mut self, key: &ObjectKey, because: &mut Vec<Because>) -> bool {
        let fleet = &self.fleet;
        let Some(template) = fleet.world.templates.get(key) else { return false };
        let present = fleet.world.binding_of(key);
        let policies: Vec<Policy<'_>> = fleet.policies().collect();
        let seen = detector::Seen {
            template,
            policies: &policies,
            binding: present.as_ref().map(Binding::view),
            named: None,
            waiting: None,
            overrides: &fleet.override_names(&key.namespace),
            cluster_overrides: &fleet.cluster_override_names(),
            priority_classes: fleet.priority_classes.as_deref(),
            interpreter: self.interpreter,
            options: &fleet.settings.detector(),
            now: self.now,
        };
        let plan = detector::decide(&seen, next_ids(&mut self.decisions));
        for reason in plan.because {
            // A claim that this replay has just made is no news in the next reconcile.
            let is_own = matches!(reason, Because::Propagation(Reason::StaysClaimed { .. })) && !because.is_empty();
            if reason != Because::UpToDate && !is_own && !because.contains(&reason) {
                because.push(reason);
            }
        }
        let mut changed = false;
        for effect in plan.effects {
            match effect {
                detector::Effect::PatchTemplate { patch } => {
                    self.fleet.patch_template(key, &patch);
                    changed = true;
                }
                detector::Effect::PatchPolicy { policy, patch } => self.fleet.patch_policy(&policy, &patch),
                detector::Effect::PatchBinding { key, patch } => {
                    self.fleet.patch_binding(&key, &patch);
                    changed = true;
                }
                detector::Effect::CreateBinding(binding) => self.fleet.world.insert_binding(*binding),
                detector::Effect::CreateClusterBinding(binding) => self.fleet.world.insert_cluster_binding(*binding),
                _ => {}
            }
        }
        changed
    }

    /// Changes a cluster for the schedules that follow.
    pub(crate) fn change_cluster(&mut self, name: &ClusterName, change: impl FnOnce(&mut Cluster)) {
        let Some(cluster) = self.fleet.world.clusters.get_mut(name) else { return };
        let before = cluster.clone();
        change(Arc::make_mut(cluster));
        if let Some(state) = &mut self.scheduler {
            state.capacity.cluster(name, Some(&before), Some(cluster));
        }
    }

    /// Counts pods of a workload in a cluster no more for the schedules that follow, where its nodes are known.
    pub(crate) fn forget_pods(&mut self, cluster: &ClusterName, workload: Workload, pods: i64) {
        if let Some(state) = &mut self.scheduler {
            state.capacity.forget_pods(cluster, workload, pods);
        }
    }

    /// Objects that the workloads so far refer to, sorted and without repetitions.
    #[must_use]
    pub fn needs(&self) -> Vec<Dependency> {
        let mut needs = self.needs.clone();
        Dependency::sort(&mut needs);
        needs
    }
}

/// Ids for the objects of one decision. They are only compared with others of the same replay.
fn next_ids(decisions: &mut u32) -> NewIds {
    *decisions += 1;
    NewIds::from(format!("given-when-applied-{decisions}-0000"))
}
