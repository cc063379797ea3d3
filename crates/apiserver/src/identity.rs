//! The user of a request: authenticated, or chosen when an in-process client was created.

use std::collections::BTreeMap;

/// Members of this group may do everything (specification/apiserver.md 20).
pub const MASTERS: &str = "system:masters";
/// The group of everybody whom an authenticator knows.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of everybody else.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";

/// A user with groups, as authorization and admission see it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// The user's name, such as `ironclad-controllers` or `system:serviceaccount:ns:name`.
    pub user: String,
    /// The user's uid; empty when the authenticator knows none.
    pub uid: String,
    /// The groups, `system:authenticated` included.
    pub groups: Vec<String>,
    /// Attributes that the authenticator adds, such as the id of the credential.
    pub extra: BTreeMap<String, Vec<String>>,
    origin: Origin,
}

/// Transport of a request. Nothing that a client sends can set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Origin {
    #[default]
    Network,
    /// A client in this process.
    Process,
    /// The server itself.
    Server,
}

impl Identity {
    /// An authenticated user in these groups.
    #[must_use]
    pub fn user(name: &str, groups: &[&str]) -> Self {
        let mut groups: Vec<String> = groups.iter().map(|g| (*g).to_owned()).collect();
        if !groups.iter().any(|g| g == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self { user: name.to_owned(), groups, ..Self::default() }
    }

    /// A user whom an authenticator or a review describes.
    pub(crate) fn known(user: String, uid: String, groups: Vec<String>, extra: BTreeMap<String, Vec<String>>) -> Self {
        Self { user, uid, groups, extra, origin: Origin::Network }
    }

    /// A user who may do everything: controllers of the plane, the administrator.
    #[must_use]
    pub fn admin(name: &str) -> Self {
        Self::user(name, &[MASTERS])
    }

    /// The group of requests without credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        Self { user: "system:anonymous".into(), groups: vec![UNAUTHENTICATED.into()], ..Self::default() }
    }

    /// The server itself, as it changes objects on its own: nothing reviews or refuses that.
    pub(crate) fn server() -> Self {
        Self { origin: Origin::Server, ..Self::admin("system:apiserver") }
    }

    /// This user as a client in the same process.
    pub(crate) fn in_process(self) -> Self {
        Self { origin: Origin::Process, ..self }
    }

    /// True for the server's own writes, such as deletions of a CRD's instances.
    pub(crate) fn is_server(&self) -> bool {
        self.origin == Origin::Server
    }

    /// True for a client in the server's process that impersonates nobody. A user of the same name that came over the
    /// network, or by impersonation, is somebody else.
    #[must_use]
    pub fn is_in_process(&self) -> bool {
        self.origin != Origin::Network
    }

    /// True for members of `system:masters`.
    #[must_use]
    pub fn is_master(&self) -> bool {
        self.in_group(MASTERS)
    }

    /// True for members of this group.
    #[must_use]
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}

/// Namespace and name of the ServiceAccount with this user name.
pub(crate) fn service_account(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix("system:serviceaccount:")?.split_once(':')
}

/// The user name of a ServiceAccount.
pub(crate) fn service_account_user(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}
