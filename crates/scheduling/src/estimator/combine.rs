//! Meaning of an estimator's answer, and of none (specification/scheduling.md 10.1, 16.5).

use std::fmt;

/// Reason why an estimator did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoAnswer {
    /// It did not answer within `--scheduler-estimator-timeout`.
    Timeout,
    /// It was not asked: its last calls failed.
    CircuitOpen,
    /// The call failed with this error.
    Error(String),
    /// It was asked and sent a number that no estimator sends.
    Absurd(i64),
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("it did not answer in time"),
            Self::CircuitOpen => f.write_str("it was not asked, since its last calls failed"),
            Self::Error(error) => f.write_str(error),
            Self::Absurd(number) => write!(f, "it answered {number}, which is no number of replicas"),
        }
    }
}

/// Outcome of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// So many more fit.
    Fits(i64),
    /// It has no opinion: the other estimators decide.
    NoOpinion,
    /// It failed: the other estimators decide, and the failure counts against it.
    Failed(NoAnswer),
}

/// Meaning of the number in an answer. `-1` is no opinion, other negative numbers are errors: none of them is zero, and
/// none limits an estimate.
#[must_use]
pub fn meaning(answer: Result<i32, NoAnswer>) -> Answer {
    match answer {
        Ok(-1) => Answer::NoOpinion,
        Ok(number) if number < 0 => Answer::Failed(NoAnswer::Absurd(number.into())),
        Ok(number) => Answer::Fits(number.into()),
        Err(why) => Answer::Failed(why),
    }
}

impl Answer {
    /// Limit of the estimate; `None` if the other estimators decide.
    #[must_use]
    pub fn limit(&self) -> Option<i64> {
        match self {
            Self::Fits(fits) => Some(*fits),
            Self::NoOpinion | Self::Failed(_) => None,
        }
    }

    /// Returns whether the estimator works, as its circuit breaker counts; `None` if it was not asked.
    #[must_use]
    pub fn works(&self) -> Option<bool> {
        match self {
            Self::Fits(_) | Self::NoOpinion => Some(true),
            Self::Failed(NoAnswer::CircuitOpen) => None,
            Self::Failed(_) => Some(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_estimator_limits_nothing() {
        let error = || NoAnswer::Error("unavailable".to_owned());
        for (name, answer, limit, works) in [
            ("a number", Ok(7), Some(7), Some(true)),
            ("zero is a number", Ok(0), Some(0), Some(true)),
            ("the largest", Ok(i32::MAX), Some(i64::from(i32::MAX)), Some(true)),
            ("no opinion", Ok(-1), None, Some(true)),
            ("a negative number", Ok(-2), None, Some(false)),
            ("the least", Ok(i32::MIN), None, Some(false)),
            ("no answer in time", Err(NoAnswer::Timeout), None, Some(false)),
            ("an error", Err(error()), None, Some(false)),
            ("not asked", Err(NoAnswer::CircuitOpen), None, None),
        ] {
            let answer = meaning(answer);
            assert_eq!((answer.limit(), answer.works()), (limit, works), "{name}");
        }
        assert_eq!(NoAnswer::Absurd(-7).to_string(), "it answered -7, which is no number of replicas");
    }
}
