//! Labels and selectable fields of both states of an event: decoded for the first watch that selects by them, shared by
//! the others.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ironclad_store::{Entry, Event, Revision};
use parking_lot::Mutex;
use serde_json::Value;

use crate::{convert, registry::Resource};

use super::{Selector, field};

/// Labels and selectable fields of one state of an object.
#[derive(Debug, PartialEq, Eq)]
struct Selectable {
    labels: BTreeMap<String, String>,
    /// Values by path: all that a selector of the resource may name.
    fields: BTreeMap<String, String>,
}

impl Selectable {
    fn of(resource: &Resource, object: &Value) -> Self {
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
        let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        let value = |path: &str| (path.to_owned(), field::value_at(object, path));
        Self { labels: labels.filter_map(text).collect(), fields: field::paths(resource).map(value).collect() }
    }

    fn is_selected(&self, selector: &Selector) -> bool {
        let field = |path: &str| self.fields.get(path).map_or("", String::as_str);
        selector.labels.matches(|key| self.labels.get(key).map(String::as_str))
            && selector.fields.matches_values(|path, value| field(path) == value)
    }
}

/// Both states of an event; `None` for one that does not exist, or that can't be decoded and so is never selected.
#[derive(Debug)]
struct States {
    now: Option<Selectable>,
    before: Option<Selectable>,
}

/// Version and schema that a state was read by: watches of different versions may see different fields.
#[derive(Debug, PartialEq, Eq)]
struct View {
    version: String,
    /// Identity and last write of the CRD.
    schema: Option<(String, Revision)>,
}

impl View {
    fn of(resource: &Resource) -> Self {
        let schema = resource.custom().map(|custom| (custom.identity.clone(), custom.since));
        Self { version: resource.version.clone(), schema }
    }

    fn is_of(&self, resource: &Resource) -> bool {
        let schema = resource.custom().map(|custom| (custom.identity.as_str(), custom.since));
        self.version == resource.version
            && self.schema.as_ref().map(|(identity, since)| (identity.as_str(), *since)) == schema
    }
}

/// The states of an event as watches see them: one element for each version that is watched with a selector.
type Views = Mutex<Vec<(View, Arc<States>)>>;

/// Returns which states of the event the selector selects: the one from it on, and the one before. Each state is
/// decoded at most once for all watches of a version; `decoded` counts.
pub(crate) fn selected_states(
    resource: &Resource,
    selector: &Selector,
    event: &Event,
    decoded: &AtomicU64,
) -> (bool, bool) {
    let states = states(resource, event, decoded);
    let is_selected = |state: &Option<Selectable>| state.as_ref().is_some_and(|state| state.is_selected(selector));
    (is_selected(&states.now), is_selected(&states.before))
}

fn states(resource: &Resource, event: &Event, decoded: &AtomicU64) -> Arc<States> {
    let read = |entry: &Option<Entry>| {
        let entry = entry.as_ref()?;
        decoded.fetch_add(1, Ordering::Relaxed);
        convert::read(resource, entry).ok().map(|object| Selectable::of(resource, &object))
    };
    let read = || Arc::new(States { now: read(&event.entry), before: read(&event.previous) });
    let Some(views) = event.derived.get_or_init(Views::default) else { return read() };
    // Decoded under the lock: of many watches that want the event at once, one decodes it.
    let mut views = views.lock();
    if let Some((_, states)) = views.iter().find(|(view, _)| view.is_of(resource)) {
        return states.clone();
    }
    let states = read();
    views.push((View::of(resource), states.clone()));
    states
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{object, registry::Registry, request::Query};

    #[test]
    fn states_of_an_event_are_decoded_once_for_all_selectors() {
        let registry = Registry::new(crate::kinds::groups());
        let pods = registry.builtin("", "pods").unwrap();
        let entry = |phase: &str, app: &str| {
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "n", "labels": {"app": app}},
                             "status": {"phase": phase}});
            let revision = Revision::FIRST;
            Entry { create: revision, modified: revision, version: 1, expires: None, value: object::encode(&pod) }
        };
        let event = Event::new("/a".into(), Some(entry("Pending", "x")), Some(entry("Running", "y")));
        let decoded = AtomicU64::new(0);
        for (query, want) in [
            ("labelSelector=app%3Dx", (false, true)),
            ("labelSelector=app%3Dy", (true, false)),
            ("labelSelector=app", (true, true)),
            ("labelSelector=%21app", (false, false)),
            ("fieldSelector=status.phase%3DRunning", (true, false)),
            ("fieldSelector=status.phase%21%3DRunning", (false, true)),
            ("fieldSelector=metadata.name%3Da,metadata.namespace%3Dn", (true, true)),
            ("fieldSelector=spec.nodeName%3D", (true, true)),
            ("fieldSelector=spec.nodeName%3Db", (false, false)),
            ("labelSelector=app%3Dy&fieldSelector=status.phase%3DPending", (false, false)),
        ] {
            let selector = Selector::of(&pods, &Query::parse(Some(query))).unwrap();
            assert_eq!(selected_states(&pods, &selector, &event, &decoded), want, "{query}");
            assert_eq!(decoded.load(Ordering::Relaxed), 2, "{query}: one for each state");
        }
    }
}
