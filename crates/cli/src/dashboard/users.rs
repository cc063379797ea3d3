//! Users who log in with a bearer token: the control plane says who they are, and views and actions have the rights
//! of the token alone.

use std::{path::PathBuf, rc::Rc, sync::Arc};

use anyhow::Context as _;
use futures::{FutureExt as _, future::LocalBoxFuture};
use ironclad_dashboard::{Actions, Admitted, Failed, Token, Users};
use ironclad_runtime::Api;
use ironclad_seam::Seam;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{
    api::PostParams,
    config::{AuthInfo, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext},
};
use secrecy::SecretString;
use tokio::sync::Semaphore;

use super::{actions::Acting, failed::failed, views::Live};
use crate::connect::{self, Plane};

/// Kinds that are watched for all users together, as each watch holds the objects that its user may list. Beyond it
/// they are listed.
const WATCHES_MAX: usize = 32;
/// Name of the context, the cluster and the user of a session.
const NAME: &str = "dashboard";
/// The user of requests whose credentials were not looked at.
const ANONYMOUS: &str = "system:anonymous";

/// Users of the control plane of a kubeconfig, whose credentials they do not get.
pub struct Bearers {
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    writes: bool,
    seam: Seam,
    watches: Arc<Semaphore>,
}

impl Bearers {
    /// Users of the server that a kubeconfig names, the default one if there is no file, by one of its contexts. They
    /// can change something with `writes`. What is watched for them ends with the tasks of `seam`.
    #[must_use]
    pub fn new(kubeconfig: Option<PathBuf>, context: Option<String>, writes: bool, seam: Seam) -> Self {
        Self { kubeconfig, context, writes, seam, watches: Arc::new(Semaphore::new(WATCHES_MAX)) }
    }

    async fn known(&self, token: &Token) -> anyhow::Result<Result<Admitted, Failed>> {
        let read = connect::read(self.kubeconfig.as_ref())?;
        let given = Arc::new(with_token(&read, self.context.as_deref(), token)?);
        let plane = Plane { given: Some(given), ..Plane::default() };
        let reviews: Api<SelfSubjectReview> = Api::all(plane.client().await?);
        let (how, review) = (PostParams::default(), SelfSubjectReview::default());
        let review = reviews.create(&how, &review).await.context("asking the control plane whose token it is")?;
        Ok(match user(review) {
            Some(user) => {
                let acting = self.writes.then(|| Acting::new(plane.clone(), self.seam.clock.clone()));
                let actions = acting.map(|acting| Rc::new(acting) as Rc<dyn Actions>);
                Ok(Admitted { user, views: Rc::new(Live::among(plane, &self.seam, &self.watches)), actions })
            }
            None => Err(Failed::new(401, "the control plane knows nobody by this token")),
        })
    }
}

impl Users for Bearers {
    fn admit<'a>(&'a self, token: &'a Token) -> LocalBoxFuture<'a, Result<Admitted, Failed>> {
        async move { self.known(token).await.unwrap_or_else(|error| Err(failed(&error))) }.boxed_local()
    }

    fn can_act(&self) -> bool {
        self.writes
    }
}

/// Name of the user whom a review names; `None` if it is nobody.
fn user(review: SelfSubjectReview) -> Option<String> {
    let name = review.status?.user_info?.username?;
    (!name.is_empty() && name != ANONYMOUS).then_some(name)
}

/// The server of a context, with what is trusted and the way to it, and this token: no certificate, no other user, no
/// impersonation, and none of the other contexts, which lead to members.
fn with_token(read: &Kubeconfig, context: Option<&str>, token: &Token) -> anyhow::Result<Kubeconfig> {
    let name = context.or(read.current_context.as_deref()).unwrap_or_default();
    let found = read.contexts.iter().find(|one| one.name == name).and_then(|one| one.context.as_ref());
    let found = found.with_context(|| format!("the kubeconfig has no context {name:?}\n  try: --context NAME"))?;
    let cluster = read.clusters.iter().find(|one| one.name == found.cluster).and_then(|one| one.cluster.clone());
    let cluster = cluster.with_context(|| format!("the kubeconfig has no cluster {:?}", found.cluster))?;
    let user = AuthInfo { token: Some(SecretString::from(token.expose())), ..AuthInfo::default() };
    let context = Context { cluster: NAME.to_owned(), user: Some(NAME.to_owned()), ..Context::default() };
    Ok(Kubeconfig {
        clusters: vec![NamedCluster { name: NAME.to_owned(), cluster: Some(cluster), other: Default::default() }],
        auth_infos: vec![NamedAuthInfo { name: NAME.to_owned(), auth_info: Some(user), other: Default::default() }],
        contexts: vec![NamedContext { name: NAME.to_owned(), context: Some(context), other: Default::default() }],
        current_context: Some(NAME.to_owned()),
        ..Kubeconfig::default()
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::authentication::v1::{SelfSubjectReviewStatus, UserInfo};
    use secrecy::ExposeSecret as _;

    use super::*;

    const OF_RUN: &str = "
apiVersion: v1
kind: Config
current-context: plane
clusters:
- name: plane
  cluster: {server: \"https://plane.example:6443\", certificate-authority-data: Y2E=, tls-server-name: plane, proxy-url: \"http://way.example\"}
- {name: member1, cluster: {server: \"https://member1.example\"}}
users:
- name: run
  user:
    client-certificate-data: Y2VydGlmaWNhdGUtb2YtcnVu
    client-key-data: a2V5LW9mLXJ1bg==
    token: token-of-run
    tokenFile: token-file-of-run
    username: name-of-run
    password: password-of-run
    as: admin-of-run
    as-groups: [groups-of-run]
    exec: {apiVersion: client.authentication.k8s.io/v1, command: exec-of-run}
    auth-provider: {name: provider-of-run, config: {}}
- {name: member1, user: {token: token-of-member}}
contexts:
- {name: plane, context: {cluster: plane, user: run, namespace: kept-of-run}}
- {name: member1, context: {cluster: member1, user: member1}}
- {name: broken, context: {cluster: none, user: run}}
";

    /// True if all but the token is as if nothing were known.
    fn has_nothing_else(user: AuthInfo) -> bool {
        let text = |user: &AuthInfo| serde_json::to_string(user).unwrap();
        text(&AuthInfo { token: None, ..user }) == text(&AuthInfo::default())
    }

    #[test]
    fn nothing_of_the_credentials_of_run_is_in_the_kubeconfig_of_a_user() {
        let (read, token) = (Kubeconfig::from_yaml(OF_RUN).unwrap(), Token::parse("of-ann").unwrap());
        let given = with_token(&read, None, &token).unwrap();
        let (clusters, users, contexts) = (&given.clusters, &given.auth_infos, &given.contexts);
        assert_eq!((clusters.len(), users.len(), contexts.len()), (1, 1, 1));
        let cluster = clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://plane.example:6443"));
        assert_eq!(cluster.certificate_authority_data.as_deref(), Some("Y2E="));
        assert_eq!(cluster.tls_server_name.as_deref(), Some("plane"));
        assert_eq!(cluster.proxy_url.as_deref(), Some("http://way.example"));
        let user = users[0].auth_info.clone().unwrap();
        assert_eq!(user.token.as_ref().map(|token| token.expose_secret()), Some("of-ann"));
        assert!(has_nothing_else(user));
        let text = serde_json::to_string(&given).unwrap();
        for other in ["of-run", "member1", "Y2VydGlmaWNhdGUtb2YtcnVu", "a2V5LW9mLXJ1bg=="] {
            assert!(!text.contains(other), "{other} is in {text}");
        }
        for context in ["none", "broken", ""] {
            assert!(with_token(&read, Some(context), &token).is_err(), "{context}");
        }
        let of_member = with_token(&read, Some("member1"), &token).unwrap();
        assert_eq!(of_member.clusters[0].cluster.as_ref().unwrap().server.as_deref(), Some("https://member1.example"));
    }

    #[tokio::test]
    async fn the_client_of_a_user_has_no_certificate() {
        let token = Token::parse("of-ann").unwrap();
        let given = with_token(&Kubeconfig::from_yaml(OF_RUN).unwrap(), None, &token).unwrap();
        let plane = Plane { given: Some(Arc::new(given)), ..Plane::default() };
        let config = connect::config(plane.kubeconfig().unwrap(), None, "control plane").await.unwrap();
        let auth = config.auth_info;
        assert_eq!(auth.token.as_ref().map(|token| token.expose_secret()), Some("of-ann"));
        assert!(has_nothing_else(auth));
    }

    #[test]
    fn nobody_is_let_in_without_a_name() {
        let of = |name: Option<&str>| SelfSubjectReview {
            status: Some(SelfSubjectReviewStatus {
                user_info: Some(UserInfo { username: name.map(str::to_owned), ..UserInfo::default() }),
            }),
            ..SelfSubjectReview::default()
        };
        for (review, want) in [
            (of(Some("ann")), Some("ann")),
            (of(Some("system:serviceaccount:shop:ann")), Some("system:serviceaccount:shop:ann")),
            (of(Some(ANONYMOUS)), None),
            (of(Some("")), None),
            (of(None), None),
            (SelfSubjectReview::default(), None),
        ] {
            assert_eq!(user(review).as_deref(), want);
        }
    }
}
