//! Objects of all kinds that bindings and Works refer to, for the invariants: read without faults.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::work::Manifest;
use ironclad_fleet::{Gvk, World as Fleet};
use ironclad_runtime::Api;
use ironclad_simcluster::Member;
use kube::{
    Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use serde_json::Value;

/// Returns `true` if all bindings and Works of the fleet are of the kind that [`super::model`] follows.
pub fn are_followed(fleet: &Fleet) -> bool {
    let specs = fleet.bindings.values().map(|b| &b.spec).chain(fleet.cluster_bindings.values().map(|b| &b.spec));
    let mut kinds = specs.map(|spec| spec.resource.kind.as_str());
    let manifests = fleet.works.values().flat_map(|work| &work.spec.workload.manifests);
    let mut in_works = manifests.map(|manifest| manifest.named().kind);
    kinds.all(|kind| kind == "Deployment") && in_works.all(|kind| kind == "Deployment")
}

/// Puts the templates of all bindings, all Namespaces, and the members' objects of the Works' kinds into the fleet.
pub async fn complete(
    fleet: &mut Fleet,
    plane: &Client,
    members: &BTreeMap<String, Arc<Member>>,
) -> anyhow::Result<()> {
    let of = |manifest: &Manifest| {
        let named = manifest.named();
        Gvk::from_manifest(&named.api_version, &named.kind)
    };
    let specs = fleet.bindings.values().map(|b| &b.spec).chain(fleet.cluster_bindings.values().map(|b| &b.spec));
    let mut kinds: Vec<Gvk> =
        specs.map(|spec| Gvk::from_manifest(&spec.resource.api_version, &spec.resource.kind)).collect();
    kinds.push(Gvk::from_manifest("v1", "Namespace"));
    kinds.sort();
    kinds.dedup();
    for gvk in &kinds {
        for object in list(plane, gvk).await? {
            fleet.insert_template(object);
        }
    }
    let mut kinds: Vec<Gvk> = fleet.works.values().flat_map(|w| &w.spec.workload.manifests).map(of).collect();
    kinds.sort();
    kinds.dedup();
    for (name, member) in members {
        for gvk in &kinds {
            for object in list(&member.client(), gvk).await? {
                fleet.insert_member(name.as_str().into(), object);
            }
        }
    }
    Ok(())
}

async fn list(client: &Client, gvk: &Gvk) -> anyhow::Result<Vec<Value>> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&gvk.group, &gvk.version, &gvk.kind));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    match api.list(&ListParams::default()).await {
        Ok(list) => Ok(list
            .items
            .into_iter()
            .map(|mut object| {
                object.types = Some(kube::api::TypeMeta { api_version: gvk.api_version(), kind: gvk.kind.to_string() });
                serde_json::to_value(object)
            })
            .collect::<Result<_, _>>()?),
        // The kind is not served at the moment.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(other) => Err(other.into()),
    }
}
