//! Priority of a binding (specification/scheduling.md 14.3).

use ironclad_api::work::ResourceBindingSpec;

/// Priority of a binding; without one it counts as 0 (specification/scheduling.md 14.3).
#[must_use]
pub fn priority(spec: &ResourceBindingSpec) -> i32 {
    spec.schedule_priority.as_ref().map_or(0, |resolved| resolved.priority)
}
