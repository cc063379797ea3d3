//! Pods of reached clusters per replica of the template (specification/autoscaling.md 2.6).
//!
//! Metrics and pods are counted over clusters; what is written is the number of the template. The factor comes from the
//! schedule result and not from what members run: while new replicas are on their way, that would count them twice.

/// A cluster of the schedule result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assigned {
    /// Replicas that the binding assigns to it.
    pub replicas: i32,
    /// True if its pods were counted.
    pub is_reached: bool,
}

/// Number of replicas of the template that run in each cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// The clusters share them.
    Divided,
    /// Every cluster has as many as the template says.
    Duplicated,
}

/// The factor `k`, a fraction above zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calibration {
    pods: i64,
    replicas: i64,
}

impl Calibration {
    /// One pod per replica.
    pub const ONE: Self = Self { pods: 1, replicas: 1 };

    /// Returns the factor of a schedule result; `None` if the reached clusters run no replicas, while others do.
    #[must_use]
    pub fn of_clusters(spread: Spread, clusters: &[Assigned]) -> Option<Self> {
        let sum = |assigned: &mut dyn Iterator<Item = &Assigned>| -> i64 {
            assigned.map(|assigned| i64::from(assigned.replicas.max(0))).sum()
        };
        let calibration = match spread {
            Spread::Duplicated => {
                let reached = clusters.iter().filter(|assigned| assigned.is_reached).count();
                Self { pods: i64::try_from(reached).unwrap_or(i64::MAX), replicas: 1 }
            }
            Spread::Divided => {
                let all = sum(&mut clusters.iter());
                let reached = sum(&mut clusters.iter().filter(|assigned| assigned.is_reached));
                if all == 0 { Self::ONE } else { Self { pods: reached, replicas: all } }
            }
        };
        (calibration.pods > 0).then_some(calibration)
    }

    /// Returns the denominator of `k`.
    pub(crate) fn of(self) -> i128 {
        i128::from(self.replicas)
    }

    /// Returns the numerator of `k`.
    pub(crate) fn per(self) -> i128 {
        i128::from(self.pods)
    }
}

impl std::fmt::Display for Calibration {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.pods % self.replicas == 0 {
            write!(to, "{}", self.pods / self.replicas)
        } else {
            write!(to, "{}/{}", self.pods, self.replicas)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors() {
        let reached = |replicas| Assigned { replicas, is_reached: true };
        let lost = |replicas| Assigned { replicas, is_reached: false };
        for (name, spread, clusters, want) in [
            ("divided", Spread::Divided, vec![reached(5), reached(5)], Some("1")),
            ("duplicated", Spread::Duplicated, vec![reached(2), reached(2), reached(2)], Some("3")),
            ("duplicated, one is lost", Spread::Duplicated, vec![reached(2), lost(2), reached(2)], Some("2")),
            ("divided, the lost half is like the other", Spread::Divided, vec![reached(5), lost(5)], Some("5/10")),
            ("nothing is assigned", Spread::Divided, vec![reached(0), lost(0)], Some("1")),
            ("all replicas are in the lost cluster", Spread::Divided, vec![reached(0), lost(5)], None),
            ("no cluster is reached", Spread::Duplicated, vec![lost(2)], None),
        ] {
            let found = Calibration::of_clusters(spread, &clusters).map(|calibration| calibration.to_string());
            assert_eq!(found.as_deref(), want, "{name}");
        }
    }
}
