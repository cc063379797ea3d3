//! Scripts that drive a simulated world, and their transcripts: a `.scenario` file with its `.out`.
//!
//! A script has one verb per line; a block of YAML follows its verb indented. JSON pointers select the shown
//! values, so that a transcript is short enough for review and the same in every run.
//!
//! ```text
//! members 2                                          simulated members, member1 first (before anything else)
//! gates Failover=true                                feature gates (before anything else)
//! apply                                              YAML documents, indented, for the control plane
//! apply member1                                      the same for a member
//! sample nginx                                       samples/karmada/nginx.yaml for the control plane
//! patch plane deployment default/web {"spec": …}     a merge patch
//! patch member1 service/status default/web {"…": …}  the same of a subresource
//! delete plane deployment default/web
//! refused delete plane deployment default/web        a step that must fail; shows code and message
//! settle                                             until all controllers are idle
//! advance 30s                                        virtual time passes
//! down member1 | up member1                          its API server
//! restart                                            the controller process ends and another one starts
//! restart --controllers=*,-namespace                 the same, with these flags and no others
//! get plane deployment default/web /spec/replicas    shows values, one a line; `absent` if there is no such object
//! get plane work karmada-es-member1/w /status/conditions/Applied/reason   list items by type, name or clusterName
//! list plane works                                   namespaces and names of all objects of a kind
//! events                                             events since the last such step
//! writes                                             writes of the controllers to the control plane since then
//! reads                                              their reads there since then
//! ```

mod mask;
mod print;
mod run;
mod syntax;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

pub use print::Transcript;

use crate::sim::matrix::{Disturbance, Played};

/// Variable; if it is set, the transcripts of this run become the expected ones.
const ACCEPT: &str = "UPDATE_GOLDENS";

/// Runs a script in a new world and compares the transcript with the `.out` file beside it.
pub fn check(script: &Path) -> anyhow::Result<()> {
    let text = fs::read_to_string(script).with_context(|| format!("reading {}", script.display()))?;
    let transcript = run::run(&text).with_context(|| format!("running {}", script.display()))?;
    let expected: PathBuf = script.with_extension("out");
    if std::env::var_os(ACCEPT).is_some() {
        return fs::write(&expected, transcript.to_string()).context("writing the transcript");
    }
    let want = fs::read_to_string(&expected).unwrap_or_default();
    let got = transcript.to_string();
    let Some((line, (is, want))) = numbered(&got, &want).find(|(_, (is, want))| is != want) else { return Ok(()) };
    bail!(
        "{} differs from its .out at line {line}:\n  is     {}\n  wanted {}\n{ACCEPT}=1 takes it as it is; the whole is\n{got}",
        script.display(),
        is.unwrap_or("(the end)"),
        want.unwrap_or("(the end)"),
    )
}

/// Runs a script with a disturbance. Its outcome consists of the objects that the script shows and the final state.
pub fn play(script: &Path, disturbance: Disturbance) -> anyhow::Result<Played> {
    let text = fs::read_to_string(script).with_context(|| format!("reading {}", script.display()))?;
    run::play(&text, disturbance).with_context(|| format!("running {}", script.display()))
}

type Pair<'a> = (Option<&'a str>, Option<&'a str>);

fn numbered<'a>(is: &'a str, want: &'a str) -> impl Iterator<Item = (usize, Pair<'a>)> {
    let (mut is, mut want) = (is.lines(), want.lines());
    let pairs = std::iter::from_fn(move || match (is.next(), want.next()) {
        (None, None) => None,
        pair => Some(pair),
    });
    pairs.enumerate().map(|(n, pair)| (n + 1, pair))
}
