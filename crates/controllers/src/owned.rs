//! Sends writes of Works that no binding stands for.

use std::sync::Arc;

use ironclad_api::{names, work::Work};
use ironclad_propagation::work::{key_of, owned::Write};
use ironclad_runtime::{Failure, Writer};
use kube::{Api, api::PropagationPolicy};

use crate::Context;

/// Sends one write; `seen` are the Works that it was decided over.
pub(crate) async fn send(
    cx: &Context,
    controller: &'static str,
    seen: &[Arc<Work>],
    write: Write,
) -> Result<(), Failure> {
    let writer = Writer::new(controller);
    let find = |key| seen.iter().find(|work| key_of(work).as_ref() == Some(key));
    let api = |cluster: &str| Api::<Work>::namespaced(cx.plane.clone(), &names::execution_namespace(cluster));
    match write {
        Write::Create(work) => {
            let namespace = work.metadata.namespace.clone().unwrap_or_default();
            writer.create(&Api::namespaced(cx.plane.clone(), &namespace), Some(&cx.works), &*work).await.map(drop)
        }
        Write::Patch { key, patch } => match find(&key) {
            Some(work) => writer.patch(&api(&key.cluster.0), Some(&cx.works), &**work, patch).await.map(drop),
            None => Ok(()),
        },
        Write::Delete { key, uid } => match find(&key).filter(|work| work.metadata.uid.as_deref() == Some(&uid)) {
            Some(work) => {
                let background = PropagationPolicy::Background;
                writer.delete(&api(&key.cluster.0), Some(&cx.works), &**work, background).await
            }
            None => Ok(()),
        },
    }
}
