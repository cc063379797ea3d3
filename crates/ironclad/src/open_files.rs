//! Number of files and connections that the process may open.

/// Raises the soft limit to the hard one: each member takes connections, and many systems set the soft limit to 1,024.
/// A failure is no error: the process works with fewer members.
pub(crate) fn raise() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};

        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::debug!(%error, "the limit of open files stays as it is");
        }
    }
}
