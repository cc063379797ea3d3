//! Works wait for the scheduler (specification/propagation.md 9.1).

use super::*;

#[test]
fn scheduler_runs_first_when_replicas_differ() {
    let divided = json!({"placement": {"replicaScheduling": {"replicaSchedulingType": "Divided"}}});
    let of = |targets: &[(&str, i32)], spec: Value, status: Value| {
        let base = testkit::binding(targets);
        patched(&base, &json!({"metadata": {"generation": 5}, "spec": spec, "status": status}))
    };
    for (name, binding, want) in [
        ("duplicated and whole", of(&[("m1", 3), ("m2", 3)], json!({}), json!({})), false),
        ("duplicated, and the template was scaled", of(&[("m1", 2), ("m2", 2)], json!({}), json!({})), true),
        ("divided and all placed", of(&[("m1", 2), ("m2", 1)], divided.clone(), json!({})), false),
        ("divided, and the template was scaled", of(&[("m1", 2)], divided.clone(), json!({})), true),
        (
            "the scheduler has seen it and leaves it so",
            of(&[("m1", 2)], divided.clone(), json!({"schedulerObservedGeneration": 5})),
            false,
        ),
        (
            "the scheduler has seen an earlier one",
            of(&[("m1", 2)], divided.clone(), json!({"schedulerObservedGeneration": 4})),
            true,
        ),
        ("nothing placed yet", of(&[], json!({}), json!({})), false),
        ("scheduling is suspended", of(&[("m1", 2)], json!({"suspension": {"scheduling": true}}), json!({})), false),
        ("attached: no scheduler", of(&[("m1", 2)], json!({"placement": null}), json!({})), false),
        ("no workload", of(&[("m1", 2)], json!({"replicas": 0}), json!({})), false),
    ] {
        assert_eq!(await_scheduler::is_pending(Binding::from(&binding)), want, "{name}");
    }
}

#[test]
fn works_wait_for_the_scheduler_for_a_limited_time() {
    let binding = patched(&testkit::binding(&[("m1", 2)]), &json!({"metadata": {"generation": 5}}));
    let template = deployment();
    let clusters = BTreeMap::from([("m1".into(), Arc::new(cluster("m1", "True")))]);
    for (waited, want) in [(0, vec!["await"]), (999, vec!["await"]), (1000, vec!["create"])] {
        let seen = Seen {
            binding: Binding::from(&binding),
            template: Some(&template),
            works: &[],
            named: &[],
            owned: &[],
            clusters: &clusters,
            cluster_overrides: &[],
            overrides: &[],
            quotas: &[],
            interpreter: &Interpreter::default(),
            member_replicas: None,
            members_may_rest: false,
            namespace_sync: None,
            options: &Options::default(),
            waited: Duration::from_millis(waited),
            now: Timestamp::UNIX_EPOCH,
        };
        assert_eq!(kinds(&decide(&seen, ids("new"))), want, "{waited} ms");
    }
}
