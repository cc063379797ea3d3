//! A watch under faults: its events can be delayed, replaced by a 410, or cut off.

use bytes::{Bytes, BytesMut};
use futures::stream;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use ironclad_seam::Clock;
use tower::BoxError;

use super::{
    History,
    faults::{Cut, EventFault, FaultPlan},
    link::AnyBody,
};

/// Applies faults to the events of a watch.
pub(super) fn disturbed(body: AnyBody, what: &str, clock: Clock, faults: FaultPlan, history: History) -> AnyBody {
    let begun = faults.cuts();
    let watch =
        Watch { body, buffer: BytesMut::new(), what: what.to_owned(), clock, faults, history, begun, ended: false };
    let frames = stream::unfold(watch, |mut watch| async move {
        let event = watch.next().await?;
        Some((event.map(Frame::data), watch))
    });
    StreamBody::new(frames).boxed_unsync()
}

struct Watch {
    body: AnyBody,
    buffer: BytesMut,
    what: String,
    clock: Clock,
    faults: FaultPlan,
    history: History,
    begun: u64,
    ended: bool,
}

impl Watch {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        if self.ended {
            return None;
        }
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let event = self.buffer.split_to(end + 1).freeze();
                let (number, fault) = self.faults.next_event();
                match fault {
                    Some(EventFault::Expire) => return self.expire(&format!("event #{number} becomes 410")),
                    Some(EventFault::Hold(time)) => {
                        self.history.log(format!("{} event #{number} delayed by {time:?}", self.what));
                        self.clock.sleep(time).await;
                    }
                    None => {}
                }
                self.faults.frozen(&self.clock).await;
                return Some(Ok(event));
            }
            let frame = tokio::select! {
                biased;
                cut = self.faults.is_cut(self.begun) => match cut {
                    Cut::Expired => return self.expire("cut with 410"),
                    Cut::Reset => {
                        self.ended = true;
                        self.history.log(format!("{} cut", self.what));
                        return Some(Err("connection reset by the simulation".into()));
                    }
                },
                frame = self.body.frame() => frame,
            };
            match frame {
                None => {
                    self.ended = true;
                    // The rest has no end of line: an incomplete event.
                    return None;
                }
                Some(Err(error)) => {
                    self.ended = true;
                    return Some(Err(error));
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }

    fn expire(&mut self, why: &str) -> Option<Result<Bytes, BoxError>> {
        self.ended = true;
        self.history.log(format!("{} {why}", self.what));
        let status = serde_json::json!({"type": "ERROR", "object": {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410,
            "message": "too old resource version",
        }});
        Some(Ok(Bytes::from(format!("{status}\n"))))
    }
}
