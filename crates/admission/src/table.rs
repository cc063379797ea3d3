//! Table of webhooks: which rules apply to which writes (specification/admission.md 1.3).
//!
//! It is the single source: the registrations at a kube-apiserver, the reviews of the embedded server and the served
//! paths come from here.

use crate::{
    Denial, Operation, Request, cluster_names,
    field::Findings,
    kinds,
    request::{Config, Cx, Needs},
};

use ironclad_api::agents::{AGENT_USER_PREFIX, BOOTSTRAP_USER_PREFIX, RBAC_GENERATOR};
use serde_json::Value;

/// Action of a webhook.
#[derive(Clone, Copy)]
pub(crate) enum Act {
    /// Sets defaults.
    Mutate(fn(&mut Value, &Cx<'_>) -> Result<(), Denial>),
    /// Validates an object and its change.
    Validate {
        /// Validates the new object. Errors that the old object had too become warnings.
        object: fn(&Value, &Cx<'_>, &mut Findings) -> Result<(), Denial>,
        /// Validates the change of an existing object, or rules about the write as a whole. An error here ends the
        /// review.
        change: fn(&Cx<'_>, &mut Findings) -> Result<(), Denial>,
    },
    /// Decides whether a write may happen, whatever the object contained before.
    Permit(fn(&Cx<'_>) -> Result<(), Denial>),
}

impl std::fmt::Debug for Act {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Mutate(_) => "Mutate",
            Self::Validate { .. } => "Validate",
            Self::Permit(_) => "Permit",
        })
    }
}

/// Phase in which a webhook is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before defaults and validation of the API server.
    Mutating,
    /// After them.
    Validating,
}

/// Scope of the objects of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Namespaced objects.
    Namespaced,
    /// Cluster-scoped objects.
    Cluster,
    /// Both.
    Any,
}

/// Review of writes by our own controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnWrites {
    /// Not reviewed.
    Exempt,
    Reviewed,
    /// Reviewed while quotas are enforced, since this webhook charges the quota.
    ReviewedForQuota,
}

/// Label that an object must have to be reviewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Labelled {
    pub key: &'static str,
    /// The value; `None` matches any.
    pub value: Option<&'static str>,
}

/// Users whose writes a webhook reviews.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Users {
    /// Everybody.
    All,
    /// Those whose name has the prefix of agents.
    Agents,
    /// [`RBAC_GENERATOR`], as which karmadactl registers a member.
    Registrar,
    /// Holders of bootstrap tokens.
    Tokens,
}

impl Users {
    /// Returns true if writes of this user are reviewed.
    #[must_use]
    pub fn has(self, user: &str) -> bool {
        match self {
            Self::All => true,
            Self::Agents => user.starts_with(AGENT_USER_PREFIX),
            Self::Registrar => user == RBAC_GENERATOR,
            Self::Tokens => user.starts_with(BOOTSTRAP_USER_PREFIX),
        }
    }

    /// Name and text of the CEL match condition that is true for these users, so that writes of others cost no call.
    /// `None` for all.
    #[must_use]
    pub fn condition(self) -> Option<(&'static str, String)> {
        let (name, test) = match self {
            Self::All => return None,
            Self::Agents => ("only-agents", format!(".startsWith({AGENT_USER_PREFIX:?})")),
            Self::Registrar => ("only-rbac-generator", format!(" == {RBAC_GENERATOR:?}")),
            Self::Tokens => ("only-bootstrap-tokens", format!(".startsWith({BOOTSTRAP_USER_PREFIX:?})")),
        };
        Some((name, format!("has(request.userInfo.username) && request.userInfo.username{test}")))
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Webhook {
    /// Name in the registration and in refusals.
    pub name: &'static str,
    /// Path at which it is served.
    pub path: &'static str,
    /// API group, `*` for all.
    pub group: &'static str,
    /// API version, `*` for all.
    pub version: &'static str,
    /// Plural of the resource, `*` for all.
    pub resource: &'static str,
    /// Operations that it reviews.
    pub operations: &'static [Operation],
    /// Scope of its objects.
    pub scope: Scope,
    /// Timeout of the call, in seconds.
    pub timeout_seconds: u8,
    /// Right of the review to write other objects.
    pub has_side_effects: bool,
    /// Review of writes by our own controllers.
    pub own_writes: OwnWrites,
    /// Restricts the webhook to objects with this label.
    pub labelled: Option<Labelled>,
    /// Users whose writes it reviews.
    pub users: Users,
    /// True if no controller acts on the kind: every write is answered with a warning.
    pub not_built: bool,
    pub(crate) act: Act,
    pub(crate) needs: fn(&Request<'_>, &Config, &mut Needs),
}

impl Webhook {
    /// The phase in which it is called.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.act {
            Act::Mutate(_) => Phase::Mutating,
            Act::Validate { .. } | Act::Permit(_) => Phase::Validating,
        }
    }

    /// Returns true if it reviews this write.
    #[must_use]
    pub fn matches(&self, request: &Request<'_>, config: &Config) -> bool {
        let any = |pattern: &str, text: &str| pattern == "*" || pattern == text;
        request.subresource.is_empty()
            && self.operations.contains(&request.operation)
            && any(self.group, request.group)
            && any(self.resource, request.resource)
            && self.users.has(request.user)
            && self.labelled.is_none_or(|labelled| {
                // As in Kubernetes, either the new object or the old one must match.
                [request.object, request.old].into_iter().flatten().any(|object| {
                    let value = object.pointer("/metadata/labels").and_then(|labels| labels.get(labelled.key));
                    value.is_some_and(|value| labelled.value.is_none_or(|wanted| value == wanted))
                })
            })
            && !(self.exempts_own(config) && is_own(request, config))
    }

    /// Names the objects that its review of this write needs.
    pub(crate) fn ask(&self, request: &Request<'_>, config: &Config, needs: &mut Needs) {
        (self.needs)(request, config, needs);
        if self.validates_kind(request) {
            cluster_names::needs(request, needs);
        }
    }

    /// Returns true if it is the webhook that validates this kind: there is one at most.
    pub(crate) fn validates_kind(&self, request: &Request<'_>) -> bool {
        matches!(self.act, Act::Validate { .. }) && self.resource == request.resource
    }

    /// Returns true if writes of our own controllers bypass it.
    #[must_use]
    pub fn exempts_own(&self, config: &Config) -> bool {
        match self.own_writes {
            OwnWrites::Exempt => true,
            OwnWrites::Reviewed => false,
            OwnWrites::ReviewedForQuota => {
                !config.gates.enabled(ironclad_fleet::gates::Gate::FederatedQuotaEnforcement)
            }
        }
    }
}

/// Prefix of our field managers.
pub const OWN_FIELD_MANAGERS: &str = "ironclad-";

/// Returns true if one of our own controllers writes. Both user and field manager must match: a person who uses the
/// controllers' credentials is still reviewed.
fn is_own(request: &Request<'_>, config: &Config) -> bool {
    request.may_be_own
        && config.own_user.as_deref() == Some(request.user)
        && request.field_manager.starts_with(OWN_FIELD_MANAGERS)
}

/// The webhook that is served at this path.
#[must_use]
pub fn at_path(path: &str) -> Option<&'static Webhook> {
    WEBHOOKS.iter().find(|webhook| webhook.path == path)
}

const WRITES: &[Operation] = &[Operation::Create, Operation::Update];
const WRITES_AND_DELETIONS: &[Operation] = &[Operation::Create, Operation::Update, Operation::Delete];
const POLICY: &str = "policy.karmada.io";
const WORK: &str = "work.karmada.io";
const AUTOSCALING: &str = "autoscaling.karmada.io";
const NETWORKING: &str = "networking.karmada.io";
const CONFIG: &str = "config.karmada.io";
/// Group of Clusters.
pub(crate) const CLUSTER: &str = "cluster.karmada.io";

/// Defaults that most webhooks share.
const BASE: Webhook = Webhook {
    name: "",
    path: "",
    group: POLICY,
    version: "*",
    resource: "",
    operations: WRITES,
    scope: Scope::Namespaced,
    timeout_seconds: 3,
    has_side_effects: false,
    own_writes: OwnWrites::Exempt,
    labelled: None,
    users: Users::All,
    not_built: false,
    act: Act::Validate { object: |_, _, _| Ok(()), change: anything },
    needs: nothing,
};

/// A kind without rules on which no controller acts.
const fn not_built(
    name: &'static str,
    path: &'static str,
    group: &'static str,
    resource: &'static str,
    scope: Scope,
) -> Webhook {
    Webhook { name, path, group, resource, scope, not_built: true, ..BASE }
}

/// Limits of agents on a kind.
const fn of_agents(
    name: &'static str,
    path: &'static str,
    (group, resource): (&'static str, &'static str),
    permit: fn(&Cx<'_>) -> Result<(), Denial>,
) -> Webhook {
    let (operations, own_writes, users) = (WRITES_AND_DELETIONS, OwnWrites::Reviewed, Users::Agents);
    Webhook { name, path, group, resource, operations, own_writes, users, act: Act::Permit(permit), ..BASE }
}

fn nothing(_: &Request<'_>, _: &Config, _: &mut Needs) {}

/// Accepts every change.
fn anything(_: &Cx<'_>, _: &mut Findings) -> Result<(), Denial> {
    Ok(())
}

/// All webhooks, in the order in which they are called.
pub static WEBHOOKS: &[Webhook] = &[
    Webhook {
        name: "cluster.karmada.io",
        path: "/mutate-cluster",
        group: CLUSTER,
        resource: "clusters",
        scope: Scope::Cluster,
        act: Act::Mutate(kinds::cluster::mutate),
        ..BASE
    },
    Webhook {
        name: "propagationpolicy.karmada.io",
        path: "/mutate-propagationpolicy",
        resource: "propagationpolicies",
        act: Act::Mutate(kinds::propagation::mutate),
        needs: kinds::propagation::needs_id,
        ..BASE
    },
    Webhook {
        name: "clusterpropagationpolicy.karmada.io",
        path: "/mutate-clusterpropagationpolicy",
        resource: "clusterpropagationpolicies",
        scope: Scope::Cluster,
        act: Act::Mutate(kinds::propagation::mutate_cluster),
        needs: kinds::propagation::needs_id,
        ..BASE
    },
    Webhook {
        name: "overridepolicy.karmada.io",
        path: "/mutate-overridepolicy",
        resource: "overridepolicies",
        act: Act::Mutate(kinds::overrides::mutate),
        ..BASE
    },
    Webhook {
        name: "resourcebinding.karmada.io",
        path: "/mutate-resourcebinding",
        group: WORK,
        resource: "resourcebindings",
        operations: &[Operation::Create],
        act: Act::Mutate(kinds::binding::mutate),
        needs: kinds::binding::needs_id,
        ..BASE
    },
    Webhook {
        name: "clusterresourcebinding.karmada.io",
        path: "/mutate-clusterresourcebinding",
        group: WORK,
        resource: "clusterresourcebindings",
        operations: &[Operation::Create],
        scope: Scope::Cluster,
        act: Act::Mutate(kinds::binding::mutate_cluster),
        needs: kinds::binding::needs_id,
        ..BASE
    },
    Webhook {
        name: "work.karmada.io",
        path: "/mutate-work",
        group: WORK,
        resource: "works",
        act: Act::Mutate(kinds::work::mutate),
        needs: kinds::work::needs_id,
        ..BASE
    },
    Webhook {
        name: "autoscaling.karmada.io",
        path: "/mutate-federatedhpa",
        group: AUTOSCALING,
        resource: "federatedhpas",
        act: Act::Mutate(kinds::federated_hpa::mutate),
        ..BASE
    },
    Webhook {
        name: "multiclusterservice.karmada.io",
        path: "/mutate-multiclusterservice",
        group: NETWORKING,
        resource: "multiclusterservices",
        act: Act::Mutate(kinds::service::mutate),
        needs: kinds::service::needs_id,
        ..BASE
    },
    Webhook {
        name: "agentrequest.karmada.io",
        path: "/mutate-agent-request",
        group: "certificates.k8s.io",
        resource: "certificatesigningrequests",
        operations: &[Operation::Create],
        scope: Scope::Cluster,
        own_writes: OwnWrites::Reviewed,
        users: Users::Tokens,
        act: Act::Mutate(kinds::registrar::shorten),
        ..BASE
    },
    Webhook {
        name: "agentrights.karmada.io",
        path: "/mutate-agent-rights",
        group: "rbac.authorization.k8s.io",
        resource: "*",
        operations: &[Operation::Create],
        scope: Scope::Any,
        own_writes: OwnWrites::Reviewed,
        users: Users::Registrar,
        act: Act::Mutate(kinds::registrar::make_right),
        ..BASE
    },
    Webhook {
        scope: Scope::Any,
        users: Users::Registrar,
        ..of_agents("agentregistrar.karmada.io", "/validate-agent-registrar", ("*", "*"), kinds::registrar::write)
    },
    Webhook {
        scope: Scope::Cluster,
        ..of_agents(
            "agentcluster.karmada.io",
            "/validate-agent-cluster",
            (CLUSTER, "clusters"),
            kinds::agents::write_cluster,
        )
    },
    of_agents(
        "agentlease.karmada.io",
        "/validate-agent-lease",
        ("coordination.k8s.io", "leases"),
        kinds::agents::write_lease,
    ),
    of_agents("agentsecret.karmada.io", "/validate-agent-secret", ("", "secrets"), kinds::agents::write_secret),
    of_agents("agentwork.karmada.io", "/validate-agent-work", (WORK, "works"), kinds::agents::write_work),
    of_agents("agentevent.karmada.io", "/validate-agent-event", ("", "events"), kinds::agents::write_event),
    of_agents(
        "agentnewevent.karmada.io",
        "/validate-agent-new-event",
        ("events.k8s.io", "events"),
        kinds::agents::write_event,
    ),
    Webhook {
        scope: Scope::Cluster,
        operations: &[Operation::Create],
        ..of_agents(
            "agentcertificate.karmada.io",
            "/validate-agent-certificate",
            ("certificates.k8s.io", "certificatesigningrequests"),
            kinds::agents::write_request,
        )
    },
    Webhook {
        name: "cluster.karmada.io",
        path: "/validate-cluster",
        group: CLUSTER,
        resource: "clusters",
        scope: Scope::Cluster,
        act: Act::Validate { object: kinds::cluster::validate, change: kinds::cluster::change },
        needs: kinds::cluster::needs,
        ..BASE
    },
    Webhook {
        name: "propagationpolicy.karmada.io",
        path: "/validate-propagationpolicy",
        resource: "propagationpolicies",
        act: Act::Validate { object: kinds::propagation::validate, change: kinds::propagation::change },
        needs: kinds::propagation::needs,
        ..BASE
    },
    Webhook {
        name: "clusterpropagationpolicy.karmada.io",
        path: "/validate-clusterpropagationpolicy",
        resource: "clusterpropagationpolicies",
        scope: Scope::Cluster,
        act: Act::Validate { object: kinds::propagation::validate_cluster, change: kinds::propagation::change_cluster },
        needs: kinds::propagation::needs,
        ..BASE
    },
    Webhook {
        name: "overridepolicy.karmada.io",
        path: "/validate-overridepolicy",
        resource: "overridepolicies",
        act: Act::Validate { object: kinds::overrides::validate, change: anything },
        ..BASE
    },
    Webhook {
        name: "clusteroverridepolicy.karmada.io",
        path: "/validate-clusteroverridepolicy",
        resource: "clusteroverridepolicies",
        scope: Scope::Cluster,
        act: Act::Validate { object: kinds::overrides::validate_cluster, change: anything },
        ..BASE
    },
    Webhook {
        name: "resourcebinding.karmada.io",
        path: "/validate-resourcebinding",
        group: WORK,
        resource: "resourcebindings",
        has_side_effects: true,
        own_writes: OwnWrites::ReviewedForQuota,
        act: Act::Validate { object: kinds::binding::validate, change: kinds::charge::change },
        needs: kinds::charge::needs,
        ..BASE
    },
    Webhook {
        name: "config.karmada.io",
        path: "/validate-resourceinterpreterwebhookconfiguration",
        group: CONFIG,
        resource: "resourceinterpreterwebhookconfigurations",
        scope: Scope::Cluster,
        act: Act::Validate { object: kinds::interpreter_webhook::validate, change: anything },
        ..BASE
    },
    Webhook {
        name: "resourceinterpretercustomization.karmada.io",
        path: "/validate-resourceinterpretercustomization",
        group: CONFIG,
        resource: "resourceinterpretercustomizations",
        scope: Scope::Cluster,
        timeout_seconds: 10,
        act: Act::Validate { object: kinds::customization::validate, change: anything },
        needs: kinds::customization::needs,
        ..BASE
    },
    Webhook {
        name: "federatedresourcequota.karmada.io",
        path: "/validate-federatedresourcequota",
        resource: "federatedresourcequotas",
        act: Act::Validate { object: kinds::quota::validate, change: anything },
        ..BASE
    },
    Webhook {
        name: "multiclusteringress.karmada.io",
        path: "/validate-multiclusteringress",
        not_built: true,
        group: NETWORKING,
        resource: "multiclusteringresses",
        act: Act::Validate { object: kinds::ingress::validate, change: anything },
        ..BASE
    },
    Webhook {
        name: "federatedhpa.karmada.io",
        path: "/validate-federatedhpa",
        group: AUTOSCALING,
        resource: "federatedhpas",
        act: Act::Validate { object: kinds::federated_hpa::validate, change: anything },
        needs: kinds::federated_hpa::needs,
        ..BASE
    },
    Webhook {
        name: "cronfederatedhpa.karmada.io",
        path: "/validate-cronfederatedhpa",
        group: AUTOSCALING,
        resource: "cronfederatedhpas",
        act: Act::Validate { object: kinds::cron::validate, change: anything },
        ..BASE
    },
    Webhook {
        name: "multiclusterservice.karmada.io",
        path: "/validate-multiclusterservice",
        group: NETWORKING,
        resource: "multiclusterservices",
        act: Act::Validate { object: kinds::service::validate, change: kinds::service::change },
        ..BASE
    },
    Webhook {
        name: "clustertaintpolicy.karmada.io",
        path: "/validate-clustertaintpolicy",
        resource: "clustertaintpolicies",
        scope: Scope::Cluster,
        act: Act::Validate { object: kinds::taint_policy::validate, change: anything },
        needs: kinds::taint_policy::needs,
        ..BASE
    },
    Webhook {
        name: "horizontalpodautoscaler.karmada.io",
        path: "/validate-horizontalpodautoscaler",
        group: "autoscaling",
        version: "v2",
        resource: "horizontalpodautoscalers",
        labelled: Some(Labelled {
            key: ironclad_api::labels::FEDERATED_HPA_ENABLED,
            value: Some(ironclad_api::labels::TRUE),
        }),
        act: Act::Validate { object: kinds::federated_hpa::validate_distributed, change: anything },
        needs: kinds::federated_hpa::needs_of_distributed,
        ..BASE
    },
    Webhook {
        name: "priorityclass.karmada.io",
        path: "/validate-priorityclass",
        group: "scheduling.k8s.io",
        resource: "priorityclasses",
        scope: Scope::Cluster,
        act: Act::Validate { object: kinds::priority::validate_class, change: kinds::priority::change_class },
        needs: kinds::priority::needs_others,
        ..BASE
    },
    Webhook {
        name: "resourcedeletionprotection.karmada.io",
        path: "/validate-resourcedeletionprotection",
        group: "*",
        resource: "*",
        operations: &[Operation::Delete],
        scope: Scope::Any,
        own_writes: OwnWrites::Reviewed,
        labelled: Some(Labelled { key: ironclad_api::labels::DELETION_PROTECTED, value: None }),
        act: Act::Permit(kinds::protection::delete),
        ..BASE
    },
    Webhook {
        name: "namespacedeletionprotection.karmada.io",
        path: "/validate-namespacedeletionprotection",
        group: "",
        resource: "namespaces",
        operations: &[Operation::Delete],
        scope: Scope::Cluster,
        // It lists all kinds.
        timeout_seconds: 10,
        own_writes: OwnWrites::Reviewed,
        act: Act::Permit(kinds::protection::delete_namespace),
        needs: kinds::protection::needs_contents,
        ..BASE
    },
    Webhook {
        name: "remedy.karmada.io",
        path: "/validate-remedy",
        group: "remedy.karmada.io",
        resource: "remedies",
        scope: Scope::Cluster,
        act: Act::Validate { object: kinds::remedy::validate, change: anything },
        ..BASE
    },
    not_built(
        "resourceregistry.karmada.io",
        "/validate-resourceregistry",
        "search.karmada.io",
        "resourceregistries",
        Scope::Cluster,
    ),
];
