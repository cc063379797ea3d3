//! Parser of the arguments of `ironclad taint`.

use std::fmt;

use ironclad_api::{
    Taint,
    taints::{NO_EXECUTE, NO_SCHEDULE, PREFER_NO_EXECUTE},
};
use ironclad_fleet::taint::text;
use ironclad_patch::names;

/// Clusters and taints to edit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// The clusters.
    pub clusters: Vec<String>,
    /// Taints to add.
    pub add: Vec<Taint>,
    /// Taints to remove.
    pub remove: Vec<Removal>,
}

/// A taint to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Its key.
    pub key: String,
    /// Its effect; `None` is any.
    pub effect: Option<String>,
}

impl Removal {
    /// True if it selects this taint.
    #[must_use]
    pub fn means(&self, taint: &Taint) -> bool {
        taint.key == self.key && self.effect.as_ref().is_none_or(|effect| *effect == taint.effect)
    }
}

impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.effect {
            Some(effect) => write!(f, "{}:{effect}", self.key),
            None => f.write_str(&self.key),
        }
    }
}

/// Errors of parsing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A cluster after a taint.
    #[error("all resources must be specified before taint changes: {0}")]
    LateResource(String),
    /// Not clusters.
    #[error(
        "resource type {0:?} can not be tainted: only cluster and clusters can\n  try: ironclad taint clusters NAME KEY=VALUE:EFFECT"
    )]
    Type(String),
    /// No clusters.
    #[error("at least one cluster name is required\n  try: ironclad taint clusters NAME KEY=VALUE:EFFECT")]
    NoCluster,
    /// No taints.
    #[error("at least one taint update is required\n  try: KEY=VALUE:EFFECT to add one, KEY:EFFECT- to remove one")]
    NoTaint,
    /// An effect that there is not.
    #[error("invalid taint effect: {0}, unsupported taint effect\n  try: NoSchedule, PreferNoExecute or NoExecute")]
    Effect(String),
    /// Not of the form.
    #[error("invalid taint spec: {0}")]
    Form(String),
    /// A key or value that is none.
    #[error("invalid taint spec: {0}, {1}")]
    Text(String, String),
    /// One taint twice.
    #[error("duplicated taints with the same key and effect: {0}")]
    Duplicate(String),
    /// One taint to be added and removed.
    #[error("can not both modify and remove the following taint(s) in the same command: {0}")]
    Both(String),
}

/// Reads `clusters NAME... KEY[=VALUE]:EFFECT... KEY[:EFFECT]-...`.
///
/// # Errors
/// Errors of parsing.
pub fn parse(words: &[String]) -> Result<Request, SpecError> {
    let (kind, words) = match words.split_first() {
        // `cluster/NAME` as in kubectl.
        Some((first, rest)) if first.contains('/') && !is_taint(first) => {
            let (kind, name) = first.split_once('/').unwrap_or((first, ""));
            (kind.to_owned(), std::iter::once(name.to_owned()).chain(rest.iter().cloned()).collect())
        }
        Some((first, rest)) => (first.clone(), rest.to_vec()),
        None => return Err(SpecError::NoCluster),
    };
    if !["cluster", "clusters", "clusters.cluster.karmada.io"].contains(&kind.as_str()) {
        return Err(SpecError::Type(kind));
    }
    let (mut request, mut changes) = (Request::default(), Vec::new());
    for word in words {
        match (is_taint(&word), changes.is_empty()) {
            (true, _) => changes.push(word),
            (false, true) => request.clusters.push(word),
            (false, false) => return Err(SpecError::LateResource(word)),
        }
    }
    for change in changes {
        match change.strip_suffix('-') {
            Some(removed) => {
                let taint = taint(removed)?;
                let effect = Some(taint.effect).filter(|effect| !effect.is_empty());
                request.remove.push(Removal { key: taint.key, effect });
            }
            None => {
                let taint = taint(&change)?;
                if taint.effect.is_empty() {
                    return Err(SpecError::Form(change));
                }
                if request.add.iter().any(|other| other.key == taint.key && other.effect == taint.effect) {
                    return Err(SpecError::Duplicate(text(&taint)));
                }
                request.add.push(taint);
            }
        }
    }
    check(&request)?;
    Ok(request)
}

fn check(request: &Request) -> Result<(), SpecError> {
    if request.clusters.is_empty() {
        return Err(SpecError::NoCluster);
    }
    if request.add.is_empty() && request.remove.is_empty() {
        return Err(SpecError::NoTaint);
    }
    let both = |removal: &&Removal| request.add.iter().any(|taint| removal.means(taint));
    let both: Vec<String> = request.remove.iter().filter(both).map(ToString::to_string).collect();
    if both.is_empty() { Ok(()) } else { Err(SpecError::Both(both.join(", "))) }
}

/// No name of a cluster looks like one.
fn is_taint(word: &str) -> bool {
    word.contains('=') || word.contains(':') || word.ends_with('-')
}

fn taint(spec: &str) -> Result<Taint, SpecError> {
    let form = || SpecError::Form(spec.to_owned());
    let (pair, effect) = match spec.split(':').collect::<Vec<_>>()[..] {
        [key] => (key, ""),
        [pair, effect] => (pair, effect),
        _ => return Err(form()),
    };
    if spec.contains(':') && ![NO_SCHEDULE, PREFER_NO_EXECUTE, NO_EXECUTE].contains(&effect) {
        return Err(SpecError::Effect(effect.to_owned()));
    }
    let (key, value) = match pair.split('=').collect::<Vec<_>>()[..] {
        [key] => (key, None),
        [key, value] => (key, Some(value)),
        _ => return Err(form()),
    };
    let wrong: Vec<String> =
        names::label_key(key).into_iter().chain(value.map(names::label_value).unwrap_or_default()).collect();
    if !wrong.is_empty() {
        return Err(SpecError::Text(spec.to_owned(), wrong.join("; ")));
    }
    let value = value.filter(|value| !value.is_empty()).map(str::to_owned);
    Ok(Taint { key: key.to_owned(), effect: effect.to_owned(), value, time_added: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<String, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let shown = |request: Request| {
            let add: Vec<String> = request.add.iter().map(text).collect();
            let remove: Vec<String> = request.remove.iter().map(ToString::to_string).collect();
            format!("{} +{} -{}", request.clusters.join(","), add.join(","), remove.join(","))
        };
        parse(&words).map(shown).map_err(|error| error.to_string())
    }

    #[test]
    fn arguments_are_parsed_like_karmadactl() {
        for (line, want) in [
            ("clusters m1 k=v:NoSchedule", "m1 +k=v:NoSchedule -"),
            ("cluster m1 m2 k:NoExecute x.io/y=z:PreferNoExecute", "m1,m2 +k:NoExecute,x.io/y=z:PreferNoExecute -"),
            ("cluster/m1 k:NoExecute", "m1 +k:NoExecute -"),
            ("clusters m1 k=:NoExecute", "m1 +k:NoExecute -"),
            ("clusters m1 k:NoExecute-", "m1 + -k:NoExecute"),
            ("clusters m1 k-", "m1 + -k"),
            ("clusters m1 k=v:NoExecute-", "m1 + -k:NoExecute"),
            ("clusters m1 k:NoSchedule k:NoExecute-", "m1 +k:NoSchedule -k:NoExecute"),
        ] {
            assert_eq!(read(line).as_deref(), Ok(want), "{line}");
        }
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        let duplicated = "duplicated taints with the same key and effect: k=w:NoSchedule";
        let both = "can not both modify and remove the following taint(s) in the same command: ";
        for (line, want) in [
            ("", "at least one cluster name is required"),
            ("clusters", "at least one cluster name is required"),
            ("clusters k:NoExecute", "at least one cluster name is required"),
            ("clusters m1", "at least one taint update is required"),
            ("nodes m1 k:NoExecute", "resource type \"nodes\" can not be tainted: only cluster and clusters can"),
            ("clusters m1 k:NoExecute m2", "all resources must be specified before taint changes: m2"),
            ("clusters m1 k:PreferNoSchedule", "invalid taint effect: PreferNoSchedule, unsupported taint effect"),
            ("clusters m1 k:Nope-", "invalid taint effect: Nope, unsupported taint effect"),
            ("clusters m1 k:", "invalid taint effect: , unsupported taint effect"),
            ("clusters m1 k=v", "invalid taint spec: k=v"),
            ("clusters m1 k:NoExecute:x", "invalid taint spec: k:NoExecute:x"),
            ("clusters m1 k=v=w:NoExecute", "invalid taint spec: k=v=w:NoExecute"),
            ("clusters m1 -k:NoExecute", "invalid taint spec: -k:NoExecute, "),
            ("clusters m1 k=-v:NoExecute", "invalid taint spec: k=-v:NoExecute, "),
            ("clusters m1 k=v:NoSchedule k=w:NoSchedule", duplicated),
            ("clusters m1 k:NoExecute k:NoExecute-", &format!("{both}k:NoExecute")),
            ("clusters m1 k:NoExecute k-", &format!("{both}k")),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.starts_with(want), "{line}: {error}");
        }
    }
}
