//! Field ownership and server-side apply (specification/apiserver.md 13).
//!
//! Every write goes through [`Tracker::update`] or [`Tracker::apply`], which maintain `metadata.managedFields`: the
//! last manager of each field. Values are compared along their types, so that list items are identified by their keys
//! and atomic lists count as one field.
//!
//! Entries of other versions of a kind are treated as entries of this version. That is exact for custom resources,
//! which are not converted, and nearly so for built-in kinds, whose versions differ in few fields.

mod alternatives;
mod compare;
mod configure;
mod entries;
mod last_applied;
mod merge;
pub mod path;
mod scale;
mod set;
mod three_way;
mod typed;

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::Value;

use self::{
    compare::{Comparison, compare, equal},
    entries::{Entries, Entry, Owner},
    typed::Ref,
};
use crate::{
    decode,
    error::{Conflict, PatchError},
    schema::{SchemaId, Table},
};

pub use self::{
    scale::{scale_from_parent, scale_to_parent},
    set::Set,
    three_way::{Record, ThreeWay},
};

/// More update entries than this are merged, oldest first.
pub const UPDATE_MANAGERS_MAX: usize = 10;

/// Manager of update entries that were merged because there were too many.
pub const ANCIENT_CHANGES: &str = "ancient-changes";

/// Owner of the fields that existed before the first apply.
pub const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Tracks field ownership of objects of one kind and version, for one endpoint.
#[derive(Debug, Clone, Copy)]
pub struct Tracker<'t> {
    /// The schemas.
    pub table: &'t Table,
    /// The kind's.
    pub schema: SchemaId,
    /// API version of the request: `apps/v1`.
    pub api_version: &'t str,
    /// `Deployment`
    pub kind: &'t str,
    /// `status`, `scale`, …; empty for the main resource.
    pub subresource: &'t str,
    /// Fields that this endpoint does not write, such as `status` on the main resource: never owned.
    pub reset: &'t Set,
}

/// Result of an apply.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The object with its new `managedFields`, not yet decoded, defaulted and validated.
    pub object: Value,
    /// `true` if more than ownership changed.
    pub changed: bool,
}

/// Fields that are never tracked: they identify the object, or the server sets them.
static UNTRACKED: LazyLock<Set> = LazyLock::new(|| {
    Set::of_fields(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

impl Tracker<'_> {
    /// Updates `new`'s `managedFields` after a create, update or patch by `manager`. `live` is the previous object,
    /// none for a create. `now` is RFC 3339 with whole seconds.
    ///
    /// `managedFields` that the client sent are honoured: `[]` and `[{}]` clear them, a list without mistakes replaces
    /// them, anything else is ignored, and so are all of them on a subresource. An object without any is not tracked
    /// before its first apply.
    pub fn update(&self, live: Option<&Value>, new: &mut Value, manager: &str, now: &str) {
        let entries = self.entries_for_update(live, new);
        take_managed_fields(new);
        if entries.0.is_empty() && live.is_some() {
            return;
        }
        let old = self.whole(live);
        self.record_update(&old, &self.whole(Some(new)), entries, manager, now).put(new);
    }

    fn entries_for_update(&self, live: Option<&Value>, new: &Value) -> Entries {
        let of_live = || live.and_then(|live| Entries::of(live).ok()).unwrap_or_default();
        if !self.subresource.is_empty() {
            return of_live();
        }
        let given = &new["metadata"]["managedFields"];
        if let Some(list) = given.as_array() {
            let clears = match list.as_slice() {
                [] => true,
                [Value::Object(one)] => one.is_empty(),
                _ => false,
            };
            if clears {
                return Entries::default();
            }
        }
        match Entries::read(given) {
            Ok(entries) if !entries.0.is_empty() => entries,
            _ => of_live(),
        }
    }

    fn record_update(&self, old: &Value, new: &Value, mut entries: Entries, manager: &str, now: &str) -> Entries {
        let of = Ref::of(self.table, self.schema);
        let changes = compare(of, old, new).without(self.reset);
        // The previous owners lose the changed fields, including other entries of the same manager.
        take_away(&mut entries, &changes);
        let taken = changes.modified.union(&changes.added).difference_below(self.reset).difference(&UNTRACKED);
        if !taken.is_empty() {
            let owner = Owner::new(manager, false, self.api_version, self.subresource);
            let before = entries.0.get(&owner).map(|entry| entry.set.clone()).unwrap_or_default();
            let entry = Entry {
                set: taken.union(&before),
                api_version: self.api_version.to_owned(),
                time: Some(now.to_owned()),
            };
            entries.0.insert(owner, entry);
        }
        cap_update_managers(&mut entries);
        entries
    }

    /// Merges an applied configuration into the live object; `None` for a create.
    ///
    /// # Errors
    /// 400 for another version or `managedFields` in the configuration, 500 if it does not fit the schema (as
    /// Kubernetes does), 409 if it changes fields of other owners without `force`.
    pub fn apply(
        &self,
        live: Option<&Value>,
        config: &Value,
        manager: &str,
        force: bool,
        now: &str,
    ) -> Result<Applied, PatchError> {
        match self.apply_once(live, config, manager, force, now) {
            Ok(applied) => Ok(self.with_last_applied(applied, config, manager)),
            Err(Refused::Other(error)) => Err(error),
            Err(Refused::Conflicts(conflicts)) => {
                // kubectl may take over fields that it applied client-side before.
                let Some((allowed, live)) = self.allowed_by_last_applied(live, manager) else {
                    return Err(conflict_error(&conflicts));
                };
                let left: Conflicts = conflicts
                    .into_iter()
                    .map(|(owner, set)| (owner, set.difference(&allowed)))
                    .filter(|(_, set)| !set.is_empty())
                    .collect();
                if !left.is_empty() {
                    return Err(conflict_error(&left));
                }
                let applied = self.apply_once(Some(live), config, manager, true, now).map_err(Refused::into_error)?;
                Ok(self.with_last_applied(applied, config, manager))
            }
        }
    }

    fn apply_once(
        &self,
        live: Option<&Value>,
        config: &Value,
        manager: &str,
        force: bool,
        now: &str,
    ) -> Result<Applied, Refused> {
        let refuse = |error: PatchError| Err(Refused::Other(error));
        let given = config["apiVersion"].as_str().unwrap_or_default();
        if given != self.api_version {
            let text = format!(
                "Incorrect version specified in apply patch. Specified patch version: {given}, expected: {}",
                self.api_version
            );
            return refuse(PatchError::BadRequest(text));
        }
        if !config["metadata"]["managedFields"].is_null() {
            return refuse(PatchError::BadRequest("metadata.managedFields must be nil".to_owned()));
        }
        let of = Ref::of(self.table, self.schema);
        let misfits = of.misfits(config, false);
        if !misfits.is_empty() {
            let text = typed::print(&misfits);
            let name = self.describe(config);
            return refuse(PatchError::Raw(format!("failed to create typed patch object ({name}): {text}")));
        }
        let mut entries = match live.map_or(Ok(Entries::default()), Entries::of) {
            Ok(entries) => entries,
            Err(error) => return refuse(PatchError::Raw(format!("failed to decode managed fields: {error}"))),
        };
        let old = self.whole(live);
        if entries.0.is_empty() && live.is_some() {
            entries = self.record_update(&self.whole(None), &old, entries, BEFORE_FIRST_APPLY, now);
        }

        let owner = Owner::new(manager, true, self.api_version, self.subresource);
        let last = entries.0.get(&owner).cloned();
        let merged = merge::merge(of, &old, config);
        let set = of.fields(config).difference_below(self.reset);
        let time = last.as_ref().and_then(|last| last.time.clone());
        entries.0.insert(owner.clone(), Entry { set, api_version: self.api_version.to_owned(), time });
        let pruned = match last.filter(|last| !last.set.is_empty()) {
            Some(last) => prune(of, merged, &entries, &last.set),
            None => merged,
        };
        let changes = compare(of, &old, &pruned).without(self.reset);
        let conflicts = conflicts(&entries, &owner, &changes);
        if !force && !conflicts.is_empty() {
            return Err(Refused::Conflicts(conflicts));
        }
        let own = entries.0.remove(&owner);
        take_away(&mut entries, &changes);
        if let Some(own) = own {
            let set = own.set.difference(&UNTRACKED);
            if !set.is_empty() {
                entries.0.insert(owner.clone(), Entry { set, ..own });
            }
        }
        let changed = !equal(&old, &pruned);
        if let Some(entry) = entries.0.get_mut(&owner).filter(|_| changed) {
            entry.time = Some(now.to_owned());
        }
        let mut object = if changed { pruned } else { old };
        entries.put(&mut object);
        Ok(Applied { object, changed })
    }

    /// Returns the object as Kubernetes compares it: without `managedFields`, and with the fields that are printed
    /// although they were not set, such as the `resources` of a container. A new object starts from these alone.
    fn whole(&self, object: Option<&Value>) -> Value {
        let mut out = object.map_or_else(|| Value::Object(serde_json::Map::new()), without_managed_fields);
        decode::complete(&mut out, self.table, self.schema);
        out
    }

    /// Returns `namespace/name; group/version, Kind=kind`, as far as the configuration has them.
    fn describe(&self, config: &Value) -> String {
        let text = |name: &str| config["metadata"][name].as_str().unwrap_or_default();
        let version =
            if self.api_version.contains('/') { self.api_version.to_owned() } else { format!("/{}", self.api_version) };
        format!("{}/{}; {version}, Kind={}", text("namespace"), text("name"), self.kind)
    }
}

/// Restores the old times in `new` if only the times of `managedFields` differ, so that a repeated write changes
/// nothing.
pub fn keep_times(old: &Value, new: &mut Value) {
    let times_off = |object: &Value| {
        let mut list = object["metadata"]["managedFields"].clone();
        for entry in list.as_array_mut().into_iter().flatten() {
            if let Some(entry) = entry.as_object_mut() {
                entry.remove("time");
            }
        }
        list
    };
    if times_off(old) == times_off(new)
        && equal(&without_managed_fields(old), &without_managed_fields(new))
        && let (Some(list), Some(metadata)) = (old["metadata"].get("managedFields"), new["metadata"].as_object_mut())
    {
        metadata.insert("managedFields".to_owned(), list.clone());
    }
}

type Conflicts = BTreeMap<Owner, Set>;

enum Refused {
    Conflicts(Conflicts),
    Other(PatchError),
}

impl Refused {
    fn into_error(self) -> PatchError {
        match self {
            Self::Conflicts(conflicts) => conflict_error(&conflicts),
            Self::Other(error) => error,
        }
    }
}

fn conflicts(entries: &Entries, applier: &Owner, changes: &Comparison) -> Conflicts {
    let changed = changes.modified.union(&changes.added);
    let others = entries.0.iter().filter(|(owner, _)| *owner != applier);
    others
        .map(|(owner, entry)| (owner.clone(), entry.set.intersection(&changed)))
        .filter(|(_, set)| !set.is_empty())
        .collect()
}

fn take_away(entries: &mut Entries, changes: &Comparison) {
    let changed = changes.modified.union(&changes.added).union(&changes.removed);
    for entry in entries.0.values_mut() {
        entry.set = entry.set.difference(&changed);
    }
    entries.0.retain(|_, entry| !entry.set.is_empty());
}

fn conflict_error(conflicts: &Conflicts) -> PatchError {
    let mut causes = Vec::new();
    let mut lines = Vec::new();
    for (owner, set) in conflicts {
        lines.push(format!("conflicts with {}:", owner.print()));
        for path in set.paths() {
            let field = path::print(&path);
            lines.push(format!("- {field}"));
            causes.push(Conflict { manager: owner.print(), field });
        }
    }
    let message = match causes.as_slice() {
        [one] => format!("Apply failed with 1 conflict: conflict with {}: {}", one.manager, one.field),
        several => format!("Apply failed with {} conflicts: {}", several.len(), lines.join("\n")),
    };
    PatchError::Conflict { message, conflicts: causes }
}

/// Removes fields that the applier owned before, no longer applies, and nobody else owns.
fn prune(of: Ref<'_>, merged: Value, entries: &Entries, last: &Set) -> Value {
    let last = of.with_fields_above(last);
    let pruned = merge::remove(of, &merged, &last);
    // Restore fields of other owners and those of the new configuration.
    let owned = entries.0.values().fold(Set::default(), |all, entry| all.union(&entry.set));
    let had = of.with_fields_above(&of.fields(&merged));
    let kept = of.with_fields_above(&of.fields(&pruned)).union(&of.with_fields_above(&owned));
    let pruned = merge::remove(of, &merged, &had.difference(&kept));
    // Restore fields that the applier never owned, even inside removed ones.
    let kept = of.with_fields_above(&of.fields(&pruned));
    merge::remove(of, &merged, &had.difference(&kept).intersection(&last))
}

fn cap_update_managers(entries: &mut Entries) {
    let mut updaters: Vec<(Owner, Option<String>)> = entries
        .0
        .iter()
        .filter(|(owner, _)| !owner.apply)
        .map(|(owner, entry)| (owner.clone(), entry.time.clone()))
        .collect();
    let mut left = updaters.len();
    updaters.sort_by(|(a, x), (b, y)| x.cmp(y).then_with(|| a.cmp(b)));
    let mut first_of_version: BTreeMap<String, Owner> = BTreeMap::new();
    for (owner, _) in updaters {
        if left <= UPDATE_MANAGERS_MAX {
            return;
        }
        let version = owner.api_version.clone();
        let Some(first) = first_of_version.get(&version) else {
            first_of_version.insert(version, owner);
            continue;
        };
        let bucket = Owner::new(ANCIENT_CHANGES, false, &version, "");
        if !entries.0.contains_key(&bucket)
            && let Some(entry) = entries.0.remove(first)
        {
            entries.0.insert(bucket.clone(), entry);
        }
        if owner != bucket
            && let Some(entry) = entries.0.remove(&owner)
        {
            // Keep the later of the two times.
            let merged = entries.0.get(&bucket).map_or_else(|| entry.set.clone(), |known| known.set.union(&entry.set));
            entries.0.insert(bucket, Entry { set: merged, ..entry });
        }
        left -= 1;
    }
}

fn take_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

fn without_managed_fields(object: &Value) -> Value {
    let mut out = object.clone();
    take_managed_fields(&mut out);
    out
}

#[cfg(test)]
mod tests;
