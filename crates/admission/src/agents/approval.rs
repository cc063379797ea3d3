//! Approval of agents' certificates (specification/operations.md 10.4).
//!
//! A renewal is approved for whoever may have it approved, a first certificate only if it also takes no agent's
//! identity away. Other requests stay pending: a person may approve them.

use std::{collections::BTreeMap, time::Duration};

use ironclad_api::{
    agents::{
        ALLOW_REREGISTER, BOOTSTRAP_USER_PREFIX, RBAC_GENERATOR, RBAC_GENERATOR_LIFE, TOKEN_CLUSTER_NAME,
        TOKEN_SECRET_PREFIX,
    },
    cluster::{Cluster, SyncMode},
    events::{AGENT_NAME_REFUSED, AGENT_NAME_TAKEN},
};
use ironclad_fleet::{Event, cluster_reference, reference};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition},
        coordination::v1::Lease,
        core::v1::Secret,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::request::{AgentRequest, Occasion};

/// Duration of Leases that do not say theirs: the default of `--cluster-lease-duration`.
const LEASE_DURATION: Duration = Duration::from_secs(40);
/// Time after which a request is looked at again that its requester may not have approved: rights are not watched.
const RIGHTS_AGAIN: Duration = Duration::from_secs(60);
const TOKEN_GONE: &str = "the bootstrap token of the requester does not exist any more";

/// The bootstrap token of the requester.
#[derive(Debug, Clone, Copy)]
pub enum Token<'a> {
    /// The requester has none.
    None,
    /// Its Secret does not exist any more, so that nobody knows its limits.
    Gone,
    /// Its Secret.
    Secret(&'a Secret),
}

/// Input of the decision on a pending request.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The pending request.
    pub request: &'a CertificateSigningRequest,
    /// The same, as it was recognised.
    pub asked: &'a AgentRequest,
    /// True if the requester may have it approved: the answer to [`AgentRequest::access_review`].
    pub may: bool,
    /// The Cluster of the name that is asked for.
    pub cluster: Option<&'a Cluster>,
    /// Its Lease, with the time since a change of it was seen. Clocks of agents do not count.
    pub lease: Option<(&'a Lease, Duration)>,
    /// The bootstrap token.
    pub token: Token<'a>,
    /// With [`Occasion::Registrar`], the rights of its user.
    pub registrar: RegistrarRights,
}

/// Rights of the user as which karmadactl registers a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistrarRights {
    /// Those of this control plane are missing: the answer to [`super::request::registrar_rights_review`] is no.
    Missing,
    /// Those of this control plane.
    Own,
    /// It may do everything: the answer to [`super::request::administrator_review`] is yes.
    All,
}

/// Decision on a pending request.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Approve it with this message.
    Approve(&'static str),
    /// Leave it pending.
    Wait {
        /// The reason, for the log.
        why: String,
        /// The event that tells of it.
        event: Option<Box<Event>>,
        /// Time after which to decide again; `None` if a change of the Cluster is needed.
        again: Option<Duration>,
    },
}

/// Name of the Secret of the requester's bootstrap token, in namespace `kube-system`. `None` if the requester has
/// none.
#[must_use]
pub fn token_secret(request: &CertificateSigningRequest) -> Option<String> {
    let id = request.spec.username.as_deref()?.strip_prefix(BOOTSTRAP_USER_PREFIX)?;
    Some(format!("{TOKEN_SECRET_PREFIX}{id}"))
}

/// Decides on a pending request.
#[must_use]
pub fn decide(seen: &Seen<'_>) -> Verdict {
    let (name, cluster) = (seen.request.metadata.name.as_deref().unwrap_or_default(), &*seen.asked.cluster);
    let user = seen.request.spec.username.as_deref().unwrap_or_default();
    if !seen.may {
        let why = format!("user {user:?} may not have requests for certificates of agents approved");
        return Verdict::Wait { why, event: None, again: Some(RIGHTS_AGAIN) };
    }
    if seen.asked.occasion == Occasion::Renewal {
        return Verdict::Approve("Auto approving self karmada agent certificate after SubjectAccessReview.");
    }
    let refused = |why: String, again: Option<Duration>| {
        let about = reference("certificates.k8s.io/v1", "CertificateSigningRequest", &seen.request.metadata);
        let event = Event::warning(about, AGENT_NAME_REFUSED, why.clone());
        Verdict::Wait { why, event: Some(Box::new(event)), again }
    };
    if seen.asked.occasion == Occasion::Registrar {
        return match excess(seen) {
            Some((excess, again)) => {
                refused(format!("{excess}: the request for user {RBAC_GENERATOR} stays pending"), again)
            }
            None => Verdict::Approve("Auto approving karmadactl certificate after SubjectAccessReview."),
        };
    }
    if let Some(limit) = limit(seen.token, cluster) {
        return refused(format!("{limit}: the request for the agent of cluster {cluster:?} stays pending"), None);
    }
    let taken = seen.cluster.and_then(|cluster| Some((cluster, taken(cluster, seen.lease)?)));
    let Some((cluster, (because, again))) = taken else {
        return Verdict::Approve("Auto approving karmada agent certificate after SubjectAccessReview.");
    };
    let why = format!(
        "CertificateSigningRequest {name} of user {user} asks for the identity of this cluster's agent, and stays pending: {because}"
    );
    let event = Event::warning(cluster_reference(cluster), AGENT_NAME_TAKEN, why.clone());
    Verdict::Wait { why, event: Some(Box::new(event)), again }
}

/// Reason for which karmadactl must not get the certificate by which it asks for rights, and the time after which it
/// may. A token for one cluster is no reason: the user writes nothing that depends on the cluster.
fn excess(seen: &Seen<'_>) -> Option<(String, Option<Duration>)> {
    if let Token::Gone = seen.token {
        return Some((TOKEN_GONE.to_owned(), None));
    }
    let why = match seen.registrar {
        RegistrarRights::Own => {
            let lasts = seen.request.spec.expiration_seconds;
            let is_long = lasts.is_none_or(|seconds| seconds > RBAC_GENERATOR_LIFE);
            let why = format!(
                "spec.expirationSeconds is not {RBAC_GENERATOR_LIFE} or less, which webhook agentrequest.karmada.io sets"
            );
            return is_long.then_some((why, None));
        }
        RegistrarRights::Missing => format!(
            "user {RBAC_GENERATOR} gets no rights where no webhooks limit what it writes; give ironclad run \
             --webhook-bind-address, or register with ironclad register"
        ),
        RegistrarRights::All => format!(
            "user {RBAC_GENERATOR} has all rights, which every holder of a bootstrap token would get; delete the \
             ClusterRoleBinding by which it has them"
        ),
    };
    Some((why, Some(RIGHTS_AGAIN)))
}

/// Reason for which the token must not name this cluster.
fn limit(token: Token<'_>, cluster: &str) -> Option<String> {
    let secret = match token {
        Token::None => return None,
        Token::Gone => return Some(TOKEN_GONE.to_owned()),
        Token::Secret(secret) => secret,
    };
    let only = secret.data.as_ref()?.get(TOKEN_CLUSTER_NAME)?;
    let only = String::from_utf8_lossy(&only.0);
    (only != cluster).then(|| format!("the bootstrap token of the requester is only for cluster {only:?}"))
}

/// Reason for which the name of a Cluster is not free, and the time after which it may be.
fn taken(cluster: &Cluster, lease: Option<(&Lease, Duration)>) -> Option<(String, Option<Duration>)> {
    if cluster.spec.sync_mode != SyncMode::Pull {
        return Some((
            "the cluster is in Push mode; change spec.syncMode to Pull, or choose another name".to_owned(),
            None,
        ));
    }
    if has_permission(cluster) {
        return None;
    }
    let (lease, silent) = lease?;
    let seconds = lease.spec.as_ref().and_then(|spec| u64::try_from(spec.lease_duration_seconds?).ok());
    let left =
        seconds.map_or(LEASE_DURATION, Duration::from_secs).checked_sub(silent).filter(|left| !left.is_zero())?;
    let because = format!(
        "its agent renews Lease {cluster}; stop that agent, or set annotation {ALLOW_REREGISTER} of the Cluster",
        cluster = cluster.metadata.name.as_deref().unwrap_or_default()
    );
    Some((because, Some(left)))
}

/// Returns true if an agent may take over the name of this Cluster.
pub(crate) fn has_permission(cluster: &Cluster) -> bool {
    cluster.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(ALLOW_REREGISTER))
}

/// The conditions of a request that was approved now with this message.
#[must_use]
pub fn approved(
    request: &CertificateSigningRequest,
    message: &str,
    now: Timestamp,
) -> Vec<CertificateSigningRequestCondition> {
    let mut conditions = request.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    conditions.push(CertificateSigningRequestCondition {
        type_: "Approved".to_owned(),
        status: "True".to_owned(),
        reason: Some("AutoApproved".to_owned()),
        message: Some(message.to_owned()),
        last_update_time: Some(Time(now)),
        last_transition_time: None,
    });
    conditions
}

/// Events that were recorded for pending requests, so that each is recorded once. Keys are names of requests.
#[derive(Debug, Default)]
pub struct Told(BTreeMap<String, Event>);

impl Told {
    /// The event to record for this verdict; `None` if it was recorded before, or there is none.
    pub fn news(&mut self, request: &str, event: Option<Event>) -> Option<Event> {
        let Some(event) = event else {
            self.0.remove(request);
            return None;
        };
        let before = self.0.insert(request.to_owned(), event.clone());
        (before.as_ref() != Some(&event)).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::{Value, json};

    use super::*;
    use crate::agents::testkit::{agent, at, request};

    const FIRST: &str = "Auto approving karmada agent certificate after SubjectAccessReview.";
    const RENEWED: &str = "Auto approving self karmada agent certificate after SubjectAccessReview.";

    fn cluster(mode: &str, annotation: bool) -> Cluster {
        let annotations = if annotation { json!({ALLOW_REREGISTER: "true"}) } else { json!({}) };
        let metadata = json!({"name": "m1", "uid": "u", "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"syncMode": mode}})).unwrap()
    }

    fn lease(seconds: Value) -> Lease {
        serde_json::from_value(json!({"spec": {"leaseDurationSeconds": seconds}})).unwrap()
    }

    fn bound(name: &str) -> Secret {
        Secret {
            data: Some([(TOKEN_CLUSTER_NAME.to_owned(), ByteString(name.as_bytes().to_vec()))].into()),
            ..Secret::default()
        }
    }

    fn short(verdict: &Verdict) -> String {
        match verdict {
            Verdict::Approve(message) => (*message).to_owned(),
            Verdict::Wait { event, again, .. } => {
                format!("{} {:?}", event.as_ref().map_or("-", |event| event.reason), again.map(|again| again.as_secs()))
            }
        }
    }

    #[test]
    fn first_certificates_take_no_identity_away() {
        let request = request(&agent("m1"));
        let asked = AgentRequest::of(&request).unwrap();
        let (plain, m1, m2) = (Secret::default(), bound("m1"), bound("m2"));
        let (pull, push) = (cluster("Pull", false), cluster("Push", false));
        let (annotated, pushed) = (cluster("Pull", true), cluster("Push", true));
        let (short_lease, unknown) = (lease(json!(10)), lease(Value::Null));
        let secs = Duration::from_secs;
        let seen = Seen {
            request: &request,
            asked: &asked,
            may: true,
            cluster: None,
            lease: None,
            token: Token::Secret(&plain),
            registrar: RegistrarRights::Own,
        };
        let existing = Seen { cluster: Some(&pull), ..seen };
        let taken = |seconds: u64| format!("AgentNameTaken Some({seconds})");
        for (name, seen, want) in [
            ("a new name", seen, FIRST.to_owned()),
            ("without the right", Seen { may: false, ..seen }, "- Some(60)".to_owned()),
            ("of a user that is no token", Seen { token: Token::None, ..seen }, FIRST.to_owned()),
            ("by a token for the name", Seen { token: Token::Secret(&m1), ..seen }, FIRST.to_owned()),
            ("by a token for another", Seen { token: Token::Secret(&m2), ..seen }, "AgentNameRefused None".to_owned()),
            ("by a token that is gone", Seen { token: Token::Gone, ..seen }, "AgentNameRefused None".to_owned()),
            ("a lease is left over", Seen { lease: Some((&short_lease, secs(1))), ..seen }, FIRST.to_owned()),
            ("an agent that never came", existing, FIRST.to_owned()),
            ("an agent that is alive", Seen { lease: Some((&short_lease, secs(3))), ..existing }, taken(7)),
            ("an agent that is late", Seen { lease: Some((&short_lease, secs(9))), ..existing }, taken(1)),
            ("an agent that is silent", Seen { lease: Some((&short_lease, secs(10))), ..existing }, FIRST.to_owned()),
            ("a lease without duration", Seen { lease: Some((&unknown, secs(10))), ..existing }, taken(30)),
            (
                "alive, and a person permits it",
                Seen { cluster: Some(&annotated), lease: Some((&short_lease, secs(1))), ..existing },
                FIRST.to_owned(),
            ),
            (
                "silent, by a token for another",
                Seen { token: Token::Secret(&m2), ..existing },
                "AgentNameRefused None".to_owned(),
            ),
            ("in Push mode", Seen { cluster: Some(&push), ..seen }, "AgentNameTaken None".to_owned()),
            ("in Push mode, permitted", Seen { cluster: Some(&pushed), ..seen }, "AgentNameTaken None".to_owned()),
        ] {
            assert_eq!(short(&decide(&seen)), want, "{name}");
        }
        let Verdict::Wait { event: Some(event), .. } =
            decide(&Seen { lease: Some((&short_lease, secs(3))), ..existing })
        else {
            panic!()
        };
        assert_eq!((&*event.about.kind, &*event.about.name), ("Cluster", "m1"));
        assert_eq!(
            event.message,
            "CertificateSigningRequest m1-xyz of user system:bootstrap:abcdef asks for the identity of this cluster's \
             agent, and stays pending: its agent renews Lease m1; stop that agent, or set annotation \
             agent.ironclad.io/allow-reregister of the Cluster"
        );
        let Verdict::Wait { event: Some(event), .. } = decide(&Seen { token: Token::Secret(&m2), ..seen }) else {
            panic!()
        };
        assert_eq!((&*event.about.kind, &*event.about.name), ("CertificateSigningRequest", "m1-xyz"));
        assert_eq!(
            event.message,
            "the bootstrap token of the requester is only for cluster \"m2\": the request for the agent of cluster \
             \"m1\" stays pending"
        );
    }

    #[test]
    fn renewals_need_only_the_right() {
        let mut request = request(&agent("m1"));
        request.spec.username = Some("system:karmada:agent:m1".to_owned());
        let asked = AgentRequest::of(&request).unwrap();
        let (pull, lease) = (cluster("Pull", false), lease(json!(10)));
        let seen = Seen {
            request: &request,
            asked: &asked,
            may: true,
            cluster: Some(&pull),
            lease: Some((&lease, Duration::ZERO)),
            token: Token::None,
            registrar: RegistrarRights::Own,
        };
        assert_eq!(decide(&seen), Verdict::Approve(RENEWED));
        assert_eq!(short(&decide(&Seen { may: false, ..seen })), "- Some(60)");
        assert_eq!(token_secret(&request), None);
        request.spec.username = Some("system:bootstrap:abcdef".to_owned());
        assert_eq!(token_secret(&request).as_deref(), Some("bootstrap-token-abcdef"));
    }

    #[test]
    fn karmadactl_gets_a_short_certificate_without_power() {
        let mut asks = request(&agent("rbac-generator"));
        let of = |seconds: Option<i32>| {
            asks.spec.expiration_seconds = seconds;
            asks.clone()
        };
        let (unlimited, long, short_lived) = [None, Some(601), Some(600)].map(of).into();
        let asked = AgentRequest::of(&short_lived).unwrap();
        assert_eq!(asked.occasion, Occasion::Registrar);
        let (pull, m1) = (cluster("Pull", false), bound("m1"));
        let seen = Seen {
            request: &short_lived,
            asked: &asked,
            may: true,
            cluster: None,
            lease: None,
            token: Token::Secret(&m1),
            registrar: RegistrarRights::Own,
        };
        let approved = "Auto approving karmadactl certificate after SubjectAccessReview.";
        let refused = "AgentNameRefused None";
        for (name, seen, want) in [
            ("by a token for one cluster", seen, approved),
            ("of a user that is no token", Seen { token: Token::None, ..seen }, approved),
            ("beside a Cluster of that name", Seen { cluster: Some(&pull), ..seen }, approved),
            ("without the right", Seen { may: false, ..seen }, "- Some(60)"),
            ("by a token that is gone", Seen { token: Token::Gone, ..seen }, refused),
            ("for a second longer", Seen { request: &long, ..seen }, refused),
            ("for as long as the signer likes", Seen { request: &unlimited, ..seen }, refused),
            (
                "where it is an administrator",
                Seen { registrar: RegistrarRights::All, ..seen },
                "AgentNameRefused Some(60)",
            ),
            (
                "where no webhooks limit it",
                Seen { registrar: RegistrarRights::Missing, ..seen },
                "AgentNameRefused Some(60)",
            ),
            (
                "where no webhook lowered its time either",
                Seen { request: &unlimited, registrar: RegistrarRights::Missing, ..seen },
                "AgentNameRefused Some(60)",
            ),
        ] {
            assert_eq!(short(&decide(&seen)), want, "{name}");
        }
        let Verdict::Wait { why, .. } = decide(&Seen { request: &long, ..seen }) else { panic!() };
        assert_eq!(
            why,
            "spec.expirationSeconds is not 600 or less, which webhook agentrequest.karmada.io sets: the request for user \
             system:karmada:agent:rbac-generator stays pending"
        );
    }

    #[test]
    fn approval_is_one_condition_more() {
        let made = approved(&request(&agent("m1")), FIRST, at(7));
        let want = json!([{"type": "Approved", "status": "True", "reason": "AutoApproved", "message": FIRST,
            "lastUpdateTime": "1970-01-01T00:00:07Z"}]);
        assert_eq!(serde_json::to_value(made).unwrap(), want);
    }

    #[test]
    fn each_event_is_told_once() {
        let mut told = Told::default();
        let event = |message: &str| {
            Some(Event::warning(cluster_reference(&cluster("Pull", false)), AGENT_NAME_TAKEN, message.to_owned()))
        };
        assert!(told.news("a", event("x")).is_some());
        assert!(told.news("a", event("x")).is_none(), "the same");
        assert!(told.news("b", event("x")).is_some(), "of another request");
        assert!(told.news("a", event("y")).is_some(), "another reason");
        assert!(told.news("a", None).is_none());
        assert!(told.news("a", event("y")).is_some(), "it was settled in between");
    }
}
