//! Objects that are served in another version than they are stored in.

use std::borrow::Cow;

use ironclad_store::Entry;
use serde_json::{Value, json};

use crate::{
    crd::ConversionWebhook,
    object,
    registry::{Resource, group_version, strategy::Conversion},
    status::ApiError,
};

/// Gives an object in another `apiVersion`; one that it knows nothing of it gives back as it is.
pub type Converter = fn(object: &Value, api_version: &str) -> Value;

/// The apiVersion that objects of this resource are stored with.
pub(crate) fn storage_api_version(resource: &Resource) -> String {
    match (resource.custom(), resource.builtin()) {
        (Some(custom), _) => group_version(&resource.group, &custom.storage_version),
        (None, Some(builtin)) => builtin.storage_api_version(),
        (None, None) => resource.api_version(),
    }
}

/// The conversion of a built-in resource from and to the stored version.
fn conversion(resource: &Resource) -> Option<&'static Conversion> {
    resource.builtin()?.strategy.conversion.as_ref()
}

/// A stored object in the request's version, as its schema is now.
///
/// # Errors
/// It can't be decoded. It can still be deleted.
pub(crate) fn read(resource: &Resource, entry: &Entry) -> Result<Value, ApiError> {
    let mut value = object::decode(&entry.value, entry.modified).map_err(|error| {
        ApiError::internal(format!(
            "the stored {} can't be decoded ({error}): delete it, and create it again from its source",
            resource.kind
        ))
    })?;
    if let Some(missing) = unconverted(resource, &value) {
        return Err(ApiError::internal(format!("conversion webhook {} was not asked for this object", missing.name)));
    }
    from_storage(resource, &mut value);
    if let Some(custom) = resource.custom().filter(|custom| entry.modified <= custom.since) {
        // A field that the schema lost is hidden, one that it got has its default.
        let _ = custom.schema.prune(&mut value);
        custom.schema.default(&mut value);
    }
    Ok(value)
}

/// The webhook that has to convert an object to this resource's version.
pub(crate) fn unconverted<'a>(resource: &'a Resource, object: &Value) -> Option<&'a ConversionWebhook> {
    let custom = resource.custom()?;
    let wanted = resource.api_version();
    if object["apiVersion"] == *wanted {
        return None;
    }
    let known = custom.converter.is_some_and(|converter| converter(object, &wanted)["apiVersion"] == *wanted);
    custom.webhook.as_ref().filter(|_| !known)
}

/// True for an object that is stored in another version than new ones are.
pub(crate) fn is_outdated(resource: &Resource, entry: &Entry) -> bool {
    resource.custom().is_some() && object::api_version(&entry.value) != Some(&storage_api_version(resource))
}

/// True when reading means more than copying bytes: the object is stored in another version, or was stored before the
/// schema was what it is now.
pub(crate) fn needed(resource: &Resource, entry: &Entry) -> bool {
    match resource.custom() {
        Some(custom) => {
            entry.modified <= custom.since || object::api_version(&entry.value) != Some(&resource.api_version())
        }
        None => conversion(resource).is_some(),
    }
}

/// True for kinds whose metadata may differ between versions.
pub(crate) fn is_metadata_converted(resource: &Resource) -> bool {
    resource.custom().map_or_else(|| conversion(resource).is_some(), |custom| custom.converter.is_some())
}

/// Turns an object of the store into the request's version.
pub(crate) fn from_storage(resource: &Resource, object: &mut Value) {
    if let Some(custom) = resource.custom() {
        let wanted = resource.api_version();
        if object["apiVersion"] == *wanted {
            return;
        }
        if let Some(converter) = custom.converter {
            *object = converter(object, &wanted);
        }
        object["apiVersion"] = json!(wanted);
        // A version shows what its own schema knows; what is stored was read once, so nothing is wrong with it.
        let _ = custom.schema.prune(object);
        return;
    }
    if let Some(conversion) = conversion(resource) {
        object["apiVersion"] = json!(resource.api_version());
        (conversion.from_storage)(object);
    }
}

/// The object in its stored version; borrowed where no conversion is needed.
pub(crate) fn stored<'a>(resource: &Resource, object: &'a Value) -> Cow<'a, Value> {
    if object["apiVersion"] == *storage_api_version(resource) {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    to_storage(resource, &mut object);
    Cow::Owned(object)
}

/// An object of one served version in another one of the same resource.
pub(crate) fn between(from: &Resource, to: &Resource, object: &Value) -> Value {
    let mut object = stored(from, object).into_owned();
    from_storage(to, &mut object);
    object
}

/// The version in which writes of this resource are reviewed: rules know the stored one of what has a converter.
pub(crate) fn reviewed_version(resource: &Resource) -> &str {
    match resource.custom() {
        Some(custom) if custom.converter.is_some() => &custom.storage_version,
        _ => &resource.version,
    }
}

/// The object in [`reviewed_version`].
pub(crate) fn reviewed<'a>(resource: &Resource, object: &'a Value) -> Cow<'a, Value> {
    if reviewed_version(resource) == resource.version { Cow::Borrowed(object) } else { stored(resource, object) }
}

/// Turns an object of the request's version into the one of the store.
fn to_storage(resource: &Resource, object: &mut Value) {
    let version = storage_api_version(resource);
    if let Some(converter) = resource.custom().and_then(|custom| custom.converter) {
        *object = converter(object, &version);
    }
    object["apiVersion"] = json!(version);
    if let Some(conversion) = conversion(resource) {
        (conversion.to_storage)(object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Lookup, Registry};

    #[test]
    fn autoscaler_is_unchanged_by_conversion_through_v1() {
        let Lookup::Resource(v1) =
            Registry::new(crate::kinds::groups()).find("autoscaling", "v1", "horizontalpodautoscalers")
        else {
            panic!("autoscaling/v1 is served");
        };
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
        let pods = json!({"type": "Pods", "pods": {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": "5"}}});
        let stored = json!({"apiVersion": "autoscaling/v2", "metadata": {"name": "a"}, "spec": {"metrics": [cpu, pods], "behavior": {"scaleUp": {}}}});
        let mut object = stored.clone();
        from_storage(&v1, &mut object);
        assert_eq!(object["spec"], json!({"targetCPUUtilizationPercentage": 50}));
        to_storage(&v1, &mut object);
        object["metadata"].as_object_mut().unwrap().remove("annotations");
        assert_eq!(object, stored);
    }
}
