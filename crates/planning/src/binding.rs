//! TEMPORARY until fleet::Binding lands.
use ironclad_failover::Bound;
use ironclad_fleet::{BindingKey, ObjectKey, World};
use ironclad_propagation::detector::binding;
use ironclad_scheduling as scheduling;

pub(crate) use ironclad_failover::Bound as Binding;
pub(crate) use ironclad_propagation::detector::binding::Binding as BindingRef;

pub(crate) fn view(binding: &Bound) -> BindingRef<'_> {
    match binding {
        Bound::Namespaced(binding) => binding::Binding::Namespaced(binding),
        Bound::Cluster(binding) => binding::Binding::Cluster(binding),
    }
}

pub(crate) fn for_scheduler(binding: &Bound) -> scheduling::Binding<'_> {
    match binding {
        Bound::Namespaced(binding) => scheduling::Binding::from(&**binding),
        Bound::Cluster(binding) => scheduling::Binding::from(&**binding),
    }
}

pub(crate) trait Bindings {
    fn all_bindings(&self) -> impl Iterator<Item = Bound>;
    fn binding(&self, key: &BindingKey) -> Option<Bound>;
    fn binding_of(&self, template: &ObjectKey) -> Option<Bound>;
}

impl Bindings for World {
    fn all_bindings(&self) -> impl Iterator<Item = Bound> {
        let namespaced = self.bindings.values().cloned().map(Bound::Namespaced);
        namespaced.chain(self.cluster_bindings.values().cloned().map(Bound::Cluster))
    }

    fn binding(&self, key: &BindingKey) -> Option<Bound> {
        let namespaced = self.bindings.get(key).cloned().map(Bound::Namespaced);
        namespaced.or_else(|| self.cluster_bindings.get(key).cloned().map(Bound::Cluster))
    }

    fn binding_of(&self, template: &ObjectKey) -> Option<Bound> {
        self.all_bindings().find(|binding| is_of(binding, template))
    }
}

pub(crate) fn is_of(binding: &Bound, key: &ObjectKey) -> bool {
    let resource = &binding.spec().resource;
    let group = resource.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    (group, &*resource.kind) == (&*key.gvk.group, &*key.gvk.kind)
        && (&*resource.namespace, &*resource.name) == (&*key.namespace, &*key.name)
}
