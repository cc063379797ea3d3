//! Failures of requests, in classes that callers handle differently.

use std::time::Duration;

use kube::{Error, core::Status};

/// Failure of a request.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Failure {
    /// The object does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The object exists already.
    #[error("{0}")]
    AlreadyExists(String),
    /// The object changed since it was read: observe it again.
    #[error("{0}")]
    Conflict(String),
    /// The resourceVersion is too old: list again.
    #[error("{0}")]
    Expired(String),
    /// The server asks to wait.
    #[error("{message}")]
    Throttled {
        /// The server's message.
        message: String,
        /// The requested wait, if any.
        after: Option<Duration>,
    },
    /// The same write was sent too often: nothing was sent this time ([`crate::HotLoops`]).
    #[error("the same write was sent again and again; the next one is due in {after:?}")]
    HotLoop {
        /// Time until the next write may be sent.
        after: Duration,
    },
    /// The server can't answer now; nothing was written.
    #[error("{0}")]
    Unavailable(String),
    /// Not authorized or not authenticated.
    #[error("{0}")]
    Denied(String),
    /// The request exceeds a quota.
    #[error("{0}")]
    OverQuota(String),
    /// The server never accepts this request.
    #[error("{0}")]
    Invalid(String),
    /// The server answered that it failed: the request may have been carried out. Observe before acting again.
    #[error("{0}")]
    ServerError(String),
    /// No answer, or an invalid one: the request may have been carried out. Observe before acting again.
    #[error("{0}")]
    Unknown(String),
}

impl Failure {
    /// True if a retry can't succeed before something else changes.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Invalid(_) | Self::Denied(_))
    }

    /// True if the object was not found.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }

    /// True if the object changed since it was read.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict(_))
    }

    /// The class as a word, for metrics and logs.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "NotFound",
            Self::AlreadyExists(_) => "AlreadyExists",
            Self::Conflict(_) => "Conflict",
            Self::Expired(_) => "Expired",
            Self::Throttled { .. } => "Throttled",
            Self::HotLoop { .. } => "HotLoop",
            Self::Unavailable(_) => "Unavailable",
            Self::Denied(_) => "Denied",
            Self::OverQuota(_) => "OverQuota",
            Self::Invalid(_) => "Invalid",
            Self::ServerError(_) => "ServerError",
            Self::Unknown(_) => "Unknown",
        }
    }

    fn from_status(status: &Status) -> Self {
        let message = status.message.clone();
        let after = status
            .details
            .as_ref()
            .map(|d| u64::from(d.retry_after_seconds))
            .filter(|s| *s > 0)
            .map(Duration::from_secs);
        match (status.code, status.reason.as_str()) {
            (_, "AlreadyExists") => Self::AlreadyExists(message),
            (404, _) => Self::NotFound(message),
            (409, _) => Self::Conflict(message),
            (410, _) => Self::Expired(message),
            (429, _) => Self::Throttled { message, after },
            (403, "QuotaExceeded") => Self::OverQuota(message),
            (401 | 403, _) => Self::Denied(message),
            (400 | 405 | 406 | 413 | 415 | 422, _) => Self::Invalid(message),
            (503, _) => Self::Unavailable(message),
            // etcd refuses requests of more than 1.5 MiB, and kube-apiserver passes that on as its own failure.
            (500, _) if message.contains("etcdserver: request is too large") => Self::Invalid(message),
            // The write may have been made before a 500 or 504.
            _ if message.is_empty() => Self::ServerError(format!("the server answered {}", status.code)),
            _ => Self::ServerError(message),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(status) => Self::from_status(&status),
            Error::BuildRequest(e) => Self::Invalid(e.to_string()),
            Error::Auth(e) => Self::Denied(e.to_string()),
            other => Self::Unknown(with_sources(&other)),
        }
    }
}

/// An error with its causes, each once: kube's own message has only the outermost one.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        for (name, code, reason, want) in [
            ("a missing object", 404, "NotFound", "NotFound"),
            ("more than a quota has left", 403, "QuotaExceeded", "OverQuota"),
            ("what nobody may", 403, "Forbidden", "Denied"),
            ("a create that lost the race", 409, "AlreadyExists", "AlreadyExists"),
            ("a write over a newer version", 409, "Conflict", "Conflict"),
            ("a watch from too long ago", 410, "Expired", "Expired"),
            ("a busy server", 429, "TooManyRequests", "Throttled"),
            ("no permission", 403, "Forbidden", "Denied"),
            ("an expired token", 401, "Unauthorized", "Denied"),
            ("a bad object", 422, "Invalid", "Invalid"),
            ("a server going down", 503, "ServiceUnavailable", "Unavailable"),
            ("a timeout behind the server", 504, "Timeout", "ServerError"),
            ("an internal error", 500, "InternalError", "ServerError"),
        ] {
            let status = Status { code, reason: reason.into(), ..Status::default() };
            assert_eq!(Failure::from_status(&status).class(), want, "{name}");
        }
        let message = "etcdserver: request is too large".to_owned();
        let too_large = Status { code: 500, message, ..Status::default() };
        assert_eq!(Failure::from_status(&too_large).class(), "Invalid", "more than etcd takes");
    }
}
