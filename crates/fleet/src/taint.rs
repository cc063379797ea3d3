//! Taints of a cluster that repel a binding (specification/scheduling.md 5.2), and the text of a taint.

use ironclad_api::{
    Taint, Toleration,
    taints::{NO_EXECUTE, NO_SCHEDULE, PREFER_NO_EXECUTE},
};
use jiff::{SignedDuration, Timestamp};

/// Returns whether a toleration tolerates a taint by Kubernetes' rules; the numeric operators are off.
#[must_use]
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.as_deref().unwrap_or_default();
    let effect = toleration.effect.as_deref().unwrap_or_default();
    if !effect.is_empty() && effect != taint.effect {
        return false;
    }
    if !key.is_empty() && key != taint.key {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "Exists" => true,
        "" | "Equal" => {
            !key.is_empty()
                && toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default()
        }
        _ => false,
    }
}

/// The first taint that keeps a new placement away. PreferNoExecute keeps away only who opted in, and no toleration
/// helps against it (specification/failover.md IR-7).
#[must_use]
pub fn repelling<'a>(taints: &'a [Taint], tolerations: &[Toleration], failover: Failover) -> Option<&'a Taint> {
    repelling_at(taints, tolerations, failover, Timestamp::MIN, None)
}

/// The same at this time, for a workload that a NoExecute taint last evicted from the cluster at `evicted`. A NoExecute
/// taint that is tolerated for some seconds keeps new placements away once these have passed, and at once if the
/// workload was evicted since the taint was added: it would be evicted again (specification/failover.md 13, invariant
/// 21; specification/scheduling.md 5.2).
#[must_use]
pub fn repelling_at<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
    failover: Failover,
    now: Timestamp,
    evicted: Option<Timestamp>,
) -> Option<&'a Taint> {
    let lasts = |toleration: &Toleration, taint: &Taint| match (toleration.toleration_seconds, &taint.time_added) {
        (Some(seconds), Some(added)) if taint.effect == NO_EXECUTE => {
            evicted.is_none_or(|evicted| evicted < added.0)
                && added.0.saturating_add(SignedDuration::from_secs(seconds)).is_ok_and(|until| now < until)
        }
        _ => true,
    };
    let repels = |taint: &&Taint| match taint.effect.as_str() {
        NO_SCHEDULE | NO_EXECUTE => {
            !tolerations.iter().any(|toleration| tolerates(toleration, taint) && lasts(toleration, taint))
        }
        PREFER_NO_EXECUTE => failover == Failover::OptedIn,
        _ => false,
    };
    taints.iter().find(repels)
}

/// Returns whether a binding opts in to leave clusters with a PreferNoExecute taint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failover {
    /// It has `spec.failover.cluster`.
    OptedIn,
    /// It stays where it is.
    Stays,
}

/// A taint as messages print it.
#[must_use]
pub fn text(taint: &Taint) -> String {
    match taint.value.as_deref().filter(|value| !value.is_empty()) {
        Some(value) => format!("{}={value}:{}", taint.key, taint.effect),
        None => format!("{}:{}", taint.key, taint.effect),
    }
}

#[cfg(test)]
mod tests {
    use ironclad_api::Time;

    use super::*;

    fn taint(key: &str, value: &str, effect: &str) -> Taint {
        Taint { key: key.to_owned(), value: Some(value.to_owned()), effect: effect.to_owned(), time_added: None }
    }

    fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Toleration {
        let text = |text: &str| Some(text.to_owned());
        Toleration {
            key: text(key),
            operator: text(operator),
            value: text(value),
            effect: text(effect),
            toleration_seconds: None,
        }
    }

    #[test]
    fn tolerations_as_in_kubernetes() {
        let t = taint("k", "v", NO_SCHEDULE);
        for (name, toleration, want) in [
            ("equal key and value", toleration("k", "Equal", "v", NO_SCHEDULE), true),
            ("no operator is Equal", toleration("k", "", "v", ""), true),
            ("another value", toleration("k", "Equal", "w", ""), false),
            ("Exists needs no value", toleration("k", "Exists", "", ""), true),
            ("another effect", toleration("k", "Exists", "", NO_EXECUTE), false),
            ("another key", toleration("j", "Exists", "", ""), false),
            ("no key and Exists is everything", toleration("", "Exists", "", ""), true),
            ("no key and Equal is nothing", toleration("", "Equal", "v", ""), false),
            ("numeric operators are off", toleration("k", "Gt", "1", ""), false),
        ] {
            assert_eq!(tolerates(&toleration, &t), want, "{name}");
        }
    }

    #[test]
    fn effects_on_new_placements() {
        use Failover::{OptedIn, Stays};
        let forever = [toleration("k", "Exists", "", "")];
        for (name, effect, tolerations, failover, want) in [
            ("NoSchedule repels", NO_SCHEDULE, &[][..], Stays, Some("k=v:NoSchedule")),
            ("NoExecute repels", NO_EXECUTE, &[][..], Stays, Some("k=v:NoExecute")),
            ("tolerated NoSchedule", NO_SCHEDULE, &forever[..], Stays, None),
            ("tolerated NoExecute, also with seconds", NO_EXECUTE, &forever[..], Stays, None),
            ("PreferNoExecute without failover", PREFER_NO_EXECUTE, &[][..], Stays, None),
            (
                "PreferNoExecute with failover ignores tolerations",
                PREFER_NO_EXECUTE,
                &forever[..],
                OptedIn,
                Some("k=v:PreferNoExecute"),
            ),
        ] {
            let taints = [taint("k", "v", effect)];
            let got = repelling(&taints, tolerations, failover).map(text);
            assert_eq!(got.as_deref(), want, "{name}");
        }
        assert_eq!(text(&taint("k", "", NO_SCHEDULE)), "k:NoSchedule", "an empty value is left out");
    }

    #[test]
    fn a_toleration_of_some_seconds_ends_for_new_placements_too() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let thirty = Toleration { toleration_seconds: Some(30), ..toleration("k", "Exists", "", "NoExecute") };
        let for_ever = toleration("k", "Exists", "", "NoExecute");
        let added = |effect| Taint { time_added: Some(Time(at(100))), ..taint("k", "v", effect) };
        let endless = [thirty.clone(), for_ever];
        let limited = [thirty.clone()];
        let any_effect = [Toleration { effect: None, ..thirty }];
        for (name, effect, tolerations, now, evicted, want) in [
            ("a second before its end", NO_EXECUTE, &limited[..], 129, None, false),
            ("at its end", NO_EXECUTE, &limited, 130, None, true),
            ("another one lasts", NO_EXECUTE, &endless, 130, None, false),
            ("NoSchedule knows no seconds", NO_SCHEDULE, &any_effect, 130, None, false),
            ("evicted before the taint", NO_EXECUTE, &limited, 110, Some(99), false),
            ("evicted since the taint", NO_EXECUTE, &limited, 110, Some(100), true),
            ("evicted, and tolerates it for ever now", NO_EXECUTE, &endless, 110, Some(105), false),
            ("evicted, and NoSchedule knows no seconds", NO_SCHEDULE, &any_effect, 110, Some(105), false),
        ] {
            let taints = [added(effect)];
            let repelling = repelling_at(&taints, tolerations, Failover::Stays, at(now), evicted.map(at));
            assert_eq!(repelling.is_some(), want, "{name}");
        }
    }
}
