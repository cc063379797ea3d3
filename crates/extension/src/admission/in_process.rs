//! The rules within the embedded server: no webhook, no wire, the same texts.

use ironclad_admission::{
    Config, Denial, Effect, Lookups, Need, Operation, Request, mutate, needs, table::Phase, validate,
};
use ironclad_apiserver::{Admission, Admitted, ApiError, Objects, Operation as ServerOperation, Review, SideWrite};
use serde_json::Value;

use super::reach;

/// Reviews the writes of an embedded server.
#[derive(Debug, Clone)]
pub struct InProcessAdmission {
    config: Config,
}

impl InProcessAdmission {
    /// Creates the reviewer for these gates and flags.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config }
    }

    fn lookups(&self, phase: Phase, request: &Request<'_>, objects: &Objects<'_>) -> Lookups {
        let mut lookups = Lookups { now: objects.now(), ..Lookups::default() };
        for need in needs(phase, request, &self.config) {
            let found = match &need {
                Need::Id => {
                    lookups.id = objects.uuid();
                    continue;
                }
                Need::List { resource, namespace } => {
                    objects.list(resource.group, resource.version, resource.plural, namespace)
                }
                Need::Get { resource, namespace, name } => objects
                    .get(resource.group, resource.version, resource.plural, namespace, name)
                    .into_iter()
                    .collect(),
                Need::Access { user, groups, verb, resource, namespace, name } => {
                    let allowed = objects.may(user, groups, verb, (resource.group, resource.plural), namespace, name);
                    allowed.then_some(Value::Bool(true)).into_iter().collect()
                }
                Need::Labelled { key, value, namespace, at_most } => objects.labelled(namespace, key, value, *at_most),
            };
            lookups.found.insert(need, found);
        }
        lookups
    }
}

impl Admission for InProcessAdmission {
    fn mutate(&self, review: &Review<'_>, objects: &Objects<'_>) -> Result<Option<Value>, ApiError> {
        let request = request(review);
        let lookups = self.lookups(Phase::Mutating, &request, objects);
        mutate(&request, &lookups, &self.config).map_err(|denial| refusal(&denial))
    }

    fn validate(&self, review: &Review<'_>, objects: &Objects<'_>) -> Result<Admitted, ApiError> {
        let request = request(review);
        let lookups = self.lookups(Phase::Validating, &request, objects);
        let verdict = validate(&request, &lookups, &self.config);
        if let Some(denial) = &verdict.denial {
            return Err(refusal(denial));
        }
        for (key, text) in &verdict.audit {
            tracing::warn!(user = request.user, kind = request.kind, name = request.name, %key, %text, "admission decision was overridden");
        }
        let writes = verdict.effects.into_iter().map(|effect| match effect {
            Effect::WriteStatus { resource, object } => SideWrite {
                group: resource.group.to_owned(),
                version: resource.version.to_owned(),
                resource: resource.plural.to_owned(),
                object,
            },
        });
        let mut warnings = verdict.warnings;
        warnings.extend(reach::unreachable(review, objects));
        Ok(Admitted { warnings, writes: writes.collect() })
    }
}

fn request<'a>(review: &Review<'a>) -> Request<'a> {
    Request {
        operation: match review.operation {
            ServerOperation::Create => Operation::Create,
            ServerOperation::Update => Operation::Update,
            // Connect requests write nothing, so no rule asks for them.
            ServerOperation::Delete | ServerOperation::Connect => Operation::Delete,
        },
        group: review.group,
        version: review.version,
        resource: review.resource,
        subresource: review.subresource,
        kind: review.kind,
        namespace: review.namespace,
        name: review.name,
        object: review.object,
        old: review.old,
        user: &review.identity.user,
        may_be_own: review.identity.is_in_process(),
        groups: &review.identity.groups,
        field_manager: review.field_manager,
        dry_run: review.dry_run,
    }
}

/// The answer that a kube-apiserver gives when a webhook refuses.
fn refusal(denial: &Denial) -> ApiError {
    ApiError::new(denial.code, denial.reason, denial.client_message())
}
