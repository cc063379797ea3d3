//! Flags of the scheduler (specification/operations.md 8.3).

use ironclad_cli::given::Given;
use ironclad_fleet::gates::{Gate, Gates};
use ironclad_options::Value;
use ironclad_scheduling::{Options, Plugins};

/// Returns the options, and warnings.
///
/// # Errors
/// A value is none of its flag's, or a gate needs another.
pub(super) fn options(given: &Given<Options>, gates: &Gates) -> Result<(Options, Vec<String>), String> {
    let mut options = Options::default();
    if let Some((_, error)) = given.apply_to(&mut options).into_iter().next() {
        return Err(error);
    }
    let preempts = gates.enabled(Gate::PriorityBasedPreemptiveScheduling);
    if preempts && !gates.enabled(Gate::PriorityBasedScheduling) {
        let message = "--feature-gates: PriorityBasedPreemptiveScheduling needs PriorityBasedScheduling, which is off: \
                       switch both on, or the first one off";
        return Err(message.to_owned());
    }
    let warnings = match given.value("plugins") {
        Some(Value::Words(list)) => Plugins::warnings(list),
        _ => Vec::new(),
    };
    Ok((options, warnings))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use ironclad_scheduling::preempt::Mode;
    use jiff::SignedDuration;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Given<Options>,
    }

    #[test]
    fn without_flags_they_are_the_defaults_of_the_scheduler() {
        let options = |line: &[&str]| {
            let line = Line::try_parse_from(std::iter::once("x").chain(line.iter().copied())).unwrap();
            super::options(&line.args, &Gates::default())
        };
        assert_eq!(options(&[]).unwrap(), (Options::default(), vec![]));
        let (retired, warnings) = options(&["--plugins=*,ClusterEviction"]).unwrap();
        assert_eq!((retired, warnings.len()), (Options::default(), 1), "accepted with a warning");
        assert!(options(&["--plugins=*,Nope"]).is_err());
        let observed = options(&["--preemption-mode=observe"]).unwrap().0;
        assert_eq!(observed.preemption(), Mode::Off, "the gate decides whether there is preemption");
        assert!(options(&["--preemption-mode=dry"]).is_err());
        let listed = options(&["--plugins", "-TaintToleration,*"]).unwrap().0;
        assert_eq!(listed.plugins.enabled().count(), Plugins::default().enabled().count() - 1);
        let gated = |line: &[&str], gates: &Gates| {
            let line = Line::try_parse_from(std::iter::once("x").chain(line.iter().copied())).unwrap();
            super::options(&line.args, gates).map(|(options, _)| options.with_gates(gates).preemption())
        };
        let on = Gates::default().with(Gate::PriorityBasedPreemptiveScheduling, true);
        assert_eq!(gated(&[], &on), Ok(Mode::Evict));
        assert_eq!(gated(&["--preemption-mode=observe"], &on), Ok(Mode::Observe));
        let error = gated(&[], &on.with(Gate::PriorityBasedScheduling, false)).unwrap_err();
        assert!(error.contains("needs PriorityBasedScheduling"), "{error}");
        assert_eq!(
            options(&["--clear-unfit-result-after=0s"]).unwrap().0.clear_unfit_result_after,
            SignedDuration::ZERO
        );
    }
}
