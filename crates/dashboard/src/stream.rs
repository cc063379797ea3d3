//! A view that a page follows, as server-sent events.
//!
//! Each look begins when the browser has taken what was before it, so that it gets the latest state and never a queue
//! of older ones.

use std::{io, time::Duration};

use bytes::Bytes;
use futures::stream;
use http::Response;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use ironclad_seam::Clock;
use ironclad_serving::Body;
use serde_json::{Value, json};
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

use crate::{
    answer::with_body,
    desk::{Desk, Seen},
    rows::Wanted,
    views::{Failed, Question, Version},
};

/// From one look to the next at least: at most four updates a second are due, and one is enough for people.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// A look may take this share of the time, so that a large fleet is not listed all the time.
const SHARE: u32 = 5;
/// Longest pause, whatever a look takes.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// State of a stream.
struct Following {
    desk: Desk,
    clock: Clock,
    question: Question,
    wanted: Wanted,
    /// The event that was sent last, without its time.
    last: Option<String>,
    /// Version of the last view, and the time until which it holds.
    known: Option<(Version, Instant)>,
    pause: Duration,
    /// Ends with the stream, and lets others begin.
    _slots: Vec<OwnedSemaphorePermit>,
}

/// An answer that goes on until the browser or the session ends.
pub(crate) fn follow(
    desk: Desk,
    clock: Clock,
    question: Question,
    wanted: Wanted,
    slots: Vec<OwnedSemaphorePermit>,
) -> Response<Body> {
    let start =
        Following { desk, clock, question, wanted, last: None, known: None, pause: Duration::ZERO, _slots: slots };
    let events = stream::unfold(Some(start), |state| async move {
        let mut state = state?;
        state.clock.sleep(state.pause).await;
        let begun = state.clock.mono();
        let known = state.known.filter(|(_, until)| begun < *until).map(|(version, _)| version);
        let found = state.desk.look_since(&state.question, &state.wanted, known).await;
        state.pause = pause(state.clock.mono() - begun);
        let at = state.clock.wall_seconds();
        let event = event(found.map(|seen| state.news(seen, begun)), &mut state.last, &json!(at));
        // The event says that the session has ended.
        let next = if state.desk.is_over() { None } else { Some(state) };
        Some((Ok::<_, io::Error>(Frame::data(Bytes::from(event))), next))
    });
    with_body(200, "text/event-stream", StreamBody::new(events).boxed_unsync())
}

impl Following {
    /// The view of a look that began at this time; `None` if it is the last one.
    fn news(&mut self, seen: Seen, begun: Instant) -> Option<Value> {
        if seen.view.is_some() {
            self.known = seen.version.map(|version| (version, begun + version.holds));
        }
        seen.view
    }
}

/// Time until the next look, behind one that took this long.
fn pause(took: Duration) -> Duration {
    (took * (SHARE - 1)).clamp(PAUSE_MIN, PAUSE_MAX)
}

/// The next event: the view if it differs from the last one; otherwise a heartbeat with the time.
fn event(found: Result<Option<Value>, Failed>, last: &mut Option<String>, at: &Value) -> String {
    let beat = format!("event: beat\ndata: {{\"at\":{at}}}\n\n");
    let (name, data) = match found {
        Ok(None) => return beat,
        Ok(Some(view)) => ("view", view.to_string()),
        Err(failed) => ("failed", serde_json::to_string(&failed).unwrap_or_default()),
    };
    // JSON has no line break of its own, so it is one line of the event.
    let text = format!("event: {name}\ndata: {{\"at\":{at},\"{name}\":{data}}}\n\n");
    let news = format!("{name} {data}");
    if last.as_ref() == Some(&news) {
        return beat;
    }
    *last = Some(news);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_change_is_not_sent_again() {
        let mut last = None;
        let mut next = |found, at: &str| event(found, &mut last, &json!(at));
        let failed = || Failed::new(503, "a\nb");
        for (found, at, want) in [
            (Ok(Some(json!({"a": 1}))), "1", "event: view\ndata: {\"at\":\"1\",\"view\":{\"a\":1}}\n\n"),
            (Ok(Some(json!({"a": 1}))), "2", "event: beat\ndata: {\"at\":\"2\"}\n\n"),
            (Ok(None), "2", "event: beat\ndata: {\"at\":\"2\"}\n\n"),
            (Ok(Some(json!({"a": 2}))), "3", "event: view\ndata: {\"at\":\"3\",\"view\":{\"a\":2}}\n\n"),
            (
                Err(failed()),
                "4",
                "event: failed\ndata: {\"at\":\"4\",\"failed\":{\"status\":503,\"what\":\"a\\nb\"}}\n\n",
            ),
            (Err(failed()), "5", "event: beat\ndata: {\"at\":\"5\"}\n\n"),
            (Ok(Some(json!({"a": 2}))), "6", "event: view\ndata: {\"at\":\"6\",\"view\":{\"a\":2}}\n\n"),
        ] {
            assert_eq!(next(found, at), want);
        }
    }

    #[test]
    fn looks_take_a_fifth_of_the_time() {
        for (took, want) in [(0, 1_000), (100, 1_000), (500, 2_000), (2_000, 8_000), (60_000, 30_000)] {
            assert_eq!(pause(Duration::from_millis(took)), Duration::from_millis(want), "{took}");
        }
    }
}
