//! Revision history of a StatefulSet or DaemonSet: a ControllerRevision for each template.

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

use ironclad_runtime::{Api, Failure, Informer, Object as _, Writer};
use k8s_openapi::{
    api::{
        apps::v1::ControllerRevision,
        core::v1::{Pod, PodTemplateSpec},
    },
    apimachinery::pkg::{apis::meta::v1::OwnerReference, runtime::RawExtension},
};
use kube::{
    Client, ResourceExt as _,
    api::{ObjectMeta, PropagationPolicy},
};
use serde_json::{Value, json};

use crate::template;

pub(crate) const REVISION_LABEL: &str = "controller-revision-hash";
/// Default number of unused revisions to keep.
const LIMIT: i32 = 10;

#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub(crate) struct Plan {
    /// The name of the revision of the wanted template.
    pub(crate) update: String,
    pub(crate) hash: String,
    /// Number of a new revision.
    pub(crate) create: Option<i64>,
    /// Earlier revision to use again, with its new number.
    pub(crate) renumber: Option<(Arc<ControllerRevision>, i64)>,
    pub(crate) delete: Vec<Arc<ControllerRevision>>,
}

/// Decides about the revisions of this object; `used` are those of its pods.
pub(crate) fn decide(
    owner: &ObjectMeta,
    template: &PodTemplateSpec,
    revisions: &[Arc<ControllerRevision>],
    limit: Option<i32>,
    used: &BTreeSet<String>,
) -> Plan {
    let hash = template::hash(template, 0);
    let update = format!("{}-{hash}", owner.name.as_deref().unwrap_or(""));
    let newest = revisions.iter().map(|r| r.revision).max().unwrap_or(0);
    let known = revisions.iter().find(|r| r.name_any() == update);
    let mut idle: Vec<_> =
        revisions.iter().filter(|r| r.name_any() != update && !used.contains(&r.name_any())).collect();
    idle.sort_by_key(|r| Reverse((r.revision, r.name_any())));
    let keep = usize::try_from(limit.unwrap_or(LIMIT)).unwrap_or(0);
    Plan {
        create: known.is_none().then_some(newest + 1),
        renumber: known.filter(|r| r.revision < newest).map(|r| (r.clone(), newest + 1)),
        delete: idle.into_iter().skip(keep).cloned().collect(),
        update,
        hash,
    }
}

pub(crate) fn template_of(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.as_ref()?.0.pointer("/spec/template")?.clone();
    template.as_object_mut()?.remove("$patch");
    // A pod has the fields of its template, and its decoder is there anyway.
    let Pod { metadata, spec, .. } = Pod::decode(template.to_string().as_bytes()).ok()?;
    Some(PodTemplateSpec { metadata: Some(metadata), spec })
}

fn revision(
    owner: &ObjectMeta,
    reference: OwnerReference,
    template: &PodTemplateSpec,
    plan: &Plan,
    number: i64,
) -> ControllerRevision {
    let mut data = json!(template);
    data["$patch"] = Value::from("replace");
    let mut labels = template.metadata.as_ref().and_then(|m| m.labels.clone()).unwrap_or_default();
    labels.insert(REVISION_LABEL.to_owned(), plan.hash.clone());
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(plan.update.clone()),
            namespace: owner.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![reference]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(json!({"spec": {"template": data}}))),
        revision: number,
    }
}

pub(crate) async fn apply(
    client: &Client,
    writer: &Writer,
    revisions: &Informer<ControllerRevision>,
    owner: &ObjectMeta,
    reference: OwnerReference,
    template: &PodTemplateSpec,
    plan: &Plan,
) -> Result<(), Failure> {
    let api: Api<ControllerRevision> = Api::namespaced(client.clone(), owner.namespace.as_deref().unwrap_or(""));
    if let Some(number) = plan.create {
        let revision = revision(owner, reference, template, plan, number);
        match writer.create(&api, Some(revisions), &revision).await {
            Ok(_) => {}
            Err(Failure::AlreadyExists(_)) => {
                if let Some(found) = api.get_opt(&plan.update).await? {
                    revisions.written(None, found);
                }
            }
            Err(failure) => return Err(failure),
        }
    }
    if let Some((known, number)) = &plan.renumber {
        writer.patch(&api, Some(revisions), known, json!({"revision": number})).await?;
    }
    for old in &plan.delete {
        writer.delete(&api, Some(revisions), old, PropagationPolicy::Background).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{meta, template};

    fn known(image: &str, number: i64) -> Arc<ControllerRevision> {
        let template = template("a", image);
        let plan = decide(&meta("s"), &template, &[], None, &BTreeSet::new());
        let owner = crate::owner::controller_reference("apps/v1", "StatefulSet", &meta("s"));
        Arc::new(revision(&meta("s"), owner, &template, &plan, number))
    }

    #[test]
    fn revisions_are_created_renumbered_and_pruned() {
        let one = || known("i:1", 1);
        let two = || known("i:2", 2);
        for (name, revisions, limit, used, create, renumber, delete) in [
            ("the first revision", vec![], None, vec![], Some(1), None, 0),
            ("a known template", vec![one()], None, vec![], None, None, 0),
            ("a new template", vec![two()], None, vec![], Some(3), None, 0),
            ("a rollback renumbers the earlier revision", vec![one(), two()], None, vec![], None, Some(3), 0),
            (
                "revisions above the limit are deleted",
                vec![one(), two(), known("i:0", 0)],
                Some(1),
                vec![],
                None,
                Some(3),
                1,
            ),
            ("revisions in use are kept", vec![one(), two()], Some(0), vec![two().name_any()], None, Some(3), 0),
        ] {
            let used = used.into_iter().collect();
            let plan = decide(&meta("s"), &template("a", "i:1"), &revisions, limit, &used);
            assert_eq!(plan.create, create, "{name}");
            assert_eq!(plan.renumber.map(|(_, n)| n), renumber, "{name}");
            assert_eq!(plan.delete.len(), delete, "{name}");
        }
        assert_eq!(template_of(&one()), Some(template("a", "i:1")));
    }
}
