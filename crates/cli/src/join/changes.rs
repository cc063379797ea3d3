//! Writes of a join: all objects are read before the first write, and created objects are deleted again if the join
//! fails.

use ironclad_api::names::IMPERSONATOR;
use ironclad_runtime::Api;
use kube::api::{DeleteParams, DynamicObject, Preconditions};
use serde_json::Value;

use super::{
    Join, JoinError, LEAVING_MAX, LOOK, Side,
    ownership::{self, Owner},
};
use crate::{
    print::text,
    write::{self, Mode, Outcome},
};

/// An object that a join needs, and the one that is there.
pub(super) struct Change {
    pub(super) side: Side,
    pub(super) object: Value,
    pub(super) present: Option<DynamicObject>,
    /// The object is used as it is if it exists, because others use it too.
    shared: bool,
}

impl Change {
    /// An object of the control plane alone.
    pub(super) fn in_plane(object: Value, present: Option<DynamicObject>) -> Self {
        Self { side: Side::Plane, object, present, shared: false }
    }

    /// Result of the write.
    pub(super) fn outcome(&self) -> Outcome {
        match &self.present {
            None => Outcome::Created,
            Some(_) if self.shared => Outcome::Unchanged,
            Some(present) if write::contains(present, &self.object) => Outcome::Unchanged,
            Some(_) => Outcome::Updated,
        }
    }
}

/// Object that a join created, or may have created: the server's answer was lost.
struct Made {
    side: Side,
    object: Value,
    uid: Option<String>,
}

/// Objects that a join created so far, in order.
#[derive(Default)]
pub(super) struct Ledger(Vec<Made>);

impl Join<'_> {
    /// Reads the object that is there.
    ///
    /// # Errors
    /// If it belongs to somebody else, or the server does not answer.
    pub(super) async fn survey(&self, side: Side, object: Value, plane: &str) -> Result<Change, JoinError> {
        let api = write::api_of(self.client(side), &object);
        let kind = text(&object, "/kind");
        let read = async || {
            let present = api.get_opt(text(&object, "/metadata/name")).await;
            present.map_err(self.failed(side, format!("reading {}", named(&object))))
        };
        let mut present = read().await?;
        // An unjoin just before it has deleted the namespace, which takes the member a few seconds.
        let deadline = self.clock.mono() + LEAVING_MAX;
        let is_leaving = |present: &DynamicObject| present.metadata.deletion_timestamp.is_some();
        while kind == "Namespace" && present.as_ref().is_some_and(is_leaving) && self.clock.mono() < deadline {
            self.clock.sleep(LOOK).await;
            present = read().await?;
        }
        let shared = kind == "Namespace" || side == Side::Member && text(&object, "/metadata/name") == IMPERSONATOR;
        let owner = match (&present, side, kind) {
            (None, ..) | (_, _, "Namespace" | "Cluster") => Owner::Ours,
            (Some(present), Side::Plane, _) => ownership::in_plane(&present.metadata, &self.options.cluster),
            (Some(present), Side::Member, _) => ownership::in_member(&present.metadata, plane),
        };
        match owner {
            // The account is shared with the other control planes of this member.
            Owner::Other(_) if shared && labelled(present.as_ref()) => {}
            Owner::Other(why) => {
                let (name, object) = (self.options.cluster.clone(), named(&object));
                return Err(JoinError::Foreign { name, object, side, why });
            }
            Owner::Ours | Owner::Unmarked => {}
        }
        Ok(Change { side, object, present, shared })
    }

    /// Writes the object unless it is there as wanted.
    pub(super) async fn write(&self, change: &Change, ledger: &mut Ledger) -> Result<DynamicObject, JoinError> {
        let (side, object) = (change.side, &change.object);
        let failed = self.failed(side, format!("writing {}", named(object)));
        let written = match (&change.present, change.outcome()) {
            (Some(present), Outcome::Unchanged) => return Ok(present.clone()),
            (Some(present), _) => write::merge(self.client(side), object, present, Mode::Keep).await.map_err(failed)?,
            (None, _) => match write::create(self.client(side), object, Mode::Keep).await {
                Ok(created) => {
                    ledger.0.push(Made { side, object: object.clone(), uid: created.metadata.uid.clone() });
                    created
                }
                Err(error) => {
                    if !refused(&error) {
                        ledger.0.push(Made { side, object: object.clone(), uid: None });
                    }
                    return Err(failed(error));
                }
            },
        };
        tracing::debug!(%side, object = named(object), outcome = ?change.outcome(), "object is written");
        Ok(written)
    }

    /// Deletes the objects that this join created; returns those that could not be deleted. Namespaces stay: they give
    /// no rights, and may be in use already.
    pub(super) async fn take_back(&self, ledger: &Ledger, plane: &str) -> Vec<String> {
        let mut left = Vec::new();
        for made in ledger.0.iter().rev().filter(|made| text(&made.object, "/kind") != "Namespace") {
            if self.delete_made(made, plane).await.is_err() {
                left.push(format!("{} in the {}", named(&made.object), made.side));
            }
        }
        left
    }

    async fn delete_made(&self, made: &Made, plane: &str) -> Result<(), kube::Error> {
        let api: Api<DynamicObject> = write::api_of(self.client(made.side), &made.object);
        let name = text(&made.object, "/metadata/name");
        let uid = match &made.uid {
            Some(uid) => Some(uid.clone()),
            None => {
                let Some(found) = api.get_opt(name).await? else { return Ok(()) };
                let owner = match made.side {
                    Side::Plane => ownership::in_plane(&found.metadata, &self.options.cluster),
                    Side::Member => ownership::in_member(&found.metadata, plane),
                };
                if owner != Owner::Ours {
                    return Ok(());
                }
                found.metadata.uid
            }
        };
        let preconditions = Some(Preconditions { uid, resource_version: None });
        match api.delete(name, &DeleteParams { preconditions, ..DeleteParams::background() }).await {
            Ok(_) => Ok(()),
            // It is deleted already, or replaced by somebody else's.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// True if the server certainly did not handle the request.
pub(super) fn refused(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 408)
}

fn labelled(object: Option<&DynamicObject>) -> bool {
    use ironclad_api::labels::{SYSTEM, TRUE};
    let labels = object.and_then(|object| object.metadata.labels.as_ref());
    labels.and_then(|labels| labels.get(SYSTEM)).is_some_and(|value| value == TRUE)
}

/// Kind, namespace and name.
pub(super) fn named(object: &Value) -> String {
    let namespace = match text(object, "/metadata/namespace") {
        "" => String::new(),
        namespace => format!("{namespace}/"),
    };
    format!("{} {namespace}{}", text(object, "/kind"), text(object, "/metadata/name"))
}
