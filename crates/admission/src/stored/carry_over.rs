//! How Clusters get from one form to the other: from objects of a CRD of the served group to stored ones, and back.
//!
//! Each Cluster is copied, then removed where it was, so that it is in at least one place at any time. As long as it
//! is in both, that which the copy names is the Cluster, and the copy may be made anew: a move that was interrupted
//! goes on, or is turned round, from what is there.

use std::collections::BTreeMap;

use ironclad_api::{
    annotations,
    cluster::{GROUP_VERSION, STORED_GROUP_VERSION},
    labels,
};
use serde_json::{Map, Value, json};

/// Annotations of Clusters that move.
const MARKS: [&str; 4] =
    [annotations::COPY_OF, annotations::COPIED_VERSION, annotations::COPY_OF_DELETED, annotations::COPY_MADE];

/// Owners that change: the uid of a Cluster before, its name, and its uid after.
pub type Owners = BTreeMap<String, (String, String)>;

/// Forms of Clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Objects of a CRD of the served group.
    Plain,
    /// Objects of a CRD of the storing group.
    Stored,
}

impl Form {
    /// `apiVersion` of objects of this form.
    #[must_use]
    pub const fn version(self) -> &'static str {
        match self {
            Self::Plain => GROUP_VERSION,
            Self::Stored => STORED_GROUP_VERSION,
        }
    }
}

/// The next step of a Cluster's move.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// It is where it should be.
    Done,
    /// Creates a copy at the target.
    Create(Value),
    /// Replaces the copy at the target.
    Replace(Value),
    /// Replaces the status of the copy.
    Status(Value),
    /// Removes what is at the source, once its owners' references name what is at the target: the target's copy is
    /// whole, or the source is what a move the other way left. First this replaces it, without finalizers.
    Remove(Value),
    /// Deletes the copy, as somebody had begun to delete the Cluster.
    Delete,
    /// Replaces the copy, which is the Cluster now, by itself without the marks of a copy.
    Finish(Value),
    /// Two Clusters have this name.
    Conflict,
}

/// The next step of a Cluster that is moved to the target, by what is there of it.
#[must_use]
pub fn step(source: Option<&Value>, target: Option<&Value>, to: Form) -> Step {
    match (source, target) {
        (None, None) => Step::Done,
        (None, Some(target)) => match mark(target, annotations::COPY_OF) {
            None => Step::Done,
            Some(_) if mark(target, annotations::COPY_OF_DELETED).is_some() && !is_deleted(target) => Step::Delete,
            Some(_) => Step::Finish(unmarked(target)),
        },
        (Some(source), None) => Step::Create(copy(source, None, to)),
        (Some(source), Some(target)) => {
            let uid = |of: &Value| of["metadata"]["uid"].as_str().map(str::to_owned);
            if mark(source, annotations::COPY_MADE).is_some() {
                return Step::Remove(removable(source));
            }
            // A move the other way had begun to remove it.
            let is_stripped = mark(target, annotations::COPY_MADE).is_some();
            if mark(source, annotations::COPY_OF) == uid(target).as_deref() {
                return match is_stripped {
                    true => Step::Replace(restored(target, source)),
                    false => Step::Remove(removable(source)),
                };
            }
            if mark(target, annotations::COPY_OF) != uid(source).as_deref() {
                return Step::Conflict;
            }
            let wanted = copy(source, Some(target), to);
            let of = |object: &Value, key: &str| object.get(key).cloned().unwrap_or(Value::Null);
            let version = source["metadata"]["resourceVersion"].as_str();
            if is_stripped || mark(target, annotations::COPIED_VERSION) != version {
                Step::Replace(wanted)
            } else if of(source, "status") != of(target, "status") && !source["status"].is_null() {
                let mut with = target.clone();
                with["status"] = source["status"].clone();
                Step::Status(with)
            } else {
                Step::Remove(removable(source))
            }
        }
    }
}

/// The references to owners of an object after Clusters got other uids; `None` if none of them owns it.
#[must_use]
pub fn owned(metadata: &Value, owners: &Owners, form: Form) -> Option<Value> {
    let mut references = metadata["ownerReferences"].as_array()?.clone();
    let mut changed = false;
    for reference in &mut references {
        let Some((name, uid)) = reference["uid"].as_str().and_then(|uid| owners.get(uid)) else { continue };
        let is_so = reference["apiVersion"] == form.version() && reference["uid"] == **uid;
        if !is_so {
            (reference["apiVersion"], reference["name"], reference["uid"]) =
                (form.version().into(), name.as_str().into(), uid.as_str().into());
            changed = true;
        }
    }
    changed.then_some(Value::Array(references))
}

fn mark<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"].get(key).and_then(Value::as_str)
}

fn is_deleted(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn copy(source: &Value, target: Option<&Value>, to: Form) -> Value {
    let from = &source["metadata"];
    let text = |key: &str| from[key].as_str().unwrap_or_default();
    let mut marks = from["annotations"].as_object().cloned().unwrap_or_default();
    MARKS.iter().for_each(|key| drop(marks.remove(*key)));
    marks.insert(annotations::COPY_OF.to_owned(), text("uid").into());
    marks.insert(annotations::COPIED_VERSION.to_owned(), text("resourceVersion").into());
    if is_deleted(source) || mark(source, annotations::COPY_OF_DELETED).is_some() {
        marks.insert(annotations::COPY_OF_DELETED.to_owned(), "true".into());
    }
    let mut metadata =
        Map::from_iter([("name".to_owned(), from["name"].clone()), ("annotations".to_owned(), json!(marks))]);
    for key in ["labels", "finalizers", "ownerReferences"] {
        if !from[key].is_null() {
            metadata.insert(key.to_owned(), from[key].clone());
        }
    }
    if let Some(target) = target {
        metadata.insert("resourceVersion".to_owned(), target["metadata"]["resourceVersion"].clone());
    }
    let mut copy = json!({"apiVersion": to.version(), "kind": "Cluster", "metadata": metadata});
    for key in ["spec", "status"] {
        if !source[key].is_null() {
            copy[key] = source[key].clone();
        }
    }
    copy
}

fn unmarked(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(marks) = object["metadata"]["annotations"].as_object_mut() {
        for key in MARKS {
            marks.remove(key);
        }
    }
    object
}

/// The object without all that keeps it from being deleted. A mark says that its copy has what was taken from it.
fn removable(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = &mut object["metadata"];
    metadata["finalizers"] = json!([]);
    if let Some(labels) = metadata["labels"].as_object_mut() {
        labels.remove(labels::DELETION_PROTECTED);
    }
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"][annotations::COPY_MADE] = "true".into();
    object
}

/// An object that a move had begun to remove, as it was before: its copy has what was taken from it.
fn restored(object: &Value, copy: &Value) -> Value {
    let mut object = object.clone();
    for key in ["labels", "finalizers"] {
        object["metadata"][key] = copy["metadata"][key].clone();
    }
    if let Some(marks) = object["metadata"]["annotations"].as_object_mut() {
        marks.remove(annotations::COPY_MADE);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(uid: &str, version: &str) -> Value {
        json!({
            "apiVersion": GROUP_VERSION, "kind": "Cluster",
            "metadata": {"name": "m1", "uid": uid, "resourceVersion": version, "finalizers": ["karmada.io/cluster-controller"],
                "labels": {"a": "b"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"syncMode": "Push"}, "status": {"kubernetesVersion": "v1"},
        })
    }

    fn with(mut object: Value, marks: &[(&str, &str)]) -> Value {
        for (key, value) in marks {
            object["metadata"]["annotations"][*key] = (*value).into();
        }
        object
    }

    /// A copy of a Cluster with uid `u` at version 5.
    fn copied(status: bool) -> Value {
        let marks = [(annotations::COPY_OF, "u"), (annotations::COPIED_VERSION, "5")];
        let mut copy = with(cluster("n", "9"), &marks);
        if !status {
            copy["status"] = Value::Null;
        }
        copy
    }

    fn name(step: &Step) -> &'static str {
        match step {
            Step::Done => "done",
            Step::Create(_) => "create",
            Step::Replace(_) => "replace",
            Step::Status(_) => "status",
            Step::Remove(_) => "remove",
            Step::Delete => "delete",
            Step::Finish(_) => "finish",
            Step::Conflict => "conflict",
        }
    }

    #[test]
    fn steps_by_what_is_there() {
        let mut deleted = cluster("u", "5");
        deleted["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z".into();
        let of_deleted = with(copied(true), &[(annotations::COPY_OF_DELETED, "true")]);
        let mut going = of_deleted.clone();
        going["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z".into();
        for (what, source, target, want) in [
            ("nothing", None, None, "done"),
            ("it was there", None, Some(cluster("n", "1")), "done"),
            ("it is at its source", Some(cluster("u", "5")), None, "create"),
            ("its status is not copied", Some(cluster("u", "5")), Some(copied(false)), "status"),
            ("somebody wrote meanwhile", Some(cluster("u", "6")), Some(copied(true)), "replace"),
            ("the copy is whole", Some(cluster("u", "5")), Some(copied(true)), "remove"),
            (
                "its removal was cut off",
                Some(with(cluster("u", "7"), &[(annotations::COPY_MADE, "true")])),
                Some(copied(true)),
                "remove",
            ),
            (
                "the copy's removal was cut off",
                Some(cluster("u", "5")),
                Some(with(copied(true), &[(annotations::COPY_MADE, "true")])),
                "replace",
            ),
            ("it is gone at its source", None, Some(copied(true)), "finish"),
            ("it was being deleted", None, Some(of_deleted), "delete"),
            ("it is being deleted", None, Some(going), "finish"),
            ("another one has its name", Some(cluster("u", "5")), Some(cluster("n", "1")), "conflict"),
            ("a copy of another one", Some(cluster("x", "5")), Some(copied(true)), "conflict"),
        ] {
            assert_eq!(name(&step(source.as_ref(), target.as_ref(), Form::Stored)), want, "{what}");
        }
        let Step::Create(copy) = step(Some(&deleted), None, Form::Stored) else { panic!("it is copied") };
        assert_eq!(copy["metadata"]["annotations"][annotations::COPY_OF_DELETED], "true");
    }

    #[test]
    fn a_copy_has_all_but_what_the_server_sets_and_ends_without_marks() {
        let source = with(cluster("u", "5"), &[("user", "x")]);
        let Step::Create(copy) = step(Some(&source), None, Form::Stored) else { panic!("it is copied") };
        assert_eq!(copy["apiVersion"], STORED_GROUP_VERSION);
        assert_eq!((&copy["spec"], &copy["metadata"]["labels"]), (&source["spec"], &source["metadata"]["labels"]));
        assert_eq!(copy["metadata"]["finalizers"], source["metadata"]["finalizers"]);
        assert!(copy["metadata"]["uid"].is_null() && copy["metadata"]["resourceVersion"].is_null());
        let Step::Finish(whole) = step(None, Some(&copy), Form::Stored) else { panic!("it is finished") };
        assert_eq!(whole["metadata"]["annotations"], json!({"user": "x"}));
        let Step::Remove(removed) = step(Some(&cluster("u", "5")), Some(&copied(true)), Form::Stored) else {
            panic!("it is removed")
        };
        assert_eq!(
            (&removed["metadata"]["finalizers"], &removed["metadata"]["resourceVersion"]),
            (&json!([]), &json!("5"))
        );
    }

    #[test]
    fn a_move_that_is_turned_round_discards_its_copies() {
        let (plain, stored) = (cluster("u", "5"), copied(false));
        let Step::Remove(removed) = step(Some(&stored), Some(&plain), Form::Plain) else { panic!("it is discarded") };
        assert_eq!((&removed["metadata"]["uid"], &removed["metadata"]["finalizers"]), (&json!("n"), &json!([])));
        assert_eq!(name(&step(Some(&stored), None, Form::Plain)), "create", "it is the Cluster");
        let stripped = with(removable(&plain), &[("user", "x")]);
        let Step::Replace(whole) = step(Some(&stored), Some(&stripped), Form::Plain) else { panic!("it is restored") };
        assert_eq!(whole, with(plain, &[("user", "x")]));
    }

    #[test]
    fn owners_follow_their_uid() {
        let owners = Owners::from([("u".to_owned(), ("m1".to_owned(), "n".to_owned()))]);
        let other = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p"});
        let by = |version: &str, uid: &str| json!({"apiVersion": version, "kind": "Cluster", "name": "m1", "uid": uid});
        let object = |references: Value| json!({"name": "s", "ownerReferences": references});
        for (what, references, want) in [
            (
                "the Cluster",
                json!([other, by(GROUP_VERSION, "u")]),
                Some(json!([other, by(STORED_GROUP_VERSION, "n")])),
            ),
            ("another one", json!([other]), None),
            ("none", Value::Null, None),
        ] {
            assert_eq!(owned(&object(references), &owners, Form::Stored), want, "{what}");
        }
        let same = Owners::from([("n".to_owned(), ("m1".to_owned(), "n".to_owned()))]);
        assert_eq!(owned(&object(json!([by(STORED_GROUP_VERSION, "n")])), &same, Form::Stored), None, "it is so");
        assert!(
            owned(&object(json!([by(GROUP_VERSION, "n")])), &same, Form::Stored).is_some(),
            "the same in its other form"
        );
    }
}
