//! Bindings of templates that a command line names.

use std::sync::Arc;

use ironclad_api::{
    names,
    work::{ClusterResourceBinding, ResourceBinding},
};
use ironclad_fleet::Binding;
use ironclad_runtime::Api;
use kube::Client;

use crate::resource::Resource;

/// The binding of a template; an empty namespace stands for cluster-scoped ones. `None` if it has none.
///
/// # Errors
/// Those of the server.
pub(crate) async fn of(
    plane: &Client,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Option<Binding>, kube::Error> {
    let name = names::binding_name(&resource.api.kind, name);
    if namespace.is_empty() {
        let found = Api::<ClusterResourceBinding>::all(plane.clone()).get_opt(&name).await?;
        return Ok(found.map(|binding| Binding::Cluster(Arc::new(binding))));
    }
    let found = Api::<ResourceBinding>::namespaced(plane.clone(), namespace).get_opt(&name).await?;
    Ok(found.map(|binding| Binding::Namespaced(Arc::new(binding))))
}
