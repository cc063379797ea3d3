//! Condition `NodesReady`: whether enough of a member's nodes are ready (specification/failover.md 14.1, #3612). A
//! health endpoint stays green while every node is down; this says so, for ClusterTaintPolicies to act on. It is off
//! unless `--nodes-ready-ratio` asks for it, and never a part of Ready.

use ironclad_api::{
    Condition, Time,
    cluster::{Cluster, NodeSummary},
    conditions::{
        self, FALSE, TRUE, UNKNOWN,
        cluster::{NODES_READY, READY},
    },
};
use ironclad_fleet::because::health::Reason;
use jiff::Timestamp;

/// Condition that follows from the nodes of a ready member; `None` if there is none.
/// `ratio` is the sufficient share of ready nodes; 0 is off and removes the condition. `now` is in whole seconds.
#[must_use]
pub fn condition(cluster: &Cluster, nodes: &NodeSummary, ratio: f64, now: Timestamp) -> Option<Condition> {
    let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    if ratio <= 0.0 {
        let removed = Condition { status: String::new(), ..conditions::condition(NODES_READY, "", "", "") };
        return conditions::get(conditions, NODES_READY).map(|_| removed);
    }
    // The last report of a lost member says nothing about its nodes now; the condition remains.
    if !conditions::is_true(conditions, READY) {
        return None;
    }
    let (ready, total) = (nodes.ready_num, nodes.total_num);
    let (status, reason) = if total <= 0 {
        (UNKNOWN, Reason::NoNodes)
    } else if f64::from(ready) + 1e-9 >= ratio * f64::from(total) {
        (TRUE, Reason::NodesReady { ready, total })
    } else {
        (FALSE, Reason::NodesNotReady { ready, total })
    };
    let mut wanted = conditions::condition(NODES_READY, status, reason.reason(), reason.to_string());
    wanted.last_transition_time = Time(now);
    let existing = conditions::get(conditions, NODES_READY);
    let same = existing
        .is_some_and(|c| (&c.status, &c.reason, &c.message) == (&wanted.status, &wanted.reason, &wanted.message));
    (!same).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{at, cluster, ready};

    fn written(existing: Option<&str>, is_ready: &str, nodes: (i32, i32), ratio: f64) -> Option<(String, String)> {
        let mut cluster = cluster("m1");
        ready(&mut cluster, is_ready, 0);
        if let Some(status) = existing {
            let condition = conditions::condition(NODES_READY, status, "NodesReady", "3 of 4 nodes are ready");
            conditions::set(&mut cluster.status.get_or_insert_default().conditions, condition, &Time(at(0)));
        }
        let nodes = NodeSummary { ready_num: nodes.0, total_num: nodes.1 };
        condition(&cluster, &nodes, ratio, at(7)).map(|c| (c.status, c.message))
    }

    #[test]
    fn nodes_ready_condition_follows_the_ratio() {
        let say = |status: &str, message: &str| Some((status.to_owned(), message.to_owned()));
        for (name, existing, is_ready, nodes, ratio, want) in [
            ("off", None, "True", (0, 4), 0.0, None),
            ("ratio 0: the condition is removed", Some("True"), "True", (0, 4), 0.0, say("", "")),
            ("all are", None, "True", (4, 4), 0.5, say("True", "4 of 4 nodes are ready")),
            ("just enough", None, "True", (2, 4), 0.5, say("True", "2 of 4 nodes are ready")),
            ("below the ratio", None, "True", (1, 4), 0.5, say("False", "1 of 4 nodes are ready")),
            ("none is", None, "True", (0, 4), 0.5, say("False", "0 of 4 nodes are ready")),
            ("ratio 1", None, "True", (9, 10), 1.0, say("False", "9 of 10 nodes are ready")),
            (
                "rounding of 1/3 does not count as below the ratio",
                None,
                "True",
                (1, 3),
                1.0 / 3.0,
                say("True", "1 of 3 nodes are ready"),
            ),
            ("no nodes: Unknown", None, "True", (0, 0), 0.5, say("Unknown", "the cluster has no nodes")),
            ("said already", Some("True"), "True", (3, 4), 0.5, None),
            ("other numbers", Some("True"), "True", (2, 4), 0.5, say("True", "2 of 4 nodes are ready")),
            ("an unreachable member keeps its condition", Some("True"), "False", (0, 4), 0.5, None),
        ] {
            assert_eq!(written(existing, is_ready, nodes, ratio), want, "{name}");
        }
    }
}
