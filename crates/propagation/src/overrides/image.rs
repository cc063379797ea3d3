//! Changes parts of image names (specification/propagation.md 10.4, imageOverrider).

use std::sync::LazyLock;

use ironclad_api::policy::{ImageComponent, ImageOverrider, OverriderOperator};
use regex::Regex;
use serde_json::Value;

use super::containers;

static TAG: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[A-Za-z0-9_][A-Za-z0-9_.\-]{0,127}$").expect("a constant expression"));
static DIGEST: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,}$")
        .expect("a constant expression")
});

/// Changes the images; false if there is none to change.
pub(super) fn apply(manifest: &mut Value, overrider: &ImageOverrider) -> Result<bool, String> {
    if let Some(predicate) = &overrider.predicate {
        let path = &predicate.path;
        let field = manifest.pointer_mut(path).ok_or_else(|| format!("there is no field {path}"))?;
        change(field, overrider, path)?;
        return Ok(true);
    }
    let mut found = false;
    for container in containers::of(manifest).into_iter().flatten() {
        if let Some(image) = container.get_mut("image") {
            change(image, overrider, "image")?;
            found = true;
        }
    }
    Ok(found)
}

fn change(field: &mut Value, overrider: &ImageOverrider, path: &str) -> Result<(), String> {
    let text = field.as_str().ok_or_else(|| format!("{path} is not a string"))?;
    let mut image = Image::parse(text).ok_or_else(|| format!("{path}: {text:?} is not an image"))?;
    let value = overrider.value.as_str();
    let with = |part: &str| match overrider.operator {
        OverriderOperator::Add => format!("{part}{value}"),
        OverriderOperator::Replace => value.to_owned(),
        OverriderOperator::Remove => String::new(),
    };
    match overrider.component {
        ImageComponent::Registry => image.registry = with(&image.registry),
        ImageComponent::Repository => image.repository = with(&image.repository),
        ImageComponent::Tag => {
            let value = with(if image.tag.is_empty() { &image.digest } else { &image.tag });
            image.set_tag_or_digest(value);
        }
    }
    *field = image.to_text().into();
    Ok(())
}

/// `[registry/]repository[:tag][@digest]`
#[derive(Debug, Default, PartialEq, Eq)]
struct Image {
    registry: String,
    repository: String,
    tag: String,
    digest: String,
}

impl Image {
    fn parse(text: &str) -> Option<Self> {
        let (rest, digest) = text.split_once('@').unwrap_or((text, ""));
        let name_at = rest.rfind('/').map_or(0, |slash| slash + 1);
        let (name, tag) = match rest[name_at..].find(':') {
            Some(colon) => (&rest[..name_at + colon], &rest[name_at + colon + 1..]),
            None => (rest, ""),
        };
        let bad_tag = rest.len() > name.len() && !TAG.is_match(tag);
        let bad_digest = text.len() > rest.len() && !DIGEST.is_match(digest);
        if name.is_empty() || name.contains(char::is_whitespace) || bad_tag || bad_digest {
            return None;
        }
        let (registry, repository) = match name.split_once('/') {
            Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
            _ => ("", name),
        };
        // Drop the digest if there is a new tag: it belongs to the old content.
        let digest = if tag.is_empty() { digest } else { "" };
        Some(Self { registry: registry.into(), repository: repository.into(), tag: tag.into(), digest: digest.into() })
    }

    fn set_tag_or_digest(&mut self, value: String) {
        if value.is_empty() {
            (self.tag, self.digest) = (String::new(), String::new());
        } else if TAG.is_match(&value) {
            (self.tag, self.digest) = (value, String::new());
        } else if DIGEST.is_match(&value) {
            (self.tag, self.digest) = (String::new(), value);
        }
    }

    fn to_text(&self) -> String {
        let mut text = match (self.registry.as_str(), self.repository.as_str()) {
            ("", repository) => repository.to_owned(),
            (registry, "") => registry.to_owned(),
            (registry, repository) => format!("{registry}/{repository}"),
        };
        if !self.tag.is_empty() {
            text = format!("{text}:{}", self.tag);
        } else if !self.digest.is_empty() {
            text = format!("{text}@{}", self.digest);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST_TEXT: &str = "sha256:0123456789abcdef0123456789abcdef";

    fn changed(
        image: &str,
        component: ImageComponent,
        operator: OverriderOperator,
        value: &str,
    ) -> Result<String, String> {
        let mut field = Value::from(image);
        let overrider = ImageOverrider { predicate: None, component, operator, value: value.into() };
        change(&mut field, &overrider, "image").map(|()| field.as_str().unwrap().to_owned())
    }

    #[test]
    fn image_names_are_split() {
        use ImageComponent::{Registry, Repository, Tag};
        use OverriderOperator::{Add, Remove, Replace};
        let with_digest = format!("a/b@{DIGEST_TEXT}");
        for (image, component, operator, value, want) in [
            ("registry.k8s.io/pause:3.9", Registry, Replace, "harbor.local", "harbor.local/pause:3.9"),
            ("harbor.local/pause:3.9", Repository, Add, "-arm", "harbor.local/pause-arm:3.9"),
            ("harbor.local/pause-arm:3.9", Tag, Remove, "", "harbor.local/pause-arm"),
            ("nginx", Registry, Add, ".cn", ".cn/nginx"),
            ("nginx", Registry, Replace, "localhost:5000", "localhost:5000/nginx"),
            ("localhost:5000/nginx", Registry, Remove, "", "nginx"),
            ("library/nginx:1", Registry, Replace, "r.io", "r.io/library/nginx:1"),
            ("r.io:5000/a/b", Repository, Replace, "c", "r.io:5000/c"),
            ("r.io/a:1", Repository, Remove, "", "r.io:1"),
            ("nginx:1", Tag, Add, "-alpine", "nginx:1-alpine"),
            ("nginx:1", Tag, Replace, DIGEST_TEXT, "nginx@sha256:0123456789abcdef0123456789abcdef"),
            (with_digest.as_str(), Tag, Replace, "2", "a/b:2"),
            (with_digest.as_str(), Registry, Replace, "r.io", "r.io/a/b@sha256:0123456789abcdef0123456789abcdef"),
            ("nginx:1", Tag, Replace, "not a tag!", "nginx:1"),
            ("nginx", Tag, Replace, "v1", "nginx:v1"),
        ] {
            assert_eq!(
                changed(image, component, operator, value).as_deref(),
                Ok(want),
                "{image} {component:?} {operator:?} {value}"
            );
        }
        let both = format!("a/b:1@{DIGEST_TEXT}");
        assert_eq!(
            changed(&both, Registry, Replace, "r.io").as_deref(),
            Ok("r.io/a/b:1"),
            "with a tag the digest is dropped"
        );
    }

    #[test]
    fn invalid_image_names() {
        for bad in ["", "a b", "a:", "a@x", ":1", "a:b c"] {
            assert!(Image::parse(bad).is_none(), "{bad:?}");
        }
    }
}
