//! Content negotiation: which shape and which format an answer has, and how a body is read
//! (specification/apiserver.md 2).

use crate::status::ApiError;

/// The shape of an answer about objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The objects themselves.
    Object,
    /// A `Table`, in `meta.k8s.io/v1` or `v1beta1`.
    Table { version: &'static str },
    /// Only metadata, of one object or of a list's.
    Partial { version: &'static str, list: bool },
}

/// The format of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
}

/// The first accepted media type that the server can produce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accept {
    pub(crate) shape: Shape,
    pub(crate) format: Format,
}

impl Accept {
    pub(crate) const JSON: Self = Self { shape: Shape::Object, format: Format::Json };
}

const AVAILABLE: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// One clause of an Accept header: the media type and its parameters, quality left out.
pub(crate) fn clauses(header: &str) -> impl Iterator<Item = (&str, Vec<(&str, &str)>)> {
    header.split(',').map(str::trim).filter(|c| !c.is_empty()).map(|clause| {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let parameters = parts.filter_map(|p| p.split_once('=')).filter(|(k, _)| *k != "q").collect();
        (media, parameters)
    })
}

/// Chooses for an answer about objects.
pub(crate) fn accept(header: Option<&str>) -> Result<Accept, ApiError> {
    let Some(header) = header.filter(|h| !h.trim().is_empty()) else { return Ok(Accept::JSON) };
    let mut saw_known_media = false;
    for (media, parameters) in clauses(header) {
        let format = match media {
            "application/json" | "*/*" => Format::Json,
            "application/yaml" => Format::Yaml,
            _ => continue,
        };
        saw_known_media = true;
        let get = |key| parameters.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
        let version = match get("v") {
            None | Some("v1") => Some("v1"),
            Some("v1beta1") => Some("v1beta1"),
            Some(_) => None,
        };
        let meta = get("g").is_none_or(|g| g == "meta.k8s.io");
        let shape = match (get("as"), version) {
            (None, _) => Shape::Object,
            (Some("Table"), Some(version)) if meta => Shape::Table { version },
            (Some("PartialObjectMetadata"), Some(version)) if meta => Shape::Partial { version, list: false },
            (Some("PartialObjectMetadataList"), Some(version)) if meta => Shape::Partial { version, list: true },
            _ => continue,
        };
        return Ok(Accept { shape, format });
    }
    if saw_known_media {
        return Err(unacceptable_parameters());
    }
    Err(unacceptable())
}

/// No accepted media type is available.
pub(crate) fn unacceptable() -> ApiError {
    ApiError::not_acceptable(format!("406: Not Acceptable\n\nAvailable representations: {AVAILABLE}")).empty_details()
}

/// The media type can be given, but not with these parameters.
pub(crate) fn unacceptable_parameters() -> ApiError {
    ApiError::not_acceptable(format!("only the following media types are accepted: {AVAILABLE}"))
}

/// The format of what is never transformed, such as errors; `None` where the client accepts none of it.
pub(crate) fn plain(header: Option<&str>) -> Option<Format> {
    let Some(header) = header.filter(|h| !h.trim().is_empty()) else { return Some(Format::Json) };
    clauses(header).find_map(|(media, parameters)| {
        let transformed = parameters.iter().any(|(key, _)| ["as", "g", "v"].contains(key));
        match media {
            "application/json" | "application/*" | "*/*" if !transformed => Some(Format::Json),
            "application/yaml" if !transformed => Some(Format::Yaml),
            _ => None,
        }
    })
}

/// The encoding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    Json,
    Yaml,
    Protobuf,
}

/// The encoding of a create's or update's body by its Content-Type.
pub(crate) fn body_format(content_type: Option<&str>) -> Result<BodyFormat, ApiError> {
    match content_type.map(media_type) {
        None | Some("" | "application/json") => Ok(BodyFormat::Json),
        Some("application/yaml") => Ok(BodyFormat::Yaml),
        Some("application/vnd.kubernetes.protobuf") => Ok(BodyFormat::Protobuf),
        Some(_) => Err(ApiError::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: {AVAILABLE}"
        ))),
    }
}

/// The media type without parameters.
pub(crate) fn media_type(header: &str) -> &str {
    header.split(';').next().unwrap_or_default().trim()
}

/// The kinds of patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchFormat {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// The kind of patch by its Content-Type; custom resources know no strategic merge.
pub(crate) fn patch_format(content_type: Option<&str>, custom: bool) -> Result<PatchFormat, ApiError> {
    match content_type.map(media_type) {
        Some("application/json-patch+json") => Ok(PatchFormat::Json),
        Some("application/merge-patch+json") => Ok(PatchFormat::Merge),
        Some("application/apply-patch+yaml") => Ok(PatchFormat::Apply),
        Some("application/strategic-merge-patch+json") if !custom => Ok(PatchFormat::Strategic),
        Some("application/strategic-merge-patch+json") => Err(ApiError::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        )),
        _ => Err(ApiError::unsupported_media_type("415: Unsupported Media Type").empty_details()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted() {
        let table = |version| Shape::Table { version };
        for (header, want) in [
            (None, Ok((Shape::Object, Format::Json))),
            (Some("*/*"), Ok((Shape::Object, Format::Json))),
            (Some("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"), Ok((table("v1"), Format::Json))),
            (Some("application/json;as=Table;v=v1beta1;g=meta.k8s.io"), Ok((table("v1beta1"), Format::Json))),
            (Some("application/vnd.kubernetes.protobuf,application/json"), Ok((Shape::Object, Format::Json))),
            (Some("application/json;as=Nope;g=meta.k8s.io;v=v1,application/json"), Ok((Shape::Object, Format::Json))),
            (Some("application/json;as=Nope;g=meta.k8s.io;v=v1"), Err("only the following media types")),
            (Some("application/*"), Err("406: Not Acceptable")),
            (Some("text/html"), Err("406: Not Acceptable")),
            (Some("application/yaml"), Ok((Shape::Object, Format::Yaml))),
        ] {
            match (accept(header), want) {
                (Ok(got), Ok((shape, format))) => assert_eq!(got, Accept { shape, format }, "{header:?}"),
                (Err(got), Err(want)) => assert!(got.message.starts_with(want), "{header:?}: {}", got.message),
                (got, want) => panic!("{header:?}: {got:?}, not {want:?}"),
            }
        }
    }
}
