//! The control plane that a verb asked, for errors: which server, from which kubeconfig, and what to do.

use std::sync::{Arc, Mutex, PoisonError, atomic::Ordering};

use ironclad_runtime::{Traffic, Unanswered};

use crate::report;

static ASKED: Mutex<Option<Asked>> = Mutex::new(None);

/// A control plane, and how its answers were.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Its address.
    pub(crate) server: String,
    /// The kubeconfig, as a user names it.
    pub(crate) kubeconfig: String,
    /// The context in it.
    pub(crate) context: String,
    /// Counts of its requests and answers.
    pub(crate) traffic: Arc<Traffic>,
}

/// Remembers the control plane of this process's verb.
pub(crate) fn remember(asked: Asked) {
    *ASKED.lock().unwrap_or_else(PoisonError::into_inner) = Some(asked);
}

/// The error with the server that it is about, where it came from and a remedy, if it is one of the connection to the
/// control plane, of its credentials, or of asking a server that is none.
#[must_use]
pub fn explained(error: anyhow::Error) -> anyhow::Error {
    match ASKED.lock().unwrap_or_else(PoisonError::into_inner).clone() {
        Some(asked) => asked.explain(error),
        None => error,
    }
}

/// The command line of a process as it can be given again, without its token.
#[must_use]
pub(crate) fn again(words: impl Iterator<Item = String>) -> String {
    let (mut again, mut is_secret) = ("ironclad".to_owned(), false);
    for word in words.skip(1) {
        if std::mem::take(&mut is_secret) || word.starts_with("--token=") {
            continue;
        }
        if word == "--token" {
            is_secret = true;
            continue;
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
        let quoted = if !word.is_empty() && word.chars().all(is_plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        };
        again.push(' ');
        again.push_str(&quoted);
    }
    again
}

impl Asked {
    /// The error with its explanation: first of an error that a verb passes on, below what it says itself otherwise.
    fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let is_bare = error.chain().next().is_some_and(|cause| report::from_server(cause).is_some());
        match self.explanation(&error) {
            Some(explanation) if is_bare || explanation.starts_with("try: ") => error.context(explanation),
            Some(explanation) => error.context(format!("because {explanation}")),
            None => error,
        }
    }

    fn explanation(&self, error: &anyhow::Error) -> Option<String> {
        let Self { server, kubeconfig, context, traffic } = self;
        let source = error.chain().find_map(report::from_server)?;
        let whose = format!("{server} ({kubeconfig}, context {context})");
        let elsewhere = "--context NAME or --kubeconfig FILE, if another server is meant";
        let had = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed) > 0;
        if let Some(unanswered) = Unanswered::of(source).filter(|_| had(&traffic.unanswered)) {
            let (what, remedy) = match unanswered {
                Unanswered::Refused => ("did not answer", "start it, with `ironclad up` for a local one"),
                Unanswered::NoAddress => ("did not answer", "the address of the server in the kubeconfig"),
                Unanswered::Expired => (
                    "has a certificate that is not in time",
                    "the clock of this machine, then a new certificate for the server",
                ),
                Unanswered::Untrusted => (
                    "has a certificate that the kubeconfig does not trust",
                    "the kubeconfig that this server wrote or its administrator gave you",
                ),
                Unanswered::ClientCertificate => {
                    ("did not accept the certificate of this user", "a new certificate for the user in the kubeconfig")
                }
                Unanswered::Timeout => ("did not answer in time", "again later, or a longer --request-timeout"),
                Unanswered::Other => {
                    ("did not answer", "kubectl get --raw /readyz, with the same kubeconfig and context")
                }
            };
            return Some(format!("the control plane {whose} {what}\n  try: {remedy}\n  try: {elsewhere}"));
        }
        let kube::Error::Api(status) = source else { return None };
        match status.code {
            401 if had(&traffic.unauthenticated) => Some(format!(
                "the control plane {whose} did not accept the credentials of this user\n  try: credentials with which \
                 `kubectl auth whoami` works for this kubeconfig and context\n  try: {elsewhere}"
            )),
            404 if had(&traffic.unknown_paths) && status.message.contains("404 page not found") => Some(format!(
                "{whose} is no control plane of Ironclad or Karmada, or its CRDs are missing\n  try: {elsewhere}\n  try: \
                 `ironclad crds | kubectl apply --server-side -f -`, if this is the control plane"
            )),
            403 => Some(format!(
                "try: a user who may do this; {kubeconfig}, context {context}, names the one who was refused"
            )),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};
    use kube::core::Status;

    use super::*;

    #[test]
    fn commands_are_given_again_with_all_their_flags() {
        for (words, want) in [
            (&["/bin/ironclad", "drain", "m1", "-n", "shop", "--rate=2"][..], "ironclad drain m1 -n shop --rate=2"),
            (&["ironclad", "drain", "m1", "-l", "app in (a,b)"], "ironclad drain m1 -l 'app in (a,b)'"),
            (&["ironclad", "drain", "m1", "-l", "it's"], r"ironclad drain m1 -l 'it'\''s'"),
            (&["ironclad", "--token", "secret", "drain", "m1"], "ironclad drain m1"),
            (&["ironclad", "drain", "m1", "--token=secret", "--force"], "ironclad drain m1 --force"),
        ] {
            assert_eq!(again(words.iter().map(|word| (*word).to_owned())), want);
        }
    }

    #[test]
    fn only_errors_of_the_control_plane_are_explained() {
        let api = |code: u16, message: &str| {
            anyhow::Error::new(kube::Error::Api(Status::failure(message, "R").with_code(code).boxed()))
        };
        let io = |kind| anyhow::Error::new(kube::Error::Service(Box::new(std::io::Error::from(kind))));
        let refused = || io(std::io::ErrorKind::ConnectionRefused);
        let asked = |unanswered: u64, unauthenticated: u64, unknown: u64| {
            let traffic = Traffic::default();
            traffic.unanswered.store(unanswered, Ordering::Relaxed);
            traffic.unauthenticated.store(unauthenticated, Ordering::Relaxed);
            traffic.unknown_paths.store(unknown, Ordering::Relaxed);
            let text = |text: &str| text.to_owned();
            Asked {
                server: text("https://a:6443"),
                kubeconfig: text("kubeconfig f"),
                context: text("c"),
                traffic: traffic.into(),
            }
        };
        let all = asked(1, 1, 1);
        for (name, by, error, want) in [
            (
                "nothing listens",
                &all,
                refused(),
                "error: the control plane https://a:6443 (kubeconfig f, context c) did not answer\n  because ",
            ),
            (
                "too late",
                &all,
                io(std::io::ErrorKind::TimedOut),
                "error: the control plane https://a:6443 (kubeconfig f, context c) did not answer in time\n",
            ),
            ("a member's", &asked(0, 0, 0), refused(), "error: "),
            (
                "credentials",
                &all,
                api(401, "Unauthorized"),
                "error: the control plane https://a:6443 (kubeconfig f, context c) did not accept the credentials of this user\n",
            ),
            (
                "a member's credentials",
                &asked(0, 0, 0),
                api(401, "Unauthorized"),
                "error: the server did not accept the credentials (401)",
            ),
            (
                "no control plane",
                &all,
                api(404, "404 page not found"),
                "error: https://a:6443 (kubeconfig f, context c) is no control plane",
            ),
            (
                "an object that is missing",
                &all,
                api(404, "pods \"a\" not found"),
                "Error from server (R): pods \"a\" not found",
            ),
            (
                "a right that is missing",
                &all,
                api(403, "no"),
                "Error from server (R): no\n  try: a user who may do this; kubeconfig f, context c, names the one",
            ),
            ("no error of a server", &all, anyhow!("x"), "error: x"),
            (
                "told what was done",
                &all,
                Err::<(), _>(refused()).context("asking what it serves").unwrap_err(),
                "error: asking what it serves\n  because the control plane https://a:6443 (kubeconfig f, context c) did not answer: ",
            ),
        ] {
            let text = report::render(&by.explain(error));
            assert!(text.starts_with(want), "{name}: {text}");
        }
    }
}
