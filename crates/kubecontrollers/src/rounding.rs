//! Resolution of `IntOrString` fields: a number of pods or a percentage.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    Up,
    Down,
}

/// Resolves a number or percentage; `None` if it is invalid.
pub(crate) fn resolve(value: &IntOrString, of: i32, round: Round) -> i32 {
    match value {
        IntOrString::Int(n) => (*n).max(0),
        IntOrString::String(text) => {
            let Some(percent) = text.strip_suffix('%').and_then(|p| p.parse::<i64>().ok()) else { return 0 };
            let hundredths = percent.clamp(0, 10_000) * i64::from(of);
            let whole = match round {
                Round::Up => (hundredths + 99) / 100,
                Round::Down => hundredths / 100,
            };
            i32::try_from(whole).unwrap_or(i32::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_percentages() {
        let text = |t: &str| IntOrString::String(t.into());
        for (value, of, round, want) in [
            (IntOrString::Int(3), 10, Round::Up, 3),
            (IntOrString::Int(-1), 10, Round::Up, 0),
            (text("25%"), 10, Round::Up, 3),
            (text("25%"), 10, Round::Down, 2),
            (text("100%"), 7, Round::Down, 7),
            (text("x"), 7, Round::Up, 0),
            (text("99999999999%"), i32::MAX, Round::Up, i32::MAX),
        ] {
            assert_eq!(resolve(&value, of, round), want, "{value:?} of {of}");
        }
    }
}
