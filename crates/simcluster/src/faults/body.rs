//! Response body over the simulated network: delayed when it is slow, silent or cut when it is broken.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use futures::stream;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use ironclad_apiserver::ResponseBody;
use tokio::time::Instant;

use super::{FaultError, Link, Network};

/// Maximum number of frames in flight; the sender waits beyond it.
const ON_THE_WAY_MAX: usize = 1_024;

struct Passage {
    inner: ResponseBody,
    ended: bool,
    /// Frames and when they arrive.
    on_the_way: VecDeque<(Instant, Frame<Bytes>)>,
    link: Link,
    breaks: u64,
    cut: bool,
}

/// Wraps a body so that it arrives as the network allows.
pub(super) fn through(inner: ResponseBody, link: Link, breaks: u64) -> UnsyncBoxBody<Bytes, FaultError> {
    let passage = Passage { inner, ended: false, on_the_way: VecDeque::new(), link, breaks, cut: false };
    let frames = stream::unfold(passage, |mut passage| async move {
        if passage.cut {
            return None;
        }
        let next = passage.next().await?;
        passage.cut = next.is_err();
        Some((next, passage))
    });
    StreamBody::new(frames).boxed_unsync()
}

impl Passage {
    async fn next(&mut self) -> Option<Result<Frame<Bytes>, FaultError>> {
        loop {
            let clock = self.link.0.clock.clone();
            let network = self.link.network();
            // Deliver what has arrived, unless the network is broken.
            if network.is_open()
                && self.link.breaks() == self.breaks
                && self.on_the_way.front().is_some_and(|(due, _)| *due <= clock.mono())
            {
                return self.on_the_way.pop_front().map(|(_, frame)| Ok(frame));
            }
            if self.ended && self.on_the_way.is_empty() && network.is_open() && self.link.breaks() == self.breaks {
                return None;
            }
            let latency = match network {
                Network::Open { latency } => latency,
                Network::Refused | Network::Silent => Duration::ZERO,
            };
            let due = self.on_the_way.front().map(|(due, _)| *due).filter(|_| network.is_open());
            let reads = !self.ended && self.on_the_way.len() < ON_THE_WAY_MAX;
            tokio::select! {
                biased;
                lost = self.link.lost(self.breaks) => return Some(Err(lost)),
                () = async {
                    match due {
                        Some(due) => clock.sleep_until(due).await,
                        None => std::future::pending().await,
                    }
                } => {}
                frame = self.inner.frame(), if reads => match frame {
                    Some(Ok(frame)) => self.on_the_way.push_back((clock.mono() + latency, frame)),
                    Some(Err(_)) => return Some(Err(FaultError::Reset)),
                    None => self.ended = true,
                },
            }
        }
    }
}
