//! get and list (specification/apiserver.md 9).

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ironclad_store::{Entry, Query, Revision, RevisionError};
use serde_json::json;

use crate::{
    context::Cx,
    conversion,
    respond::{self, ListMeta, Pauses, Reply},
    select::Selector,
    state::State,
    status::{ApiError, Cause},
};

/// Time that a read waits for a future revision.
const FUTURE_WAIT: Duration = Duration::from_secs(3);
/// A page is read from the store in pieces of so many when a selector thins it out.
const PIECE: usize = 500;

/// GET of one object.
pub(crate) async fn get(cx: &Cx) -> Result<Reply, ApiError> {
    if let Some(text) = cx.query.text("resourceVersion") {
        let wanted = text.parse().map_err(|_| ApiError::unclassified(bad_revision(text)))?;
        wait_for(&cx.state, wanted).await?;
    }
    let resource = &*cx.resource;
    match cx.state.store.get(&cx.key()) {
        Some(entry) => {
            let permit = cx.answer_permit(entry.value.len()).await?;
            let mut reply = respond::stored(cx, 200, &conversion::one_in_version(cx, &entry).await?)?;
            if let Some(permit) = permit {
                reply.body_mut().hold(permit);
            }
            Ok(reply)
        }
        None => Err(ApiError::not_found(&resource.plural, &resource.group, cx.name())),
    }
}

/// The message about a revision that is not a number.
pub(crate) fn bad_revision(text: &str) -> String {
    format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax")
}

/// Waits until this revision is there, for a bounded time.
pub(crate) async fn wait_for(state: &State, wanted: u64) -> Result<(), ApiError> {
    let current = state.store.revision();
    let Some(revision) = Revision::new(wanted).filter(|r| *r > current) else { return Ok(()) };
    match tokio::time::timeout(FUTURE_WAIT, state.store.reached(revision)).await {
        Ok(_) => Ok(()),
        Err(_) => Err(ApiError::future_revision(wanted, state.store.revision().get())),
    }
}

/// The position at which a list continues.
struct Continue {
    /// `None`: at the newest revision, because the snapshot was compacted.
    revision: Option<Revision>,
    start_after: String,
}

/// GET of a collection.
pub(crate) async fn list(cx: &Cx) -> Result<Reply, ApiError> {
    let resource = &*cx.resource;
    timeout_seconds(cx)?;
    let selector = Selector::of(resource, &cx.query)?;
    let limit = limit(cx)?;
    let prefix = resource.prefix_of(cx.namespace());
    let (at, start_after, limit) = match cx.query.text("continue") {
        Some(token) => {
            let go_on = continue_from(cx, token, &prefix)?;
            (go_on.revision, Some(go_on.start_after), limit)
        }
        None => {
            let at = point(cx, limit.is_some()).await?;
            // Revision 0 reads the cache, which ignores the limit.
            let limit = limit.filter(|_| {
                cx.query.get("resourceVersion") != Some("0")
                    || resource.builtin().is_some_and(|builtin| builtin.strategy.uncached)
            });
            (at, None, limit)
        }
    };
    let page = read(cx, &selector, &prefix, start_after, limit, at).await?;
    respond::list(cx, &page.0, &page.1).await
}

fn limit(cx: &Cx) -> Result<Option<usize>, ApiError> {
    Ok(number(cx, "limit")?.and_then(|limit| usize::try_from(limit).ok()).filter(|l| *l > 0))
}

/// The timeout that a list or watch requests.
pub(crate) fn timeout_seconds(cx: &Cx) -> Result<Option<u64>, ApiError> {
    Ok(number(cx, "timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok()).filter(|s| *s > 0))
}

fn number(cx: &Cx, key: &str) -> Result<Option<i64>, ApiError> {
    let Some(text) = cx.query.text(key) else { return Ok(None) };
    let refused = |_| ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"));
    text.parse().map(Some).map_err(refused)
}

/// The revision that a first page is read at; `None` is the newest.
async fn point(cx: &Cx, limited: bool) -> Result<Option<Revision>, ApiError> {
    let invalid = |cause| Err(ApiError::invalid_option("ListOptions", cause));
    let text = cx.query.text("resourceVersion");
    let matching = cx.query.text("resourceVersionMatch");
    let unasked = matching.is_some() && text.is_none();
    if cx.query.get("sendInitialEvents").is_some() {
        let cause = Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
        let causes = unasked.then(match_without_revision).into_iter().chain([cause]).collect();
        return Err(ApiError::invalid("ListOptions", "meta.k8s.io", "", causes));
    }
    if let Some(other) = matching.filter(|m| !["Exact", "NotOlderThan"].contains(m)) {
        let supported = ["Exact", "NotOlderThan", ""];
        return invalid(Cause::unsupported("resourceVersionMatch", &json!(other), &supported));
    }
    let Some(text) = text else {
        return if unasked { invalid(match_without_revision()) } else { Ok(None) };
    };
    let wanted: u64 =
        text.parse().map_err(|_| ApiError::bad_request(format!("invalid resource version: {}", bad_revision(text))))?;
    if wanted == 0 && matching == Some("Exact") {
        let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
        return invalid(Cause::forbidden("resourceVersionMatch", why));
    }
    wait_for(&cx.state, wanted).await?;
    let exact = matching == Some("Exact") || (matching.is_none() && limited);
    Ok(Revision::new(wanted).filter(|_| exact))
}

fn match_without_revision() -> Cause {
    Cause::forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided")
}

fn continue_from(cx: &Cx, token: &str, prefix: &str) -> Result<Continue, ApiError> {
    let bad = |why: &str| ApiError::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
    if cx.query.text("resourceVersionMatch").is_some() {
        let cause =
            Cause::forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided");
        let unasked = cx.query.text("resourceVersion").is_none();
        let causes = unasked.then(match_without_revision).into_iter().chain([cause]).collect();
        return Err(ApiError::invalid("ListOptions", "meta.k8s.io", "", causes));
    }
    if cx.query.text("resourceVersion").is_some_and(|v| v != "0") {
        return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
    }
    let bytes = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).map_err(|e| bad(&e.to_string()))?;
    let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(|e| bad(&e.to_string()))?;
    let start = value["start"].as_str().ok_or_else(|| bad("no start"))?.trim_start_matches('/').trim_end_matches('\0');
    let revision = match value["rv"].as_i64() {
        Some(-1) => None,
        Some(rv) => Some(u64::try_from(rv).ok().and_then(Revision::new).ok_or_else(|| bad("no revision"))?),
        None => return Err(bad("no revision")),
    };
    Ok(Continue { revision, start_after: format!("{prefix}{start}") })
}

fn token(revision: i64, prefix: &str, last: &str) -> String {
    let start = format!("/{}\u{0}", last.strip_prefix(prefix).unwrap_or(last));
    URL_SAFE_NO_PAD.encode(json!({"v": "meta.k8s.io/v1", "rv": revision, "start": start}).to_string())
}

async fn read(
    cx: &Cx,
    selector: &Selector,
    prefix: &str,
    start_after: Option<String>,
    limit: Option<usize>,
    at: Option<Revision>,
) -> Result<(Vec<Entry>, ListMeta), ApiError> {
    let mut at = at;
    let mut start_after = start_after;
    let mut entries: Vec<Entry> = Vec::new();
    let everything = selector.is_everything();
    let mut pauses = Pauses::default();
    loop {
        let piece = limit.map(|l| if everything { l } else { PIECE });
        let query = Query { prefix, start_after: start_after.as_deref(), limit: piece, at };
        let mut range = cx.state.store.range(&query).map_err(|e| match e {
            RevisionError::Compacted { .. } => {
                let mut error = ApiError::expired("The resourceVersion for the provided list is too old.");
                if let Some(start) = &start_after {
                    error.message = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.".into();
                    error.continue_token = Some(token(-1, prefix, start).into());
                }
                error
            }
            RevisionError::FutureRevision { requested, current } => ApiError::future_revision(requested.get(), current.get()),
        })?;
        // Later pieces and pages show the state of the first.
        at = Some(range.revision);
        conversion::in_version(cx, &mut range.entries.iter_mut().map(|(_, entry)| entry).collect::<Vec<_>>()).await?;
        let remaining = range.remaining;
        let left = range.entries.len();
        for (i, (key, entry)) in range.entries.into_iter().enumerate() {
            start_after = Some(key.as_str().to_owned());
            if !everything {
                pauses.after(entry.value.len()).await;
                match conversion::read_or_skip(cx, key.as_str(), &entry) {
                    Some(value) if selector.matches(&value) => {}
                    _ => continue,
                }
            }
            entries.push(entry);
            if limit == Some(entries.len()) {
                let more = remaining + (left - i - 1) as u64;
                return Ok((entries, truncated(range.revision, prefix, key.as_str(), more, everything)));
            }
        }
        if remaining == 0 {
            return Ok((entries, ListMeta { revision: range.revision, next: None, remaining: None }));
        }
    }
}

fn truncated(revision: Revision, prefix: &str, last: &str, more: u64, counted: bool) -> ListMeta {
    if more == 0 {
        return ListMeta { revision, next: None, remaining: None };
    }
    let rv = i64::try_from(revision.get()).unwrap_or(i64::MAX);
    ListMeta { revision, next: Some(token(rv, prefix, last)), remaining: counted.then_some(more) }
}
