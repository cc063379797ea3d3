//! The pause of evictions, which people write into ConfigMap `karmada-system/ironclad-failover`.

use std::sync::Arc;

use ironclad_api::namespaces;
use ironclad_failover::taint_manager::{PAUSE_CONFIG_MAP, guards};
use ironclad_runtime::Informer;
use k8s_openapi::api::core::v1::ConfigMap;

use crate::{caches::EVICTION_PAUSE, setup::Setup};

/// The cached ConfigMap.
pub(crate) struct Pause(Informer<ConfigMap>);

impl Pause {
    pub(crate) fn new(setup: &Setup) -> Self {
        Self(setup.caches.take(&EVICTION_PAUSE))
    }

    /// True while evictions are paused.
    pub(crate) fn is_on(&self) -> bool {
        let found = self.0.get(namespaces::SYSTEM, PAUSE_CONFIG_MAP);
        guards::is_paused(found.as_ref().and_then(|map| map.data.as_ref()))
    }

    /// Calls the handler whenever the ConfigMap changes, as long as the controller lives.
    pub(crate) fn on_change<C: Send + Sync + 'static>(&self, controller: &Arc<C>, handler: fn(&C)) {
        let weak = Arc::downgrade(controller);
        self.0.on_change(move |_| {
            if let Some(controller) = weak.upgrade() {
                handler(&controller);
            }
        });
    }
}
