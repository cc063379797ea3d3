//! Warnings of API servers on stderr, as kubectl prints them (specification/operations.md 3): each text once, whichever
//! server sent it.
//!
//! The texts of a process are kept in one place, as clients are made in many.

use std::{
    collections::BTreeSet,
    env,
    io::{self, IsTerminal as _},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::bail;
use ironclad_fleet::count::count;
use ironclad_runtime::Traffic;

use crate::print;

/// Texts that are remembered; further ones are counted and not printed.
const TEXTS_MAX: usize = 1000;

static RECEIVED: Mutex<Received> = Mutex::new(Received { texts: BTreeSet::new(), count: 0 });
static AS_ERRORS: AtomicBool = AtomicBool::new(false);

/// Texts that servers sent.
#[derive(Debug, Default)]
struct Received {
    texts: BTreeSet<String>,
    /// Number of different texts.
    count: usize,
}

impl Received {
    /// True if the text is a new one, which is to be printed.
    fn add(&mut self, text: &str) -> bool {
        if self.texts.contains(text) {
            return false;
        }
        self.count += 1;
        self.texts.len() < TEXTS_MAX && self.texts.insert(text.to_owned())
    }

    /// The end of a verb that takes warnings as errors.
    fn verdict(&self) -> anyhow::Result<()> {
        match self.count {
            0 => Ok(()),
            number => bail!("{} received", count(number, "warning")),
        }
    }
}

/// An observer of a client whose warnings are printed.
#[must_use]
pub fn printing() -> Arc<Traffic> {
    Arc::new(Traffic::with_warnings(receive))
}

fn receive(text: &str) {
    let is_new = RECEIVED.lock().unwrap_or_else(PoisonError::into_inner).add(text);
    if is_new {
        let variable = |name: &str| env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        let colour = colours(io::stderr().is_terminal(), variable("TERM").as_deref(), variable("NO_COLOR").as_deref());
        print::warning(text, colour);
    }
}

/// True where kubectl prints colours: on a terminal that is not a dumb one, unless the user wants none.
fn colours(is_terminal: bool, terminal: Option<&str>, no_color: Option<&str>) -> bool {
    is_terminal && terminal != Some("dumb") && no_color.is_none()
}

/// Lets [`verdict`] fail if there were warnings.
pub fn take_as_errors() {
    AS_ERRORS.store(true, Ordering::Relaxed);
}

/// The end of a verb that succeeded.
///
/// # Errors
/// If warnings are taken as errors, and there was one.
pub fn verdict() -> anyhow::Result<()> {
    match AS_ERRORS.load(Ordering::Relaxed) {
        true => RECEIVED.lock().unwrap_or_else(PoisonError::into_inner).verdict(),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_printed_once_and_counted_once() {
        let mut received = Received::default();
        assert!(received.verdict().is_ok());
        assert!(received.add("one") && !received.add("one"));
        assert_eq!(received.verdict().unwrap_err().to_string(), "1 warning received");
        assert!(received.add("two"));
        assert_eq!(received.verdict().unwrap_err().to_string(), "2 warnings received");
        for number in 0..2 * TEXTS_MAX {
            received.add(&number.to_string());
        }
        assert_eq!(received.texts.len(), TEXTS_MAX);
        assert!(!received.add("beyond the limit"));
    }

    #[test]
    fn colours_are_printed_where_kubectl_prints_them() {
        for (is_terminal, terminal, no_color, want) in [
            (true, Some("xterm"), None, true),
            (true, None, None, true),
            (true, Some("dumb"), None, false),
            (true, Some("xterm"), Some(""), false),
            (false, Some("xterm"), None, false),
        ] {
            assert_eq!(colours(is_terminal, terminal, no_color), want, "{is_terminal} {terminal:?} {no_color:?}");
        }
    }
}
