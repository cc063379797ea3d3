//! Answers of `ironclad why evicted` as people read them.

use jiff::Timestamp;

use super::explanation::Answer;
use crate::evictions::show;

impl Answer {
    pub(super) fn rank(&self) -> u8 {
        match self.state.as_str() {
            "Evicting" => 0,
            "Queued" => 1,
            "Delayed" | "Retrying" | "Leaves" => 2,
            "Held" => 3,
            "Parked" => 4,
            "Left" => 5,
            _ => 6,
        }
    }

    pub(super) fn text(&self, now: Timestamp) -> String {
        let verb = match self.state.as_str() {
            "Left" => "has left",
            "Stays" => "stays on",
            _ => "leaves",
        };
        let mut text = format!("{} ({}) {verb} {}\n", self.binding, self.resource, self.cluster);
        let mut line = |name: &str, value: String| text.push_str(&format!("  {name:<9}{value}\n"));
        line("because", self.because.clone());
        if let Some(frozen) = &self.frozen {
            line("judged", frozen.clone());
        }
        if !["Left", "Stays"].contains(&self.state.as_str()) {
            let place = self.place.map_or(String::new(), |place| format!(", position {place}"));
            let since = self.since.map_or(String::new(), |since| format!(", for {}", show::span(since, now)));
            let by = if self.rebuilt { " (by the objects; the leader was not asked)" } else { "" };
            line("state", format!("{}{place}{since}{by}", self.state));
            if let Some(because) = &self.waits_because {
                line("waits", because.clone());
            }
            if self.state == "Held" && self.waits_because.as_ref().is_some_and(|why| why.contains("--max-evictions")) {
                line("try", show::next_episode(&self.cluster.0));
            }
        }
        if let Some(due) = self.due {
            let in_words = if due <= now { "now".to_owned() } else { format!("in {}", show::span(now, due)) };
            line("due", format!("{due} ({in_words})"));
        }
        match self.expected {
            Some(at) => line("expected", format!("{at} (in {})", show::span(now, at))),
            None if self.due.is_some() => line("expected", "not before something changes".to_owned()),
            None => {}
        }
        if let Some(mode) = &self.purge_mode {
            line("copy", mode.clone());
        }
        if let Some(target) = &self.target {
            line("target", target.clone());
        }
        for way in &self.cancels {
            line("cancel", way.clone());
        }
        text
    }
}
