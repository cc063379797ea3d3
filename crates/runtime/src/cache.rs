//! Ordered cache of one kind, fed by a watch and by the answers to our own writes.
//!
//! resourceVersions are compared for equality only. Each write of ours is conditional on its base version, so its
//! answer directly follows that version: it replaces the cached object exactly if the cache still has the base. Until
//! the watch shows the same version, its other events about the object are older and are ignored.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use ironclad_kinds::{Erased, Object, typed};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

/// Namespace (empty if there is none) and name of an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl Key {
    /// A key from its parts.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object.
    #[must_use]
    pub fn of<K: Resource>(object: &K) -> Self {
        Self::of_meta(object.meta())
    }

    pub(crate) fn of_meta(meta: &ObjectMeta) -> Self {
        Self::new(meta.namespace.as_deref().unwrap_or(""), meta.name.as_deref().unwrap_or(""))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Change of one object in the cache.
#[derive(Debug)]
pub struct Change<K: ?Sized> {
    /// The object before, `None` if it is new.
    pub old: Option<Arc<K>>,
    /// The object after, `None` if it was deleted.
    pub new: Option<Arc<K>>,
    /// True for the answer to a write of ours, false for an event of the watch.
    pub ours: bool,
}

impl Change<dyn Erased> {
    /// The change as one of this kind.
    ///
    /// # Panics
    /// If the objects are of another kind: a cache holds one.
    pub(crate) fn typed<K: Object>(&self) -> Change<K> {
        let of = |object: &Option<Arc<dyn Erased>>| {
            object.as_ref().map(|object| typed(object.clone()).expect("a cache holds one kind"))
        };
        Change { old: of(&self.old), new: of(&self.new), ours: self.ours }
    }
}

/// Function that gives the index values of an object.
type IndexFn = Box<dyn Fn(&dyn Erased) -> Vec<String> + Send + Sync>;

struct Index {
    values_of: IndexFn,
    keys: BTreeMap<String, BTreeSet<Key>>,
}

struct Entry {
    object: Arc<dyn Erased>,
    /// The version of our own last write that the watch has not shown yet.
    awaiting: Option<String>,
}

/// The cache of one kind. It is plain data: the informer locks it.
#[derive(Default)]
pub(crate) struct Cache {
    entries: BTreeMap<Key, Entry>,
    /// Uids of objects that we deleted and whose deletion the watch has not shown yet.
    deleted: BTreeMap<Key, String>,
    indexes: BTreeMap<&'static str, Index>,
    /// The relist that is running.
    relist: Option<Relist>,
    flights: Flights,
}

/// Creates that were sent and not answered yet, and deletions that the watch showed meanwhile: the answer to a create
/// may arrive after the deletion of its object.
#[derive(Default)]
struct Flights {
    /// Logical time: increases with each event.
    now: u64,
    /// Times at which the open creates were sent.
    sent: BTreeSet<u64>,
    /// Uids of objects that were deleted since the first of them.
    deleted: BTreeMap<u64, String>,
    /// Time of the last complete list.
    listed: Option<u64>,
}

impl Flights {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn saw_deleted(&mut self, uid: Option<&str>) {
        if let Some(uid) = uid.filter(|_| !self.sent.is_empty()) {
            let now = self.tick();
            self.deleted.insert(now, uid.to_owned());
        }
    }

    fn ended(&mut self, sent: u64) {
        self.sent.remove(&sent);
        let first = self.sent.first().copied().unwrap_or(u64::MAX);
        self.deleted = self.deleted.split_off(&first);
    }

    /// Returns true if the created object was deleted already, as far as the watch knows. After a list in between that
    /// is unknown, and the watch will show the object if it exists.
    fn overtook(&self, sent: u64, uid: Option<&str>) -> bool {
        self.listed.is_some_and(|listed| listed > sent)
            || self.deleted.range(sent..).any(|(_, deleted)| Some(deleted.as_str()) == uid)
    }
}

struct Relist {
    listed: BTreeMap<Key, Arc<dyn Erased>>,
    /// Objects that we wrote or deleted after the relist began: the list may be older than those writes.
    written_since: BTreeSet<Key>,
}

impl Cache {
    /// Adds an index. It must be added before the first object.
    pub(crate) fn add_index(&mut self, name: &'static str, values_of: IndexFn) {
        self.indexes.insert(name, Index { values_of, keys: BTreeMap::new() });
    }

    /// The object of this key.
    #[must_use]
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<dyn Erased>> {
        self.entries.get(key).map(|e| e.object.clone())
    }

    /// All objects in order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<dyn Erased>> {
        self.entries.values().map(|e| &e.object)
    }

    /// The objects of one namespace in order of their names.
    #[must_use]
    pub(crate) fn namespace(&self, namespace: &str) -> Vec<Arc<dyn Erased>> {
        let from = Key { namespace: namespace.into(), name: "".into() };
        self.entries
            .range(from..)
            .take_while(|(key, _)| &*key.namespace == namespace)
            .map(|(_, e)| e.object.clone())
            .collect()
    }

    /// The objects under this value of an index, in order of their keys. An index that was never added has none.
    #[must_use]
    pub(crate) fn by_index(&self, index: &'static str, value: &str) -> Vec<Arc<dyn Erased>> {
        let Some(keys) = self.indexes.get(index).and_then(|index| index.keys.get(value)) else { return Vec::new() };
        keys.iter().filter_map(|key| self.get(key)).collect()
    }

    /// The number of objects.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Takes in an object that the watch shows.
    pub(crate) fn applied(&mut self, object: Arc<dyn Erased>) -> Option<Change<dyn Erased>> {
        let key = Key::of_meta(object.meta());
        if let Some(uid) = self.deleted.get(&key) {
            if object.meta().uid.as_deref() == Some(uid) {
                return None;
            }
            self.deleted.remove(&key);
        }
        if let Some(entry) = self.entries.get_mut(&key) {
            if let Some(awaited) = &entry.awaiting {
                if object.meta().resource_version.as_deref() == Some(awaited) {
                    entry.awaiting = None;
                }
                return None;
            }
            if entry.object.meta().resource_version == object.meta().resource_version {
                return None;
            }
        }
        Some(self.put(key, object, None))
    }

    /// Takes in a deletion that the watch shows.
    pub(crate) fn deleted(&mut self, object: &dyn Erased) -> Option<Change<dyn Erased>> {
        let key = Key::of_meta(object.meta());
        self.flights.saw_deleted(object.meta().uid.as_deref());
        if self.deleted.get(&key).map(String::as_str) == object.meta().uid.as_deref() {
            self.deleted.remove(&key);
        }
        let entry = self.entries.get(&key)?;
        // An older object of this name was deleted. The cached one was created since, by us.
        if entry.awaiting.is_some() && entry.object.meta().uid != object.meta().uid {
            return None;
        }
        self.remove(&key)
    }

    /// Begins a relist.
    pub(crate) fn relist_started(&mut self) {
        self.relist = Some(Relist { listed: BTreeMap::new(), written_since: BTreeSet::new() });
    }

    /// Takes in one object of the list.
    pub(crate) fn relisted(&mut self, object: Arc<dyn Erased>) {
        let key = Key::of_meta(object.meta());
        if let Some(relist) = &mut self.relist {
            relist.listed.insert(key, object);
        }
    }

    /// Completes the relist: objects that are not in it were deleted, unless we wrote them meanwhile. Of a write that
    /// the list includes, the watch shows no event any more.
    pub(crate) fn relist_done(&mut self) -> Vec<Change<dyn Erased>> {
        let Some(relist) = self.relist.take() else { return Vec::new() };
        self.flights.listed = Some(self.flights.tick());
        let mut changes = Vec::new();
        let deleted: Vec<Key> = self
            .entries
            .keys()
            .filter(|key| !relist.listed.contains_key(*key) && !relist.written_since.contains(*key))
            .cloned()
            .collect();
        changes.extend(deleted.iter().filter_map(|key| self.remove(key)));
        for (key, object) in relist.listed {
            if relist.written_since.contains(&key)
                && self.entries.get(&key).is_none_or(|entry| !includes(&*object, &*entry.object))
            {
                continue;
            }
            self.deleted.remove(&key);
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.awaiting = None;
                if entry.object.meta().resource_version == object.meta().resource_version {
                    continue;
                }
            }
            changes.push(self.put(key, object, None));
        }
        // Objects that the list does not contain were deleted before it began.
        self.deleted.retain(|key, _| relist.written_since.contains(key));
        changes
    }

    /// Notes that a create of ours is sent; pass the number to [`Cache::created`] or [`Cache::not_created`].
    pub(crate) fn creating(&mut self) -> u64 {
        let sent = self.flights.tick();
        self.flights.sent.insert(sent);
        sent
    }

    /// Takes in the answer to a create of ours. If the watch has shown the deletion of the object already, the object
    /// is not cached: no further event would remove it.
    pub(crate) fn created(&mut self, sent: u64, object: Arc<dyn Erased>) -> Option<Change<dyn Erased>> {
        let overtaken = self.flights.overtook(sent, object.meta().uid.as_deref());
        self.flights.ended(sent);
        if overtaken { None } else { self.written(None, object) }
    }

    /// Notes that a create of ours was not answered with an object.
    pub(crate) fn not_created(&mut self, sent: u64) {
        self.flights.ended(sent);
    }

    /// Takes in the answer to a write of ours that was based on this version (`None`: a create).
    pub(crate) fn written(&mut self, base: Option<&str>, object: Arc<dyn Erased>) -> Option<Change<dyn Erased>> {
        let key = Key::of_meta(object.meta());
        let version = object.meta().resource_version.clone()?;
        let follows = match (self.entries.get(&key), base) {
            (None, None) => self.deleted.get(&key).map(String::as_str) != object.meta().uid.as_deref(),
            // The watch was faster: it showed the object and its deletion, or a later object.
            (None, Some(_)) => false,
            (Some(entry), None) => entry.object.meta().uid != object.meta().uid,
            (Some(entry), Some(base)) => entry.object.meta().resource_version.as_deref() == Some(base),
        };
        if !follows {
            return None;
        }
        if let Some(relist) = &mut self.relist {
            relist.written_since.insert(key.clone());
        }
        if base == Some(version.as_str()) {
            return None;
        }
        Some(Change { ours: true, ..self.put(key, object, Some(version)) })
    }

    /// Takes in the answer to a read of ours: it replaces the same version.
    pub(crate) fn reread(&mut self, object: Arc<dyn Erased>) {
        if let Some(entry) = self.entries.get_mut(&Key::of_meta(object.meta()))
            && entry.object.meta().uid == object.meta().uid
            && entry.object.meta().resource_version == object.meta().resource_version
        {
            entry.object = object;
        }
    }

    /// Removes an object that a delete of ours removed at once.
    pub(crate) fn removed(&mut self, key: &Key, uid: &str) -> Option<Change<dyn Erased>> {
        let entry = self.entries.get(key)?;
        if entry.object.meta().uid.as_deref() != Some(uid) {
            return None;
        }
        if let Some(relist) = &mut self.relist {
            relist.written_since.insert(key.clone());
        }
        self.deleted.insert(key.clone(), uid.to_owned());
        Some(Change { ours: true, ..self.remove(key)? })
    }

    fn put(&mut self, key: Key, object: Arc<dyn Erased>, awaiting: Option<String>) -> Change<dyn Erased> {
        let new = object;
        let old = self.entries.insert(key.clone(), Entry { object: new.clone(), awaiting }).map(|e| e.object);
        for index in self.indexes.values_mut() {
            let before = old.as_ref().map(|old| (index.values_of)(&**old)).unwrap_or_default();
            let after = (index.values_of)(&*new);
            // The usual change is one of a status.
            if before == after {
                continue;
            }
            index.strike(&key, before);
            for value in after {
                index.keys.entry(value).or_default().insert(key.clone());
            }
        }
        Change { old, new: Some(new), ours: false }
    }

    fn remove(&mut self, key: &Key) -> Option<Change<dyn Erased>> {
        let old = self.entries.remove(key)?.object;
        for index in self.indexes.values_mut() {
            let values = (index.values_of)(&*old);
            index.strike(key, values);
        }
        Some(Change { old: Some(old), new: None, ours: false })
    }
}

impl Index {
    fn strike(&mut self, key: &Key, values: Vec<String>) {
        for value in values {
            if let Some(keys) = self.keys.get_mut(&value) {
                keys.remove(key);
                if keys.is_empty() {
                    self.keys.remove(&value);
                }
            }
        }
    }
}

/// Returns whether the listed object is the written one or a later version of it. Versions that are no numbers are
/// compared for equality only.
fn includes(listed: &dyn Erased, written: &dyn Erased) -> bool {
    let version = |object: &dyn Erased| object.meta().resource_version.clone().unwrap_or_default();
    let (listed, written) = (version(listed), version(written));
    let later = listed.parse::<u64>().ok().zip(written.parse::<u64>().ok()).is_some_and(|(one, other)| one > other);
    later || listed == written
}

#[cfg(test)]
mod tests {
    use ironclad_kinds::typed_ref;
    use k8s_openapi::api::core::v1::ConfigMap;
    use proptest::{collection, prelude::*};

    use super::*;

    fn object(uid: &str, version: &str) -> ConfigMap {
        let mut o = ConfigMap::default();
        o.metadata.name = Some("a".into());
        o.metadata.namespace = Some("d".into());
        o.metadata.uid = Some(uid.into());
        o.metadata.resource_version = Some(version.into());
        o
    }

    fn erased(uid: &str, version: &str) -> Arc<dyn Erased> {
        object(uid, version).erase()
    }

    fn of(object: &dyn Erased) -> &ConfigMap {
        typed_ref(object).unwrap()
    }

    fn shown(cache: &Cache) -> Option<String> {
        cache.get(&Key::new("d", "a")).and_then(|o| o.meta().resource_version.clone())
    }

    fn with(versions: &[&str]) -> Cache {
        let mut cache = Cache::default();
        for version in versions {
            cache.applied(erased("u", version));
        }
        cache
    }

    #[test]
    fn an_answer_hides_older_events_until_the_watch_shows_it() {
        let mut cache = with(&["1"]);
        assert!(cache.written(Some("1"), erased("u", "3")).is_some_and(|change| change.ours));
        assert!(cache.applied(erased("u", "2")).is_none(), "older than our write");
        assert_eq!(shown(&cache).as_deref(), Some("3"));
        assert!(cache.applied(erased("u", "3")).is_none(), "the echo is no news");
        assert!(cache.applied(erased("u", "4")).is_some());
        assert_eq!(shown(&cache).as_deref(), Some("4"));
    }

    #[test]
    fn an_object_deleted_before_its_create_was_answered_is_not_cached() {
        // (name, events of the watch before the answer to the create of v, cached version after the answer)
        type Events = fn(&mut Cache);
        let rows: [(&str, Events, Option<&str>); 7] = [
            ("nothing", |_| {}, Some("5")),
            ("its echo", |cache| drop(cache.applied(erased("v", "5"))), Some("5")),
            (
                "that it came and went",
                |cache| {
                    cache.applied(erased("v", "5"));
                    cache.deleted(&object("v", "6"));
                },
                None,
            ),
            (
                "and that another came",
                |cache| {
                    cache.applied(erased("v", "5"));
                    cache.deleted(&object("v", "6"));
                    cache.applied(erased("w", "7"));
                },
                Some("7"),
            ),
            ("that the one before went", |cache| drop(cache.deleted(&object("u", "4"))), Some("5")),
            (
                "a list without it",
                |cache| {
                    cache.relist_started();
                    cache.relist_done();
                },
                None,
            ),
            (
                "a list with it",
                |cache| {
                    cache.relist_started();
                    cache.relisted(erased("v", "5"));
                    cache.relist_done();
                },
                Some("5"),
            ),
        ];
        for (name, events, want) in rows {
            let mut cache = Cache::default();
            let (other, sent) = (cache.creating(), cache.creating());
            events(&mut cache);
            cache.not_created(other);
            cache.created(sent, erased("v", "5"));
            assert_eq!(shown(&cache).as_deref(), want, "{name}");
            assert!(cache.flights.deleted.is_empty() && cache.flights.sent.is_empty(), "{name}: nothing is kept");
        }
    }

    #[test]
    fn an_answer_that_the_watch_overtook_is_dropped() {
        let mut cache = with(&["1", "3", "4"]);
        assert!(cache.written(Some("1"), erased("u", "3")).is_none());
        assert_eq!(shown(&cache).as_deref(), Some("4"));
    }

    #[test]
    fn answers_out_of_order_never_restore_an_older_version() {
        let mut cache = with(&["1"]);
        // 1 -> 2 and 2 -> 3 were answered in the other order.
        assert!(cache.written(Some("2"), erased("u", "3")).is_none());
        assert!(cache.written(Some("1"), erased("u", "2")).is_some());
        assert!(cache.applied(erased("u", "2")).is_none());
        assert!(cache.applied(erased("u", "3")).is_some());
        assert_eq!(shown(&cache).as_deref(), Some("3"));
    }

    #[test]
    fn a_read_replaces_only_the_same_version() {
        let noted = |uid: &str, version: &str| {
            let mut o = object(uid, version);
            o.immutable = Some(true);
            o
        };
        for (name, uid, version, want) in
            [("the same", "u", "2", true), ("an older one", "u", "1", false), ("another object", "v", "2", false)]
        {
            let mut cache = with(&["2"]);
            cache.reread(noted(uid, version).erase());
            assert_eq!(shown(&cache).as_deref(), Some("2"), "{name}");
            assert_eq!(of(&*cache.get(&Key::new("d", "a")).unwrap()).immutable.is_some(), want, "{name}");
        }
        let mut none = with(&[]);
        none.reread(noted("u", "1").erase());
        assert!(none.len() == 0, "a read makes no object appear");
    }

    #[test]
    fn a_created_object_is_cached_at_once_and_survives_the_deletion_of_its_predecessor() {
        let mut cache = with(&["1"]);
        assert!(cache.removed(&Key::new("d", "a"), "u").is_some());
        assert!(cache.written(None, erased("v", "5")).is_some());
        assert!(cache.applied(erased("u", "2")).is_none(), "of the old incarnation");
        assert!(cache.deleted(&object("u", "4")).is_none());
        assert_eq!(shown(&cache).as_deref(), Some("5"));
        assert!(cache.applied(erased("v", "5")).is_none());
        assert!(cache.deleted(&object("v", "6")).is_some());
        assert!(cache.len() == 0);
    }

    #[test]
    fn a_late_event_does_not_restore_a_deleted_object() {
        let mut cache = with(&["1"]);
        cache.removed(&Key::new("d", "a"), "u");
        assert!(cache.applied(erased("u", "2")).is_none());
        assert!(cache.deleted(&object("u", "3")).is_none());
        assert!(cache.applied(erased("v", "4")).is_some(), "a new incarnation");
    }

    #[test]
    fn a_relist_removes_missing_objects_except_those_written_since() {
        let mut cache = with(&["1"]);
        cache.relist_started();
        let mut b = object("w", "9");
        b.metadata.name = Some("b".into());
        assert!(cache.written(None, b.erase()).is_some());
        let changes = cache.relist_done();
        assert_eq!(changes.len(), 1);
        assert!(changes[0].new.is_none());
        assert_eq!(cache.len(), 1);
        // The next relist began after that write, so it is newer.
        cache.relist_started();
        assert_eq!(cache.relist_done().len(), 1);
        assert!(cache.len() == 0);
    }

    /// The watch after a list shows what is later than the list, so no event is awaited that the list has included.
    #[test]
    fn a_write_that_the_relist_includes_is_not_awaited() {
        for (name, listed, shown_then, next, want) in [
            ("older than our write, whose event comes", "9", "10", "10", "10"),
            ("our write", "10", "10", "11", "11"),
            ("a later write of somebody else", "11", "11", "12", "12"),
        ] {
            let mut cache = with(&["9"]);
            cache.relist_started();
            cache.relisted(erased("u", listed));
            assert!(cache.written(Some("9"), erased("u", "10")).is_some());
            cache.relist_done();
            assert_eq!(shown(&cache).as_deref(), Some(shown_then), "{name}");
            cache.applied(erased("u", next));
            assert_eq!(shown(&cache).as_deref(), Some(want), "{name}");
            cache.applied(erased("u", "20"));
            assert_eq!(shown(&cache).as_deref(), Some("20"), "{name}: events are taken in again");
        }
    }

    #[test]
    fn a_relist_older_than_our_write_does_not_undo_it_and_a_later_one_does() {
        let mut cache = with(&["1"]);
        cache.relist_started();
        cache.relisted(erased("u", "1"));
        cache.written(Some("1"), erased("u", "2"));
        assert!(cache.relist_done().is_empty());
        assert_eq!(shown(&cache).as_deref(), Some("2"));
        cache.relist_started();
        cache.relisted(erased("u", "3"));
        assert_eq!(cache.relist_done().len(), 1);
        assert!(cache.applied(erased("u", "4")).is_some(), "no longer waiting for 2");
    }

    #[test]
    fn indexes_follow_changes() {
        let mut cache = Cache::default();
        cache.add_index("uid", Box::new(|o| o.meta().uid.iter().cloned().collect()));
        cache.applied(erased("u", "1"));
        assert_eq!(cache.by_index("uid", "u").len(), 1);
        cache.applied(erased("v", "2"));
        assert!(cache.by_index("uid", "u").is_empty());
        assert_eq!(cache.by_index("uid", "v").len(), 1);
        cache.deleted(&object("v", "3"));
        assert!(cache.by_index("uid", "v").is_empty());
    }

    proptest! {
        /// An index has what a look at every object gives, however values stay, move, multiply and go.
        #[test]
        fn an_index_agrees_with_the_objects(
            steps in collection::vec((0..3usize, collection::vec(0..4usize, 0..4), any::<bool>()), 0..40),
        ) {
            fn values(object: &ConfigMap) -> Vec<String> {
                object.data.iter().flatten().map(|(_, value)| value.clone()).collect()
            }
            let mut cache = Cache::default();
            cache.add_index("value", Box::new(|object| values(of(object))));
            for (at, (name, wanted, is_deleted)) in steps.into_iter().enumerate() {
                let mut object = object(&format!("u{name}"), &at.to_string());
                object.metadata.name = Some(format!("o{name}"));
                object.data = Some(wanted.iter().enumerate().map(|(key, value)| (key.to_string(), value.to_string())).collect());
                if is_deleted {
                    cache.deleted(&object);
                } else {
                    cache.applied(object.erase());
                }
                for value in 0..4 {
                    let value = value.to_string();
                    let slow = cache.iter().filter(|object| values(of(&***object)).contains(&value));
                    let slow: Vec<Key> = slow.map(|object| Key::of_meta(object.meta())).collect();
                    let fast = cache.by_index("value", &value);
                    let fast: Vec<Key> = fast.iter().map(|object| Key::of_meta(object.meta())).collect();
                    prop_assert_eq!(fast, slow);
                }
            }
            let unused: usize = cache.indexes.values().map(|index| index.keys.values().filter(|keys| keys.is_empty()).count()).sum();
            prop_assert_eq!(unused, 0, "no value without an object is kept");
        }
    }
}
