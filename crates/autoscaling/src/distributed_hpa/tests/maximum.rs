//! The maximum at every moment, whatever happens in which order: members apply what they got, scale and report when
//! they like.

use super::*;

const NAMES: [&str; 3] = ["A", "B", "C"];

/// The next event of a run.
#[derive(Debug, Clone)]
enum Turn {
    /// The load of a member is for this many replicas.
    Load(usize, i32),
    /// A member gets the present content of its Work.
    Apply(usize),
    /// The autoscaler of a member looks once.
    Scale(usize),
    Report(usize),
    Ready(usize, bool),
    Place(Vec<i32>),
    Maximum(i32),
    Pass(i64),
    Decide,
}

fn any_turn() -> impl Strategy<Value = Turn> {
    let member = || 0..3_usize;
    prop_oneof![
        3 => (member(), 0..90_i32).prop_map(|(at, replicas)| Turn::Load(at, replicas)),
        3 => member().prop_map(Turn::Apply),
        3 => member().prop_map(Turn::Scale),
        3 => member().prop_map(Turn::Report),
        1 => (member(), any::<bool>()).prop_map(|(at, ready)| Turn::Ready(at, ready)),
        1 => prop::collection::vec(1..20_i32, 1..4).prop_map(Turn::Place),
        1 => (1..90_i32).prop_map(Turn::Maximum),
        1 => (1..200_i64).prop_map(Turn::Pass),
        4 => Just(Turn::Decide),
    ]
}

#[derive(Debug, Default)]
struct Member {
    /// Bounds of its autoscaler.
    bounds: Option<split::Bounds>,
    /// Generation of the Work that it applied.
    generation: i64,
    runs: i32,
    load: i32,
    ready: bool,
}

struct Fleet {
    world: World,
    members: [Member; 3],
    strict: bool,
    /// The most that there was since the last change that is not a write.
    most: i32,
}

impl Fleet {
    fn new(strict: bool) -> Self {
        let mut world = World::new(&[("A", 1), ("B", 1), ("C", 1)], (3, 60));
        if strict {
            world.annotate(annotations::FEDERATED_HPA_STRICT_MAX, "true");
        }
        let member = || Member { ready: true, runs: 1, ..Member::default() };
        Self { world, members: [member(), member(), member()], strict, most: 0 }
    }

    fn work(&self, at: usize) -> Option<&Arc<Work>> {
        self.world.works.iter().find(|work| &*key_of(work).unwrap().cluster.0 == NAMES[at])
    }

    fn written(&self, at: usize) -> Option<split::Bounds> {
        self.work(at).and_then(|work| manifest::bounds_of(&work.spec.workload.manifests[0].object()))
    }

    /// The most that members may have: what their Works say, and with strict-max what they have of earlier ones.
    fn sum(&self) -> i32 {
        let of = |at: usize| {
            let member = &self.members[at];
            let written = self.written(at).map_or(0, |bounds| bounds.max);
            match (self.strict, member.bounds) {
                (true, Some(bounds)) => written.max(bounds.max).max(member.runs),
                (true, None) => written,
                (false, _) if member.ready => written,
                (false, _) => 0,
            }
        };
        (0..3).map(of).sum()
    }

    fn limit(&self) -> i32 {
        let spec = &self.world.binding.as_ref().unwrap().spec;
        self.world.hpa.spec.max_replicas.max(i32::try_from(spec.clusters.len()).unwrap())
    }

    fn turn(&mut self, turn: Turn) {
        match turn {
            Turn::Load(at, replicas) => self.members[at].load = replicas,
            Turn::Apply(at) => {
                let generation = self.work(at).and_then(|work| work.metadata.generation);
                if let Some((generation, bounds)) = generation.zip(self.written(at)).filter(|_| self.members[at].ready)
                {
                    self.members[at].bounds = Some(bounds);
                    self.members[at].generation = generation;
                }
            }
            Turn::Scale(at) => {
                let member = &mut self.members[at];
                if let Some(bounds) = member.bounds {
                    member.runs = member.load.clamp(bounds.min, bounds.max);
                }
            }
            Turn::Report(at) => self.report(at),
            Turn::Ready(at, ready) => {
                self.members[at].ready = ready;
                self.world.set_ready(NAMES[at], if ready { "True" } else { "False" });
            }
            Turn::Place(replicas) => {
                let targets: Vec<(&str, i32)> = NAMES.into_iter().zip(replicas).collect();
                self.world.place(&targets);
                self.world.old_copies = NAMES[targets.len()..].to_vec();
            }
            Turn::Maximum(max) => {
                self.world.hpa.spec.max_replicas = max;
                self.world.hpa.spec.min_replicas = Some(max.min(3));
            }
            Turn::Pass(seconds) => self.world.second += seconds,
            Turn::Decide => return self.decide(),
        }
        self.most = self.sum();
    }

    fn report(&mut self, at: usize) {
        let member = &self.members[at];
        let is_current = self.work(at).is_some_and(|work| work.metadata.generation == Some(member.generation));
        if !member.ready || !is_current {
            return;
        }
        let limited = member.bounds.is_some_and(|bounds| member.load > bounds.max);
        let reason = if limited { "TooManyReplicas" } else { "DesiredWithinRange" };
        let report = json!({"currentReplicas": member.runs, "desiredReplicas": member.runs, "conditions": [
            {"type": "AbleToScale", "status": "True", "reason": READY, "message": ""},
            {"type": "ScalingLimited", "status": if limited { "True" } else { "False" }, "reason": reason, "message": ""}]});
        self.world.report_as(NAMES[at], &report);
    }

    fn decide(&mut self) {
        let has_too_little = |at: usize| {
            let limited = self.work(at).and_then(|work| report::read(work)?.condition("ScalingLimited").cloned());
            limited.is_some_and(|limited| limited.is_true()).then(|| self.written(at)).flatten()
        };
        let (before, limited): (Vec<_>, Vec<_>) = (0..3).map(|at| (self.written(at), has_too_little(at))).unzip();
        for effect in self.world.decide().effects {
            let text = format!("{effect:?}");
            self.world.apply(effect);
            for at in 0..3 {
                if self.work(at).is_none() {
                    self.members[at].bounds = None;
                }
            }
            let (sum, limit) = (self.sum(), self.limit());
            assert!(sum <= limit.max(self.most), "{sum} of {limit}, {} before {text}", self.most);
            self.most = sum;
        }
        self.what_runs_stays(&before, &limited);
    }

    /// No maximum is lowered below what runs, unless all of that is too much, or somebody has less than its share and
    /// needs it.
    fn what_runs_stays(&self, before: &[Option<split::Bounds>], limited: &[Option<split::Bounds>]) {
        let state = self.world.state();
        let of = |at: usize| state.clusters.get(&ClusterName::from(NAMES[at]));
        // Whoever says that it is at its maximum needs its share, also if it has not scaled up yet.
        let is_limited = |at: usize| {
            let runs = of(at).map_or(0, |state| state.current.unwrap_or(0));
            of(at).is_some_and(|state| limited[at].is_some_and(|has| has.max.min(runs) < state.share))
        };
        let spec = &self.world.binding.as_ref().unwrap().spec;
        // A copy whose reports do not count may get what the binding gives it.
        let held = |at: usize| {
            let given = spec.target(NAMES[at]).map_or(0, |target| target.replicas);
            of(at).filter(|state| state.hold.is_some()).map_or(0, |_| given)
        };
        let all: i32 = (0..3)
            .filter_map(|at| {
                let runs = of(at)?.current.unwrap_or(20).max(of(at)?.min).max(held(at));
                Some(runs.max(if self.members[at].ready { 1 } else { 20 }))
            })
            .sum();
        if all > self.limit() || (0..3).any(is_limited) {
            return;
        }
        for at in 0..3 {
            let Some((written, state)) = self.written(at).zip(of(at)) else { continue };
            let runs = state.current.unwrap_or(0).min(before[at].map_or(i32::MAX, |bounds| bounds.max));
            assert!(written.max >= runs, "{}: {runs} run, and its maximum is {written:?}; {state:?}", NAMES[at]);
        }
    }

    /// All that is ready works as it should, without any time that passes.
    fn come_to_rest(&mut self) {
        for _ in 0..8 {
            self.turn(Turn::Decide);
            for turn in [Turn::Apply, Turn::Scale, Turn::Report] {
                (0..3).for_each(|at| self.turn(turn(at)));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_maximum_is_one_at_every_moment(strict: bool, turns in prop::collection::vec(any_turn(), 1..60)) {
        let mut fleet = Fleet::new(strict);
        fleet.come_to_rest();
        for turn in turns {
            fleet.turn(turn);
        }
        // A member that was lost keeps what it has until it returns.
        (0..3).for_each(|at| fleet.turn(Turn::Ready(at, true)));
        fleet.world.old_copies.clear();
        fleet.come_to_rest();
        let limit = fleet.limit();
        let runs: i32 = (0..3).filter(|at| fleet.work(*at).is_some()).map(|at| fleet.members[at].runs).sum();
        prop_assert!(runs <= limit, "{runs} of {limit} run once everybody did its part");
        // Reports of members that returned are not believed at once.
        fleet.turn(Turn::Pass(100));
        // Everybody needs more than its share: everybody gets it.
        (0..3).for_each(|at| fleet.turn(Turn::Load(at, 200)));
        fleet.come_to_rest();
        fleet.come_to_rest();
        for (cluster, state) in fleet.world.state().clusters {
            prop_assert_eq!(state.max, state.share, "{}", cluster);
        }
    }
}
