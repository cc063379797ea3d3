//! End of a nomination whose capacity others took (specification/scheduling.md 15.7).

use ironclad_api::work::TargetCluster;
use ironclad_fleet::ClusterName;
use jiff::{SignedDuration, Timestamp};
use smallvec::smallvec;

use super::{Placed, placed::Occupant};
use crate::{
    Seen,
    capacity::{Amounts, Asked, Asker},
    estimator::Question,
    options,
    priority::priority,
};

/// Time for victims to leave and summaries to show it. A binding that was scheduled anew where it runs seems to have
/// come, and without this time it could end a nomination whose capacity is still to appear.
const HELD_AT_LEAST: SignedDuration = SignedDuration::from_mins(1);

/// Returns whether bindings of higher priority, scheduled to the clusters of a nomination since it began, use what the
/// preemptor lacks there: without them everything that is held would fit. While the summaries lack what victims free,
/// it would not, so that it is waited for. A nomination lasts a minute in any case. `since` is its begin.
pub(crate) fn is_overtaken(seen: &Seen<'_>, placed: &Placed, since: Timestamp, now: Timestamp) -> bool {
    let spec = seen.binding.spec();
    let Some(placement) = &spec.placement else { return false };
    if now.duration_since(since) < HELD_AT_LEAST {
        return false;
    }
    let sets = options::schedules_component_sets(seen.options, spec, placement);
    let asked = Asked::from(Question::of(spec, sets));
    let asker = Asker::of(spec);
    let above = priority(spec).checked_add(1);
    // Whether the share of a cluster is lacking, if it would fit without the others.
    let lacks = |target: &TargetCluster| {
        let cluster = ClusterName::from(target.name.as_str());
        let (room, _) = seen.capacity.room(&cluster, &asked, &asker)?;
        let share = i64::from(target.replicas).max(1);
        // Times have whole seconds: in the second of the nomination it is not known who came first.
        let is_new = |occupant: &Occupant| occupant.scheduled.is_some_and(|scheduled| scheduled > since);
        let others = placed.on(&cluster).zip(above).into_iter().flat_map(|(on, above)| on.from(above));
        let mut freed: Amounts = smallvec![0; room.width()];
        for (_, other) in others.filter(|(_, other)| is_new(other)) {
            for (sum, more) in freed.iter_mut().zip(&room.amounts(&other.footprint)) {
                *sum = sum.saturating_add(*more);
            }
        }
        (room.base().saturating_add(room.gain_by_sums(&freed)) >= share).then(|| room.base() < share)
    };
    let nominated = seen.binding.status().map_or(&[][..], |status| &status.nominated_clusters);
    let lacking: Option<Vec<bool>> = nominated.iter().map(lacks).collect();
    lacking.is_some_and(|lacking| lacking.contains(&true))
}
