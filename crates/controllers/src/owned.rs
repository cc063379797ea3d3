//! Writes of Works that belong to no binding.

use std::sync::Arc;

use ironclad_api::{names, work::Work};
use ironclad_propagation::work::{key_of, owned::Write};
use ironclad_runtime::{Api, Failure, Informer, Writer};
use kube::{Client, api::PropagationPolicy};

use crate::setup::Setup;

/// Writer of these Works for one controller.
pub(crate) struct OwnedWorks {
    writer: Writer,
    plane: Client,
    works: Informer<Work>,
}

impl OwnedWorks {
    pub(crate) fn new(setup: &Setup, controller: &'static str) -> Self {
        Self { writer: setup.writer(controller), plane: setup.plane.clone(), works: setup.works() }
    }

    /// Sends one write; `seen` are the Works over which it was decided.
    pub(crate) async fn send(&self, seen: &[Arc<Work>], write: Write) -> Result<(), Failure> {
        let find = |key| seen.iter().find(|work| key_of(work).as_ref() == Some(key));
        let api = |cluster: &str| Api::<Work>::namespaced(self.plane.clone(), &names::execution_namespace(cluster));
        match write {
            Write::Create(work) => {
                let namespace = work.metadata.namespace.clone().unwrap_or_default();
                let api = Api::namespaced(self.plane.clone(), &namespace);
                self.writer.create(&api, Some(&self.works), &*work).await.map(drop)
            }
            Write::Patch { key, patch } => match find(&key) {
                Some(work) => {
                    self.writer.patch(&api(&key.cluster.0), Some(&self.works), &**work, patch).await.map(drop)
                }
                None => Ok(()),
            },
            Write::Delete { key, uid } => match find(&key).filter(|work| work.metadata.uid.as_deref() == Some(&uid)) {
                Some(work) => {
                    let background = PropagationPolicy::Background;
                    self.writer.delete(&api(&key.cluster.0), Some(&self.works), &**work, background).await
                }
                None => Ok(()),
            },
        }
    }
}
