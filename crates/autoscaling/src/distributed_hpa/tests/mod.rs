use ironclad_api::{Time, policy::FederatedResourceQuota};
use ironclad_propagation::overrides;
use proptest::prelude::*;
use serde::{Serialize, de::DeserializeOwned};

use super::{quota::Quotas, *};

mod maximum;
mod others;

const START: i64 = 1_790_000_000;

fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let map = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            map.remove(key);
        } else {
            merge(map.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

fn patched<T: Serialize + DeserializeOwned>(object: &T, patch: &Value) -> T {
    let mut json = json!(object);
    merge(&mut json, patch);
    serde_json::from_value(json).unwrap()
}

fn cluster(name: &str) -> Cluster {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"syncMode": "Push"}, "status": {
        "apiEnablements": [{"groupVersion": "autoscaling/v2",
            "resources": [{"name": "horizontalpodautoscalers", "kind": "HorizontalPodAutoscaler"}]}],
        "conditions": [{"type": "Ready", "status": "True", "reason": "r", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "CompleteAPIEnablements", "status": "True", "reason": "r", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}))
    .unwrap()
}

/// The control plane as far as it concerns one autoscaler. Effects are applied as the controller does.
struct World {
    hpa: HorizontalPodAutoscaler,
    /// An object of another kind, which counts instead.
    other: Option<Value>,
    template: Value,
    pointer: &'static str,
    scales: bool,
    binding: Option<ResourceBinding>,
    own_binding: Option<ResourceBinding>,
    clusters: Clusters,
    works: Vec<Arc<Work>>,
    /// Replicas that members report of the target.
    running: BTreeMap<&'static str, i64>,
    /// Clusters that still run the target although the binding does not list them.
    old_copies: Vec<&'static str>,
    policy: Option<OverridePolicy>,
    users: Vec<Arc<OverridePolicy>>,
    /// Limit of cpu of the quota of the namespace; each replica requests 100m.
    quota: Option<&'static str>,
    rivals: Vec<Rival>,
    reported: BTreeSet<ClusterName>,
    started: i64,
    second: i64,
    events: Vec<String>,
}

impl World {
    /// A target with these replicas by cluster.
    fn new(clusters: &[(&str, i32)], (min, max): (i32, i32)) -> Self {
        let total: i32 = clusters.iter().map(|(_, replicas)| replicas).sum();
        let hpa = serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": "uid-hpa", "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"federatedhpa.karmada.io/enabled": "true"}},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "minReplicas": min, "maxReplicas": max}}))
        .unwrap();
        let all: Clusters =
            clusters.iter().map(|(name, _)| (ClusterName::from(*name), Arc::new(cluster(name)))).collect();
        let mut world = Self {
            hpa,
            other: None,
            template: json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"namespace": "shop", "name": "web", "uid": "uid-web"}, "spec": {"replicas": total}}),
            pointer: "/spec/replicas",
            scales: true,
            binding: None,
            own_binding: None,
            reported: all.keys().cloned().collect(),
            clusters: all,
            works: Vec::new(),
            running: BTreeMap::new(),
            old_copies: Vec::new(),
            policy: None,
            users: Vec::new(),
            quota: None,
            rivals: Vec::new(),
            started: START,
            second: START + 1000,
            events: Vec::new(),
        };
        world.place(clusters);
        world
    }

    /// Schedules the target.
    fn place(&mut self, clusters: &[(&str, i32)]) {
        let total: i32 = clusters.iter().map(|(_, replicas)| replicas).sum();
        let targets: Vec<Value> =
            clusters.iter().map(|(name, replicas)| json!({"name": name, "replicas": replicas})).collect();
        self.binding = Some(
            serde_json::from_value(json!({
                "metadata": {"namespace": "shop", "name": "web-deployment", "generation": 1},
                "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
                    "replicas": total, "clusters": targets, "replicaRequirements": {"resourceRequest": {"cpu": "100m"}},
                    "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided"}}},
                "status": {"schedulerObservedGeneration": 1}}))
            .unwrap(),
        );
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.second).unwrap()
    }

    /// Works of the target, as the binding controller makes them, applied.
    fn target_works(&self) -> Vec<Arc<Work>> {
        let rules = self.policy.as_ref().map(overrides::recorded).unwrap_or_default();
        let template = self.template.pointer(self.pointer).and_then(Value::as_i64).unwrap_or(0);
        let of_policy = self.policy.as_ref().and_then(|policy| policy.metadata.annotations.as_ref());
        let observed = of_policy.and_then(|all| all.get(annotations::FEDERATED_HPA_OBSERVED_REPLICAS)).cloned();
        let of = |name: &str, given: i64| {
            let decided = rules.get(&ClusterName::from(name)).map_or(given, |number| i64::from(*number));
            let mark = if decided == given {
                format!("{template}/{given}")
            } else {
                format!("{}/{given}/member", observed.as_deref().unwrap_or_default())
            };
            let mut manifest = self.template.clone();
            let patch = json!({"metadata": {"annotations": {annotations::FEDERATED_HPA_APPLIED_REPLICAS: mark}}});
            merge(&mut manifest, &patch);
            if let Some(replicas) = manifest.pointer_mut(self.pointer) {
                *replicas = json!(decided);
            }
            Arc::new(
                serde_json::from_value(json!({
                    "metadata": {"namespace": format!("karmada-es-{name}"), "name": "web-target", "generation": 1},
                    "spec": {"workload": {"manifests": [manifest]}},
                    "status": {"conditions": [applied(1)], "manifestStatuses": self.running.get(name).map(|replicas| json!([
                        {"identifier": {"ordinal": 0, "version": "v1", "kind": "Deployment", "resource": "", "name": "web"},
                            "status": {"replicas": replicas}}])).unwrap_or(json!([]))}}))
                .unwrap(),
            )
        };
        let spec = self.binding.as_ref().map(|binding| &binding.spec);
        let targets = spec.iter().flat_map(|spec| &spec.clusters);
        let now = targets.map(|target| of(&target.name, i64::from(target.replicas)));
        now.chain(self.old_copies.iter().map(|name| of(name, 1))).collect()
    }

    fn scaler(&self) -> Scaler {
        let Some(object) = &self.other else { return self.hpa.clone().into() };
        let of = |field: &str| object[field].as_str().unwrap();
        let gvk = Gvk::from_manifest(of("apiVersion"), of("kind"));
        scaler::seen_by(&ironclad_interpreter::AutoscalerKind::shipped(), &gvk, object.clone()).unwrap()
    }

    fn decide(&self) -> Plan<Effect> {
        let target = match (&self.template, self.scales) {
            (Value::Null, _) => Target::Missing,
            (_, false) => Target::NoScale,
            (template, true) => Target::Found { template, replicas: self.pointer },
        };
        let overrides: Vec<Arc<OverridePolicy>> =
            self.users.iter().cloned().chain(self.policy.clone().map(Arc::new)).collect();
        let limit = |cpu: &str| -> FederatedResourceQuota {
            serde_json::from_value(
                json!({"metadata": {"namespace": "shop", "name": "q"}, "spec": {"overall": {"cpu": cpu}}}),
            )
            .unwrap()
        };
        let quotas: Vec<_> = self.quota.map(limit).map(Arc::new).into_iter().collect();
        let bindings: Vec<_> = self.binding.clone().map(Arc::new).into_iter().collect();
        let autoscalers = [Arc::new(self.hpa.clone())];
        let quotas = Quotas { quotas: &quotas, bindings: &bindings, overrides: &overrides, autoscalers: &autoscalers };
        let scaler = self.scaler();
        let seen = Seen {
            scaler: &scaler,
            rivals: &self.rivals,
            target,
            binding: self.binding.as_ref(),
            own_binding: self.own_binding.as_ref(),
            clusters: &self.clusters,
            works: &self.works,
            target_works: &self.target_works(),
            policy: self.policy.as_ref(),
            cluster_overrides: &[],
            overrides: &overrides,
            quotas,
            reported: &self.reported,
            started: Timestamp::from_second(self.started).unwrap(),
            options: &Options::default(),
            now: self.now(),
        };
        decide(&seen, NewIds::from("id-1".to_owned()))
    }

    /// Decides and applies. Returns the writes.
    fn step(&mut self) -> Vec<String> {
        let effects = self.decide().effects;
        effects.into_iter().filter_map(|effect| self.apply(effect)).collect()
    }

    /// Applies an effect. Returns the write.
    fn apply(&mut self, effect: Effect) -> Option<String> {
        let write = match effect {
            Effect::Patch { patch } | Effect::Release { patch } => {
                match &mut self.other {
                    Some(object) => merge(object, &patch),
                    None => self.hpa = patched(&self.hpa, &patch),
                }
                "hpa".to_owned()
            }
            Effect::Work(write) => self.write(write),
            Effect::DeleteOwnBinding { .. } => {
                self.own_binding = None;
                "delete binding".to_owned()
            }
            Effect::CreatePolicy(policy) => {
                assert!(self.policy.is_none());
                self.policy = Some(*policy);
                "create policy".to_owned()
            }
            Effect::PatchPolicy { patch } => {
                self.policy = self.policy.as_ref().map(|policy| patched(policy, &patch));
                "patch policy".to_owned()
            }
            Effect::DeletePolicy => {
                self.policy = None;
                "delete policy".to_owned()
            }
            Effect::ScaleTarget { replicas } => {
                *self.template.pointer_mut(self.pointer).unwrap() = json!(replicas);
                format!("scale {replicas}")
            }
            Effect::Status(part) if self.other.is_some() => {
                let object = self.other.as_mut().unwrap();
                let patch = StatusPart::patch(&object["status"], &[&part]);
                merge(object, &json!({"status": patch}));
                "status".to_owned()
            }
            Effect::Status(part) => {
                let old = json!(self.hpa.status);
                self.hpa = patched(&self.hpa, &json!({"status": StatusPart::patch(&old, &[&part])}));
                "status".to_owned()
            }
            Effect::Event(event) => {
                self.events.push(format!("{}: {}", event.reason, event.message));
                return None;
            }
            Effect::RequeueAfter(wait) => {
                assert!(wait.is_positive() && wait <= RESYNC, "{wait:?}");
                return None;
            }
        };
        Some(write)
    }

    fn write(&mut self, write: Write) -> String {
        match write {
            Write::Create(work) => {
                let key = key_of(&work).unwrap();
                let uid = format!("uid-{}", key.cluster);
                self.works.push(Arc::new(patched(&*work, &json!({"metadata": {"uid": uid, "generation": 1}}))));
                format!("create {}", key.cluster)
            }
            Write::Patch { key, patch } => {
                let at = self.works.iter().position(|work| key_of(work).as_ref() == Some(&key)).unwrap();
                let generation = self.works[at].metadata.generation.unwrap_or(0) + 1;
                let work = patched(&*self.works[at], &patch);
                self.works[at] = Arc::new(patched(&work, &json!({"metadata": {"generation": generation}})));
                format!("patch {}", key.cluster)
            }
            Write::Delete { key, .. } => {
                self.works.retain(|work| key_of(work).as_ref() != Some(&key));
                format!("delete {}", key.cluster)
            }
        }
    }

    /// A step of which everything is written: another one writes nothing.
    fn settle(&mut self) -> Vec<String> {
        let writes = self.step();
        let again: Vec<String> = (0..3).flat_map(|_| self.step()).collect();
        assert!(self.step().is_empty(), "after {writes:?} and {again:?}");
        writes.into_iter().chain(again).collect()
    }

    fn report(&mut self, cluster: &str, current: i32, desired: i32, reason: &str) {
        self.report_as(
            cluster,
            &json!({"currentReplicas": current, "desiredReplicas": desired,
            "conditions": [{"type": "AbleToScale", "status": "True", "reason": reason, "message": "m"}]}),
        );
    }

    fn report_as(&mut self, cluster: &str, report: &Value) {
        for work in &mut self.works {
            if &*key_of(work).unwrap().cluster.0 == cluster {
                let generation = work.metadata.generation.unwrap();
                let status = json!({"conditions": [applied(generation)], "manifestStatuses": [
                    {"identifier": {"ordinal": 0, "version": "v2", "kind": KIND, "resource": "", "name": "web"}, "status": report}]});
                let mut new = (**work).clone();
                new.status = serde_json::from_value(status).unwrap();
                *work = Arc::new(new);
            }
        }
    }

    /// Changes a Cluster.
    fn change(&mut self, cluster: &str, patch: &Value) {
        let changed = patched(&*self.clusters[&ClusterName::from(cluster)], patch);
        self.clusters.insert(cluster.into(), Arc::new(changed));
    }

    fn set_ready(&mut self, cluster: &str, ready: &str) {
        let condition = json!([{"type": "Ready", "status": ready, "reason": "r", "message": "", "lastTransitionTime": self.now().to_string()}]);
        self.change(cluster, &json!({"status": {"conditions": condition}}));
    }

    fn annotate(&mut self, key: &str, value: &str) {
        self.hpa = patched(&self.hpa, &json!({"metadata": {"annotations": {key: value}}}));
    }

    fn bounds(&self) -> String {
        let mut all: Vec<(ClusterName, split::Bounds)> = self
            .works
            .iter()
            .map(|work| {
                (key_of(work).unwrap().cluster, manifest::bounds_of(&work.spec.workload.manifests[0].object()).unwrap())
            })
            .collect();
        all.sort();
        all.iter().map(|(name, b)| format!("{name}({},{})", b.min, b.max)).collect::<Vec<_>>().join(" ")
    }

    fn rules(&self) -> String {
        let Some(policy) = &self.policy else { return "none".into() };
        overrides::recorded(policy)
            .iter()
            .map(|(name, number)| format!("{name}={number}"))
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn condition(&self, type_: &str) -> String {
        let status = self.hpa.status.clone().unwrap_or_default();
        let found = status.conditions.unwrap_or_default().into_iter().find(|condition| condition.type_ == type_);
        found.map(|c| format!("{} {}: {}", c.status, c.reason.unwrap(), c.message.unwrap())).unwrap_or_default()
    }

    fn state(&self) -> State {
        State::of(self.hpa.metadata.annotations.as_ref())
    }
}

fn applied(generation: i64) -> Value {
    json!({"type": "Applied", "status": "True", "reason": "r", "message": "", "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn three() -> World {
    let mut world = World::new(&[("A", 1), ("B", 1), ("C", 1)], (3, 100));
    world.settle();
    world
}

const READY: &str = "ReadyForNewScale";

#[test]
fn each_cluster_of_the_binding_gets_its_share() {
    let mut world = World::new(&[("A", 1), ("B", 1), ("C", 1)], (3, 100));
    assert_eq!(world.step()[..4], ["hpa", "create A", "create B", "create C"]);
    assert_eq!(world.bounds(), "A(1,34) B(1,33) C(1,33)");
    let metadata = json!(world.hpa.metadata);
    assert_eq!(metadata["finalizers"], json!(["federatedhpa.karmada.io/finalizer"]));
    assert_eq!(metadata["labels"]["resourcetemplate.karmada.io/claimed-by"], "FederatedHPA");
    let work = json!(*world.works[0]);
    assert_eq!(work["metadata"]["labels"]["federatedhpa.karmada.io"], "true");
    assert_eq!(work["metadata"]["labels"]["federatedhpa.karmada.io/enabled"], "true");
    assert_eq!(work["metadata"]["labels"]["federatedhpa.karmada.io/hpa-uid"], "uid-hpa");
    assert_eq!(work["metadata"]["annotations"]["federatedhpa.karmada.io/name"], "web");
    assert_eq!(of_work(&world.works[0]), ["uid-hpa"]);
    assert!(world.settle().is_empty());
    assert_eq!(world.condition("AbleToScale"), "True SucceededGetScale: no member has reported yet");
}

#[test]
fn objects_without_the_label_are_left_alone() {
    for label in [json!(null), json!("false"), json!("TRUE")] {
        let mut world = World::new(&[("A", 1)], (1, 5));
        world.hpa = patched(&world.hpa, &json!({"metadata": {"labels": {labels::FEDERATED_HPA_ENABLED: label}}}));
        assert!(world.settle().is_empty());
    }
}

#[test]
fn an_autoscaler_comes_after_the_mark_of_its_target() {
    let mut world = World::new(&[("A", 1), ("B", 1)], (2, 10));
    let binding = world.binding.take().unwrap();
    let suspended =
        patched(&binding, &json!({"spec": {"suspension": {"dispatchingOnClusters": {"clusterNames": ["B"]}}}}));
    world.binding = Some(suspended);
    world.settle();
    assert_eq!(world.bounds(), "A(1,5)", "dispatching to B is suspended; B keeps its share");
    world.binding = Some(binding);
    world.settle();
    assert_eq!(world.bounds(), "A(1,5) B(1,5)");
}

#[test]
fn what_a_member_decides_is_recorded() {
    for (name, reports, want) in [
        ("nobody reported", &[][..], "none"),
        ("A scales", &[("A", 8, READY)], "A=8"),
        ("A has what the binding gives it", &[("A", 1, READY)], "none"),
        ("all report", &[("A", 8, READY), ("B", 1, READY), ("C", 4, "SucceededRescale")], "A=8 B=1 C=4"),
        ("metrics failed", &[("A", 8, "SucceededGetScale")], "none"),
        ("it desires nothing", &[("A", 0, READY)], "none"),
        ("it lies", &[("A", 1000, READY), ("B", -5, READY)], "A=34"),
    ] {
        let mut world = three();
        for (cluster, desired, reason) in reports {
            world.report(cluster, 1, *desired, reason);
        }
        world.settle();
        assert_eq!(world.rules(), want, "{name}");
        assert_eq!(world.template["spec"]["replicas"], 3, "{name}: the template is not scaled");
    }
    let mut world = three();
    world.report("A", 1, 8, READY);
    world.settle();
    let policy = json!(world.policy);
    assert_eq!(policy["metadata"]["name"], "federatedhpa-web");
    assert_eq!(policy["metadata"]["ownerReferences"][0]["uid"], "uid-hpa");
    assert_eq!(policy["metadata"]["annotations"]["federatedhpa.karmada.io/observed-replicas"], "3");
    assert_eq!(
        policy["spec"]["overrideRules"],
        json!([{"targetCluster": {"clusterNames": ["A"]},
            "overriders": {"plaintext": [{"path": "/spec/replicas", "operator": "replace", "value": 8}]}}])
    );
}

#[test]
fn a_record_stays_while_a_member_is_silent() {
    let mut world = three();
    world.report("A", 8, 8, READY);
    world.settle();
    world.report("A", 8, 8, "SucceededGetScale");
    world.settle();
    assert_eq!(world.rules(), "A=8", "without metrics");
    world.set_ready("A", "False");
    world.second += 30;
    world.settle();
    assert_eq!(world.rules(), "A=8", "unreachable");
    world.policy = Some(patched(world.policy.as_ref().unwrap(), &json!({"spec": {"overrideRules": []}})));
    world.report("A", 8, 8, READY);
    world.set_ready("A", "True");
    world.settle();
    assert_eq!(world.rules(), "A=8", "a change by hand is undone");
    world.policy = None;
    world.settle();
    assert_eq!(world.rules(), "A=8", "so is a deletion");
}

#[test]
fn smaller_numbers_are_recorded_together_and_larger_ones_at_once() {
    let mut world = three();
    world.report("A", 8, 8, READY);
    world.settle();
    world.second += 1;
    world.report("A", 8, 6, READY);
    world.settle();
    assert_eq!(world.rules(), "A=8");
    world.report("B", 1, 4, READY);
    world.settle();
    assert_eq!(world.rules(), "A=6 B=4", "with the larger one");
    world.report("B", 4, 2, READY);
    world.second += 4;
    world.settle();
    assert_eq!(world.rules(), "A=6 B=4");
    world.second += 1;
    world.settle();
    assert_eq!(world.rules(), "A=6 B=2");
}

#[test]
fn a_record_that_is_not_needed_goes_after_five_minutes() {
    let mut world = three();
    world.report("A", 8, 8, READY);
    world.settle();
    world.second += 60;
    world.report("A", 1, 1, READY);
    world.settle();
    assert_eq!(world.rules(), "A=1");
    world.second += 299;
    world.settle();
    assert_eq!(world.rules(), "A=1");
    world.second += 1;
    world.settle();
    assert_eq!(world.rules(), "none");
    world.second += 3600;
    assert!(world.settle().is_empty());
}

#[test]
fn a_user_who_scales_the_target_wins() {
    let mut world = three();
    world.report("A", 8, 8, READY);
    world.report("B", 1, 1, READY);
    world.settle();
    world.template["spec"]["replicas"] = json!(9);
    world.second += 10;
    assert!(world.step().contains(&"delete policy".to_owned()));
    world.place(&[("A", 3), ("B", 3), ("C", 3)]);
    world.settle();
    assert_eq!(world.rules(), "none", "the old reports do not count");
    world.report("B", 3, 3, READY);
    world.settle();
    assert_eq!(world.rules(), "none", "B confirmed the number");
    world.report("B", 3, 5, READY);
    world.settle();
    assert_eq!(world.rules(), "B=5", "and has the last word again");
    world.second += 89;
    world.settle();
    assert_eq!(world.rules(), "B=5", "A still reports 8");
    world.second += 1;
    world.settle();
    assert_eq!(world.rules(), "A=8 B=5", "for long enough to be the truth");
}

#[test]
fn an_override_for_other_replicas_goes() {
    let mut world = three();
    world.report("A", 8, 8, READY);
    world.settle();
    // The state was written, and the controller was killed before it deleted the policy.
    let outdated = json!({"metadata": {"annotations": {annotations::FEDERATED_HPA_OBSERVED_REPLICAS: "2"}}});
    world.policy = Some(patched(world.policy.as_ref().unwrap(), &outdated));
    assert!(world.step().contains(&"delete policy".to_owned()));
}

#[test]
fn after_a_start_all_reports_are_awaited() {
    let mut world = three();
    world.report("A", 8, 8, READY);
    world.started = world.second;
    world.reported.clear();
    world.settle();
    assert_eq!(world.rules(), "none");
    world.second += 59;
    world.settle();
    assert_eq!(world.rules(), "none");
    world.reported = ["A", "B", "C"].map(ClusterName::from).into();
    world.settle();
    assert_eq!(world.rules(), "A=8", "all have reported");
    let mut world = three();
    world.report("A", 8, 8, READY);
    world.started = world.second - 60;
    world.reported.clear();
    world.settle();
    assert_eq!(world.rules(), "A=8", "a minute passed");
}

#[test]
fn a_dead_member_gives_its_share_away_and_keeps_its_work() {
    let mut world = three();
    world.report("C", 9, 9, READY);
    world.settle();
    let work = world.works.iter().find(|work| &*key_of(work).unwrap().cluster.0 == "C").unwrap().clone();
    world.set_ready("C", "False");
    world.second += 59;
    world.settle();
    assert_eq!(world.bounds(), "A(1,34) B(1,33) C(1,33)");
    world.second += 1;
    world.settle();
    assert_eq!(world.bounds(), "A(2,50) B(1,50) C(1,33)");
    assert_eq!(world.rules(), "C=9");
    assert!(world.works.contains(&work));
    // It comes back with a report from before.
    world.set_ready("C", "True");
    world.policy = Some(patched(world.policy.as_ref().unwrap(), &json!({"spec": {"overrideRules": []}})));
    world.second += 100;
    world.settle();
    assert_eq!(world.bounds(), "A(1,34) B(1,33) C(1,33)");
    assert_eq!(world.rules(), "", "its report may be old");
    world.report_as(
        "C",
        &json!({"currentReplicas": 12, "desiredReplicas": 12, "lastScaleTime": "2026-09-21T00:00:00Z",
        "conditions": [{"type": "AbleToScale", "status": "True", "reason": READY}]}),
    );
    world.settle();
    assert_eq!(world.rules(), "C=12");
    let mut strict = three();
    strict.annotate(annotations::FEDERATED_HPA_STRICT_MAX, "true");
    strict.set_ready("C", "False");
    strict.second += 600;
    strict.settle();
    assert_eq!(strict.bounds(), "A(1,34) B(1,33) C(1,33)", "with strict-max it keeps its share");
}

#[test]
fn nothing_changes_while_no_cluster_can_be_used() {
    let mut world = three();
    world.report("A", 8, 8, READY);
    world.settle();
    for cluster in ["A", "B", "C"] {
        world.set_ready(cluster, "Unknown");
    }
    world.second += 600;
    let (bounds, rules) = (world.bounds(), world.rules());
    world.settle();
    assert_eq!((world.bounds(), world.rules()), (bounds, rules));
    assert!(
        world.condition("AbleToScale").starts_with("False FailedGetTargetClusters"),
        "{}",
        world.condition("AbleToScale")
    );
}

#[test]
fn a_cluster_that_returns_first_after_all_were_cut_off_gets_no_share_of_the_others() {
    let mut world = three();
    world.settle();
    let before = world.bounds();
    for cluster in ["A", "B", "C"] {
        world.set_ready(cluster, "False");
    }
    world.second += 600;
    world.settle();
    world.set_ready("A", "True");
    world.second += 30;
    world.settle();
    assert_eq!(world.bounds(), before, "the others may return as well");
    world.set_ready("B", "True");
    world.second += 30;
    world.settle();
    assert_eq!(world.bounds(), "A(2,50) B(1,50) C(1,33)", "a minute after the first one C is still lost");
    // The control plane is cut off once more; C does not get its share back by that.
    for (ready, seconds) in [("False", 600), ("True", 1)] {
        for cluster in ["A", "B"] {
            world.set_ready(cluster, ready);
        }
        world.second += seconds;
        world.settle();
        assert_eq!(world.bounds(), "A(2,50) B(1,50) C(1,33)", "{ready}");
    }
    world.set_ready("C", "True");
    world.second += 100;
    world.settle();
    assert_eq!(world.bounds(), before);
}

#[test]
fn an_evicted_copy_may_not_grow_and_takes_its_autoscaler_along() {
    let mut world = three();
    world.report("B", 7, 7, READY);
    world.settle();
    let task = json!([{"fromCluster": "B", "reason": "TaintUntolerated", "producer": "TaintManager"}]);
    world.place(&[("A", 2), ("C", 1)]);
    world.binding = Some(patched(world.binding.as_ref().unwrap(), &json!({"spec": {"gracefulEvictionTasks": task}})));
    world.old_copies = vec!["B"];
    world.settle();
    assert_eq!(world.bounds(), "A(7,60) B(1,7) C(3,33)", "what the copy has is not given to others, who take over");
    assert_eq!(world.rules(), "B=7", "the copy keeps its replicas");
    world.old_copies.clear();
    world.place(&[("A", 2), ("C", 1)]);
    world.second += 10;
    world.settle();
    assert_eq!(world.bounds(), "A(7,67) C(3,33)", "their autoscalers have not decided since");
    assert!(!world.state().clusters.contains_key(&ClusterName::from("B")));
    world.report("A", 7, 7, READY);
    world.settle();
    assert_eq!(world.bounds(), "A(2,67) C(3,33)", "this one has");
    assert_eq!(world.rules(), "A=7");
    world.second += 300;
    world.settle();
    assert_eq!(world.bounds(), "A(2,67) C(1,33)");
}

/// The load of a member that was lost has come to the others before its copy is evicted.
#[test]
fn what_a_lost_member_ran_is_not_taken_over_twice() {
    for (name, was_lost, want) in [("it was lost before", true, "A(2,60)"), ("it serves until then", false, "A(7,60)")]
    {
        let mut world = three();
        world.report("B", 7, 7, READY);
        world.settle();
        if was_lost {
            world.set_ready("B", "False");
            world.second += 60;
            world.settle();
        }
        let task = json!([{"fromCluster": "B", "reason": "TaintUntolerated", "producer": "TaintManager"}]);
        world.place(&[("A", 2), ("C", 1)]);
        let evicted = json!({"spec": {"gracefulEvictionTasks": task}});
        world.binding = Some(patched(world.binding.as_ref().unwrap(), &evicted));
        world.old_copies = vec!["B"];
        world.settle();
        assert!(world.bounds().starts_with(want), "{name}: {}", world.bounds());
    }
}

#[test]
fn shares_move_through_what_others_gave_up() {
    let mut world = three();
    world.place(&[("A", 1), ("B", 2), ("C", 3)]);
    let writes: Vec<String> = world.settle().into_iter().filter(|write| write.starts_with("patch")).collect();
    assert_eq!(writes, ["patch A", "patch C"]);
    assert_eq!(world.bounds(), "A(1,17) B(1,33) C(1,50)");
    world.place(&[("A", 1), ("B", 4), ("C", 1)]);
    world.settle();
    assert_eq!(world.bounds(), "A(1,17) B(1,66) C(1,17)", "at once, since nothing runs there");
    world.report("B", 3, 3, READY);
    world.report("C", 15, 15, READY);
    world.place(&[("A", 1), ("B", 98), ("C", 1)]);
    world.settle();
    assert_eq!(world.bounds(), "A(1,1) B(1,84) C(1,15)", "what runs stays");
    world.hpa.spec.max_replicas = 10;
    world.settle();
    world.hpa.spec.max_replicas = 9;
    world.settle();
    assert_eq!(world.bounds(), "A(1,1) B(1,3) C(1,5)", "unless a user wants less, as often as he says so");
    world.annotate(annotations::FEDERATED_HPA_STRICT_MAX, "true");
    for (cluster, replicas) in [("A", 1), ("B", 3), ("C", 1)] {
        world.report(cluster, replicas, replicas, READY);
    }
    world.settle();
    world.place(&[("A", 98), ("B", 1), ("C", 1)]);
    world.settle();
    assert_eq!(world.bounds(), "A(1,1) B(1,3) C(1,1)", "C has not said that it has what it got");
    world.report("C", 1, 1, READY);
    world.settle();
    assert_eq!(world.bounds(), "A(1,5) B(1,3) C(1,1)");
}

fn limited(current: i32) -> Value {
    json!({"currentReplicas": current, "desiredReplicas": current, "conditions": [
        {"type": "AbleToScale", "status": "True", "reason": READY, "message": ""},
        {"type": "ScalingLimited", "status": "True", "reason": "TooManyReplicas", "message": "the desired count is more than the maximum"}]})
}

#[test]
fn a_limited_member_borrows_and_gives_back() {
    let mut world = World::new(&[("A", 10), ("B", 90)], (2, 100));
    world.settle();
    world.report_as("A", &limited(10));
    world.report("B", 30, 30, READY);
    world.settle();
    world.second += 29;
    world.settle();
    assert_eq!(world.bounds(), "A(1,10) B(1,90)");
    assert!(world.condition("ScalingLimited").starts_with("True TooManyReplicas: cluster A:"));
    world.second += 1;
    world.settle();
    assert_eq!(world.bounds(), "A(1,40) B(1,60)");
    world.report_as("A", &limited(40));
    world.report("B", 30, 30, READY);
    world.settle();
    world.second += 60;
    world.settle();
    assert_eq!(world.bounds(), "A(1,55) B(1,45)");
    world.report("A", 9, 9, READY);
    world.report("B", 30, 30, READY);
    world.settle();
    world.second += 299;
    world.settle();
    assert_eq!(world.bounds(), "A(1,55) B(1,45)");
    world.second += 1;
    world.settle();
    assert_eq!(world.bounds(), "A(1,10) B(1,90)");
    let mut off = World::new(&[("A", 10), ("B", 90)], (2, 100));
    off.annotate(annotations::FEDERATED_HPA_REBALANCE, "false");
    off.settle();
    off.report_as("A", &limited(10));
    off.second += 600;
    off.settle();
    assert_eq!(off.bounds(), "A(1,10) B(1,90)", "rebalance is off");
}

#[test]
fn the_first_of_two_autoscalers_works() {
    let at = |second: i64| Some(Time(Timestamp::from_second(second).unwrap()));
    for (name, distributed, rival, created, want) in [
        ("an older one", true, "other", at(0), "AmbiguousTarget"),
        ("a younger one", true, "other", at(START), ""),
        ("as old, before it by name", true, "aaa", at(1_767_225_600), "AmbiguousTarget"),
        ("as old, after it by name", true, "zzz", at(1_767_225_600), ""),
        ("an older FederatedHPA", false, "zzz", at(0), "ConflictingAutoscaler"),
        ("a younger FederatedHPA", false, "aaa", at(START), ""),
    ] {
        let mut world = three();
        world.report("A", 8, 8, READY);
        world.settle();
        world.rivals = vec![Rival { distributed, other_kind: None, name: rival.to_owned(), created }];
        world.settle();
        let able = world.condition("AbleToScale");
        assert_eq!(able.starts_with("False"), !want.is_empty(), "{name}: {able}");
        assert!(able.contains(want), "{name}: {able}");
        assert_eq!((world.works.is_empty(), world.policy.is_none()), (!want.is_empty(), !want.is_empty()), "{name}");
        let recorded = world.events.iter().filter(|event| event.starts_with(want)).count();
        assert_eq!(recorded, usize::from(!want.is_empty()), "{name}: {:?}", world.events);
        world.rivals.clear();
        world.settle();
        assert_eq!(world.bounds(), "A(1,34) B(1,33) C(1,33)", "{name}: once it is alone");
    }
}

#[test]
fn targets_that_cannot_be_scaled() {
    type Change = fn(&mut World);
    let rows: [(&str, Change, &str, bool); 5] = [
        (
            "no target",
            |world| world.template = Value::Null,
            "FailedGetScaleTargetRef: there is no Deployment shop/web",
            false,
        ),
        (
            "no scale subresource",
            |world| world.scales = false,
            "FailedGetScale: Deployment shop/web cannot be scaled",
            false,
        ),
        ("no binding", |world| world.binding = None, "FailedGetBinding", true),
        ("no clusters", |world| world.place(&[]), "FailedGetBinding", true),
        (
            "a binding that is being deleted",
            |world| {
                let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
                world.binding = Some(patched(world.binding.as_ref().unwrap(), &deleted));
            },
            "FailedGetBinding",
            true,
        ),
    ];
    for (name, change, want, keeps) in rows {
        let mut world = three();
        world.report("A", 8, 8, READY);
        world.settle();
        change(&mut world);
        world.settle();
        let able = world.condition("AbleToScale");
        assert!(able.starts_with(&format!("False {want}")), "{name}: {able}");
        assert_eq!((!world.works.is_empty(), world.policy.is_some()), (keeps, keeps), "{name}");
        assert_eq!(world.events.len(), 1, "{name}: {:?}", world.events);
        world.second += 3600;
        assert!(world.settle().is_empty(), "{name}");
    }
}

#[test]
fn a_place_may_come_later() {
    let mut world = World::new(&[("A", 3)], (3, 9));
    let created = Time(world.now());
    world.hpa.metadata.creation_timestamp = Some(created);
    world.binding = None;
    world.settle();
    assert_eq!((world.condition("AbleToScale"), world.events.len()), (String::new(), 0));
    world.second += 10;
    world.settle();
    assert!(world.condition("AbleToScale").starts_with("False FailedGetBinding"));
    assert_eq!(world.events.len(), 1, "{:?}", world.events);
}

#[test]
fn a_target_at_zero_is_switched_off() {
    let mut world = three();
    *world.template.pointer_mut("/spec/replicas").unwrap() = json!(0);
    world.place(&[]);
    world.settle();
    let active = world.condition("ScalingActive");
    assert!(
        active.starts_with("False ScalingDisabled: scaling is disabled since the replica count of Deployment"),
        "{active}"
    );
    assert!(world.condition("AbleToScale").starts_with("True SucceededGetScale"));
    assert!(world.events.is_empty(), "{:?}", world.events);
}

#[test]
fn deleted_autoscalers_leave_the_replicas_that_members_decided() {
    let ends = |world: &mut World| {
        let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        world.hpa = patched(&world.hpa, &deleted);
    };
    let mut world = three();
    world.report("A", 20, 20, READY);
    world.report("B", 5, 5, READY);
    world.settle();
    ends(&mut world);
    assert_eq!(world.step(), ["hpa", "scale 26"], "20 and 5, and what the binding gives C");
    assert!(world.step().is_empty(), "the scheduler has not divided them");
    assert_eq!(world.rules(), "A=20 B=5");
    world.place(&[("A", 9), ("B", 9), ("C", 8)]);
    assert_eq!(world.step(), ["delete A", "delete B", "delete C", "delete policy", "hpa"]);
    assert_eq!(world.hpa.metadata.finalizers, Some(vec![]));

    let mut waits = three();
    waits.report("A", 20, 20, READY);
    waits.settle();
    ends(&mut waits);
    waits.step();
    waits.second += 60;
    assert!(waits.step().contains(&"delete policy".to_owned()), "the scheduler is not awaited for ever");

    let mut reset = three();
    reset.report("A", 20, 20, READY);
    reset.annotate(annotations::FEDERATED_HPA_ON_DELETE, "Reset");
    reset.settle();
    ends(&mut reset);
    assert_eq!(reset.step(), ["delete A", "delete B", "delete C", "delete policy", "hpa"]);
    assert_eq!(reset.template["spec"]["replicas"], 3);

    let mut gone = three();
    gone.report("A", 20, 20, READY);
    gone.settle();
    gone.template = Value::Null;
    ends(&mut gone);
    assert!(!gone.step().iter().any(|write| write.starts_with("scale")));

    let mut unlabelled = three();
    unlabelled.settle();
    unlabelled.hpa = patched(&unlabelled.hpa, &json!({"metadata": {"labels": {labels::FEDERATED_HPA_ENABLED: null}}}));
    assert_eq!(unlabelled.step(), ["delete A", "delete B", "delete C", "status", "hpa"]);
    assert!(unlabelled.condition("AbleToScale").starts_with("False NotEnabled: no member runs it"));
    assert_eq!(unlabelled.condition("ScalingActive"), "");
    let metadata = json!(unlabelled.hpa.metadata);
    assert_eq!(metadata["labels"], json!({}), "policies may propagate it again");
    assert_eq!(metadata["annotations"], json!({}));
    assert!(unlabelled.settle().is_empty());
}

#[test]
fn a_target_that_is_exchanged_keeps_the_replicas_that_members_decided() {
    let mut world = three();
    world.report("A", 20, 20, READY);
    world.settle();
    world.hpa.spec.scale_target_ref.name = "api".to_owned();
    assert_eq!(world.step(), ["hpa", "scale 22"], "of the old target");
    assert_eq!(target_keys(&world.hpa).len(), 2, "copies of both are left to members");
    world.place(&[("A", 8), ("B", 7), ("C", 7)]);
    assert_eq!(world.step(), ["delete A", "delete B", "delete C", "delete policy", "hpa"]);
    assert_eq!((is_enabled(&world.hpa.metadata), decides_in_members(&world.hpa)), (true, true));
    assert_eq!(&*target_key(&world.hpa).name, "api");
    world.place(&[("A", 4), ("B", 4), ("C", 4)]);
    world.template["spec"]["replicas"] = json!(12);
    world.settle();
    assert_eq!((world.bounds().as_str(), world.rules().as_str()), ("A(1,34) B(1,33) C(1,33)", "none"), "a new begin");
    let elsewhere = json!({"target": {"apiVersion": "v1", "kind": "K", "name": "n", "namespace": "other"}});
    world.annotate(annotations::FEDERATED_HPA_STATUS, &elsewhere.to_string());
    assert_eq!(&*target_key(&world.hpa).namespace, "shop", "whatever the annotation says");
}

#[test]
fn a_duplicated_target_keeps_the_largest_number() {
    let mut world = World::new(&[("A", 4), ("B", 4)], (2, 30));
    let placement =
        json!({"spec": {"replicas": 4, "placement": {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}}}});
    world.binding = Some(patched(world.binding.as_ref().unwrap(), &placement));
    world.template["spec"]["replicas"] = json!(4);
    world.settle();
    assert_eq!(world.bounds(), "A(1,15) B(1,15)", "min and max are totals here, too");
    world.report("A", 9, 9, READY);
    world.settle();
    world.hpa = patched(&world.hpa, &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    assert_eq!(world.step(), ["hpa", "scale 9"]);
}

#[test]
fn replicas_of_custom_resources_are_at_their_path() {
    let mut world = World::new(&[("A", 1), ("B", 1)], (2, 10));
    world.pointer = "/spec/size";
    for (name, template, operator) in [("present", json!({"size": 2}), "replace"), ("absent", json!({}), "add")] {
        world.template["spec"] = template;
        world.policy = None;
        world.hpa.metadata.annotations = None;
        world.settle();
        world.report("A", 4, 4, READY);
        world.settle();
        let policy = json!(world.policy);
        assert_eq!(
            policy["spec"]["overrideRules"][0]["overriders"]["plaintext"][0],
            json!({"path": "/spec/size", "operator": operator, "value": 4}),
            "{name}"
        );
    }
}

#[test]
fn members_get_the_version_that_they_serve() {
    let served = |version: &str| {
        json!({"status": {"apiEnablements": [{"groupVersion": version,
        "resources": [{"name": "horizontalpodautoscalers", "kind": "HorizontalPodAutoscaler"}]}]}})
    };
    let mut world = World::new(&[("A", 1), ("B", 1), ("C", 1)], (3, 100));
    world.hpa.spec.behavior = Some(Default::default());
    world.change("A", &served("autoscaling/v2beta2"));
    world.change("B", &served("autoscaling/v2beta1"));
    world.change("C", &served("autoscaling/v1"));
    world.settle();
    let versions: Vec<String> =
        world.works.iter().map(|work| work.spec.workload.manifests[0].named().api_version).collect();
    assert_eq!(versions, ["autoscaling/v2beta2", "autoscaling/v2beta1"]);
    assert_eq!(world.bounds(), "A(2,50) B(1,50)", "the share of C goes to the others");
    assert!(world.condition("AbleToScale").contains("cluster C has no share: it serves neither"));
    let recorded = world.events.iter().filter(|event| event.starts_with("BehaviorNotSupported: cluster B")).count();
    assert_eq!(recorded, 1, "{:?}", world.events);
    world.change("A", &served("autoscaling/v2"));
    assert!(world.settle().contains(&"patch A".to_owned()), "in place");
}

#[test]
fn overrides_of_users() {
    let policy = |selects: Value, plaintext: Value| -> Arc<OverridePolicy> {
        Arc::new(
            serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "mine"}, "spec": {
                "resourceSelectors": [selects],
                "overrideRules": [{"targetCluster": {"clusterNames": ["A"]}, "overriders": {"plaintext": plaintext}}]}}))
            .unwrap(),
        )
    };
    let hpa = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "name": "web"});
    let metrics = json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 30}}}]);
    let mut world = three();
    world.users = vec![policy(
        hpa.clone(),
        json!([
        {"path": "/spec/metrics", "operator": "add", "value": metrics}, {"path": "/spec/maxReplicas", "operator": "replace", "value": 9999}]),
    )];
    world.settle();
    let manifest = world.works[0].spec.workload.manifests[0].object();
    assert_eq!(manifest["spec"]["metrics"], metrics, "members may have metrics of their own");
    assert_eq!(world.bounds(), "A(1,34) B(1,33) C(1,33)", "but not bounds");
    world.users = vec![policy(hpa, json!([{"path": "/nope", "operator": "remove"}]))];
    world.second += 1;
    world.step();
    assert!(world.events.iter().any(|event| event.starts_with("ApplyOverridePolicyFailed")), "{:?}", world.events);
    assert_eq!(world.bounds(), "A(1,34) B(1,33) C(1,33)", "the last good one stays");

    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let mut world = three();
    world.users = vec![policy(target, json!([{"path": "/spec/replicas", "operator": "replace", "value": 2}]))];
    world.report("A", 8, 8, READY);
    world.settle();
    assert_eq!(world.rules(), "A=8");
    let recorded =
        world.events.iter().filter(|event| event.starts_with("ReplicasOverriddenByUserPolicy: OverridePolicy mine"));
    assert_eq!(recorded.count(), 1, "{:?}", world.events);
}

#[test]
fn a_policy_of_a_user_under_our_name_is_left_alone() {
    let mut world = three();
    let theirs: OverridePolicy = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "federatedhpa-web"}, "spec": {"overrideRules": []}}))
    .unwrap();
    world.policy = Some(theirs.clone());
    world.report("A", 8, 8, READY);
    world.settle();
    assert_eq!(world.policy, Some(theirs));
    assert!(world.condition("AbleToScale").contains("OverridePolicy federatedhpa-web is not of this autoscaler"));
}

#[test]
fn the_status_adds_members_up() {
    let mut world = three();
    world.report_as(
        "A",
        &json!({"currentReplicas": 4, "desiredReplicas": 5, "lastScaleTime": "2026-09-21T00:00:00Z",
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": "1"}}}],
        "conditions": [{"type": "AbleToScale", "status": "True", "reason": READY, "message": ""},
            {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound", "message": ""}]}),
    );
    world.report_as(
        "B",
        &json!({"currentReplicas": 2, "desiredReplicas": 2, "conditions": [
        {"type": "AbleToScale", "status": "False", "reason": "FailedGetScale", "message": "no such thing"},
        {"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric", "message": "no metrics"}]}),
    );
    world.settle();
    let status = json!(world.hpa.status);
    assert_eq!((&status["currentReplicas"], &status["desiredReplicas"]), (&json!(6), &json!(7)));
    assert_eq!(status["lastScaleTime"], "2026-09-21T00:00:00Z");
    assert_eq!(status.get("currentMetrics"), None, "of several members");
    assert_eq!(
        world.condition("AbleToScale"),
        "True ReadyForNewScale: 1 of 3 members; cluster B: FailedGetScale: no such thing; cluster C: it has not reported yet"
    );
    let refused = json!([{"type": "Applied", "status": "False", "reason": "AppliedFailed", "message": "it exists",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let of_c = world.works.iter_mut().find(|work| &*key_of(work).unwrap().cluster.0 == "C").unwrap();
    *of_c = Arc::new(patched(&**of_c, &json!({"status": {"conditions": refused}})));
    world.settle();
    assert!(world.condition("AbleToScale").ends_with("; cluster C: AppliedFailed: it exists"));
    assert!(world.condition("ScalingActive").starts_with("True ValidMetricFound"));
    world.set_ready("A", "False");
    world.second += 1;
    world.settle();
    assert_eq!(json!(world.hpa.status)["currentReplicas"], 6, "the last report of a silent member counts");
    world.second += 300;
    world.settle();
    assert_eq!(json!(world.hpa.status)["currentReplicas"], 2, "for five minutes");
    let state = &world.state().clusters[&ClusterName::from("B")];
    assert_eq!(state.conditions["ScalingActive"], "False: FailedGetResourceMetric");

    let mut few = World::new(&[("A", 1), ("B", 1), ("C", 1)], (1, 2));
    few.settle();
    assert_eq!(few.bounds(), "A(1,1) B(1,1) C(1,1)");
    assert!(few.condition("ScalingLimited").starts_with("True MaxBelowClusterCount: maxReplicas 2 is below"));
    few.annotate(annotations::FEDERATED_HPA_SPLIT, r#"{"mode":"PerCluster"}"#);
    few.settle();
    assert_eq!((few.bounds().as_str(), few.condition("ScalingLimited").as_str()), ("A(1,2) B(1,2) C(1,2)", ""));
}

#[test]
fn works_of_a_binding_change_hands() {
    let mut world = three();
    for work in &mut world.works {
        let of_binding = json!({"metadata": {
            "labels": {"federatedhpa.karmada.io": null, "federatedhpa.karmada.io/enabled": null,
                "federatedhpa.karmada.io/hpa-uid": null, "resourcebinding.karmada.io/permanent-id": "own"},
            "annotations": {"resourcebinding.karmada.io/namespace": "shop", "resourcebinding.karmada.io/name": "web-hpa"}}});
        *work = Arc::new(patched(&**work, &of_binding));
    }
    let of_hpa = json!({"metadata": {"namespace": "shop", "name": "web-hpa"}});
    world.own_binding = Some(patched(world.binding.as_ref().unwrap(), &of_hpa));
    let writes = world.settle();
    assert_eq!(writes.iter().filter(|write| write.starts_with("patch")).count(), 3, "{writes:?}");
    assert_eq!(writes.last().map(String::as_str), Some("delete binding"), "afterwards");
    let labels = world.works[0].metadata.labels.as_ref().unwrap();
    assert!(!labels.contains_key("resourcebinding.karmada.io/permanent-id"));
    assert_eq!(labels["federatedhpa.karmada.io/hpa-uid"], "uid-hpa");
}

#[test]
fn names_of_policies_fit() {
    let mut hpa = three().hpa;
    let policy_name = |hpa: &HorizontalPodAutoscaler| policy_name(&hpa.clone().into());
    assert_eq!(policy_name(&hpa), "federatedhpa-web");
    for name in ["a".repeat(240), "a".repeat(241), "b".repeat(253), format!("{}-{}", "c".repeat(231), "d".repeat(21))] {
        hpa.metadata.name = Some(name.clone());
        let policy = policy_name(&hpa);
        assert!(policy.len() <= 253 && !policy.contains("--"), "{policy}");
    }
    let of = |name: &str| policy_name(&patched(&hpa, &json!({"metadata": {"name": name}})));
    assert_ne!(of(&format!("{}x", "a".repeat(250))), of(&format!("{}y", "a".repeat(250))));
}

/// One thing that happens.
#[derive(Debug, Clone)]
enum Step {
    Report(usize, i32, bool),
    Garbage(usize, String),
    Ready(usize, bool),
    Scale(i32),
    Place(Vec<i32>),
    Pass(i64),
    Bounds(i32, i32),
    Retarget(bool),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..3_usize, -5..200_i32, any::<bool>())
            .prop_map(|(cluster, desired, able)| Step::Report(cluster, desired, able)),
        (
            0..3_usize,
            prop_oneof![Just("null"), Just("[]"), Just("{}"), Just("{\"desiredReplicas\": \"x\"}"), Just("7")]
        )
            .prop_map(|(cluster, text)| Step::Garbage(cluster, text.to_owned())),
        (0..3_usize, any::<bool>()).prop_map(|(cluster, ready)| Step::Ready(cluster, ready)),
        (0..60_i32).prop_map(Step::Scale),
        prop::collection::vec(0..20_i32, 1..4).prop_map(Step::Place),
        (-90..400_i64).prop_map(Step::Pass),
        (-1..20_i32, -1..120_i32).prop_map(|(min, max)| Step::Bounds(min, max)),
        any::<bool>().prop_map(Step::Retarget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_bounds_and_records_are_valid_and_it_settles(steps in prop::collection::vec(any_step(), 1..25)) {
        const NAMES: [&str; 3] = ["A", "B", "C"];
        let mut world = three();
        for step in steps {
            match step {
                Step::Report(at, desired, able) => {
                    let reason = if able { READY } else { "SucceededGetScale" };
                    world.report(NAMES[at], desired.max(0), desired, reason);
                }
                Step::Garbage(at, text) => world.report_as(NAMES[at], &serde_json::from_str(&text).unwrap()),
                Step::Ready(at, ready) => world.set_ready(NAMES[at], if ready { "True" } else { "False" }),
                Step::Scale(replicas) => world.template["spec"]["replicas"] = json!(replicas),
                Step::Place(replicas) => {
                    let targets: Vec<(&str, i32)> = NAMES.into_iter().zip(replicas).collect();
                    world.place(&targets);
                }
                Step::Pass(seconds) => world.second += seconds,
                Step::Bounds(min, max) => (world.hpa.spec.min_replicas, world.hpa.spec.max_replicas) = (Some(min), max),
                Step::Retarget(other) => {
                    world.hpa.spec.scale_target_ref.name = if other { "api" } else { "web" }.to_owned();
                }
            }
            // It comes to rest at any time: `settle` panics otherwise.
            world.settle();
            for work in &world.works {
                let bounds = manifest::bounds_of(&work.spec.workload.manifests[0].object()).unwrap();
                prop_assert!(1 <= bounds.min && bounds.min <= bounds.max, "{bounds:?}");
            }
            for (cluster, number) in world.policy.as_ref().map(overrides::recorded).unwrap_or_default() {
                prop_assert!(number >= 1, "{cluster} {number}");
            }
            if let Some(policy) = &world.policy {
                prop_assert_eq!(&*policy.spec.resource_selectors[0].name, &*target_key(&world.hpa).name);
            }
        }
    }
}

#[test]
fn maxima_stay_within_the_quota_and_come_back() {
    const LEAVES: &str = "raise its limit, or lower maxReplicas or what a replica requests";
    let limited = |replicas: i32, of: i32| {
        format!(
            "True QuotaExceeded: FederatedResourceQuota shop/q leaves {replicas} of {of} replicas for cpu: {LEAVES}"
        )
    };
    let mut world = World::new(&[("A", 2), ("B", 1)], (2, 30));
    world.quota = Some("1500m");
    world.settle();
    assert_eq!(world.bounds(), "A(1,10) B(1,5)");
    assert_eq!(world.condition("ScalingLimited"), limited(15, 30));
    assert!(world.settle().is_empty(), "nothing changed");
    world.report("A", 9, 9, READY);
    world.report("B", 2, 2, READY);
    world.settle();
    let bounds = world.bounds();
    assert!(world.settle().is_empty());
    world.quota = Some("900m");
    world.second += 60;
    world.settle();
    assert_eq!(world.bounds(), "A(1,9) B(1,2)", "what runs stays; before it was {bounds}");
    assert_eq!(world.condition("ScalingLimited"), limited(11, 30));
    world.quota = Some("10");
    world.settle();
    assert_eq!(world.bounds(), "A(1,20) B(1,10)", "raised at once");
    assert_eq!(world.condition("ScalingLimited"), "");
    world.quota = Some("2");
    world.settle();
    assert_eq!(world.bounds(), "A(1,14) B(1,6)");
    world.quota = None;
    world.settle();
    assert_eq!(world.bounds(), "A(1,20) B(1,10)", "without a quota");
}

#[test]
fn a_cluster_that_left_keeps_its_part_of_the_quota() {
    let mut world = World::new(&[("A", 2), ("B", 2), ("C", 2)], (3, 30));
    world.quota = Some("1200m");
    world.settle();
    assert_eq!(world.bounds(), "A(1,4) B(1,4) C(1,4)");
    world.set_ready("C", "False");
    world.second += 3_600;
    world.settle();
    assert_eq!(world.bounds(), "A(2,4) B(1,4) C(1,4)", "C may still grow to its maximum");
}

#[test]
fn what_a_quota_leaves_is_lent_and_comes_to_rest() {
    let mut world = World::new(&[("A", 1), ("B", 1)], (2, 20));
    world.quota = Some("1");
    world.settle();
    assert_eq!(world.bounds(), "A(1,5) B(1,5)");
    let limited = |world: &mut World, replicas: i32| {
        let conditions = json!([{"type": "AbleToScale", "status": "True", "reason": READY, "message": "m"},
            {"type": "ScalingLimited", "status": "True", "reason": "TooManyReplicas", "message": "m"}]);
        let report = json!({"currentReplicas": replicas, "desiredReplicas": replicas, "conditions": conditions});
        world.report_as("A", &report);
    };
    let mut seen = Vec::new();
    // A takes what it may have, as a busy member does.
    for _ in 0..30 {
        let most = world.state().clusters[&ClusterName::from("A")].max;
        limited(&mut world, most);
        world.report("B", 2, 2, READY);
        world.second += 60;
        world.settle();
        seen.push(world.bounds());
    }
    assert!(seen[10..].iter().all(|bounds| bounds == "A(1,8) B(1,2)"), "{seen:?}");
}
