//! Reasons why targets of bindings have no Work: found by the binding controller, reported by the binding status
//! controller. In memory only: after a restart the binding controller finds them again.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_fleet::ClusterName;
use ironclad_runtime::Key;
use parking_lot::{Mutex, RwLock};

type Reasons = BTreeMap<ClusterName, String>;
type OnChange = Box<dyn Fn(&Key) + Send + Sync>;

/// The reasons by binding and cluster. Contains no binding whose targets all have a Work. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct CopiesNotMade {
    reasons: Arc<Mutex<BTreeMap<Key, Reasons>>>,
    handlers: Arc<RwLock<Vec<OnChange>>>,
}

impl CopiesNotMade {
    /// Calls this for every binding whose reasons change. It must not wait.
    pub(crate) fn on_change(&self, handler: impl Fn(&Key) + Send + Sync + 'static) {
        self.handlers.write().push(Box::new(handler));
    }

    /// The reasons of a binding, by cluster.
    pub(crate) fn of(&self, binding: &Key) -> Reasons {
        self.reasons.lock().get(binding).cloned().unwrap_or_default()
    }

    /// Replaces the reasons of a binding.
    pub(crate) fn set(&self, binding: &Key, reasons: Reasons) {
        let is_changed = {
            let mut all = self.reasons.lock();
            if reasons.is_empty() {
                all.remove(binding).is_some()
            } else if all.get(binding) == Some(&reasons) {
                false
            } else {
                all.insert(binding.clone(), reasons);
                true
            }
        };
        if is_changed {
            self.handlers.read().iter().for_each(|handler| handler(binding));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn handlers_are_called_for_changes_only() {
        let (not_made, calls) = (CopiesNotMade::default(), Arc::new(AtomicUsize::new(0)));
        let counted = calls.clone();
        not_made.on_change(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let (key, none) = (Key::new("shop", "web-deployment"), Reasons::new());
        let failed = Reasons::from([("m2".into(), "override for cluster m2".to_owned())]);
        for (name, reasons, want) in [
            ("nothing failed before", none.clone(), 0),
            ("failed", failed.clone(), 1),
            ("failed again in the same way", failed, 1),
            ("mended", none.clone(), 2),
            ("still fine", none, 2),
        ] {
            not_made.set(&key, reasons.clone());
            assert_eq!(calls.load(Ordering::Relaxed), want, "{name}");
            assert_eq!(not_made.of(&key), reasons, "{name}");
        }
    }
}
