//! Lists, a page at a time (specification/operations.md 3): one answer with a whole fleet would take servers and this
//! program a lot of memory.

use ironclad_runtime::Api;
use kube::api::{DynamicObject, ListParams, ObjectMeta};

/// Objects of a page.
const PAGE: u32 = 500;

/// All objects of a list with these selectors.
pub(crate) async fn all<K>(api: &Api<K>, mut parameters: ListParams) -> Result<Vec<K>, kube::Error>
where
    K: ironclad_runtime::Object,
{
    parameters.limit = Some(PAGE);
    let mut items = Vec::new();
    loop {
        let page = api.list(&parameters).await?;
        items.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters.continue_token = Some(token),
            None => return Ok(items),
        }
    }
}

/// The metadata of all objects of a list.
pub(crate) async fn metadata(api: &Api<DynamicObject>) -> Result<Vec<ObjectMeta>, kube::Error> {
    let (mut parameters, mut items) = (ListParams::default().limit(PAGE), Vec::new());
    loop {
        let page = api.list_metadata(&parameters).await?;
        items.extend(page.items.into_iter().map(|object| object.metadata));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters.continue_token = Some(token),
            None => return Ok(items),
        }
    }
}
