//! Edits of a cluster's taints.

use std::fmt;

use ironclad_api::Taint;
use ironclad_failover::taints::TaintId;
use ironclad_fleet::taint::text;

use super::spec::Request;

/// Treatment of existing taints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overwrite {
    /// `--overwrite`.
    Allowed,
    /// Without it.
    Refused,
}

/// Result of an edit, as printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Some were added.
    Tainted,
    /// Some were removed.
    Untainted,
    /// Both, or some were overwritten.
    Modified,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tainted => "tainted",
            Self::Untainted => "untainted",
            Self::Modified => "modified",
        })
    }
}

/// Error of an edit that does not fit the cluster's taints.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It has them.
    #[error("cluster {cluster} already has {keys} taint(s) with same effect(s) and --overwrite is false")]
    Present {
        /// The cluster.
        cluster: String,
        /// The keys.
        keys: String,
    },
    /// It has not.
    #[error("taint {taint:?} not found")]
    Missing {
        /// The taint.
        taint: String,
    },
}

/// Returns the taints after the edit, and its name in messages. An overwritten taint keeps its place and `timeAdded`:
/// pending evictions keep their due times.
///
/// # Errors
/// If the cluster has a taint that is to be added, or not one that is to be removed.
pub fn edited(
    cluster: &str,
    existing: &[Taint],
    request: &Request,
    overwrite: Overwrite,
) -> Result<(Vec<Taint>, Outcome), Refused> {
    let mut taints = existing.to_vec();
    let same = |a: &Taint, b: &Taint| TaintId::of(a).is(b);
    if overwrite == Overwrite::Refused {
        let present = |new: &&Taint| existing.iter().any(|old| same(old, new));
        let keys: Vec<&str> = request.add.iter().filter(present).map(|taint| taint.key.as_str()).collect();
        if !keys.is_empty() {
            return Err(Refused::Present { cluster: cluster.to_owned(), keys: keys.join(",") });
        }
    }
    for removal in &request.remove {
        let before = taints.len();
        taints.retain(|taint| !removal.means(taint));
        if taints.len() == before {
            return Err(Refused::Missing { taint: removal.to_string() });
        }
    }
    let removed = taints.len() < existing.len();
    let (mut added, mut overwritten) = (false, false);
    for new in &request.add {
        match taints.iter_mut().find(|old| same(old, new)) {
            Some(old) => {
                overwritten = true;
                old.value.clone_from(&new.value);
            }
            None => {
                added = true;
                taints.push(new.clone());
            }
        }
    }
    let outcome = match (added, removed, overwritten) {
        (true, false, false) => Outcome::Tainted,
        (false, true, false) => Outcome::Untainted,
        _ => Outcome::Modified,
    };
    Ok((taints, outcome))
}

/// The taints of a request that can move workloads, as messages print them.
#[must_use]
pub fn evicting(request: &Request) -> Vec<String> {
    request.add.iter().filter(|taint| ironclad_failover::taints::evicts(taint)).map(text).collect()
}

#[cfg(test)]
mod tests {
    use ironclad_api::Time;
    use jiff::Timestamp;

    use super::*;
    use crate::taint::spec::parse;

    fn run(existing: &[&str], line: &str, overwrite: Overwrite) -> Result<String, String> {
        let words: Vec<String> = format!("clusters m1 {line}").split_whitespace().map(str::to_owned).collect();
        let existing = format!("clusters m1 {}", existing.join(" "));
        let existing: Vec<String> = existing.split_whitespace().map(str::to_owned).collect();
        let mut existing = parse(&existing).map(|request| request.add).unwrap_or_default();
        for taint in &mut existing {
            taint.time_added = Some(Time(Timestamp::from_second(5).unwrap()));
        }
        let (taints, outcome) =
            edited("m1", &existing, &parse(&words).unwrap(), overwrite).map_err(|error| error.to_string())?;
        let shown = |taint: &Taint| format!("{}{}", text(taint), if taint.time_added.is_some() { "@5" } else { "" });
        Ok(format!("{outcome} {}", taints.iter().map(shown).collect::<Vec<_>>().join(" ")))
    }

    #[test]
    fn edits_add_change_and_remove_taints() {
        use Overwrite::{Allowed, Refused};
        for (name, existing, line, overwrite, want) in [
            ("the first", &[][..], "k=v:NoSchedule", Refused, "tainted k=v:NoSchedule"),
            ("another effect", &["k:NoSchedule"], "k:NoExecute", Refused, "tainted k:NoSchedule@5 k:NoExecute"),
            ("a removal", &["k:NoSchedule", "x:NoExecute"], "k:NoSchedule-", Refused, "untainted x:NoExecute@5"),
            ("all effects", &["k:NoSchedule", "k:NoExecute"], "k-", Refused, "untainted "),
            ("both", &["k:NoSchedule"], "k- x:NoExecute", Refused, "modified x:NoExecute"),
            (
                "overwritten: timeAdded is kept",
                &["k=v:NoExecute"],
                "k=w:NoExecute",
                Allowed,
                "modified k=w:NoExecute@5",
            ),
            (
                "--overwrite without an existing taint",
                &["k:NoSchedule"],
                "x:NoExecute",
                Allowed,
                "tainted k:NoSchedule@5 x:NoExecute",
            ),
        ] {
            assert_eq!(run(existing, line, overwrite).as_deref(), Ok(want), "{name}");
        }
    }

    #[test]
    fn invalid_edits_are_rejected() {
        use Overwrite::{Allowed, Refused};
        let present = "cluster m1 already has k,x taint(s) with same effect(s) and --overwrite is false";
        for (name, existing, line, overwrite, want) in [
            ("there", &["k=v:NoExecute", "x:NoSchedule"][..], "k=w:NoExecute x:NoSchedule", Refused, present),
            ("not there", &["k:NoSchedule"], "k:NoExecute-", Refused, "taint \"k:NoExecute\" not found"),
            ("no taint with the key", &[], "k-", Allowed, "taint \"k\" not found"),
        ] {
            assert_eq!(run(existing, line, overwrite).unwrap_err(), want, "{name}");
        }
    }
}
